"""A dialect knows the types of nodes, translates each once, and adds the views it needs."""

import pytest
from sqlglot import expressions as sql

from confide.declare import Kind
from confide.engines.postgres.dialect import HEAVY, POSTGRESQL, add_fences
from confide.engines.sql.builders import (
    Sql,
    call,
    case,
    cast,
    column,
    finite,
    is_known,
    label,
    literal,
    nested,
    number,
    select,
    table,
    try_cast,
    typed,
)
from confide.engines.sql.dialect import Dialect, type_of

T = sql.DType
PLAIN = Dialect("duckdb")
WHOLE, REAL = typed(column("n"), Kind.INT), typed(column("x"), Kind.FLOAT)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (WHOLE.copy() + REAL.copy(), T.DOUBLE),
        (WHOLE.copy() * number(2), T.BIGINT),
        (sql.Div(this=WHOLE.copy(), expression=number(2)), T.DOUBLE),
        (case(sql.true(), WHOLE.copy(), number(1.5)), T.DOUBLE),
        (case(sql.true(), literal("a")), T.VARCHAR),
        (call("COALESCE", sql.Null(), WHOLE.copy()), T.BIGINT),
        (call("LEAST", column("unknown"), WHOLE.copy()), None),
        (try_cast(column("unknown"), "DATE"), T.DATE),
        (sql.EQ(this=WHOLE.copy(), expression=REAL.copy()), T.BOOLEAN),
        (finite(REAL.copy() * REAL.copy()), T.DOUBLE),
        (call("YEAR", column("d")), T.BIGINT),
    ],
)
def test_types_follow_from_parts(node: Sql, expected: sql.DType | None) -> None:
    """Numbers widen to doubles; a node with a part of unknown type has an unknown type."""
    assert expected is type_of(PLAIN.translate(node.copy()))


def test_rules_get_translated_parts_once() -> None:
    """A rule gets translated parts, and its result is not translated again."""
    seen: list[str] = []

    def mark(node: sql.Anonymous) -> Sql:
        seen.append(node.sql())
        return call("F", call("G", *node.expressions))

    spelling = Dialect("duckdb", calls={"F": mark})
    text = spelling.write(select([call("F", call("F", column("x")))], table("t")))

    assert ['F("x")', 'F(F(G("x")))'] == seen
    assert 'SELECT F(G(F(G("x")))) FROM "t"' == text


def test_finite_checks_are_written_once() -> None:
    """The pattern of `finite` becomes one call, at any depth."""
    value: Sql = REAL.copy()
    for _ in range(12):
        value = finite(sql.Paren(this=sql.Div(this=value, expression=REAL.copy())))
    text = POSTGRESQL.write(select([value], table("t")))

    assert 12 <= text.count(" / ") < 12 * 20


def test_views_are_added_to_the_with_clause() -> None:
    """Views that a statement reads precede it, each after those that it reads itself."""
    views = {
        "raw t": select([column("x")], sql.table_("t", db="s", quoted=True)),
        "t": select([column("x")], table("raw t")),
        "u": select([column("y")], table("raw u")),
    }
    asked = select([column("x")], table("t")).with_("w", select([column("x")], table("t")))
    text = Dialect("postgres").write(asked, views)

    assert text.index('"raw t" AS') < text.index('"t" AS') < text.index("w AS")
    assert '"u"' not in text
    assert 'FROM "s"."t"' in text


def test_heavy_expressions_are_fenced_off() -> None:
    """An expression that an outer layer uses twice is computed once."""
    heavy = cast(REAL.copy() + number(1.0) + number(2.0) + number(3.0) + number(4.0), "BIGINT")
    inner = select([label(heavy, "h"), label(column("n"), "n")], table("t"))
    twice = select([label(column("h") + column("h"), "s")], nested(inner.copy(), "i"))
    once = select([label(column("h") + column("n"), "s")], nested(inner.copy(), "i"))
    add_fences(twice)
    add_fences(once)

    assert "OFFSET '0'" in twice.sql("postgres")
    assert "OFFSET" not in once.sql("postgres")


def test_long_lists_of_a_view_are_looked_up_once() -> None:
    """A view's column that is used twice is fenced off if it is compared with many values."""

    def ask(values: int) -> str:
        listed = [sql.Literal.string(str(value)) for value in range(values)]
        known = sql.In(this=column("k"), expressions=listed)
        view = select([label(case(known, column("k")), "k")], table("raw t"))
        inner = select([label(column("k"), "k0")], table("t"))
        twice = select([column("k0")], nested(inner, "i")).where(is_known(column("k0")))
        add_fences(twice, {"t": view})
        return str(twice.sql("postgres"))

    assert "OFFSET '0'" in ask(HEAVY)
    assert "OFFSET" not in ask(HEAVY - 1)
