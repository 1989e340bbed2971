"""An auditor attacks every mechanism through its public interface and must find no violation.

Each attack uses neighboring inputs at the largest distance, and outputs as an analyst sees them.
The auditor convicts a correct mechanism with probability at most 1e-9 per attack. Lower limits on
what it proves show that it has power. test_known_bad.py does the same for broken mechanisms.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from confide.errors import BudgetExceeded
from confide.mechanisms import (
    Box,
    Exponential,
    Gaussian,
    KeySelection,
    KNorm,
    Laplace,
    PermuteAndFlip,
    Polytope,
    RandomizedResponse,
    SparseVector,
)
from support.auditor import audit
from support.entropy import SeededEntropy

Outputs = NDArray[Any]
MANY, SOME, FEW = 2**17, 2**14, 4_000


def attack(
    run: Callable[[Any], Outputs], one: object, other: object, *, delta: float = 0.0
) -> float:
    """Return the epsilon that the auditor can prove."""
    return audit(np.asarray(run(one)), np.asarray(run(other)), delta=delta)


@pytest.mark.statistical
@pytest.mark.parametrize(("sensitivity", "epsilon"), [(1, 1.0), (5, 1.0), (1, 0.2), (1, 3.0)])
def test_laplace_keeps_its_claim(sensitivity: int, epsilon: float, entropy: SeededEntropy) -> None:
    """Counts with Laplace noise lose at most epsilon, and the auditor proves most of it."""
    mechanism = Laplace(sensitivity, epsilon)
    found = attack(lambda x: mechanism.release(np.full(MANY, x), entropy=entropy), 0, sensitivity)

    assert 0.85 * epsilon - 0.05 < found <= epsilon


@pytest.mark.statistical
def test_laplace_on_a_grid_keeps_its_claim(entropy: SeededEntropy) -> None:
    """Real numbers on both sides of a rounding tie lose at most epsilon, including last digits."""
    mechanism = Laplace(0.1, 1, grid=0.1, cells=1)

    def run(x: float) -> Outputs:
        return np.asarray(mechanism.release(np.full(SOME, x), entropy=entropy))

    for one, other in [(0.15, 0.25), (0.0, 0.1), (0.35, 0.45)]:
        assert 0.7 < attack(run, one, other) <= 1


@pytest.mark.statistical
@pytest.mark.parametrize(("sensitivity", "other"), [(1, (0, 0)), (2, (0, 1))])
def test_a_histogram_keeps_its_claim(
    sensitivity: int, other: tuple[int, int], entropy: SeededEntropy
) -> None:
    """Two cells of a histogram lose at most epsilon if a unit is removed or replaced."""
    mechanism = Laplace(sensitivity, 1)
    found = attack(
        lambda x: mechanism.release(np.tile(x, (MANY, 1)), entropy=entropy), (1, 0), other
    )

    assert 0.5 < found <= 1


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_gaussian_keeps_its_claim(epsilon: float, entropy: SeededEntropy) -> None:
    """At its delta the Gaussian mechanism loses at most epsilon; at delta / 10 it loses more."""
    mechanism = Gaussian(4, epsilon, 0.02)

    def run(x: int) -> Outputs:
        return np.asarray(mechanism.release(np.full(2 * MANY, x), entropy=entropy))

    assert 0.7 * epsilon < attack(run, 0, 4, delta=0.02) <= epsilon
    assert attack(run, 0, 4, delta=0.002) > epsilon


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("body", "move"),
    [(Box([1, 3]), (1, 3)), (Box([1, 3]), (1, -3)), (Polytope([[2, 1], [1, 2], [1, -1]]), (1, -1))],
    ids=["box", "box across", "polytope"],
)
def test_knorm_keeps_its_claim(
    body: Box | Polytope, move: tuple[int, int], entropy: SeededEntropy
) -> None:
    """A move to a corner of the body loses at most epsilon, and the auditor proves over half.

    The attacker sorts outputs by the difference of their distances to the two inputs.
    """
    mechanism = KNorm(body, 1)

    def run(x: tuple[int, int]) -> Outputs:
        noisy = mechanism.release(np.tile(x, (MANY, 1)), entropy=entropy)
        return np.asarray(np.rint(8 * (norm(body, noisy) - norm(body, noisy - move))))

    assert 0.5 < attack(run, (0, 0), move) <= 1


def norm(body: Box | Polytope, values: Outputs) -> Outputs:
    """Return the factor by which the body must be scaled to reach each value."""
    if isinstance(body, Box):
        return np.asarray(np.abs(values / np.array(body.half_widths, dtype=float)).max(axis=1))
    facets = [np.array(facet, dtype=float) for facet in body.surface.facets]
    normals = np.array([np.linalg.solve(facet, np.ones(body.size)) for facet in facets])
    return np.asarray((values @ normals.T).max(axis=1))


@pytest.mark.statistical
@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
@pytest.mark.parametrize(
    ("monotone", "one", "other"),
    [(False, [0, 0, 0], [-1, 1, 1]), (False, [1, 0], [0, 1]), (True, [0, 0, 0], [0, 1, 1])],
)
def test_selection_keeps_its_claim(
    kind: type, monotone: bool, one: list[int], other: list[int], entropy: SeededEntropy
) -> None:
    """Scores with the largest change lose at most epsilon, and the auditor proves over a third."""
    mechanism = kind(1, 3, monotone=monotone)
    found = attack(
        lambda s: np.array([mechanism.choose(s, entropy=entropy) for _ in range(FEW)]), one, other
    )

    assert 1 < found <= 3


@pytest.mark.statistical
def test_a_median_keeps_its_claim(entropy: SeededEntropy) -> None:
    """The median by the exponential mechanism over an interval loses at most epsilon."""
    mechanism = Exponential(1, 3)

    def run(data: list[int]) -> Outputs:
        breaks = [0, *sorted(data), 4]
        scores = [-abs(2 * rank - len(data)) // 2 for rank in range(len(data) + 1)]
        return np.array(
            [mechanism.choose_interval(breaks, scores, entropy=entropy) for _ in range(FEW)]
        )

    assert 0.05 < attack(run, [1, 1, 3, 3], [1, 1, 1, 3]) <= 3


@pytest.mark.statistical
@pytest.mark.parametrize("categories", [2, 5])
def test_randomised_response_keeps_its_claim(categories: int, entropy: SeededEntropy) -> None:
    """Reports of two true values lose at most epsilon, and the auditor proves 85% of it."""
    mechanism = RandomizedResponse(1, categories)
    found = attack(lambda x: np.asarray(mechanism.release(np.full(MANY, x), entropy=entropy)), 0, 1)

    assert 0.85 < found <= 1


def run_sessions(values: list[int], entropy: SeededEntropy, **options: Any) -> Outputs:
    """Return the answers of many sessions, one session per row; 9 after the end of a session."""
    rows = np.full((FEW, len(values)), 9)
    for row in rows:
        session = SparseVector(0, entropy=entropy, **options)
        with suppress(BudgetExceeded):
            for index, value in enumerate(values):
                row[index] = session.ask(value)
    return rows


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("above", "monotone", "one", "other"),
    [
        (1, False, [0, 0, 0, 1], [1, 1, 1, 0]),
        (2, False, [0, 0, 1, 1], [1, 1, 0, 0]),
        (1, True, [0, 0, 0, 0], [1, 1, 1, 0]),
        (1, True, [0, 0, 0, 0], [-1, -1, -1, 0]),
    ],
)
def test_sparse_vector_keeps_its_claim(
    above: int, monotone: bool, one: list[int], other: list[int], entropy: SeededEntropy
) -> None:
    """Sessions on crossed values lose at most epsilon, and the auditor proves some of it."""
    found = attack(
        lambda v: run_sessions(v, entropy, epsilon=4, above=above, monotone=monotone), one, other
    )

    assert 0.1 < found <= 4


@pytest.mark.statistical
def test_sparse_vector_with_values_keeps_its_claim(entropy: SeededEntropy) -> None:
    """Answers with values lose at most epsilon, even if a value is low after "below"."""

    def run(values: list[int]) -> Outputs:
        given = np.full((FEW, len(values)), -99)
        for row in given:
            session = SparseVector(0, epsilon=6, answers=0.5, entropy=entropy)
            with suppress(BudgetExceeded):
                for index, value in enumerate(values):
                    answer = session.ask_value(value)
                    row[index] = -99 if answer is None else answer
        return given

    assert 0.1 < attack(run, [0, 0, 0], [1, 1, 1]) <= 6


@pytest.mark.statistical
@pytest.mark.parametrize("keys", [1, 3])
def test_key_selection_keeps_its_claim(keys: int, entropy: SeededEntropy) -> None:
    """A unit with keys of its own is revealed with probability at most delta, and nearly that."""
    mechanism = KeySelection(keys, 1, 0.02)
    failure = float(mechanism.loss.failure)

    def run(units: int) -> Outputs:
        if units == 0:
            return np.zeros((MANY, keys), dtype=np.int64)
        return mechanism.release(np.full((MANY, keys), units), entropy=entropy)[1].reshape(-1, keys)

    assert attack(run, 0, 1, delta=failure) <= 1
    assert attack(run, 0, 1, delta=failure / 2) > 1


@pytest.mark.statistical
def test_shared_keys_keep_their_claim(entropy: SeededEntropy) -> None:
    """A unit that joins a key near the threshold loses at most epsilon at the failure."""
    mechanism = KeySelection(1, 1, 0.02)

    def run(units: int) -> Outputs:
        return mechanism.release(np.full(MANY, units), entropy=entropy)[1]

    near = mechanism.threshold
    found = attack(run, near, near + 1, delta=float(mechanism.loss.failure))
    assert 0.5 < found <= 1
