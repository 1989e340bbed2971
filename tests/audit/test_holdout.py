"""Holdout sessions on trial: neighbours differ in one held-out row."""

from fractions import Fraction

import numpy as np
import pytest

from confide.audit import Claim, Verdict, holdout_cases, weigh
from confide.holdout import plain, thresholdout
from confide.noise import RoundedGaussian
from support.laws import ALPHA

SAMPLES = 8_192
MORE = 16_384


@pytest.mark.slow
@pytest.mark.statistical
def test_sessions_give_away_at_most_what_they_claim() -> None:
    """Sessions on two holdouts that differ in one row disprove no session's loss.

    The auditor accuses a right session with probability at most 1e-9.
    """
    findings = [case.run(ALPHA) for case in holdout_cases(SAMPLES)]

    assert [Verdict.ACQUITTED] * 3 == [finding.verdict for finding in findings]


@pytest.mark.slow
@pytest.mark.statistical
def test_sessions_with_too_little_noise_are_convicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tenth of the noise the same sessions of both methods are convicted, at 99.9 %."""
    honest = thresholdout._make_tools

    def quieter(step: Fraction, threshold: Fraction, sigma: Fraction) -> thresholdout._Tools:
        return honest(step, threshold, sigma / 10)

    monkeypatch.setattr(thresholdout, "_make_tools", quieter)
    monkeypatch.setattr(plain, "_law", lambda squared: RoundedGaussian(squared / 100))
    findings = [case.run(1e-3) for case in holdout_cases(MORE)]

    assert [Verdict.CONVICTED] * 3 == [finding.verdict for finding in findings]


def test_a_holdout_that_tells_its_mean_would_be_convicted() -> None:
    """The exact means of the same two holdouts are disproof of any claim up to epsilon 2."""
    left, right = np.full(128, 0.25), np.full(128, 0.25 + 1 / 40)

    assert weigh(left, right, Claim.epsilon(2)).is_disproof
