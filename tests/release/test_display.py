"""How an answer looks in a terminal and as a chart."""

import json
import math
from datetime import date
from pathlib import Path
from typing import Any

from confide.declare import Category, Column, Date, Float
from confide.release.display import draw_chart
from support.neighbours import open_one


def test_an_answer_prints_as_a_table() -> None:
    """Names, keys, values with their intervals and the cost stand in lines of equal places."""
    rows = [{"who": n, "k": "ab"[n % 2], "x": 4.0} for n in range(10)]
    columns: dict[str, Column] = {"k": Category(["a", "b"]), "x": Float(0, 8)}
    curator = open_one(rows, columns, unique=True)
    text = "SELECT k, COUNT(*) AS n, AVG(x) AS m FROM p GROUP BY k ORDER BY k"
    head, *lines, last = str(curator.sql(text, epsilon=1e9)).splitlines()

    assert ["k", "n", "m"] == head.split()
    assert [["a", "5", "[5,"], ["b", "5", "[5,"]] == [line.split()[:3] for line in lines]
    assert all(line.count("[") == 2 == line.count("]") for line in lines)
    assert 1 == len({len(line) for line in (head, *lines)})
    assert last.startswith("95 % intervals in brackets; cost ")


def test_an_answer_without_rows_prints_its_head() -> None:
    """An answer that has no group is a head, a sentence that says how that can be, and a foot."""
    curator = open_one([{"who": 1, "x": 4.0}], {"x": Float(0, 8)}, unique=True)
    answer = curator.sql("SELECT COUNT(*) AS n FROM p HAVING COUNT(*) > 1000000", epsilon=1)
    head, why, _ = str(answer).splitlines()

    assert ["n"] == head.split()
    assert why.startswith("No group is shown")
    assert "No group is shown" in answer._repr_html_()


def test_a_terminal_obeys_no_key() -> None:
    """A key that holds the codes of a terminal is printed with their names, in one line."""
    key = "a\x1b[2J\nb"
    curator = open_one([{"who": 1, "k": key}], {"k": Category([key])}, unique=True)
    printed = str(curator.sql("SELECT k, COUNT(*) AS n FROM p GROUP BY k", epsilon=1))

    assert 3 == len(printed.splitlines())
    assert all(line.isprintable() for line in printed.splitlines())


def test_a_chart_finds_columns_whose_names_have_dots() -> None:
    """Keys and numbers alike are named as Vega reads names, and shown as the analyst gave them."""
    rows = [{"a.b": "x", "c[0]": "y", "n.1": 3.0}]
    ends = [{"n.1_low": 2.0, "n.1_high": 4.0}]
    (panel,) = draw_chart(["a.b", "c[0]"], ["n.1"], rows, ends).spec["hconcat"]
    dots = panel["layer"][1]["encoding"]

    assert ["a\\.b", "c\\[0\\]", "n\\.1"] == [dots[at]["field"] for at in ("y", "color", "x")]
    assert ["a.b", "c[0]", "n.1"] == [dots[at]["title"] for at in ("y", "color", "x")]


def test_values_without_a_whole_interval_are_not_drawn() -> None:
    """Where an end is infinitely far away or there is none, no dot stands alone on the chart."""
    rows: list[dict[str, Any]] = [{"k": "a", "n": 1.0}, {"k": "b", "n": 2.0}, {"k": "c", "n": None}]
    ends = [
        {"n_low": 0.5, "n_high": 1.5},
        {"n_low": -math.inf, "n_high": 3.0},
        {"n_low": math.nan, "n_high": math.nan},
    ]
    nothing = {"n": None, "n_low": None, "n_high": None}
    values = draw_chart(["k"], ["n"], rows, ends).spec["data"]["values"]

    assert [{**rows[0], **ends[0]}, {"k": "b", **nothing}, {"k": "c", **nothing}] == values


def test_days_are_an_axis_of_time(tmp_path: Path) -> None:
    """An answer by years has a chart that JSON holds and a picture can be made of."""
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


def test_a_day_goes_before_other_keys_unless_one_is_missing() -> None:
    """The first key that is a day everywhere is the axis; a group without a day is still drawn."""
    ends = [{"n_low": 2.0, "n_high": 4.0}] * 2
    rows: list[dict[str, Any]] = [{"k": "a", "d": date(2020, 1, 1), "n": 3.0}] * 2
    (panel,) = draw_chart(["k", "d"], ["n"], rows, ends).spec["hconcat"]
    (beside,) = draw_chart(["d"], ["n"], [*rows[:1], {"d": None, "n": 3.0}], ends).spec["hconcat"]

    assert ("d", "k") == tuple(panel["layer"][1]["encoding"][at]["field"] for at in ("x", "color"))
    assert "nominal" == beside["layer"][1]["encoding"]["y"]["type"]


def test_groups_of_three_keys_are_told_apart() -> None:
    """Keys beside the axis are one label together, which takes no other column's place."""
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
