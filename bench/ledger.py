"""Speed of a ledger compared with its plain database, and with itself after a long history.

The targets hold within one run. A ledger makes at least 60% as many durable changes per second as
the plain database. There, a change is one transaction of two inserts and one update in plain SQL
through the database's own driver. A query is two changes, the charge and its answer: the first must
be on disk before a row is read, and the second before anything is shown. Both sides wait for the
disk once per change, so changes are compared with changes. The charge writes a record, a key, and
the head; the answer writes a record and the head. The plain side keeps no index and computes no
hash. There is no anchor, which would wait for another disk once more per change. After a million
charges, a query takes at most 1.5 times as long as after a thousand.

Both sides take turns in the same folder (and the same server), and a ratio is the median over all
rounds, since other work on the machine slows both alike. The faster the disk, the more the ratio
depends on the work in Python. `bench/ledger.py 100000` uses a shorter history.
"""

import secrets
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
import psycopg
from rich.console import Console
from rich.table import Table as Listing
from sqlalchemy import insert, text, update

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from confide.ledger import QueryIdentity, SqlLedger, open_ledger
from confide.ledger.chain import add_answer, add_charge, query_digest
from confide.ledger.rows import read_head
from confide.ledger.schema import ANSWERS, CHARGES, HEAD
from confide.loss import PureFilter, Share
from support.postgres import run_postgres

SHORT: Final = 1_000
LONG: Final = 1_000_000
ROUNDS: Final = 15
EACH: Final = 40
BRIEF: Final = 100
PART: Final = 0.60
SLOWER: Final = 1.5
BATCH: Final = 5_000
SHARE: Final = Share(1)
OPENING: Final = PureFilter(Fraction(1))
NOISY: Final = {"groups": [["a"], ["b"], ["c"]], "steps": [[1, 2], [3, 4], [5, 6]]}
TEXT: Final = "SELECT ward, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY ward"
WORDS: Final = "x" * 600

console = Console()
missed: list[str] = []


def ask(ledger: SqlLedger) -> None:
    """Record one query in a ledger: charge it, then commit its answer."""
    question = QueryIdentity(TEXT, "v1", "ana")
    ledger.commit(ledger.reserve(question, SHARE, key=secrets.token_hex(8)), NOISY)


@contextmanager
def bare_file(path: Path) -> Iterator[Callable[[], None]]:
    """Yield a function that makes one durable change in a plain SQLite file."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE kept (number INTEGER PRIMARY KEY, words TEXT)")
    connection.execute("CREATE TABLE head (spent INTEGER)")
    connection.execute("INSERT INTO head VALUES (0)")

    def change() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO kept (words) VALUES (?)", (WORDS,))
        connection.execute("INSERT INTO kept (words) VALUES (?)", (WORDS,))
        connection.execute("UPDATE head SET spent = spent + 1")
        connection.execute("COMMIT")

    yield change
    connection.close()


@contextmanager
def bare_server(address: str) -> Iterator[Callable[[], None]]:
    """Yield a function that makes one durable change in a plain PostgreSQL database."""
    connection: psycopg.Connection[Any] = psycopg.connect(address)
    connection.execute("CREATE TABLE kept (number BIGSERIAL PRIMARY KEY, words TEXT)")
    connection.execute("CREATE TABLE head (spent BIGINT)")
    connection.execute("INSERT INTO head VALUES (0)")
    connection.commit()

    def change() -> None:
        connection.execute("INSERT INTO kept (words) VALUES (%s)", (WORDS,))
        connection.execute("INSERT INTO kept (words) VALUES (%s)", (WORDS,))
        connection.execute("UPDATE head SET spent = spent + 1")
        connection.commit()

    yield change
    connection.close()


def seconds(run: Callable[[], object], times: int) -> float:
    """Return the mean seconds of several runs."""
    start = perf_counter()
    for _ in range(times):
        run()
    return (perf_counter() - start) / times


def take_turns(first: Callable[[], None], second: Callable[[], None]) -> tuple[float, float, float]:
    """Return the median seconds of both, and the median of their ratios, first over second."""
    seconds(first, 5)
    seconds(second, 5)
    pairs = [(seconds(first, EACH), seconds(second, EACH)) for _ in range(ROUNDS)]
    ratio = float(np.median([one / other for one, other in pairs]))
    firsts, seconds_ = zip(*pairs, strict=True)
    return float(np.median(firsts)), float(np.median(seconds_)), ratio


def lengthen(ledger: SqlLedger, charges: int) -> None:
    """Write a valid history of ``charges`` charges and answers, in batches."""
    question = QueryIdentity(TEXT, "v1", "ana")
    asked, noisy = query_digest(question), '{"groups": [["a"]], "steps": [[1, 2]]}'
    with ledger._database._current().begin() as connection:
        head, total = read_head(connection, lock=True), 0
        for start in range(0, charges, BATCH):
            rows, kept = [], []
            for _ in range(min(BATCH, charges - start)):
                charge, head = add_charge(
                    head, question, (1, 0), (total, 0), now=head.time, opening=OPENING
                )
                rows.append({**asdict(charge), "digest": head.digest})
                total = charge.analyst_spent
                record, head = add_answer(head, charge.number, noisy, head.time)
                more = {"digest": head.digest, "asked": asked, "analyst": "ana"}
                kept.append({**asdict(record), **more})
            connection.execute(insert(CHARGES), rows)
            connection.execute(insert(ANSWERS), kept)
        connection.execute(update(HEAD).values(**asdict(head), seal=head.seal))
    with suppress(Exception), ledger._database._current().connect() as connection:
        connection.execute(text("ANALYZE"))
        connection.commit()


def check_target(what: str, *, kept: bool) -> str:
    """Return the label of a target that was met or missed, and record a miss."""
    if not kept:
        missed.append(what)
    return "yes" if kept else "[bold]NO[/bold]"


def show_change_rate(listing: Listing, name: str, bare: Callable[[], None], address: str) -> None:
    """Compare a ledger with its plain database."""
    ledger = open_ledger(address, OPENING)
    plain, ours, ratio = take_turns(bare, lambda: ask(ledger))
    part = 2 * ratio
    kept = check_target(f"{name}: changes a second", kept=part >= PART)
    listing.add_row(
        f"{name}: changes a second",
        f"{1 / plain:,.0f}",
        f"{2 / ours:,.0f}",
        f"{part:.2f}",
        f"at least {PART}",
        kept,
    )
    ledger.close()


def show_growth(listing: Listing, name: str, young: str, old: str, charges: int) -> None:
    """Compare a ledger with a long history with one that has a short history."""
    ledgers = [open_ledger(address, OPENING) for address in (young, old)]
    for ledger, count in zip(ledgers, (SHORT, charges), strict=True):
        lengthen(ledger, count)
    late, early, ratio = take_turns(lambda: ask(ledgers[1]), lambda: ask(ledgers[0]))
    what = f"{name}: ms a question, {SHORT:,} and {charges:,} charges"
    kept = check_target(what, kept=ratio <= SLOWER)
    listing.add_row(
        what, f"{early * 1e3:.2f}", f"{late * 1e3:.2f}", f"{ratio:.2f}", f"at most {SLOWER}", kept
    )
    for ledger in ledgers:
        ledger.close()


def run(charges: int) -> None:
    """Measure both databases and print the ratios."""
    folder = Path(tempfile.mkdtemp(prefix="confide-ledger-"))
    listing = Listing("ledger", "bare / short", "ours / long", "ratio", "promise", "kept")
    try:
        with bare_file(folder / "bare.db") as change:
            show_change_rate(listing, "SQLite", change, str(folder / "ours.db"))
        show_growth(listing, "SQLite", str(folder / "young.db"), str(folder / "old.db"), charges)
        with run_postgres(durable=True) as server:
            with bare_server(server.create()) as change:
                show_change_rate(listing, "PostgreSQL", change, server.create())
            show_growth(listing, "PostgreSQL", server.create(), server.create(), charges)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    console.print(listing)


def figures() -> Iterator[tuple[str, Callable[[], float]]]:
    """Yield the figures for `compare.py`: the seconds of a query, early and after 10,000 more."""
    with tempfile.TemporaryDirectory(prefix="confide-ledger-") as folder:
        yield from time_questions("SQLite", f"{folder}/ours.db")
    with run_postgres(durable=True) as server:
        yield from time_questions("PostgreSQL", server.create())


def time_questions(name: str, address: str) -> Iterator[tuple[str, Callable[[], float]]]:
    """Yield the figures of a ledger in one kind of database."""
    ledger = open_ledger(address, OPENING)

    def time_question() -> float:
        return float(np.median([seconds(lambda: ask(ledger), 1) for _ in range(BRIEF)]))

    yield f"{name}: a question", time_question
    lengthen(ledger, SHORT * 10)
    yield f"{name}: a question after {SHORT * 10:,} others", time_question
    ledger.close()


if __name__ == "__main__":
    run(int(sys.argv[1]) if len(sys.argv) > 1 else LONG)
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")
