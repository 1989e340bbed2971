"""A hundred audits of all mechanisms and holdout sessions convict no more than chance allows."""

import numpy as np
import pytest
from scipy import special

from confide.audit import CONFIDENCE, Claim, Verdict, holdout_cases, mechanism_cases, run_cases
from confide.audit.evidence import sample_case
from confide.mechanisms import Laplace
from support.entropy import SeededEntropy
from support.laws import ALPHA

AUDITS = 100
SAMPLES = 512


@pytest.mark.slow
@pytest.mark.statistical
def test_a_hundred_audits_convict_nothing_of_ours(entropy: SeededEntropy) -> None:
    """In 100 small audits of mechanisms and sessions, convictions are no more than chance allows.

    If all claims are true, each audit convicts with probability at most 1/1000, so seven or more
    convictions in 100 have a probability below 1e-9. The next test shows the power of such audits.
    """
    convicted = 0
    for _ in range(AUDITS):
        cases = [*mechanism_cases(SAMPLES, entropy), *holdout_cases(SAMPLES)]
        findings = run_cases(cases, confidence=CONFIDENCE)
        convicted += any(finding.verdict is Verdict.CONVICTED for finding in findings)

    assert special.bdtrc(convicted - 1, AUDITS, 1 - CONFIDENCE) > ALPHA


@pytest.mark.statistical
def test_such_audits_convict_a_quarter_of_the_noise_many_times(entropy: SeededEntropy) -> None:
    """Such audits convict a mechanism with a quarter of its noise nine times out of ten.

    At that rate, 225 or fewer convictions in 300 have a probability below 1e-13. At a rate of one
    half, more than 225 have a probability below 1e-18.
    """
    quiet = Laplace(1, 1)

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        sides = [np.full(count, value) for value in (0, 1)]
        left, right = (np.asarray(quiet.release(side, entropy=entropy)) for side in sides)
        return left, right

    among = len([*mechanism_cases(SAMPLES, entropy), *holdout_cases(SAMPLES)])
    case = sample_case(
        "a quarter", "0 and 1", "alone", claim=Claim.epsilon("0.25"), draw=draw, samples=SAMPLES
    )
    found = [case.run((1 - CONFIDENCE) / among).verdict for _ in range(3 * AUDITS)]

    assert 225 < found.count(Verdict.CONVICTED)
