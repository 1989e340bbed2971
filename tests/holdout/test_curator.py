"""A private session inside a curator pays for all of itself, first."""

import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import pandas as pd
import pytest

import confide as cf
from confide.errors import BadDeclaration, BudgetExceeded
from confide.holdout import Holdout
from confide.holdout.protocol import Progress
from confide.ledger import AnchorLost, LedgerBehind
from support.postgres import Postgres

N: Final = 1_000
HALF: Final = np.tile([0.0, 1.0], N // 2)
TERMS: Final[dict[str, Any]] = {"queries": 100, "overfits": 5, "epsilon": 1}


ASK: Final = """
import pickle
import sys
from pathlib import Path
import numpy as np
import confide as cf
holdout, answered = pickle.loads(Path(sys.argv[1]).read_bytes()), 0
try:
    while True:
        holdout.ask(np.tile([0.0, 1.0], 500), np.tile([0.0, 1.0], 500))
        answered += 1
except cf.BudgetExceeded:
    print(answered)
"""


@contextmanager
def killed_at_commit(curator: cf.Curator) -> Iterator[None]:
    """Interrupt every commit, as a kill at that point would."""

    def crash(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curator.ledger, "commit", crash)
        yield


def copy_database(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def open_curator(**more: Any) -> cf.Curator:
    table = cf.Table(
        "people",
        pd.DataFrame({"age": [30, 40, 50]}),
        unit=cf.ROW,
        columns={"age": cf.Int(0, 120)},
    )
    terms: dict[str, Any] = {"budget": cf.Budget(epsilon=2.0), "neighbours": "replace", **more}
    return cf.Curator([table], **terms)


def test_a_session_takes_its_share(entropy: object) -> None:
    """A 1-DP session costs half of a budget of 2, in addition to other queries."""
    curator = open_curator()
    holdout = Holdout(N, N, queries=100, overfits=5, epsilon=1, curator=curator)
    curator.sql("SELECT COUNT(*) AS n FROM people", epsilon=0.5)
    holdout.ask(HALF, HALF)

    assert Fraction(3, 4) == pytest.approx(curator.budget.spent.share, rel=1e-9)
    curator.ledger.verify()


@pytest.mark.parametrize("method", ["thresholdout", "gaussian"])
def test_gaussian_budgets_pay_for_sessions_too(method: str) -> None:
    """With a delta in the budget, a session is priced by its mu, not by its epsilon."""
    curator = open_curator(budget=cf.Budget(epsilon=2.0, delta=1e-6))
    more = {"overfits": 50} if method == "thresholdout" else {}
    Holdout(N, N, queries=50, sigma=0.2, method=method, curator=curator, **more)  # type: ignore[arg-type]

    assert 0 < curator.budget.spent.share < Fraction(1, 2)


def test_an_unaffordable_session_is_not_started() -> None:
    """A session that costs more than the remaining budget is refused and leaves no state behind."""
    curator = open_curator()
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            Holdout(N, N, curator=curator, queries=100, overfits=5, epsilon=3)

    assert [] == list(curator.ledger.entries())


@pytest.mark.parametrize("where", ["memory", "file", "server"])
def test_resuming_is_free(where: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Reopened with the same terms, a session resumes and is charged once, with every ledger."""
    address: str | Path | None = tmp_path / "ledger.db" if where == "file" else None
    if where == "server":
        server: Postgres = request.getfixturevalue("postgres")
        address = server.create()
    curator = open_curator(ledger=address)
    Holdout(N, N, curator=curator, **TERMS).ask(HALF, HALF)
    again = open_curator(ledger=address) if address else curator
    holdout = Holdout(N, N, curator=again, **TERMS)
    holdout.ask(HALF, HALF)

    assert 98 == holdout.left.queries
    assert Fraction(1, 2) == pytest.approx(again.budget.spent.share, rel=1e-9)
    again.ledger.verify()


def test_other_terms_and_other_files_are_refused(tmp_path: Path) -> None:
    """Other terms under the same name, a separate ledger, and bad names are refused."""
    curator = open_curator()
    Holdout(N, N, curator=curator, **TERMS)
    with pytest.raises(BadDeclaration, match="other terms"):
        Holdout(N, N, curator=curator, **{**TERMS, "queries": 99})
    with pytest.raises(BadDeclaration, match="Omit `ledger=` here"):
        Holdout(N, N, curator=curator, ledger=tmp_path / "h", **TERMS)
    for name in ("", "a\0b", "x" * 101):
        with pytest.raises(BadDeclaration, match="`name` must be"):
            Holdout(N, N, curator=curator, name=name, **TERMS)

    assert Fraction(1, 2) == pytest.approx(curator.budget.spent.share, rel=1e-9)


def test_a_pending_charge_is_resumed_after_a_crash() -> None:
    """A session killed between its charge and its start reuses the charge."""
    curator = open_curator()
    with killed_at_commit(curator), pytest.raises(KeyboardInterrupt):
        Holdout(N, N, curator=curator, **TERMS)
    holdout = Holdout(N, N, curator=curator, **TERMS)

    assert 100 == holdout.left.queries
    assert Fraction(1, 2) == pytest.approx(curator.budget.spent.share, rel=1e-9)


def test_a_pending_step_is_reused_after_a_crash() -> None:
    """A step killed before its commit returns no answer, and the next query uses it."""
    curator = open_curator()
    holdout = Holdout(N, N, curator=curator, **TERMS)
    with killed_at_commit(curator), pytest.raises(KeyboardInterrupt):
        holdout.ask(HALF, HALF)
    assert 100 == holdout.left.queries
    holdout.ask(HALF, HALF)

    assert 99 == holdout.left.queries


def test_the_slower_process_discards_its_draw() -> None:
    """If another process takes the step first, the query is answered again from the new state."""
    curator = open_curator()
    slow, fast = (Holdout(N, N, curator=curator, **TERMS) for _ in range(2))
    seen = []

    def answer(progress: Progress) -> tuple[Progress, int]:
        seen.append(progress.queries)
        if len(seen) == 1:
            fast.ask(HALF, HALF)
        return replace(progress, queries=progress.queries + 1), progress.queries

    assert 1 == slow._store.change(answer)
    assert [0, 1] == seen
    assert 98 == fast.left.queries == slow.left.queries


def test_processes_share_one_session(tmp_path: Path) -> None:
    """Copies in other processes share the session's 30 queries, and each query counts once."""
    limits = cf.Limits(day="60%", analysts={"ada": cf.Limit("50%", month="50%")})
    curator = open_curator(ledger=tmp_path / "ledger.db", limits=limits)
    holdout = Holdout(N, N, queries=30, overfits=5, epsilon=1, curator=curator)
    (tmp_path / "copy").write_bytes(pickle.dumps(holdout))
    command = [sys.executable, "-c", ASK, str(tmp_path / "copy")]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answered = [int(worker.communicate(timeout=600)[0]) for worker in workers]

    assert 30 == sum(answered)
    assert 0 == holdout.left.queries


def test_a_session_on_a_ledger_in_memory_is_never_copied() -> None:
    """Pickling a session on a ledger in memory is refused, with advice to use a file."""
    holdout = Holdout(N, N, curator=open_curator(), **TERMS)
    with pytest.raises(TypeError, match="`ledger=` and a file"):
        pickle.dumps(holdout)


def test_an_older_copy_of_the_ledger_does_not_rewind_a_session(tmp_path: Path) -> None:
    """An anchor detects a ledger restored from before the session's overfits."""
    where = {"ledger": tmp_path / "ledger.db", "anchor": tmp_path / "anchor.log"}
    curator = open_curator(**where)
    holdout = Holdout(N, N, curator=curator, **TERMS)
    copy_database(tmp_path / "ledger.db", tmp_path / "copy.db")
    while holdout.left.overfits == 5:
        holdout.ask(np.zeros(N), np.ones(N))
    curator.ledger.close()  # type: ignore[attr-defined]  # a ledger in a database has connections
    for path in tmp_path.glob("ledger.db*"):
        path.unlink()
    copy_database(tmp_path / "copy.db", tmp_path / "ledger.db")

    with pytest.raises(LedgerBehind):
        open_curator(**where)
    with pytest.raises(AnchorLost):
        open_curator(ledger=where["ledger"])


def test_a_session_is_charged_to_its_analyst() -> None:
    """The charge records the curator's analyst and purpose, and respects their limits."""
    limits = cf.Limits(
        analysts={"ada": cf.Limit(Fraction(1, 4)), "bob": cf.Limit(Fraction(3, 4))},
    )
    curator = open_curator(limits=limits)
    terms: dict[str, Any] = {"queries": 100, "overfits": 5, "epsilon": 1}
    with pytest.raises(BudgetExceeded):
        Holdout(N, N, curator=curator.as_analyst("ada"), **terms)
    Holdout(N, N, curator=curator.as_analyst("bob", purpose="models"), **terms)

    (entry,) = curator.ledger.entries()
    assert ("bob", "models") == (entry.question.analyst, entry.question.purpose)


def test_validity_alone_and_other_neighbours_are_refused() -> None:
    """A curator accepts only private sessions whose loss holds for its neighboring relation."""
    with pytest.raises(BadDeclaration, match="validity, not privacy"):
        Holdout(N, N, queries=10, overfits=2, curator=open_curator())
    with pytest.raises(BadDeclaration, match="neighbours='replace'"):
        Holdout(
            N, N, queries=10, overfits=2, epsilon=1, curator=open_curator(neighbours="add-remove")
        )


def test_exports_hide_the_noisy_threshold() -> None:
    """Each step contains its own 256 random bits, so that equal states have different hashes."""
    curator = open_curator()
    Holdout(N, N, curator=curator, **TERMS).ask(HALF, HALF)
    found = [curator.ledger.answer(entry.number) for entry in curator.ledger.entries()]
    blinds = [stored.noisy["blind"] for stored in found if stored is not None]

    assert [64, 64] == [len(blind) for blind in blinds]
    assert blinds[0] != blinds[1]
