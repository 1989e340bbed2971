"""DuckDB, embedded: opens sources and runs statements."""

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
    cell_by_cell,
    check_file,
    check_frame,
    csv_options,
    describe,
    everything,
    kinds_of,
    list_files,
    plain_type,
    read_cells,
    read_parquet,
    types_of,
)
from confide.engines.duckdb.memory import Memory
from confide.engines.duckdb.timeouts import TIMEOUT, WATCHER, read_timeout
from confide.engines.sql.engine import Columns, Rows, SqlEngine
from confide.engines.sql.expressions import (
    Sql,
    call,
    cast,
    column,
    normalize_zero,
    try_cast,
    without_nan,
)
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

FLOATS: Final = {"DOUBLE", "FLOAT"}
WHOLE: Final = {
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER"),
}
UNITS: Final = {
    *WHOLE,
    *FLOATS,
    *("UBIGINT", "HUGEINT", "UHUGEINT", "DECIMAL", "VARCHAR", "ENUM", "UUID", "BOOLEAN", "BLOB"),
    *("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
    *("TIMESTAMP WITH TIME ZONE", '"NULL"'),
}
"""Types of units: equal values of these have one text."""
FITTING: Final[dict[str, Kind]] = {
    **dict.fromkeys((*WHOLE, "UBIGINT", "HUGEINT", "UHUGEINT"), Kind.INT),
    **dict.fromkeys((*FLOATS, "DECIMAL", "BIT", "BIGNUM"), Kind.FLOAT),
    **dict.fromkeys(("VARCHAR", "ENUM", "JSON", "VARIANT", '"NULL"'), Kind.TEXT),
    "BOOLEAN": Kind.BOOL,
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"), Kind.DATE),
    **dict.fromkeys(("TIMESTAMP_NS", "TIMESTAMPTZ_NS", "TIMESTAMP WITH TIME ZONE"), Kind.DATE),
}
"""What casts find in a type, if anything: of all others only the text can be read."""
T = TypeVar("T")
MOST_PARSED: Final = 256
FASTER: Final = {
    # Groups whose keys have so many bits together are counted by place, without hashing: 2 MB.
    "perfect_ht_threshold": 18,
    # Files are on this machine, whose system reads ahead; to copy columns in advance takes longer.
    "disable_parquet_prefetching": "true",
}
"""Settings that change what time and memory a statement takes, and nothing else."""

SLOWER: Final = "top_n_window_elimination"
"""The first rows of each unit in a heap take longer than in a window, and cannot leave memory."""
STATISTICS: Final = "statistics_propagation"
"""What makes DuckDB conclude from the ends of a column what holds for all of its rows."""


class StatementWithoutFloats(str):
    """A statement that reads no floats of a file; every other one runs without statistics."""

    __slots__ = ()


class DuckDB(SqlEngine):
    """Reads the declared sources through typed, clipped views, and nothing else.

    # Privacy: the connection can open no file but the declared ones and its settings are locked;
    # statements come from `write_statement` only, and whatever the engine says stays inside. Rows
    # for which there is no memory go into a folder that only this process's user can read.
    """

    failures = (duckdb.Error,)
    advice = (
        (duckdb.IOException, "a file cannot be read or a disk is full; open the declaration again"),
        (duckdb.PermissionException, "a file is gone or forbidden; open the declaration again"),
        (duckdb.InvalidInputException, "a file is damaged, or was cut short"),
        (duckdb.OutOfMemoryException, "there is not enough memory"),
        (duckdb.InterruptException, f"stopped, or slower than {TIMEOUT} allows"),
        (duckdb.BinderException, "a file has other columns by now; open the declaration again"),
    )
    has_enums = True

    def __init__(self, catalog: Catalog, *, salt: str) -> None:
        self._salt = salt
        self._seconds = read_timeout()
        self._lock = threading.Lock()
        self._connection = connect()
        # Long statements take a millisecond or two to parse, so those that come again are kept.
        self._parse = lru_cache(MOST_PARSED)(self._connection.extract_statements)
        for setting, value in FASTER.items():
            self._connection.execute(f"SET {setting} = {value}")
        self._left_out: tuple[str, ...] = ()
        self._reals: set[str] = set()
        self._memory = Memory(self._connection)
        self._views: dict[str, sql.Select] = {}
        self._lists: dict[tuple[str, ...], str] = {}
        kinds: dict[str, dict[str, Kind]] = {}
        self.facts = TableFacts(lambda asked: self._read(self._write(asked), self._rows), kinds)
        for table in catalog.tables:
            self._open(table)
        self._doubt_reals(catalog)
        for name in catalog.public:
            kinds[name] = kinds_of(self._connection, raw_name(name))
            self._view(name, view_of_public(kinds[name], raw_name(name)))
            self._read_cells(name, kinds[name])
        units = self._units(catalog)
        for table in catalog.private.values():
            self._show(table, units[table.name])
            if isinstance(table.unit, str):
                self._read_cells(table.name, {table.unit: self._unit_kind})
            self._read_cells(table.name, {name: one.kind for name, one in table.columns.items()})
        for table in list_unique(catalog):
            self._check_unique(table)
        self._harden(catalog)

    def _write(self, select: sql.Select) -> str:
        read = inline_views(select, self._views, self._lists)
        written = write_duckdb(select)
        return written if read & self._reals else StatementWithoutFloats(written)

    def _rows(self, statement: str) -> Rows:
        return self._fetch(lambda: self._execute(statement).fetchall())

    def _columns(self, statement: str) -> Columns:
        return self._fetch(lambda: self._execute(statement).fetchnumpy())

    def _fetch(self, fetch: Callable[[], T]) -> T:
        with self._lock, WATCHER.watched(self._connection, self._seconds):
            return self._memory.run(fetch)

    def _execute(self, statement: str) -> duckdb.DuckDBPyConnection:
        may_use_statistics = isinstance(statement, StatementWithoutFloats)
        self._leave_out(SLOWER, *([] if may_use_statistics else [STATISTICS]))
        return self._connection.execute(self._parse(statement)[0])

    def close(self) -> None:
        """End the connection; nothing can be read afterwards."""
        with self._lock:
            self._connection.close()
        self._memory.remove()

    def _open(self, table: Table | PublicTable) -> None:
        """Make a source readable under its raw name.

        # Privacy: a CSV file is read once, here, where a malformed line is the owner's to see; its
        # columns stay text until the view casts them, which cannot fail.
        """
        source = table.source
        try:
            if not isinstance(source, str | Path):
                check_frame(table.name, source)
                self._connection.register(raw_name(table.name), cell_by_cell(source))
                return
            if Path(source).suffix.lower() in FILES:
                check_file(source, "the folder of confide.toml or, in Python, from where it runs")
            file = sql.Literal.string(str(Path(source).resolve()))
            match Path(source).suffix.lower():
                case ".parquet":
                    self._create(
                        raw_name(table.name), read_parquet(self._connection, table.name, source)
                    )
                case ".csv":
                    rows = everything(
                        call("READ_CSV", file, *csv_options(as_text=isinstance(table, Table)))
                    )
                    self._create(raw_name(table.name), rows, kind="TABLE")
                case other:
                    raise BadDeclaration(
                        f"source of {table.name!r} must be a .parquet or .csv file, got {other!r}"
                    )
        except UnicodeError as error:
            said = f"table {table.name!r} cannot be read: one of its texts is not UTF-8"
            raise BadDeclaration(f"{said}; mend it in the frame") from error
        except duckdb.Error as error:
            said = f"table {table.name!r} cannot be read: {_say(error)}"
            is_csv = isinstance(source, str | Path) and Path(source).suffix.lower() == ".csv"
            raise BadDeclaration(f"{said}; {CSV_RULES}" if is_csv else said) from error

    def _doubt_reals(self, catalog: Catalog) -> None:
        """Find the reals in files, so that no statement rests on what files say of them.

        # Privacy: a Parquet file has the ends of each column, NaN apart. DuckDB believes that they
        # are those of all rows and leaves out comparisons that are true between them, also those by
        # which NaN becomes NULL. So one person's value would decide what everybody's NaN counts as.
        """
        for table in catalog.tables:
            if is_parquet(table.source):
                rows = describe(self._connection, sql.table_(raw_name(table.name), quoted=True))
                self._reals |= {str(name).lower() for name, kind in rows if kind in FLOATS}

    def _leave_out(self, *optimizers: str) -> None:
        if optimizers != self._left_out:
            self._connection.execute(f"SET disabled_optimizers = '{','.join(optimizers)}'")
            self._left_out = optimizers

    def _units(self, catalog: Catalog) -> dict[str, Sql | None]:
        """Return each table's unit: a whole number where all tables have one, else a text.

        # Privacy: a cast that fails on one row would tell of it, and NaN would make one unit of
        # all whom nobody identified. Types with equal values of different texts are refused: one
        # unit must not become several.
        """
        types: dict[str, str] = {}
        for table in catalog.private.values():
            if isinstance(table.unit, str):
                found = types_of(self._connection, raw_name(table.name), [table.unit])
                types[table.name] = found[table.unit]
                check_unit(table.name, table.unit, found[table.unit])
        wanted = "BIGINT" if set(types.values()) <= WHOLE else "VARCHAR"
        self._unit_kind = Kind.INT if wanted == "BIGINT" else Kind.TEXT
        return {
            table.name: _unit(table.unit, types[table.name], wanted)
            if isinstance(table.unit, str)
            else None
            for table in catalog.private.values()
        }

    def _show(self, table: Table, unit: Sql | None) -> None:
        try:
            types = types_of(self._connection, raw_name(table.name), table.columns)
            for name, declared in table.columns.items():
                stored_as = FITTING.get(plain_type(types[name]))
                check_readable(table.name, name, declared, types[name], stored_as)
            stored = kinds_of(self._connection, raw_name(table.name))
            self._name_lists(table)
            self._view(table.name, view_of_private(table, raw_name(table.name), unit, stored))
        except duckdb.Error as error:
            raise BadDeclaration(f"table {table.name!r} cannot be read: {_say(error)}") from error

    def _name_lists(self, table: Table) -> None:
        """Name the lists of categories: to read a list again takes longer than to find its name."""
        for declared in table.columns.values():
            for texts in enum_lists(declared) if isinstance(declared, Category) else ():
                if texts not in self._lists:
                    self._name_list(texts)

    def _name_list(self, texts: tuple[str, ...]) -> None:
        name = self._lists[texts] = f"list {len(self._lists)}"
        kinds = [sql.Literal.string(text) for text in texts]
        kind = sql.DataType(this=sql.DataType.Type.ENUM, expressions=kinds)
        named = sql.to_identifier(name, quoted=True).sql("duckdb")
        self._connection.execute(f"CREATE TYPE {named} AS {kind.sql('duckdb')}")

    def _view(self, name: str, rows: sql.Select) -> None:
        """Let statements read a table through a view, which the engine takes as well."""
        name_enums(rows, self._lists)
        self._create(name, rows)
        self._views[name] = rows

    def _create(self, name: str, rows: sql.Select, *, kind: str = "VIEW") -> None:
        made = sql.Create(this=sql.table_(name, quoted=True), kind=kind, expression=rows)
        text = made.sql("duckdb")
        self._memory.run(lambda: self._connection.execute(text))

    def _read_cells(self, name: str, columns: Mapping[str, Kind]) -> None:
        """See that no cell makes a question fail."""
        types = types_of(self._connection, raw_name(name), columns)
        try:
            read_cells(self._rows, (name, raw_name(name)), types, columns)
        except duckdb.Error as error:
            raise BadDeclaration(f"table {name!r} cannot be read: {_say(error)}") from error

    def _check_unique(self, table: Table) -> None:
        """See that a unit declared unique is."""
        try:
            ((rows, units),) = self._rows(self._write(count_units(table)))
        except duckdb.Error as error:
            raise BadDeclaration(f"table {table.name!r} cannot be read: {_say(error)}") from error
        if rows != units:
            raise not_unique_error(table)

    def _harden(self, catalog: Catalog) -> None:
        sources = [table.source for table in catalog.tables]
        files = [
            one for file in sources if isinstance(file, str | Path) for one in list_files(file)
        ]
        self._connection.execute("SET allowed_paths = $files", {"files": files})
        self._connection.execute("SET enable_external_access = false")
        # Privacy: of the settings only these may change: how much memory a statement may take,
        # which changes no answer, and whether it may rest on statistics, which `_execute` decides.
        self._connection.execute("SET allowed_configs = ['memory_limit', 'disabled_optimizers']")
        self._connection.execute("SET lock_configuration = true")


def connect() -> duckdb.DuckDBPyConnection:
    """Return a new connection, in which the day of a moment is that in UTC, wherever it runs.

    # Privacy: in a console DuckDB would print, of long statements, which part of the rows is done.
    # In a notebook without ipywidgets it prints nothing, and raises if the setting is changed.
    """
    connection = duckdb.connect(":memory:")
    connection.execute("SET TimeZone = 'UTC'")
    [(has_bar,)] = connection.execute("SELECT current_setting('enable_progress_bar')").fetchall()
    if has_bar:
        connection.execute("SET enable_progress_bar = false")
    return connection


def check_unit(table: str, unit: str, stored: str) -> None:
    """See that equal values of a unit's type have one text.

    Raises:
        BadDeclaration: one unit could become several.
    """
    if plain_type(stored) not in UNITS:
        raise ambiguous_unit_error(table, unit, stored)


def _unit(name: str, found: str, wanted: str) -> Sql:
    """Return a unit as a whole number or a text, whatever a file holds that came in its place."""
    if wanted == "BIGINT":
        return try_cast(column(name), wanted)
    if found not in FLOATS:
        return cast(column(name), wanted)
    real = sql.TryCast(this=column(name), to=sql.DataType.build(found, dialect="duckdb"))
    return cast(normalize_zero(without_nan(real)), wanted)


def _say(error: duckdb.Error) -> str:
    """Return the first line of what the engine says; later ones may quote rows."""
    return str(error).splitlines()[0]
