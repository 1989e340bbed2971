"""Any input to the parser yields a tree or a refusal."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from confide.errors import Refusal
from confide.query import Query, canonical
from confide.query.sql import read_sql
from support.questions import NAMES

SEEDS = [
    "SELECT ward , COUNT ( * ) AS n FROM visits WHERE age BETWEEN 3 AND 10 AND ward LIKE 'C%' "
    "GROUP BY ward HAVING n > 5 ORDER BY n DESC LIMIT 3",
    "WITH p AS ( SELECT patient_id , SUM ( cost ) AS t FROM visits v GROUP BY 1 ) "
    "SELECT AVG ( t ) AS a , COUNT ( DISTINCT patient_id ) AS b FROM p WHERE t > 5",
    "SELECT i . chapter , SUM ( weight ) FROM visits LEFT JOIN icd i ON diagnosis = code "
    "GROUP BY 1 ORDER BY 2 DESC",
    "SELECT CASE WHEN age < 18 THEN 'child' ELSE 'adult' END AS g , QUANTILE_CONT ( cost , 0.9 ) "
    "FILTER ( WHERE smoker ) FROM visits GROUP BY g",
    "SELECT SUM ( cost ) / NULLIF ( COUNT ( * ) , 0 ) , PERCENTILE_CONT ( 0.9 ) WITHIN GROUP "
    "( ORDER BY cost DESC ) FROM visits v JOIN labs l USING ( patient_id ) WHERE NOT smoker",
]
MORE = r"""
OVER UNION ALL ANY EXISTS INTERVAL DATE VALUES LATERAL UNNEST PIVOT SET CALL SHOW CAST TRY_CAST
STRUCT MAP ARRAY ROLLUP CUBE IS NULL TRUE RECURSIVE TABLESAMPLE QUALIFY WINDOW PARTITION 1e999 0x1F
1_0 . .. % :: -> [ ] { $ ; -- /* */ ' " ? : @ # ~ ! ^ & | || \
"""
WORDS = sorted(set(" ".join([*SEEDS, MORE]).split()))


def read(text: str) -> Query | None:
    """Return the tree of a query, or None if it is refused; other exceptions propagate."""
    try:
        return read_sql(text, NAMES)
    except Refusal:
        return None


@st.composite
def mutations(draw: st.DrawFn) -> str:
    """Draw a valid query with a few words changed, moved, dropped, or repeated."""
    words = draw(st.sampled_from(SEEDS)).split()
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(words)))
        match draw(st.sampled_from(["insert", "replace", "drop", "copy"])):
            case "insert":
                words.insert(place, draw(st.sampled_from(WORDS)))
            case "replace":
                words[place : place + 1] = [draw(st.sampled_from(WORDS))]
            case "drop":
                del words[place : place + draw(st.integers(1, 3))]
            case _:
                start = draw(st.integers(0, len(words)))
                words[place:place] = words[start : start + 6]
    return " ".join(words)


@given(text=st.text(max_size=200))
@example(text="SELECT\x00")
@example(text="\ud800")
@example(text="SELECT '")
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text makes the parser fail with any other exception."""
    read(text)
    read(f"SELECT {text} FROM visits")
    read(f"SELECT COUNT(*) FROM visits WHERE {text}")


@given(text=mutations())
def test_damaged_queries_are_read_or_refused(text: str) -> None:
    """A damaged query is refused, or its text parses to the same tree."""
    query = read(text)
    if query is not None:
        assert query == read(canonical(query))


@given(words=st.lists(st.sampled_from(WORDS), max_size=60))
def test_word_salad_is_read_or_refused(words: list[str]) -> None:
    """SQL words in random order are parsed or refused."""
    read("SELECT " + " ".join(words))


@pytest.mark.parametrize("word", WORDS)
def test_repeated_words_are_read_or_refused(word: str) -> None:
    """A word repeated thousands of times exhausts neither the stack nor memory."""
    read("SELECT " + f"{word} " * 2000)
    read("SELECT COUNT(*) FROM " + f"{word} " * 2000)
    read("SELECT COUNT(*) FROM visits WHERE " + f"{word} " * 2000)
    read("SELECT COUNT(*) FROM visits WHERE " + f"age {word} " * 1000)
