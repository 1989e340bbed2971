"""Sums over rows from zero become the sums on the plan's grid."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.declare import Kind
from confide.engines.sql.summands import zero_based_grid
from confide.plan import ValueGrid

WHOLE = st.lists(st.integers(-(2**53), 2**53), max_size=20)


@given(values=WHOLE, centre=st.integers(-(2**50), 2**50), rate=st.integers(1, 256))
def test_sums_of_integers_are_centered_exactly(values: list[int], centre: int, rate: int) -> None:
    """A sum of integers becomes exactly the sum of their steps from the center."""
    grid = ValueGrid(Fraction(centre, rate), Fraction(1, rate), -(2**62), 2**62)
    found = zero_based_grid(grid, Kind.INT)
    expected = sum((value - grid.center) / grid.step for value in values)

    assert Fraction(1) == found.grid.step
    assert expected == found.center(sum(values), len(values))


@given(steps=st.lists(st.integers(0, 2**40), max_size=20), shift=st.integers(-(2**50), 2**50))
def test_sums_of_double_steps_are_centered_exactly(steps: list[int], shift: int) -> None:
    """A sum of steps from zero becomes that of steps from the center."""
    step = Fraction(1, 2**31)
    grid = ValueGrid(shift * step, step, -shift, 2**40 - shift)
    found = zero_based_grid(grid, Kind.FLOAT)

    assert (0, 2**40) == (found.grid.low, found.grid.high)
    assert sum(step - shift for step in steps) == found.center(sum(steps), len(steps))


@pytest.mark.parametrize(
    ("grid", "kind"),
    [
        (ValueGrid(Fraction(1, 3), Fraction(1, 2), -9, 9), Kind.FLOAT),
        (ValueGrid(Fraction(2**53), Fraction(1, 2), -9, 9), Kind.FLOAT),
        (ValueGrid(Fraction(1), Fraction(1, 1000), -9, 9), Kind.INT),
        (ValueGrid(Fraction(1), Fraction(1), -9, 9), Kind.BOOL),
    ],
    ids=["between steps", "past doubles", "too fine", "no number"],
)
def test_other_grids_stay_as_they_are(grid: ValueGrid, kind: Kind) -> None:
    """If steps from zero are not integers or not exact, rows are summed from the center."""
    found = zero_based_grid(grid, kind)

    assert (grid, 1, 0) == (found.grid, found.factor, found.shift)
