"""Statements that were written before, and are found again."""

from collections.abc import Callable
from threading import Lock
from typing import Final

from confide.plan import Histogram, Plan

__all__ = ["Written"]

MOST_KEPT: Final = 256


class Written:
    """Keeps the texts of statements under all that they are written from, the latest ones.

    Writing takes longer than all else that is done about a small table, and analysts ask again: at
    another price, or with ``fresh=True``. The catalog, the salt and the unit are the engine's own.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._lock = Lock()

    def find(self, plan: Plan, histogram: Histogram | None, write: Callable[[], str]) -> str:
        """Return the statement for a plan, or for one histogram of it, written if it is new."""
        name = _name(plan, histogram)
        with self._lock:
            text = self._texts.pop(name, None)
        if text is None:
            text = write()
        with self._lock:
            self._texts[name] = text  # as the latest
            if len(self._texts) > MOST_KEPT:
                del self._texts[next(iter(self._texts))]
        return text


def _name(plan: Plan, histogram: Histogram | None) -> str:
    """Return a text that differs wherever the statement would.

    Why: it shows every field that a statement is written from, domains apart, which follow from
         keys and ranges; values that Python holds equal, such as 1, 1.0 and True, look different.
         What is shown of a group is computed after the noise, from totals and histograms alone.
    """
    query = plan.query
    read = query.source, plan.where, query.keys, plan.contribution, plan.has_unit
    seen = type(plan.keys), dict(plan.ranges), plan.totals if histogram is None else histogram
    return repr((read, seen))
