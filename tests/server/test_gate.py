"""What passes in and out: size, time, headers, log, counters."""

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
PATIENCE = 300
"""Seconds after which something must be wrong, however busy the machine is."""

FILES = 4_096
SECRET = "SELECT COUNT(*) AS n FROM visits WHERE ward = 'a secret literal'"


def test_a_megabyte_of_sql_is_turned_away(house: House) -> None:
    """A body past the limit is a 413, told or not, before anything reads it."""
    large = {"sql": "SELECT " + "1 + " * 250_000 + "1", "share": 0.01}
    told = house.post("/v1/query", large)
    chunks = (b"x" * 65_536 for _ in range(32))
    untold = house.client.post("/v1/query", content=chunks, headers=bearer(house.ana))

    assert [413, 413] == [told.status_code, untold.status_code]
    assert "too-large" == told.json()["error"]["code"] == untold.json()["error"]["code"]


def test_every_response_carries_the_headers_of_safety(house: House) -> None:
    """Pages and refusals alike forbid framing, sniffing, storing and foreign scripts."""
    for answer in (house.client.get("/sign-in"), house.client.get("/v1/tables")):
        policy = answer.headers["content-security-policy"]

        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "nosniff" == answer.headers["x-content-type-options"]
        assert "no-store" == answer.headers["cache-control"]
        assert "access-control-allow-origin" not in answer.headers
        assert re.fullmatch(r"[0-9a-f]{16}", answer.headers["x-request-id"])


def test_other_origins_are_let_in_only_by_name(house: House, tmp_path: Path) -> None:
    """Without a setting no origin is allowed; with one, that one alone, and without cookies."""
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
    """Everything that any part of the program logs."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(logging.getLogger("confide.server"), "propagate", True)
    return caplog


def test_logs_hold_no_question_token_or_value(
    house: House, lines: pytest.LogCaptureFixture
) -> None:
    """A log has one JSON line a request with route, status and caller, and nothing of the rest."""
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


def test_an_unforeseen_error_tells_nobody_anything(
    house: House, lines: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What breaks on our side is a 500 with a fixed text; the log has its place, not its words."""

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


def test_metrics_count_and_do_not_measure(house: House) -> None:
    """/metrics has whole numbers by route, status and code: no name, no question, no time."""
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


def test_too_many_requests_of_one_leave_the_other_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rate limit stops all of A's tokens for a minute, and none of B's."""
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


def test_a_caller_has_so_many_questions_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While A's places are taken, A's next question is refused unread and B's is answered."""
    started, go = Event(), Event()
    run = DuckDB.run

    def slowly(self: DuckDB, *given: Any) -> Any:
        if not started.is_set():
            started.set()
            assert go.wait(PATIENCE)
        return run(self, *given)

    monkeypatch.setattr(DuckDB, "run", slowly)
    with open_house(tmp_path, questions_at_once=1) as house, ThreadPoolExecutor(1) as pool:
        first = pool.submit(house.post, "/v1/query", ASK)
        assert started.wait(PATIENCE)
        second = house.post("/v1/query", {**ASK, "fresh": True})
        other = house.post("/v1/query", ASK, house.ben)
        go.set()

        assert 200 == first.result().status_code
    assert (429, "too-many-requests") == (second.status_code, second.json()["error"]["code"])
    assert 200 == other.status_code


def test_a_question_that_takes_long_is_fetched_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past the longest wait comes a 503; the same key later gets the answer, paid once."""
    started, go = Event(), Event()
    run = DuckDB.run

    def slowly(self: DuckDB, *given: Any) -> Any:
        started.set()
        assert go.wait(PATIENCE)
        return run(self, *given)

    monkeypatch.setattr(DuckDB, "run", slowly)
    with open_house(tmp_path, longest_wait="200ms") as house:
        early = house.post("/v1/query", {**ASK, "key": "k"})
        go.set()
        deadline = time.monotonic() + PATIENCE
        late = house.post("/v1/query", {**ASK, "key": "k"})
        while late.status_code != 200 and time.monotonic() < deadline:
            time.sleep(0.05)
            late = house.post("/v1/query", {**ASK, "key": "k"})
        spent = house.get("/v1/budget").json()["spent"]["share"]

    assert (503, "not-ready") == (early.status_code, early.json()["error"]["code"])
    assert int(early.headers["retry-after"]) > 0
    assert 200 == late.status_code
    assert "1/100" == spent


def test_stopping_waits_for_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that is being answered when the server stops is finished and kept."""
    go = Event()
    run = DuckDB.run

    def slowly(self: DuckDB, *given: Any) -> Any:
        assert go.wait(PATIENCE)
        return run(self, *given)

    monkeypatch.setattr(DuckDB, "run", slowly)
    with open_house(tmp_path, longest_wait="100ms") as house:
        early = house.post("/v1/query", ASK)
        Timer(0.5, go.set).start()

    assert 503 == early.status_code
    assert ["answered"] == [entry.state for entry in house.curator.ledger.entries()]


class Sleeper:
    """Stands in for asyncio and its loop: only sleeping, and ``work``, moves its clock."""

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


def test_answers_and_refusals_leave_at_a_multiple_of_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With answer_after, no response to a POST leaves early: answered, refused, or malformed."""
    clock, run, left = Sleeper(), DuckDB.run, list[float]()

    def slowly(self: DuckDB, *given: Any) -> Any:
        clock.work(0.75)
        return run(self, *given)

    monkeypatch.setattr(middleware, "asyncio", clock)
    monkeypatch.setattr(DuckDB, "run", slowly)
    bodies = [ASK, {"sql": "SELECT MAX(age) FROM visits", "share": 0.01}, {"nonsense": 1}]
    with open_house(tmp_path, answer_after="500ms") as house:

        async def noted(scope: Any, receive: Any, send: Any) -> None:
            async def arrive() -> Any:
                clock.now = max(clock.now, 0.0)
                return await receive()

            async def leave(message: Any) -> None:
                if message["type"] == "http.response.start":
                    left.append(clock.now)
                await send(message)

            clock.now = -0.25  # the time that the body takes to arrive does not count
            await house.app(scope, arrive, leave)

        caller = TestClient(noted, headers=bearer(house.ana))
        statuses = [caller.post("/v1/query", json=body).status_code for body in bodies]

    assert [200, 422, 422] == statuses
    assert [1.0, 0.5, 0.5] == left


@pytest.mark.parametrize(
    ("passed", "wait"), [(0.0, 2.0), (0.5, 1.5), (2.0, 0.0), (2.5, 1.5), (7.0, 1.0)]
)
def test_the_next_multiple_is_the_nearest(passed: float, wait: float) -> None:
    """The wait ends at the first whole number of periods that has not passed, at least one."""
    assert wait == next_multiple(passed, Fraction(2))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[House, int]]:
    """A house on a real socket, with its port."""
    house = build_house(tmp_path)
    with serving(house.app) as address:
        yield house, int(address.rsplit(":", 1)[1])


HEALTHY = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def say(port: int, words: bytes) -> socket.socket:
    """Return a connection on which these words were sent."""
    caller = socket.create_connection(("127.0.0.1", port))
    caller.settimeout(PATIENCE)
    caller.sendall(words)
    return caller


def hear(caller: socket.socket) -> bytes:
    """Return how a response begins; nothing if the connection was closed without one."""
    try:
        return caller.recv(12, socket.MSG_WAITALL)
    except ConnectionResetError:  # it was closed before our words arrived
        return b""


def look(caller: HTTPConnection) -> int:
    """Return the status of a healthy request on a connection that stays open."""
    caller.request("GET", "/healthz")
    answer = caller.getresponse()
    answer.read()
    return answer.status


def test_slow_clients_are_sent_away(
    served: tuple[House, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a head is closed, half a body gets 408, and neither keeps others from answers.

    The healthy caller connects while the server is still patient, so it is not sent away itself,
    however slowly the machine runs.
    """
    house, port = served
    head = f"POST /v1/query HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {house.ana}\r\n"
    half_body = f"{head}Content-Length: 100\r\n\r\n{{".encode()
    with ExitStack() as stack:
        healthy = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        before = look(stack.enter_context(closing(healthy)))
        patched = stack.enter_context(monkeypatch.context())
        patched.setattr(middleware, "BODY_TIMEOUT", 1)
        bodies = [stack.enter_context(say(port, half_body)) for _ in range(25)]
        patched.setattr(middleware, "HEADER_TIMEOUT", 1.0)
        heads = [stack.enter_context(say(port, b"GET /healthz HTTP/1.1\r\nHo")) for _ in range(25)]
        after = look(healthy)
        closed, told = ({hear(caller) for caller in some} for some in (heads, bodies))

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
def test_no_request_hides_behind_another(served: tuple[House, int], trick: str) -> None:
    """A head that two readers could read differently is refused, and its connection closed."""
    house, port = served
    head = f"POST /v1/query HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {house.ana}\r\n"
    with say(port, (head + HEADS[trick]).encode()) as caller:
        told = b"".join(iter(lambda: caller.recv(4_096), b""))

    assert told.startswith((b"HTTP/1.1 400", b"HTTP/1.1 422"))
    assert 1 == told.count(b"HTTP/1.1 ")


def test_headers_lead_nowhere_else(house: House) -> None:
    """Headers in which proxies write another path, method or caller change nothing here."""
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
    """Allow this process more open files; the usual limit of 1,024 is too low for both ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < FILES:
        raised = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_a_thousand_open_connections_keep_nobody_out(served: tuple[House, int]) -> None:
    """With 1,000 idle connections open, the next caller is answered."""
    _, port = served
    with ExitStack() as stack:
        for _ in range(1_000):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        quick = stack.enter_context(say(port, HEALTHY))

        assert quick.recv(100).startswith(b"HTTP/1.1 200")
