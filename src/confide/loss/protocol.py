"""The `Loss` base class: bounds on the privacy loss of one use of a mechanism.

A loss is a guarantee about the output distributions P and Q of every pair of neighboring databases,
in both orders. It is stored as exact fractions. Its curves are displayed as floats, and every float
is rounded up. Mechanisms state losses, `compose` adds them up, and filters charge for them.
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
"""A fraction, or infinity if there is no bound."""


class Loss:
    """The privacy loss of one use of a mechanism.

    The properties and methods that return a `Bound` are exact or rounded up; those that return a
    ``float`` give the same numbers for display, rounded up. Every subclass implements `renyi_above`
    and `delta_above`. It also overrides `epsilon` and `mu_squared` if it can bound them. Their
    default, infinity, claims nothing. Some losses can *fail*: with a small probability, they
    guarantee nothing.
    """

    __slots__ = ()

    @property
    def epsilon(self) -> Bound:
        """The epsilon of pure DP, which no log-ratio of output probabilities exceeds."""
        return math.inf

    @property
    def mu_squared(self) -> Bound:
        """The square of `mu`, the parameter of Gaussian differential privacy."""
        return math.inf

    @property
    def failure(self) -> Fraction:
        """An upper bound on the probability that this loss fails; 0 if it cannot fail."""
        return Fraction(0)

    @property
    def core(self) -> "Loss":
        """The loss if this one does not fail; this loss itself if it cannot fail."""
        return self

    def renyi_above(self, order: Fraction) -> Bound:
        """Return an upper bound on the Renyi divergence of order ``order``, which must exceed 1."""
        raise NotImplementedError

    def delta_above(self, epsilon: Fraction) -> Fraction:
        """Return an upper bound on delta at ``epsilon`` >= 0."""
        raise NotImplementedError

    def epsilon_above(self, delta: Fraction) -> Bound:
        """Return an upper bound on epsilon at ``delta`` > 0."""
        if self.delta_above(Fraction(0)) <= delta:
            return Fraction(0)
        found = first_dyadic(lambda epsilon: self.delta_above(epsilon) <= delta)
        return min(self.epsilon, found)

    @property
    def mu(self) -> float:
        """The parameter of Gaussian differential privacy, rounded up.

        No test distinguishes neighboring databases better than the best test distinguishes N(0, 1)
        from N(mu, 1). `mu` is infinite if no such number is known, or if the loss can fail, because
        no Gaussian curve covers a failure.
        """
        square = self.mu_squared
        if not isinstance(square, Fraction):
            return square
        with ctx.workprec(128):
            return float_above(ball(square).sqrt())

    def renyi(self, alpha: object) -> float:
        """Return an upper bound on the Renyi divergence of order ``alpha``."""
        return _float_above(self.renyi_above(read_order("alpha", alpha)))

    def delta(self, epsilon: object) -> float:
        """Return a delta for which one use is (epsilon, delta)-DP, rounded up."""
        return _float_above(self.delta_above(non_negative("epsilon", epsilon)))

    def epsilon_at(self, delta: object) -> float:
        """Return an epsilon for which one use is (epsilon, delta)-DP, rounded up."""
        target = probability("delta", delta)
        return _float_above(self.epsilon_above(target) if target else self.epsilon)


def _float_above(bound: Bound) -> float:
    return float_above(bound) if isinstance(bound, Fraction) else bound


def read_order(name: str, value: object) -> Fraction:
    """Return a valid order of a Renyi divergence as a fraction, or raise BadDeclaration."""
    allowed = "a finite number greater than 1"
    order = fraction(name, value, allowed)
    if order <= 1:
        raise BadDeclaration(f"`{name}` must be {allowed}; got {value!r}.")
    return order


def read_loss(name: str, value: object) -> Loss:
    """Return ``value``; raise BadDeclaration if it is not a loss."""
    if not isinstance(value, Loss):
        raise BadDeclaration(
            f"`{name}` must be a privacy loss such as `PureLoss(1)`; got {value!r}."
        )
    return value


class Unpriceable(Refusal):
    """No accountant can bound this loss; nothing was read or spent."""

    code = "unpriceable"
