"""Selections lose their unused columns, and nothing else."""

import duckdb
import pytest
import sqlglot
from sqlglot import expressions as sql

from confide.engines.sql.builders import prune_columns
from confide.engines.sql.sources import inline_views, name_enums

ROWS = "(SELECT 1 AS u, 2 AS a, 3 AS b, NULL AS c UNION ALL SELECT 4, 5, 6, 7)"
VIEW = f'SELECT "u" AS "u", "a" + 1 AS "a", "b" AS "b" FROM {ROWS} AS "r" WHERE "u" > 1'


def parse(text: str) -> sql.Select:
    """Return a selection as a tree."""
    found = sqlglot.parse_one(text, dialect="duckdb")
    assert isinstance(found, sql.Select)
    return found


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        pytest.param(
            'SELECT "u", "p", "q" FROM (SELECT "u", "a" AS "p", "b" AS "q" FROM "t") AS "x"',
            ["u", "p"],
            'SELECT "u", "p" FROM (SELECT "u", "a" AS "p" FROM "t") AS "x"',
            id="below",
        ),
        pytest.param(
            'SELECT *, "p" + 1 AS "r" FROM (SELECT "u", "p", "q", "s" FROM "t") AS "x"',
            ["u", "r"],
            'SELECT *, "p" + 1 AS "r" FROM (SELECT "u", "p" FROM "t") AS "x"',
            id="through-a-star",
        ),
        pytest.param(
            'SELECT "u", "p" FROM (SELECT "u", "p", "q", "s" FROM "t") AS "x" WHERE "q" > 1',
            ["u"],
            'SELECT "u" FROM (SELECT "u", "q" FROM "t") AS "x" WHERE "q" > 1',
            id="in-a-condition",
        ),
        pytest.param(
            'SELECT "u", SUM("p") AS "s", SUM("q") AS "w" '
            'FROM (SELECT "u", "g", "p", "q" FROM "t") AS "x" GROUP BY "u", "g"',
            ["u", "s"],
            'SELECT "u", SUM("p") AS "s" FROM (SELECT "u", "g", "p" FROM "t") AS "x" '
            'GROUP BY "u", "g"',
            id="grouped",
        ),
        pytest.param(
            'SELECT "a" FROM (SELECT "a" FROM "t") AS "x"',
            [],
            'SELECT 1 FROM (SELECT 1 FROM "t") AS "x"',
            id="none",
        ),
    ],
)
def test_unused_columns_are_pruned(text: str, names: list[str], expected: str) -> None:
    """A pruned selection has the used columns at every depth, and all its conditions."""
    assert expected == prune_columns(parse(text), names).sql("duckdb")


@pytest.mark.parametrize(
    "text",
    [
        'SELECT "x"."a", "x"."u" FROM "v" AS "x"',
        'SELECT COUNT(*) FROM "v"',
        'SELECT "x"."a", "y"."b" FROM "v" AS "x" JOIN "v" AS "y" ON "x"."u" = "y"."u"',
        'SELECT SUM("a") FROM (SELECT "A" FROM "v") AS "inner"',
    ],
)
def test_an_inlined_view_gives_the_same_rows(text: str) -> None:
    """A statement over a view and one with the inlined view have the same rows."""
    connection = duckdb.connect()
    connection.execute(f'CREATE VIEW "v" AS {VIEW}')
    written = parse(text)
    inline_views(written, {"v": parse(VIEW)}, {})
    unfolded = written.sql("duckdb")

    assert '"v"' not in unfolded.replace('AS "v"', "")
    assert connection.execute(text).fetchall() == connection.execute(unfolded).fetchall()


def test_unused_columns_of_a_view_are_not_inlined() -> None:
    """Unused columns of a view are not inlined."""
    written = parse('SELECT "a" FROM "v"')
    read = inline_views(written, {"v": parse(VIEW)}, {})

    assert {"a", "u"} == read
    assert f'SELECT "a" FROM (SELECT "a" + 1 AS "a" FROM {ROWS} AS "r" WHERE "u" > 1) AS "v"' == (
        written.sql("duckdb")
    )


def test_named_lists_are_cast_by_name() -> None:
    """A cast to a named list uses the name; unnamed lists and other types stay."""
    text = "SELECT TRY_CAST(a AS ENUM('x', 'y')), TRY_CAST(a AS ENUM('y')), CAST(a AS TEXT) FROM t"
    written = parse(text)
    unfolded, names = parse(text), {("x", "y"): "list 0", (): "list 1"}
    name_enums(written, names)
    inline_views(unfolded, {}, names)

    assert text.replace("ENUM('x', 'y')", '"list 0"') == written.sql("duckdb")
    assert written == unfolded
