"""The two claims of docs/proofs/loss-bounded-range.md, on a grid of (epsilon, t)."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from confide.loss import BoundedRangeLoss

EPSILONS = [0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
FRACTIONS = np.linspace(0, 1, 2001)[1:-1]


def two_points(epsilon: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return t, p, and q of the pairs with log-ratios t and t - epsilon."""
    t = epsilon * FRACTIONS
    p = np.expm1(t - epsilon) / math.expm1(-epsilon)
    return t, p, np.exp(-t) * p


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_gap_is_greatest_in_the_middle(epsilon: float) -> None:
    """Over t, the gap of normal quantiles is greatest at t = epsilon / 2, where it equals mu."""
    t, p, q = two_points(epsilon)
    gap = ndtri(p) - ndtri(q)

    assert pytest.approx(epsilon / 2) == t[np.argmax(gap)]
    assert pytest.approx(gap.max(), rel=1e-7) == BoundedRangeLoss(epsilon).mu


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_delta_is_the_greatest_over_t(epsilon: float) -> None:
    """The closed form is the greatest delta of all two-point pairs, at every epsilon."""
    t, p, q = two_points(epsilon)
    for start in (0.0, epsilon / 4, epsilon / 2):
        deltas = np.maximum(p - math.exp(start) * q, 0)

        assert pytest.approx((start + epsilon) / 2, abs=epsilon / 1000) == t[np.argmax(deltas)]
        assert pytest.approx(deltas.max(), rel=1e-5) == BoundedRangeLoss(epsilon).delta(start)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("order", [1.01, 2.0, 10.0, 100.0])
def test_renyi_covers_every_two_point_pair(epsilon: float, order: float) -> None:
    """No two-point pair has a larger Renyi divergence than stated."""
    t, p, _ = two_points(epsilon)
    high, low = np.log(p) + (order - 1) * t, np.log1p(-p) + (order - 1) * (t - epsilon)
    divergence = np.logaddexp(high, low).max() / (order - 1)

    assert divergence <= BoundedRangeLoss(epsilon).renyi(order) * (1 + 1e-9)


def test_the_ratio_behind_the_proof_falls() -> None:
    """Phi(z) Phi(-z) / phi(z) decreases in z > 0; with exponent 2 on Phi(z) it does not."""
    z = np.linspace(0, 30, 3001)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)

    assert (np.diff(ndtr(z) * ndtr(-z) / density) < 0).all()
    assert not (np.diff(ndtr(z) ** 2 * ndtr(-z) / density) < 0).all()


@pytest.mark.parametrize("epsilon", EPSILONS[:6])
def test_random_exponential_mechanisms_keep_the_claim(epsilon: float) -> None:
    """The exponential mechanism on many score vectors stays below the stated delta."""
    generator = np.random.default_rng(7)
    loss = BoundedRangeLoss(epsilon)
    for _ in range(200):
        score = generator.normal(size=6) * 3
        moved = score + generator.uniform(-1, 1, size=6)
        p, q = np.exp(epsilon / 2 * score), np.exp(epsilon / 2 * moved)
        p, q = p / p.sum(), q / q.sum()
        for start in (0.0, epsilon / 3):
            delta = np.maximum(p - math.exp(start) * q, 0).sum()

            assert delta <= loss.delta(start) + 1e-12
