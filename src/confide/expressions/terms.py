"""Python terms: `col`, operators, `case`, `least`, and aggregates of terms.

A term contains column names without their types. When its query is built, the term is translated
to a typed expression.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from typing import Final, NoReturn, cast

from confide.declare import Kind
from confide.errors import UnsupportedQuery
from confide.expressions.functions import Function
from confide.expressions.shorthands import Shorthand

__all__ = [
    "AggregateTerm",
    "Applied",
    "Constant",
    "Named",
    "Term",
    "aggregate_term",
    "case",
    "coalesce",
    "col",
    "concat",
    "date_diff",
    "greatest",
    "least",
    "make_date",
]

F = Function
S = Shorthand
MAX_LEVELS: Final = 50
Plain = int | float | str | bool | date | None
CASTS: Final = {
    Kind.INT: F.TO_INT,
    Kind.FLOAT: F.TO_FLOAT,
    Kind.TEXT: F.TO_TEXT,
    Kind.BOOL: F.TO_BOOL,
    Kind.DATE: F.TO_DATE,
}


class Term:
    """A part of a query that stands for a value; operators combine terms and constants.

    A plain string is a constant; use `col` for a column. ``level`` is the nesting depth.

    >>> (col("age") >= 65) & ~col("ward").isin(["A", "B"])
    Applied(function=<Function.AND: 'and'>, ...)
    """

    __slots__ = ()
    level: int

    def __add__(self, other: "Term | Plain") -> "Term":
        return _apply(F.ADD, self, other)

    def __radd__(self, other: Plain) -> "Term":
        return _apply(F.ADD, other, self)

    def __sub__(self, other: "Term | Plain") -> "Term":
        return _apply(F.SUBTRACT, self, other)

    def __rsub__(self, other: Plain) -> "Term":
        return _apply(F.SUBTRACT, other, self)

    def __mul__(self, other: "Term | Plain") -> "Term":
        return _apply(F.MULTIPLY, self, other)

    def __rmul__(self, other: Plain) -> "Term":
        return _apply(F.MULTIPLY, other, self)

    def __truediv__(self, other: "Term | Plain") -> "Term":
        return _apply(F.DIVIDE, self, other)

    def __rtruediv__(self, other: Plain) -> "Term":
        return _apply(F.DIVIDE, other, self)

    def __mod__(self, other: "Term | Plain") -> "Term":
        return _apply(F.MODULO, self, other)

    def __rmod__(self, other: Plain) -> "Term":
        return _apply(F.MODULO, other, self)

    def __floordiv__(self, other: "Term | Plain") -> "Term":
        """Return the quotient rounded toward zero, as in SQL: -7 // 2 is -3."""
        return _apply(S.INT_DIVIDE, self, other)

    def __pow__(self, other: "Term | Plain") -> "Term":
        return _apply(F.POWER, self, other)

    def __neg__(self) -> "Term":
        return _apply(F.NEGATE, self)

    def __eq__(self, other: object) -> "Term":  # type: ignore[override]  # returns a term, not a bool
        return _apply(F.EQUAL, self, _not_null(other))

    def __ne__(self, other: object) -> "Term":  # type: ignore[override]  # returns a term, not a bool
        return _apply(F.UNEQUAL, self, _not_null(other))

    def __lt__(self, other: "Term | Plain") -> "Term":
        return _apply(F.LESS, self, other)

    def __le__(self, other: "Term | Plain") -> "Term":
        return _apply(F.LESS_EQUAL, self, other)

    def __gt__(self, other: "Term | Plain") -> "Term":
        return _apply(F.GREATER, self, other)

    def __ge__(self, other: "Term | Plain") -> "Term":
        return _apply(F.GREATER_EQUAL, self, other)

    def __and__(self, other: "Term | Plain") -> "Term":
        return _apply(F.AND, self, other)

    def __rand__(self, other: Plain) -> "Term":
        return _apply(F.AND, other, self)

    def __or__(self, other: "Term | Plain") -> "Term":
        return _apply(F.OR, self, other)

    def __ror__(self, other: Plain) -> "Term":
        return _apply(F.OR, other, self)

    def __invert__(self) -> "Term":
        return _apply(F.NOT, self)

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise UnsupportedQuery(
            "A term is not yet true or false. Write `&`, `|`, and `~` instead of `and`, `or`, and "
            "`not`, with parentheses around comparisons, and `x.between(a, b)` instead of "
            "`a <= x <= b`."
        )

    def __contains__(self, other: object) -> NoReturn:
        raise UnsupportedQuery("`in` is not supported. Write `x.isin([1, 2])`.")

    def __iter__(self) -> NoReturn:
        raise UnsupportedQuery("A term is one value, not several. Write `x.isin([1, 2])`.")

    def isin(self, values: Iterable[Plain]) -> "Term":
        """Return whether the value is one of ``values``."""
        if isinstance(values, str):
            raise UnsupportedQuery("`isin` takes a list of values, such as ['A', 'B'].")
        listed = tuple(values)
        if not listed:
            raise UnsupportedQuery("`isin` needs at least one value, such as ['A', 'B'].")
        return _apply(F.IN, self, *listed)

    def between(self, low: "Term | Plain", high: "Term | Plain") -> "Term":
        """Return whether the value is between ``low`` and ``high``, inclusive."""
        return (self >= low) & (self <= high)

    def like(self, pattern: str) -> "Term":
        """Return whether a string matches a pattern: % is any string, _ any one character."""
        return _apply(F.LIKE, self, pattern)

    def is_null(self) -> "Term":
        return _apply(F.IS_NULL, self)

    def not_null(self) -> "Term":
        return ~self.is_null()

    def abs(self) -> "Term":
        return _apply(F.ABS, self)

    def floor(self) -> "Term":
        return _apply(F.FLOOR, self)

    def ceil(self) -> "Term":
        return _apply(F.CEIL, self)

    def round(self, digits: int | None = None) -> "Term":
        return _apply(F.ROUND, self) if digits is None else _apply(F.ROUND, self, digits)

    def ln(self) -> "Term":
        return _apply(F.LN, self)

    def exp(self) -> "Term":
        return _apply(F.EXP, self)

    def sqrt(self) -> "Term":
        return _apply(F.SQRT, self)

    def log2(self) -> "Term":
        return _apply(F.LOG2, self)

    def log10(self) -> "Term":
        return _apply(F.LOG10, self)

    def sign(self) -> "Term":
        """Return -1, 0, or 1."""
        return _apply(F.SIGN, self)

    def trunc(self) -> "Term":
        """Return the number without its fraction."""
        return _apply(S.TRUNC, self)

    def sin(self) -> "Term":
        return _apply(F.SIN, self)

    def cos(self) -> "Term":
        return _apply(F.COS, self)

    def tan(self) -> "Term":
        return _apply(F.TAN, self)

    def asin(self) -> "Term":
        return _apply(F.ASIN, self)

    def acos(self) -> "Term":
        return _apply(F.ACOS, self)

    def atan(self) -> "Term":
        return _apply(F.ATAN, self)

    def atan2(self, x: "Term | Plain") -> "Term":
        """Return the angle of the point (x, y), where y is this value."""
        return _apply(F.ATAN2, self, x)

    def radians(self) -> "Term":
        return _apply(S.RADIANS, self)

    def degrees(self) -> "Term":
        return _apply(S.DEGREES, self)

    def clip(self, low: Plain, high: Plain) -> "Term":
        """Return the value clipped to [low, high], which bounds it; NULL becomes ``low``."""
        return least(greatest(self, low), high)

    def year(self) -> "Term":
        return _apply(F.YEAR, self)

    def quarter(self) -> "Term":
        return _apply(F.QUARTER, self)

    def month(self) -> "Term":
        return _apply(F.MONTH, self)

    def day(self) -> "Term":
        return _apply(F.DAY, self)

    def weekday(self) -> "Term":
        """Return the day of the week; Sunday is 0."""
        return _apply(F.WEEKDAY, self)

    def truncate(self, unit: str) -> "Term":
        """Return the first day of a date's "year", "quarter", "month", "week", and so on."""
        return _apply(S.TRUNCATE, unit, self)

    def extract(self, part: str) -> "Term":
        """Return a part of a date: "week", "doy", "isodow", "epoch", and so on."""
        return _apply(S.EXTRACT, part, self)

    def add(self, unit: str, count: "Term | Plain") -> "Term":
        """Return the date moved by a number of "day"s, "month"s, and so on."""
        return _apply(S.INTERVAL, unit, self, count)

    def strftime(self, form: str) -> "Term":
        """Return the date as a string, such as "2020-01" for "%Y-%m"."""
        return _apply(S.STRFTIME, self, form)

    def dayname(self) -> "Term":
        """Return the English name of the day of the week."""
        return _apply(S.DAYNAME, self)

    def monthname(self) -> "Term":
        """Return the English name of the month."""
        return _apply(S.MONTHNAME, self)

    def last_day(self) -> "Term":
        """Return the last day of the month."""
        return _apply(S.LAST_DAY, self)

    def lower(self) -> "Term":
        return _apply(F.LOWER, self)

    def upper(self) -> "Term":
        return _apply(F.UPPER, self)

    def length(self) -> "Term":
        return _apply(F.LENGTH, self)

    def substr(self, start: int, length: int | None = None) -> "Term":
        """Return a substring; the first character has index 1."""
        rest = () if length is None else (length,)
        return _apply(F.SUBSTR, self, start, *rest)

    def left(self, count: int) -> "Term":
        """Return the first characters of a string."""
        return _apply(S.LEFT, self, count)

    def right(self, count: int) -> "Term":
        """Return the last characters of a string."""
        return _apply(S.RIGHT, self, count)

    def trim(self, characters: str | None = None) -> "Term":
        """Return a string without spaces, or the given ``characters``, at both ends."""
        return _apply(F.TRIM, self, *_given(characters))

    def ltrim(self, characters: str | None = None) -> "Term":
        """Return a string without spaces, or the given ``characters``, at its beginning."""
        return _apply(F.LTRIM, self, *_given(characters))

    def rtrim(self, characters: str | None = None) -> "Term":
        """Return a string without spaces, or the given ``characters``, at its end."""
        return _apply(F.RTRIM, self, *_given(characters))

    def replace(self, old: str, new: str) -> "Term":
        """Return a string with each ``old`` replaced by ``new``."""
        return _apply(F.REPLACE, self, old, new)

    def split_part(self, separator: str, index: int) -> "Term":
        """Return one piece of a string between separators; the first has index 1."""
        return _apply(F.SPLIT_PART, self, separator, index)

    def position(self, part: str) -> "Term":
        """Return the index of the first ``part`` in a string, counted from 1, or 0 without any."""
        return _apply(F.STRPOS, self, part)

    def contains(self, part: str) -> "Term":
        """Return whether ``part`` is in a string."""
        return _apply(S.CONTAINS, self, part)

    def startswith(self, prefix: str) -> "Term":
        """Return whether a string begins with ``prefix``."""
        return _apply(S.STARTS_WITH, self, prefix)

    def endswith(self, suffix: str) -> "Term":
        """Return whether a string ends with ``suffix``."""
        return _apply(S.ENDS_WITH, self, suffix)

    def ilike(self, pattern: str) -> "Term":
        """Return whether a string matches a pattern in any letter case."""
        return _apply(S.ILIKE, self, pattern)

    def cast(self, kind: Kind | str) -> "Term":
        """Return the value as "int", "float", "text", "bool", or "date"; NULL if that fails."""
        if kind not in list(Kind):
            raise UnsupportedQuery(f"`cast` takes one of {', '.join(Kind)}.")
        return _apply(CASTS[Kind(kind)], self)


@dataclass(frozen=True, slots=True, eq=False)
class Named(Term):
    """A column, or an output of the same query, by name."""

    name: str
    level: int = field(default=1, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Term):
    """A constant value."""

    value: object
    level: int = field(default=1, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Applied(Term):
    """A function of other terms."""

    function: Function | Shorthand
    arguments: tuple[Term, ...]
    level: int = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class AggregateTerm(Term):
    """An aggregate of many rows, or of those for which ``condition`` is true.

    ``quantile`` is the level of a quantile, from 0 to 1.
    """

    function: str
    arguments: tuple[Term, ...]
    condition: Term | None
    quantile: Fraction | None
    level: int = field(repr=False)

    def where(self, condition: Term) -> "AggregateTerm":
        """Return the aggregate of only the rows with a true condition, as with SQL's FILTER."""
        added = _term(condition)
        both = added if self.condition is None else self.condition & added
        level = max(self.level, both.level + 1)
        return AggregateTerm(self.function, self.arguments, both, self.quantile, level)


def _given(characters: str | None) -> tuple[str, ...]:
    return () if characters is None else (characters,)


def _apply(function: Function | Shorthand, *arguments: "Term | Plain") -> Term:
    if not arguments:
        raise UnsupportedQuery(f"`{function.upper()}` needs at least one value.")
    terms = tuple(_term(argument) for argument in arguments)
    level = 1 + max(term.level for term in terms)
    if function in (F.AND, F.OR):
        level = max(term.level + (not _is_call_of(function, term)) for term in terms)
    if level > MAX_LEVELS:
        raise UnsupportedQuery(
            f"An expression can be nested at most {MAX_LEVELS} levels deep. Flatten it."
        )
    if function in (F.AND, F.OR):
        terms = tuple(part for term in terms for part in _parts(function, term))
    return Applied(function, terms, level)


def _not_null(value: object) -> "Term | Plain":
    """Return ``value``; refuse None as an operand of == and !=, as nothing equals NULL in SQL."""
    if value is None:
        raise UnsupportedQuery(
            "Nothing equals NULL, so `== None` is true for no row. Write `x.is_null()` or "
            "`x.not_null()`."
        )
    return cast(Plain, value)


def _is_call_of(function: Function | Shorthand, term: Term) -> bool:
    return isinstance(term, Applied) and term.function is function


def _parts(function: Function | Shorthand, term: Term) -> tuple[Term, ...]:
    """Return the arguments of a term that calls ``function``, or the term itself."""
    return term.arguments if isinstance(term, Applied) and _is_call_of(function, term) else (term,)


def _term(value: "Term | Plain") -> Term:
    return value if isinstance(value, Term) else Constant(value)


def col(name: str) -> Term:
    """Return a column by name; write "table.column" if two tables have it."""
    if not isinstance(name, str):
        raise UnsupportedQuery(f"`col` takes the name of a column; got {type(name).__name__}.")
    return Named(name)


def coalesce(*values: Term | Plain) -> Term:
    """Return the first value that is not NULL."""
    return _apply(F.COALESCE, *values)


def date_diff(unit: str, first: Term | Plain, last: Term | Plain) -> Term:
    """Return the number of "day"s, "month"s, and so on between two dates, as DATE_DIFF does."""
    return _apply(S.DATE_DIFF, unit, first, last)


def make_date(year: Term | Plain, month: Term | Plain, day: Term | Plain) -> Term:
    """Return the date of a year, month, and day, or NULL if there is none."""
    return _apply(S.MAKE_DATE, year, month, day)


def concat(*values: Term | Plain) -> Term:
    """Return the values as one string, without those that are NULL."""
    return _apply(S.CONCAT, *values)


def least(*values: Term | Plain) -> Term:
    """Return the smallest of the values that are not NULL."""
    return _apply(F.LEAST, *values)


def greatest(*values: Term | Plain) -> Term:
    """Return the largest of the values that are not NULL."""
    return _apply(F.GREATEST, *values)


def case(*branches: tuple[Term, Term | Plain], otherwise: Term | Plain = None) -> Term:
    """Return the value of the first (condition, value) with a true condition, or ``otherwise``."""
    return _apply(F.CASE, *(part for branch in branches for part in branch), otherwise)


def aggregate_term(
    function: str, *arguments: Term | str, quantile: Fraction | None = None
) -> AggregateTerm:
    """Return the aggregate ``function`` of these terms; a string is the name of a column."""
    terms = tuple(Named(one) if isinstance(one, str) else _term(one) for one in arguments)
    level = 1 + max((term.level for term in terms), default=0)
    return AggregateTerm(function, terms, None, quantile, level)
