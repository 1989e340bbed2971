"""Charts of estimates, as Vega-Lite specifications."""

from typing import Any

from confide.release.display import SCHEMA, Chart
from confide.statistics.reading import Floats

__all__ = ["draw_density"]

BLUE = "#2f6db5"


def draw_density(name: str, edges: Floats, height: Floats, low: Floats, high: Floats) -> Chart:
    """Return a density as steps, with its band behind."""
    columns = (edges[:-1], edges[1:], height, low, high)
    values = [
        {"from": left, "to": right, "density": value, "low": bottom, "high": top}
        for left, right, value, bottom, top in zip(*(c.tolist() for c in columns), strict=True)
    ]
    place = {"field": "from", "type": "quantitative", "title": name, "scale": {"zero": False}}
    across: dict[str, Any] = {"x": place, "x2": {"field": "to"}}
    band = {**across, "y": _height("low"), "y2": {"field": "high"}}
    line = {**across, "y": _height("density")}
    layers = [
        {"mark": {"type": "rect", "opacity": 0.25, "color": BLUE}, "encoding": band},
        {"mark": {"type": "rule", "strokeWidth": 2, "color": BLUE}, "encoding": line},
    ]
    return Chart({"$schema": SCHEMA, "data": {"values": values}, "layer": layers})


def _height(field: str) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "title": "density"}
