"""The three families of errors, with stable codes.

The family shows who has to act: the owner (`BadDeclaration`), the analyst (`Refusal`), or the
operators of confide (`Fault`). A message that may reach an analyst quotes only the analyst's own
query and declared facts.
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
    "error_location",
    "refusing",
]

P = ParamSpec("P")
T = TypeVar("T")

MAX_FRAMES: Final = 6


class ConfideError(Exception):
    """The base class of all errors that confide raises on purpose."""

    code: ClassVar[str] = "error"


class BadDeclaration(ConfideError):
    """An argument or a declaration is not valid; nothing was spent."""

    code = "bad-declaration"


class MissingPackage(BadDeclaration):
    """A required package is not installed; nothing was read or spent."""

    code = "missing-package"


class Refusal(ConfideError):
    """The query cannot be answered as written; nothing was read or spent."""

    code = "refusal"


class BadArgument(Refusal):
    """An argument of a query is not valid; nothing was read or spent."""

    code = "bad-argument"


class Fault(ConfideError):
    """Something failed on the server side; the caller did nothing wrong."""

    code = "fault"


class BudgetExceeded(Refusal):
    """The query costs more than the remaining budget; no row was read and nothing was spent."""

    code = "budget-exceeded"

    def __init__(self, message: str, *, cost: Fraction, left: Fraction) -> None:
        super().__init__(message)
        self.cost, self.left = cost, left


class UnsupportedQuery(Refusal):
    """The query uses something that confide does not support; nothing was read or spent.

    ``excerpt`` shows the refused part of the analyst's SQL, underlined. It is empty if the query
    was not written in SQL.
    """

    code = "unsupported-query"

    def __init__(self, message: str, *, excerpt: str = "") -> None:
        super().__init__(f"{message}\n{excerpt}" if excerpt else message)
        self.message, self.excerpt = message, excerpt


class UnknownName(Refusal):
    """The query names an undeclared table or column; nothing was read or spent."""

    code = "unknown-name"

    def __init__(self, message: str, *, excerpt: str = "") -> None:
        super().__init__(f"{message}\n{excerpt}" if excerpt else message)
        self.message, self.excerpt = message, excerpt


def refusing(function: Callable[P, T]) -> Callable[P, T]:
    """Convert errors about a function's arguments to refusals, because analysts pass them."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except BadDeclaration as error:
            refusal = as_refusal(error)
            if refusal is error:
                raise
            raise refusal from error

    return called


def as_refusal(error: ConfideError) -> ConfideError:
    """Return the error as a `BadArgument` if the caller's own argument caused it."""
    is_callers = isinstance(error, BadDeclaration) and not isinstance(error, MissingPackage)
    return BadArgument(str(error)) if is_callers else error


def error_location(error: Exception) -> str:
    """Return the type of an error and the last lines that it passed through, for a log.

    # Privacy: the error's message is omitted, because it may quote a row.
    """
    frames = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
    places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames]
    return f"{type(error).__name__} at {' '.join(places)}"
