"""Token store and its tables: who may call, until when, for how much.

A token is 256 secret bits. It is shown once; what is kept is its SHA-256, which is enough because
nobody can try 2^256 of them. The part before the dot names the row to compare with.
"""

import hashlib
import hmac
import re
import secrets
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    MetaData,
    String,
    Table,
    insert,
    or_,
    select,
    text,
    update,
)

from confide.errors import BadDeclaration, BudgetExceeded, Fault
from confide.ledger import Ledger
from confide.ledger.database import Database
from confide.ledger.opening import refuse_foreign, refuse_tables
from confide.loss import Share

__all__ = ["TOKENS", "Role", "Token", "TokenStore", "open_tables", "spent_by_analyst"]

VERSION: Final = 1
GATE: Final = 4_027_431_615  # a number that no one else locks in PostgreSQL
TABLES: Final = MetaData()

TOKENS: Final = Table(
    "confide_tokens",
    TABLES,
    Column("id", String(16), primary_key=True),
    Column("name", String(63), nullable=False),
    Column("label", String(63), nullable=False),
    Column("role", String(8), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("made", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("revoked", BigInteger),
    Column("limit_units", BigInteger),
    Column("spent_units", BigInteger, nullable=False),
    Column("parent", String(16)),
)
"""One row for each token; of its secret there is a digest and nothing else."""

LAYOUT: Final = Table(
    "confide_server",
    TABLES,
    Column("only", Integer, primary_key=True),
    Column("version", Integer, nullable=False),
)
"""One row: which layout these tables have."""


def open_tables(address: str | Path | None) -> Database:
    """Return the database of the server's tables, which are made where they are missing.

    ``address`` is that of the ledger; None keeps them in a file that goes with the process.

    Raises:
        BadDeclaration: it is a file of something else.
    """
    if address is None:
        folder = tempfile.TemporaryDirectory(prefix="confide-")
        database = Database(Path(folder.name) / "server.db")
        weakref.finalize(database, folder.cleanup)
    else:
        refuse_foreign(address)
        database = Database(address)
    found = database.change(_make)
    if found != VERSION:
        raise Fault(
            f"the server's tables have layout {found}, and this confide knows {VERSION}; use the "
            "confide that made them, or a newer one"
        )
    return database


def _make(connection: Connection) -> int:
    """Make the tables where they are missing, one process at a time; return their layout."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:gate)"), {"gate": GATE})
    refuse_tables(connection)
    TABLES.create_all(connection)
    found = connection.execute(select(LAYOUT.c.version)).scalar()
    if found is not None:
        return int(found)
    connection.execute(insert(LAYOUT).values(only=1, version=VERSION))
    return VERSION


SHAPE: Final = re.compile(r"confide-([0-9a-f]{16})\.([A-Za-z0-9_-]{43})\Z")
NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}\Z")
NOBODY: Final = "0" * 64
DAY: Final = 86_400
MOST_DAYS: Final = 3_660


class Role(StrEnum):
    """What a caller may do."""

    OWNER = "owner"
    ANALYST = "analyst"


@dataclass(frozen=True, slots=True)
class Token:
    """What is kept of a token; times are seconds since 1970.

    ``name`` is the analyst whose limits it has. ``limit`` is the most that it may spend itself, for
    tokens handed to an agent called ``label``; ``parent`` is the token that handed it out, without
    which it is worth nothing.
    """

    id: str
    name: str
    label: str
    role: Role
    made: int
    expires: int
    revoked: int | None
    limit: Share | None
    spent: Share
    parent: str | None

    def is_live(self, now: float) -> bool:
        """Tell whether it still opens the door."""
        return self.revoked is None and now < self.expires

    @property
    def left(self) -> Share | None:
        """What it may still spend; None without a limit of its own."""
        return None if self.limit is None else self.limit - self.spent


class TokenStore:
    """The tokens of one ledger's database."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock

    def make(
        self,
        name: str,
        role: Role = Role.ANALYST,
        *,
        days: int = 90,
        label: str = "",
        limit: Share | None = None,
        parent: Token | None = None,
    ) -> tuple[str, Token]:
        """Return a new token: its text, which is kept nowhere, and what is kept."""
        for called in (name, label or name):
            if not isinstance(called, str) or not NAME.match(called):
                raise BadDeclaration(
                    f"a token's name has letters, digits and _ . @ -, at most 63, got {called!r}"
                )
        if type(days) is not int or not 1 <= days <= MOST_DAYS:
            raise BadDeclaration(f"days must be a whole number from 1 to {MOST_DAYS}, got {days!r}")
        if limit is not None and limit.fraction > 1:
            raise BadDeclaration(
                f"a token spends at most the whole budget, got a share of {limit.fraction}; say a "
                "part of it, such as 5%"
            )
        place, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        text, now = f"confide-{place}.{secret}", int(self._clock())
        expires = now + days * DAY if parent is None else min(now + days * DAY, parent.expires)
        row = {
            "id": place,
            "name": name,
            "label": label,
            "role": role.value,
            "digest": _digest(text),
            "made": now,
            "expires": expires,
            "revoked": None,
            "limit_units": None if limit is None else limit.units,
            "spent_units": 0,
            "parent": None if parent is None else parent.id,
        }
        self._database.change(lambda connection: connection.execute(insert(TOKENS).values(**row)))
        return text, _token(row)

    def find(self, text: str) -> Token | None:
        """Return the live token of this text, or None: unknown, expired and revoked look alike.

        Why: the row is found by the part that is no secret, and a digest is compared in constant
        time whether there is a row or not, so time tells nothing about any secret.
        """
        shape = SHAPE.match(text)
        row = self._row(shape[1]) if shape else None
        kept = row["digest"] if row else NOBODY
        is_same = hmac.compare_digest(_digest(text), kept)
        if not row or not is_same:
            return None
        found, now = _token(row), self._clock()
        above = self._row(found.parent) if found.parent else None
        is_orphan = found.parent is not None and (above is None or not _token(above).is_live(now))
        return found if found.is_live(now) and not is_orphan else None

    def reread(self, token: Token) -> Token:
        """Return a token as it stands now: it may have been charged since it was shown."""
        row = self._row(token.id)
        return token if row is None else _token(row)

    def listed(self) -> list[Token]:
        """Return every token, newest first."""
        chosen = select(TOKENS).order_by(TOKENS.c.made.desc(), TOKENS.c.id)
        rows = self._database.look(lambda connection: connection.execute(chosen).mappings().all())
        return [_token(dict(row)) for row in rows]

    def revoke(self, place: str) -> bool:
        """Shut a token and those handed out by it, for good; tell whether it was there."""
        shut = update(TOKENS).where(TOKENS.c.id == place, TOKENS.c.revoked.is_(None))
        shut = shut.values(revoked=int(self._clock()))
        self._database.change(lambda connection: connection.execute(shut))
        return self._row(place) is not None

    def spend(self, token: Token, share: Share) -> None:
        """Charge a token that has a limit of its own, before its question is asked.

        Why: one guarded statement compares and adds in whole units, so no race passes the limit.
        """
        fits = or_(
            TOKENS.c.limit_units.is_(None),
            TOKENS.c.spent_units <= TOKENS.c.limit_units - share.units,
        )
        charge = update(TOKENS).where(TOKENS.c.id == token.id, fits)
        charge = charge.values(spent_units=TOKENS.c.spent_units + share.units)
        if not self._database.change(lambda connection: connection.execute(charge).rowcount):
            row = self._row(token.id)
            left = _token(row).left if row else None
            raise BudgetExceeded(
                "this token was handed a part of the budget, and the answer costs more than is "
                "left of it; ask for a lower cost, or ask whoever handed it out for more",
                cost=share.fraction,
                left=(left or Share(0)).fraction,
            )

    def give_back(self, token: Token, share: Share) -> None:
        """Undo a charge of `spend` whose question cost nothing: it was refused, or asked before.

        # Privacy: both are known from the ledger alone; what was read is never given back.
        """
        undo = update(TOKENS).where(TOKENS.c.id == token.id)
        undo = undo.values(spent_units=TOKENS.c.spent_units - share.units)
        self._database.change(lambda connection: connection.execute(undo))

    def _row(self, place: str) -> dict[str, Any] | None:
        one = select(TOKENS).where(TOKENS.c.id == place)
        row = self._database.look(lambda connection: connection.execute(one).mappings().first())
        return dict(row) if row is not None else None


def spent_by_analyst(tokens: Iterable[Token], ledger: Ledger) -> dict[str, Fraction]:
    """Return the share that each analyst has spent, with any token, from the ledger.

    A token without a limit of its own spends its analyst's share and is not counted by itself.
    """
    names = {token.name for token in tokens if token.role is Role.ANALYST}
    return {name: ledger.allowance(name).spent.fraction for name in sorted(names)}


def _token(row: dict[str, Any]) -> Token:
    return Token(
        id=row["id"],
        name=row["name"],
        label=row["label"],
        role=Role(row["role"]),
        made=row["made"],
        expires=row["expires"],
        revoked=row["revoked"],
        limit=None if row["limit_units"] is None else Share(row["limit_units"]),
        spent=Share(row["spent_units"]),
        parent=row["parent"],
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
