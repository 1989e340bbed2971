"""Canonical text keeps the meaning of a query: DuckDB returns the same answer to both."""

import re
from collections.abc import Iterator

import duckdb
import pytest

from confide.query import canonical
from confide.query.sql import read_sql
from support.questions import NAMES
from support.spellings import CONDITIONS, STATISTICS, WHOLE

TEXTS = [
    *(f"SELECT COUNT(*) AS n FROM visits WHERE {condition}" for condition, _ in CONDITIONS),
    *(f"SELECT {statistic} AS x FROM visits" for statistic, _ in STATISTICS),
    *(text for text, _ in WHOLE),
]
# A column named "unit" replaces the word that canonical text uses for the unit.
WORLD = """
CREATE TABLE visits AS SELECT i % 40 AS patient_id, i % 40 AS unit,
    CASE WHEN i % 11 > 0 THEN i * 7 % 90 END AS age,
    CASE WHEN i % 13 > 0 THEN 0.5 + i * 37 % 101 / 8 END AS cost,
    ['A', 'B', 'C', NULL][1 + i % 4] AS ward,
    CASE WHEN i % 5 > 0 THEN (i % 23)::VARCHAR END AS diagnosis,
    [TRUE, FALSE, NULL][1 + i % 3] AS smoker,
    CASE WHEN i % 7 > 0 THEN DATE '2020-01-01' + (i * 5)::INTEGER END AS day
    FROM RANGE(300) AS r(i);
CREATE TABLE labs AS SELECT i % 30 AS patient_id, i % 30 AS unit, i % 17 / 2 AS value,
    'x' AS test, DATE '2021-01-01' + (i % 9)::INTEGER AS day FROM RANGE(100) AS r(i);
CREATE TABLE notes AS SELECT i AS pid, i AS unit, i * 3 AS words FROM RANGE(35) AS r(i);
CREATE TABLE people AS SELECT i AS unit, i * 100 AS income, (i % 6)::VARCHAR AS city
    FROM RANGE(50) AS r(i);
CREATE TABLE icd AS SELECT i::VARCHAR AS code, ['A', 'B'][1 + i % 2] AS chapter, i / 2 AS weight
    FROM RANGE(20) AS r(i);
CREATE TABLE cities AS SELECT i::VARCHAR AS city, 'r' || i % 2 AS "Name of region", i AS size
    FROM RANGE(5) AS r(i);
"""


@pytest.fixture(scope="module")
def world() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database of invented people with NULL in every column."""
    connection = duckdb.connect()
    for statement in WORLD.split(";"):
        if statement.strip():
            connection.execute(statement)
    yield connection
    connection.close()


def answer(world: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    """Return the sorted rows of an answer; casts that fail give NULL."""
    total = re.sub(r"(?<!TRY_)\bCAST\(", "TRY_CAST(", text)
    return sorted(map(str, world.execute(total).fetchall()))


@pytest.mark.parametrize("text", TEXTS)
def test_canonical_text_has_the_same_answer(text: str, world: duckdb.DuckDBPyConnection) -> None:
    """On data with NULL in every column, a query and its canonical text agree."""
    assert answer(world, text) == answer(world, canonical(read_sql(text, NAMES)))


def test_different_queries_have_different_answers(world: duckdb.DuckDBPyConnection) -> None:
    """The data distinguish the queries, so wrong canonical text would be noticed."""
    counts = {tuple(answer(world, text)) for text in TEXTS[: len(CONDITIONS)]}

    assert len(counts) > len(CONDITIONS) // 3
