"""Middleware for body size, response time, headers, logging, and slow clients.

It runs before authentication, so it does not know the caller until the route has run.
"""

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
from confide.execution.confirmation import ConfirmationRequired
from confide.server.metrics import Metrics

__all__ = [
    "RETRY_SECONDS",
    "RequestMiddleware",
    "TimeoutProtocol",
    "next_multiple",
    "record_error",
    "refusal_body",
]

LOG: Final = logging.getLogger("confide.server")
BODY_TIMEOUT: Final = 10
RETRY_SECONDS: Final = 5
BOARD_PATHS: Final = ("/v1/holdouts/", "/boards/")
PREDICTIONS_FACTOR: Final = 64
"""Size limit for predictions, as a multiple of the limit for other requests."""
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Final = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
INTERNAL_FAULT: Final = Fault(
    "The server failed; its log has the location of the error under this request's ID. A query may "
    "have been charged. Retry it with the same key to avoid paying twice."
)


def record_error(scope: Scope, error: Exception) -> ConfideError:
    """Record an error for the log line of its request; return the error to show to the caller.

    # Privacy: for a fault or an unexpected exception, the log gets only the error code and the
    # location in the code, and the caller gets a generic message.
    """
    shown = as_refusal(error) if isinstance(error, ConfideError) else INTERNAL_FAULT
    scope["state"]["code"] = shown.code
    if not isinstance(shown, Fault):
        return shown
    scope["state"]["failure"] = error_location(error)
    return INTERNAL_FAULT


def refusal_body(error: ConfideError) -> dict[str, Any]:
    """Return the JSON body of an error; faults are replaced by a generic message."""
    shown = INTERNAL_FAULT if isinstance(error, Fault) else error
    parts: dict[str, Any] = {"code": error.code, "message": str(shown)}
    if isinstance(error, BudgetExceeded):
        parts |= {"cost": str(error.cost), "left": str(error.left)}
    if isinstance(error, ConfirmationRequired):
        cost, limit = error.cost, str(error.limit)
        parts |= {"cost": str(cost.share), "epsilon": cost.epsilon, "limit": limit}
    return {"error": parts}


def next_multiple(passed: float, period: Fraction) -> float:
    """Return the seconds until the elapsed time is a positive multiple of ``period``.

    A period of 0 means no wait.

    >>> next_multiple(0.5, Fraction(2)), next_multiple(2.5, Fraction(2))
    (1.5, 1.5)
    """
    if not period:
        return 0.0
    step = float(period)
    return max(1, math.ceil(passed / step)) * step - passed


class RequestMiddleware:
    """Middleware that reads the full body before it calls the application.

    A body that is too large or too slow is rejected before anything else runs, so a slow client
    occupies only a socket. With ``response_interval``, every response to a POST, including errors,
    starts at a multiple of that time after the request's body arrived. If the body is rejected,
    the time counts from the start of the request.

    # Privacy: the log records the caller, the route, and the outcome. It contains no address,
    # query, body, token, value, or duration. A fault is logged by its location in the code, without
    # its message.
    """

    def __init__(
        self, app: ASGIApp, *, metrics: Metrics, max_body_size: int, response_interval: Fraction
    ) -> None:
        self._app, self._metrics = app, metrics
        self._max_body_size, self._after = max_body_size, response_interval

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, send, self._after)
        try:
            body = await self._read(scope, receive)
            exchange.begin()
            await self._app(scope, _replay(body, receive), exchange.send)
        except Exception as error:  # noqa: BLE001  # no exception may reach a caller
            record_error(scope, error)
            await exchange.refuse(error if isinstance(error, ConfideError) else INTERNAL_FAULT)
        finally:
            exchange.log(self._metrics)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body, or raise an error if it is too large, too slow, or of unclear length."""
        max_body_size = self._max_body_size * (
            PREDICTIONS_FACTOR if scope["path"].startswith(BOARD_PATHS) else 1
        )
        refusal = TooLarge(f"The request body is too large. Send at most {max_body_size:,} bytes.")
        named = dict(scope["headers"])
        # Privacy: prevents request smuggling through a proxy that honors the other header.
        if b"content-length" in named and b"transfer-encoding" in named:
            raise MalformedRequest(
                "The request has both `Content-Length` and `Transfer-Encoding`, so its length is "
                "ambiguous. Send only one of them."
            )
        declared = named.get(b"content-length", b"0")
        if declared.isdigit() and (len(declared) > 18 or int(declared) > max_body_size):
            raise refusal
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_TIMEOUT):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return b""
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > max_body_size:
                        raise refusal
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise TooSlow(
                f"The request did not arrive within {BODY_TIMEOUT} seconds. Send it again."
            ) from None


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receive channel that starts with the body already read."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_message


class _Exchange:
    """One request and its response: headers, delay, and log line."""

    def __init__(self, scope: Scope, send: Send, after: Fraction) -> None:
        self._scope, self._send = scope, send
        self._after = after if scope["method"] == "POST" else Fraction(0)
        self._id, self._status = secrets.token_hex(8), 0
        self._started = asyncio.get_running_loop().time()
        self._is_static = scope["path"].startswith("/static/")
        scope.setdefault("state", {})["request"] = self._id

    def begin(self) -> None:
        """Restart the clock once the body has arrived."""
        self._started = asyncio.get_running_loop().time()

    async def send(self, message: Message) -> None:
        """Send a message; the response start is delayed and gets extra headers."""
        if message["type"] == "http.response.start":
            passed = asyncio.get_running_loop().time() - self._started
            await asyncio.sleep(next_multiple(passed, self._after))
            self._status = message["status"]
            named = {name.lower() for name, _ in message.get("headers", [])}
            keep = "no-cache" if self._is_static else "no-store"
            added = {**SECURITY_HEADERS, "x-request-id": self._id, "cache-control": keep}
            message = {**message, "headers": list(message.get("headers", []))}
            message["headers"] += [
                (name.encode(), value.encode())
                for name, value in added.items()
                if name.encode() not in named
            ]
        await self._send(message)

    async def refuse(self, error: ConfideError) -> None:
        """Send an error response, unless a response has started."""
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

    def log(self, metrics: Metrics) -> None:
        """Write one log line and update the metrics."""
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
        metrics.add("confide_requests_total", route=path, status=str(self._status))
        if "code" in state:
            metrics.add("confide_refusals_total", code=state["code"])


HEADER_TIMEOUT: Final = 10.0


class TimeoutProtocol(H11Protocol):
    """Uvicorn's HTTP protocol, with a timeout for request headers.

    `RequestMiddleware` has a timeout for bodies.

    Claim: a client that opens a connection, or starts a request and does not finish its headers,
    holds a socket for at most ``HEADER_TIMEOUT`` seconds, and never a thread.
    """

    _alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the header timeout."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Stop the timeout once the headers are complete; start it for the next request."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._alarm is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timeout."""
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._alarm = self.loop.call_later(HEADER_TIMEOUT, self._on_timeout)

    def _stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _on_timeout(self) -> None:
        self._alarm = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
