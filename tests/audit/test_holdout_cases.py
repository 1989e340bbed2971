"""Audits of holdout sessions on holdouts that differ in one row, and the law of their rounds."""

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
MAX_RUN: Final = 6
OTHER: Final = -1


@pytest.mark.slow
@pytest.mark.statistical
def test_sessions_keep_their_claims() -> None:
    """Sessions on two holdouts that differ in one row disprove no session's loss.

    The auditor convicts a correct session with probability at most 1e-9.
    """
    findings = [case.run(ALPHA) for case in holdout_cases(SAMPLES)]

    assert [Verdict.ACQUITTED] * 3 == [finding.verdict for finding in findings]


def with_noise(**scales: Fraction) -> Callable[..., Any]:
    """Return a factory of samplers with these noise scales, in sigmas, and otherwise correct."""
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


def run_sessions(side: int, count: int, entropy: Entropy) -> NDArray[np.float64]:
    """Return the outputs of sessions with one overfit, run on the method without `Holdout`.

    The output is the value of an overfit query, -1 for an accepted guess, and -2 after the end.
    """
    method = Thresholdout(ROWS, 0.05, len(NEAR_THRESHOLD), 1, THRESHOLD, sensitivity(ROWS))
    means = np.array([float(pair[side]) for pair in NEAR_THRESHOLD])
    outputs = np.full((count, len(means)), -2.0)
    for row in outputs:
        batch = QueryBatch(means, np.zeros(len(means)), ROWS)
        _, outcomes = method.answer(method.start(entropy), batch, entropy)
        row[: len(outcomes.values)] = np.where(outcomes.overfit, outcomes.values, -1.0)
    return outputs


@pytest.mark.slow
@pytest.mark.statistical
def test_sessions_with_a_third_of_the_noise_are_convicted(
    entropy: SeededEntropy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third of the noise convicts a Thresholdout of epsilon 2, at 99.9%; the full noise does not.

    With half of the noise, 12,288 sessions per side were needed in one manual run.
    """
    honest = [run_sessions(side, SESSIONS // 8, entropy) for side in (0, 1)]
    assert not weigh(honest[0], honest[1], Claim.epsilon(2), false_alarms=ALPHA).is_disproof

    monkeypatch.setattr(thresholdout, "_make_samplers", with_noise(**THIRD))
    quieter = [run_sessions(side, SESSIONS, entropy) for side in (0, 1)]
    assert weigh(quieter[0], quieter[1], Claim.epsilon(2)).is_disproof


@pytest.mark.statistical
def test_gaussian_sessions_with_half_the_noise_are_convicted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half of the noise convicts a Gaussian session with 2,048 sessions per side, at 99.9%.

    The claim is a mu of 1.41; eight manual runs proved a mu of 2.44, give or take 0.03.
    """
    monkeypatch.setattr(baselines, "_noise_law", lambda squared: RoundedGaussian(squared / 4))
    *_, gaussian = holdout_cases(8 * SAMPLES)

    assert Verdict.CONVICTED is gaussian.run(1e-3).verdict


def test_exact_means_are_convicted() -> None:
    """The exact means of the same two holdouts disprove a claim of epsilon 2."""
    left, right = np.full(128, 0.25), np.full(128, 0.25 + 1 / 40)

    assert weigh(left, right, Claim.epsilon(2)).is_disproof


def run_rounds(entropy: Entropy) -> list[int]:
    """Return the numbers of guesses accepted before the first and second overfit, as one code.

    The gap of each query equals the threshold.
    """
    method = Thresholdout(ROWS, 0.05, QUERIES, 2, THRESHOLD, sensitivity(ROWS))
    runs = []
    for _ in range(ROUNDS):
        batch = QueryBatch(np.full(QUERIES, float(THRESHOLD)), np.zeros(QUERIES), ROWS)
        _, outcomes = method.answer(method.start(entropy), batch, entropy)
        indexes = np.flatnonzero(outcomes.overfit)
        has_two = len(indexes) == 2
        runs.append(_encode(int(indexes[0]), int(np.diff(indexes)[0]) - 1) if has_two else OTHER)
    return runs


def _encode(first: int, second: int) -> int:
    """Return a code for the lengths of two runs, each limited to MAX_RUN."""
    return (MAX_RUN + 1) * min(first, MAX_RUN) + min(second, MAX_RUN)


def law_of_rounds() -> dict[int, float]:
    """Return the probability of each pair of runs, by numerical integration of threshold noise.

    Noise is treated as continuous, with scales of 2 and 4 sensitivities, because its steps are only
    a thousandth of the sensitivity.
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
            pair = _encode(first, second)
            law[pair] = law.get(pair, 0.0) + run[first] * run[second]
    return law | {OTHER: 1 - sum(law.values())}


def keep_threshold(
    self: Thresholdout, progress: Progress, gap: NDArray[np.int64], _: Entropy
) -> tuple[Progress, NDArray[np.bool_]]:
    """Compare all queries with the first threshold drawn."""
    assert progress.secret is not None
    above = np.flatnonzero(gap >= progress.secret)[: self.overfits - progress.overfits]
    last = int(above[-1]) + 1 if len(above) == self.overfits else len(gap)
    over = np.zeros(last, dtype=np.bool_)
    over[above] = True
    after = replace(progress, queries=last, overfits=len(above))
    return after, over


@pytest.mark.statistical
def test_rounds_follow_their_law(entropy: SeededEntropy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of two rounds follow the stated law, and would expose a threshold without noise.

    They also expose comparisons with half of the noise, and a single threshold for both rounds,
    which loses no privacy but differs from the stated law.
    """
    law = law_of_rounds()
    assert chi_square_p(run_rounds(entropy), law) > ALPHA

    for scales in ({"round": Fraction(1, 100)}, {"comparison": Fraction(2)}):
        with monkeypatch.context() as patch:
            patch.setattr(thresholdout, "_make_samplers", with_noise(**scales))
            assert chi_square_p(run_rounds(entropy), law) < ALPHA
    monkeypatch.setattr(Thresholdout, "_compare", keep_threshold)
    assert chi_square_p(run_rounds(entropy), law) < ALPHA
