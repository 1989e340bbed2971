"""Random queries as trees, typed and normalized like those of the front ends."""

from collections.abc import Callable
from datetime import date
from fractions import Fraction

from hypothesis import assume
from hypothesis import strategies as st

from confide.aggregates import make_aggregate
from confide.declare import Kind
from confide.expressions.construct import lift_keys, make_call, make_literal
from confide.expressions.functions import Function, result_kind
from confide.expressions.tree import AggregateCall, Column, Expression
from confide.query.tree import Order, Output, Query, Scan

__all__ = ["expressions", "queries"]

F = Function
COLUMNS = {
    Kind.INT: "age",
    Kind.FLOAT: "cost",
    Kind.TEXT: "diagnosis",
    Kind.BOOL: "smoker",
    Kind.DATE: "day",
}
VALUES: dict[Kind, st.SearchStrategy[object]] = {
    Kind.INT: st.integers(-(10**20), 10**20),
    Kind.FLOAT: st.floats(allow_nan=False, allow_infinity=False),
    Kind.TEXT: st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=8),
    Kind.BOOL: st.booleans(),
    Kind.DATE: st.dates(date(1900, 1, 1), date(2100, 1, 1)),
}
Draw = Callable[[st.SearchStrategy[object]], object]

SHAPES: dict[Kind, list[tuple[Function, list[Kind]]]] = {
    Kind.INT: [
        *((function, [Kind.INT, Kind.INT]) for function in (F.ADD, F.SUBTRACT, F.MULTIPLY)),
        (F.MODULO, [Kind.INT, Kind.INT]),
        (F.NEGATE, [Kind.INT]),
        (F.ABS, [Kind.INT]),
        (F.FLOOR, [Kind.FLOAT]),
        (F.YEAR, [Kind.DATE]),
        (F.WEEKDAY, [Kind.DATE]),
        (F.ISOYEAR, [Kind.DATE]),
        (F.DAYS_BETWEEN, [Kind.DATE, Kind.DATE]),
        (F.LENGTH, [Kind.TEXT]),
        (F.TO_INT, [Kind.TEXT]),
        (F.CASE, [Kind.BOOL, Kind.INT, Kind.BOOL, Kind.INT, Kind.INT]),
        (F.COALESCE, [Kind.INT, Kind.INT]),
    ],
    Kind.FLOAT: [
        (F.ADD, [Kind.FLOAT, Kind.INT]),
        (F.SUBTRACT, [Kind.INT, Kind.FLOAT]),
        (F.DIVIDE, [Kind.INT, Kind.INT]),
        (F.DIVIDE, [Kind.FLOAT, Kind.FLOAT]),
        (F.NEGATE, [Kind.FLOAT]),
        (F.LN, [Kind.FLOAT]),
        (F.LEAST, [Kind.FLOAT, Kind.INT, Kind.FLOAT]),
        (F.TO_FLOAT, [Kind.INT]),
    ],
    Kind.TEXT: [
        (F.LOWER, [Kind.TEXT]),
        (F.TO_TEXT, [Kind.INT]),
        (F.CONCAT, [Kind.TEXT, Kind.TEXT]),
        (F.TRIM, [Kind.TEXT]),
    ],
    Kind.BOOL: [
        (F.EQUAL, [Kind.INT, Kind.FLOAT]),
        (F.UNEQUAL, [Kind.TEXT, Kind.TEXT]),
        (F.EQUAL, [Kind.BOOL, Kind.BOOL]),
        (F.LESS, [Kind.DATE, Kind.DATE]),
        (F.GREATER_EQUAL, [Kind.INT, Kind.INT]),
        (F.AND, [Kind.BOOL, Kind.BOOL]),
        (F.OR, [Kind.BOOL, Kind.BOOL, Kind.BOOL]),
        (F.NOT, [Kind.BOOL]),
        (F.IS_NULL, [Kind.INT]),
        (F.IS_NULL, [Kind.BOOL]),
        (F.TO_BOOL, [Kind.INT]),
    ],
    Kind.DATE: [
        (F.TRUNC_MONTH, [Kind.DATE]),
        (F.TRUNC_WEEK, [Kind.DATE]),
        (F.TO_DATE, [Kind.INT]),
        (F.GREATEST, [Kind.DATE, Kind.DATE]),
    ],
}


@st.composite
def expressions(
    draw: st.DrawFn, kind: Kind, depth: int = 3, *, grouped: bool = False
) -> Expression:
    """Draw an expression of a row, or with ``grouped``, one that contains statistics."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        if grouped and kind in (Kind.INT, Kind.FLOAT):
            return draw(aggregates(kind))
        if draw(st.booleans()):
            return Column("t1", COLUMNS[kind], kind)
        return make_literal(draw(VALUES[kind]))
    function, kinds = draw(st.sampled_from(SHAPES[kind]))
    parts = [draw(expressions(part, depth - 1, grouped=grouped)) for part in kinds]
    assume(result_kind(function, [part.kind for part in parts]) is kind)
    found = make_call(function, *parts)
    assume(found.kind is kind)  # the negated least integer is a float
    return found


@st.composite
def aggregates(draw: st.DrawFn, kind: Kind) -> AggregateCall:
    """Draw a statistic of rows."""
    where = draw(st.none() | expressions(Kind.BOOL, 1))
    if kind is Kind.INT:
        function = draw(st.sampled_from(["COUNT", "COUNT_UNITS"]))
        return make_aggregate(function, where=where)
    argument = draw(expressions(Kind.FLOAT, 1))
    function = draw(st.sampled_from(["AVG", "STDDEV", "QUANTILE_CONT"]))
    level = Fraction(draw(st.integers(0, 1000)), 1000)
    quantile = level if function == "QUANTILE_CONT" else None
    return make_aggregate(function, argument, where=where, level=quantile)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    """Draw a query on one table, grouped by up to two columns."""
    plain = [Column("t1", name, kind) for kind, name in COLUMNS.items()]
    keys: tuple[Expression, ...] = tuple(
        draw(st.lists(st.sampled_from(plain), max_size=2, unique=True))
    )
    names = draw(st.lists(NAMES_GIVEN, min_size=1, max_size=3, unique_by=str.lower))
    outputs = tuple(Output(name, draw(aggregates(Kind.FLOAT))) for name in names)
    return Query(
        source=Scan("visits", "t1"),
        where=draw(st.none() | expressions(Kind.BOOL)),
        keys=keys,
        outputs=outputs,
        having=draw(st.none() | comparisons(keys)),
        order=tuple(
            Order(lift_keys(key, keys), draw(st.booleans()))
            for key in draw(st.lists(st.sampled_from(keys), max_size=2) if keys else st.just([]))
        ),
        limit=draw(st.none() | st.integers(1, 10**9)),
    )


NAMES_GIVEN = st.text(min_size=1, max_size=20).filter(str.isprintable) | st.sampled_from(
    ["select", "order", "from", "n", "case", "AND"]
)


@st.composite
def comparisons(draw: st.DrawFn, keys: tuple[Expression, ...]) -> Expression:
    """Draw a condition on groups."""
    value = draw(aggregates(Kind.FLOAT))
    condition = make_call(F.GREATER, value, make_literal(draw(VALUES[Kind.FLOAT])))
    others = [make_call(F.IS_NULL, lift_keys(key, keys)) for key in keys]
    return make_call(F.AND, condition, *others)
