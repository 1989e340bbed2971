"""Prices in JSON, and the errors of HTTP with their status codes, for both client and server."""

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
    "CLIENT_HEADER",
    "JSON_ADVICE",
    "STATUS",
    "TOOLS_CLIENT",
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
    "encode_price",
    "status_of",
]


CLIENT_HEADER: Final = "confide-client"
TOOLS_CLIENT: Final = "tools"
"""The client header of requests from tools, whose tokens need the right to confirm."""
JSON_ADVICE: Final = 'To pay this much, send `"confirm": true`.'


class EstimateArgs(CostArgs, total=False):
    """The keyword arguments of every estimate: cost, confidence level, and options."""

    confidence: Number
    fresh: bool
    key: str | None
    confirm: bool


@refusing
def encode_price(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return price arguments as JSON values; fractions become strings to stay exact.

    Only a confidence level becomes a float.

    >>> from fractions import Fraction
    >>> encode_price({"share": Fraction(1, 3), "confidence": 0.9})
    {'share': '1/3', 'confidence': 0.9}
    """
    for name, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise BadArgument(f"`{name}` must be a finite number; got {value!r}.")
    exact = (int, float, str)
    written = {
        name: value if isinstance(value, exact) else str(value) for name, value in given.items()
    }
    if "confidence" in given:
        level = probability("confidence", given["confidence"], zero=False)
        written["confidence"] = float(level)
    return written


class NotSignedIn(Refusal):
    """The token is missing, unknown, expired, or revoked."""

    code = "not-signed-in"


class NotYours(Refusal):
    """The caller lacks permission, or the resource does not exist; the response is the same."""

    code = "not-yours"


class NotFound(Refusal):
    """The server has no such route or resource."""

    code = "not-found"


class MalformedRequest(Refusal):
    """The request does not match the schema; nothing was read or spent."""

    code = "malformed-request"


class TooLarge(Refusal):
    """The request has more bytes than the owner allows; nothing was read or spent."""

    code = "too-large"


class TooSlow(Refusal):
    """The request did not arrive in time; nothing was read or spent."""

    code = "too-slow"


class TooManyRequests(Refusal):
    """The caller exceeded a rate limit; nothing was read or spent."""

    code = "too-many-requests"


class NotReady(Refusal):
    """The query is still running after the server's longest wait; a retry fetches the answer.

    Unlike other refusals, this one can follow a charge. The query keeps running, and its answer is
    stored. A retry with the same key is free, and so is the same query without a key once it is
    answered.
    """

    code = "not-ready"


class Unreachable(Fault):
    """The connection broke, or a proxy answered instead of the server.

    The query may have been charged; a retry with the same key fetches its answer.
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
    """Return the HTTP status of an error: that of its class, or of its nearest base class.

    >>> status_of(NotYours("this is the owner's"))
    403
    """
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
