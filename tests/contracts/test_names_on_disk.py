"""Names that ledgers, tokens, and sessions store; renaming them would make stored data unreadable.

They are listed here once. If a test fails because of a rename, keep the old name on disk, or write
a migration.
"""

import json
from dataclasses import fields
from datetime import date
from typing import Any, Final

import pyarrow as pa
import pytest

import confide as cf
from confide.holdout.baselines import GaussianAnswers, Ladder, Naive, Rounding, Splitting
from confide.holdout.coding import Coding, GuessAndCheck
from confide.holdout.protocol import Progress
from confide.holdout.stores import TABLE
from confide.holdout.thresholdout import Thresholdout
from confide.ledger.anchors import ANCHORS, Mark
from confide.ledger.chain import (
    LAYOUT,
    LOST,
    NAMED,
    AnchorRecord,
    AnswerRecord,
    Charge,
    Head,
    ShownAnswer,
    _write_loss,
    describe_filter,
)
from confide.ledger.opening import SCHEMA_VERSION
from confide.ledger.schema import TABLES
from confide.loss import auto_filter
from confide.query import canonical
from confide.query.sql import read_sql
from confide.server.tokens import LAYOUT_TABLE as TOKEN_LAYOUT
from confide.server.tokens import TOKENS

RECORDS: Final = (Charge, AnswerRecord, ShownAnswer, AnchorRecord, Head, Mark, Progress)
METHODS: Final = (
    *(Thresholdout, GaussianAnswers, Splitting, Naive, Rounding, Ladder),
    *(Coding, GuessAndCheck),
)
COLUMNS: Final[dict[str, Any]] = {
    "i": cf.Int(0, 9),
    "f": cf.Float(0, 1, step=0.5),
    "b": cf.Bool(),
    "c": cf.Category(["x", "y", None]),
    "d": cf.Date(date(2020, 1, 1), date(2020, 12, 31)),
    "t": cf.Text(),
}
SQL: Final = (
    "SELECT c, COUNT(*), COUNT(f), COUNT(DISTINCT p), SUM(f), AVG(f), VAR_SAMP(f), STDDEV(f), "
    "MEDIAN(f), QUANTILE_CONT(f, 0.9) FILTER (WHERE b AND NOT f IS NULL) FROM v "
    "WHERE i IN (1, 2) OR t LIKE 'a%' OR LOWER(UPPER(t)) <> SUBSTR(t, 1, 2) GROUP BY c "
    "HAVING COUNT(*) > 3 ORDER BY COUNT(*) DESC LIMIT 5",
    "SELECT SUM(ABS(-f) + FLOOR(f) - CEIL(f) * ROUND(f, 1) / (i % 3)), SUM(LN(f) + EXP(f)), "
    "SUM(SQRT(f) + LENGTH(t)), SUM(LEAST(f, 1) + GREATEST(f, i)), SUM(COALESCE(f, 0)), "
    "SUM(CASE WHEN b THEN 1 ELSE 2 END), SUM(CAST(t AS INT) + CAST(i AS DOUBLE)) FROM v",
    "SELECT COUNT(*) FROM v WHERE YEAR(d) + QUARTER(d) + MONTH(d) + DAY(d) + DAYOFWEEK(d) > 3 AND "
    "DATE_TRUNC('month', d) >= '2020-02-01' AND CAST(i AS TEXT) = '1' AND CAST(t AS BOOLEAN) AND "
    "CAST(t AS DATE) < DATE '2020-03-01' AND DATE_TRUNC('year', d) <= DATE_TRUNC('quarter', d)",
    "SELECT AVG(s) FROM (SELECT p, SUM(f) AS s FROM v GROUP BY p) AS u",
)


FIELDS: Final = {
    "Charge": (
        "number before time text fingerprint analyst purpose name units delta_units "
        "readings loss spent delta_spent analyst_spent purpose_spent"
    ),
    "AnswerRecord": "number before time entry noisy",
    "ShownAnswer": "number before time entry seal",
    "AnchorRecord": "number before time event anchor",
    "Head": "records digest time spent delta_spent",
    "Mark": "ledger records digest anchor",
    "Progress": "queries overfits nats level secret is_spoiled",
}
METHOD_FIELDS: Final = {
    "thresholdout": "rows beta queries overfits threshold sigma wanted",
    "gaussian": "rows beta queries sigma split wanted",
    "splitting": "rows beta queries wanted",
    "naive": "rows",
    "rounding": "rows beta queries cells wanted",
    "ladder": "rows beta queries levels wanted",
    "coding": "rows beta queries overfits threshold cells wanted",
    "guess-and-check": "rows beta threshold",
}
DATABASE: Final = {
    "confide_meta": "name value",
    "confide_head": "one records digest time spent delta_spent seal",
    "confide_charges": "number before time text fingerprint analyst purpose name units "
    "delta_units readings "
    "loss spent delta_spent analyst_spent purpose_spent digest",
    "confide_answers": "entry number before time noisy digest asked analyst",
    "confide_anchor_records": "number before time event anchor digest",
    "confide_keys": "analyst name entry",
    "confide_anchors": "one ledger records digest anchor",
    "confide_tokens": (
        "id name label role digest made expires revoked limit_units spent_units parent may_confirm"
    ),
    "confide_server": "only version",
}
FILTERS: Final = {
    "pure": ("delta delta_pot epsilon filter total units", "PureFilter", "loss epsilon"),
    "gaussian": (
        "delta delta_aside delta_pot epsilon filter total units",
        "GaussianFilter",
        "loss mu_squared",
    ),
    "renyi": (
        "delta delta_aside delta_pot epsilon filter order total units",
        "RenyiFilter",
        "loss order divergence",
    ),
}
CANONICAL: Final = (
    'SELECT t1.c AS c, COUNT(*) AS "count(*)", COUNT(t1.f) AS "count(f)", COUNT(DISTINCT '
    't1.unit) AS "count(distinct unit)", SUM(t1.f) AS "sum(f)", AVG(t1.f) AS "avg(f)", '
    'VAR_SAMP(t1.f) AS "var_samp(f)", STDDEV(t1.f) AS "stddev(f)", QUANTILE_CONT(t1.f, '
    '0.5) AS "median(f)", QUANTILE_CONT(t1.f, 0.9) FILTER (WHERE t1.b AND NOT t1.f IS '
    'NULL) AS "quantile_cont(f, 0.9) filter (where b and not f is null)" FROM v AS t1 '
    "WHERE t1.i IN (1, 2) OR t1.t LIKE 'a%' OR LOWER(UPPER(t1.t)) <> SUBSTR(t1.t, 1, 2) "
    "GROUP BY t1.c HAVING COUNT(*) > 3 ORDER BY COUNT(*) DESC LIMIT 5",
    "SELECT SUM(ABS(-t1.f) + FLOOR(t1.f) - CEIL(t1.f) * ROUND(t1.f, 1) / (t1.i % 3)) AS "
    '"sum(abs(-f) + floor(f) - ceil(f) * round(f, 1) / (i % 3))", SUM(LN(t1.f) + '
    'EXP(t1.f)) AS "sum(ln(f) + exp(f))", SUM(SQRT(t1.f) + LENGTH(t1.t)) AS "sum(sqrt(f) '
    '+ length(t))", SUM(LEAST(t1.f, 1) + GREATEST(t1.f, t1.i)) AS "sum(least(f, 1) + '
    'greatest(f, i))", SUM(COALESCE(t1.f, 0)) AS "sum(coalesce(f, 0))", SUM(CASE WHEN '
    't1.b THEN 1 ELSE 2 END) AS "sum(case when b then 1 else 2 end)", SUM(CAST(t1.t AS '
    'BIGINT) + CAST(t1.i AS DOUBLE)) AS "sum(cast(t as bigint) + cast(i as double))" '
    "FROM v AS t1",
    'SELECT COUNT(*) AS "count(*)" FROM v AS t1 WHERE YEAR(t1.d) + QUARTER(t1.d) + '
    "MONTH(t1.d) + DAY(t1.d) + DAYOFWEEK(t1.d) > 3 AND DATE_TRUNC('month', t1.d) >= DATE "
    "'2020-02-01' AND CAST(t1.i AS VARCHAR) = '1' AND CAST(t1.t AS BOOLEAN) AND "
    "CAST(t1.t AS DATE) < DATE '2020-03-01' AND DATE_TRUNC('year', t1.d) <= "
    "DATE_TRUNC('quarter', t1.d)",
    'SELECT AVG(t1.s) AS "avg(s)" FROM (SELECT t1u1.unit, SUM(t1u1.f) AS s FROM v AS '
    "t1u1 GROUP BY t1u1.unit) AS t1",
)
STORED: Final = {
    "sql": ("SQL", "cells groups sizes steps"),
    "top keys": ("SQL", "cells groups sizes steps"),
    "release": ("release by", "answers sizes"),
    "choose": ("choose", "place"),
    "watch": ("watch above sensitivity rising label", "blind left noise secret step"),
    "mean": ("estimate query private", "sizes steps windows"),
    "variance": ("estimate query private", "sizes steps windows"),
    "covariance": ("estimate query private", "sizes steps windows"),
    "density": ("estimate query bins", "halvings rows sizes steps"),
    "quantiles": ("estimate query levels", "cells rows sizes"),
    "family": ("estimate query", "sizes steps"),
    "fit": ("estimate query", "sizes steps"),
    "logistic": ("estimate formula query", "rounds sizes"),
    "compare": ("estimate query", "sizes steps"),
    "independence": ("estimate query", "sizes steps"),
    "blocks": (
        "estimate estimator table columns bounds blocks method corrected",
        "blocks quartiles sizes squares steps sums",
    ),
}


def make_curator() -> cf.Curator:
    """Return a curator whose ledger the test can inspect."""
    rows = pa.table(
        {
            "p": range(40),
            "i": [1] * 40,
            "f": [0.5] * 40,
            "b": [True] * 40,
            "c": ["x", "y"] * 20,
            "d": [date(2020, 2, 3)] * 40,
            "t": ["a"] * 40,
        }
    )
    table = cf.Table("v", rows, unit="p", columns=COLUMNS, max_rows_per_unit=1)
    return cf.Curator([table], budget=cf.Budget(1000, 1e-6))


def stored_by(name: str) -> tuple[list[str], list[str]]:
    """Return the keys that one operation stores: those of its identity, and of its answer."""
    curator = make_curator()
    count = "SELECT COUNT(*) AS n, MEDIAN(f) AS m FROM v"
    operations: dict[str, Any] = {
        "sql": lambda: curator.sql(count, share=0.01),
        "top keys": lambda: curator.sql(
            "SELECT c FROM v GROUP BY c ORDER BY COUNT(*) DESC LIMIT 1", share=0.01
        ),
        "release": lambda: curator.release([count], share=0.01),
        "choose": lambda: curator.choose(["a"], {"a": "SELECT COUNT(*) FROM v"}, share=0.01),
        "watch": lambda: curator.durable_watch(3, share=0.01, label="x"),
        "mean": lambda: curator.mean("v", "f", share=0.01),
        "private bounds": lambda: curator.mean("v", "f", bounds="private", share=0.01),
        "variance": lambda: curator.variance("v", "f", share=0.01),
        "covariance": lambda: curator.covariance("v", ["f", "i"], share=0.01),
        "density": lambda: curator.density("v", "f", share=0.01),
        "quantiles": lambda: curator.quantiles("v", "f", [0.5], share=0.01),
        "family": lambda: curator.exponential_family("v", "f", family="normal", share=0.01),
        "fit": lambda: curator.fit("v", "f ~ c", share=0.01),
        "logistic": lambda: curator.fit("v", "b ~ f", family="logistic", share=0.01),
        "compare": lambda: curator.compare_means("v", "f", by="c", share=0.01),
        "independence": lambda: curator.independence("v", "c", "b", share=0.01),
        "blocks": lambda: curator.sample_and_aggregate(
            "v", len, columns=["f"], bounds=[(0, 1)], share=0.01
        ),
    }
    operations[name]()
    entry = curator.ledger.history(1)[0]
    kept = curator.ledger.answer(entry.number)
    assert kept is not None
    is_terms = entry.question.text.startswith("{")
    identity = list(json.loads(entry.question.text)) if is_terms else ["SQL"]
    return identity, list(kept.noisy)


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_records_keep_their_fields(kind: type) -> None:
    """Records of the chain, marks, and sessions are stored field by field."""
    assert FIELDS[kind.__name__].split() == [field.name for field in fields(kind)]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_methods_of_the_holdout_keep_their_terms(method: Any) -> None:
    """A stored session is found by the name and the terms of its method."""
    assert METHOD_FIELDS[method.name].split() == [field.name for field in fields(method)]


def test_databases_keep_tables_and_columns() -> None:
    """Tables of the ledger, of anchors, and of tokens keep their columns and versions."""
    tables = [*TABLES.tables.values(), ANCHORS, TOKENS, TOKEN_LAYOUT]

    assert DATABASE == {table.name: " ".join(one.name for one in table.columns) for table in tables}
    assert "holdout_sessions (name TEXT PRIMARY KEY, terms TEXT NOT NULL, progress TEXT" in TABLE
    assert ("0001a", "confide-1") == (SCHEMA_VERSION, LAYOUT)
    assert ("named", "lost") == (NAMED, LOST)


@pytest.mark.parametrize(("accounting", "names"), tuple(FILTERS.items()))
def test_filters_and_losses_keep_their_names(accounting: str, names: tuple[str, ...]) -> None:
    """A ledger stores the name of its filter, and each charge the name of its loss."""
    opening = auto_filter(1, 0 if accounting == "pure" else 1e-6, accounting)
    written = json.loads(describe_filter(opening))
    loss = json.loads(_write_loss(opening, 1 << 40))

    assert names == (" ".join(written), written["filter"], " ".join(loss))


def test_a_catalog_keeps_its_fingerprint() -> None:
    """A fingerprint contains the names and fields of column types; a change would lose answers."""
    expected = "d8528db945cbfc1788e1bcfa5ca2c509f3e6bfa3588ef66c5eac73391053e1d2"

    assert expected == make_curator().catalog.fingerprint()


@pytest.mark.parametrize(("text", "expected"), tuple(zip(SQL, CANONICAL, strict=True)))
def test_queries_keep_their_canonical_text(text: str, expected: str) -> None:
    """A query finds its stored answer by its canonical text."""
    assert expected == canonical(read_sql(text, make_curator().names))


@pytest.mark.parametrize("name", STORED)
def test_operations_keep_what_they_store(name: str) -> None:
    """An operation stores the listed keys of the identity, in order, and of the answer."""
    identity, payload = stored_by(name)

    assert STORED[name] == (" ".join(identity), " ".join(payload))
