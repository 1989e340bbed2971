"""Sparse-vector sessions have the stated distribution and exact claim, and cannot be copied."""

import copy
import math
import os
import pickle
import signal
import threading
import time
from contextlib import suppress
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from confide.errors import BadDeclaration, BudgetExceeded
from confide.exact import Number
from confide.loss import PureLoss
from confide.mechanisms import SparseVector
from support.entropy import SeededEntropy
from support.laws import ALPHA, binomial_p, chi_square_p

REACH = 600
Doubles = NDArray[np.float64]


def geometric(scale: Fraction) -> Doubles:
    """Return P(Z = z) for z from -REACH to REACH."""
    z = np.abs(np.arange(-REACH, REACH + 1))
    return np.asarray(math.tanh(1 / (2 * float(scale))) * np.exp(-z / float(scale)))


def probability_above(session: SparseVector, value: int) -> Doubles:
    """Return P(value + V >= threshold + T) for each T from -REACH to REACH."""
    b = float(session._query_noise.exact_scale)
    need = session.threshold + np.arange(-REACH, REACH + 1) - value
    tail = np.exp(-np.abs(need) / b) / (1 + math.exp(-1 / b))
    return np.asarray(np.where(need > 0, tail, 1 - tail * math.exp(-1 / b)))


def pattern_probability(session: SparseVector, values: tuple[int, ...], answers: str) -> float:
    """Return the exact probability of a pattern such as "001", summed over threshold noise."""
    weights = geometric(session._threshold_noise.exact_scale)
    for value, answer in zip(values, answers, strict=True):
        above = probability_above(session, value)
        weights = weights * (above if answer == "1" else 1 - above)
    return float(weights.sum())


def patterns(length: int, most: int) -> list[str]:
    """Return the complete answers of a session, which ends with its last allowed "above"."""
    every = ("".join(bits) for bits in product("01", repeat=length))
    cut = {
        text
        if text.count("1") < most
        else text[: [i for i, c in enumerate(text) if c == "1"][most - 1] + 1]
        for text in every
    }
    return sorted(cut)


def worst_ratio(session: SparseVector, one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """Return the greatest log-ratio over all possible answers of a session."""
    return max(
        abs(
            math.log(pattern_probability(session, one[: len(text)], text))
            - math.log(pattern_probability(session, other[: len(text)], text))
        )
        for text in patterns(len(one), session.above)
    )


def test_all_answers_add_up() -> None:
    """The probabilities of all complete sessions sum to one."""
    session = SparseVector(3, above=2, epsilon=1)
    total = sum(pattern_probability(session, (1, 5, 3, 0)[: len(p)], p) for p in patterns(4, 2))

    assert total == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2)])
def test_epsilon_holds_for_all_short_sessions(most: int, monotone: bool, epsilon: Fraction) -> None:
    """Over all neighboring values of four queries, no log-ratio of a session exceeds epsilon.

    Monotone values change in one direction, up or down.
    """
    session = SparseVector(0, above=most, epsilon=epsilon, monotone=monotone)
    allowed = [(0, 1), (0, -1)] if monotone else [(-1, 1)]
    moves = {move for pair in allowed for move in product(pair, repeat=4)}
    worst = max(
        worst_ratio(session, start, tuple(v + m for v, m in zip(start, move, strict=True)))
        for start in [(0, 0, 0, 0), (0, 3, -2, 5), (-9, 9, -9, 9)]
        for move in moves
    )

    assert 0.5 * epsilon < worst <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("most", [1, 3])
def test_epsilon_is_nearly_attained_by_long_sessions(most: int, monotone: bool) -> None:
    """A thousand queries below and then B above cost at least 97% of epsilon, and never more.

    Monotone values are as tight if all values below increase and those above stay. Without the
    flag, the same noise covers changes in both directions only at up to twice the loss.
    """
    session = SparseVector(0, above=most, epsilon=1, monotone=monotone)
    weights = geometric(session._threshold_noise.exact_scale)
    fall = 0 if monotone else -1

    def chance(low: int, high: int) -> float:
        below, above = 1 - probability_above(session, low), probability_above(session, high)
        return float((weights * below**1000 * above**most).sum())

    ratio = math.log(chance(0, -150) / chance(1, -150 + fall))
    crossed = math.log(chance(0, -150) / chance(1, -151))

    assert 0.97 < ratio <= 1 + 1e-9
    assert (crossed > 1.2) == monotone


@pytest.mark.parametrize("most", [1, 4, 50])
@pytest.mark.parametrize("monotone", [False, True])
def test_the_split_is_the_best(most: int, monotone: bool) -> None:
    """The two parts add up to epsilon, and no other split has a smaller variance."""
    session = SparseVector(0, above=most, epsilon=1, monotone=monotone)
    factor = most * (1 if monotone else 2)
    first = 1 / session._threshold_noise.exact_scale
    second = factor / session._query_noise.exact_scale

    def variance(part: float) -> float:
        return (1 / part) ** 2 + (factor / (1 - part)) ** 2

    assert 1 == first + second
    assert variance(float(first)) <= min(variance(k / 1000) for k in range(1, 1000)) * (1 + 1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("value", [4, 7, 11])
def test_one_comparison_follows_the_law(value: int, entropy: SeededEntropy) -> None:
    """First answers of new sessions fit the exact sum and reject a value that is off by 2."""
    sessions = [SparseVector(7, above=2, epsilon=2, entropy=entropy) for _ in range(8_000)]
    above = sum(session.ask(value) for session in sessions)

    def chance(at: int) -> float:
        return pattern_probability(sessions[0], (at,), "1")

    assert binomial_p(above, len(sessions), chance(value)) > ALPHA
    assert binomial_p(above, len(sessions), chance(value + 2)) < ALPHA
    assert binomial_p(above, len(sessions), chance(value - 2)) < ALPHA


@pytest.mark.statistical
def test_whole_sessions_follow_the_law(entropy: SeededEntropy) -> None:
    """Four answers together fit one noisy threshold and reject a new one per query."""
    values, seen = (0, 2, 0, 2), []
    sessions = [SparseVector(1, above=2, epsilon=6, entropy=entropy) for _ in range(8_000)]
    for session in sessions:
        text = ""
        with suppress(BudgetExceeded):
            for value in values:
                text += "01"[session.ask(value)]
        seen.append(text)
    names = patterns(4, 2)
    shared = [pattern_probability(sessions[0], values[: len(p)], p) for p in names]
    fresh = [
        math.prod(
            pattern_probability(sessions[0], (v,), a) for v, a in zip(values, p, strict=False)
        )
        for p in names
    ]
    draws = [names.index(text) for text in seen]

    assert chi_square_p(draws, shared) > ALPHA
    assert chi_square_p(draws, fresh) < ALPHA


def test_a_session_stops_after_its_last_above() -> None:
    """After B answers "above" every query is refused, and "below" never counts."""
    session = SparseVector(0, above=3, epsilon=100)

    assert [False] * 50 + [True] * 3 == [session.ask(v) for v in [-1000] * 50 + [1000] * 3]
    assert 0 == session.left
    for value in (-1000, 1000):
        with pytest.raises(BudgetExceeded, match="opened for 3 answers"):
            session.ask(value)


@pytest.mark.statistical
def test_answers_have_noise_of_their_own(entropy: SeededEntropy) -> None:
    """A returned value has Laplace noise of scale B s / e3, independent of the comparison's."""
    answers: list[int] = []
    for _ in range(200):
        session = SparseVector(0, above=50, epsilon=100, answers=0.25, entropy=entropy)
        answers += [answer for _ in range(50) if (answer := session.ask_value(500)) is not None]
    law = {z - REACH + 500: float(p) for z, p in enumerate(geometric(Fraction(2)))}
    wrong = {z - REACH + 500: float(p) for z, p in enumerate(geometric(Fraction(5, 2)))}

    assert 10_000 == len(answers)
    assert chi_square_p(answers, law) > ALPHA
    assert chi_square_p(answers, wrong) < ALPHA


def test_answers_are_paid_from_epsilon() -> None:
    """The three parts add up to epsilon, and a value below the threshold is not returned."""
    session = SparseVector(0, above=2, sensitivity=3, epsilon=1, answers="1/4")
    assert session._answer_noise is not None
    parts = [
        3 / session._threshold_noise.exact_scale,
        12 / session._query_noise.exact_scale,
        6 / session._answer_noise.exact_scale,
    ]

    assert 1 == sum(parts)
    assert Fraction(1, 4) == parts[2]
    assert session.ask_value(-(10**6)) is None
    assert PureLoss(Fraction(1)) == session.loss
    with pytest.raises(BadDeclaration, match="answers="):
        SparseVector(0).ask_value(1)


def test_copies_are_refused() -> None:
    """A session can be neither copied nor pickled; both copies would answer for one loss."""
    session = SparseVector(0)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            attempt(session)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_cannot_ask() -> None:
    """A forked process cannot use its parent's session, even while the parent holds the lock."""
    session = SparseVector(0)
    with session._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(300)  # a child that waits for the lock dies, and the test fails
            try:
                session.ask(1)
            except Exception as error:  # noqa: BLE001 - the child must not run pytest's own exit
                os._exit(7 if type(error).__name__ == "Fault" else 1)
            os._exit(0)
    _, status = os.waitpid(child, 0)

    assert 7 == os.waitstatus_to_exitcode(status)
    assert session.left == 1


class LingeringLock:
    """A lock with a slow release, so that work left outside it is overtaken by other threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        time.sleep(0.001)


def test_threads_share_one_budget() -> None:
    """Any number of concurrent threads gets at most B answers "above"."""
    session = SparseVector(0, above=40, epsilon=10**4)
    session._lock = LingeringLock()  # type: ignore[assignment] # it locks, but is not a Lock
    answers: list[bool] = []

    def ask_on() -> None:
        with suppress(BudgetExceeded):
            while len(answers) < 1_000:
                answers.append(session.ask(1000))

    threads = [threading.Thread(target=ask_on) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 40 == sum(answers)
    assert 0 == session.left


@pytest.mark.parametrize("epsilon", ["1/3", 1, 30])
@pytest.mark.parametrize(("most", "confidence"), [(1, 0.9), (1, 0.5), (5, 0.99)])
def test_values_outside_the_interval_are_answered_correctly(
    epsilon: Number, most: int, confidence: float
) -> None:
    """A value just outside the interval gets a wrong answer with at most the stated probability."""
    session = SparseVector(0, above=most, epsilon=epsilon)
    low, high = session.interval(confidence)

    assert pattern_probability(session, (high + 1,), "0") <= 1 - confidence
    assert pattern_probability(session, (low - 1,), "1") <= 1 - confidence
    both = np.convolve(
        geometric(session._threshold_noise.exact_scale), geometric(session._query_noise.exact_scale)
    )
    inside = float(both[2 * REACH + low : 2 * REACH + high + 1].sum())
    narrower = float(both[2 * REACH + low + 1 : 2 * REACH + high].sum()) if high else 0.0
    if high < REACH / 4:
        assert narrower < confidence <= inside + 1e-12


def test_equal_scales_have_their_own_sum() -> None:
    """With B = 1 and monotone values both scales are equal, and the interval is still exact."""
    session = SparseVector(0, above=1, epsilon=1, monotone=True)
    both = np.convolve(geometric(Fraction(2)), geometric(Fraction(2)))
    _, high = session.interval(0.95)

    assert session._threshold_noise.exact_scale == session._query_noise.exact_scale == 2
    assert both[2 * REACH - high : 2 * REACH + high + 1].sum() >= 0.95
    assert both[2 * REACH - high + 1 : 2 * REACH + high].sum() < 0.95
