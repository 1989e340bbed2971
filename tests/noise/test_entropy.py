"""System entropy is never repeated across processes, threads, or copies."""

import multiprocessing
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np
import pytest

from confide.noise import SYSTEM, SystemEntropy
from confide.noise.entropy import MAX_DIRECT_WORDS
from support.laws import ALPHA, binomial_p
from support.tree import ROOT

FORKS = 200
SIZES = (2, MAX_DIRECT_WORDS + 2)
"""One size per path: directly from the system, and through ChaCha20."""

# Later versions of Python warn about forks in a multithreaded process; this test needs a fork.
forks = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def draw_words(*_: object) -> list[int]:
    """Return words from both paths."""
    return [word for size in SIZES for word in SYSTEM.words(size).tolist()]


def draw_in_fork() -> list[int]:
    """Return the words that a forked child draws."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, np.array(draw_words(), dtype=np.uint64).tobytes())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        received = pipe.read()
    os.waitpid(child, 0)
    words: list[int] = np.frombuffer(received, dtype=np.uint64).tolist()
    return words


def assert_all_different(draws: list[list[int]]) -> None:
    """Check for repeats; a correct source repeats a word with probability below 2e-11."""
    words = list(chain.from_iterable(draws))

    assert len(draws) * sum(SIZES) == len(words)
    assert len(words) == len(set(words))


@forks
def test_forks_share_nothing() -> None:
    """No word drawn by 200 forked children equals one of their parent or of another child.

    The parent is a separate process, because forking one that has run many tests takes long.
    """
    known = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    drawn = subprocess.run(
        [sys.executable, __file__], capture_output=True, check=True, env=known
    ).stdout
    words = np.frombuffer(drawn, dtype=np.uint64).reshape(FORKS + 2, sum(SIZES))

    assert_all_different(words.tolist())


@forks
def test_pools_of_processes_share_nothing() -> None:
    """Workers of a process pool never repeat a word of their parent or of another worker."""
    before = draw_words()
    with multiprocessing.get_context("fork").Pool(4) as pool:
        children = pool.map(draw_words, range(FORKS), chunksize=1)

    assert_all_different([before, *children, draw_words()])


def test_threads_share_nothing() -> None:
    """Eight threads that draw from one object at once never get the same word."""
    with ThreadPoolExecutor(8) as threads:
        assert_all_different(list(threads.map(draw_words, range(FORKS))))


def test_no_state_is_kept() -> None:
    """The source has no state to copy, and a pickled copy draws different words."""
    copy = pickle.loads(pickle.dumps(SYSTEM))

    assert () == SystemEntropy.__slots__
    assert not hasattr(SYSTEM, "__dict__")
    assert_all_different([draw_words(), [w for size in SIZES for w in copy.words(size).tolist()]])


def test_long_arrays_are_chacha20(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a key of zeros, the words are the published ChaCha20 keystream of that key."""
    asked: list[int] = []

    def zeros(size: int) -> bytes:
        asked.append(size)
        return bytes(size)

    monkeypatch.setattr(os, "urandom", zeros)
    words = SYSTEM.words(MAX_DIRECT_WORDS + 1)

    assert [32] == asked
    assert "76b8e0ada0f13d90405d6ae55386bd28" == words.tobytes()[:16].hex()


@pytest.mark.parametrize("count", [0, 1, MAX_DIRECT_WORDS, MAX_DIRECT_WORDS + 1, 10_000])
def test_sizes(count: int) -> None:
    """A draw has the requested number of 64-bit words, on both paths and at their border."""
    words = SYSTEM.words(count)

    assert (count,) == words.shape
    assert np.uint64 == words.dtype


@pytest.mark.statistical
@pytest.mark.parametrize("calls", [1, 1_000])
def test_every_bit_is_fair(calls: int) -> None:
    """Each of the 64 bits is set half the time (false rejections: at most 64 ALPHA)."""
    count = 64_000 // calls
    words = np.concatenate([SYSTEM.words(count) for _ in range(calls)])
    for bit in range(64):
        ones = int(np.count_nonzero(words >> np.uint64(bit) & np.uint64(1)))

        assert binomial_p(ones, len(words), 0.5) > ALPHA


if __name__ == "__main__":
    first = draw_words()
    many = [first, *(draw_in_fork() for _ in range(FORKS)), draw_words()]
    sys.stdout.buffer.write(np.array(many, dtype=np.uint64).tobytes())
