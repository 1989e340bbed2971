"""How the best of many is chosen: what one unit can do to scores, and the choice this pays for.

A score is an exact total: the count of a key, or what one question adds up to. One unit may change
many scores at once; a choice costs by how far apart it can move any two of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from confide.declare import Catalog
from confide.errors import Fault, UnsupportedQuery
from confide.exact import Number, float_above, probability
from confide.expressions.functions import Aggregation
from confide.expressions.tree import Aggregate, Value
from confide.loss import BoundedRangeLoss, Loss, PureLoss
from confide.mechanisms import Exponential, Neighbours, PermuteAndFlip
from confide.plan.grants import find_epsilon
from confide.plan.keys import MOST_GROUPS, DeclaredKeys, domain_of
from confide.plan.noise import TotalNoise
from confide.plan.plan import Plan
from confide.plan.sources import Contribution, PublicFacts, optional_tables, ranges_of
from confide.plan.totals import Measure, Total
from confide.query.tree import Query

__all__ = [
    "Contest",
    "Moves",
    "Selection",
    "Selector",
    "check_score",
    "check_selection",
    "find_epsilon",
    "make_selector",
    "moves_of",
    "only_total",
    "plan_contest",
    "plan_selection",
    "score_unit",
]

MOST_DRAWS: Final = 10**8
FINENESS: Final = 2**30
SCORES: Final = (Aggregation.COUNT, Aggregation.COUNT_UNITS, Aggregation.SUM)

Selector = Exponential | PermuteAndFlip


@dataclass(frozen=True, slots=True)
class Moves:
    """Between which numbers, one at most 0 and one at least 0, a unit moves a score.

    Claim:   every total of a group grows by at least ``low`` and at most ``high`` when a unit is
             added (or replaced), and by what lies between ``-high`` and ``-low`` when one is
             removed.
    Why:     a total is a sum over units of what their own kept rows add. At most ``rows`` of them
             are kept, in whichever groups, and each adds a whole number within its grid; a count
             of units grows by 0 or 1. A replaced unit takes one such number away and adds another.
    Checked: tests/curator/test_selection.py (random databases and neighbours).
    """

    low: Fraction
    high: Fraction

    @property
    def spread(self) -> Fraction:
        """How much farther one score can move than another."""
        return self.high - self.low

    @property
    def largest(self) -> Fraction:
        """How far a single score can move."""
        return max(-self.low, self.high)


def moves_of(total: Total, contribution: Contribution, neighbours: Neighbours) -> Moves:
    """Return how far one unit moves this total of any group, in the unit of what is added up."""
    if total.measure is Measure.UNITS:
        low, high = 0, 1
    elif total.grid is None:
        low, high = 0, contribution.rows
    else:
        low = contribution.rows * min(0, total.grid.low)
        high = contribution.rows * max(0, total.grid.high)
    if neighbours is Neighbours.REPLACE:
        low, high = low - high, high - low
    unit = score_unit(total)
    return Moves(low * unit, high * unit)


def score_unit(total: Total) -> Fraction:
    """Return what one whole step of a total means: 1 for a count, the grid's step for a sum."""
    return Fraction(1) if total.grid is None else total.grid.step


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
        return PermuteAndFlip(half, find_epsilon(granted, PureLoss, rounds))
    return Exponential(half, find_epsilon(granted, BoundedRangeLoss, rounds))


@dataclass(frozen=True, slots=True)
class Selection:
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
        return replace(
            self.plan, query=keys_only, totals=(), statistics=(), noise=TotalNoise((), ())
        )

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


def plan_selection(plan: Plan, neighbours: Neighbours, granted: Loss) -> Selection:
    """Return how the keys of a planned question are chosen at the cost of ``granted``."""
    if not isinstance(plan.keys, DeclaredKeys) or len(plan.totals) != 1:
        raise Fault("a selection needs declared keys and one count")
    groups = plan.keys.groups
    most = min(plan.query.limit or len(groups), len(groups))
    moves = moves_of(plan.totals[0], plan.contribution, neighbours)
    selector = make_selector(moves.spread, granted, _count_rounds(most, len(groups)))
    return Selection(plan, groups, most, selector)


@dataclass(frozen=True, slots=True)
class Contest:
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
    if not plain or not isinstance(top, Aggregate) or top.function not in SCORES:
        raise UnsupportedQuery(
            "a score is one number: select a single COUNT(*), COUNT(DISTINCT unit) or SUM(x), "
            "without GROUP BY and HAVING"
        )


def plan_contest(plans: Sequence[Plan], neighbours: Neighbours, granted: Loss) -> Contest:
    """Return how one of these planned scores is chosen at the cost of ``granted``."""
    moves = [moves_of(only_total(plan), plan.contribution, neighbours) for plan in plans]
    low, high = min(one.low for one in moves), max(one.high for one in moves)
    finest = _common_step([score_unit(only_total(plan)) for plan in plans])
    is_exact = high - low <= FINENESS * finest
    step = finest if is_exact else (high - low) / FINENESS
    spread = max(1, math.ceil(high / step) - math.floor(low / step))
    return Contest(tuple(plans), step, is_exact, make_selector(spread, granted, rounds=1))


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
