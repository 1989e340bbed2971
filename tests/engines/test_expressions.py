"""Analyst expressions are total: on any row, their value is in the predicted range or NULL."""

import math
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from confide.declare import Bool, Catalog, Category, Date, Float, Int, Kind, Table, Text, Timestamp
from confide.declare import Column as Declared
from confide.engines import DuckDB
from confide.engines.sql import expressions as engine
from confide.engines.sql.expressions import Emitter
from confide.expressions.construct import make_literal
from confide.expressions.functions import Function, result_kind
from confide.expressions.tree import Call, Column, Expression, Literal
from confide.plan import declared_range, range_analysis
from confide.plan.range_analysis import Range, range_of
from confide.plan.text_ranges import length_range
from support.entropy import SeededEntropy

F = Function
ROWS: Final = 400
STATEMENTS: Final = 12
IN_ONE: Final = 120
TREES: Final = (1, 2, 2, 3)

COLUMNS: Final[dict[str, Declared]] = {
    "i": Int(-5, 120),
    "j": Int(0, 9),
    "big": Int(-(2**53), 2**53),
    "f": Float(-3.5, 1_000),
    "g": Float(0, 1),
    "wide": Float(-1e300, 1e300),
    "s": Category(["a", "bé", "q'x"]),
    "t": Text(),
    "b": Bool(),
    "d": Date("2020-01-15", "2021-03-03"),
    "ever": Date("0001-01-01", "9999-12-31"),
    "ts": Timestamp("2019-12-30 22:00:00", "2020-03-03 03:03:03"),
    "eon": Timestamp("0001-01-01", "9999-12-31"),
}
REALS: Final = (
    *(0.0, -0.0, 1.0, -3.5, 0.5, 2.5, 1_000.0, 1e-320, 5e-324, -5e-324, 1e16, 2.0**53, 2.0**63),
    *(-(2.0**63), 1e300, -1e300, 1.7976931348623157e308, math.inf, -math.inf, math.nan),
)
TEXTS: Final = (
    *("", "a", "bé", "q'x", "12", "-7.5", "1e400", "nan", "inf", "-Infinity", "0x1F", "1_000"),
    *(
        "true",
        "no",
        "2020-02-30",
        "2020-02-29",
        "infinity",
        "epoch",
        "294247-01-10",
        "0001-01-01 BC",
    ),
    *("9223372036854775808", "  5 ", "\u0130", "ß", "👩‍🚀", "e\u0301", "%", "\\", "\x00", "\x1e"),
)
DAYS: Final = (date(1, 1, 1), date(9999, 12, 31), date(2020, 2, 29), date(2020, 1, 15))
TIMES: Final = (
    *(datetime(2019, 12, 30, 22, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)),
    *(datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)),
)
LITERALS: Final = (
    *(make_literal(value) for value in (0, 1, -3, 7, 2**60, -(2**63), 10**37)),
    *(Literal(value, Kind.FLOAT) for value in (0.5, -0.0, 1e308, 5e-324, 709.5, -1e300)),
    *(Literal(value, Kind.TEXT) for value in ("a", "it's", "", "%_\\", "ß")),
    *(Literal(value, Kind.DATE) for value in (date(2020, 5, 5), date(1, 1, 1))),
    Literal(datetime(2020, 2, 29, 12), Kind.TIMESTAMP),  # noqa: DTZ001  # without a time zone
    Literal(True, Kind.BOOL),
    Literal(None, None),
)
PARTS: Final = ("a", "é", "''", "0", "aa", "\\")
PLACES: Final = tuple(Literal(place, Kind.INT) for place in (1, 2, 1_000))
REPLACEMENTS: Final = tuple(
    tuple(Literal(text, Kind.TEXT) for text in pair)
    for pair in (("a", ""), ("é", "aé"), ("\\", "%"), ("1", "\\1$1"))
)
BASE: Final = tuple(Column("x", name, column.kind) for name, column in COLUMNS.items())
RANGES: Final = {("x", name): declared_range(column) for name, column in COLUMNS.items()}


def draw_table(rng: np.random.Generator) -> Table:
    """Return rows with every unusual value that the types of the source can hold."""

    def pick(options: Any) -> list[Any]:
        return [
            None if rng.random() < 0.1 else options[int(rng.integers(len(options)))]
            for _ in range(ROWS)
        ]

    days = [date(2020, 1, 15) + timedelta(int(n)) for n in rng.integers(0, 420, 60)]
    reals = [*REALS, *map(float, rng.uniform(-10, 1_100, 20)), *map(float, rng.uniform(0, 1, 20))]
    near = [TIMES[0] + timedelta(seconds=int(n)) for n in rng.integers(0, 10**7, 60)]
    rows = {
        **{
            name: pa.array(pick(reals), pa.float64())
            for name in ("i", "j", "big", "f", "g", "wide")
        },
        **{name: pa.array(pick(TEXTS), pa.string()) for name in ("s", "t")},
        "b": pa.array(pick((True, False)), pa.bool_()),
        **{name: pa.array(pick([*DAYS, *days]), pa.date32()) for name in ("d", "ever")},
        **{
            name: pa.array(pick([*TIMES, *near]), pa.timestamp("us", "UTC"))
            for name in ("ts", "eon")
        },
        "pid": pa.array(range(ROWS)),
    }
    return Table("x", pa.table(rows), unit="pid", columns=COLUMNS)


class Drawer:
    """Draws expression trees, as `expressions.construct` would build them."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def pick(self, options: Any) -> Any:
        return options[int(self._rng.integers(len(options)))]

    def draw(self, depth: int) -> Expression:
        if not depth or self._rng.random() < 0.1:
            return self.pick(BASE) if self._rng.random() < 0.75 else self.pick(LITERALS)  # type: ignore[no-any-return]
        while True:
            function = self.pick(tuple(F))
            arguments = self._arguments(function, depth - 1)
            kind = result_kind(function, [argument.kind for argument in arguments])
            if kind is not None:
                return Call(function, tuple(arguments), kind)

    def _arguments(self, function: F, depth: int) -> list[Expression]:  # noqa: C901, PLR0911
        first = self.draw(depth)
        match function:
            case F.CASE:
                count = self.pick((2, 4))
                return [first, *(self.draw(depth) for _ in range(count))]
            case F.IN:
                return [first, *(self.pick(LITERALS) for _ in range(3))]
            case F.LIKE:
                return [first, Literal(self.pick(("%", "a_%", "\\", "%é%")), Kind.TEXT)]
            case F.ROUND:
                return [first, Literal(self.pick((0, 2, -1, 15, -18)), Kind.INT)]
            case F.TRIM | F.LTRIM | F.RTRIM:
                return [first, *(Literal(one, Kind.TEXT) for one in self.pick(((), ("a ",))))]
            case F.REPLACE:
                return [first, *self.pick(REPLACEMENTS)]
            case F.SPLIT_PART:
                return [first, Literal(self.pick(PARTS), Kind.TEXT), self.pick(PLACES)]
            case F.STRFTIME:
                return [first, Literal(self.pick(("%Y-%m", "%j of %y, %a %B")), Kind.TEXT)]
            case F.STRPOS:
                return [first, Literal(self.pick(PARTS), Kind.TEXT)]
            case F.SUBSTR:
                ends = [Literal(self.pick((-3, 0, 1, 2, 10**6)), Kind.INT) for _ in range(2)]
                return [first, *ends[: self.pick((1, 2))]]
            case _:
                return [first, *(self.draw(depth) for _ in range(self.pick((0, 1, 1, 2))))]


def describe_problem(expression: Expression, found: Range, value: Any) -> str | None:
    """Return a description of what is wrong with a value of the engine, or None."""
    if value is None:
        return None
    if isinstance(value, str):
        if found.values is not None:
            return None if value in found.values else "not a listed value"
        lengths = length_range(found)
        return None if lengths.low <= len(value) <= lengths.high else "longer than possible"
    if isinstance(value, date):
        value = value.toordinal()
    if isinstance(value, float) and not math.isfinite(value):
        return "not finite"
    return None if found.low <= value <= found.high else "outside its range"


@pytest.fixture
def rng(entropy: SeededEntropy) -> np.random.Generator:
    """Return a random generator seeded by the run's seed."""
    return np.random.default_rng(int(entropy.words(1)[0]))


def test_expressions_are_total_and_stay_in_range(rng: np.random.Generator) -> None:
    """No expression fails on any row, gives NaN or infinity, or leaves its predicted range."""
    connection = DuckDB(Catalog([draw_table(rng)]), salt="")._connection
    drawer, emitter = Drawer(rng), Emitter(RANGES)
    bounded = 0
    for _ in range(STATEMENTS):
        drawn = [drawer.draw(drawer.pick(TREES)) for _ in range(IN_ONE)]
        drawn = [expression for expression in drawn if expression.kind is not None]
        texts = [emitter.emit(expression).sql("duckdb") for expression in drawn]
        rows = run_all(connection, texts)
        for expression, text, values in zip(drawn, texts, zip(*rows, strict=True), strict=True):
            found = range_of(expression, RANGES)
            bounded += found.is_bounded
            problems = {describe_problem(expression, found, value) for value in values}

            assert {None} == problems | {None}, f"{text} in {found}"

    assert bounded > STATEMENTS * IN_ONE // 3  # the test covers bounded ranges


def run_all(connection: duckdb.DuckDBPyConnection, texts: list[str]) -> list[tuple[Any, ...]]:
    """Return the values of all expressions, or name the one that fails."""
    try:
        return connection.execute(f"SELECT {', '.join(texts)} FROM x").fetchall()
    except duckdb.Error:
        for text in texts:
            try:
                connection.execute(f"SELECT {text} FROM x").fetchall()
            except duckdb.Error as error:
                pytest.fail(f"{text} fails: {error}")
        raise


def test_every_function_has_its_rules() -> None:
    """Range analysis and the engine support every function."""
    assert set(F) == set(range_analysis.RULES)
    assert set(F) == set(engine.RULES) | set(engine.ARITHMETIC)
    assert set() == set(engine.RULES) & set(engine.ARITHMETIC)


@pytest.mark.parametrize(
    ("column", "raw", "expected"),
    [
        (
            Int(0, 9),
            [2.5, 3.5, -1.0, 1e300, math.inf, -math.inf, math.nan],
            [2, 4, 0, 9, 9, 0, None],
        ),
        (Int(0, 9), ["7", "7.6", "x", "1e400", "-inf", ""], [7, 8, None, 9, 0, None]),
        (Float(0, 1), [0.5, -0.1, math.inf, math.nan, None], [0.5, 0.0, 1.0, None, None]),
        (
            Category(["a", "é"]),
            ["a", "A", "é", "e\u0301", "", None],
            ["a", None, "é", None, None, None],
        ),
        (Bool(), ["true", "f", "1", "x"], [True, False, True, None]),
        (
            Date("2020-01-01", "2020-12-31"),
            ["2020-05-05", "2020-02-30", "infinity", "0001-01-01", "x"],
            [date(2020, 5, 5), None, date(2020, 12, 31), date(2020, 1, 1), None],
        ),
    ],
    ids=["int of reals", "int of texts", "float", "category", "bool", "date"],
)
def test_columns_are_clipped(column: Declared, raw: list[Any], expected: list[Any]) -> None:
    """A value outside its declaration becomes the nearest bound; one of another type is NULL."""
    frame = pa.table({"pid": range(len(raw)), "v": raw})
    opened = DuckDB(Catalog([Table("x", frame, unit="pid", columns={"v": column})]), salt="")

    assert expected == [v for (v,) in opened._connection.execute("SELECT v FROM x").fetchall()]
