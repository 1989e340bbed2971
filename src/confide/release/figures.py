"""An answer laid out for people: each figure with its interval, no more digits than it deserves."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Protocol

from confide.exact import Number
from confide.release.answer import Cost
from confide.release.display import NO_GROUP, plain

__all__ = ["NO_GROUP", "Cell", "Figures", "Tabular", "figures_of", "percent", "plain"]

FEW_DECIMALS: Final = 3
MOST_DECIMALS: Final = 6


class Tabular(Protocol):
    """An answer as a table, wherever it was computed."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        ...

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The values, one dictionary a row."""
        ...

    @property
    def cost(self) -> Cost:
        """What it cost."""
        ...

    @property
    def receipt(self) -> "Proof":
        """Proof of the charge."""
        ...

    @property
    def reused(self) -> bool:
        """Whether it was given before."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """The contribution limits that applied."""
        ...

    def interval_rows(self, confidence: Number = ...) -> list[dict[str, Any]]:
        """Return both ends of each number's interval."""
        ...


class Proof(Protocol):
    """What a receipt shows."""

    @property
    def entry(self) -> int:
        """The entry's number."""
        ...

    @property
    def digest(self) -> str:
        """Its link in the chain."""
        ...


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


def figures_of(answer: Tabular, confidence: float = 0.95) -> Figures:
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


def percent(share: Fraction, *, down: bool = False) -> str:
    """Return a share for people: costs rounded up, what is left rounded down.

    >>> percent(Fraction(1, 3)), percent(Fraction(2, 3), down=True), percent(Fraction(1, 4))
    ('33.34 %', '66.66 %', '25 %')
    """
    hundredths = share * 10_000
    whole = math.floor(hundredths) if down else math.ceil(hundredths)
    return f"{whole / 100:g} %"
