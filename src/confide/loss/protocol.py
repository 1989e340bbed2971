"""`Loss` protocol: what every loss can tell about one use of a mechanism.

A loss is a promise about every pair of neighboring databases, in both orders. It is kept in
fractions. Its curves are shown as floats, and every float is rounded up.
"""

import math
from fractions import Fraction

from flint import ctx

from confide.errors import BadDeclaration, Refusal
from confide.exact import ball, float_above, fraction, non_negative, probability
from confide.loss.enclosure import first_dyadic

__all__ = [
    "Bound",
    "Loss",
    "Unpriceable",
    "read_loss",
    "read_order",
]

Bound = Fraction | float
"""A fraction, or infinity where nothing can be promised."""


class Loss:
    """What one use of a mechanism costs.

    The properties and methods that return a `Bound` are exact or rounded up; those that return a
    float show the same numbers. A kind of loss replaces what it can promise; the rest stays at
    infinity, which promises nothing.
    """

    __slots__ = ()

    @property
    def epsilon(self) -> Bound:
        """The pure guarantee: log-ratios of probabilities never pass it."""
        return math.inf

    @property
    def mu_squared(self) -> Bound:
        """The square of the Gaussian guarantee."""
        return math.inf

    @property
    def failure(self) -> Fraction:
        """The probability with which the promise of `core` does not hold."""
        return Fraction(0)

    @property
    def core(self) -> "Loss":
        """The promise that holds except with probability `failure`."""
        return self

    def renyi_above(self, order: Fraction) -> Bound:
        """Bound the Renyi divergence of an ``order`` above 1."""
        raise NotImplementedError

    def delta_above(self, epsilon: Fraction) -> Fraction:
        """Bound the delta that goes with ``epsilon`` >= 0."""
        raise NotImplementedError

    def epsilon_above(self, delta: Fraction) -> Bound:
        """Bound the epsilon that goes with ``delta`` > 0."""
        if self.delta_above(Fraction(0)) <= delta:
            return Fraction(0)
        found = first_dyadic(lambda epsilon: self.delta_above(epsilon) <= delta)
        return min(self.epsilon, found)

    @property
    def mu(self) -> float:
        """Gaussian differential privacy: no test tells neighbours apart better than N(mu, 1).

        Infinite where a part of the promise may fail, for no Gaussian curve covers that.
        """
        square = self.mu_squared
        if not isinstance(square, Fraction):
            return square
        with ctx.workprec(128):
            return float_above(ball(square).sqrt())

    def renyi(self, alpha: object) -> float:
        """Return the Renyi divergence of order ``alpha``, rounded up."""
        return _show(self.renyi_above(read_order("alpha", alpha)))

    def delta(self, epsilon: object) -> float:
        """Return a delta for which one use is (epsilon, delta)-DP, rounded up."""
        return _show(self.delta_above(non_negative("epsilon", epsilon)))

    def epsilon_at(self, delta: object) -> float:
        """Return an epsilon for which one use is (epsilon, delta)-DP, rounded up."""
        target = probability("delta", delta)
        return _show(self.epsilon_above(target) if target else self.epsilon)


def _show(bound: Bound) -> float:
    return float_above(bound) if isinstance(bound, Fraction) else bound


def read_order(name: str, value: object) -> Fraction:
    """Return the order of a Renyi divergence, or refuse it by its argument's name."""
    allowed = "a finite number above 1"
    order = fraction(name, value, allowed)
    if order <= 1:
        raise BadDeclaration(f"{name} must be {allowed}, got {value!r}")
    return order


def read_loss(name: str, value: object) -> Loss:
    """Return ``value`` if it is a loss, or refuse it by its argument's name."""
    if not isinstance(value, Loss):
        raise BadDeclaration(f"{name} must be a loss such as PureLoss(1), got {value!r}")
    return value


class Unpriceable(Refusal):
    """No accountant here can bound this loss; nothing was read or spent."""

    code = "unpriceable"
