"""Sensitivity of queries about several tables, and about one row per unit.

Sources are random too (support/shapes.py): joins with public tables that repeat keys, joins with
other rows of the same people, per-unit statistics, and both at once. A query is tested on 200 pairs
of neighboring databases at a time, as in test_sensitivity.py; rows without a unit differ freely.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Final

import numpy as np
import pytest

from confide.curator import Curator
from confide.declare import Budget, Catalog, PublicTable, Table
from confide.engines import DuckDB
from confide.errors import Refusal
from confide.mechanisms import Neighbours
from confide.plan import Plan
from support.entropy import SeededEntropy
from support.people import (
    Limits,
    Person,
    change_one,
    declare_worlds,
    draw_orphans,
    draw_person,
    draw_worlds,
)
from support.reach import WORLDS, Moved, Pair, measure, passes, replace_contribution
from support.shapes import PUBLIC, SHAPES, draw_joined

BUDGETS: Final = {"pure": Budget(100), "gaussian": Budget(100, 1e-6)}
SHARES: Final = ("1", "1/100", "1/100000")
NINE_TENTHS: Final = Fraction(9, 10)
BOTH: Final = (
    (Limits(3, 2), Limits(2, 1)),
    (Limits(1, 1, unique=True), Limits(4, 4)),
    (Limits(2, 1), Limits(1, 1)),
    (Limits(4, 3), Limits(1, 1, unique=True)),
)
PER_UNIT: Final = "(SELECT {0}.pid, AVG({0}.world) AS w, COUNT(*) AS c FROM {1} GROUP BY {0}.pid)"
PEOPLE: Final = "visits AS v LEFT JOIN labs AS w ON v.pid = w.pid"
OF_ROWS: Final = {
    "rows": "visits AS v",
    "lines": "visits AS v JOIN wards AS o ON v.ward = o.ward",
    "bands": "visits AS v LEFT JOIN bands AS o ON v.age = o.band",
    "people": PEOPLE,
    "people and lines": f"{PEOPLE} LEFT JOIN wards AS o ON w.ward = o.ward",
    "people and units": "visits AS v LEFT JOIN "
    f"{PER_UNIT.format('w', 'labs AS w')} AS o ON v.pid = o.pid",
}
OF_UNITS: Final = {
    "units": f"{PER_UNIT.format('v', 'visits AS v')} AS o",
    "units of joins": f"{PER_UNIT.format('v', PEOPLE)} AS o",
    "units and lines": f"{PER_UNIT.format('v', 'visits AS v')} AS o LEFT JOIN wards AS p "
    "ON o.c = p.size",
}
SOURCES: Final = OF_ROWS | OF_UNITS


@dataclass(frozen=True, slots=True)
class Drawn:
    """The two private tables, before and after one unit of each world changes in both."""

    before: tuple[list[Person], list[Person]]
    after: tuple[list[Person], list[Person]]
    limits: tuple[Limits, Limits]
    neighbours: Neighbours

    def open(self, accounting: str, rng: np.random.Generator) -> Pair:
        """Return both databases, with unrelated rows that belong to no unit."""
        one, other = (self._declare(people, rng) for people in (self.before, self.after))
        return Pair(
            Curator(one, budget=BUDGETS[accounting], neighbours=self.neighbours),
            DuckDB(Catalog(one), salt="grain"),
            DuckDB(Catalog(other), salt="grain"),
        )

    def _declare(
        self, people: tuple[list[Person], list[Person]], rng: np.random.Generator
    ) -> list[Table | PublicTable]:
        names = ("visits", "labs")
        private = [
            declare_worlds([*some, *draw_orphans(rng, WORLDS)], limits, rng, name)
            for name, some, limits in zip(names, people, self.limits, strict=True)
        ]
        return [*private, *(PublicTable(name, rows) for name, rows in PUBLIC.items())]


def draw_people(
    limits: tuple[Limits, Limits], neighbours: Neighbours, rng: np.random.Generator
) -> Drawn:
    """Return neighbors that differ in all rows of one unit per world, in both tables."""
    visits = draw_worlds(rng, WORLDS, limits[0])
    labs = {
        person.pid: draw_person(rng, person.pid, person.world, limits[1])
        for person in visits
        if rng.random() < 0.8
    }
    after = change_one(visits, neighbours, limits[0], rng)
    same = {id(person) for person in visits}
    labs_after = [labs[one.pid] for one in after if id(one) in same and one.pid in labs]
    labs_after += [
        draw_person(rng, one.pid, one.world, limits[1]) for one in after if id(one) not in same
    ]
    return Drawn((visits, list(labs.values())), (after, labs_after), limits, neighbours)


def plan_question(pair: Pair, text: str, share: str = "1/100") -> Plan:
    try:
        return pair.plan(text, share)
    except Refusal as refusal:
        pytest.fail(f"the grammar makes only questions that are answered, not {text}: {refusal}")


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("limits", BOTH, ids=str)
def test_no_unit_changes_joined_totals_beyond_the_bound(
    limits: tuple[Limits, Limits], neighbours: Neighbours, entropy: SeededEntropy
) -> None:
    """In 3,600 pairs per limit, no change exceeds the bound, for any join and filter."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    drawn = draw_people(limits, neighbours, rng)
    pairs = {accounting: drawn.open(accounting, rng) for accounting in BUDGETS}
    for accounting, family in product(BUDGETS, SHAPES):
        text = draw_joined(family, rng, earned=accounting == "gaussian")
        plan = plan_question(pairs[accounting], text, str(rng.choice(SHARES)))

        assert passes(plan, pairs[accounting].compare(plan).values()), text


@cache
def open_fixed(neighbours: Neighbours) -> Pair:
    """Return neighboring databases whose limits require bounding of rows and groups."""
    rng = np.random.default_rng(7)
    return draw_people(BOTH[0], neighbours, rng).open("pure", rng)


def count_some(family: str) -> str:
    """Return a query about many rows of a source, of which most units have enough or none."""
    world, some = (
        ("CAST(ROUND(o.w) AS INT)", "o.c > 1") if family in OF_UNITS else ("v.world", "v.smoker")
    )
    return f"SELECT {world}, COUNT(*) AS n FROM {SOURCES[family]} WHERE {some} GROUP BY {world}"


def most_used(plan: Plan, moved: Sequence[Moved]) -> list[Fraction]:
    """Return the largest fractions used of the planned sum and of the planned squares."""
    used = [measure(plan, one.exact) for one in moved]
    return list(map(max, zip(*used, strict=True)))


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("family", SHAPES)
def test_some_pair_exceeds_nine_tenths_of_the_bound(family: str, neighbours: Neighbours) -> None:
    """In every family some pair exceeds nine tenths, so a sensitivity 10% too small is detected."""
    pair = open_fixed(neighbours)
    plan = plan_question(pair, count_some(family))
    moved = list(pair.compare(plan).values())

    assert passes(plan, moved)
    assert not passes(plan, moved, NINE_TENTHS)
    assert min(most_used(plan, moved)) > NINE_TENTHS


@pytest.mark.parametrize("family", [*OF_ROWS, "units and lines"])
def test_joins_without_bounded_rows_are_detected(family: str) -> None:
    """Without bounding of a unit's rows in a join, totals change by too much."""
    pair = open_fixed(Neighbours.ADD_REMOVE)
    plan = plan_question(pair, count_some(family))
    open_wide = replace_contribution(plan, needs_bounding=False)

    assert not passes(plan, pair.compare(open_wide).values())


@pytest.mark.parametrize("family", OF_ROWS)
def test_joins_without_bounded_groups_are_detected(family: str) -> None:
    """Without bounding of a unit's groups in a join, counts of units change by too much."""
    pair = open_fixed(Neighbours.ADD_REMOVE)
    keys = "v.world, v.ward, v.place"
    plan = plan_question(
        pair, f"SELECT {keys}, COUNT(DISTINCT v.pid) AS n FROM {SOURCES[family]} GROUP BY {keys}"
    )
    open_wide = replace_contribution(plan, groups=9)

    assert passes(plan, pair.compare(plan).values())
    assert not passes(plan, pair.compare(open_wide).values())
