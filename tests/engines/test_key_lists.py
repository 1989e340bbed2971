"""During contribution bounding, keys from short lists are positions in these lists."""

from collections import Counter, defaultdict
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from confide.curator import Curator
from confide.declare import Budget, Catalog, Category, Int, Kind, Table
from confide.engines import DuckDB
from confide.engines.sql.builders import UNIT
from confide.engines.sql.statements import MAX_LISTED, write_statement
from confide.ledger import Hold
from confide.loss import Share
from confide.plan import Plan
from confide.query.sql import read_sql
from confide.release.unseal import unseal
from support.entropy import SeededEntropy
from support.marks import keep_rows

SHARE: Final = Share.floor("1/100")
ROWS, UNITS, LIMITS, SALT = 3_000, 60, (7, 3), "salt"
STORED: Final = ("a", "A", "b", "B", "é", "e\u0301", "it's", "", " ", "odd", None)
MANY: Final = tuple(f"text {number}" for number in range(MAX_LISTED + 1))
LISTS: Final[dict[str, tuple[str | None, ...]]] = {
    "odd": ("é", "B", None, "it's", "", "a"),
    "plain": ("y", "x"),
    "full": MANY[:-1],
    "long": MANY,
}
KEYS: Final = (["odd"], ["plain"], ["full"], ["long"], ["odd", "plain"], ["plain", "long", "odd"])


@pytest.fixture
def rng(entropy: SeededEntropy) -> np.random.Generator:
    """Return a random generator seeded by the run's seed."""
    return np.random.default_rng(int(entropy.words(1)[0]))


def draw_table(rng: np.random.Generator) -> Table:
    """Return a table of units with numbers and various strings, declared and undeclared."""
    stored = {"odd": STORED, "plain": ("x", "y", "z", None), "full": MANY, "long": MANY}
    texts = {
        name: pa.array([some[place] for place in rng.integers(0, len(some), ROWS)], pa.string())
        for name, some in stored.items()
    }
    numbers = {"pid": rng.integers(0, UNITS, ROWS), "n": rng.integers(0, 10, ROWS)}
    return Table(
        "t",
        pa.table({**numbers, **texts}),
        unit="pid",
        columns={"n": Int(0, 9), **{name: Category(some) for name, some in LISTS.items()}},
        max_rows_per_unit=LIMITS[0],
        max_groups_per_unit=LIMITS[1],
    )


def plan_question(table: Table, statistic: str, keys: list[str]) -> Plan:
    """Return the plan of a statistic by some keys."""
    curator = Curator([table], budget=Budget(1))
    named = ", ".join(keys)
    text = f"SELECT {named}, {statistic} AS x FROM t GROUP BY {named}"
    return curator._planner.plan(read_sql(text, curator.names), SHARE)


def encode(name: str, text: str | None) -> Any:
    """Return a declared string as contribution bounding sees it: its position, in a short list."""
    texts = [one for one in LISTS[name] if one is not None]
    return texts.index(text) if text is not None and len(texts) <= MAX_LISTED else text


def group_of(row: dict[str, Any], keys: list[str]) -> tuple[Any, ...] | None:
    """Return the group of a row, None if it is not released; undeclared strings are NULL."""
    group = tuple(row[name] if row[name] in LISTS[name] else None for name in keys)
    is_answered = all(one in LISTS[name] for name, one in zip(keys, group, strict=True))
    return group if is_answered else None


def keep_all(table: Table, keys: list[str], parts: list[str]) -> Counter[tuple[Any, ...]]:
    """Return the rows that stay, by group and parts, by the rule in plain Python."""
    kinds = {UNIT: Kind.INT}
    kinds |= {name: Kind.TEXT if name == "long" else Kind.INT for name in keys}
    kinds |= dict.fromkeys(parts, Kind.INT)
    units: defaultdict[int, list[tuple[Any, ...]]] = defaultdict(list)
    groups: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for row in table.source.to_pylist():
        group = group_of(row, keys)
        if group is not None:
            held = tuple(map(encode, keys, group))
            groups[held] = group
            units[row["pid"]].append((row["pid"], *held, *(row[part] for part in parts)))
    kept = [
        row for rows in units.values() for row in keep_rows(rows, LIMITS, kinds, len(keys), SALT)
    ]
    ends = 1 + len(keys)
    return Counter((*groups[row[1:ends]], *row[ends:]) for row in kept)


@pytest.mark.parametrize("keys", KEYS, ids="-".join)
def test_rows_with_declared_keys_follow_the_rule(keys: list[str], rng: np.random.Generator) -> None:
    """The rows with declared keys that stay are those of the rule, whatever else is stored."""
    table = draw_table(rng)
    plan = plan_question(table, "COUNT(*)", keys)
    found = unseal(DuckDB(Catalog([table]), salt=SALT).run(plan.measurement, Hold(0, SHARE))).groups

    assert keep_all(table, keys, []) == {group: rows for group, (rows,) in found.items()}


@pytest.mark.parametrize("keys", KEYS, ids="-".join)
def test_rows_of_quantiles_follow_the_rule(keys: list[str], rng: np.random.Generator) -> None:
    """A median by declared keys uses the rows of the rule, too."""
    table = draw_table(rng)
    plan = plan_question(table, "MEDIAN(n)", keys)
    (counts,) = unseal(
        DuckDB(Catalog([table]), salt=SALT).run(plan.measurement, Hold(0, SHARE))
    ).counts
    found = {
        (*group, int(cell)): rows
        for group, pair in counts.items()
        for cell, rows in zip(*pair, strict=True)
    }

    assert keep_all(table, keys, ["n"]) == found


@pytest.mark.parametrize("has_enums", [True, False])
def test_short_lists_are_not_hashed(has_enums: bool, rng: np.random.Generator) -> None:
    """Strings are hashed if and only if their list is too long to look them up."""
    table = draw_table(rng)
    plans = {name: plan_question(table, "COUNT(*)", [name]) for name in LISTS}
    hashed = {
        name: "MD5"
        in write_statement(plan.measurement, SALT, Kind.INT, has_enums=has_enums).sql("duckdb")
        for name, plan in plans.items()
    }

    assert {"odd": False, "plain": False, "full": False, "long": True} == hashed
