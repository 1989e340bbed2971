"""Charts with error bars as plain SVG: they need no script, no font and no other file."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from confide.release.figures import Cell, Figures

__all__ = ["draw_chart", "draw_charts"]

WIDTH: Final = 680
ROW: Final = 30
LEFT: Final = 170
RIGHT: Final = 100
TOP: Final = 34
BOTTOM: Final = 30
LABEL: Final = 24
BAR: Final = "#4c78a8"
TICKS: Final = 5


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps values to places across the chart."""

    low: float
    high: float

    def place(self, value: float) -> float:
        part = (value - self.low) / (self.high - self.low)
        return LEFT + part * (WIDTH - LEFT - RIGHT)

    def ticks(self) -> list[float]:
        """Return round values across the scale."""
        step = _round_step((self.high - self.low) / TICKS)
        first = math.ceil(self.low / step)
        return [place * step for place in range(first, math.floor(self.high / step) + 1)]


def draw_charts(figures: Figures) -> list[str]:
    """Return one chart for each noisy column; none when there is a single row to show."""
    if len(figures.rows) < 2:
        return []
    labels = figures.labels()
    return [draw_chart(name, labels, figures.column(name)) for name in figures.noisy_columns()]


def draw_chart(
    title: str, labels: Sequence[str], cells: Sequence[Cell], *, paper: str = "none"
) -> str:
    """Return bars from zero with error bars; points alone where zero is far away."""
    height = TOP + ROW * len(cells) + BOTTOM
    is_barred = _is_near_zero(cells)
    scale = _scale(cells, is_barred=is_barred)
    parts = [
        f'<rect width="{WIDTH}" height="{height}" fill="{paper}"/>',
        f'<text x="{LEFT}" y="18" font-weight="600">{escape(title)}, with 95 % intervals</text>',
        *_axis(scale, height),
    ]
    for place, (label, cell) in enumerate(zip(labels, cells, strict=True)):
        middle = TOP + ROW * place + ROW / 2
        parts.append(_text(LEFT - 10, middle, _short(label), "end"))
        parts += _mark(cell, middle, scale, is_barred=is_barred)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-label="{escape(title)}" '
        'font-family="sans-serif" font-size="13" fill="currentColor">' + "".join(parts) + "</svg>"
    )


def _mark(cell: Cell, middle: float, scale: _Scale, *, is_barred: bool) -> list[str]:
    ends = _ends(cell)
    if ends is None:
        return [_text(WIDTH - RIGHT + 10, middle, "unknown", "start")]
    value = scale.place(float(cell.value))
    zero = scale.place(0.0) if is_barred else value
    low, high = (scale.place(end) for end in ends)
    parts = [_text(WIDTH - RIGHT + 10, middle, cell.text, "start")]
    if is_barred:
        parts.append(
            f'<rect x="{min(zero, value):.1f}" y="{middle - 9:.1f}" rx="2" '
            f'width="{abs(value - zero):.1f}" height="18" fill="{BAR}" fill-opacity="0.75"/>'
        )
    else:
        parts.append(f'<circle cx="{value:.1f}" cy="{middle:.1f}" r="5" fill="{BAR}"/>')
    parts.append(
        f'<path d="M{low:.1f} {middle - 5:.1f}v10M{high:.1f} {middle - 5:.1f}v10'
        f'M{low:.1f} {middle:.1f}H{high:.1f}" stroke="currentColor" stroke-width="1.5"/>'
    )
    return parts


def _axis(scale: _Scale, height: int) -> list[str]:
    foot = height - BOTTOM
    parts: list[str] = []
    for tick in scale.ticks():
        at = scale.place(tick)
        parts.append(
            f'<path d="M{at:.1f} {TOP}V{foot}" stroke="currentColor" stroke-opacity="0.15"/>'
        )
        parts.append(_text(at, foot + 14, f"{tick:,.6g}", "middle"))
    return parts


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
        f'dominant-baseline="middle">{escape(text)}</text>'
    )


def _ends(cell: Cell) -> tuple[float, float] | None:
    """Return both ends of a cell's interval where everything is finite."""
    if cell.value is None or cell.low is None or cell.high is None:
        return None
    finite = all(map(math.isfinite, (float(cell.value), cell.low, cell.high)))
    return (cell.low, cell.high) if finite else None


def _is_near_zero(cells: Sequence[Cell]) -> bool:
    """Tell whether bars from zero leave room for differences: the least is below half the most."""
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
    """Return 1, 2 or 5 times a power of ten, at least ``rough``.

    >>> _round_step(0.3), _round_step(7), _round_step(120)
    (0.5, 10.0, 200.0)
    """
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= rough)


def _short(label: str) -> str:
    return label if len(label) <= LABEL else f"{label[: LABEL - 1]}…"
