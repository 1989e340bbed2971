"""The reach of questions about several tables, and about one row for each unit."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pytest

from confide.curator import Curator
from confide.declare import Budget, Catalog, PublicTable, Table
from confide.engines import DuckDB
from confide.mechanisms import Neighbours
from support.entropy import SeededEntropy
from support.people import Limits, Person, change_one, declare_worlds, draw_person, draw_worlds
from support.reach import WORLDS, Pair, passes

# A ward has several lines, so the join multiplies rows; some lines match nobody, one has no ward.
WARDS: Final = pa.table(
    {"ward": ["A", "A", "B", "Z", None, "A"], "size": [1, 2, 3, 4, 5, 2]},
    schema=pa.schema({"ward": pa.string(), "size": pa.int64()}),
)
BOTH: Final = (
    (Limits(3, 2), Limits(2, 1)),
    (Limits(1, 1, unique=True), Limits(4, 4)),
    (Limits(2, 1), Limits(1, 1)),
)
# World is the same in all rows of a unit, so the mean over a unit's rows is the world again.
WORLD: Final = "CAST(ROUND(w) AS INT)"
UNITS: Final = "(SELECT pid, AVG(world) AS w, {} AS t, COUNT(*) AS c FROM visits GROUP BY pid)"
JOINED: Final = "FROM visits AS v {} JOIN {} AS o ON v.{} = o.{}"
LABS: Final = JOINED.format("", "labs", "pid", "pid")
QUESTIONS: Final = (
    f"SELECT {WORLD} AS a, COUNT(*) AS n, SUM(t) AS s FROM {UNITS.format('SUM(cost)')} GROUP BY 1",
    f"SELECT {WORLD} AS a, AVG(t) AS m, STDDEV(c) AS d FROM {UNITS.format('AVG(age)')} GROUP BY 1",
    f"SELECT {WORLD} AS a, c, SUM(t) AS s FROM {UNITS.format('COUNT(price)')} GROUP BY 1, 2",
    f"SELECT v.world, COUNT(*) AS n, SUM(o.cost) AS s {LABS} GROUP BY 1",
    f"SELECT v.world, o.ward, COUNT(*) AS n, AVG(v.age - o.cost) AS m {LABS} GROUP BY 1, 2",
    f"SELECT v.world, o.ward, COUNT(DISTINCT v.pid) AS n {LABS} GROUP BY 1, 2",
    f"SELECT v.world, SUM(o.cost) AS s {JOINED.format('LEFT', 'labs', 'pid', 'pid')} GROUP BY 1",
    "SELECT v.world, v.ward, SUM(o.t) AS s FROM visits AS v JOIN (SELECT pid, SUM(cost) AS t "
    "FROM labs GROUP BY pid) AS o ON v.pid = o.pid GROUP BY 1, 2",
    f"SELECT v.world, o.size, SUM(o.size) AS s {JOINED.format('', 'wards', 'ward', 'ward')} "
    "GROUP BY 1, 2",
    f"SELECT v.world, COUNT(*) AS n, SUM(o.size * v.cost) AS s "
    f"{JOINED.format('LEFT', 'wards', 'ward', 'ward')} GROUP BY 1",
)


def declare(
    visits: Sequence[Person],
    labs: Sequence[Person],
    limits: tuple[Limits, Limits],
    rng: np.random.Generator,
) -> list[Table | PublicTable]:
    """Return two tables about the same people, and one about nobody."""
    return [
        declare_worlds(visits, limits[0], rng),
        declare_worlds(labs, limits[1], rng, "labs"),
        PublicTable("wards", WARDS),
    ]


def draw_pair(
    limits: tuple[Limits, Limits], neighbours: Neighbours, rng: np.random.Generator
) -> Pair:
    """Return neighbours who differ in all rows of one unit in each world, in both tables."""
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
    before_tables = declare(visits, list(labs.values()), limits, rng)
    after_tables = declare(after, labs_after, limits, rng)
    return Pair(
        Curator(before_tables, budget=Budget(100), neighbours=neighbours),
        DuckDB(Catalog(before_tables), salt="grain"),
        DuckDB(Catalog(after_tables), salt="grain"),
    )


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("limits", BOTH, ids=str)
def test_no_unit_moves_joined_totals_further_than_planned(
    limits: tuple[Limits, Limits], neighbours: Neighbours, entropy: SeededEntropy
) -> None:
    """In 2,000 pairs for each limit, joins and per-unit rows keep within the planned reach."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    pair = draw_pair(limits, neighbours, rng)
    for text in QUESTIONS:
        plan = pair.plan(text)

        assert passes(plan, pair.compare(plan).values()), text
