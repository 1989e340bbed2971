"""Sensitivities match those of every pair of small databases."""

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest

from confide.mechanisms import Laplace, Neighbours, histogram_sensitivity, sum_sensitivity

Unit = tuple[int, ...]
Database = tuple[Unit, ...]
BINS = 4


def units(cells: int, rows: int) -> list[Unit]:
    """Return all possible units: up to ``rows`` rows in each of up to ``cells`` bins."""
    return [
        unit
        for unit in product(range(rows + 1), repeat=BINS)
        if sum(count > 0 for count in unit) <= cells
    ]


def pairs(neighbours: Neighbours, each: list[Unit]) -> Iterator[tuple[Database, Database]]:
    """Yield all neighboring databases with at most one unit besides those that differ."""
    for rest in [(), *combinations(each[1:6], 1)]:
        if neighbours is Neighbours.REPLACE:
            for one, other in combinations_with_replacement(each, 2):
                yield (*rest, one), (*rest, other)
        else:
            for one in each:
                yield (*rest, one), rest


def histogram(database: Database) -> list[int]:
    return [sum(unit[i] for unit in database) for i in range(BINS)]


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize(("cells", "rows"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_histogram_sensitivity_is_exact(neighbours: Neighbours, cells: int, rows: int) -> None:
    """Over small neighboring databases, the greatest changes are those stated, in every norm."""
    moves = [
        [abs(a - b) for a, b in zip(histogram(one), histogram(other), strict=True)]
        for one, other in pairs(neighbours, units(cells, rows))
    ]
    stated = histogram_sensitivity(neighbours, cells=cells, rows=rows)

    assert stated.l0 == max(sum(step > 0 for step in move) for move in moves)
    assert stated.l1 == max(sum(move) for move in moves)
    assert stated.l2_squared == max(sum(step**2 for step in move) for move in moves)
    assert stated.largest == max(max(move) for move in moves)


@pytest.mark.parametrize(("neighbours", "scale"), [("add-remove", 1), ("replace", 2)])
@pytest.mark.parametrize("bins", [10, 1_000, 100_000])
def test_the_noise_of_a_histogram_and_its_largest_error(
    neighbours: str, scale: int, bins: int
) -> None:
    """Each count gets the same noise for any number of bins; the largest error grows like ln d."""
    mechanism = Laplace(int(histogram_sensitivity(neighbours).l1), 1)
    beyond = np.array([float(mechanism.noise.tail(far)) for far in range(1, 60 * scale)])
    largest = float((1 - (1 - beyond) ** bins).sum())
    _, all_but_one = mechanism.interval(1 - Fraction(1, bins))

    assert scale == mechanism.noise.exact_scale
    assert scale * math.log(bins) <= largest <= scale * (math.log(bins) + 1)
    assert scale * math.log(bins) - 1 <= all_but_one <= scale * (math.log(bins) + 1)


def test_a_histogram_moves_by_one_or_two() -> None:
    """With one row per unit, l1 is 1 under add-remove and 2 under replace."""
    assert 1 == histogram_sensitivity("add-remove").l1
    assert 2 == histogram_sensitivity("replace").l1


@pytest.mark.parametrize(("low", "high"), [(0, 5), (-3, 2), (2, 4), (-5, -1), (3, 3)])
def test_sum_sensitivity_is_exact(low: int, high: int) -> None:
    """Over all values, the greatest changes of a sum are those stated."""
    values = range(low, high + 1)

    assert sum_sensitivity("add-remove", low, high) == max(abs(v) for v in values)
    assert sum_sensitivity("replace", low, high) == max(abs(v - w) for v in values for w in values)


def test_bounds_may_be_fractions() -> None:
    """Bounds are exact: 0.1 is one tenth."""
    assert Fraction(3, 10) == sum_sensitivity("replace", -0.1, "0.2")
