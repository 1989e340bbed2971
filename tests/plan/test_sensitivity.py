"""Sensitivity of the exact totals of a query, measured on neighboring databases.

Random queries run on 200 pairs of neighboring databases at once (support/people.py), from plan to
engine. Changes are measured as `TotalSensitivity` defines them, as fractions of the bounds for one
world: the greatest change of a total in each group, summed over groups; and for each total, the sum
of squares of its changes.
"""

import re
from dataclasses import dataclass
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
from support.reach import WORLDS, Pair, measure, passes, replace_contribution

QUESTIONS: Final = 8
SALT: Final = "grain"
LIMITS: Final = (Limits(1, 1, unique=True), Limits(1, 1), Limits(3, 2), Limits(4, 4), Limits(6, 1))
BUDGETS: Final = (Budget(100), Budget(100, 1e-6))
SHARES: Final = ("1", "1/100", "1/100000")
BLANK: Final = dict.fromkeys(
    ("age", "cost", "price", "ward", "place", "smoker", "day", "words", "tag")
)


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
    """Return a random generator that depends on the seed of the run."""
    return np.random.default_rng(int(entropy.words(1)[0]))


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_no_unit_changes_totals_beyond_the_bound(
    limits: Limits, neighbours: Neighbours, rng: np.random.Generator
) -> None:
    """In 1,600 neighboring pairs per limit, no exact or rounded totals change by too much."""
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


@dataclass(frozen=True, slots=True)
class Corner:
    """A unit that changes the totals of a query the most, and the bounds of each total."""

    wanted: str
    before: tuple[dict[str, Any], ...]
    after: tuple[dict[str, Any], ...]
    reaches: tuple[tuple[int, int], ...]
    limits: Limits = LIMITS[1]
    key: str = ""


OLD, YOUNG, CHEAP, DEAR, MIDDLE = (
    {"age": 120.0},
    {"age": 0.0},
    {"cost": -50.0},
    {"cost": 1_000.0},
    {"cost": 475.0},
)
IN_A, IN_B = {"ward": "A"}, {"ward": "B"}
BOTH: Final = "COUNT(*) AS n, COUNT(DISTINCT pid) AS u"
CORNERS: Final = {
    "count": Corner("COUNT(*) AS n", (OLD,), (), ((1, 1),)),
    "sum": Corner("SUM(age) AS s", (OLD,), (), ((1, 1),)),
    "units": Corner("COUNT(DISTINCT pid) AS n", (OLD,), (), ((1, 1),)),
    "many rows, one group": Corner(BOTH, (IN_A,) * 3, (), ((3, 9), (1, 1)), Limits(3, 1), "ward"),
    "many rows, no group": Corner(BOTH, (OLD,) * 3, (), ((3, 9), (1, 1)), Limits(3, 2)),
    "two groups": Corner(BOTH, (IN_A, IN_B), (), ((2, 4), (2, 2)), Limits(2, 2), "ward"),
    "count, replaced": Corner("COUNT(age) AS n", (OLD,), (CHEAP,), ((1, 1),)),
    "sum, replaced": Corner("SUM(cost) AS s", (CHEAP,), (DEAR,), ((1, 1),)),
    "mean, replaced": Corner("AVG(age) AS m", (OLD,), (YOUNG,), ((1, 1), (1, 1))),
    "variance, replaced": Corner("VAR_SAMP(cost) AS v", (CHEAP,), (MIDDLE,), ((1, 1),) * 3),
    "counts, replaced": Corner("COUNT(*) AS n", (IN_A,), (IN_B,), ((2, 2),), key="ward"),
    "rows and units, replaced": Corner(
        BOTH, (IN_A,) * 3, (IN_B,) * 3, ((6, 18), (2, 2)), Limits(3, 1), "ward"
    ),
    "means, replaced": Corner(
        "AVG(age) AS m", (IN_A | OLD,), (IN_A | YOUNG,), ((2, 2), (2, 4)), key="ward"
    ),
    "units of two keys, replaced": Corner(
        "COUNT(DISTINCT pid) AS n",
        ({"smoker": True},),
        ({"smoker": False},),
        ((2, 2),),
        Limits(2, 2),
        "smoker",
    ),
}


@pytest.mark.parametrize("name", CORNERS)
def test_some_unit_attains_the_bounds(name: str, rng: np.random.Generator) -> None:
    """The bounds are tight: units with extreme rows attain them, in sum and in squares."""
    corner = CORNERS[name]
    before, after = (
        [Person(f"{world}:0", world, tuple(BLANK | row for row in rows)) for world in range(WORLDS)]
        for rows in (corner.before, corner.after)
    )
    pair = open_pair(
        declare_worlds(before, corner.limits, rng),
        declare_worlds(after, corner.limits, rng),
        Neighbours.REPLACE if corner.after else Neighbours.ADD_REMOVE,
        Budget(100),
    )
    keys = ", ".join(filter(None, ["world", corner.key]))
    plan = pair.plan(f"SELECT {keys}, {corner.wanted} FROM visits GROUP BY {keys}")
    boxes, *squares = measure(plan, pair.compare(plan)[7].exact)

    assert corner.reaches == tuple((reach.boxes, reach.squares) for reach in plan.sensitivities)
    assert [Fraction(1)] * 2 == [boxes, max(squares)]


def test_random_pairs_attain_the_bounds(rng: np.random.Generator) -> None:
    """Some random neighboring pairs attain the planned sum and the planned squares."""
    pair = draw_pair(Limits(3, 2), Neighbours.ADD_REMOVE, Budget(100), rng)
    plan = pair.plan("SELECT world, COUNT(*) AS n FROM visits GROUP BY world")
    used = [measure(plan, one.exact) for one in pair.compare(plan).values()]

    assert [Fraction(1)] * 2 == list(map(max, zip(*used, strict=True)))


QUESTION: Final = (
    "SELECT world, ward, COUNT(*) AS n, SUM(age) AS s FROM visits GROUP BY world, ward"
)


def test_a_statement_without_bounded_rows_is_detected(rng: np.random.Generator) -> None:
    """Without bounding of a unit's rows, the same comparison fails."""
    pair = draw_pair(Limits(3, 2), Neighbours.ADD_REMOVE, Budget(100), rng)
    plan = pair.plan(QUESTION)
    open_wide = replace_contribution(plan, needs_bounding=False)

    assert passes(plan, pair.compare(plan).values())
    assert not passes(plan, pair.compare(open_wide).values())


def test_a_statement_without_bounded_groups_is_detected(rng: np.random.Generator) -> None:
    """Without bounding of a unit's groups, counts of units change by too much."""
    pair = draw_pair(Limits(3, 2), Neighbours.ADD_REMOVE, Budget(100), rng)
    plan = pair.plan(
        "SELECT world, ward, COUNT(DISTINCT pid) AS n FROM visits GROUP BY world, ward"
    )
    open_wide = replace_contribution(plan, groups=3)

    assert passes(plan, pair.compare(plan).values())
    assert not passes(plan, pair.compare(open_wide).values())


class UnorderedConnection:
    """A connection that ignores the order of rows in contribution bounding."""

    ORDER = re.compile(
        r'(ROW_NUMBER\(\) OVER \(PARTITION BY "the unit") ORDER BY .*?\) AS "the place"'
    )

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: Any) -> Any:
        if isinstance(statement, str):  # a SET statement
            return self._connection.execute(statement)
        edited, times = self.ORDER.subn(r'\1) AS "the place"', statement.query)
        assert times == 1, "the statement no longer looks as this test knows it"
        return self._connection.execute(edited)


PAIRS: Final = 10
"""Pairs that miss storage order with a probability below 1e-9; of 52 single pairs, 2 missed it."""


def test_bounding_in_storage_order_is_detected(rng: np.random.Generator) -> None:
    """If rows were bounded in storage order, a neighbor would change other units' rows too."""
    assert any(exposes_storage_order(rng) for _ in range(PAIRS))


def exposes_storage_order(rng: np.random.Generator) -> bool:
    """Return whether one random pair changes too much if rows are bounded in storage order."""
    pair = draw_pair(Limits(3, 3), Neighbours.ADD_REMOVE, Budget(100), rng)
    plan = pair.plan(QUESTION)
    engines: tuple[Any, Any] = (pair.before, pair.after)
    for engine in engines:
        engine._connection = UnorderedConnection(engine._connection)

    return not passes(plan, pair.compare(plan).values())
