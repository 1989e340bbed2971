"""Divide one cost among queries planned together, and among the columns of one query."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from confide.loss import Loss, PureLoss, Share

__all__ = ["allocate", "split_loss"]

MAX_WEIGHT: Final = 3


def allocate(errors: Sequence[float | None], total: Share, power: int) -> tuple[Share, ...]:
    """Return a share for each question, of which the weighted squared errors add up to the least.

    ``errors`` are the weighted squared errors that equal shares would give, None where they depend
    on the data; ``power`` says how they fall with a share s: as s**-power.

    Law:     questions without a known error get an equal share each; the others divide the rest,
             in proportion to errors ** (1 / (power + 1)).
    Claim:   the shares add up to at most ``total``; among all divisions of their part, the one of
             the questions with known errors makes the sum of these errors least, up to rounding.
    Why:     the sum of a_i * s_i**-power under a fixed sum of s_i is convex, and by Lagrange least
             where power * a_i * s_i**-(power + 1) is the same for all i. Shares are rounded down.
    Checked: tests/plan/test_allocation.py.

    >>> [str(share.fraction) for share in allocate([1.0, 8.0], Share.floor("30%"), power=2)]
    ['1/10', '1/5']
    """
    known = [error for error in errors if error is not None]
    equal = Share(total.units // len(errors))
    largest = max(known, default=0.0)
    if not largest:
        return (equal,) * len(errors)
    rest = total.units - equal.units * (len(errors) - len(known))
    roots = [_root(error / largest, power) for error in known]
    whole = sum(roots)
    parts = iter([Share(math.floor(rest * root / whole)) for root in roots])
    return tuple(equal if error is None else next(parts) for error in errors)


def _root(ratio: float, power: int) -> Fraction:
    """Return ratio ** (1 / (power + 1)), of at least a thousandth: every question gets a share."""
    return Fraction(max(ratio ** (1 / (power + 1)), 1e-3)).limit_denominator(10**9)


def split_loss(
    totals: int, levels: Sequence[Fraction], granted: Loss
) -> tuple[Fraction, tuple[Fraction, ...]]:
    """Return the part of a loss that all totals together take, and the part of each quantile.

    Law:     a total weighs 1, a quantile of level q weighs max(q, 1 - q) / min(q, 1 - q), at most
             3: under a pure loss as it is, otherwise squared. Parts are in proportion to weights.
    Claim:   the parts add up to 1, if there is a total or a quantile.
    Why:     noise moves the rank of a quantile in proportion to max(q, 1 - q), and only a part
             min(q, 1 - q) of the rows lies beyond it. The weight is the error relative to these
             rows, compared with a median's. Errors fall with a part of epsilon, and with the root
             of a part of mu^2 or of a divergence. The limit leaves enough for the other columns:
             with it, a 90% quantile and a standard deviation next to it are about equally far off.
    Checked: tests/plan/test_allocation.py, bench/groups.py.

    >>> [str(part) for part in split_loss(4, [Fraction(9, 10)], PureLoss(1))[1]]
    ['3/7']
    """
    power = 1 if isinstance(granted, PureLoss) else 2
    odds = (max(level, 1 - level) / min(level, 1 - level) for level in levels)
    weights = [min(one, Fraction(MAX_WEIGHT)) ** power for one in odds]
    whole = totals + sum(weights) or Fraction(1)
    return Fraction(totals) / whole, tuple(weight / whole for weight in weights)
