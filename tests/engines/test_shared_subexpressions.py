"""Subexpressions that many sums share are computed once, and change no sum."""

import math
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from confide.curator import Curator
from confide.declare import Budget, Float, Int, Table
from confide.engines.sql import summands
from confide.engines.sql.statements import write_statement
from confide.engines.sql.summands import Layers
from confide.ledger import Hold
from confide.loss import Share
from confide.plan import Plan
from confide.query import TableQuery, Term, col
from confide.query import sum as total
from confide.release.unseal import unseal
from support.entropy import SeededEntropy

SHARE: Final = Share.floor("1/100")
ROWS: Final = 500


@pytest.fixture
def rng(entropy: SeededEntropy) -> np.random.Generator:
    """Return a random generator seeded by the run's seed."""
    return np.random.default_rng(int(entropy.words(1)[0]))


def open_people(rng: np.random.Generator) -> Curator:
    """Return a curator of people with several rows each, with missing and out-of-range numbers."""
    odd = [math.nan, math.inf, -math.inf, None, -0.0, 1e-320]
    columns = {
        name: [*rng.normal(0, 2, ROWS), *rng.permutation(np.array(odd, dtype=object))]
        for name in "xy"
    }
    people = {
        "who": rng.integers(0, 200, ROWS + len(odd)),
        "n": rng.integers(0, 9, ROWS + len(odd)),
    }
    table = Table(
        "p",
        pa.table(
            {
                **people,
                **{name: pa.array(list(map(number, column))) for name, column in columns.items()},
            }
        ),
        unit="who",
        columns={"x": Float(-3, 3), "y": Float(0, 2), "n": Int(1, 7)},
        max_rows_per_unit=2,
    )
    return Curator([table], budget=Budget(1))


def number(value: Any) -> float | None:
    return None if value is None else float(value)


def ask(terms: dict[str, Term], *, grouped: bool = False) -> TableQuery:
    rows = TableQuery("p").where(col("x") < 2.5)
    return (rows.group_by("n") if grouped else rows).agg(
        **{name: total(term) for name, term in terms.items()}
    )


def make_terms() -> dict[str, Term]:
    """Return terms with nested shared subexpressions; one is a sum itself."""
    x, y, n = (col(name) for name in "xyn")
    scaled = [((column - 0.3) / 1.7).clip(-1.0, 1.0) for column in (x, y, n)]
    linear = scaled[0] * 0.3 + scaled[1] * -0.7 + scaled[2] * 0.2
    mean = (1.0 / (1.0 + (-linear).exp())).clip(0.0, 1.0)
    weight = mean * (1.0 - mean) / (x.sqrt() + 1.0)
    products = {
        f"p{i}{j}": (scaled[i] * scaled[j] * weight).clip(-1.0, 1.0)
        for i in range(3)
        for j in range(i, 3)
    }
    beside = {"beside": (weight * y - n).clip(-9.0, 9.0), "whole": n * n}
    return {**products, **beside, "scaled": scaled[0], "mean": mean, "plain": x}


def plan_of(curator: Curator, query: TableQuery) -> Plan:
    return curator._planner.plan(query.build(curator.names), SHARE)


@pytest.mark.parametrize("grouped", [False, True])
def test_sums_are_those_of_terms_written_out(
    grouped: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each total equals the integer without sharing."""
    curator = open_people(rng)
    plan = plan_of(curator, ask(make_terms(), grouped=grouped))

    def read() -> tuple[str, dict[Any, tuple[int, ...]]]:
        curator._engine.__dict__.pop("_written", None)
        text = write_statement(plan.measurement, "salt").sql("duckdb")
        return text, dict(unseal(curator._engine.run(plan.measurement, Hold(0, SHARE))).groups)

    short, shared = read()
    monkeypatch.setattr(summands, "MIN_NODES_SAVED", math.inf)
    long, written_out = read()

    assert written_out == shared
    assert len(short) < len(long) / 2
    assert any(any(totals) for totals in shared.values())


def test_a_long_part_is_written_once(rng: np.random.Generator) -> None:
    """A mean that occurs in many sums is written as often as for a single sum."""
    curator, terms = open_people(rng), make_terms()
    one, many = (
        write_statement(plan_of(curator, ask(asked)).measurement, "salt").sql("duckdb")
        for asked in ({"mean": terms["mean"]}, terms)
    )

    assert 0 < one.count("EXP(") == many.count("EXP(")


@pytest.mark.parametrize(
    "terms",
    [
        {"a": col("x"), "b": col("y")},
        {"a": col("x") * col("y"), "b": col("x") * col("y")},
        {"a": (col("x") - 1.0) * (col("x") - 1.0)},
    ],
)
def test_short_terms_have_one_layer(terms: dict[str, Term], rng: np.random.Generator) -> None:
    """Without long shared subexpressions, a statement has no extra selection."""
    plan = plan_of(open_people(rng), ask(terms))
    values = {name: one.argument for name, one in zip("ab", plan.totals, strict=False)}

    assert 1 == len(
        Layers.of({k: v for k, v in values.items() if v is not None}, plan.ranges).layers
    )
