"""With contribution limits, answers equal DuckDB's on the rows that are kept.

A keyed hash decides which rows of a unit are kept, so the test cannot predict them. But it can
detect them: each row carries its own power of two, and their sum in the answer shows which rows
were counted. The oracle then gets exactly these rows, and every other column of the same answer
must agree.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import duckdb
import pyarrow as pa
import pytest

from confide.curator import Curator
from confide.declare import Category, Column, Float, Int, Table
from support.noiseless import BUDGETS, EPSILONS, ask_oracle, is_near, make_world

Rows = list[dict[str, Any]]

PEOPLE: Final = 40
ROWS: Final = 9
SLACK: Final = 1e-3
WHO: Final = [f"p{person}" for person in range(PEOPLE)]
STATISTICS: Final = (
    "COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m",
    "COUNT(x) AS n, VAR_SAMP(x) AS v",
    "COUNT(*) FILTER (WHERE k = 'a') AS a, COUNT(*) FILTER (WHERE k <> 'a') AS b",
    "SUM(CASE WHEN x > 5 THEN x ELSE 0 END) AS s, COUNT(DISTINCT pid) AS u",
    "SUM(x) / COUNT(*) AS m, SUM(x * x) AS q",
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Contribution limits of one unit."""

    rows: int
    groups: int


def make_rows() -> Rows:
    """Return up to nine rows per person, in up to three wards, each with its own power of two."""
    return [
        {
            "pid": person,
            "who": WHO[person],
            "code": 2.0**place,
            "x": float((person * 7 + place * 3) % 10),
            "k": "abc"[(person + place) % 3],
        }
        for person in range(PEOPLE)
        for place in range(1 + person % ROWS)
    ]


COLUMNS: Final[dict[str, Column]] = {
    "who": Category(WHO),
    "code": Int(0, 2 ** (ROWS - 1)),
    "x": Float(0, 10),
    "k": Category(list("abc")),
}


def ask(text: str, limits: Limits, accounting: str) -> Rows:
    """Return an answer without noise under these limits."""
    world = make_world(
        make_rows(),
        COLUMNS,
        max_rows_per_unit=limits.rows,
        max_groups_per_unit=limits.groups,
    )
    return (
        Curator(world.tables, budget=BUDGETS[accounting])
        .sql(text, epsilon=EPSILONS[accounting])
        .rows
    )


def ask_about_kept(
    text: str, answer: Rows, keys: Sequence[str], rows: Rows | None = None
) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return DuckDB's answer on the rows that an answer's codes show as counted."""
    kept = [
        row
        for row in rows or make_rows()
        for group in answer
        if all(row[key] == group[key] for key in keys) and group["code"] & int(row["code"])
    ]
    oracle = duckdb.connect()
    oracle.register("t", pa.Table.from_pylist(kept))
    return {tuple(row[key] for key in keys): row for row in ask_oracle(oracle, text)}


def are_near(expected: dict[str, Any], actual: dict[str, Any]) -> bool:
    """Return whether two rows agree, up to much less than one row of data changes."""
    return all(is_near(expected[name], actual[name], SLACK) for name in expected)


@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("rows", [1, 3, 5])
def test_the_rows_that_are_kept_are_counted(rows: int, statistics: str, accounting: str) -> None:
    """As many rows of each person are kept as allowed, and all columns use the same rows."""
    text = f"SELECT who, SUM(code) AS code, {statistics} FROM t GROUP BY who"
    answer = ask(text, Limits(rows, rows), accounting)
    expected = ask_about_kept(text, answer, ["who"])
    allowed = [min(rows, 1 + person % ROWS) for person in range(PEOPLE)]

    assert allowed == [row["code"].bit_count() for row in answer]
    assert all(are_near(expected[row["who"],], row) for row in answer)


@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize("limits", [Limits(6, 1), Limits(4, 2), Limits(2, 1)], ids=str)
def test_the_groups_that_are_kept_are_counted(limits: Limits, accounting: str) -> None:
    """A person is kept in as many groups as allowed, with all of their rows up to the limit."""
    text = "SELECT who, k, SUM(code) AS code, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY who, k"
    answer = ask(text, limits, accounting)
    expected = ask_about_kept(text, answer, ["who", "k"])
    kept = {(row["who"], row["k"]): row["code"].bit_count() for row in answer if row["code"]}

    assert kept.keys() <= expected.keys()
    assert all(
        are_near(expected[group], row)
        for row in answer
        if (group := (row["who"], row["k"])) in kept
    )
    for person, name in enumerate(WHO):
        sizes = Counter("abc"[(person + place) % 3] for place in range(1 + person % ROWS))
        stayed = {k: kept[name, k] for k in sizes if (name, k) in kept}
        assert sum(stayed.values()) == min(limits.rows, sum(sizes[k] for k in stayed))
        assert len(stayed) <= limits.groups
        assert len(stayed) == min(limits.groups, len(sizes)) or sum(stayed.values()) == limits.rows


@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize("condition", ["TRUE", "x > 4", "k = 'b'", "code <> 4"])
def test_conditions_apply_before_contribution_bounding(condition: str, accounting: str) -> None:
    """Rows that a condition excludes do not count toward the limit."""
    text = f"SELECT who, SUM(code) AS code, COUNT(*) AS n FROM t WHERE {condition} GROUP BY who"
    answer = ask(text, Limits(2, 2), accounting)
    oracle = duckdb.connect()
    oracle.register("t", pa.Table.from_pylist(make_rows()))
    found = ask_oracle(oracle, f"SELECT who, COUNT(*) AS n FROM t WHERE {condition} GROUP BY who")
    left = {row["who"]: row["n"] for row in found}

    assert [min(2, left.get(name, 0)) for name in WHO] == [row["n"] for row in answer]
    assert [row["n"] for row in answer] == [row["code"].bit_count() for row in answer]


@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize(("size", "limit"), [(9, 4), (9, 1), (3, 5)])
def test_subqueries_use_the_rows_that_are_kept(size: int, limit: int, accounting: str) -> None:
    """A person's own statistics are computed from the rows that are kept."""
    rows = [row for row in make_rows() if row["pid"] == size - 1]
    world = make_world(rows, COLUMNS, max_rows_per_unit=limit)
    curator = Curator(world.tables, budget=BUDGETS[accounting])
    text = (
        "SELECT SUM(code) AS code, SUM(n) AS n, SUM(s) AS s, SUM(m) AS m FROM "
        "(SELECT pid, SUM(code) AS code, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m FROM t "
        "GROUP BY pid)"
    )
    (answer,) = curator.sql(text, epsilon=EPSILONS[accounting]).rows
    expected = ask_about_kept(text, [answer], [], rows)

    assert min(size, limit) == answer["code"].bit_count()
    assert are_near(expected[()], answer)


@pytest.mark.parametrize("accounting", BUDGETS)
def test_joined_rows_are_limited_together(accounting: str) -> None:
    """At most the product of both limits is kept of the pairs that a join makes."""
    left = [{"pid": p, "who": WHO[p], "a": 2.0**i} for p in range(9) for i in range(1 + p % 3)]
    right = [{"pid": p, "b": 8.0**i} for p in range(9) for i in range(1 + p // 3)]
    tables = (
        Table(
            "l",
            pa.Table.from_pylist(left),
            unit="pid",
            columns={"who": Category(WHO[:9]), "a": Int(0, 4)},
            max_rows_per_unit=2,
        ),
        Table(
            "r",
            pa.Table.from_pylist(right),
            unit="pid",
            columns={"b": Int(0, 64)},
            max_rows_per_unit=2,
        ),
    )
    curator = Curator(tables, budget=BUDGETS[accounting])
    text = "SELECT who, SUM(a * b) AS code, COUNT(*) AS n FROM l JOIN r USING (pid) GROUP BY who"
    answer = curator.sql(text, epsilon=EPSILONS[accounting]).rows
    pairs = [list(product(range(1 + p % 3), range(1 + p // 3))) for p in range(9)]

    assert [min(4, len(made)) for made in pairs] == [row["n"] for row in answer]
    for made, row in zip(pairs, answer, strict=True):
        seen = [pair for pair in made if row["code"] >> (pair[0] + 3 * pair[1]) & 1]
        assert row["n"] == len(seen)


@pytest.mark.parametrize("accounting", BUDGETS)
def test_equal_rows_count_up_to_the_limit(accounting: str) -> None:
    """A person with many equal visits in several wards counts as often as the owner allows."""
    rows = [
        {"pid": person, "ward": ward, "cost": float(person)}
        for person in range(60)
        for ward in "ABC"[: 1 + person % 3]
        for _ in range(1 + person % 5)
    ]
    columns: dict[str, Column] = {"ward": Category(list("ABC")), "cost": Float(0, 60)}
    world = make_world(rows, columns, max_rows_per_unit=3, max_groups_per_unit=1)
    curator = Curator(world.tables, budget=BUDGETS[accounting])
    grouped = curator.sql(
        "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward", epsilon=EPSILONS[accounting]
    ).rows
    whole = curator.sql(
        "SELECT COUNT(*) AS n, SUM(cost) AS s FROM t", epsilon=EPSILONS[accounting]
    ).rows[0]
    in_all = [min(3, (1 + person % 3) * (1 + person % 5)) for person in range(60)]

    assert sum(min(3, 1 + person % 5) for person in range(60)) == sum(row["n"] for row in grouped)
    assert sum(in_all) == whole["n"]
    assert math.isclose(
        sum(count * person for person, count in enumerate(in_all)), whole["s"], abs_tol=SLACK
    )
