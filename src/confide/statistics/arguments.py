"""Declarations of statistics' arguments: Python types, JSON types, and help.

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
    """A string of 1 to ``max_length`` characters."""

    max_length: int


@dataclass(frozen=True, slots=True)
class JsonChoice:
    """One of several strings."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JsonInteger:
    """An integer from ``low`` to ``high``."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class JsonNumber:
    """A finite number from ``low`` to ``high``; ``is_open`` excludes both ends."""

    low: float
    high: float
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class JsonList:
    """A list of ``min_items`` to ``max_items`` items of one kind."""

    item: "JsonKind"
    min_items: int
    max_items: int


JsonKind = Union[JsonText, JsonChoice, JsonInteger, JsonNumber, JsonList]  # noqa: UP007  # recursive


@dataclass(frozen=True, slots=True)
class Argument:
    """A short description of an argument, and the JSON types that servers accept for it.

    An argument without ``kinds`` is available only in Python, not over HTTP or to agents. If the
    default is None, JSON can contain null.
    """

    help: str
    kinds: tuple[JsonKind, ...] = ()


NAME: Final = JsonText(200)
ENDS: Final = JsonList(JsonNumber(-1e15, 1e15), 2, 2)
PRIVATE: Final = "private"

TableName = Annotated[str, Argument("a declared table", (NAME,))]
ColumnName = Annotated[str, Argument("a column", (NAME,))]
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
    """One argument of a statistic: its name, Python type, declaration, and default.

    ``default`` is `dataclasses.MISSING` if the argument is required.
    """

    name: str
    type: Any
    argument: Argument
    default: Any
    is_keyword: bool

    @property
    def is_required(self) -> bool:
        """Whether the argument has no default."""
        return self.default is MISSING

    @property
    def is_remote(self) -> bool:
        """Whether the argument is available over HTTP and to agents."""
        return bool(self.argument.kinds)


def argument_fields(arguments: type) -> tuple[ArgumentField, ...]:
    """Return the arguments declared by a dataclass, in order.

    Raises:
        TypeError: a field is not annotated with an `Argument`.
    """
    hints = get_type_hints(arguments, include_extras=True)
    found = []
    for one in fields(arguments):
        kind, *more = get_args(hints[one.name]) or (hints[one.name],)
        declared = next((item for item in more if isinstance(item, Argument)), None)
        if declared is None:
            raise TypeError(
                f"`{arguments.__name__}.{one.name}` must be annotated with an `Argument`."
            )
        found.append(ArgumentField(one.name, kind, declared, one.default, one.kw_only is True))
    return tuple(found)
