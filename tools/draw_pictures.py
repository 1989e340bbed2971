"""Draw the charts of docs/pictures from the distributions and mechanisms of the package.

Each run writes the same bytes: charts that need noise draw it from a predictable source, which is
only fit for charts. With ``--png folder``, the charts are also written there as PNG.
"""

import argparse
import hashlib
import json
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import vl_convert
from numpy.typing import NDArray
from scipy import special

from confide.loss import mu_squared_for
from confide.mechanisms import Box, KNorm, Laplace, Polytope

Chart = dict[str, Any]
Row = dict[str, Any]
Floats = NDArray[np.float64]

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
VEGA_LITE = "6.1"
EPSILON, DELTA = 1, Fraction(1, 10**6)
SIGMA = float(mu_squared_for(EPSILON, DELTA)) ** -0.5
BLUE, ORANGE, GREEN, GREY, INK = "#2f6db5", "#d9701e", "#2f8f5b", "#8a8a8a", "#333333"
DOTS, REACH = 400, 11
STEPS = 1000
"""Grid steps for one unit of count in the scatter plot, to keep points from overlapping."""

CONFIG: Chart = {
    "aria": False,
    "background": "white",
    "font": "sans-serif",
    "view": {"stroke": None},
    "axis": {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"},
    "axisX": {"gridColor": "#eeeeee", "domainColor": GREY, "tickColor": GREY, "titlePadding": 8},
    "axisY": {"gridColor": "#eeeeee", "domainColor": GREY, "tickColor": GREY, "titlePadding": 8},
    "legend": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"},
    "title": {"fontSize": 13, "fontWeight": "normal", "subtitleFontSize": 11, "subtitleColor": INK},
}


class PredictableEntropy:
    """Entropy that is the same in every run, from a hash of a name and a counter."""

    def __init__(self, name: str) -> None:
        self.name, self.calls = name, 0

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return ``count`` words."""
        self.calls += 1
        label = f"{self.name} {self.calls}".encode()
        return np.frombuffer(hashlib.shake_256(label).digest(8 * count), dtype="<u8")


def expected_largest(beyond: Floats, count: int) -> float:
    """Return the expected largest of ``count`` independent integer magnitudes.

    ``beyond[w]`` is the probability that one of them exceeds w. The mean of a nonnegative integer
    is the sum over w of the probability that it exceeds w.
    """
    return float(-np.expm1(count * np.log1p(-beyond)).sum())


def laplace_error(count: int) -> float:
    """Return the expected largest error of ``count`` counts with discrete Laplace noise."""
    scale = count / EPSILON
    steps = np.arange(1, 60 * scale + 50)
    return expected_largest(2 * np.exp(-steps / scale) / (1 + math.exp(-1 / scale)), count)


def gaussian_error(count: int) -> float:
    """Return the expected largest error of ``count`` counts with rounded normal noise."""
    sigma = SIGMA * math.sqrt(count)
    ends = np.arange(12 * sigma + 50) + 0.5
    return expected_largest(special.erfc(ends / (sigma * math.sqrt(2))), count)


def box_error(count: int) -> float:
    """Return the expected largest error of ``count`` counts with l-infinity noise.

    Before rounding, the largest error has the distribution Gamma(count) / epsilon.
    """
    ends = np.arange(count + 60 * math.sqrt(count) + 50) + 0.5
    return float(special.gammaincc(count, ends * EPSILON).sum())


ERRORS = {
    "Laplace": laplace_error,
    "l-infinity noise": box_error,
    "Gaussian": gaussian_error,
}


def first_worse(name: str) -> int:
    """Return the smallest number of counts for which Gaussian noise beats the named noise."""
    return next(k for k in range(1, 1001) if ERRORS[name](k) > gaussian_error(k))


def crossing() -> Chart:
    """Chart the expected largest error of k counts for three kinds of noise."""
    counts = sorted({round(10 ** (step / 20)) for step in range(61)})
    rows = [{"k": k, "error": f(k), "noise": name} for name, f in ERRORS.items() for k in counts]
    logarithmic = {"type": "quantitative", "scale": {"type": "log", "nice": False}}
    place = {
        "x": {**logarithmic, "field": "k", "title": "k, counts released together"},
        "y": {**logarithmic, "field": "error", "title": "expected largest error"},
    }
    place["x"]["axis"], place["y"]["axis"] = _decades(3), _decades(4)
    color = {
        "field": "noise",
        "scale": {"domain": [*ERRORS], "range": [ORANGE, GREEN, BLUE]},
        "legend": {"title": None, "orient": "top-left", "symbolStrokeWidth": 3},
    }
    line = {"mark": {"type": "line", "strokeWidth": 2.5}, "encoding": {**place, "color": color}}
    subtitle = "epsilon = 1, for Gaussian delta = 1e-6; one unit may change all k counts by 1"
    return {
        "title": {
            "text": "Where Gaussian noise becomes the better choice",
            "subtitle": subtitle,
            "anchor": "start",
        },
        "width": 460,
        "height": 320,
        "data": {"values": _rounded(rows)},
        "layer": [
            line,
            *_label(first_worse("Laplace"), place, {"align": "right", "dx": -8, "dy": -12}),
            *_label(first_worse("l-infinity noise"), place, {"align": "left", "dx": 0, "dy": 24}),
        ],
    }


def _label(count: int, place: Chart, where: Chart) -> Iterator[Chart]:
    """Yield a dot on the Gaussian line, and its label."""
    data = {"values": [{"k": count, "error": gaussian_error(count)}]}
    text = {"type": "text", "text": f"Gaussian from k = {count}", "fontSize": 12, "color": INK}
    dot = {"type": "point", "filled": True, "size": 60, "color": INK, "opacity": 1}
    yield {"data": data, "mark": dot, "encoding": place}
    yield {"data": data, "mark": {**text, **where}, "encoding": place}


def _decades(last: int) -> Chart:
    return {"values": [10**power for power in range(last + 1)], "format": ",d"}


def choice_laws(scores: list[float]) -> dict[str, list[float]]:
    """Return the distribution of both selection mechanisms at rate 1.

    With a_i = exp(score_i - best), permute-and-flip chooses i with probability a_i times the
    integral over u in [0, 1] of prod (1 - a_j u) over the others; see docs/proofs/mechanisms.md.
    """
    heights = [math.exp(score - max(scores)) for score in scores]
    flips = []
    for index, height in enumerate(heights):
        others = np.polynomial.Polynomial([1.0])
        for other in heights[:index] + heights[index + 1 :]:
            others *= np.polynomial.Polynomial([1.0, -other])
        flips.append(height * float(others.integ()(1.0)))
    return {
        "permute-and-flip": flips,
        "exponential": [height / sum(heights) for height in heights],
    }


def shortfalls(candidates: int) -> Iterator[Row]:
    """Yield the expected regret of a choice among one best and equally worse candidates."""
    rivals = candidates - 1
    for gap in np.arange(0, 12.05, 0.05).tolist():
        chance = math.exp(-gap)
        flip = (1 - (1 - chance) ** candidates) / (candidates * chance)
        weigh = 1 / (1 + rivals * chance)
        for name, best in (("permute-and-flip", flip), ("exponential", weigh)):
            yield {"gap": gap, "short": gap * (1 - best), "d": str(candidates), "mechanism": name}


def selection() -> Chart:
    """Chart the distributions of both selection mechanisms, and their expected regret."""
    laws = choice_laws([0, 1, 2])
    bars = [
        {"score": str(score), "chance": chance, "label": f"{chance:.4f}", "mechanism": name}
        for name, chances in laws.items()
        for score, chance in enumerate(chances)
    ]
    color = {
        "field": "mechanism",
        "scale": {"domain": [*laws], "range": [GREEN, ORANGE]},
        "legend": {"title": "mechanism", "orient": "right"},
    }
    lines = [row for candidates in (2, 10, 100) for row in shortfalls(candidates)]
    return {
        "resolve": {"legend": {"color": "shared"}},
        "spacing": 40,
        "hconcat": [_bars(bars, color), _lines(lines, color)],
    }


def _bars(rows: list[Row], color: Chart) -> Chart:
    place = {
        "x": {"field": "score", "title": "score", "axis": {"labelAngle": 0, "grid": False}},
        "xOffset": {"field": "mechanism", "sort": [*color["scale"]["domain"]]},
        "y": {
            "field": "chance",
            "type": "quantitative",
            "title": "probability of the choice",
            "scale": {"domain": [0, 0.85], "nice": False},
        },
    }
    text = {"type": "text", "dy": -7, "fontSize": 10, "color": INK}
    return {
        "title": {"text": "Scores 0, 1, 2 with noise of scale 1", "anchor": "start"},
        "width": 270,
        "height": 260,
        "data": {"values": rows},
        "layer": [
            {"mark": "bar", "encoding": {**place, "color": color}},
            {"mark": text, "encoding": {**place, "text": {"field": "label"}}},
        ],
    }


def _lines(rows: list[Row], color: Chart) -> Chart:
    dash = {
        "field": "d",
        "scale": {"domain": ["2", "10", "100"], "range": [[1, 0], [6, 3], [2, 2]]},
        "legend": {"title": "candidates", "symbolStrokeColor": INK, "symbolSize": 400},
    }
    return {
        "title": {"text": "One best candidate, all others equally far below", "anchor": "start"},
        "width": 330,
        "height": 260,
        "data": {"values": _rounded(rows)},
        "mark": {"type": "line", "strokeWidth": 2},
        "encoding": {
            "x": {"field": "gap", "type": "quantitative", "title": "gap / scale of the noise"},
            "y": {"field": "short", "type": "quantitative", "title": "expected gap of the choice"},
            "color": color,
            "strokeDash": dash,
        },
    }


def shapes() -> Chart:
    """Chart draws of three kinds of noise for two counts that one unit can change together."""
    corners = [(1, 0), (0, 1), (1, 1)]
    wide = [tuple(STEPS * x for x in corner) for corner in corners]
    diamond = _scatter(
        "Laplace, sensitivity 2",
        Laplace(2 * STEPS, EPSILON),
        [(2, 0), (0, 2), (-2, 0), (0, -2)],
    )
    square = _scatter(
        "Box([1, 1])",
        KNorm(Box([STEPS, STEPS]), EPSILON),
        [(1, 1), (-1, 1), (-1, -1), (1, -1)],
    )
    hexagon = _scatter(
        "Polytope([(1, 0), (0, 1), (1, 1)])",
        KNorm(Polytope(wide), EPSILON),
        [(1, 0), (1, 1), (0, 1), (-1, 0), (-1, -1), (0, -1)],
    )
    return {
        "title": {
            "text": "Noise for two counts, both of which one unit may change by 1 (epsilon = 1)",
            "subtitle": "the outlines hold half and nine tenths of all draws",
            "offset": 14,
            "anchor": "start",
        },
        "spacing": 24,
        "hconcat": [diamond, square, hexagon],
    }


def _scatter(name: str, mechanism: Laplace | KNorm, body: list[tuple[int, int]]) -> Chart:
    zeros = np.zeros((DOTS, 2), dtype=np.int64)
    points = mechanism.release(zeros, entropy=PredictableEntropy(name)) / STEPS
    scale = {"domain": [-REACH, REACH], "nice": False}
    axis = {"values": [-10, -5, 0, 5, 10]}
    x = {"field": "x", "type": "quantitative", "scale": scale, "axis": axis, "title": None}
    place = {"x": x, "y": {**x, "field": "y"}}
    dots = [{"x": x, "y": y} for x, y in points[(np.abs(points) < REACH).all(axis=1)].tolist()]
    return {
        "title": {"text": name, "anchor": "start"},
        "width": 230,
        "height": 230,
        "layer": [
            {
                "data": {"values": _rounded(dots)},
                "mark": {"type": "point", "filled": True, "size": 9, "color": BLUE, "opacity": 0.6},
                "encoding": place,
            },
            {
                "data": {"values": _rounded(list(_outlines(body)))},
                "mark": {"type": "line", "color": ORANGE, "strokeWidth": 1.8},
                "encoding": {**place, "order": {"field": "turn"}, "detail": {"field": "share"}},
            },
        ],
    }


def _outlines(body: list[tuple[int, int]]) -> Iterator[Row]:
    """Yield the corners of the copies of ``body`` that contain half and nine tenths of the noise.

    In two dimensions, the factor by which the body must be scaled to reach the noise has the
    distribution Gamma(2) / epsilon.
    """
    for share in (0.5, 0.9):
        factor = float(special.gammaincinv(2, share)) / EPSILON
        for turn, (x, y) in enumerate([*body, body[0]]):
            yield {"x": factor * x, "y": factor * y, "turn": turn, "share": share}


def _rounded(rows: list[Row]) -> list[Row]:
    """Return the rows rounded to six digits, so that all machines write the same file."""
    return [
        {key: float(f"{x:.6g}") if isinstance(x, float) else x for key, x in row.items()}
        for row in rows
    ]


CHARTS = {
    "laplace-gaussian-crossing": crossing,
    "permute-and-flip-vs-exponential": selection,
    "knorm-shapes": shapes,
}


def main() -> None:
    """Write every chart."""
    parser = argparse.ArgumentParser(description="draw the pictures of the documents")
    parser.add_argument("--png", type=Path, help="write PNG files into this folder as well")
    wanted = parser.parse_args()
    PICTURES.mkdir(exist_ok=True)
    for name, chart in CHARTS.items():
        spec = json.dumps({"config": CONFIG, "padding": 12, **chart()})
        drawing = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
        (PICTURES / f"{name}.svg").write_text(drawing + "\n", encoding="utf-8")
        if wanted.png:
            image = vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=2)
            (wanted.png / f"{name}.png").write_bytes(image)


if __name__ == "__main__":
    main()
