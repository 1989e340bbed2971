"""The token store: who can call the server, until when, and how much they can spend.

A token has 256 secret bits and is shown once. The store has only its SHA-256 hash, without a salt,
because guessing 256 random bits is infeasible. The part of a token between ``confide-`` and the dot
is its id, which is not secret.
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
from confide.release import percent

__all__ = ["TOKENS", "Role", "Token", "TokenStore", "open_tables", "spent_by_analyst"]

VERSION: Final = 2
ADVISORY_LOCK_ID: Final = 4_027_431_615  # arbitrary; distinguishes our PostgreSQL lock
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
    Column("may_confirm", Integer, nullable=False, server_default="0"),
)
"""One row per token, with a hash of its text."""

LAYOUT_TABLE: Final = Table(
    "confide_server",
    TABLES,
    Column("only", Integer, primary_key=True),
    Column("version", Integer, nullable=False),
)
"""A table with one row: the layout version of the server's tables."""


FIRST_VERSION: Final = 1
ADD_MAY_CONFIRM: Final = (
    "ALTER TABLE confide_tokens ADD COLUMN may_confirm INTEGER NOT NULL DEFAULT 0"
)
"""The change from the first layout, whose tokens cannot confirm."""


def open_tables(address: str | Path | None) -> Database:
    """Return the database of the server's tables, which are created if missing.

    ``address`` is the address of the ledger's database; None means a temporary file.

    Raises:
        BadDeclaration: the file belongs to another program.
        Fault: another version of confide created the tables with a layout that is not supported.
    """
    if address is None:
        folder = tempfile.TemporaryDirectory(prefix="confide-")
        database = Database(Path(folder.name) / "server.db")
        weakref.finalize(database, folder.cleanup)
    else:
        refuse_foreign(address)
        database = Database(address)
    found = database.change(_create_tables)
    if found != VERSION:
        raise Fault(
            f"The server's tables have layout version {found}, but this version of confide "
            f"supports {VERSION}. Use the version of confide that created them, or a newer one."
        )
    return database


def _create_tables(connection: Connection) -> int:
    """Create or upgrade the tables, one process at a time; return their layout version."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:gate)"), {"gate": ADVISORY_LOCK_ID})
    refuse_tables(connection)
    TABLES.create_all(connection)
    found = connection.execute(select(LAYOUT_TABLE.c.version)).scalar()
    if found == FIRST_VERSION:
        connection.execute(text(ADD_MAY_CONFIRM))
        connection.execute(update(LAYOUT_TABLE).values(version=VERSION))
        return VERSION
    if found is not None:
        return int(found)
    connection.execute(insert(LAYOUT_TABLE).values(only=1, version=VERSION))
    return VERSION


TOKEN_PATTERN: Final = re.compile(r"confide-([0-9a-f]{16})\.([A-Za-z0-9_-]{43})\Z")
NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}\Z")
DUMMY_DIGEST: Final = "0" * 64
SECONDS_PER_DAY: Final = 86_400
MAX_DAYS: Final = 3_660


class Role(StrEnum):
    """The role of a caller."""

    OWNER = "owner"
    ANALYST = "analyst"


@dataclass(frozen=True, slots=True)
class Token:
    """A stored token, without its secret; times are seconds since 1970.

    ``name`` is the name of the owner, or of the analyst whose limits apply. A token that an analyst
    creates for an agent has the agent's name as its ``label``, a ``limit`` on its own spending, and
    the id of the analyst's token as its ``parent``. It is valid only as long as its parent.
    ``may_confirm`` lets a token with a limit, or any caller through the tools, confirm a high cost.
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
    may_confirm: bool = False

    def is_live(self, now: float) -> bool:
        """Return whether the token is neither revoked nor expired."""
        return self.revoked is None and now < self.expires

    @property
    def left(self) -> Share | None:
        """The share that the token can still spend, or None if it has no limit."""
        return None if self.limit is None else self.limit - self.spent


class TokenStore:
    """The tokens in the database of one ledger."""

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
        may_confirm: bool = False,
    ) -> tuple[str, Token]:
        """Create a token; return its text, which is not stored, and the stored token.

        It expires after ``days``, or with its ``parent`` if that is earlier.
        """
        for called in (name, label or name):
            if not isinstance(called, str) or not NAME_PATTERN.match(called):
                raise BadDeclaration(
                    "The name of a token must have at most 63 letters, digits, and `_.@-`; got "
                    f"{called!r}."
                )
        if type(days) is not int or not 1 <= days <= MAX_DAYS:
            raise BadDeclaration(f"`days` must be an integer from 1 to {MAX_DAYS}; got {days!r}.")
        if limit is not None and limit.fraction > 1:
            raise BadDeclaration(
                "The spending limit of a token must be at most 100% of the budget, such as 5%; got "
                f"{percent(limit.fraction)}."
            )
        token_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        text, now = f"confide-{token_id}.{secret}", int(self._clock())
        expires = (
            now + days * SECONDS_PER_DAY
            if parent is None
            else min(now + days * SECONDS_PER_DAY, parent.expires)
        )
        row = {
            "id": token_id,
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
            "may_confirm": int(may_confirm),
        }
        self._database.change(lambda connection: connection.execute(insert(TOKENS).values(**row)))
        return text, _token(row)

    def find(self, text: str) -> Token | None:
        """Return the token with this text, or None if it or its parent is not valid.

        A token is not valid if it is unknown, expired, or revoked.

        Why: the row is found by the id, which is not secret. A hash is compared in constant time
             whether or not there is a row, so timing reveals nothing about any secret.
        """
        matched = TOKEN_PATTERN.match(text)
        row = self._row(matched[1]) if matched else None
        stored = row["digest"] if row else DUMMY_DIGEST
        is_same = hmac.compare_digest(_digest(text), stored)
        if not row or not is_same:
            return None
        found, now = _token(row), self._clock()
        parent = self._row(found.parent) if found.parent else None
        is_orphan = found.parent is not None and (parent is None or not _token(parent).is_live(now))
        return found if found.is_live(now) and not is_orphan else None

    def refresh(self, token: Token) -> Token:
        """Return the current state of a token, which may have changed since ``token`` was read."""
        row = self._row(token.id)
        return token if row is None else _token(row)

    def list_all(self) -> list[Token]:
        """Return every token, newest first."""
        chosen = select(TOKENS).order_by(TOKENS.c.made.desc(), TOKENS.c.id)
        rows = self._database.read(lambda connection: connection.execute(chosen).mappings().all())
        return [_token(dict(row)) for row in rows]

    def revoke(self, token_id: str) -> bool:
        """Revoke a token, which also invalidates those it issued; return whether it exists."""
        revoked = update(TOKENS).where(TOKENS.c.id == token_id, TOKENS.c.revoked.is_(None))
        revoked = revoked.values(revoked=int(self._clock()))
        self._database.change(lambda connection: connection.execute(revoked))
        return self._row(token_id) is not None

    def spend(self, token: Token, share: Share) -> None:
        """Charge a share to a token's own limit, before its query runs.

        Why: a single UPDATE compares and adds integer units, so concurrent charges cannot exceed
             the limit.

        Raises:
            BudgetExceeded: the share is larger than the remaining limit.
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
                "This query would cost more than this token can still spend. Lower the cost, or "
                "ask the issuer of the token for a higher limit.",
                cost=share.fraction,
                left=(left or Share(0)).fraction,
            )

    def refund(self, token: Token, share: Share) -> None:
        """Undo a charge of `spend` for a query that cost nothing: refused, or answered before.

        # Privacy: both cases are known without reading rows; a query that read rows is never
        # refunded.
        """
        undo = update(TOKENS).where(TOKENS.c.id == token.id)
        undo = undo.values(spent_units=TOKENS.c.spent_units - share.units)
        self._database.change(lambda connection: connection.execute(undo))

    def _row(self, token_id: str) -> dict[str, Any] | None:
        one = select(TOKENS).where(TOKENS.c.id == token_id)
        row = self._database.read(lambda connection: connection.execute(one).mappings().first())
        return dict(row) if row is not None else None


def spent_by_analyst(tokens: Iterable[Token], ledger: Ledger) -> dict[str, Fraction]:
    """Return the share that each analyst with a token has spent in total, from the ledger.

    The tokens themselves record only spending that counts toward a limit of their own.
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
        may_confirm=bool(row["may_confirm"]),
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
