"""Canonical text is unique per tree, is valid input, and ignores spelling variants."""

import pytest
from hypothesis import given
from sqlglot.dialects.duckdb import DuckDB

from confide.aggregates import make_aggregate
from confide.declare import Kind
from confide.errors import UnsupportedQuery
from confide.expressions.tree import Expression, size_of, walk
from confide.query import Query, canonical
from confide.query.canonical import Writer, quote_name
from confide.query.sql import read_sql
from confide.query.tree import Output, Scan
from support.questions import NAMES
from support.trees import expressions, queries

COUNT = Output("n", make_aggregate("COUNT"))
ALIKE = [
    [
        "SELECT ward, COUNT(*) AS n FROM visits WHERE age BETWEEN 1 AND 9 GROUP BY ward ORDER BY n",
        "select v.WARD, count(*) n from Visits v where v.age >= 1 and v.age <= 9 "
        "group by 1 order by 2",
        "SELECT ward,COUNT(1) AS n FROM visits WHERE (age>=1) AND ((age<=9)) GROUP BY ward "
        "ORDER BY COUNT(*) ASC NULLS LAST;",
    ],
    [
        "SELECT COUNT(*) AS n FROM visits JOIN labs USING (patient_id) WHERE ward <> 'A'",
        "SELECT COUNT(*) AS n FROM visits a JOIN labs b ON b.patient_id = a.unit WHERE ward != 'A'",
        "SELECT COUNT(*) AS n FROM visits INNER JOIN labs ON (labs.unit) = (visits.patient_id) "
        "WHERE ward <> 'A' -- not A",
    ],
    [
        "SELECT AVG(t) AS a FROM (SELECT patient_id, SUM(cost) AS t FROM visits GROUP BY 1) AS p",
        "WITH q AS (SELECT patient_id AS p, SUM(cost) AS t FROM visits GROUP BY p) "
        "SELECT AVG(q.t) AS a FROM q",
    ],
    ["SELECT DISTINCT ward FROM visits", "SELECT ward FROM visits GROUP BY ward"],
]
APART = [
    "SELECT COUNT(*) AS n FROM visits",
    "SELECT COUNT(*) AS N FROM visits",
    "SELECT COUNT(age) AS n FROM visits",
    "SELECT COUNT(*) AS n FROM labs",
    "SELECT COUNT(*) AS n FROM visits WHERE age = 1",
    "SELECT COUNT(*) AS n FROM visits WHERE cost = 1",
    "SELECT COUNT(*) AS n FROM visits WHERE cost = 1.0",
    "SELECT COUNT(*) AS n FROM visits WHERE ward = '1'",
    "SELECT COUNT(*) AS n FROM visits WHERE ward IN ('A', 'B')",
    "SELECT COUNT(*) AS n FROM visits WHERE ward IN ('B', 'A')",
    "SELECT COUNT(*) AS n FROM visits WHERE ward IN ('A, B')",
    "SELECT COUNT(*) AS n FROM visits WHERE ward IN ('A'', ''B')",
    "SELECT COUNT(*) AS n FROM visits WHERE age - (1 - 2) = 0",
    "SELECT COUNT(*) AS n FROM visits WHERE age - 1 - 2 = 0",
    "SELECT COUNT(*) AS n FROM visits LIMIT 1",
    "SELECT COUNT(*) AS n FROM visits JOIN labs USING (patient_id)",
    "SELECT COUNT(*) AS n FROM visits LEFT JOIN labs USING (patient_id)",
]


@pytest.mark.parametrize("spellings", ALIKE)
def test_spellings_share_one_text(spellings: list[str]) -> None:
    """Case, aliases, positions, BETWEEN, parentheses, and comments do not affect the text."""
    assert 1 == len({canonical(read_sql(text, NAMES)) for text in spellings})
    assert 1 == len({read_sql(text, NAMES) for text in spellings})


def test_different_queries_have_different_texts() -> None:
    """No two of these queries have the same text."""
    assert len(APART) == len({canonical(read_sql(text, NAMES)) for text in APART})


@given(expression=expressions(Kind.BOOL, 4))
def test_expressions_survive_a_round_trip(expression: Expression) -> None:
    """Parsing the text of any condition returns the same tree, so no two have the same text."""
    query = Query(Scan("visits", "t1"), expression, (), (COUNT,))

    assert query == read_sql(canonical(query), NAMES)


@given(expression=expressions(Kind.INT, 4, grouped=True))
def test_a_size_is_the_number_of_parts(expression: Expression) -> None:
    """The size stored in a tree equals the number of nodes in a walk."""
    assert len(list(walk(expression))) == size_of(expression)


@pytest.mark.parametrize(
    "deep", ["age" + "::BIGINT" * 12, "ABS(" * 12 + "age" + ")" * 12, "- " * 12 + "age"]
)
def test_every_part_is_written_once(deep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing a deep expression takes as many steps as it has parts."""
    query = read_sql(f"SELECT SUM({deep}) AS s FROM visits", NAMES)
    written: list[Expression] = []
    write = Writer._write

    def count(self: Writer, expression: Expression) -> tuple[str, int]:
        written.append(expression)
        return write(self, expression)

    monkeypatch.setattr(Writer, "_write", count)
    canonical(query)

    assert size_of(query.outputs[0].expression) == len(written)


@given(query=queries())
def test_queries_survive_a_round_trip(query: Query) -> None:
    """Parsing the text of any one-table query returns the same tree."""
    line = canonical(query)

    assert "\n" not in line
    assert query == read_sql(line, NAMES)


@pytest.mark.parametrize("word", sorted(DuckDB.Tokenizer.KEYWORDS))
def test_keywords_can_be_names(word: str) -> None:
    """Any SQL keyword can be the name of an output, and the text still parses."""
    query = Query(Scan("visits", "t1"), None, (), (Output(word, COUNT.expression),))

    assert query == read_sql(canonical(query), NAMES)


def test_plain_names_are_not_quoted() -> None:
    """Names are quoted only if necessary."""
    assert ["age", '"group"', '"a b"', '"a""b"', '"9"'] == [
        quote_name(name) for name in ("age", "group", "a b", 'a"b', "9")
    ]


def test_a_column_named_unit_takes_precedence() -> None:
    """The name "unit" refers to a column of that name if there is one, and else to the unit."""
    with pytest.raises(UnsupportedQuery, match="cannot be selected"):
        read_sql("SELECT unit, COUNT(*) FROM visits GROUP BY unit", NAMES)
