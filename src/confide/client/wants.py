"""What a caller is ready to pay, as JSON can hold it."""

import math
from collections.abc import Mapping
from typing import Any

from confide.declare.budget import Paid
from confide.errors import BadArgument, refusing
from confide.exact import Number, probability

__all__ = ["Sent", "write_want"]


class Sent(Paid, total=False):
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
