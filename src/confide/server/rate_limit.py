"""Requests per minute and at once, per caller."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from confide.client.http import TooManyRequests
from confide.declare import ServerSettings

__all__ = ["RateLimiter"]


class RateLimiter:
    """Counts requests of each caller over the last minute, and questions that are being answered.

    Several workers count apart, so each lets through its part of the rate, rounded up: together
    they let through what was declared, and whoever stays on one connection, with one worker, less.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._rate = RateLimitItemPerMinute(-(-settings.requests_per_minute // settings.workers))
        self._window = MovingWindowRateLimiter(MemoryStorage())
        self._busy: Counter[str] = Counter()
        self._lock = threading.Lock()

    def admit(self, name: str) -> None:
        """Count one request, or refuse it."""
        if not self._window.hit(self._rate, name):
            raise TooManyRequests(
                f"{self._settings.requests_per_minute} requests a minute are allowed, by "
                f"{self._settings.workers} workers in all, and you have made them; wait a minute"
            )

    @contextmanager
    def asking(self, name: str) -> Iterator[None]:
        """Hold one of the caller's places while a question is answered."""
        with self._lock:
            if self._busy[name] >= self._settings.questions_at_once:
                raise TooManyRequests(
                    f"{self._settings.questions_at_once} questions at once are allowed, and as "
                    "many of yours are being answered; wait for one of them"
                )
            self._busy[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy[name] -= 1
                if not self._busy[name]:
                    del self._busy[name]

    @property
    def busy(self) -> int:
        """How many questions are being answered."""
        with self._lock:
            return self._busy.total()
