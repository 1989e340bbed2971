"""Arguments of the wrong type, and values in the types of pandas and NumPy."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

import confide as cf

COUNT = "SELECT COUNT(*) AS n FROM t"
ROWS = pd.DataFrame({"a": [1, 2], "d": [date(2020, 1, 1), date(2021, 1, 1)]})


def table() -> cf.Table:
    columns: dict[str, Any] = {"a": cf.Int(0, 9), "d": cf.Date("2019-01-01", "2022-01-01")}
    return cf.Table("t", ROWS, unit=cf.ROW, columns=columns)


def opened(**given: Any) -> cf.Curator:
    return cf.Curator([table()], budget=cf.Budget(1e10), **given)


WRONG: list[tuple[str, Callable[[cf.Curator], object]]] = [
    ("Unknown table None", lambda curator: curator.table(None)),  # type: ignore[arg-type]
    ("a list of queries", lambda curator: curator.release(None, share="1%")),  # type: ignore[arg-type]
    ("`candidates` must be a list", lambda c: c.choose(None, lambda _: COUNT, share="1%")),  # type: ignore[arg-type]
    ("`score` must be a function", lambda c: c.choose(["a"], None, share="1%")),  # type: ignore[arg-type]
    ("`fresh` must be True or False", lambda c: c.sql(COUNT, share="1%", fresh="no")),  # type: ignore[arg-type]
    ("`ledger` must be a path", lambda _: opened(ledger=5)),
    ("`limits` must be a `cf.Limits`", lambda _: opened(limits=3)),
    ("`tables` must be a list", lambda _: cf.Curator(None, budget=cf.Budget(1))),  # type: ignore[arg-type]
    ("`values` must be a list", lambda _: cf.Category(None)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("told", "wrong"), WRONG, ids=[told for told, _ in WRONG])
def test_arguments_of_a_wrong_type_are_refused(
    told: str, wrong: Callable[[cf.Curator], object]
) -> None:
    """A wrong argument raises an error of confide, not of Python, and costs nothing."""
    curator = opened()
    with pytest.raises(cf.ConfideError, match=told):
        wrong(curator)

    assert 0 == curator.budget.spent.share


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("a", np.int64(1)),
        ("a", np.float32(1.5)),
        ("a", np.float64(1.5)),
        ("d", datetime(2020, 6, 1)),  # noqa: DTZ001  # as pandas stores dates
        ("d", pd.Timestamp("2020-06-01")),
        ("d", np.datetime64("2020-06-01")),
        ("d", np.datetime64("2020-06", "M")),
        ("d", np.datetime64("2020-06-01", "s")),
        ("d", np.datetime64("2020-06-01", "ns")),
        ("d", pd.Series([pd.Timestamp("2020-06-01")]).to_numpy()[0]),
        ("d", datetime(2020, 6, 1, 12)),  # noqa: DTZ001
        ("d", pd.Timestamp("2020-06-01 12:00")),
        ("d", np.datetime64("2020-06-01T12", "h")),
        ("d", np.datetime64("2020-06-01T12:00", "ns")),
    ],
)
def test_values_of_numpy_and_pandas_are_values(column: str, value: Any) -> None:
    """Values of pandas and NumPy work in comparisons; a date may come as its midnight."""
    asked = opened().table("t").where(cf.col(column) > value).agg(n=cf.count())

    assert [{"n": 1}] == asked.ask(epsilon=1e9).rows


def refused(column: str, value: Any) -> str:
    """Return the message for a value that cannot be compared with."""
    with pytest.raises(cf.UnsupportedQuery) as caught:
        opened().table("t").where(cf.col(column) > value).agg(n=cf.count()).preview(epsilon=1)
    return str(caught.value)


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2020, 6, 1, 12, tzinfo=UTC),
        datetime(2020, 6, 1, 12, 0, 0, 1),  # noqa: DTZ001
        pd.Timestamp("2020-06-01 00:00:00.000000001"),
        np.datetime64("2020-06-01T00:00:00.000000001", "ns"),
        np.datetime64("12020-06-01", "D"),
    ],
)
@pytest.mark.parametrize("column", ["a", "d"])
def test_a_timestamp_that_is_too_fine_is_refused(column: str, moment: Any) -> None:
    """A timestamp below a millisecond, with a zone, or out of range is refused, not truncated."""
    assert "a date" in refused(column, moment)


@pytest.mark.parametrize("nothing", [pd.NaT, np.datetime64("NaT"), np.datetime64("NaT", "ns")])
def test_nat_is_refused(nothing: Any) -> None:
    """NaT is refused rather than treated as a date or NULL."""
    assert "NaT is not a date. Write a date, `None` for NULL" in refused("d", nothing)


@pytest.mark.parametrize(
    "span",
    [
        timedelta(days=1),
        pd.Timedelta("1D"),
        np.timedelta64(1, "D"),
        np.timedelta64(1, "ns"),
        np.timedelta64("NaT"),
    ],
)
@pytest.mark.parametrize("column", ["a", "d"])
def test_a_time_span_is_refused(column: str, span: Any) -> None:
    """A time span is refused where a date or a number is expected, in any unit."""
    assert "A time span cannot be used as a value. Write a number" in refused(column, span)
