"""Plans one quantile, or several by a tree.

Rows are counted by cell. A choice weighs each cell by how near its rank is to a wanted one; ranks
are measured in steps of which one row is 2b, for a quantile of level a/b.

The middle one of the levels is chosen first, among all cells; then the middle ones of the lower and
of the upper levels, each among the cells on its side; and so on. Choices of one round are about
different rows, so a round costs what one choice does, and there are only about log2 of the number
of levels of them.
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

MOST_PARTS: Final = 10**6
ENDS_PARTS: Final = tuple(Fraction(1, number) for number in (15, 13, 12, 11, 10))
"""Which parts of a quantile's loss may pay for the ends of its interval; the last if not pure."""
SEVERAL_ROWS_PART: Final = Fraction(1, 4)
"""The part for the ends if a unit may have several rows, and ends with this part are flat."""
MISS: Final = 0.025
ENOUGH: Final = 0.0235
"""Ends are sharp enough if they miss a quantile so often when they aim at it."""
MARGIN: Final = Fraction(3, 2)
FLAT_MARGIN: Final = Fraction(1, 2)
ROUGH: Final = Fraction(1, 8)
"""Ends are flat only where one row is at most this part of their noise."""
UNSEEN: Final = math.log(4_000)
EXTREME: Final = Fraction(1, 3)
LARGEST_ROW: Final = 100.0
LARGEST_SHIFT: Final = 2**60
POINTS: Final = 100
SPARE: Final = Fraction(1, 256)
"""Which part of the value's epsilon pays for averages in doubles."""
SLOPE: Final = Fraction(3, 10)
FREE_SLOPE: Final = Fraction(1, 2)
"""How fast averages decay with rank, as a part of how fast weights fall; and where no slope costs
anything."""
LEAST_FALL: Final = Fraction(1, 50)
LEAST_OF_EACH: Final = Fraction(1, 5)
MOST_FALL: Final = Fraction(3)
"""Rows are averaged only where weights fall by so much for half a row, in logarithms; what falls
more slowly takes longer, which groups pay for one by one."""
RARE: Final = 0.05
MIN_RATE: Final = Fraction(1, 2**200)
LARGE_ERROR: Final = Fraction(1, 10)
BOUND_WEIGHT: Final = 2_000
NORMAL: Final = tuple(NormalDist().inv_cdf((place + 0.5) / 20) for place in range(20))


_Value = tuple[Exponential, Fraction, PureLoss | BoundedRangeLoss]
"""How a value is chosen, how fast averages decay, and what both cost."""


@dataclass(frozen=True, slots=True)
class HistogramCount:
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
             distance of the rank r = 2a(n - 1) + b from [2bL, 2b(L + m)]; with a decay it is a
             place among averaged rows instead, by the law of `average_rows`. The low end is a
             cell likewise, from rows as they are, by ``ends``, among the cells up to the value's
             and the end of the range, which weighs 39 times as much as all cells: at the rank
             r - shift, and at most 2bn - edge. Where it is flat, cells above that rank have gap 0.
             The high end mirrors it.
    Claim:   over all groups together the value costs ``loss``, whichever rows a unit has, and the
             pair of ends, given the value, has log-ratios within an interval of the length of its
             epsilon; so they cost what was granted.
    Why:     one row more moves r by 2a, and each of L and L + m by 0 or 1. The gap of a cell then
             moves by at most 2a if both stay, by 2b - 2a if both grow, and by the larger of the
             two otherwise: by at most d = max(2a, 2b - 2a). So the value's log-ratios of a group
             span 2 rate d for each row, averaged or not. Averaged, they are also within the
             rate d of the weight and the decay d / b + (rate b)^2 / 8 of the sum of weights. Flat
             gaps of low ends move by 0 to 2a for cells below the row and by 0 to 2a - 2b for the
             others; a row above the value thus moves those of low ends by 0 to 2a and those of
             high ends within an interval of 2b, and one below the value mirrors it: 2b + d in
             all. An extreme level has one end that is not flat, whose rank moves by up to 2b
             where an edge counts: 4b + 2b. Without flat ends it is 4d, or 4b + 2d for an extreme
             level. The sum over groups of a unit's rows is at most its limit. A row replaced
             within a group leaves n, and moves ranks by at most 2b, flat gaps of an end all the
             same way; when it goes from one group to another, both move.
    Source:  [MT07], [DDR20] for the bounded range; [Smi11] for quantiles; docs/proofs/quantiles.md.
    Checked: tests/plan/test_quantiles.py and tests/release/test_averages.py (log-ratios on random
             neighbours).
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
        """The number of rows by which noise moves the rank of the value in at most 5% of releases.

        This is true of groups of `rows_needed` rows or more: with fewer, the value may lie in the
        empty part of the range beyond all rows.

        Why: the rank of an averaged row follows a two-sided exponential distribution; the average
             itself is off by a normal error, see `_Near`.
        """
        row = 2 * self.level.denominator
        near = _Near.of(self.choice, self.ends, row, self.decay)
        averaged = near.spread / float(self.ends.rate * row)
        return math.hypot(-math.log(RARE) / float(self.choice.rate * row), 2.0 * averaged)

    @property
    def rows_needed(self) -> float:
        """The number of rows in a group of which `rank_error` is a tenth of those beyond it.

        Why: a place beyond all rows then weighs less than e^-25 of one at the quantile, so even a
             wide empty stretch is rarely chosen.
        """
        beyond = min(self.level, 1 - self.level)
        return self.rank_error / float(LARGE_ERROR * beyond)

    @property
    def rows_for_ends(self) -> float:
        """About the number of rows in a group below which its interval often ends at a bound.

        From twice as many on, hardly any interval does.

        Why: a bound competes at the rank of the first or last row with the weight of the cells
             next to the quantile, which is taken to be at least a 2,000th of its own.
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
    bottom, row = level.denominator, 2 * level.denominator
    moved, units = _move(level), rows
    if neighbours is Neighbours.REPLACE:
        moved, units = (moved, 2 * rows) if is_grouped else (row, rows)
    least = LEAST_OF_EACH if is_grouped else LEAST_FALL
    reach = partial(_reach, rows=rows, neighbours=neighbours, is_grouped=is_grouped)

    def plan_both(part: Fraction) -> tuple[_Value, Exponential, bool, _Near]:
        value = _plan_value(moved, units, bottom, fraction_of(granted, 1 - part), least)
        epsilon = max_epsilon(fraction_of(granted, part), BoundedRangeLoss)
        ends, is_flat = _plan_ends(level, epsilon, reach)
        return value, ends, is_flat, _Near.of(value[0], ends, row, value[1])

    def is_enough(part: Fraction) -> bool:
        *_, is_flat, near = plan_both(part)
        return near.is_sharp(is_flat=is_flat)

    several = ENDS_PARTS[:-1] if isinstance(granted, PureLoss) else ()

    def is_flat_with(part: Fraction) -> bool:
        *_, is_flat, _ = plan_both(part)
        return is_flat

    if rows > 1 and is_flat_with(SEVERAL_ROWS_PART):
        part = SEVERAL_ROWS_PART
    else:
        part = next(filter(is_enough, several), ENDS_PARTS[-1])
    (choice, decay, loss), ends, is_flat, near = plan_both(part)
    if min(choice.rate, ends.rate) < MIN_RATE:
        raise BadDeclaration("noise hides more rows than any table has; ask with a larger epsilon")
    low, high = (
        near.aim(is_flat=is_flat and not is_extreme, is_extreme=is_extreme)
        for is_extreme in (level >= 1 - EXTREME, level <= EXTREME)
    )
    return Quantile(histogram, level, choice, ends, low, high, decay, loss)


def _move(level: Fraction) -> int:
    """Return by how many steps one row more moves ranks at most."""
    return 2 * max(level.numerator, level.denominator - level.numerator)


def _reach(
    added: int, replaced: int, *, rows: int, neighbours: Neighbours, is_grouped: bool
) -> Fraction:
    """Return half of what a unit's rows span, if one that is added or replaced spans so much."""
    if neighbours is Neighbours.REPLACE:
        added = 2 * added if is_grouped else replaced
    return Fraction(added * rows, 2)


def _plan_ends(
    level: Fraction, epsilon: Fraction, reach: Callable[[int, int], Fraction]
) -> tuple[Exponential, bool]:
    """Return how sharp the ends of the interval are, and whether they are flat."""
    row, common, is_extreme = 2 * level.denominator, _move(level), not EXTREME < level < 1 - EXTREME
    span, replaced = (3 * row, 3 * row) if is_extreme else (row + common, 2 * row)
    ends = Exponential(reach(span, replaced), epsilon)
    if ends.rate * row <= ROUGH:
        return ends, True
    inner = row if is_extreme else common
    return Exponential(reach(2 * inner + 2 * common, 4 * row), epsilon), False


def _plan_value(moved: int, units: int, half: int, granted: Loss, least: Fraction) -> _Value:
    """Return how sharp the choice of the value is, how fast averages decay, and what both cost.

    A row moves ranks by up to ``moved`` steps, of which half a row has ``half``, and a unit may do
    so ``units`` times. Where weights fall by less than ``least`` for half a row, or too fast, rows
    are not averaged, and decay is 0.

    Why: a row costs rate moved (1 + SLOPE), and (rate half)^2 / 8 where half a row is not all that
         ranks move by. The rate at which the first term alone costs epsilon is more than that
         returned, so in the second it is more than is needed.
    """
    epsilon = max_epsilon(granted, BoundedRangeLoss)
    reach, is_pure = Fraction(units * moved), isinstance(granted, PureLoss)
    plain = Exponential(reach, epsilon)
    choice = Exponential(reach, epsilon * (1 - SPARE))
    if is_pure:
        first = reach * (1 + SLOPE)
        second = Fraction(units * half**2, 8) if moved != half else Fraction(0)
        rate = choice.epsilon / (first + second * choice.epsilon / first)
        choice = Exponential(reach, 2 * reach * rate)
    fall = choice.rate * half
    if not least <= fall <= MOST_FALL:
        return plain, Fraction(0), plain.loss
    return (
        choice,
        fall * (SLOPE if is_pure else FREE_SLOPE),
        (PureLoss(epsilon) if is_pure else plain.loss),
    )


@dataclass(frozen=True, slots=True)
class _Near:
    """How far a value is from the quantile, beside how sharp the ends of its interval are.

    Distances are in ranks times the ends' rate; the value's rate is 2**doublings times that.
    ``aside`` is where the value falls between rows, and ``spread`` the deviation of averages.
    """

    ends: Exponential
    row: int
    doublings: float
    aside: float
    spread: float

    @classmethod
    def of(cls, choice: Exponential, ends: Exponential, row: int, decay: Fraction) -> "_Near":
        """Return it for a value and ends.

        Why: where rows are spread evenly by chance, the place of the t-th row from another varies
             by t, and the average of both sides with weights that decay by 2 decay for a row by
             1 / (8 decay). Of that the average has the part 1 - (decay / fall)^2, nearly.
        """
        size = float(f"{min(float(ends.rate * row), LARGEST_ROW):.2g}")
        doublings = round(math.log2(choice.rate / ends.rate), 3)
        if not decay:
            return cls(ends, row, doublings, size / 4, 0.0)
        averaged = 1.0 - float(2 * decay / (choice.rate * row)) ** 2
        spread = round(averaged * math.sqrt(1.0 / (8.0 * float(decay))), 2)
        return cls(ends, row, doublings, 0.0, size * spread)

    def is_sharp(self, *, is_flat: bool) -> bool:
        """Return whether an end that aims at the quantile misses it nearly as often as it may."""
        return _count_misses(self._beyond(), 0.0, is_flat=is_flat) >= ENOUGH

    def aim(self, *, is_flat: bool, is_extreme: bool) -> End:
        """Return where an end is aimed; an extreme one keeps away from the end of all rows."""
        shift = Fraction(_find_shift(self._beyond(), is_flat=is_flat))
        edge = min(math.ceil(Fraction(UNSEEN) / self.ends.rate), LARGEST_SHIFT)
        margin = (FLAT_MARGIN if is_flat else MARGIN) * self.row
        steps = min(math.ceil(shift / self.ends.rate + margin), LARGEST_SHIFT)
        return End(steps, edge if is_extreme else None, is_flat)

    def _beyond(self) -> tuple[float, float, float]:
        return self.doublings, self.aside, self.spread


@lru_cache(maxsize=64)
def _find_shift(beyond: tuple[float, float, float], *, is_flat: bool) -> float:
    """Return how far out an end must aim to miss the exact quantile no more often than MISS."""
    low, high = 0.0, 40.0
    if _count_misses(beyond, low, is_flat=is_flat) <= MISS:
        return low
    for _ in range(50):
        middle = (low + high) / 2
        is_near = _count_misses(beyond, middle, is_flat=is_flat) > MISS
        low, high = (middle, high) if is_near else (low, middle)
    return high


def _count_misses(beyond: tuple[float, float, float], apart: float, *, is_flat: bool) -> float:
    """Return how often an end that aims so far out lies between the quantile and the value.

    Why: where rows are dense, the rank of the value follows a two-sided exponential law about that
         of averaged rows, which is taken to be normal about the quantile's with the deviation
         ``spread``; ``aside`` is added for where it falls between rows, a quarter of a row unless
         they are averaged. It lies above by some u in half of all releases; the low end, chosen
         below the value, then lies between with a chance that is integrated over u, by the
         midpoint rule. Aimed d too low, a flat end has the weight u + d above its aim, of
         which u is between, and 1 below: u / (1 + d + u). Another end has a two-sided
         exponential law cut off at the value: e^-d (1 - e^-u) / (2 - e^(-d-u)).
    """
    u = _list_distances(*beyond)
    if is_flat:
        return float(0.5 * np.mean(u / (1.0 + apart + u)))
    fall, t = math.exp(-apart), np.exp(-u)
    return float(0.5 * fall * np.mean((1.0 - t) / (2.0 - fall * t)))


@lru_cache(maxsize=64)
def _list_distances(doublings: float, aside: float, spread: float) -> NDArray[np.float64]:
    """Return how far a value is from the quantile, in equally likely cases."""
    size = -np.log((np.arange(POINTS) + 0.5) / POINTS) / 2.0**doublings
    distances: NDArray[np.float64] = np.abs(np.add.outer(spread * np.array(NORMAL), size)).ravel()
    return aside + distances


COUNT_PART: Final = Fraction(1, 5)


@dataclass(frozen=True, slots=True)
class QuantileSplit:
    """One choice: the level at ``place``, between those at ``below`` and ``above``, chosen before.

    None stands for the end of the range.
    """

    place: int
    below: int | None
    above: int | None


@dataclass(frozen=True, slots=True)
class QuantileTree:
    """The choices of several quantiles, round by round.

    Law:     a split chooses a cell strictly between those of its neighbours, with a probability in
             proportion to its weight times exp(-rate gap), where gap is the distance of a n from
             [b L, b (L + m)]: of n rows between the neighbours L lie below the cell and m in it.
             Then L and m are released with noise. Which part a / b of its rows a split wants
             follows from what was released before; where it is none, or all, the neighbor is
             taken. A cell with more rows than noise can feign moves what is wanted beside it;
             another is taken to lie at its level.
    Claim:   quantiles never cross, and all rounds together cost what was granted.
    Why:     splits of one round are about cells of which none has any twice, so a row counts for at
             most one of them. One row more moves a n by a, b L by b for the cells above it and b m
             for its own, hence all gaps of its split by at most max(a, b - a) either way, and L or
             m by 1. Log-ratios of the splits of a round add up to what the rows of a unit make
             together. A unit replaced takes its rows away and brings others.
    Source:  [KSS22] for halving, [MT07]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_quantiles.py.
    """

    rounds: tuple[tuple[QuantileSplit, ...], ...]
    epsilon: Fraction
    moved: int
    noise: TotalNoise

    @property
    def slack(self) -> int:
        """How many rows noise may well feign: three deviations."""
        return math.ceil(3.0 * self.noise.law.deviation(0))

    def choose(self, level: Fraction) -> Exponential:
        """Return the choice of a split that wants this part of its rows."""
        furthest = max(level.numerator, level.denominator - level.numerator)
        return Exponential(self.moved * furthest, self.epsilon)


def plan_quantile_tree(
    levels: int, rows: int, neighbours: Neighbours, granted: Loss
) -> QuantileTree:
    """Return how so many quantiles are chosen, at the cost of ``granted``.

    ``rows`` is how many rows a unit may have.
    """
    rounds = tuple(_list_rounds(levels))
    part = fraction_of(granted, Fraction(1, len(rounds)))
    moved = rows * (1 if neighbours is Neighbours.ADD_REMOVE else 2)
    epsilon = max_epsilon(fraction_of(part, 1 - COUNT_PART), BoundedRangeLoss)
    counts = loss_for_noise(fraction_of(part, COUNT_PART))
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
