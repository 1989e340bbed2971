"""Timestamps are read to the millisecond in UTC, and have DuckDB's parts, on every engine."""

from datetime import UTC, date, datetime, timedelta
from typing import Final

import pyarrow as pa
import pytest

from confide.curator import Curator
from confide.declare import Budget, Column, Int, Table, Timestamp
from confide.plan.keys import DeclaredKeys
from confide.query import canonical, col, count
from confide.query.sql import read_sql
from contracts.test_row_functions import compare
from support.noiseless import World, make_world
from support.places import PLACES, SHARE, Place, find_place, pair_tables, pair_world, read_exactly

START: Final = datetime(2019, 12, 30, 22, 59, 59, 999_000)  # noqa: DTZ001  # without a time zone
ODD: Final = (
    *(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)),  # noqa: DTZ001
    *(datetime(1969, 12, 31, 23, 59, 59, 999_500), datetime(1970, 1, 1)),  # noqa: DTZ001
    *(datetime(1969, 12, 31, 12, 30), datetime(1900, 2, 28, 23), datetime(2020, 2, 29)),  # noqa: DTZ001
    None,
)


@pytest.fixture(scope="session", params=PLACES)
def place(request: pytest.FixtureRequest) -> Place:
    """Return a place for the rows of each engine, in turn."""
    return find_place(request.param, request)


def times() -> World:
    """Return odd timestamps, and some around the turn of a year."""
    near = [START + timedelta(milliseconds=step * 1_234_567) for step in range(400)]
    rows = [
        {"ts": one, "tz": ODD[place % len(ODD)], "n": place * 7919 - 10**5}
        for place, one in enumerate([*ODD, *near])
    ]
    columns: dict[str, Column] = {
        **{name: Timestamp("0001-01-01", "9999-12-31") for name in ("ts", "tz")},
        "n": Int(-(2**53), 2**53),
    }
    return make_world([{"pid": pid, **row} for pid, row in enumerate(rows)], columns)


CASES: Final = (
    *(f"EXTRACT({part} FROM ts)" for part in ("hour", "minute", "second", "millisecond", "epoch")),
    *("YEAR(ts)", "MONTH(ts)", "DAYOFWEEK(ts)", "WEEK(ts)", "HOUR(ts)", "MINUTE(ts)", "SECOND(ts)"),
    *("ts::DATE", "DAYNAME(ts)", "STRFTIME(ts, '%Y-%m-%d %H:%M:%S')", "EPOCH_MS(ts)"),
    *(f"DATE_DIFF('{span}', tz, ts)" for span in ("hour", "minute", "second", "day", "month")),
    *("ts > tz", "ts >= TIMESTAMP '2020-01-01 10:30:00'", "ts < DATE '2020-01-01'", "ts IS NULL"),
    *("ts = '1969-12-31 12:30:00'", "ts::DATE = tz::DATE", "ts BETWEEN '2020-01-01' AND tz"),
)
TRUNCATED: Final = ("hour", "minute", "second")
MOVES: Final = (
    *("INTERVAL 3 HOUR", "INTERVAL 90 MINUTE", "INTERVAL (n) SECOND", "INTERVAL 1 DAY"),
    *("INTERVAL 1 MONTH", "INTERVAL (-1) YEAR", "INTERVAL (n % 99) WEEK"),
)


@pytest.mark.parametrize("asked", CASES)
def test_parts_of_timestamps_have_the_values_of_duckdb(asked: str, place: Place) -> None:
    """Every part, difference, and comparison gives DuckDB's own value."""
    compare(times, asked, place)


@pytest.mark.parametrize("span", TRUNCATED)
def test_beginnings_are_those_of_duckdb(span: str, place: Place) -> None:
    """The beginning of an hour and so on is DuckDB's."""
    asked = f"EPOCH_MS(DATE_TRUNC('{span}', ts))"

    compare(times, asked, place)


@pytest.mark.parametrize("moved", MOVES)
def test_moved_timestamps_are_those_of_duckdb(moved: str, place: Place) -> None:
    """A timestamp moved by an interval is DuckDB's, or NULL outside years 1 to 9999."""
    reference = f"ts + {moved.replace('(n', '(n::INT')}"
    limited = f"CASE WHEN YEAR({reference}) BETWEEN 1 AND 9999 THEN EPOCH_MS({reference}) END"

    compare(times, f"EPOCH_MS(ts + {moved})", place, limited)


STORED: Final[dict[str, pa.Array]] = {
    "moment": pa.array([START, None, START], pa.timestamp("us", "UTC")),
    "day": pa.array([date(2020, 1, 1), None, date(2021, 1, 1)]),
    "text": pa.array(["2019-12-30 22:59:59.999", "soon", "2020-01-01T10:00"]),
    **{
        f"odd{place}": pa.array([text] * 3)
        for place, text in enumerate(
            (
                *("2020-02-30", "2020-02-29", "0000-01-01", "0001-01-01", "2020-1-1", "infinity"),
                *("2020-01-01 24:00:00", "2020-01-01 10:00:00+05", "epoch", "now", "", "today"),
                *("2020-01-01 10:00:00.1234567", "2020-01-01 10:00:00.999999", "2020-01-01\n"),
            )
        )
    },
}


def test_stored_types_are_read_as_timestamps(place: Place) -> None:
    """Timestamps, dates, and strings in ISO 8601 are read; values outside are clipped."""
    rows = pa.table({"pid": [1, 2, 3], **STORED})
    columns: dict[str, Column] = dict.fromkeys(STORED, Timestamp("2019-01-01", "2020-06-30"))
    pair = pair_tables([Table("t", rows, unit="pid", columns=columns, unique=True)], place)
    sums = ", ".join(
        f"SUM(EPOCH_MS({name})) AS {name}, COUNT({name}) AS n_{name}" for name in STORED
    )
    plan = pair.plan(f"SELECT {sums} FROM t")
    keys = pair.plan("SELECT HOUR(text) AS h, COUNT(*) AS n FROM t GROUP BY h")
    groups = read_exactly(pair.there, keys)[0]

    assert read_exactly(pair.here, plan) == read_exactly(pair.there, plan)
    assert {22: 1, 10: 1} == {hour: counts[0] for (hour,), counts in groups.items() if hour}


def crowded() -> World:
    """Return people with more rows and hours than count."""
    rows = [
        {"pid": person, "ts": START + timedelta(minutes=37 * place + person), "n": place}
        for person in range(40)
        for place in range(person % 13)
    ]
    columns: dict[str, Column] = {"ts": Timestamp("2019-12-30", "2020-01-02"), "n": Int(0, 9)}
    return make_world(rows, columns, max_rows_per_unit=5, max_groups_per_unit=2)


@pytest.mark.parametrize("key", ["DATE_TRUNC('hour', ts)", "ts::DATE", "ts > '2019-12-31'"])
def test_bounding_keeps_the_same_rows(key: str, place: Place) -> None:
    """With one salt, the same timestamps of each person count on every engine."""
    pair = pair_world(crowded, place)
    plan = pair.plan(f"SELECT {key} AS k, COUNT(*) AS c, SUM(n) AS s FROM t GROUP BY k")

    assert read_exactly(pair.here, plan) == read_exactly(pair.there, plan)


def test_hours_are_declared_keys_and_come_back() -> None:
    """Keys of timestamps are known beforehand, stored in the ledger, and equal in Python."""
    rows = pa.table({"pid": [1, 2], "ts": pa.array([datetime(2020, 1, 1, 10, 30, tzinfo=UTC)] * 2)})
    columns: dict[str, Column] = {"ts": Timestamp("2020-01-01", "2020-01-02")}
    table = Table("t", rows, unit="pid", columns=columns, unique=True)
    curator = Curator([table], budget=Budget(1e10))
    hours = "SELECT DATE_TRUNC('hour', ts) AS h, COUNT(*) AS n FROM t"
    text = f"{hours} WHERE ts < '2020-01-02' GROUP BY h"
    answer = curator.sql(text, epsilon=1e9)
    query = read_sql(text, curator.names)
    built = (
        curator.table("t")
        .where(col("ts") < date(2020, 1, 2))
        .group_by(h=col("ts").truncate("hour"))
        .agg(n=count())
    )

    assert 24 == len(answer.rows)
    assert {"h": datetime(2020, 1, 1, 10), "n": 2} == answer.rows[10]  # noqa: DTZ001
    assert answer.rows == curator.sql(text, epsilon=1e9).rows
    assert query == read_sql(canonical(query), curator.names)
    assert built.ask(epsilon=1e9).reused
    assert isinstance(curator._planner.plan(query, SHARE).keys, DeclaredKeys)
