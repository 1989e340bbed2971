"""The auditor itself: it rarely convicts a true claim, and its bounds are nearly tight."""

import math

import numpy as np
import pytest
from scipy import special

from confide.audit import (
    Case,
    Claim,
    Currency,
    Finding,
    Verdict,
    claim_of,
    convict,
    run_cases,
    weigh,
)
from confide.audit.projections import OutputBins, as_table, lowest_bits
from confide.errors import BadDeclaration
from confide.loss import ApproximateLoss, GaussianLoss, PureLoss, RenyiLoss
from support.entropy import SeededEntropy
from support.laws import ALPHA


def respond(truth: int, size: int, epsilon: float, entropy: SeededEntropy) -> np.ndarray:
    """Return randomized responses, the worst case of all mechanisms with this epsilon."""
    honest = 1 / (1 + math.exp(-epsilon))
    uniform = entropy.words(size).astype(np.float64) * 2.0**-64
    return np.where(uniform < honest, truth, 1 - truth)


@pytest.mark.statistical
def test_true_claims_are_rarely_convicted(entropy: SeededEntropy) -> None:
    """1,000 audits of a mechanism at its limit convict it in at most 10%, up to chance."""
    convicted = sum(
        weigh(
            respond(0, 200, 1, entropy),
            respond(1, 200, 1, entropy),
            Claim.epsilon(1),
            false_alarms=0.1,
        ).is_disproof
        for _ in range(1_000)
    )

    assert special.bdtrc(convicted - 1, 1_000, 0.1) > ALPHA


@pytest.mark.statistical
def test_a_claim_five_percent_short_is_disproved(entropy: SeededEntropy) -> None:
    """Randomized response with epsilon 1 disproves a claim of 0.95, but not one of 1."""

    def draw(size: int) -> tuple[np.ndarray, np.ndarray]:
        return respond(0, size, 1, entropy), respond(1, size, 1, entropy)

    assert convict(draw, Claim.epsilon(0.95)) is not None
    assert convict(draw, Claim.epsilon(1), false_alarms=ALPHA, tries=9) is None


@pytest.mark.statistical
def test_gaussian_noise_proves_a_mu(entropy: SeededEntropy) -> None:
    """Normal numbers at distance 2, rounded to sixteenths, prove a mu between 1.8 and 2."""
    uniform = (entropy.words(2 * 2**16).astype(np.float64) + 0.5) * 2.0**-64
    noise = np.rint(16 * special.ndtri(uniform)).reshape(2, -1)
    found = weigh(noise[0], 32 + noise[1], Claim.mu(2), false_alarms=ALPHA)

    assert 1.8 < found.found <= 2
    assert not found.is_disproof


def test_a_failure_is_subtracted_from_the_evidence() -> None:
    """An event of probability 0.02 on one side proves nothing if a failure of 0.02 is allowed."""
    left, right = np.zeros(10_000), (np.arange(10_000) % 50 == 0).astype(float)

    assert 0 == weigh(left, right, Claim.epsilon(1, 0.02)).found
    assert weigh(left, right, Claim.epsilon(1, 0.001)).is_disproof
    assert 0 == weigh(left, right, Claim.mu(1, 0.03)).found
    assert weigh(left, right, Claim.mu(0.5, 1e-4)).is_disproof


def test_nan_infinities_and_errors_are_outputs() -> None:
    """NaN or infinity on one side only disproves a claim."""
    left, right = np.arange(2_000) % 7.0, np.full(2_000, np.nan)

    assert weigh(left, right, Claim.epsilon(3)).is_disproof
    assert weigh(np.where(left == 3, np.inf, left), left, Claim.epsilon(2)).is_disproof
    assert not weigh(right, right, Claim.epsilon(0)).is_disproof


def test_claims_come_from_losses() -> None:
    """Pure losses claim an epsilon, Gaussian ones a mu, and others an epsilon at a delta."""
    assert Claim(Currency.EPSILON, 2.0) == claim_of(PureLoss(2))
    assert Currency.MU is claim_of(GaussianLoss(4)).currency
    assert 2 == pytest.approx(claim_of(GaussianLoss(4)).value)
    assert 0.01 == pytest.approx(claim_of(ApproximateLoss(PureLoss(1), 0.01)).failure)
    assert claim_of(RenyiLoss(8, 1)).failure > 0


def test_disproofs_match_the_definitions() -> None:
    """The values disproved by two probabilities solve the inequality of each currency."""
    assert math.log((0.5 - 0.1) / 0.2) == Claim.epsilon(0, 0.1).disprove(0.5, 0.2)
    assert special.ndtri(0.9) - special.ndtri(0.2) == pytest.approx(Claim.mu(0).disprove(0.9, 0.2))
    assert -math.inf == Claim.epsilon(0, 0.6).disprove(0.5, 0.2)
    assert -math.inf == Claim.mu(0).disprove(0.5, 1.0)


def test_samples_of_another_shape_are_refused() -> None:
    """Outputs with more numbers on one side, or too few outputs, are an error."""
    with pytest.raises(BadDeclaration, match="outputs"):
        weigh(np.zeros((50, 2)), np.zeros((50, 3)), Claim.epsilon(1))
    with pytest.raises(BadDeclaration, match="outputs"):
        weigh(np.zeros(3), np.zeros(3), Claim.epsilon(1))


def test_projections_separate_single_values_and_last_digits() -> None:
    """Few values get a bin each, many share bins, and the lowest bit of 3/8 is the third."""
    few, many = OutputBins.of(np.array([0.0, 1.0] * 20)), OutputBins.of(np.arange(10_000.0))

    assert few.assign(np.array([0.0]))[0] != few.assign(np.array([1.0]))[0]
    assert many.count < 600
    assert [-3.0, 1.0, 0.0] == lowest_bits(np.array([0.375, 6.0, 1.0])).tolist()
    assert np.isfinite(as_table(np.array([np.nan, np.inf, -np.inf]))).all()


def test_cases_share_the_false_alarms() -> None:
    """The allowed false alarms of all cases add up to those of one audit."""
    shares: list[float] = []

    def run(false_alarms: float) -> Finding:
        shares.append(false_alarms)
        return Finding("x", "y", "z", Verdict.ALIKE)

    run_cases([Case("x", "y", run)] * 4, confidence=0.96)

    assert [pytest.approx(0.01)] * 4 == shares
