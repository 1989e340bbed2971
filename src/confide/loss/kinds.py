"""The kinds of losses that mechanisms state: pure, Laplace, bounded-range, Gaussian, and others.

P and Q are the output distributions on two neighboring databases. A *pair* is such a (P, Q); the
*worst pair* of a loss has the largest curves that the loss allows.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

from flint import arb

from confide.exact import Number, ball, integer, positive, probability
from confide.loss import curves
from confide.loss.curves import delta_from_renyi, epsilon_from_renyi
from confide.loss.enclosure import probability_above
from confide.loss.protocol import Bound, Loss, read_loss, read_order

__all__ = [
    "ApproximateLoss",
    "BoundedRangeLoss",
    "GaussianLoss",
    "LaplaceLoss",
    "PureLoss",
    "RenyiLoss",
]

_MAX_STEPS = (1 << 63) - 1


@dataclass(frozen=True, slots=True, init=False)
class PureLoss(Loss):
    """The loss of an epsilon-DP mechanism about which nothing more is known.

    Law:     the worst pair is randomized response, P = (p, 1 - p) and Q = (1 - p, p) with
             p = exp(epsilon) / (1 + exp(epsilon)).
    Claim:   every epsilon-DP mechanism has at most the delta, Renyi divergence and mu of this pair;
             mu = 2 Phi^-1(p).
    Why:     every epsilon-DP pair is a post-processing of this one. Its trade-off curve has a
             single inner corner (1 - p, 1 - p), and the trade-off curve of mu passes through it.
    Source:  [KOV17] for the reduction, [DRS22] for mu.
    Checked: tests/loss/test_kinds.py, docs/proofs/loss-laplace.md.

    >>> PureLoss(1).delta(0.5)
    0.28764...
    """

    epsilon: Fraction = field()

    def __init__(self, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", epsilon))

    @property
    def mu_squared(self) -> Fraction:
        return curves.mu_squared_of(self.epsilon, 1)

    def renyi_above(self, order: Fraction) -> Fraction:
        return curves.renyi_at(self.epsilon, 1, order)

    def delta_above(self, epsilon: Fraction) -> Fraction:
        return curves.geometric_delta(self.epsilon, 1, epsilon)


@dataclass(frozen=True, slots=True, init=False)
class LaplaceLoss(Loss):
    """The loss of releasing one integer with discrete Laplace noise.

    One unit changes the integer by at most ``steps``. If one unit changes several integers that are
    released together, use `PureLoss`, with an epsilon that covers the sum of these changes.

    Law:     P(Z = z) is proportional to exp(-|z| / b) over the integers, b = steps / epsilon; the
             input changes by an integer of at most ``steps``.
    Claim:   the curves of Z against Z + steps bound those of every smaller shift.
    Why:     the distribution is log-concave, so thresholds are the best tests, and a threshold
             detects a larger shift at least as often as a smaller one.
    Source:  [GRS12] for the distribution, [DRS22] for mu; docs/proofs/loss-laplace.md.
    Checked: tests/loss/test_kinds.py, tests/loss/test_geometric_curve.py.

    >>> LaplaceLoss(1, 1000).mu < PureLoss(1).mu
    True
    """

    epsilon: Fraction = field()
    steps: int

    def __init__(self, epsilon: Number, steps: int) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", epsilon))
        object.__setattr__(self, "steps", integer("steps", steps, low=1, high=_MAX_STEPS))

    @property
    def mu_squared(self) -> Fraction:
        return curves.mu_squared_of(self.epsilon, self.steps)

    def renyi_above(self, order: Fraction) -> Fraction:
        return curves.renyi_at(self.epsilon, self.steps, order)

    def delta_above(self, epsilon: Fraction) -> Fraction:
        return curves.geometric_delta(self.epsilon, self.steps, epsilon)


@dataclass(frozen=True, slots=True, init=False)
class BoundedRangeLoss(Loss):
    """The loss of a selection whose log-ratios ln(P / Q) lie in some interval of length epsilon.

    Law:     an example is the exponential mechanism that is epsilon-DP by the usual analysis.
    Claim:   mu = 2 Phi^-1(1 / (1 + exp(-epsilon / 2))); Renyi divergence at most
             order epsilon^2 / 8; delta(x) = (1 - exp((x - epsilon) / 2))^2 / (1 - exp(-epsilon))
             for x < epsilon, else 0.
    Why:     let the log-ratios be in [t - epsilon, t]. A pair whose log-ratio takes only the two
             ends of this interval is at least as easy to distinguish. The delta of that two-point
             pair is greatest at t = (x + epsilon) / 2, its mu at t = epsilon / 2. The Renyi bound
             is Hoeffding's lemma.
    Source:  [DDR20] for two-point pairs, [CR21] for Renyi; docs/proofs/loss-bounded-range.md.
    Checked: tests/loss/test_bounded_range.py.
    """

    epsilon: Fraction = field()

    def __init__(self, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", epsilon))

    @property
    def mu_squared(self) -> Fraction:
        return curves.mu_squared_of(self.epsilon / 2, 1)

    def renyi_above(self, order: Fraction) -> Fraction:
        hoeffding = order * self.epsilon**2 / 8
        return min(hoeffding, curves.renyi_at(self.epsilon, 1, order))

    def delta_above(self, epsilon: Fraction) -> Fraction:
        if epsilon >= self.epsilon:
            return Fraction(0)

        def curve() -> arb:
            rise = ball((epsilon - self.epsilon) / 2).expm1()
            return rise * rise / -(-ball(self.epsilon)).expm1()

        return probability_above(curve)


@dataclass(frozen=True, slots=True, init=False)
class GaussianLoss(Loss):
    """The loss of Gaussian noise with standard deviation sensitivity / mu.

    Law:     the worst pair is N(0, 1) against N(mu, 1).
    Claim:   the Renyi divergence of each order is at most order mu^2 / 2, and delta is at most that
             of `confide.loss.curves.gaussian_delta`.
    Why:     both are exact for this pair, and rounding or other post-processing only lowers them.
    Source:  [BW18] Theorem 8, [Mir17] Proposition 7, [DRS22].
    Checked: tests/loss/test_kinds.py, tests/loss/test_gaussian_curve.py.
    """

    mu_squared: Fraction = field()

    def __init__(self, mu_squared: Number) -> None:
        object.__setattr__(self, "mu_squared", positive("mu_squared", mu_squared))

    def renyi_above(self, order: Fraction) -> Fraction:
        return order * self.mu_squared / 2

    def delta_above(self, epsilon: Fraction) -> Fraction:
        return curves.gaussian_delta(self.mu_squared, epsilon)

    def epsilon_above(self, delta: Fraction) -> Fraction:
        return curves.gaussian_epsilon(self.mu_squared, delta)


@dataclass(frozen=True, slots=True, init=False)
class RenyiLoss(Loss):
    """A bound on the Renyi divergence at one order only.

    Claim:   at a smaller order the divergence is not larger; at a larger order no bound is known.
    Why:     Renyi divergence never decreases in its order.
    Source:  [Mir17] Proposition 9; [CKS20] Proposition 12 for delta.
    Checked: tests/loss/test_kinds.py.
    """

    order: Fraction
    divergence: Fraction

    def __init__(self, order: Number, divergence: Number) -> None:
        object.__setattr__(self, "order", read_order("order", order))
        object.__setattr__(self, "divergence", positive("divergence", divergence))

    def renyi_above(self, order: Fraction) -> Bound:
        return self.divergence if order <= self.order else math.inf

    def delta_above(self, epsilon: Fraction) -> Fraction:
        return delta_from_renyi(self.order, self.divergence, epsilon)

    def epsilon_above(self, delta: Fraction) -> Fraction:
        return epsilon_from_renyi(self.order, self.divergence, delta)


@dataclass(frozen=True, slots=True, init=False)
class ApproximateLoss(Loss):
    """The guarantee of ``inner``, except with probability ``failure`` (as in key selection).

    If ``inner`` can fail too, ``failure`` becomes the probability that either failure happens.

    Claim:   delta(epsilon) is at most failure + (1 - failure) times that of ``inner``.
    Why:     P and Q are mixtures, with the same weight failure, of a pair that satisfies the
             guarantee and an arbitrary pair; the hockey-stick divergence is jointly convex and
             at most 1.
    Source:  [KOV17]: an (epsilon, delta)-DP pair is such a mixture of a pure one.
    Checked: tests/loss/test_kinds.py.
    """

    inner: Loss
    failure: Fraction = field()

    def __init__(self, inner: Loss, failure: Number) -> None:
        kept = 1 - probability("failure", failure)
        object.__setattr__(self, "inner", read_loss("inner", inner).core)
        object.__setattr__(self, "failure", 1 - kept * (1 - inner.failure))

    @property
    def epsilon(self) -> Bound:
        return math.inf if self.failure else self.inner.epsilon

    @property
    def mu_squared(self) -> Bound:
        return math.inf if self.failure else self.inner.mu_squared

    @property
    def core(self) -> Loss:
        return self.inner

    def renyi_above(self, order: Fraction) -> Bound:
        return math.inf if self.failure else self.inner.renyi_above(order)

    def delta_above(self, epsilon: Fraction) -> Fraction:
        return self.failure + (1 - self.failure) * self.inner.delta_above(epsilon)

    def epsilon_above(self, delta: Fraction) -> Bound:
        if delta < self.failure:
            return math.inf
        rest = (delta - self.failure) / (1 - self.failure)
        return self.inner.epsilon_above(rest) if rest else self.inner.epsilon
