"""Pydantic types for the arguments of statistics, from which servers and agents make schemas.

Pydantic is imported on first use, so computing statistics does not require it.
"""

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal, assert_never

from confide.lazy import lazy_module
from confide.statistics.arguments import (
    JsonChoice,
    JsonInteger,
    JsonKind,
    JsonList,
    JsonNumber,
    JsonText,
)

if TYPE_CHECKING:
    import pydantic
else:
    pydantic = lazy_module("pydantic")

__all__ = ["checked_type"]


def checked_type(*kinds: JsonKind) -> Any:
    """Return a pydantic type that accepts exactly the JSON of these kinds, without coercion."""
    return reduce(or_, map(_checked, kinds))


def _checked(kind: JsonKind) -> Any:
    match kind:
        case JsonText(max_length):
            return Annotated[str, pydantic.Field(strict=True, min_length=1, max_length=max_length)]
        case JsonChoice(words):
            return Literal[words]
        case JsonInteger(low, high):
            return Annotated[int, pydantic.Field(strict=True, ge=low, le=high)]
        case JsonNumber(low, high, is_open):
            inside = pydantic.Field(gt=low, lt=high) if is_open else pydantic.Field(ge=low, le=high)
            return Annotated[float, pydantic.Field(strict=True, allow_inf_nan=False), inside]
        case JsonList(item, min_items, max_items):
            several: Any = list.__class_getitem__(checked_type(item))
            return Annotated[several, pydantic.Field(min_length=min_items, max_length=max_items)]
        case _:
            assert_never(kind)
