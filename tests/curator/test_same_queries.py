"""Equivalence of queries, as docs/analyst.md describes it."""

import pytest

from confide.declare import Int
from support.neighbours import open_one

ASKED = "SELECT COUNT(*) AS n FROM p WHERE a > 1 AND b > 1"


@pytest.mark.parametrize(
    ("text", "is_same"),
    [
        ("select count( * ) as n  from p where ((a>1) and b>1)", True),
        ("SELECT COUNT(*) AS n FROM p AS q WHERE q.a > 1 AND q.b > 1", True),
        ("SELECT COUNT(*) AS m FROM p WHERE a > 1 AND b > 1", False),
        ("SELECT COUNT(*) AS n FROM p WHERE b > 1 AND a > 1", False),
    ],
)
def test_spelling_does_not_matter_but_names_and_order_do(text: str, is_same: bool) -> None:
    """Spaces, parentheses, case and table aliases are ignored; column aliases and order count."""
    curator = open_one([{"who": 1, "a": 2, "b": 2}], {"a": Int(0, 9), "b": Int(0, 9)})
    curator.sql(ASKED, share="1%")

    assert is_same == curator.preview(text, share="1%").reused
    assert is_same == curator.sql(text, share="1%").reused
