"""DataFusion as an engine of confide: the worked example of docs/new-engine.md.

It lives with the tests, as a third-party engine would live in its own package: confide does not
know about it. A source names its engine in the attribute ``confide_engine``.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from hashlib import md5
from typing import Any, ClassVar, Final

import datafusion
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import expressions as sql
from sqlglot.transforms import eliminate_semi_and_anti_joins

from confide.declare import Catalog, Kind, PublicTable, Row, Table
from confide.engines.sql.builders import (
    Sql,
    call,
    cast,
    label,
    number,
    select,
    table,
    unit_column,
)
from confide.engines.sql.dialect import (
    BLANKS,
    DAY,
    FALSE,
    FINITE,
    HEX_OR_BINARY,
    INFINITE_DATE,
    NON_FINITE,
    NUMBER,
    TRUE,
    Dialect,
    is_double,
    is_text,
    literal_of,
    null_unless_listed,
    round_double,
    round_integer,
    substring,
    type_of,
)
from confide.engines.sql.engine import Columns, Rows, SqlEngine, name_columns
from confide.engines.sql.row_hash import MASK, digested
from confide.engines.sql.sources import raw_name, write_views
from confide.engines.sql.table_facts import TableFacts, check_readable
from confide.errors import BadDeclaration
from support.warehouses import as_arrow, moved

__all__ = ["DataFusion", "DataFusionEngine", "Frame"]

T = sql.DataType.Type
KINDS: Final = (
    (Kind.INT, pa.types.is_integer, pa.int64()),
    (Kind.FLOAT, pa.types.is_floating, pa.float64()),
    (Kind.FLOAT, pa.types.is_decimal, pa.float64()),
    (Kind.TEXT, pa.types.is_string, pa.string()),
    (Kind.TEXT, pa.types.is_large_string, pa.string()),
    (Kind.TEXT, pa.types.is_dictionary, pa.string()),
    (Kind.BOOL, pa.types.is_boolean, pa.bool_()),
    (Kind.DATE, pa.types.is_date, pa.date32()),
    (Kind.DATE, pa.types.is_timestamp, pa.date32()),
)


# Functions that DataFusion lacks, for single values, applied to Arrow arrays.


def _tail_of_md5(text: str) -> int:
    """Return the last 31 bits of the MD5 of a string."""
    digest = md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[-4:]) & MASK


def _count_bits(value: int) -> int:
    return (value & (2**64 - 1)).bit_count()


def _round_even(value: float) -> float:
    """Return the nearest integer as a double, with ties to even, unlike ROUND."""
    return float(round(value)) if abs(value) < 2.0**53 else value


def _read_whole(text: str) -> int | None:
    plain = text.strip(BLANKS).replace("_", "")
    if re.match(HEX_OR_BINARY, text):
        found = int(plain, 0)
    elif re.match(NUMBER, text):
        exact = Decimal(plain)
        if exact.adjusted() > 20:
            return None
        found = int(exact.to_integral_value(ROUND_HALF_UP))
    else:
        return None
    return found if -(2**63) <= found < 2**63 else None


def _read_real(text: str) -> float | None:
    is_number = re.match(NUMBER, text) or re.match(NON_FINITE, text)
    return float(text.strip(BLANKS).replace("_", "")) + 0.0 if is_number else None


def _read_truth(text: str) -> bool | None:
    said = text.lower()
    return True if said in TRUE else False if said in FALSE else None


def _read_day(text: str) -> int | None:
    """Return a date as a number of days since 1970; dates outside the calendar are far away."""
    if re.match(INFINITE_DATE, text):
        return -FAR if "-" in text else FAR
    if text.strip(BLANKS).lower() == "epoch":
        return 0
    found = re.match(DAY, text)
    if found is None:
        return None
    year, month, day = (int(found[place]) for place in (1, 3, 4))
    if not date.min.year <= year <= date.max.year:
        return -FAR if year < 1 else FAR
    try:
        return date(year, month, day).toordinal() - EPOCH
    except ValueError:
        return None


def _first_day(months: int) -> Callable[[date], int]:
    """Return a function that gives the first day of the month, the quarter, or the year."""

    def find(day: date) -> int:
        start = day.replace(month=(day.month - 1) // months * months + 1, day=1)
        return start.toordinal() - EPOCH

    return find


def _over_arrays(function: Callable[[Any], Any], found: pa.DataType) -> Callable[[Any], Any]:
    """Return a function that applies another to arrays; NULL stays NULL, and dates are integers."""
    kind = pa.int32() if found == pa.date32() else found

    def compute(values: pa.Array) -> pa.Array:
        results = [None if value is None else function(value) for value in values.to_pylist()]
        return pa.array(results, kind).cast(found)

    return compute


FAR: Final = 10**8
EPOCH: Final = date(1970, 1, 1).toordinal()
FUNCTIONS: Final[dict[str, tuple[Callable[[Any], Any], pa.DataType, pa.DataType]]] = {
    "md5_tail": (_tail_of_md5, pa.string(), pa.int64()),
    "bit_count": (_count_bits, pa.int64(), pa.int64()),
    "round_even": (_round_even, pa.float64(), pa.float64()),
    "read_bigint": (_read_whole, pa.string(), pa.int64()),
    "read_double": (_read_real, pa.string(), pa.float64()),
    "read_boolean": (_read_truth, pa.string(), pa.bool_()),
    "read_date": (_read_day, pa.string(), pa.date32()),
    "first_of_month": (_first_day(1), pa.date32(), pa.date32()),
    "first_of_quarter": (_first_day(3), pa.date32(), pa.date32()),
    "first_of_year": (_first_day(12), pa.date32(), pa.date32()),
}
READERS: Final = {T.BIGINT: "bigint", T.DOUBLE: "double", T.BOOLEAN: "boolean", T.DATE: "date"}


# Dialect rules for DataFusion: one per node or call.


def _cast(node: Any) -> Sql | None:
    if node.to.this is T.BIGINT and is_double(node.this):
        return sql.TryCast(this=call("ROUND_EVEN", node.this), to=node.to)
    return None


def _try_cast(node: Any) -> Sql | None:
    value, kind = node.this, node.to.this
    if kind is T.ENUM:
        return null_unless_listed(value, node.to.expressions)
    if is_text(value) and kind in READERS:
        return call(f"READ_{READERS[kind]}", value)
    if T.DATE in (kind, type_of(value)) and kind not in (T.VARCHAR, type_of(value)):
        return sql.Cast(this=sql.Null(), to=node.to)
    return _cast(node)


def _finite(node: Any) -> Sql:
    found = node.expressions[0]
    for word in ("nan", "inf", "-inf"):
        found = sql.Nullif(this=found, expression=cast(sql.Literal.string(word), "DOUBLE"))
    return found  # type: ignore[no-any-return]


def _root(node: Any) -> Sql:
    value = node.expressions[0]
    real = sql.GTE(this=value, expression=number(0.0))
    return call("SQRT", sql.Case(ifs=[sql.If(this=real, true=value.copy())]))


def _text_digit(node: Any) -> Sql:
    return call("MD5_TAIL", cast(digested(node), "VARCHAR"))


def _shift(node: Any) -> Sql:
    return sql.Paren(this=node.copy())


def _bits_apart(node: Any) -> Sql:
    """Return the bits that differ: those of either number without those of both."""
    either = sql.BitwiseOr(this=node.this, expression=node.expression)
    both = sql.BitwiseAnd(this=node.this.copy(), expression=node.expression.copy())
    return sql.Paren(this=sql.Paren(this=either) - sql.Paren(this=both))


def _round(node: Any) -> Sql:
    value, *rest = node.expressions
    digits = literal_of(rest[0]) if rest else 0
    if not is_double(value):
        return round_integer(value, digits)
    return round_double(value, digits, number, lambda some: call("TRUNC", some))


def _like(node: Any) -> Sql:
    pattern = sql.Literal.string(node.expression.name.replace("\\", "\\\\"))
    return sql.Like(this=node.this, expression=pattern)


def _substring(node: Any) -> Sql:
    text, *places = node.expressions
    part: Any = substring(text, [literal_of(place) for place in places])
    if isinstance(part.expressions[1], sql.Neg):
        # Positions from the end: DataFusion counts them from before the first character.
        start = call("LENGTH", text.copy()) + sql.Paren(this=part.expressions[1]) + number(1)
        part.expressions[1] = start
        part.set("expressions", part.expressions)
    return part  # type: ignore[no-any-return]


def _part(name: str) -> Callable[[Any], Sql]:
    word = sql.Literal.string(name)
    return lambda node: cast(call("DATE_PART", word.copy(), *node.expressions), "BIGINT")


def _labelled(node: Any) -> None:
    """Name every column, since names must be unique; write ANTI JOIN as NOT EXISTS."""
    eliminate_semi_and_anti_joins(node)
    named = [
        label(part, f"c{place}")
        if not isinstance(part, sql.Alias | sql.Column | sql.Star)
        else part
        for place, part in enumerate(node.expressions)
    ]
    node.set("expressions", named)


WORDS: Final = Dialect(
    dialect="duckdb",
    nodes={
        sql.Cast: _cast,
        sql.TryCast: _try_cast,
        sql.Sum: lambda node: sql.Sum(
            this=sql.Cast(this=node.this, to=sql.DataType.build("DECIMAL(38, 0)"))
        ),
        sql.Like: _like,
        sql.BitwiseRightShift: _shift,
        sql.BitwiseOr: _text_digit,
        sql.BitwiseXor: _bits_apart,
        sql.BitwiseAnd: lambda node: sql.Paren(this=node.copy()),
        sql.CTE: lambda node: node.set("materialized", None),
        sql.Select: _labelled,
    },
    calls={
        FINITE: _finite,
        "ROUND": _round,
        "SQRT": _root,
        "SUBSTR": _substring,
        "LIST": lambda node: call("ARRAY_AGG", *node.expressions),
        "DATE_TRUNC": lambda node: call(
            f"FIRST_OF_{node.expressions[0].name}", node.expressions[1]
        ),
        "DAYOFWEEK": _part("dow"),
        **{name: _part(name.lower()) for name in ("YEAR", "QUARTER", "MONTH", "DAY")},
    },
)


class DataFusionEngine(SqlEngine):
    """Reads Arrow tables through typed, clipped views of its own context."""

    failures: ClassVar[tuple[type[Exception], ...]] = (Exception,)

    def __init__(self, catalog: Catalog, *, salt: str) -> None:
        self._salt = salt
        # Statements are deeply nested selections, which exceed the default limit of 50.
        config = datafusion.SessionConfig({"datafusion.sql_parser.recursion_limit": "500"})
        self._context: Any = datafusion.SessionContext(config)
        for name, (function, given, found) in FUNCTIONS.items():
            over = _over_arrays(function, found)
            # Volatile functions are not copied into every place that refers to them.
            made = datafusion.udf(over, [given], found, "volatile", name=name)
            self._context.register_udf(made)
        kinds = {declared.name: self._open(declared) for declared in catalog.tables}
        public = {name: kinds[name] for name in catalog.public}
        self.facts = TableFacts(self._ask, public)
        views, self._unit_kind = write_views(catalog, kinds)
        for name, view in views.items():
            self._context.sql(f'CREATE VIEW "{name}" AS {self._write(view)}')
        for declared in catalog.private.values():
            self._check(declared)

    def _ask(self, asked: sql.Select) -> Rows:
        """Return the result of a query on public tables."""
        return self._read(self._write(asked), self._rows)

    def close(self) -> None:
        """Release the tables."""
        self._context = None

    def _write(self, select: sql.Select) -> str:
        return WORDS.write(select)

    def _rows(self, statement: str) -> Rows:
        found = self._context.sql(statement).to_pylist()
        return [tuple(row.values()) for row in found]

    def _columns(self, statement: str) -> Columns:
        found = self._context.sql(statement)
        names = found.schema().names
        return name_columns(names, [tuple(row.values()) for row in found.to_pylist()])

    def _open(self, declared: Table | PublicTable) -> dict[str, Kind]:
        """Register a source under its raw name, with each column in one of five types."""
        rows: pa.Table = declared.source.rows
        found = {field.name: _kind_of(field.type) for field in rows.schema}
        wanted = list(found)
        if isinstance(declared, Table):
            wanted = [
                *declared.columns,
                *([declared.unit] if isinstance(declared.unit, str) else []),
            ]
        missing = [name for name in wanted if name not in found]
        if missing:
            raise BadDeclaration(f"{declared.name!r} has no column {missing[0]!r}.")
        if isinstance(declared, Table):
            for name, column in declared.columns.items():
                said = str(rows.schema.field(name).type)
                check_readable(declared.name, name, column, said, (found[name] or (None,))[0])
        known = {name: kind for name in wanted if (kind := found[name]) is not None}
        shown = pa.table({name: _read(rows[name], kind) for name, (_, kind) in known.items()})
        batches = shown.to_batches() or [pa.RecordBatch.from_pylist([], schema=shown.schema)]
        self._context.register_record_batches(raw_name(declared.name), [batches])
        return {name: kind for name, (kind, _) in known.items()}

    def _check(self, declared: Table) -> None:
        """Raise BadDeclaration if a unit that is declared unique repeats."""
        if not declared.unique or isinstance(declared.unit, Row):
            return
        units = sql.Count(this=sql.Distinct(expressions=[unit_column()]))
        counts = select([sql.Count(this=sql.Star()), units], table(declared.name))
        ((rows, people),) = self._rows(self._write(counts))
        if rows != people:
            raise BadDeclaration(
                f"Table {declared.name!r} is declared `unique=True`, but a unit has several rows."
            )


def _read(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return values in one of five types, with one zero, since DataFusion distinguishes -0.0."""
    found = values.cast(kind)
    return pc.add(found, 0.0) if kind == pa.float64() else found


def _kind_of(stored: pa.DataType) -> tuple[Kind, pa.DataType] | None:
    return next(((kind, wanted) for kind, test, wanted in KINDS if test(stored)), None)


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows that DataFusion reads, as the class declares."""

    rows: Any = field(repr=False)
    confide_engine: ClassVar[type[DataFusionEngine]] = DataFusionEngine


class DataFusion:
    """The memory of this process, read by DataFusion."""

    def move(self, tables: Iterable[Table | PublicTable]) -> list[Table | PublicTable]:
        """Return the same declarations over frames with their rows."""
        return [moved(declared, Frame(as_arrow(declared.source))) for declared in tables]
