"""Formatted values, files, and charts of an answer."""

import math
from dataclasses import dataclass
from datetime import date
from typing import Any, cast
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.ledger import Receipt
from confide.loss import Share
from confide.release import Answer, Cost
from confide.release.formatting import (
    Cell,
    Figures,
    draw_chart,
    draw_charts,
    figures_of,
    plain,
    to_csv,
    to_json,
)

SVG = "{http://www.w3.org/2000/svg}"
FLOAT = st.floats(-1e12, 1e12)


@dataclass
class Given:
    """An answer with given values and the attributes that the command line reads."""

    rows: list[dict[str, Any]]
    ends: list[dict[str, float]]
    cost = Cost(Share.floor("1/4").fraction, 0.5)
    receipt = Receipt(0, Share.floor("1/4"), "abc")
    reused = False
    notes = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.rows[0]) if self.rows else ("k", "x")

    def interval_rows(self, confidence: float = 0.95) -> list[dict[str, float]]:
        return self.ends


def given_answer(rows: list[dict[str, Any]], ends: list[dict[str, float]]) -> Answer:
    return cast("Answer", Given(rows, ends))


def test_digits_follow_the_narrowest_interval() -> None:
    """All rows of a column show two digits of its narrowest half-width."""
    rows = [{"k": "A", "x": 12.34567, "n": 1234}, {"k": "B", "x": 9.87654, "n": -3}]
    ends = [
        {"x_low": 12.0, "x_high": 12.5, "n_low": 1200.0, "n_high": 1268.0},
        {"x_low": 0.0, "x_high": 20.0, "n_low": -37.0, "n_high": 31.0},
    ]
    figures = figures_of(given_answer(rows, ends))

    assert ["12.35", "9.88"] == [cell.text for cell in figures.column("x")]
    assert ["12.00 to 12.50", "0.00 to 20.00"] == [cell.interval for cell in figures.column("x")]
    assert ["1,234", "-3"] == [cell.text for cell in figures.column("n")]
    assert (["x", "n"], ["A", "B"]) == (figures.noisy_columns(), figures.labels())


def test_unknown_values_are_shown_as_words() -> None:
    """NULL and unbounded intervals are shown as words, never as nan."""
    figures = figures_of(
        given_answer([{"k": None, "x": None}], [{"x_low": math.nan, "x_high": math.nan}])
    )

    assert [("unknown", ""), ("unknown", "unknown")] == [
        (cell.text, cell.interval) for cell in figures.rows[0]
    ]


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "  =1", "＝1", '=HYPERLINK("x")'],  # noqa: RUF001
)
def test_csv_guards_keys_and_headers(text: str) -> None:
    """No text cell of a CSV file, including headers, starts like a formula."""
    answer = given_answer([{text: text, "x": -1.5}], [{"x_low": -2.0, "x_high": -1.0}])
    head, row = to_csv(answer).replace('"', "").split("\n", maxsplit=1)

    assert head.startswith("'")
    assert row.startswith("'")
    assert row.rstrip().endswith(",-1.5,-2.0,-1.0")


def test_files_contain_no_nan() -> None:
    """NaN is an empty cell in CSV and null in JSON; dates are written as dates."""
    rows: list[dict[str, Any]] = [{"k": date(2020, 1, 31), "x": None}]
    answer = given_answer(rows, [{"x_low": math.nan, "x_high": math.inf}])

    assert "k,x,x_low,x_high\n2020-01-31,,,\n" == to_csv(answer)
    assert "NaN" not in to_json(answer)
    assert '"k": "2020-01-31"' in to_json(answer)


def test_csv_keeps_a_column_named_like_an_interval() -> None:
    """A value keeps its column even if another column's interval end has the same name."""
    ends = [{"n_low": 1.0, "n_high": 9.0, "n_low_low": 7.5, "n_low_high": 8.5}]
    written = to_csv(given_answer([{"n": 5, "n_low": 8.0}], ends))

    assert "n,n_low,n_low,n_high,n_low_low,n_low_high\n5,8.0,1.0,9.0,7.5,8.5\n" == written


def test_an_answer_without_rows_has_a_header() -> None:
    """An answer without rows still has its columns."""
    assert "k,x\n" == to_csv(given_answer([], []))


@given(text=st.text())
def test_plain_text_is_printable(text: str) -> None:
    """Plain text contains no terminal control codes."""
    assert plain(text).isprintable()


@given(values=st.lists(st.tuples(FLOAT, FLOAT, FLOAT), min_size=1, max_size=6), label=st.text())
def test_charts_stay_inside_their_frame(
    values: list[tuple[float, float, float]], label: str
) -> None:
    """For any values and labels, a chart is well-formed and every mark is inside its frame."""
    cells = [Cell(x, min(x, a, b), max(x, a, b), 2) for x, a, b in values]
    drawn = draw_chart(plain(label), [plain(label)] * len(cells), cells)
    chart = ET.fromstring(drawn)
    width = float(chart.attrib["width"])

    for mark in (*chart.iter(f"{SVG}rect"), *chart.iter(f"{SVG}circle")):
        left = float(mark.get("x", mark.get("cx", "0")))
        assert 0 <= left <= width
        assert left + float(mark.get("width", "0")) <= width + 0.2


def test_a_single_row_has_no_chart() -> None:
    """An answer with a single row has no chart, and a missing value is a word in a chart."""
    one = Cell(5, 1.0, 9.0)
    gone = Cell(None, math.nan, math.nan)

    assert [] == draw_charts(Figures(("n",), ((one,),)))
    assert "unknown" in draw_chart("n", ["A", "B"], [one, gone])
    assert "unknown" in draw_chart("n", ["A"], [gone])


def test_markup_in_labels_is_escaped() -> None:
    """A key that looks like markup is displayed as text."""
    drawn = draw_chart("<b>", ["<script>"], [Cell(5, 1.0, 9.0)])

    assert "<script>" not in drawn
    assert "&lt;script&gt;" in drawn
