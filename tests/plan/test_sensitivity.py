"""How far one unit can move the exact totals of a question: checked on databases, not believed.

Random questions are asked of 200 pairs of neighbouring databases at once (support/people.py), from
plan to engine. What changed is measured as `Reach` says it: in each group the greatest change of a
total, in units of what one row can change it by; then added up over groups, or squared and added.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest

from confide.curator import Budget, Curator
from confide.declare import Catalog, Table
from confide.engines import DuckDB, open_sealed
from confide.errors import Refusal
from confide.ledger import Hold
from confide.loss import Share
from confide.mechanisms import Neighbours
from confide.plan import Plan
from confide.query.sql import read_sql
from confide.query.tree import Value
from confide.release.noise import _to_steps
from support.entropy import SeededEntropy
from support.people import Limits, Person, change_one, declare_worlds, draw_worlds
from support.grammar import draw_question

WORLDS: Final = 200
QUESTIONS: Final = 8
SALT: Final = "grain"
LIMITS: Final = (Limits(1, 1, unique=True), Limits(1, 1), Limits(3, 2), Limits(4, 4), Limits(6, 1))
BUDGETS: Final = (Budget(100), Budget(100, 1e-6))
SHARES: Final = ("1", "1/100", "1/100000")

Groups = dict[tuple[Value, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Moved:
    """How far the totals of one world moved; ``shown`` is the same after rounding to noise steps."""

    boxes: Fraction
    squares: Fraction
    shown_boxes: Fraction
    shown_squares: Fraction


def measure(plan: Plan, before: Groups, after: Groups) -> dict[Value, Moved]:
    """Return for each world how far its totals moved."""
    sides = [total.per_row for total in plan.totals]
    nothing = (0,) * len(sides)
    moved = dict.fromkeys(range(WORLDS), Moved(*[Fraction(0)] * 4))
    for group in before.keys() | after.keys():
        old, new = before.get(group, nothing), after.get(group, nothing)
        exact = _greatest(old, new, sides)
        steps = plan.noise.steps
        rounded = [
            [_to_steps(total, size) for total, size in zip(side, steps, strict=True)]
            for side in (old, new)
        ]
        shown = _greatest(*rounded, [side / step for side, step in zip(sides, steps, strict=True)])
        so_far = moved[group[0]]
        moved[group[0]] = Moved(
            so_far.boxes + exact,
            so_far.squares + exact**2,
            so_far.shown_boxes + shown,
            so_far.shown_squares + shown**2,
        )
    return moved


def _greatest(old: Iterable[int], new: Iterable[int], sides: Iterable[Any]) -> Fraction:
    return max(abs(Fraction(b - a) / side) for a, b, side in zip(old, new, sides, strict=True))


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
    before: DuckDB
    after: DuckDB

    def plan(self, text: str, share: str = "1/100") -> Plan:
        query = read_sql(text, self.curator._names)
        return self.curator._plan(query, Share.floor(share))

    def compare(self, plan: Plan) -> dict[Value, Moved]:
        return measure(plan, read(self.before, plan), read(self.after, plan))


def read(engine: DuckDB, plan: Plan) -> Groups:
    return open_sealed(engine.run(plan, Hold(0, Share.floor("1/100"))))


def open_pair(before: Table, after: Table, neighbours: Neighbours, budget: Budget) -> Pair:
    curator = Curator([before], budget=budget, neighbours=neighbours)
    return Pair(
        curator, DuckDB(Catalog([before]), salt=SALT), DuckDB(Catalog([after]), salt=SALT)
    )


def draw_pair(
    limits: Limits, neighbours: Neighbours, budget: Budget, rng: np.random.Generator
) -> Pair:
    people = draw_worlds(rng, WORLDS, limits)
    after = change_one(people, neighbours, limits, rng)
    return open_pair(
        declare_worlds(people, limits, rng), declare_worlds(after, limits, rng), neighbours, budget
    )


@pytest.fixture
def rng(entropy: SeededEntropy) -> np.random.Generator:
    """Return random choices that depend on the run's seed."""
    return np.random.default_rng(int(entropy.words(1)[0]))


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_no_unit_moves_the_totals_further_than_planned(
    limits: Limits, neighbours: Neighbours, rng: np.random.Generator
) -> None:
    """In 1,600 pairs of neighbours for each limit no change of exact or rounded totals passes."""
    pairs = [draw_pair(limits, neighbours, budget, rng) for budget in BUDGETS]
    answered = 0
    while answered < QUESTIONS:
        pair, share = pairs[answered % 2], str(rng.choice(SHARES))
        text = draw_question(rng)
        try:
            plan = pair.plan(text, share)
        except Refusal as refusal:
            pytest.fail(f"the grammar makes only questions that are answered, not {text}: {refusal}")
        answered += 1

        assert passes(plan, pair.compare(plan).values()), text


CORNERS: Final = {
    "COUNT(*)": ({"age": 120.0}, None, 1, 1),
    "AVG(age)": ({"age": 120.0}, {"age": 0.0}, 2, 4),
    "SUM(age)": ({"age": 120.0}, None, 1, 1),
    "VAR_SAMP(cost)": ({"cost": -50.0}, {"cost": 475.0}, 2, 4),
    "COUNT(DISTINCT pid)": ({"age": 1.0}, None, 1, 1),
}


@pytest.mark.parametrize("statistic", CORNERS)
def test_some_unit_moves_the_totals_as_far_as_planned(
    statistic: str, rng: np.random.Generator
) -> None:
    """The reach is not too large: units with extreme rows attain it, in sum and in squares."""
    row, other, rows, squares = CORNERS[statistic]
    limits = Limits(1, 1)
    blank = dict.fromkeys(("age", "cost", "price", "ward", "place", "smoker", "day", "words", "tag"))
    people = [Person(f"{world}:0", world, ({**blank, **row},)) for world in range(WORLDS)]
    after = [Person(one.pid, one.world, ({**blank, **other},)) for one in people] if other else []
    neighbours = Neighbours.REPLACE if other else Neighbours.ADD_REMOVE
    pair = open_pair(
        declare_worlds(people, limits, rng),
        declare_worlds(after, limits, rng),
        neighbours,
        Budget(100),
    )
    plan = pair.plan(f"SELECT world, {statistic} AS n FROM visits GROUP BY world")
    moved = pair.compare(plan)[7]

    assert (rows, squares) == (plan.reach.boxes, plan.reach.squares)
    assert (rows, squares) == (moved.boxes, moved.squares)


def test_random_units_come_close_to_the_reach(rng: np.random.Generator) -> None:
    """The random neighbours do bind: some attain the planned sum and the planned squares."""
    pair = draw_pair(Limits(3, 2), Neighbours.ADD_REMOVE, Budget(100), rng)
    plan = pair.plan("SELECT world, COUNT(*) AS n FROM visits GROUP BY world")
    moved = pair.compare(plan).values()

    assert plan.reach.boxes == max(one.boxes for one in moved)
    assert plan.reach.squares == max(one.squares for one in moved)


QUESTION: Final = "SELECT world, ward, COUNT(*) AS n, SUM(age) AS s FROM visits GROUP BY world, ward"


def test_a_statement_without_the_cut_is_caught(rng: np.random.Generator) -> None:
    """Were a unit's rows not cut, the same comparison would fail."""
    pair = draw_pair(Limits(3, 2), Neighbours.ADD_REMOVE, Budget(100), rng)
    plan = pair.plan(QUESTION)
    open_wide = replace(plan, contribution=replace(plan.contribution, is_cut=False))

    assert passes(plan, pair.compare(plan).values())
    assert not passes(plan, pair.compare(open_wide).values())


def test_a_statement_without_the_cut_of_groups_is_caught(rng: np.random.Generator) -> None:
    """Were a unit's groups not cut, counts of units would move too far."""
    pair = draw_pair(Limits(3, 2), Neighbours.ADD_REMOVE, Budget(100), rng)
    plan = pair.plan(
        "SELECT world, ward, COUNT(DISTINCT pid) AS n FROM visits GROUP BY world, ward"
    )
    open_wide = replace(plan, contribution=replace(plan.contribution, groups=3))

    assert passes(plan, pair.compare(plan).values())
    assert not passes(plan, pair.compare(open_wide).values())


class Careless:
    """A connection that forgets by what rows are ordered before they are cut."""

    ORDER = re.compile(r'(ROW_NUMBER\(\) OVER \(PARTITION BY "the unit") ORDER BY .*?\) AS "place"')

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: str) -> Any:
        edited, times = self.ORDER.subn(r'\1) AS "place"', statement)
        assert times == 1, "the statement no longer looks as this test knows it"
        return self._connection.execute(edited)


def test_a_cut_by_position_is_caught(rng: np.random.Generator) -> None:
    """Were rows cut in the order in which they stand, neighbours would move other units too."""
    pair = draw_pair(Limits(3, 3), Neighbours.ADD_REMOVE, Budget(100), rng)
    plan = pair.plan(QUESTION)
    for engine in (pair.before, pair.after):
        engine._connection = Careless(engine._connection)  # type: ignore[assignment]

    assert not passes(plan, pair.compare(plan).values())
