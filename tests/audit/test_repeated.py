"""A hundred audits of every mechanism and of holdout sessions: none of ours is ever convicted."""

import pytest
from scipy import special

from confide.audit import CONFIDENCE, Verdict, holdout_cases, mechanism_cases, run_cases
from support.entropy import SeededEntropy
from support.laws import ALPHA

AUDITS = 100
SAMPLES = 512


@pytest.mark.slow
@pytest.mark.statistical
def test_a_hundred_audits_convict_nothing_of_ours(entropy: SeededEntropy) -> None:
    """In 100 small audits of mechanisms and sessions, accusations are no more than chance allows.

    Each audit accuses with probability at most 1/1000, so seven or more of 100 have a probability
    below 1e-9 where all claims are true. One that is 20 % short would be found each time.
    """
    accused = 0
    for _ in range(AUDITS):
        cases = [*mechanism_cases(SAMPLES, entropy), *holdout_cases(SAMPLES)]
        findings = run_cases(cases, confidence=CONFIDENCE)
        accused += any(finding.verdict is Verdict.CONVICTED for finding in findings)

    assert special.bdtrc(accused - 1, AUDITS, 1 - CONFIDENCE) > ALPHA
