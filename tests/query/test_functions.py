"""The closed set of functions: each has a type rule, a spelling in SQL, and arguments."""

import pytest

from confide.aggregates import AGGREGATES, AggregateFunction, make_aggregate
from confide.declare import Kind
from confide.errors import UnsupportedQuery
from confide.expressions.construct import make_call, make_literal
from confide.expressions.functions import RULES, Function, result_kind
from confide.expressions.tree import Column, Expression
from confide.query.sql.functions import DIRECT_FUNCTIONS
from support.tree import ROOT

F = Function
INT, FLOAT, TEXT, BOOL, DATE = Kind.INT, Kind.FLOAT, Kind.TEXT, Kind.BOOL, Kind.DATE

FITTING: list[tuple[Function, list[Kind | None], Kind]] = [
    (F.ADD, [INT, INT], INT),
    (F.ADD, [INT, FLOAT], FLOAT),
    (F.SUBTRACT, [FLOAT, None], FLOAT),
    (F.MULTIPLY, [None, None], INT),
    (F.DIVIDE, [INT, INT], FLOAT),
    (F.MODULO, [INT, INT], INT),
    (F.NEGATE, [FLOAT], FLOAT),
    (F.EQUAL, [DATE, DATE], BOOL),
    (F.UNEQUAL, [TEXT, None], BOOL),
    (F.LESS, [INT, FLOAT], BOOL),
    (F.LESS_EQUAL, [BOOL, BOOL], BOOL),
    (F.GREATER, [TEXT, TEXT], BOOL),
    (F.GREATER_EQUAL, [None, None], BOOL),
    (F.AND, [BOOL, BOOL, None], BOOL),
    (F.OR, [BOOL, BOOL], BOOL),
    (F.NOT, [BOOL], BOOL),
    (F.IS_NULL, [DATE], BOOL),
    (F.IN, [INT, INT, FLOAT, None], BOOL),
    (F.LIKE, [TEXT, TEXT], BOOL),
    (F.CASE, [BOOL, INT, BOOL, FLOAT, None], FLOAT),
    (F.COALESCE, [None, TEXT], TEXT),
    (F.ABS, [INT], INT),
    (F.FLOOR, [FLOAT], INT),
    (F.CEIL, [FLOAT], INT),
    (F.ROUND, [FLOAT, INT], FLOAT),
    (F.ROUND, [INT], INT),
    (F.LEAST, [INT, FLOAT, INT], FLOAT),
    (F.GREATEST, [INT], INT),
    (F.LN, [INT], FLOAT),
    (F.EXP, [FLOAT], FLOAT),
    (F.SQRT, [INT], FLOAT),
    (F.POWER, [INT, FLOAT], FLOAT),
    (F.LOG2, [INT], FLOAT),
    (F.LOG10, [INT], FLOAT),
    (F.SIN, [FLOAT], FLOAT),
    (F.COS, [FLOAT], FLOAT),
    (F.TAN, [FLOAT], FLOAT),
    (F.ASIN, [FLOAT], FLOAT),
    (F.ACOS, [FLOAT], FLOAT),
    (F.ATAN, [FLOAT], FLOAT),
    (F.ATAN2, [FLOAT, INT], FLOAT),
    (F.SIGN, [FLOAT], INT),
    (F.YEAR, [DATE], INT),
    (F.QUARTER, [DATE], INT),
    (F.MONTH, [DATE], INT),
    (F.DAY, [DATE], INT),
    (F.WEEKDAY, [None], INT),
    (F.TRUNC_YEAR, [DATE], DATE),
    (F.TRUNC_QUARTER, [DATE], DATE),
    (F.TRUNC_MONTH, [DATE], DATE),
    (F.WEEK, [DATE], INT),
    (F.DAY_OF_YEAR, [DATE], INT),
    (F.ISOYEAR, [DATE], INT),
    (F.TRUNC_WEEK, [DATE], DATE),
    (F.DAYS_BETWEEN, [DATE, DATE], INT),
    (F.ADD_DAYS, [DATE, INT], DATE),
    (F.ADD_MONTHS, [DATE, INT], DATE),
    (F.STRFTIME, [DATE, TEXT], TEXT),
    (F.EPOCH_MS, [Kind.TIMESTAMP], INT),
    (F.FROM_EPOCH_MS, [INT], Kind.TIMESTAMP),
    (F.LESS, [Kind.TIMESTAMP, Kind.TIMESTAMP], BOOL),
    (F.GREATEST, [Kind.TIMESTAMP, None], Kind.TIMESTAMP),
    (F.LEAST, [DATE, None, DATE], DATE),
    (F.LOWER, [TEXT], TEXT),
    (F.UPPER, [TEXT], TEXT),
    (F.LENGTH, [TEXT], INT),
    (F.SUBSTR, [TEXT, INT], TEXT),
    (F.SUBSTR, [TEXT, INT, INT], TEXT),
    (F.CONCAT, [TEXT, None], TEXT),
    (F.TRIM, [TEXT], TEXT),
    (F.LTRIM, [TEXT, TEXT], TEXT),
    (F.RTRIM, [TEXT, TEXT], TEXT),
    (F.REPLACE, [TEXT, TEXT, TEXT], TEXT),
    (F.SPLIT_PART, [TEXT, TEXT, INT], TEXT),
    (F.STRPOS, [TEXT, TEXT], INT),
    (F.TO_INT, [TEXT], INT),
    (F.TO_FLOAT, [BOOL], FLOAT),
    (F.TO_TEXT, [DATE], TEXT),
    (F.TO_BOOL, [INT], BOOL),
    (F.TO_DATE, [TEXT], DATE),
]
MISFITS: list[tuple[Function, list[Kind | None]]] = [
    (F.ADD, [INT]),
    (F.ADD, [INT, INT, INT]),
    (F.ADD, [DATE, INT]),
    (F.ADD, [BOOL, INT]),
    (F.MODULO, [FLOAT, INT]),
    (F.EQUAL, [INT, TEXT]),
    (F.EQUAL, [BOOL, INT]),
    (F.EQUAL, [DATE]),
    (F.IN, [INT]),
    (F.IN, [INT, TEXT]),
    (F.AND, []),
    (F.AND, [INT, BOOL]),
    (F.NOT, [BOOL, BOOL]),
    (F.LIKE, [INT, TEXT]),
    (F.CASE, [BOOL, INT]),
    (F.CASE, [INT, INT, INT]),
    (F.CASE, [BOOL, INT, TEXT]),
    (F.CASE, [BOOL, None, None]),
    (F.COALESCE, []),
    (F.COALESCE, [None]),
    (F.COALESCE, [INT, TEXT]),
    (F.ROUND, [FLOAT, FLOAT]),
    (F.ROUND, [FLOAT, INT, INT]),
    (F.ROUND, []),
    (F.LEAST, []),
    (F.LEAST, [TEXT]),
    (F.GREATEST, [DATE, INT]),
    (F.ADD_DAYS, [DATE, FLOAT]),
    (F.EQUAL, [DATE, Kind.TIMESTAMP]),
    (F.YEAR, [Kind.TIMESTAMP]),
    (F.YEAR, [TEXT]),
    (F.LENGTH, [INT]),
    (F.SUBSTR, [TEXT]),
    (F.CONCAT, [TEXT, INT]),
    (F.TRIM, []),
    (F.REPLACE, [TEXT, TEXT]),
    (F.SPLIT_PART, [TEXT, INT, TEXT]),
    (F.TO_INT, []),
    (F.TO_INT, [INT, INT]),
    (F.TO_DATE, [Kind.TIMESTAMP]),
]


def column(kind: Kind) -> Expression:
    return Column("t1", f"{kind}_column", kind)


@pytest.mark.parametrize("function", Function)
def test_every_function_has_a_rule_and_an_example(function: Function) -> None:
    """Every function has a type rule and an example in the table above."""
    assert function in RULES
    assert function in {fitting for fitting, _, _ in FITTING}


UNNAMED = {F.NEGATE, F.WEEKDAY, F.TO_DATE, F.EQUAL, F.UNEQUAL, F.LESS, F.LESS_EQUAL, F.GREATER}
"""Functions that analysts write in another way than by their names."""


def test_the_page_lists_every_function() -> None:
    """Every function that SQL has a name for is on the page of functions."""
    page = (ROOT / "docs" / "functions.md").read_text(encoding="utf-8").replace("\\|", "|")
    named = {function for function, _ in DIRECT_FUNCTIONS.values()} - UNNAMED

    assert set() == {function for function in named if function.upper() not in page}


@pytest.mark.parametrize(("function", "kinds", "expected"), FITTING)
def test_a_rule_gives_the_type(
    function: Function, kinds: list[Kind | None], expected: Kind
) -> None:
    """Arguments of valid types yield the listed type."""
    assert expected is result_kind(function, kinds)


@pytest.mark.parametrize(("function", "kinds"), MISFITS)
def test_a_rule_refuses_misfits(function: Function, kinds: list[Kind | None]) -> None:
    """Arguments of invalid types yield no type."""
    assert result_kind(function, kinds) is None


@pytest.mark.parametrize("function", AGGREGATES.values(), ids=list(AGGREGATES))
@pytest.mark.parametrize("kind", [*Kind])
def test_statistics_need_numbers_except_counts(function: AggregateFunction, kind: Kind) -> None:
    """Counts take any type and yield integers; others need numbers, and only SUM keeps the type."""
    if function.is_count:
        assert INT is make_aggregate(function.name, column(kind)).kind
    elif kind in (INT, FLOAT):
        expected = kind if function.name == "SUM" else FLOAT
        assert expected is make_aggregate(function.name, column(kind)).kind
    elif kind is BOOL and function.name in ("SUM", "AVG"):
        made = make_aggregate(function.name, column(kind))
        assert make_aggregate(function.name, make_call(F.TO_INT, column(kind))) == made
    else:
        with pytest.raises(UnsupportedQuery, match="needs numbers"):
            make_aggregate(function.name, column(kind))


def test_strings_compared_with_dates_are_dates() -> None:
    """A string compared with a date is parsed as a date once, when the tree is built."""
    day = make_call(F.TO_DATE, make_literal("2021-05-06"))

    assert make_call(F.EQUAL, column(DATE), day) == make_call(
        F.EQUAL, column(DATE), make_literal("2021-05-06")
    )


def test_signs_and_chains_are_normalized() -> None:
    """A negated number becomes a literal, zero loses its sign, and nested ANDs are flattened."""
    a, b, c = (make_call(F.IS_NULL, column(kind)) for kind in (INT, FLOAT, TEXT))

    assert make_literal(-5) == make_call(F.NEGATE, make_literal(5))
    assert "0.0" == repr(make_call(F.NEGATE, make_literal(0.0)).value)  # type: ignore[union-attr]  # a literal
    assert make_call(F.AND, a, b, c) == make_call(F.AND, a, make_call(F.AND, b, c))
    assert a == make_call(F.OR, a)
