"""Supported SQL, with the canonical text of each query."""

import pytest

from confide.query import canonical, is_selection
from confide.query.sql import read_sql
from support.questions import NAMES
from support.spellings import CONDITIONS, EXTENSIONS, STATISTICS, WHOLE


@pytest.mark.parametrize(("condition", "expected"), CONDITIONS)
def test_a_condition_has_its_canonical_text(condition: str, expected: str) -> None:
    """Each spelling of a condition in WHERE yields the listed canonical text."""
    query = read_sql(f"SELECT COUNT(*) AS n FROM visits WHERE {condition}", NAMES)

    assert f"SELECT COUNT(*) AS n FROM visits AS t1 WHERE {expected}" == canonical(query)


@pytest.mark.parametrize(("statistic", "expected"), STATISTICS + EXTENSIONS)
def test_a_statistic_has_its_canonical_text(statistic: str, expected: str) -> None:
    """Each spelling of a statistic in SELECT yields the listed canonical text."""
    query = read_sql(f"SELECT {statistic} AS x FROM visits", NAMES)

    assert f"SELECT {expected} AS x FROM visits AS t1" == canonical(query)


@pytest.mark.parametrize(("text", "expected"), WHOLE)
def test_a_query_has_its_canonical_text(text: str, expected: str) -> None:
    """Each complete query yields the listed canonical text."""
    assert expected == canonical(read_sql(text, NAMES))


@pytest.mark.parametrize("text", [text for text, _ in WHOLE], ids=range(len(WHOLE)))
def test_canonical_text_survives_a_round_trip(text: str) -> None:
    """Parsing the canonical text of a query returns its tree."""
    query = read_sql(text, NAMES)

    assert query == read_sql(canonical(query), NAMES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 2", True),
        ("SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(DISTINCT unit) DESC LIMIT 2", True),
        ("SELECT ward, smoker FROM visits GROUP BY 1, 2 ORDER BY COUNT(*) DESC LIMIT 2", True),
        ("SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) LIMIT 2", False),
        ("SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC", False),
        ("SELECT ward FROM visits GROUP BY ward ORDER BY SUM(cost) DESC LIMIT 2", False),
        ("SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) + 1 DESC LIMIT 2", False),
        ("SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC, ward LIMIT 2", False),
        ("SELECT ward, COUNT(*) FROM visits GROUP BY 1 ORDER BY COUNT(*) DESC LIMIT 2", False),
        (
            "SELECT ward FROM visits GROUP BY 1 HAVING COUNT(*) > 1 ORDER BY COUNT(*) DESC LIMIT 2",
            False,
        ),
    ],
)
def test_a_selection_is_recognized(text: str, expected: bool) -> None:
    """Only a query for the first k keys in descending order of one count is a selection."""
    assert expected is is_selection(read_sql(text, NAMES))


def test_a_long_chain_of_conditions_is_read() -> None:
    """A thousand conditions joined by OR become one flat condition."""
    chain = " OR ".join(f"age = {number}" for number in range(1000))
    query = read_sql(f"SELECT COUNT(*) AS n FROM visits WHERE {chain}", NAMES)

    assert query == read_sql(canonical(query), NAMES)
