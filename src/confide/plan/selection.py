"""Private selection: top keys, candidates, bin widths and block ranks.

A score is an exact total: the count of a key, or what one question adds up to. One unit may change
many scores at once; a choice costs by how far apart it can move any two of them.

Every unit lies in one block, so one unit changes the results of one block, within their bounds.

Candidates are 1, 2, 4, ... bins over a fixed range. Cutting every bin in two pays when the halves
differ by more than chance and noise make them differ; the length of the vector of differences
says so, and one unit hardly changes a length.
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
from confide.plan.keys import MOST_GROUPS, DeclaredKeys, domain_of
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
    "cut_grid",
    "grid_of_bounds",
    "make_selector",
    "max_epsilon",
    "only_total",
    "plan_contest",
    "plan_selection",
    "plan_width",
    "sum_noise",
]

MOST_DRAWS: Final = 10**8
SCORE_STEPS: Final = 2**30

Selector = Exponential | PermuteAndFlip


def make_selector(spread: Fraction | int, granted: Loss, rounds: int) -> Selector:
    """Return the choice of which ``rounds`` cost at most ``granted``.

    Claim:   permute-and-flip under pure accounting; else the exponential mechanism, whose bounded
             range is cheaper there. Each moves ``rate * score`` by an interval of length epsilon.
    Why:     only differences of scores decide, so a common shift is free: moves within
             [low, high] are moves of at most spread / 2 about the middle. For counts that only
             grow this is the factor 2 of monotone scores; under replacement there is none.
    Source:  [MT07], [MS20]; confide.mechanisms states both losses.
    Checked: tests/curator/test_selection.py.
    """
    half = Fraction(spread) / 2
    if isinstance(granted, PureLoss):
        return PermuteAndFlip(half, max_epsilon(granted, PureLoss, rounds))
    return Exponential(half, max_epsilon(granted, BoundedRangeLoss, rounds))


@dataclass(frozen=True, slots=True)
class TopKeysPlan:
    """The k most frequent of the declared keys, chosen one after the other.

    Law:     in each of ``rounds`` rounds one of the keys not yet chosen, by ``selector``.
    Claim:   all rounds cost what was granted, however many keys there are and however many of
             their counts one unit moves.
    Why:     a round is one choice among keys that earlier rounds left, so rounds compose
             adaptively. With Gumbel noise this is the order of the k greatest noisy counts, noise
             drawn once: given that key i is the greatest, the others are still independent up to
             being below it, and of those the greatest has the law of the next round. When all
             keys are asked for, the last one is left over, and no choice.
    Source:  [DR19] for the equality with one draw.
    Checked: tests/curator/test_selection.py.
    """

    plan: Plan
    groups: tuple[tuple[Value, ...], ...]
    most: int
    selector: Selector

    @property
    def rounds(self) -> int:
        """How many choices are paid for."""
        return _count_rounds(self.most, len(self.groups))

    @property
    def shown(self) -> Plan:
        """The plan of the answer: keys in the order in which they were chosen, and no numbers."""
        keys_only = replace(self.plan.query, order=(), limit=None)
        measured = replace(self.plan.measurement, query=keys_only, totals=(), statistics=())
        return replace(self.plan, measurement=measured, noise=NO_NOISE)

    def regret(self, confidence: Number = 0.95) -> float:
        """Return by how much a chosen count may fall short of the best count left, rounded up.

        Claim: with at least this confidence, in no round by as much.
        Why:   each round exceeds its bound with probability at most (1 - confidence) / rounds.
        """
        miss = 1 - probability("confidence", confidence, zero=False)
        return self.selector.regret(len(self.groups), 1 - miss / self.rounds)


def _count_rounds(most: int, count: int) -> int:
    return max(1, min(most, count - 1))


def check_selection(query: Query, catalog: Catalog, facts: PublicFacts) -> None:
    """Refuse to choose among keys that nobody declared, or more often than can be computed."""
    ranges = ranges_of(query.source, catalog, facts)
    optional = optional_tables(query.source)
    domains = [domain_of(key, ranges, optional) for key in query.keys]
    known = [len(domain) for domain in domains if domain is not None]
    count = math.prod(known)
    if len(known) < len(domains) or count > MOST_GROUPS:
        raise UnsupportedQuery(
            "the most frequent keys are chosen among keys known beforehand; group by columns "
            "declared as Category or Bool, or Int or Date of a short range, or select COUNT(*) "
            "as well, which names keys that enough units share where the budget has a delta"
        )
    if min(query.limit or count, count) * count > MOST_DRAWS:
        raise UnsupportedQuery(
            f"choosing {query.limit:,} of {count:,} keys takes too long; ask for fewer, or select "
            "COUNT(*) as well and sort the noisy counts"
        )


def plan_selection(plan: Plan, neighbours: Neighbours, granted: Loss) -> TopKeysPlan:
    """Return how the keys of a planned question are chosen at the cost of ``granted``."""
    if not isinstance(plan.keys, DeclaredKeys) or len(plan.totals) != 1:
        raise Fault("a selection needs declared keys and one count")
    groups = plan.keys.groups
    most = min(plan.query.limit or len(groups), len(groups))
    moves = score_change(plan.totals[0], plan.contribution, neighbours)
    selector = make_selector(moves.spread, granted, _count_rounds(most, len(groups)))
    return TopKeysPlan(plan, groups, most, selector)


@dataclass(frozen=True, slots=True)
class CandidatePlan:
    """One of several questions, the likelier the greater its exact answer.

    Scores are whole multiples of ``step``: exact where all totals fit its grid, else rounded to
    about 2^-30 of what one unit can change.

    Claim: in steps, one unit moves all scores by amounts within one interval of the selector's
           spread.
    Why:   the moves of every score lie within the widest interval of all; rounding to steps, ties
           upwards, keeps order and commutes with whole steps, so it stretches the interval at
           most to its next whole steps outside.
    """

    plans: tuple[Plan, ...]
    step: Fraction
    is_exact: bool
    selector: Selector

    def regret(self, confidence: Number = 0.95) -> float:
        """Return by how much the chosen score may fall short of the best one, rounded up."""
        steps = Fraction(self.selector.regret(len(self.plans), confidence))
        return float_above((steps + (0 if self.is_exact else 1)) * self.step)


def check_score(query: Query) -> None:
    """Refuse a score that is not one COUNT or SUM of all rows asked about."""
    top = query.outputs[0].expression
    plain = not query.keys and query.having is None and len(query.outputs) == 1
    if not plain or not isinstance(top, AggregateCall) or not function_of(top).is_linear:
        raise UnsupportedQuery(
            "a score is one number: select a single COUNT(*), COUNT(DISTINCT unit) or SUM(x), "
            "without GROUP BY and HAVING"
        )


def plan_contest(plans: Sequence[Plan], neighbours: Neighbours, granted: Loss) -> CandidatePlan:
    """Return how one of these planned scores is chosen at the cost of ``granted``."""
    moves = [score_change(only_total(plan), plan.contribution, neighbours) for plan in plans]
    low, high = min(one.low for one in moves), max(one.high for one in moves)
    finest = _common_step([score_unit(only_total(plan)) for plan in plans])
    is_exact = high - low <= SCORE_STEPS * finest
    step = finest if is_exact else (high - low) / SCORE_STEPS
    spread = max(1, math.ceil(high / step) - math.floor(low / step))
    return CandidatePlan(tuple(plans), step, is_exact, make_selector(spread, granted, rounds=1))


def only_total(plan: Plan) -> Total:
    """Return the one total of a score, which is the score itself."""
    (total,) = plan.totals
    if total.grid is not None and total.grid.centre:
        raise Fault("the sum of a score must not be centred")
    return total


def _common_step(steps: Sequence[Fraction]) -> Fraction:
    """Return the greatest number of which all ``steps`` are whole multiples."""
    below = math.lcm(*(step.denominator for step in steps))
    return Fraction(math.gcd(*(int(step * below) for step in steps)), below)


FINE_BITS: Final = 32
BLOCK_STEPS: Final = 2**FINE_BITS


@dataclass(frozen=True, slots=True)
class BlockReading:
    """Which columns are read, in how many blocks, and how many rows of a unit stay."""

    table: Table
    columns: tuple[str, ...]
    blocks: int


def grid_of_bounds(low: Fraction, high: Fraction) -> ValueGrid:
    """Return the grid of one result: whole steps from its lower bound."""
    return ValueGrid(low, (high - low) / BLOCK_STEPS, 0, BLOCK_STEPS)


def cut_grid(grid: ValueGrid, low: int, high: int, cell: int) -> ValueGrid:
    """Return the multiples of ``cell`` steps of a grid, from ``low`` to ``high`` or just below."""
    return ValueGrid(grid.centre + grid.step * low, grid.step * cell, 0, (high - low) // cell)


def sum_noise(widths: Sequence[int], neighbours: Neighbours, granted: Loss) -> TotalNoise:
    """Return noise for the sums over blocks of results that lie so many steps above their least.

    Claim:   costs ``granted``.
    Why:     a unit added or removed changes one block, so each sum by at most its width; a unit
             replaced may change two blocks. These are the reaches of one row and of two.
    Source:  [NRS07]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_aggregate.py.
    """
    moved = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    reaches = [TotalSensitivity(max(1, width), moved, moved**2) for width in widths]
    return noise_for(reaches, loss_for_noise(granted))


def choose_rank(neighbours: Neighbours, granted: Loss, part: Fraction) -> Exponential:
    """Return the choice of a value at a rank among the blocks' results.

    Claim:   costs ``part`` of ``granted``.
    Why:     a step with L results below it and m at it has a gap: the distance of a fixed rank from
             [L, L + m]. One block's result moved changes L or L + m by at most 1, either way; a
             unit replaced may move two results.
    Source:  [MT07], [Smi11].
    Checked: tests/statistics/test_aggregate.py.
    """
    moved = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    return Exponential(moved, max_epsilon(fraction_of(granted, part), BoundedRangeLoss))


WIDTH_STEPS: Final = 1_000
FEWEST: Final = 50
BELIEF: Final = 2
PER_ROW: Final = WIDTH_STEPS + WIDTH_STEPS // 10
"""How many steps a row moves a score: one for its length, a tenth for the count within."""


@dataclass(frozen=True, slots=True)
class WidthChoice:
    """One of 2^0, 2^1, ..., 2^levels bins, chosen by how well it suits exact counts.

    With counts n_j in 2^l bins and d_l the differences of their halves, halving all bins lowers the
    estimated squared error by (|d_l|^2 - 2 n - 3 2^l v) 2^l / n^2, where v is the variance of the
    noise that stays in a bin. The score of k is the least of |d_(k-1)| - t_(k-1), which says that
    coming to k paid, and t_l - |d_l| for l >= k, which says that going on does not; t_l is the
    square root of 2 max(n, 50) + 3 2^l v. Scores are counted in steps of 1 / 1000, rounded down.
    From each is taken a handicap that was known before: see `favour`.

    Claim:   one row more or less moves every score by at most 1100 steps.
    Why:     a row changes one coordinate of each d_l by 1, so its length by at most 1: 1000 steps;
             a root of 100 or more plus twice the count moves by at most 1 / sqrt(100): 100 steps.
             Rounding down keeps moves within whole numbers of steps, and the least of numbers
             moves no more than the numbers do. A handicap does not move at all.
    Source:  docs/proofs/statistics.md; [Rud82] for the criterion, [MT07] for the choice.
    Checked: tests/statistics/test_density.py.
    """

    levels: int
    variance: Fraction
    selector: Selector
    handicaps: tuple[int, ...] = ()

    def favour(self, halvings: float) -> "WidthChoice":
        """Return the choice that takes about so many halvings where the counts say little.

        # Privacy: ``halvings`` must follow from the declaration and what was released before.

        Every halving away from there makes a width less likely by a factor of e^2, as far as the
        noise of the choice can tell; scores that differ by more than that noise decide alone.
        """
        unit = BELIEF / self.selector.rate
        away = (abs(level - halvings) for level in range(self.levels + 1))
        return replace(self, handicaps=tuple(round(Fraction(far) * unit) for far in away))

    def scores(self, counts: Sequence[int]) -> list[int]:
        """Return the score of each number of bins, from counts in the most bins."""
        size = sum(counts)
        gains: list[int] = []
        halves = list(counts)
        for level in reversed(range(self.levels)):
            pairs = list(zip(halves[::2], halves[1::2], strict=True))
            length = sum((left - right) ** 2 for left, right in pairs)
            threshold = 2 * max(size, FEWEST) + 3 * 2**level * self.variance
            gains.append(_root(Fraction(length)) - _root(threshold))
            halves = [left + right for left, right in pairs]
        gains.reverse()  # gains[l]: what halving 2^l bins gains
        fits = [
            min([gains[level - 1]] * (level > 0) + [-gain for gain in gains[level:]], default=0)
            for level in range(self.levels + 1)
        ]
        handicaps = self.handicaps or (0,) * len(fits)
        return [fit - handicap for fit, handicap in zip(fits, handicaps, strict=True)]


def _root(square: Fraction) -> int:
    """Return the square root in steps, rounded down."""
    return math.isqrt(math.floor(square * WIDTH_STEPS**2))


def plan_width(
    levels: int,
    variance: Fraction,
    contribution: ContributionBounds,
    neighbours: Neighbours,
    granted: Loss,
) -> WidthChoice:
    """Return how the number of bins is chosen at the cost of ``granted``.

    Why: a unit has at most so many rows; adding or removing them one by one moves a score by so
         many times as much, and replacing a unit does both.
    """
    moves = PER_ROW * contribution.rows * (2 if neighbours is Neighbours.REPLACE else 1)
    return WidthChoice(levels, variance, make_selector(2 * moves, granted, rounds=1))
