"""Bounds that everyone knows, by the name of a column: an age is from 0 to 120.

`confide init` suggests them for the owner to confirm. They come from general knowledge about the
name, never from the data.
"""

import re
from typing import Final

__all__ = ["bounds_hint"]

HINTS: Final = (
    (r"age(?:_(?:years|at_\w+))?|years_old", 0, 120),
    (r"(?:birth_|calendar_)?year(?:_of_birth)?", 1900, 2100),
    (r"quarter", 1, 4),
    (r"month", 1, 12),
    (r"week", 1, 53),
    (r"day(?:_of_month)?", 1, 31),
    (r"hour", 0, 23),
    (r"minute|second", 0, 59),
    (r"percent(?:age)?|pct", 0, 100),
    (r"latitude|lat", -90, 90),
    (r"longitude|lon|lng", -180, 180),
    (r"height(?:_cm)?", 0, 250),
    (r"weight(?:_kg)?", 0, 300),
    (r"bmi", 0, 100),
    (r"systolic(?:_bp)?|sbp", 0, 300),
    (r"diastolic(?:_bp)?|dbp", 0, 200),
    (r"heart_rate|pulse", 0, 300),
    (r"children|kids|siblings", 0, 20),
    (r"educ(?:ation)?(?:_years)?|schooling", 0, 30),
)
"""A pattern of names, and the bounds that values with such a name have."""
PATTERNS: Final = tuple((re.compile(names), low, high) for names, low, high in HINTS)
WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def bounds_hint(name: str) -> tuple[int, int] | None:
    """Return bounds for a numeric column with this name, or None.

    >>> bounds_hint("Age"), bounds_hint("heartRate"), bounds_hint("income")
    ((0, 120), (0, 300), None)
    """
    words = WORD_START.sub("_", name).lower()
    return next(((low, high) for pattern, low, high in PATTERNS if pattern.fullmatch(words)), None)
