"""Intervals of sample and aggregate cover the mean or the median of the blocks' results.

The results of blocks are simulated; release and estimation are real.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, special, stats

from confide.declare import Budget, Float
from confide.engines.protocol import SealedBlocks
from confide.errors import UnsupportedQuery
from confide.loss import GaussianLoss, Loss, PureLoss, RenyiLoss, Share
from confide.mechanisms import Neighbours
from confide.plan.calibration import loss_for_noise
from confide.statistics.block_pooling import (
    METHODS,
    MIN_STRENGTH,
    QUARTILE_FRACTIONS,
    SKEW_LIMIT,
    SKEW_SPREAD_FACTOR,
    SKEW_TAIL_FACTOR,
    WINDOW_FACTOR,
    Pooling,
)
from confide.statistics.sample_and_aggregate import BlockRelease, Sampling, choose_blocks
from support.auditor import audit
from support.entropy import SeededEntropy
from support.laws import ALPHA
from support.samples import ask, curator_of, granted

Floats = NDArray[np.float64]
ROWS: Final = 6_366
BLOCKS: Final = 318
EPSILONS: Final = (0.1, 0.25, 0.5, 1.0, 2.0)
MIN_RATE: Final = 0.93
CHECKS: Final = len(EPSILONS) + 1
"""One per epsilon, and one for all; each fails with probability at most ALPHA / CHECKS."""


def draw_skewed(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Return rows like those in the report: two thirds are 0, and the rest have a long tail."""
    rows = np.where(rng.random(shape) < 0.68, 0.0, rng.lognormal(0.16, 1.12, shape))
    return np.minimum(rows, 57.6)


def draw_normal(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return np.clip(rng.normal(30.0, 8.0, shape), 0.0, 60.0)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A method, the declared upper bound of the column, its rows, and their mean."""

    method: str
    high: int
    runs: int
    draw: Callable[[np.random.Generator, tuple[int, int]], Floats]
    truth: float

    def release(self, epsilon: float) -> tuple[BlockRelease, tuple[Share, Share]]:
        """Return the release of a mean on blocks, and its shares."""
        curator = curator_of({"x": [1.0]}, {"x": Float(0, self.high)}, Budget(10**6))
        context = ask(curator, epsilon)
        sampling = Sampling.of(
            context,
            "average",
            np.mean,
            "people",
            columns=["x"],
            bounds="column",
            blocks=BLOCKS,
            method=self.method,
        )
        release = BlockRelease(context, sampling, np.mean)
        return release, release.prepare(granted(context))


def mean_of_skewed() -> float:
    """Return the mean of the skewed rows: a lognormal distribution clipped at 57.6."""
    law = stats.lognorm(1.12, scale=np.exp(0.16))
    return 0.32 * float(law.expect(lambda x: np.minimum(x, 57.6)))


SCENARIOS: Final = {
    "report": Scenario("window", 60, 200, draw_skewed, mean_of_skewed()),
    "loose": Scenario("window", 6_000, 60, draw_skewed, mean_of_skewed()),
    "mean": Scenario("mean", 60, 60, draw_skewed, mean_of_skewed()),
    "median": Scenario("median", 60, 60, draw_normal, 30.0),
}


def find_intervals(setting: Scenario, entropy: SeededEntropy) -> Floats:
    """Return estimates and both ends of their 95% intervals: by epsilon and run."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    found = np.empty((len(EPSILONS), setting.runs, 3))
    for place, epsilon in enumerate(EPSILONS):
        release, shares = setting.release(epsilon)
        for run in range(setting.runs):
            results = setting.draw(rng, (BLOCKS, ROWS // BLOCKS)).mean(axis=1)
            noisy = release.aggregate(SealedBlocks(results[:, None]), shares[1], BLOCKS)
            numbers, replicas = release.read(shares, noisy)
            ends = np.quantile(replicas[:, 0], [0.025, 0.975])
            found[place, run] = numbers[0], min(ends[0], numbers[0]), max(ends[1], numbers[0])
    return found


def find_misses(intervals: Floats, truth: float) -> list[str]:
    """Return the checks with an improbable number of hits at any rate of at least MIN_RATE."""
    held = (intervals[..., 1] <= truth) & (truth <= intervals[..., 2])
    counts = [*held.sum(axis=1).tolist(), held.sum()]
    trials = [*[held.shape[1]] * len(EPSILONS), held.size]
    return [
        f"epsilon {name}: {hits} of {runs}"
        for name, hits, runs in zip((*EPSILONS, "any"), counts, trials, strict=True)
        if special.bdtr(int(hits), runs, MIN_RATE) < ALPHA / CHECKS
    ]


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", SCENARIOS)
def test_intervals_hold_the_mean_at_any_epsilon(name: str, entropy: SeededEntropy) -> None:
    """In up to 1,000 runs at epsilon 0.1 to 2, 95% intervals cover the mean in at least 93%.

    All six checks together fail with probability at most ALPHA if each rate is at least 93%. The
    same runs are rejected if intervals are half as wide. No estimate leaves the declared bounds.
    """
    setting = SCENARIOS[name]
    found = find_intervals(setting, entropy)
    centre = found[..., :1]

    assert [] == find_misses(found, setting.truth)
    assert found.min() >= 0
    assert found.max() <= setting.high
    if name == "report":
        assert find_misses(centre + (found - centre) / 2.0, setting.truth)


def make_pooling(loss: Loss, blocks: int, method: str = "window", outputs: int = 1) -> Pooling:
    bounds = ((Fraction(0), Fraction(60)),) * outputs
    entropy = SeededEntropy("pooling", f"{loss} {blocks}")
    return Pooling(bounds, method, loss, Neighbours.ADD_REMOVE, entropy, blocks).choose_part()


def loss_of_strength(strength: float, blocks: int) -> PureLoss:
    """Return the loss whose half chooses two quartiles with this product of rate and blocks."""
    return PureLoss(Fraction(round(8 * strength * 1_000), 1_000 * blocks))


def count_misplaced(pooling: Pooling, results: Floats, tries: int) -> int:
    """Return the number of chosen quartiles that are off by over half of the results."""
    grid, sealed = pooling.grids[0], SealedBlocks(results[:, None])
    steps = results * float(2**32) / 60.0
    beside = 0
    for _ in range(tries):
        low, high = pooling.quartiles(sealed, 0, grid)
        beside += bool(np.mean(steps >= low - pooling._cell) < 0.25)
        beside += bool(np.mean(steps <= high + pooling._cell) < 0.25)
    return beside


@pytest.mark.statistical
@pytest.mark.parametrize("blocks", [10, 318])
@pytest.mark.parametrize("results", ["equal", "spread"])
def test_quartiles_do_not_lie_beyond_the_results(results: str, blocks: int) -> None:
    """At the minimum reliable loss, at most 2% of quartiles are off by over half of the blocks.

    Over 500 tries, a rate of 2% exceeds the allowed count with probability at most ALPHA. A sixth
    of the loss fails the check.
    """
    values = np.zeros(blocks) if results == "equal" else np.linspace(0.0, 1.0, blocks)
    most = int(stats.binom.isf(ALPHA, 500, 0.02))
    reliable = make_pooling(loss_of_strength(MIN_STRENGTH, blocks), blocks)
    weak = make_pooling(loss_of_strength(MIN_STRENGTH / 6, blocks), blocks)

    assert Fraction(1, 2) == reliable.part
    assert Fraction(0) == weak.part
    assert count_misplaced(reliable, values, 500) <= most
    assert count_misplaced(replace(weak, part=Fraction(1, 2)), values, 500) > most


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("loss", [PureLoss(1), GaussianLoss(1), RenyiLoss(4, 1)])
def test_quartiles_are_chosen_from_the_loss_and_the_blocks_alone(method: str, loss: Loss) -> None:
    """Few blocks use the full bounds, many use quartiles, and a plain mean never uses quartiles."""
    parts = [make_pooling(loss, blocks, method).part for blocks in (10, 10**4)]

    assert [0, (*QUARTILE_FRACTIONS[method], 0)[0]] == parts


def test_the_more_numbers_the_more_blocks_quartiles_need() -> None:
    """The quartiles of several numbers share their part of the loss, so they need more blocks."""
    one, four = (make_pooling(PureLoss(1), 400, outputs=outputs).part for outputs in (1, 4))

    assert one > 0
    assert 0 == four


def test_a_median_without_quartiles_has_the_bounds_as_interval() -> None:
    """If the spread of results is unknown, the interval of a median is the declared bounds."""
    found = SCENARIOS["median"].release(0.1)
    release, shares = found
    results = np.random.default_rng(1).normal(30.0, 2.0, BLOCKS)
    noisy = release.aggregate(SealedBlocks(results[:, None]), shares[1], BLOCKS)
    replicas = release.read(shares, noisy)[1][:, 0]

    assert (0.0, 60.0) == pytest.approx(tuple(np.quantile(replicas, [0.025, 0.975])))


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("method", METHODS)
def test_an_auditor_finds_no_more_than_the_whole_cost(method: str) -> None:
    """Everything released from blocks that differ in one result reveals no epsilon above 1."""
    blocks = 160
    release, shares = replace(SCENARIOS["report"], method=method).release(1.0)
    one = np.full((blocks, 1), 15.0)
    one[: blocks // 4] = 45.0
    other = one.copy()
    other[-1] = 60.0
    outputs = []
    for results in (one, other):
        found = [release.aggregate(SealedBlocks(results), shares[1], blocks) for _ in range(2_000)]
        shift = 29 if method == "median" else 6
        outputs.append(
            np.array(
                [f"{each['sums'][0] >> shift} {_coarse(each['quartiles'][0])}" for each in found]
            )
        )

    assert audit(outputs[0], outputs[1]) <= 1


def _coarse(pair: list[int]) -> int:
    """Return the eighth of the range that contains a quartile, or 0 without quartiles."""
    return pair[1] >> 29 if pair else 0


def test_answers_in_other_steps_are_not_read() -> None:
    """An answer stored with other noise steps, as by confide 0.1, is refused."""
    release, shares = SCENARIOS["report"].release(1.0)
    results = SealedBlocks(np.full((BLOCKS, 1), 0.7))
    noisy: dict[str, Any] = release.aggregate(results, shares[1], BLOCKS)
    older = {**noisy, "bounds": [[]], "steps": noisy["steps"][1:]}
    weaker, less = SCENARIOS["report"].release(0.1)

    assert release.read(shares, noisy)[0] >= 0
    with pytest.raises(UnsupportedQuery, match="stored by another version"):
        release.read(shares, older)
    with pytest.raises(UnsupportedQuery, match="stored by another version"):
        weaker.read(less, older)


def make_law(name: str, skewness: float) -> Any:
    """Return a gamma or lognormal distribution with this skewness."""
    if name == "gamma":
        return stats.gamma((2.0 / skewness) ** 2)
    sigma = optimize.brentq(lambda s: float(stats.lognorm(s).stats("s")) - skewness, 1e-3, 2.0)
    return stats.lognorm(sigma)


@pytest.mark.parametrize("name", ["gamma", "lognormal"])
@pytest.mark.parametrize("skewness", [0.1, 0.5, 1.0, 1.5, 2.0])
def test_a_window_allows_for_the_tail_of_a_skewed_law(name: str, skewness: float) -> None:
    """The allowances cover a skewed distribution's tail beyond the window, and its variance."""
    law = make_law(name, skewness)
    values = law.ppf((np.arange(200_000) + 0.5) / 200_000)
    low, high = law.ppf([0.25, 0.75])
    wide = high - low
    cut = np.clip(values, low - WINDOW_FACTOR * wide, high + WINDOW_FACTOR * wide).mean()
    skew = (cut - (low + high) / 2.0) / wide

    assert 0 < skew < SKEW_LIMIT
    assert (values.mean() - cut) / wide <= SKEW_TAIL_FACTOR * skew**2 + 1e-4
    assert values.std() * 1.349 / wide <= 1.0 + SKEW_SPREAD_FACTOR * skew**2 + 1e-3


@pytest.mark.parametrize("units", [0, 50, 200, 1_000, 10_000, 10**6])
@pytest.mark.parametrize("slack", [1.0, 30.0, 1_000.0])
def test_a_count_that_is_too_high_leaves_blocks_filled(units: int, slack: float) -> None:
    """For any count within its slack, blocks have at least 10 units or there are few blocks."""
    counts = [units + slack * place / 10.0 for place in range(-10, 11)]
    blocks = [choose_blocks(count, slack, PureLoss(1)) for count in counts]

    assert all(number == 10 or units / number >= 9.5 for number in blocks)


def test_the_number_of_blocks_follows_from_what_the_loss_pays_for() -> None:
    """A Renyi loss gives as many blocks as the Gaussian noise that it buys."""
    small, large = RenyiLoss(20, Fraction(1, 100)), RenyiLoss(20, 1_000)

    assert choose_blocks(1e5, 50.0, loss_for_noise(small)) == choose_blocks(1e5, 50.0, small)
    assert choose_blocks(1e5, 50.0, large) < choose_blocks(1e5, 50.0, small)
