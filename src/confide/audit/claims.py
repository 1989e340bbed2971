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

    P and Q are the distributions of outputs on two neighboring datasets, in either order. With
    EPSILON: P(S) <= exp(value) Q(S) + failure. With MU: except with probability ``failure``,
    P(S) <= Phi(value + Phi^-1(Q(S))).
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

        Claim:   no mechanism with a smaller value and this failure has such an event S.
        Why:     for epsilon, the inequality itself. For mu, P and Q are mixtures of arbitrary
                 distributions, with weight failure, and a pair that satisfies the curve. Under that
                 pair, S has probabilities of at least P(S) - failure and at most
                 Q(S) / (1 - failure). Solving the curve for its parameter gives
                 Phi^-1(first) - Phi^-1(second).
        Source:  [DR14] for epsilon, [DRS22] for mu.
        Checked: tests/audit/test_claims.py.
        """
        likely = above - self.failure
        if self.currency is Currency.EPSILON:
            return math.log(likely / below) if likely > 0 and below > 0 else -math.inf
        unlikely = below / (1.0 - self.failure)
        if not 0 < likely < 1 or not 0 < unlikely < 1:
            return -math.inf
        return NORMAL.inv_cdf(likely) - NORMAL.inv_cdf(unlikely)

    def __str__(self) -> str:
        except_with = f", delta {self.failure:.3g}" if self.failure else ""
        return f"{self.currency} {self.value:.4g}{except_with}"


def claim_of(loss: Loss) -> Claim:
    """Return a loss as a claim that events can disprove.

    A loss with neither an epsilon nor a mu becomes its epsilon at delta = 0.001.
    """
    core, failure = loss.core, float_above(loss.failure)
    if isinstance(core, GaussianLoss):
        return Claim(Currency.MU, core.mu, failure)
    if math.isfinite(core.epsilon):
        return Claim(Currency.EPSILON, float_above(Fraction(core.epsilon)), failure)
    found = loss.epsilon_at(FALLBACK_DELTA)
    if not math.isfinite(found):
        raise BadDeclaration(
            f"{loss!r} claims nothing that samples could disprove; a claim needs a finite epsilon "
            f"at delta {FALLBACK_DELTA}"
        )
    return Claim(Currency.EPSILON, found, FALLBACK_DELTA)
