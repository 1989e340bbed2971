"""Exact privacy curves of noise distributions, and conversions of Renyi losses.

Pure and Laplace losses use the curve of two-sided geometric noise Z on one integer. P(Z = z) is
proportional to q^|z| over the integers, with q = exp(-epsilon / s) and s = ``steps``. P is the
distribution of Z, and Q the distribution of Z + s. With s = 1 the likelihood ratio takes only the
values exp(epsilon) and exp(-epsilon): this is randomized response, the worst of all epsilon-DP
pairs.
"""

import math
from fractions import Fraction
from functools import lru_cache
from typing import Final

from flint import arb, ctx

from confide.errors import BadDeclaration
from confide.exact import (
    ball,
    fraction_above,
    fraction_below,
    non_negative,
    positive,
    probability,
)
from confide.loss.enclosure import (
    TINY,
    bound_above,
    first_dyadic,
    last_dyadic,
    normal_tail,
    normal_tail_inverse,
    probability_above,
    shorten_down,
    shorten_up,
)

__all__ = [
    "ORDERS",
    "best_order",
    "delta_from_renyi",
    "epsilon_from_renyi",
    "gaussian_delta",
    "gaussian_epsilon",
    "geometric_delta",
    "mu_squared_for",
    "mu_squared_of",
    "renyi_at",
    "renyi_for",
]


def gaussian_delta(mu_squared: Fraction, epsilon: Fraction) -> Fraction:
    """Return the smallest delta of Gaussian noise at ``epsilon``, rounded up.

    The rounding adds less than one part in 2**60. A delta below 2**-4096 becomes 2**-4096.

    Law:     P = N(mu, 1) against Q = N(0, 1), mu = sqrt(mu_squared).
    Claim:   sup over events S of P(S) - exp(epsilon) Q(S) equals
             Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu).
    Why:     the log-likelihood ratio at y is mu y - mu^2 / 2, so the best event is
             y > epsilon / mu + mu / 2; the two terms are its probabilities under P and Q.
    Source:  [BW18] Theorem 8.
    Checked: tests/loss/test_gaussian_curve.py.
    """
    return probability_above(lambda: _curve(mu_squared, epsilon))


def _curve(mu_squared: Fraction, epsilon: Fraction) -> arb:
    mu, start = ball(mu_squared).sqrt(), ball(epsilon)
    threshold = start / mu + mu / 2
    return normal_tail(threshold - mu) - start.exp() * normal_tail(threshold)


def mu_squared_for(epsilon: object, delta: object) -> Fraction:
    """Return the greatest mu^2 whose Gaussian mechanism is (epsilon, delta)-DP, rounded down.

    The result is a dyadic number of 63 bits, below the exact one by less than one part in 2**58.
    Noise of standard deviation sensitivity / mu achieves the guarantee at any epsilon, even far
    above 1, where the textbook formula fails.

    Claim:   the Gaussian mechanism with this mu^2 is (epsilon, delta)-DP.
    Why:     the curve of `gaussian_delta` increases in mu, and its upper bound was checked to be
             at most delta at the returned number.
    Source:  [BW18] Theorem 8.
    Checked: tests/loss/test_gaussian_curve.py.

    >>> float(mu_squared_for(1, 1e-6) ** -1) ** 0.5
    4.22467...
    """
    return _mu_squared_for(non_negative("epsilon", epsilon), _read_delta(delta))


@lru_cache(maxsize=1024)
def _mu_squared_for(epsilon: Fraction, delta: Fraction) -> Fraction:
    return last_dyadic(lambda mu_squared: gaussian_delta(mu_squared, epsilon) <= delta)


def gaussian_epsilon(mu_squared: object, delta: object) -> Fraction:
    """Return the smallest epsilon of a Gaussian mechanism at ``delta``, rounded up.

    Claim:   a mechanism with this mu^2 is (epsilon, delta)-DP for the returned epsilon.
    Why:     the curve of `gaussian_delta` decreases in epsilon, and its upper bound was checked
             to be at most delta at the returned number.
    Source:  [BW18] Theorem 8.
    Checked: tests/loss/test_gaussian_curve.py.
    """
    return _epsilon_at(positive("mu_squared", mu_squared), _read_delta(delta))


def _read_delta(delta: object) -> Fraction:
    """Return ``delta`` as a fraction; raise BadDeclaration if it is below 2**-4096."""
    value = probability("delta", delta, zero=False)
    if value < TINY:
        raise BadDeclaration("`delta` must be at least 2**-4096 (1e-1233); got a smaller number.")
    return value


@lru_cache(maxsize=1024)
def _epsilon_at(mu_squared: Fraction, delta: Fraction) -> Fraction:
    if gaussian_delta(mu_squared, Fraction(0)) <= delta:
        return Fraction(0)
    return first_dyadic(lambda epsilon: gaussian_delta(mu_squared, epsilon) <= delta)


@lru_cache(maxsize=1 << 14)
def geometric_delta(epsilon: Fraction, steps: int, start: Fraction) -> Fraction:
    """Return the smallest delta of geometric noise at epsilon = ``start`` >= 0, rounded up.

    Claim:   with m the greatest integer below (s - start / u) / 2, where u = epsilon / s, the
             supremum of P(S) - exp(start) Q(S) is
             1 - (q^(m+1) + exp(start) q^(s-m)) / (1 + q); it is 0 for start >= epsilon.
    Why:     for y between 0 and s the log-ratio is (s - 2 y) u, and it is constant outside. So the
             best event is y <= m. Its probability under P is P(Z <= m) = 1 - q^(m+1) / (1 + q),
             since m >= 0, and under Q it is P(Z <= m - s) = q^(s-m) / (1 + q), since m < s.
    Source:  [KOV17] for s = 1; otherwise docs/proofs/loss-laplace.md.
    Checked: tests/loss/test_geometric_curve.py.
    """
    if start >= epsilon:
        return Fraction(0)
    last = math.ceil((steps - start * steps / epsilon) / 2) - 1

    def curve() -> arb:
        miss = _power(epsilon, steps, last + 1)
        false_alarm = (ball(start) - ball(epsilon * (steps - last) / steps)).exp()
        return 1 - (miss + false_alarm) / (1 + _power(epsilon, steps, 1))

    return probability_above(curve)


@lru_cache(maxsize=1 << 14)
def renyi_at(epsilon: Fraction, steps: int, order: Fraction) -> Fraction:
    """Return the Renyi divergence of geometric noise at ``order`` (above 1), rounded up.

    Claim:   with a = order, D the divergence, and r = q^(2a-1), exp((a - 1) D) equals
             (q^((1-a)s) + q^(as)) / (1 + q) + q^((1-a)s) (1 - q) (r - r^s) / ((1 + q) (1 - r)).
    Why:     exp((a - 1) D) is the sum of P(y)^a Q(y)^(1-a) over all y. Split it into y <= 0,
             y >= s, and the s - 1 values between; each of the three is a geometric series.
    Source:  [Mir17] for s = 1; otherwise docs/proofs/loss-laplace.md.
    Checked: tests/loss/test_geometric_curve.py.
    """

    def divergence() -> arb:
        q, excess = _power(epsilon, steps, 1), ball(order - 1)
        outer = 1 + (-ball((2 * order - 1) * epsilon)).exp()
        inner = arb(0)
        if steps > 1:
            rate = -ball((2 * order - 1) * epsilon / steps)
            series = (rate.exp() - (rate * steps).exp()) / -rate.expm1()
            inner = series * -(-ball(epsilon / steps)).expm1()
        return ball(epsilon) + ((outer + inner) / (1 + q)).log() / excess

    return min(epsilon, bound_above(divergence))


@lru_cache(maxsize=1 << 14)
def mu_squared_of(epsilon: Fraction, steps: int) -> Fraction:
    """Return the smallest mu^2 for which geometric noise is mu-Gaussian-DP, rounded up.

    Claim:   mu = u(q^j / (1 + q)) + u(q^(s+1-j) / (1 + q)), where j = floor((s + 1) / 2) and
             u(x) is the point that a standard normal variable exceeds with probability x. With
             s = 1: mu = 2 Phi^-1(exp(epsilon) / (1 + exp(epsilon))).
    Why:     the trade-off curve is polygonal and the Gaussian one is convex, so the corners
             (q^j / (1 + q), q^(s+1-j) / (1 + q)) decide. u(exp(-w)) is concave in w, because its
             slope, the Mills ratio, decreases in w. So the central corner is the worst.
    Source:  [DRS22]; proof in docs/proofs/loss-laplace.md.
    Checked: tests/loss/test_geometric_curve.py.
    """
    first, second = (steps + 1) // 2, steps + 1 - (steps + 1) // 2

    def square() -> arb:
        total = 1 + _power(epsilon, steps, 1)
        corner = [normal_tail_inverse(_power(epsilon, steps, j) / total) for j in (first, second)]
        mu = corner[0] + corner[1]
        return mu * mu

    return bound_above(square)


def _power(epsilon: Fraction, steps: int, exponent: int) -> arb:
    return (-ball(epsilon * exponent / steps)).exp()


_QUARTERS = [Fraction(part, 4) for part in (4, 5, 6, 7)]

ORDERS: Final = tuple(1 + part * Fraction(2) ** e for e in range(-12, 24) for part in _QUARTERS)
"""The orders at which a Renyi curve is evaluated. Each is valid; the best one is kept."""

_PRECISION = 192


def epsilon_from_renyi(order: Fraction, divergence: Fraction, delta: Fraction) -> Fraction:
    """Return the epsilon at ``delta`` that a bound on one Renyi divergence implies, rounded up.

    Claim:   a Renyi divergence of at most r at order a implies (epsilon, delta)-DP with
             epsilon = r + ln((a - 1) / a) - (ln delta + ln a) / (a - 1), or 0 if this is negative.
    Why:     1 - exp(epsilon - z) <= exp((a - 1)(z - epsilon)) (1 - 1/a)^a / (a - 1) for every z,
             with equality at one point; take the mean over the privacy loss z.
    Source:  [CKS20] Proposition 12.
    Checked: tests/loss/test_renyi_conversion.py.
    """
    with ctx.workprec(_PRECISION):
        found = fraction_above(ball(divergence) - _allowance(order, delta))
    return shorten_up(found) if found > 0 else Fraction(0)


def delta_from_renyi(order: Fraction, divergence: Fraction, epsilon: Fraction) -> Fraction:
    """Return the delta at ``epsilon`` that a bound on one Renyi divergence implies, rounded up.

    The result is at most 1.

    Claim:   a Renyi divergence of at most r at order a implies (epsilon, delta)-DP with
             delta = exp((a - 1)(r - epsilon)) (1 - 1/a)^a / (a - 1).
    Why:     the formula of `epsilon_from_renyi`, solved for delta.
    Source:  [CKS20] Proposition 12.
    Checked: tests/loss/test_renyi_conversion.py.
    """

    def exponent() -> arb:
        excess = ball(order - 1)
        gap = ball(divergence - epsilon) + (excess / ball(order)).log()
        return excess * gap - ball(order).log()

    with ctx.workprec(_PRECISION):
        if not exponent() < 0:
            return Fraction(1)
    return probability_above(lambda: exponent().exp())


def renyi_for(order: Fraction, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the greatest divergence at ``order`` that implies (epsilon, delta)-DP, rounded down.

    The result is 0 if the order is too small for this epsilon and delta.

    Claim:   a mechanism of at most this divergence at ``order`` is (epsilon, delta)-DP.
    Why:     the formula of `epsilon_from_renyi`, solved for r.
    Source:  [CKS20] Proposition 12.
    Checked: tests/loss/test_renyi_conversion.py.
    """
    with ctx.workprec(_PRECISION):
        found = fraction_below(ball(epsilon) + _allowance(order, delta))
    return shorten_down(found) if found > 0 else Fraction(0)


def _allowance(order: Fraction, delta: Fraction) -> arb:
    """Return a ball around r - epsilon for the greatest divergence r that `renyi_for` allows.

    This difference does not depend on epsilon.
    """
    size = ball(order).log()
    return size - ball(order - 1).log() + (ball(delta).log() + size) / ball(order - 1)


@lru_cache(maxsize=256)
def best_order(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return nearly the order at which the most Gaussian answers fit into (epsilon, delta).

    Every order is valid, so the choice needs no proof. It is computed with balls, so that it is
    the same on every machine. A divergence of r at order a suffices for Gaussian answers with a
    total mu^2 of 2 r / a, so the result maximizes r / a over the orders tried.
    """

    def room(order: Fraction) -> Fraction:
        return renyi_for(order, epsilon, delta) / order

    coarse = max((1 + Fraction(2) ** e for e in range(-40, 60)), key=room)
    fine = [1 + (coarse - 1) * Fraction(part, 32) for part in range(16, 65)]
    return max(fine, key=room)
