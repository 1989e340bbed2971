"""Columns and formulas of estimates, such as ``cost ~ age``."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product
from typing import Final, assert_never

from confide.declare import Bool, Category, Column, Date, Float, Int, Kind, Text, Timestamp
from confide.errors import BadDeclaration, UnknownName, UnsupportedQuery
from confide.exact import fraction
from confide.query import TableQuery, Term, case, col, count
from confide.query import sum as total
from confide.query.scope import match_name, suggest_name
from confide.statistics.estimate import EstimateContext
from confide.statistics.families import Scaled

__all__ = [
    "ROWS",
    "ClipRange",
    "Design",
    "Numbers",
    "count_values",
    "declared_column",
    "number_column",
    "plan_sums",
    "read_formula",
    "read_within",
]

ClipRange = tuple[float, float] | None
ROWS: Final = "the rows"
"""The output name of a count by group.

It cannot clash with a column that a query groups by, because no declared name starts with "the ".
"""


@dataclass(frozen=True, slots=True)
class Numbers:
    """A numeric column: the term of its value in a row, and bounds on that value."""

    name: str
    term: Term
    low: float
    high: float
    is_binary: bool = False

    @property
    def scaled(self) -> Scaled:
        """The linear scale from the column's bounds to [-1, 1]."""
        return Scaled(self.low, self.high)


def declared_column(context: EstimateContext, table: str, name: str) -> tuple[str, str, Column]:
    """Return the declared names of the table and the column, and the column's declaration."""
    tables = context.catalog.private
    found = match_name(table, tables) if isinstance(table, str) else None
    if found is None:
        raise UnknownName(f"Unknown table {table!r}. {suggest_name(str(table), tables)}")
    columns = tables[found].columns
    named = match_name(name, columns) if isinstance(name, str) else None
    if named is None:
        raise UnknownName(
            f"Unknown column {name!r} in table {found!r}. {suggest_name(str(name), columns)}"
        )
    return found, named, columns[named]


def count_values(declared: Column) -> int | None:
    """Return the number of values that a column can have, or None if its type does not limit it.

    NULL does not count, declared or not, because every estimate excludes rows with NULL.
    """
    match declared:
        case Bool():
            return 2
        case Int(low=low, high=high):
            return high - low + 1
        case Category(values=values):
            return len(values) - (None in values)
        case Float() | Text() | Date() | Timestamp():
            return None
        case _:
            assert_never(declared)


def number_column(
    context: EstimateContext, table: str, name: str, within: ClipRange = None
) -> Numbers:
    """Return a numeric column with its declared bounds, or tighter ones from ``within``."""
    _, found, declared = declared_column(context, table, name)
    match declared:
        case Int(low=low, high=high):
            bounds = (float(low), float(high))
        case Float(low=lowest, high=highest):
            bounds = (float(lowest), float(highest))
        case Category(kind=Kind.INT, values=values):
            codes = [float(value) for value in values if isinstance(value, int)]
            bounds = (min(codes), max(codes))
        case Bool():
            return Numbers(found, col(found).cast("int"), 0.0, 1.0, is_binary=True)
        case Category() | Text() | Date() | Timestamp():
            raise UnsupportedQuery(
                f"Column {found!r} is not numeric. Use one that is declared as Int, Float, or Bool."
            )
        case _:
            assert_never(declared)
    if within is None:
        is_binary = isinstance(declared, Int | Category) and bounds == (0.0, 1.0)
        return Numbers(found, col(found), *bounds, is_binary=is_binary)
    low_end, high_end = max(bounds[0], within[0]), min(bounds[1], within[1])
    if low_end >= high_end:
        raise UnsupportedQuery(
            f"({within[0]:.6g}, {within[1]:.6g}) lies outside the declared bounds of {found!r}. "
            f"Choose two numbers from {bounds[0]:.6g} to {bounds[1]:.6g}."
        )
    return Numbers(found, col(found).clip(low_end, high_end), low_end, high_end)


def read_within(within: object, name: str = "within") -> ClipRange:
    """Return the bounds that the analyst passed as argument ``name``, or None."""
    if within is None:
        return None
    if isinstance(within, str) or not isinstance(within, Sequence) or len(within) != 2:
        raise BadDeclaration(f"`{name}` must be two numbers (low, high); got {within!r}.")
    low, high = (float(fraction(name, end, "two finite numbers")) for end in within)
    if low >= high:
        raise BadDeclaration(f"`{name}` must be two numbers with low < high; got {within!r}.")
    return low, high


def plan_sums(
    table: str, names: Sequence[str], terms: Sequence[Term], *, counted: bool = True
) -> TableQuery:
    """Return the query for the sums of terms over rows without NULL in the named columns.

    If ``counted``, it returns the number of these rows too.
    """
    rows = TableQuery(table).where(*(col(name).not_null() for name in dict.fromkeys(names)))
    sums = {f"s{index}": total(term) for index, term in enumerate(terms)}
    return rows.agg(n=count(), **sums) if counted else rows.agg(**sums)


NAME_PATTERN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
TERM_PATTERN: Final = r"\s*[^\s+-][^+-]*"
SUM_PATTERN: Final = re.compile(rf"\s*[+-]?{TERM_PATTERN}(?:[+-]{TERM_PATTERN})*\Z")
MAX_COLUMNS: Final = 16
MAX_FACTORS: Final = 4
"""All products of five factors would be more columns than a formula may have."""
MAX_FORMULA_LENGTH: Final = 1_000
INTERCEPT: Final = "Intercept"


@dataclass(frozen=True, slots=True)
class Design:
    """A parsed formula.

    ``columns`` are the explanatory columns, including products and indicators. ``names`` are
    the names of all declared columns in the formula, and ``text`` is the formula itself.
    """

    text: str
    response: Numbers
    columns: tuple[Numbers, ...]
    has_intercept: bool
    names: tuple[str, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the coefficients."""
        front = (INTERCEPT,) if self.has_intercept else ()
        return (*front, *(column.name for column in self.columns))


def read_formula(context: EstimateContext, table: str, formula: str) -> Design:
    """Return a parsed formula over declared columns.

    ``y ~ a + b`` explains y by a, b and a constant. ``a:b`` is the product of a and b, and ``a*b``
    is short for ``a + b + a:b``. ``a*b*c`` includes all three and all their products. ``- 1`` or
    ``+ 0`` omits the constant. A Category column becomes one indicator column for each value but
    the first: 1 if the row has the value, otherwise 0. NULL does not count as a value.
    """
    if not isinstance(formula, str) or len(formula) > MAX_FORMULA_LENGTH or formula.count("~") != 1:
        raise UnsupportedQuery(
            "A formula must have one response, a tilde, and explanatory columns, such as "
            "'cost ~ age + smoker'."
        )
    left, right = (side.strip() for side in formula.split("~"))
    response = number_column(context, table, _read_name(left))
    has_intercept, terms = _read_terms(right)
    columns: dict[str, Numbers] = {}
    for term in terms:
        for column in _expand(context, table, term):
            columns.setdefault(column.name, column)
    _check_columns(len(columns) + has_intercept)
    used = dict.fromkeys(part for term in terms for part in term)
    names = [declared_column(context, table, name)[1] for name in used]
    if response.name in names:
        raise UnsupportedQuery(
            f"{response.name!r} is on both sides of the formula. Remove it from the right side."
        )
    return Design(
        " ".join(formula.split()),
        response,
        tuple(columns.values()),
        has_intercept,
        (response.name, *names),
    )


def _read_terms(text: str) -> tuple[bool, list[tuple[str, ...]]]:
    """Return whether there is a constant, and the names of the factors of each term."""
    if not SUM_PATTERN.match(text):
        raise UnsupportedQuery(
            "The right side of a formula must be column names joined by + or -, or 1 for a "
            "constant alone, such as 'cost ~ age + smoker' or 'cost ~ 1'."
        )
    has_intercept = True
    terms: list[tuple[str, ...]] = []
    for sign, part in re.findall(r"([+-]?)([^+-]+)", text):
        piece = part.strip()
        if piece in ("0", "1"):
            has_intercept = (piece == "1") == (sign != "-")
        elif sign == "-":
            raise UnsupportedQuery(
                "Only the constant can be removed from a formula, by '- 1'. Join columns with +."
            )
        elif "*" in piece:
            names = _read_factors(piece, "*")
            sizes = range(1, len(names) + 1)
            terms += chain.from_iterable(combinations(names, size) for size in sizes)
        else:
            terms.append(_read_factors(piece, ":"))
    return has_intercept, terms


def _read_factors(text: str, sign: str) -> tuple[str, ...]:
    names = tuple(_read_name(name) for name in text.split(sign))
    if len(names) > MAX_FACTORS:
        raise UnsupportedQuery(
            f"A product in a formula can have at most {MAX_FACTORS} columns; got {len(names)}."
        )
    return names


def _check_columns(number: int) -> None:
    if not 1 <= number <= MAX_COLUMNS:
        raise UnsupportedQuery(
            f"A formula can have 1 to {MAX_COLUMNS} explanatory columns, including the constant; "
            f"got {number:,}. A `Category` column counts once for each value but the first."
        )


def _read_name(text: str) -> str:
    name = text.strip()
    if not NAME_PATTERN.match(name):
        raise UnsupportedQuery(
            "A formula must consist of column names joined by +, :, or *, such as "
            f"'cost ~ age + smoker'; got {name[:40]!r}."
        )
    return name


def _expand(context: EstimateContext, table: str, term: tuple[str, ...]) -> list[Numbers]:
    """Return the columns of a term: the products of one column from each factor."""
    factors = [_factor(context, table, name) for name in term]
    _check_columns(max(1, math.prod(map(len, factors))))  # check the number before creating them
    return [_multiply(parts) for parts in product(*factors)]


def _factor(context: EstimateContext, table: str, name: str) -> list[Numbers]:
    """Return the numeric columns for a declared column: itself, or the indicators of a Category."""
    _, found, declared = declared_column(context, table, name)
    if isinstance(declared, Category):
        values = [value for value in declared.values if value is not None]
        return [_indicator(found, value) for value in values[1:]]
    return [number_column(context, table, name)]


def _indicator(name: str, value: str | int) -> Numbers:
    term: Term = case((col(name) == value, 1), otherwise=0)
    return Numbers(f"{name}[{value}]", term, 0.0, 1.0, is_binary=True)


def _multiply(parts: tuple[Numbers, ...]) -> Numbers:
    first, *rest = parts
    for other in rest:
        ends = [a * b for a in (first.low, first.high) for b in (other.low, other.high)]
        first = Numbers(
            f"{first.name}:{other.name}",
            first.term * other.term,
            min(ends),
            max(ends),
            is_binary=first.is_binary and other.is_binary,
        )
    return first
