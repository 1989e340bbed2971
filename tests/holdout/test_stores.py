"""Sessions outlive their process, can be shared by several processes, and are never copied."""

import copy
import os
import pickle
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from confide.errors import BadDeclaration, Fault
from confide.holdout import Holdout
from confide.holdout.protocol import Progress
from confide.holdout.stores import FileStore, MemoryStore

N = 500
HALF = np.tile([0.0, 1.0], N // 2)


def open_holdout(path: Path, **more: object) -> Holdout:
    terms = {"queries": 40, "overfits": 5, "threshold": 0.2, **more}
    return Holdout(N, N, ledger=path, **terms)  # type: ignore[arg-type]


def test_a_session_outlives_its_process(tmp_path: Path) -> None:
    """Reopened with the same terms, a session resumes with its remaining queries and overfits."""
    path = tmp_path / "holdout.db"
    first = open_holdout(path)
    first.ask(HALF, HALF)
    first.ask(np.zeros(N), HALF)
    again = open_holdout(path)

    assert (38, 4) == (again.left.queries, again.left.overfits)


@pytest.mark.parametrize("method", ["thresholdout", "guess-and-check", "ladder"])
def test_every_kind_of_state_survives(method: str, tmp_path: Path) -> None:
    """Noisy thresholds, code lengths and levels are all restored."""
    path = tmp_path / "holdout.db"
    more: dict[str, object] = {"method": method}
    more |= {"sigma": 0.001} if method == "thresholdout" else {"overfits": None}
    more |= {"queries": None} if method == "guess-and-check" else {}
    more |= {"threshold": None} if method == "ladder" else {}
    first = open_holdout(path, **more)
    first.ask(np.zeros(N), np.full(N, 0.7))
    again = open_holdout(path, **more)

    assert first._store.read() == again._store.read()
    assert first._store.read() != Progress()


def test_other_terms_are_another_session(tmp_path: Path) -> None:
    """The same name with other terms is refused; another name starts a new session."""
    path = tmp_path / "holdout.db"
    open_holdout(path).ask(HALF, HALF)
    with pytest.raises(BadDeclaration, match="other terms"):
        open_holdout(path, queries=41)

    assert 41 == open_holdout(path, queries=41, name="second").left.queries


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    """Only its owner may read the file, because it can contain a noisy threshold."""
    path = tmp_path / "holdout.db"
    open_holdout(path, sigma=0.01)

    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    with pytest.raises(BadDeclaration, match="folder"):
        open_holdout(tmp_path / "nowhere" / "holdout.db")


def fail(_: Progress) -> tuple[Progress, None]:
    raise ZeroDivisionError


def test_an_error_inside_a_change_changes_nothing(tmp_path: Path) -> None:
    """After an error during a change, the state is unchanged and the lock is released."""
    for store in (MemoryStore(), FileStore(tmp_path / "holdout.db", "one")):
        store.open("{}", Progress(queries=3))
        with suppress(ZeroDivisionError):
            store.change(fail)

        assert 3 == store.change(lambda progress: (progress, progress.queries))


def test_a_file_that_is_no_session_is_a_fault(tmp_path: Path) -> None:
    """A file that SQLite cannot read or create raises a Fault, on opening and later."""
    path = tmp_path / "holdout.db"
    session = open_holdout(path)
    path.write_bytes(b"no database" * 100)
    for use in (lambda: open_holdout(path), lambda: session.ask(HALF, HALF), lambda: session.left):
        with pytest.raises(Fault, match=r"`holdout\.db` cannot be used"):
            use()
    with pytest.raises(Fault, match="cannot be used"):
        open_holdout(tmp_path)


ASK: Final = """
import sys
import numpy as np
import confide as cf
half = np.tile([0.0, 1.0], 250)
holdout = cf.Holdout(500, 500, ledger=sys.argv[1], queries=40, overfits=5, threshold=0.2)
answered = 0
try:
    while True:
        holdout.ask(half, half)
        answered += 1
except cf.BudgetExceeded:
    print(answered)
"""


def test_processes_share_one_budget(tmp_path: Path) -> None:
    """Three concurrent processes together get exactly as many answers as the session allows."""
    path = tmp_path / "holdout.db"
    open_holdout(path)
    command = [sys.executable, "-c", ASK, str(path)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answered = [int(worker.communicate(timeout=600)[0]) for worker in workers]

    assert 40 == sum(answered)
    assert 0 == open_holdout(path).left.queries


def test_a_session_in_memory_is_never_copied() -> None:
    """Pickling a session or deep-copying its state is refused; a shallow copy shares the state."""
    holdout = Holdout(N, N, queries=5, overfits=1)
    copy.copy(holdout).ask(HALF, HALF)
    assert 4 == holdout.left.queries
    for work in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="`ledger=` and a file"):
            work(holdout)


def test_copies_of_a_session_in_a_file_share_it(tmp_path: Path) -> None:
    """A pickled copy shares the session's queries."""
    holdout = open_holdout(tmp_path / "holdout.db")
    twin = pickle.loads(pickle.dumps(holdout))
    twin.ask(HALF, HALF)
    holdout.ask(HALF, HALF)

    assert 38 == holdout.left.queries == twin.left.queries


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_session_in_memory_refuses_to_answer() -> None:
    """In a forked child, a session in memory raises a Fault."""
    holdout = Holdout(N, N, queries=5, overfits=1)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            holdout.ask(HALF, HALF)
            os.write(writing, b"answered")
        except Fault:
            os.write(writing, b"fault")
        finally:
            os._exit(0)
    os.waitpid(child, 0)

    assert b"fault" == os.read(reading, 100)
    os.close(reading)
    os.close(writing)
