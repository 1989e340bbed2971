"""Integers beyond 2^53, reserved names, and constant NULLs reveal nothing about rows."""

from typing import Final

import pandas as pd
import pyarrow as pa
import pytest

import confide as cf
from confide.declare import Column as Declared
from confide.declare import Row
from confide.engines.sql.builders import UNIT
from confide.errors import BadArgument, UnsupportedQuery
from confide.query.scope import RESERVED_NAMES
from support.overflows import REORDERED, ROUNDED, make_visits

LARGE: Final = 2**62


def open_curator(
    *, unit: str | Row = "pid", units: int = 10, epsilon: float = 1, delta: float = 0
) -> cf.Curator:
    """Return a curator of people with two rows each, and of public numbers beyond 2^53."""
    frame = pd.DataFrame(
        {"pid": [*range(units)] * 2, "k": [0, 1] * units, "code": ["7"] * 2 * units}
    )
    columns: dict[str, Declared] = {"k": cf.Int(0, 10), "big": cf.Int(0, 2**53), "code": cf.Text()}
    visits = cf.Table(
        "v",
        frame.assign(big=2**53 - 1),
        unit=unit,
        columns=columns,
        max_rows_per_unit=1 if unit is cf.ROW else 2,
    )
    numbers = cf.PublicTable("p", pd.DataFrame({"id": [LARGE + place for place in range(2_000)]}))
    return cf.Curator([visits, numbers], budget=cf.Budget(epsilon, delta))


@pytest.mark.parametrize(
    "key",
    [
        "k + 9223372036854775807",
        f"k + {LARGE}",
        "k * 9007199254740993",
        "-big - 1",
        "ABS(big + k)",
        "COALESCE(big + 1, 0)",
    ],
)
def test_inexact_doubles_are_refused_as_keys(key: str) -> None:
    """A computed key beyond 2^53 is refused for free, whether or not a row reaches it."""
    for units in (1, 10):
        curator = open_curator(units=units, delta=1e-6)
        with pytest.raises(UnsupportedQuery, match="are not exact"):
            curator.sql(f"SELECT {key} AS g, COUNT(*) AS n FROM v GROUP BY g", epsilon=0.1)
        assert 0 == curator.budget.spent.share


@pytest.mark.parametrize(
    "key",
    [
        "big",
        "COALESCE(CAST(code AS BIGINT), big)",
        "(big + 2) % 7",
        "CAST(code AS BIGINT)",
        "FLOOR(big / 2)",
    ],
)
def test_integers_of_64_bits_are_keys(key: str) -> None:
    """Columns, remainders, and casts of any size are exact, and group rows."""
    curator = open_curator(units=300, epsilon=20, delta=1e-6)
    answer = curator.sql(f"SELECT {key} AS g, COUNT(*) AS n FROM v GROUP BY g", share="1/2")

    assert any(row["n"] > 500 for row in answer.rows)


@pytest.mark.parametrize(
    ("unit", "source"),
    [
        (cf.ROW, f"v JOIN p ON v.k + {LARGE} = p.id"),
        ("pid", f"v JOIN p ON v.k + {LARGE} = p.id"),
        (
            "pid",
            f"(SELECT pid, SUM(k) AS t FROM v GROUP BY pid) AS u JOIN p ON u.t + {LARGE} = p.id",
        ),
        (
            "pid",
            f"(SELECT pid, SUM(k) + {LARGE} AS t FROM v GROUP BY pid) AS u JOIN p ON u.t = p.id",
        ),
    ],
)
def test_joins_on_inexact_doubles_are_refused(unit: str | Row, source: str) -> None:
    """A join on a computed number beyond 2^53 is refused, since 513 integers equal one double."""
    curator = open_curator(unit=unit)
    with pytest.raises(UnsupportedQuery, match="are not exact"):
        curator.sql(f"SELECT COUNT(*) AS n FROM {source}", epsilon=0.1)
    assert 0 == curator.budget.spent.share


@pytest.mark.parametrize(
    "key",
    [
        f"CASE WHEN k = 7 THEN {2**63 - 1} ELSE LEAST(k * 1000000000000000 * (120 - k), 5) END",
        f"COALESCE(CASE WHEN k = 7 THEN {2**63 - 1} END, GREATEST(k * 1000000000000000000, 5))",
        f"LEAST(k * 1000000000000000000, 5) + CASE WHEN k = 7 THEN {2**63 - 9} ELSE 0 END",
        "CASE WHEN k = 7 THEN 99999999999999999999 ELSE 0 END",
        "LEAST(99999999999999999999, k)",
    ],
)
def test_no_row_decides_whether_a_query_fails(key: str) -> None:
    """A CASE of integers beyond 2^53 has the same outcome with or without a row that takes it."""
    text = f"SELECT {key} AS g, COUNT(*) AS n FROM v GROUP BY g"
    outcomes = set()
    for rows in ([1, 2, 3], [1, 2, 3, 7]):
        frame = pd.DataFrame({"pid": range(len(rows)), "k": rows, "t": "x"})
        columns: dict[str, Declared] = {"k": cf.Int(0, 120), "t": cf.Text()}
        visits = cf.Table("v", frame, unit="pid", columns=columns, max_rows_per_unit=2)
        curator = cf.Curator([visits], budget=cf.Budget(1, 1e-6))
        try:
            curator.sql(text, epsilon=0.1)
            outcomes.add("answered")
        except UnsupportedQuery as refusal:
            outcomes.add(str(refusal))

    assert 1 == len(outcomes)


@pytest.mark.parametrize(
    "partner",
    [
        f"CASE WHEN v.k = 7 THEN LEAST(v.k * {10**17}, 5) ELSE {LARGE} END",
        f"GREATEST({LARGE}, LEAST(v.k * {10**17}, 5))",
        f"COALESCE(CASE WHEN v.k < 20 THEN {LARGE} END, LEAST(v.k * {10**17}, 5))",
    ],
)
def test_a_row_matches_one_integer_of_64_bits(partner: str) -> None:
    """Selected, not computed, integers beyond 2^53 are joined as 64 bits."""
    curator = open_curator(unit=cf.ROW, epsilon=1e9)
    (row,) = curator.sql(
        f"SELECT COUNT(*) AS n FROM v JOIN p ON {partner} = p.id", epsilon=1e8
    ).rows

    assert 20 == row["n"]


def test_python_s_per_unit_columns_differ_in_more_than_case() -> None:
    """The Python front end also refuses two names that engines treat as equal."""
    visits = open_curator().table("v")
    with pytest.raises(UnsupportedQuery, match="Two columns"):
        visits.per_unit(A=cf.sum("k"), a=cf.count()).agg(n=cf.sum("a")).ask(epsilon=0.1)


def test_an_empty_public_column_of_days_can_be_asked_about() -> None:
    """If a public table has no dates, their years are keys without rows."""
    days = pa.table({"k": pa.array([], pa.int64()), "d": pa.array([], pa.date32())})
    table = cf.Table("v", pd.DataFrame({"k": [1]}), unit=cf.ROW, columns={"k": cf.Int(0, 9)})
    curator = cf.Curator([table, cf.PublicTable("z", days)], budget=cf.Budget(1e9))
    text = "SELECT YEAR(z.d) AS y, COUNT(*) AS n FROM v LEFT JOIN z USING (k) GROUP BY y"

    assert [(1, 0), (None, 1)] == [
        (row["y"], row["n"]) for row in curator.sql(text, epsilon=1e8).rows
    ]


def test_keys_of_a_unit_s_large_sums_are_refused() -> None:
    """A number beyond 2^53 from a per-unit subquery is refused as a key outside, too."""
    inner = "SELECT pid, SUM(big) AS t FROM v GROUP BY pid"
    with pytest.raises(UnsupportedQuery, match="are not exact"):
        open_curator().sql(f"SELECT t, COUNT(*) AS n FROM ({inner}) GROUP BY t", epsilon=0.1)


@pytest.mark.parametrize("name", [UNIT, UNIT.upper(), "The Unit", "unit"])
def test_no_column_of_a_per_unit_question_has_the_identifier_s_name(name: str) -> None:
    """A name that statements use for the identifier is refused in any case."""
    curator = open_curator()
    text = f'SELECT SUM("{name}") AS s FROM (SELECT pid, COUNT(*) AS "{name}" FROM v GROUP BY pid)'

    assert UNIT in RESERVED_NAMES
    with pytest.raises(UnsupportedQuery, match="is reserved for the unit"):
        curator.sql(text, epsilon=0.1)
    assert 0 == curator.budget.spent.share


def test_columns_of_a_per_unit_query_differ_in_more_than_case() -> None:
    """A query has only one of x and X, since engines treat them as the same column."""
    inner = "SELECT pid, COUNT(*) AS x, SUM(k) AS X FROM v GROUP BY pid"
    with pytest.raises(UnsupportedQuery, match="Two columns"):
        open_curator().sql(f"SELECT SUM(X) AS s FROM ({inner})", epsilon=0.1)


@pytest.mark.parametrize("high", [2**52, 2**52 + 1, 2**53])
def test_sums_of_a_unit_s_wide_numbers_are_not_halved(high: int) -> None:
    """Sums of a unit's rows up to 2^53 are exact, including odd numbers."""
    frame = pd.DataFrame({"pid": [1, 2, 3], "k": [11, 20, 31]})
    table = cf.Table("v", frame, unit="pid", columns={"k": cf.Int(0, high)}, unique=True)
    curator = cf.Curator([table], budget=cf.Budget(1e40))
    inner = "SELECT pid, SUM(k) AS t FROM v GROUP BY pid"
    shown = "SUM(LEAST(GREATEST(t, 0), 1000)) AS s, COUNT(*) FILTER (WHERE t = 11) AS n"
    text = f"SELECT {shown} FROM ({inner})"
    (row,) = curator.sql(text, epsilon=1e30).rows

    assert {"s": 62, "n": 1} == row


def test_expressions_without_a_value_are_null() -> None:
    """A string compared with NULL, and an integer beyond 64 bits, are NULL rather than an error."""
    text = "SELECT COUNT(*) AS n, 'A' >= NULL AS o, CEIL(1e300) AS p FROM v"
    answer = open_curator().sql(text, epsilon=0.1)

    assert [None, None] == [answer.rows[0]["o"], answer.rows[0]["p"]]
    assert 3 == answer.to_arrow().num_columns


@pytest.mark.parametrize("weights", [["1e400", 1], [1e308, 1e308], ["1e-4000", "1e4000"]])
def test_weights_that_no_double_holds_are_refused(weights: list[float | str]) -> None:
    """Weights too large or small to compute with are refused by name before any charge."""
    curator = open_curator()
    texts = ["SELECT COUNT(*) AS n FROM v", "SELECT SUM(k) AS s FROM v"]
    with pytest.raises(BadArgument, match="`weights` must be from"):
        curator.release(texts, epsilon=0.1, weights=weights)
    assert 0 == curator.budget.spent.share


@pytest.mark.parametrize("question", [*REORDERED, *ROUNDED])
def test_integer_arithmetic_never_overflows(question: str) -> None:
    """Integer arithmetic never overflows, in any order of evaluation and with any rounding."""
    for high in (4, 9):
        curator = cf.Curator([make_visits(high)], budget=cf.Budget(1))
        try:
            answer = curator.sql(f"SELECT {question}", epsilon=0.1)
        except UnsupportedQuery as refusal:
            assert "too deep" in str(refusal)  # noqa: PT017  # and so for every row
        else:
            assert 1 == len(answer.rows)
