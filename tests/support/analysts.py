"""Analysts who learn a holdout's rows from its answers, on data where every truth is 1/2.

Labels are fair coins, so whatever a query says of a row is right with probability 1/2, and a
query can be written as which rows it gets right: a random bit for each row. An analyst who combines
queries combines these bits. Any answer far from 1/2 is overfitting.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from confide.errors import BudgetExceeded
from confide.holdout import Holdout
from confide.holdout.intervals import Bracket, bernoulli_divergence

__all__ = [
    "ANALYSTS",
    "Report",
    "average_answers",
    "boost_votes",
    "climb_by_flips",
    "poison_training",
    "search_until_good",
    "sign_votes",
    "vote_error",
]

Bits = NDArray[np.bool_]
Generator = np.random.Generator


@dataclass
class Report:
    """What a session told: each value and interval, and what it ended with."""

    values: list[float] = field(default_factory=list)
    brackets: list[Bracket] = field(default_factory=list)
    last: float = 0.5

    @property
    def worst(self) -> float:
        """The largest error of any answer."""
        return max((abs(value - 0.5) for value in self.values), default=0.0)

    @property
    def is_covered(self) -> bool:
        """Whether every interval held the truth."""
        return all(map(holds_half, self.brackets))

    def note(self, answer: Any) -> float:
        """Keep an answer and return its value."""
        self.values.append(answer.value)
        self.brackets.append(answer.bracket)
        self.last = answer.value
        return float(answer.value)


def holds_half(bracket: Bracket) -> bool:
    """Tell whether an interval holds 1/2, without working out its ends."""
    nearest = min(max(0.5, bracket.low), bracket.high)
    return bracket.rows * bernoulli_divergence(nearest, 0.5) <= bracket.nats


def vote_error(n: int, k: int, *, kept_half: bool = False) -> float:
    """Return how far a naive holdout overstates a vote over k random queries.

    Why: a query's mean is 1/2 + Z / (2 sqrt(n)), so flipping it to its better side makes each row
    right with probability 1/2 + E|Z| / (2 sqrt(n)); a majority of k adds up k such leanings.
    Keeping the better half instead has half as many votes.
    """
    votes = k / 2 if kept_half else k
    return float(special.ndtr(math.sqrt(2 * votes / (math.pi * n)))) - 0.5


def draw_bits(rng: Generator, k: int, n: int) -> Bits:
    """Return k random queries on n rows."""
    return np.unpackbits(rng.integers(0, 256, (k, (n + 7) // 8), dtype=np.uint8), axis=1)[
        :, :n
    ].astype(np.bool_)


def ask_all(holdout: Holdout, train: Bits, held: Bits, report: Report) -> NDArray[np.float64]:
    """Ask all queries at once; return the values told, fewer where the session ended."""
    answers = holdout.ask_many(train.T.astype(np.float64), held.T.astype(np.float64))
    for place in range(len(answers)):
        report.note(answers[place])
    return answers.values


def vote(bits: Bits, flips: Bits) -> Bits:
    """Return the majority of queries, each flipped or not; an odd number, so that none is a tie."""
    size = len(bits) - 1 + len(bits) % 2
    return np.asarray((bits[:size] ^ flips[:size, None]).sum(axis=0) * 2 > size)


def sign_votes(holdout: Holdout, rng: Generator, n: int, k: int) -> Report:
    """Flip each of k random queries to the side its answer favours, and ask for the majority."""
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
    """Flip one row's prediction at a time, and keep the flip when the score does not fall."""
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


def search_until_good(holdout: Holdout, rng: Generator, n: int, k: int) -> Report:
    """Try random queries until one scores 0.53, and stop there."""
    report = Report()
    train, held = draw_bits(rng, k, n), draw_bits(rng, k, n)
    with suppress(BudgetExceeded):
        for place in range(k):
            if report.note(holdout.ask(train[place], held[place])) >= 0.53:
                break
    return report


def average_answers(holdout: Holdout, rng: Generator, n: int, k: int, times: int = 5) -> Report:
    """Ask each query several times, average its answers, and vote by the signs of averages."""
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
}
