"""A small hospital behind a server, for tests: data, a ledger on disk, tokens, an application."""

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient

import confide as cf
from confide.declare import BoardSettings, Limits, ServerSettings
from confide.ledger import SqlLedger
from confide.server import Role, TokenStore, make_app, middleware
from confide.server.middleware import TimeoutProtocol
from confide.server.service import Service
from confide.server.tokens import open_tables

__all__ = ["COUNT", "House", "bearer", "build_house", "close_files", "open_house", "serving"]

COUNT = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
WARDS = ["A", "B", "<script>alert(1)</script>"]
TIMEOUT = 300
"""A server timeout in seconds that no caller reaches, however busy the machine is."""


def visits(wards: Sequence[str], people: int = 300) -> cf.Table:
    """Return a table of people with two rows each."""
    rows = range(2 * people)
    columns = {
        "pid": [row // 2 for row in rows],
        "ward": [wards[row * 7 % 13 % len(wards)] for row in rows],
        "age": [row % 90 for row in rows],
        "day": ["2024-02-29" for _ in rows],
    }
    return cf.Table(
        "visits",
        pa.table(columns),
        unit="pid",
        columns={
            "ward": cf.Category(wards),
            "age": cf.Int(0, 120),
            "day": cf.Date("2020-01-01", "2026-12-31"),
        },
        max_rows_per_unit=2,
    )


def beds(wards: Sequence[str]) -> cf.PublicTable:
    """Return a public table."""
    return cf.PublicTable("wards", pa.table({"ward": wards, "beds": [10] * len(wards)}))


@dataclass(frozen=True, slots=True)
class House:
    """One server with its parts; ``ana``, ``ben``, and ``owner`` are tokens."""

    app: FastAPI
    client: TestClient
    curator: cf.Curator
    tokens: TokenStore
    ana: str
    ben: str
    owner: str

    def get(self, path: str, token: str | None = None) -> Any:
        """Return the response to a GET, by default of the analyst ana."""
        return self.client.get(path, headers=bearer(self.ana if token is None else token))

    def post(self, path: str, body: Any, token: str | None = None) -> Any:
        """Return the response to a POST of JSON."""
        headers = bearer(self.ana if token is None else token)
        return self.client.post(path, json=body, headers=headers)


def bearer(token: str) -> dict[str, str]:
    """Return the header that carries a token."""
    return {"authorization": f"Bearer {token}"}


@contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    """Yield the URL of an application that listens on a real socket.

    Its timeouts are long, so that no request is cut off because the machine is busy.
    """
    listener = socket.create_server(("127.0.0.1", 0), backlog=2_048)
    config = uvicorn.Config(
        app,
        http=TimeoutProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=TIMEOUT,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    with (
        patch.object(middleware, "BODY_TIMEOUT", TIMEOUT),
        patch.object(middleware, "HEADER_TIMEOUT", float(TIMEOUT)),
    ):
        thread.start()
        try:
            while not server.started:
                thread.join(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
            listener.close()
            close_files(app)


def close_files(app: FastAPI) -> None:
    """Close the files of an application's ledger and tokens, which reopen when needed.

    FastAPI caches functions of every application, and with them everything that they refer to.
    Without this, each server would keep about six files open until the process ends.
    """
    service: Service = app.state.service
    service.tokens._database.close()
    if isinstance(service.curator.ledger, SqlLedger):
        service.curator.ledger.close()


def build_house(
    folder: Path,
    *,
    clock: Callable[[], float] | None = None,
    wards: Sequence[str] = WARDS,
    people: int = 300,
    address: str | None = None,
    boards: Sequence[BoardSettings] = (),
    **service: Any,
) -> House:
    """Return a house with its ledger in a folder; its client is not running yet."""
    ledger = address or folder / "ledger.db"
    curator = cf.Curator(
        [visits(wards, people), beds(wards)],
        budget=cf.Budget(2.0),
        ledger=ledger,
        limits=Limits(analysts={"ana": "1/2", "ben": "1/4"}),
    )
    database = open_tables(ledger)
    tokens = TokenStore(database) if clock is None else TokenStore(database, clock=clock)
    app = make_app(curator, tokens, ServerSettings(**service), boards)
    ana, ben = (tokens.make(name)[0] for name in ("ana", "ben"))
    owner = tokens.make("head", Role.OWNER)[0]
    return House(app, TestClient(app), curator, tokens, ana, ben, owner)


@contextmanager
def open_house(folder: Path, **given: Any) -> Iterator[House]:
    """Yield a running house with its ledger in a folder."""
    house = build_house(folder, **given)
    try:
        with house.client:
            yield house
    finally:
        close_files(house.app)
