"""Chosen cells follow the stated distribution, and 95% intervals of quantiles cover in 95%."""

import json
import math
from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import Final

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from confide.curator import Curator
from confide.declare import Budget, Float, Int, Table
from confide.engines import Sealed
from confide.engines.protocol import Pair
from confide.ledger import Receipt
from confide.loss import GaussianLoss, Loss, PureLoss, Share
from confide.mechanisms import Exponential, Neighbours
from confide.plan import Cells, Plan, Quantile, Range
from confide.plan.cells import cells_for
from confide.plan.quantiles import plan_quantile
from confide.query.sql import read_sql
from confide.release import Answer, Cost, NoisyMeasurement, add_noise, quantiles
from confide.release.quantiles import Ranks, choose_each, score_ends
from support.averages import chances_as_run, chances_as_stated, even_cells
from support.entropy import SeededEntropy
from support.laws import ALPHA, chi_square_p, mean_p
from support.samples import is_within

DRAWS: Final = 2_000
LOW: Final = 0.94
TINY: Final = 1e-300
HIGH: Final = 0.96
AGES: Final = cells_for(Range(0, 11), Fraction(1), 1, is_integer=True)
STAYS: Final = cells_for(Range(0, 999), Fraction(1), 1, is_integer=True)
COUNTS: Final = (np.array([2, 3, 7]), np.array([5, 1, 6]))


def plan_one(level: str, granted: Loss, rows: int = 1) -> Quantile:
    """Return the plan for a quantile of one group, with at most ``rows`` rows per unit."""
    neighbours = Neighbours.ADD_REMOVE
    return plan_quantile(0, Fraction(level), rows, neighbours, granted, is_grouped=False)


def known(cells: Cells | None) -> Cells:
    assert cells is not None
    return cells


def law_of(
    counts: Pair,
    rank: int,
    rate: Fraction,
    row: int,
    within: range,
    *,
    flat: str = "neither",
    edge: int = 468,
) -> dict[int, float]:
    """Return the probability of each cell of a range by the stated distribution, cell by cell.

    Ranks on a flat side of the target, above or below, are not penalized. Cells outside the
    twelve have weight ``edge``.
    """
    cells, rows = counts
    weights = {}
    for cell in within:
        first = row * int(rows[cells < cell].sum())
        last = first + row * int(rows[cells == cell].sum())
        above, below = first - rank, rank - last
        gap = max(0, 0 if flat == "above" else above, 0 if flat == "below" else below)
        weights[cell] = math.exp(-float(rate) * gap)
    # Cells -1 and 12 represent the ends of the range, which weigh 39 times the 12 cells.
    weights = {cell: w * (1 if 0 <= cell < 12 else edge) for cell, w in weights.items()}
    return {cell: weight / sum(weights.values()) for cell, weight in weights.items()}


def value_law(counts: Pair, quantile: Quantile, cells: Cells) -> dict[int, float]:
    """Return the probability of each cell by the stated distribution of the value."""
    return dict(enumerate(chances_as_stated(counts, quantile, cells).tolist()))


@pytest.mark.statistical
@pytest.mark.parametrize("level", ["0.5", "0.9", "0.2"])
def test_values_follow_their_distribution(level: str, entropy: SeededEntropy) -> None:
    """Chosen cells fit the stated distribution, and reject a rate twice or half as large."""
    quantile, cells = plan_one(level, PureLoss(1)), known(AGES)
    chosen = choose_each([COUNTS] * DRAWS, quantile, cells, entropy)
    draws = [value for value, _, _ in chosen]

    assert chi_square_p(draws, value_law(COUNTS, quantile, cells)) > ALPHA
    for factor in (Fraction(2), Fraction(1, 2)):
        wrong = Exponential(quantile.choice.sensitivity, quantile.choice.epsilon * factor)
        law = value_law(COUNTS, replace(quantile, choice=wrong), cells)
        assert chi_square_p(draws, law) < ALPHA


@pytest.mark.statistical
def test_values_are_chosen_from_averaged_rows(entropy: SeededEntropy) -> None:
    """Values among 1,000 cells fit the distribution of averages with the planned decay only."""
    quantile, cells = plan_one("0.5", PureLoss(1)), known(STAYS)
    filled = np.concatenate([start + np.arange(3) for start in range(300, 600, 30)])
    counts = (filled, np.ones(30, np.int64))
    chosen = choose_each([counts] * 2 * DRAWS, quantile, cells, entropy)
    draws = [value for value, _, _ in chosen]

    def p_value(factor: Fraction) -> float:
        planned = replace(quantile, decay=quantile.decay * factor)
        return chi_square_p(draws, value_law(counts, planned, cells))

    assert p_value(Fraction(1)) > ALPHA
    assert max(p_value(wrong) for wrong in (Fraction(4), Fraction(1, 4))) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("at_once", [1, 2**18])
def test_groups_chosen_together_follow_their_own_distributions(
    at_once: int, entropy: SeededEntropy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of several sizes, processed together or not, are chosen as if each were alone."""
    monkeypatch.setattr(quantiles, "MAX_BATCH_SIZE", at_once)
    quantile = plan_one("0.5", PureLoss(1))
    single = (np.array([3]), np.array([4]))
    groups = [COUNTS, single, (np.empty(0, np.int64), np.empty(0, np.int64))]
    draws = DRAWS if at_once > 1 else DRAWS // 4
    chosen = choose_each(groups * draws, quantile, known(AGES), entropy)
    for place, counts in enumerate(groups):
        law = value_law(counts, quantile, known(AGES))

        assert chi_square_p([value for value, _, _ in chosen[place::3]], law) > ALPHA


def end_laws(quantile: Quantile, cells: int = 12) -> list[dict[int, float]]:
    """Return the distributions of value and low end, and of value and high end, as pairs of cells.

    A pair is one number: 100 times the value, plus the end. The value is not averaged.
    """
    row, top = 2 * quantile.level.denominator, quantile.level.numerator
    rank = 2 * top * 11 + quantile.level.denominator
    low, high = rank - quantile.low.shift, rank + quantile.high.shift
    if quantile.low.edge is not None:
        low = min(low, row * 12 - quantile.low.edge)
    flats = [
        flat if end.is_flat else "neither"
        for end, flat in ((quantile.low, "above"), (quantile.high, "below"))
    ]
    laws: list[dict[int, float]] = [{}, {}]
    values = law_of(COUNTS, rank, quantile.choice.rate, row, range(cells))
    for value, probability in values.items():
        sides = (low, range(-1, value + 1), flats[0]), (high, range(value, cells + 1), flats[1])
        for law, (target, within, flat) in zip(laws, sides, strict=True):
            given = law_of(COUNTS, target, quantile.ends.rate, row, within, flat=flat)
            law.update({100 * value + end: probability * part for end, part in given.items()})
    return laws


@pytest.mark.statistical
@pytest.mark.parametrize("level", ["0.5", "0.9"])
@pytest.mark.parametrize("granted", [PureLoss(1), PureLoss(40)], ids=["flat", "sharp"])
def test_ends_follow_their_distribution_given_the_value(
    level: str, granted: Loss, entropy: SeededEntropy
) -> None:
    """Ends are chosen among the cells up to the value's, and the end of the range.

    They are as sharp as so few rows need, with close targets. Each end is compared together with
    its value, so no cell is chosen after the draws. Correct ends fail in two of 10^9 runs. The same
    draws reject ends that are twice or half as sharp, except for the high ends of level 0.9, which
    have targets beyond all rows.
    """
    planned = plan_one(level, granted)
    row = 2 * planned.level.denominator
    aims = [
        replace(end, shift=row, edge=None if end.edge is None else 5 * row)
        for end in (planned.low, planned.high)
    ]
    ends = Exponential(planned.ends.sensitivity, 2)
    choice = Exponential(planned.choice.sensitivity, 6)
    quantile = replace(
        planned, choice=choice, decay=Fraction(0), ends=ends, low=aims[0], high=aims[1]
    )
    chosen = choose_each([COUNTS] * DRAWS, quantile, known(AGES), entropy)
    pairs = [[100 * one[0] + one[side] for one in chosen] for side in (1, 2)]

    def p_values(factor: Fraction) -> list[float]:
        wrong = replace(quantile, ends=Exponential(ends.sensitivity, ends.epsilon * factor))
        laws = end_laws(wrong)
        return [chi_square_p(draws, law) for draws, law in zip(pairs, laws, strict=True)]

    assert min(p_values(Fraction(1))) > ALPHA
    for factor in (Fraction(2), Fraction(1, 2)):
        wrong = p_values(factor)
        assert max(wrong if level == "0.5" else wrong[:1]) < ALPHA


def test_ranks_past_64_bits_are_exact() -> None:
    """With 2^60 rows in a cell, ranks are exact integers, and scores are clipped."""
    counts = (np.array([1, 2]), np.array([2**60, 1]))
    ranks = Ranks.of([counts], known(AGES), 2_000_000)
    scores = ranks.scores(np.zeros(1, dtype=np.int64))

    assert [[0, 0, -(2**61), -(2**61), -(2**61)]] == scores.tolist()
    assert 2_000_000 * 2**60 == int(ranks.last[0, 1])


def test_groups_are_ranked_independently() -> None:
    """A group has the same runs, ranks, and scores with other groups as alone, plus empty runs."""
    single, nothing = (np.array([3]), np.array([4])), (np.empty(0, np.int64),) * 2
    groups, quantile = [COUNTS, single, nothing], plan_one("0.9", PureLoss(1))
    together = Ranks.of(groups, known(AGES), 20)
    for place, one in enumerate(groups):
        alone, stretches = Ranks.of([one], known(AGES), 20), 2 * len(one[0]) + 1
        pairs = [(together.breaks[:, :-1], alone.breaks[:, :-1])]
        pairs += zip(score_ends(together, quantile), score_ends(alone, quantile), strict=True)

        assert alone.rank_of(quantile)[0] == together.rank_of(quantile)[place]
        for beside, by_itself in pairs:
            assert by_itself[0].tolist() == beside[place, :stretches].tolist()
        assert not np.diff(together.breaks[place, stretches:]).any()


def rank_all(counts: Pair, count: int, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ranks at which each of all cells begins and ends."""
    table = np.zeros(count, dtype=np.int64)
    table[counts[0]] = row * counts[1]
    return np.cumsum(table) - table, np.cumsum(table)


def cover(counts: Pair, quantile: Quantile, count: int) -> float:
    """Return the coverage of the exact quantile, summed over the distribution of all cells."""
    cells, rows = counts
    row, total = 2 * quantile.level.denominator, int(rows.sum())
    exact_ranks = rank_all(counts, count, row)
    rank = 2 * quantile.level.numerator * (total - 1) + quantile.level.denominator
    low, high = rank - quantile.low.shift, rank + quantile.high.shift
    low = low if quantile.low.edge is None else min(low, row * total - quantile.low.edge)
    high = high if quantile.high.edge is None else max(high, quantile.high.edge)

    def weigh(
        target: int, rate: Fraction, ends: tuple[int, ...], over: int = 1, under: int = 1
    ) -> np.ndarray:
        below, above = (np.concatenate([side, ends]) for side in exact_ranks)
        gaps = np.maximum(over * (below - target), under * (target - above))
        exponents = -float(rate) * np.maximum(gaps, 0)
        weights: np.ndarray = np.exp(exponents - exponents.max())
        weights[count:] *= 39 * count
        return weights

    if quantile.decay:
        value = chances_as_run(counts, quantile, even_cells(count))
    else:
        value = weigh(rank, quantile.choice.rate, ())
    rate = quantile.ends.rate
    lows = weigh(low, rate, (0,), over=not quantile.low.is_flat)
    highs = weigh(high, rate, (row * total,), under=not quantile.high.is_flat)
    exact = np.quantile(np.repeat(cells, rows), float(quantile.level))
    upto, beyond = math.floor(exact), math.ceil(exact)
    under = lows[-1] + np.cumsum(lows[:-1])
    over = highs[-1] + np.cumsum(highs[-2::-1])[::-1]
    below, above = under[upto] / np.maximum(under, TINY), over[beyond] / np.maximum(over, TINY)
    kept = np.minimum(below, 1.0) * np.minimum(above, 1.0)
    return float((value * kept).sum() / value.sum())


DENSE: Final = (PureLoss(Fraction(1, 10)), GaussianLoss(Fraction(1, 1_000)))
CALM: Final[list[tuple[Loss, int]]] = [
    *((granted, 1) for granted in DENSE),
    (PureLoss(Fraction(1, 2)), 5),
    (GaussianLoss(Fraction(1, 40)), 5),
]
"""Losses so small, and rows per unit, that noise hides many rows."""

SMALL: Final = (PureLoss(1), GaussianLoss(Fraction(1, 10)), PureLoss(40))


@pytest.fixture
def rng(entropy: SeededEntropy) -> np.random.Generator:
    """Return a random generator that depends on the seed of the run."""
    return np.random.default_rng(int(entropy.words(1)[0]))


def draw_rows(rng: np.random.Generator, size: int, count: int) -> Pair:
    """Return skewed values in some of ``count`` cells."""
    values = np.floor(count * rng.beta(2.0, 5.0, size)).astype(np.int64)
    found, rows = np.unique(values, return_counts=True)
    return found, rows


@pytest.mark.parametrize(("granted", "unit"), CALM, ids=str)
@pytest.mark.parametrize("level", ["0.5", "0.4", "0.9"])
def test_intervals_have_the_stated_coverage(
    level: str, granted: Loss, unit: int, rng: np.random.Generator
) -> None:
    """With many rows, 95% intervals cover the quantile with a probability of 94% to 96%.

    Extreme levels keep their intervals away from the end of all rows, so their coverage may be
    higher. Coverage depends on the gaps of a table, so 48 tables are averaged.
    """
    quantile = plan_one(level, granted, unit)
    tables = (draw_rows(rng, 20_000, 60_000) for _ in range(48))
    held = np.mean([cover(counts, quantile, 60_000) for counts in tables])

    assert held > LOW
    assert held < HIGH or level == "0.9"


@pytest.mark.parametrize(("granted", "unit"), CALM, ids=str)
@pytest.mark.parametrize("level", ["0.1", "0.5", "0.9"])
def test_rank_errors_are_exceeded_in_one_release_of_twenty(
    level: str, granted: Loss, unit: int, rng: np.random.Generator
) -> None:
    """The rank of a value is off by more than `rank_error` with a probability of 3% to 7%.

    The probability depends on the gaps of a table, with a standard deviation of 0.015 or less, so
    the bounds are 5 standard errors or more from 5%. Half the error is exceeded in 20%.
    """
    quantile, count, size = plan_one(level, granted, unit), 30_000, 10_000
    steps = float(quantile.choice.rate * 2 * quantile.level.denominator)
    parts = []
    for _ in range(16):
        places = np.sort(rng.choice(count, size, replace=False))
        below = np.searchsorted(places, np.arange(count), "right") - 0.5
        off = np.abs(below - float(quantile.level) * size)
        counts = places, np.ones(size, np.int64)
        cells = even_cells(count)
        probabilities = (
            chances_as_run(counts, quantile, cells) if quantile.decay else np.exp(-steps * off)
        )
        parts.append(probabilities[off > quantile.rank_error].sum() / probabilities.sum())

    assert 0.03 < np.mean(parts) < 0.07


@pytest.mark.parametrize(("granted", "unit"), CALM, ids=str)
@pytest.mark.parametrize("level", ["0.1", "0.5", "0.9"])
def test_ends_often_reach_the_bounds_below_the_stated_size(
    level: str, granted: Loss, unit: int, entropy: SeededEntropy
) -> None:
    """With half of `rows_for_ends`, most intervals end at a bound; with twice as many, few do.

    Of 400 intervals, at least 240 and at most 160 do. The observed rates are above 0.9 and below
    0.06, so correct intervals fail in less than one of 10^9 runs.
    """
    quantile, count = plan_one(level, granted, unit), 2**16
    reached = []
    for factor in (0.5, 2.0):
        size = math.ceil(factor * quantile.rows_for_ends)
        cells = np.floor((np.arange(size) + 0.5) * count / size).astype(np.int64)
        filled, rows = np.unique(cells, return_counts=True)
        chosen = choose_each([(filled, rows)] * 400, quantile, even_cells(count), entropy)
        reached.append(sum(low < 0 or high >= count for _, low, high in chosen))

    assert reached[0] > 240
    assert reached[1] < 160


def aim_at_quantile(quantile: Quantile) -> Quantile:
    """Return the quantile with naive ends: as sharp as the value, with targets as close."""
    low, high = (replace(end, shift=0) for end in (quantile.low, quantile.high))
    return replace(quantile, ends=quantile.choice, low=low, high=high)


def test_narrower_intervals_are_detected(rng: np.random.Generator) -> None:
    """Ends as sharp as the value, with targets as close, cover in less than 94% of releases."""
    careless = aim_at_quantile(plan_one("0.5", DENSE[0]))

    assert cover(draw_rows(rng, 50_000, 60_000), careless, 60_000) < LOW


@pytest.mark.parametrize("granted", SMALL, ids=str)
@pytest.mark.parametrize("level", ["0.5", "0.75", "0.95"])
def test_few_rows_make_wide_intervals(level: str, granted: Loss, rng: np.random.Generator) -> None:
    """With any small number of rows, intervals cover with a probability of at least 94%.

    Up to 8 rows, all tables are nearly alike. From 20 to 200 rows, coverage is 98% or more, and the
    mean of 24 tables is at least 13 standard errors above 94%.
    """
    tables = dict.fromkeys((1, 2, 3, 8), 4) | dict.fromkeys((20, 60, 200), 24)
    quantile = plan_one(level, granted)
    by_size = [
        np.mean([cover(draw_rows(rng, size, 3_000), quantile, 30_000) for _ in range(times)])
        for size, times in tables.items()
    ]

    assert min(by_size) > LOW


@pytest.mark.parametrize("granted", SMALL, ids=str)
@pytest.mark.parametrize("level", ["0.5", "0.75", "0.95"])
def test_intervals_of_1000_rows_cover(level: str, granted: Loss, rng: np.random.Generator) -> None:
    """With 1,000 rows, the mean coverage over tables is at least 94%.

    Coverage depends on the gaps of a table, with a standard deviation of up to 0.02. Student's t
    rejects intervals with 94% coverage in one run of 10^9, and those with 92% in all but one of
    200: the bound is 6.7 standard errors of 0.002 below 94%.
    """
    quantile = plan_one(level, granted)
    held = [cover(draw_rows(rng, 1_000, 3_000), quantile, 30_000) for _ in range(96)]

    assert mean_p(held, LOW) > ALPHA


def test_narrower_intervals_of_1000_rows_are_detected(rng: np.random.Generator) -> None:
    """On as many tables of 1,000 rows, ends as sharp as the value fail the same test."""
    careless = aim_at_quantile(plan_one("0.5", SMALL[0]))
    held = [cover(draw_rows(rng, 1_000, 3_000), careless, 30_000) for _ in range(96)]

    assert mean_p(held, LOW) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("keys", ["", "k, "])
def test_released_intervals_cover_too(keys: str, entropy: SeededEntropy) -> None:
    """A coverage of 94% to 96% is consistent with the intervals of 1,000 releases, at ALPHA.

    Fewer than 890 are rejected; naive ends cover in about 600.
    """
    grouped = " GROUP BY k" if keys else ""
    plan = plan_for(f"SELECT {keys}MEDIAN(x) AS s FROM visits{grouped}", Fraction(1, 2))
    groups = plan.keys.groups  # type: ignore[union-attr]  # declared
    cells = plan.histograms[0].cells
    counts = (cells.count // 4 + 9 * np.arange(801), np.ones(801, np.int64))
    sealed = Sealed({}, (dict.fromkeys(groups, counts),))
    (exact,) = cells.middle(counts[0][400:401])
    cells_chosen = [
        row for _ in range(1_000 // len(groups)) for row in add_noise(sealed, plan, entropy).cells
    ]
    names = groups * (1_000 // len(groups))
    ends = show(plan, NoisyMeasurement(names, ((),) * 1_000, tuple(cells_chosen))).interval_rows()
    held = sum(end["s_low"] <= exact <= end["s_high"] for end in ends)

    assert is_within(held, 1_000, LOW, HIGH)


TABLE: Final = Table(
    "visits",
    pa.table({"pid": [1], "k": [1], "x": [1.0], "n": [1]}),
    unit="pid",
    columns={"k": Int(0, 19), "x": Float(0, 100), "n": Int(0, 99)},
    unique=True,
)


def plan_for(text: str, epsilon: int | Fraction = 1) -> Plan:
    """Return the plan of a curator with a budget of 100."""
    curator = Curator([TABLE], budget=Budget(100))
    query = read_sql(text, curator.names)
    return curator._planner.plan(query, Share.floor(Fraction(epsilon) / 100))


def show(plan: Plan, noisy: NoisyMeasurement) -> Answer:
    """Return an answer of these releases."""
    return Answer(plan, noisy, Cost(Fraction(0), 0.0), Receipt(0, Share(0), ""), reused=False)


@pytest.mark.statistical
def test_intervals_of_arithmetic_on_quantiles_cover(entropy: SeededEntropy) -> None:
    """In at least 94% of 1,000 releases, a difference of two quantiles lies in its interval."""
    asked = "QUANTILE_CONT(n, 0.75) - QUANTILE_CONT(n, 0.25) AS s"
    plan = plan_for(f"SELECT k, {asked} FROM visits GROUP BY k")
    groups = plan.keys.groups  # type: ignore[union-attr]  # declared
    counts = (np.arange(100), np.full(100, 3))
    sealed = Sealed({}, (dict.fromkeys(groups, counts),))
    held = 0
    for _ in range(50):
        ends = show(plan, add_noise(sealed, plan, entropy)).interval_rows()
        held += sum(end["s_low"] <= 50 <= end["s_high"] for end in ends)

    assert held / 1_000 > LOW


def test_higher_confidence_gets_the_range(entropy: SeededEntropy) -> None:
    """At 95% and below, intervals have the chosen ends; above, they are the declared range."""
    plan = plan_for("SELECT MEDIAN(x) AS m, MEDIAN(x) + 1 AS more FROM visits", epsilon=50)
    counts = (np.array([1_000]), np.array([10_000]))
    answer = show(plan, add_noise(Sealed({}, ({(): counts},)), plan, entropy))
    (nine,), (half,), (sure,) = (answer.interval_rows(level) for level in (0.95, 0.5, 0.99))

    assert (nine["m_low"], nine["m_high"]) == (half["m_low"], half["m_high"])
    assert nine["m_low"] > 0
    assert nine["m_high"] < 100
    assert (0.0, 100.0) == (sure["m_low"], sure["m_high"])
    assert (1.0, 101.0) == pytest.approx((sure["more_low"], sure["more_high"]), abs=0.5)


def test_releases_survive_a_round_trip_through_json() -> None:
    """Dates, Booleans, NULL, steps, and cells survive a round trip through JSON."""
    groups = ((date(2020, 2, 29), None), ("é", True), (1.5, -3))
    noisy = NoisyMeasurement(groups, ((1,), (-(2**61),), (0,)), (((1, -1, 7),),) * 3)

    assert noisy == NoisyMeasurement.from_json(json.loads(json.dumps(noisy.to_json())))


def test_an_empty_group_gets_a_choice(entropy: SeededEntropy) -> None:
    """Groups without rows get a value in the range, and an interval that is usually all of it.

    The ends of the range weigh 39 times the 100 cells, and each end of an interval is chosen with
    at most 100 cells: both are those of the range with a probability of at least 0.974.
    """
    plan = plan_for("SELECT k, MEDIAN(n) AS m FROM visits GROUP BY k")
    answer = show(plan, add_noise(Sealed({}, ({},)), plan, entropy))
    ends = answer.interval_rows()

    assert 20 == len(answer.rows)
    assert all(0 <= row["m"] <= 99 for row in answer.rows)
    assert sum(end["m_low"] == 0 and end["m_high"] == 99 for end in ends) >= stats.binom.ppf(
        ALPHA, 20, 0.974
    )
