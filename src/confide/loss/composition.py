"""The loss of several uses of mechanisms together, and of groups of units.

The bounds hold even if each mechanism is chosen after seeing earlier answers, as long as the losses
are fixed in advance. If the losses depend on answers too, use a filter.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from flint import arb

from confide.exact import ball, integer
from confide.lazy import lazy_module
from confide.loss import curves
from confide.loss.curves import ORDERS, delta_from_renyi, epsilon_from_renyi
from confide.loss.enclosure import bound_above
from confide.loss.kinds import (
    ApproximateLoss,
    BoundedRangeLoss,
    GaussianLoss,
    LaplaceLoss,
    PureLoss,
    RenyiLoss,
)
from confide.loss.protocol import Bound, Loss, Unpriceable, read_loss

if TYPE_CHECKING:
    from confide.loss import pld
else:
    pld = lazy_module("confide.loss.pld")

__all__ = [
    "ComposedLoss",
    "compose",
    "group",
    "repeat",
]

_MAX_TIMES = (1 << 63) - 1


def compose(losses: Iterable[Loss]) -> Loss:
    """Return the loss of several uses together, given the loss of each use, in any order.

    ``compose([x] * n)`` equals ``repeat(x, n)``. A composed loss counts as its parts. Without any
    losses, the result is the zero loss.

    >>> from confide.loss import PureLoss
    >>> compose([PureLoss(1), PureLoss(2)]).epsilon
    Fraction(3, 1)
    """
    return _gather((read_loss("losses", loss), 1) for loss in losses)


def repeat(loss: Loss, times: int) -> Loss:
    """Return the loss of ``times`` uses, each with the loss ``loss``."""
    count = integer("times", times, low=0, high=_MAX_TIMES)
    return _gather([(read_loss("loss", loss), count)])


def _gather(uses: Iterable[tuple[Loss, int]]) -> Loss:
    """Return the loss of all uses together, in the simplest form: merged if possible."""
    counts: Counter[Loss] = Counter()
    failure = Fraction(0)
    for loss, times in uses:
        failure += times * loss.failure
        for part, each in _parts(loss.core):
            counts[part] += times * each
    parts = _merge(counts)
    if failure == 0 and len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0]
    if 0 < failure < 1 and len(parts) == 1 and parts[0][1] == 1:
        return ApproximateLoss(parts[0][0], failure)
    return ComposedLoss(parts, min(failure, Fraction(1)))


def _parts(core: Loss) -> tuple[tuple[Loss, int], ...]:
    return core.parts if isinstance(core, ComposedLoss) else ((core, 1),)


def _merge(counts: Counter[Loss]) -> tuple[tuple[Loss, int], ...]:
    """Return sorted losses with their numbers of uses, after merging losses that add up exactly.

    These are Gaussian losses, and Renyi losses of the same order.
    """
    mu_squared = Fraction(0)
    renyi: dict[Fraction, Fraction] = {}
    merged: list[tuple[Loss, int]] = []
    for loss, times in counts.items():
        match loss:
            case GaussianLoss():
                mu_squared += times * loss.mu_squared
            case RenyiLoss():
                renyi[loss.order] = renyi.get(loss.order, Fraction(0)) + times * loss.divergence
            case _:
                merged.append((loss, times))
    merged += [(GaussianLoss(mu_squared), 1)] if mu_squared else []
    merged += [(RenyiLoss(order, total), 1) for order, total in renyi.items() if total]
    return tuple(sorted((use for use in merged if use[1]), key=_sort_key))


def _sort_key(use: tuple[Loss, int]) -> tuple[str, str]:
    return type(use[0]).__name__, repr(use[0])


@dataclass(frozen=True, slots=True)
class ComposedLoss(Loss):
    """The loss of several uses together, created by `compose` and `repeat`.

    ``parts`` contains each loss with the number of its uses, in sorted order. ``failure`` is the
    sum of all failures, at most 1. If it is above 0, `epsilon`, `mu`, and `renyi` are infinite.

    Claim:   epsilons, squares of mu, and Renyi divergences of the parts add up. Delta at epsilon,
             and epsilon at delta, are the smallest bounds that follow from these three sums, or
             from composing the parts as one batch in `confide.loss.pld`. Failures add up.
    Why:     each bound holds on its own, so the smallest one does. The union of the failing
             events has at most the sum of their probabilities.
    Source:  [DMNS06] for epsilon, [DRS22] for mu, [Mir17] for Renyi, [ZDW22] for the batch.
    Checked: tests/loss/test_composition.py, tests/loss/test_pld.py.
    """

    parts: tuple[tuple[Loss, int], ...]
    failure: Fraction = field(default=Fraction(0))

    @property
    def epsilon(self) -> Bound:
        return math.inf if self.failure else self._sum_epsilon()

    @property
    def mu_squared(self) -> Bound:
        return math.inf if self.failure else self._sum_mu_squared()

    @property
    def core(self) -> Loss:
        return _gather(self.parts)

    def renyi_above(self, order: Fraction) -> Bound:
        return math.inf if self.failure else self._sum_renyi(order)

    def delta_above(self, epsilon: Fraction) -> Fraction:
        found = min(self._deltas(epsilon)) if self.parts else Fraction(0)
        return self.failure + (1 - self.failure) * found

    def epsilon_above(self, delta: Fraction) -> Bound:
        if delta < self.failure:
            return math.inf
        rest = (delta - self.failure) / (1 - self.failure)
        if not rest or not self.parts:
            return self._sum_epsilon()
        return min(self._epsilons(rest))

    def _deltas(self, epsilon: Fraction) -> Iterable[Fraction]:
        total, mu_squared = self._sum_epsilon(), self._sum_mu_squared()
        if isinstance(total, Fraction):
            yield curves.geometric_delta(total, 1, epsilon)
            if epsilon >= total:
                return
        if isinstance(mu_squared, Fraction):
            yield curves.gaussian_delta(mu_squared, epsilon)
        for order, divergence in self._curve():
            yield delta_from_renyi(order, divergence, epsilon)
        yield pld.delta_above(self.parts, epsilon)

    def _epsilons(self, delta: Fraction) -> Iterable[Bound]:
        total, mu_squared = self._sum_epsilon(), self._sum_mu_squared()
        if isinstance(total, Fraction):
            yield PureLoss(total).epsilon_above(delta)
        if isinstance(mu_squared, Fraction):
            yield curves.gaussian_epsilon(mu_squared, delta)
        for order, divergence in self._curve():
            yield epsilon_from_renyi(order, divergence, delta)
        yield pld.epsilon_above(self.parts, delta)

    def _curve(self) -> Iterable[tuple[Fraction, Fraction]]:
        own = {loss.order for loss, _ in self.parts if isinstance(loss, RenyiLoss)}
        for order in (*ORDERS, *sorted(own)):
            divergence = self._sum_renyi(order)
            if isinstance(divergence, Fraction):
                yield order, divergence

    def _sum_epsilon(self) -> Bound:
        return sum((times * loss.epsilon for loss, times in self.parts), Fraction(0))

    def _sum_mu_squared(self) -> Bound:
        return sum((times * loss.mu_squared for loss, times in self.parts), Fraction(0))

    def _sum_renyi(self, order: Fraction) -> Bound:
        return sum((times * loss.renyi_above(order) for loss, times in self.parts), Fraction(0))


_MAX_GROUP_SIZE = 1 << 31


def group(loss: Loss, size: int) -> Loss:
    """Return the loss of ``size`` units together, if one unit has the loss ``loss``.

    Claim:   for k = ``size`` units, epsilon becomes k epsilon for a pure, Laplace, or
             bounded-range loss; the steps of a Laplace loss become k steps, and mu of a Gaussian
             one becomes k mu. In a composed loss, this happens to each part. With a failure, the
             group has k epsilon and the failure probability
             failure (exp(k epsilon) - 1) / (exp(epsilon) - 1), or k failure if epsilon is 0.
    Why:     go from one database to the other in k steps, each between neighboring databases.
             Over these steps, log-ratios add up (pure), and so do the lengths of the intervals that
             contain them (bounded range) and the changes of the input (Laplace). For Gaussian
             losses, the trade-off functions are chained: the power of a test at one step is its
             false alarm rate at the next, so the shifts mu add up. With a failure, the
             probability P_k of an event after k steps is at most exp(epsilon) P_(k-1) + failure;
             apply this k times.
    Source:  [DR14] Theorem 2.2, [DRS22]; docs/proofs/loss-filters.md.
    Checked: tests/loss/test_group_losses.py.

    Raises:
        Unpriceable: no bound on the loss of a group is known for this loss, or the bound
            guarantees nothing.
    """
    units = integer("size", size, low=1, high=_MAX_GROUP_SIZE)
    if units == 1:
        return read_loss("loss", loss)
    if read_loss("loss", loss).failure:
        return _group_approximate(loss, units)
    if isinstance(loss.core, ComposedLoss):
        return compose(repeat(group(part, units), times) for part, times in loss.core.parts)
    return _group_one(loss.core, units)


def _group_one(loss: Loss, units: int) -> Loss:
    match loss:
        case PureLoss(epsilon):
            return PureLoss(units * epsilon)
        case LaplaceLoss(epsilon, steps):
            return LaplaceLoss(units * epsilon, units * steps)
        case BoundedRangeLoss(epsilon):
            return BoundedRangeLoss(units * epsilon)
        case GaussianLoss(mu_squared):
            return GaussianLoss(units**2 * mu_squared)
        case _:
            raise Unpriceable(
                f"The loss of a group of units is not known for {loss!r}. Use another mechanism."
            )


def _group_approximate(loss: Loss, units: int) -> Loss:
    epsilon = loss.core.epsilon
    if not isinstance(epsilon, Fraction):
        raise Unpriceable(
            "If a guarantee can fail, the loss of a group of units is known for pure losses only. "
            f"Use another mechanism; got {loss!r}."
        )
    failure = loss.failure * units
    if epsilon:
        failure = loss.failure * bound_above(lambda: _growth(epsilon, units))
    if failure >= 1:
        raise Unpriceable(
            f"For a group of {units} units, {loss!r} guarantees nothing. Use a smaller group or a "
            "smaller delta."
        )
    return ApproximateLoss(PureLoss(units * epsilon) if epsilon else compose([]), failure)


def _growth(epsilon: Fraction, units: int) -> arb:
    return ball(units * epsilon).expm1() / ball(epsilon).expm1()
