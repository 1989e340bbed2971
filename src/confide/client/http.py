"""Prices as JSON, status codes and errors, for client and server."""

import math
from collections.abc import Mapping
from typing import Any, Final

from confide.declare.budget import CostArgs
from confide.errors import (
    BadArgument,
    BadDeclaration,
    BudgetExceeded,
    ConfideError,
    Fault,
    Refusal,
    refusing,
)
from confide.exact import Number, probability
from confide.ledger.protocol import KeyUsed

__all__ = [
    "STATUS",
    "EstimateArgs",
    "MalformedRequest",
    "NotFound",
    "NotReady",
    "NotSignedIn",
    "NotYours",
    "TooLarge",
    "TooManyRequests",
    "TooSlow",
    "Unreachable",
    "status_of",
    "write_want",
]


class EstimateArgs(CostArgs, total=False):
    """What an estimate may cost, at which level its intervals come back, and how it is asked."""

    confidence: Number
    fresh: bool
    key: str | None


@refusing
def write_want(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the wants as JSON can hold them; a fraction stays exact as text.

    >>> from fractions import Fraction
    >>> write_want({"share": Fraction(1, 3), "confidence": 0.9})
    {'share': '1/3', 'confidence': 0.9}
    """
    for name, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise BadArgument(f"{name} must be a finite number, got {value!r}")
    exact = (int, float, str)
    written = {
        name: value if isinstance(value, exact) else str(value) for name, value in given.items()
    }
    if "confidence" in given:
        level = probability("confidence", given["confidence"], zero=False)
        written["confidence"] = float(level)
    return written


class NotSignedIn(Refusal):
    """The token is missing, unknown, expired or revoked."""

    code = "not-signed-in"


class NotYours(Refusal):
    """The caller may not do this, or may not see whether it is there."""

    code = "not-yours"


class NotFound(Refusal):
    """The server has no such route."""

    code = "not-found"


class MalformedRequest(Refusal):
    """The request is not of the documented shape; nothing was read or spent."""

    code = "malformed-request"


class TooLarge(Refusal):
    """The request has more bytes than the owner allows; nothing was read or spent."""

    code = "too-large"


class TooSlow(Refusal):
    """The request did not arrive in time; nothing was read or spent."""

    code = "too-slow"


class TooManyRequests(Refusal):
    """The caller asks too often or too much at once; nothing was read or spent."""

    code = "too-many-requests"


class NotReady(Refusal):
    """The answer takes longer than the server lets callers wait; asking again fetches it.

    Alone among refusals it may come after the charge: the question goes on, its answer is kept,
    and the same key, or the same question once it is answered, gets it at no further cost.
    """

    code = "not-ready"


class Unreachable(Fault):
    """The connection broke, or something between us and the server answered in its place.

    A charge may have been made: the same key fetches its answer.
    """

    code = "unreachable"


STATUS: Final[dict[type[ConfideError], int]] = {
    NotSignedIn: 401,
    NotYours: 403,
    NotFound: 404,
    TooSlow: 408,
    KeyUsed: 409,
    TooLarge: 413,
    MalformedRequest: 422,
    BadDeclaration: 422,
    TooManyRequests: 429,
    BudgetExceeded: 429,
    NotReady: 503,
    Refusal: 422,
    Fault: 500,
}


def status_of(error: ConfideError) -> int:
    """Return the status that tells of an error: that of its class, or of the nearest above it.

    >>> status_of(NotYours("this is the owner's"))
    403
    """
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
