"""Privacy claims of mechanisms, and the values that two probabilities disprove."""

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from statistics import NormalDist
from typing import Final

from confide.errors import BadDeclaration
from confide.exact import Number, float_above, non_negative, probability
from confide.loss import GaussianLoss, Loss

__all__ = ["Claim", "Currency", "claim_of"]

NORMAL: Final = NormalDist()
FALLBACK_DELTA: Final = 1e-3


class Currency(StrEnum):
    """The parameter in which a privacy loss is claimed."""

    EPSILON = "epsilon"
    MU = "mu"


@dataclass(frozen=True, slots=True)
class Claim:
    """A bound on how much more probable any event S is under P than under Q.

    P and Q are the distributions of outputs on two neighboring datasets, in either order. For
    EPSILON, the claim is P(S) <= exp(value) Q(S) + failure. For MU, it is that
    P(S) <= Phi(value + Phi^-1(Q(S))), except with probability ``failure``.
    """

    currency: Currency
    value: float
    failure: float = 0.0

    @classmethod
    def epsilon(cls, value: Number, delta: Number = 0) -> "Claim":
        """Return the claim of (epsilon, delta)-differential privacy."""
        exact = non_negative("epsilon", value)
        return cls(Currency.EPSILON, float_above(exact), float_above(probability("delta", delta)))

    @classmethod
    def mu(cls, value: Number, failure: Number = 0) -> "Claim":
        """Return the claim of mu-Gaussian differential privacy, except with probability failure."""
        exact = non_negative("mu", value)
        return cls(Currency.MU, float_above(exact), float_above(probability("failure", failure)))

    def disprove(self, above: float, below: float) -> float:
        """Return the smallest value consistent with P(S) >= ``above`` and Q(S) <= ``below``.

        If the two bounds rule out no value, or this cannot be computed, return -infinity.

        Claim:   no mechanism with a smaller value and this failure has such an event S.
        Why:     for epsilon, the inequality itself. For mu, P and Q are each a mixture of two
                 distributions: an arbitrary one with weight ``failure``, and one that satisfies the
                 inequality without failure. Under the latter, S has a probability of at least
                 first = P(S) - failure on the side of P, and of at most
                 second = Q(S) / (1 - failure) on the side of Q. Solving the inequality for the
                 value gives Phi^-1(first) - Phi^-1(second).
        Source:  [DR14] for epsilon, [DRS22] for mu.
        Checked: tests/audit/test_claims.py.
        """
        first = above - self.failure
        if self.currency is Currency.EPSILON:
            return math.log(first / below) if first > 0 and below > 0 else -math.inf
        second = below / (1.0 - self.failure)
        if not 0 < first < 1 or not 0 < second < 1:
            return -math.inf
        return NORMAL.inv_cdf(first) - NORMAL.inv_cdf(second)

    def __str__(self) -> str:
        except_with = f", delta {self.failure:.3g}" if self.failure else ""
        return f"{self.currency} {self.value:.4g}{except_with}"


def claim_of(loss: Loss) -> Claim:
    """Return a loss as a claim that events can disprove.

    If the loss has neither a mu nor a finite epsilon, the claim is its epsilon at delta = 0.001.
    """
    core, failure = loss.core, float_above(loss.failure)
    if isinstance(core, GaussianLoss):
        return Claim(Currency.MU, core.mu, failure)
    if math.isfinite(core.epsilon):
        return Claim(Currency.EPSILON, float_above(Fraction(core.epsilon)), failure)
    found = loss.epsilon_at(FALLBACK_DELTA)
    if not math.isfinite(found):
        raise BadDeclaration(
            f"Samples cannot disprove {loss!r}. The loss must have a finite epsilon at delta "
            f"{FALLBACK_DELTA}."
        )
    return Claim(Currency.EPSILON, found, FALLBACK_DELTA)
