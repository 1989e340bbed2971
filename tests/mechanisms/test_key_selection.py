"""Key selection has the stated distribution, and its exact delta for every kind of neighbor."""

import math
from collections.abc import Hashable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from confide.mechanisms import KeySelection, Neighbours
from support.auditor import hockey_stick
from support.entropy import SeededEntropy
from support.laws import ALPHA, chi_square_p
from support.tails import at_least, point

Law = dict[Hashable, float]
COUNT_LIMIT = 8


def one_key(mechanism: KeySelection, units: int) -> Law:
    """Return the distribution of one key's output: absent, a count, or a count beyond the limit.

    Beyond the limit the ratio of two Laplace distributions is constant, so nothing is lost.

    Beyond it the ratio of two Laplace laws is constant, so nothing is lost by not looking.
    """
    first = mechanism.threshold
    if units == 0:
        return {None: 1.0}
    seen: Law = {
        count: point(mechanism.noise, count - units) for count in range(first, first + COUNT_LIMIT)
    }
    seen["more"] = float(at_least(mechanism.noise, first + COUNT_LIMIT - units))
    seen[None] = 1 - math.fsum(seen.values())
    return seen


def several_keys(mechanism: KeySelection, units: tuple[int, ...]) -> Law:
    """Return the joint distribution of several keys."""
    each = [one_key(mechanism, count) for count in units]
    return {
        outcome: math.prod(law[part] for law, part in zip(each, outcome, strict=True))
        for outcome in product(*each)
    }


def neighbours(mechanism: KeySelection) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the counts of the differing keys, for every relevant kind of neighbor.

    An added unit has a key of its own (0 -> 1), or shares a key close to the threshold or below it;
    under replace, the same number of units leaves. The order of equal kinds does not matter.
    """
    joins = [(0, 1), (1, 2), (mechanism.threshold, mechanism.threshold + 1)]
    leaves = [(after, before) for before, after in joins]
    size = mechanism.keys_per_unit
    chosen = [moves for moves in product(joins, repeat=size) if list(moves) == sorted(moves)]
    if mechanism.neighbours is Neighbours.REPLACE:
        gone = [moves for moves in product(leaves, repeat=size) if list(moves) == sorted(moves)]
        chosen = [one + two for one in chosen for two in gone if size < 3 or one[0] == (0, 1)]
    return [
        (tuple(before for before, _ in moves), tuple(after for _, after in moves))
        for moves in chosen
    ]


@pytest.mark.parametrize(
    ("keys", "relation"),
    [(1, "add-remove"), (2, "add-remove"), (3, "add-remove"), (1, "replace"), (2, "replace")],
)
@pytest.mark.parametrize("delta", [0.1, 1e-3])
def test_delta_holds_and_is_attained(keys: int, relation: str, delta: float) -> None:
    """For all kinds of neighbors the exact divergence is within the loss, at any epsilon.

    From the stated epsilon on, it equals the stated failure.
    """
    mechanism = KeySelection(keys, 1, delta, neighbours=relation)
    laws = [tuple(several_keys(mechanism, one) for one in pair) for pair in neighbours(mechanism)]
    failure = float(mechanism.loss.failure)
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        exact = max(
            max(hockey_stick(one, two, epsilon), hockey_stick(two, one, epsilon))
            for one, two in laws
        )
        assert exact <= mechanism.loss.delta(epsilon) + 1e-12
        if epsilon >= 1:
            assert failure == pytest.approx(exact, rel=1e-6)
    assert failure <= delta


@pytest.mark.parametrize("keys", [1, 2, 3, 1000])
@pytest.mark.parametrize("noise", [{"epsilon": 1}, {"mu": 1}])
def test_the_threshold_is_the_least(keys: int, noise: dict[str, int]) -> None:
    """The threshold selects keys of one unit with probability at most delta; one less does not."""
    delta = 1e-6
    mechanism = KeySelection(keys, delta=delta, **noise)  # type: ignore[arg-type]

    def chance(threshold: int) -> float:
        alone = float(at_least(mechanism.noise, threshold - 1))
        return -math.expm1(keys * math.log1p(-alone))

    assert chance(mechanism.threshold) <= delta < chance(mechanism.threshold - 1)
    assert chance(mechanism.threshold) == pytest.approx(float(mechanism.loss.failure), rel=1e-9)


@pytest.mark.parametrize("keys", [2, 3])
def test_the_threshold_of_one_key_is_too_low_for_more(keys: int) -> None:
    """With the threshold for one key at the same noise, several keys exceed delta."""
    mechanism = KeySelection(keys, 1, 0.01)
    lone = KeySelection(1, Fraction(1, keys), 0.01)

    assert lone.noise == mechanism.noise
    assert lone.threshold < mechanism.threshold
    assert 1 - (1 - float(lone.loss.failure)) ** keys > 0.01


def test_gaussian_delta_holds() -> None:
    """With Gaussian noise and one key, no neighbor exceeds the curve of the loss."""
    mechanism = KeySelection(1, delta=0.01, mu=1)
    for before in (0, 1, 2, 3, 4, 5):
        one, two = one_key(mechanism, before), one_key(mechanism, before + 1)
        for epsilon in (0.0, 0.5, 1.0, 2.0):
            exact = max(hockey_stick(one, two, epsilon), hockey_stick(two, one, epsilon))
            assert exact <= mechanism.loss.delta(epsilon) + 1e-12


def test_noise_covers_what_a_unit_moves() -> None:
    """Laplace noise has scale L / epsilon, doubled under replace; Gaussian, variance L / mu^2."""
    assert 3 == KeySelection(3, 1, 0.1).noise.exact_scale  # type: ignore[union-attr]
    assert 6 == KeySelection(3, 1, 0.1, neighbours="replace").noise.exact_scale  # type: ignore[union-attr]
    assert 3 == KeySelection(3, delta=0.1, mu=1).noise.sigma_squared  # type: ignore[union-attr]


@pytest.mark.statistical
@pytest.mark.parametrize("units", [1, 4, 9])
def test_releases_follow_the_law(units: int, entropy: SeededEntropy) -> None:
    """Selected counts fit count plus noise, truncated at the threshold; 10% off is rejected."""
    mechanism, off = KeySelection(1, 1, 0.05), KeySelection(1, 1.1, 0.05)
    named, noisy = mechanism.release(np.full(200_000, units), entropy=entropy)
    assert mechanism.threshold == off.threshold == 4

    def law(kind: KeySelection) -> dict[int, float]:
        seen = {c: point(kind.noise, c - units) for c in range(4, units + 40)}
        return {**seen, 0: 1 - math.fsum(seen.values())}

    assert (named == (noisy > 0)).all()
    assert noisy[named].min() == 4
    assert chi_square_p(noisy, law(mechanism)) > ALPHA
    assert chi_square_p(noisy, law(off)) < ALPHA


def test_keys_come_in_their_own_order(entropy: SeededEntropy) -> None:
    """Selected keys are sorted, so the order of the data is not revealed; rare keys are absent."""
    mechanism = KeySelection(1, 1, 1e-9)
    forth = mechanism.release_keys({"b": 900, "a": 500, "lone": 1}, entropy=entropy)

    assert ["a", "b"] == list(forth)
    assert all(type(count) is int for count in forth.values())


def test_data_without_keys_are_answered() -> None:
    """Data without keys give an empty answer, as do data whose keys have one unit each."""
    mechanism = KeySelection(1, 1, 1e-9)
    named, noisy = mechanism.release([])

    assert {} == mechanism.release_keys({})
    assert (0, 0) == (named.size, noisy.size)
