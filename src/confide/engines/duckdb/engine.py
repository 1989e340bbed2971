"""DuckDB, embedded: opens sources and runs statements.

Sources are Parquet and CSV files, and DataFrames.
"""

import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeVar

import duckdb
from sqlglot import expressions as sql

from confide.declare import Catalog, Category, Kind, PublicTable, Table, is_parquet
from confide.engines.duckdb.dialect import write_duckdb
from confide.engines.duckdb.files import (
    CSV_RULES,
    FILES,
    as_independent_cells,
    base_type,
    check_dataframe,
    check_file,
    csv_options,
    describe,
    kinds_of,
    list_files,
    read_cells,
    read_parquet,
    select_all,
    types_of,
)
from confide.engines.duckdb.memory import Memory
from confide.engines.duckdb.timeouts import TIMEOUT, WATCHER, read_timeout
from confide.engines.sql.builders import (
    Sql,
    call,
    cast,
    column,
    normalize_zero,
    try_cast,
    without_nan,
)
from confide.engines.sql.engine import Columns, Rows, SqlEngine
from confide.engines.sql.sources import (
    inline_views,
    name_enums,
    raw_name,
    view_of_private,
    view_of_public,
)
from confide.engines.sql.stored_values import enum_lists
from confide.engines.sql.table_facts import (
    TableFacts,
    ambiguous_unit_error,
    check_readable,
    count_units,
    list_unique,
    not_unique_error,
)
from confide.errors import BadDeclaration

__all__ = ["DuckDB", "check_unit", "connect"]

FLOAT_TYPES: Final = {"DOUBLE", "FLOAT"}
INTEGER_TYPES: Final = {
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER"),
}
UNIT_TYPES: Final = {
    *INTEGER_TYPES,
    *FLOAT_TYPES,
    *("UBIGINT", "HUGEINT", "UHUGEINT", "DECIMAL", "VARCHAR", "ENUM", "UUID", "BOOLEAN", "BLOB"),
    *("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
    *("TIMESTAMP WITH TIME ZONE", '"NULL"'),
}
"""Types of units: equal values of these convert to the same string."""
CASTABLE_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys((*INTEGER_TYPES, "UBIGINT", "HUGEINT", "UHUGEINT"), Kind.INT),
    **dict.fromkeys((*FLOAT_TYPES, "DECIMAL", "BIT", "BIGNUM"), Kind.FLOAT),
    **dict.fromkeys(("VARCHAR", "ENUM", "JSON", "VARIANT", '"NULL"'), Kind.TEXT),
    "BOOLEAN": Kind.BOOL,
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"), Kind.DATE),
    **dict.fromkeys(("TIMESTAMP_NS", "TIMESTAMPTZ_NS", "TIMESTAMP WITH TIME ZONE"), Kind.DATE),
}
"""The kind of each type whose values can be cast; all other types can be read only as text."""
T = TypeVar("T")
CHECK_SOURCE: Final = "Check its source."
MAX_PARSED: Final = 256
SETTINGS: Final = {
    # Groups whose keys have at most this many bits together are counted without hashing, in 2 MB.
    "perfect_ht_threshold": 18,
    # Files are local, and the operating system reads ahead; prefetching columns takes longer.
    "disable_parquet_prefetching": "true",
}
"""Settings that change only the time and memory that a statement takes."""

TOP_N: Final = "top_n_window_elimination"
"""The optimizer that finds the first rows of each unit with a heap.

It is disabled, because it is slower than sorting and cannot spill to disk.
"""
STATISTICS: Final = "statistics_propagation"
"""The optimizer that infers properties of all rows of a column from its minimum and maximum."""


class StatementWithoutDoubles(str):
    """A statement that reads no double column of a Parquet file.

    Only such statements run with the optimizer `STATISTICS`; see `DuckDB._find_doubles`.
    """

    __slots__ = ()


class DuckDB(SqlEngine):
    """Reads the declared sources through typed, clipped views, and nothing else.

    # Privacy: the connection can open no file except the declared ones, and its settings are
    # locked. All statements are generated, and DuckDB's messages are not shown to analysts. Rows
    # that do not fit in memory go to a folder that only this process's user can read.
    """

    failures = (duckdb.Error,)
    advice = (
        (
            duckdb.IOException,
            "A file cannot be read, or a disk is full. Open the declaration again.",
        ),
        (
            duckdb.PermissionException,
            "A file is missing or not readable. Open the declaration again.",
        ),
        (duckdb.InvalidInputException, "A file is damaged or truncated. Restore it."),
        (duckdb.OutOfMemoryException, "There is not enough memory."),
        (
            duckdb.InterruptException,
            f"The statement was stopped, or took longer than {TIMEOUT} allows.",
        ),
        (duckdb.BinderException, "The columns of a file have changed. Open the declaration again."),
    )
    has_enums = True

    def __init__(self, catalog: Catalog, *, salt: str) -> None:
        self._salt = salt
        self._seconds = read_timeout()
        self._lock = threading.Lock()
        self._connection = connect()
        # Parsing a long statement takes a millisecond or two, so parsed statements are cached.
        self._parse = lru_cache(MAX_PARSED)(self._connection.extract_statements)
        for setting, value in SETTINGS.items():
            self._connection.execute(f"SET {setting} = {value}")
        self._disabled: tuple[str, ...] = ()
        self._double_columns: set[str] = set()
        self._memory = Memory(self._connection)
        self._views: dict[str, sql.Select] = {}
        self._enums: dict[tuple[str, ...], str] = {}
        kinds: dict[str, dict[str, Kind]] = {}
        self.facts = TableFacts(
            lambda statement: self._read(self._write(statement), self._rows), kinds
        )
        for table in catalog.tables:
            self._open(table)
        self._find_doubles(catalog)
        for name in catalog.public:
            kinds[name] = kinds_of(self._connection, raw_name(name))
            self._add_view(name, view_of_public(kinds[name], raw_name(name)))
            self._read_cells(name, kinds[name])
        units = self._units(catalog)
        for table in catalog.private.values():
            self._create_view(table, units[table.name])
            if isinstance(table.unit, str):
                self._read_cells(table.name, {table.unit: self._unit_kind})
            self._read_cells(table.name, {name: one.kind for name, one in table.columns.items()})
        for table in list_unique(catalog):
            self._check_unique(table)
        self._harden(catalog)

    def _write(self, select: sql.Select) -> str:
        """Return the SQL of a statement, with views inlined; see `StatementWithoutDoubles`."""
        read = inline_views(select, self._views, self._enums)
        text = write_duckdb(select)
        return text if read & self._double_columns else StatementWithoutDoubles(text)

    def _rows(self, statement: str) -> Rows:
        return self._fetch(lambda: self._execute(statement).fetchall())

    def _columns(self, statement: str) -> Columns:
        return self._fetch(lambda: self._execute(statement).fetchnumpy())

    def _fetch(self, fetch: Callable[[], T]) -> T:
        """Return the result of ``fetch``, within the limits of time and memory."""
        with self._lock, WATCHER.watched(self._connection, self._seconds):
            return self._memory.run(fetch)

    def _execute(self, statement: str) -> duckdb.DuckDBPyConnection:
        may_use_statistics = isinstance(statement, StatementWithoutDoubles)
        self._disable(TOP_N, *([] if may_use_statistics else [STATISTICS]))
        return self._connection.execute(self._parse(statement)[0])

    def close(self) -> None:
        """Close the connection; nothing can be read afterwards."""
        with self._lock:
            self._connection.close()
        self._memory.remove()

    def _open(self, table: Table | PublicTable) -> None:
        """Make a source readable under its raw name.

        # Privacy: a CSV file is read once, here, where errors about malformed lines go to the
        # owner. In a private table, its columns stay text until the view casts them, which cannot
        # fail.
        """
        source = table.source
        try:
            if not isinstance(source, str | Path):
                check_dataframe(table.name, source)
                self._connection.register(raw_name(table.name), as_independent_cells(source))
                return
            if Path(source).suffix.lower() in FILES:
                check_file(source, "`confide.toml` or, in Python, to the working directory")
            file = sql.Literal.string(str(Path(source).resolve()))
            match Path(source).suffix.lower():
                case ".parquet":
                    self._create(
                        raw_name(table.name), read_parquet(self._connection, table.name, source)
                    )
                case ".csv":
                    rows = select_all(
                        call("READ_CSV", file, *csv_options(as_text=isinstance(table, Table)))
                    )
                    self._create(raw_name(table.name), rows, kind="TABLE")
                case other:
                    raise BadDeclaration(
                        f"The source of {table.name!r} must be a .parquet or .csv file; "
                        f"got {other!r}."
                    )
        except UnicodeError as error:
            raise BadDeclaration(
                f"Table {table.name!r} cannot be read, because one of its strings is not UTF-8. "
                "Fix it in the DataFrame."
            ) from error
        except duckdb.Error as error:
            is_csv = isinstance(source, str | Path) and Path(source).suffix.lower() == ".csv"
            raise _unreadable(table.name, error, CSV_RULES if is_csv else CHECK_SOURCE) from error

    def _find_doubles(self, catalog: Catalog) -> None:
        """Find the double columns in files, so that no statement relies on their statistics.

        # Privacy: a Parquet file stores the minimum and maximum of each column, ignoring NaN.
        # DuckDB takes them as bounds of all rows, and drops comparisons that are true for all
        # values between them, including comparisons that turn NaN into NULL. So one person's value
        # would decide how every NaN counts.
        """
        for table in catalog.tables:
            if is_parquet(table.source):
                rows = describe(self._connection, sql.table_(raw_name(table.name), quoted=True))
                self._double_columns |= {
                    str(name).lower() for name, kind in rows if kind in FLOAT_TYPES
                }

    def _disable(self, *optimizers: str) -> None:
        """Disable these optimizers, and enable all others."""
        if optimizers != self._disabled:
            self._connection.execute(f"SET disabled_optimizers = '{','.join(optimizers)}'")
            self._disabled = optimizers

    def _units(self, catalog: Catalog) -> dict[str, Sql | None]:
        """Return the SQL of each table's unit: integers if all tables store integers, else strings.

        It is None if the unit is the row.

        # Privacy: three mistakes are avoided here. A cast that fails on one row would reveal
        # something about it. If NaN were a unit, all rows without an identifier would be one unit.
        # Types that may write equal values as different strings would split one unit into several,
        # so they are refused.
        """
        types: dict[str, str] = {}
        for table in catalog.private.values():
            if isinstance(table.unit, str):
                found = types_of(self._connection, raw_name(table.name), [table.unit])
                types[table.name] = found[table.unit]
                check_unit(table.name, table.unit, found[table.unit])
        unit_type = "BIGINT" if set(types.values()) <= INTEGER_TYPES else "VARCHAR"
        self._unit_kind = Kind.INT if unit_type == "BIGINT" else Kind.TEXT
        return {
            table.name: _unit(table.unit, types[table.name], unit_type)
            if isinstance(table.unit, str)
            else None
            for table in catalog.private.values()
        }

    def _create_view(self, table: Table, unit: Sql | None) -> None:
        """Create the view of a private table, after checking its stored types."""
        try:
            types = types_of(self._connection, raw_name(table.name), table.columns)
            for name, declared in table.columns.items():
                stored_as = CASTABLE_KINDS.get(base_type(types[name]))
                check_readable(table.name, name, declared, types[name], stored_as)
            stored = kinds_of(self._connection, raw_name(table.name))
            self._create_enums(table)
            self._add_view(table.name, view_of_private(table, raw_name(table.name), unit, stored))
        except duckdb.Error as error:
            raise _unreadable(table.name, error) from error

    def _create_enums(self, table: Table) -> None:
        """Create named ENUM types for lists of categories; a name is parsed faster than a list."""
        for declared in table.columns.values():
            for strings in enum_lists(declared) if isinstance(declared, Category) else ():
                if strings not in self._enums:
                    self._create_enum(strings)

    def _create_enum(self, strings: tuple[str, ...]) -> None:
        name = self._enums[strings] = f"list {len(self._enums)}"
        kinds = [sql.Literal.string(text) for text in strings]
        kind = sql.DataType(this=sql.DataType.Type.ENUM, expressions=kinds)
        named = sql.to_identifier(name, quoted=True).sql("duckdb")
        self._connection.execute(f"CREATE TYPE {named} AS {kind.sql('duckdb')}")

    def _add_view(self, name: str, rows: sql.Select) -> None:
        """Create the view of a table, and store its SELECT for inlining into statements."""
        name_enums(rows, self._enums)
        self._create(name, rows)
        self._views[name] = rows

    def _create(self, name: str, rows: sql.Select, *, kind: str = "VIEW") -> None:
        creation = sql.Create(this=sql.table_(name, quoted=True), kind=kind, expression=rows)
        text = creation.sql("duckdb")
        self._memory.run(lambda: self._connection.execute(text))

    def _read_cells(self, name: str, columns: Mapping[str, Kind]) -> None:
        """Check that no cell of these raw columns makes a query fail; see `files.read_cells`."""
        types = types_of(self._connection, raw_name(name), columns)
        try:
            read_cells(self._rows, (name, raw_name(name)), types, columns)
        except duckdb.Error as error:
            raise _unreadable(name, error) from error

    def _check_unique(self, table: Table) -> None:
        """Check that a unit declared unique is unique."""
        try:
            ((rows, units),) = self._rows(self._write(count_units(table)))
        except duckdb.Error as error:
            raise _unreadable(table.name, error) from error
        if rows != units:
            raise not_unique_error(table)

    def _harden(self, catalog: Catalog) -> None:
        """Restrict the connection to the declared files, and lock its settings."""
        sources = [table.source for table in catalog.tables]
        files = [
            path for file in sources if isinstance(file, str | Path) for path in list_files(file)
        ]
        self._connection.execute("SET allowed_paths = $files", {"files": files})
        self._connection.execute("SET enable_external_access = false")
        # Privacy: only two settings may change: the memory limit, which changes no answer, and
        # whether statistics may be used, which `_execute` decides.
        self._connection.execute("SET allowed_configs = ['memory_limit', 'disabled_optimizers']")
        self._connection.execute("SET lock_configuration = true")


def connect() -> duckdb.DuckDBPyConnection:
    """Return a new connection that converts timestamps to dates in UTC, on any machine.

    # Privacy: in a terminal, DuckDB would show how fast a long statement proceeds through the rows.
    # In a notebook without ipywidgets it shows nothing, and changing the setting is an error.
    """
    connection = duckdb.connect(":memory:")
    connection.execute("SET TimeZone = 'UTC'")
    [(has_bar,)] = connection.execute("SELECT current_setting('enable_progress_bar')").fetchall()
    if has_bar:
        connection.execute("SET enable_progress_bar = false")
    return connection


def check_unit(table: str, unit: str, stored: str) -> None:
    """Check that equal values of a unit's stored type always convert to the same string.

    Raises:
        BadDeclaration: they might not, so one unit could become several.
    """
    if base_type(stored) not in UNIT_TYPES:
        raise ambiguous_unit_error(table, unit, stored)


def _unit(name: str, found: str, unit_type: str) -> Sql:
    """Return the SQL of a unit as an integer or a string, which fails on no row.

    ``found`` is its stored type. It does not fail even if another file has replaced the source.
    """
    if unit_type == "BIGINT":
        return try_cast(column(name), unit_type)
    if found not in FLOAT_TYPES:
        return cast(column(name), unit_type)
    real = sql.TryCast(this=column(name), to=sql.DataType.build(found, dialect="duckdb"))
    return cast(normalize_zero(without_nan(real)), unit_type)


def _unreadable(name: str, error: duckdb.Error, advice: str = CHECK_SOURCE) -> BadDeclaration:
    """Return the error for a table that DuckDB cannot read.

    It has only the first line of DuckDB's message, since later lines may quote rows.
    """
    reason = str(error).splitlines()[0].rstrip(".")
    return BadDeclaration(f"Table {name!r} cannot be read: {reason}. {advice}")
