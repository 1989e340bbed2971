"""Thresholdout keeps its claim on neighboring holdouts, and wrong variants do not.

A session is four queries on ten rows. The two holdouts differ in one row, which changes every mean
by 1/10, up or down depending on the query.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from confide.audit import Claim, convict
from confide.holdout.protocol import QueryBatch
from confide.holdout.thresholdout import Thresholdout
from confide.noise import DiscreteLaplace, Entropy
from support.auditor import audit
from support.entropy import SeededEntropy
from support.laws import ALPHA

ROWS: Final = 10
SIGMA: Final = Fraction(1, 5)
LINE: Final = Fraction(1, 20)
GUESSES: Final = np.array([0.5, 0.5, 0.5, 0.5])
LEFT: Final = np.array([0.5, 0.5, 0.6, 0.6])
RIGHT: Final = np.array([0.6, 0.6, 0.5, 0.5])
Transcripts = NDArray[np.int64]


def ours(overfits: int, means: NDArray[np.float64], count: int, entropy: Entropy) -> Transcripts:
    """Return the outcomes of our sessions: -1 for an accepted guess, -2 after the end."""
    method = Thresholdout(ROWS, 0.05, 4, overfits, LINE, SIGMA)
    rows = np.full((count, len(means)), -2)
    for index in range(count):
        _, outcomes = method.answer(
            method.start(entropy), QueryBatch(means, GUESSES, ROWS), entropy
        )
        cells = np.floor(outcomes.values * method.cells).astype(int)
        rows[index, : len(cells)] = np.where(outcomes.overfit, cells, -1)
    return rows


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("overfits", [1, 2])
def test_the_claimed_loss_is_never_below_what_is_seen(
    overfits: int, entropy: SeededEntropy
) -> None:
    """The auditor's lower bound for transcripts is at most the loss, with or without delta."""
    loss = Thresholdout(ROWS, 0.05, 4, overfits, LINE, SIGMA).loss
    left, right = (ours(overfits, means, 4_000, entropy) for means in (LEFT, RIGHT))
    found = audit(left, right, delta=0.0)

    assert found <= float(loss.epsilon)
    assert audit(left, right, delta=1e-3) <= loss.epsilon_at(1e-3)


Variant = Callable[[NDArray[np.float64], int, Entropy], Transcripts]


def _noise(scale: float, shape: tuple[int, ...], entropy: Entropy) -> NDArray[np.float64]:
    """Return Laplace noise of this scale on a grid with step 1/1000."""
    law = DiscreteLaplace(Fraction(scale).limit_denominator(10**6) * 1000)
    return law.draw(math.prod(shape), entropy).reshape(shape) / 1000


def without_threshold_noise(
    means: NDArray[np.float64], count: int, entropy: Entropy
) -> Transcripts:
    """Compare with the exact threshold and charge nothing for accepted guesses."""
    gap = np.abs(means - GUESSES) + np.zeros((count, 1))
    return np.asarray(gap > float(LINE), dtype=np.int64)


def without_comparison_noise(
    means: NDArray[np.float64], count: int, entropy: Entropy
) -> Transcripts:
    """Draw the noise of the threshold once, and no noise for the comparisons."""
    line = float(LINE) + _noise(2 * float(SIGMA), (count, 1), entropy)
    gap = np.abs(means - GUESSES) + np.zeros((count, 1))
    return np.asarray(gap >= line, dtype=np.int64)


def exact_answers(means: NDArray[np.float64], count: int, entropy: Entropy) -> Transcripts:
    """Compare correctly, but answer overfit queries with their exact mean."""
    line = float(LINE) + _noise(2 * float(SIGMA), (count, 1), entropy)
    gap = np.abs(means - GUESSES) + _noise(4 * float(SIGMA), (count, 4), entropy)
    return np.where(gap >= line, np.round(means * 10), -1).astype(np.int64)


def without_a_budget(means: NDArray[np.float64], count: int, entropy: Entropy) -> Transcripts:
    """Continue after every overfit, although the loss covers only one."""
    wide = np.repeat(means, 40)
    line = float(LINE) + _noise(2 * float(SIGMA), (count, 1), entropy)
    gap = np.abs(wide - 0.5) + _noise(4 * float(SIGMA), (count, 160), entropy)
    marks = gap >= line
    return np.stack([marks[:, :80].sum(axis=1) // 8, marks[:, 80:].sum(axis=1) // 8], axis=1)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "variant",
    [
        without_threshold_noise,
        without_comparison_noise,
        exact_answers,
        without_a_budget,
    ],
)
def test_wrong_variants_are_convicted(variant: Variant, entropy: SeededEntropy) -> None:
    """The same auditor disproves the loss of one overfit for each wrong variant."""
    claimed = 2 / (float(SIGMA) * ROWS)

    def sample(size: int) -> tuple[Transcripts, Transcripts]:
        return variant(LEFT, size, entropy), variant(RIGHT, size, entropy)

    assert convict(sample, Claim.epsilon(claimed), false_alarms=ALPHA) is not None


@pytest.mark.statistical
def test_our_own_mechanism_is_acquitted(entropy: SeededEntropy) -> None:
    """Held to the loss that it claims, the same auditor finds nothing."""
    claimed = float(Thresholdout(ROWS, 0.05, 4, 1, LINE, SIGMA).loss.epsilon)
    left, right = (ours(1, means, 2_000, entropy) for means in (LEFT, RIGHT))

    assert audit(left, right) <= claimed
