"""How far the exact totals of neighbouring databases lie apart, measured as `Reach` says it."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from operator import truediv
from typing import Final

from confide.curator import Curator
from confide.engines import SqlEngine, open_sealed
from confide.ledger import Hold
from confide.loss import Share
from confide.plan import Plan
from confide.query.sql import read_sql
from confide.query.tree import Value
from confide.release.noise import round_to_steps

__all__ = ["WORLDS", "Moved", "Pair", "passes"]

WORLDS: Final = 200
SHARE: Final = Share.floor("1/100")

Groups = dict[tuple[Value, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Moved:
    """How far the totals of one world moved; ``shown`` is the same in rounded noise steps."""

    boxes: Fraction
    squares: Fraction
    shown_boxes: Fraction
    shown_squares: Fraction


def _measure(plan: Plan, before: Groups, after: Groups) -> dict[Value, Moved]:
    """Return for each world how far its totals moved."""
    sides = [total.per_row for total in plan.totals]
    nothing = (0,) * len(sides)
    moved: dict[Value, Moved] = dict.fromkeys(range(WORLDS), Moved(*[Fraction(0)] * 4))
    for group in before.keys() | after.keys():
        old, new = before.get(group, nothing), after.get(group, nothing)
        exact = _greatest(old, new, sides)
        steps = plan.noise.steps
        shown = _greatest(
            map(round_to_steps, old, steps),
            map(round_to_steps, new, steps),
            map(truediv, sides, steps),
        )
        so_far = moved[group[0]]
        moved[group[0]] = Moved(
            so_far.boxes + exact,
            so_far.squares + exact**2,
            so_far.shown_boxes + shown,
            so_far.shown_squares + shown**2,
        )
    return moved


def _greatest(old: Iterable[int], new: Iterable[int], sides: Iterable[int | Fraction]) -> Fraction:
    return max(abs(b - a) / Fraction(side) for a, b, side in zip(old, new, sides, strict=True))


def passes(plan: Plan, moved: Iterable[Moved]) -> bool:
    """Tell whether no world moved further than the plan says."""
    return all(
        max(one.boxes, one.shown_boxes) <= plan.reach.boxes
        and max(one.squares, one.shown_squares) <= plan.reach.squares
        for one in moved
    )


@dataclass(frozen=True, slots=True)
class Pair:
    """Two engines over neighbouring databases, and a curator who plans for both."""

    curator: Curator
    before: SqlEngine
    after: SqlEngine

    def plan(self, text: str, share: str = "1/100") -> Plan:
        """Return how the curator would answer."""
        query = read_sql(text, self.curator._names)
        return self.curator._plan(query, Share.floor(share))

    def compare(self, plan: Plan) -> dict[Value, Moved]:
        """Return how far apart the totals of each world are."""
        return _measure(plan, _read(self.before, plan), _read(self.after, plan))


def _read(engine: SqlEngine, plan: Plan) -> Groups:
    """Return the totals of each group; where keys are earned, units were counted beside them."""
    found = open_sealed(engine.run(plan, Hold(0, SHARE)))
    return {group: totals[: len(plan.totals)] for group, totals in found.items()}
