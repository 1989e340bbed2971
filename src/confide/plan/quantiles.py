"""Plans for a private quantile with an interval.

`make_plan` calls `plan_quantile` for each quantile of a query, and release/quantiles.py later draws
the choices planned here. Statistics that need several quantiles use plan/quantile_tree.py instead.

Rows are counted by cell (see plan/cells.py). The exponential mechanism then chooses a cell, with a
probability that falls with the distance of the cell's rank from the target rank. Ranks are
integers, in rank steps: for a quantile of level a/b, one row is 2b rank steps.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from confide.errors import BadDeclaration, UnsupportedQuery
from confide.expressions.tree import Expression
from confide.loss import BoundedRangeLoss, Loss, PureLoss
from confide.mechanisms import Exponential, Neighbours
from confide.plan.calibration import fraction_of, max_epsilon
from confide.plan.cells import Cells

__all__ = [
    "End",
    "HistogramCount",
    "Quantile",
    "plan_quantile",
    "read_level",
]

MAX_DENOMINATOR: Final = 10**6
END_FRACTIONS: Final = tuple(Fraction(1, number) for number in (15, 13, 12, 11, 10))
"""Fractions of a quantile's loss that may pay for both interval ends.

Under a pure loss, the first one with sharp ends is used (see SHARP_MISS_RATE), or else the last.
Under any other loss, it is always the last one. MULTI_ROW_END_FRACTION takes precedence.
"""
MULTI_ROW_END_FRACTION: Final = Fraction(1, 4)
"""The fraction for the ends if a unit may have several rows and this fraction makes them flat."""
MAX_MISS_RATE: Final = 0.025
"""The highest rate at which the quantile may lie outside one end of a 95% interval."""
SHARP_MISS_RATE: Final = 0.0235
"""Ends are sharp if, aimed at the quantile itself, each would miss it at least at this rate.

Ends that miss it less often are far from the value, so the interval is wider than necessary.
"""
END_MARGIN_ROWS: Final = Fraction(3, 2)
"""The number of rows by which an end is aimed farther outside, because rows are discrete."""
FLAT_END_MARGIN_ROWS: Final = Fraction(1, 2)
"""The same for a flat end."""
MAX_FLAT_ROW: Final = Fraction(1, 8)
"""Ends are flat (see `End`) only if one row changes log probabilities by at most this much."""
EDGE_LOG_ODDS: Final = math.log(4_000)
"""The least distance of an end's target from the far end of all rows, times the ends' rate."""
TAIL_LEVEL: Final = Fraction(1, 3)
"""Levels up to this one, and those from 1 - TAIL_LEVEL on, are extreme."""
MAX_ROW_DISTANCE: Final = 100.0
MAX_SHIFT: Final = 2**60
POINTS_PER_SIDE: Final = 100
ROUNDING_RESERVE: Final = Fraction(1, 256)
"""Fraction of the value's epsilon reserved for rounding errors of averages in doubles."""
PURE_DECAY_RATIO: Final = Fraction(3, 10)
DECAY_RATIO: Final = Fraction(1, 2)
"""How fast an average's weights fall with rank, relative to those of the choice.

Under a pure loss, the decay costs some epsilon; otherwise it is free, and the second ratio is used.
"""
MIN_FALL: Final = Fraction(1, 50)
MIN_GROUPED_FALL: Final = Fraction(1, 5)
MAX_FALL: Final = Fraction(3)
"""Rows are averaged only if the log weight falls by MIN_FALL to MAX_FALL over half a row.

MIN_GROUPED_FALL replaces MIN_FALL if there are groups: a slower fall takes longer to compute, and
every group takes that time.
"""
RANK_ERROR_RATE: Final = 0.05
MIN_RATE: Final = Fraction(1, 2**200)
RELATIVE_RANK_ERROR: Final = Fraction(1, 10)
BOUND_WEIGHT: Final = 2_000
"""The assumed weight of a declared bound, at most, relative to the cells next to a target."""
NORMAL_GRID: Final = tuple(NormalDist().inv_cdf((index + 0.5) / 20) for index in range(20))
"""Twenty equally likely values of a standard normal variable."""


_ValueChoice = tuple[Exponential, Fraction, PureLoss | BoundedRangeLoss]
"""The mechanism that chooses a value, the decay of averages, and the loss of the choice."""


@dataclass(frozen=True, slots=True)
class HistogramCount:
    """A histogram per group: the rows that satisfy ``where``, counted by the cell of ``argument``.

    Rows in which the argument is NULL do not count.
    """

    argument: Expression
    where: Expression | None
    cells: Cells


@dataclass(frozen=True, slots=True)
class End:
    """The target of one end of an interval: the rank ``shift`` rank steps outside the quantile's.

    "Outside" is below the quantile for the low end, and above it for the high end. Cells farther
    out than the target are less probable. Cells between the target and the value are less probable
    too, unless ``is_flat``. If ``edge`` is not None, the low end's target stays at least that many
    rank steps below the end of all rows, and the high end's target that many above their start.
    """

    shift: int
    edge: int | None
    is_flat: bool


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile of level a/b of the rows of one histogram, with both ends of its interval.

    ``histogram`` is the index of its histogram in the plan. ``choice`` draws the value, and costs
    ``loss``. ``ends`` draws both interval ends, aimed at the targets ``low`` and ``high``. Rows are
    averaged before the choice of the value if ``decay`` is not 0.

    Law:     let L rows lie below a cell, m in it, and n in all. The value is a cell, drawn with
             probability proportional to its weight times exp(-rate * gap). Here, rate is that of
             ``choice``, and gap is the distance of the rank r = 2a(n - 1) + b from the interval
             [2bL, 2b(L + m)]. With a decay, the value is a position among averaged rows instead,
             with the distribution of `average_rows`.
             The low end is drawn likewise, but from the unaveraged rows, and with the rate of
             ``ends``. The candidates are the cells up to the value's, and the end of the range,
             which weighs 39 times as much as all cells. The target rank is r - shift, but at most
             2bn - edge. If the low end is flat, cells above its target have gap 0. The high end
             mirrors the low end.
    Claim:   over all groups together, the value costs ``loss``, whichever rows a unit has. Given
             the value, the log-ratios of the pair of ends lie in an interval whose length is the
             epsilon of ``ends``. So value and ends together cost what was granted.
    Why:     one additional row changes r by 2a, and each of L and L + m by 0 or 1. The gap of a
             cell then changes by at most 2a if both stay, by at most 2b - 2a if both grow, and by
             at most the larger of the two otherwise: by at most d = max(2a, 2b - 2a). So the
             value's log-ratios of a group span 2 rate d for each row, averaged or not.
             With averaging, they are also bounded by rate d, from the weight, plus
             decay d / b + (rate b)^2 / 8, from the sum of weights.
             For the ends, take the rate as 1. Flat gaps of a low end change by 0 to 2a for cells
             below the row, and by 0 to 2a - 2b for the others. So a row above the value changes
             the gaps of the low end by 0 to 2a, and those of the high end within an interval of
             length 2b. A row below the value mirrors this. So the log-ratios of both ends span at
             most 2b + d. At an extreme level, one end is not flat, and its target changes by up to
             2b where the edge applies: they span 4b + 2b. Without flat ends they span 4d, or
             4b + 2d at an extreme level.
             The rows of a unit over all groups add up to at most its limit. Replacing a row within
             a group leaves n unchanged. It changes ranks by at most 2b, and all flat gaps of an end
             in the same direction. If the new row is in another group, both groups change.
    Source:  [MT07], [DDR20] for the bounded range; [Smi11] for quantiles; docs/proofs/quantiles.md.
    Checked: tests/plan/test_quantiles.py and tests/release/test_rank_averages.py (log-ratios on
             random neighboring databases).
    """

    histogram: int
    level: Fraction
    choice: Exponential
    ends: Exponential
    low: End
    high: End
    decay: Fraction
    loss: PureLoss | BoundedRangeLoss

    @property
    def rank_error(self) -> float:
        """The error of the value's rank, in rows, that noise exceeds at most about 5% of the time.

        It applies to groups of at least `rows_needed` rows. In smaller groups, the value may lie in
        the empty part of the range beyond all rows.

        Why: the rank of the chosen averaged row has a two-sided exponential distribution. The
             average itself has an approximately normal error (see `_ValueAccuracy`), whose two
             standard deviations are added in quadrature.
        """
        row = 2 * self.level.denominator
        accuracy = _ValueAccuracy.of(self.choice, self.ends, row, self.decay)
        averaged = accuracy.spread / float(self.ends.rate * row)
        return math.hypot(
            -math.log(RANK_ERROR_RATE) / float(self.choice.rate * row), 2.0 * averaged
        )

    @property
    def rows_needed(self) -> float:
        """The group size at which `rank_error` is a tenth of the rows beyond the quantile.

        "Beyond" means on the side with fewer rows.

        Why: a position beyond all rows then weighs less than e^-25 of one at the quantile, so even
             a wide empty stretch is rarely chosen.
        """
        fraction_beyond = min(self.level, 1 - self.level)
        return self.rank_error / float(RELATIVE_RANK_ERROR * fraction_beyond)

    @property
    def rows_for_ends(self) -> float:
        """The approximate number of rows below which interval ends are often a declared bound.

        With twice as many rows, this is rare.

        Why: the bound is a candidate with the rank of the first or last row. The cells next to the
             end's target are assumed to weigh at least 1/2,000 as much as the bound (BOUND_WEIGHT).
             So the bound is less probable once that rank is ln 2,000 / rate away from the target.
        """
        row = 2 * self.level.denominator
        rows_below, rows_above = (
            (math.log(BOUND_WEIGHT) / self.ends.rate + end.shift) / row
            for end in (self.low, self.high)
        )
        edges = [Fraction(end.edge or 0) / row for end in (self.low, self.high)]
        level = float(self.level)
        return max(
            float(rows_below) / level,
            float(rows_above) / (1.0 - level),
            *(float(edge) + math.log(BOUND_WEIGHT) / float(self.ends.rate * row) for edge in edges),
        )


def read_level(level: Fraction | None) -> Fraction:
    """Return a level, rounded to a denominator of at most 10^6; refuse it unless in (0, 1)."""
    rounded = (level or Fraction(0)).limit_denominator(MAX_DENOMINATOR)
    if 0 < rounded < 1:
        return rounded
    shown = float(level or 0)
    raise UnsupportedQuery(
        f"A quantile of level {shown:g} is the value of a single row. Use a level from 0.000001 to "
        "0.999999, such as `QUANTILE_CONT(x, 0.01)` or `QUANTILE_CONT(x, 0.99)`."
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
    """Return the plan that chooses a quantile of a histogram at the cost ``granted``.

    ``histogram`` is the index of the histogram in the plan. ``rows`` is the maximum number of rows
    of a unit. ``is_grouped`` is whether the query has group keys.
    """
    half_row, row = level.denominator, 2 * level.denominator
    change, changes = _rank_change(level), rows
    if neighbours is Neighbours.REPLACE:
        change, changes = (change, 2 * rows) if is_grouped else (row, rows)
    min_fall = MIN_GROUPED_FALL if is_grouped else MIN_FALL
    half_span = partial(_half_span, rows=rows, neighbours=neighbours, is_grouped=is_grouped)

    def plan_both(part: Fraction) -> tuple[_ValueChoice, Exponential, bool, _ValueAccuracy]:
        # ``part`` is the fraction of the loss that pays for the ends.
        value = _plan_value(change, changes, half_row, fraction_of(granted, 1 - part), min_fall)
        epsilon = max_epsilon(fraction_of(granted, part), BoundedRangeLoss)
        ends, is_flat = _plan_ends(level, epsilon, half_span)
        return value, ends, is_flat, _ValueAccuracy.of(value[0], ends, row, value[1])

    def is_sharp_with(part: Fraction) -> bool:
        *_, is_flat, accuracy = plan_both(part)
        return accuracy.is_sharp(is_flat=is_flat)

    end_fractions = END_FRACTIONS[:-1] if isinstance(granted, PureLoss) else ()

    def is_flat_with(part: Fraction) -> bool:
        *_, is_flat, _ = plan_both(part)
        return is_flat

    if rows > 1 and is_flat_with(MULTI_ROW_END_FRACTION):
        part = MULTI_ROW_END_FRACTION
    else:
        part = next(filter(is_sharp_with, end_fractions), END_FRACTIONS[-1])
    (choice, decay, loss), ends, is_flat, accuracy = plan_both(part)
    if min(choice.rate, ends.rate) < MIN_RATE:
        raise BadDeclaration(
            "The noise would hide more rows than any table has. Pass a larger epsilon."
        )
    low, high = (
        accuracy.aim(is_flat=is_flat and not is_extreme, is_extreme=is_extreme)
        for is_extreme in (level >= 1 - TAIL_LEVEL, level <= TAIL_LEVEL)
    )
    return Quantile(histogram, level, choice, ends, low, high, decay, loss)


def _rank_change(level: Fraction) -> int:
    """Return the most by which one additional row changes a gap, in rank steps: d of `Quantile`."""
    return 2 * max(level.numerator, level.denominator - level.numerator)


def _half_span(
    added: int, replaced: int, *, rows: int, neighbours: Neighbours, is_grouped: bool
) -> Fraction:
    """Return half the span of the changes of gaps by one unit, the sensitivity of the choice.

    ``added`` is the span for one additional row, and ``replaced`` that for a row replaced within
    its group, both in rank steps.
    """
    if neighbours is Neighbours.REPLACE:
        added = 2 * added if is_grouped else replaced
    return Fraction(added * rows, 2)


def _plan_ends(
    level: Fraction, epsilon: Fraction, half_span: Callable[[int, int], Fraction]
) -> tuple[Exponential, bool]:
    """Return the choice of the interval ends, and whether they are flat.

    ``half_span`` is `_half_span` with its other arguments filled in. `Quantile` derives the spans.
    """
    row, change, is_extreme = (
        2 * level.denominator,
        _rank_change(level),
        not TAIL_LEVEL < level < 1 - TAIL_LEVEL,
    )
    span, replaced = (3 * row, 3 * row) if is_extreme else (row + change, 2 * row)
    ends = Exponential(half_span(span, replaced), epsilon)
    if ends.rate * row <= MAX_FLAT_ROW:
        return ends, True
    inner = row if is_extreme else change
    return Exponential(half_span(2 * inner + 2 * change, 4 * row), epsilon), False


def _plan_value(
    change: int, changes: int, half_row: int, granted: Loss, min_fall: Fraction
) -> _ValueChoice:
    """Return the choice of the value, the decay of averages, and the loss of the choice.

    One row changes gaps by up to ``change`` rank steps, and a unit causes up to ``changes`` such
    changes. ``half_row`` is the number of rank steps in half a row. If the log weight falls by less
    than ``min_fall`` or by more than MAX_FALL over half a row, rows are not averaged and the decay
    is 0.

    Why: under a pure loss, a row costs rate change (1 + PURE_DECAY_RATIO), plus
         (rate half_row)^2 / 8 unless ``change`` is half a row. The second term is computed from the
         rate at which the first term alone costs epsilon. That rate exceeds the returned one, so
         the term is overestimated.
    """
    epsilon = max_epsilon(granted, BoundedRangeLoss)
    half_span, is_pure = Fraction(changes * change), isinstance(granted, PureLoss)
    plain = Exponential(half_span, epsilon)
    choice = Exponential(half_span, epsilon * (1 - ROUNDING_RESERVE))
    if is_pure:
        first = half_span * (1 + PURE_DECAY_RATIO)
        second = Fraction(changes * half_row**2, 8) if change != half_row else Fraction(0)
        rate = choice.epsilon / (first + second * choice.epsilon / first)
        choice = Exponential(half_span, 2 * half_span * rate)
    fall = choice.rate * half_row
    if not min_fall <= fall <= MAX_FALL:
        return plain, Fraction(0), plain.loss
    return (
        choice,
        fall * (PURE_DECAY_RATIO if is_pure else DECAY_RATIO),
        (PureLoss(epsilon) if is_pure else plain.loss),
    )


@dataclass(frozen=True, slots=True)
class _ValueAccuracy:
    """A model of the distance between a value and the exact quantile, relative to the ends' noise.

    Distances are in rank steps, multiplied by the rate of ``ends``. ``row`` is the number of rank
    steps per row. The rate of the value's choice is 2**doublings times the rate of the ends.
    ``offset`` is the mean distance of the value from the nearest row, or 0 if rows are averaged,
    and ``spread`` is the standard deviation of averages. The numbers are rounded, so that
    `_find_shift` finds them in its cache.
    """

    ends: Exponential
    row: int
    doublings: float
    offset: float
    spread: float

    @classmethod
    def of(
        cls, choice: Exponential, ends: Exponential, row: int, decay: Fraction
    ) -> "_ValueAccuracy":
        """Return the accuracy of a value that ``choice`` draws, compared with these ends.

        Why: if rows are spread evenly at random, the distance from a row to the t-th row after it
             has variance t, with the mean distance of two rows as the unit. The average over both
             sides, with weights that fall by a factor exp(-2 decay) per row, has variance
             1 / (8 decay). It enters an averaged row with weight of about 1 - (decay / fall)^2,
             where fall is the rate times half a row.
        """
        size = float(f"{min(float(ends.rate * row), MAX_ROW_DISTANCE):.2g}")
        doublings = round(math.log2(choice.rate / ends.rate), 3)
        if not decay:
            return cls(ends, row, doublings, size / 4, 0.0)
        averaged = 1.0 - float(2 * decay / (choice.rate * row)) ** 2
        spread = round(averaged * math.sqrt(1.0 / (8.0 * float(decay))), 2)
        return cls(ends, row, doublings, 0.0, size * spread)

    def is_sharp(self, *, is_flat: bool) -> bool:
        """Return whether an end aimed at the quantile would miss it at least at SHARP_MISS_RATE."""
        return _miss_probability(self._parameters(), 0.0, is_flat=is_flat) >= SHARP_MISS_RATE

    def aim(self, *, is_flat: bool, is_extreme: bool) -> End:
        """Return the target of an end; ``is_extreme`` is whether it needs an edge (see `End`)."""
        shift = Fraction(_find_shift(self._parameters(), is_flat=is_flat))
        edge = min(math.ceil(Fraction(EDGE_LOG_ODDS) / self.ends.rate), MAX_SHIFT)
        margin = (FLAT_END_MARGIN_ROWS if is_flat else END_MARGIN_ROWS) * self.row
        rank_steps = min(math.ceil(shift / self.ends.rate + margin), MAX_SHIFT)
        return End(rank_steps, edge if is_extreme else None, is_flat)

    def _parameters(self) -> tuple[float, float, float]:
        return self.doublings, self.offset, self.spread


@lru_cache(maxsize=64)
def _find_shift(parameters: tuple[float, float, float], *, is_flat: bool) -> float:
    """Return the smallest shift at which an end misses the quantile at most at MAX_MISS_RATE.

    ``parameters`` are the doublings, offset, and spread of `_ValueAccuracy`; the shift has the unit
    of its distances.
    """
    low, high = 0.0, 40.0
    if _miss_probability(parameters, low, is_flat=is_flat) <= MAX_MISS_RATE:
        return low
    for _ in range(50):
        middle = (low + high) / 2
        is_missed = _miss_probability(parameters, middle, is_flat=is_flat) > MAX_MISS_RATE
        low, high = (middle, high) if is_missed else (low, middle)
    return high


def _miss_probability(
    parameters: tuple[float, float, float], shift: float, *, is_flat: bool
) -> float:
    """Return the probability that an end aimed ``shift`` outside lies between quantile and value.

    In that case, the quantile is outside the interval.

    Why: if rows are dense, the rank of the value has a two-sided exponential distribution around
         that of an averaged row. The rank of the averaged row is taken to be normal around the
         quantile's, with the standard deviation ``spread``. ``offset`` accounts for the position
         between rows: a quarter of a row, or 0 if rows are averaged. In half of all releases, the
         value lies above the quantile by some distance u. The low end, chosen below the value,
         then lies between quantile and value with a probability that depends on u, and that the
         midpoint rule integrates over u. Let d be ``shift``. A flat end has weight u + d between
         its target and the value, of which u lies above the quantile, and weight 1 below its
         target: the probability is u / (1 + d + u). Any other end has a two-sided exponential
         distribution truncated at the value: e^-d (1 - e^-u) / (2 - e^(-d-u)).
    """
    u = _list_distances(*parameters)
    if is_flat:
        return float(0.5 * np.mean(u / (1.0 + shift + u)))
    fall, t = math.exp(-shift), np.exp(-u)
    return float(0.5 * fall * np.mean((1.0 - t) / (2.0 - fall * t)))


@lru_cache(maxsize=64)
def _list_distances(doublings: float, offset: float, spread: float) -> NDArray[np.float64]:
    """Return equally likely distances of a value from the quantile; see `_ValueAccuracy`."""
    exponential = -np.log((np.arange(POINTS_PER_SIDE) + 0.5) / POINTS_PER_SIDE) / 2.0**doublings
    distances: NDArray[np.float64] = np.abs(
        np.add.outer(spread * np.array(NORMAL_GRID), exponential)
    ).ravel()
    return offset + distances
