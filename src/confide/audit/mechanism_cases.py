"""Audit cases for mechanisms and holdout sessions, each on two neighboring inputs."""

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
    RandomizedResponse,
    SparseVector,
)
from confide.noise import SYSTEM, Entropy

__all__ = ["holdout_cases", "mechanism_cases"]

MECHANISM_ALONE: Final = "single mechanism"
SESSION_OVER: Final = 9
"""The output for a query after the end of a sparse-vector session."""
HIDDEN_VALUE: Final = -999
"""The output for a query whose value is not released, or that follows the end of the session."""

Release = Callable[[Any, int], Outputs]
"""A function that takes an input and a number, and returns that many outputs, one per row."""

Row = tuple[str, Claim, Release, Any, Any, int]
"""A subject, its claim, its release function, both inputs, and its slowness.

The slowness is the time for one output, in draws of a mechanism that draws in batches.
"""


def mechanism_cases(samples: int, entropy: Entropy = SYSTEM) -> Iterator[Case]:
    """Yield a case for each mechanism; those that cannot draw in batches get fewer samples."""
    for make in (_numbers, _vectors, _choices, _sessions):
        for subject, claim, release, one, other, slowness in make(entropy):
            yield sample_case(
                subject,
                f"{one} and {other}",
                MECHANISM_ALONE,
                claim=claim,
                draw=_pairing(release, one, other),
                samples=max(64, samples // slowness),
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
    coin = RandomizedResponse(1, 5)
    yield "RandomizedResponse(1, 5)", claim_of(coin.loss), _filling(coin, entropy), 0, 1, 1


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
        rows = np.full((count, len(values)), SESSION_OVER)
        for row in rows:
            session = SparseVector(0, 1, epsilon=4, entropy=entropy)
            with suppress(BudgetExceeded):
                for index, value in enumerate(values):
                    row[index] = session.ask(value)
        return rows

    claim = Claim.epsilon(4)
    yield "SparseVector, 1 above", claim, ask, (0, 0, 0, 1), (1, 1, 1, 0), 8

    def ask_values(values: Sequence[int], count: int) -> Outputs:
        rows = np.full((count, len(values)), HIDDEN_VALUE)
        for row in rows:
            session = SparseVector(0, 2, epsilon=4, answers=0.5, entropy=entropy)
            with suppress(BudgetExceeded):
                for index, value in enumerate(values):
                    answer = session.ask_value(value)
                    row[index] = HIDDEN_VALUE if answer is None else answer
        return rows

    yield "SparseVector with values", claim, ask_values, (0, 0, 0), (1, 1, 1), 8


def _filling(mechanism: Any, entropy: Entropy) -> Release:
    return lambda x, count: np.asarray(mechanism.release(np.full(count, x), entropy=entropy))


def _tiling(mechanism: Any, entropy: Entropy) -> Release:
    return lambda x, count: np.asarray(mechanism.release(np.tile(x, (count, 1)), entropy=entropy))


WHOLE_SESSIONS: Final = "complete sessions"
ONE_ROW: Final = "one row of the holdout"
ROWS: Final = 40
DRAWS_PER_SESSION: Final = 32
"""The time that a holdout session takes, in draws of a mechanism alone."""

HIDDEN_ANSWER: Final = -1.0
"""The output for a query after the end of a holdout session."""
ROW_WEIGHT: Final = Fraction(1, ROWS)
"""The most that one row changes a mean over the holdout."""
THRESHOLD: Final = 11 * ROW_WEIGHT
FAR_ABOVE: Final = 20 * ROW_WEIGHT

Means = tuple[tuple[Fraction, Fraction], ...]
"""For each query, its means on the two sides, which differ by the weight of one row."""

NEAR_THRESHOLD: Final[Means] = ((THRESHOLD - 2 * ROW_WEIGHT, THRESHOLD - ROW_WEIGHT),) * 3 + (
    (THRESHOLD + ROW_WEIGHT, THRESHOLD),
)
"""Three queries with means just below the threshold, and one with a mean at it or just above.

A guess is accepted if the noisy distance of the mean from the guess, which is 0 here, is below the
threshold. On the second side, this is less likely for the first three queries and more likely for
the last. Therefore, many sessions reach almost the largest loss of a round and its answer. The last
mean lies on the border between two cells of answers, so that the cells separate the sides as well
as the noise does.
"""

ABOVE_THRESHOLD: Final[Means] = ((FAR_ABOVE - ROW_WEIGHT, FAR_ABOVE),) * 3
"""Queries with means far above the threshold, so that each answer is an overfit."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """A subject of an audit: its name, how to open a session, and the means of its queries."""

    name: str
    open: Callable[[], Holdout]
    means: Means

    def draw(self, count: int) -> tuple[Outputs, Outputs]:
        """Return the outputs of this number of sessions on each side."""
        return self._run(_fill(self.means, 0), count), self._run(_fill(self.means, 1), count)

    def _run(self, matrix: NDArray[np.float64], count: int) -> Outputs:
        """Return one session per row: the value of each query, then whether each is an overfit.

        ``matrix`` has the values of the queries, one holdout row per row and one query per column.
        """
        outputs = np.full((count, 2, len(self.means)), HIDDEN_ANSWER)
        for row in outputs:
            session, start = self.open(), 0
            while start < len(self.means):
                try:
                    answers = session.ask_many(
                        matrix[:, start:], guesses=np.zeros(len(self.means) - start)
                    )
                except BudgetExceeded:
                    break
                end = start + len(answers.values)
                row[:, start:end] = answers.values, answers.overfit
                start = end
        return outputs.reshape(count, -1)


def holdout_cases(samples: int) -> Iterator[Case]:
    """Yield cases for the holdout methods that promise privacy."""
    for subject in SUBJECTS:
        loss = subject.open().loss
        assert loss is not None, "these methods promise privacy"  # noqa: S101  # for the type alone
        yield sample_case(
            subject.name,
            ONE_ROW,
            WHOLE_SESSIONS,
            claim=claim_of(loss),
            draw=subject.draw,
            samples=max(32, samples // DRAWS_PER_SESSION),
        )


def _fill(means: Means, side: int) -> NDArray[np.float64]:
    """Return holdout values with the means of one side, one row per holdout row.

    The matrices of the two sides differ only in the first row.
    """
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
        threshold=THRESHOLD,
        epsilon=2,
    )


def _open_gaussian() -> Holdout:
    return Holdout(None, ROWS, method="gaussian", queries=2, sigma=sensitivity(ROWS))


SUBJECTS: Final = (
    _Subject("Holdout, thresholdout, 1 overfit", lambda: _open_thresholdout(1), NEAR_THRESHOLD),
    _Subject("Holdout, thresholdout, 2 overfits", lambda: _open_thresholdout(2), ABOVE_THRESHOLD),
    _Subject("Holdout, gaussian", _open_gaussian, ABOVE_THRESHOLD),
)
