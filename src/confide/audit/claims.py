"""What a mechanism claims, and how much of it two probabilities disprove."""

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
    """In which number a loss is claimed."""

    EPSILON = "epsilon"
    MU = "mu"


@dataclass(frozen=True, slots=True)
class Claim:
    """No event is likelier on one of two neighbours than on the other by more than this.

    With EPSILON: P(S) <= exp(value) Q(S) + failure. With MU: except with probability ``failure``,
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
        """Return the claim of mu-Gaussian differential privacy, except with a failure."""
        exact = non_negative("mu", value)
        return cls(Currency.MU, float_above(exact), float_above(probability("failure", failure)))

    def disprove(self, above: float, below: float) -> float:
        """Return the value that P(S) >= ``above`` and Q(S) <= ``below`` leave no claim under.

        Claim:   a mechanism of a smaller value, with this failure, has no such event.
        Why:     epsilon: by the inequality itself. Mu: P and Q are mixtures, with weight failure
                 on anything, of a pair that keeps the curve; its probabilities of S are at least
                 P(S) - failure and at most Q(S) / (1 - failure), and solving the curve for its
                 parameter gives Phi^-1(first) - Phi^-1(second).
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
    """Return a loss as the claim that events can disprove.

    A loss that is known neither as an epsilon nor as a mu is taken at delta = 0.001.
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
