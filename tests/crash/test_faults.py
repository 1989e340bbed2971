"""Failing disks, files, locks, and clocks: a clear fault, no answer, and no loss."""

import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import create_engine, text

from confide.errors import Fault
from confide.ledger import (
    Hold,
    LedgerDamaged,
    LedgerNewer,
    LedgerUnavailable,
    SqlLedger,
    open_ledger,
)
from confide.ledger.chain import MAX_CLOCK_SKEW
from confide.ledger.database import read_address
from confide.loss import Share
from support.ledgers import DAY, LONG, NOISY, TENTH, WHOLE, Clock, Home, ask
from support.postgres import Postgres, run_postgres
from support.tree import ROOT

SMALL: Final = Share.floor("1/1000000")
PAGE: Final = 4096
CHECKSUM: Final = 8
"""The offset of the checksum in a PostgreSQL page, in bytes."""

TENTH_OF_TENTH: Final = Share.floor("1/100")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """Return a location of ledgers in a file."""
    home = Home("sqlite", tmp_path, None)
    yield home
    home.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def any_home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    """Return a location of each kind of ledger that outlives its process, in turn."""
    server = request.getfixturevalue("postgres") if request.param == "postgresql" else None
    home = Home(request.param, tmp_path, server)
    yield home
    home.close()


def fill(ledger: SqlLedger, most: int = 500) -> int:
    """Charge and answer until the ledger cannot; return the number of answered charges."""
    for count in range(most):
        try:
            ledger.commit(ledger.reserve(ask("x" * 5_000), SMALL), NOISY)
        except LedgerUnavailable:
            return count
    return most


def test_a_full_disk_is_a_fault(home: Home) -> None:
    """On a full disk, nothing more is charged, and earlier charges are kept."""
    home.open()
    ledger = open_ledger(home.address, WHOLE)
    with ledger._database._current().connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 40}")
        connection.rollback()
    written = fill(ledger)
    ledger.close()
    again = home.again()

    assert 0 < written < 500
    assert again.filter.spent.units in (written * SMALL.units, (written + 1) * SMALL.units)
    again.verify()
    again.reserve(ask(), TENTH)


FULL_PROGRAM: Final = """
import resource, signal, sys
from support.ledgers import WHOLE, ask, NOISY
from confide.errors import Fault
from confide.ledger import open_ledger
from confide.loss import Share
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ledger = open_ledger(sys.argv[1], WHOLE)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
for count in range(500):
    try:
        ledger.commit(ledger.reserve(ask("x" * 5_000), Share.floor("1/1000000")), NOISY)
    except Fault as fault:
        print(count, fault.code)
        break
"""


def run_program(program: str, *words: str) -> list[str]:
    """Run a program in a new interpreter and return the words that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        check=True,
        capture_output=True,
        text=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
    )
    return done.stdout.split()


def test_a_file_that_cannot_grow_is_a_fault(home: Home) -> None:
    """A write that the system refuses halfway leaves the ledger unchanged."""
    home.open()
    count, code = run_program(FULL_PROGRAM, home.address)
    again = home.again()

    assert "ledger-unavailable" == code
    assert 0 < int(count) < 500
    assert int(count) * SMALL.units <= again.filter.spent.units
    again.verify()


READ_ONLY_PROGRAM: Final = """
import os, sys
from support.ledgers import WHOLE, ask, TENTH
from confide.errors import Fault
from confide.ledger import open_ledger
open_ledger(sys.argv[2], WHOLE).close()
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    open_ledger(sys.argv[1], WHOLE).reserve(ask(), TENTH)
except Fault as fault:
    print(fault.code)
"""


def test_a_read_only_file_is_a_fault(tmp_path: Path, home: Home) -> None:
    """A query fails without a charge if the ledger is read-only."""
    home.open().reserve(ask(), TENTH)
    home.close()
    folder = tmp_path / "closed"
    folder.mkdir()
    copy = folder / "ledger.db"
    copy.write_bytes(Path(home.address).read_bytes())
    copy.chmod(0o444)
    folder.chmod(0o555)
    for above in [tmp_path, *tmp_path.parents][:3]:
        above.chmod(0o755)
    try:
        told = run_program(READ_ONLY_PROGRAM, str(copy), str(tmp_path / "other.db"))
    finally:
        folder.chmod(0o755)

    assert ["ledger-unavailable"] == told
    assert Path(home.address).read_bytes() == copy.read_bytes()


def test_a_read_only_server_is_a_fault(postgres: Postgres, tmp_path: Path) -> None:
    """A replica, or a server in read-only mode, grants nothing."""
    home = Home("postgresql", tmp_path, postgres)
    ledger = home.open()
    name = read_address(home.address).database
    with postgres.connect("postgres") as connection:
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    fresh = open_quietly(home)
    with pytest.raises(LedgerUnavailable, match="read-only"):
        (fresh or home.again()).reserve(ask(), TENTH)

    assert Share(0) == ledger.filter.spent
    home.close()


def open_quietly(home: Home) -> SqlLedger | None:
    """Return the ledger, or None if it does not open."""
    with suppress(Fault):
        found = home.again()
        assert isinstance(found, SqlLedger)
        return found
    return None


def test_a_locked_ledger_is_a_fault(any_home: Home) -> None:
    """A lock that is held for too long makes a charge fail, and changes nothing else."""
    ledger = any_home.open()
    impatient = open_ledger(any_home.address, WHOLE, wait=0.2)
    engine = create_engine(read_address(any_home.address))
    with engine.connect() as other:
        if any_home.kind == "sqlite":
            other.exec_driver_sql("BEGIN IMMEDIATE")
        other.execute(text("UPDATE confide_head SET one = one"))
        with pytest.raises(LedgerUnavailable, match="locked by another program"):
            impatient.reserve(ask(), TENTH)
        other.rollback()
    engine.dispose()
    impatient.reserve(ask(), TENTH)

    assert TENTH == ledger.filter.spent
    impatient.close()


def test_a_corrupted_page_is_a_fault(home: Home) -> None:
    """With any page overwritten, the ledger faults or still reports the exact spent share."""
    for place in range(3):
        ledger = home.open()
        for number in range(20):
            ledger.commit(
                ledger.reserve(ask(f"SELECT {number} {'x' * 900}"), TENTH_OF_TENTH), NOISY
            )
        home.close()
        home.opened.clear()
        content = bytearray(Path(home.address).read_bytes())
        pages = len(content) // PAGE
        page = (place * pages // 3) or 1
        content[page * PAGE : (page + 1) * PAGE] = random.Random(place).randbytes(PAGE)
        Path(home.address).write_bytes(content)
        with pytest.raises(Fault):
            home.again().verify()
        home.close()
        home.opened.clear()


@pytest.mark.parametrize("part", [Fraction(0), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)])
def test_a_truncated_file_is_a_fault(home: Home, part: Fraction) -> None:
    """A truncated file is a fault; with its anchor, even an empty file is one."""
    anchor = home.folder / "anchor.log"
    ledger = home.open(anchor=anchor)
    for number in range(20):
        ledger.commit(ledger.reserve(ask(f"SELECT {number} {'x' * 900}"), TENTH_OF_TENTH), NOISY)
    home.close()
    size = Path(home.address).stat().st_size
    os.truncate(home.address, int(size * part) // 512 * 512)
    with pytest.raises(Fault):
        home.again(anchor=anchor).verify()


def test_a_file_of_another_kind_stays_unchanged(home: Home) -> None:
    """A file that is not a ledger is a fault, and stays unchanged."""
    path = home.folder / "letter.db"
    path.write_bytes(b"Dear owner, " * 1_000)
    with pytest.raises(LedgerDamaged):
        open_ledger(path, WHOLE)

    assert b"Dear owner, " * 1_000 == path.read_bytes()


def test_a_clock_that_goes_backwards_is_a_fault(any_home: Home) -> None:
    """A clock far behind the newest record stops charges; one slightly behind does not."""
    clock = Clock()
    ledger = any_home.open(clock=clock)
    hold = ledger.reserve(ask(), TENTH)
    clock.time -= DAY
    with pytest.raises(Fault, match="clock"):
        ledger.reserve(ask(), TENTH)
    with pytest.raises(Fault, match="clock"):
        ledger.commit(hold, NOISY)
    clock.time += DAY - MAX_CLOCK_SKEW
    ledger.commit(hold, NOISY)
    ledger.verify()

    assert TENTH == ledger.filter.spent


def test_a_ledger_of_a_newer_version_is_a_fault(any_home: Home) -> None:
    """Records of a newer version are neither read nor added to."""
    ledger = any_home.open()
    ledger.reserve(ask(), TENTH)
    engine = create_engine(read_address(any_home.address))
    with engine.begin() as connection:
        connection.execute(text("UPDATE confide_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(LedgerNewer, match="9999"):
        any_home.again()


def test_a_missing_folder_is_a_fault(tmp_path: Path) -> None:
    """A missing folder is reported as such."""
    with pytest.raises(LedgerUnavailable):
        open_ledger(tmp_path / "none" / "ledger.db", WHOLE)


def test_an_unreachable_server_is_a_fault(tmp_path: Path) -> None:
    """An unreachable server is a fault whose message contains no password."""
    with pytest.raises(LedgerUnavailable) as caught:
        open_ledger(f"postgresql://me:secret@/x?host={tmp_path}", WHOLE)

    assert "secret" not in str(caught.value)


def test_many_may_open_a_new_ledger_at_once(any_home: Home) -> None:
    """The first process creates the tables; all others find the same ledger."""
    if any_home.kind == "sqlite":
        address = str(any_home.folder / "new.db")
    else:
        assert any_home.postgres is not None
        address = any_home.postgres.create()
    found: list[SqlLedger] = []

    def open_one() -> None:
        found.append(open_ledger(address, WHOLE, wait=LONG))

    threads = [threading.Thread(target=open_one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 8 == len(found)
    assert 1 == len({ledger.salt for ledger in found})
    for ledger in found:
        ledger.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_memory_ledger_does_not_survive_a_fork() -> None:
    """A fork of a process with a budget in memory gets a fault, not a second budget."""
    home = Home("memory", None, None)  # type: ignore[arg-type]
    ledger = home.open()
    hold = ledger.reserve(ask(), TENTH, readings=None)
    child = os.fork()
    if child == 0:
        faults = 0
        for forbidden in (lambda: ledger.reserve(ask(), TENTH), hold.use):
            try:
                forbidden()
            except Fault:
                faults += 1
        os._exit(faults)
    _, status = os.waitpid(child, 0)

    assert 2 == os.waitstatus_to_exitcode(status)
    hold.use()


FULL: Final = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$
"""


def test_a_full_disk_of_a_server_is_a_fault(postgres: Postgres, tmp_path: Path) -> None:
    """A server with a full disk charges nothing, and a held charge can be resumed."""
    home = Home("postgresql", tmp_path, postgres)
    ledger = home.open()
    hold = ledger.reserve(ask(), TENTH, key="k")
    with postgres.connect(str(read_address(home.address).database)) as owner:
        owner.execute(FULL)
        for table in ("confide_charges", "confide_answers"):
            owner.execute(
                f"CREATE TRIGGER full_disk BEFORE INSERT ON {table} EXECUTE FUNCTION refuse()"
            )
        with pytest.raises(LedgerUnavailable, match="disk is full"):
            ledger.reserve(ask(), TENTH)
        with pytest.raises(LedgerUnavailable, match="disk is full"):
            ledger.commit(hold, NOISY)
        owner.execute("DROP FUNCTION refuse CASCADE")
    again = home.again().resume(ask(), "k")
    assert isinstance(again, Hold)
    ledger.commit(again, NOISY)
    ledger.verify()

    assert TENTH == ledger.filter.spent
    home.close()


@pytest.mark.parametrize("table", ["confide_head", "confide_charges", "confide_answers"])
def test_a_corrupted_page_of_a_server_is_a_fault(tmp_path: Path, table: str) -> None:
    """A server detects a damaged page by its checksum; the ledger faults and answers nothing."""
    with run_postgres() as server:
        home = Home("postgresql", tmp_path, server)
        ledger = home.open()
        ledger.commit(ledger.reserve(ask(), TENTH), NOISY)
        name = str(read_address(home.address).database)
        home.close()
        with server.connect(name) as connection:
            connection.execute("CHECKPOINT")
            found = connection.execute("SELECT pg_relation_filepath(%s)", (table,)).fetchone()
            assert found is not None
        place = server.sockets / "data" / str(found[0])
        server.restart(lambda: overwrite(place))
        with pytest.raises((LedgerUnavailable, LedgerDamaged)):
            home.again().verify()


def overwrite(path: Path) -> None:
    """Flip one bit of the checksum in the header of a file's first page.

    A change anywhere else is detected in all but one of 65,536 cases; this one always is.
    """
    with path.open("r+b") as file:
        file.seek(CHECKSUM)
        [before] = file.read(1)
        file.seek(CHECKSUM)
        file.write(bytes([before ^ 1]))
