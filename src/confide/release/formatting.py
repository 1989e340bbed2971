"""Rounded values, CSV, JSON, and SVG charts of an answer.

The command line, the web UI, and reports use them. They accept every `Tabular`: a local answer, or
one from a remote curator.
"""

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final, Protocol

from confide.exact import Number, percent
from confide.release.answer import Cost
from confide.release.display import NO_GROUP, plain, write_value

__all__ = [
    "NO_GROUP",
    "Cell",
    "Figures",
    "Tabular",
    "draw_chart",
    "draw_charts",
    "figures_of",
    "percent",
    "plain",
    "to_csv",
    "to_json",
]

DEFAULT_DECIMALS: Final = 3
MAX_DECIMALS: Final = 6


class Tabular(Protocol):
    """An answer as a table, computed locally or remotely."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        ...

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The values, one dictionary per row."""
        ...

    @property
    def cost(self) -> Cost:
        """The cost of the answer."""
        ...

    @property
    def receipt(self) -> "Proof":
        """Proof of the charge."""
        ...

    @property
    def reused(self) -> bool:
        """Whether a stored answer was returned."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about contribution limits and errors."""
        ...

    def interval_rows(self, confidence: Number = ...) -> list[dict[str, Any]]:
        """Return both ends of each number's interval, one dictionary per row."""
        ...


class Proof(Protocol):
    """A receipt: the number and the hash of a ledger entry."""

    @property
    def entry(self) -> int:
        """The number of the ledger entry."""
        ...

    @property
    def digest(self) -> str:
        """Its hash in the chain."""
        ...


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of an answer; noisy numbers come with the ends of their interval.

    Floats are shown with ``decimals`` digits after the decimal point.
    """

    value: Any
    low: float | None = None
    high: float | None = None
    decimals: int = 0

    @property
    def is_noisy(self) -> bool:
        """Whether the value has an interval."""
        return self.low is not None and self.high is not None

    @property
    def text(self) -> str:
        """The value as text for people.

        >>> Cell(1388.1144, 1294.4, 1478.8).text, Cell(0.39434, 0.29, 0.49, 3).text, Cell("A").text
        ('1,388', '0.394', 'A')
        """
        if self.value is None:
            return "unknown"
        if isinstance(self.value, float):
            return f"{self.value:,.{self.decimals}f}"
        is_count = isinstance(self.value, int) and self.is_noisy
        return f"{self.value:,}" if is_count else plain(str(self.value))

    @property
    def interval(self) -> str:
        """Both ends of the interval, "unknown" if one is not finite, or "" without an interval."""
        if self.low is None or self.high is None:
            return ""
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            return "unknown"
        return f"{self.low:,.{self.decimals}f} to {self.high:,.{self.decimals}f}"


@dataclass(frozen=True, slots=True)
class Figures:
    """The columns of an answer and its rows of cells."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def column(self, name: str) -> list[Cell]:
        """Return one column's cells."""
        index = self.columns.index(name)
        return [row[index] for row in self.rows]

    def noisy_columns(self) -> list[str]:
        """Return the names of the noisy columns."""
        indices = range(len(self.columns))
        return [self.columns[i] for i in indices if any(row[i].is_noisy for row in self.rows)]

    def labels(self) -> list[str]:
        """Return the values of each row in the columns without noise, as one string per row."""
        noisy = set(self.noisy_columns())
        keys = [i for i, name in enumerate(self.columns) if name not in noisy]
        return [", ".join(row[i].text for i in keys) for row in self.rows]


def figures_of(answer: Tabular, confidence: float = 0.95) -> Figures:
    """Return an answer's values with their intervals."""
    columns = answer.columns
    rows, ends = answer.rows, answer.interval_rows(confidence)
    decimals = [_decimals(name, rows, ends) for name in columns]
    cells = (
        tuple(
            Cell(row[name], end.get(f"{name}_low"), end.get(f"{name}_high"), digits)
            for name, digits in zip(columns, decimals, strict=True)
        )
        for row, end in zip(rows, ends, strict=True)
    )
    return Figures(columns, tuple(cells))


def _decimals(name: str, rows: list[dict[str, Any]], ends: list[dict[str, Any]]) -> int:
    """Return the number of decimals at which a column's least half-width has two digits.

    There are at most MAX_DECIMALS, and none for integers. Without a positive, finite half-width,
    there are DEFAULT_DECIMALS.
    """
    if all(row[name] is None or isinstance(row[name], int) for row in rows):
        return 0
    if not ends or f"{name}_low" not in ends[0]:
        return DEFAULT_DECIMALS
    halves = [(end[f"{name}_high"] - end[f"{name}_low"]) / 2 for end in ends]
    known = [half for half in halves if math.isfinite(half) and half > 0]
    if not known:
        return DEFAULT_DECIMALS
    return min(MAX_DECIMALS, max(0, 1 - math.floor(math.log10(min(known)))))


FORMULA_PREFIXES: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001


def to_csv(answer: Tabular, confidence: float = 0.95) -> str:
    """Return the answer as CSV: its columns, then both ends of each interval.

    Strings that a spreadsheet would interpret as formulas are prefixed with an apostrophe. Finite
    numbers are unchanged, and others become empty cells.
    """
    ends = answer.interval_rows(confidence)
    names, sides = answer.columns, list(ends[0]) if ends else []
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([_guard(name) for name in (*names, *sides)])
    for row, end in zip(answer.rows, ends, strict=True):
        values = [row[name] for name in names] + [end[side] for side in sides]
        writer.writerow([_csv_value(value) for value in values])
    return file.getvalue()


def to_json(answer: Tabular, confidence: float = 0.95) -> str:
    """Return the answer as JSON, in the format of the HTTP API."""
    content = {
        "columns": list(answer.columns),
        "rows": [_json_row(row) for row in answer.rows],
        "intervals": [_json_row(row) for row in answer.interval_rows(confidence)],
        "confidence": confidence,
        "cost": {"share": write_value(answer.cost.share), "epsilon": answer.cost.epsilon},
        "receipt": {"entry": answer.receipt.entry, "digest": answer.receipt.digest},
        "reused": answer.reused,
        "notes": list(answer.notes),
    }
    return json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _csv_value(value: Any) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return ""
    return _guard(value) if isinstance(value, str) else value


def _guard(text: str) -> str:
    """Return a string that no spreadsheet interprets as a formula.

    >>> _guard("=1+1"), _guard(" @x"), _guard("north")
    ("'=1+1", "' @x", 'north')
    """
    is_formula = text.startswith(FORMULA_PREFIXES) or text.lstrip().startswith(FORMULA_PREFIXES)
    return f"'{text}" if is_formula else text


def _json_row(row: dict[str, Any]) -> dict[str, object]:
    return {name: write_value(value) for name, value in row.items()}


CHART_WIDTH: Final = 680
ROW_HEIGHT: Final = 30
LEFT_MARGIN: Final = 170
RIGHT_MARGIN: Final = 100
TOP_MARGIN: Final = 34
BOTTOM_MARGIN: Final = 30
MAX_LABEL_LENGTH: Final = 24
BAR_COLOR: Final = "#4c78a8"
TICK_COUNT: Final = 5


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps values from ``low`` to ``high`` to horizontal positions in a chart."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """Return the horizontal position of a value."""
        part = (value - self.low) / (self.high - self.low)
        return LEFT_MARGIN + part * (CHART_WIDTH - LEFT_MARGIN - RIGHT_MARGIN)

    def ticks(self) -> list[float]:
        """Return round values across the scale."""
        step = _round_step((self.high - self.low) / TICK_COUNT)
        first = math.ceil(self.low / step)
        return [index * step for index in range(first, math.floor(self.high / step) + 1)]


def draw_charts(figures: Figures) -> list[str]:
    """Return one chart for each noisy column, or none if the answer has fewer than two rows."""
    if len(figures.rows) < 2:
        return []
    labels = figures.labels()
    return [draw_chart(name, labels, figures.column(name)) for name in figures.noisy_columns()]


def draw_chart(
    title: str, labels: Sequence[str], cells: Sequence[Cell], *, paper: str = "none"
) -> str:
    """Return a chart as SVG: bars from zero, or points if zero is far away, with error bars.

    ``paper`` is the background color.
    """
    height = TOP_MARGIN + ROW_HEIGHT * len(cells) + BOTTOM_MARGIN
    is_barred = _is_near_zero(cells)
    scale = _scale(cells, is_barred=is_barred)
    parts = [
        f'<rect width="{CHART_WIDTH}" height="{height}" fill="{paper}"/>',
        f'<text x="{LEFT_MARGIN}" y="18" font-weight="600">{escape(title)}, '
        "with 95% intervals</text>",
        *_axis(scale, height),
    ]
    for index, (label, cell) in enumerate(zip(labels, cells, strict=True)):
        middle = TOP_MARGIN + ROW_HEIGHT * index + ROW_HEIGHT / 2
        parts.append(_text(LEFT_MARGIN - 10, middle, _truncate(label), "end"))
        parts += _mark(cell, middle, scale, is_barred=is_barred)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {CHART_WIDTH} {height}" '
        f'width="{CHART_WIDTH}" height="{height}" role="img" aria-label="{escape(title)}" '
        'font-family="sans-serif" font-size="13" fill="currentColor">' + "".join(parts) + "</svg>"
    )


def _mark(cell: Cell, middle: float, scale: _Scale, *, is_barred: bool) -> list[str]:
    """Return the bar or point of a cell, its error bar, and its text; ``middle`` is its height."""
    ends = _ends(cell)
    if ends is None:
        return [_text(CHART_WIDTH - RIGHT_MARGIN + 10, middle, "unknown", "start")]
    value = scale.place(float(cell.value))
    zero = scale.place(0.0) if is_barred else value
    low, high = (scale.place(end) for end in ends)
    parts = [_text(CHART_WIDTH - RIGHT_MARGIN + 10, middle, cell.text, "start")]
    if is_barred:
        parts.append(
            f'<rect x="{min(zero, value):.1f}" y="{middle - 9:.1f}" rx="2" '
            f'width="{abs(value - zero):.1f}" height="18" fill="{BAR_COLOR}" fill-opacity="0.75"/>'
        )
    else:
        parts.append(f'<circle cx="{value:.1f}" cy="{middle:.1f}" r="5" fill="{BAR_COLOR}"/>')
    parts.append(
        f'<path d="M{low:.1f} {middle - 5:.1f}v10M{high:.1f} {middle - 5:.1f}v10'
        f'M{low:.1f} {middle:.1f}H{high:.1f}" stroke="currentColor" stroke-width="1.5"/>'
    )
    return parts


def _axis(scale: _Scale, height: int) -> list[str]:
    foot = height - BOTTOM_MARGIN
    parts: list[str] = []
    for tick in scale.ticks():
        at = scale.place(tick)
        parts.append(
            f'<path d="M{at:.1f} {TOP_MARGIN}V{foot}" stroke="currentColor" stroke-opacity="0.15"/>'
        )
        parts.append(_text(at, foot + 14, f"{tick:,.6g}", "middle"))
    return parts


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
        f'dominant-baseline="middle">{escape(text)}</text>'
    )


def _ends(cell: Cell) -> tuple[float, float] | None:
    """Return both ends of a cell's interval, or None unless they and the value are finite."""
    if cell.value is None or cell.low is None or cell.high is None:
        return None
    is_finite = all(map(math.isfinite, (float(cell.value), cell.low, cell.high)))
    return (cell.low, cell.high) if is_finite else None


def _is_near_zero(cells: Sequence[Cell]) -> bool:
    """Return whether bars from zero would show differences.

    That is, the lowest interval end is below half the highest; for negative values, vice versa.
    """
    ends = [end for cell in cells if (end := _ends(cell)) is not None]
    if not ends:
        return True
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    return low < high / 2 if high > 0 else high > low / 2


def _scale(cells: Sequence[Cell], *, is_barred: bool) -> _Scale:
    ends = [end for cell in cells if (both := _ends(cell)) is not None for end in both]
    ends += [float(cell.value) for cell in cells if _ends(cell) is not None]
    ends += [0.0] if is_barred or not ends else []
    low, high = min(ends), max(ends)
    if low == high:
        return _Scale(low, low + 1.0)
    margin = (high - low) * 0.03
    return _Scale(low if low == 0 else low - margin, high if high == 0 else high + margin)


def _round_step(rough: float) -> float:
    """Return the least number from ``rough`` on that is 1, 2, or 5 times a power of ten.

    >>> _round_step(0.3), _round_step(7), _round_step(120)
    (0.5, 10.0, 200.0)
    """
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= rough)


def _truncate(label: str) -> str:
    return label if len(label) <= MAX_LABEL_LENGTH else f"{label[: MAX_LABEL_LENGTH - 1]}…"
