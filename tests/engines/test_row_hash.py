"""Marks follow their law, favor no value, and are the same on another engine."""

from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from sqlglot import expressions as sql

from confide.declare import Kind
from confide.engines.postgres.dialect import POSTGRESQL
from confide.engines.sql.builders import UNIT, column, select, table
from confide.engines.sql.contribution_bounding import MAX_LEVELS, bound_contributions
from confide.engines.sql.row_hash import HEIGHT, LEVELS, MARK, level_of, mark_rows, measure_rows
from confide.plan import ContributionBounds
from support.entropy import SeededEntropy
from support.laws import ALPHA, chi_square_p
from support.marks import mark_of
from support.postgres import Postgres

KINDS: Final = {
    UNIT: Kind.INT,
    "text": Kind.TEXT,
    "whole": Kind.INT,
    "real": Kind.FLOAT,
    "day": Kind.DATE,
    "truth": Kind.BOOL,
    "word": Kind.TEXT,
}
NAMES: Final = list(KINDS)
TYPES: Final = ("BIGINT", "TEXT", "BIGINT", "DOUBLE PRECISION", "DATE", "BOOLEAN", "TEXT")
ARROW: Final = (
    *(pa.int64(), pa.string(), pa.int64(), pa.float64(), pa.date32(), pa.bool_()),
    pa.string(),
)
ODD: Final[dict[str, tuple[Any, ...]]] = {
    UNIT: (0, 1, -1, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, -(2**63), 12_345),
    "text": ("", "a", "A", "ä", "a\u0308", "👩‍🚀", "it's", "  ", "%_\\", "z" * 100, None),
    "whole": (0, 7, -7, 2**53, -(2**53), 2**31, None),
    "real": (0.0, 0.5, 1.5, 2.5, -0.25, 1e-320, 1e300, -1e300, 1.7976931348623157e308, None),
    "day": (date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31), None),
    "truth": (True, False, None),
    "word": ("", "a", "b", "é", None),
}
ROWS: Final = 400
ALIKE: Final = 12_000
UNIT_IDS: Final = {
    "in a row": np.arange(ALIKE),
    "thousands": np.arange(ALIKE) * 1_000,
    "high bits": np.arange(ALIKE) << 33,
    "few bits": np.arange(ALIKE) << 20,
}


@pytest.fixture
def rng(entropy: SeededEntropy) -> np.random.Generator:
    """Return a random generator seeded by the run's seed."""
    return np.random.default_rng(int(entropy.words(1)[0]))


def draw_rows(rng: np.random.Generator, units: int = ROWS) -> list[tuple[Any, ...]]:
    """Return rows of unusual values, of at most ``units`` units."""
    chosen = rng.integers(0, min(units, len(ODD[UNIT])), ROWS)
    others = [rng.integers(0, len(ODD[name]), ROWS) for name in NAMES[1:]]
    places = zip(chosen, *others, strict=True)
    return [
        tuple(ODD[name][place] for name, place in zip(NAMES, row, strict=True)) for row in places
    ]


def run_duckdb(rows: Sequence[tuple[Any, ...]], statement: sql.Select) -> list[tuple[Any, ...]]:
    """Return the rows of a statement's result on DuckDB."""
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, ARROW, strict=True)]
    connection = duckdb.connect()
    connection.register("odd", pa.table(dict(zip(NAMES, arrays, strict=True))))
    return connection.execute(statement.sql("duckdb")).fetchall()


def run_postgres(
    rows: Sequence[tuple[Any, ...]], statement: sql.Select, postgres: Postgres
) -> list[tuple[Any, ...]]:
    """Return the rows of a statement's result on PostgreSQL."""
    name = postgres.create().split("@/")[1].split("?")[0]
    listed = ", ".join(f'"{name}" {kind}' for name, kind in zip(NAMES, TYPES, strict=True))
    with postgres.connect(name) as connection:
        connection.execute(f"CREATE TABLE odd ({listed})")
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO odd VALUES ({', '.join(['%s'] * len(NAMES))})", rows)
            text = POSTGRESQL.write(statement)
            return cursor.execute(text).fetchall()


def write_marks(salt: str) -> sql.Select:
    return mark_rows(select(map(column, NAMES), table("odd")), NAMES, NAMES, KINDS, salt)


def test_marks_follow_their_law(rng: np.random.Generator) -> None:
    """Marks of unusual values, including NULL, equal those computed in plain Python."""
    rows, salt = draw_rows(rng), str(rng.integers(2**60))
    expected = [(*row, mark_of(zip(row, KINDS.values(), strict=True), salt)) for row in rows]

    assert Counter(expected) == Counter(run_duckdb(rows, write_marks(salt)))
    assert all(0 <= mark < LEVELS * 2**41 for *_, mark in expected)


def test_heights_are_those_of_the_marks(rng: np.random.Generator) -> None:
    """A height is its mark without the lower 31 bits."""
    rows, salt = draw_rows(rng), str(rng.integers(2**60))
    heights = measure_rows(select(map(column, NAMES), table("odd")), NAMES, NAMES, KINDS, salt)
    expected = [(*row, mark >> 31) for *row, mark in run_duckdb(rows, write_marks(salt))]

    assert Counter(expected) == Counter(run_duckdb(rows, heights))


def test_levels_rise_with_marks() -> None:
    """Each mark has one of 48 levels, a single bit, and a smaller mark never has a higher level."""
    ends = [mark for place in range(LEVELS) for mark in (place << 41, ((place + 1) << 41) - 1)]
    connection = duckdb.connect()
    connection.register("marks", pa.table({HEIGHT: [mark >> 31 for mark in ends]}))
    levels = select([level_of()], table("marks"))
    found = [level for (level,) in connection.execute(levels.sql("duckdb")).fetchall()]

    assert [2 ** (place // 2) for place in range(2 * LEVELS)] == found


def test_marks_are_the_same_on_postgresql(postgres: Postgres, rng: np.random.Generator) -> None:
    """One salt gives every row the same mark on DuckDB and on PostgreSQL."""
    rows, salt = draw_rows(rng), str(rng.integers(2**60))
    here = run_duckdb(rows, write_marks(salt))
    there = run_postgres(rows, write_marks(salt), postgres)

    assert Counter(here) == Counter(there)


@pytest.mark.parametrize("limits", [(40, MAX_LEVELS + 1), (40, 4), (10, 10)], ids=str)
def test_the_same_rows_stay_on_postgresql(
    limits: tuple[int, int],
    postgres: Postgres,
    rng: np.random.Generator,
) -> None:
    """Contribution bounding keeps the same rows on DuckDB and on PostgreSQL."""
    rows, salt = draw_rows(rng, units=3), str(rng.integers(2**60))

    def write() -> sql.Select:
        chosen = select(map(column, NAMES), table("odd"))
        keys, parts = ["day", "whole"], ["text", "real", "truth", "word"]
        return bound_contributions(
            chosen, ContributionBounds(*limits, needs_bounding=True), keys, parts, salt, kinds=KINDS
        )

    here = run_duckdb(rows, write())
    there = run_postgres(rows, write(), postgres)

    assert {row[0] for row in rows} == {row[0] for row in here}
    assert len(here) <= 3 * limits[0] < len(rows)
    assert Counter(here) == Counter(there)


@pytest.mark.statistical
@pytest.mark.parametrize("units", UNIT_IDS.values(), ids=UNIT_IDS)
@pytest.mark.parametrize("keys", [(1, 2, 3), tuple(range(10)), (5, 1_000, 77_777)], ids=str)
def test_no_value_is_favored(
    keys: tuple[int, ...], units: np.ndarray[Any, Any], rng: np.random.Generator
) -> None:
    """For any units and keys, each group comes first in the same share of units."""
    pairs = pa.table({UNIT: np.repeat(units, len(keys)), "k0": np.tile(keys, len(units))})
    connection = duckdb.connect()
    connection.register("pairs", pairs)
    chosen = select(map(column, [UNIT, "k0"]), table("pairs"))
    salt = str(rng.integers(2**60))
    marked = mark_rows(chosen, [UNIT, "k0"], [UNIT, "k0"], {UNIT: Kind.INT, "k0": Kind.INT}, salt)
    first = f'SELECT arg_min(k0, "{MARK}") FROM ({marked.sql("duckdb")}) GROUP BY "{UNIT}"'
    draws = [key for (key,) in connection.execute(first).fetchall()]

    assert chi_square_p(draws, dict.fromkeys(keys, 1 / len(keys))) > ALPHA
    assert len(units) == len(draws)
