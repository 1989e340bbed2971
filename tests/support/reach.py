"""Distances between exact totals of neighboring databases, compared with `TotalSensitivity`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import sub, truediv
from typing import Any, Final

from confide.curator import Curator
from confide.engines import SqlEngine
from confide.expressions.tree import Value
from confide.ledger import Hold
from confide.loss import Share
from confide.plan import DeclaredKeys, Plan
from confide.plan.calibration import noise_for
from confide.plan.sensitivity import sensitivity_of
from confide.query.sql import read_sql
from confide.release.noise import round_to_steps
from confide.release.unseal import unseal

__all__ = ["WORLDS", "Moved", "Pair", "measure", "passes", "replace_contribution"]

WORLDS: Final = 200
WHOLE: Final = Fraction(1)
SHARE: Final = Share.floor("1/100")

Groups = dict[tuple[Value, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Moved:
    """Changes of the totals of one world, by group and total, in units of one row's contribution.

    ``shown`` is the same after rounding to noise steps.
    """

    exact: tuple[tuple[Fraction, ...], ...] = ()
    shown: tuple[tuple[Fraction, ...], ...] = ()

    def part(self, plan: Plan) -> Fraction:
        """Return the used fraction of the planned sensitivity; it is 1 if some unit attains it."""
        return max(used for changes in (self.exact, self.shown) for used in measure(plan, changes))

    def is_within(self, plan: Plan, most: Fraction) -> bool:
        """Return whether at most this fraction of the planned sensitivity was used."""
        return not self.exact or self.part(plan) <= most


def replace_contribution(plan: Plan, **changes: Any) -> Plan:
    """Return a plan whose statement bounds contributions differently than its noise assumes."""
    measurement = plan.measurement
    contribution = replace(measurement.contribution, **changes)
    text = f"{measurement.text} bound otherwise"  # statements are cached by this text
    return replace(plan, measurement=replace(measurement, text=text, contribution=contribution))


def measure(plan: Plan, changes: Sequence[Sequence[Fraction]]) -> list[Fraction]:
    """Return the used fractions: of the sum over groups, and of each total's squares."""
    sums = [
        max(abs(z) / reach.boxes for z, reach in zip(group, plan.sensitivities, strict=True))
        for group in changes
    ]
    squares = [
        sum((group[place] ** 2 for group in changes), Fraction(0)) / reach.squares
        for place, reach in enumerate(plan.sensitivities)
    ]
    return [sum(sums, Fraction(0)), *squares]


def _measure(plan: Plan, before: Groups, after: Groups) -> dict[Value, Moved]:
    """Return the changes of each world's totals."""
    sides, steps = [Fraction(reach.side) for reach in plan.sensitivities], plan.noise.steps
    cuts = list(map(truediv, sides, steps))
    nothing = (0,) * len(sides)
    moved: dict[Value, Moved] = dict.fromkeys(range(WORLDS), Moved())
    for group in before.keys() | after.keys():
        old, new = before.get(group, nothing), after.get(group, nothing)
        if old == new:
            continue
        exact = tuple(map(truediv, map(sub, new, old), sides))
        rounded = map(sub, map(round_to_steps, new, steps), map(round_to_steps, old, steps))
        shown = tuple(map(truediv, rounded, cuts))
        so_far = moved.get(group[0], Moved())
        moved[group[0]] = Moved((*so_far.exact, exact), (*so_far.shown, shown))
    return moved


def passes(plan: Plan, moved: Iterable[Moved], most: Fraction = WHOLE) -> bool:
    """Return whether no world changed by more than the plan allows, or by a fraction of that."""
    return all(one.is_within(plan, most) for one in moved)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two engines over neighboring databases, and a curator who plans for both."""

    curator: Curator
    before: SqlEngine
    after: SqlEngine

    def plan(self, text: str, share: str = "1/100") -> Plan:
        """Return the curator's plan, with the sensitivity and the steps for a single world.

        A world has one in 200 of the declared keys, so its sensitivity is smaller than that of all.
        """
        query = read_sql(text, self.curator.names)
        plan = self.curator._planner.plan(query, Share.floor(share))
        if not isinstance(plan.keys, DeclaredKeys):
            return plan
        answered = sum(group[0] == 0 for group in plan.keys.groups)
        assert WORLDS * answered <= len(plan.keys.groups), "the first key is the world"
        reaches = sensitivity_of(plan.totals, plan.contribution, self.curator.neighbours, answered)
        return replace(plan, sensitivities=reaches, noise=noise_for(reaches, plan.loss))

    def compare(self, plan: Plan) -> dict[Value, Moved]:
        """Return the changes of each world's totals."""
        return _measure(plan, _read(self.before, plan), _read(self.after, plan))


def _read(engine: SqlEngine, plan: Plan) -> Groups:
    """Return the totals of each group, without the counts of units for partition selection."""
    found = unseal(engine.run(plan.measurement, Hold(0, SHARE))).groups
    return {group: totals[: len(plan.totals)] for group, totals in found.items()}
