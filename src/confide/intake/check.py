"""Checks of a declaration against its data, for the owner (`confide check`).

# Privacy: findings contain exact figures about rows. They are for the owner's terminal alone, and
# no query uses this module.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, assert_never

import duckdb
from sqlglot import expressions as sql

from confide.declare import (
    Bool,
    Catalog,
    Category,
    Column,
    Date,
    Float,
    Int,
    Kind,
    PublicTable,
    Row,
    Table,
    Text,
    Timestamp,
)
from confide.engines.duckdb.engine import CASTABLE_KINDS, STATISTICS, check_unit, connect
from confide.engines.duckdb.files import (
    CSV_RULES,
    base_type,
    check_dataframe,
    check_file,
    csv_options,
    read_cells,
)
from confide.engines.duckdb.memory import make_folder, remove_folder
from confide.engines.registry import FILE, open_engine, scheme_of
from confide.engines.sql.builders import (
    Sql,
    call,
    case,
    column,
    is_known,
    label,
    literal,
    number,
    table,
    timestamp_literal,
    try_cast,
    without_nan,
)
from confide.engines.sql.stored_values import as_boolean, as_enum
from confide.engines.sql.table_facts import check_readable
from confide.errors import BadDeclaration
from confide.intake.csv_types import conversion_hint

__all__ = ["CheckFinding", "inspect_table", "read_schema"]

RAW: Final = "raw"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One finding about a table, or about one of its columns if ``column`` is not empty.

    A problem must be fixed before the table can be queried.
    """

    table: str
    column: str
    message: str
    is_problem: bool = False


@dataclass(frozen=True, slots=True)
class _StoredColumn:
    """A column of the source: its name, and its DuckDB type, which is "" for a CSV file."""

    name: str
    type: str


def read_schema(source: str | Path) -> dict[str, Kind | None]:
    """Return the columns of a Parquet file with their kinds, from its schema alone."""
    with _connect() as connection:
        stored = _open(connection, Path(source).name, source)
    return {column.name: _drafted_kind(column.type) for column in stored}


def _drafted_kind(stored: str) -> Kind | None:
    """Return the kind that a draft proposes: timestamps have more to ask for than dates."""
    kind = _kind(stored)
    return Kind.TIMESTAMP if kind is Kind.DATE and base_type(stored) != "DATE" else kind


def inspect_table(declared: Table | PublicTable) -> list[CheckFinding]:
    """Return the findings about a table, problems first.

    If DuckDB does not read the source, as for PostgreSQL, a private table is only opened, and a
    public one is not checked. A public file is checked only for a format that DuckDB can read.
    """
    if scheme_of(declared.source) != FILE:
        return _check_by_opening(declared)
    with _connect() as connection:
        try:
            _check_source(declared)
            stored = _open(connection, declared.name, declared.source)
            if isinstance(declared, PublicTable):
                return []
            names = {found.name.lower(): found for found in stored}
            found = [*_check_schema(declared, names)]
            unusable = {finding.column for finding in found if finding.is_problem}
            _read_all(connection, declared, names, unusable)
            kinds = {name: _kind(found.type) for name, found in names.items() if found.type}
            found += _check_values(connection, declared, unusable, kinds)
            found += _check_units(connection, declared, unusable)
        except (BadDeclaration, duckdb.Error) as error:
            return [CheckFinding(declared.name, "", str(error), is_problem=True)]
    return sorted(found, key=lambda finding: not finding.is_problem)


def _read_all(
    connection: duckdb.DuckDBPyConnection,
    declared: Table,
    names: Mapping[str, _StoredColumn],
    unusable: Collection[str],
) -> None:
    """Read every cell of the usable columns as the DuckDB engine does when it opens a table.

    ``names`` maps the names of the source's columns, in lower case, to the columns. ``unusable``
    are the columns that have a problem. The unit is read as text.
    """
    kinds = {name: kind.kind for name, kind in declared.columns.items()}
    units = {} if isinstance(declared.unit, Row) else {declared.unit: Kind.TEXT}
    for kinds_by_name in (units, kinds):
        usable = {name: kind for name, kind in kinds_by_name.items() if name not in unusable}
        types = {name: names[name.lower()].type or "VARCHAR" for name in usable}
        read_cells(connection.execute, (declared.name, RAW), types, usable)


@contextmanager
def _connect() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection that converts timestamps as queries do.

    # Privacy: rows that do not fit in memory go to a folder that only this process's user can read,
    # instead of the declaration's folder. It is removed afterwards.
    """
    folder = make_folder()
    try:
        with connect() as connection:
            connection.execute("SET temp_directory = $folder", {"folder": folder})
            # Statistics of files ignore NaN, so they must not decide anything.
            connection.execute(f"SET disabled_optimizers = '{STATISTICS}'")
            yield connection
    finally:
        remove_folder(folder, os.getpid())


def _check_by_opening(declared: Table | PublicTable) -> list[CheckFinding]:
    """Return the problem, if any, that the engine of a private table reports when it opens it.

    Engines check names, types, and unique units.
    """
    if isinstance(declared, PublicTable):
        return []
    try:
        open_engine(Catalog([declared]), salt="").close()
    except BadDeclaration as problem:
        return [CheckFinding(declared.name, "", str(problem), is_problem=True)]
    return []


def _check_source(declared: Table | PublicTable) -> None:
    """Refuse a file of another type, a missing file, and a source that is not a DataFrame."""
    source = declared.source
    if isinstance(source, str | Path):
        _reader(declared.name, Path(source))
        check_file(source, "`confide.toml`")
    else:
        check_dataframe(declared.name, source)


def _open(connection: duckdb.DuckDBPyConnection, name: str, source: Any) -> list[_StoredColumn]:
    """Make the source readable under the name `RAW`, and return its columns."""
    if isinstance(source, str | Path):
        rows = sql.select("*").from_(_reader(name, Path(source)))
        view = sql.Create(this=table(RAW), kind="VIEW", expression=rows)
        try:
            connection.execute(view.sql("duckdb"))
        except duckdb.Error as error:
            reason = str(error).split("\n", maxsplit=1)[0].rstrip(".")
            is_csv = Path(source).suffix.lower() == ".csv"
            advice = CSV_RULES if is_csv else "Write the file again."
            raise BadDeclaration(f"{name!r} cannot be read: {reason}. {advice}") from error
    else:
        connection.register(RAW, source)
    described = connection.execute(f'DESCRIBE "{RAW}"').fetchall()
    is_csv = isinstance(source, str | Path) and Path(source).suffix.lower() == ".csv"
    return [_StoredColumn(row[0], "" if is_csv else row[1]) for row in described]


def _reader(name: str, path: Path) -> Sql:
    """Return SQL that reads a file; refuse files that are neither Parquet nor CSV."""
    file = sql.Literal.string(str(path.resolve()))
    match path.suffix.lower():
        case ".parquet":
            return call("READ_PARQUET", file)
        case ".csv":
            return call("READ_CSV", file, *csv_options(as_text=True))
        case ".tsv" | ".tab" | ".txt":
            raise BadDeclaration(
                f"{name or str(path)!r} must be a .parquet or .csv file. Run "
                f"`{conversion_hint(path)}`, and use the copy."
            )
        case _:
            raise BadDeclaration(
                f"{name or str(path)!r} must be a .parquet or .csv file, or a PostgreSQL table, as "
                "in 'postgresql://user@host/database?table=visits'."
            )


def _kind(stored: str) -> Kind | None:
    """Return the kind of a type of DuckDB; None if its values can be read only as text.

    >>> _kind("UBIGINT"), _kind("DECIMAL(10,2)"), _kind("STRUCT(a INTEGER)")
    (<Kind.INT: 'int'>, <Kind.FLOAT: 'float'>, None)
    """
    return CASTABLE_KINDS.get(base_type(stored))


def _check_schema(declared: Table, names: Mapping[str, _StoredColumn]) -> Iterator[CheckFinding]:
    """Yield findings about missing columns, and about types that do not match the declaration.

    ``names`` is as in `_read_all`.
    """
    units = [] if isinstance(declared.unit, Row) else [declared.unit]
    for name in dict.fromkeys([*units, *declared.columns]):
        if name.lower() not in names:
            similar = get_close_matches(name.lower(), names, 1) or list(names)[:10]
            listed = ", ".join(names[key].name for key in similar)
            message = (
                f"The source has no such column. Declare one of its columns, such as {listed}."
            )
            yield CheckFinding(declared.name, name, message, is_problem=True)
    types = {name: found.type for name, found in names.items() if found.type}
    for name in units:
        try:
            check_unit(declared.name, name, types.get(name.lower(), "VARCHAR"))
        except BadDeclaration as problem:
            yield CheckFinding(declared.name, name, str(problem), is_problem=True)
    for name, kind in declared.columns.items():
        if name.lower() in types:
            yield from _check_type(declared.name, name, kind, types[name.lower()])


NARROWER: Final = ((Kind.INT, Kind.FLOAT), (Kind.DATE, Kind.TIMESTAMP))
"""Stored and declared kinds of which every stored value is one of the declared kind."""


def _check_type(named: str, name: str, declared: Column, stored: str) -> Iterator[CheckFinding]:
    """Yield a finding if a stored type cannot be read as declared, or has another kind.

    Integers declared as floats are not a finding, nor are dates declared as timestamps.
    """
    try:
        check_readable(named, name, declared, stored, CASTABLE_KINDS.get(base_type(stored)))
    except BadDeclaration as problem:
        yield CheckFinding(named, name, str(problem), is_problem=True)
        return
    kind = _kind(stored)
    is_narrower = (kind, declared.kind) in NARROWER
    if kind is not declared.kind and not is_narrower:
        message = f"The column is stored as {stored}, but declared as {declared.kind}."
        yield CheckFinding(named, name, message)


KINDS_WITH_FORMATS: Final = (Kind.INT, Kind.FLOAT, Kind.DATE)
CONVERT_ADVICE: Final = (
    " Write numbers as 1234.5 and dates as 2024-12-31; `confide convert FILE.csv` writes such a "
    "copy."
)


def _check_values(
    connection: duckdb.DuckDBPyConnection,
    declared: Table,
    unusable: Collection[str],
    stored: Mapping[str, Kind | None],
) -> Iterator[CheckFinding]:
    """Yield findings about values that cannot be read as declared, or are outside the declaration.

    ``unusable`` are the columns that have a problem. ``stored`` gives the kinds of columns by their
    names in lower case, except for CSV files.
    """
    usable = {name: kind for name, kind in declared.columns.items() if name not in unusable}
    counts: list[Sql] = []
    for name, kind in usable.items():
        value = _typed(kind, column(name), stored.get(name.lower()))
        unread = sql.And(this=is_known(column(name)), expression=_is_missing(value))
        counts += [sql.Count(this=column(name)), _count(unread), _count(_is_outside(kind, value))]
        counts.append(_count_rounded(kind, value))
    if not counts:
        return
    figures = _only_row(connection, sql.select(*counts).from_(table(RAW)))
    for index, (name, kind) in enumerate(usable.items()):
        known, unread_count, outside, rounded = figures[4 * index : 4 * index + 4]
        if unread_count:
            share = _percent(unread_count, known)
            message = f"{share} of the values cannot be read as {kind.kind} and count as NULL."
            message += _advise(kind, is_majority=2 * unread_count > known)
            yield CheckFinding(declared.name, name, message, is_problem=unread_count == known)
        if outside:
            consequence = _consequence(kind)
            message = f"{_percent(outside, known)} of the values {consequence}"
            yield CheckFinding(declared.name, name, message)
        if rounded:
            message = f"{_percent(rounded, known)} of the values are not integers and are rounded. "
            yield CheckFinding(declared.name, name, f"{message}Declare `float` to keep them.")


def _count_rounded(declared: Column, value: Sql) -> Sql:
    """Return the number of values of an integer column that are not integers."""
    if not isinstance(declared, Int):
        return sql.Count(this=sql.Null())
    return _count(sql.NEQ(this=value.copy(), expression=sql.Floor(this=value.copy())))


def _advise(declared: Column, *, is_majority: bool) -> str:
    """Return advice about values that cannot be read as declared, or an empty string."""
    if declared.kind is Kind.BOOL:
        return " Declare a category with its values."
    return CONVERT_ADVICE if is_majority and declared.kind in KINDS_WITH_FORMATS else ""


def _check_units(
    connection: duckdb.DuckDBPyConnection, declared: Table, unusable: Collection[str]
) -> Iterator[CheckFinding]:
    """Yield findings about rows without a unit, and about units with too many rows."""
    if isinstance(declared.unit, Row) or declared.unit in unusable:
        return
    unit, limit = column(declared.unit), declared.max_rows_per_unit
    rows = sql.select(label(unit, "unit"), label(sql.Count(this=sql.Star()), "many"))
    rows = rows.from_(table(RAW)).group_by(unit.copy())
    row_count, known = column("many"), is_known(column("unit"))
    above = sql.And(this=known, expression=sql.GT(this=row_count, expression=number(limit)))
    aggregates = [
        sql.Sum(this=row_count.copy()),
        sql.Sum(this=case(_is_missing(column("unit")), row_count.copy())),
        _count(known.copy()),
        _count(above),
        sql.Sum(this=case(above.copy(), row_count - number(limit))),
    ]
    found = _only_row(connection, sql.select(*aggregates).from_(rows.subquery("units")))
    total_rows, without_unit, units, units_above, excess = (int(figure or 0) for figure in found)
    if without_unit:
        message = f"{_percent(without_unit, total_rows)} of the rows have no unit and are dropped."
        yield CheckFinding(declared.name, declared.unit, message)
    if units_above:
        message = (
            f"{_percent(units_above, units)} of the units have more than {limit} "
            f"row{'s' if limit > 1 else ''}. "
        )
        message += (
            "Remove `unique = true`, and raise `max_rows_per_unit`."
            if declared.unique
            else f"{_percent(excess, total_rows)} of the rows never count. Raise "
            "`max_rows_per_unit`, or accept that these rows are dropped."
        )
        yield CheckFinding(declared.name, declared.unit, message, is_problem=declared.unique)


def _typed(declared: Column, raw: Sql, stored: Kind | None) -> Sql:
    """Return a stored value as declared (integers as doubles), unclipped; NULL if unreadable."""
    match declared:
        case Int() | Float() | Category(kind=Kind.INT):
            return without_nan(try_cast(raw, "DOUBLE"))
        case Date():
            return try_cast(raw, "DATE")
        case Timestamp():
            return try_cast(raw, "TIMESTAMP")
        case Bool():
            return as_boolean(raw, stored)
        case Text() | Category():
            return try_cast(raw, "VARCHAR")
        case _:
            assert_never(declared)


def _is_outside(declared: Column, value: Sql) -> Sql:  # noqa: PLR0911  # one for each type
    """Return the condition that a value is outside its declared bounds, or not in its list."""
    match declared:
        case Int(low=low, high=high):
            return _is_beyond(value, number(float(low)), number(float(high)))
        case Float(low=low, high=high):
            return _is_beyond(value, number(float(low)), number(float(high)))
        case Date(low=first, high=last):
            return _is_beyond(value, literal(first), literal(last))
        case Timestamp(low=low, high=high):
            return _is_beyond(value, *map(timestamp_literal, (low, high)))
        case Category(kind=Kind.INT, values=values):
            listed = [number(float(code)) for code in values if isinstance(code, int)]
            return sql.Not(this=sql.In(this=value, expressions=listed))
        case Category():
            unlisted = _is_missing(as_enum(value.copy(), declared))
            return sql.And(this=is_known(value), expression=unlisted)
        case Bool() | Text():
            return sql.false()
        case _:
            assert_never(declared)


def _consequence(declared: Column) -> str:
    """Return the predicate of a finding about values outside the declaration."""
    if isinstance(declared, Category):
        return "are not listed and count as NULL. Add them to `values`; spaces and case matter."
    return "are outside the bounds and are clipped."


def _is_beyond(value: Sql, low: Sql, high: Sql) -> Sql:
    below = sql.LT(this=value.copy(), expression=low)
    return sql.Or(this=below, expression=sql.GT(this=value.copy(), expression=high))


def _is_missing(value: Sql) -> Sql:
    return sql.Paren(this=sql.Is(this=value.copy(), expression=sql.Null()))


def _count(condition: Sql) -> Sql:
    return sql.Count(this=case(condition, number(1)))


def _only_row(connection: duckdb.DuckDBPyConnection, statement: sql.Select) -> tuple[Any, ...]:
    return tuple(connection.execute(statement.sql("duckdb")).fetchall()[0])


def _percent(part: int, total: int) -> str:
    """Return a percentage as text that can begin a sentence.

    >>> _percent(1, 3), _percent(1, 10**6), _percent(7, 7)
    ('33.3%', 'Less than 0.1%', '100%')
    """
    share = 100 * part / total
    return f"{share:.3g}%" if share >= 0.1 else "Less than 0.1%"
