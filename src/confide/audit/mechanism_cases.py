"""Mechanisms and holdout sessions on trial."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from confide.audit.claims import Claim, claim_of
from confide.audit.evidence import Case, sample_case
from confide.audit.projections import Outputs
from confide.errors import BudgetExceeded
from confide.holdout import Holdout
from confide.holdout.values import sensitivity
from confide.mechanisms import (
    Box,
    Exponential,
    Gaussian,
    KeySelection,
    KNorm,
    Laplace,
    PermuteAndFlip,
    Polytope,
    RandomisedResponse,
    SparseVector,
)
from confide.noise import SYSTEM, Entropy

__all__ = ["holdout_cases", "mechanism_cases"]

ALONE: Final = "the mechanism alone"
OVER: Final = 9
HIDDEN_VALUE: Final = -999

Release = Callable[[Any, int], Outputs]
"""Returns so many outputs for one input."""

Row = tuple[str, Claim, Release, Any, Any, int]
"""A subject, its claim, how it is run, both inputs, and how many draws one counts for."""


def mechanism_cases(samples: int, entropy: Entropy = SYSTEM) -> Iterator[Case]:
    """Yield a case for each mechanism; those that are drawn one by one get fewer samples."""
    for make in (_numbers, _vectors, _choices, _sessions):
        for subject, claim, release, one, other, slow in make(entropy):
            yield sample_case(
                subject,
                f"{one} and {other}",
                ALONE,
                claim=claim,
                draw=_pairing(release, one, other),
                samples=max(64, samples // slow),
            )


def _pairing(release: Release, one: Any, other: Any) -> Callable[[int], tuple[Outputs, Outputs]]:
    return lambda count: (release(one, count), release(other, count))


def _numbers(entropy: Entropy) -> Iterator[Row]:
    for steps, epsilon in ((1, 1.0), (5, 3.0)):
        laplace = Laplace(steps, epsilon)
        name = f"Laplace({steps}, {epsilon:g})"
        yield name, claim_of(laplace.loss), _filling(laplace, entropy), 0, steps, 1
    real = Laplace(0.1, 1, grid=0.1, cells=1)
    yield "Laplace on a grid", claim_of(real.loss), _filling(real, entropy), 0.15, 0.25, 1
    gaussian = Gaussian(4, mu=1)
    yield "Gaussian(4, mu=1)", claim_of(gaussian.loss), _filling(gaussian, entropy), 0, 4, 1
    exact = Gaussian(1, 2.0, 0.02)
    yield "Gaussian(1, 2, 0.02)", Claim.epsilon(2, 0.02), _filling(exact, entropy), 0, 1, 1
    told = RandomisedResponse(1, 5)
    yield "RandomisedResponse(1, 5)", claim_of(told.loss), _filling(told, entropy), 0, 1, 1


def _vectors(entropy: Entropy) -> Iterator[Row]:
    histogram = Laplace(2, 1)
    tiled = _tiling(histogram, entropy)
    yield "Laplace, a unit replaced", claim_of(histogram.loss), tiled, (1, 0), (0, 1), 1
    for name, body, move in (
        ("KNorm(Box)", Box([1, 3]), (1, -3)),
        ("KNorm(Polytope)", Polytope([[2, 1], [1, 2], [1, -1]]), (1, -1)),
    ):
        noise = KNorm(body, 1)
        yield name, claim_of(noise.loss), _tiling(noise, entropy), (0, 0), move, 1
    keys = KeySelection(2, 1, 0.02)

    def name_keys(units: int, count: int) -> Outputs:
        if not units:
            return np.zeros((count, 2))
        return keys.release(np.full((count, 2), units), entropy=entropy)[1].reshape(-1, 2)

    yield "KeySelection, keys of one unit", claim_of(keys.loss), name_keys, 0, 1, 1
    near = keys.threshold
    yield "KeySelection, shared keys", claim_of(keys.loss), name_keys, near, near + 1, 1


def _choices(entropy: Entropy) -> Iterator[Row]:
    for kind in (Exponential, PermuteAndFlip):
        chooser = kind(1, 3)

        def choose(scores: Sequence[int], count: int, by: Any = chooser) -> Outputs:
            return np.array([by.choose(list(scores), entropy=entropy) for _ in range(count)])

        yield f"{kind.__name__}(1, 3)", claim_of(chooser.loss), choose, (0, 0, 0), (-1, 1, 1), 8
    ranked = Exponential(1, 3)

    def middle(data: Sequence[int], count: int) -> Outputs:
        breaks = [0, *sorted(data), 4]
        scores = [-abs(2 * rank - len(data)) // 2 for rank in range(len(data) + 1)]
        return np.array(
            [ranked.choose_interval(breaks, scores, entropy=entropy) for _ in range(count)]
        )

    yield "Exponential, a median", claim_of(ranked.loss), middle, (1, 1, 3, 3), (1, 1, 1, 3), 8


def _sessions(entropy: Entropy) -> Iterator[Row]:
    def ask(values: Sequence[int], count: int) -> Outputs:
        rows = np.full((count, len(values)), OVER)
        for row in rows:
            session = SparseVector(0, 1, epsilon=4, entropy=entropy)
            with suppress(BudgetExceeded):
                for place, value in enumerate(values):
                    row[place] = session.ask(value)
        return rows

    claim = Claim.epsilon(4)
    yield "SparseVector, 1 above", claim, ask, (0, 0, 0, 1), (1, 1, 1, 0), 8

    def ask_values(values: Sequence[int], count: int) -> Outputs:
        rows = np.full((count, len(values)), HIDDEN_VALUE)
        for row in rows:
            session = SparseVector(0, 2, epsilon=4, answers=0.5, entropy=entropy)
            with suppress(BudgetExceeded):
                for place, value in enumerate(values):
                    told = session.ask_value(value)
                    row[place] = HIDDEN_VALUE if told is None else told
        return rows

    yield "SparseVector with values", claim, ask_values, (0, 0, 0), (1, 1, 1), 8


def _filling(mechanism: Any, entropy: Entropy) -> Release:
    return lambda x, count: np.asarray(mechanism.release(np.full(count, x), entropy=entropy))


def _tiling(mechanism: Any, entropy: Entropy) -> Release:
    return lambda x, count: np.asarray(mechanism.release(np.tile(x, (count, 1)), entropy=entropy))


WAY: Final = "whole sessions"
PAIR: Final = "one row of the holdout"
ROWS: Final = 40
SLOW: Final = 32
"""A session counts for so many draws of a mechanism alone."""

HIDDEN_ANSWER: Final = -1.0
ROW: Final = Fraction(1, ROWS)
LINE: Final = 11 * ROW
FAR: Final = 20 * ROW

Means = tuple[tuple[Fraction, Fraction], ...]
"""The mean of each query without the row and with it, which are a row apart."""

STANDING: Final[Means] = ((LINE - 2 * ROW, LINE - ROW),) * 3 + ((LINE + ROW, LINE),)
"""Three queries near the threshold that likelier stand without the row, and one that then does not.

So most of what a round and its answer may lose is lost in many sessions. The last mean is where two
cells of answers meet, so that they tell the sides apart as well as the noise does.
"""

ANSWERED: Final[Means] = ((FAR - ROW, FAR),) * 3
"""Queries far above the threshold: as many means are told as the session allows."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is on trial, how a session of it is opened, and what is asked."""

    name: str
    open: Callable[[], Holdout]
    means: Means

    def draw(self, count: int) -> tuple[Outputs, Outputs]:
        """Return what so many sessions tell on either side."""
        return self._run(_fill(self.means, 0), count), self._run(_fill(self.means, 1), count)

    def _run(self, matrix: NDArray[np.float64], count: int) -> Outputs:
        """Return of each query the value, and whether it was overfit."""
        told = np.full((count, 2, len(self.means)), HIDDEN_ANSWER)
        for row in told:
            session, place = self.open(), 0
            while place < len(self.means):
                try:
                    answers = session.ask_many(
                        matrix[:, place:], guesses=np.zeros(len(self.means) - place)
                    )
                except BudgetExceeded:
                    break
                last = place + len(answers.values)
                row[:, place:last] = answers.values, answers.overfit
                place = last
        return told.reshape(count, -1)


def holdout_cases(samples: int) -> Iterator[Case]:
    """Yield a case for each method that promises privacy."""
    for subject in SUBJECTS:
        loss = subject.open().loss
        assert loss is not None, "these methods promise privacy"  # noqa: S101  # for the type alone
        yield sample_case(
            subject.name,
            PAIR,
            WAY,
            claim=claim_of(loss),
            draw=subject.draw,
            samples=max(32, samples // SLOW),
        )


def _fill(means: Means, side: int) -> NDArray[np.float64]:
    """Return a matrix with the means of one side; both matrices differ in the first row alone."""
    others = np.array([int(min(pair) * ROWS) for pair in means])
    first = np.array([pair[side] == max(pair) for pair in means])
    return np.vstack([first, np.arange(1, ROWS)[:, None] <= others]).astype(np.float64)


def _open_thresholdout(overfits: int) -> Holdout:
    return Holdout(
        ROWS,
        ROWS,
        method="thresholdout",
        queries=16,
        overfits=overfits,
        threshold=LINE,
        epsilon=2,
    )


def _open_gaussian() -> Holdout:
    return Holdout(None, ROWS, method="gaussian", queries=2, sigma=sensitivity(ROWS))


SUBJECTS: Final = (
    _Subject("Holdout, thresholdout, 1 overfit", lambda: _open_thresholdout(1), STANDING),
    _Subject("Holdout, thresholdout, 2 overfits", lambda: _open_thresholdout(2), ANSWERED),
    _Subject("Holdout, gaussian", _open_gaussian, ANSWERED),
)
