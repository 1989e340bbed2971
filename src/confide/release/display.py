"""Tables, DataFrames, and Vega-Lite charts of an `Answer`, for notebooks and consoles."""

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
    "ESTIMATE_ADVICE",
    "NO_GROUP",
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
NOMINAL_AXIS: Final = {"type": "nominal", "sort": None}
TIME_AXIS: Final = {"type": "temporal", "scale": {"type": "utc"}}
"""UTC, so that a date is the same in every time zone."""
INTERVAL_SUFFIXES: Final = ("", "_low", "_high")
MAX_SHOWN_ROWS: Final = 200
SIGNIFICANT_DIGITS: Final = 5
MIN_PLAIN_NUMBER, MAX_PLAIN_NUMBER = 1e-4, 1e15
ROWS_ADVICE: Final = "use `.rows` and `.interval_rows(0.95)`"
ESTIMATE_ADVICE: Final = "use `.value`, `.standard_error`, and `.interval(0.95)`"
"""Advice if a package is missing: attributes that need none, in place of a DataFrame."""
NO_GROUP: Final = (
    "No group is shown. An undeclared key is shown only if enough units share it; `explain` shows "
    "how many. HAVING and LIMIT remove groups, too."
)


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart as a Vega-Lite specification, which notebooks render themselves."""

    spec: dict[str, Any]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        del include, exclude
        return {MIME: self.spec, "text/plain": "A chart with error bars."}

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
                raise BadArgument(
                    f"A chart can be saved only as .svg or .png; got {target.name!r}."
                )


def import_converter() -> Any:
    """Return the package that renders charts, or raise an error that shows how to install it."""
    need = "This chart needs another package"
    return require_package("vl_convert", need, "vl-convert-python")


def import_frames(package: str, instead: str = ROWS_ADVICE) -> Any:
    """Return a DataFrame package by name, or raise an error that suggests an alternative."""
    return require_package(package, f"This DataFrame needs {package}", package, instead=instead)


def write_arrow(columns: Sequence[str], rows: Rows) -> Any:
    """Return an Arrow table; columns with integers beyond 64 bits become decimals."""
    pa = import_frames("pyarrow")
    cells = {name: [row[name] for row in rows] for name in columns}
    return pa.table({name: _fit_int64(column) for name, column in cells.items()})


def _fit_int64(column: list[Any]) -> list[Any]:
    if all(not isinstance(cell, int) or abs(cell) < 2**63 for cell in column):
        return column
    return [None if cell is None else Decimal(cell) for cell in column]


def write_table(
    columns: Sequence[str], rows: Rows, ends: Rows, footer: str, notes: Sequence[str] = ()
) -> str:
    """Return an HTML table of the values, with the interval next to each noisy number."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(_html_cell(name, row[name], end) for name in columns) + "</tr>"
        for row, end in list(zip(rows, ends, strict=True))[:MAX_SHOWN_ROWS]
    )
    more = "".join(f"<p>{escape(line)}</p>" for line in (*_remarks(rows), *notes))
    return f"<table><tr>{head}</tr>{body}</table>{more}<p>{escape(footer)}</p>"


def write_footer(*, is_noisy: bool, cost: object, level: float = 0.95) -> str:
    """Return the line below a table: the meaning of brackets if it has any, and the cost."""
    brackets = f"{100 * level:.12g}% intervals in brackets; " if is_noisy else ""
    return f"{brackets}cost {cost}"


def write_text(
    columns: Sequence[str], rows: Rows, ends: Rows, footer: str, notes: Sequence[str] = ()
) -> str:
    """Return the table as plain text, for a terminal."""
    shown = list(zip(rows, ends, strict=True))[:MAX_SHOWN_ROWS]
    head = [plain(name) for name in columns]
    cells = [[_text_cell(name, row[name], end) for name in columns] for row, end in shown]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    lines = [
        "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True))
        for line in (head, *cells)
    ]
    return "\n".join([*lines, *_remarks(rows), *map(plain, notes), footer])


def _remarks(rows: Rows) -> list[str]:
    """Return remarks about a table that is truncated or empty."""
    if not rows:
        return [NO_GROUP]
    return [f"and {len(rows) - MAX_SHOWN_ROWS:,} more rows"] if len(rows) > MAX_SHOWN_ROWS else []


def plain(text: str) -> str:
    r"""Return a string with control characters escaped, so it is safe to print to a terminal.

    >>> plain("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def _text_cell(name: str, value: Any, ends: Mapping[str, Any]) -> str:
    if f"{name}_low" not in ends:
        return plain(_format_key(value))
    low, high = (_format(ends[f"{name}{end}"]) for end in INTERVAL_SUFFIXES[1:])
    return f"{_format(value)} [{low}, {high}]"


def _html_cell(name: str, value: Any, ends: Mapping[str, Any]) -> str:
    if f"{name}_low" not in ends:
        return f"<td>{escape(_format_key(value))}</td>"
    low, high = (_format(ends[f"{name}{end}"]) for end in INTERVAL_SUFFIXES[1:])
    return f"<td>{escape(_format(value))} <small>[{low}, {high}]</small></td>"


def _format_key(value: Any) -> str:
    """Return a key as text; integers, which may be years, have no commas."""
    return str(value) if type(value) is int else _format(value)


def _format(value: Any) -> str:
    """Return a value as text; floats are rounded to five digits, or to integers if they have more.

    Very large and very small floats are in scientific notation.

    >>> [_format(value) for value in (133_106.4, 0.00012, 642.0, -1_234.56, 0.0, 1e20, 1_234_567)]
    ['133,106', '0.00012', '642', '-1,234.6', '0', '1e+20', '1,234,567']
    """
    if not isinstance(value, float):
        return f"{value:,}" if type(value) is int else str(value)
    if not math.isfinite(value) or not MIN_PLAIN_NUMBER <= abs(value) < MAX_PLAIN_NUMBER:
        return f"{value:,.5g}"
    digits = max(0, SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(abs(value))))
    shown = f"{value:,.{digits}f}"
    return shown.rstrip("0").rstrip(".") if digits else shown


def write_value(value: Any) -> Any:
    """Return a value for JSON: fractions and dates as strings, null if not finite."""
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
    """Return a chart of each of the ``numbers`` against the keys, with error bars.

    The first key with dates becomes a time axis. If there is none, the first key is a nominal axis.
    The other keys together determine the color. A value without a finite interval is not drawn:
    without its error bar, the least certain value would look exact.
    """
    dated = next((key for key in keys if _is_dated(key, rows)), None)
    first = dated or (keys[0] if keys else None)
    others = [key for key in keys if key != first]
    label = _color_column(
        others, {*keys, *(f"{name}{end}" for name in numbers for end in INTERVAL_SUFFIXES)}
    )
    values = [
        {
            **{key: write_value(row[key]) for key in keys},
            **(
                {label: ", ".join(_format_key(row[key]) for key in others)}
                if len(others) > 1
                else {}
            ),
            **_plotted_values(row, end, numbers),
        }
        for row, end in zip(rows, ends, strict=True)
    ]
    axis = TIME_AXIS if dated else NOMINAL_AXIS
    place = {"field": _field(first), "title": first, **axis} if first else {"value": 0}
    shade = {"field": _field(label), "title": ", ".join(others), "type": "nominal", "sort": None}
    panels = [
        _panel(name, place, shade if others else None, is_dated=bool(dated)) for name in numbers
    ]
    return Chart({"$schema": SCHEMA, "data": {"values": values}, "hconcat": panels})


def _is_dated(key: str, rows: Rows) -> bool:
    """Return whether a key is a date in every row; NULL would have no position in time."""
    return bool(rows) and all(isinstance(row[key], date) for row in rows)


def _color_column(others: Sequence[str], taken: set[str]) -> str:
    """Return the name of the column that determines the color: a key, or a new one for several.

    A new column holds the values of all keys in ``others``; its name is not in ``taken``.
    """
    if len(others) == 1:
        return others[0]
    name = ", ".join(others)
    while name in taken:
        name += " "
    return name


def _plotted_values(row: Row, end: Row, numbers: Sequence[str]) -> dict[str, Any]:
    """Return each number and the ends of its interval, all None unless all three are finite."""
    found: dict[str, Any] = {}
    for name in numbers:
        plotted = {name: row[name], **{key: end[key] for key in (f"{name}_low", f"{name}_high")}}
        is_complete = all(value is not None and math.isfinite(value) for value in plotted.values())
        found |= plotted if is_complete else dict.fromkeys(plotted)
    return found


def _panel(
    name: str, place: dict[str, Any], shade: dict[str, Any] | None, *, is_dated: bool
) -> dict[str, Any]:
    """Return one number's dots and error bars, vertical over a time axis, otherwise horizontal.

    ``place`` and ``shade`` are the Vega-Lite encodings of the key's axis and of the color.
    """
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
    """Return a column name escaped for Vega, which treats dots and brackets as paths."""
    for special in ("\\", ".", "[", "]"):
        name = name.replace(special, f"\\{special}")
    return name
