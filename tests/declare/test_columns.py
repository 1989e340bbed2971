"""Columns are valid once constructed; the error for any other names the argument."""

from collections.abc import Callable
from datetime import date, datetime
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.declare import Bool, Category, Column, Date, Decimal, Float, Int, Kind, Text
from confide.declare.columns import GRID_BITS, MAX_INT64, finest_step
from confide.errors import BadDeclaration


def test_bounds_are_kept_as_written() -> None:
    """Integer bounds stay integers, and a float means the decimal that it prints as."""
    assert (0, 120) == (Int(0, 120).low, Int(0, 120).high)
    assert Fraction(1, 10) == Float(0.1, 1).low
    assert Fraction(1, 100) == Float(0, 1, step=0.01).step
    assert date(2020, 1, 31) == Date("2020-01-31", date(2021, 1, 1)).low


def test_equal_bounds_are_a_constant() -> None:
    """low = high is allowed for every bounded type."""
    assert Int(3, 3).low == Int(3, 3).high
    assert Fraction(1) == Float(2, 2).step
    assert Date("2020-01-01", "2020-01-01").low == Date("2020-01-01", "2020-01-01").high


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Int(1, 0), "`low` must be at most `high`; got low=1, high=0"),
        (lambda: Int(0.5, 1), "`low` must be an integer"),  # type: ignore[arg-type]
        (lambda: Int(0, True), "`high` must be an integer"),
        (lambda: Int(0, MAX_INT64 + 1), "`high` must be an integer"),
        (lambda: Float(1, 0.5), "`low` must be at most `high`"),
        (lambda: Float(float("nan"), 1), "`low` must be a finite number"),
        (lambda: Float(0, float("inf")), "`high` must be a finite number"),
        (lambda: Float("x", 1), "`low` must be a finite number; got 'x'"),
        (lambda: Float(0, 1, step=0), "`step` must be a finite number greater than 0"),
        (lambda: Float(0, 1, step=1e-17), "`step` must be at least"),
        (lambda: Float(0, 1, step=1.5), "at most the range; got 1.5"),
        (lambda: Float(0, 5e-324, step=5e-324), "`step` must be at least 1e-300"),
        (lambda: Float(0, "1e309"), "a double can represent"),
        (lambda: Float("-1e309", 0), "a double can represent"),
        (lambda: Category([]), "at least one value"),
        (lambda: Category("ABC"), "strings or integers; got 'ABC'"),
        (lambda: Category([1, "A"]), "either strings or integers"),
        (lambda: Category([True, False]), "either strings or integers"),
        (lambda: Category([0.5]), "either strings or integers"),  # type: ignore[list-item]
        (lambda: Category([2**53]), "must be an integer from -9007199254740991 to"),
        (lambda: Category(["A", "A"]), "must differ"),
        (lambda: Category([1, np.int64(1)]), "must differ"),  # type: ignore[list-item]
        (lambda: Date("2021-01-01", "2020-01-01"), "`low` must be at most `high`"),
        (lambda: Date("2021-02-30", "2022-01-01"), "`low` must be a date"),
        (lambda: Date("2021-01-01", datetime(2022, 1, 1)), "`high` must be a date"),  # noqa: DTZ001
        (lambda: Date(2021, "2022-01-01"), "`low` must be a date"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_column_is_refused_by_name(make: Callable[[], Any], said: str) -> None:
    """Impossible bounds, steps, or values raise an error that names the argument."""
    with pytest.raises(BadDeclaration) as caught:
        make()

    assert said in str(caught.value)


def test_columns_cannot_be_changed() -> None:
    """Assigning to a bound of a column fails."""
    with pytest.raises(AttributeError):
        Int(0, 1).high = 5  # type: ignore[misc]


def test_each_type_has_its_kind() -> None:
    """Declarations and queries have the same names for types."""
    day = Date("2020-01-01", "2021-01-01")
    columns: list[Column] = [Int(0, 1), Float(0, 1), Category(["A"]), Text(), Bool(), day]

    assert [Kind.INT, Kind.FLOAT, Kind.TEXT, Kind.TEXT, Kind.BOOL, Kind.DATE] == [
        column.kind for column in columns
    ]


def test_a_category_has_the_kind_of_its_values() -> None:
    """Integers of any type are ints, and strings of digits stay strings."""
    codes = Category([np.int64(3), 1, None])  # type: ignore[list-item]

    assert (3, 1, None) == codes.values
    assert {int, type(None)} == {type(value) for value in codes.values}
    assert [Kind.INT, Kind.TEXT, Kind.TEXT] == [
        column.kind for column in (codes, Category(["1", "3"]), Category([None]))
    ]


@given(low=st.fractions(), width=st.fractions(min_value=Fraction(1, 10**12)))
def test_the_step_is_fine_and_a_power_of_two(low: Fraction, width: Fraction) -> None:
    """Every range contains at most 2^40 steps and more than 2^39."""
    step = finest_step(low, low + width)
    top, bottom = step.numerator, step.denominator

    assert 1 in (top, bottom)
    assert 0 == (top * bottom) & (top * bottom - 1)
    assert 2 ** (GRID_BITS - 1) < width / step <= 2**GRID_BITS


def test_a_decimal_has_the_step_of_its_last_digit() -> None:
    """A decimal is a float whose step is one unit of its last digit; other scales are refused."""
    assert Float(0, 100, step=Fraction(1, 100)) == Decimal(0, 100, 2)
    for scale in (-1, 16, 1.5):
        with pytest.raises(BadDeclaration, match="scale"):
            Decimal(0, 1, cast(Any, scale))
