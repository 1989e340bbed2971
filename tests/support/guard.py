"""The spending guard in tests: off, except where a test uses the fixture ``spending_guard``.

Most tests ask large shares of small budgets, so that the noise is small. Only the default of
`Budget` changes; a limit that a test declares itself always holds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from confide.declare import Budget

__all__ = ["DEFAULT", "guard_on", "turn_guard_off"]

NAME: Final = "max_share_per_query"
_DEFAULTS: Final[dict[str, Any]] = vars(Budget)["__init__"].__kwdefaults__
DEFAULT: Final = _DEFAULTS[NAME]
"""The default that users get."""


def turn_guard_off() -> None:
    """Remove the default limit, so that any one query may spend all of a budget."""
    _DEFAULTS[NAME] = 1


@contextmanager
def guard_on() -> Iterator[None]:
    """Restore the users' default for new budgets."""
    before, _DEFAULTS[NAME] = _DEFAULTS[NAME], DEFAULT
    try:
        yield
    finally:
        _DEFAULTS[NAME] = before
