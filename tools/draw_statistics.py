"""Draw docs/pictures/statistics-*.svg, from predictable noise and from measured results."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import vl_convert
from scipy import special, stats
from tools.draw_pictures import (
    BLUE,
    CONFIG,
    GREEN,
    GREY,
    ORANGE,
    PICTURES,
    VEGA_LITE,
    PredictableEntropy,
)

from confide.curator import Curator
from confide.declare import Budget, Float, Table

Chart = dict[str, Any]
ROWS = 20_000


def mixture_pdf(x: Any) -> Any:
    """Return the density of the invented population."""
    return 0.6 * stats.norm.pdf(x, 35, 8) + 0.4 * stats.norm.pdf(x, 62, 6)


def mixture_cdf(x: Any) -> Any:
    """Return the distribution function of the invented population."""
    return 0.6 * stats.norm.cdf(x, 35, 8) + 0.4 * stats.norm.cdf(x, 62, 6)


def make_curator() -> Curator:
    """Return a curator of invented rows with predictable noise, which is only fit for charts."""
    source = PredictableEntropy("statistics")
    uniform = source.words(2 * ROWS).astype(np.float64) / 2.0**64
    first = uniform[:ROWS] < 0.6
    normal = special.ndtri(np.clip(uniform[ROWS:], 1e-12, 1 - 1e-12))
    x = np.where(first, 35 + 8 * normal, 62 + 6 * normal)
    frame = pa.table({"pid": np.arange(ROWS), "x": x})
    table = Table("people", frame, unit="pid", columns={"x": Float(0, 100)}, unique=True)
    curator = Curator([table], budget=Budget(10))
    # A chart needs the same noise in every run.
    curator._executor = replace(curator._executor, entropy=source)  # noqa: SLF001
    return curator


def draw_density(curator: Curator) -> Chart:
    """Chart an estimated density, its confidence band, and the true density."""
    chart = curator.density("people", "x", epsilon=0.5).plot().spec
    x = np.linspace(0, 100, 401)
    truth = [{"x": float(a), "truth": float(b)} for a, b in zip(x, mixture_pdf(x), strict=True)]
    line = {
        "data": {"values": truth},
        "mark": {"type": "line", "color": ORANGE, "strokeWidth": 1.5},
        "encoding": {
            "x": {"field": "x", "type": "quantitative"},
            "y": {"field": "truth", "type": "quantitative"},
        },
    }
    return {**chart, "width": 520, "height": 240, "layer": [*chart["layer"], line]}


def draw_quantiles(curator: Curator) -> Chart:
    """Chart nine quantiles with their intervals along the distribution function."""
    levels = [place / 10 for place in range(1, 10)]
    found = curator.quantiles("people", "x", levels, epsilon=0.1)
    points = [
        {"level": level, "value": value, "low": low, "high": high}
        for level, value, (low, high) in zip(levels, found.value, found.interval(), strict=True)
    ]
    x = np.linspace(0, 100, 401)
    truth = [{"x": float(a), "level": float(b)} for a, b in zip(x, mixture_cdf(x), strict=True)]
    level = {"field": "level", "type": "quantitative", "title": "level"}
    line = {"x": {"field": "x", "type": "quantitative", "title": "x"}, "y": level}
    bars = {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}, "y": level}
    dots = {"x": {"field": "value", "type": "quantitative"}, "y": level}
    return {
        "width": 520,
        "height": 240,
        "layer": [
            {
                "data": {"values": truth},
                "mark": {"type": "line", "color": ORANGE},
                "encoding": line,
            },
            {
                "data": {"values": points},
                "mark": {"type": "rule", "color": BLUE, "strokeWidth": 3},
                "encoding": bars,
            },
            {
                "data": {"values": points},
                "mark": {"type": "point", "color": BLUE, "filled": True, "size": 30, "opacity": 1},
                "encoding": dots,
            },
        ],
    }


def draw_efficiency() -> Chart:
    """Chart the measured efficiency of sample and aggregate."""
    figures = json.loads((PICTURES / "statistics-figures.json").read_text(encoding="utf-8"))
    across = _log_axis("scale", "epsilon n^(1/4)", [3, 50], [3, 5, 10, 20, 30, 50])
    up = _log_axis("ratio", "squared error with noise / without", [0.7, 100], [1, 2, 5, 10, 50])
    colors = {"range": [BLUE, ORANGE]}
    by_epsilon = {"field": "epsilon", "type": "nominal", "title": "epsilon", "scale": colors}
    encoding = {"x": across, "y": up, "color": by_epsilon}
    one = {
        "data": {"values": [{"ratio": 1}]},
        "mark": {"type": "rule", "color": GREY, "strokeDash": [4, 4]},
        "encoding": {"y": up},
    }
    line = {
        "data": {"values": figures["blocks"]},
        "mark": {"type": "line", "point": True},
        "encoding": encoding,
    }
    return {"width": 520, "height": 240, "layer": [one, line]}


def _log_axis(name: str, title: str, domain: list[float], ticks: list[float]) -> Chart:
    return {
        "field": name,
        "type": "quantitative",
        "title": title,
        "scale": {"type": "log", "domain": domain, "nice": False},
        "axis": {"values": ticks},
    }


def draw_rate() -> Chart:
    """Chart the error of a density against the number of rows at epsilon = n^(-1/3)."""
    figures = json.loads((PICTURES / "statistics-figures.json").read_text(encoding="utf-8"))
    found = [row for row in figures["density"] if (row["law"], row["factor"]) == ("normal", 1.0)]
    points = [
        {"rows": row["rows"], "histogram": name, "error": row["without noise"] * ratio}
        for row in found
        for name, ratio in (
            ("without noise", 1.0),
            ("same bins", row["same bins"]),
            ("chosen bins", row["chosen bins"]),
        )
    ]
    first = found[0]["rows"], found[0]["without noise"]
    slope = [
        {"rows": row["rows"], "error": first[1] * (row["rows"] / first[0]) ** (-1 / 3)}
        for row in found
    ]
    rows = _log_axis("rows", "rows", [900, 110_000], [1_000, 3_000, 10_000, 30_000, 100_000])
    error = _log_axis("error", "L2 error", [0.0025, 0.03], [0.003, 0.005, 0.01, 0.02, 0.03])
    by_name = {
        "field": "histogram",
        "type": "nominal",
        "title": "histogram",
        "scale": {
            "domain": ["without noise", "same bins", "chosen bins"],
            "range": [GREEN, BLUE, ORANGE],
        },
    }
    return {
        "width": 520,
        "height": 240,
        "layer": [
            {
                "data": {"values": slope},
                "mark": {"type": "line", "color": GREY, "strokeDash": [4, 4]},
                "encoding": {"x": rows, "y": error},
            },
            {
                "data": {"values": points},
                "mark": {"type": "line", "point": True},
                "encoding": {"x": rows, "y": error, "color": by_name},
            },
        ],
    }


def main() -> None:
    """Write every chart."""
    curator = make_curator()
    charts = {
        "density": draw_density(curator),
        "quantiles": draw_quantiles(curator),
        "efficiency": draw_efficiency(),
        "rate": draw_rate(),
    }
    for name, chart in charts.items():
        spec = {**chart, "config": CONFIG}
        spec.pop("$schema", None)
        text = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
        (PICTURES / f"statistics-{name}.svg").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
