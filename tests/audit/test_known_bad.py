"""Deliberately broken mechanisms: the auditor must convict each of them, at 99.9%.

Each is a published mistake, in print or in code. Outputs are those that an analyst would see,
including complete sessions, and the auditor must find a revealing event. `ZOO` records the number
of samples per side that sufficed; a run may need twice or half as many. test_claims.py attacks the
correct mechanisms.
"""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from confide.audit import Claim, convict
from support.entropy import SeededEntropy

Outputs = NDArray[Any]
Sample = Callable[["Dice", int], tuple[Outputs, Outputs]]
BLANK: Final = -999
PROJECT: Final = Path(__file__).parents[2]


class Dice:
    """Naive floating-point samplers of common distributions, seeded from the test's entropy."""

    def __init__(self, entropy: SeededEntropy) -> None:
        self._entropy = entropy

    def uniform(self, *shape: int) -> Outputs:
        words = self._entropy.words(math.prod(shape)).reshape(shape)
        return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53

    def exponential(self, scale: float, *shape: int) -> Outputs:
        return np.asarray(-scale * np.log(self.uniform(*shape)))

    def laplace(self, scale: float, *shape: int) -> Outputs:
        centered = self.uniform(*shape) - 0.5
        return np.asarray(-scale * np.sign(centered) * np.log1p(-2 * np.abs(centered)))

    def geometric(self, scale: float, *shape: int) -> Outputs:
        first, second = self.exponential(scale, *shape), self.exponential(scale, *shape)
        return np.asarray(np.floor(first) - np.floor(second))

    def normal(self, sigma: float, *shape: int) -> Outputs:
        return np.asarray(sigma * special.ndtri(self.uniform(*shape)))

    def gumbel(self, *shape: int) -> Outputs:
        return np.asarray(-np.log(-np.log(self.uniform(*shape))))


def coarse(values: Outputs, step: float = 0.5) -> Outputs:
    """Return the cell of each real output, so that outputs can be counted."""
    return np.floor(values / step)


def both(outputs: Iterable[Outputs]) -> tuple[Outputs, Outputs]:
    first, second = outputs
    return first, second


# Each sampler returns outputs on two neighboring datasets. Its claim in ZOO is false.


def half_scale(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    return coarse(dice.laplace(0.5, size)), coarse(1 + dice.laplace(0.5, size))


def ten_percent_under(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    return coarse(dice.laplace(0.9, size)), coarse(1 + dice.laplace(0.9, size))


def doubled_geometric(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    return dice.geometric(0.5, size), 1 + dice.geometric(0.5, size)


def float_laplace(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """The scale is correct, but the last digits of doubles reveal the hidden number."""
    return dice.laplace(1, size), 1 + dice.laplace(1, size)


def wrong_adjacency(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """A histogram with Lap(1 / epsilon), although one unit is replaced."""
    first, second = dice.geometric(1, size, 2), dice.geometric(1, size, 2)
    return first + np.array([1, 0]), second + np.array([0, 1])


def one_sided(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    return coarse(dice.exponential(1, size)), coarse(1 + dice.exponential(1, size))


def no_factor_two(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """The exponential mechanism with exp(epsilon q / s) for scores that change both ways."""
    before, after = np.zeros(10), np.array([-1.0] + [1.0] * 9)
    return both((x + dice.gumbel(size, 10)).argmax(axis=1) for x in (before, after))


def maximum_with_value(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """Report-noisy-max that also releases the winning noisy score."""
    outputs = []
    for x in (0, 1):
        noisy = x + dice.laplace(1, size, 10)
        outputs.append(np.column_stack([noisy.argmax(axis=1), coarse(noisy.max(axis=1))]))
    return outputs[0], outputs[1]


def reused_noise(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """Two counts share one draw, so their difference is exact."""
    noise = dice.geometric(2, size, 1), dice.geometric(2, size, 1)
    return noise[0] + [5, 5], noise[1] + [5, 6]


def keys_without_threshold(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """Every key in the data is shown with a noisy count; the neighboring dataset lacks one key."""
    return np.full(size, np.nan), 1 + dice.geometric(1, size)


def threshold_of_one_key(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """One unit has three keys; the noise suits three keys, but the threshold only one."""
    scale, delta = 3.0, 0.01
    threshold = 1 + math.ceil(scale * math.log(1 / (delta * (1 + math.exp(-1 / scale)))))
    counts = 1 + dice.geometric(scale, size, 3)
    return np.full((size, 3), np.nan), np.where(counts >= threshold, counts, np.nan)


def classical_gaussian(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """The textbook standard deviation, sqrt(2 ln(1.25 / delta)) / epsilon, at an epsilon of 8."""
    sigma = math.sqrt(2 * math.log(1.25 / 0.05)) / 8
    return dice.normal(sigma, size), 1 + dice.normal(sigma, size)


def mean_with_exact_count(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """A noisy sum divided by the exact count: tenths or elevenths reveal the count."""
    return (5 + dice.geometric(1, size)) / 10, (5 + dice.geometric(1, size)) / 11


def sum_without_clipping(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """Noise for values of at most 1, but one value of 4 in the data."""
    return dice.geometric(1, size), 4 + dice.geometric(1, size)


def error_on_one_row(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """A division that fails if the row is present; the failure is an output too."""
    return dice.geometric(1, size), np.full(size, np.inf)


def nan_through_the_clip(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """min(max(x, 0), 1) propagates NaN, and so do sums and noise."""
    clipped = np.clip(np.array([0.5, np.nan]), 0, 1).sum()
    return 0.5 + dice.geometric(1, size), clipped + dice.geometric(1, size)


def prefix_subsample(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """A count of the first ten rows, priced like a random sample of 10% of a hundred rows.

    With a random sample, noise for ln(1 + 10 (e - 1)) would be amplified to epsilon = 1. Here the
    target is always the first row.
    """
    scale = 1 / math.log(1 + 10 * (math.e - 1))
    return dice.geometric(scale, size), 1 + dice.geometric(scale, size)


def tree_of_one_level(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """Counts of 8 cells and of their groups of 2 and 4, with the noise of a single level."""
    one = np.array([1] + [0] * 7 + [1] + [0] * 3 + [1] + [0])
    return dice.geometric(1, size, 14), one + dice.geometric(1, size, 14)


def redefined_column(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """A sum of x * 3 with the noise for x: the redefined column kept its old bounds."""
    return 3 * 5 + dice.geometric(1, size), 3 * 6 + dice.geometric(1, size)


def refunding_filter(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """A budget for two answers at epsilon 1/2, which refunds every answer below zero.

    So up to eight answers are released, and more of them if the count is 0.
    """
    outputs = []
    for x in (0, 1):
        answers = x + dice.geometric(2, size, 8)
        kept = np.cumsum(answers >= 0, axis=1) - (answers >= 0) < 2
        outputs.append(np.where(kept, answers, 99))
    return outputs[0], outputs[1]


def holdout_without_noise(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """A noisy comparison with the training mean, followed by the exact holdout mean."""
    outputs = []
    for mean in (0.50, 0.51):
        is_far = abs(mean - 0.4) + dice.laplace(0.02, size) > 0.05 + dice.laplace(0.01, size)
        outputs.append(np.where(is_far, mean, 0.4))
    return outputs[0], outputs[1]


# Sparse vector. A session's answers are 0, 1, or 9 (the session is over), one column per query.


def run_session(
    values: Outputs, threshold: Outputs, noise: Outputs, limit: int | None
) -> NDArray[np.int64]:
    """Return the answers to each row of queries, stopping after ``limit`` answers "above"."""
    above = (values + noise >= threshold).astype(np.int64)
    if limit is not None:
        done = np.cumsum(above, axis=1) - above >= limit
        above[done] = 9
    return above


def crossed(size: int, queries: int) -> tuple[Outputs, Outputs]:
    """Return values 0..0 1..1 and 1..1 0..0: each changes by one, some up and some down."""
    row = np.repeat([0, 1], queries // 2)
    return np.tile(row, (size, 1)), np.tile(1 - row, (size, 1))


def no_threshold_noise(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """Free answers "below", but without a noisy threshold."""
    return both(
        run_session(np.full((size, 40), x), np.full((size, 1), 4), dice.laplace(2, size, 40), 1)
        for x in (0, 1)
    )


def no_query_noise(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """[LSL17] Algorithm 5 (Stoddard et al. 2014): only the threshold is noisy, without a stop."""
    return both(
        run_session(values, dice.laplace(2, size, 1), np.zeros((size, 2)), None)
        for values in crossed(size, 2)
    )


def answers_reuse_noise(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """[LSL17] Algorithm 3 (Roth's lecture notes 2011): releases the same number that it compared.

    After five answers "below", a released number bounds the noisy threshold from above.
    """
    row = np.array([0] * 5 + [2])
    outputs = []
    for x in (0, 1):
        noise = dice.laplace(2, size, 6)
        answers = run_session(np.tile(row + x, (size, 1)), dice.laplace(2, size, 1), noise, 1)
        released = coarse(row + x + noise, 1)
        outputs.append(np.where(answers == 1, released, np.where(answers == 9, BLANK, -99)))
    return outputs[0], outputs[1]


def no_stop(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """[LSL17] Algorithm 6 (Chen et al. 2015): any number of answers "above" for the cost of one."""
    return both(
        run_session(v, dice.laplace(2, size, 1), dice.laplace(2, size, 40), None)
        for v in crossed(size, 40)
    )


def noise_not_scaled(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """[LSL17] Algorithm 4 (Lee and Clifton 2014): ten answers "above" with the noise for one."""
    return both(
        run_session(v, dice.laplace(4, size, 1), dice.laplace(4 / 3, size, 20), 10)
        for v in crossed(size, 20)
    )


def noise_of_one_direction(dice: Dice, size: int) -> tuple[Outputs, Outputs]:
    """The noise for monotone values, B s / e2, on values that change both ways (e1 = 0.1)."""
    return both(
        run_session(
            np.tile(row, (size, 1)), dice.laplace(10, size, 1), dice.laplace(1 / 0.9, size, 4), 1
        )
        for row in ([0, 0, 0, 1], [1, 1, 1, 0])
    )


ONE: Final = Claim.epsilon(1)
ZOO: Final[dict[Sample, tuple[Claim, int]]] = {
    half_scale: (ONE, 1_024),
    ten_percent_under: (ONE, 65_536),
    doubled_geometric: (ONE, 512),
    float_laplace: (ONE, 512),
    wrong_adjacency: (ONE, 1_024),
    classical_gaussian: (Claim.epsilon(8, 0.05), 131_072),
    one_sided: (ONE, 512),
    no_factor_two: (ONE, 4_096),
    maximum_with_value: (ONE, 1_024),
    reused_noise: (ONE, 512),
    keys_without_threshold: (Claim.epsilon(1, 0.01), 512),
    threshold_of_one_key: (Claim.epsilon(1, 0.01), 16_384),
    mean_with_exact_count: (ONE, 512),
    sum_without_clipping: (ONE, 512),
    error_on_one_row: (ONE, 512),
    nan_through_the_clip: (ONE, 512),
    prefix_subsample: (ONE, 512),
    tree_of_one_level: (ONE, 512),
    redefined_column: (ONE, 512),
    refunding_filter: (ONE, 16_384),
    holdout_without_noise: (ONE, 512),
    no_threshold_noise: (ONE, 16_384),
    no_query_noise: (ONE, 512),
    answers_reuse_noise: (ONE, 65_536),
    no_stop: (ONE, 2_048),
    noise_not_scaled: (ONE, 8_192),
    noise_of_one_direction: (ONE, 32_768),
}
"""Each broken mechanism with its claim and the number of samples per side that disproved it."""


@pytest.mark.statistical
@pytest.mark.parametrize("sample", ZOO, ids=lambda sample: sample.__name__)
def test_a_broken_mechanism_is_convicted(sample: Sample, entropy: SeededEntropy) -> None:
    """Samples disprove the claim, and their number is within a factor of eight of the recorded one.

    A true claim would be convicted with probability at most 1/1000.
    """
    claim, taken = ZOO[sample]
    dice = Dice(entropy)
    needed = convict(lambda size: sample(dice, size), claim)

    assert needed is not None
    assert taken / 8 <= needed <= taken * 8


def test_the_docs_list_the_numbers_of_samples() -> None:
    """docs/audit.md lists every broken mechanism in this order, with its recorded number."""
    page = (PROJECT / "docs" / "audit.md").read_text(encoding="utf-8")
    table = page.split("| broken mechanism | samples |\n|---|---:|\n")[1].split("\n\n")[0]
    listed = [int(line.split("|")[2].replace(",", "")) for line in table.splitlines()]

    assert [taken for _, taken in ZOO.values()] == listed
    assert f"keeps {len(ZOO)} broken mechanisms" in page
