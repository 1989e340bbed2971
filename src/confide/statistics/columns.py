"""The columns that an estimate is about: declared, bounded, and asked for where none is missing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from confide.declare import Bool, Category, Column, Date, Float, Int, Kind, Text
from confide.errors import BadDeclaration, UnknownName, UnsupportedQuery
from confide.exact import fraction
from confide.query import TableQuery, Term, col, count
from confide.query import sum as total
from confide.query.scope import match_name, suggest_name
from confide.statistics.families import Scaled
from confide.statistics.reading import Asked

__all__ = [
    "ROWS",
    "Numbers",
    "Within",
    "count_values",
    "declared_column",
    "number_column",
    "plan_sums",
    "read_within",
]

Within = tuple[float, float] | None
ROWS: Final = "the rows"
"""The name of a count beside keys: no declared name has a space."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column of numbers, as a term of a row within bounds."""

    name: str
    term: Term
    low: float
    high: float
    is_binary: bool = False

    @property
    def scaled(self) -> Scaled:
        """The column as numbers from -1 to 1."""
        return Scaled(self.low, self.high)


def declared_column(asked: Asked, table: str, name: str) -> tuple[str, str, Column]:
    """Return the declared names of table and column, and what was declared of the column."""
    tables = asked.catalog.private
    found = match_name(table, tables) if isinstance(table, str) else None
    if found is None:
        raise UnknownName(f"there is no table {table!r}; {suggest_name(str(table), tables)}")
    columns = tables[found].columns
    named = match_name(name, columns) if isinstance(name, str) else None
    if named is None:
        raise UnknownName(
            f"table {found!r} has no column {name!r}; {suggest_name(str(name), columns)}"
        )
    return found, named, columns[named]


def count_values(declared: Column) -> int | None:
    """Return how many values a column has, known beforehand; None where nobody listed them.

    NULL is no value here, declared or not: rows without one are left out of every estimate.
    """
    match declared:
        case Bool():
            return 2
        case Int(low=low, high=high):
            return high - low + 1
        case Category(values=values):
            return len(values) - (None in values)
        case Float() | Text() | Date():
            return None
        case _:
            assert_never(declared)


def number_column(asked: Asked, table: str, name: str, within: Within = None) -> Numbers:
    """Return a column of numbers with the bounds declared, or tighter ones that were asked for."""
    _, found, declared = declared_column(asked, table, name)
    match declared:
        case Int(low=low, high=high):
            bounds = (float(low), float(high))
        case Float(low=least, high=most):
            bounds = (float(least), float(most))
        case Category(kind=Kind.INT, values=values):
            codes = [float(value) for value in values if isinstance(value, int)]
            bounds = (min(codes), max(codes))
        case Bool():
            return Numbers(found, col(found).cast("int"), 0.0, 1.0, is_binary=True)
        case Category() | Text() | Date():
            raise UnsupportedQuery(
                f"column {found!r} holds no numbers; name one declared as Int, Float or Bool"
            )
        case _:
            assert_never(declared)
    if within is None:
        is_binary = isinstance(declared, Int | Category) and bounds == (0.0, 1.0)
        return Numbers(found, col(found), *bounds, is_binary=is_binary)
    low_end, high_end = max(bounds[0], within[0]), min(bounds[1], within[1])
    if low_end >= high_end:
        raise UnsupportedQuery(
            f"({within[0]:.6g}, {within[1]:.6g}) lies outside the declared bounds of {found!r}; "
            f"choose two numbers from {bounds[0]:.6g} to {bounds[1]:.6g}"
        )
    return Numbers(found, col(found).clip(low_end, high_end), low_end, high_end)


def read_within(within: object, name: str = "within") -> Within:
    """Return bounds that an analyst chose under this name, or None for the declared ones."""
    if within is None:
        return None
    if isinstance(within, str) or not isinstance(within, Sequence) or len(within) != 2:
        raise BadDeclaration(f"{name} must be two numbers (low, high), got {within!r}")
    low, high = (float(fraction(name, end, "two finite numbers")) for end in within)
    if low >= high:
        raise BadDeclaration(f"{name} needs low < high, got {within!r}")
    return low, high


def plan_sums(
    table: str, names: Sequence[str], terms: Sequence[Term], *, counted: bool = True
) -> TableQuery:
    """Return the question for a count and the sums of terms, over rows where no name is missing."""
    rows = TableQuery(table).where(*(col(name).not_null() for name in dict.fromkeys(names)))
    sums = {f"s{place}": total(term) for place, term in enumerate(terms)}
    return rows.agg(n=count(), **sums) if counted else rows.agg(**sums)
