"""DuckDB: files that change under a running curator, timeouts, and spilled files."""

import logging
import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from confide.curator import Curator
from confide.declare import (
    Bool,
    Budget,
    Catalog,
    Category,
    Column,
    Date,
    Float,
    Int,
    PublicTable,
    Table,
    Text,
)
from confide.engines.duckdb.engine import DuckDB
from confide.engines.duckdb.timeouts import TIMEOUT, Watcher
from confide.errors import BadDeclaration, Fault
from support.faults import ENGINE_FAULT

ROWS: Final = 200
NUMBERS: Final = list(range(ROWS))
BEFORE: Final[dict[str, list[Any]]] = {
    "pid": NUMBERS,
    "n": [number % 10 for number in NUMBERS],
    "x": [0.5] * ROWS,
    "k": ["a", "b"] * (ROWS // 2),
}
AFTER: Final[dict[str, list[Any]]] = {
    "pid": [*map(str, NUMBERS[1:]), "nobody"],
    "n": [*["7"] * (ROWS - 1), "seven"],
    "x": [*["0.5"] * (ROWS - 1), "half"],
    "k": NUMBERS,
}
TEXT: Final = "SELECT k, COUNT(*) AS rows, SUM(n) AS n, SUM(x) AS x FROM t GROUP BY k"


def open_curator(path: Path, **units: Any) -> Curator:
    pq.write_table(pa.table({**BEFORE, **units}), path)
    table = Table(
        "t",
        path,
        unit="pid",
        columns={"n": Int(0, 9), "x": Float(0, 1), "k": Category(["a", "b"])},
        max_rows_per_unit=3,
        max_groups_per_unit=2,
    )
    return Curator([table], budget=Budget(10))


@pytest.mark.parametrize("column", AFTER)
@pytest.mark.parametrize("units", [NUMBERS, [float(number) for number in NUMBERS]])
def test_no_row_of_another_file_makes_a_question_fail(
    column: str, units: list[Any], tmp_path: Path
) -> None:
    """A file that replaces the declared one is read as declared, without unreadable cells."""
    path = tmp_path / "t.parquet"
    curator = open_curator(path, pid=units)
    pq.write_table(pa.table({**BEFORE, "pid": units, column: AFTER[column]}), path)

    assert {"a", "b"} == {row["k"] for row in curator.sql(TEXT, epsilon=1).rows}


def test_a_missing_file_is_reported_to_the_owner(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The owner's log says what happened, and the same key resumes the query."""
    path = tmp_path / "t.parquet"
    curator = open_curator(path)
    kept = path.rename(tmp_path / "elsewhere")
    with caplog.at_level(logging.WARNING, "confide.owner"), pytest.raises(Fault):
        curator.sql(TEXT, epsilon=1, key="k")
    spent = curator.budget.spent.share
    kept.rename(path)

    assert "A file is missing" in caplog.text
    assert curator.sql(TEXT, epsilon=1, key="k").rows
    assert spent == curator.budget.spent.share


@contextmanager
def denied(path: Path) -> Iterator[None]:
    """Make a file unreadable; root, who can read anything, becomes another user meanwhile."""
    is_root = os.geteuid() == 0
    path.chmod(0)
    if is_root:
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        path.chmod(0o600)


@contextmanager
def cut_short(path: Path) -> Iterator[None]:
    """Truncate a file to its first half."""
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    try:
        yield
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize("spoil", [denied, cut_short])
def test_an_unreadable_file_is_a_fault(
    spoil: Callable[[Path], AbstractContextManager[None]],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The reason goes to the owner's log only; the query is charged once, and can be resumed."""
    path = tmp_path / "t.parquet"
    curator = open_curator(path)
    curator.sql(TEXT, epsilon=1)
    before = curator.budget.spent.share
    with caplog.at_level(logging.WARNING, "confide.owner"), spoil(path), pytest.raises(Fault) as no:
        curator.sql(TEXT, epsilon=1, key="k", fresh=True)
    spent = curator.budget.spent.share

    assert ENGINE_FAULT == str(no.value)
    assert "A file" in caplog.text
    assert str(path) not in caplog.text
    assert before < spent
    assert curator.sql(TEXT, epsilon=1, key="k").rows
    assert spent == curator.budget.spent.share


PARTNERS: Final = "SELECT SUM(n * w) AS s FROM t JOIN p ON n = q"


def open_slow(path: Path) -> Curator:
    """Return a curator over rows with very many join partners, whose query takes minutes."""
    pq.write_table(pa.table({"pid": range(10**6), "n": [7] * 10**6}), path)
    many = PublicTable("p", pa.table({"q": [7] * 10**5, "w": [1] * 10**5}))
    table = Table("t", path, unit="pid", columns={"n": Int(0, 9)}, unique=True)
    return Curator([table, many], budget=Budget(10))


def test_a_question_that_takes_too_long_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The owner's time limit ends a statement; the charge stays, and its key resumes the query.

    The limit is short only while the slow query runs: a busy machine may take long to open it.
    """
    monkeypatch.setenv(TIMEOUT, "7200")
    path = tmp_path / "t.parquet"
    curator = open_slow(path)
    engine: Any = curator._engine
    limit, run = engine._seconds, engine.run
    with monkeypatch.context() as patched:

        def hasten(*given: Any) -> Any:
            patched.setattr(engine, "_seconds", 0.01)
            return run(*given)

        patched.setattr(engine, "run", hasten)
        with caplog.at_level(logging.WARNING, "confide.owner"), pytest.raises(Fault) as caught:
            curator.sql(PARTNERS, epsilon=1, key="k")
    spent = curator.budget.spent.share

    assert 7_200 == limit
    assert ENGINE_FAULT == str(caught.value)
    assert "fault" == caught.value.code
    assert (
        f"InterruptException: The statement was stopped, or took longer than {TIMEOUT}"
        in caplog.text
    )
    assert "SELECT" not in caplog.text
    assert 0 < spent
    pq.write_table(pa.table({"pid": range(10), "n": [7] * 10}), path)
    assert curator.sql(PARTNERS, epsilon=1, key="k").rows
    assert spent == curator.budget.spent.share


@pytest.mark.parametrize("said", ["", "0", "-1", "10min", "²", "99999999999", "9" * 5_000])
def test_a_time_limit_is_a_number_of_seconds(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An invalid time limit is refused, and the message shows a valid one."""
    monkeypatch.setenv(TIMEOUT, said)

    with pytest.raises(BadDeclaration, match=f"{TIMEOUT}` must be an integer number of seconds"):
        open_curator(tmp_path / "t.parquet")


class Remembered:
    """A connection that records when it was interrupted."""

    def __init__(self) -> None:
        self.told = Event()
        self.times = 0

    def interrupt(self) -> None:
        self.times += 1
        self.told.set()


def test_a_statement_in_time_is_never_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the watcher is late, it interrupts only running statements, repeatedly."""
    watcher, slow, quick = Watcher(), Remembered(), Remembered()
    for _ in range(1_000):
        with watcher.watched(quick, 3_600):
            pass
    with watcher.watched(quick, 3_600), watcher.watched(slow, 0.01):
        assert slow.told.wait(60)
        slow.told.clear()
        assert slow.told.wait(60)
    times = slow.times
    with watcher.watched(slow, 3_600):
        pass
    late = Remembered()
    monkeypatch.setattr("confide.engines.duckdb.timeouts.monotonic", lambda: monotonic() + 7_200)
    with watcher._changed:
        watcher._running[late] = monotonic(), late
        watcher._interrupt_overdue()
        watcher._running.clear()

    assert (0, times, 1) == (quick.times, slow.times, late.times)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork has nothing to show")
def test_a_forked_process_keeps_time_too(tmp_path: Path) -> None:
    """A child process lacks its parent's thread, so its connections are watched by its own."""
    said = tmp_path / "said"
    program = f"""
import os, pathlib, threading
from confide.engines.duckdb.timeouts import WATCHER
class Slow:
    told = threading.Event()
    def interrupt(self):
        self.told.set()
with WATCHER.watched(Slow(), 3600):
    child = os.fork()
    if not child:
        with WATCHER.watched(Slow(), 0.01):
            pathlib.Path({str(said)!r}).write_text(str(Slow.told.wait(60)))
        os._exit(0)
    os.waitpid(child, 0)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=120)

    assert "True" == said.read_text(encoding="utf-8")


OTHER_TYPES: Final = {
    "list": pa.array([[1], [2]]),
    "struct": pa.array([{"a": 1}, {"a": 2}]),
    "bytes": pa.array([b"1", b"2"]),
    "span": pa.array([1, 2], pa.duration("s")),
    "hour": pa.array([1, 2], pa.time32("s")),
    "decimals": pa.array([[Decimal(1)], [Decimal(2)]], pa.list_(pa.decimal128(10, 2))),
}
AS_TEXT: Final = {
    "list": "[1]",
    "struct": "{'a': 1}",
    "bytes": "1",
    "span": "00:00:01",
    "hour": "00:00:01",
    "decimals": "[1.00]",
}


@pytest.mark.parametrize("name", OTHER_TYPES)
def test_types_read_only_as_text_are_declared_as_text(name: str) -> None:
    """Lists, bytes, and intervals are refused as numbers, Booleans, and dates, but not as text."""
    rows = pa.table({"pid": [1, 2], "c": OTHER_TYPES[name]})
    kinds: list[Column] = [Int(0, 9), Float(0, 9), Bool(), Date("2000-01-01", "2030-01-01")]
    for kind in kinds:
        with pytest.raises(BadDeclaration, match=r"Column 'c' .*Declare category or text"):
            DuckDB(Catalog([Table("t", rows, unit="pid", columns={"c": kind})]), salt="")
    table = Table("t", rows, unit="pid", columns={"c": Category([AS_TEXT[name]])}, unique=True)
    answer = Curator([table], budget=Budget(1e12)).sql("SELECT COUNT(c) AS n FROM t", epsilon=1e9)

    assert 1 == round(answer.rows[0]["n"])


def test_a_column_of_nulls_can_have_any_type() -> None:
    """A column of NULLs can be declared as any type."""
    rows = pa.table({"pid": [1, 2], "c": pa.nulls(2)})
    for kind in (Int(0, 9), Date("2000-01-01", "2030-01-01"), Text()):
        DuckDB(Catalog([Table("t", rows, unit="pid", columns={"c": kind})]), salt="")


def test_nanosecond_timestamps_become_dates(tmp_path: Path) -> None:
    """A file as pandas writes it, with a time zone or without, opens and is counted by date."""
    late = datetime(2020, 2, 2, 23, 30, tzinfo=UTC)
    moments = [late, late + timedelta(hours=1), None]
    kinds = {"zoned": pa.timestamp("ns", tz="UTC"), "local": pa.timestamp("ns")}
    rows = pa.table({"pid": [1, 2, 3], **{name: pa.array(moments, kinds[name]) for name in kinds}})
    pq.write_table(rows, tmp_path / "t.parquet")
    days: dict[str, Column] = dict.fromkeys(kinds, Date("2020-01-01", "2020-12-31"))
    table = Table("t", tmp_path / "t.parquet", unit="pid", columns=days, unique=True)
    curator = Curator([table], budget=Budget(1e12))
    for name in kinds:
        told = f"COUNT({name}) AS n, COUNT(*) FILTER (WHERE {name} = DATE '2020-02-02') AS first"
        answer = curator.sql(f"SELECT {told} FROM t", epsilon=1e9)

        assert {"n": 2, "first": 1} == {key: round(n) for key, n in answer.rows[0].items()}


def test_spilled_rows_are_readable_by_their_user_only() -> None:
    """Spilled rows go to a folder that only its user can open, and that is removed."""
    table = Table("t", pa.table(BEFORE), unit="pid", columns={"n": Int(0, 9)})
    engine = DuckDB(Catalog([table]), salt="")
    asked = engine._connection.execute("SELECT current_setting('temp_directory')")
    ((folder,),) = asked.fetchall()

    assert 0o700 == stat.S_IMODE(Path(folder).stat().st_mode)
    engine.close()
    assert not Path(folder).exists()
