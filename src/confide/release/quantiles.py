"""Quantiles: cells chosen from exact counts, and the values and intervals that they stand for."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from confide.engines.sealed import Integers, Pair
from confide.mechanisms import Exponential
from confide.mechanisms.grid import LARGEST_VALUE
from confide.noise import Entropy, uniform_below
from confide.plan import Cells, Plan, Quantile
from confide.release.averages import average_rows, count_columns
from confide.release.estimates import Floats

__all__ = [
    "Chosen",
    "Ranks",
    "choose_each",
    "read_cells",
    "read_ends",
    "score_ends",
    "spread_ends",
]

AT_ONCE: Final = 2**18
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
        return _negate(np.maximum(self.first - rank, rank - self.last))

    def scores_below(self, rank: int) -> Integers:
        """Return how far each stretch is below a rank, below zero."""
        return _negate(rank - self.last)

    def scores_above(self, rank: int) -> Integers:
        """Return how far each stretch is above a rank, below zero."""
        return _negate(self.first - rank)

    def rank_of(self, quantile: Quantile) -> int:
        """Return the rank of a quantile, as QUANTILE_CONT places it."""
        level = quantile.level
        return 2 * level.numerator * (self.rows - 1) + level.denominator


def choose_each(
    counts: Sequence[Pair], quantile: Quantile, cells: Cells, entropy: Entropy
) -> list[Chosen]:
    """Return for each group the cells of a quantile's value and of both ends of its interval.

    # Privacy: three choices, each paid for; the ends see the value only after it is chosen, and of
    # the counts nothing but these cells leaves.
    """
    chosen: list[Chosen] = []
    some: list[Pair] = []
    widest, least = 0, count_columns(quantile) if quantile.decay else 0
    for one in counts:
        widest = max(widest, len(one[0]))
        if some and (len(some) + 1) * (2 * widest + 1 + least) > AT_ONCE:
            chosen += _choose_some(some, quantile, cells, entropy)
            some, widest = [], len(one[0])
        some.append(one)
    return chosen + (_choose_some(some, quantile, cells, entropy) if some else [])


def _choose_some(
    groups: Sequence[Pair], quantile: Quantile, cells: Cells, entropy: Entropy
) -> list[Chosen]:
    """Return the chosen cells of groups whose stretches are laid side by side, one row a group."""
    row = 2 * quantile.level.denominator
    exact = [Ranks.of(one, cells, row) for one in groups]
    choose = partial(_choose, cells=cells, entropy=entropy)
    first, last = np.zeros(len(groups), np.int64), np.full(len(groups), cells.count)
    breaks = _stack([ranks.breaks for ranks in exact], cells.count)
    if quantile.decay:
        value = _choose_averaged(groups, quantile, cells, entropy)
    else:
        scores = _stack([ranks.scores(ranks.rank_of(quantile)) for ranks in exact], 0)
        value = choose(breaks, scores, (first, last), None, choice=quantile.choice)
    scored = [score_ends(ranks, quantile) for ranks in exact]
    lows, highs = (_stack([each[place] for each in scored], 0) for place in range(2))
    low_end = np.array([each[0][0] for each in scored]), -1
    low = choose(breaks, lows, (first, value + 1), low_end, choice=quantile.ends)
    high_end = np.array([each[1][-1] for each in scored]), cells.count
    high = choose(breaks, highs, (value, last), high_end, choice=quantile.ends)
    return list(zip(value.tolist(), low.tolist(), high.tolist(), strict=True))


def _stack(rows: Sequence[Integers], fill: int) -> Integers:
    """Return rows of several lengths as one table."""
    table = np.full((len(rows), max(map(len, rows))), fill, dtype=np.int64)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return table


def _choose_averaged(
    groups: Sequence[Pair], quantile: Quantile, cells: Cells, entropy: Entropy
) -> Integers:
    """Return for each group the cell of a place that is chosen from averaged rows.

    Places outside the range count as its first or last cell.
    """
    averaged = average_rows(groups, cells, quantile)
    every = np.ones((len(groups), 1), np.int64)
    widths = np.hstack([np.diff(averaged.places, axis=1), averaged.whole * every])
    scores = np.hstack([averaged.scores, averaged.deepest * every])
    starts = np.hstack([averaged.places[:, :-1], 0 * every])
    found = quantile.choice.choose_each(scores, widths, entropy=entropy)
    chosen = np.empty(len(found), dtype=np.int64)
    for row, stretch in enumerate(found.tolist()):
        place = int(starts[row, stretch]) + uniform_below(int(widths[row, stretch]), entropy)
        chosen[row] = cells.find(min(max(place, 0), averaged.whole - 1) >> averaged.bits)
    return chosen


def score_ends(ranks: Ranks, quantile: Quantile) -> tuple[Integers, Integers]:
    """Return the scores of all stretches for the low and for the high end."""
    rank, low, high = ranks.rank_of(quantile), quantile.low, quantile.high
    below, above = rank - low.shift, rank + high.shift
    if low.edge is not None:
        below = min(below, ranks.rows * ranks.row - low.edge)
    if high.edge is not None:
        above = max(above, high.edge)
    return (
        ranks.scores_below(below) if low.is_flat else ranks.scores(below),
        ranks.scores_above(above) if high.is_flat else ranks.scores(above),
    )


def _negate(gaps: Integers) -> Integers:
    """Return gaps below zero; those that are there already count as none."""
    return -np.minimum(np.maximum(gaps, 0), LARGEST_VALUE).astype(np.int64, copy=False)


def _choose(
    breaks: Integers,
    scores: Integers,
    within: tuple[Integers, Integers],
    edge: tuple[Integers, int] | None,
    *,
    cells: Cells,
    choice: Exponential,
    entropy: Entropy,
) -> Integers:
    """Return for each group a cell of [first, last), the likelier the greater its score.

    ``edge`` has the scores of an end of the declared range, and the number that stands for it.
    Stretches outside what can be chosen have no width.
    """
    first, last = within
    places = cells.start(np.clip(breaks, first[:, None], last[:, None]))
    widths, beyond = np.diff(places, axis=1), places.shape[1] - 1
    if edge is not None:
        whole = int(cells.start(np.array([cells.count]))[0])
        widths = np.column_stack([widths, np.full(len(widths), EDGE_WEIGHT * whole)])
        scores = np.column_stack([scores, edge[0]])
    found = choice.choose_each(scores, widths, entropy=entropy)
    chosen = np.full(len(found), edge[1] if edge is not None else 0, dtype=np.int64)
    for row, place in enumerate(found.tolist()):
        if place < beyond:
            inside = uniform_below(int(widths[row, place]), entropy)
            chosen[row] = cells.find(int(places[row, place]) + inside)
    return chosen


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
