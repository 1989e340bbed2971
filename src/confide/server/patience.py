"""A connection that says nothing, or says it too slowly, is closed."""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["PatientProtocol"]

HEADER_SECONDS: Final = 10.0


class PatientProtocol(H11Protocol):
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
