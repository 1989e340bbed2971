"""Excerpts underline the refused part of a query."""

from hypothesis import given
from hypothesis import strategies as st

from confide.query.sql.parse import EXCERPT_WIDTH, underline


def test_the_line_and_the_span_are_shown() -> None:
    """Carets mark exactly the given span, on its line."""
    assert "line 2: two three\n            ^^^^^" == underline("one\ntwo three\nfour", 8, 13)


def test_a_multiline_span_is_cut_after_its_first_line() -> None:
    """Only the first line of a multi-line span is shown."""
    assert "line 1: one\n        ^^^" == underline("one\ntwo", 0, 7)


def test_a_long_line_is_cut_around_the_span() -> None:
    """The span is shown even if its line is too long."""
    text = "x" * 5_000 + " HERE " + "y" * 5_000
    line, carets = underline(text, 5_001, 5_005).split("\n")

    assert "HERE" == "".join(a for a, b in zip(line, carets, strict=False) if b == "^")


@given(text=st.text(min_size=1), start=st.integers(-5, 50), end=st.integers(-5, 50))
def test_any_span_of_any_text_can_be_shown(text: str, start: int, end: int) -> None:
    """Any span of any text yields two lines without control characters and of bounded width."""
    line, carets = underline(text, start, end).split("\n")

    assert line.isprintable()
    assert carets.strip().strip("^") == ""
    assert len(line) <= EXCERPT_WIDTH + 20
