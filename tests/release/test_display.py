"""Answers display as text in a terminal, as charts, and as pictures."""

import json
import math
from datetime import date
from pathlib import Path
from typing import Any

from confide.declare import Category, Column, Date, Float
from confide.release.display import draw_chart
from support.neighbours import open_one


def test_an_answer_prints_as_a_table() -> None:
    """Names, keys, values with intervals, and the cost are printed in aligned columns."""
    rows = [{"who": n, "k": "ab"[n % 2], "x": 4.0} for n in range(10)]
    columns: dict[str, Column] = {"k": Category(["a", "b"]), "x": Float(0, 8)}
    curator = open_one(rows, columns, unique=True)
    text = "SELECT k, COUNT(*) AS n, AVG(x) AS m FROM p GROUP BY k ORDER BY k"
    head, *lines, last = str(curator.sql(text, epsilon=1e9)).splitlines()

    assert ["k", "n", "m"] == head.split()
    assert [["a", "5", "[5,"], ["b", "5", "[5,"]] == [line.split()[:3] for line in lines]
    assert all(line.count("[") == 2 == line.count("]") for line in lines)
    assert 1 == len({len(line) for line in (head, *lines)})
    assert last.startswith("95% intervals in brackets; cost ")


def test_an_answer_without_rows_prints_its_header() -> None:
    """An answer without groups prints its header, an explanation, and its footer."""
    curator = open_one([{"who": 1, "x": 4.0}], {"x": Float(0, 8)}, unique=True)
    answer = curator.sql("SELECT COUNT(*) AS n FROM p HAVING COUNT(*) > 1000000", epsilon=1)
    head, why, _ = str(answer).splitlines()

    assert ["n"] == head.split()
    assert why.startswith("No group is shown")
    assert "No group is shown" in answer._repr_html_()


def test_control_codes_in_keys_are_escaped() -> None:
    """Terminal control codes in a key are printed escaped, on one line."""
    key = "a\x1b[2J\nb"
    curator = open_one([{"who": 1, "k": key}], {"k": Category([key])}, unique=True)
    printed = str(curator.sql("SELECT k, COUNT(*) AS n FROM p GROUP BY k", epsilon=1))

    assert 3 == len(printed.splitlines())
    assert all(line.isprintable() for line in printed.splitlines())


def test_column_names_with_dots_are_escaped_in_charts() -> None:
    """Column names with dots are escaped for Vega and shown as the analyst wrote them."""
    rows = [{"a.b": "x", "c[0]": "y", "n.1": 3.0}]
    ends = [{"n.1_low": 2.0, "n.1_high": 4.0}]
    (panel,) = draw_chart(["a.b", "c[0]"], ["n.1"], rows, ends).spec["hconcat"]
    dots = panel["layer"][1]["encoding"]

    assert ["a\\.b", "c\\[0\\]", "n\\.1"] == [dots[at]["field"] for at in ("y", "color", "x")]
    assert ["a.b", "c[0]", "n.1"] == [dots[at]["title"] for at in ("y", "color", "x")]


def test_values_without_a_complete_interval_are_not_drawn() -> None:
    """A value with an infinite or missing interval end is not drawn."""
    rows: list[dict[str, Any]] = [{"k": "a", "n": 1.0}, {"k": "b", "n": 2.0}, {"k": "c", "n": None}]
    ends = [
        {"n_low": 0.5, "n_high": 1.5},
        {"n_low": -math.inf, "n_high": 3.0},
        {"n_low": math.nan, "n_high": math.nan},
    ]
    nothing = {"n": None, "n_low": None, "n_high": None}
    values = draw_chart(["k"], ["n"], rows, ends).spec["data"]["values"]

    assert [{**rows[0], **ends[0]}, {"k": "b", **nothing}, {"k": "c", **nothing}] == values


def test_dates_are_a_time_axis(tmp_path: Path) -> None:
    """An answer by year has a chart that serializes to JSON and renders as a picture."""
    rows = [{"who": n, "day": date(2020 + n % 3, 5, 1)} for n in range(9)]
    curator = open_one(rows, {"day": Date("2020-01-01", "2022-12-31")})
    text = "SELECT DATE_TRUNC('year', day) AS y, COUNT(*) AS n FROM p GROUP BY y"
    chart = curator.sql(text, epsilon=1).plot()
    (panel,) = chart.spec["hconcat"]

    assert {"type": "temporal", "scale": {"type": "utc"}, "field": "y", "title": "y"} == (
        panel["layer"][0]["encoding"]["x"]
    )
    assert "2020-01-01" == chart.spec["data"]["values"][0]["y"]
    assert json.loads(json.dumps(chart._repr_mimebundle_()))
    chart.save(tmp_path / "chart.svg")
    assert (tmp_path / "chart.svg").read_text().startswith("<svg")


def test_a_date_key_is_the_axis_unless_a_date_is_missing() -> None:
    """The first key with a date in every row is the axis; a group without a date is still drawn."""
    ends = [{"n_low": 2.0, "n_high": 4.0}] * 2
    rows: list[dict[str, Any]] = [{"k": "a", "d": date(2020, 1, 1), "n": 3.0}] * 2
    (panel,) = draw_chart(["k", "d"], ["n"], rows, ends).spec["hconcat"]
    (beside,) = draw_chart(["d"], ["n"], [*rows[:1], {"d": None, "n": 3.0}], ends).spec["hconcat"]

    assert ("d", "k") == tuple(panel["layer"][1]["encoding"][at]["field"] for at in ("x", "color"))
    assert "nominal" == beside["layer"][1]["encoding"]["y"]["type"]


def test_groups_of_three_keys_have_distinct_labels() -> None:
    """Keys other than the axis share one label, which does not replace any other column."""
    rows = [{"a": "x", "b": b, "c": c, "b, c": 3.0} for b in (True, False) for c in "uv"]
    ends = [{"b, c_low": 2.0, "b, c_high": 4.0}] * 4
    chart = draw_chart(["a", "b", "c"], ["b, c"], rows, ends)
    (panel,) = chart.spec["hconcat"]
    shade = panel["layer"][1]["encoding"]["color"]

    assert "b, c" == shade["title"]
    assert ["True, u", "True, v", "False, u", "False, v"] == [
        value[shade["field"]] for value in chart.spec["data"]["values"]
    ]
    assert {3.0} == {value["b, c"] for value in chart.spec["data"]["values"]}
