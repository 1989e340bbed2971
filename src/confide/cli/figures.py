"""An answer laid out for people: each figure with its interval, no more digits than it deserves."""

import math
from dataclasses import dataclass
from typing import Any, Final

from confide.release import Answer

__all__ = ["Cell", "Figures", "figures_of", "plain"]

FEW_DECIMALS: Final = 3
MOST_DECIMALS: Final = 6


@dataclass(frozen=True, slots=True)
class Cell:
    """One value; numbers that carry noise come with the ends of their interval."""

    value: Any
    low: float | None = None
    high: float | None = None
    decimals: int = 0

    @property
    def is_noisy(self) -> bool:
        """Whether the value carries noise."""
        return self.low is not None and self.high is not None

    @property
    def text(self) -> str:
        """The value as people read it.

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
        """Both ends of the interval, or nothing."""
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
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def noisy_columns(self) -> list[str]:
        """Return the names of the columns that carry noise."""
        places = range(len(self.columns))
        return [self.columns[i] for i in places if any(row[i].is_noisy for row in self.rows)]

    def labels(self) -> list[str]:
        """Return for each row its keys, as one text."""
        noisy = set(self.noisy_columns())
        keys = [i for i, name in enumerate(self.columns) if name not in noisy]
        return [", ".join(row[i].text for i in keys) for row in self.rows]


def figures_of(answer: Answer, confidence: float = 0.95) -> Figures:
    """Return an answer's values beside their intervals."""
    columns = answer.columns
    rows, ends = answer.rows, answer.interval_rows(confidence)
    decimals = [_decimals(name, rows, ends) for name in columns]
    cells = (
        tuple(
            Cell(row[name], end.get(f"{name}_low"), end.get(f"{name}_high"), places)
            for name, places in zip(columns, decimals, strict=True)
        )
        for row, end in zip(rows, ends, strict=True)
    )
    return Figures(columns, tuple(cells))


def _decimals(name: str, rows: list[dict[str, Any]], ends: list[dict[str, Any]]) -> int:
    """Return how many decimals show a column's narrowest half-width to two digits.

    Whole numbers have none; a column without noise shows a few.
    """
    if all(row[name] is None or isinstance(row[name], int) for row in rows):
        return 0
    if not ends or f"{name}_low" not in ends[0]:
        return FEW_DECIMALS
    halves = [(end[f"{name}_high"] - end[f"{name}_low"]) / 2 for end in ends]
    known = [half for half in halves if math.isfinite(half) and half > 0]
    if not known:
        return FEW_DECIMALS
    return min(MOST_DECIMALS, max(0, 1 - math.floor(math.log10(min(known)))))


def plain(text: str) -> str:
    r"""Return a text without anything that a terminal would obey.

    >>> plain("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
