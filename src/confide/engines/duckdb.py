"""DuckDB, embedded: the default engine."""

import threading
from pathlib import Path
from typing import Final

import duckdb
from sqlglot import expressions as sql

from confide.declare import Catalog, Kind, PublicTable, Row, Table
from confide.engines.expressions import call
from confide.engines.fragments import unit_column
from confide.engines.public import DuckFacts, kinds_of
from confide.engines.sealed import Sealed
from confide.engines.statements import write_statement
from confide.engines.views import view_of_private, view_of_public
from confide.errors import BadDeclaration, Fault
from confide.ledger import Hold
from confide.plan import Plan

__all__ = ["DuckDB"]

READERS: Final = {".parquet": "READ_PARQUET", ".csv": "READ_CSV"}


class DuckDB:
    """Reads the declared sources through typed, clipped views, and nothing else.

    # Privacy: the connection can open no file but the declared ones and its settings are locked;
    # statements come from `write_statement` only, and whatever the engine says stays inside.
    """

    def __init__(self, catalog: Catalog, *, salt: str) -> None:
        self._salt = salt
        self._lock = threading.Lock()
        self._connection = duckdb.connect(":memory:")
        self._kinds: dict[str, dict[str, Kind]] = {}
        self.facts = DuckFacts(self._connection, self._kinds)
        tables: list[Table | PublicTable] = [*catalog.private.values(), *catalog.public.values()]
        for table in tables:
            self._attach(table)
        for table in catalog.private.values():
            self._check(table)
        self._harden([table.source for table in tables])

    def run(self, plan: Plan, hold: Hold) -> Sealed:
        """Return the exact totals of each group found; ``hold`` shows that they are paid for."""
        hold.use()
        statement = write_statement(plan, self._salt).sql("duckdb")
        count = len(plan.query.keys)
        try:
            with self._lock:
                rows = self._connection.execute(statement).fetchall()
        except duckdb.Error as error:
            raise Fault("the engine could not answer; the owner's log has the reason") from error
        groups = {row[:count]: tuple(int(part or 0) for part in row[count:]) for row in rows}
        return Sealed(groups)

    def _attach(self, table: Table | PublicTable) -> None:
        raw = f"raw {table.name}"
        source = table.source
        try:
            if isinstance(source, str | Path):
                reader = READERS.get(Path(source).suffix.lower())
                if reader is None:
                    raise BadDeclaration(
                        f"source of {table.name!r} must be a .parquet or .csv file"
                    )
                rows = sql.select("*").from_(
                    call(reader, sql.Literal.string(str(Path(source).resolve())))
                )
                self._create(raw, rows)
            else:
                self._connection.register(raw, source)
            if isinstance(table, Table):
                self._create(table.name, view_of_private(table, raw))
            else:
                self._kinds[table.name] = kinds_of(self._connection, raw)
                self._create(table.name, view_of_public(self._kinds[table.name], raw))
        except duckdb.Error as error:
            raise BadDeclaration(f"table {table.name!r} cannot be read: {error}") from error

    def _create(self, name: str, rows: sql.Select) -> None:
        view = sql.Create(this=sql.table_(name, quoted=True), kind="VIEW", expression=rows)
        self._connection.execute(view.sql("duckdb"))

    def _check(self, table: Table) -> None:
        """See that a unit declared unique is."""
        if not table.unique or isinstance(table.unit, Row):
            return
        unit = unit_column()
        rows, units = sql.Count(this=sql.Star()), sql.Count(this=sql.Distinct(expressions=[unit]))
        counts = sql.select(rows, units).from_(sql.table_(table.name, quoted=True))
        found = self._connection.execute(counts.sql("duckdb")).fetchone()
        if found is None or found[0] != found[1]:
            raise BadDeclaration(
                f"table {table.name!r} is declared unique=True, but some unit has several "
                "rows; declare max_rows_per_unit instead"
            )

    def _harden(self, sources: list[object]) -> None:
        files = [
            str(Path(source).resolve()) for source in sources if isinstance(source, str | Path)
        ]
        self._connection.execute("SET allowed_paths = $files", {"files": files})
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")
