"""Plans for private selection: top keys, candidates, bin widths, and block ranks.

Each plan fixes a mechanism that chooses one of several candidates by an exact score, and bounds how
much one unit can change the scores. The choice itself is drawn later, by release/selection.py or by
a statistic.

- Top keys and candidates: the score is an exact total, either the count of a key or the result of
  a candidate query. One unit may change many scores at once. The cost of a choice depends on the
  most that one unit can change one score relative to another.
- Block ranks: the owner's estimator runs on blocks of units. Every unit is in one block, so adding
  or removing a unit changes only the results of that block, within declared bounds.
- Bin widths: 1, 2, 4, ... bins over a fixed range. Halving every bin pays off if the halves differ
  by more than sampling and noise explain. The length of the vector of these differences measures
  that, and one unit changes the length only a little.
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
"""The maximum number of steps in what one unit can change; finer scores are rounded."""

Selector = Exponential | PermuteAndFlip
"""A mechanism that chooses a candidate, more probably one with a higher score."""


def make_selector(spread: Fraction | int, granted: Loss, rounds: int) -> Selector:
    """Return a selector of which ``rounds`` uses cost at most ``granted``.

    ``spread`` is the most by which one unit can change one score relative to another. Under pure
    accounting, the selector is permute-and-flip. Otherwise it is the exponential mechanism, whose
    bounded-range loss costs less under other kinds of accounting.

    Claim:   the changes of all ``rate * score`` by one unit lie in one interval of length epsilon.
    Why:     only differences of scores matter, so a change common to all scores is free. Changes in
             an interval of length ``spread`` are thus as good as changes of at most spread / 2,
             those from its midpoint. If one unit only increases counts, this halves the
             sensitivity, as for monotone scores. If a unit is replaced, counts may change in both
             directions, and nothing is halved.
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

    ``groups`` are the keys, and ``count`` is k.

    Law:     each of ``rounds`` rounds draws one of the remaining keys by ``selector``.
    Claim:   all rounds together cost at most what was granted, however many keys there are and
             however many of their counts one unit changes.
    Why:     a round is one choice among the keys that earlier rounds left, so rounds compose
             adaptively. With Gumbel noise, the rounds have the same distribution as the order of
             the k greatest noisy counts, with noise drawn once: given that key i is the greatest,
             the other noisy counts are still independent, conditioned on being below it. So the
             greatest of them has the distribution of the next round. If all keys are requested, the
             last one remains without a choice.
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
        """Return a bound on how far chosen counts are below the best remaining ones, rounded up.

        Claim: with at least this confidence, no round exceeds the bound.
        Why:   each round exceeds it with probability at most (1 - confidence) / rounds.
        """
        miss = 1 - probability("confidence", confidence, zero=False)
        return self.selector.regret(len(self.groups), 1 - miss / self.rounds)


def _count_rounds(chosen: int, keys: int) -> int:
    """Return the number of charged choices, at least 1, for ``chosen`` of ``keys`` keys."""
    return max(1, min(chosen, keys - 1))


def check_selection(query: Query, catalog: Catalog, facts: PublicFacts) -> None:
    """Refuse a selection among undeclared or too many keys, or one that takes too long."""
    ranges = ranges_of(query.source, catalog, facts)
    optional = optional_tables(query.source)
    domains = [domain_of(key, ranges, optional) for key in query.keys]
    known = [len(domain) for domain in domains if domain is not None]
    count = math.prod(known)
    if len(known) < len(domains) or count > MAX_GROUPS:
        raise UnsupportedQuery(
            "The most frequent keys can be selected only among declared keys. Group by columns "
            "declared as `Category` or `Bool`, or as `Int` or `Date` with a short range. If the "
            "budget has a delta, you can also add `COUNT(*)` to release the keys that enough units "
            "share."
        )
    if min(query.limit or count, count) * count > MAX_DRAWS:
        raise UnsupportedQuery(
            f"Selecting {query.limit:,} of {count:,} keys takes too long. Use a smaller LIMIT, or "
            "add `COUNT(*)` and sort by the noisy counts."
        )


def plan_top_keys(plan: Plan, neighbours: Neighbours, granted: Loss) -> TopKeysPlan:
    """Return the plan that chooses the keys of a planned query at the cost ``granted``."""
    if not isinstance(plan.keys, DeclaredKeys) or len(plan.totals) != 1:
        raise Fault("A selection needs declared keys and one count.")
    groups = plan.keys.groups
    count = min(plan.query.limit or len(groups), len(groups))
    changes = score_change(plan.totals[0], plan.contribution, neighbours)
    selector = make_selector(changes.spread, granted, _count_rounds(count, len(groups)))
    return TopKeysPlan(plan, groups, count, selector)


@dataclass(frozen=True, slots=True)
class CandidatePlan:
    """A choice among several queries, in which greater exact answers are more probable.

    Each plan has one total, its score. Scores are counted in steps of size ``step``. They are exact
    (``is_exact``) if every total is a multiple of ``step``. Otherwise they are rounded, to about
    2^-30 of what one unit can change.

    Claim: in steps, the changes of all scores by one unit lie in one interval. Its length is the
           spread for which the selector was made.
    Why:   one interval contains the changes of all totals. Rounding to steps, with ties upwards,
           preserves order and commutes with adding integer numbers of steps. So it extends the
           interval at most to the next integer numbers of steps.
    """

    plans: tuple[Plan, ...]
    step: Fraction
    is_exact: bool
    selector: Selector

    def regret(self, confidence: Number = 0.95) -> float:
        """Return a bound at this confidence on how far the choice is below the best, rounded up."""
        steps = Fraction(self.selector.regret(len(self.plans), confidence))
        return float_above((steps + (0 if self.is_exact else 1)) * self.step)


def check_score(query: Query) -> None:
    """Refuse a score that is not one COUNT or SUM, without GROUP BY and HAVING."""
    top = query.outputs[0].expression
    is_plain = not query.keys and query.having is None and len(query.outputs) == 1
    if not is_plain or not isinstance(top, AggregateCall) or not function_of(top).is_linear:
        raise UnsupportedQuery(
            "A score must be a single number. Select only `COUNT(*)`, `COUNT(DISTINCT unit)`, or "
            "`SUM(x)`, without GROUP BY and HAVING."
        )


def plan_candidates(plans: Sequence[Plan], neighbours: Neighbours, granted: Loss) -> CandidatePlan:
    """Return the plan that chooses one of these planned scores at the cost ``granted``."""
    changes = [score_change(only_total(plan), plan.contribution, neighbours) for plan in plans]
    low, high = min(change.low for change in changes), max(change.high for change in changes)
    finest = _common_step([score_unit(only_total(plan)) for plan in plans])
    is_exact = high - low <= SCORE_STEPS * finest
    step = finest if is_exact else (high - low) / SCORE_STEPS
    spread = max(1, math.ceil(high / step) - math.floor(low / step))
    return CandidatePlan(tuple(plans), step, is_exact, make_selector(spread, granted, rounds=1))


def only_total(plan: Plan) -> Total:
    """Return the only total of a score, which is the score in steps of the total's grid."""
    (total,) = plan.totals
    if total.grid is not None and total.grid.center:
        raise Fault("The sum of a score must not be centered.")
    return total


def _common_step(steps: Sequence[Fraction]) -> Fraction:
    """Return the greatest number of which all ``steps`` are integer multiples."""
    denominator = math.lcm(*(step.denominator for step in steps))
    return Fraction(math.gcd(*(int(step * denominator) for step in steps)), denominator)


FINE_BITS: Final = 32
BLOCK_STEPS: Final = 2**FINE_BITS
"""The number of grid steps between the bounds of a block's result."""


@dataclass(frozen=True, slots=True)
class BlockReading:
    """The columns and the number of blocks to read; ``table`` states the limit on a unit's rows."""

    table: Table
    columns: tuple[str, ...]
    blocks: int


def grid_of_bounds(low: Fraction, high: Fraction) -> ValueGrid:
    """Return the grid of a block's result: 2^32 equal steps from the lower bound to the upper."""
    return ValueGrid(low, (high - low) / BLOCK_STEPS, 0, BLOCK_STEPS)


def coarsen_grid(grid: ValueGrid, low: int, high: int, cell: int) -> ValueGrid:
    """Return the grid of every ``cell``-th value, from ``low`` steps to ``high`` or just below."""
    return ValueGrid(grid.center + grid.step * low, grid.step * cell, 0, (high - low) // cell)


def sum_noise(widths: Sequence[int], neighbours: Neighbours, granted: Loss) -> TotalNoise:
    """Return noise for several sums over blocks.

    In sum i, the summand of each block is an integer from 0 to ``widths[i]``.

    Claim:   costs at most ``granted``.
    Why:     adding or removing a unit changes one block, and so each sum by at most its width.
             Replacing a unit may change two blocks. So the sensitivities are those of one row, or
             of two rows, with values in the same range.
    Source:  [NRS07]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_sample_and_aggregate.py.
    """
    changed = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    sensitivities = [TotalSensitivity(max(1, width), changed, changed**2) for width in widths]
    return noise_for(sensitivities, loss_for_noise(granted))


def choose_rank(neighbours: Neighbours, granted: Loss, part: Fraction) -> Exponential:
    """Return the mechanism that chooses a value at a given rank among the blocks' results.

    Claim:   costs at most the fraction ``part`` of ``granted``.
    Why:     let L results be below a value of the grid, and m equal to it. The score of the value
             is minus the distance of the fixed rank from [L, L + m]. Changing one block's result
             changes L and L + m by at most 1, up or down; replacing a unit may change two results.
    Source:  [MT07], [Smi11].
    Checked: tests/statistics/test_sample_and_aggregate.py.
    """
    changed = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    return Exponential(changed, max_epsilon(fraction_of(granted, part), BoundedRangeLoss))


WIDTH_STEPS: Final = 1_000
"""The number of steps in a score of 1."""
MIN_THRESHOLD_COUNT: Final = 50
HANDICAP_PER_HALVING: Final = 2
STEPS_PER_ROW: Final = WIDTH_STEPS + WIDTH_STEPS // 10
"""The most steps by which a row changes a score: 1,000 in the length, 100 in the threshold."""


@dataclass(frozen=True, slots=True)
class WidthChoice:
    """A choice among 2^0, 2^1, ..., 2^levels bins, by how well each suits the exact counts.

    Let n be the number of rows, and v the ``variance`` of the noise in a bin. For 2^l bins, let d_l
    be the vector of differences between the counts of the two halves of each bin. Halving all of
    these bins reduces the estimated squared error by (|d_l|^2 - 2 n - 3 2^l v) 2^l / n^2. So it
    pays off if the length |d_l| exceeds a threshold t_l, the square root of
    2 max(n, 50) + 3 2^l v. The score of 2^k bins is a minimum: of |d_(k-1)| - t_(k-1), by which the
    last halving paid off (if k > 0), and of t_l - |d_l| for all l >= k, by which further halvings
    do not pay off. Each |d_l| and t_l is counted in steps of 1/1000, rounded down. From each score,
    a handicap fixed in advance is subtracted; see `prefer`.

    Claim:   one additional row, or one row less, changes every score by at most 1,100 steps.
    Why:     a row changes one coordinate of each d_l by 1, so its length by at most 1: 1,000 steps.
             Up to 50 rows, t_l is constant. Beyond, a row changes the number under the root by 2;
             as that number is at least 100, t_l changes by at most 1 / sqrt(100): 100 steps.
             Rounding down keeps changes within integer numbers of steps, and the minimum of
             several numbers changes by no more than the numbers do. A handicap does not change.
    Source:  docs/proofs/statistics.md; [Rud82] for the criterion, [MT07] for the choice.
    Checked: tests/statistics/test_density.py.
    """

    levels: int
    variance: Fraction
    selector: Selector
    handicaps: tuple[int, ...] = ()

    def prefer(self, halvings: float) -> "WidthChoice":
        """Return the choice with handicaps that favor about 2^halvings bins.

        # Privacy: ``halvings`` must follow from the declaration and from earlier releases alone.

        At equal scores, every halving more or less than ``halvings`` divides the probability by
        about e^2 in the exponential mechanism. Scores that differ by much more than the noise of
        the choice outweigh the handicaps.
        """
        unit = HANDICAP_PER_HALVING / self.selector.rate
        away = (abs(level - halvings) for level in range(self.levels + 1))
        return replace(self, handicaps=tuple(round(Fraction(far) * unit) for far in away))

    def scores(self, counts: Sequence[int]) -> list[int]:
        """Return the score of each number of bins, in steps, given the 2^levels finest counts."""
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
    """Return the square root of ``square`` in steps, rounded down."""
    return math.isqrt(math.floor(square * WIDTH_STEPS**2))


def plan_width(
    levels: int,
    variance: Fraction,
    contribution: ContributionBounds,
    neighbours: Neighbours,
    granted: Loss,
) -> WidthChoice:
    """Return the plan that chooses the number of bins at the cost ``granted``.

    There are up to 2^levels bins. ``variance`` is that of the noise later added to each bin.

    Why: the number of rows of a unit is bounded. Adding or removing r rows one by one changes a
         score by at most r times as much as one row can. Replacing a unit does both.
    """
    changes = STEPS_PER_ROW * contribution.rows * (2 if neighbours is Neighbours.REPLACE else 1)
    return WidthChoice(levels, variance, make_selector(2 * changes, granted, rounds=1))
