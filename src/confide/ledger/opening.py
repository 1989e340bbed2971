"""Creates, migrates and checks a stored ledger before it is used."""

import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, insert, inspect, select, text

from confide.declare import Limits
from confide.errors import BadDeclaration
from confide.lazy import lazy_module
from confide.ledger.anchors import Anchor, Mark, open_anchor
from confide.ledger.chain import ACCOUNTINGS, describe_filter, first_head, now, read_filter
from confide.ledger.database import Database, look_at_file, read_address, wait_turn
from confide.ledger.protocol import (
    RESTORE,
    LedgerBehind,
    LedgerDamaged,
    LedgerNewer,
    LedgerUnavailable,
    LostAnchor,
    refuse_relation,
)
from confide.ledger.rows import read_digest, read_head, write_relation
from confide.ledger.schema import HEAD, META
from confide.ledger.sql import Identity, SqlLedger
from confide.loss import Filter

if TYPE_CHECKING:
    from alembic import config as alembic_config
    from alembic import script as script_directory
    from alembic import util as alembic_util
    from alembic.runtime import environment as environments
else:
    alembic_config = lazy_module("alembic.config")
    script_directory = lazy_module("alembic.script")
    alembic_util = lazy_module("alembic.util")
    environments = lazy_module("alembic.runtime.environment")

__all__ = ["accept_lost_anchor", "check_ledger", "open_ledger", "refuse_foreign", "refuse_tables"]

NEWEST: Final = "0001a"
STEPS: Final = Path(__file__).parent / "migrations"
VERSIONS: Final = "confide_version"
OURS: Final = "confide_"
"""How the names of all our tables begin."""


def open_ledger(
    address: str | Path,
    opening: Filter,
    limits: Limits | None = None,
    *,
    neighbours: str = "",
    anchor: str | Path | Anchor | None = None,
    wait: float = 30.0,
    clock: Callable[[], int] = now,
) -> SqlLedger:
    """Return the ledger at an address: a path, ``sqlite:///path`` or ``postgresql://...``.

    One that is not there is made, for the budget of ``opening``. One that is there keeps the terms
    it was made with; they must be of the same budget. ``neighbours`` is the relation under which
    losses are meant, kept with the terms: losses under two relations do not add up. A ledger that
    was opened with an anchor once does not open without it: see `accept_lost_anchor`.

    Raises:
        AnchorLost: the ledger has an anchor, which is not the one that is named.
        BadDeclaration: the ledger belongs to another budget, or the file is no ledger.
        LedgerBehind: it is older than its anchor, or is missing and its anchor is not.
        LedgerNewer: it was written by a newer confide.
        LedgerDamaged: it contradicts itself.
    """
    kept = open_anchor(anchor) if isinstance(anchor, str | Path) else anchor
    mark = None if kept is None else kept.newest()
    refuse_foreign(address)
    if mark is not None and _is_missing(address):
        raise _missing(mark)
    ledger = _connect(
        address,
        opening,
        limits,
        neighbours=neighbours,
        anchor=kept,
        mark=mark,
        wait=wait,
        clock=clock,
    )
    try:
        ledger.take_anchor()
    except BaseException:
        ledger.close()
        raise
    return ledger


def accept_lost_anchor(
    address: str | Path,
    opening: Filter,
    *,
    neighbours: str = "",
    anchor: str | Path | Anchor | None = None,
    wait: float = 30.0,
    clock: Callable[[], int] = now,
) -> LostAnchor | None:
    """Record in the ledger that its anchor is lost; return the record, or None if it is not lost.

    From then on the ledger has the anchor that is named now, which may be empty, or none at all.
    Nothing shows any more whether the ledger is an old backup: that is what the owner accepts. This
    is a function, not an option of `open_ledger`, so that no program accepts a loss at each start.

    Raises:
        BadDeclaration: there is no ledger, or it belongs to another budget.
        AnchorLost: the anchor that is named belongs to another ledger.
        LedgerBehind: the ledger is older than the anchor that is named, or is missing.
        LedgerDamaged: the two disagree, so the anchor is not lost.
    """
    kept = open_anchor(anchor) if isinstance(anchor, str | Path) else anchor
    mark = None if kept is None else kept.newest()
    refuse_foreign(address)
    if _is_missing(address):
        raise BadDeclaration(NO_LEDGER) if mark is None else _missing(mark)
    ledger = _connect(
        address,
        opening,
        None,
        neighbours=neighbours,
        anchor=kept,
        mark=mark,
        wait=wait,
        clock=clock,
    )
    try:
        return ledger.accept_lost_anchor()
    finally:
        ledger.close()


NO_LEDGER: Final = (
    "there is no ledger at the address that is declared, so it has lost no anchor; look at url in "
    "[ledger]"
)


def _connect(
    address: str | Path,
    opening: Filter,
    limits: Limits | None,
    *,
    neighbours: str,
    anchor: Anchor | None,
    mark: Mark | None,
    wait: float,
    clock: Callable[[], int],
) -> SqlLedger:
    """Return the ledger at an address, which was not yet compared with its anchor."""
    database = Database(address, wait=wait)
    try:
        database.look(lambda connection: database.check_file(connection, whole=False))
        identity = database.change(
            lambda connection: _take_in(connection, opening, neighbours, mark)
        )
    except BaseException:
        database.close()
        raise
    return SqlLedger(database, identity, limits, anchor=anchor, clock=clock)


def _is_missing(address: str | Path) -> bool:
    """Return whether no ledger is at an address, without changing what is there.

    What cannot be looked at is not missing: the opening finds out why.
    """
    url = read_address(address)
    if url.get_backend_name() != "sqlite":
        database = Database(address)
        try:
            return not database.look(_find_meta)
        finally:
            database.close()
    path = Path(str(url.database))
    with suppress(LedgerDamaged, LedgerUnavailable, OSError):
        return not (path.exists() and path.stat().st_size and look_at_file(path, _find_meta))
    return False


def _missing(mark: Mark) -> LedgerBehind:
    return LedgerBehind(
        f"there is no ledger at the address that is declared, but its anchor has seen one with "
        f"{mark.records:,} records: restore the newest backup. A new ledger needs an anchor of its "
        "own, and for the same people it is a second budget"
    )


def check_ledger(address: str | Path, opening: Filter, *, neighbours: str = "") -> None:
    """Look whether a ledger that is there keeps this budget; write nothing, and make none.

    Raises:
        BadDeclaration: it belongs to another budget, keeps another relation of neighbours, or is
            no ledger.
    """
    kept: dict[str, str] = {}
    if path := _find_file(address):
        kept = look_at_file(path, _find_meta)
    elif read_address(address).get_backend_name() != "sqlite":
        database = Database(address)
        try:
            kept = database.look(_find_meta)
        finally:
            database.close()
    if kept:
        _refuse_budget(read_filter(kept.get("terms", "")), opening)
        refuse_relation(kept.get("neighbours", neighbours), neighbours)


def refuse_foreign(address: str | Path) -> None:
    """Refuse a file of SQLite that was made for something else, before a byte of it is changed.

    One that cannot be looked at is left to whoever opens it next, and says why it cannot.

    Raises:
        BadDeclaration: it holds tables, and none of ours.
    """
    path = _find_file(address)
    if path is not None:
        with suppress(LedgerDamaged, LedgerUnavailable):
            look_at_file(path, refuse_tables)


def _find_file(address: str | Path) -> Path | None:
    """Return the file of SQLite that an address names, if there is anything in it."""
    url = read_address(address)
    path = Path(str(url.database))
    # A folder that may not be entered is left to whoever opens the ledger, and says so.
    with suppress(PermissionError):
        if url.get_backend_name() == "sqlite" and path.is_file() and path.stat().st_size:
            return path
    return None


def _find_meta(connection: Connection) -> dict[str, str]:
    if inspect(connection).has_table(META.name):
        return _read_meta(connection)
    refuse_tables(connection)
    return {}


def refuse_tables(connection: Connection) -> None:
    """Refuse a file of SQLite with tables of something else alone; servers may hold both."""
    names = inspect(connection).get_table_names()
    is_file = connection.dialect.name == "sqlite"
    if is_file and names and not any(name.startswith(OURS) for name in names):
        raise BadDeclaration(
            "the file named as ledger holds tables of something else, and no ledger; name a file "
            "that is not there yet, and it is made"
        )


def _take_in(
    connection: Connection, opening: Filter, neighbours: str, mark: Mark | None
) -> Identity:
    """Make the ledger, or find out whose it is; one process at a time.

    # Privacy: what the anchor has a mark of was there before the mark, so it is not made again.
    """
    wait_turn(connection)
    _bring_up_to_date(connection)
    if mark is not None and not _read_meta(connection):
        raise _missing(mark)
    identity = _identify(connection, opening)
    if neighbours:
        write_relation(connection, neighbours)
    return identity


def _bring_up_to_date(connection: Connection) -> None:
    """Make the tables, or take the steps that an older confide did not know."""
    version = _version(connection)
    if version == NEWEST:
        return
    if version is None:
        refuse_tables(connection)
    config = alembic_config.Config()
    config.set_main_option("script_location", str(STEPS).replace("%", "%%"))
    config.set_main_option("version_locations", str(STEPS).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    script = script_directory.ScriptDirectory.from_config(config)

    def take_steps(revision: Any, _: object) -> Any:
        return script._upgrade_revs(NEWEST, revision)  # noqa: SLF001  # as its own command does

    try:
        with environments.EnvironmentContext(config, script, fn=take_steps) as environment:
            environment.configure(connection=connection, version_table=VERSIONS)
            environment.run_migrations()
    except alembic_util.CommandError as error:
        raise LedgerNewer(
            f"the ledger has version {version}, and this confide knows versions up to {NEWEST}; "
            "use the newer confide that wrote it"
        ) from error


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSIONS):
        return None
    found = connection.execute(text("SELECT version_num FROM confide_version")).scalar()
    return None if found is None else str(found)


def _identify(connection: Connection, opening: Filter) -> Identity:
    """Return whose ledger this is, making it the budget's own if it is new."""
    kept = _read_meta(connection)
    if not kept:
        return _make(connection, opening)
    known = read_filter(kept.get("terms", ""))
    identity = Identity(kept.get("identity", ""), kept.get("salt", ""), known)
    if not identity.name or not identity.salt:
        raise LedgerDamaged(f"the ledger does not say which one it is; {RESTORE}")
    _refuse_budget(known, opening)
    head = read_head(connection)
    newest = read_digest(connection, head.records - 1) if head.records else None
    if head.records and newest != head.digest:
        raise LedgerDamaged(f"the newest record of the ledger is missing or was changed; {RESTORE}")
    return identity


def _read_meta(connection: Connection) -> dict[str, str]:
    found = connection.execute(select(META.c.name, META.c.value))
    return {str(name): str(value) for name, value in found}


def _refuse_budget(known: Filter, opening: Filter) -> None:
    """Refuse a budget that is not the one a ledger was made for."""
    if (known.epsilon, known.delta) != (opening.epsilon, opening.delta):
        raise BadDeclaration(
            f"this ledger keeps a budget of {_terms(known)}, and the one declared has "
            f"{_terms(opening)}; declare the ledger's own budget again, or name another ledger: "
            "what is spent in both adds up"
        )
    if type(known) is not type(opening):
        kept, declared = (ACCOUNTINGS[type(one).__name__] for one in (known, opening))
        raise BadDeclaration(
            f"this ledger counts what is spent by {kept} accounting, and the budget declared by "
            f'{declared}; declare accounting = "{kept}" in the budget, or name another ledger: '
            "what is spent in both adds up"
        )


def _terms(budget: Filter) -> str:
    """Return what a budget allows, as people read it."""
    return f"epsilon {float(budget.epsilon):.12g} and delta {float(budget.delta):.12g}"


def _make(connection: Connection, opening: Filter) -> Identity:
    identity = Identity(secrets.token_hex(16), secrets.token_hex(16), opening)
    named = {"identity": identity.name, "salt": identity.salt, "terms": describe_filter(opening)}
    connection.execute(insert(META), [{"name": k, "value": v} for k, v in named.items()])
    head = first_head(identity.name, opening)
    state = {name: getattr(head, name) for name in ("records", "digest", "time", "spent")}
    rest = {"one": 1, "delta_spent": head.delta_spent, "seal": head.seal}
    connection.execute(insert(HEAD), {**state, **rest})
    return identity
