"""The cut takes short cuts; the rows that stay are those of the plain rule."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from sqlglot import expressions as sql

from confide.engines import cuts
from confide.engines.cuts import MOST_CLASSES, cut_rows
from confide.engines.expressions import Sql, number
from confide.engines.fragments import UNIT, column, unit_column
from confide.plan import Contribution
from support.entropy import SeededEntropy
from support.laws import ALPHA, chi_square_p

EVERYTHING: Final = 10**9
UNITS: Final = 300
ALIKE: Final = 12_000
LIMITS: Final = ((1, 1), (3, 3), (4, 1), (6, 2), (15, 3), (20, MOST_CLASSES), (40, 12), (12, 12))
KEYS: Final = {"none": [], "one": ["k0"], "two": ["k0", "k1"]}
PARTS: Final = ["t0", "t1"]
PLAIN: Final = """
    WITH grouped AS (
        SELECT *, DENSE_RANK() OVER (PARTITION BY "the unit" ORDER BY {group_order}) AS "its group"
        FROM rows
    ), placed AS (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY "the unit" ORDER BY {row_order}) AS "its row"
        FROM grouped WHERE "its group" <= {groups}
    )
    SELECT "the unit", {held} FROM placed WHERE "its row" <= {rows}
"""


@pytest.fixture
def rng(entropy: SeededEntropy) -> np.random.Generator:
    """Return random choices that depend on the run's seed."""
    return np.random.default_rng(int(entropy.words(1)[0]))


def draw_rows(rng: np.random.Generator) -> pa.Table:
    """Return rows of units of all sizes, with NULLs, many of them alike."""
    sizes = rng.choice([1, 2, 3, 5, 15, 16, 60], UNITS)
    count = int(sizes.sum())
    texts = np.array(["", "a", "ä", None, *(f"key {place}" for place in range(12))], dtype=object)
    return pa.table(
        {
            UNIT: pa.array(rng.permutation(np.repeat(np.arange(UNITS), sizes))),
            "k0": pa.array(rng.choice(texts, count), pa.string()),
            "k1": pa.array([None if x == 3 else x for x in rng.integers(0, 4, count).tolist()]),
            "t0": pa.array(np.ones(count, dtype=np.int64)),
            "t1": pa.array([None if x > 5 else x for x in rng.integers(-5, 7, count).tolist()]),
        }
    )


def open_rows(table: pa.Table) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("rows", table)
    return connection


def cut(
    connection: duckdb.DuckDBPyConnection, limits: tuple[int, int], keys: list[str], salt: str
) -> Counter[Any]:
    """Return the rows that the cut keeps."""
    rows = sql.select(unit_column(), *map(column, [*keys, *PARTS])).from_("rows")
    kept = cut_rows(rows, Contribution(*limits, is_cut=True), keys, PARTS, salt)
    return Counter(connection.execute(kept.sql("duckdb")).fetchall())


def cut_plainly(
    connection: duckdb.DuckDBPyConnection, limits: tuple[int, int], keys: list[str], salt: str
) -> Counter[Any]:
    """Return the rows that the rule keeps, said by two windows over everything."""

    def order(names: Sequence[str], what: str) -> str:
        mark = cuts._mark(names, f"{salt} {what}").sql("duckdb")
        return ", ".join([mark, *(f'"{name}"' for name in names)])

    held = [*keys, *PARTS]
    statement = PLAIN.format(
        held=", ".join(f'"{name}"' for name in held),
        group_order=order(keys, "groups"),
        row_order=order(held, "rows"),
        rows=limits[0],
        groups=limits[1] if limits[1] < limits[0] else EVERYTHING,
    )
    return Counter(connection.execute(statement).fetchall())


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_the_rows_that_stay_are_those_of_the_plain_rule(
    limits: tuple[int, int], keys: list[str], rng: np.random.Generator
) -> None:
    """Dropping rows early and sparing small units changes nothing of what stays."""
    connection, salt = open_rows(draw_rows(rng)), str(rng.integers(2**60))

    assert cut_plainly(connection, limits, keys, salt) == cut(connection, limits, keys, salt)


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_the_rule_holds_where_hashes_collide(
    limits: tuple[int, int],
    keys: list[str],
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a hash of five values only, what rows hold decides, here as in the plain rule."""
    whole_mark = cuts._mark

    def mark(names: Sequence[str], salt: str) -> Sql:
        return sql.Mod(this=whole_mark(names, salt), expression=number(5))

    monkeypatch.setattr(cuts, "_mark", mark)
    connection, salt = open_rows(draw_rows(rng)), str(rng.integers(2**60))

    assert cut_plainly(connection, limits, keys, salt) == cut(connection, limits, keys, salt)


def chance_of_fairness(salt: str) -> float:
    """Return the p-value of what three groups keep of many units alike, one group of each."""
    unit = np.repeat(np.arange(ALIKE), 6)
    tables = {UNIT: unit, "k0": np.tile(np.repeat([1, 2, 3], 2), ALIKE)}
    parts = dict.fromkeys(PARTS, np.ones(len(unit), dtype=np.int64))
    kept = cut(open_rows(pa.table({**tables, **parts})), (2, 1), ["k0"], salt)
    draws = [key for _, key, *_ in kept]
    return chi_square_p(draws, dict.fromkeys((1, 2, 3), 1 / 3))


@pytest.mark.statistical
def test_no_group_is_favoured(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of a unit's groups is as likely to stay; hashed once only, one would be favoured."""
    salt = str(rng.integers(2**60))

    assert chance_of_fairness(salt) > ALPHA

    def mark(names: Sequence[str], salt: str) -> Sql:
        return twice(names, salt).transform(_hash_once)

    twice = cuts._mark
    monkeypatch.setattr(cuts, "_mark", mark)

    assert chance_of_fairness(salt) < ALPHA


def _hash_once(part: Sql) -> Sql:
    inner = part.expressions[0] if isinstance(part, sql.Anonymous) else None
    return inner if isinstance(inner, sql.Anonymous) else part
