"""PostgreSQL: opening, forbidden access, and faults."""

import logging
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
import pyarrow as pa
import pytest
from rich.console import Console

from confide.cli.owner import draft_declaration
from confide.curator import Curator
from confide.declare import (
    Bool,
    Budget,
    Category,
    Column,
    Date,
    Float,
    Int,
    PublicTable,
    Table,
    Text,
    Timestamp,
)
from confide.engines import open_engine
from confide.engines.postgres.engine import PostgreSQL
from confide.engines.postgres.types import PostgresColumn, convert_unit
from confide.engines.registry import read_address
from confide.errors import BadDeclaration, Fault
from confide.plan import Plan
from support.faults import ENGINE_FAULT
from support.places import pair_tables, read_exactly
from support.postgres import Postgres, cut_connection, run_postgres
from support.warehouses import Warehouse
from support.written import record_statements

BUDGET: Final = Budget(100, 1e-6)
COUNT: Final = "SELECT COUNT(*) AS n FROM visits"
ROWS: Final = 200


@pytest.fixture
def warehouse(postgres: Postgres) -> Warehouse:
    """Return a database with visits of two hundred people."""
    return fill(Warehouse.of(postgres))


def fill(house: Warehouse) -> Warehouse:
    with house.connect() as connection:
        connection.execute(
            "CREATE TABLE visits (pid int, cost double precision, ward text, day timestamptz); "
            f"INSERT INTO visits SELECT n, n % 50, chr(65 + n % 3), '2020-01-01' FROM "
            f"generate_series(1, {ROWS}) AS n"
        )
    return house


def declare(source: str, **changes: Any) -> Table:
    columns: dict[str, Column] = {"cost": Float(0, 50), "ward": Category(["A", "B", "C"])}
    return Table("visits", source, unit="pid", columns=changes.pop("columns", columns), **changes)


def open_curator(house: Warehouse, table: str = "visits", **changes: Any) -> Curator:
    return Curator([declare(house.at(table), **changes)], budget=BUDGET)


@pytest.fixture
def owner_log(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], str]]:
    """Yield the owner's log, and check that it contains none of the rows' values."""
    with caplog.at_level(logging.WARNING, "confide.owner"):
        yield lambda: "\n".join(record.getMessage() for record in caplog.records)


def test_several_processes_read_a_table(warehouse: Warehouse) -> None:
    """A server can read a table in parallel in spite of fences and contribution bounding."""
    curator = open_curator(warehouse, max_rows_per_unit=5, max_groups_per_unit=2)
    written = record_statements(curator)
    curator.sql("SELECT ward, SUM(cost) AS s FROM visits GROUP BY ward", epsilon=1)
    with warehouse.connect() as connection:
        for name in ("parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size"):
            connection.execute(f"SET {name} = 0")
        plan = connection.execute(f"EXPLAIN {written[-1]}".encode()).fetchall()

    assert "OFFSET '0'" in written[-1]
    assert any("Parallel Seq Scan" in line for (line,) in plan)


def test_a_draft_has_the_names_and_types_of_the_database(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    """A draft lists the table and its columns, each with its type, and reads no row."""
    role = f"drafter_of_{database_of(warehouse)}"
    with warehouse.connect() as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN; CREATE SCHEMA clinic")
        connection.execute(
            "ALTER TABLE visits SET SCHEMA clinic; ALTER TABLE clinic.visits ADD z box"
        )
        connection.execute(f"GRANT USAGE ON SCHEMA clinic TO {role}")
    address = warehouse.at("clinic.visits").replace("postgres@", f"{role}@")
    draft_declaration(Console(quiet=True), [address], tmp_path / "confide.toml")
    draft = (tmp_path / "confide.toml").read_text(encoding="utf-8")
    expected = {
        "[tables.visits]",
        f'source = "{address}"',
        '# cost = { type = "float", low = LOW, high = HIGH }',
        '# day = { type = "timestamp", low = YYYY-MM-DD, high = YYYY-MM-DD }',
        '# z = { type = "TYPE" }  # int, float, category, text, bool, date, timestamp',
    }

    assert expected <= set(draft.splitlines())


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("spark:visits", "postgresql://user@host/database"),
        ("postgresql:///none?host=/nowhere&table=t", "PostgreSQL cannot be read"),
        ("postgresql:///none?host=/nowhere", "must name one table"),
    ],
)
def test_a_draft_needs_a_readable_source(source: str, said: str) -> None:
    """An address that is not PostgreSQL's, or cannot be reached, is refused."""
    with pytest.raises(BadDeclaration, match=said):
        read_address(source)


def expect_fault(curator: Curator, key: str = "k") -> None:
    """Run a query, and check that it raises a fault without details and stays charged."""
    before = curator.budget.spent.share
    with pytest.raises(Fault) as caught:
        curator.sql(COUNT, epsilon=1, key=key, fresh=True)

    assert ENGINE_FAULT == str(caught.value)
    assert "fault" == caught.value.code
    assert curator.budget.spent.share > before


def resume(curator: Curator, key: str = "k") -> None:
    """Repeat a query under the same key, and check that it is answered without another charge."""
    paid = curator.budget.spent.share
    answer = curator.sql(COUNT, epsilon=1, key=key)

    assert paid == curator.budget.spent.share
    assert abs(answer.rows[0]["n"] - ROWS) < 100


def test_a_hanging_server_is_abandoned(
    warehouse: Warehouse, owner_log: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a server does not even enforce its statement timeout, the query raises a fault."""
    curator = open_curator(warehouse)
    engine: Any = curator._engine
    stopped: list[int] = []

    def stop(_: Plan) -> str:
        stopped.append(engine._open.info.backend_pid)
        os.kill(stopped[0], signal.SIGSTOP)
        engine._time_limit = 0.2  # the next connection resets it
        return "SELECT 1"

    try:
        with monkeypatch.context() as patched:
            patched.setattr(engine, "_write_statement", stop)
            expect_fault(curator)
    finally:
        for process in stopped:
            os.kill(process, signal.SIGCONT)
    assert "The server cannot be reached, or ended the connection." in owner_log()
    resume(curator)


def test_a_server_that_hangs_after_the_query_costs_no_answer(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that cannot be ended is abandoned, and its answer and the next are returned."""
    curator = open_curator(warehouse)
    engine: Any = curator._engine
    end, stopped = engine._end, list[int]()

    def stop() -> None:
        stopped.append(engine._open.info.backend_pid)
        os.kill(stopped[-1], signal.SIGSTOP)
        engine._time_limit = 0.2
        end()

    try:
        with monkeypatch.context() as patched:
            patched.setattr(engine, "_end", stop)
            assert curator.sql(COUNT, epsilon=1).rows
        assert stopped
        assert engine._open is None
    finally:
        for process in stopped:
            os.kill(process, signal.SIGCONT)
    assert curator.sql(COUNT, epsilon=1, fresh=True).rows


@pytest.mark.parametrize("stage", ["settings", "types"])
def test_a_server_that_hangs_on_connecting_is_abandoned(
    stage: str, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query on a new connection without any response raises a fault, too."""
    curator = open_curator(warehouse)
    engine: Any = curator._engine
    looks = list[int]()

    def stand_still(connection: "psycopg.Connection[Any]") -> float:
        connection.execute("SELECT pg_sleep(600)")
        return 0.0

    def look(connection: "psycopg.Connection[Any]") -> None:
        looks.append(1)
        if len(looks) > 1:
            stand_still(connection)
        else:
            connection.close()
            raise psycopg.OperationalError

    with monkeypatch.context() as patched:
        patched.setattr("confide.engines.postgres.engine.GRACE", 0.5)
        if stage == "settings":
            patched.setattr("confide.engines.postgres.engine.fix_settings", stand_still)
        else:
            patched.setattr("confide.engines.postgres.engine.fix_settings", lambda _: 0.0)
            patched.setattr(engine, "_check_types", look)
        expect_fault(curator)
    resume(curator)


def test_a_connection_cut_between_questions_is_not_noticed(
    warehouse: Warehouse, postgres: Postgres
) -> None:
    """After a server restart between queries, the engine reconnects."""
    curator = open_curator(warehouse)
    curator.sql(COUNT, epsilon=1)
    with postgres.connect("postgres") as admin:
        assert 1 == cut_connection(admin, database_of(warehouse))

    assert curator.sql(COUNT, epsilon=2, fresh=True).rows


def database_of(house: Warehouse) -> str:
    return house.address.split("@/")[1].split("?")[0]


SLOW: Final = "SELECT n AS pid, (SELECT n % 50 FROM pg_sleep(30)) AS cost, 'A' AS ward FROM numbers"


@pytest.fixture
def slow(warehouse: Warehouse) -> Warehouse:
    """Return a database with a view that takes minutes to read, until it is replaced."""
    return slow_down(warehouse)


def slow_down(house: Warehouse) -> Warehouse:
    with house.connect() as connection:
        connection.execute(
            f"CREATE TABLE numbers AS SELECT generate_series(1, {ROWS}) AS n; "
            f"CREATE VIEW slow AS {SLOW}"
        )
    return house


def mend(house: Warehouse) -> None:
    with house.connect() as connection:
        connection.execute(
            f"CREATE OR REPLACE VIEW slow AS {SLOW.replace('pg_sleep(30)', 'pg_sleep(0)')}"
        )


def test_a_connection_cut_in_the_middle_is_a_fault(
    slow: Warehouse, postgres: Postgres, owner_log: Callable[[], str]
) -> None:
    """An interrupted query stays charged, and its key resumes it."""
    curator = open_curator(slow, "slow", columns={"cost": Int(0, 50)})
    text = "SELECT SUM(cost) AS n FROM visits"

    def cut_soon() -> None:
        with postgres.connect("postgres") as admin:
            while not cut_active(admin, database_of(slow)):
                pass

    cutter = threading.Thread(target=cut_soon)
    cutter.start()
    with pytest.raises(Fault, match=re.escape(ENGINE_FAULT)):
        curator.sql(text, epsilon=1, key="k")
    cutter.join()
    paid = curator.budget.spent.share
    mend(slow)

    assert "AdminShutdown" in owner_log()
    assert curator.sql(text, epsilon=1, key="k").rows
    assert paid == curator.budget.spent.share


def test_a_server_that_is_stopped_in_the_middle_is_a_fault(owner_log: Callable[[], str]) -> None:
    """A query is charged once, however often it fails, and is resumed when the server is up."""
    text = "SELECT SUM(cost) AS n FROM visits"
    with run_postgres() as server:
        house = slow_down(Warehouse.of(server))
        curator = open_curator(house, "slow", columns={"cost": Int(0, 50)})

        def stop_soon() -> None:
            with server.connect("postgres") as admin:
                while not is_asleep(admin, database_of(house)):
                    pass
            server.process.send_signal(signal.SIGINT)
            server.process.wait()

        stopper = threading.Thread(target=stop_soon)
        stopper.start()
        with pytest.raises(Fault, match=f"^{re.escape(ENGINE_FAULT)}$"):
            curator.sql(text, epsilon=1, key="k")
        stopper.join()
        paid = curator.budget.spent.share
        with pytest.raises(Fault, match=f"^{re.escape(ENGINE_FAULT)}$"):
            curator.sql(text, epsilon=1, key="k")
        assert "AdminShutdown" in owner_log()
        assert "OperationalError: The server cannot be reached" in owner_log()
        server.restart(lambda: None)
        mend(house)

        assert curator.sql(text, epsilon=1, key="k").rows
        assert paid == curator.budget.spent.share
        assert 0 < paid
        curator._engine.close()


def is_asleep(admin: "psycopg.Connection[Any]", name: str) -> bool:
    """Return whether a connection to a database is sleeping in a statement."""
    found = admin.execute(
        "SELECT FROM pg_stat_activity WHERE datname = %s AND wait_event = 'PgSleep'", (name,)
    )
    return found.fetchone() is not None


def cut_active(admin: "psycopg.Connection[Any]", name: str) -> int:
    """Close the connections that are sleeping in a statement."""
    (ended,) = admin.execute(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        "WHERE datname = %s AND wait_event = 'PgSleep'",
        (name,),
    ).fetchone() or (0,)
    return int(ended)


def test_a_question_that_takes_too_long_is_a_fault(
    slow: Warehouse, owner_log: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time limit in the owner's address holds, and a query that exceeds it can be resumed.

    Only the slow statement gets a short limit, so that no other can exceed it on a busy machine.
    """
    address = f"{slow.at('slow')}&options=-c%20statement_timeout%3D50min"
    curator = Curator([declare(address, columns={"cost": Int(0, 50)})], budget=BUDGET)
    engine: Any = curator._engine
    write, limits = engine._write_statement, list[Any]()

    def hasten(plan: Plan) -> str:
        limits.append(engine._open.execute("SHOW statement_timeout").fetchone())
        engine._open.execute("SET LOCAL statement_timeout = 100")
        return str(write(plan))

    text = "SELECT SUM(cost) AS n FROM visits"
    with monkeypatch.context() as patched:
        patched.setattr(engine, "_write_statement", hasten)
        with pytest.raises(Fault, match=re.escape(ENGINE_FAULT)):
            curator.sql(text, epsilon=1, key="k")

    assert [("50min",)] == limits
    assert 50 * 60 < engine._time_limit
    assert "QueryCanceled" in owner_log()
    mend(slow)
    assert curator.sql(text, epsilon=1, key="k").rows


@pytest.mark.parametrize(
    ("change", "back", "reason"),
    [
        ("DROP TABLE visits", None, "UndefinedTable"),
        ("ALTER TABLE visits RENAME COLUMN cost TO price", "RENAME COLUMN price TO cost", "Column"),
        (
            "ALTER TABLE visits ALTER cost TYPE text",
            "ALTER cost TYPE float8 USING cost::float8",
            "altered",
        ),
        ("REVOKE SELECT ON visits FROM {role}", None, "InsufficientPrivilege"),
    ],
)
def test_a_table_altered_after_opening_is_a_fault(
    change: str, back: str | None, reason: str, warehouse: Warehouse, owner_log: Callable[[], str]
) -> None:
    """A table altered by its owner is reported in the owner's log, and no row is read."""
    with warehouse.connect() as connection:
        role = f"reader_of_{database_of(warehouse)}"
        connection.execute(f"CREATE ROLE {role} LOGIN; GRANT SELECT ON visits TO {role}")
    reader = Warehouse(warehouse.address.replace("postgres@", f"{role}@"))
    curator = open_curator(reader)
    with warehouse.connect() as connection:
        connection.execute(change.format(role=role))
    expect_fault(curator)

    assert reason in owner_log()
    if back is not None:
        with warehouse.connect() as connection:
            connection.execute(f"ALTER TABLE visits {back}")
        resume(curator)


def test_a_role_that_may_not_read_cannot_open(warehouse: Warehouse) -> None:
    """A missing grant is reported when a declaration is opened, before any charge."""
    role = f"stranger_to_{database_of(warehouse)}"
    with warehouse.connect() as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
    stranger = Warehouse(warehouse.address.replace("postgres@", f"{role}@"))
    with pytest.raises(BadDeclaration, match="permission denied for table visits"):
        open_curator(stranger)


def test_a_table_that_is_locked_is_a_fault(
    warehouse: Warehouse, owner_log: Callable[[], str]
) -> None:
    """A query waits only once for a lock on a table, without a second connection."""
    address = f"{warehouse.at('visits')}&options=-c%20lock_timeout%3D100ms"
    curator = Curator([declare(address)], budget=BUDGET)
    curator.sql(COUNT, epsilon=1)
    engine: Any = curator._engine
    connection = engine._open
    with warehouse.connect() as owner, owner.transaction():
        owner.execute("LOCK TABLE visits IN ACCESS EXCLUSIVE MODE")
        expect_fault(curator)

    assert "LockNotAvailable (55P03): A table was locked" in owner_log()
    assert connection is engine._open
    resume(curator)


def test_a_table_that_is_locked_is_not_waited_for_at_opening(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statements that open a declaration have the time limit of queries."""
    monkeypatch.setattr("confide.engines.postgres.engine.STATEMENT_TIMEOUT", "1s")
    with warehouse.connect() as owner, owner.transaction():
        owner.execute("LOCK TABLE visits IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(BadDeclaration, match="due to statement timeout"):
            open_curator(warehouse)


@pytest.mark.parametrize("stage", ["_ensure_time_limit", "find_relation"])
def test_a_server_that_hangs_on_opening_is_abandoned(
    stage: str, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any response, opening a declaration and making a draft fail."""
    stopped: list[int] = []

    def stop(connection: "psycopg.Connection[Any]", *_: str) -> None:
        stopped.append(connection.info.backend_pid)
        os.kill(stopped[-1], signal.SIGSTOP)
        connection.execute("SELECT 1")

    monkeypatch.setattr("confide.engines.postgres.engine.GRACE", 0.5)
    monkeypatch.setattr("confide.engines.postgres.engine._ensure_time_limit", lambda _: 0.0)
    monkeypatch.setattr(f"confide.engines.postgres.engine.{stage}", stop)
    try:
        for look in (open_curator, lambda house: read_address(house.at("visits"))):
            with pytest.raises(BadDeclaration, match="PostgreSQL cannot be read"):
                look(warehouse)
    finally:
        for process in stopped:
            os.kill(process, signal.SIGCONT)
    assert 2 == len(stopped)


def test_columns_that_are_added_do_not_matter(warehouse: Warehouse) -> None:
    """Added columns are ignored, because only declared ones are checked."""
    curator = open_curator(warehouse)
    with warehouse.connect() as connection:
        connection.execute("ALTER TABLE visits ADD COLUMN extra text")

    assert curator.sql(COUNT, epsilon=1).rows


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgresql://nobody@/void?host=/nowhere&table=visits", "cannot be read"),
        ("{house}", "must name one table"),
        ("{house}&table=nothing", "finds no such table"),
        ("{house}&table=visits&table=others", "must name one table"),
    ],
)
def test_a_bad_address_is_refused(address: str, said: str, warehouse: Warehouse) -> None:
    """A wrong address is reported when it is opened."""
    with pytest.raises(BadDeclaration, match=said):
        Curator([declare(address.format(house=warehouse.address))], budget=BUDGET)


def test_engines_are_not_mixed(warehouse: Warehouse) -> None:
    """All tables of a declaration must use one engine; the message names each table's engine."""
    others = [
        PublicTable("wards", pa.table({"ward": ["A"]})),
        PublicTable(
            "wards", f"{Warehouse(warehouse.address + '&application_name=x').at('visits')}"
        ),
    ]
    for other in others:
        with pytest.raises(BadDeclaration, match=r"must (read all tables|have the same address)"):
            Curator([declare(warehouse.at("visits")), other], budget=BUDGET)


def test_nothing_can_be_written(warehouse: Warehouse) -> None:
    """Whatever the role is allowed to do, the engine's transactions are read-only."""
    engine = open_engine(open_curator(warehouse).catalog, salt="s")
    assert isinstance(engine, PostgreSQL)

    with pytest.raises(Fault), engine._session():
        engine._read("DELETE FROM public.visits", engine._rows)


def test_names_cannot_be_shadowed(warehouse: Warehouse) -> None:
    """Functions and operators in a schema that precedes pg_catalog change nothing."""
    with warehouse.connect() as connection:
        name = database_of(warehouse)
        connection.execute(
            "CREATE SCHEMA trap; CREATE FUNCTION trap.abs(float8) RETURNS float8 LANGUAGE sql AS "
            "'SELECT 0::float8'; CREATE TABLE trap.visits (pid int, cost float8, ward text); "
            f'ALTER DATABASE {name} SET search_path = "public", trap, pg_catalog'
        )
    curator = open_curator(warehouse)
    answer = curator.sql("SELECT SUM(ABS(cost - 25)) AS s FROM visits", epsilon=50)

    assert abs(answer.rows[0]["s"] - sum(abs(n % 50 - 25) for n in range(1, ROWS + 1))) < 100


def test_views_schemas_and_odd_names_are_read(warehouse: Warehouse) -> None:
    """A source may be a view, in a schema, with names that need quotes."""
    with warehouse.connect() as connection:
        connection.execute(
            'CREATE SCHEMA "my data"; CREATE VIEW "my data"."Visits; x" AS '
            'SELECT pid AS "PID", cost AS "Cost", ward FROM visits'
        )
    curator = open_curator(warehouse, "my%20data.Visits%3B%20x")

    assert 5 > abs(curator.sql(COUNT, epsilon=10).rows[0]["n"] - ROWS)


TYPES: Final = """
CREATE TYPE mood AS ENUM ('glad', 'sad');
CREATE DOMAIN age AS smallint CHECK (value >= 0);
CREATE TABLE people (pid uuid, a age, m mood, c char(5), v varchar(3), i name,
    n numeric, f real, b boolean, d date, s timestamp, z timestamptz, k text COLLATE "C",
    j jsonb);
INSERT INTO people SELECT gen_random_uuid(), x % 100, (ARRAY['glad', 'sad'])[1 + x % 2]::mood, 'a',
    'xyz', 'MiX', (ARRAY['NaN', 1e500, 1e-500, 3])[1 + x % 4],
    x / 3.0, x % 2 = 0, 'infinity', '-infinity', '2020-01-01 23:30-01', 'A', '{}'
FROM generate_series(1, 40) AS x;
"""


def test_a_date_too_late_for_a_timestamp_is_clipped(warehouse: Warehouse) -> None:
    """A date of the year 5,000,000 in one row does not make queries of a timestamp fail."""
    with warehouse.connect() as connection:
        connection.execute(
            "CREATE TABLE days AS SELECT * FROM (VALUES (1, date '2019-04-14'), "
            "(2, date '5000000-01-01')) AS v (pid, d)"
        )
    columns = {"d": Timestamp("2019-01-01", "2021-12-31")}
    table = Table("p", warehouse.at("days"), unit="pid", columns=columns)
    text = "SELECT YEAR(d) AS y, COUNT(*) AS n FROM p GROUP BY y"
    answer = Curator([table], budget=Budget(10**9)).sql(text, epsilon=10**6)

    assert [(2019, 1), (2020, 0), (2021, 1)] == [tuple(row.values()) for row in answer.rows]


def test_every_type_is_read(warehouse: Warehouse) -> None:
    """Domains, enums, padded and caseless strings, long numbers, and infinite dates are read."""
    with warehouse.connect() as connection:
        connection.execute(TYPES)
    columns: dict[str, Column] = {
        "a": Int(0, 99),
        "m": Category(["glad", "sad"]),
        "c": Category(["a", "a    "]),
        "v": Text(),
        "i": Category(["MiX", "mix"]),
        "n": Float(-10, 10),
        "f": Float(0, 20),
        "b": Bool(),
        "d": Date("2000-01-01", "2030-01-01"),
        "s": Date("2000-01-01", "2030-01-01"),
        "z": Date("2000-01-01", "2030-01-01"),
        "k": Category(["A", "a"]),
        "j": Text(),
    }
    table = Table("p", warehouse.at("people"), unit="pid", columns=columns)
    curator = Curator([table], budget=Budget(10**9))

    def ask(what: str) -> Any:
        (row,) = curator.sql(f"SELECT {what} AS x FROM p", epsilon=10**6).rows
        return round(row["x"], 3)

    assert 40 == ask("COUNT(*) FILTER (WHERE c = 'a' AND i = 'MiX' AND k = 'A')")
    assert 20 == ask("COUNT(*) FILTER (WHERE m = 'sad' AND v = 'xyz')")
    assert 30 == ask("COUNT(n)")
    assert 10 == ask("COUNT(*) FILTER (WHERE n = 10 AND a % 4 = 1)")
    assert 10 == ask("COUNT(*) FILTER (WHERE n = 0)")
    assert 40 == ask("COUNT(*) FILTER (WHERE d = '2030-01-01' AND s = '2000-01-01')")
    assert 40 == ask("COUNT(*) FILTER (WHERE z = '2020-01-02' AND j = '{}')")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"columns": {"j": Int(0, 9)}}, "stored as jsonb"),
        ({"columns": {"u": Int(0, 9)}}, "stored as uuid, .* Declare category or text"),
        ({"columns": {"u": Date("2000-01-01", "2030-01-01")}}, "stored as uuid"),
        ({"columns": {"z": Int(0, 9)}}, "stored as timestamp with time zone"),
        ({"columns": {"agee": Int(0, 9)}}, "Did you mean age"),
    ],
)
def test_types_that_cannot_be_read_are_refused(
    changes: dict[str, Any], said: str, warehouse: Warehouse
) -> None:
    """A type that does not match the declaration is refused, and the message says how to fix it."""
    with warehouse.connect() as connection:
        connection.execute(TYPES.replace(" a age", " age age"))
        connection.execute("ALTER TABLE people ADD u uuid DEFAULT gen_random_uuid()")
    terms: dict[str, Any] = {"unit": "pid", "columns": {"b": Bool()}, **changes}
    with pytest.raises(BadDeclaration, match=said):
        Curator([Table("p", warehouse.at("people"), **terms)], budget=BUDGET)


UNITS: Final = {
    "numeric": ("1", "1.0", "1.00", "100"),
    "double precision": ("0", "-0", "0.0", "2"),
    "real": ("0", "-0", "0.0", "2"),
}


@pytest.mark.parametrize("kind", UNITS)
def test_equal_units_are_one(kind: str, warehouse: Warehouse) -> None:
    """Values that the database considers equal are one unit, however they are written."""
    *same, other = UNITS[kind]
    values = ", ".join(f"('{value}'::{kind}, 1)" for value in (*same, other, "NaN"))
    with warehouse.connect() as connection:
        connection.execute(f"CREATE TABLE odd (who {kind}, x int); INSERT INTO odd VALUES {values}")
    odd = Table("odd", warehouse.at("odd"), unit="who", columns={"x": Int(0, 1)})
    answer = Curator([odd], budget=Budget(1e12)).sql("SELECT COUNT(*) AS n FROM odd", epsilon=1e9)

    assert 2 == round(answer.rows[0]["n"])


@pytest.mark.parametrize("kind", ["interval", "jsonb", "int[]"])
def test_units_of_other_types_are_refused(kind: str, warehouse: Warehouse) -> None:
    """A unit whose values may have several strings is refused."""
    with warehouse.connect() as connection:
        connection.execute(f"CREATE TABLE odd (who {kind}, x int)")
    odd = Table("odd", warehouse.at("odd"), unit="who", columns={"x": Int(0, 1)})
    with pytest.raises(BadDeclaration, match="in several ways"):
        Curator([odd], budget=BUDGET)


PARTNERS: Final = "SELECT SUM(LEAST(v.cost * p.f, 5)) AS n FROM visits v JOIN p ON v.ward = p.ward"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE p SET f = 9223372036854775807 WHERE ward = 'C'",
        "INSERT INTO p VALUES ('A', 1)",
        "DELETE FROM visits; INSERT INTO p VALUES ('A', 1)",
    ],
)
def test_a_public_table_that_changes_is_a_fault(
    change: str, warehouse: Warehouse, owner_log: Callable[[], str]
) -> None:
    """A query planned with outdated facts of a public table is a fault, for any private rows."""
    with warehouse.connect() as connection:
        connection.execute("CREATE TABLE p (ward text, f bigint)")
        connection.execute("INSERT INTO p VALUES ('A', 1), ('B', 2), ('C', 3)")
    public = PublicTable("p", warehouse.at("p"))
    curator = Curator([declare(warehouse.at("visits")), public], budget=BUDGET)
    assert curator.sql(PARTNERS, epsilon=1).rows
    with warehouse.connect() as connection:
        connection.execute(change)

    with pytest.raises(Fault, match=re.escape(ENGINE_FAULT)):
        curator.sql(PARTNERS, epsilon=1, fresh=True)
    assert "public table was changed" in owner_log()


@pytest.mark.parametrize("table", ["visits", "keyed"])
def test_units_stay_unique(table: str, warehouse: Warehouse) -> None:
    """A second row of a unit declared unique is a fault, unless an index prevents it."""
    with warehouse.connect() as connection:
        connection.execute(
            "CREATE TABLE keyed (pid int UNIQUE, cost double precision, ward text);"
            "INSERT INTO keyed SELECT pid, cost, ward FROM visits"
        )
    curator = open_curator(warehouse, table, unique=True)
    assert curator.sql(COUNT, epsilon=1).rows

    again = f"INSERT INTO {table} (pid, cost, ward) VALUES (1, 2, 'A')"
    with warehouse.connect() as connection:
        if table == "keyed":
            with pytest.raises(psycopg.errors.UniqueViolation):
                connection.execute(again)
            return
        connection.execute(again)
    expect_fault(curator)


@pytest.mark.parametrize("base", ["citext", "text"])
def test_units_that_ignore_case_are_refused(base: str) -> None:
    """Values that a database considers equal never become several units."""
    stored = PostgresColumn("who", 1, "citext", base, is_exact=False)
    with pytest.raises(BadDeclaration, match=r"lower\(who\)"):
        convert_unit(stored, "visits")


def test_units_of_long_numbers_stay_apart(warehouse: Warehouse) -> None:
    """Units that are equal as doubles but not as stored are counted as two."""
    with warehouse.connect() as connection:
        connection.execute(
            "CREATE TABLE long AS SELECT 9007199254740992::numeric + n AS pid, 1.0 AS cost "
            "FROM generate_series(0, 99) AS n"
        )
    table = Table("t", warehouse.at("long"), unit="pid", columns={"cost": Float(0, 1)}, unique=True)
    answer = Curator([table], budget=Budget(10**6)).sql(
        "SELECT COUNT(DISTINCT pid) AS n FROM t", epsilon=10**4
    )

    assert 100 == answer.rows[0]["n"]


def test_settings_of_a_role_change_nothing(warehouse: Warehouse) -> None:
    """Settings of a role or database do not change the integers, which are DuckDB's."""
    rows = pa.table({"pid": range(60), "x": [n / 7 for n in range(60)], "t": ["ä", "B", "a"] * 20})
    columns: dict[str, Column] = {"x": Float(0, 5), "t": Text()}
    settings = {
        "extra_float_digits": "-10",
        "DateStyle": "'German, DMY'",
        "TimeZone": "'Asia/Tokyo'",
        "standard_conforming_strings": "off",
        "default_transaction_isolation": "'read committed'",
    }
    name = database_of(warehouse)
    with warehouse.connect() as connection:
        for key, value in settings.items():
            connection.execute(f"ALTER DATABASE {name} SET {key} = {value}")
    pair = pair_tables([Table("t", rows, unit="pid", columns=columns)], warehouse)
    for text in (
        "SELECT CAST(x AS TEXT) AS k, t, COUNT(*) AS n FROM t GROUP BY k, t",
        "SELECT t LIKE '%\\_' AS k, SUM(x) AS n FROM t WHERE t < 'b' OR t = 'it''s\\' GROUP BY k",
    ):
        plan = pair.plan(text)

        assert read_exactly(pair.here, plan) == read_exactly(pair.there, plan)


def test_string_units_keep_the_rows_of_duckdb(warehouse: Warehouse) -> None:
    """Sorting strings by a number first, and hashing only their prefixes, keeps the same rows."""
    count = 600
    rows = pa.table(
        {
            "pid": [f"user-{n * n % 41:07d}" + "x" * (n % 41 // 40 * 5_000) for n in range(count)],
            "k": [f"product {n % 13}" for n in range(count)],
            "x": [n % 50 for n in range(count)],
        }
    )
    columns: dict[str, Column] = {
        "k": Category([f"product {n}" for n in range(12)]),
        "x": Int(0, 49),
    }
    table = Table(
        "t", rows, unit="pid", columns=columns, max_rows_per_unit=5, max_groups_per_unit=3
    )
    pair = pair_tables([table], warehouse)
    for text in (
        "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY k",
        "SELECT COUNT(DISTINCT pid) AS n, SUM(x) AS s FROM t",
        "SELECT k, MEDIAN(x) AS m FROM t GROUP BY k",
    ):
        plan = pair.plan(text)

        assert read_exactly(pair.here, plan) == read_exactly(pair.there, plan)
        assert "HASHTEXTEXTENDED" in pair.there._write_statement(plan.measurement)
