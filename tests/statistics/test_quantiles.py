"""Several quantiles at once: accuracy, order, and the privacy of each round."""

from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from confide.declare import Budget, Float, Int
from confide.engines import Sealed
from confide.errors import Refusal
from confide.loss import GaussianLoss, PureLoss
from confide.mechanisms import Neighbours
from confide.plan import Range, ValueGrid
from confide.plan.cells import GridCells
from confide.plan.quantile_tree import plan_quantile_tree
from confide.release.quantiles import choose_quantiles
from confide.statistics.quantiles import NORMAL_QUANTILE, TAIL_PROBABILITY
from support.auditor import audit
from support.entropy import SeededEntropy
from support.laws import ALPHA, chi_square_p
from support.samples import curator_of, is_within

LEVELS: Final = [0.1, 0.25, 0.5, 0.75, 0.9]
LAWS: Final[dict[str, Any]] = {
    "lognormal": lambda rng, n: rng.lognormal(3.0, 1.0, n),
    "uniform": lambda rng, n: rng.uniform(0, 100, n),
    "bimodal": lambda rng, n: np.where(
        rng.random(n) < 0.5, rng.normal(20, 2, n), rng.normal(80, 2, n)
    ),
    "discrete": lambda rng, n: rng.poisson(0.5, n).astype(float),
}


def test_the_normal_quantile_is_that_of_scipy() -> None:
    """The hard-coded constant, which avoids importing SciPy, equals SciPy's to the last bit."""
    assert NORMAL_QUANTILE == float(special.ndtri(1 - TAIL_PROBABILITY))


@pytest.mark.statistical
@pytest.mark.parametrize("name", LAWS)
def test_quantiles_are_near_their_levels(name: str, entropy: SeededEntropy) -> None:
    """For 20,000 rows with loose bounds at epsilon 1, each is within 500 rows, up to a cell.

    The choices of a round have rate 0.05 or more, so values that are 25 / rate rows away have e^-25
    times the weight of those at the level. Even if they are ten times as many, one of the 40
    choices here selects them less than once in 10^8 runs.
    """
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    x = LAWS[name](rng, 20_000)
    curator = curator_of({"x": x}, {"x": Float(0, 10**5)}, Budget(10))
    found = curator.quantiles("people", "x", LEVELS, epsilon=1).value
    below = np.array([np.mean(x < value - 0.06) for value in found])
    upto = np.array([np.mean(x <= value + 0.06) for value in found])

    assert (below <= np.array(LEVELS) + 0.025).all()
    assert (upto >= np.array(LEVELS) - 0.025).all()
    assert found == sorted(found)


@given(st.lists(st.integers(0, 50), min_size=0, max_size=60), st.integers(1, 12))
def test_quantiles_never_cross(values: list[int], count: int) -> None:
    """For any rows and noise, higher levels have higher cells."""
    entropy = SeededEntropy("never", str(values))
    found = _climb(values, count, PureLoss("0.1"), entropy)

    assert found == sorted(found)


def _sealed(values: list[int]) -> Sealed:
    cells, rows = np.unique(np.array(values, dtype=np.int64), return_counts=True)
    return Sealed({}, ({(): (cells, rows.astype(np.int64))},))


def _climb(values: list[int], count: int, granted: Any, entropy: Any, size: int = 30) -> list[int]:
    cells = GridCells(ValueGrid(Fraction(0), Fraction(1), 0, 50), Range(0, 50), is_integer=True)
    ladder = plan_quantile_tree(count, 1, Neighbours.ADD_REMOVE, granted)
    levels = [Fraction(place + 1, count + 1) for place in range(count)]
    return choose_quantiles(_sealed(values), cells, ladder, levels, entropy, size=size)


@pytest.mark.statistical
@pytest.mark.parametrize("granted", [PureLoss(1), GaussianLoss("0.4")], ids=["pure", "gaussian"])
def test_an_auditor_finds_no_more_than_was_paid(granted: Any, entropy: SeededEntropy) -> None:
    """1,000 trees for three levels with and without a row reveal no excess epsilon."""
    rows = [10] * 6 + [30] * 6 + [40] * 6
    left, right = (
        np.array([_climb(values, 3, granted, entropy, size=18) for _ in range(1_000)]) // 10
        for values in (rows, rows[:-3])
    )
    most = 3.0 if isinstance(granted, PureLoss) else granted.epsilon_at("1/1000000") * 3

    assert audit(left, right, delta=0 if isinstance(granted, PureLoss) else 1e-5) <= most


def move_gaps(rows: Any, more: Any, level: Fraction) -> Any:
    """Return the change of each cell's gap in a split, between the two sides."""
    gaps = []
    for counts in (rows, more):
        last = level.denominator * np.cumsum(counts)
        first, wanted = last - level.denominator * counts, level.numerator * int(counts.sum())
        gaps.append(np.maximum(np.maximum(first - wanted, wanted - last), 0))
    return gaps[1] - gaps[0]


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_round_costs_its_epsilon(neighbours: Neighbours, entropy: SeededEntropy) -> None:
    """In 2,000 random rounds, no log-ratio spans more than epsilon; some span over 5/6 of it.

    Each round has up to five splits over different cells, with one row added or replaced.
    """
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    ladder = plan_quantile_tree(3, 1, neighbours, PureLoss(1))
    largest = Fraction(0)
    for _ in range(2_000):
        rows = rng.integers(0, 12, 30) * (rng.random(30) < 0.5)
        more = rows.copy()
        more[rng.integers(30)] += 1
        if neighbours is Neighbours.REPLACE:
            rows[rng.integers(30)] += 1
        cuts = np.sort(rng.choice(np.arange(1, 30), rng.integers(0, 5), replace=False))
        spent = Fraction(0)
        for one, other in zip(np.split(rows, cuts), np.split(more, cuts), strict=True):
            level = Fraction(int(rng.integers(1, 20)), 20)
            spent += ladder.choose(level).rate * int(np.ptp(move_gaps(one, other, level)))
        largest = max(largest, spent)

    assert Fraction(5, 6) * ladder.epsilon < largest <= ladder.epsilon


@pytest.mark.statistical
def test_a_rung_follows_its_law(entropy: SeededEntropy) -> None:
    """2,000 choices for one level fit the stated distribution and reject twice or half the rate."""
    values = [10] * 5 + [12] * 3 + [30] * 6
    draws = [_climb(values, 1, PureLoss(1), entropy, size=14)[0] for _ in range(2_000)]
    rate = plan_quantile_tree(1, 1, Neighbours.ADD_REMOVE, PureLoss(1)).choose(Fraction(1, 2)).rate
    counts = np.bincount(values, minlength=51)
    last = 2 * np.cumsum(counts)
    gaps = np.maximum(np.maximum(last - 2 * counts - 14, 14 - last), 0)

    def law(steepness: float) -> dict[int, float]:
        weights = np.exp(-steepness * gaps)
        return dict(enumerate((weights / weights.sum()).tolist()))

    assert chi_square_p(draws, law(float(rate))) > ALPHA
    assert chi_square_p(draws, law(float(rate) * 2)) < ALPHA
    assert chi_square_p(draws, law(float(rate) / 2)) < ALPHA


def test_rounds_grow_like_the_logarithm() -> None:
    """1, 3, 7, and 100 levels take 1, 2, 3, and 7 rounds, and every level has one split."""
    ladders = [plan_quantile_tree(n, 1, Neighbours.ADD_REMOVE, PureLoss(1)) for n in (1, 3, 7, 100)]
    places = [sorted(rung.place for rungs in one.rounds for rung in rungs) for one in ladders]

    assert [1, 2, 3, 7] == [len(ladder.rounds) for ladder in ladders]
    assert [list(range(n)) for n in (1, 3, 7, 100)] == places


@pytest.mark.slow
@pytest.mark.statistical
def test_intervals_hold_the_population_s_quantiles(entropy: SeededEntropy) -> None:
    """For 30 samples of 2,000 rows at epsilon 1, intervals cover at a rate of 90 to 99.9%."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    truth, hits = np.array([25.0, 50.0, 75.0]), np.zeros(3, dtype=int)
    for _ in range(30):
        curator = curator_of({"x": rng.uniform(0, 100, 2_000)}, {"x": Float(0, 1_000)}, Budget(1))
        found = curator.quantiles("people", "x", [0.25, 0.5, 0.75], epsilon=1)
        ends = np.array(found.interval())
        hits += (ends[:, 0] <= truth) & (truth <= ends[:, 1])

    assert [True] * 3 == [is_within(int(hit), 30, 0.90, 0.999) for hit in hits]


@pytest.mark.parametrize("level", [0, 1, 1e-7, "0.9999999", -0.5])
def test_a_level_at_an_end_is_refused(level: Any) -> None:
    """Levels that are 0 or 1, also after rounding, are refused before any charge."""
    curator = curator_of({"x": np.arange(100)}, {"x": Int(0, 99)}, Budget(1))
    with pytest.raises(Refusal, match="exclusive"):
        curator.quantiles("people", "x", level, share="1%")

    assert 0 == curator.budget.spent.share


def test_one_level_is_one_number() -> None:
    """A single level gives a number; a list gives a list in the same order."""
    curator = curator_of({"x": np.arange(100)}, {"x": Int(0, 99)}, Budget(10**8))
    single = curator.quantiles("people", "x", 0.5, epsilon=10**6).value
    several = curator.quantiles("people", "x", [0.9, 0.1], epsilon=10**6).value

    assert 49 == pytest.approx(single, abs=1)
    assert [89, 9] == pytest.approx(several, abs=1)
