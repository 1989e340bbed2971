"""The three families of error, with codes that never change.

Whoever has to act decides the family: the owner (`BadDeclaration`), the analyst (`Refusal`) or
we ourselves (`Fault`). Text that may reach an analyst quotes their own words and declared facts.
"""

import traceback
from collections.abc import Callable
from fractions import Fraction
from functools import wraps
from typing import ClassVar, Final, ParamSpec, TypeVar

__all__ = [
    "BadArgument",
    "BadDeclaration",
    "BudgetExceeded",
    "ConfideError",
    "Fault",
    "MissingPackage",
    "Refusal",
    "UnknownName",
    "UnsupportedQuery",
    "as_refusal",
    "place_of",
    "refusing",
]

P = ParamSpec("P")
T = TypeVar("T")

FRAMES: Final = 6


class ConfideError(Exception):
    """Everything that confide raises on purpose."""

    code: ClassVar[str] = "error"


class BadDeclaration(ConfideError):
    """An argument or a declaration cannot be right; nothing was drawn, read or spent."""

    code = "bad-declaration"


class MissingPackage(BadDeclaration):
    """What was asked for needs a package that is not installed; nothing was read or spent."""

    code = "missing-package"


class Refusal(ConfideError):
    """The question cannot be answered as asked; nothing was read or spent."""

    code = "refusal"


class BadArgument(Refusal):
    """An argument of a question cannot be right; nothing was read or spent."""

    code = "bad-argument"


class Fault(ConfideError):
    """Something on our side failed; the caller did nothing wrong."""

    code = "fault"


class BudgetExceeded(Refusal):
    """The answer costs more than is left; no row was read and nothing was spent."""

    code = "budget-exceeded"

    def __init__(self, message: str, *, cost: Fraction, left: Fraction) -> None:
        super().__init__(message)
        self.cost, self.left = cost, left


class UnsupportedQuery(Refusal):
    """The question uses something that confide does not answer; nothing was read or spent.

    ``excerpt`` is the refused piece of the analyst's own text, underlined, where there is a text.
    """

    code = "unsupported-query"

    def __init__(self, message: str, *, excerpt: str = "") -> None:
        super().__init__(f"{message}\n{excerpt}" if excerpt else message)
        self.message, self.excerpt = message, excerpt


class UnknownName(Refusal):
    """The question names a table or a column that nobody declared; nothing was read or spent."""

    code = "unknown-name"

    def __init__(self, message: str, *, excerpt: str = "") -> None:
        super().__init__(f"{message}\n{excerpt}" if excerpt else message)
        self.message, self.excerpt = message, excerpt


def refusing(function: Callable[P, T]) -> Callable[P, T]:
    """Let what a function says of its arguments be a refusal: analysts give them."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except BadDeclaration as error:
            told = as_refusal(error)
            if told is error:
                raise
            raise told from error

    return called


def as_refusal(error: ConfideError) -> ConfideError:
    """Return an error as whoever sent a request is told it: what they gave is theirs to change."""
    is_theirs = isinstance(error, BadDeclaration) and not isinstance(error, MissingPackage)
    return BadArgument(str(error)) if is_theirs else error


def place_of(error: Exception) -> str:
    """Return what kind an error is of and where it arose, for a log.

    # Privacy: its words are left out, since they may quote a row.
    """
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
    places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames]
    return f"{type(error).__name__} at {' '.join(places)}"
