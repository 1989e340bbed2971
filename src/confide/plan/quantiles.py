"""Plans for one quantile, or for several by a tree.

Rows are counted by cell. A choice weights each cell by how close its rank is to the target rank.
Ranks are measured in steps: for a quantile of level a/b, one row is 2b steps.

For several levels, the middle one is chosen first, among all cells. Then the middle ones of the
lower and of the upper levels are chosen, each among the cells on its side, and so on. The choices
of one round involve disjoint rows, so a round costs as much as one choice. The number of rounds is
only about log2 of the number of levels.
"""

import math
from collections.abc import Callable, Sequence
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
from confide.plan.calibration import TotalNoise, fraction_of, loss_for_noise, max_epsilon, noise_for
from confide.plan.cells import Cells
from confide.plan.sensitivity import TotalSensitivity

__all__ = [
    "End",
    "HistogramCount",
    "Quantile",
    "QuantileSplit",
    "QuantileTree",
    "plan_quantile",
    "plan_quantile_tree",
    "read_level",
]

MAX_DENOMINATOR: Final = 10**6
END_FRACTIONS: Final = tuple(Fraction(1, number) for number in (15, 13, 12, 11, 10))
"""Fractions of a quantile's loss that may pay for interval ends; only the last unless pure."""
MULTI_ROW_END_FRACTION: Final = Fraction(1, 4)
"""The fraction for the ends if units may have several rows and it makes the ends flat."""
MAX_MISS_RATE: Final = 0.025
SHARP_MISS_RATE: Final = 0.0235
"""Ends are sharp enough if, when aimed at the quantile, they miss it at least this often."""
END_MARGIN_ROWS: Final = Fraction(3, 2)
FLAT_END_MARGIN_ROWS: Final = Fraction(1, 2)
MAX_FLAT_ROW: Final = Fraction(1, 8)
"""Ends are flat only if one row is at most this fraction of their noise."""
EDGE_LOG_ODDS: Final = math.log(4_000)
TAIL_LEVEL: Final = Fraction(1, 3)
MAX_ROW_DISTANCE: Final = 100.0
MAX_SHIFT: Final = 2**60
POINTS_PER_SIDE: Final = 100
ROUNDING_RESERVE: Final = Fraction(1, 256)
"""Fraction of the value's epsilon reserved for rounding errors of averages in doubles."""
PURE_DECAY_RATIO: Final = Fraction(3, 10)
DECAY_RATIO: Final = Fraction(1, 2)
"""Decay of averages with rank, relative to that of weights; the second if it costs nothing."""
MIN_FALL: Final = Fraction(1, 50)
MIN_GROUPED_FALL: Final = Fraction(1, 5)
MAX_FALL: Final = Fraction(3)
"""Rows are averaged only if the log weight falls by an amount in this interval over half a row.

The second minimum is for groups: a slower fall takes longer to compute, for each group.
"""
RANK_ERROR_RATE: Final = 0.05
MIN_RATE: Final = Fraction(1, 2**200)
RELATIVE_RANK_ERROR: Final = Fraction(1, 10)
BOUND_WEIGHT: Final = 2_000
NORMAL_GRID: Final = tuple(NormalDist().inv_cdf((place + 0.5) / 20) for place in range(20))


_ValueChoice = tuple[Exponential, Fraction, PureLoss | BoundedRangeLoss]
"""The choice of a value, the decay of averages, and the cost of both."""


@dataclass(frozen=True, slots=True)
class HistogramCount:
    """Rows of a group that satisfy ``where``, counted by the cell of their non-NULL argument."""

    argument: Expression
    where: Expression | None
    cells: Cells


@dataclass(frozen=True, slots=True)
class End:
    """The target of one end of an interval: the rank ``shift`` steps outside that of the value.

    Cells beyond the target are penalized. Those between the target and the value are penalized
    too unless ``is_flat``. At an extreme level, ``edge`` keeps the target at least that many steps
    away from the far end of all rows.
    """

    shift: int
    edge: int | None
    is_flat: bool


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile of level a/b of the rows of one histogram, with both ends of its interval.

    Law:     let L rows lie below a cell, m in it, and n in all. The value is a cell, drawn with
             probability proportional to its weight times exp(-rate * gap). Here, gap is the
             distance of the rank r = 2a(n - 1) + b from [2bL, 2b(L + m)]. With a decay, the value
             is a position among averaged rows instead, with the distribution of `average_rows`. The
             low end is drawn likewise from the unaveraged rows, with the rate of ``ends``. The
             candidates are the cells up to the value's, and the end of the range, which weighs 39
             times as much as all cells. Its target rank is r - shift, but at most 2bn - edge. If
             the end is flat, cells above its target have gap 0. The high end mirrors the low end.
    Claim:   over all groups together, the value costs ``loss``, whichever rows a unit has. Given
             the value, the log-ratios of the pair of ends lie in an interval whose length is the
             epsilon of ``ends``. So together they cost what was granted.
    Why:     one additional row changes r by 2a, and each of L and L + m by 0 or 1. The gap of a
             cell then changes by at most 2a if both stay, by at most 2b - 2a if both grow, and by
             at most the larger of the two otherwise: by at most d = max(2a, 2b - 2a). So the
             value's log-ratios of a group span 2 rate d for each row, averaged or not.
             With averaging, they are also bounded by rate d, from the weight, plus
             decay d / b + (rate b)^2 / 8, from the sum of weights.
             Flat gaps of a low end change by 0 to 2a for cells below the row, and by 0 to 2a - 2b
             for the others. So a row above the value changes those of the low end by 0 to 2a, and
             those of the high end within an interval of length 2b. A row below the value mirrors
             this: 2b + d in all. At an extreme level, one end is not flat, and its target changes
             by up to 2b where the edge applies: 4b + 2b. Without flat ends the total is 4d, or
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
        """The error of the value's rank, in rows, that noise exceeds in at most 5% of releases.

        It applies to groups of at least `rows_needed` rows. In smaller groups, the value may lie in
        the empty part of the range beyond all rows.

        Why: the rank of an averaged row has a two-sided exponential distribution; the average
             itself has a normal error, see `_ValueAccuracy`.
        """
        row = 2 * self.level.denominator
        accuracy = _ValueAccuracy.of(self.choice, self.ends, row, self.decay)
        averaged = accuracy.spread / float(self.ends.rate * row)
        return math.hypot(
            -math.log(RANK_ERROR_RATE) / float(self.choice.rate * row), 2.0 * averaged
        )

    @property
    def rows_needed(self) -> float:
        """The number of rows in a group for which `rank_error` is a tenth of the rows beyond it.

        Why: a position beyond all rows then weighs less than e^-25 of one at the quantile, so even
             a wide empty stretch is rarely chosen.
        """
        parameters = min(self.level, 1 - self.level)
        return self.rank_error / float(RELATIVE_RANK_ERROR * parameters)

    @property
    def rows_for_ends(self) -> float:
        """The approximate number of rows below which interval ends often reach a bound.

        With twice as many rows, this is rare.

        Why: a bound competes at the rank of the first or last row with the weight of the cells
             next to the quantile, which is assumed to be at least 1/2,000 of its own.
        """
        row = 2 * self.level.denominator
        low, high = (
            (math.log(BOUND_WEIGHT) / self.ends.rate + end.shift) / row
            for end in (self.low, self.high)
        )
        edges = [Fraction(end.edge or 0) / row for end in (self.low, self.high)]
        level = float(self.level)
        return max(
            float(low) / level,
            float(high) / (1.0 - level),
            *(float(edge) + math.log(BOUND_WEIGHT) / float(self.ends.rate * row) for edge in edges),
        )


def read_level(level: Fraction | None) -> Fraction:
    """Return a quantile's level as a fraction with a small denominator, or refuse it."""
    accuracy = (level or Fraction(0)).limit_denominator(MAX_DENOMINATOR)
    if 0 < accuracy < 1:
        return accuracy
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
    """Return the plan that chooses a quantile of a histogram at the cost ``granted``.

    ``rows`` is the maximum number of rows of a unit.
    """
    bottom, row = level.denominator, 2 * level.denominator
    moved, units = _rank_change(level), rows
    if neighbours is Neighbours.REPLACE:
        moved, units = (moved, 2 * rows) if is_grouped else (row, rows)
    min_fall = MIN_GROUPED_FALL if is_grouped else MIN_FALL
    half_span = partial(_half_span, rows=rows, neighbours=neighbours, is_grouped=is_grouped)

    def plan_both(part: Fraction) -> tuple[_ValueChoice, Exponential, bool, _ValueAccuracy]:
        value = _plan_value(moved, units, bottom, fraction_of(granted, 1 - part), min_fall)
        epsilon = max_epsilon(fraction_of(granted, part), BoundedRangeLoss)
        ends, is_flat = _plan_ends(level, epsilon, half_span)
        return value, ends, is_flat, _ValueAccuracy.of(value[0], ends, row, value[1])

    def is_enough(part: Fraction) -> bool:
        *_, is_flat, accuracy = plan_both(part)
        return accuracy.is_sharp(is_flat=is_flat)

    end_fractions = END_FRACTIONS[:-1] if isinstance(granted, PureLoss) else ()

    def is_flat_with(part: Fraction) -> bool:
        *_, is_flat, _ = plan_both(part)
        return is_flat

    if rows > 1 and is_flat_with(MULTI_ROW_END_FRACTION):
        part = MULTI_ROW_END_FRACTION
    else:
        part = next(filter(is_enough, end_fractions), END_FRACTIONS[-1])
    (choice, decay, loss), ends, is_flat, accuracy = plan_both(part)
    if min(choice.rate, ends.rate) < MIN_RATE:
        raise BadDeclaration("noise hides more rows than any table has; ask with a larger epsilon")
    low, high = (
        accuracy.aim(is_flat=is_flat and not is_extreme, is_extreme=is_extreme)
        for is_extreme in (level >= 1 - TAIL_LEVEL, level <= TAIL_LEVEL)
    )
    return Quantile(histogram, level, choice, ends, low, high, decay, loss)


def _rank_change(level: Fraction) -> int:
    """Return the most steps by which one additional row changes a rank."""
    return 2 * max(level.numerator, level.denominator - level.numerator)


def _half_span(
    added: int, replaced: int, *, rows: int, neighbours: Neighbours, is_grouped: bool
) -> Fraction:
    """Return half the span of a unit's log-ratios, from the spans of one added or replaced row."""
    if neighbours is Neighbours.REPLACE:
        added = 2 * added if is_grouped else replaced
    return Fraction(added * rows, 2)


def _plan_ends(
    level: Fraction, epsilon: Fraction, half_span: Callable[[int, int], Fraction]
) -> tuple[Exponential, bool]:
    """Return the choice of the interval ends, and whether they are flat."""
    row, common, is_extreme = (
        2 * level.denominator,
        _rank_change(level),
        not TAIL_LEVEL < level < 1 - TAIL_LEVEL,
    )
    span, replaced = (3 * row, 3 * row) if is_extreme else (row + common, 2 * row)
    ends = Exponential(half_span(span, replaced), epsilon)
    if ends.rate * row <= MAX_FLAT_ROW:
        return ends, True
    inner = row if is_extreme else common
    return Exponential(half_span(2 * inner + 2 * common, 4 * row), epsilon), False


def _plan_value(
    moved: int, units: int, half: int, granted: Loss, min_fall: Fraction
) -> _ValueChoice:
    """Return the choice of the value, the decay of averages, and the cost of both.

    A row changes ranks by up to ``moved`` steps, half a row is ``half`` steps, and a unit changes
    ranks up to ``units`` times. If weights fall by less than ``min_fall`` over half a row, or too
    fast, rows are not averaged, and the decay is 0.

    Why: a row costs rate moved (1 + PURE_DECAY_RATIO), plus (rate half)^2 / 8 if ranks can change
         by more than half a row. The second term is computed from the rate at which the first term
         alone costs epsilon. That rate exceeds the returned one, so the term is overestimated.
    """
    epsilon = max_epsilon(granted, BoundedRangeLoss)
    half_span, is_pure = Fraction(units * moved), isinstance(granted, PureLoss)
    plain = Exponential(half_span, epsilon)
    choice = Exponential(half_span, epsilon * (1 - ROUNDING_RESERVE))
    if is_pure:
        first = half_span * (1 + PURE_DECAY_RATIO)
        second = Fraction(units * half**2, 8) if moved != half else Fraction(0)
        rate = choice.epsilon / (first + second * choice.epsilon / first)
        choice = Exponential(half_span, 2 * half_span * rate)
    fall = choice.rate * half
    if not min_fall <= fall <= MAX_FALL:
        return plain, Fraction(0), plain.loss
    return (
        choice,
        fall * (PURE_DECAY_RATIO if is_pure else DECAY_RATIO),
        (PureLoss(epsilon) if is_pure else plain.loss),
    )


@dataclass(frozen=True, slots=True)
class _ValueAccuracy:
    """The distance of a value from the quantile, compared with the noise of the interval's ends.

    Distances are ranks times the rate of the ends; the value's rate is 2**doublings times that.
    ``offset`` is the offset of the value between rows, and ``spread`` the standard deviation of
    averages.
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
        """Return the accuracy of a value with these ends.

        Why: if rows are spread evenly at random, the distance from a row to the t-th row after it
             has variance t. The average over both sides, with weights that decay by 2 decay per
             row, has variance 1 / (8 decay). The average accounts for about 1 - (decay / fall)^2 of
             that.
        """
        size = float(f"{min(float(ends.rate * row), MAX_ROW_DISTANCE):.2g}")
        doublings = round(math.log2(choice.rate / ends.rate), 3)
        if not decay:
            return cls(ends, row, doublings, size / 4, 0.0)
        averaged = 1.0 - float(2 * decay / (choice.rate * row)) ** 2
        spread = round(averaged * math.sqrt(1.0 / (8.0 * float(decay))), 2)
        return cls(ends, row, doublings, 0.0, size * spread)

    def is_sharp(self, *, is_flat: bool) -> bool:
        """Return whether an end aimed at the quantile misses it nearly as often as it may."""
        return _miss_probability(self._parameters(), 0.0, is_flat=is_flat) >= SHARP_MISS_RATE

    def aim(self, *, is_flat: bool, is_extreme: bool) -> End:
        """Return the target of an end; an extreme level has an edge to keep away from."""
        shift = Fraction(_find_shift(self._parameters(), is_flat=is_flat))
        edge = min(math.ceil(Fraction(EDGE_LOG_ODDS) / self.ends.rate), MAX_SHIFT)
        margin = (FLAT_END_MARGIN_ROWS if is_flat else END_MARGIN_ROWS) * self.row
        steps = min(math.ceil(shift / self.ends.rate + margin), MAX_SHIFT)
        return End(steps, edge if is_extreme else None, is_flat)

    def _parameters(self) -> tuple[float, float, float]:
        return self.doublings, self.offset, self.spread


@lru_cache(maxsize=64)
def _find_shift(parameters: tuple[float, float, float], *, is_flat: bool) -> float:
    """Return the shift with which an end misses the exact quantile at most at MAX_MISS_RATE."""
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

    Why: if rows are dense, the rank of the value has a two-sided exponential distribution around
         that of averaged rows. The latter is taken to be normal around the quantile's, with the
         standard deviation ``spread``. ``offset`` accounts for the position between rows: a quarter
         of a row, or 0 if rows are averaged. In half of all releases, the value lies above the
         quantile by some u. The low end, chosen below the value, then lies between the two with
         a probability that is integrated over u by the midpoint rule. Aimed d too low, a flat end
         has weight u + d above its target, of which u lies between, and weight 1 below:
         u / (1 + d + u). Any other end has a two-sided exponential distribution truncated at the
         value: e^-d (1 - e^-u) / (2 - e^(-d-u)).
    """
    u = _list_distances(*parameters)
    if is_flat:
        return float(0.5 * np.mean(u / (1.0 + shift + u)))
    fall, t = math.exp(-shift), np.exp(-u)
    return float(0.5 * fall * np.mean((1.0 - t) / (2.0 - fall * t)))


@lru_cache(maxsize=64)
def _list_distances(doublings: float, offset: float, spread: float) -> NDArray[np.float64]:
    """Return equally likely distances of a value from the quantile."""
    size = -np.log((np.arange(POINTS_PER_SIDE) + 0.5) / POINTS_PER_SIDE) / 2.0**doublings
    distances: NDArray[np.float64] = np.abs(
        np.add.outer(spread * np.array(NORMAL_GRID), size)
    ).ravel()
    return offset + distances


COUNT_FRACTION: Final = Fraction(1, 5)


@dataclass(frozen=True, slots=True)
class QuantileSplit:
    """One choice: the level at ``place``, between the earlier choices at ``below`` and ``above``.

    None stands for the end of the range.
    """

    place: int
    below: int | None
    above: int | None


@dataclass(frozen=True, slots=True)
class QuantileTree:
    """The choices of several quantiles, round by round.

    Law:     a split draws a cell strictly between those of its neighbors, with probability
             proportional to its weight times exp(-rate gap). Here, gap is the distance of a n from
             [b L, b (L + m)]: of n rows between the neighbors, L lie below the cell and m in it.
             Then L and m are released with noise. The fraction a / b of its rows that a split
             targets follows from what was released before. If it is 0 or 1, the neighbor's cell is
             taken. A cell with more rows than noise can simulate shifts the targets next to it; any
             other cell is assumed to lie at its level.
    Claim:   quantiles never cross, and all rounds together cost what was granted.
    Why:     the splits of one round have disjoint sets of cells, so a row counts in at most one of
             them. One additional row changes a n by a, b L by b for the cells above it, and b m for
             its own. So all gaps of its split change by at most max(a, b - a) in either direction,
             and L or m by 1. The log-ratios of the splits of a round add up to what the rows of a
             unit cause together. Replacing a unit removes its rows and adds others.
    Source:  [KSS22] for halving, [MT07]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_quantiles.py.
    """

    rounds: tuple[tuple[QuantileSplit, ...], ...]
    epsilon: Fraction
    moved: int
    noise: TotalNoise

    @property
    def slack(self) -> int:
        """The number of rows that noise can simulate: three standard deviations."""
        return math.ceil(3.0 * self.noise.law.deviation(0))

    def choose(self, level: Fraction) -> Exponential:
        """Return the choice of a split that targets this fraction of its rows."""
        furthest = max(level.numerator, level.denominator - level.numerator)
        return Exponential(self.moved * furthest, self.epsilon)


def plan_quantile_tree(
    levels: int, rows: int, neighbours: Neighbours, granted: Loss
) -> QuantileTree:
    """Return the tree that chooses ``levels`` quantiles at the cost ``granted``.

    ``rows`` is the maximum number of rows of a unit.
    """
    rounds = tuple(_list_rounds(levels))
    part = fraction_of(granted, Fraction(1, len(rounds)))
    moved = rows * (1 if neighbours is Neighbours.ADD_REMOVE else 2)
    epsilon = max_epsilon(fraction_of(part, 1 - COUNT_FRACTION), BoundedRangeLoss)
    counts = loss_for_noise(fraction_of(part, COUNT_FRACTION))
    noise = noise_for((TotalSensitivity(1, moved, moved**2),), counts)
    return QuantileTree(rounds, epsilon, moved, noise)


def _list_rounds(levels: int) -> Sequence[tuple[QuantileSplit, ...]]:
    rounds, pending = [], [(0, levels)]
    while pending:
        splits, following = [], []
        for first, last in pending:
            middle = (first + last) // 2
            above = last if last < levels else None
            splits.append(QuantileSplit(middle, first - 1 if first else None, above))
            following += [(a, b) for a, b in ((first, middle), (middle + 1, last)) if a < b]
        rounds.append(tuple(splits))
        pending = following
    return rounds
