"""Expressions that are too deep are refused before anything is spent."""

import pytest

from confide.curator import Curator
from confide.declare import Float
from confide.errors import UnsupportedQuery
from support.neighbours import open_one

DEEP = {
    "left": "x" + " / (x - 1)" * 12,
    "right": "1 / (" * 12 + "x" + ")" * 12,
    "rest": "CAST(x AS BIGINT) % (" * 8 + "3" + ")" * 8,
    "roots": "SQRT(" * 14 + "x" + ")" * 14,
    "logarithms": "LN(" * 14 + "x" + ")" * 14,
    "days": "CAST(CAST(" * 6 + "CAST(x AS VARCHAR)" + " AS DATE) AS VARCHAR)" * 6,
}


@pytest.fixture
def curator() -> Curator:
    """Return a curator whose columns are positive, so that division by them is bounded."""
    return open_one([{"who": 1, "x": 1.5}], {"x": Float(1, 2)})


@pytest.mark.parametrize("kind", DEEP)
def test_deep_expressions_are_refused(kind: str, curator: Curator) -> None:
    """An expression that doubles at each level never reaches the engine."""
    with pytest.raises(UnsupportedQuery, match="too deep"):
        curator.sql(f"SELECT COUNT(*) AS n FROM p WHERE {DEEP[kind]} IS NOT NULL", epsilon=1)
    assert 0 == curator.budget.spent.share


@pytest.mark.parametrize(
    "text",
    ["x / (x / (x + 1))", "SQRT(LN(x + 1) / x)", "1 / (1 / (1 / (1 / x)))", "ROUND(x / 3, 2) / x"],
)
def test_ordinary_expressions_are_answered(text: str, curator: Curator) -> None:
    """An expression with a few nested divisions and roots is answered."""
    assert curator.sql(f"SELECT COUNT(*) AS n FROM p WHERE {text} > 0", epsilon=1).rows
