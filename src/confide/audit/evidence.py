"""Samples from two neighbouring databases weighed against a claim.

One half of the samples proposes a single event, the other half measures it, so that nothing found
by searching is believed for that reason.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from confide.audit.bounds import chance_above, chance_below, near_bounds
from confide.audit.claims import Claim
from confide.audit.views import Bins, Floats, Outputs, View, as_table, fit_views
from confide.errors import BadDeclaration

__all__ = ["CONFIDENCE", "Evidence", "convict", "weigh"]

CONFIDENCE: Final = 0.999
"""How sure a conviction is, over all events that were tried."""

FIRST_TRY: Final = 2**9
TRIES: Final = 14
FEWEST: Final = 16
RARE: Final = 3
"""Added to counts when events are ordered: keeps luck with rare outcomes from opening an event."""

Draw = Callable[[int], tuple[Outputs, Outputs]]
"""Returns so many outputs of each side."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one event, measured on samples of its own, proves.

    ``found`` is the least value of the claim's kind that the counts allow, 0 where they allow all.
    ``hits`` and ``misses`` count the event on the likelier and on the other side, of ``trials``.
    """

    claim: Claim
    found: float
    event: str
    hits: int
    misses: int
    trials: int

    @property
    def is_disproof(self) -> bool:
        """Whether the claim cannot be true, up to the false alarms allowed."""
        return self.found > self.claim.value


@dataclass(frozen=True, slots=True)
class _Event:
    """Pieces of the line of one view; ``is_forward``: the left side meets it more often."""

    view: View
    bins: Bins
    pieces: NDArray[np.int64]
    is_forward: bool
    promise: float

    def count(self, table: Floats) -> int:
        return int(np.isin(self.bins.place(self.view.read(table)), self.pieces).sum())

    def __str__(self) -> str:
        side = "the first" if self.is_forward else "the second"
        return (
            f"{self.view.name}, {len(self.pieces)} of {self.bins.count} pieces; likelier on {side}"
        )


def weigh(
    left: Outputs, right: Outputs, claim: Claim, *, false_alarms: float = 1 - CONFIDENCE
) -> Evidence:
    """Return what these outputs of two neighbouring databases prove about a claim.

    Law:     outputs are independent, those of each side of one law.
    Claim:   if the claim is true, the evidence disproves it with probability at most
             ``false_alarms``.
    Why:     view, event and direction depend on the first halves alone, so the counts in the second
             halves are binomial. Each of the two Clopper-Pearson bounds fails with probability at
             most false_alarms / 2; while both hold, `Claim.disprove` errs below the truth.
    Source:  [CP34]; [DWWZK18] for the two halves.
    Checked: tests/audit/test_evidence.py, tests/audit/test_known_bad.py.
    """
    sides = [as_table(side) for side in (left, right)]
    if min(map(len, sides)) < FEWEST or sides[0].shape[1] != sides[1].shape[1]:
        raise BadDeclaration(
            f"an audit needs {FEWEST} or more outputs of each side, all with as many numbers, got "
            f"{sides[0].shape} and {sides[1].shape}"
        )
    tried, measured = zip(*(np.array_split(side, 2) for side in sides), strict=True)
    level = false_alarms / 2
    event = max(_propose(tried[0], tried[1], claim, level), key=lambda one: one.promise)
    first, second = measured if event.is_forward else measured[::-1]
    hits, misses = event.count(first), event.count(second)
    low, high = chance_below(hits, len(first), level), chance_above(misses, len(second), level)
    found = max(0.0, claim.disprove(low, min(high, 1.0)))
    return Evidence(claim, found, str(event), hits, misses, len(first))


def _propose(left: Floats, right: Floats, claim: Claim, level: float) -> Iterator[_Event]:
    """Yield for each view and direction the event that looks most telling."""
    for view in fit_views(left, right):
        seen = view.read(left), view.read(right)
        bins = Bins.of(np.concatenate(seen))
        first, second = (np.bincount(bins.place(one), minlength=bins.count) for one in seen)
        for here, there, is_forward in ((first, second, True), (second, first, False)):
            pieces, promise = _grow(here, there, claim, level)
            yield _Event(view, bins, pieces, is_forward, promise)


def _grow(
    here: NDArray[np.int64], there: NDArray[np.int64], claim: Claim, level: float
) -> tuple[NDArray[np.int64], float]:
    """Return the best event among those that take pieces one after the other, and its promise.

    The most telling pieces go first, or those at one end of the line.
    """
    telling = np.argsort(-(here + RARE) / (there + RARE), kind="stable")
    along = np.arange(len(here))
    found = [_cut(order, here, there, claim, level) for order in (telling, along, along[::-1])]
    return max(found, key=lambda one: one[1])


def _cut(
    order: NDArray[np.int64],
    here: NDArray[np.int64],
    there: NDArray[np.int64],
    claim: Claim,
    level: float,
) -> tuple[NDArray[np.int64], float]:
    """Return how many pieces to take in this order, and what they promise."""
    low, _ = near_bounds(np.cumsum(here[order]), int(here.sum()), level)
    _, high = near_bounds(np.cumsum(there[order]), int(there.sum()), level)
    promises = [claim.disprove(p, q) for p, q in zip(low.tolist(), high.tolist(), strict=True)]
    last = int(np.argmax(promises))
    return order[: last + 1], promises[last]


def convict(
    draw: Draw, claim: Claim, *, false_alarms: float = 1 - CONFIDENCE, tries: int = TRIES
) -> int | None:
    """Return how many samples of each side disprove the claim, doubling them until they do.

    None means that even the most tried, 2**(8 + tries), did not suffice.

    Claim:   a true claim is convicted with probability at most ``false_alarms`` over all tries.
    Why:     each try has samples of its own and an equal part of the false alarms.
    """
    for attempt in range(tries):
        size = FIRST_TRY << attempt
        left, right = draw(size)
        if weigh(left, right, claim, false_alarms=false_alarms / tries).is_disproof:
            return size
    return None
