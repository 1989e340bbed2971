"""Holdout sessions on trial: neighbours differ in one held-out row, rounds follow their law."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from confide.audit import Claim, Verdict, holdout_cases, weigh
from confide.audit.mechanism_cases import NEAR_THRESHOLD, ROWS, THRESHOLD
from confide.holdout import baselines, thresholdout
from confide.holdout.protocol import Progress, QueryBatch
from confide.holdout.thresholdout import Thresholdout
from confide.holdout.values import sensitivity
from confide.noise import DiscreteLaplace, Entropy, RoundedGaussian
from support.entropy import SeededEntropy
from support.laws import ALPHA, chi_square_p

SAMPLES: Final = 8_192
SESSIONS: Final = 3_072
ROUNDS: Final = 1_600
QUERIES: Final = 40
LONGEST: Final = 6
OVER: Final = -1


@pytest.mark.slow
@pytest.mark.statistical
def test_sessions_give_away_at_most_what_they_claim() -> None:
    """Sessions on two holdouts that differ in one row disprove no session's loss.

    The auditor accuses a right session with probability at most 1e-9.
    """
    findings = [case.run(ALPHA) for case in holdout_cases(SAMPLES)]

    assert [Verdict.ACQUITTED] * 3 == [finding.verdict for finding in findings]


def with_noise(**scales: Fraction) -> Callable[..., Any]:
    """Return tools whose noises have these scales, in sigmas, and are else as they should be."""
    honest = thresholdout._make_samplers

    @cache
    def make(step: Fraction, threshold: Fraction, sigma: Fraction) -> Any:
        laws: dict[str, Any] = {
            name: DiscreteLaplace(scale * sigma / step) for name, scale in scales.items()
        }
        return replace(honest(step, threshold, sigma), **laws)

    return make


THIRD: Final = {
    "round": Fraction(2, 3),
    "comparison": Fraction(4, 3),
    "answer": Fraction(1, 3),
}


def tell_sessions(side: int, count: int, entropy: Entropy) -> NDArray[np.float64]:
    """Return what sessions of one overfit tell about the auditor's queries, drawn without a door.

    A value where the guess was overfit, -1 where it stood, and -2 after the end.
    """
    method = Thresholdout(ROWS, 0.05, len(NEAR_THRESHOLD), 1, THRESHOLD, sensitivity(ROWS))
    means = np.array([float(pair[side]) for pair in NEAR_THRESHOLD])
    told = np.full((count, len(means)), -2.0)
    for row in told:
        asked = QueryBatch(means, np.zeros(len(means)), ROWS)
        _, outcomes = method.answer(method.start(entropy), asked, entropy)
        row[: len(outcomes.values)] = np.where(outcomes.overfit, outcomes.values, -1.0)
    return told


@pytest.mark.slow
@pytest.mark.statistical
def test_sessions_with_a_third_of_the_noise_are_convicted(
    entropy: SeededEntropy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third of the noise convicts a thresholdout of epsilon 2, at 99.9 %; all of it does not.

    Half of it took 12,288 sessions of each side, in one run by hand.
    """
    honest = [tell_sessions(side, SESSIONS // 8, entropy) for side in (0, 1)]
    assert not weigh(honest[0], honest[1], Claim.epsilon(2), false_alarms=ALPHA).is_disproof

    monkeypatch.setattr(thresholdout, "_make_samplers", with_noise(**THIRD))
    quieter = [tell_sessions(side, SESSIONS, entropy) for side in (0, 1)]
    assert weigh(quieter[0], quieter[1], Claim.epsilon(2)).is_disproof


@pytest.mark.statistical
def test_gaussian_sessions_with_half_the_noise_are_convicted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half the deviation convicts a Gaussian session in 2,048 sessions of each side, at 99.9 %.

    Claimed is a mu of 1.41; what is proved, in eight runs by hand, was 2.44 give or take 0.03.
    """
    monkeypatch.setattr(baselines, "_noise_law", lambda squared: RoundedGaussian(squared / 4))
    *_, gaussian = holdout_cases(8 * SAMPLES)

    assert Verdict.CONVICTED is gaussian.run(1e-3).verdict


def test_a_holdout_that_tells_its_mean_would_be_convicted() -> None:
    """The exact means of the same two holdouts are disproof of any claim up to epsilon 2."""
    left, right = np.full(128, 0.25), np.full(128, 0.25 + 1 / 40)

    assert weigh(left, right, Claim.epsilon(2)).is_disproof


def run_rounds(entropy: Entropy) -> list[int]:
    """Return how many guesses stood before the first overfit and before the second, as a number.

    Each query lies at the threshold.
    """
    method = Thresholdout(ROWS, 0.05, QUERIES, 2, THRESHOLD, sensitivity(ROWS))
    runs = []
    for _ in range(ROUNDS):
        asked = QueryBatch(np.full(QUERIES, float(THRESHOLD)), np.zeros(QUERIES), ROWS)
        _, outcomes = method.answer(method.start(entropy), asked, entropy)
        places = np.flatnonzero(outcomes.overfit)
        is_over = len(places) == 2
        runs.append(_number(int(places[0]), int(np.diff(places)[0]) - 1) if is_over else OVER)
    return runs


def _number(first: int, second: int) -> int:
    """Return a number for two runs; those beyond the longest are not told apart."""
    return (LONGEST + 1) * min(first, LONGEST) + min(second, LONGEST)


def law_of_rounds() -> dict[int, float]:
    """Return the probability of each pair of runs, threshold noise integrated by sums.

    Noise is taken as continuous, of scales 2 and 4 sensitivities: its steps are a thousandth.
    """
    noise = np.linspace(-80, 80, 32_001)
    density = np.exp(-np.abs(noise) / 2)
    tail = np.exp(-np.abs(noise) / 4) / 2
    above = np.where(noise > 0, tail, 1 - tail)
    density /= density.sum()
    run = [float((density * (1 - above) ** size * above).sum()) for size in range(QUERIES)]
    law: dict[int, float] = {}
    for first in range(QUERIES - 1):
        for second in range(QUERIES - 1 - first):
            pair = _number(first, second)
            law[pair] = law.get(pair, 0.0) + run[first] * run[second]
    return law | {OVER: 1 - sum(law.values())}


def keep_threshold(
    self: Thresholdout, progress: Progress, gap: NDArray[np.int64], _: Entropy
) -> tuple[Progress, NDArray[np.bool_]]:
    """Compare everything with the threshold that was drawn first."""
    assert progress.secret is not None
    above = np.flatnonzero(gap >= progress.secret)[: self.overfits - progress.overfits]
    last = int(above[-1]) + 1 if len(above) == self.overfits else len(gap)
    marks = np.zeros(last, dtype=np.bool_)
    marks[above] = True
    moved = replace(progress, queries=last, overfits=len(above))
    return moved, marks


@pytest.mark.statistical
def test_rounds_follow_their_law(entropy: SeededEntropy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of two rounds have the stated law, which exposes a threshold without noise.

    It exposes comparisons with half of theirs too, and one threshold for both rounds, which loses
    no privacy but is not what is stated.
    """
    law = law_of_rounds()
    assert chi_square_p(run_rounds(entropy), law) > ALPHA

    for scales in ({"round": Fraction(1, 100)}, {"comparison": Fraction(2)}):
        with monkeypatch.context() as patch:
            patch.setattr(thresholdout, "_make_samplers", with_noise(**scales))
            assert chi_square_p(run_rounds(entropy), law) < ALPHA
    monkeypatch.setattr(Thresholdout, "_compare", keep_threshold)
    assert chi_square_p(run_rounds(entropy), law) < ALPHA
