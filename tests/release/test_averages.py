"""Averages of rows in rank: computed as their law says, and interlaced for neighbours.

What privacy rests on is that one row more makes the number of averages below any cell greater by 0
or 1. It is seen on all neighbours of random rows, and rules that look alike are shown to break it.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from confide.engines.sealed import Pair
from confide.loss import PureLoss
from confide.mechanisms import Neighbours
from confide.plan import Cells, Quantile, Range
from confide.plan.cells import cells_for
from confide.plan.quantiles import plan_quantile
from confide.release.averages import average_rows
from confide.release.quantiles import Ranks, score_values
from support.averages import average_directly, average_pair
from support.entropy import SeededEntropy

TABLES: Final = 200
MORE: Final = 4
COUNT: Final = 128

Integers = NDArray[np.int64]
Rules = Callable[[list[Integers]], list[Integers]]


def make_cells(count: int) -> Cells:
    cells = cells_for(Range(0, count - 1), Fraction(1), 1, is_whole=True)
    assert cells is not None
    return cells


@pytest.fixture
def rng(entropy: SeededEntropy) -> np.random.Generator:
    """Return random choices that depend on the run's seed."""
    return np.random.default_rng(int(entropy.words(1)[0]))


def draw_rows(rng: np.random.Generator, count: int) -> Integers:
    """Return the cells of up to 14 rows, in order: spread out, side by side or in heaps."""
    size = int(rng.integers(0, 15))
    spread = int(rng.choice([count, 6, 2]))
    first = int(rng.integers(0, count - spread + 1))
    return np.sort(first + rng.integers(0, spread, size))


def as_pair(x: Integers) -> Pair:
    cells, rows = np.unique(x, return_counts=True)
    return cells, rows


@pytest.mark.parametrize("count", [31, 40, COUNT, 1_000])
@pytest.mark.parametrize("beside", [0, 1, 2, 5, 8])
def test_rows_move_where_the_law_says(beside: int, count: int, rng: np.random.Generator) -> None:
    """Several groups at once, with few rows or many in a cell or none, move as one by one."""
    groups = []
    for _ in range(TABLES):
        cells, rows = as_pair(draw_rows(rng, count))
        groups.append((cells, rows * rng.choice([1, 1, 3, 40])))
    found = average_rows(groups, make_cells(count), beside)
    for one, (cells, rows) in zip(groups, found, strict=True):
        expected = average_pair(one, beside, count)

        assert (expected[0].tolist(), expected[1].tolist()) == (cells.tolist(), rows.tolist())


def test_many_full_cells_side_by_side_stay(rng: np.random.Generator) -> None:
    """Where cells next to each other hold many rows each nothing moves, but beside them it does."""
    cells = np.concatenate([np.arange(20, 60), [75, 90], np.arange(91, 100)])
    rows = rng.integers(10, 10_000, len(cells))
    (found,) = average_rows([(cells, rows)], make_cells(COUNT), 4)

    assert rows[1:39].tolist() == [int(found[1][found[0] == cell][0]) for cell in range(21, 59)]
    assert {*range(60, 75)} & {*found[0].tolist()}
    assert rows.sum() == found[1].sum()


def count_below(y: Integers, count: int) -> Integers:
    """Return how many rows lie before each cell, and before the end."""
    return np.searchsorted(np.sort(y), np.arange(count + 1))


def move_most(rule: Rules, rng: np.random.Generator, count: int) -> set[int]:
    """Return by how many the numbers below cells grow, over one row more in any of some cells."""
    tables = [draw_rows(rng, count) for _ in range(TABLES)]
    more = [[*x, int(rng.integers(0, count))] for x in tables for _ in range(MORE)]
    old, new = rule(tables), rule([np.sort(x) for x in more])
    seen: set[int] = set()
    for place, y in enumerate(old):
        below = count_below(y, count)
        for other in new[MORE * place : MORE * (place + 1)]:
            seen |= {*np.unique(count_below(other, count) - below).tolist()}
    return seen


def each(rule: Callable[[Integers], Integers]) -> Rules:
    """Return a rule for several tables."""
    return lambda tables: [rule(x) if len(x) else x for x in tables]


@pytest.mark.parametrize("count", [40, COUNT, 1_000])
@pytest.mark.parametrize("beside", [1, 2, 5, 8])
def test_one_row_more_makes_numbers_below_greater_by_at_most_one(
    beside: int, count: int, rng: np.random.Generator
) -> None:
    """Whichever row is added to 200 tables, 0 or 1 average more lies below each cell."""

    def rule(tables: list[Integers]) -> list[Integers]:
        found = average_rows([as_pair(x) for x in tables], make_cells(count), beside)
        return [np.repeat(cells, rows) for cells, rows in found]

    assert {0, 1} == move_most(rule, rng, count)


def average(x: Integers, weights: list[int], low: int, high: int) -> Integers:
    """Return weighted means in rank, with rows ``low`` and ``high`` beyond those that are there."""
    beside = len(weights) // 2
    padded = np.concatenate([np.full(beside, low), x, np.full(beside, high)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, len(weights))
    means: Integers = (windows @ np.array(weights)) // sum(weights)
    return means


def follow_rows(x: Integers) -> Integers:
    """Average over a window that grows with the number of rows."""
    return average_directly(x, len(x) // 4, COUNT) if len(x) >= 4 else x


def shrink_windows(x: Integers) -> Integers:
    """Average over windows that shrink near the first and the last row."""
    reach = np.minimum(np.minimum(np.arange(len(x)), np.arange(len(x))[::-1]), 2)
    means = [x[j - r : j + r + 1].mean() for j, r in enumerate(reach.tolist())]
    return np.floor(means).astype(np.int64)


def repeat_ends(x: Integers) -> Integers:
    """Average as if the first and the last row stood beyond themselves again."""
    return average(x, [1] * 5, x[0], x[-1])


def average_values(x: Integers) -> Integers:
    """Average each row with those near it in value, however many these are."""
    means = [x[np.abs(x - one) <= 8].mean() for one in x.tolist()]
    return np.floor(means).astype(np.int64)


def sharpen(x: Integers) -> Integers:
    """Weigh neighbours below zero."""
    return np.clip(average(x, [-1, 3, -1], 0, COUNT - 1), 0, COUNT - 1)


WRONG: Final = (follow_rows, shrink_windows, repeat_ends, average_values, sharpen)


@pytest.mark.parametrize("rule", WRONG, ids=lambda rule: rule.__name__)
def test_rules_that_do_not_interlace_would_be_caught(
    rule: Callable[[Integers], Integers], rng: np.random.Generator
) -> None:
    """Five rules that look alike move some number below a cell by -1, or by 2 or more."""
    assert not move_most(each(rule), rng, COUNT) <= {0, 1}


def test_weights_that_fall_off_interlace_too(rng: np.random.Generator) -> None:
    """The test does not catch what is right: other weights of at least zero are as good."""
    rule = each(lambda x: average(x, [1, 2, 5, 2, 1], 0, COUNT - 1))

    assert {0, 1} == move_most(rule, rng, COUNT)


def test_far_rows_are_taken_to_lie_near(rng: np.random.Generator) -> None:
    """Where few rows are, the ends of the range pull none further than half of what is near."""
    ((cells, _),) = average_rows([(np.array([500]), np.array([3]))], make_cells(1_000), 8)

    assert cells.min() >= 500 - 1_000 // 32 / 2
    assert cells.max() <= 500 + 1_000 // 32 / 2
    assert len(cells) == 3


def expect_square(counts: Pair, exact: float, quantile: Quantile, count: int) -> float:
    """Return the expected square of how many cells a value is off, by the law of all stretches."""
    ranks = Ranks.of(counts, make_cells(count), 2 * quantile.level.denominator)
    weights = np.exp(float(quantile.choice.rate) * score_values(ranks, quantile))
    cubes = np.diff((ranks.breaks - exact) ** 3) / 3
    return float((weights * cubes).sum() / (weights * np.diff(ranks.breaks)).sum())


@pytest.mark.parametrize("level", ["0.5", "0.9"])
def test_averages_bring_values_nearer(level: str, rng: np.random.Generator) -> None:
    """Over 200 tables of 400 rows the squares of errors fall by a twentieth or more, by their law.

    They fall by about a seventh and a tenth, of which the mean over tables varies by a hundredth.
    """
    granted, neighbours = PureLoss(1), Neighbours.ADD_REMOVE
    quantile = plan_quantile(0, Fraction(level), 1, neighbours, granted, is_grouped=False)
    squares = np.zeros(2)
    for _ in range(200):
        x = np.sort((900 * rng.beta(2.0, 3.0, 400) + 50 + rng.random(400)).astype(np.int64))
        evened = average_rows([as_pair(x)], make_cells(1_000), quantile.beside)
        squares += [
            expect_square(counts, float(np.quantile(x, float(level))), quantile, 1_000)
            for counts in (as_pair(x), *evened)
        ]

    assert squares[1] < 0.95 * squares[0]
