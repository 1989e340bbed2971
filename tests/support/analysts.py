"""Analysts who learn a holdout's rows from its answers, on data where every true value is 1/2.

Labels are fair coins, so a prediction for a row is correct with probability 1/2. A query is
therefore represented by the rows that it gets right: a random bit per row. An analyst who combines
queries combines these bits. Any answer far from 1/2 is overfitting.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from confide.errors import BudgetExceeded
from confide.holdout import Holdout, HoldoutAnswer, HoldoutAnswers
from confide.holdout.protocol import MAX_MEAN_ERROR

__all__ = [
    "ANALYSTS",
    "Noisy",
    "Report",
    "average_answers",
    "average_error",
    "boost_votes",
    "choose_features",
    "climb_by_flips",
    "feature_error",
    "poison_training",
    "save_the_last",
    "search_until_good",
    "sign_votes",
    "vote_error",
]

Bits = NDArray[np.bool_]
Generator = np.random.Generator


@dataclass
class Report:
    """The output of a session: each value and interval, and the last answer."""

    values: list[float] = field(default_factory=list)
    is_covered: bool = True
    """Whether every interval covers the true value."""
    last: float = 0.5

    @property
    def worst(self) -> float:
        """The largest error of any answer."""
        return max((abs(value - 0.5) for value in self.values), default=0.0)

    def note(self, answer: Any) -> float:
        """Record an answer and return its value."""
        self.values.append(answer.value)
        bracket = answer.bracket
        self.is_covered &= bool(holds_half(bracket.low, bracket.high, bracket.rows, bracket.nats))
        self.last = answer.value
        return float(answer.value)

    def note_all(self, answers: HoldoutAnswers) -> None:
        """Record answers like `note`, all at once."""
        if not len(answers):
            return
        told = answers.outcomes
        low, high = told.low - MAX_MEAN_ERROR, told.high + MAX_MEAN_ERROR
        assert answers[-1].bracket.low == low[-1]
        assert answers[-1].bracket.high == high[-1]
        self.values += answers.values.tolist()
        self.is_covered &= bool(holds_half(low, high, told.rows, told.nats).all())
        self.last = float(answers.values[-1])


def holds_half(low: Any, high: Any, rows: int, nats: Any) -> Any:
    """Return whether intervals contain 1/2, without computing their ends."""
    nearest = np.minimum(np.maximum(0.5, low), high)
    divergence = special.rel_entr(nearest, 0.5) + special.rel_entr(1.0 - nearest, 0.5)
    return rows * divergence <= nats


def vote_error(n: int, k: int, *, kept_half: bool = False) -> float:
    """Return the error of a naive holdout on a vote over k random queries.

    Why: a query's mean is 1/2 + Z / (2 sqrt(n)), so flipping it to its better side makes each row
    correct with probability 1/2 + E|Z| / (2 sqrt(n)); a majority of k adds up k such advantages.
    Keeping only the better half leaves half as many votes.
    """
    votes = k / 2 if kept_half else k
    return float(special.ndtr(math.sqrt(2 * votes / (math.pi * n)))) - 0.5


def draw_bits(rng: Generator, k: int, n: int) -> Bits:
    """Return k random queries on n rows."""
    return np.unpackbits(rng.integers(0, 256, (k, (n + 7) // 8), dtype=np.uint8), axis=1)[
        :, :n
    ].astype(np.bool_)


def ask_all(holdout: Holdout, train: Bits, held: Bits, report: Report) -> NDArray[np.float64]:
    """Ask all queries at once; return the released values, fewer if the session ended."""
    answers = holdout.ask_many(train.T, held.T)
    report.note_all(answers)
    return answers.values


def vote(bits: Bits, flips: Bits) -> Bits:
    """Return the majority of queries, each flipped or not; an odd number rules out ties."""
    size = len(bits) - 1 + len(bits) % 2
    return np.asarray((bits[:size] ^ flips[:size, None]).sum(axis=0) * 2 > size)


def sign_votes(holdout: Holdout, rng: Generator, n: int, k: int) -> Report:
    """Flip each of k random queries to its answer's better side, and ask for the majority."""
    report = Report()
    train, held = draw_bits(rng, k, n), draw_bits(rng, k, n)
    told = ask_all(holdout, train, held, report)
    flips = told < 0.5
    _finish(holdout, report, vote(train[: len(told)], flips), vote(held[: len(told)], flips))
    return report


def boost_votes(holdout: Holdout, rng: Generator, n: int, k: int) -> Report:
    """Keep the queries that score better than 1/2, and ask for their majority."""
    report = Report()
    train, held = draw_bits(rng, k, n), draw_bits(rng, k, n)
    told = ask_all(holdout, train, held, report)
    kept = np.flatnonzero(told > 0.5)
    if len(kept):
        none = np.zeros(len(kept), dtype=np.bool_)
        _finish(holdout, report, vote(train[kept], none), vote(held[kept], none))
    return report


def poison_training(holdout: Holdout, rng: Generator, n: int, k: int) -> Report:
    """Vote by signs, with queries that are all wrong on the public training rows."""
    report = Report()
    held = draw_bits(rng, k, n)
    told = ask_all(holdout, np.zeros((k, n), dtype=np.bool_), held, report)
    _finish(holdout, report, np.zeros(n, dtype=np.bool_), vote(held[: len(told)], told < 0.5))
    return report


def climb_by_flips(holdout: Holdout, rng: Generator, n: int, k: int) -> Report:
    """Flip one row's prediction at a time, and keep the flip unless the score falls."""
    report = Report()
    train, held = draw_bits(rng, 1, n)[0], draw_bits(rng, 1, n)[0]
    with suppress(BudgetExceeded):
        best = report.note(holdout.ask(train, held))
        for row in range(k - 1):
            held[row] ^= True
            score = report.note(holdout.ask(train, held))
            if score < best:
                held[row] ^= True
            best = max(best, score)
    return report


def save_the_last(holdout: Holdout, rng: Generator, n: int, k: int) -> Report:
    """Spend all overfits but one on queries with a deliberately wrong guess, then vote by signs.

    The vote uses an honest guess, so a session with a limited number of overfits still answers it.
    Without such a limit, this is a vote by signs of k queries.
    """
    report = Report()
    overfits = holdout.left.overfits
    size = k if overfits is None else min(k, overfits - 1)
    if not size:
        return report
    held = draw_bits(rng, size, n)
    told = ask_all(holdout, np.zeros((size, n), dtype=np.bool_), held, report)
    _finish(holdout, report, draw_bits(rng, 1, n)[0], vote(held[: len(told)], told < 0.5))
    return report


def choose_features(holdout: Holdout, rng: Generator, n: int, k: int) -> Report:
    """Keep the features that agree on both sets, and ask how often their majority is correct.

    Features are fair coins. A feature qualifies if its training mean and its released mean are on
    the same side of 1/2, each by at least one standard deviation. The k / 20 strongest of these on
    the training rows are used.
    """
    report = Report()
    train, held = draw_bits(rng, k, n), draw_bits(rng, k, n)
    told = ask_all(holdout, train, held, report) - 0.5
    seen, unit = train[: len(told)].mean(axis=1) - 0.5, 0.5 / math.sqrt(n)
    kept = np.flatnonzero((seen * told > 0) & (np.abs(seen) > unit) & (np.abs(told) > unit))
    best = kept[np.argsort(-np.abs(seen[kept]))][: k // 20]
    if len(best):
        flips = seen[best] < 0
        _finish(holdout, report, vote(train[best], flips), vote(held[best], flips))
    return report


def feature_error(n: int, taken: int) -> float:
    """Return the error of a naive holdout on the majority of chosen features.

    Why: a qualifying feature is E(Z | Z > 1) standard deviations off on the holdout, independently
    of the training rows; a majority adds up as many such advantages.
    """
    mean = math.exp(-0.5) / math.sqrt(2 * math.pi) / float(special.ndtr(-1.0))
    return float(special.ndtr(mean * math.sqrt(taken / n))) - 0.5


def search_until_good(
    holdout: Holdout, rng: Generator, n: int, k: int, good: float = 0.53
) -> Report:
    """Try random queries until one scores well, then stop."""
    report = Report()
    train, held = draw_bits(rng, k, n), draw_bits(rng, k, n)
    with suppress(BudgetExceeded):
        for place in range(k):
            if report.note(holdout.ask(train[place], held[place])) >= good:
                break
    return report


def average_answers(holdout: Holdout, rng: Generator, n: int, k: int, times: int = 5) -> Report:
    """Ask each query several times, average its answers, and vote by the signs of the averages."""
    report = Report()
    size = k // times
    train, held = draw_bits(rng, size, n), draw_bits(rng, size, n)
    again = np.repeat(np.arange(size), times)
    told = ask_all(holdout, train[again], held[again], report)
    whole = len(told) // times
    flips = told[: whole * times].reshape(whole, times).mean(axis=1) < 0.5
    if whole:
        _finish(holdout, report, vote(train[:whole], flips), vote(held[:whole], flips))
    return report


def average_error(n: int, size: int, times: int, sigma: float) -> float:
    """Return the error of a vote over ``size`` averaged queries, with fresh noise on each answer.

    Why: an average has noise of standard deviation sigma / sqrt(times); how often its sign agrees
    with that of the mean, which deviates by 1 / (2 sqrt(n)), follows from their correlation.
    """
    spread, noise = 0.5 / math.sqrt(n), sigma / math.sqrt(times)
    leaning = math.sqrt(2 * size / (math.pi * n)) * spread / math.hypot(spread, noise)
    return float(special.ndtr(leaning)) - 0.5


class Noisy:
    """A naive holdout that adds fresh normal noise to every answer, without accounting."""

    def __init__(self, holdout: Holdout, rng: Generator, sigma: float) -> None:
        self._holdout, self._rng, self._sigma = holdout, rng, sigma

    def ask(self, *query: Any) -> HoldoutAnswer:
        """Return one noisy answer."""
        answer = self._holdout.ask(*query)
        return replace(answer, value=answer.value + self._rng.normal(0, self._sigma))

    def ask_many(self, *matrices: Any) -> HoldoutAnswers:
        """Return noisy answers."""
        answers = self._holdout.ask_many(*matrices)
        noise = self._rng.normal(0, self._sigma, len(answers))
        return replace(answers, values=answers.values + noise)


def _finish(holdout: Holdout, report: Report, train: Bits, held: Bits) -> None:
    with suppress(BudgetExceeded):
        report.note(holdout.ask(train, held))


ANALYSTS: dict[str, Callable[[Holdout, Generator, int, int], Report]] = {
    "sign votes": sign_votes,
    "boosted votes": boost_votes,
    "poisoned training rows": poison_training,
    "climbing by flips": climb_by_flips,
    "search until good": search_until_good,
    "averaged answers": average_answers,
    "chosen features": choose_features,
    "all overfits but one": save_the_last,
}
