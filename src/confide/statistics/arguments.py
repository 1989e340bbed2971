"""Declarations of the arguments of statistics: types in Python, kinds of JSON, and help.

A field of an arguments dataclass has a plain type, annotated with an `Argument`::

    bins: Annotated[int | None, Argument("number of bins", (JsonInteger(1, 10_000),))] = None
"""

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, Final, Union, get_args, get_type_hints

from confide.exact import Number

__all__ = [
    "ENDS",
    "NAME",
    "PRIVATE",
    "Argument",
    "ArgumentField",
    "Bounds",
    "ColumnName",
    "JsonChoice",
    "JsonInteger",
    "JsonKind",
    "JsonList",
    "JsonNumber",
    "JsonText",
    "TableName",
    "Within",
    "argument_fields",
]


@dataclass(frozen=True, slots=True)
class JsonText:
    """A string of 1 to ``longest`` characters."""

    longest: int


@dataclass(frozen=True, slots=True)
class JsonChoice:
    """One of a few strings."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JsonInteger:
    """An integer from ``low`` to ``high``."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class JsonNumber:
    """A finite number from ``low`` to ``high``; ``is_open`` leaves both ends out."""

    low: float
    high: float
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class JsonList:
    """A list of ``fewest`` to ``most`` items of one kind."""

    item: "JsonKind"
    fewest: int
    most: int


JsonKind = Union[JsonText, JsonChoice, JsonInteger, JsonNumber, JsonList]  # noqa: UP007  # of itself


@dataclass(frozen=True, slots=True)
class Argument:
    """The meaning of an argument, in a few words, and the kinds of JSON that servers take for it.

    An argument without kinds is for Python only: servers and agents do not take it. Where the
    default is None, JSON may hold null.
    """

    help: str
    kinds: tuple[JsonKind, ...] = ()


NAME: Final = JsonText(200)
ENDS: Final = JsonList(JsonNumber(-1e15, 1e15), 2, 2)
PRIVATE: Final = "private"

TableName = Annotated[str, Argument("a declared table", (NAME,))]
ColumnName = Annotated[str, Argument("one column", (NAME,))]
Within = Annotated[
    Sequence[Number] | None, Argument("[low, high], narrower than declared", (ENDS,))
]
Bounds = Annotated[
    Sequence[Number] | str | None,
    Argument(
        '[low, high], narrower than declared, or "private" to find them',
        (ENDS, JsonChoice((PRIVATE,))),
    ),
]


@dataclass(frozen=True, slots=True)
class ArgumentField:
    """One argument of a statistic: its name, type, declaration, and default."""

    name: str
    type: Any
    argument: Argument
    default: Any
    is_keyword: bool

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is MISSING

    @property
    def is_remote(self) -> bool:
        """Whether servers and agents take it."""
        return bool(self.argument.kinds)


def argument_fields(arguments: type) -> tuple[ArgumentField, ...]:
    """Return the arguments that a dataclass declares, in order.

    Raises:
        TypeError: a field is not annotated with an `Argument`.
    """
    hints = get_type_hints(arguments, include_extras=True)
    found = []
    for one in fields(arguments):
        kind, *more = get_args(hints[one.name]) or (hints[one.name],)
        declared = next((item for item in more if isinstance(item, Argument)), None)
        if declared is None:
            raise TypeError(f"{arguments.__name__}.{one.name} needs an annotation with an Argument")
        found.append(ArgumentField(one.name, kind, declared, one.default, one.kw_only is True))
    return tuple(found)
