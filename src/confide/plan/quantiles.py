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
VALUE_PART: Final = Fraction(9, 10)
MISS: Final = 0.025
MARGIN: Final = Fraction(3, 2)
ROUGH: Final = Fraction(1, 8)
"""Ends are flat only where one row is at most this part of their noise."""
UNSEEN: Final = math.log(4_000)
EXTREME: Final = Fraction(1, 3)
LARGEST_ROW: Final = 100.0
LARGEST_SHIFT: Final = 2**60
POINTS: Final = 2_000
EVENED: Final = Fraction(5, 2)
"""How much noise, on either side, the rows weigh together with which a row is averaged."""
MOST_BESIDE: Final = 8


@dataclass(frozen=True, slots=True)
class Histogram:
    """Rows of a group for which ``where`` holds, counted by the cell of a non-NULL argument."""

    argument: Expression
    where: Expression | None
    cells: Cells


@dataclass(frozen=True, slots=True)
class End:
    """Where one end of an interval is aimed: at a rank so many steps outside that of the value.

    Ranks further out count against a cell; those between the aim and the value do so unless
    ``is_flat``. ``edge`` keeps the aim so many steps away from the far end of all rows, where a
    level is extreme.
    """

    shift: int
    edge: int | None
    is_flat: bool


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile of level a/b of the rows of one histogram, with both ends of its interval.

    Law:     let L rows lie below a cell, m in it, and n in all. The value is a cell, with a
             probability in proportion to its weight times exp(-rate * gap), where gap is the
             distance of the rank r = 2a(n - 1) + b from [2bL, 2b(L + m)], and rows lie where they
             do once each is averaged with ``beside`` neighbours on either side (`average_rows`).
             The low end is chosen likewise, from rows as they are, by ``ends``, among the cells
             up to the value's and the end of the range, which weighs 39 times as much as all
             cells: at the rank r - shift, and at most 2bn - edge. Where it is flat, cells above
             that rank have gap 0. The high end mirrors it.
    Claim:   over all groups together the choice of the value has log-ratios within an interval of
             length epsilon, whichever rows a unit has, and so has the pair of ends, given the
             value; so they cost what was granted.
    Why:     one row more moves r by 2a, and by d = 2a or 2b where an edge counts, and each of L and
             L + m by 0 or 1, of averaged rows too. The gap of a cell then moves by at most d if
             both stay, by 2b - d if both grow, and by the larger of the two otherwise. So the
             value's gaps of a group move within an interval of twice max(2a, 2b - 2a) for each
             row. Flat gaps of low ends move by 0 to 2a for cells below the row and by 0 to 2a - 2b
             for the others; a row above the value thus moves those of low ends by 0 to 2a and
             those of high ends within an interval of 2b, and one below the value mirrors it:
             2b + max(2a, 2b - 2a) in all. An extreme level has one end that is not flat: 4b + 2b.
             Without flat ends it is twice that of the value, or once that and 4b for an extreme
             level. The sum over groups of a unit's rows is at most its limit, and what log-ratios
             of independent choices may span adds up. A row replaced within a group leaves n, and
             moves gaps by at most 2b, flat ones of an end all the same way; when it goes from one
             group to another, both move.
    Source:  [MT07], [DDR20] for the bounded range; [Smi11] for quantiles; docs/proofs/quantiles.md.
    Checked: tests/plan/test_quantiles.py (all log-ratios on random neighbours).
    """

    histogram: int
    level: Fraction
    choice: Exponential
    ends: Exponential
    low: End
    high: End
    beside: int


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
    common, row = 2 * max(top, bottom - top), 2 * bottom
    is_low, is_high = level <= EXTREME, level >= 1 - EXTREME

    def make_choice(added: int, replaced: int, part: Fraction) -> Exponential:
        epsilon = find_epsilon(take_part(granted, part), BoundedRangeLoss)
        if neighbours is Neighbours.REPLACE:
            added = 2 * added if is_grouped else replaced
        return Exponential(Fraction(added * rows, 2), epsilon)

    choice = make_choice(2 * common, 2 * row, VALUE_PART)
    span, moved = (3 * row, 3 * row) if is_low or is_high else (row + common, 2 * row)
    ends = make_choice(span, moved, 1 - VALUE_PART)
    is_flat = ends.rate * row <= ROUGH
    if not is_flat:
        inner = row if is_low or is_high else common
        ends = make_choice(2 * inner + 2 * common, 4 * row, 1 - VALUE_PART)
    low, high = (
        _aim(choice, ends, row, is_flat=is_flat and not is_extreme, is_extreme=is_extreme)
        for is_extreme in (is_high, is_low)
    )
    return Quantile(histogram, level, choice, ends, low, high, _count_beside(choice, row))


def _count_beside(choice: Exponential, row: int) -> int:
    """Return with how many rows on either side a row is averaged before the value is chosen."""
    return min(MOST_BESIDE, math.floor(EVENED / (choice.rate * row)))


def _aim(
    choice: Exponential, ends: Exponential, row: int, *, is_flat: bool, is_extreme: bool
) -> End:
    """Return where an end is aimed; an extreme one keeps away from the end of all rows."""
    doublings = round(math.log2(choice.rate / ends.rate), 3)
    size = float(f"{min(float(ends.rate * row), LARGEST_ROW):.2g}")
    aside = size / (8 if _count_beside(choice, row) else 4)
    apart = Fraction(_find_shift(doublings, aside, is_flat=is_flat))
    margin = MARGIN * row
    edge = min(math.ceil(Fraction(UNSEEN) / ends.rate), LARGEST_SHIFT)
    shift = min(math.ceil(apart / ends.rate + margin), LARGEST_SHIFT)
    return End(shift, edge if is_extreme else None, is_flat)


@lru_cache(maxsize=64)
def _find_shift(doublings: float, aside: float, *, is_flat: bool) -> float:
    """Return how far out an end must aim to miss the exact quantile no more often than MISS.

    The distance is in ranks times the end's rate; the value's rate is 2**doublings times that.

    Why: where rows are dense, the rank of the value follows a two-sided exponential law about the
         quantile's; ``aside`` is added for where it falls between rows, a quarter of a row, or an
         eighth where rows are averaged, by what intervals then hold. It lies above by
         some u in half of all releases; the low end, chosen below the value, then lies between
         with a chance that is integrated over u, by the midpoint rule. Aimed d too low, a flat
         end has the weight u + d above its aim, of which u is between, and 1 below:
         u / (1 + d + u). Another end has a two-sided exponential law cut off at the value:
         e^-d (1 - e^-u) / (2 - e^(-d-u)).
    """
    u = aside - np.log((np.arange(POINTS) + 0.5) / POINTS) / 2.0**doublings

    def miss(apart: float) -> float:
        if is_flat:
            return float(0.5 * np.mean(u / (1.0 + apart + u)))
        fall, t = math.exp(-apart), np.exp(-u)
        return float(0.5 * fall * np.mean((1.0 - t) / (2.0 - fall * t)))

    low, high = 0.0, 40.0
    if miss(low) <= MISS:
        return low
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if miss(middle) > MISS else (low, middle)
    return high
