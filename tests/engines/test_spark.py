"""Spark: addresses, sessions, settings, faults, and units with very many rows.

Equality of its integers with DuckDB's is tested in tests/contracts/test_engines.py.
"""

import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import Any, Final
from unittest.mock import MagicMock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JNetworkError

from confide.curator import Curator
from confide.declare import (
    Budget,
    Catalog,
    Category,
    Date,
    Float,
    Int,
    PublicTable,
    Table,
    Text,
    Timestamp,
)
from confide.engines import open_engine
from confide.engines.spark import session
from confide.engines.spark.engine import SETTINGS
from confide.engines.spark.session import (
    RETRIES,
    TIMEOUT,
    TimedSession,
    is_cheap_to_read,
    parse_source,
)
from confide.errors import BadDeclaration, Fault
from confide.query.sql import read_sql
from support.entropy import SeededEntropy
from support.failing import COUNT, write_rows
from support.failing import open_curator as open_rows
from support.faults import ENGINE_FAULT
from support.places import SHARE, read_exactly
from support.spark import Spark
from support.tree import ROOT
from support.written import record_statements

MUCH: Final = Budget(1e12)
ROWS: Final = pa.table(
    {
        "pid": [1, 2, 2, 3],
        "x": [1.0, 2.0, 4.0, 99.0],
        "k": ["a", "b", "b", "ß"],
        "at": pa.array([datetime(2020, 2, 29, 23, 30)] * 4, pa.timestamp("us")),  # noqa: DTZ001
    }
)
TEXT: Final = "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY k"
EXPECTED: Final = [("a", 1, 1), ("b", 2, 6), ("ß", 1, 50)]


def declare(source: Any, **changes: Any) -> Table:
    columns = {
        "x": Float(0, 50),
        "k": Category(["a", "b", "ß"]),
        "at": Date("2020-01-01", "2020-12-31"),
    }
    return Table(
        "t",
        source,
        unit="pid",
        columns=changes.pop("columns", columns),
        max_rows_per_unit=2,
        **changes,
    )


def ask(source: Any, text: str = TEXT) -> list[tuple[Any, ...]]:
    """Return an answer without noise."""
    answer = Curator([declare(source)], budget=MUCH).sql(text, epsilon=1e9)
    return [
        tuple(round(value) if isinstance(value, float) else value for value in row.values())
        for row in answer.rows
    ]


def as_table(spark: Spark) -> str:
    return f"spark:default.{spark.save(ROWS)}"


def as_view(spark: Spark) -> str:
    name = f"view_of_{spark.save(ROWS)}"
    spark.session.sql(f"CREATE VIEW {name} AS SELECT * FROM {name.removeprefix('view_of_')}")
    return f"spark:{name}"


def as_path(spark: Spark) -> str:
    path = spark.folder / "rows.parquet"
    pq.write_table(ROWS, path)
    return f"spark:{path}"


def as_frame(spark: Spark) -> Any:
    return spark.frame(ROWS).filter("x > 0")


@pytest.mark.parametrize("make", [as_table, as_view, as_path, as_frame])
def test_every_kind_of_source_is_read(make: Callable[[Spark], Any], spark: Spark) -> None:
    """A table, a view, a Parquet path, and a DataFrame give the same answer."""
    assert EXPECTED == ask(make(spark))


def test_the_session_of_the_owner_stays_as_it_is(spark: Spark) -> None:
    """Settings and views of confide do not exist in the owner's session."""
    before = {name: spark.session.conf.get(name) for name in SETTINGS}
    tables = [found.name for found in spark.session.catalog.listTables()]
    ask(as_frame(spark))

    assert before == {name: spark.session.conf.get(name) for name in SETTINGS}
    assert tables == [found.name for found in spark.session.catalog.listTables()]
    assert "true" == before["spark.sql.ansi.enabled"]  # otherwise the test is void


def test_strings_do_not_refer_to_settings(spark: Spark) -> None:
    """A string such as '${env:HOME}' is a plain string, not a variable of the driver."""
    found = ask(
        spark.frame(ROWS), "SELECT COUNT(*) AS n FROM t WHERE LENGTH(k || '${spark.master}') = 16"
    )

    assert [(4,)] == found


def test_timestamps_without_a_zone_become_dates(spark: Spark) -> None:
    """A timestamp without a time zone becomes its own date, in any time zone of the session."""
    found = ask(
        spark.frame(ROWS), "SELECT DAY(at) AS d, COUNT(*) AS n FROM t WHERE k = 'b' GROUP BY d"
    )

    assert [(29, 2)] == [row for row in found if row[1]]


def test_a_date_too_late_for_a_timestamp_is_clipped(spark: Spark) -> None:
    """A date of the year 4,900,000 in one row does not make queries of a timestamp fail."""
    rows = spark.session.sql(
        "SELECT pid, DATE_FROM_UNIX_DATE(day) AS at "
        "FROM VALUES (1, 18000), (2, 1800000000) AS t(pid, day)"
    )
    declared = declare(rows, columns={"at": Timestamp("2019-01-01", "2021-12-31")})
    text = "SELECT YEAR(at) AS y, COUNT(*) AS n FROM t GROUP BY y"
    answer = Curator([declared], budget=MUCH).sql(text, epsilon=1e9)

    assert [(2019, 1), (2020, 0), (2021, 1)] == [tuple(row.values()) for row in answer.rows]


def test_strings_are_compared_by_their_bytes(spark: Spark) -> None:
    """A case-insensitive collation of the source changes nothing."""
    rows = spark.session.sql(
        "SELECT pid, 1.0D AS x, k COLLATE UTF8_LCASE AS k, DATE '2020-02-02' AS at "
        "FROM VALUES (1, 'a'), (2, 'A'), (3, 'b') AS t(pid, k)"
    )

    assert [("a", 1, 1), ("b", 1, 1), ("ß", 0, 0)] == ask(rows)


def test_a_close_forgets_what_was_shared(spark: Spark) -> None:
    """DataFrames are shared under names that are dropped when the engine is closed."""
    curator = Curator([declare(spark.frame(ROWS))], budget=MUCH)
    engine: Any = curator._engine
    (shared,) = engine._shared
    before = spark.session.catalog.tableExists(f"global_temp.{shared}")
    engine.close()

    assert before
    assert not spark.session.catalog.tableExists(f"global_temp.{shared}")


def alter(name: str, spark: Spark) -> None:
    spark.session.sql(f"ALTER TABLE {name} ADD COLUMNS (other INT)")


def drop(name: str, spark: Spark) -> None:
    spark.session.sql(f"DROP TABLE {name}")


def swap(name: str, spark: Spark) -> None:
    spark.session.sql(f"DROP TABLE {name}")
    texts = ROWS.set_column(1, "x", pa.array(["1", "2", "4", "one"]))
    spark.frame(texts).write.saveAsTable(name)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [(alter, "TableAltered"), (drop, "TABLE_OR_VIEW_NOT_FOUND"), (swap, "TableAltered")],
)
def test_a_table_changed_after_opening_is_a_fault(
    spoil: Callable[[str, Spark], None],
    reason: str,
    spark: Spark,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The reason goes to the owner's log only, and the charge stays."""
    name = spark.save(ROWS)
    curator = Curator([declare(f"spark:{name}")], budget=Budget(10))
    curator.sql(TEXT, epsilon=1)
    spoil(name, spark)
    with caplog.at_level(logging.DEBUG, "confide.owner"), pytest.raises(Fault) as caught:
        curator.sql(TEXT, epsilon=1, fresh=True, key="again")

    assert ENGINE_FAULT == str(caught.value)
    assert caught.value.__cause__ is None
    assert name in caplog.text
    assert reason in "".join(
        record.getMessage() for record in caplog.records if record.levelno > logging.DEBUG
    )
    assert "1/5" == str(curator.budget.spent.share)


def test_a_public_table_stays_as_it_was_opened(spark: Spark) -> None:
    """Rows added to a public table later are not read, so no row matches two partners."""
    name = spark.save(pa.table({"k": ["a", "b"], "w": [2, 3]}))
    public = PublicTable("p", f"spark:{name}")
    curator = Curator([declare(spark.frame(ROWS)), public], budget=MUCH)
    text = "SELECT SUM(p.w) AS s FROM t JOIN p ON t.k = p.k"
    before = [round(row["s"]) for row in curator.sql(text, epsilon=1e9).rows]
    spark.session.sql(f"INSERT INTO {name} VALUES ('b', 1000)")
    after = curator.sql(text, epsilon=1e9, fresh=True).rows

    assert [2 + 3 + 3] == before
    assert before == [round(row["s"]) for row in after]
    assert [3] == [row[0] for row in spark.session.sql(f"SELECT COUNT(*) FROM {name}").collect()]


def test_a_unit_that_is_no_longer_unique_is_a_fault(
    spark: Spark, caplog: pytest.LogCaptureFixture
) -> None:
    """A second row of a unit declared unique is detected before rows are summed."""
    name = spark.save(pa.table({"pid": [1, 2], "x": [1.0, 2.0]}))
    columns = {"x": Float(0, 50)}
    table = Table("t", f"spark:{name}", unit="pid", columns=columns, unique=True)
    curator = Curator([table], budget=MUCH)
    spark.session.sql(f"INSERT INTO {name} VALUES (2, 3.0)")

    with caplog.at_level(logging.WARNING, "confide.owner"), pytest.raises(Fault):
        curator.sql("SELECT SUM(x) AS s FROM t", epsilon=1e9)
    assert "unique" in caplog.text


def test_a_session_that_ends_is_a_fault(
    spark: Spark, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If Spark is gone, the reason goes to the owner's log only, and the key resumes the query."""
    curator = Curator([declare(spark.frame(ROWS))], budget=Budget(10))
    engine: Any = curator._engine

    class Gone:
        def sql(self, text: str) -> None:
            raise ConnectionRefusedError(f"row (2, 4.0) in {text}")

    with monkeypatch.context() as patched:
        patched.setattr(engine, "_spark", Gone())
        with caplog.at_level(logging.WARNING, "confide.owner"), pytest.raises(Fault) as caught:
            curator.sql(TEXT, epsilon=1, key="again")
    assert ENGINE_FAULT == str(caught.value)
    assert "ConnectionRefusedError: Spark cannot be reached" in caplog.text
    assert "row (2, 4.0)" not in caplog.text
    spent = curator.budget.spent.share

    assert 3 == len(curator.sql(TEXT, epsilon=1, key="again").rows)
    assert spent == curator.budget.spent.share


def test_a_statement_past_its_time_limit_is_a_fault(
    spark: Spark, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If Spark hangs, the analyst waits no longer than the limit, and the key resumes the query."""
    curator = Curator([declare(spark.frame(ROWS))], budget=Budget(10))
    engine: Any = curator._engine
    awake = Event()
    with monkeypatch.context() as patched:
        patched.setattr(engine, "_timed", replace(engine._timed, seconds=0.01))
        patched.setattr(engine, "_run", lambda _: awake.wait())
        with caplog.at_level(logging.WARNING, "confide.owner"), pytest.raises(Fault) as caught:
            curator.sql(TEXT, epsilon=1, key="again")
    awake.set()
    assert ENGINE_FAULT == str(caught.value)
    assert f"TimeoutError: The statement took longer than {TIMEOUT} allows" in caplog.text
    spent = curator.budget.spent.share

    assert 3 == len(curator.sql(TEXT, epsilon=1, key="again").rows)
    assert spent == curator.budget.spent.share


def test_spark_ends_what_took_too_long(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement that timed out is canceled."""
    monkeypatch.setattr(session, "SHORT_SECONDS", 0.2)
    ended, errors = Event(), list[str]()

    def run_for_ever() -> None:
        try:
            spark.session.range(10**15).selectExpr("SUM(id % 7)").collect()
        except Exception as error:  # noqa: BLE001  # Spark has many kinds
            errors.append(str(error))
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        TimedSession(spark.session, 0.5).wait(run_for_ever)
    assert ended.wait(300)
    assert "SPARK_JOB_CANCELLED" in errors[0]


def test_a_file_that_is_cut_short_is_a_fault(
    spark: Spark, caplog: pytest.LogCaptureFixture
) -> None:
    """The owner's log names Spark's error without a row; the key resumes the query."""
    source = as_path(spark)
    path = Path(source.removeprefix("spark:"))
    curator = Curator([declare(source)], budget=Budget(10))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with caplog.at_level(logging.WARNING, "confide.owner"), pytest.raises(Fault):
        curator.sql(TEXT, epsilon=1, key="again")
    path.write_bytes(whole)
    told = [record.getMessage() for record in caplog.records]
    spent = curator.budget.spent.share

    assert 1 == len(told)
    assert re.search(r"\((\w+, )?SparkException, FAILED_READ_FILE", told[0])
    assert "A file is missing, unreadable, truncated, or has other types." in told[0]
    assert path.name not in told[0]
    assert 3 == len(curator.sql(TEXT, epsilon=1, key="again").rows)
    assert spent == curator.budget.spent.share


@pytest.mark.parametrize("error", [Py4JNetworkError, ConnectionRefusedError, BrokenPipeError])
def test_a_lost_driver_is_reported(
    error: type[Exception], spark: Spark, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever error a killed JVM causes, the owner's log says that Spark cannot be reached."""
    engine: Any = open_engine(Catalog([declare(spark.frame(ROWS))]), salt="grain")

    def fetch(_: str) -> None:
        raise error("row (2, 4.0)")

    with caplog.at_level(logging.WARNING, "confide.owner"), pytest.raises(Fault):
        engine._read("", fetch)
    assert f"{error.__name__}: Spark cannot be reached, or its session has ended" in caplog.text
    assert "row" not in caplog.text


@pytest.mark.parametrize("said", ["", "0", "-1", "10min", "²", "99999999999", "9" * 5_000])
def test_the_timeout_is_a_number_of_seconds(said: str) -> None:
    """An invalid time limit is refused, and the message shows a valid one."""
    owner = MagicMock()
    owner.conf.get.return_value = said

    with pytest.raises(BadDeclaration, match=f"{TIMEOUT}` must be an integer number of seconds"):
        TimedSession.of(owner, MagicMock())


def test_sources_that_cannot_be_opened_are_refused(spark: Spark) -> None:
    """Missing tables and columns, and unsupported types, are reported when the engine is opened."""
    for source, word in (("spark:nowhere", "nowhere"), ("spark:/no/such/folder", "/no/such")):
        with pytest.raises(BadDeclaration, match=word):
            Curator([declare(source)], budget=MUCH)
    with pytest.raises(BadDeclaration, match=r"'t' has no column 'kk'\. Did you mean 'k'"):
        Curator([declare(spark.frame(ROWS), columns={"kk": Text()})], budget=MUCH)
    odd = pa.table({"pid": [1], "list": [[1, 2]]})
    with pytest.raises(BadDeclaration, match="has type array<bigint>"):
        Curator([declare(spark.frame(odd), columns={"list": Text()})], budget=MUCH)


def test_units_with_a_caseless_collation_are_refused(spark: Spark) -> None:
    """A collation by which two spellings are one person would make two units of that person."""
    rows = spark.session.sql("SELECT 'Ann' COLLATE UTF8_LCASE AS pid, 1.0D AS x")

    with pytest.raises(BadDeclaration, match="has the collation UTF8_LCASE"):
        Curator([declare(rows, columns={"x": Float(0, 1)})], budget=MUCH)


def test_a_long_string_does_not_end_the_session(spark: Spark) -> None:
    """A string with very many groups of digits is read like any other."""
    rows = pa.table({"pid": [1, 2], "x": [1.0, 2.0], "t": ["7", "1" + "_1" * 50_000]})
    table = declare(spark.frame(rows), columns={"x": Float(0, 50), "t": Text()})
    curator = Curator([table], budget=MUCH)
    for kind in ("BIGINT", "DOUBLE"):
        text = f"SELECT COUNT(CAST(t AS {kind})) AS n FROM t"
        assert 1 == round(curator.sql(text, epsilon=1e9).rows[0]["n"])


def test_addresses_need_a_table_or_path() -> None:
    """A cluster's address without a table or path is refused; the message shows a valid one."""
    with pytest.raises(BadDeclaration, match=r"\?table=NAME` or `\?path=FOLDER"):
        parse_source(PublicTable("icd", "sc://host:15002"))


def test_tables_live_in_one_session(spark: Spark) -> None:
    """DataFrames and the address of a cluster cannot be combined."""
    tables = (declare(spark.frame(ROWS)), PublicTable("icd", "sc://host:15002?table=icd"))

    with pytest.raises(BadDeclaration, match="either DataFrames of one session or the address"):
        Curator(tables, budget=MUCH)


def test_a_large_unit_is_bounded_before_the_shuffle(spark: Spark) -> None:
    """Each task keeps only the rows of a unit that may count, before rows are shuffled."""
    heavy = spark.session.range(200_000).selectExpr(
        "IF(id % 10 = 0, id, 7) AS pid", "id % 50 AS n", "CAST(id % 3 AS STRING) AS k"
    )
    declared = Table(
        "t",
        heavy,
        unit="pid",
        columns={"n": Int(0, 49), "k": Category(list("012"))},
        max_rows_per_unit=4,
    )
    curator = Curator([declared], budget=MUCH)
    engine: Any = curator._engine
    written = record_statements(curator)
    answer = curator.sql("SELECT k, COUNT(*) AS n, SUM(n) AS s FROM t GROUP BY k", epsilon=1e9)
    plan = engine._spark.sql(f"EXPLAIN {written[-1]}").collect()[0][0]
    first, *rest = plan.split("WindowGroupLimit")

    assert 20_000 + 4 == sum(row["n"] for row in answer.rows)
    assert "Partial" in rest[-1]
    assert "Exchange hashpartitioning(the unit" in first + rest[0]


CUT_BY_WHOLE_NUMBERS: Final = (
    "SELECT k, COUNT(*) AS n FROM t GROUP BY k",
    "SELECT k, SUM(n) AS s FROM t GROUP BY k",
    "SELECT COUNT(*) AS n FROM t WHERE n > 20",
)


def test_large_units_in_small_files_lose_the_same_rows_earlier(
    spark: Spark, entropy: SeededEntropy
) -> None:
    """Each task drops the excess rows of a large unit, and the integers are those of DuckDB."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    units = rng.integers(0, rng.integers(1, 400, 20_000))  # low numbers have most of the rows
    numbers = {name: rng.integers(0, 50, len(units)) for name in ("k", "n")}
    path = spark.folder / "heavy.parquet"
    pq.write_table(pa.table({"pid": units, **numbers}), path)
    columns = {"k": Int(0, 49), "n": Int(0, 49)}
    here, there = (
        Table("t", some, unit="pid", columns=columns, max_rows_per_unit=9, max_groups_per_unit=3)
        for some in (path, f"spark:{path}")
    )
    curator = Curator([here], budget=MUCH)
    engines = [open_engine(Catalog([some]), salt="grain") for some in (here, there)]
    reading: Any = engines[1]
    for text in CUT_BY_WHOLE_NUMBERS:
        plan = curator._planner.plan(read_sql(text, curator.names), SHARE)
        statement = reading._write_statement(plan.measurement)
        explained = reading._spark.sql(f"EXPLAIN {statement}").collect()[0][0]

        assert read_exactly(engines[0], plan) == read_exactly(reading, plan)
        assert "BroadcastHashJoin [the unit" in explained
        assert "LeftAnti" in explained


def test_only_small_files_are_read_twice(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that is computed, nondeterministic, or large is read once per query."""
    stored = spark.session.read.parquet(as_path(spark).removeprefix("spark:"))

    assert is_cheap_to_read(stored.where("x < 3").select("pid"))
    assert not is_cheap_to_read(stored.groupBy("pid").count())
    assert not is_cheap_to_read(stored.selectExpr("pid", "rand() AS x"))
    assert not is_cheap_to_read(spark.session.range(9).selectExpr("id AS pid"))
    monkeypatch.setattr(session, "MAX_BROADCAST_BYTES", 100)
    assert not is_cheap_to_read(stored.select("pid"))


def test_a_failed_client_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed Spark Connect client makes no call when the process ends, and retries briefly."""
    session, policy = MagicMock(), MagicMock()
    type(session).__module__ = "pyspark.sql.connect.session"
    session.client.get_retry_policies.return_value = [policy]
    session.table.side_effect = OSError("gone")
    monkeypatch.setattr("confide.engines.spark.engine.open_session", lambda _: session)

    with pytest.raises(BadDeclaration, match="Table 't' cannot be read: gone"):
        Curator([declare("sc://host:15002?table=visits")], budget=MUCH)
    session.newSession.assert_not_called()
    session.client.close.assert_called_once_with()
    assert RETRIES == policy.max_retries


def run_apart(program: str, argument: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a program in a folder with its own Spark session, without Java's output."""
    return subprocess.run(
        [sys.executable, "-m", f"support.{program}", argument],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
    )


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], str]:
    """Return the folder, the lines, and the log of a program with a Spark of its own."""
    folder = tmp_path_factory.mktemp("apart")
    write_rows(folder)
    done = run_apart("failing", str(folder), folder)

    assert 0 == done.returncode, done.stderr[-2_000:]
    return folder, done.stdout.splitlines(), done.stderr


def test_files_that_are_denied_and_a_driver_that_is_killed_are_faults(
    spark: Spark, apart: tuple[Path, list[str], str]
) -> None:
    """Real failures return only a code and are charged once; their keys resume them.

    A query left unanswered by a killed driver is resumed by another process: this one.
    """
    folder, lines, log = apart
    fault = f"fault: {ENGINE_FAULT}"

    # Denied, resumed, and killed.
    assert [f"{fault} | 1/1000", "2 | 1/1000", f"{fault} | 1/500"] == lines[1:4]
    assert "FileNotFoundException): A file is missing, unreadable" in log
    assert "Spark cannot be reached, or its session has ended" in log
    assert spark.session.range(3).count() == 3  # this session survives
    curator = open_rows(folder)
    answer = curator.sql(COUNT, epsilon=1e9, key="killed")
    assert [("a", 2, 51), ("b", 2, 6)] == [
        (row["k"], round(row["n"]), round(row["s"])) for row in answer.rows
    ]
    assert "1/500" == str(curator.budget.spent.share)


def test_a_hive_table_is_queried_by_name(apart: tuple[Path, list[str], str]) -> None:
    """A partitioned Hive table in ORC gives the answer of DuckDB."""
    assert "hive equal" == apart[1][0]


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("SELECT COUNT(*) AS n, SUM(x) AS s FROM t", 1),
        ("SELECT k, COUNT(*) AS n, SUM(x) AS s, VAR_SAMP(x) AS v FROM t GROUP BY k", 4),
        ("SELECT name, COUNT(DISTINCT pid) AS n FROM t GROUP BY name", 6),
        ("SELECT k, name, AVG(x) AS m FROM t WHERE x > 3 GROUP BY k, name", 24),
        ("SELECT AVG(s) AS m FROM (SELECT pid, SUM(x) AS s FROM t GROUP BY pid)", 1),
        ("SELECT k FROM t GROUP BY k ORDER BY COUNT(*) DESC LIMIT 2", 4),
    ],
)
def test_only_integers_of_each_group_are_collected(
    text: str, most: int, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark returns one row per group to this process: its keys, and integers."""
    many = 3_000
    rows = pa.table(
        {
            "pid": range(many),
            "x": [n / 7 for n in range(many)],
            "k": ["abc"[n % 3] for n in range(many)],
            "name": [f"n{n % 6}" for n in range(many)],
        }
    )
    columns = {"x": Float(0, 400), "k": Category(list("abc")), "name": Text()}
    curator = Curator([declare(spark.frame(rows), columns=columns)], budget=Budget(1e12, 1e-6))
    engine: Any = curator._engine
    frame = type(engine._spark.range(1))
    collect, collected = frame.collect, list[tuple[Any, ...]]()

    def watch(self: Any) -> Any:
        found = collect(self)
        collected.extend(tuple(row) for row in found)
        return found

    def forbid(*_: Any, **__: Any) -> None:
        pytest.fail("rows leave Spark by another way")

    monkeypatch.setattr(frame, "collect", watch)
    for way in ("toPandas", "toArrow", "toLocalIterator", "take", "head", "first", "foreach"):
        monkeypatch.setattr(frame, way, forbid)
    assert curator.sql(text, epsilon=1e9).rows
    keys = {None, *"abc", *(f"n{n}" for n in range(6))}

    assert 0 < len(collected) <= most
    for value in (value for row in collected for value in row):
        assert value in keys if isinstance(value, str | None) else int(value) == value


def test_a_cluster_is_reached_over_the_network(spark: Spark, tmp_path: Path) -> None:
    """Spark Connect gives the same answer by its address and by a DataFrame."""
    done = run_apart("connected", spark.listen(), tmp_path)

    assert 0 == done.returncode, done.stderr[-2_000:]
    assert ["equal", "equal"] == done.stdout.split()[-2:]
