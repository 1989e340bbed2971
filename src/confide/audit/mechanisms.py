"""Every mechanism on trial through its public door, on neighbours at full distance."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np

from confide.audit.cases import Case, sample_case
from confide.audit.claims import Claim, claim_of
from confide.audit.views import Outputs
from confide.errors import BudgetExceeded
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

__all__ = ["mechanism_cases"]

ALONE: Final = "the mechanism alone"
OVER: Final = 9
HIDDEN: Final = -999

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
    for sensitivity, epsilon in ((1, 1.0), (5, 3.0)):
        laplace = Laplace(sensitivity, epsilon)
        name = f"Laplace({sensitivity}, {epsilon:g})"
        yield name, claim_of(laplace.loss), _filling(laplace, entropy), 0, sensitivity, 1
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
        rows = np.full((count, len(values)), HIDDEN)
        for row in rows:
            session = SparseVector(0, 2, epsilon=4, answers=0.5, entropy=entropy)
            with suppress(BudgetExceeded):
                for place, value in enumerate(values):
                    told = session.ask_value(value)
                    row[place] = HIDDEN if told is None else told
        return rows

    yield "SparseVector with values", claim, ask_values, (0, 0, 0), (1, 1, 1), 8


def _filling(mechanism: Any, entropy: Entropy) -> Release:
    return lambda x, count: np.asarray(mechanism.release(np.full(count, x), entropy=entropy))


def _tiling(mechanism: Any, entropy: Entropy) -> Release:
    return lambda x, count: np.asarray(mechanism.release(np.tile(x, (count, 1)), entropy=entropy))
