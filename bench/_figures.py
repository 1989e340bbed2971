"""Stored results of `bench/scale.py`, and the table and chart made from them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
MAX_RATIO, MAX_MEGABYTES = 2.0, 300.0
ENGINE_NAMES: Final = {"duckdb": "DuckDB", "postgresql": "PostgreSQL", "spark": "Spark"}
COLUMNS: Final = [
    *("engine", "rows", "question", "raw s", "confide s", "ratio"),
    *("by processor time", "raw MB", "confide MB", "kept"),
]
PAGE: Final = ROOT / "docs" / "scale.md"
PICTURE: Final = ROOT / "docs" / "pictures" / "scale.svg"
STORED: Final = ROOT / "docs" / "pictures" / "scale-figures.json"
BEGIN: Final = "<!-- written by bench/scale.py -->"
END: Final = "<!-- up to here -->"


@dataclass(frozen=True, slots=True)
class Figures:
    """The measurements of one query on both sides."""

    engine: str
    rows: int
    question: str
    raw: dict[str, Any]
    ours: dict[str, Any]

    def is_of(self, engine: str, rows: int, question: str) -> bool:
        """Return whether these are the measurements of a query."""
        return (engine, rows, question) == (self.engine, self.rows, self.question)

    @property
    def ratio(self) -> float:
        """The time of a private answer divided by that of the raw aggregate."""
        return float(self.ours["seconds"] / self.raw["seconds"])

    @property
    def is_kept(self) -> bool:
        """Whether both targets are met."""
        return self.ratio <= MAX_RATIO and self.ours["megabytes"] < MAX_MEGABYTES

    def cells(self) -> list[str]:
        """Return a row of the table."""
        sides = [f"{side['seconds']:.2f}" for side in (self.raw, self.ours)]
        # PostgreSQL spends its processor time in the server.
        is_ours = self.engine != "postgresql"
        by_cpu = f"{self.ours['cpu'] / max(self.raw['cpu'], 0.01):.2f}" if is_ours else ""
        memory = [f"{side['megabytes']:,.0f}" for side in (self.raw, self.ours)]
        stored = "yes" if self.is_kept else "**no**"
        named = [ENGINE_NAMES[self.engine], f"10^{len(str(self.rows)) - 1}", self.question]
        return [*named, *sides, f"{self.ratio:.2f}", by_cpu, *memory, stored]


def read_stored() -> list[dict[str, Any]]:
    """Return all stored measurements."""
    stored: list[dict[str, Any]] = json.loads(STORED.read_text("utf-8")) if STORED.exists() else []
    return stored


def store(point: dict[str, Any]) -> None:
    """Store a measurement, replacing an earlier one of the same point."""
    others = [other for other in read_stored() if place_of(other) != place_of(point)]
    listed = sorted([*others, point], key=place_of)
    lines = ",\n".join(json.dumps(other) for other in listed)
    STORED.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def place_of(point: dict[str, Any]) -> tuple[str, int, str, str]:
    """Return the engine, rows, query, and side of a measurement."""
    return point["engine"], point["rows"], point["question"], point["side"]


def find_pairs(points: list[dict[str, Any]]) -> list[Figures]:
    """Return the queries whose two sides were both measured."""
    sides = {place_of(point): point for point in points}
    return [
        Figures(engine, rows, question, raw, sides[engine, rows, question, "confide"])
        for (engine, rows, question, side), raw in sides.items()
        if side == "raw" and (engine, rows, question, "confide") in sides
    ]


def write_page(pairs: list[Figures]) -> None:
    """Write the table between its markers on the page."""
    lines = [COLUMNS, ["---"] * len(COLUMNS), *(pair.cells() for pair in pairs)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", encoding="utf-8")


def draw(points: list[dict[str, Any]]) -> None:
    """Draw the times against the rows, both on logarithmic axes."""
    import vl_convert
    from tools.draw_pictures import CONFIG, VEGA_LITE

    def axis(name: str, title: str) -> dict[str, Any]:
        scale = {"type": "log", "nice": False}
        return {"field": name, "type": "quantitative", "scale": scale, "title": title}

    ticks = {"values": [10**6, 10**7, 10**8], "format": "~s"}
    layers = {
        "x": {**axis("rows", "rows"), "axis": ticks},
        "y": axis("seconds", "seconds"),
        "color": {"field": "engine", "type": "nominal", "title": None},
        "shape": {"field": "side", "type": "nominal", "title": None},
        "strokeDash": {"field": "side", "type": "nominal", "legend": None},
    }
    chart = {
        "config": CONFIG,
        "data": {
            "values": [{**point, "engine": ENGINE_NAMES[point["engine"]]} for point in points]
        },
        "columns": 2,
        "facet": {"field": "question", "type": "nominal", "title": None},
        "spec": {
            "width": 260,
            "height": 180,
            "mark": {"type": "line", "point": True},
            "encoding": layers,
        },
    }
    PICTURE.write_text(vl_convert.vegalite_to_svg(chart, VEGA_LITE), encoding="utf-8")
