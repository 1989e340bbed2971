"""How far one unit can move the law of a chosen quantile: computed on databases, not believed.

Random questions are asked of 200 pairs of neighbouring databases at once (support/people.py), from
plan to engine. On both sides the score of every cell is computed for each of the three choices, for
the value from averaged rows; where scores move by amounts between x and y, log-probabilities span
rate * (y - x), and what they span in the groups of a world adds up. The two ends are chosen on
either side of a value: whichever cell that is, what both span is added.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from confide.curator import Curator
from confide.declare import Budget, Catalog
from confide.engines import Counts, DuckDB, open_counts
from confide.engines.sealed import Pair
from confide.errors import UnsupportedQuery
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
from confide.plan import EvenCells, Plan, Quantile
from confide.plan.quantiles import plan_quantile, read_level
from confide.query.sql import read_sql
from confide.query.tree import Value
from support.averages import average_pair
from support.entropy import SeededEntropy
from support.grammar import draw_quantiles
from support.people import Limits, change_one, declare_worlds, draw_worlds
from support.reach import WORLDS

LIMITS: Final = (Limits(1, 1, unique=True), Limits(3, 2), Limits(6, 1))
QUESTIONS: Final = 5
CELLS: Final = 64
SALT: Final = "grain"
NOTHING: Final = (np.empty(0, np.int64), np.empty(0, np.int64))
LOSSES: Final = (PureLoss(1), GaussianLoss(Fraction(1, 3)), RenyiLoss(9, Fraction(1, 2)))

Integers = NDArray[np.int64]
Rule = Callable[[Pair, int, int], Pair]


@dataclass(frozen=True, slots=True)
class Side:
    """One of two neighbouring databases."""

    engine: DuckDB

    def read(self, plan: Plan) -> tuple[Counts, ...]:
        """Return the exact counts of a question."""
        return open_counts(self.engine.run(plan, Hold(0, Share.floor("1/100"))))


@dataclass(frozen=True, slots=True)
class Twins:
    """Neighbouring databases, and a curator who plans for both."""

    curator: Curator
    before: Side
    after: Side

    def plan(self, text: str) -> Plan:
        """Return how the curator would answer."""
        return self.curator._plan(read_sql(text, self.curator._names), Share.floor("1/100"))


def draw_twins(limits: Limits, neighbours: Neighbours, rng: np.random.Generator) -> Twins:
    people = draw_worlds(rng, WORLDS, limits)
    changed = change_one(people, neighbours, limits, rng)
    tables = [declare_worlds(one, limits, rng) for one in (people, changed)]
    sides = [Side(DuckDB(Catalog([table]), salt=SALT)) for table in tables]
    budget = Budget(100, *([1e-6] if rng.random() < 0.5 else []))
    return Twins(Curator([tables[0]], budget=budget, neighbours=neighbours), *sides)


def rank_cells(counts: Pair, where: Integers, row: int) -> tuple[Integers, Integers]:
    """Return the ranks at which some cells begin and end."""
    filled, rows = counts
    summed = row * np.concatenate([np.zeros(1, np.int64), np.cumsum(rows)])
    first, last = (np.searchsorted(filled, where, side=side) for side in ("left", "right"))
    return summed[first], summed[last]


def score_cells(old: Pair, evened: Pair, quantile: Quantile, where: Integers) -> list[Integers]:
    """Return the score of the cells that begin at each break, as the law of `Quantile` says."""
    rows, row = int(old[1].sum()), 2 * quantile.level.denominator
    first, last = rank_cells(old, where, row)
    total = row * rows
    rank = 2 * quantile.level.numerator * (rows - 1) + quantile.level.denominator
    low, high = rank - quantile.low.shift, rank + quantile.high.shift
    low = low if quantile.low.edge is None else min(low, total - quantile.low.edge)
    high = high if quantile.high.edge is None else max(high, quantile.high.edge)
    inner = [
        0 if end.is_flat else gap
        for end, gap in ((quantile.low, first - low), (quantile.high, high - last))
    ]
    begin, end = rank_cells(evened, where, row)
    gaps = [np.maximum(begin - rank, rank - end)]
    gaps += [np.maximum(low - last, inner[0]), np.maximum(first - high, inner[1])]
    return [-np.maximum(gap, 0) for gap in gaps]


def spans(
    old: Pair, new: Pair, quantile: Quantile, count: int, even: Rule = average_pair
) -> list[Fraction]:
    """Return what log-probabilities span from one side to the other, of the value and the ends."""
    evened = [even(one, quantile.beside, count) for one in (old, new)]
    filled = np.concatenate([one[0] for one in (old, new, *evened)])
    where = np.unique([0, count - 1, *filled, *(filled + 1)])
    where = where[where < count]
    pairs = zip(
        score_cells(old, evened[0], quantile, where),
        score_cells(new, evened[1], quantile, where),
        strict=True,
    )
    value, low, high = (after - before for before, after in pairs)
    spread = np.maximum.accumulate(low) - np.minimum.accumulate(low)
    others = np.maximum.accumulate(high[::-1]) - np.minimum.accumulate(high[::-1])
    both = int((spread + others[::-1]).max())
    return [quantile.choice.rate * int(np.ptp(value)), quantile.ends.rate * both]


def compare(twins: Twins, plan: Plan) -> dict[tuple[Value, int], list[Fraction]]:
    """Return for each world and quantile what its groups span, for the value and the ends."""
    before, after = twins.before.read(plan), twins.after.read(plan)
    found: dict[tuple[Value, int], list[Fraction]] = {}
    for place, quantile in enumerate(plan.quantiles):
        old, new = before[quantile.histogram], after[quantile.histogram]
        count = plan.histograms[quantile.histogram].cells.count
        for group in old.keys() | new.keys():
            one = spans(old.get(group, NOTHING), new.get(group, NOTHING), quantile, count)
            so_far = found.get((group[0], place), [Fraction(0)] * 2)
            found[group[0], place] = [a + b for a, b in zip(so_far, one, strict=True)]
    return found


def largest_parts(twins: Twins, plan: Plan) -> list[Fraction]:
    """Return for value and ends the greatest span of a world, as a part of what was planned."""
    parts = [Fraction(0)] * 2
    for (_, place), spent in compare(twins, plan).items():
        quantile = plan.quantiles[place]
        planned = [quantile.choice.epsilon, quantile.ends.epsilon]
        ratios = [one / limit for one, limit in zip(spent, planned, strict=True)]
        parts = list(map(max, parts, ratios))
    return parts


@pytest.fixture
def rng(entropy: SeededEntropy) -> np.random.Generator:
    """Return random choices that depend on the run's seed."""
    return np.random.default_rng(int(entropy.words(1)[0]))


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_no_unit_moves_a_choice_further_than_planned(
    limits: Limits, neighbours: Neighbours, rng: np.random.Generator
) -> None:
    """In 1,000 pairs of neighbours for each limit no choice spans more than its epsilon."""
    twins = draw_twins(limits, neighbours, rng)
    seen = [largest_parts(twins, twins.plan(draw_quantiles(rng))) for _ in range(QUESTIONS)]

    assert max(max(parts) for parts in seen) <= 1


def draw_counts(rng: np.random.Generator) -> Pair:
    """Return up to 40 rows in a few cells."""
    cells = np.flatnonzero(rng.random(CELLS) < 4 / CELLS)
    return cells, rng.integers(1, 12, len(cells))


def change_row(counts: Pair, cell: int, by: int) -> Pair:
    """Return the counts with a row more, or one less, in a cell; a row that is not there stays."""
    table = np.bincount(counts[0], counts[1], minlength=CELLS).astype(np.int64)
    table[cell] = max(table[cell] + by, 0)
    filled = np.flatnonzero(table)
    return filled, table[filled]


@pytest.mark.parametrize("level", ["0.5", "0.9", "0.25", "0.7"])
@pytest.mark.parametrize("is_grouped", [False, True])
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("granted", [PureLoss(1), PureLoss(40)], ids=["flat", "sharp"])
def test_a_rate_a_fifth_larger_would_be_caught(
    granted: Loss,
    neighbours: Neighbours,
    level: str,
    rng: np.random.Generator,
    *,
    is_grouped: bool,
) -> None:
    """Of 1,000 moves of one row none spans more than epsilon, and some more than 5/6 of it.

    Under replacement the row moves to another cell, or to another group if there are any. Ends
    aim nearer than they would, so that both sides of their aims are among so few rows.
    """
    quantile = plan_quantile(0, Fraction(level), 1, neighbours, granted, is_grouped=is_grouped)
    row = 2 * quantile.level.denominator
    low, high = (
        replace(end, shift=row, edge=None if end.edge is None else 5 * row)
        for end in (quantile.low, quantile.high)
    )
    quantile = replace(quantile, low=low, high=high)
    planned = [quantile.choice.epsilon, quantile.ends.epsilon]
    parts = [Fraction(0)] * 2
    for _ in range(1_000):
        first, second = draw_counts(rng), draw_counts(rng)
        one, other = rng.integers(0, CELLS, 2).tolist()
        moved = change_row(first, one, 1)
        spent = spans(first, moved, quantile, CELLS)
        if neighbours is Neighbours.REPLACE and is_grouped:
            more = spans(second, change_row(second, other, 1), quantile, CELLS)
            spent = [a + b for a, b in zip(spent, more, strict=True)]
        elif neighbours is Neighbours.REPLACE:
            spent = spans(moved, change_row(first, other, 1), quantile, CELLS)
        parts = list(map(max, parts, [a / b for a, b in zip(spent, planned, strict=True)]))

    assert max(parts) <= 1
    assert min(parts) > Fraction(5, 6)


def test_a_wrong_score_would_be_caught(rng: np.random.Generator) -> None:
    """A choice calibrated to half of what a row can do spans more than its epsilon."""
    twins = draw_twins(LIMITS[1], Neighbours.ADD_REMOVE, rng)
    plan = twins.plan("SELECT world, MEDIAN(age) AS s FROM visits GROUP BY world")
    (quantile,) = plan.quantiles
    wrong = Exponential(quantile.choice.sensitivity / 2, quantile.choice.epsilon)
    careless = replace(plan, quantiles=(replace(quantile, choice=wrong),))

    assert largest_parts(twins, careless)[0] > 1


def follow_rows(counts: Pair, _: int, count: int) -> Pair:
    """Average rows with more neighbours where there are more of them."""
    return average_pair(counts, int(counts[1].sum()) // 5, count)


@pytest.mark.parametrize(("even", "is_right"), [(average_pair, True), (follow_rows, False)])
def test_averages_over_a_window_that_grows_would_be_caught(
    even: Rule, rng: np.random.Generator, *, is_right: bool
) -> None:
    """Over a fixed number of neighbours the value spans at most epsilon, else more than that."""
    granted, neighbours = PureLoss(1), Neighbours.ADD_REMOVE
    quantile = plan_quantile(0, Fraction(1, 2), 1, neighbours, granted, is_grouped=False)
    spent = []
    for _ in range(400):
        counts = draw_counts(rng)
        moved = change_row(counts, int(rng.integers(0, CELLS)), 1)
        spent.append(spans(counts, moved, quantile, CELLS, even)[0])

    assert quantile.beside == 2
    assert (max(spent) <= quantile.choice.epsilon) is is_right


@pytest.mark.parametrize(
    ("epsilon", "rows", "beside"), [("0.01", 1, 8), (1, 1, 2), (1, 3, 8), (2, 1, 1), (3, 1, 0)]
)
def test_rows_are_averaged_over_about_what_noise_covers(
    epsilon: str | int, rows: int, beside: int
) -> None:
    """The fewer rows the noise covers the fewer are averaged, and none where it covers one."""
    granted, neighbours = PureLoss(Fraction(epsilon)), Neighbours.ADD_REMOVE
    quantile = plan_quantile(0, Fraction(1, 2), rows, neighbours, granted, is_grouped=False)

    assert beside == quantile.beside


def price(loss: BoundedRangeLoss, granted: Loss) -> Fraction:
    """Return the part of a grant that a loss takes, in the grant's own currency."""
    match granted:
        case PureLoss(epsilon=epsilon):
            return loss.epsilon / epsilon
        case GaussianLoss(mu_squared=mu_squared):
            return loss.mu_squared / mu_squared
        case RenyiLoss(order=order, divergence=divergence):
            return loss.renyi_above(order) / divergence
        case _:
            raise TypeError(granted)


@pytest.mark.parametrize("granted", LOSSES, ids=str)
def test_three_choices_cost_what_was_granted(granted: Loss) -> None:
    """Value and ends together cost no more than the grant, and use nearly all of it."""
    quantile = plan_quantile(0, Fraction(9, 10), 3, Neighbours.ADD_REMOVE, granted, is_grouped=True)
    parts = [price(choice.loss, granted) for choice in (quantile.choice, quantile.ends)]

    assert 1 - Fraction(1, 10**12) < sum(parts) <= 1
    assert Fraction(9, 10) >= parts[0] > Fraction(9, 10) - Fraction(1, 10**12)


def test_statistics_share_the_cost_by_their_number(rng: np.random.Generator) -> None:
    """A count and two quantiles take a third each; the same quantile twice is paid once."""
    twins = draw_twins(LIMITS[0], Neighbours.ADD_REMOVE, rng)
    asked = "COUNT(*) AS n, MEDIAN(age) AS m, QUANTILE_CONT(age, 0.9) AS p"
    twice = ", 2 * QUANTILE_CONT(age, 0.5) AS again"
    plan = twins.plan(f"SELECT {asked}{twice} FROM visits")
    alone = twins.plan("SELECT MEDIAN(age) AS m FROM visits")
    granted = twins.curator.ledger.filter.loss_of(Share.floor("1/100"))

    assert 2 == len(plan.quantiles)
    assert 1 == len(plan.histograms)
    whole, third = (one.quantiles[0].choice.loss for one in (alone, plan))
    assert math.isclose(price(third, granted), price(whole, granted) / 3, rel_tol=1e-9)


@pytest.mark.parametrize("level", [None, Fraction(0), Fraction(1), Fraction(1, 10**8)])
def test_the_ends_of_all_levels_are_refused(level: Fraction | None) -> None:
    """Levels 0 and 1 are single rows: the message says which levels can be asked."""
    with pytest.raises(UnsupportedQuery, match=r"QUANTILE_CONT\(x, 0\.99\)"):
        read_level(level)


def test_levels_keep_their_meaning() -> None:
    """Decimal levels are exact; a third stays a third."""
    assert Fraction(9, 10) == read_level(Fraction("0.9"))
    assert Fraction(1, 3) == read_level(Fraction(repr(1 / 3)))


def test_few_values_get_a_cell_each(rng: np.random.Generator) -> None:
    """Whole numbers and declared steps are counted by value, real numbers by finer cells."""
    twins = draw_twins(LIMITS[0], Neighbours.ADD_REMOVE, rng)
    plan = twins.plan("SELECT MEDIAN(age) AS a, MEDIAN(price) AS p, MEDIAN(cost) AS c FROM visits")
    counts = [one.cells.count for one in plan.histograms]

    assert [121, 1_001, 2**18] == counts
    assert [True, True, False] == [isinstance(one.cells, EvenCells) for one in plan.histograms]
