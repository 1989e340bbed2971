"""Quantiles: cells chosen from exact counts, and the values and intervals that they stand for."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from confide.engines.sealed import Integers, Pair
from confide.mechanisms import Exponential
from confide.mechanisms.grid import LARGEST_VALUE
from confide.noise import Entropy
from confide.plan import Cells, Plan, Quantile
from confide.release.estimates import Floats

__all__ = ["Chosen", "Ranks", "choose_cells", "read_cells", "read_ends", "spread_ends"]

EDGE_WEIGHT: Final = 39
SAFE: Final = 2**61
CONFIDENCE: Final = 0.95

Chosen = tuple[int, int, int]
"""The cell of a quantile's value and those of the ends of its interval.

An end outside all cells, -1 or their number, is an end of the declared range.
"""


@dataclass(frozen=True, slots=True)
class Ranks:
    """The stretches of cells with the same rank, of one group.

    ``breaks`` are the cells where a stretch begins, and the number of all cells; a stretch is one
    cell with rows or a gap between two such. ``first`` and ``last`` are its ranks, of which one
    row is ``row`` steps; ``rows`` are all rows of the group.
    """

    breaks: Integers
    first: Integers
    last: Integers
    rows: int
    row: int

    @classmethod
    def of(cls, counts: Pair, cells: Cells, row: int) -> "Ranks":
        """Return the ranks of a group's rows."""
        filled, rows = counts
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows)])
        total = int(before[-1])
        if row * total >= SAFE:
            before = before.astype(object)  # more rows than any engine holds: exact, if slow
        breaks = np.empty(2 * len(filled) + 2, dtype=np.int64)
        breaks[0], breaks[-1] = 0, cells.count
        breaks[1:-1:2], breaks[2:-1:2] = filled, filled + 1
        ranks = row * before
        first = np.repeat(ranks, 2)[:-1]
        return cls(breaks, first, np.repeat(ranks, 2)[1:], total, row)

    def scores(self, rank: int) -> Integers:
        """Return how far each stretch is from a rank, below zero."""
        gaps = np.maximum(np.maximum(self.first - rank, rank - self.last), 0)
        return np.minimum(gaps, LARGEST_VALUE).astype(np.int64) * -1

    def rank_of(self, quantile: Quantile) -> int:
        """Return the rank of a quantile, as QUANTILE_CONT places it."""
        level = quantile.level
        return 2 * level.numerator * (self.rows - 1) + level.denominator


def choose_cells(counts: Pair, quantile: Quantile, cells: Cells, entropy: Entropy) -> Chosen:
    """Return the cells of a quantile's value and of both ends of its interval.

    # Privacy: three choices, each paid for; the ends see the value only after it is chosen, and of
    # the counts nothing but these cells leaves.
    """
    ranks = Ranks.of(counts, cells, 2 * quantile.level.denominator)
    rank = ranks.rank_of(quantile)
    value = _choose(ranks, cells, rank, quantile.choice, within=(0, cells.count), entropy=entropy)
    below = rank - quantile.low.shift
    above = rank + quantile.high.shift
    if quantile.low.edge is not None:
        below = min(below, ranks.rows * ranks.row - quantile.low.edge)
    if quantile.high.edge is not None:
        above = max(above, quantile.high.edge)
    low = _choose(ranks, cells, below, quantile.low.choice, within=(-1, value + 1), entropy=entropy)
    high = _choose(
        ranks, cells, above, quantile.high.choice, within=(value, cells.count + 1), entropy=entropy
    )
    return value, low, high


def _choose(
    ranks: Ranks,
    cells: Cells,
    rank: int,
    choice: Exponential,
    *,
    within: tuple[int, int],
    entropy: Entropy,
) -> int:
    """Return a cell of [first, last), the likelier the nearer its rank is to the wanted one.

    A first of -1, or a last beyond all cells, adds the end of the declared range.
    """
    first, last = max(within[0], 0), min(within[1], cells.count)
    start = int(np.searchsorted(ranks.breaks, first, side="right")) - 1
    stop = int(np.searchsorted(ranks.breaks, last, side="left"))
    inner = ranks.breaks[start + 1 : stop]
    places = cells.start(np.concatenate([[first], inner, [last]]).astype(np.int64))
    scores = ranks.scores(rank)
    kept, whole = scores[start:stop], int(cells.start(np.array([cells.count]))[0])
    if within[0] < 0:
        places, kept = np.insert(places, 0, -EDGE_WEIGHT * whole), np.insert(kept, 0, scores[0])
    if within[1] > cells.count:
        places, kept = np.append(places, (EDGE_WEIGHT + 1) * whole), np.append(kept, scores[-1])
    place = int(choice.choose_interval(places, kept, entropy=entropy))
    if not 0 <= place < whole:
        return -1 if place < 0 else cells.count
    return cells.find(place)


def read_cells(plan: Plan, chosen: tuple[tuple[Chosen, ...], ...]) -> Floats:
    """Return the values of all quantiles, one row a group."""
    table = np.empty((len(chosen), len(plan.quantiles)))
    for place, quantile in enumerate(plan.quantiles):
        cells = plan.histograms[quantile.histogram].cells
        picked = np.array([row[place][0] for row in chosen], dtype=np.int64)
        table[:, place] = cells.middle(picked)
    return table


def read_ends(
    plan: Plan, chosen: tuple[tuple[Chosen, ...], ...], place: int, confidence: float
) -> tuple[Floats, Floats]:
    """Return both ends of the intervals of one quantile, for each group.

    Ends were chosen for 95 %, and serve less than that as well; for more there is only the whole
    range, which is certain.
    """
    cells = plan.histograms[plan.quantiles[place].histogram].cells
    bottom, top = (float(end) for end in cells.bounds)
    if confidence > CONFIDENCE:
        return np.full(len(chosen), bottom), np.full(len(chosen), top)
    lows, highs = (np.array([row[place][end] for row in chosen], dtype=np.int64) for end in (1, 2))
    last = cells.count - 1
    low = np.where(lows < 0, bottom, cells.ends(np.clip(lows, 0, last))[0])
    high = np.where(highs > last, top, cells.ends(np.clip(highs, 0, last))[1])
    return low, high


def spread_ends(
    plan: Plan, chosen: tuple[tuple[Chosen, ...], ...], place: int, confidence: float
) -> Callable[[Floats, int], Floats]:
    """Return a function from levels and a group to how far above the exact value it may lie.

    Why: on either side the distance is taken to be exponential, and to pass the end of the interval
         as often as the interval says. The exact value stays within the range.
    """
    values = read_cells(plan, chosen)[:, place]
    lows, highs = read_ends(plan, chosen, place, confidence)
    bottom, top = plan.histograms[plan.quantiles[place].histogram].cells.bounds
    rarity = -math.log(1.0 - max(confidence, CONFIDENCE))

    def spread(levels: Floats, group: int) -> Floats:
        value = values[group]
        size = -np.log(2.0 * np.minimum(levels, 1.0 - levels)) / rarity
        end = np.where(levels < 0.5, lows[group], highs[group])
        above: Floats = value - np.clip(value + (end - value) * size, bottom, top)
        return above

    return spread
