"""How one cost is divided among questions that are planned together."""

import math
from collections.abc import Sequence
from fractions import Fraction

from confide.loss import Share

__all__ = ["allocate"]


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
