"""The exact privacy curve of the Gaussian mechanism, and its two inverses."""

from fractions import Fraction
from functools import lru_cache

from flint import arb

from confide.errors import BadDeclaration
from confide.exact import ball, non_negative, positive, probability
from confide.loss.enclosure import TINY, chance_above, first_dyadic, last_dyadic, normal_tail

__all__ = ["delta_at", "epsilon_at", "mu_squared_for"]


def delta_at(mu_squared: Fraction, epsilon: Fraction) -> Fraction:
    """Return the least delta at ``epsilon``, rounded up by less than one part in 2**60.

    Law:     P = N(mu, 1) against Q = N(0, 1), mu = sqrt(mu_squared).
    Claim:   sup over events S of P(S) - exp(epsilon) Q(S) equals
             Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu).
    Why:     the log-likelihood ratio at y is mu y - mu^2 / 2, so the best event is
             y > epsilon / mu + mu / 2; the two terms are its probabilities under P and Q.
    Source:  [BW18] Theorem 8.
    Checked: tests/loss/test_gaussian.py.
    """
    return chance_above(lambda: _curve(mu_squared, epsilon))


def _curve(mu_squared: Fraction, epsilon: Fraction) -> arb:
    mu, start = ball(mu_squared).sqrt(), ball(epsilon)
    threshold = start / mu + mu / 2
    return normal_tail(threshold - mu) - start.exp() * normal_tail(threshold)


def mu_squared_for(epsilon: object, delta: object) -> Fraction:
    """Return the greatest mu^2 whose Gaussian mechanism is (epsilon, delta)-DP, rounded down.

    The answer is a dyadic number of 63 bits; it is below the exact one by less than one part in
    2**58. Noise of deviation sensitivity / mu reaches the guarantee at any epsilon, also far above
    1, where the textbook formula fails.

    Claim:   the Gaussian mechanism with this mu^2 is (epsilon, delta)-DP.
    Why:     the curve of `delta_at` grows with mu, and its upper bound was seen to be at most
             delta at the number returned.
    Source:  [BW18] Theorem 8.
    Checked: tests/loss/test_gaussian.py.

    >>> float(mu_squared_for(1, 1e-6) ** -1) ** 0.5
    4.22467...
    """
    return _mu_squared_for(non_negative("epsilon", epsilon), _read_delta(delta))


@lru_cache(maxsize=1024)
def _mu_squared_for(epsilon: Fraction, delta: Fraction) -> Fraction:
    return last_dyadic(lambda mu_squared: delta_at(mu_squared, epsilon) <= delta)


def epsilon_at(mu_squared: object, delta: object) -> Fraction:
    """Return the least epsilon of a Gaussian mechanism at ``delta``, rounded up.

    Claim:   a mechanism with this mu^2 is (epsilon, delta)-DP for the epsilon returned.
    Why:     the curve of `delta_at` falls as epsilon grows, and its upper bound was seen to be at
             most delta at the number returned.
    Source:  [BW18] Theorem 8.
    Checked: tests/loss/test_gaussian.py.
    """
    return _epsilon_at(positive("mu_squared", mu_squared), _read_delta(delta))


def _read_delta(delta: object) -> Fraction:
    """Return a delta that the curve can reach: what is smaller is rounded up to 2**-4096."""
    chance = probability("delta", delta, zero=False)
    if chance < TINY:
        raise BadDeclaration("delta must be at least 2**-4096 (1e-1233), got a smaller one")
    return chance


@lru_cache(maxsize=1024)
def _epsilon_at(mu_squared: Fraction, delta: Fraction) -> Fraction:
    if delta_at(mu_squared, Fraction(0)) <= delta:
        return Fraction(0)
    return first_dyadic(lambda epsilon: delta_at(mu_squared, epsilon) <= delta)
