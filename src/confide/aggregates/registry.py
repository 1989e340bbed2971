"""The base class of aggregates, the `AGGREGATES` table, and lists derived from it for messages.

To add an aggregate, write a subclass in its own module, decorate it with `register`, and import
the module in `confide.aggregates`. The parser, the planner, and the release look it up here.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar, Final, TypeVar

import numpy as np

from confide.aggregates.needs import Ends, Floats, Mask, Need, ReleasedColumns
from confide.declare import Kind
from confide.errors import UnsupportedQuery
from confide.exact import float_above
from confide.expressions.construct import check_condition, has_aggregate
from confide.expressions.tree import AggregateCall, Expression

__all__ = [
    "AGGREGATES",
    "AggregateFunction",
    "Pattern",
    "UnitForm",
    "function_of",
    "list_spellings",
    "make_aggregate",
    "numeric_kind",
    "register",
]

ADVICE_BY_KIND: Final[dict[Kind | None, str]] = {
    Kind.BOOL: "Count the rows for which x is true with `COUNT(*) FILTER (WHERE x)`, and divide by "
    "`COUNT(x)` for their fraction.",
    Kind.DATE: "Use `YEAR(x)`, `MONTH(x)`, or `DAY(x)` of a date, or count rows by time with "
    "`SELECT DATE_TRUNC('month', x), COUNT(*) ... GROUP BY 1`.",
    Kind.TEXT: "Count the rows of each string with `SELECT x, COUNT(*) ... GROUP BY x`, or write "
    "`CAST(x AS DOUBLE)` if the strings are numbers.",
}
"""Advice on what to write instead of an aggregate of numbers, by the type of the argument x."""


VARIABLES: Final = re.compile(r"\b(?:x|y|q|unit)\b")


class UnitForm(StrEnum):
    """The computation of an aggregate over the rows of one unit, without noise."""

    COUNT = "count"
    SUM = "sum"
    MEAN = "mean"


@dataclass(frozen=True, slots=True)
class Pattern:
    """One way to write an aggregate in SQL.

    In ``text``, x and y stand for expressions, q for a quantile's level between 0 and 1, and unit
    for the unit column. ``level`` is the level that a spelling without q implies, such as 1/2 for
    MEDIAN. If ``is_descending``, the level counts from the largest value. Messages list a spelling
    if ``is_listed``.
    """

    text: str
    level: Fraction | None = None
    is_descending: bool = False
    is_listed: bool = True

    def fill(self, **parts: str) -> str:
        """Return the spelling with its variables replaced.

        >>> Pattern("QUANTILE_CONT(x, q)").fill(x="age", q="0.9")
        'QUANTILE_CONT(age, 0.9)'
        """
        return VARIABLES.sub(lambda found: parts.get(found[0], found[0]), self.text)


class AggregateFunction(ABC):
    """An aggregate of many rows: its SQL, its needs, its estimate, and its interval.

    ``name`` is its name in canonical SQL; ledgers store it, so it never changes. ``summary`` is
    one line for help. If ``is_linear``, the estimate is linear in the totals, so its error is
    known before the query runs. If ``is_count``, the estimate can be floored at zero, and a private
    selection can rank groups by it. If ``is_centered``, the aggregate sums each value minus the
    center of its range. If ``unit_form`` is not None, a subquery can compute the aggregate over
    the rows of each unit.
    """

    name: ClassVar[str]
    patterns: ClassVar[tuple[Pattern, ...]]
    summary: ClassVar[str]
    is_linear: ClassVar[bool] = False
    is_count: ClassVar[bool] = False
    is_centered: ClassVar[bool] = False
    unit_form: ClassVar[UnitForm | None] = None

    @abstractmethod
    def result_kind(self, arguments: Sequence[Expression]) -> Kind:
        """Return the type of the result, or refuse arguments of the wrong type."""

    @abstractmethod
    def needs(self, call: AggregateCall, siblings: Collection[AggregateCall]) -> tuple[Need, ...]:
        """Return the counts, sums, or quantiles that a call needs.

        ``siblings`` are all aggregate calls of the query; a call can use a total of another one.
        Stored answers list their totals by position, so the order of the needs never changes.
        """

    @abstractmethod
    def estimate(self, call: AggregateCall, columns: ReleasedColumns) -> Floats:
        """Return the estimate for each group, from one column per need."""

    @abstractmethod
    def interval(
        self,
        call: AggregateCall,
        columns: ReleasedColumns,
        noise: ReleasedColumns,
        confidence: float,
    ) -> Ends:
        """Return both ends of each group's confidence interval for the aggregate without noise.

        ``noise`` contains a sample of the noise of each column.
        """

    @abstractmethod
    def explain(self, call: AggregateCall) -> str:
        """Return a verb phrase about the release of a call, to print after the call's text."""

    def simplify(self, arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """Return the arguments in a form that equal queries share, or refuse them."""
        return arguments

    def write(self, call: AggregateCall, arguments: Sequence[str], unit: str) -> str:
        """Return a call in canonical SQL, without its FILTER.

        ``arguments`` and ``unit`` are the arguments and the unit column, already written as SQL.
        """
        return f"{self.name}({', '.join(arguments)})"

    def label(self, call: AggregateCall, arguments: Sequence[str]) -> str | None:
        """Return a column name from a spelling that implies the call's level (MEDIAN), or None."""
        if call.level is None:
            return None
        spellings = (pattern.text for pattern in self.patterns if pattern.level == call.level)
        names = (text.partition("(")[0] for text in spellings)
        return next((f"{name}({', '.join(arguments)})" for name in names), None)

    def is_clipped(self, call: AggregateCall, columns: ReleasedColumns) -> Mask:
        """Return a mask of the groups where noise moved the estimate out of its range."""
        return np.zeros(self.estimate(call, columns).shape, np.bool_)


AGGREGATES: Final[dict[str, AggregateFunction]] = {}
"""All aggregates by name, in the order in which messages list them."""

T = TypeVar("T", bound=AggregateFunction)


def register(function: type[T]) -> type[T]:
    """Add an aggregate to `AGGREGATES`; fail if its name is taken or a method is missing."""
    if function.name in AGGREGATES:
        raise ValueError(f"An aggregate named {function.name} already exists.")
    AGGREGATES[function.name] = function()
    return function


def function_of(call: AggregateCall) -> AggregateFunction:
    """Return the aggregate function of a call."""
    return AGGREGATES[call.function]


def make_aggregate(
    name: str,
    *arguments: Expression,
    where: Expression | None = None,
    level: Fraction | None = None,
) -> AggregateCall:
    """Return a call of an aggregate, or refuse unsuitable arguments."""
    parts = arguments if where is None else (*arguments, where)
    if any(map(has_aggregate, parts)):
        raise UnsupportedQuery(
            "An aggregate of an aggregate needs a per-unit subquery, such as "
            "`SELECT AVG(t) FROM (SELECT unit, SUM(x) AS t FROM table GROUP BY unit)`."
        )
    if level is not None and not 0 <= level <= 1:
        raise UnsupportedQuery(
            f"The level of a quantile must be from 0 to 1; got {float_above(level)}."
        )
    if where is not None:
        check_condition(where)
    if level is not None:
        level = Fraction(repr(float(level)))
    function = AGGREGATES[name]
    kept = function.simplify(arguments)
    return AggregateCall(name, kept, where, function.result_kind(kept), level)


def numeric_kind(arguments: Sequence[Expression]) -> Kind:
    """Return the common type of numeric arguments, or refuse other types."""
    kinds = [argument.kind for argument in arguments]
    wrong = [kind for kind in kinds if kind not in (Kind.INT, Kind.FLOAT)]
    if wrong or not kinds:
        kind = wrong[0] if wrong else None
        raise UnsupportedQuery(
            "This aggregate needs numbers. "
            + ADVICE_BY_KIND.get(kind, "Count rows with `COUNT(*)`.")
        )
    return Kind.FLOAT if Kind.FLOAT in kinds else Kind.INT


def list_spellings() -> str:
    """Return the listed spellings of all aggregates for a message, with quantiles last.

    >>> list_spellings()[:47]
    'COUNT(*), COUNT(x), COUNT(DISTINCT unit), SUM, '
    """
    listed = [_spellings(function) for function in AGGREGATES.values()]
    listed.sort(key=lambda names: any("q" in name for name in names))
    *most, last = (name for names in listed for name in names)
    return f"{', '.join(most)}, and {last}"


def _spellings(function: AggregateFunction) -> list[str]:
    """Return the listed spellings of an aggregate; a name stands for its only spelling NAME(x)."""
    texts = [pattern.text for pattern in function.patterns if pattern.is_listed]
    names = [text.partition("(")[0] for text in texts]
    return [
        name if text == f"{name}(x)" and names.count(name) == 1 else text
        for name, text in zip(names, texts, strict=True)
    ]
