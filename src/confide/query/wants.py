"""What a caller says of an answer's cost: the arguments that every method of asking takes."""

import inspect
from collections.abc import Iterator
from typing import Final, TypedDict, TypeVar, get_type_hints

from confide.exact import Number

__all__ = ["Asked", "Paid", "Wanted", "show_wants"]

C = TypeVar("C", bound=type)


class Paid(TypedDict, total=False):
    """What an answer may cost: exactly one of the two.

    ``epsilon=`` is that of this answer alone, at the budget's delta; ``share=`` is a part of the
    whole budget, such as 0.05, "1/20" or "5%".
    """

    epsilon: Number
    share: Number


class Wanted(Paid, total=False):
    """What an answer may cost, or how near it must be: exactly one of the first three.

    ``error=`` is the half-width wanted for every number, at ``confidence=`` (0.95).
    """

    error: Number
    confidence: Number


class Asked(Wanted, total=False):
    """The same, and how a question is asked.

    ``fresh=True`` pays for a new answer to an old question. The same ``key=`` is answered and
    charged once, whatever broke down in between.
    """

    fresh: bool
    key: str | None


DEFAULTS: Final[dict[str, object]] = {"confidence": 0.95, "fresh": False}


def show_wants(cls: C) -> C:
    """Let help() and notebooks show what ``**want`` of a class's methods takes, name by name."""
    for method in vars(cls).values():
        signature = inspect.signature(method) if inspect.isfunction(method) else None
        if signature is not None and "want" in signature.parameters:
            *before, want = signature.parameters.values()
            if want.kind is inspect.Parameter.VAR_KEYWORD:
                named = _named(want, {one.name for one in before})
                method.__signature__ = signature.replace(parameters=[*before, *named])
    return cls


def _named(want: inspect.Parameter, taken: set[str]) -> Iterator[inspect.Parameter]:
    """Yield each argument that ``**want: Unpack[...]`` stands for, unless it has its own place."""
    (listed,) = want.annotation.__args__
    for name, kind in get_type_hints(listed).items():
        if name not in taken:
            default = DEFAULTS.get(name)
            annotation = kind | None if default is None else kind
            yield inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )
