"""Private selection: top keys, candidates, bin widths, and block ranks.

A score is an exact total: the count of a key, or the sum computed by one query. One unit may
change many scores at once; the cost of a choice depends on how far apart it can move any two.

Every unit lies in one block, so one unit changes the results of one block, within their bounds.

Bin widths are chosen among 1, 2, 4, ... bins over a fixed range. Halving every bin pays off if the
halves differ by more than sampling and noise explain. The length of the vector of differences
measures this, and one unit hardly changes that length.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from confide.aggregates import function_of
from confide.declare import Catalog, Table
from confide.errors import Fault, UnsupportedQuery
from confide.exact import Number, float_above, probability
from confide.expressions.tree import AggregateCall, Value
from confide.loss import BoundedRangeLoss, Loss, PureLoss
from confide.mechanisms import Exponential, Neighbours, PermuteAndFlip
from confide.plan.calibration import (
    NO_NOISE,
    TotalNoise,
    fraction_of,
    loss_for_noise,
    max_epsilon,
    noise_for,
)
from confide.plan.contribution import ContributionBounds, PublicFacts, optional_tables, ranges_of
from confide.plan.keys import MAX_GROUPS, DeclaredKeys, domain_of
from confide.plan.plan import Plan
from confide.plan.sensitivity import TotalSensitivity, score_change, score_unit
from confide.plan.totals import Total, ValueGrid
from confide.query.tree import Query

__all__ = [
    "FINE_BITS",
    "BlockReading",
    "CandidatePlan",
    "Selector",
    "TopKeysPlan",
    "WidthChoice",
    "check_score",
    "check_selection",
    "choose_rank",
    "coarsen_grid",
    "grid_of_bounds",
    "make_selector",
    "max_epsilon",
    "only_total",
    "plan_candidates",
    "plan_top_keys",
    "plan_width",
    "sum_noise",
]

MAX_DRAWS: Final = 10**8
SCORE_STEPS: Final = 2**30

Selector = Exponential | PermuteAndFlip


def make_selector(spread: Fraction | int, granted: Loss, rounds: int) -> Selector:
    """Return a selector of which ``rounds`` uses cost at most ``granted``.

    Claim:   permute-and-flip under pure accounting, otherwise the exponential mechanism, whose
             bounded range is cheaper. Changes of ``rate * score`` lie in an interval of length
             epsilon.
    Why:     only differences of scores matter, so a common shift is free: changes within
             [low, high] are changes of at most spread / 2 around the midpoint. For counts that only
             grow, this is the factor 2 of monotone scores; under replacement there is none.
    Source:  [MT07], [MS20]; confide.mechanisms states both losses.
    Checked: tests/curator/test_selection.py.
    """
    half = Fraction(spread) / 2
    if isinstance(granted, PureLoss):
        return PermuteAndFlip(half, max_epsilon(granted, PureLoss, rounds))
    return Exponential(half, max_epsilon(granted, BoundedRangeLoss, rounds))


@dataclass(frozen=True, slots=True)
class TopKeysPlan:
    """The k most frequent declared keys, chosen one after the other.

    Law:     each of ``rounds`` rounds draws one of the remaining keys by ``selector``.
    Claim:   all rounds together cost what was granted, however many keys there are and however
             many of their counts one unit changes.
    Why:     a round is one choice among the keys that earlier rounds left, so rounds compose
             adaptively. With Gumbel noise, this yields the order of the k greatest noisy counts
             with noise drawn once: given that key i is the greatest, the others are still
             independent, conditioned on being below it, and the greatest of them has the
             distribution of the next round. If all keys are requested, the last one is left over
             without a choice.
    Source:  [DR19] for the equality with one draw.
    Checked: tests/curator/test_selection.py.
    """

    plan: Plan
    groups: tuple[tuple[Value, ...], ...]
    count: int
    selector: Selector

    @property
    def rounds(self) -> int:
        """The number of choices that are charged."""
        return _count_rounds(self.count, len(self.groups))

    @property
    def shown(self) -> Plan:
        """The plan of the answer: keys in the order in which they were chosen, without numbers."""
        keys_only = replace(self.plan.query, order=(), limit=None)
        measured = replace(self.plan.measurement, query=keys_only, totals=(), statistics=())
        return replace(self.plan, measurement=measured, noise=NO_NOISE)

    def regret(self, confidence: Number = 0.95) -> float:
        """Return the most by which a chosen count may fall short of the best one left, rounded up.

        Claim: with at least this confidence, no round exceeds the returned value.
        Why:   each round exceeds its bound with probability at most (1 - confidence) / rounds.
        """
        miss = 1 - probability("confidence", confidence, zero=False)
        return self.selector.regret(len(self.groups), 1 - miss / self.rounds)


def _count_rounds(chosen: int, keys: int) -> int:
    return max(1, min(chosen, keys - 1))


def check_selection(query: Query, catalog: Catalog, facts: PublicFacts) -> None:
    """Refuse a selection among undeclared keys, or one that takes too long to compute."""
    ranges = ranges_of(query.source, catalog, facts)
    optional = optional_tables(query.source)
    domains = [domain_of(key, ranges, optional) for key in query.keys]
    known = [len(domain) for domain in domains if domain is not None]
    count = math.prod(known)
    if len(known) < len(domains) or count > MAX_GROUPS:
        raise UnsupportedQuery(
            "the most frequent keys are chosen among keys known beforehand; group by columns "
            "declared as Category or Bool, or Int or Date of a short range, or select COUNT(*) "
            "as well, which names keys that enough units share where the budget has a delta"
        )
    if min(query.limit or count, count) * count > MAX_DRAWS:
        raise UnsupportedQuery(
            f"choosing {query.limit:,} of {count:,} keys takes too long; ask for fewer, or select "
            "COUNT(*) as well and sort the noisy counts"
        )


def plan_top_keys(plan: Plan, neighbours: Neighbours, granted: Loss) -> TopKeysPlan:
    """Return the plan that chooses the keys of a planned query at the cost ``granted``."""
    if not isinstance(plan.keys, DeclaredKeys) or len(plan.totals) != 1:
        raise Fault("a selection needs declared keys and one count")
    groups = plan.keys.groups
    count = min(plan.query.limit or len(groups), len(groups))
    changes = score_change(plan.totals[0], plan.contribution, neighbours)
    selector = make_selector(changes.spread, granted, _count_rounds(count, len(groups)))
    return TopKeysPlan(plan, groups, count, selector)


@dataclass(frozen=True, slots=True)
class CandidatePlan:
    """A choice among several queries, in which greater exact answers are more probable.

    Scores are integer multiples of ``step``. They are exact if all totals fit its grid, and
    otherwise rounded to about 2^-30 of what one unit can change.

    Claim: in steps, the changes of all scores by one unit lie in one interval, whose length is the
           selector's spread.
    Why:   the changes of every score lie in the smallest interval that contains all of theirs.
           Rounding to steps, with ties upwards, preserves order and commutes with whole steps, so
           it extends the interval at most to the next whole steps.
    """

    plans: tuple[Plan, ...]
    step: Fraction
    is_exact: bool
    selector: Selector

    def regret(self, confidence: Number = 0.95) -> float:
        """Return the most by which the chosen score may fall short of the best one, rounded up."""
        steps = Fraction(self.selector.regret(len(self.plans), confidence))
        return float_above((steps + (0 if self.is_exact else 1)) * self.step)


def check_score(query: Query) -> None:
    """Refuse a score that is not one COUNT or SUM over all selected rows."""
    top = query.outputs[0].expression
    is_plain = not query.keys and query.having is None and len(query.outputs) == 1
    if not is_plain or not isinstance(top, AggregateCall) or not function_of(top).is_linear:
        raise UnsupportedQuery(
            "a score is one number: select a single COUNT(*), COUNT(DISTINCT unit) or SUM(x), "
            "without GROUP BY and HAVING"
        )


def plan_candidates(plans: Sequence[Plan], neighbours: Neighbours, granted: Loss) -> CandidatePlan:
    """Return the plan that chooses one of these planned scores at the cost ``granted``."""
    changes = [score_change(only_total(plan), plan.contribution, neighbours) for plan in plans]
    low, high = min(one.low for one in changes), max(one.high for one in changes)
    finest = _common_step([score_unit(only_total(plan)) for plan in plans])
    is_exact = high - low <= SCORE_STEPS * finest
    step = finest if is_exact else (high - low) / SCORE_STEPS
    spread = max(1, math.ceil(high / step) - math.floor(low / step))
    return CandidatePlan(tuple(plans), step, is_exact, make_selector(spread, granted, rounds=1))


def only_total(plan: Plan) -> Total:
    """Return the only total of a score, which equals the score."""
    (total,) = plan.totals
    if total.grid is not None and total.grid.center:
        raise Fault("the sum of a score must not be centred")
    return total


def _common_step(steps: Sequence[Fraction]) -> Fraction:
    """Return the greatest number of which all ``steps`` are integer multiples."""
    below = math.lcm(*(step.denominator for step in steps))
    return Fraction(math.gcd(*(int(step * below) for step in steps)), below)


FINE_BITS: Final = 32
BLOCK_STEPS: Final = 2**FINE_BITS


@dataclass(frozen=True, slots=True)
class BlockReading:
    """The columns to read, the number of blocks, and the table, which bounds a unit's rows."""

    table: Table
    columns: tuple[str, ...]
    blocks: int


def grid_of_bounds(low: Fraction, high: Fraction) -> ValueGrid:
    """Return the grid of one result: integer steps from its lower bound."""
    return ValueGrid(low, (high - low) / BLOCK_STEPS, 0, BLOCK_STEPS)


def coarsen_grid(grid: ValueGrid, low: int, high: int, cell: int) -> ValueGrid:
    """Return every ``cell``-th value of a grid, from ``low`` to ``high`` or just below."""
    return ValueGrid(grid.center + grid.step * low, grid.step * cell, 0, (high - low) // cell)


def sum_noise(widths: Sequence[int], neighbours: Neighbours, granted: Loss) -> TotalNoise:
    """Return noise for the sums over blocks of results within ``widths`` steps of their minimum.

    Claim:   costs ``granted``.
    Why:     adding or removing a unit changes one block, so each sum by at most its width;
             replacing a unit may change two blocks. These are the sensitivities of one row and of
             two.
    Source:  [NRS07]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_sample_and_aggregate.py.
    """
    moved = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    reaches = [TotalSensitivity(max(1, width), moved, moved**2) for width in widths]
    return noise_for(reaches, loss_for_noise(granted))


def choose_rank(neighbours: Neighbours, granted: Loss, part: Fraction) -> Exponential:
    """Return the choice of a value at a rank among the blocks' results.

    Claim:   costs the fraction ``part`` of ``granted``.
    Why:     a step with L results below it and m at it has a gap: the distance of a fixed rank from
             [L, L + m]. Changing one block's result changes L or L + m by at most 1, up or down;
             replacing a unit may change two results.
    Source:  [MT07], [Smi11].
    Checked: tests/statistics/test_sample_and_aggregate.py.
    """
    moved = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    return Exponential(moved, max_epsilon(fraction_of(granted, part), BoundedRangeLoss))


WIDTH_STEPS: Final = 1_000
MIN_THRESHOLD_COUNT: Final = 50
HANDICAP_PER_HALVING: Final = 2
STEPS_PER_ROW: Final = WIDTH_STEPS + WIDTH_STEPS // 10
"""Steps by which a row changes a score: one unit for the length, a tenth for the threshold."""


@dataclass(frozen=True, slots=True)
class WidthChoice:
    """A choice among 2^0, 2^1, ..., 2^levels bins, by how well each suits the exact counts.

    With counts n_j in 2^l bins, and d_l the differences between their halves, halving all bins
    reduces the estimated squared error by (|d_l|^2 - 2 n - 3 2^l v) 2^l / n^2. Here, v is the
    variance of the noise that stays in a bin. The score of k is the minimum of |d_(k-1)| - t_(k-1)
    and of t_l - |d_l| for l >= k: the first shows that the last halving paid off, the others that
    further ones do not. Here, t_l is the square root of 2 max(n, 50) + 3 2^l v. Scores are counted
    in steps of 1 / 1000, rounded down. A handicap fixed in advance is subtracted; see `prefer`.

    Claim:   one additional row, or one row less, changes every score by at most 1100 steps.
    Why:     a row changes one coordinate of each d_l by 1, so its length by at most 1: 1000 steps.
             The root of 100 or more plus twice the count changes by at most 1 / sqrt(100): 100
             steps. Rounding down keeps changes within integer numbers of steps, and the minimum of
             several numbers changes by no more than the numbers do. A handicap does not change.
    Source:  docs/proofs/statistics.md; [Rud82] for the criterion, [MT07] for the choice.
    Checked: tests/statistics/test_density.py.
    """

    levels: int
    variance: Fraction
    selector: Selector
    handicaps: tuple[int, ...] = ()

    def prefer(self, halvings: float) -> "WidthChoice":
        """Return the choice that prefers about ``halvings`` halvings if the counts say little.

        # Privacy: ``halvings`` must follow from the declaration and from earlier releases alone.

        Each halving away from it reduces the probability of a width by a factor of e^2, relative to
        the noise of the choice. Scores that differ by much more than that noise decide on their
        own.
        """
        unit = HANDICAP_PER_HALVING / self.selector.rate
        away = (abs(level - halvings) for level in range(self.levels + 1))
        return replace(self, handicaps=tuple(round(Fraction(far) * unit) for far in away))

    def scores(self, counts: Sequence[int]) -> list[int]:
        """Return the score of each number of bins, given the counts in the finest bins."""
        size = sum(counts)
        gains: list[int] = []
        halves = list(counts)
        for level in reversed(range(self.levels)):
            pairs = list(zip(halves[::2], halves[1::2], strict=True))
            length = sum((left - right) ** 2 for left, right in pairs)
            threshold = 2 * max(size, MIN_THRESHOLD_COUNT) + 3 * 2**level * self.variance
            gains.append(_steps_of_root(Fraction(length)) - _steps_of_root(threshold))
            halves = [left + right for left, right in pairs]
        gains.reverse()  # gains[l] is the gain from halving 2^l bins
        scores = [
            min([gains[level - 1]] * (level > 0) + [-gain for gain in gains[level:]], default=0)
            for level in range(self.levels + 1)
        ]
        handicaps = self.handicaps or (0,) * len(scores)
        return [score - handicap for score, handicap in zip(scores, handicaps, strict=True)]


def _steps_of_root(square: Fraction) -> int:
    """Return the square root in steps, rounded down."""
    return math.isqrt(math.floor(square * WIDTH_STEPS**2))


def plan_width(
    levels: int,
    variance: Fraction,
    contribution: ContributionBounds,
    neighbours: Neighbours,
    granted: Loss,
) -> WidthChoice:
    """Return the plan that chooses the number of bins at the cost ``granted``.

    Why: the rows of a unit are bounded. Adding or removing them one by one changes a score by that
         many times as much as one row, and replacing a unit does both.
    """
    changes = STEPS_PER_ROW * contribution.rows * (2 if neighbours is Neighbours.REPLACE else 1)
    return WidthChoice(levels, variance, make_selector(2 * changes, granted, rounds=1))
