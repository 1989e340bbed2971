"""Ledgers of every kind, which tests open, close, and reopen."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any, Final

from confide.declare import Limits
from confide.ledger import Ledger, MemoryLedger, QueryIdentity, SqlLedger, open_ledger
from confide.ledger.chain import now
from confide.loss import Filter, PureFilter, Share
from support.postgres import Postgres

__all__ = ["DAY", "KINDS", "LONG", "NOISY", "TENTH", "WHOLE", "Clock", "Home", "ask"]

KINDS: Final = ("memory", "sqlite", "postgresql")
TENTH: Final = Share.floor("1/10")
WHOLE: Final = PureFilter(Fraction(1))
NOISY: Final[dict[str, Any]] = {"steps": [[1, 2], [3, 4]]}
DAY: Final = 24 * 60 * 60 * 10**6
LONG: Final = 300.0
"""A timeout in seconds for changes that wait for others, longer than any machine needs."""


def ask(
    text: str = "SELECT COUNT(*) FROM visits", fingerprint: str = "v1", analyst: str = "ana"
) -> QueryIdentity:
    """Return the identity of a query, as the ledger records it."""
    return QueryIdentity(text, fingerprint, analyst)


@dataclass(slots=True)
class Clock:
    """A clock that stands still until it is set."""

    time: int = 1_800_000_000 * 10**6

    def __call__(self) -> int:
        return self.time


@dataclass(slots=True)
class Home:
    """A location of ledgers of one kind: `open` creates one, and `again` reopens it."""

    kind: str
    folder: Path
    postgres: Postgres | None
    opened: list[Ledger] = field(default_factory=list)
    names: Any = field(default_factory=count)
    address: str = ""

    def open(
        self,
        opening: Filter = WHOLE,
        limits: Limits | None = None,
        clock: Callable[[], int] = now,
        anchor: Any = None,
    ) -> Ledger:
        """Return a new ledger."""
        if self.kind == "memory":
            return self._keep(MemoryLedger(opening, limits, clock=clock))
        if self.kind == "sqlite":
            self.address = str(self.folder / f"ledger-{next(self.names)}.db")
        else:
            assert self.postgres is not None
            self.address = self.postgres.create()
        return self.again(opening, limits, clock, anchor)

    def again(
        self,
        opening: Filter = WHOLE,
        limits: Limits | None = None,
        clock: Callable[[], int] = now,
        anchor: Any = None,
    ) -> Ledger:
        """Return the newest ledger as another process finds it, or the same object if in memory."""
        if self.kind == "memory":
            return self.opened[-1]
        made = open_ledger(self.address, opening, limits, clock=clock, anchor=anchor, wait=LONG)
        return self._keep(made)

    def close(self) -> None:
        """Close all ledgers."""
        for ledger in self.opened:
            if isinstance(ledger, SqlLedger):
                ledger.close()

    def _keep(self, ledger: Ledger) -> Ledger:
        self.opened.append(ledger)
        return ledger
