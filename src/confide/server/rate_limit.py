"""Rate limits: requests per minute and concurrent queries, per caller."""

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
    """A sliding-window limit on requests, and a limit on concurrent queries, per caller.

    Workers count requests separately, so each admits its fraction of the rate, rounded up. Together
    they admit about the declared rate; a caller who stays connected to one worker gets less. The
    limit on concurrent queries applies to each worker by itself.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._rate = RateLimitItemPerMinute(-(-settings.requests_per_minute // settings.workers))
        self._window = MovingWindowRateLimiter(MemoryStorage())
        self._busy: Counter[str] = Counter()
        self._lock = threading.Lock()

    def admit(self, name: str) -> None:
        """Count one request, or raise `TooManyRequests`."""
        if not self._window.hit(self._rate, name):
            raise TooManyRequests(
                f"At most {self._settings.requests_per_minute} requests per minute are allowed, "
                f"over {self._settings.workers} workers in all. Wait a minute."
            )

    @contextmanager
    def query_slot(self, name: str) -> Iterator[None]:
        """Occupy one of the caller's query slots while the context is open."""
        with self._lock:
            if self._busy[name] >= self._settings.max_concurrent_queries:
                raise TooManyRequests(
                    f"At most {self._settings.max_concurrent_queries} concurrent queries are "
                    "allowed. Wait until one of your running queries ends."
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
        """The number of queries that this worker is answering."""
        with self._lock:
            return self._busy.total()
