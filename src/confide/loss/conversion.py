"""From a Renyi divergence at one order to (epsilon, delta), and back."""

from fractions import Fraction
from functools import lru_cache
from typing import Final

from flint import arb, ctx

from confide.exact import ball, fraction_above, fraction_below
from confide.loss.enclosure import chance_above, shorten_down, shorten_up

__all__ = ["ORDERS", "best_order", "delta_from_renyi", "epsilon_from_renyi", "renyi_for"]

_QUARTERS = [Fraction(part, 4) for part in (4, 5, 6, 7)]

ORDERS: Final = tuple(1 + part * Fraction(2) ** e for e in range(-12, 24) for part in _QUARTERS)
"""Orders at which a whole Renyi curve is tried; any of them is sound, the best one is kept."""

_PRECISION = 192


def epsilon_from_renyi(order: Fraction, divergence: Fraction, delta: Fraction) -> Fraction:
    """Return an epsilon that holds at ``delta``, rounded up.

    Claim:   a Renyi divergence of at most r at order a implies (epsilon, delta)-DP with
             epsilon = r + ln((a - 1) / a) - (ln delta + ln a) / (a - 1), or 0 if that is negative.
    Why:     1 - exp(epsilon - z) <= exp((a - 1)(z - epsilon)) (1 - 1/a)^a / (a - 1) for every z,
             with equality at one point; take the mean over the privacy loss z.
    Source:  [CKS20] Proposition 12.
    Checked: tests/loss/test_conversion.py.
    """
    with ctx.workprec(_PRECISION):
        found = fraction_above(ball(divergence) - _allowance(order, delta))
    return shorten_up(found) if found > 0 else Fraction(0)


def delta_from_renyi(order: Fraction, divergence: Fraction, epsilon: Fraction) -> Fraction:
    """Return a delta that holds at ``epsilon``, rounded up and at most 1.

    Claim:   a Renyi divergence of at most r at order a implies (epsilon, delta)-DP with
             delta = exp((a - 1)(r - epsilon)) (1 - 1/a)^a / (a - 1).
    Why:     the formula of `epsilon_from_renyi`, solved for delta.
    Source:  [CKS20] Proposition 12.
    Checked: tests/loss/test_conversion.py.
    """

    def exponent() -> arb:
        excess = ball(order - 1)
        gap = ball(divergence - epsilon) + (excess / ball(order)).log()
        return excess * gap - ball(order).log()

    with ctx.workprec(_PRECISION):
        if not exponent() < 0:
            return Fraction(1)
    return chance_above(lambda: exponent().exp())


def renyi_for(order: Fraction, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the greatest divergence at ``order`` that keeps (epsilon, delta), rounded down.

    Nothing is left, and the answer is 0, where the order is too small for the delta.

    Claim:   a mechanism of at most this divergence at ``order`` is (epsilon, delta)-DP.
    Why:     the formula of `epsilon_from_renyi`, solved for r.
    Source:  [CKS20] Proposition 12.
    Checked: tests/loss/test_conversion.py.
    """
    with ctx.workprec(_PRECISION):
        found = fraction_below(ball(epsilon) + _allowance(order, delta))
    return shorten_down(found) if found > 0 else Fraction(0)


def _allowance(order: Fraction, delta: Fraction) -> arb:
    """Enclose what delta is worth: the divergence bound minus epsilon."""
    size = ball(order).log()
    return size - ball(order - 1).log() + (ball(delta).log() + size) / ball(order - 1)


@lru_cache(maxsize=256)
def best_order(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the order at which most Gaussian answers fit into (epsilon, delta).

    Every order is sound, so the choice needs no proof. It is worked out with balls, and so is the
    same on every machine. An order a leaves room for mu^2 = 2 r / a.
    """

    def room(order: Fraction) -> Fraction:
        return renyi_for(order, epsilon, delta) / order

    coarse = max((1 + Fraction(2) ** e for e in range(-40, 60)), key=room)
    fine = [1 + (coarse - 1) * Fraction(part, 32) for part in range(16, 65)]
    return max(fine, key=room)
