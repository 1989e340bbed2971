"""Connections to PostgreSQL: what a session must be like, and how it ends."""

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from socket import SHUT_RDWR, socket
from threading import Timer
from typing import Any, Final

import psycopg

from confide.errors import BadDeclaration

__all__ = ["GRACE", "check_server", "connect", "fix_settings", "look_around", "watched"]

OLDEST: Final = 170_000
PATIENCE: Final = "10min"
GRACE: Final = 60.0
"""Seconds past the time limit of a statement in which the server has to end it itself."""
LIMIT: Final = "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'statement_timeout'"
SETTINGS: Final[Mapping[str, str]] = {
    "search_path": "pg_catalog, pg_temp",
    "default_transaction_read_only": "on",
    "client_encoding": "UTF8",
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "transform_null_equals": "off",
    "jit": "off",
}
"""What a session must not leave to a role, a database or the environment."""


def connect(address: str) -> "psycopg.Connection[Any]":
    """Return a connection whose transactions see one state, and only read."""
    connection = psycopg.connect(address, prepare_threshold=None)
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    return connection


def check_server(connection: "psycopg.Connection[Any]") -> None:
    """See that a server is one whose words we know.

    Raises:
        BadDeclaration: it is too old, or its database is not encoded in UTF8.
    """
    version = connection.info.server_version
    if version < OLDEST:
        raise BadDeclaration(
            f"PostgreSQL {OLDEST // 10_000} or newer is needed, this is {version // 10_000}"
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise BadDeclaration(f"the database must be encoded in UTF8, this one is in {encoding}")


def fix_settings(connection: "psycopg.Connection[Any]") -> float:
    """Set what a session must not leave to others, and return the seconds of its time limit."""
    for name, value in SETTINGS.items():
        connection.execute("SELECT pg_catalog.set_config(%s, %s, false)", (name, value))
    limit = _limit_time(connection)
    connection.commit()
    return limit


@contextmanager
def look_around(address: str) -> Iterator["psycopg.Connection[Any]"]:
    """Lend a connection for what is looked at when tables are opened, and limit its time.

    Names are found as the role finds them, so its other settings stay.
    """
    with closing(connect(address)) as connection:
        with watched(connection, GRACE):
            limit = _limit_time(connection)
        with watched(connection, GRACE + limit):
            yield connection


def _limit_time(connection: "psycopg.Connection[Any]") -> float:
    """Return the seconds that a statement may take, once there is such a limit."""
    limit = _read_limit(connection)
    if limit:
        return limit
    setting = "SELECT pg_catalog.set_config('statement_timeout', %s, false)"
    connection.execute(setting, (PATIENCE,))
    return _read_limit(connection)


def _read_limit(connection: "psycopg.Connection[Any]") -> float:
    """Return how many seconds a statement may take, zero where there is no limit."""
    found = connection.execute(LIMIT).fetchone()
    return float(found[0]) / 1000 if found is not None else 0.0


@contextmanager
def watched(connection: "psycopg.Connection[Any]", seconds: float) -> Iterator[None]:
    """Give up a connection whose server does not even end what takes too long."""
    timer = Timer(seconds, _cut_off, (connection,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _cut_off(connection: "psycopg.Connection[Any]") -> None:
    """End a connection from this side; whoever waits for the server then finds it closed."""
    with suppress(OSError, psycopg.Error), socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(SHUT_RDWR)
