"""Creation, migration, and checks of a stored ledger before its first use."""

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
from confide.ledger.database import Database, read_address, read_file, wait_turn
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

SCHEMA_VERSION: Final = "0001a"
MIGRATIONS: Final = Path(__file__).parent / "migrations"
VERSION_TABLE: Final = "confide_version"
TABLE_PREFIX: Final = "confide_"
"""The prefix of the names of all tables of confide."""


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
    """Return the ledger at an address: a path, ``sqlite:///path``, or ``postgresql://...``.

    A missing ledger is created with the terms of ``opening``, the filter before any charge. An
    existing ledger keeps its original terms, which must be for the same budget. ``neighbours`` is
    the neighboring relation that the privacy losses assume. It is stored with the terms, because
    losses under different relations do not add up. A ledger that was once opened with an anchor
    does not open without it; see `accept_lost_anchor`.

    Raises:
        AnchorLost: the ledger has an anchor that is not the configured one.
        BadDeclaration: the ledger is for another budget or another neighboring relation, or the
            file is not a ledger.
        LedgerBehind: the ledger is older than its anchor, or is missing although its anchor has a
            mark; or the ledger has no anchor yet, and this one belongs to another ledger.
        LedgerNewer: the ledger was written by a newer version of confide.
        LedgerDamaged: the ledger contradicts itself or its anchor.
    """
    opened = open_anchor(anchor) if isinstance(anchor, str | Path) else anchor
    mark = None if opened is None else opened.newest()
    refuse_foreign(address)
    if mark is not None and _is_missing(address):
        raise _missing_ledger(mark)
    ledger = _connect(
        address,
        opening,
        limits,
        neighbours=neighbours,
        anchor=opened,
        mark=mark,
        wait=wait,
        clock=clock,
    )
    try:
        ledger.attach_anchor()
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
    """Record in the ledger that its anchor is lost; return None if the anchor is not lost.

    From then on, the ledger uses the anchor passed here, which may be empty, or no anchor if None
    is passed. The owner accepts that nothing can reveal whether the ledger is an old backup. This
    is a function, not an option of `open_ledger`, so that no program accepts a loss at every start.

    Raises:
        BadDeclaration: there is no ledger, and the anchor has no mark; or the ledger is for another
            budget or another neighboring relation.
        AnchorLost: the anchor passed here belongs to another ledger.
        LedgerBehind: the ledger is older than the anchor passed here, or is missing although that
            anchor has a mark.
        LedgerDamaged: the ledger and the anchor disagree, so the anchor is not lost.
    """
    opened = open_anchor(anchor) if isinstance(anchor, str | Path) else anchor
    mark = None if opened is None else opened.newest()
    refuse_foreign(address)
    if _is_missing(address):
        raise BadDeclaration(NO_LEDGER) if mark is None else _missing_ledger(mark)
    ledger = _connect(
        address,
        opening,
        None,
        neighbours=neighbours,
        anchor=opened,
        mark=mark,
        wait=wait,
        clock=clock,
    )
    try:
        return ledger.accept_lost_anchor()
    finally:
        ledger.close()


NO_LEDGER: Final = (
    "There is no ledger at the declared address, so it has not lost an anchor. Check `url` in "
    "`[ledger]`."
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
    """Return the ledger at an address, not yet compared with its anchor."""
    database = Database(address, wait=wait)
    try:
        database.read(lambda connection: database.check_file(connection, whole=False))
        identity = database.change(
            lambda connection: _prepare_ledger(connection, opening, neighbours, mark)
        )
    except BaseException:
        database.close()
        raise
    return SqlLedger(database, identity, limits, anchor=anchor, clock=clock)


def _is_missing(address: str | Path) -> bool:
    """Return whether there is no ledger at an address, without changing anything there.

    An unreadable ledger does not count as missing; opening it reports the reason.
    """
    url = read_address(address)
    if url.get_backend_name() != "sqlite":
        database = Database(address)
        try:
            return not database.read(_find_meta)
        finally:
            database.close()
    path = Path(str(url.database))
    with suppress(LedgerDamaged, LedgerUnavailable, OSError):
        return not (path.exists() and path.stat().st_size and read_file(path, _find_meta))
    return False


def _missing_ledger(mark: Mark) -> LedgerBehind:
    return LedgerBehind(
        f"There is no ledger at the declared address, but its anchor has seen one with "
        f"{mark.records:,} records. Restore the newest backup. A new ledger needs an anchor of its "
        "own, and for the same people it is a second budget."
    )


def check_ledger(address: str | Path, opening: Filter, *, neighbours: str = "") -> None:
    """Check that a ledger, if it exists, is for this budget and this neighboring relation.

    Nothing is written or created.

    Raises:
        BadDeclaration: the ledger is for another budget or another neighboring relation, or the
            file is not a ledger.
    """
    meta: dict[str, str] = {}
    if path := _find_file(address):
        meta = read_file(path, _find_meta)
    elif read_address(address).get_backend_name() != "sqlite":
        database = Database(address)
        try:
            meta = database.read(_find_meta)
        finally:
            database.close()
    if meta:
        _check_budget(read_filter(meta.get("terms", "")), opening)
        refuse_relation(meta.get("neighbours", neighbours), neighbours)


def refuse_foreign(address: str | Path) -> None:
    """Refuse a SQLite file of another program, before changing a byte of it.

    An unreadable file passes; opening it reports the reason.

    Raises:
        BadDeclaration: the file has tables, but none of confide.
    """
    path = _find_file(address)
    if path is not None:
        with suppress(LedgerDamaged, LedgerUnavailable):
            read_file(path, refuse_tables)


def _find_file(address: str | Path) -> Path | None:
    """Return the path of the SQLite file at an address, or None if it is missing or empty."""
    url = read_address(address)
    path = Path(str(url.database))
    # If the folder is not accessible, opening the ledger reports it.
    with suppress(PermissionError):
        if url.get_backend_name() == "sqlite" and path.is_file() and path.stat().st_size:
            return path
    return None


def _find_meta(connection: Connection) -> dict[str, str]:
    """Return the ledger's metadata, empty if there is no ledger; refuse foreign tables."""
    if inspect(connection).has_table(META.name):
        return _read_meta(connection)
    refuse_tables(connection)
    return {}


def refuse_tables(connection: Connection) -> None:
    """Raise BadDeclaration if a SQLite file has tables, but none of confide.

    A PostgreSQL database may contain other tables too.
    """
    names = inspect(connection).get_table_names()
    is_file = connection.dialect.name == "sqlite"
    if is_file and names and not any(name.startswith(TABLE_PREFIX) for name in names):
        raise BadDeclaration(
            "The ledger's file contains tables of another program, and no ledger. Choose a file "
            "that does not exist yet; confide creates it."
        )


def _prepare_ledger(
    connection: Connection, opening: Filter, neighbours: str, mark: Mark | None
) -> Identity:
    """Create the ledger, or migrate and check an existing one; one process at a time.

    # Privacy: an anchor's mark proves that a ledger existed, so a missing ledger was lost. A new
    # ledger would be a second budget.
    """
    wait_turn(connection)
    _migrate(connection)
    if mark is not None and not _read_meta(connection):
        raise _missing_ledger(mark)
    identity = _read_or_create(connection, opening)
    if neighbours:
        write_relation(connection, neighbours)
    return identity


def _migrate(connection: Connection) -> None:
    """Create the tables, or run the migrations that are newer than the ledger."""
    version = _read_version(connection)
    if version == SCHEMA_VERSION:
        return
    if version is None:
        refuse_tables(connection)
    config = alembic_config.Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("version_locations", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    script = script_directory.ScriptDirectory.from_config(config)

    def upgrade(revision: Any, _: object) -> Any:
        return script._upgrade_revs(SCHEMA_VERSION, revision)  # noqa: SLF001  # like alembic's CLI

    try:
        with environments.EnvironmentContext(config, script, fn=upgrade) as environment:
            environment.configure(connection=connection, version_table=VERSION_TABLE)
            environment.run_migrations()
    except alembic_util.CommandError as error:
        raise LedgerNewer(
            f"The ledger has version {version}, but this confide supports versions up to "
            f"{SCHEMA_VERSION}. Use the newer confide that wrote it."
        ) from error


def _read_version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text("SELECT version_num FROM confide_version")).scalar()
    return None if found is None else str(found)


def _read_or_create(connection: Connection, opening: Filter) -> Identity:
    """Return the identity of the ledger after checking its terms and its newest record.

    A ledger without an identity is new, and is created.
    """
    meta = _read_meta(connection)
    if not meta:
        return _create(connection, opening)
    known = read_filter(meta.get("terms", ""))
    identity = Identity(meta.get("identity", ""), meta.get("salt", ""), known)
    if not identity.name or not identity.salt:
        raise LedgerDamaged(f"The ledger does not record its identity. {RESTORE}")
    _check_budget(known, opening)
    head = read_head(connection)
    newest = read_digest(connection, head.records - 1) if head.records else None
    if head.records and newest != head.digest:
        raise LedgerDamaged(f"The newest record of the ledger is missing or was changed. {RESTORE}")
    return identity


def _read_meta(connection: Connection) -> dict[str, str]:
    found = connection.execute(select(META.c.name, META.c.value))
    return {str(name): str(value) for name, value in found}


def _check_budget(known: Filter, opening: Filter) -> None:
    """Raise BadDeclaration if the declared budget is not the ledger's own."""
    if (known.epsilon, known.delta) != (opening.epsilon, opening.delta):
        raise BadDeclaration(
            f"This ledger has a budget of {_describe_terms(known)}, but the declared budget has "
            f"{_describe_terms(opening)}. Declare the ledger's budget again, or use another "
            "ledger; spending in both adds up."
        )
    if type(known) is not type(opening):
        kept, declared = (ACCOUNTINGS[type(one).__name__] for one in (known, opening))
        raise BadDeclaration(
            f"This ledger uses {kept} accounting, but the declared budget uses {declared} "
            f'accounting. Set `accounting = "{kept}"` in the budget, or use another ledger; '
            "spending in both adds up."
        )


def _describe_terms(budget: Filter) -> str:
    """Return the epsilon and delta of a budget as readable text."""
    return f"epsilon {float(budget.epsilon):.12g} and delta {float(budget.delta):.12g}"


def _create(connection: Connection, opening: Filter) -> Identity:
    identity = Identity(secrets.token_hex(16), secrets.token_hex(16), opening)
    named = {"identity": identity.name, "salt": identity.salt, "terms": describe_filter(opening)}
    connection.execute(insert(META), [{"name": k, "value": v} for k, v in named.items()])
    head = first_head(identity.name, opening)
    state = {name: getattr(head, name) for name in ("records", "digest", "time", "spent")}
    rest = {"one": 1, "delta_spent": head.delta_spent, "seal": head.seal}
    connection.execute(insert(HEAD), {**state, **rest})
    return identity
