"""Contribution bounding takes shortcuts, but keeps the rows of the plain rule."""

from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import chain
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from sqlglot import expressions as sql

from confide.declare import Kind
from confide.engines.sql import row_hash
from confide.engines.sql.builders import UNIT, column, select, table
from confide.engines.sql.contribution_bounding import (
    MAX_LEVELS,
    bound_contributions,
    broadcast_large_units,
    sort_once,
)
from confide.plan import ContributionBounds
from support.entropy import SeededEntropy
from support.laws import ALPHA, chi_square_p
from support.marks import keep_rows

UNITS: Final = 120
ALIKE: Final = 12_000
LIMITS: Final = (
    *((1, 1), (3, 3), (4, 1), (6, 2), (15, 3), (40, 20), (20, 20)),
    *((40, MAX_LEVELS), (40, MAX_LEVELS + 1)),
)
KEYS: Final = {"none": [], "one": ["k0"], "two": ["k0", "k1"]}
PARTS: Final = ["t0", "t1"]
KINDS: Final = {
    UNIT: Kind.INT,
    "k0": Kind.TEXT,
    "k1": Kind.INT,
    "t0": Kind.INT,
    "t1": Kind.INT,
}


@pytest.fixture
def rng(entropy: SeededEntropy) -> np.random.Generator:
    """Return a random generator seeded by the run's seed."""
    return np.random.default_rng(int(entropy.words(1)[0]))


def draw_rows(rng: np.random.Generator) -> pa.Table:
    """Return rows of units of all sizes, with NULLs and many equal rows."""
    sizes = rng.choice([1, 2, 3, 5, 15, 16, 60, 150], UNITS)
    count = int(sizes.sum())
    texts = np.array(["", "a", "ä", None, *(f"key {place}" for place in range(12))], dtype=object)
    units = rng.integers(-(2**62), 2**62, UNITS)
    return pa.table(
        {
            UNIT: pa.array(rng.permutation(np.repeat(units, sizes))),
            "k0": pa.array(rng.choice(texts, count), pa.string()),
            "k1": pa.array([None if x == 3 else x for x in rng.integers(0, 4, count).tolist()]),
            "t0": pa.array(np.ones(count, dtype=np.int32)),
            "t1": pa.array([None if x > 5 else x for x in rng.integers(-5, 7, count).tolist()]),
        }
    )


def keep(
    rows: pa.Table,
    limits: tuple[int, int],
    keys: list[str],
    salt: str,
    shape: Callable[[sql.Select], None] = lambda _: None,
) -> Counter[Any]:
    """Return the rows that contribution bounding keeps, after rewriting each of its selections."""
    connection = duckdb.connect()
    connection.register("drawn", rows)
    chosen = select(map(column, [UNIT, *keys, *PARTS]), table("drawn"))
    kept = bound_contributions(
        chosen, ContributionBounds(*limits, needs_bounding=True), keys, PARTS, salt, kinds=KINDS
    )
    for part in list(kept.find_all(sql.Select)):
        shape(part)
    return Counter(connection.execute(kept.sql("duckdb")).fetchall())


def keep_by_rule(
    rows: pa.Table, limits: tuple[int, int], keys: list[str], salt: str
) -> Counter[Any]:
    """Return the rows that the rule keeps, unit by unit."""
    names = [UNIT, *keys, *PARTS]
    units: defaultdict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for row in zip(*(rows[name].to_pylist() for name in names), strict=True):
        units[row[0]].append(row)
    kinds = {name: KINDS[name] for name in names}
    stays = (keep_rows(its, limits, kinds, len(keys), salt) for its in units.values())
    return Counter(chain.from_iterable(stays))


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_the_rows_that_stay_are_those_of_the_plain_rule(
    limits: tuple[int, int], keys: list[str], rng: np.random.Generator
) -> None:
    """Dropping rows of large units early does not change the rows that stay."""
    rows, salt = draw_rows(rng), str(rng.integers(2**60))

    assert keep_by_rule(rows, limits, keys, salt) == keep(rows, limits, keys, salt)


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_sort_once_keeps_the_same_rows(
    limits: tuple[int, int], keys: list[str], rng: np.random.Generator
) -> None:
    """Groups ranked among the first rows of a unit have the same ranks as among all rows."""
    rows, salt = draw_rows(rng), str(rng.integers(2**60))

    assert keep_by_rule(rows, limits, keys, salt) == keep(rows, limits, keys, salt, sort_once)


def test_sort_once_reads_rows_once() -> None:
    """The rewritten statement has no join, and over all rows it ranks only rows."""
    chosen = select(map(column, [UNIT, "k0", *PARTS]), table("drawn"))
    kept = bound_contributions(
        chosen, ContributionBounds(9, 2, needs_bounding=True), ["k0"], PARTS, "salt", kinds=KINDS
    )
    for part in list(kept.find_all(sql.Select)):
        sort_once(part)
    outer, inner = kept.find_all(sql.Window)
    ranking = outer.find_ancestor(sql.Select)
    assert ranking is not None

    assert kept.find(sql.Join) is None
    assert ["DENSE_RANK", "ROW_NUMBER"] == [outer.this.name, inner.this.name]
    assert [inner] == list(ranking.args["from_"].find_all(sql.Window))


def test_broadcast_joins_stay() -> None:
    """If large units are broadcast, a join still drops their rows."""
    chosen = select(map(column, [UNIT, "k0", *PARTS]), table("drawn"))
    kept = bound_contributions(
        chosen, ContributionBounds(9, 2, needs_bounding=True), ["k0"], PARTS, "salt", kinds=KINDS
    )
    broadcast_large_units(kept)
    for part in list(kept.find_all(sql.Select)):
        sort_once(part)

    assert ["ANTI"] == [join.kind for join in kept.find_all(sql.Join)]
    assert "/*+ BROADCAST(`large units`) */" in kept.sql("spark")


@pytest.mark.parametrize("most", [1, 3, MAX_LEVELS])
def test_few_rows_of_a_large_unit_are_sorted(most: int, rng: np.random.Generator) -> None:
    """Fewer than one in five groups of a unit with 20,000 groups reach the window."""
    groups = np.arange(20_000)
    connection = duckdb.connect()
    connection.register("drawn", pa.table({UNIT: np.full(len(groups), 7), "k0": groups}))
    chosen = select(map(column, [UNIT, "k0"]), table("drawn"))
    kinds = {UNIT: Kind.INT, "k0": Kind.INT}
    limits, salt = ContributionBounds(40, most, needs_bounding=True), str(rng.integers(2**60))
    bounded = bound_contributions(chosen, limits, ["k0"], [], salt, kinds=kinds)
    window = bounded.find(sql.Window)
    assert window is not None
    source = window.find_ancestor(sql.Select)
    assert source is not None
    source.set("expressions", [sql.Count(this=sql.Star())])
    found = connection.execute(source.sql("duckdb")).fetchall()

    assert most <= found[0][0] < len(groups) / 5


def test_columns_can_have_any_name(rng: np.random.Generator) -> None:
    """The rows that stay do not depend on the names of columns."""
    rows, salt = draw_rows(rng).select([UNIT, "t0", "t1"]), str(rng.integers(2**60))
    connection = duckdb.connect()
    kept = []
    for parts in (["t0", "t1"], ["size", "mark"], ["level", "number"], ["place", "line"]):
        connection.register("drawn", rows.rename_columns([UNIT, *parts]))
        chosen = select(map(column, [UNIT, *parts]), table("drawn"))
        kinds = {UNIT: Kind.INT, **dict.fromkeys(parts, Kind.INT)}
        bounded = bound_contributions(
            chosen, ContributionBounds(6, 6, needs_bounding=True), [], parts, salt, kinds=kinds
        )
        kept.append(Counter(connection.execute(bounded.sql("duckdb")).fetchall()))

    assert [kept[0]] * 4 == kept


def test_small_integers_keep_the_same_rows(rng: np.random.Generator) -> None:
    """Declaring that a column holds small integers does not change the rows that stay."""
    rows, salt = draw_rows(rng), str(rng.integers(2**60))
    rows = rows.set_column(2, "k1", pa.array(rng.integers(0, 2**31, len(rows))))
    connection = duckdb.connect()
    connection.register("drawn", rows)
    kept = []
    for small in ((), ("k1", "t0")):
        chosen = select(map(column, [UNIT, "k1", "t0"]), table("drawn"))
        limits = ContributionBounds(6, 2, needs_bounding=True)
        bounded = bound_contributions(
            chosen, limits, ["k1"], ["t0"], salt, kinds=KINDS, small=small
        )
        kept.append(Counter(connection.execute(bounded.sql("duckdb")).fetchall()))

    assert kept[0] == kept[1]


@pytest.mark.parametrize("multiplier", [0, 2**28])
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_the_rule_holds_where_marks_collide(
    limits: tuple[int, int],
    keys: list[str],
    multiplier: int,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If marks collide, contents decide, as in the plain rule."""
    monkeypatch.setattr(row_hash, "_secrets", lambda _, count: [multiplier] * count)
    rows, salt = draw_rows(rng), str(rng.integers(2**60))

    assert keep_by_rule(rows, limits, keys, salt) == keep(rows, limits, keys, salt)


def fairness_p_value(rng: np.random.Generator) -> float:
    """Return the p-value for three groups being kept equally often, over many equal units."""
    unit = np.repeat(np.arange(ALIKE), 6)
    keys = {UNIT: unit, "k0": np.tile(np.repeat(["1", "2", "3"], 2), ALIKE)}
    parts = dict.fromkeys(PARTS, np.ones(len(unit), dtype=np.int64))
    kept = keep(pa.table({**keys, **parts}), (2, 1), ["k0"], str(rng.integers(2**60)))
    draws = [int(key) for _, key, *_ in kept]
    return chi_square_p(draws, dict.fromkeys((1, 2, 3), 1 / 3))


@pytest.mark.statistical
def test_no_group_is_favored(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group of a unit is equally likely to stay; with the unit not hashed, one is not."""
    assert fairness_p_value(rng) > ALPHA

    with_unit = row_hash._secrets
    monkeypatch.setattr(row_hash, "_secrets", lambda *given: [0, *with_unit(*given)[1:]])

    assert fairness_p_value(rng) < ALPHA
