"""Sensitivity of the distribution of a chosen quantile, measured on neighboring databases.

Random queries run on 200 pairs of neighboring databases at once (support/people.py), from plan to
engine. For both databases of a pair, the density of the value at every position is computed from
averaged rows, and the score of every cell for each of the two ends. If scores change by amounts
between x and y, log-probabilities span rate * (y - x). The losses in the groups of a world add up.
The two ends are chosen on either side of a value; their spans are added for the worst such cell.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from confide.curator import Curator
from confide.declare import Budget, Catalog
from confide.engines import Counts, DuckDB
from confide.engines.protocol import Pair
from confide.errors import UnsupportedQuery
from confide.expressions.tree import Value
from confide.ledger import Hold
from confide.loss import (
    BoundedRangeLoss,
    GaussianLoss,
    Loss,
    PureLoss,
    RenyiLoss,
    Share,
)
from confide.mechanisms import Exponential, Neighbours
from confide.plan import Cells, GridCells, Plan, Quantile
from confide.plan.quantiles import END_FRACTIONS, MULTI_ROW_END_FRACTION, plan_quantile, read_level
from confide.query.sql import read_sql
from confide.release.unseal import unseal
from support.averages import even_cells, log_ratios
from support.entropy import SeededEntropy
from support.grammar import draw_quantiles
from support.people import Limits, change_one, declare_worlds, draw_worlds
from support.reach import WORLDS

LIMITS: Final = (Limits(1, 1, unique=True), Limits(3, 2), Limits(6, 1))
QUESTIONS: Final = 5
CELLS: Final = 64
MOVES: Final = 1_000
VALUES: Final = 300
NUMBERS: Final = even_cells(CELLS)
SALT: Final = "grain"
ROUNDING: Final = 1e-12
NOTHING: Final = (np.empty(0, np.int64), np.empty(0, np.int64))
LOSSES: Final = (PureLoss(1), GaussianLoss(Fraction(1, 3)), RenyiLoss(9, Fraction(1, 2)))

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Side:
    """One of two neighboring databases."""

    engine: DuckDB

    def read(self, plan: Plan) -> tuple[Counts, ...]:
        """Return the exact counts of a query."""
        return unseal(self.engine.run(plan.measurement, Hold(0, Share.floor("1/100")))).counts


@dataclass(frozen=True, slots=True)
class Twins:
    """Two neighboring databases, and a curator that plans for both."""

    curator: Curator
    before: Side
    after: Side

    def plan(self, text: str) -> Plan:
        """Return the curator's plan for a query."""
        return self.curator._planner.plan(read_sql(text, self.curator.names), Share.floor("1/100"))


def draw_twins(
    limits: Limits,
    neighbours: Neighbours,
    rng: np.random.Generator,
    budget: Budget | None = None,
) -> Twins:
    people = draw_worlds(rng, WORLDS, limits)
    changed = change_one(people, neighbours, limits, rng)
    tables = [declare_worlds(one, limits, rng) for one in (people, changed)]
    sides = [Side(DuckDB(Catalog([table]), salt=SALT)) for table in tables]
    drawn = Budget(100, *([1e-6] if rng.random() < 0.5 else []))
    return Twins(Curator([tables[0]], budget=budget or drawn, neighbours=neighbours), *sides)


def rank_cells(counts: Pair, where: Integers, row: int) -> tuple[Integers, Integers]:
    """Return the ranks at which the given cells begin and end."""
    filled, rows = counts
    summed = row * np.concatenate([np.zeros(1, np.int64), np.cumsum(rows)])
    first, last = (np.searchsorted(filled, where, side=side) for side in ("left", "right"))
    return summed[first], summed[last]


def score_ends(counts: Pair, quantile: Quantile, where: Integers) -> list[Integers]:
    """Return the scores, for both ends, of the cells that begin at each break."""
    rows, row = int(counts[1].sum()), 2 * quantile.level.denominator
    first, last = rank_cells(counts, where, row)
    total = row * rows
    rank = 2 * quantile.level.numerator * (rows - 1) + quantile.level.denominator
    low, high = rank - quantile.low.shift, rank + quantile.high.shift
    low = low if quantile.low.edge is None else min(low, total - quantile.low.edge)
    high = high if quantile.high.edge is None else max(high, quantile.high.edge)
    inner = [
        0 if end.is_flat else gap
        for end, gap in ((quantile.low, first - low), (quantile.high, high - last))
    ]
    gaps = [np.maximum(low - last, inner[0]), np.maximum(first - high, inner[1])]
    return [-np.maximum(gap, 0) for gap in gaps]


def spend_value(old: Pair, new: Pair, quantile: Quantile, cells: Cells) -> float:
    """Return the greatest log-ratio of a value, or the span of log-ratios if that is charged."""
    if not quantile.decay:
        return _span_scores(old, new, quantile, cells.count)
    ratios = log_ratios(old, new, quantile, cells)
    is_pure = isinstance(quantile.loss, PureLoss)
    return float(np.abs(ratios).max() if is_pure else np.ptp(ratios))


def _span_scores(old: Pair, new: Pair, quantile: Quantile, count: int) -> float:
    """Return the span of log-probabilities if rows are not averaged."""
    filled = np.concatenate([old[0], new[0]])
    where = np.unique(np.clip([0, count - 1, *filled, *(filled + 1)], 0, count - 1))
    gaps = []
    for counts in (old, new):
        begin, end = rank_cells(counts, where, 2 * quantile.level.denominator)
        rank = 2 * quantile.level.numerator * (int(counts[1].sum()) - 1)
        rank += quantile.level.denominator
        gaps.append(np.maximum(np.maximum(begin - rank, rank - end), 0))
    return float(quantile.choice.rate * int(np.ptp(gaps[1] - gaps[0])))


def spans(
    old: Pair, new: Pair, quantile: Quantile, cells: Cells, *, of_ends: bool = False
) -> list[float]:
    """Return the loss of a value, unless only ends count, and the span of both ends."""
    filled = np.concatenate([old[0], new[0]])
    where = np.unique([0, cells.count - 1, *filled, *(filled + 1)])
    where = where[where < cells.count]
    pairs = zip(*(score_ends(one, quantile, where) for one in (old, new)), strict=True)
    low, high = (after - before for before, after in pairs)
    spread = np.maximum.accumulate(low) - np.minimum.accumulate(low)
    others = np.maximum.accumulate(high[::-1]) - np.minimum.accumulate(high[::-1])
    both = int((spread + others[::-1]).max())
    value = 0.0 if of_ends else spend_value(old, new, quantile, cells)
    return [value, float(quantile.ends.rate * both)]


def compare(twins: Twins, plan: Plan) -> dict[tuple[Value, int], list[float]]:
    """Return the spans over the groups of each world and quantile, for the value and the ends."""
    before, after = twins.before.read(plan), twins.after.read(plan)
    found: dict[tuple[Value, int], list[float]] = {}
    for place, quantile in enumerate(plan.quantiles):
        old, new = before[quantile.histogram], after[quantile.histogram]
        cells = plan.histograms[quantile.histogram].cells
        for group in old.keys() | new.keys():
            sides = old.get(group, NOTHING), new.get(group, NOTHING)
            if all(map(np.array_equal, *sides)):
                continue  # equal rows have equal distributions
            one = spans(*sides, quantile, cells)
            so_far = found.get((group[0], place), [0.0] * 2)
            found[group[0], place] = [a + b for a, b in zip(so_far, one, strict=True)]
    return found


def largest_parts(twins: Twins, plan: Plan) -> list[float]:
    """Return, for value and ends, the largest loss of a world as a fraction of the planned loss."""
    parts = [0.0] * 2
    for (_, place), spent in compare(twins, plan).items():
        parts = list(map(max, parts, parts_of(spent, plan.quantiles[place])))
    return parts


def parts_of(spent: list[float], quantile: Quantile) -> list[float]:
    """Return losses as fractions of the planned losses, with a tolerance for rounding."""
    planned = [quantile.loss.epsilon, quantile.ends.epsilon]
    return [one / float(limit) * (1 - ROUNDING) for one, limit in zip(spent, planned, strict=True)]


@pytest.fixture
def rng(entropy: SeededEntropy) -> np.random.Generator:
    """Return a random generator that depends on the seed of the run."""
    return np.random.default_rng(int(entropy.words(1)[0]))


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_no_unit_changes_a_choice_beyond_its_epsilon(
    limits: Limits, neighbours: Neighbours, rng: np.random.Generator
) -> None:
    """In 1,000 neighboring pairs per limit, no choice spans more than its epsilon."""
    twins = draw_twins(limits, neighbours, rng)
    seen = [largest_parts(twins, twins.plan(draw_quantiles(rng))) for _ in range(QUESTIONS)]

    assert max(max(parts) for parts in seen) <= 1


def draw_counts(rng: np.random.Generator) -> Pair:
    """Return up to 40 rows in a few cells."""
    cells = np.flatnonzero(rng.random(CELLS) < 4 / CELLS)
    return cells, rng.integers(1, 12, len(cells))


def change_row(counts: Pair, cell: int, by: int) -> Pair:
    """Return the counts with one row more or less in a cell, but not less than zero."""
    table = np.bincount(counts[0], counts[1], minlength=CELLS).astype(np.int64)
    table[cell] = max(table[cell] + by, 0)
    filled = np.flatnonzero(table)
    return filled, table[filled]


@pytest.mark.parametrize("level", ["0.5", "0.9", "0.25", "0.7"])
@pytest.mark.parametrize("is_grouped", [False, True])
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("granted", [PureLoss(1), PureLoss(40)], ids=["flat", "sharp"])
def test_a_rate_one_fifth_larger_is_detected(
    granted: Loss,
    neighbours: Neighbours,
    level: str,
    rng: np.random.Generator,
    *,
    is_grouped: bool,
) -> None:
    """Of 1,000 changes of one row, none spans more than epsilon, and some span more than 5/6 of it.

    Values are compared for the first 300 changes only. Under replacement, the row moves to another
    cell, or to another group if there are several. Ends have targets closer than usual, so that
    both sides of the targets occur with so few rows.
    """
    quantile = plan_quantile(0, Fraction(level), 1, neighbours, granted, is_grouped=is_grouped)
    row = 2 * quantile.level.denominator
    low, high = (
        replace(end, shift=row, edge=None if end.edge is None else 5 * row)
        for end in (quantile.low, quantile.high)
    )
    quantile = replace(quantile, low=low, high=high)
    parts = [0.0] * 2
    for move in range(MOVES):
        span = partial(spans, quantile=quantile, cells=NUMBERS, of_ends=move >= VALUES)
        first, second = draw_counts(rng), draw_counts(rng)
        one, other = rng.integers(0, CELLS, 2).tolist()
        moved = change_row(first, one, 1)
        spent = span(first, moved)
        if neighbours is Neighbours.REPLACE and is_grouped:
            more = span(second, change_row(second, other, 1))
            spent = [a + b for a, b in zip(spent, more, strict=True)]
        elif neighbours is Neighbours.REPLACE:
            spent = span(moved, change_row(first, other, 1))
        parts = list(map(max, parts, parts_of(spent, quantile)))

    assert max(parts) <= 1
    assert min(parts) > 5 / 6


def test_a_wrong_score_is_detected(rng: np.random.Generator) -> None:
    """A choice calibrated to half the sensitivity of a row spans more than its epsilon."""
    twins = draw_twins(LIMITS[1], Neighbours.ADD_REMOVE, rng)
    plan = twins.plan("SELECT world, MEDIAN(age) AS s FROM visits GROUP BY world")
    (quantile,) = plan.quantiles
    wrong = Exponential(quantile.choice.sensitivity / 2, quantile.choice.epsilon)
    careless = replace(plan, quantiles=(replace(quantile, choice=wrong),))

    assert largest_parts(twins, careless)[0] > 1


def price(loss: BoundedRangeLoss | PureLoss, granted: Loss) -> Fraction:
    """Return the fraction of a grant that a loss takes, in the grant's own measure."""
    match granted:
        case PureLoss(epsilon=epsilon):
            return loss.epsilon / epsilon
        case GaussianLoss(mu_squared=mu_squared):
            return loss.mu_squared / mu_squared
        case RenyiLoss(order=order, divergence=divergence):
            return loss.renyi_above(order) / divergence
        case _:
            raise TypeError(granted)


@pytest.mark.parametrize(("rows", "parts"), [(1, END_FRACTIONS), (3, (MULTI_ROW_END_FRACTION,))])
@pytest.mark.parametrize("granted", LOSSES, ids=str)
def test_three_choices_cost_what_was_granted(
    granted: Loss, rows: int, parts: tuple[Fraction, ...]
) -> None:
    """Value and ends together cost at most the grant, and use nearly all of it."""
    quantile = plan_quantile(
        0, Fraction(9, 10), rows, Neighbours.ADD_REMOVE, granted, is_grouped=True
    )
    spent = [price(loss, granted) for loss in (quantile.loss, quantile.ends.loss)]

    assert 1 - Fraction(1, 10**12) < sum(spent) <= 1
    assert any(math.isclose(1 - spent[0], part, rel_tol=1e-9) for part in parts)


@pytest.mark.parametrize(
    ("budget", "weight"), [(Budget(100), 3), (Budget(100, 1e-6), 9)], ids=["pure", "gaussian"]
)
def test_columns_split_the_cost_by_weight(
    budget: Budget, weight: int, rng: np.random.Generator
) -> None:
    """A count and a median get equal fractions, a 90% quantile more; a repeated one is paid once.

    The fraction of a quantile pays for its value and its interval. The split between these two
    depends on its size, so their sum is compared with the cost of the same quantile alone.
    """
    twins = draw_twins(LIMITS[0], Neighbours.ADD_REMOVE, rng, budget)
    asked = "COUNT(*) AS n, MEDIAN(age) AS m, QUANTILE_CONT(age, 0.9) AS p"
    twice = ", 2 * QUANTILE_CONT(age, 0.5) AS again"
    plan = twins.plan(f"SELECT {asked}{twice} FROM visits")
    alone = twins.plan("SELECT MEDIAN(age) AS m FROM visits")
    granted = twins.curator.ledger.filter.loss_of(Share.floor("1/100"))

    def cost(quantile: Quantile) -> Fraction:
        return sum(
            (price(one, granted) for one in (quantile.loss, quantile.ends.loss)), Fraction(0)
        )

    assert 1 == len(plan.histograms)
    (whole,) = map(cost, alone.quantiles)
    for part, quantile in zip((1, weight), plan.quantiles, strict=True):
        assert math.isclose(cost(quantile), whole * part / (2 + weight), rel_tol=1e-9)


@pytest.mark.parametrize("level", [None, Fraction(0), Fraction(1), Fraction(1, 10**8)])
def test_extreme_levels_are_refused(level: Fraction | None) -> None:
    """Levels 0 and 1, which are single rows, are refused with the range of supported levels."""
    with pytest.raises(UnsupportedQuery, match=r"QUANTILE_CONT\(x, 0\.99\)"):
        read_level(level)


def test_levels_are_exact() -> None:
    """Decimal levels are exact, and one third is too."""
    assert Fraction(9, 10) == read_level(Fraction("0.9"))
    assert Fraction(1, 3) == read_level(Fraction(repr(1 / 3)))


def test_few_values_get_a_cell_each(rng: np.random.Generator) -> None:
    """Integers and declared steps get one cell per value; floats get finer cells."""
    twins = draw_twins(LIMITS[0], Neighbours.ADD_REMOVE, rng)
    plan = twins.plan("SELECT MEDIAN(age) AS a, MEDIAN(price) AS p, MEDIAN(cost) AS c FROM visits")
    counts = [one.cells.count for one in plan.histograms]

    assert [121, 1_001, 2**18] == counts
    assert [True, True, False] == [isinstance(one.cells, GridCells) for one in plan.histograms]
