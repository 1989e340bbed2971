"""How far one unit can move the exact totals of a question: checked on databases, not believed.

Random questions are asked of 200 pairs of neighbouring databases at once (support/people.py), from
plan to engine. What changed is measured as `Reach` says it: in each group the greatest change of a
total, in units of what one row can change it by; then added up over groups, or squared and added.
"""

import re
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest

from confide.curator import Curator
from confide.declare import Budget, Catalog, Table
from confide.engines import DuckDB
from confide.errors import Refusal
from confide.mechanisms import Neighbours
from support.entropy import SeededEntropy
from support.grammar import draw_question
from support.people import Limits, Person, change_one, declare_worlds, draw_worlds
from support.reach import WORLDS, Pair, passes

QUESTIONS: Final = 8
SALT: Final = "grain"
LIMITS: Final = (Limits(1, 1, unique=True), Limits(1, 1), Limits(3, 2), Limits(4, 4), Limits(6, 1))
BUDGETS: Final = (Budget(100), Budget(100, 1e-6))
SHARES: Final = ("1", "1/100", "1/100000")


def open_pair(before: Table, after: Table, neighbours: Neighbours, budget: Budget) -> Pair:
    curator = Curator([before], budget=budget, neighbours=neighbours)
    return Pair(curator, DuckDB(Catalog([before]), salt=SALT), DuckDB(Catalog([after]), salt=SALT))


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
            pytest.fail(
                f"the grammar makes only questions that are answered, not {text}: {refusal}"
            )
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
    blank = dict.fromkeys(
        ("age", "cost", "price", "ward", "place", "smoker", "day", "words", "tag")
    )
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
    assert (Fraction(rows), Fraction(squares)) == (moved.boxes, moved.squares)


def test_random_units_come_close_to_the_reach(rng: np.random.Generator) -> None:
    """The random neighbours do bind: some attain the planned sum and the planned squares."""
    pair = draw_pair(Limits(3, 2), Neighbours.ADD_REMOVE, Budget(100), rng)
    plan = pair.plan("SELECT world, COUNT(*) AS n FROM visits GROUP BY world")
    moved = pair.compare(plan).values()

    assert plan.reach.boxes == max(one.boxes for one in moved)
    assert plan.reach.squares == max(one.squares for one in moved)


QUESTION: Final = (
    "SELECT world, ward, COUNT(*) AS n, SUM(age) AS s FROM visits GROUP BY world, ward"
)


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

    ORDER = re.compile(
        r'(ROW_NUMBER\(\) OVER \(PARTITION BY "the unit") ORDER BY .*?\) AS "the place"'
    )

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: Any) -> Any:
        edited, times = self.ORDER.subn(r'\1) AS "the place"', statement.query)
        assert times == 1, "the statement no longer looks as this test knows it"
        return self._connection.execute(edited)


def test_a_cut_by_position_is_caught(rng: np.random.Generator) -> None:
    """Were rows cut in the order in which they stand, neighbours would move other units too."""
    pair = draw_pair(Limits(3, 3), Neighbours.ADD_REMOVE, Budget(100), rng)
    plan = pair.plan(QUESTION)
    engines: tuple[Any, Any] = (pair.before, pair.after)
    for engine in engines:
        engine._connection = Careless(engine._connection)

    assert not passes(plan, pair.compare(plan).values())
