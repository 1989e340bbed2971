"""Column types: `Int`, `Float`, `Category`, `Text`, `Bool`, `Date`, and `Timestamp`.

The engine clips the values of every row to the declared bounds, so a wrong bound costs accuracy
but not privacy. Bounds must come from domain knowledge, never from the data.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from fractions import Fraction
from numbers import Integral
from typing import ClassVar, Final

from confide.errors import BadDeclaration
from confide.exact import Number, fraction, integer, positive

__all__ = [
    "MAX_INT64",
    "MAX_MILLISECONDS",
    "MIN_MILLISECONDS",
    "Bool",
    "Category",
    "Column",
    "Date",
    "Decimal",
    "Float",
    "Int",
    "Kind",
    "Text",
    "Timestamp",
    "finest_step",
    "from_milliseconds",
    "read_day",
    "read_length",
    "read_timestamp",
    "to_milliseconds",
]

MAX_INTEGER: Final = 2**53
MAX_INT64: Final = 2**63 - 1
MAX_FLOAT: Final = Fraction(sys.float_info.max)
MIN_STEP: Final = Fraction(1, 10**300)
"""The smallest step allowed, so that a double can hold the number of steps in 1."""
GRID_BITS: Final = 40
MAX_SCALE: Final = 15
EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  # timestamps have no time zone
MILLISECOND: Final = timedelta(milliseconds=1)
END_OF_DAY: Final = time(23, 59, 59, 999_000)
MAX_TEXT_LENGTH: Final = 1_000_000


class Kind(StrEnum):
    """The type of a value, named alike in declarations, queries, and engines."""

    INT = "int"
    FLOAT = "float"
    TEXT = "text"
    BOOL = "bool"
    DATE = "date"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True, init=False)
class Int:
    """Integers from ``low`` to ``high``; values outside are clipped.

    Identifiers and hashes may have 64 bits. Past 2^53 they are exact as group keys, in joins, and
    in comparisons with integers, and doubles in sums.
    """

    kind: ClassVar[Kind] = Kind.INT
    low: int
    high: int

    def __init__(self, low: int, high: int) -> None:
        least = integer("low", low, low=-MAX_INT64, high=MAX_INT64)
        most = integer("high", high, low=-MAX_INT64, high=MAX_INT64)
        _check_order(least, most)
        object.__setattr__(self, "low", least)
        object.__setattr__(self, "high", most)


@dataclass(frozen=True, slots=True, init=False)
class Float:
    """Real numbers from ``low`` to ``high``, rounded to multiples of ``step`` in sums.

    The default step is about 2^-40 of the range (see `finest_step`). So rounding changes no sum
    noticeably, and every sum is an exact integer number of steps.
    """

    kind: ClassVar[Kind] = Kind.FLOAT
    low: Fraction
    high: Fraction
    step: Fraction

    def __init__(self, low: Number, high: Number, *, step: Number | None = None) -> None:
        least = fraction("low", low, "a finite number")
        most = fraction("high", high, "a finite number")
        _check_order(least, most)
        if max(-least, most) > MAX_FLOAT:
            raise BadDeclaration(
                "Bounds must be from -1.7e308 to 1.7e308, so that a double can represent them; "
                "got a number outside."
            )
        exact_step = positive("step", step) if step is not None else finest_step(least, most)
        if (
            step is not None
            and most > least
            and not 1 <= (most - least) / exact_step <= MAX_INTEGER
        ):
            raise BadDeclaration(
                f"`step` must be at least 2**-53 of the range and at most the range; got {step!r}."
            )
        if step is not None and exact_step < MIN_STEP:
            raise BadDeclaration(
                f"`step` must be at least 1e-300. Use larger units of measurement; got {step!r}."
            )
        for name, value in (("low", least), ("high", most), ("step", exact_step)):
            object.__setattr__(self, name, value)


def Decimal(low: Number, high: Number, scale: int) -> Float:  # noqa: N802  # the name of a type
    """Return the type of decimal numbers: a `Float` whose step is one unit of its last digit.

    >>> Decimal(0, 100, 2).step
    Fraction(1, 100)
    """
    digits = integer("scale", scale, low=0, high=MAX_SCALE)
    return Float(low, high, step=Fraction(1, 10**digits))


@dataclass(frozen=True, slots=True, init=False)
class Category:
    """A few declared values, strings or integers; answers contain every one as a group key.

    A value that is not listed counts as NULL. List ``None`` to include NULL as a group key. The
    data may store integers as 1 or 1.0; answers contain integers, and queries compare the column
    with numbers.

    >>> Category([1, 2, 3]).kind, Category(["1", "2", "3"]).kind
    (<Kind.INT: 'int'>, <Kind.TEXT: 'text'>)
    """

    values: tuple[str | int | None, ...]

    def __init__(self, values: Iterable[str | int | None]) -> None:
        is_list = isinstance(values, Iterable) and not isinstance(values, str)
        listed = tuple(values) if is_list else ()
        known = [value for value in listed if value is not None]
        are_texts = all(isinstance(value, str) for value in known)
        if not listed or not (are_texts or all(map(_is_integer, known))):
            raise BadDeclaration(
                "`values` must be a list of at least one value, either strings or integers; got "
                f"{values!r}."
            )
        if not are_texts:
            listed = tuple(None if value is None else _read_code(value) for value in listed)
        if len(set(listed)) != len(listed):
            raise BadDeclaration("`values` must differ from each other. List each value only once.")
        object.__setattr__(self, "values", listed)

    @property
    def kind(self) -> Kind:
        """The type of the listed values."""
        return Kind.INT if any(isinstance(value, int) for value in self.values) else Kind.TEXT


@dataclass(frozen=True, slots=True, init=False)
class Text:
    """Any string; as a group key, it is released only if enough units share it.

    Strings are cut to their first ``max_length`` characters if that is given.
    """

    kind: ClassVar[Kind] = Kind.TEXT
    max_length: int | None

    def __init__(self, *, max_length: int | None = None) -> None:
        length = None if max_length is None else read_length("max_length", max_length)
        object.__setattr__(self, "max_length", length)


@dataclass(frozen=True, slots=True)
class Bool:
    """True or false."""

    kind: ClassVar[Kind] = Kind.BOOL


@dataclass(frozen=True, slots=True, init=False)
class Date:
    """Dates from ``low`` to ``high``, inclusive; values outside are clipped."""

    kind: ClassVar[Kind] = Kind.DATE
    low: date
    high: date

    def __init__(self, low: str | date, high: str | date) -> None:
        least, most = read_day("low", low), read_day("high", high)
        _check_order(least, most)
        object.__setattr__(self, "low", least)
        object.__setattr__(self, "high", most)


@dataclass(frozen=True, slots=True, init=False)
class Timestamp:
    """Dates with a time of day, from ``low`` to ``high``; values outside are clipped.

    Timestamps have milliseconds, but no time zone; stored values with a time zone are converted to
    UTC. If ``low`` is a date, its first millisecond is meant; if ``high`` is a date, its last.
    """

    kind: ClassVar[Kind] = Kind.TIMESTAMP
    low: datetime
    high: datetime

    def __init__(self, low: str | date, high: str | date) -> None:
        least = read_timestamp("low", low)
        most = read_timestamp("high", high, is_end=True)
        _check_order(least, most)
        object.__setattr__(self, "low", least)
        object.__setattr__(self, "high", most)


Column = Int | Float | Category | Text | Bool | Date | Timestamp


def finest_step(low: Fraction, high: Fraction) -> Fraction:
    """Return the power of two that divides [low, high] into about 2**40 steps.

    If ``low`` equals ``high``, return a step of which this number is a multiple instead.

    >>> finest_step(Fraction(0), Fraction(5_000)) == Fraction(8_192, 2**40)
    True
    """
    if low == high:
        return Fraction(1, low.denominator)
    width = high - low
    exponent = width.numerator.bit_length() - width.denominator.bit_length()
    power: Fraction = Fraction(2) ** exponent
    return (power if power >= width else power * 2) / (1 << GRID_BITS)


def read_length(name: str, value: object) -> int:
    """Return a number of characters, from 1 to a million."""
    return integer(name, value, low=1, high=MAX_TEXT_LENGTH)


def _is_integer(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _read_code(value: object) -> int:
    """Return a category's integer; from 2**53 on, doubles in the data would not be distinct."""
    return integer("values", value, low=1 - MAX_INTEGER, high=MAX_INTEGER - 1)


def _check_order(low: object, high: object) -> None:
    if low > high:  # type: ignore[operator]  # both are of the same ordered type
        raise BadDeclaration(f"`low` must be at most `high`; got low={low}, high={high}.")


def read_day(name: str, value: object) -> date:
    """Return a date, passed as a `date` or as a string such as '2020-01-31'."""
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    elif type(value) is date:
        return value
    raise BadDeclaration(f"`{name}` must be a date such as '2020-01-31'; got {value!r}.")


def read_timestamp(name: str, value: object, *, is_end: bool = False) -> datetime:
    """Return a timestamp, passed as a `datetime`, as a `date`, or as a string of either.

    A date becomes its first millisecond or, with ``is_end``, its last.
    """
    try:
        if isinstance(value, str) and len(value) == len("2020-01-31"):
            value = date.fromisoformat(value)
        found = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if type(found) is date:
        return datetime.combine(found, END_OF_DAY if is_end else time.min)
    if not isinstance(found, datetime) or found.tzinfo is not None or found.microsecond % 1000:
        raise BadDeclaration(
            f"`{name}` must be a timestamp with at most three decimal places and without a time "
            f"zone, such as '2020-01-31 12:30:00'; got {value!r}."
        )
    return found


def to_milliseconds(timestamp: datetime) -> int:
    """Return the milliseconds since January 1, 1970."""
    return (timestamp - EPOCH) // MILLISECOND


def from_milliseconds(count: int) -> datetime:
    """Return the timestamp this many milliseconds after January 1, 1970."""
    return EPOCH + count * MILLISECOND


MIN_MILLISECONDS: Final = to_milliseconds(datetime.min)  # noqa: DTZ901  # without a time zone
MAX_MILLISECONDS: Final = to_milliseconds(datetime.max)  # noqa: DTZ901
