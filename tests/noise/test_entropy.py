"""Randomness comes from the operating system, and nobody sees the same words twice."""

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
from confide.noise.entropy import DIRECT_WORDS
from support.laws import ALPHA, binomial_p
from support.tree import ROOT

FORKS = 200
SIZES = (2, DIRECT_WORDS + 2)
"""One size for each path: straight from the system, and by way of ChaCha20."""

# Later versions of Python warn of forks beside threads; the fork is what is tested here.
forks = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def draw_words(*_: object) -> list[int]:
    """Return words of both paths."""
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
    """A right source repeats a 64-bit word among 20,000 with probability below 2e-11."""
    words = list(chain.from_iterable(draws))

    assert len(draws) * sum(SIZES) == len(words)
    assert len(words) == len(set(words))


@forks
def test_forks_share_nothing() -> None:
    """200 forked children draw no word that their parent or another child draws.

    Their parent is a process of its own: to fork one that has run many tests takes long.
    """
    known = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    drawn = subprocess.run(
        [sys.executable, __file__], capture_output=True, check=True, env=known
    ).stdout
    words = np.frombuffer(drawn, dtype=np.uint64).reshape(FORKS + 2, sum(SIZES))

    assert_all_different(words.tolist())


@forks
def test_pools_of_processes_share_nothing() -> None:
    """Workers of multiprocessing draw no word twice, nor one of their parent's."""
    before = draw_words()
    with multiprocessing.get_context("fork").Pool(4) as pool:
        children = pool.map(draw_words, range(FORKS), chunksize=1)

    assert_all_different([before, *children, draw_words()])


def test_threads_share_nothing() -> None:
    """Eight threads that draw at once from one object never see the same word."""
    with ThreadPoolExecutor(8) as threads:
        assert_all_different(list(threads.map(draw_words, range(FORKS))))


def test_no_state_is_kept() -> None:
    """The source has no attribute to copy, and a pickled copy goes its own way."""
    copy = pickle.loads(pickle.dumps(SYSTEM))

    assert () == SystemEntropy.__slots__
    assert not hasattr(SYSTEM, "__dict__")
    assert_all_different([draw_words(), [w for size in SIZES for w in copy.words(size).tolist()]])


def test_long_arrays_are_chacha20(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a key of zeros from the system, words are the published keystream of that key."""
    asked: list[int] = []

    def zeros(size: int) -> bytes:
        asked.append(size)
        return bytes(size)

    monkeypatch.setattr(os, "urandom", zeros)
    words = SYSTEM.words(DIRECT_WORDS + 1)

    assert [32] == asked
    assert "76b8e0ada0f13d90405d6ae55386bd28" == words.tobytes()[:16].hex()


@pytest.mark.parametrize("count", [0, 1, DIRECT_WORDS, DIRECT_WORDS + 1, 10_000])
def test_sizes(count: int) -> None:
    """As many words come as were asked for, on both paths and at their border."""
    words = SYSTEM.words(count)

    assert (count,) == words.shape
    assert np.uint64 == words.dtype


@pytest.mark.statistical
@pytest.mark.parametrize("calls", [1, 1_000])
def test_every_bit_is_fair(calls: int) -> None:
    """Each of the 64 bits is set half the time (rejected with probability 64 ALPHA at most)."""
    count = 64_000 // calls
    words = np.concatenate([SYSTEM.words(count) for _ in range(calls)])
    for bit in range(64):
        ones = int(np.count_nonzero(words >> np.uint64(bit) & np.uint64(1)))

        assert binomial_p(ones, len(words), 0.5) > ALPHA


if __name__ == "__main__":
    first = draw_words()
    many = [first, *(draw_in_fork() for _ in range(FORKS)), draw_words()]
    sys.stdout.buffer.write(np.array(many, dtype=np.uint64).tobytes())
