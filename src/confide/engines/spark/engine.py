"""Spark: opens sources and runs statements on its own cluster.

Statements run in a session of confide's own, with its own settings and temporary views; the
owner's session stays as it is. What comes back to this process is one row a group.
"""

import contextlib
import weakref
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from secrets import token_hex
from typing import Any, Final

from sqlglot import expressions as sql

from confide.declare import Catalog, Column, Int, Kind, PublicTable, Table
from confide.engines.protocol import TableAltered
from confide.engines.spark.dialect import SPARK, spark_cast
from confide.engines.spark.session import (
    SHORT,
    TIMEOUT,
    Patience,
    Place,
    can_read_twice,
    find_place,
    is_connected,
    name_failure,
    open_session,
    retry_less,
)
from confide.engines.sql.contribution_bounding import broadcast_large_units
from confide.engines.sql.engine import Columns, Rows, SqlEngine, engine_fault, name_columns
from confide.engines.sql.expressions import Sql, call, column, label, table
from confide.engines.sql.sources import raw_name, write_views
from confide.engines.sql.table_facts import (
    TableFacts,
    check_readable,
    count_units,
    list_unique,
    not_unique_error,
)
from confide.errors import BadDeclaration, ConfideError
from confide.plan import Measurement, private_tables

__all__ = ["Spark"]

# What could change the meaning of a statement is fixed, whatever the cluster's own settings are.
SETTINGS: Final = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.session.timeZone": "UTC",
}
KINDS: Final = {
    **dict.fromkeys(("byte", "short", "integer", "long"), Kind.INT),
    **dict.fromkeys(("float", "double", "decimal"), Kind.FLOAT),
    **dict.fromkeys(("string", "varchar", "char"), Kind.TEXT),
    "boolean": Kind.BOOL,
    "date": Kind.DATE,
}
CHANGED: Final = "a public table was changed; open the declaration again"
NOT_UNIQUE: Final = "a unit declared unique has several rows by now; open the declaration again"
BINARY: Final = "UTF8_BINARY"
GONE: Final = ("Connection", "BrokenPipe", "Network", "INVALID_HANDLE", "Grpc")
"""Words in the names of failures after which Spark is not there any more."""
TIMES: Final = ("timestamp", "timestamp_ntz")
TYPES: Final = {
    Kind.INT: "BIGINT",
    Kind.FLOAT: "DOUBLE",
    Kind.TEXT: "STRING",
    Kind.BOOL: "BOOLEAN",
    Kind.DATE: "DATE",
}
ADVICE: Final = (
    ("TableAltered", "a table was altered since it was opened; open the declaration again"),
    ("TimeoutError", f"slower than {TIMEOUT} allows, or Spark stands still"),
    ("FAILED_READ_FILE", "a file is gone, may not be read, was cut short, or has other types"),
    *((word, "Spark cannot be reached, or its session has ended") for word in GONE),
    ("NOT_FOUND", "a declared table or column is gone"),
    ("OutOfMemory", "Spark has no memory left"),
)
"""What to tell the owner, by the first word that stands in the name of a failure."""
Raw = dict[str, tuple[Kind, Sql]]


class Spark(SqlEngine):
    """Reads the declared sources through typed, clipped views of a session of its own.

    # Privacy: with `spark.sql.ansi.enabled` off no value makes a statement fail, and whatever
    # Spark says of a failure goes to the owner's log.
    """

    # Privacy: the driver raises errors of many kinds, and none of them may reach an analyst.
    failures = (Exception,)
    facts: TableFacts

    def __init__(self, catalog: Catalog, *, salt: str) -> None:
        self._salt = salt
        self._tables: dict[str, Any] = {}
        self._light: set[str] = set()
        places = {table.name: find_place(table) for table in catalog.tables}
        self._patience = _own_session(places)
        self._spark = self._patience.session
        self._shared: list[str] = []
        self._is_connected = is_connected(self._spark)
        if not self._is_connected:
            # Over the network this would wait for a server that has gone; `close` is for that.
            weakref.finalize(self, _forget, self._spark, self._shared).atexit = False
        with _ended_on_error(self._spark):
            self._open_all(catalog, places)

    def _open_all(self, catalog: Catalog, places: Mapping[str, Place]) -> None:
        """Make all tables readable under their names, and see what is declared of them."""
        kinds = {table.name: self._open(table, places[table.name]) for table in catalog.tables}
        public = {name: kinds[name] for name in catalog.public}
        self.facts = TableFacts(self._ask, public)
        views, self._unit_kind = write_views(catalog, kinds)
        for name, view in views.items():
            with _blamed(name):
                self._create(name, self._write(view))
        unique = list_unique(catalog)
        self._lasting = [declared for declared in unique if places[declared.name].name]
        for declared in unique:
            self._check_unique(declared)

    def _ask(self, asked: sql.Select) -> Rows:
        """Return what a question about public tables gives."""
        return self._read(self._write(asked), self._rows)

    def close(self) -> None:
        """Forget the views; the owner's session goes on."""
        _forget(self._spark, self._shared)
        if self._is_connected:
            with contextlib.suppress(Exception):
                self._spark.client.close()

    def _prepare(self, select: sql.Select, measurement: Measurement) -> sql.Select:
        """Return a statement that reads a small source twice, to sort less of it.

        Where texts are hashed it is read once, since their digests would be computed twice.
        """
        read = {
            found.name
            for found in private_tables(measurement.query.source, measurement.catalog).values()
        }
        if len(read) == 1 and read <= self._light and not select.find(sql.BitwiseOr):
            broadcast_large_units(select)
        return select

    def _write(self, select: sql.Select) -> str:
        return SPARK.write(_apart(select))

    def _rows(self, statement: str) -> Rows:
        return self._patience.wait(lambda: self._run(statement)[1])

    def _columns(self, statement: str) -> Columns:
        return name_columns(*self._patience.wait(lambda: self._run(statement)))

    def _run(self, statement: str) -> tuple[list[str], Rows]:
        """Return the names of columns and the rows that a statement gives."""
        self._see_unaltered()
        found = self._spark.sql(statement)
        return found.columns, [tuple(row) for row in found.collect()]

    def _see_unaltered(self) -> None:
        """Raise an error if a table has other columns than when it was opened."""
        for name, schema in self._tables.items():
            self._spark.catalog.refreshTable(name)
            if self._spark.table(name).schema != schema:
                raise TableAltered(name)

    def _open(self, declared: Table | PublicTable, place: Place) -> dict[str, Kind]:
        """Make a source readable under its raw name, and tell what its columns hold."""
        with _blamed(declared.name):
            source, schema = self._find(declared.name, place)
            if not place.name and not self._is_connected:  # a table of the catalog may grow
                stored = self._spark.sql(sql.select("*").from_(source).sql("spark"))
                self._light |= {declared.name} if can_read_twice(stored) else set()
            types = {field.name: field.dataType for field in schema.fields}
            raw = _raw_public(types) if isinstance(declared, PublicTable) else _raw(declared, types)
            columns = [label(value, name) for name, (_, value) in raw.items()]
            rows = sql.Select(expressions=columns).from_(source).sql("spark")
            if isinstance(declared, PublicTable) and not self._is_connected:
                self._copy(raw_name(declared.name), rows)
            else:
                self._create(raw_name(declared.name), rows)
        return {name: kind for name, (kind, _) in raw.items()}

    def _find(self, name: str, place: Place) -> tuple[Sql, Any]:
        """Return a source as a table that statements can name, and its columns.

        A frame belongs to the owner's session, so it is shared under a name that nobody guesses.
        """
        if place.name:
            source = ".".join(f"`{part.replace('`', '``')}`" for part in place.name.split("."))
            self._tables[source] = self._spark.table(source).schema
            return sql.to_table(source, dialect="spark"), self._tables[source]
        if place.path:
            frame = self._spark.read.parquet(place.path)
            frame.createOrReplaceTempView(f"`source {name}`")
            return table(f"source {name}"), frame.schema
        shared = f"confide_{token_hex(16)}"
        place.frame.createGlobalTempView(shared)
        self._shared.append(shared)
        database = self._spark.conf.get("spark.sql.globalTempDatabase", "global_temp")
        return sql.table_(shared, db=database, quoted=True), place.frame.schema

    def _copy(self, name: str, rows: str) -> None:
        """Keep the rows of a public table as they are now, on the executors.

        # Privacy: plans are made from what a public table holds. If it could change under them, a
        # row might meet two partners, or a value leave its range; should a copy be lost with its
        # executor, questions fail whatever the private rows are.
        """
        self._spark.sql(rows).localCheckpoint().createOrReplaceTempView(f"`{name}`")

    def _create(self, name: str, rows: str) -> None:
        self._spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW `{name}` AS {rows}")

    def _check_state(self) -> None:
        """See that units declared unique still are, in tables that live on.

        # Privacy: a unit that has several rows in spite of the declaration would not be cut. Over
        # Spark Connect no copy can be kept, so a public table that changed is a fault.
        """
        if self._is_connected and self.facts.has_changed():
            raise engine_fault(CHANGED)
        for declared in self._lasting:
            ((rows, units),) = self._ask(count_units(declared))
            if rows != units:
                raise engine_fault(NOT_UNIQUE)

    def _check_unique(self, declared: Table) -> None:
        """See that a unit declared unique is."""
        with _blamed(declared.name):
            ((rows, units),) = self._rows(self._write(count_units(declared)))
        if rows != units:
            raise not_unique_error(declared)

    def _explain(self, error: Exception) -> str:
        """Return what happened and what to do about it; errors of Spark are known by their names.

        Their types are those of packages that are there only with Spark.
        """
        is_altered = isinstance(error, TableAltered)
        named = f"TableAltered ({error})" if is_altered else name_failure(error, self._patience)
        said = next((text for word, text in ADVICE if word in named), "")
        return f"{named}: {said}" if said else named


def _apart(select: sql.Select) -> sql.Select:
    """Give the parts of every WITH names of their own: Spark's dialect has one WITH for all."""
    for place, found in enumerate(reversed(list(select.find_all(sql.With)))):
        parts = {part.alias for part in found.expressions}
        for name in found.parent_select.find_all(sql.Identifier) if found.parent_select else ():
            if name.this in parts:
                name.set("this", f"{name.this} {place}")
    return select


def _own_session(places: Mapping[str, Place]) -> Patience:
    """Return a session of our own, with how long it may take."""
    owner = session = open_session(places)
    if not any(place.cluster.startswith("sc://") for place in places.values()):
        session = session.newSession()  # what is opened by such an address is our own already
    with _ended_on_error(session), _blamed(*places):
        if is_connected(session):
            retry_less(session)
        for name, value in SETTINGS.items():
            session.conf.set(name, value)
        return Patience.of(owner, session)


@contextlib.contextmanager
def _ended_on_error(session: Any) -> Iterator[None]:
    """Leave Spark Connect at once if nothing comes of a session.

    A client that was not closed calls its server when the process ends, and waits ten minutes for
    one that has gone.
    """
    try:
        yield
    except BaseException:
        if is_connected(session):
            with contextlib.suppress(Exception):
                session.client.close()
        raise


def _raw_public(types: Mapping[str, Any]) -> Raw:
    """Return the columns of a public table that questions can use."""
    known = {
        name: KINDS[kind.typeName()] for name, kind in types.items() if kind.typeName() in KINDS
    }
    return {name: (kind, spark_cast(column(name), TYPES[kind])) for name, kind in known.items()}


def _raw(declared: Table, types: Mapping[str, Any]) -> Raw:
    """Return the declared columns, each in one of the five types that questions know."""
    raw: Raw = {}
    for name, one in declared.columns.items():
        stored = _type_of(declared.name, name, types)
        raw[name] = _read_column(declared.name, name, stored, one)
        said = stored.simpleString()
        found = Kind.DATE if stored.typeName() in TIMES else KINDS[stored.typeName()]
        check_readable(declared.name, name, one, said, found)
    if isinstance(declared.unit, str):
        raw[declared.unit] = _read_unit(declared, _type_of(declared.name, declared.unit, types))
    return raw


def _read_column(source: str, name: str, stored: Any, wanted: Column) -> tuple[Kind, Sql]:
    """Return what a column holds, and its value; points in time are days, if days are declared."""
    said = stored.typeName()
    value: Sql = column(name)
    if said in TIMES:
        kind = Kind.DATE if wanted.kind is Kind.DATE else Kind.TEXT
    elif said in KINDS:
        kind = KINDS[said]
    else:
        raise BadDeclaration(
            f"column {name!r} of {source!r} holds {stored.simpleString()}, which confide cannot "
            f"read as {wanted.kind}; leave it out, or make a view of numbers, texts, truths and "
            "days"
        )
    if said == "decimal" and isinstance(wanted, Int):
        # Halves go away from zero as long as it is a decimal, and to even numbers afterwards.
        value = call("ROUND", value, sql.Literal.number("0"))
    return kind, spark_cast(value, TYPES[kind])


def _read_unit(declared: Table, stored: Any) -> tuple[Kind, Sql]:
    """Return a unit as a whole number, a double or a text.

    # Privacy: different units stay different, so what is no plain number is compared as a text.
    """
    kind = KINDS.get(stored.typeName(), Kind.TEXT)
    if stored.typeName() in ("binary", "array", "map", "struct", "variant"):
        raise BadDeclaration(
            f"unit {declared.unit!r} of {declared.name!r} holds {stored.simpleString()}; "
            "units are whole numbers or texts"
        )
    if getattr(stored, "collation", BINARY) != BINARY:
        raise BadDeclaration(
            f"unit {declared.unit!r} of {declared.name!r} has the collation {stored.collation}, by "
            "which different texts may be one person; make a view with LOWER(...) or the like"
        )
    if stored.typeName() in ("decimal", *TIMES):
        kind = Kind.TEXT
    return kind, spark_cast(column(str(declared.unit)), TYPES[kind])


def _type_of(source: str, name: str, types: Mapping[str, Any]) -> Any:
    found = [kind for text, kind in types.items() if text.lower() == name.lower()]
    if len(found) == 1:
        return found[0]
    near = get_close_matches(name, types, n=3)
    advice = f"; near are {', '.join(map(repr, near))}" if near else ""
    raise BadDeclaration(f"there is no column {name!r} in {source!r}{advice}")


@contextlib.contextmanager
def _blamed(*names: str) -> Iterator[None]:
    """Tell the owner what Spark says of a source; it is read while the declaration is opened."""
    try:
        yield
    except ConfideError:
        raise
    except Exception as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        named = ", ".join(map(repr, names))
        raise BadDeclaration(f"table {named} cannot be read: {said}") from error


def _forget(session: Any, shared: list[str]) -> None:
    brief = Patience(session, SHORT)
    while shared:
        name = shared.pop()
        with contextlib.suppress(Exception):
            brief.wait(partial(session.catalog.dropGlobalTempView, name))
