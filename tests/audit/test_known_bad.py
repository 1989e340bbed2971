"""Deliberately broken mechanisms: the auditor must convict each of them.

Each is a mistake that someone has made in print or in code. `ZOO` notes how many samples of each
neighbour sufficed; a run may need twice or half as many. test_claims.py attacks the honest ones.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from support.auditor import convict
from support.entropy import SeededEntropy

Outputs = NDArray[Any]
Sample = Callable[["Dice", int], tuple[Outputs, Outputs]]


class Dice:
    """Naive doubles of the usual laws, as libraries draw them, from the test's entropy."""

    def __init__(self, entropy: SeededEntropy) -> None:
        self._entropy = entropy

    def uniform(self, *shape: int) -> Outputs:
        words = self._entropy.words(math.prod(shape)).reshape(shape)
        return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53

    def exponential(self, scale: float, *shape: int) -> Outputs:
        return np.asarray(-scale * np.log(self.uniform(*shape)))

    def laplace(self, scale: float, *shape: int) -> Outputs:
        centred = self.uniform(*shape) - 0.5
        return np.asarray(-scale * np.sign(centred) * np.log1p(-2 * np.abs(centred)))

    def geometric(self, scale: float, *shape: int) -> Outputs:
        first, second = self.exponential(scale, *shape), self.exponential(scale, *shape)
        return np.asarray(np.floor(first) - np.floor(second))

    def gumbel(self, *shape: int) -> Outputs:
        return np.asarray(-np.log(-np.log(self.uniform(*shape))))


def coarse(values: Outputs, step: float = 0.5) -> Outputs:
    """Sort real outputs into cells, so that they can be counted."""
    return np.floor(values / step)


def lowest_bit(values: Outputs) -> Outputs:
    """Return the place of the last binary digit of each double, next to where the double lies."""
    fraction, exponent = np.frexp(values)
    whole = (np.abs(fraction) * 2.0**53).astype(np.int64)
    place = exponent + np.log2(whole & -whole).astype(np.int64)
    return np.stack([np.floor(values * 4), np.maximum(place, -70)], axis=1)


def both(outputs: Iterable[Outputs]) -> tuple[Outputs, Outputs]:
    first, second = outputs
    return first, second


# Each sampler returns outputs on two neighbours; the claim beside it in ZOO is what is wrong.


def half_scale(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    return coarse(dice.laplace(0.5, size)), coarse(1 + dice.laplace(0.5, size))


def ten_percent_under(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    return coarse(dice.laplace(0.9, size)), coarse(1 + dice.laplace(0.9, size))


def doubled_geometric(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    return dice.geometric(0.5, size), 1 + dice.geometric(0.5, size)


def float_laplace(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """The scale is right; the last digits of doubles tell which number was hidden."""
    return lowest_bit(dice.laplace(1, size)), lowest_bit(1 + dice.laplace(1, size))


def wrong_adjacency(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """A histogram with Lap(1 / epsilon) although one unit is replaced."""
    first, second = dice.geometric(1, size, 2), dice.geometric(1, size, 2)
    return first + np.array([1, 0]), second + np.array([0, 1])


def one_sided(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    return coarse(dice.exponential(1, size)), coarse(1 + dice.exponential(1, size))


def no_factor_two(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """The exponential mechanism with exp(epsilon q / s) on scores that move both ways."""
    before, after = np.zeros(10), np.array([-1.0] + [1.0] * 9)
    first, second = dice.gumbel(size, 10), dice.gumbel(size, 10)
    return (before + first).argmax(axis=1) == 0, (after + second).argmax(axis=1) == 0


def maximum_with_value(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """Report-noisy-max that also gives the winning noisy score."""
    return both(coarse((x + dice.laplace(1, size, 10)).max(axis=1)) for x in (0, 1))


def reused_noise(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """Two counts share one draw, so their difference is exact."""
    noise = dice.geometric(2, size, 1), dice.geometric(2, size, 1)
    return noise[0] + [5, 5], noise[1] + [5, 6]


def keys_without_threshold(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """Every key in the data is shown with a noisy count; the neighbour lacks one key."""
    return np.full(size, np.nan), 1 + dice.geometric(1, size)


def threshold_of_one_key(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """One unit has three keys, noise to match, and the threshold that one key would need."""
    scale, delta = 3.0, 0.01
    threshold = 1 + math.ceil(scale * math.log(1 / (delta * (1 + math.exp(-1 / scale)))))
    named = (1 + dice.geometric(scale, size, 3) >= threshold).any(axis=1)
    return np.zeros(size, dtype=bool), np.asarray(named)


# Sparse vector. A session's answers are 0, 1 or 9 (no question left), one column a question.


def run_session(
    values: Outputs, threshold: Outputs, noise: Outputs, most: int | None
) -> NDArray[np.int64]:
    """Answer each row of questions, stopping after ``most`` answers "above"."""
    above = (values + noise >= threshold).astype(np.int64)
    if most is not None:
        done = np.cumsum(above, axis=1) - above >= most
        above[done] = 9
    return above


def balance(answers: NDArray[np.int64]) -> Outputs:
    """Return how many more "above" the second half of the questions got than the first."""
    half = answers.shape[1] // 2
    return np.asarray((answers[:, half:] == 1).sum(axis=1) - (answers[:, :half] == 1).sum(axis=1))


def crossed(size: int, questions: int) -> tuple[Outputs, Outputs]:
    """Return values 0..0 1..1 and 1..1 0..0: each moves by one, some up and some down."""
    row = np.repeat([0, 1], questions // 2)
    return np.tile(row, (size, 1)), np.tile(1 - row, (size, 1))


def no_threshold_noise(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """Answers "below" are not free without a noisy threshold."""
    return both(
        run_session(
            np.full((size, 40), x), np.full((size, 1), 4), dice.laplace(2, size, 40), 1
        ).max(axis=1)
        for x in (0, 1)
    )


def no_query_noise(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """[LSL17] Algorithm 5 (Stoddard et al. 2014): the noisy threshold alone, and no stop."""
    return both(
        run_session(values, dice.laplace(2, size, 1), np.zeros((size, 2)), None) @ [1, 10]
        for values in crossed(size, 2)
    )


def answers_reuse_noise(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """[LSL17] Algorithm 3 (Roth's lecture notes 2011): gives the very number it compared.

    After five "below", a given number bounds the noisy threshold from above.
    """
    row = np.array([0] * 5 + [2])
    outputs = []
    for x in (0, 1):
        noise = dice.laplace(2, size, 6)
        answers = run_session(np.tile(row + x, (size, 1)), dice.laplace(2, size, 1), noise, 1)
        given = coarse(2 + x + noise[:, 5], 1)
        outputs.append(np.where(answers[:, 5] == 1, given, -99))
    return outputs[0], outputs[1]


def no_stop(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """[LSL17] Algorithm 6 (Chen et al. 2015): any number of "above" at the price of one."""
    return both(
        balance(run_session(v, dice.laplace(2, size, 1), dice.laplace(2, size, 40), None))
        for v in crossed(size, 40)
    )


def noise_not_scaled(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """[LSL17] Algorithm 4 (Lee and Clifton 2014): ten "above" with the noise of one."""
    return both(
        balance(run_session(v, dice.laplace(4, size, 1), dice.laplace(4 / 3, size, 20), 10))
        for v in crossed(size, 20)
    )


def noise_of_one_direction(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """The noise of monotone values, B s / e2, on values that move both ways (e1 = 0.1)."""
    return both(
        run_session(
            np.tile(row, (size, 1)), dice.laplace(10, size, 1), dice.laplace(1 / 0.9, size, 4), 1
        )[:, 3]
        for row in ([0, 0, 0, 1], [1, 1, 1, 0])
    )


ZOO: Final[list[tuple[Sample, float, int]]] = [
    (half_scale, 0, 2_048),
    (ten_percent_under, 0, 131_072),
    (doubled_geometric, 0, 1_024),
    (float_laplace, 0, 1_024),
    (wrong_adjacency, 0, 2_048),
    (one_sided, 0, 512),
    (no_factor_two, 0, 16_384),
    (maximum_with_value, 0, 4_096),
    (reused_noise, 0, 512),
    (keys_without_threshold, 0.01, 512),
    (threshold_of_one_key, 0.01, 32_768),
    (no_threshold_noise, 0, 32_768),
    (no_query_noise, 0, 2_048),
    (answers_reuse_noise, 0, 262_144),
    (no_stop, 0, 1_024),
    (noise_not_scaled, 0, 4_096),
    (noise_of_one_direction, 0, 131_072),
]
"""Each broken mechanism, the delta claimed along with epsilon = 1, and the samples it took."""


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("sample", "delta", "taken"), ZOO, ids=[sample.__name__ for sample, _, _ in ZOO]
)
def test_a_broken_mechanism_is_convicted(
    sample: Sample, delta: float, taken: int, entropy: SeededEntropy
) -> None:
    """Samples prove the claim wrong, in numbers within a factor of four of those noted.

    Were the claim right, it would be convicted with probability at most 1e-9.
    """
    dice = Dice(entropy)
    needed = convict(lambda size: sample(dice, size), epsilon=1, delta=delta)

    assert taken / 4 <= needed <= taken * 4
