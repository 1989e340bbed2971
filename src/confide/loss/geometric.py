"""Two-sided geometric noise, one coordinate: the exact curves behind pure and Laplace losses.

P is the law of Z and Q that of Z + s, where P(Z = z) is proportional to q^|z| over the integers
and q = exp(-epsilon / s). With s = 1 the likelihood ratio has only the values exp(epsilon) and
exp(-epsilon): that is randomised response, the worst of all epsilon-DP pairs.
"""

import math
from fractions import Fraction
from functools import lru_cache

from flint import arb

from confide.exact import ball
from confide.loss.enclosure import bound_above, chance_above, normal_tail_inverse

__all__ = ["delta_at", "mu_squared_of", "renyi_at"]


@lru_cache(maxsize=1 << 14)
def delta_at(epsilon: Fraction, steps: int, start: Fraction) -> Fraction:
    """Return the least delta at epsilon = ``start`` >= 0, rounded up.

    Claim:   with m the greatest integer below (s - start / u) / 2, where u = epsilon / s, the
             supremum of P(S) - exp(start) Q(S) is
             1 - (q^(m+1) + exp(start) q^(s-m)) / (1 + q), and 0 from start = epsilon on.
    Why:     at y between 0 and s the log-ratio is (s - 2 y) u and it is constant outside, so the
             best event is y <= m. There P(Z <= m) = 1 - q^(m+1) / (1 + q), since m >= 0, and
             P(Z <= m - s) = q^(s-m) / (1 + q), since m < s.
    Source:  [KOV17] for s = 1; otherwise docs/proofs/loss-laplace.md.
    Checked: tests/loss/test_geometric.py.
    """
    if start >= epsilon:
        return Fraction(0)
    last = math.ceil((steps - start * steps / epsilon) / 2) - 1

    def curve() -> arb:
        miss = _power(epsilon, steps, last + 1)
        false_alarm = (ball(start) - ball(epsilon * (steps - last) / steps)).exp()
        return 1 - (miss + false_alarm) / (1 + _power(epsilon, steps, 1))

    return chance_above(curve)


@lru_cache(maxsize=1 << 14)
def renyi_at(epsilon: Fraction, steps: int, order: Fraction) -> Fraction:
    """Return the Renyi divergence of ``order`` above 1, rounded up.

    Claim:   with a = order and r = q^(2a-1), exp((a - 1) D) equals
             (q^((1-a)s) + q^(as)) / (1 + q) + q^((1-a)s) (1 - q) (r - r^s) / ((1 + q) (1 - r)).
    Why:     the sum of P(y)^a Q(y)^(1-a) over y <= 0, over y >= s and over the s - 1 values
             between, each a geometric series.
    Source:  [Mir17] for s = 1; otherwise docs/proofs/loss-laplace.md.
    Checked: tests/loss/test_geometric.py.
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
    """Return the least mu^2 for which the pair is mu-Gaussian-DP, rounded up.

    Claim:   mu = u(q^j / (1 + q)) + u(q^(s+1-j) / (1 + q)), where j = floor((s + 1) / 2) and
             u(x) is the point that a standard normal variable passes with probability x. With
             s = 1: mu = 2 Phi^-1(exp(epsilon) / (1 + exp(epsilon))).
    Why:     the trade-off curve is polygonal and the Gaussian one convex, so its corners
             (q^j / (1 + q), q^(s+1-j) / (1 + q)) decide; u(exp(-w)) is concave in w, because its
             slope is the Mills ratio, so the most central corner is the worst.
    Source:  [DRS22]; proof in docs/proofs/loss-laplace.md.
    Checked: tests/loss/test_geometric.py.
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
