"""What a loss promises to several people together."""

from fractions import Fraction

from flint import arb

from confide.exact import ball, whole
from confide.loss.composition import ComposedLoss, compose, repeat
from confide.loss.enclosure import bound_above
from confide.loss.kinds import (
    ApproximateLoss,
    BoundedRangeLoss,
    GaussianLoss,
    LaplaceLoss,
    PureLoss,
)
from confide.loss.protocol import Loss, read_loss
from confide.loss.refusals import Unpriceable

__all__ = ["group"]

_MOST_PEOPLE = 1 << 31


def group(loss: Loss, size: int) -> Loss:
    """Return the loss that ``size`` units face together when one of them faces ``loss``.

    Claim:   k units: pure k epsilon, range k epsilon, Laplace k steps, Gaussian k mu; with a
             failure, (k epsilon, failure (exp(k epsilon) - 1) / (exp(epsilon) - 1)).
    Why:     walk from one database to the other through k neighbours. Log-ratios, and the lengths
             of the intervals they lie in, add up; moves of an input add up; a test of power
             1 - beta is the next step's false alarm, and two Gaussian shifts make one; an event
             is reached through P_k <= exp(epsilon) P_(k-1) + failure, k times over.
    Source:  [DR14] Theorem 2.2, [DRS22]; docs/proofs/loss-filters.md.
    Checked: tests/loss/test_groups.py.

    Raises:
        Unpriceable: nothing useful is known about groups for this loss.
    """
    people = whole("size", size, low=1, high=_MOST_PEOPLE)
    if people == 1:
        return read_loss("loss", loss)
    if read_loss("loss", loss).failure:
        return _group_approximate(loss, people)
    if isinstance(loss.core, ComposedLoss):
        return compose(repeat(group(part, people), times) for part, times in loss.core.parts)
    return _group_one(loss.core, people)


def _group_one(loss: Loss, people: int) -> Loss:
    match loss:
        case PureLoss(epsilon):
            return PureLoss(people * epsilon)
        case LaplaceLoss(epsilon, steps):
            return LaplaceLoss(people * epsilon, people * steps)
        case BoundedRangeLoss(epsilon):
            return BoundedRangeLoss(people * epsilon)
        case GaussianLoss(mu_squared):
            return GaussianLoss(people**2 * mu_squared)
        case _:
            raise Unpriceable(f"no bound for a group is known for {loss!r}; use another mechanism")


def _group_approximate(loss: Loss, people: int) -> Loss:
    epsilon = loss.core.epsilon
    if not isinstance(epsilon, Fraction):
        raise Unpriceable(f"a group of {people} needs a pure core where a failure is, got {loss!r}")
    failure = loss.failure * people
    if epsilon:
        failure = loss.failure * bound_above(lambda: _growth(epsilon, people))
    if failure >= 1:
        raise Unpriceable(
            f"a group of {people} has no guarantee left under {loss!r}; take a smaller group, or a "
            "smaller delta"
        )
    return ApproximateLoss(PureLoss(people * epsilon) if epsilon else compose([]), failure)


def _growth(epsilon: Fraction, people: int) -> arb:
    return ball(people * epsilon).expm1() / ball(epsilon).expm1()
