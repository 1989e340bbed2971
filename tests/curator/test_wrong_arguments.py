"""Invalid arguments of a query raise BadArgument for the analyst and cost nothing."""

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pytest

import confide as cf
from confide.errors import BadArgument, Fault, MissingPackage, refusing

COUNT: Final = "SELECT COUNT(*) AS n FROM t"
AMOUNTS: Final[list[dict[str, Any]]] = [
    {},
    {"epsilon": -1},
    {"epsilon": 0},
    {"epsilon": "much"},
    {"epsilon": 1e-30},
    {"epsilon": True},
    {"epsilon": 0.1, "share": "1%"},
    {"share": 3},
    {"share": "1e-40"},
    {"share": float("nan")},
    {"error": -5},
    {"epsilon": 0.1, "confidence": 2},
    {"epsilon": 0.1, "fresh": 1},
    {"epsilon": 0.1, "key": ""},
    {"eps": 0.1},
]
CALLS: Final[dict[str, Callable[[cf.Curator], object]]] = {
    "weights": lambda curator: curator.release([COUNT], weights=[0], epsilon=0.1),
    "candidates": lambda curator: curator.choose("ab", {"a": COUNT}, epsilon=0.1),
    "threshold": lambda curator: curator.watch("much", epsilon=0.1),
    "level": lambda curator: curator.table("t").agg(q=cf.quantile("x", "half")),
    "bins": lambda curator: curator.density("t", "x", bins=-1, epsilon=0.1),
    "explain": lambda curator: curator.explain(COUNT, epsilon=-1),
    "preview": lambda curator: curator.preview(COUNT, share=0),
    "listed weights": lambda curator: curator.release([COUNT], weights=3, epsilon=0.1),  # type: ignore[arg-type]
    "ask": lambda curator: curator.table("t").agg(n=cf.count()).ask(epsilon=-1),
}


def open_curator() -> cf.Curator:
    rows = pa.table({"pid": [1, 2], "x": [3, 4]})
    table = cf.Table("t", rows, unit="pid", columns={"x": cf.Int(0, 9)})
    return cf.Curator([table], budget=cf.Budget(1))


@pytest.mark.parametrize("want", AMOUNTS, ids=str)
def test_a_wrong_amount_is_refused(want: dict[str, Any]) -> None:
    """The refusal names the argument, and nothing is spent."""
    curator = open_curator()
    with pytest.raises(cf.BadArgument, match=r"\w+`? (must|is)|exactly one|^Unknown"):
        curator.sql(COUNT, **want)

    assert 0 == curator.budget.spent.share


@pytest.mark.parametrize("name", CALLS)
def test_other_methods_refuse_invalid_arguments(name: str) -> None:
    """In every method, an invalid argument raises BadArgument, and nothing is spent."""
    curator = open_curator()
    with pytest.raises(BadArgument):
        CALLS[name](curator)

    assert 0 == curator.budget.spent.share


@pytest.mark.parametrize("error", [MissingPackage("x"), Fault("x"), cf.UnsupportedQuery("x")])
def test_other_errors_keep_their_class(error: cf.ConfideError) -> None:
    """Errors for missing packages, faults, and refusals keep their class."""

    @refusing
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        fail()

    assert error is caught.value


def test_an_invalid_confidence_of_an_answer_is_refused() -> None:
    """Estimates, answers, and sessions reject an invalid confidence in the same way."""
    curator = open_curator()
    answered = [
        curator.sql(COUNT, epsilon=0.1).intervals,
        curator.mean("t", "x", epsilon=0.1).interval,
        curator.watch(5, epsilon=0.1).half_width,
    ]
    for interval in answered:
        with pytest.raises(BadArgument, match="`confidence` must be"):
            interval(2)


def test_invalid_bounds_of_an_estimator_are_a_bad_declaration() -> None:
    """Invalid bounds are reported when an estimator is registered, not when it is used."""
    curator = open_curator()
    with pytest.raises(cf.BadDeclaration, match="low < high"):
        curator.register_estimator("mean", lambda rows: 0.0, columns=["x"], bounds=[(1, 0)])
