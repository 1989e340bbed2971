"""Watches that callers have open: each a session whose noise lives in this process alone."""

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from confide.client.refusals import NotYours, TooManyRequests
from confide.errors import UnsupportedQuery
from confide.sessions import Watch

__all__ = ["Watches"]

MOST_OPEN: Final = 8
"""Sessions that one caller may have open at once."""
IDLE_SECONDS: Final = 3_600
KEYS_KEPT: Final = 1_000


@dataclass(slots=True)
class _Open:
    """A session, whose it is, and what was told under which key."""

    account: str
    watch: Watch
    last: float
    lock: threading.Lock = field(default_factory=threading.Lock)
    told: dict[str, tuple[str, bool]] = field(default_factory=dict)


class Watches:
    """Keeps sessions for their owners until they are over or nobody has asked for an hour.

    # Privacy: the noise of a session must be known to one process only, so a session is neither
    # written down nor shared: with several workers none can be opened.
    """

    def __init__(self, *, alone: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._alone, self._clock = alone, clock
        self._open: dict[str, _Open] = {}
        self._lock = threading.Lock()

    def check_room(self, account: str) -> None:
        """Refuse a session that could not be kept: before anything is charged."""
        if not self._alone:
            raise UnsupportedQuery(
                "a watch lives in one process, and this server runs several workers; ask the owner "
                "to serve with --workers 1, or ask single questions"
            )
        with self._lock:
            self._drop_idle()
            if sum(one.account == account for one in self._open.values()) >= MOST_OPEN:
                raise TooManyRequests(
                    f"{MOST_OPEN} watches at once are allowed, and you have as many open; close "
                    "one with DELETE /v1/watches/{watch}"
                )

    def keep(self, account: str, watch: Watch) -> str:
        """Return the name under which a session is kept."""
        name = secrets.token_hex(16)
        with self._lock:
            self._open[name] = _Open(account, watch, self._clock())
        return name

    def ask(self, account: str, name: str, sql: str, key: str | None) -> tuple[bool, int]:
        """Return whether an answer is above, and how many times more that may be told."""
        found = self._find(account, name)
        with found.lock:
            known = found.told.get(key) if key else None
            if known is not None:
                if known[0] != sql:
                    raise UnsupportedQuery(
                        "this key was used for another question of this watch; choose another key"
                    )
                return known[1], found.watch.left
            is_above = found.watch.ask(sql)
            if key:
                if len(found.told) >= KEYS_KEPT:
                    found.told.clear()
                found.told[key] = (sql, is_above)
            return is_above, found.watch.left

    def close(self, account: str, name: str) -> None:
        """Forget a session; what it cost stays."""
        self._find(account, name)
        with self._lock:
            self._open.pop(name, None)

    def _find(self, account: str, name: str) -> _Open:
        with self._lock:
            self._drop_idle()
            found = self._open.get(name)
            if found is None or found.account != account:
                raise NotYours("this is not one of your watches, or it is over")
            found.last = self._clock()
            return found

    def _drop_idle(self) -> None:
        latest = self._clock() - IDLE_SECONDS
        for name in [name for name, one in self._open.items() if one.last < latest]:
            del self._open[name]
