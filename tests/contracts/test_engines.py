"""The contract of every engine: DuckDB's integers, DuckDB's values, and faults without data."""

import logging
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from confide.curator import Curator
from confide.declare import (
    Bool,
    Budget,
    Catalog,
    Category,
    Column,
    Date,
    Float,
    Int,
    Kind,
    PublicTable,
    Table,
    Text,
)
from confide.engines import Engine, SqlEngine, open_engine
from confide.engines.sql.builders import UNIT, column, label, select, table
from confide.engines.sql.expressions import Emitter
from confide.errors import BadDeclaration, Fault, UnsupportedQuery
from confide.expressions.functions import Function
from confide.expressions.tree import Call, Expression, walk
from confide.ledger import Hold
from confide.mechanisms import Neighbours
from engines.test_expressions import RANGES, TREES, Drawer, draw_table
from plan import test_joined_sensitivity, test_quantiles
from plan.test_joined_sensitivity import BOTH as JOINED_LIMITS
from plan.test_sensitivity import LIMITS
from support.entropy import SeededEntropy
from support.families import EXPECTED, FAMILIES, MAGNIFIED, NEAR, are_near, families
from support.faults import ENGINE_FAULT
from support.grammar import draw_quantiles, draw_question
from support.noiseless import World, make_world
from support.overflows import REORDERED, ROUNDED, make_visits
from support.people import Limits, change_one, declare_worlds, draw_worlds
from support.places import (
    COLUMNS,
    INEXACT_FUNCTIONS,
    PLACES,
    SALT,
    SHARE,
    SLOW_PLACES,
    Place,
    find_place,
    pair_tables,
    pair_world,
    read_exactly,
)
from support.reach import WORLDS, Pair, passes
from support.shapes import SHAPES, draw_joined
from support.tables import QUESTIONS
from support.tree import ROOT

OTHERS: Final = PLACES[1:]
EXPRESSIONS: Final = 300
AT_ONCE: Final = 20
"""Expressions in one statement, since starting a statement takes longer than one expression."""
ROUNDING: Final = 4e-16


@pytest.fixture(scope="session", params=PLACES)
def place(request: pytest.FixtureRequest) -> Place:
    """Return a place for the rows of each engine, in turn."""
    return find_place(request.param, request)


@pytest.fixture(scope="session", params=OTHERS)
def other(request: pytest.FixtureRequest) -> Place:
    """Return a place for each engine other than DuckDB, in turn."""
    return find_place(request.param, request)


@pytest.fixture
def rng(entropy: SeededEntropy) -> np.random.Generator:
    """Return random choices that depend on the run's seed."""
    return np.random.default_rng(int(entropy.words(1)[0]))


@pytest.mark.parametrize(
    ("maker", "text"), QUESTIONS, ids=[f"{m.__name__}-{i}" for i, (m, _) in enumerate(QUESTIONS)]
)
def test_every_question_gives_the_integers_of_duckdb(
    maker: Callable[[], World], text: str, other: Place, request: pytest.FixtureRequest
) -> None:
    """For one plan and one salt, groups, totals, and rows by cell are the same integers."""
    pair = pair_world(maker, other)
    plan = pair.plan(text)
    expected, actual = read_exactly(pair.here, plan), read_exactly(pair.there, plan)
    if any(f"{name.value.upper()}(" in text for name in inexact_functions(request)):
        assert are_near(expected[0], actual[0])
    else:
        assert expected == actual


@pytest.mark.parametrize("question", REORDERED)
def test_no_row_makes_integers_fail(question: str, other: Place) -> None:
    """A query whose numbers could exceed 64 bits on some rows reads all of them."""
    read_both(question, other)


@pytest.mark.parametrize("question", ROUNDED)
def test_no_row_makes_powers_fail(question: str, request: pytest.FixtureRequest) -> None:
    """Powers of rounded doubles fail on no row; Spark is left out, since it plans for minutes."""
    read_both(question, find_place("postgresql", request))


def read_both(question: str, place: Place) -> None:
    """Check that a query is read with and without the rows that it is about, or refused."""
    for high in (4, 9):
        pair = pair_tables([make_visits(high)], place)
        try:
            plan = pair.plan(f"SELECT {question}")
        except UnsupportedQuery as refusal:
            assert "too deep" in str(refusal)  # noqa: PT017  # and so for every row
        else:
            assert [()] == list(read_exactly(pair.there, plan)[0])


def inexact_functions(request: pytest.FixtureRequest) -> frozenset[Function]:
    """Return the functions whose last bit differs on the engine of a test."""
    return INEXACT_FUNCTIONS.get(request.node.callspec.params["other"], frozenset())


def crowded() -> World:
    """Return people with far more rows and groups than count, whose identifiers are strings."""
    rows = [
        {
            "pid": f"{person}-ü" if person % 9 else None,
            "x": (place * 37 % 101) / 7,
            "n": float(place % 13),
            "k": "abcdé"[(person * place) % 5],
            "d": date(2020, 1 + place % 12, 1 + person % 28),
            "t": None if place % 6 == 0 else f"t{place % 4}",
        }
        for person in range(60)
        for place in range(person)
    ]
    columns: dict[str, Column] = {
        "x": Float(0, 12),
        "n": Int(0, 12),
        "k": Category(list("abcdé")),
        "d": Date("2020-01-01", "2020-12-31"),
        "t": Text(),
    }
    return make_world(
        rows, columns, max_rows_per_unit=7, max_groups_per_unit=2, unit_type=pa.string()
    )


CUT: Final = (
    "SELECT COUNT(*) AS n, SUM(x) AS s, AVG(n) AS m FROM t",
    "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY k",
    "SELECT k, MONTH(d) AS m, SUM(n) AS s, COUNT(DISTINCT pid) AS u FROM t GROUP BY k, m",
    "SELECT t, k, COUNT(*) AS n FROM t GROUP BY t, k",
    "SELECT x > 5 AS big, d, VAR_SAMP(x) AS v FROM t WHERE k <> 'a' GROUP BY big, d",
    "SELECT FLOOR(x) AS f, MEDIAN(n) AS m FROM t GROUP BY f",
    "SELECT k, t, MEDIAN(n) AS m FROM t GROUP BY k, t",
    "SELECT x, COUNT(*) AS n FROM t GROUP BY x",
    "SELECT AVG(s) AS m FROM (SELECT pid, SUM(x) AS s FROM t WHERE n > 3 GROUP BY pid)",
    "SELECT k, AVG(c) AS m FROM t JOIN (SELECT pid, COUNT(*) AS c FROM t GROUP BY pid) AS p "
    "ON t.pid = p.pid GROUP BY k",
)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_answered_as_the_matrix_says(
    family: str, other: Place, request: pytest.FixtureRequest
) -> None:
    """Each family of queries gives DuckDB's integers, except where the matrix says why not."""
    pair = pair_world(families, other)
    plan = pair.plan(FAMILIES[family])
    cell = family, request.node.callspec.params["other"]
    expected, actual = read_exactly(pair.here, plan), read_exactly(pair.there, plan)
    if cell in NEAR:
        assert are_near(expected[0], actual[0])
    else:
        assert (expected == actual) != (cell in EXPECTED)


def test_a_last_bit_differs_only_on_the_listed_engines(
    other: Place, request: pytest.FixtureRequest
) -> None:
    """A query that magnifies a last bit has the same result on all engines but the listed ones."""
    pair = pair_world(families, other)
    plan = pair.plan(MAGNIFIED)
    is_same = read_exactly(pair.here, plan) == read_exactly(pair.there, plan)

    assert is_same == (request.node.callspec.params["other"] not in {place for _, place in NEAR})


def test_the_matrix_has_every_family_and_engine() -> None:
    """The page covers the families and engines that the tests use."""
    page = (ROOT / "docs" / "engine-matrix.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    said = {**EXPECTED, **NEAR}
    expected = [
        [family, "same", *(said.get((family, place), "same") for place in COLUMNS[1:])]
        for family in FAMILIES
    ]

    assert expected == rows[1:]


@pytest.mark.parametrize("text", CUT)
def test_contribution_bounding_keeps_the_same_rows(text: str, other: Place) -> None:
    """With one salt, the same rows of each unit are kept as on DuckDB."""
    pair = pair_world(crowded, other)
    plan = pair.plan(text)

    assert read_exactly(pair.here, plan) == read_exactly(pair.there, plan)


def is_same(expected: Any, actual: Any) -> bool:
    """Return whether two values agree up to the last bit of library functions."""
    if isinstance(expected, float) and isinstance(actual, float | int):
        return math.isclose(expected, actual, rel_tol=ROUNDING)
    return bool(expected == actual)


def test_expressions_have_the_values_of_duckdb(
    other: Place, rng: np.random.Generator, request: pytest.FixtureRequest
) -> None:
    """Random expressions over every odd value fail on no row and give DuckDB's values.

    Inexact functions may not fail either, but their last bits can make any difference.
    """
    pair = pair_tables([without_zero(draw_table(rng))], other)
    drawer, emitter = Drawer(rng), Emitter(RANGES)
    count = EXPRESSIONS // (5 if request.node.callspec.params["other"] in SLOW_PLACES else 1)
    drawn = [drawer.draw(drawer.pick(TREES)) for _ in range(count)]
    inexact = inexact_functions(request)
    some = [one for one in drawn if one.kind is not None]
    for first in range(0, len(some), AT_ONCE):
        chosen = some[first : first + AT_ONCE]
        written = [emitter.emit(one) for one in chosen]

        def columns(engine: SqlEngine, written: Any = written) -> dict[Any, list[Any]]:
            named = [label(one.copy(), f"v{place}") for place, one in enumerate(written)]
            with engine._session():
                statement = engine._write(select([label(column(UNIT), "u"), *named], table("x")))
                return {who: values for who, *values in engine._rows(statement)}

        expected, actual = columns(pair.here), columns(pair.there)
        differing = {
            (who, shown.sql("duckdb")): (value, found)
            for who, values in expected.items()
            for one, shown, value, found in zip(chosen, written, values, actual[who], strict=True)
            if not is_same(value, found) and not is_inexact(one, inexact)
        }

        assert {} == differing


def is_inexact(expression: Expression, rough: frozenset[Function]) -> bool:
    """Return whether an expression has an inexact function, or converts a double to a string."""
    return any(
        part.function in rough
        or (
            Function.LN in rough
            and part.function is Function.TO_TEXT
            and part.arguments[0].kind is Kind.FLOAT
        )
        for part in walk(expression)
        if isinstance(part, Call)
    )


def without_zero(declared: Table) -> Table:
    """Return a table without the character that no PostgreSQL string can contain."""
    rows: pa.Table = declared.source
    for place, name in enumerate(rows.column_names):
        if rows.schema.field(name).type == pa.string():
            texts = [value and value.replace("\0", "~") for value in rows[name].to_pylist()]
            rows = rows.set_column(place, name, pa.array(texts, pa.string()))
    return Table(declared.name, rows, unit="pid", columns=declared.columns)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("limits", LIMITS[1:4], ids=str)
def test_no_unit_moves_the_totals_further_than_planned(
    limits: Limits,
    neighbours: Neighbours,
    other: Place,
    rng: np.random.Generator,
    request: pytest.FixtureRequest,
) -> None:
    """In hundreds of neighboring pairs, no exact or rounded totals change by more than planned."""
    people = draw_worlds(rng, WORLDS, limits)
    changed = change_one(people, neighbours, limits, rng)
    before, after = (declare_worlds(some, limits, rng) for some in (people, changed))
    curator = Curator([before], budget=Budget(100, 1e-6), neighbours=neighbours)
    first, second = (pair_tables([some], other).there for some in (before, after))
    pair = Pair(curator, first, second)
    for _ in range(1 if request.node.callspec.params["other"] in SLOW_PLACES else 3):
        text = draw_question(rng)
        plan = pair.plan(text)

        assert passes(plan, pair.compare(plan).values()), text


def test_no_unit_moves_joined_totals_further_than_planned(
    other: Place,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Joins and per-unit subqueries stay within the planned sensitivity, as on DuckDB."""
    monkeypatch.setattr(test_joined_sensitivity, "DuckDB", opener(other))
    is_slow = request.node.callspec.params["other"] in SLOW_PLACES
    for limits, neighbours in product(JOINED_LIMITS[: 1 if is_slow else None], Neighbours):
        pair = test_joined_sensitivity.draw_people(limits, neighbours, rng).open("pure", rng)
        for shape in rng.permutation(SHAPES)[: 3 if is_slow else 5]:
            text = draw_joined(str(shape), rng)
            plan = pair.plan(text)

            assert passes(plan, pair.compare(plan).values()), text


def test_no_unit_moves_a_choice_further_than_planned(
    other: Place,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """No choice of a quantile exceeds its epsilon, as on DuckDB."""
    monkeypatch.setattr(test_quantiles, "DuckDB", opener(other))
    is_slow = request.node.callspec.params["other"] in SLOW_PLACES
    for limits, neighbours in product(test_quantiles.LIMITS[1 : 2 if is_slow else 3], Neighbours):
        twins = test_quantiles.draw_twins(limits, neighbours, rng)
        for _ in range(1 if is_slow else 3):
            text = draw_quantiles(rng)

            assert max(test_quantiles.largest_parts(twins, twins.plan(text))) <= 1, text


def opener(place: Place) -> Callable[..., Engine]:
    """Return a function that opens the engine of a place, as `DuckDB` opens DuckDB."""
    return lambda catalog, salt: open_engine(Catalog(place.move(catalog.tables)), salt=salt)


ZONED: Final = [
    datetime(2020, 2, 29, 23, 30, tzinfo=UTC),
    datetime(2020, 3, 1, 0, 15, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
    None,
]


def test_points_in_time_are_days_in_utc(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A timestamp declared as a date is that date in UTC, in any time zone."""
    monkeypatch.setenv("TZ", "America/New_York")
    monkeypatch.setenv("PGTZ", "Asia/Tokyo")
    moments = pa.array(ZONED * 2, pa.timestamp("us", tz="UTC"))
    rows = pa.table({"pid": range(8), "at": moments, "note": ["-"] * 8})
    columns: dict[str, Column] = {"at": Date("1960-01-01", "2030-12-31"), "note": Text()}
    declared = Table("t", rows, unit="pid", columns=columns, unique=True)
    pair = pair_tables([declared], place)
    plan = pair.plan("SELECT at, COUNT(*) AS n FROM t GROUP BY at")
    groups, _ = read_exactly(pair.there, plan)
    expected = {moment.date() if moment else None: 2 for moment in ZONED}

    assert expected == {day: count for (day,), (count, *_) in groups.items()}


def test_decimals_are_read_like_numbers(place: Place) -> None:
    """Decimals are read as doubles, or as integers with halves rounded away from zero."""
    values = [Decimal(text) for text in ("2.50", "-2.50", "1.25", "99.99", "0.01", "7.00")]
    rows = pa.table(
        {"pid": range(6), "x": pa.array(values, pa.decimal128(10, 2)), "n": pa.array(values)}
    )
    columns: dict[str, Column] = {"x": Float(-5, 50, step=0.01), "n": Int(-2, 9)}
    pair = pair_tables([Table("t", rows, unit="pid", columns=columns, unique=True)], place)
    plan = pair.plan("SELECT SUM(n) AS n, SUM(x) AS s FROM t")
    grids = [total.grid for total in plan.totals if total.grid]
    ((sums, *_),) = [tuple(read_exactly(pair.there, plan)[0].values())]
    exact = [
        sum_ * grid.step + grid.center * len(values)
        for sum_, grid in zip(sums, grids, strict=False)
    ]

    assert read_exactly(pair.here, plan) == read_exactly(pair.there, plan)
    assert [3 - 2 + 1 + 9 + 0 + 7, Decimal("58.26")] == [exact[0], Decimal(str(float(exact[1])))]


def test_sums_pass_64_bits(place: Place) -> None:
    """Sums beyond 2^63 are exact."""
    rows = pa.table({"pid": range(5_000), "n": pa.array([2.0**53] * 5_000)})
    declared = Table("t", rows, unit="pid", columns={"n": Int(0, 2**53)}, unique=True)
    pair = pair_tables([declared], place)
    plan = pair.plan("SELECT SUM(n) AS s FROM t")
    (total,) = plan.totals[:1]
    ((steps, *_),) = read_exactly(pair.there, plan)[0].values()
    grid = total.grid

    assert grid is not None
    assert 5_000 * 2**53 == steps * grid.step + 5_000 * grid.center
    assert 5_000 * 2**53 > 2**63


def names_table() -> PublicTable:
    rows = {
        "word": ["a", "b", None, "é"],
        "size": pa.array([1, 2, None, -(2**60)], pa.int64()),
        "weight": [0.5, math.inf, math.nan, -2.5],
        "since": [date(2020, 1, 1), None, date(1, 1, 1), date(9999, 12, 31)],
        "good": [True, False, None, True],
    }
    return PublicTable("names", pa.table(rows))


def test_public_tables_have_the_same_facts(other: Place) -> None:
    """Types, ranges, values, and uniqueness of public columns are those that DuckDB finds."""
    private = make_world([{"pid": 1, "k": "a"}], {"k": Text()}).tables
    pair = pair_tables([*private, names_table()], other)
    here, there = pair.here.facts, pair.there.facts

    assert here.kinds == there.kinds
    assert here.ranges("names") == there.ranges("names")
    assert [True, False] == [there.is_unique("names", [name]) for name in ("word", "good")]


def simple(**changes: Any) -> Table:
    rows = pa.table({"pid": [1, 2, 2], "x": [1.0, 2.0, 3.0], "k": ["a", "b", "b"]})
    declared: dict[str, Column] = {"x": Float(0, 5), "k": Category(["a", "b"])}
    return Table("t", rows, unit="pid", columns=changes.pop("columns", declared), **changes)


def test_a_missing_column_is_a_bad_declaration(place: Place) -> None:
    """A declared column that the source lacks is named when the engine is opened."""
    tables = place.move([simple(columns={"x": Float(0, 5), "kk": Text()})])

    with pytest.raises(BadDeclaration, match="kk"):
        Curator(tables, budget=Budget(1))


STORED: Final[dict[str, pa.Array]] = {
    "whole": pa.array([1, 0], pa.int32()),
    "real": pa.array([1.0, 0.0]),
    "fixed": pa.array([Decimal("1.00"), Decimal("0.00")]),
    "truth": pa.array([True, False]),
    "digits": pa.array(["1", "0"]),
    "days": pa.array(["2020-02-02", "2020-03-03"]),
    "day": pa.array([date(2020, 2, 2), date(2020, 3, 3)]),
    "moment": pa.array([ZONED[0]] * 2, pa.timestamp("us", tz="UTC")),
    "local": pa.array([datetime(2020, 2, 2)] * 2, pa.timestamp("us")),  # noqa: DTZ001
}
KINDS: Final[dict[str, Column]] = {
    "int": Int(0, 9),
    "float": Float(0, 9),
    "bool": Bool(),
    "date": Date("2000-01-01", "2030-12-31"),
    "text": Text(),
}
NUMBERS, DAYS = ("whole", "real", "fixed", "truth"), ("day", "moment", "local")
UNFIT: Final = [
    *((stored, "date") for stored in NUMBERS),
    *((stored, kind) for stored in DAYS for kind in ("int", "float", "bool")),
]
UNREAD: Final = {("digits", "date"), *(("days", kind) for kind in ("int", "float", "bool"))}
"""Strings in these columns are read as NULL, but other strings might not be."""

READ: Final = {
    "int": "SUM({0})",
    "float": "SUM({0})",
    "bool": "COUNT(*) FILTER (WHERE {0})",
    "date": "SUM(EXTRACT(DAY FROM {0}) + 31 * EXTRACT(MONTH FROM {0}))",
}
"""Values that distinguish rows; the string of a float or a timestamp is specific to each engine."""
ELSEWHERE: Final = {("local", "date")}
"""A copy in Spark is a timestamp in its session's time zone, so its date may differ."""


def test_an_unreadable_stored_type_is_a_bad_declaration(place: Place) -> None:
    """A stored type whose values would all be NULL is refused, with its name and advice."""
    (there,) = place.move([PublicTable("t", pa.table({"pid": [1, 2], **STORED}))])
    for stored, kind in UNFIT:
        table = Table("t", there.source, unit="pid", columns={stored: KINDS[kind]})
        advice = (
            "Declare date, timestamp, category, or text"
            if stored in DAYS
            else "Declare int, float, bool"
        )
        said = f"Column '{stored}' of table 't' is stored as .* read as {kind}. {advice}"

        with pytest.raises(BadDeclaration, match=said):
            open_engine(Catalog([table]), salt=SALT)


def test_readable_stored_types_are_read(place: Place) -> None:
    """For every other pair of stored type and declared kind, values are read as on DuckDB."""
    pairs = [(s, k) for s in STORED for k in KINDS if (s, k) not in UNFIT]
    rows = pa.table({"pid": [1, 2], **{f"{s}_{k}": STORED[s] for s, k in pairs}})
    columns = {f"{s}_{k}": KINDS[k] for s, k in pairs}
    pair = pair_tables([Table("t", rows, unit="pid", columns=columns, unique=True)], place)
    plan = pair.plan(f"SELECT {', '.join(f'COUNT({name}) AS {name}' for name in columns)} FROM t")
    alike = [(s, k) for s, k in pairs if k in READ and (s, k) not in ELSEWHERE]
    values = ", ".join(f"{READ[k].format(f'{s}_{k}')} AS {s}_{k}" for s, k in alike)
    again = pair.plan(f"SELECT {values} FROM t")
    ((counts, *_),) = [tuple(read_exactly(pair.there, plan)[0].values())]

    assert {pair: 0 if pair in UNREAD else 2 for pair in pairs} == dict(
        zip(pairs, counts, strict=False)
    )
    assert read_exactly(pair.here, plan) == read_exactly(pair.there, plan)
    assert read_exactly(pair.here, again) == read_exactly(pair.there, again)


def test_units_that_are_not_unique_are_found(place: Place) -> None:
    """A unit that is declared unique but repeats is refused when the engine is opened."""
    with pytest.raises(BadDeclaration, match="unique=True"):
        Curator(place.move([simple(unique=True)]), budget=Budget(1))


def test_a_hold_is_needed_before_any_row_is_read(place: Place) -> None:
    """An engine refuses a hold that has no reading left, and reads nothing."""
    pair = pair_tables([simple()], place)
    plan = pair.plan("SELECT COUNT(*) AS n FROM t")
    used = Hold(0, SHARE, readings=0)

    with pytest.raises(Fault, match="already used"):
        pair.there.run(plan.measurement, used)


class Broken(RuntimeError):
    """An error of a driver, with a row in its message."""


@pytest.mark.parametrize("method", ["_rows", "_columns"])
def test_a_fault_is_explained_to_the_owner_only(
    method: str,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A driver's message stays in the owner's log; the charge stays and its key resumes it."""
    curator = Curator(place.move([simple()]), budget=Budget(10, 1e-6))
    statistic = "COUNT(*)" if method == "_rows" else "MEDIAN(x)"
    text = f"SELECT {statistic} AS n FROM t"
    engine: Any = curator._engine

    def fail(statement: str) -> None:
        raise Broken(f"row (2, 3.0) in {statement}")

    with monkeypatch.context() as patched:
        patched.setattr(engine, method, fail)
        patched.setattr(type(engine), "failures", (*type(engine).failures, Broken))
        with caplog.at_level(logging.DEBUG, "confide.owner"), pytest.raises(Fault) as caught:
            curator.sql(text, epsilon=1, key="again")

    assert ENGINE_FAULT == str(caught.value)
    assert caught.value.__cause__ is None
    told = [record.getMessage() for record in caplog.records if record.levelno > logging.DEBUG]
    assert "row (2, 3.0)" in caplog.text
    assert ["The engine failed: Broken"] == told
    spent = curator.budget.spent.share
    answer = curator.sql(text, epsilon=1, key="again")

    assert spent == curator.budget.spent.share == answer.cost.share


def test_engines_can_be_closed_and_opened_again(place: Place) -> None:
    """After `close`, another engine over the same tables gives the same integers."""
    tables = place.move([simple()])
    curator = Curator(tables, budget=Budget(1))
    plan = pair_tables([simple()], place).plan("SELECT k, SUM(x) AS s FROM t GROUP BY k")
    first: Engine = open_engine(curator.catalog, salt=SALT)
    expected = read_exactly(first, plan)
    assert isinstance(first, SqlEngine)
    first.close()

    assert expected == read_exactly(open_engine(curator.catalog, salt=SALT), plan)
