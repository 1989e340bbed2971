"""A hundred audits of every mechanism and of holdout sessions: none of ours is ever convicted."""

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
    """In 100 small audits of mechanisms and sessions, accusations are no more than chance allows.

    Each audit accuses with probability at most 1/1000, so seven or more of 100 have a probability
    below 1e-9 where all claims are true. What so small an audit would see is tried below.
    """
    accused = 0
    for _ in range(AUDITS):
        cases = [*mechanism_cases(SAMPLES, entropy), *holdout_cases(SAMPLES)]
        findings = run_cases(cases, confidence=CONFIDENCE)
        accused += any(finding.verdict is Verdict.CONVICTED for finding in findings)

    assert special.bdtrc(accused - 1, AUDITS, 1 - CONFIDENCE) > ALPHA


@pytest.mark.statistical
def test_such_audits_convict_a_quarter_of_the_noise_many_times(entropy: SeededEntropy) -> None:
    """One mechanism among them with a quarter of its noise is accused in nine of ten audits.

    At that rate 225 of 300 or fewer have a probability below 1e-13; were it accused in half of
    them only, more would have one below 1e-18.
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
