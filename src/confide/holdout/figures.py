"""The four figures of the experiment, and those of guess-and-check, as one chart."""

import math
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any, Final

from confide.errors import BadDeclaration
from confide.holdout.experiment import METHODS, Curve, Result
from confide.release.display import SCHEMA, Chart, import_converter

__all__ = ["draw_result", "save_result", "write_page"]

LINES: Final = ("train", "holdout", "fresh")
COLOURS: Final = ("#9d755d", "#4c78a8", "#54a24b")
SIDE: Final = (260, 200)
USUAL: Final = (0.35, 0.75)
TICK: Final = 0.05


def draw_result(result: Result) -> Chart:
    """Return accuracies against the number of features: a column for each method."""
    domain = _domain(result.curves)
    rows = [
        {"hconcat": [_panel(result.curve(method, has_signal=signal), domain) for method in METHODS]}
        for signal in (False, True)
    ]
    title = (
        f"n = {result.rows:,}, {result.features:,} features, mean of {result.runs} runs; "
        "bands: one deviation, or the 95 % interval of guess-and-check"
    )
    return Chart({"$schema": SCHEMA, "title": title, "vconcat": rows})


def save_result(result: Result, path: str | Path) -> None:
    """Write the chart as .png or .svg, or with its numbers as .html."""
    target = Path(path)
    match target.suffix.lower():
        case ".png" | ".svg":
            draw_result(result).save(target)
        case ".html":
            target.write_text(write_page(result), encoding="utf-8")
        case _:
            raise BadDeclaration(f"figures are saved as .png, .svg or .html, got {target.name!r}")


def write_page(result: Result) -> str:
    """Return a page with the chart and a table; it needs no script and no other file."""
    chart = import_converter().vegalite_to_svg(draw_result(result).spec)
    head = "".join(f"<th>{name}</th>" for name in ("method", "signal", "k", *LINES))
    body = "".join(_table_rows(curve) for curve in result.curves)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        "<title>The reusable holdout: an experiment</title>"
        "<style>body{font:16px sans-serif;margin:2em;max-width:70em}td,th{padding:.2em .8em;"
        "text-align:left}svg{max-width:100%;height:auto}</style>"
        "<h1>The reusable holdout: an experiment</h1>"
        f"{chart}<table><tr>{head}</tr>{body}</table></html>\n"
    )


def _table_rows(curve: Curve) -> str:
    signal = "20 features" if curve.has_signal else "none"
    means = {line: getattr(curve, line).mean(axis=0) for line in LINES}
    return "".join(
        f"<tr><td>{escape(curve.method)}</td><td>{signal}</td><td>{k}</td>"
        + "".join(f"<td>{means[line][place]:.3f}</td>" for line in LINES)
        + "</tr>"
        for place, k in enumerate(curve.picks)
    )


def _domain(curves: Iterable[Curve]) -> list[float]:
    """Return ends of the y axis, the same in every panel, that leave out no line.

    Bands may go beyond: those of guess-and-check fill most of [0, 1] on few rows.
    """
    means = [getattr(curve, line).mean(axis=0) for curve in curves for line in LINES]
    low, high = (float(end(map(end, means))) for end in (min, max))
    return [
        min(USUAL[0], math.floor(low / TICK) * TICK),
        max(USUAL[1], math.ceil(high / TICK) * TICK),
    ]


def _panel(curve: Curve, domain: list[float]) -> dict[str, Any]:
    values = [point for line in LINES for point in _points(curve, line)]
    colour = {
        "field": "rows",
        "type": "nominal",
        "scale": {"domain": list(LINES), "range": list(COLOURS)},
        "title": None,
        "legend": {"symbolOpacity": 1},
    }
    across = {"field": "k", "type": "quantitative", "title": "number of features"}
    scale = {"domain": domain}
    up = {"field": "accuracy", "type": "quantitative", "title": "accuracy", "scale": scale}
    low = {"field": "low", "type": "quantitative", "scale": scale, "title": "accuracy"}
    band = {"x": across, "y": low, "y2": {"field": "high"}, "color": colour}
    signal = "20 features with signal" if curve.has_signal else "no signal"
    return {
        "title": [curve.method, signal],
        "width": SIDE[0],
        "height": SIDE[1],
        "data": {"values": values},
        "layer": [
            {"mark": {"type": "area", "opacity": 0.2, "clip": True}, "encoding": band},
            {
                "mark": {"type": "line", "clip": True},
                "encoding": {"x": across, "y": up, "color": colour},
            },
        ],
    }


def _points(curve: Curve, line: str) -> list[dict[str, Any]]:
    array = getattr(curve, line)
    mean, spread = array.mean(axis=0), array.std(axis=0)
    low, high = mean - spread, mean + spread
    if line == "holdout" and curve.method == METHODS[2]:
        low, high = curve.low.mean(axis=0), curve.high.mean(axis=0)
    return [
        {
            "rows": line,
            "k": k,
            "accuracy": round(float(mean[i]), 5),
            "low": round(float(low[i]), 5),
            "high": round(float(high[i]), 5),
        }
        for i, k in enumerate(curve.picks)
    ]
