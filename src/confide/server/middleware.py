"""Size, time, headers, log line and slow clients of every request."""

import asyncio
import json
import logging
import math
import secrets
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from confide.client.http import MalformedRequest, NotReady, TooLarge, TooSlow, status_of
from confide.errors import BudgetExceeded, ConfideError, Fault, as_refusal, error_location
from confide.server.metrics import Metrics

__all__ = [
    "RETRY_SECONDS",
    "RequestMiddleware",
    "TimeoutProtocol",
    "next_multiple",
    "note",
    "refusal_body",
]

LOG: Final = logging.getLogger("confide.server")
BODY_SECONDS: Final = 10
RETRY_SECONDS: Final = 5
BOARDS: Final = ("/v1/holdouts/", "/boards/")
PREDICTIONS: Final = 64
"""How much larger a file of predictions may be than a question."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
OURS: Final = Fault("something on our side failed; the owner's log has it under the request's id")


def note(scope: Scope, error: Exception) -> ConfideError:
    """Keep for the log what a request ended with; return what its caller is told.

    # Privacy: of a fault, or of what nobody foresaw, the log has the place and the caller nothing.
    """
    told = as_refusal(error) if isinstance(error, ConfideError) else OURS
    scope["state"]["code"] = told.code
    if not isinstance(told, Fault):
        return told
    scope["state"]["failure"] = error_location(error)
    return OURS


def refusal_body(error: ConfideError) -> dict[str, Any]:
    """Return the one shape of every refusal; what went wrong on our side stays with us."""
    told = OURS if isinstance(error, Fault) else error
    parts = {"code": error.code, "message": str(told)}
    if isinstance(error, BudgetExceeded):
        parts |= {"cost": str(error.cost), "left": str(error.left)}
    return {"error": parts}


def next_multiple(passed: float, period: Fraction) -> float:
    """Return how long to wait until the time that passed is a whole number of periods, at least 1.

    >>> next_multiple(0.5, Fraction(2)), next_multiple(2.5, Fraction(2))
    (1.5, 1.5)
    """
    if not period:
        return 0.0
    step = float(period)
    return max(1, math.ceil(passed / step)) * step - passed


class RequestMiddleware:
    """Takes the whole body in, lets one answer out.

    A body that is too large or too slow is refused before anything else runs, so a slow client
    holds a socket and nothing more. With ``answer_after`` every answer to a POST, refusals too,
    leaves at a multiple of that time after its body arrived.

    # Privacy: the log tells who called which route and how it ended. It has no address, query,
    # body, token, value or duration; of an error on our side it has the place, not the words.
    """

    def __init__(
        self, app: ASGIApp, *, counts: Metrics, largest: int, answer_after: Fraction
    ) -> None:
        self._app, self._counts = app, counts
        self._largest, self._after = largest, answer_after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        visit = _Visit(scope, send, self._after)
        try:
            body = await self._read(scope, receive)
            visit.begin()
            await self._app(scope, _replay(body, receive), visit.send)
        except Exception as error:  # noqa: BLE001  # whatever it is must not reach a caller
            note(scope, error)
            await visit.refuse(error if isinstance(error, ConfideError) else OURS)
        finally:
            visit.log(self._counts)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        """Return the whole body, if it is small enough and comes soon enough."""
        largest = self._largest * (PREDICTIONS if scope["path"].startswith(BOARDS) else 1)
        refusal = TooLarge(f"a request may have {largest:,} bytes; send a smaller one")
        named = dict(scope["headers"])
        # Privacy: a proxy that believes the other header would let a second request pass unseen.
        if b"content-length" in named and b"transfer-encoding" in named:
            raise MalformedRequest("send Content-Length or Transfer-Encoding, not both")
        declared = named.get(b"content-length", b"0")
        if declared.isdigit() and (len(declared) > 18 or int(declared) > largest):
            raise refusal
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return b""
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > largest:
                        raise refusal
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise TooSlow(
                f"the request did not arrive within {BODY_SECONDS} seconds; send it again"
            ) from None


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return the channel of a request whose body has arrived."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_message


class _Visit:
    """One request on its way out."""

    def __init__(self, scope: Scope, send: Send, after: Fraction) -> None:
        self._scope, self._send = scope, send
        self._after = after if scope["method"] == "POST" else Fraction(0)
        self._id, self._status = secrets.token_hex(8), 0
        self._began = asyncio.get_running_loop().time()
        self._is_static = scope["path"].startswith("/static/")
        scope.setdefault("state", {})["request"] = self._id

    def begin(self) -> None:
        """Start the clock: the body is here."""
        self._began = asyncio.get_running_loop().time()

    async def send(self, message: Message) -> None:
        """Pass a message on; the first one waits for its time."""
        if message["type"] == "http.response.start":
            passed = asyncio.get_running_loop().time() - self._began
            await asyncio.sleep(next_multiple(passed, self._after))
            self._status = message["status"]
            named = {name.lower() for name, _ in message.get("headers", [])}
            keep = "no-cache" if self._is_static else "no-store"
            added = {**HEADERS, "x-request-id": self._id, "cache-control": keep}
            message = {**message, "headers": list(message.get("headers", []))}
            message["headers"] += [
                (name.encode(), value.encode())
                for name, value in added.items()
                if name.encode() not in named
            ]
        await self._send(message)

    async def refuse(self, error: ConfideError) -> None:
        """Send a refusal, unless an answer is on its way already."""
        if self._status:
            return
        body = json.dumps(refusal_body(error)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        if isinstance(error, NotReady):
            headers.append((b"retry-after", b"%d" % RETRY_SECONDS))
        if isinstance(error, MalformedRequest | TooLarge | TooSlow):
            headers.append((b"connection", b"close"))
        start = {"type": "http.response.start", "status": status_of(error), "headers": headers}
        await self.send(start)
        await self.send({"type": "http.response.body", "body": body})

    def log(self, counts: Metrics) -> None:
        """Write one line, and count."""
        state, route = self._scope["state"], self._scope.get("route")
        path = "/static" if self._is_static else getattr(route, "path", None) or "unknown"
        line = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "request": self._id,
            "method": self._scope["method"] if path != "unknown" else "?",
            "route": path,
            "status": self._status,
            "caller": state.get("caller", ""),
            **{name: state[name] for name in ("code", "failure") if name in state},
        }
        LOG.info(json.dumps(line))
        counts.add("confide_requests_total", route=path, status=str(self._status))
        if "code" in state:
            counts.add("confide_refusals_total", code=state["code"])


HEADER_SECONDS: Final = 10.0


class TimeoutProtocol(H11Protocol):
    """Waits so long for the head of a request and no longer; bodies are the gate's business.

    Claim: a client that opens a connection, or begins a request and does not finish its head, holds
    a socket for at most ``HEADER_SECONDS``, and never a thread.
    """

    _alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Stop waiting once a request is whole enough to be served."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._alarm is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting for good."""
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._alarm = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _give_up(self) -> None:
        self._alarm = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
