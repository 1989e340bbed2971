"""Middleware: body size, response time, headers, logging, and metrics."""

import asyncio
import json
import logging
import re
import resource
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from fractions import Fraction
from http.client import HTTPConnection
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pytest
from fastapi.testclient import TestClient

from confide.engines import DuckDB
from confide.errors import Fault
from confide.server import middleware
from confide.server.middleware import next_multiple
from support.clocks import stop_rate_clock
from support.service import COUNT, House, bearer, build_house, open_house, serving

ASK = {"sql": COUNT, "share": "1/100"}
TIMEOUT = 300
"""Timeout in seconds, generous enough for a busy machine."""

FILES = 4_096
SECRET = "SELECT COUNT(*) AS n FROM visits WHERE ward = 'a secret literal'"


def test_an_oversized_body_is_rejected(house: House) -> None:
    """An oversized body gets a 413 before it is read, with or without Content-Length."""
    large = {"sql": "SELECT " + "1 + " * 250_000 + "1", "share": 0.01}
    told = house.post("/v1/query", large)
    chunks = (b"x" * 65_536 for _ in range(32))
    untold = house.client.post("/v1/query", content=chunks, headers=bearer(house.ana))

    assert [413, 413] == [told.status_code, untold.status_code]
    assert "too-large" == told.json()["error"]["code"] == untold.json()["error"]["code"]


def test_every_response_has_security_headers(house: House) -> None:
    """Every response forbids framing, sniffing, caching, and third-party scripts."""
    for answer in (house.client.get("/sign-in"), house.client.get("/v1/tables")):
        policy = answer.headers["content-security-policy"]

        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "nosniff" == answer.headers["x-content-type-options"]
        assert "no-store" == answer.headers["cache-control"]
        assert "access-control-allow-origin" not in answer.headers
        assert re.fullmatch(r"[0-9a-f]{16}", answer.headers["x-request-id"])


def test_cors_allows_only_configured_origins(house: House, tmp_path: Path) -> None:
    """CORS allows no origin by default, or only the configured one, without cookies."""
    asked = {"origin": "https://a.example", "access-control-request-method": "POST"}
    (tmp_path / "second").mkdir()
    with open_house(tmp_path / "second", allowed_origins=("https://a.example",)) as other:
        allowed = other.client.options("/v1/query", headers=asked).headers
        foreign = other.client.options(
            "/v1/query", headers={**asked, "origin": "https://b.example"}
        ).headers
    closed = house.client.options("/v1/query", headers=asked).headers

    assert "https://a.example" == allowed["access-control-allow-origin"]
    assert "access-control-allow-credentials" not in allowed
    assert "access-control-allow-origin" not in foreign
    assert "access-control-allow-origin" not in closed


@pytest.fixture
def lines(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> pytest.LogCaptureFixture:
    """All records that any logger emits."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(logging.getLogger("confide.server"), "propagate", True)
    return caplog


def test_logs_contain_no_query_token_or_value(
    house: House, lines: pytest.LogCaptureFixture
) -> None:
    """The log has one JSON line per request with route, status, and caller, and no content."""
    answer = house.post("/v1/query", {"sql": SECRET, "share": 0.01})
    house.post("/v1/query", {"sql": "SELECT 'a secret literal'", "share": 0.01})
    house.get("/v1/answers?limit=77&before=987654321")
    house.client.get("/v1/budget?token=tell-tale")
    ours = [record.getMessage() for record in lines.records if record.name == "confide.server"]
    told = "\n".join(record.getMessage() for record in lines.records if "confide" in record.name)

    assert 200 == answer.status_code
    assert [200, 422, 200, 401] == [json.loads(line)["status"] for line in ours]
    assert {"at", "request", "method", "route", "status", "caller"} == set(json.loads(ours[0]))
    for secret in ("secret literal", house.ana, house.ana.split(".")[1], "987654321", "tell-tale"):
        assert secret not in told


def test_an_unexpected_error_reveals_nothing(
    house: House, lines: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected error gets a generic 500; the log has its place, not its message."""

    def fail(*_: Any) -> None:
        raise ZeroDivisionError("the row of Mr Smith")

    monkeypatch.setattr(DuckDB, "run", fail)
    answer = house.post("/v1/query", ASK)
    monkeypatch.setattr(DuckDB, "run", lambda *_: (_ for _ in ()).throw(Fault("Mr Smith")))
    fault = house.post("/v1/query", {**ASK, "fresh": True})
    logged = "\n".join(record.getMessage() for record in lines.records)

    assert [500, 500] == [answer.status_code, fault.status_code]
    assert answer.json() == fault.json()
    assert "Smith" not in answer.text + logged
    assert "ZeroDivisionError at" in logged
    assert "Fault at" in logged


def test_metrics_contain_only_counts(house: House) -> None:
    """/metrics has integers by route, status, and code: no names, queries, or durations."""
    house.post("/v1/query", ASK)
    house.post("/v1/query", ASK)
    house.post("/v1/query", {"sql": SECRET + " x", "share": 0.01})
    house.client.get("/some/odd/path")
    text = house.client.get("/metrics").text

    assert 'confide_answers_total{reused="no"' in text
    assert 'confide_answers_total{reused="yes"' in text
    assert 'route="unknown",status="404"' in text
    assert "odd" not in text
    for word in ("ana", "secret", "visits", "seconds", "duration", house.ana):
        assert word not in text
    for line in text.splitlines():
        assert line.startswith("# ") or re.fullmatch(
            r'confide_\w+\{[^{}"]*("[^"]*"[^{}"]*)*\} \d+', line
        )


def test_rate_limits_are_per_analyst(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rate limit blocks all of A's tokens for a minute, and none of B's."""
    clock = stop_rate_clock(monkeypatch)
    with open_house(tmp_path, requests_per_minute=5) as house:
        second, _ = house.tokens.make("ana")
        statuses = [house.get("/v1/budget", text).status_code for text in [house.ana, second] * 3]
        clock.time += 59
        refused = house.get("/v1/budget").json()["error"]
        other = house.get("/v1/budget", house.ben)
        clock.time += 2
        later = house.get("/v1/budget")

    assert [200] * 5 + [429] == statuses
    assert "too-many-requests" == refused["code"]
    assert [200, 200] == [other.status_code, later.status_code]


def test_concurrent_queries_are_limited_per_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While A's query slots are full, A's next query is refused unread and B's is answered."""
    started, go = Event(), Event()
    run = DuckDB.run

    def slowly(self: DuckDB, *given: Any) -> Any:
        if not started.is_set():
            started.set()
            assert go.wait(TIMEOUT)
        return run(self, *given)

    monkeypatch.setattr(DuckDB, "run", slowly)
    with open_house(tmp_path, max_concurrent_queries=1) as house, ThreadPoolExecutor(1) as pool:
        first = pool.submit(house.post, "/v1/query", ASK)
        assert started.wait(TIMEOUT)
        second = house.post("/v1/query", {**ASK, "fresh": True})
        other = house.post("/v1/query", ASK, house.ben)
        go.set()

        assert 200 == first.result().status_code
    assert (429, "too-many-requests") == (second.status_code, second.json()["error"]["code"])
    assert 200 == other.status_code


def test_a_slow_query_can_be_fetched_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the longest wait, the caller gets a 503; a retry with the key gets the answer."""
    started, go = Event(), Event()
    run = DuckDB.run

    def slowly(self: DuckDB, *given: Any) -> Any:
        started.set()
        assert go.wait(TIMEOUT)
        return run(self, *given)

    monkeypatch.setattr(DuckDB, "run", slowly)
    with open_house(tmp_path, max_wait="200ms") as house:
        early = house.post("/v1/query", {**ASK, "key": "k"})
        go.set()
        deadline = time.monotonic() + TIMEOUT
        late = house.post("/v1/query", {**ASK, "key": "k"})
        while late.status_code != 200 and time.monotonic() < deadline:
            time.sleep(0.05)
            late = house.post("/v1/query", {**ASK, "key": "k"})
        spent = house.get("/v1/budget").json()["spent"]["share"]

    assert (503, "not-ready") == (early.status_code, early.json()["error"]["code"])
    assert int(early.headers["retry-after"]) > 0
    assert 200 == late.status_code
    assert "1/100" == spent


def test_shutdown_waits_for_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that is running when the server stops is finished, and its answer stored."""
    go = Event()
    run = DuckDB.run

    def slowly(self: DuckDB, *given: Any) -> Any:
        assert go.wait(TIMEOUT)
        return run(self, *given)

    monkeypatch.setattr(DuckDB, "run", slowly)
    with open_house(tmp_path, max_wait="100ms") as house:
        early = house.post("/v1/query", ASK)
        Timer(0.5, go.set).start()

    assert 503 == early.status_code
    assert ["answered"] == [entry.state for entry in house.curator.ledger.entries()]


class Sleeper:
    """A fake of asyncio and its loop; only sleeping and ``work`` advance its clock."""

    def __init__(self) -> None:
        self.now = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    def get_running_loop(self) -> "Sleeper":
        return self

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    def work(self, seconds: float) -> None:
        self.now += seconds


def test_responses_are_sent_at_multiples_of_the_period(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With response_interval, no response to a POST is early: answered, refused, or malformed."""
    clock, run, left = Sleeper(), DuckDB.run, list[float]()

    def slowly(self: DuckDB, *given: Any) -> Any:
        clock.work(0.75)
        return run(self, *given)

    monkeypatch.setattr(middleware, "asyncio", clock)
    monkeypatch.setattr(DuckDB, "run", slowly)
    bodies = [ASK, {"sql": "SELECT MAX(age) FROM visits", "share": 0.01}, {"nonsense": 1}]
    with open_house(tmp_path, response_interval="500ms") as house:

        async def run_request(scope: Any, receive: Any, send: Any) -> None:
            async def arrive() -> Any:
                clock.now = max(clock.now, 0.0)
                return await receive()

            async def leave(message: Any) -> None:
                if message["type"] == "http.response.start":
                    left.append(clock.now)
                await send(message)

            clock.now = -0.25  # the arrival time of the body does not count
            await house.app(scope, arrive, leave)

        caller = TestClient(run_request, headers=bearer(house.ana))
        statuses = [caller.post("/v1/query", json=body).status_code for body in bodies]

    assert [200, 422, 422] == statuses
    assert [1.0, 0.5, 0.5] == left


@pytest.mark.parametrize(
    ("passed", "wait"), [(0.0, 2.0), (0.5, 1.5), (2.0, 0.0), (2.5, 1.5), (7.0, 1.0)]
)
def test_the_next_multiple_is_the_nearest(passed: float, wait: float) -> None:
    """The wait ends at the next multiple of the period, and after at least one period."""
    assert wait == next_multiple(passed, Fraction(2))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[House, int]]:
    """A server on a real socket, with its port."""
    house = build_house(tmp_path)
    with serving(house.app) as address:
        yield house, int(address.rsplit(":", 1)[1])


HEALTHY = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def send_bytes(port: int, words: bytes) -> socket.socket:
    """Return a connection on which these bytes were sent."""
    caller = socket.create_connection(("127.0.0.1", port))
    caller.settimeout(TIMEOUT)
    caller.sendall(words)
    return caller


def read_start(caller: socket.socket) -> bytes:
    """Return the start of a response, or nothing if the connection was closed without one."""
    try:
        return caller.recv(12, socket.MSG_WAITALL)
    except ConnectionResetError:  # it was closed before our bytes arrived
        return b""


def health_status(caller: HTTPConnection) -> int:
    """Return the status of a well-formed request on a connection that stays open."""
    caller.request("GET", "/healthz")
    answer = caller.getresponse()
    answer.read()
    return answer.status


def test_slow_clients_are_disconnected(
    served: tuple[House, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Incomplete headers are dropped, an incomplete body gets 408, and other callers get answers.

    The well-behaved caller connects before the timeouts are shortened, so it is never dropped
    itself, even on a slow machine.
    """
    house, port = served
    head = f"POST /v1/query HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {house.ana}\r\n"
    half_body = f"{head}Content-Length: 100\r\n\r\n{{".encode()
    with ExitStack() as stack:
        healthy = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        before = health_status(stack.enter_context(closing(healthy)))
        patched = stack.enter_context(monkeypatch.context())
        patched.setattr(middleware, "BODY_TIMEOUT", 1)
        bodies = [stack.enter_context(send_bytes(port, half_body)) for _ in range(25)]
        patched.setattr(middleware, "HEADER_TIMEOUT", 1.0)
        heads = [
            stack.enter_context(send_bytes(port, b"GET /healthz HTTP/1.1\r\nHo")) for _ in range(25)
        ]
        after = health_status(healthy)
        closed, told = ({read_start(caller) for caller in some} for some in (heads, bodies))

    assert (200, 200) == (before, after)
    assert {b""} == closed
    assert {b"HTTP/1.1 408"} == told


HIDDEN = "GET /v1/ledger HTTP/1.1\r\nHost: x\r\n\r\n"
HEADS = {
    "two kinds of length": "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    + HIDDEN,
    "two lengths": "Content-Length: 4\r\nContent-Length: 2\r\n\r\n{}" + HIDDEN,
    "an odd encoding": "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + HIDDEN,
    "a space before the colon": "Content-Length : 2\r\n\r\n{}" + HIDDEN,
    "a length below zero": "Content-Length: -1\r\n\r\n{}" + HIDDEN,
}


@pytest.mark.parametrize("trick", HEADS)
def test_request_smuggling_is_rejected(served: tuple[House, int], trick: str) -> None:
    """Ambiguous headers, which allow request smuggling, are refused and the connection closed."""
    house, port = served
    head = f"POST /v1/query HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {house.ana}\r\n"
    with send_bytes(port, (head + HEADS[trick]).encode()) as caller:
        told = b"".join(iter(lambda: caller.recv(4_096), b""))

    assert told.startswith((b"HTTP/1.1 400", b"HTTP/1.1 422"))
    assert 1 == told.count(b"HTTP/1.1 ")


def test_override_headers_have_no_effect(house: House) -> None:
    """Headers in which proxies override the path, method, or caller have no effect."""
    headers = {
        **bearer(house.ana),
        "x-original-url": "/v1/ledger",
        "x-rewrite-url": "/v1/ledger",
        "x-http-method-override": "DELETE",
        "x-forwarded-user": "head",
        "x-forwarded-for": "127.0.0.1",
        "forwarded": "for=127.0.0.1",
        "host": "evil.example",
    }
    plain, dressed = house.get("/v1/budget"), house.client.get("/v1/budget", headers=headers)

    assert (200, plain.json()) == (dressed.status_code, dressed.json())
    assert 403 == house.client.get("/v1/ledger", headers=headers).status_code


@pytest.fixture
def many_files() -> Iterator[None]:
    """Raise the limit on open files; the usual 1,024 are too few for both ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < FILES:
        raised = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_a_thousand_idle_connections_block_no_caller(served: tuple[House, int]) -> None:
    """With 1,000 idle connections open, the next caller gets an answer."""
    _, port = served
    with ExitStack() as stack:
        for _ in range(1_000):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        quick = stack.enter_context(send_bytes(port, HEALTHY))

        assert quick.recv(100).startswith(b"HTTP/1.1 200")
