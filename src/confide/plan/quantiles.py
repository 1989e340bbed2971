"""How a quantile is chosen: which counts are read, and three choices that its loss pays for.

Rows are counted by cell. A choice weighs each cell by how near its rank is to a wanted one; ranks
are measured in steps of which one row is 2b, for a quantile of level a/b.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from confide.errors import UnsupportedQuery
from confide.loss import BoundedRangeLoss, Loss
from confide.mechanisms import Exponential, Neighbours
from confide.plan.cells import Cells
from confide.plan.grants import find_epsilon, take_part
from confide.query.tree import Expression

__all__ = ["End", "Histogram", "Quantile", "plan_quantile", "read_level"]

MOST_PARTS: Final = 10**6
VALUE_PART: Final = Fraction(4, 5)
END_PART: Final = Fraction(1, 10)
MISS: Final = 0.025
MARGIN: Final = Fraction(3, 2)
UNSEEN: Final = math.log(4_000)
EXTREME: Final = Fraction(1, 3)
LARGEST_SHIFT: Final = 2**60
POINTS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Histogram:
    """Rows of a group for which ``where`` holds, counted by the cell of a non-NULL argument."""

    argument: Expression
    where: Expression | None
    cells: Cells


@dataclass(frozen=True, slots=True)
class End:
    """The choice of one end of an interval: at a rank so many steps outside that of the value.

    ``edge`` keeps it so many steps away from the far end of all rows, where a level is extreme.
    """

    choice: Exponential
    shift: int
    edge: int | None


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile of level a/b of the rows of one histogram, with both ends of its interval.

    Law:     let L rows lie below a cell, m in it, and n in all. The value is a cell, with a
             probability in proportion to its weight times exp(-rate * gap), where gap is the
             distance of the rank r = 2a(n - 1) + b from [2bL, 2b(L + m)]. The low end is chosen
             likewise among the cells up to the value's and the end of the range, which weighs 39
             times as much as all cells: at the rank r - shift, and at most 2bn - edge. The high
             end mirrors it.
    Claim:   over all groups together each choice has log-ratios within an interval of length
             epsilon, whichever rows a unit has; so the three cost what was granted.
    Why:     one row more moves r by 2a, and by d = 2a or 2b where an edge counts; the gap of a cell
             then moves by at most d if the row is above it, by 2b - d if below, and by the larger
             of the two if inside. So all gaps of a group move within an interval of twice
             max(d, 2b - d) for each row, the sum over groups of a unit's rows is at most its
             limit, and what log-ratios of independent choices may span adds up. A row replaced
             within a group leaves n, and moves gaps by at most 2b either way; when it goes from
             one group to another, both move. The ends are chosen after the value is released.
    Source:  [MT07], [DDR20] for the bounded range; [Smi11] for quantiles; docs/proofs/quantiles.md.
    Checked: tests/plan/test_quantiles.py (all log-ratios on random neighbours).
    """

    histogram: int
    level: Fraction
    choice: Exponential
    low: End
    high: End


def read_level(level: Fraction | None) -> Fraction:
    """Return a quantile's level as a fraction with a short denominator, or refuse it."""
    near = (level or Fraction(0)).limit_denominator(MOST_PARTS)
    if 0 < near < 1:
        return near
    shown = float(level or 0)
    raise UnsupportedQuery(
        f"a quantile of level {shown:g} is a single row's value; ask for one between 0.000001 and "
        "0.999999, such as QUANTILE_CONT(x, 0.01) or QUANTILE_CONT(x, 0.99)"
    )


def plan_quantile(
    histogram: int,
    level: Fraction,
    rows: int,
    neighbours: Neighbours,
    granted: Loss,
    *,
    is_grouped: bool,
) -> Quantile:
    """Return how a quantile of a histogram is chosen, at the cost of ``granted``.

    ``rows`` is how many rows a unit may have.
    """
    top, bottom = level.numerator, level.denominator
    common = 2 * max(top, bottom - top)
    value = find_epsilon(take_part(granted, VALUE_PART), BoundedRangeLoss)
    end = find_epsilon(take_part(granted, END_PART), BoundedRangeLoss)
    largest = 2 * bottom

    def make_choice(per_row: int, epsilon: Fraction) -> Exponential:
        if neighbours is Neighbours.ADD_REMOVE:
            return Exponential(per_row * rows, epsilon)
        return Exponential((2 * per_row if is_grouped else largest) * rows, epsilon)

    choice = make_choice(common, value)

    def make_end(*, is_extreme: bool) -> End:
        chosen = make_choice(largest if is_extreme else common, end)
        apart = _find_shift(round(math.log2(choice.rate / chosen.rate), 3))
        shift = math.ceil(Fraction(apart) / chosen.rate + MARGIN * largest)
        edge = math.ceil(Fraction(UNSEEN) / chosen.rate) if is_extreme else None
        return End(chosen, min(shift, LARGEST_SHIFT), min(edge, LARGEST_SHIFT) if edge else None)

    low = make_end(is_extreme=level >= 1 - EXTREME)
    high = make_end(is_extreme=level <= EXTREME)
    return Quantile(histogram, level, choice, low, high)


@lru_cache(maxsize=64)
def _find_shift(doublings: float) -> float:
    """Return how far out an end must aim to miss the exact quantile no more often than MISS.

    The distance is in ranks times the end's rate; the value's rate is 2**doublings times that.

    Why: where rows are dense, ranks of choices follow two-sided exponential laws about their
         targets. The value lies above the quantile by some u in half of all releases; then the
         low end, chosen below the value, lies between with the probability
         e^-d (1 - e^-u) / (2 - e^(-d-u)) when it aims d too low. With t = e^-u this is
         integrated over u, by the midpoint rule.
    """
    ratio = 2.0**doublings
    t = ((np.arange(POINTS) + 0.5) / POINTS) ** (1.0 / ratio)

    def miss(apart: float) -> float:
        fall = math.exp(-apart)
        return float(0.5 * fall * np.mean((1.0 - t) / (2.0 - fall * t)))

    low, high = 0.0, 8.0
    if miss(low) <= MISS:
        return low
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if miss(middle) > MISS else (low, middle)
    return high
