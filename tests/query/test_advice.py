"""Refusals suggest what to write instead and underline what must change."""

import re

import pytest

from confide.errors import Refusal, UnknownName, UnsupportedQuery
from confide.query.sql import read_sql
from support.questions import NAMES

ADVICE = [
    (
        "SELECT COUNT(*) FROM visits WHERE day > CURRENT_DATE",
        "CURRENT_DATE",
        "Write a date, such as `DATE '2020-01-31'`",
    ),
    ("SELECT COUNT(*) FROM visits WHERE day > NOW()", "NOW", "Write a date"),
    ("SELECT COUNT(*) FROM visits WHERE LOCALTIMESTAMP > day", "LOCALTIMESTAMP", "Write a date"),
    ("SELECT SUM(FOO(cost)) FROM visits", "FOO(cost)", "FOO is not supported"),
    ("SELECT MAX(cost) FROM visits", "MAX(cost)", "QUANTILE_CONT(cost, 0.99)"),
    ("SELECT QUANTILE_CONT(cost) FROM visits", None, "Write `QUANTILE_CONT(x, 0.9)`"),
    ("SELECT COUNT(ward, age) FROM visits", "COUNT(ward, age)", "COUNT takes one value"),
    ("SELECT COUNT(*) AS n FROM visits WHERE n > 1", "n", "to HAVING"),
    ("SELECT COUNT(*) FROM visits WHERE ward = \u201cA\u201d", None, "straight quotes"),
    ("SELECT COUNT(*) FROM visits WHERE age \u2265 5", "\u2265", "Write >="),
    ("SELECT COUNT(*) FROM `visits`", "`", "double quotes"),
    ("SELECT TOP 5 ward FROM visits", None, "Write LIMIT"),
    ("SELECT COUNT(*) FORM visits", None, "Write FROM"),
    ("SELECT COUNT(*) FROM visits WHERE ward form 3", None, "Write a query such as `SELECT"),
    ('SELECT COUNT(*) AS "A" FROM visits WHERE ward = "A"', None, "single quotes: 'A'"),
    ("SHOW TABLES", "SHOW", "curator.names"),
    ("EXPLAIN SELECT COUNT(*) FROM visits", "EXPLAIN", "curator.explain"),
    ("SELECT AVG() FROM visits", "AVG()", "Write `AVG(x)`"),
    ("SELECT AVG(LN( )) FROM visits", "LN( )", "Write `LN(x)`"),
    (
        "SELECT QUANTILE_CONT(age, [0.1, 0.9]) FROM visits",
        "[",
        "QUANTILE_CONT(x, 0.1), QUANTILE_CONT(x, 0.9)",
    ),
    (
        "SELECT [ward], COUNT(*) FROM visits GROUP BY 1",
        "[",
        "Write names without quotes or in double quotes",
    ),
    ("SELECT {'a': COUNT(*)} FROM visits", "{", "Select each value as a column"),
    (
        "SELECT AVG(t) FROM (SELECT patient_id, MAX(cost) AS t FROM visits GROUP BY patient_id)",
        "MAX(cost)",
        "only COUNT, SUM, and AVG",
    ),
    (
        "SELECT AVG(t) FROM (SELECT patient_id, MEDIAN(cost) FILTER (WHERE smoker) AS t "
        "FROM visits GROUP BY patient_id)",
        "MEDIAN(cost) FILTER (WHERE smoker)",
        "only COUNT, SUM, and AVG",
    ),
    (
        "SELECT COUNT(*) FROM (SELECT * FROM visits WHERE age > 3)",
        "* FROM visits WHERE age > 3",
        "Write `FROM visits WHERE ...`.",
    ),
    (
        "WITH v AS (SELECT age FROM visits) SELECT COUNT(*) FROM v",
        "age FROM visits",
        "Write `FROM visits`.",
    ),
    ('SELECT COUNT(*) FROM visits WHERE ward = "A"', '"A"', "use single quotes: 'A'"),
    ("SELECT COUNT(*) FROM visits WHERE ward IN (A)", "A", "use single quotes: 'A'"),
    ("SELECT MEDIAN(day) FROM visits", "MEDIAN(day)", "`YEAR(x)`, `MONTH(x)`, or `DAY(x)`"),
    (
        "SELECT MEDIAN(smoker) FROM visits",
        "MEDIAN(smoker)",
        "divide by `COUNT(x)` for their fraction",
    ),
    ("SELECT SUM(ward) FROM visits", "SUM(ward)", "GROUP BY x"),
    ("SELECT COUNT(*), SUM(age), COUNT(*) FROM visits", "COUNT(*)", "Two columns are called"),
]


@pytest.mark.parametrize(
    ("text", "piece", "advice"), ADVICE, ids=[text[:60] for text, *_ in ADVICE]
)
def test_a_refusal_suggests_an_alternative(text: str, piece: str | None, advice: str) -> None:
    """The message contains the alternative, and carets mark the text that must change."""
    with pytest.raises(Refusal) as caught:
        read_sql(text, NAMES)
    found = caught.value
    assert isinstance(found, UnsupportedQuery | UnknownName)
    line, carets = found.excerpt.split("\n")
    place = re.search(r"\^+", carets)

    assert advice in found.message
    assert "<class" not in found.message
    assert place is not None
    assert piece in (None, line[place.start() : place.end()])


def test_the_second_column_with_a_name_is_underlined() -> None:
    """If two columns have the same name, only the second one is underlined."""
    with pytest.raises(UnsupportedQuery) as caught:
        read_sql("SELECT COUNT(*), SUM(age), COUNT(*) FROM visits", NAMES)

    assert len("line 1: SELECT COUNT(*), SUM(age), ") == caught.value.excerpt.split("\n")[1].index(
        "^"
    )


def test_an_unknown_name_is_not_always_taken_for_a_string() -> None:
    """Left of a comparison or inside a function, an unknown name is not taken for a string."""
    with pytest.raises(UnknownName) as caught:
        read_sql("SELECT COUNT(*) FROM visits WHERE agee = 3", NAMES)

    assert "single quotes" not in caught.value.message


def test_strings_in_column_names_keep_their_case() -> None:
    """Default column names differ if strings in their expressions differ only in case."""
    text = (
        "SELECT COUNT(*) FILTER (WHERE ward = 'A'), COUNT(*) FILTER (WHERE ward = 'a') FROM visits"
    )
    names = [output.name for output in read_sql(text, NAMES).outputs]

    assert [f"count(*) filter (where ward = '{ward}')" for ward in "Aa"] == names


def test_order_by_accepts_default_column_names() -> None:
    """ORDER BY a default name that contains a string refers to the column with that string."""
    name = "count(*) filter (where ward = 'a')"
    text = (
        "SELECT day, COUNT(*) FILTER (WHERE ward = 'A'), COUNT(*) FILTER (WHERE ward = 'a') "
        f'FROM visits GROUP BY day HAVING "{name}" > 1 ORDER BY "{name.upper()[:-4]}\'a\')"'
    )
    query = read_sql(text, NAMES)

    assert query.outputs[2].expression == query.order[0].expression
    assert query.having is not None
    assert query.outputs[2].expression in getattr(query.having, "arguments", ())


@pytest.mark.parametrize("kind", ["FLOAT", "REAL", "FLOAT8"])
def test_all_floating_point_types_are_doubles(kind: str) -> None:
    """A cast to any floating-point type gives the same query as a cast to DOUBLE."""
    wanted = read_sql("SELECT SUM(CAST(age AS DOUBLE)) AS x FROM visits", NAMES)

    assert wanted == read_sql(f"SELECT SUM(CAST(age AS {kind})) AS x FROM visits", NAMES)
