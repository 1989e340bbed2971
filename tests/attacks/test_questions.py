"""Attacks by queries: failures, keys, shapes, amplification, and statements.

Every query runs on two curators that differ in one person with awkward values. Both must answer in
the same shape, or refuse with the same message. A plain engine shows the leak.
"""

from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from confide.audit import Claim, weigh
from confide.curator import Curator
from confide.declare import Budget, Category, Column, Date, Float, Int, PublicTable, Text
from confide.errors import Refusal
from confide.expressions.tree import Key
from support.laws import ALPHA
from support.neighbours import open_one, outcome, totals_of

COLUMNS: Final[dict[str, Column]] = {
    "x": Int(-100, 100),
    "f": Float(-1e6, 1e6),
    "t": Text(),
    "ward": Category(["A", "B"]),
    "day": Date("2000-01-01", "2030-12-31"),
}
USUAL: Final = {"x": 3, "f": 2.0, "t": "12", "ward": "A", "day": "2020-05-05"}
TARGET: Final = {"x": 0, "f": -1e300, "t": "a'%\\_(", "ward": "Z", "day": "not a day"}
PUBLIC: Final = PublicTable("q", pa.table({"k": [1, 2, 3], "name": ["a", "b", "c"]}))


@pytest.fixture(scope="module")
def sides() -> tuple[Curator, Curator]:
    """Return curators of fifty usual people, and of the same with one awkward person."""
    usual = [{"who": person, **USUAL} for person in range(50)]
    opened = [
        open_one(rows, COLUMNS, public=(PUBLIC,), max_rows_per_unit=2)
        for rows in (usual, [*usual, {"who": 50, **TARGET}])
    ]
    return opened[0], opened[1]


RISKY: Final = (
    "1 / x",
    "100 % x",
    "1 / (x - x)",
    "x / CAST(t AS INTEGER)",
    "CAST(t AS INTEGER)",
    "CAST(t AS DOUBLE)",
    "CAST(t AS BIGINT) * 1000000007",
    "YEAR(CAST(t AS DATE))",
    "LN(x)",
    "LN(f)",
    "SQRT(f)",
    "SQRT(-x)",
    "EXP(f)",
    "EXP(EXP(x))",
    "f * f * f * f * f",
    "x * x * x * x * x * x * x * x * x * x * x",
    "ABS(f) * 1e300",
    "CAST(f AS INTEGER)",
    "FLOOR(f * 1e300)",
    "ROUND(f, 15)",
    "LENGTH(SUBSTR(t, -5))",
    "CASE WHEN t LIKE '%\\' THEN 1 ELSE 0 END",
    "CASE WHEN t LIKE '_%_%_%_%_%a%a%a%_b' THEN 1 ELSE 0 END",
    "COALESCE(NULL, 1 / x, LN(x))",
    "MONTH(day)",
    "YEAR(DATE_TRUNC('month', day))",
    "MONTH(CAST(t AS DATE))",
)


def bounded(expression: str) -> str:
    return f"LEAST(GREATEST({expression}, 0), 9)"


@pytest.mark.parametrize("expression", RISKY)
def test_no_value_of_one_person_makes_a_question_fail(
    expression: str, sides: tuple[Curator, Curator]
) -> None:
    """In SELECT, WHERE, GROUP BY, and JOIN, both sides answer alike or refuse alike."""
    inside = bounded(expression)
    for text in (
        f"SELECT SUM({inside}) AS s FROM p",
        f"SELECT AVG({inside}) AS m FROM p",
        f"SELECT MEDIAN({inside}) AS m FROM p",
        f"SELECT COUNT(*) AS n FROM p WHERE {expression} > 1",
        f"SELECT COUNT(*) FILTER (WHERE {expression} > 1) AS n FROM p",
        f"SELECT {inside} AS k, COUNT(*) AS n FROM p GROUP BY 1",
        f"SELECT COUNT(*) AS n FROM p JOIN q ON CAST({inside} AS INT) = q.k",
        f"SELECT AVG(a) AS m FROM (SELECT who, SUM({inside}) AS a FROM p GROUP BY who)",
    ):
        assert outcome(sides[0], text) == outcome(sides[1], text)


def test_a_plain_engine_fails_on_the_target_alone() -> None:
    """A plain engine is vulnerable: the same expressions reveal who is in the data."""
    telling = 0
    for expression in RISKY:
        seen = []
        for rows in ([USUAL], [USUAL, TARGET]):
            with duckdb.connect() as plain:
                plain.register("p", pa.Table.from_pylist(rows))
                try:
                    told = str(plain.execute(f"SELECT SUM({expression}) FROM p").fetchall())
                except duckdb.Error as error:
                    told = type(error).__name__
                seen.append(
                    "failed" if "Error" in told or "nan" in told or "inf" in told else "answered"
                )
        telling += seen[0] != seen[1]

    assert telling >= 5


SHAPES: Final = (
    "SELECT * FROM p",
    "SELECT x FROM p",
    "SELECT who FROM p",
    "SELECT who, COUNT(*) AS n FROM p GROUP BY who",
    "SELECT MIN(x) AS m FROM p",
    "SELECT MAX(x) AS m FROM p",
    "SELECT ANY_VALUE(t) AS a FROM p",
    "SELECT STRING_AGG(t) AS a FROM p",
    "SELECT LIST(x) AS a FROM p",
    "SELECT COUNT(DISTINCT x) AS n FROM p",
    "SELECT COUNT(*) AS n FROM p WHERE x > (SELECT AVG(x) FROM p)",
    "SELECT COUNT(*) AS n FROM p WHERE EXISTS (SELECT 1 FROM p WHERE t = 'secret')",
    "SELECT COUNT(*) AS n FROM p WHERE x IN (SELECT x FROM p)",
    "SELECT COUNT(*) AS n FROM (SELECT x FROM p LIMIT 1)",
    "SELECT COUNT(*) OVER () AS n FROM p",
    "SELECT COUNT(*) AS n FROM p TABLESAMPLE 10 PERCENT",
    "SELECT COUNT(*) AS n FROM p UNION SELECT COUNT(*) FROM p",
    "SELECT COUNT(*) AS n FROM p, (VALUES (1), (2), (3)) AS v(a)",
    "SELECT COUNT(*) AS n FROM p AS a CROSS JOIN p AS b",
    "SELECT COUNT(*) AS n FROM p AS a JOIN p AS b ON a.x = b.x",
    "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r) SELECT COUNT(*) AS n FROM r",
    "SELECT ward, COUNT(*) AS n FROM p GROUP BY ROLLUP (ward)",
    "SELECT SUM(RANDOM()) AS s FROM p",
    "SELECT SUM(SUM(x)) AS s FROM p",
    "SELECT COUNT(*) AS n FROM p INTERSECT SELECT 50",
    "SELECT COUNT(*) AS n FROM p QUALIFY ROW_NUMBER() OVER () = 1",
    "SELECT COUNT(*) AS n FROM p, LATERAL (SELECT 1) AS v",
    "SELECT COUNT(*) AS n FROM p ASOF JOIN q ON p.x >= q.k",
    "SELECT COUNT(*) AS n FROM p POSITIONAL JOIN q",
    "SELECT COUNT(*) AS n FROM p ANTI JOIN q ON p.x = q.k",
    "SELECT COUNT(*) AS n FROM p FULL JOIN q ON p.x = q.k",
    "SELECT COUNT(*) AS n FROM q LEFT JOIN p ON p.x = q.k",
    "SELECT COUNT(*) AS n FROM p NATURAL JOIN p AS other",
    "SELECT ward, COUNT(*) AS n FROM p GROUP BY CUBE (ward)",
    "SELECT ward, COUNT(*) AS n FROM p GROUP BY GROUPING SETS ((ward), ())",
    "SELECT ward, COUNT(*) AS n FROM p GROUP BY ALL",
    "SELECT ward, COUNT(*) AS n FROM p GROUP BY ward HAVING MAX(x) > 3",
    "SELECT ward, COUNT(*) AS n FROM p GROUP BY ward ORDER BY MIN(x)",
    "SELECT COUNT(*) AS n FROM p LIMIT (SELECT COUNT(*) FROM p)",
    "SELECT ARG_MAX(t, x) AS a FROM p",
    "SELECT MODE(t) AS a FROM p",
    "SELECT SUM(x) AS s FROM (SELECT who, x * 1000 AS x FROM p)",
    "WITH p AS (SELECT who, x * 1000 AS x FROM p) SELECT SUM(x) AS s FROM p",
    "SELECT COUNT(*) AS n FROM p; SELECT COUNT(*) AS n FROM p",
    "SELECT COUNT(*) AS n FROM p; DROP TABLE p",
    "SELECT COUNT(*) AS n FROM information_schema.tables",
    "SELECT COUNT(*) AS n FROM duckdb_settings()",
    "SELECT COUNT(*) AS n FROM read_csv('/etc/passwd')",
    "SELECT COUNT(*) AS n FROM '/etc/passwd'",
    "SELECT COUNT(*) AS n FROM pg_catalog.pg_tables",
    "SELECT COUNT(*) AS n FROM p WHERE GETENV('HOME') = t",
    "PREPARE a AS SELECT COUNT(*) AS n FROM p",
    "SELECT COUNT(*) AS n FROM p /* ; */; SELECT 1",
    "SELECT COUNT(*) AS n FROM p WHERE t = 'a'; DROP TABLE p; --'",
    "SELECT SUM(LENGTH(current_setting('threads'))) AS s FROM p",
    "SET threads = 1",
    "EXPLAIN SELECT COUNT(*) AS n FROM p",
    "COPY p TO 'out.csv'",
    "ATTACH 'x.db'",
    "PRAGMA database_list",
    "SELECT SLEEP(5)",
    "SELECT SUM(x) FROM p WHERE pg_sleep(5) IS NULL",
    "SELECT COUNT(*) AS n FROM p WHERE " + "(" * 200 + "x" + ")" * 200 + " > 0",
    "SELECT COUNT(*) AS n FROM p WHERE x > 0 " + "OR x > 0 " * 20_000,
    "SELECT COUNT(*) AS n FROM p WHERE t = '" + "a" * 200_000 + "'",
)


@pytest.mark.parametrize("text", SHAPES, ids=lambda text: text[:60])
def test_questions_that_could_show_a_row_are_refused(
    text: str, sides: tuple[Curator, Curator]
) -> None:
    """The query is refused on both sides with the same message, and nothing is spent."""
    before = [side.budget.spent.share for side in sides]
    told = [outcome(side, text) for side in sides]

    assert told[0] == told[1]
    assert "answered" != told[0][0]
    assert before == [side.budget.spent.share for side in sides]
    assert not any(secret in "".join(told[1]) for secret in ("a'%", "1e+300", "not a day"))


def test_comments_and_quotes_cannot_inject_statements(sides: tuple[Curator, Curator]) -> None:
    """A statement inside a comment, a string, or a name is not executed."""
    for text in (
        "SELECT COUNT(*) AS n FROM p -- ; DROP TABLE p",
        "SELECT COUNT(*) /* ; DROP TABLE p; */ AS n FROM p",
        "SELECT COUNT(*) AS n FROM p WHERE t <> 'x''; DROP TABLE p; --'",
        'SELECT COUNT(*) AS "n""; DROP TABLE p; --" FROM p',
    ):
        told = [outcome(side, text) for side in sides]

        assert told[0] == told[1]
        assert "answered" == told[0][0]
    assert [(50,), (51,)] == [totals_of(side, "SELECT COUNT(*) AS n FROM p")[()] for side in sides]


@pytest.mark.statistical
def test_having_and_order_use_noisy_values_only() -> None:
    """The groups that HAVING keeps, and their order, depend on noisy counts only.

    An engine keeps the group only if the target is in it. Ours keeps it by a noisy count, within
    epsilon; the auditor rejects that with probability at most 1e-9.
    """
    text = "SELECT ward, COUNT(*) AS n FROM p GROUP BY ward HAVING COUNT(*) > 10 ORDER BY n DESC"
    usual = [{"who": person, **USUAL} for person in range(10)]
    told = []
    for rows in (usual, [*usual, {"who": 10, **USUAL}]):
        with duckdb.connect() as plain:
            plain.register("p", pa.Table.from_pylist(rows))
            exact = plain.execute(text).fetchall()
        assert (len(rows) > 10) == bool(exact)
        curator = open_one(rows, COLUMNS)
        answers = [curator.sql(text, epsilon=1, fresh=True).rows for _ in range(64)]
        assert all(row["n"] > 10 for answer in answers for row in answer)
        kept = [[row["ward"] for row in answer] for answer in answers]
        told.append(np.array([["A" in one, "B" in one, one[:1] == ["A"]] for one in kept]))

    assert not weigh(told[0], told[1], Claim.epsilon(1), false_alarms=ALPHA).is_disproof


def test_null_is_selected_like_other_keys() -> None:
    """NULL needs partition selection like other keys, and is declared if the owner lists it."""
    rows: list[dict[str, Any]] = [{"who": person, **USUAL} for person in range(50)]
    rows.append({"who": 50, **USUAL, "t": None, "ward": None})
    curator = open_one(rows, COLUMNS, budget=Budget(10**4, 1e-9))
    earned = curator.sql("SELECT t, COUNT(*) AS n FROM p GROUP BY t", share="1/10")
    listed = curator.sql("SELECT ward, COUNT(*) AS n FROM p GROUP BY ward", share="1/10")

    assert ["12"] == [row["t"] for row in earned.rows]
    assert ["A", "B"] == [row["ward"] for row in listed.rows]


KEYS: Final = (
    "SELECT t, COUNT(*) AS n FROM p GROUP BY t",
    "SELECT t || 'x' AS k, COUNT(*) AS n FROM p GROUP BY 1",
    "SELECT SUBSTR(t, 1, 3) AS k, COUNT(*) AS n FROM p GROUP BY 1",
    "SELECT f, COUNT(*) AS n FROM p GROUP BY f",
    "SELECT t, ward, COUNT(*) AS n FROM p GROUP BY t, ward",
    "SELECT CASE WHEN t = 'a''%\\_(' THEN t END AS k, COUNT(*) AS n FROM p GROUP BY 1",
)


@pytest.mark.parametrize("text", KEYS)
def test_a_key_of_one_person_is_never_named(text: str) -> None:
    """A key of one person is not released, even at an epsilon with nearly exact counts.

    The probability of a release is below 1e-9 per query here, by the delta of the budget.
    """
    usual = [{"who": person, **USUAL} for person in range(50)]
    curator = open_one([*usual, {"who": 50, **TARGET}], COLUMNS, budget=Budget(10**4, 1e-9))
    try:
        answer = curator.sql(text, share="1/10")
    except Refusal:
        assert 0 == curator.budget.spent.share
        return
    keys = [o.name for o in answer.plan.query.outputs if isinstance(o.expression, Key)]
    told = {str(row[key]) for row in answer.rows for key in keys}

    assert not any("a'%" in key or "1000000" in key for key in told)


def test_a_plain_histogram_reveals_every_key() -> None:
    """A plain engine is vulnerable: grouping lists the target's key."""
    with duckdb.connect() as plain:
        plain.register("p", pa.Table.from_pylist([USUAL, TARGET]))
        keys = plain.execute("SELECT t, COUNT(*) FROM p GROUP BY t").fetchall()

    assert "a'%\\_(" in [key for key, _ in keys]


AMPLIFIED: Final = (
    ("SUM(x * 1000)", 100_000),
    ("SUM(x + 10000)", 10_100),
    ("SUM(x * x)", 10_000),
    ("SUM(CASE WHEN x > 0 THEN 5000 ELSE x END)", 5_000),
    ("SUM(x - f)", 1_000_100),
    ("SUM(-x * f)", 10**8),
    ("SUM(LEAST(x, 5) * 1000)", 100_000),
    ("SUM(COALESCE(x, 7000))", 7_000),
)


@pytest.mark.parametrize(("statistic", "most"), AMPLIFIED)
def test_noise_grows_with_what_a_row_can_add(statistic: str, most: float) -> None:
    """However a value is scaled, the half-width at 95% is at least that of Laplace for it."""
    curator = open_one([{"who": 1, **USUAL}], COLUMNS, budget=Budget(1))
    width = curator.preview(f"SELECT {statistic} AS s FROM p", epsilon=1).errors["s"]

    assert width is not None
    assert 2.9 * most <= width


def test_a_redefined_column_has_its_own_bounds() -> None:
    """A subquery that gives a product the name of its column gets noise for the product."""
    curator = open_one([{"who": 1, **USUAL}], COLUMNS, budget=Budget(1))
    text = "SELECT SUM(x) AS s FROM (SELECT who, SUM({}) AS x FROM p GROUP BY who)"
    plain, made = (curator.preview(text.format(x), epsilon=1) for x in ("x", "x * 1000"))

    assert plain.errors["s"] is not None
    assert made.errors["s"] == pytest.approx(1_000 * plain.errors["s"], rel=0.01)


def test_many_rows_and_groups_of_one_person_are_limited() -> None:
    """A person with a thousand rows in all groups changes totals by at most the declared limits."""
    usual = [{"who": person, **USUAL} for person in range(10)]
    heavy = [{"who": 99, **USUAL, "x": 100, "ward": "AB"[row % 2]} for row in range(1_000)]
    text = "SELECT ward, COUNT(*) AS n, SUM(x) AS s FROM p GROUP BY ward"
    limits: dict[str, Any] = {"max_rows_per_unit": 3, "max_groups_per_unit": 1}
    for order in ([*usual, *heavy], [*heavy, *usual]):
        before = totals_of(open_one(usual, COLUMNS, **limits), text)
        after = totals_of(open_one(order, COLUMNS, **limits), text)
        moved = [after[key][0] - before.get(key, (0, 0))[0] for key in after]

        assert 3 == sum(moved)
        assert 1 == sum(count > 0 for count in moved)


def test_the_order_of_groups_and_their_number_are_declared() -> None:
    """All groups come in the declared order, independently of the rows."""
    text = "SELECT ward, COUNT(*) AS n FROM p GROUP BY ward"
    schema = pa.schema({"who": pa.int64(), **dict.fromkeys(COLUMNS, pa.string())})
    blank = dict.fromkeys(COLUMNS)
    for rows in ([], [{"who": person, **blank, "ward": "B"} for person in range(5)]):
        told = open_one(rows, COLUMNS, schema=schema).sql(text, epsilon=1)

        assert ["A", "B"] == [row["ward"] for row in told.rows]
