"""Tables, frames and charts for notebooks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import Any, Final

from confide.errors import BadArgument
from confide.lazy import require_package

__all__ = [
    "NO_GROUP",
    "NUMBERS",
    "SCHEMA",
    "Chart",
    "draw_chart",
    "import_converter",
    "import_frames",
    "plain",
    "write_arrow",
    "write_footer",
    "write_table",
    "write_text",
    "write_value",
]

Row = Mapping[str, Any]
Rows = Sequence[Row]
MIME: Final = "application/vnd.vegalite.v5+json"
SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v5.json"
NAMES: Final = {"type": "nominal", "sort": None}
TIME: Final = {"type": "temporal", "scale": {"type": "utc"}}
"""A day is the same day wherever the chart is looked at."""
ENDS: Final = ("", "_low", "_high")
MOST_ROWS: Final = 200
DIGITS: Final = 5
SMALLEST, LARGEST = 1e-4, 1e15
CELLS: Final = "take .rows and .interval_rows(0.95)"
NUMBERS: Final = "take .value, .standard_error and .interval(0.95)"
"""What holds the same as a frame of an answer, or of an estimate, and needs no package."""
NO_GROUP: Final = (
    "No group is shown. A key that nobody declared is named only if enough units share it (explain "
    "tells how many); HAVING and LIMIT leave out others."
)


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart as a Vega-Lite specification; notebooks draw it by themselves."""

    spec: dict[str, Any]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        del include, exclude
        return {MIME: self.spec, "text/plain": "a chart with error bars"}

    def save(self, path: str | Path) -> None:
        """Write the chart as .svg or .png (needs the package vl-convert-python)."""
        target = Path(path)
        match target.suffix.lower():
            case ".svg":
                drawn = import_converter().vegalite_to_svg(self.spec)
                target.write_text(drawn, encoding="utf-8")
            case ".png":
                target.write_bytes(import_converter().vegalite_to_png(self.spec, scale=2))
            case _:
                raise BadArgument(f"a chart is saved as .svg or .png, got {target.name!r}")


def import_converter() -> Any:
    """Return the package that makes pictures of charts; without it, say what to type."""
    need = "this picture is made by another package"
    return require_package("vl_convert", need, "vl-convert-python")


def import_frames(package: str, instead: str = CELLS) -> Any:
    """Return a package of frames by its name; without it, say what to type or take instead."""
    return require_package(
        package, f"a frame like this needs {package}", f"{package}, or {instead}"
    )


def write_arrow(columns: Sequence[str], rows: Rows) -> Any:
    """Return an Arrow table; a column with whole numbers beyond 64 bits is one of decimals."""
    pa = import_frames("pyarrow")
    cells = {name: [row[name] for row in rows] for name in columns}
    return pa.table({name: _narrow(column) for name, column in cells.items()})


def _narrow(column: list[Any]) -> list[Any]:
    if all(not isinstance(cell, int) or abs(cell) < 2**63 for cell in column):
        return column
    return [None if cell is None else Decimal(cell) for cell in column]


def write_table(
    columns: Sequence[str], rows: Rows, ends: Rows, footer: str, notes: Sequence[str] = ()
) -> str:
    """Return an HTML table of the values, with the interval beside each number."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(_cell(name, row[name], end) for name in columns) + "</tr>"
        for row, end in list(zip(rows, ends, strict=True))[:MOST_ROWS]
    )
    more = "".join(f"<p>{escape(line)}</p>" for line in (*_remarks(rows), *notes))
    return f"<table><tr>{head}</tr>{body}</table>{more}<p>{escape(footer)}</p>"


def write_footer(*, is_noisy: bool, cost: object, level: float = 0.95) -> str:
    """Return what stands below a table: what its brackets are, if it has any, and its cost."""
    brackets = f"{100 * level:.12g} % intervals in brackets; " if is_noisy else ""
    return f"{brackets}cost {cost}"


def write_text(
    columns: Sequence[str], rows: Rows, ends: Rows, footer: str, notes: Sequence[str] = ()
) -> str:
    """Return the same as plain text, for a terminal."""
    shown = list(zip(rows, ends, strict=True))[:MOST_ROWS]
    head = [plain(name) for name in columns]
    cells = [[_line(name, row[name], end) for name in columns] for row, end in shown]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    lines = [
        "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True))
        for line in (head, *cells)
    ]
    return "\n".join([*lines, *_remarks(rows), *map(plain, notes), footer])


def _remarks(rows: Rows) -> list[str]:
    """Return what is to be said where a table has too many rows to show, or none."""
    if not rows:
        return [NO_GROUP]
    return [f"and {len(rows) - MOST_ROWS} rows more"] if len(rows) > MOST_ROWS else []


def plain(text: str) -> str:
    r"""Return a text without anything that a terminal would obey.

    >>> plain("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def _line(name: str, value: Any, ends: Mapping[str, Any]) -> str:
    if f"{name}_low" not in ends:
        return plain(_key(value))
    low, high = (_format(ends[f"{name}{end}"]) for end in ENDS[1:])
    return f"{_format(value)} [{low}, {high}]"


def _cell(name: str, value: Any, ends: Mapping[str, Any]) -> str:
    if f"{name}_low" not in ends:
        return f"<td>{escape(_key(value))}</td>"
    low, high = (_format(ends[f"{name}{end}"]) for end in ENDS[1:])
    return f"<td>{escape(_format(value))} <small>[{low}, {high}]</small></td>"


def _key(value: Any) -> str:
    """Return a key: a whole number, which may be a year, without commas."""
    return str(value) if type(value) is int else _format(value)


def _format(value: Any) -> str:
    """Return a number in five digits, with commas; only the largest and smallest have a power.

    >>> [_format(value) for value in (133_106.4, 0.00012, 642.0, -1_234.56, 0.0, 1e20, 1_234_567)]
    ['133,106', '0.00012', '642', '-1,234.6', '0', '1e+20', '1,234,567']
    """
    if not isinstance(value, float):
        return f"{value:,}" if type(value) is int else str(value)
    if not math.isfinite(value) or not SMALLEST <= abs(value) < LARGEST:
        return f"{value:,.5g}"
    digits = max(0, DIGITS - 1 - math.floor(math.log10(abs(value))))
    shown = f"{value:,.{digits}f}"
    return shown.rstrip("0").rstrip(".") if digits else shown


def write_value(value: Any) -> Any:
    """Return a value as JSON holds it: what is no finite number is missing."""
    match value:
        case float() if not math.isfinite(value):
            return None
        case Fraction():
            return str(value)
        case date():
            return value.isoformat()
        case _:
            return value


def draw_chart(keys: Sequence[str], numbers: Sequence[str], rows: Rows, ends: Rows) -> Chart:
    """Return a chart of each numeric column against the keys, with error bars.

    A key of days is an axis of time; else the first key has a line for each of its values. All
    other keys together are the colour. A value whose interval has an end infinitely far away, or
    none, is not drawn: without its bar the least certain one would look exact.
    """
    dated = next((key for key in keys if _is_dated(key, rows)), None)
    first = dated or (keys[0] if keys else None)
    others = [key for key in keys if key != first]
    label = _label(others, {*keys, *(f"{name}{end}" for name in numbers for end in ENDS)})
    values = [
        {
            **{key: write_value(row[key]) for key in keys},
            **({label: ", ".join(_key(row[key]) for key in others)} if len(others) > 1 else {}),
            **_drawn(row, end, numbers),
        }
        for row, end in zip(rows, ends, strict=True)
    ]
    axis = TIME if dated else NAMES
    place = {"field": _field(first), "title": first, **axis} if first else {"value": 0}
    shade = {"field": _field(label), "title": ", ".join(others), "type": "nominal", "sort": None}
    panels = [
        _panel(name, place, shade if others else None, is_dated=bool(dated)) for name in numbers
    ]
    return Chart({"$schema": SCHEMA, "data": {"values": values}, "hconcat": panels})


def _is_dated(key: str, rows: Rows) -> bool:
    """Tell whether a key is a day in every row; one that is missing has no place in time."""
    return bool(rows) and all(isinstance(row[key], date) for row in rows)


def _label(others: Sequence[str], taken: set[str]) -> str:
    """Return the column that tells groups of one place apart: a key, or a new one of several."""
    if len(others) == 1:
        return others[0]
    name = ", ".join(others)
    while name in taken:
        name += " "
    return name


def _drawn(row: Row, end: Row, numbers: Sequence[str]) -> dict[str, Any]:
    """Return numbers with both ends where all three are there, else nothing in their place."""
    found: dict[str, Any] = {}
    for name in numbers:
        three = {name: row[name], **{one: end[one] for one in (f"{name}_low", f"{name}_high")}}
        is_whole = all(one is not None and math.isfinite(one) for one in three.values())
        found |= three if is_whole else dict.fromkeys(three)
    return found


def _panel(
    name: str, place: dict[str, Any], shade: dict[str, Any] | None, *, is_dated: bool
) -> dict[str, Any]:
    """Return one number's dots and bars: upright over time, else lying beside the names."""
    across, along = ("y", "x") if is_dated else ("x", "y")
    low = {"field": _field(f"{name}_low"), "type": "quantitative", "title": name}
    high = {"field": _field(f"{name}_high")}
    dot = {"field": _field(name), "type": "quantitative", "title": name}
    common = {along: place} if shade is None else {along: place, "color": shade}
    bars = {across: low, f"{across}2": high, **common}
    dots = {across: dot, **common}
    return {
        "layer": [
            {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": bars},
            {"mark": {"type": "point", "filled": True, "size": 60}, "encoding": dots},
        ]
    }


def _field(name: str) -> str:
    """Return a column's name as Vega reads it: dots and brackets are part of the name."""
    for special in ("\\", ".", "[", "]"):
        name = name.replace(special, f"\\{special}")
    return name
