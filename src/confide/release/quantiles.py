"""Choices of cells for quantiles, one at a time or by a tree, and the resulting intervals.

plan/quantiles.py and plan/quantile_tree.py plan these choices and state what they cost. Rows are
counted by cell: a `Pair` has the cells that have rows, and the number of rows in each. Ranks of
single quantiles are counted in rank steps: for level a/b, one row is 2b rank steps.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np

from confide.engines.protocol import Integers, Pair, Sealed
from confide.mechanisms import Exponential
from confide.mechanisms.grid import MAX_VALUE, saturate
from confide.noise import Entropy, uniform_below_each
from confide.plan import Cells, Plan, Quantile
from confide.plan.quantile_tree import QuantileTree
from confide.release.estimates import Floats
from confide.release.rank_averages import average_rows, count_columns
from confide.release.unseal import unseal

__all__ = [
    "Chosen",
    "Ranks",
    "choose_each",
    "choose_quantiles",
    "read_cells",
    "read_ends",
    "score_ends",
    "spread_ends",
]

MAX_BATCH_SIZE: Final = 2**18
EDGE_WEIGHT: Final = 39
"""The weight of a bound of the declared range, as a multiple of the total weight of all cells.

The low bound is a candidate for an interval's low end, and the high bound for its high end; see
`Quantile`.
"""
OVERFLOW_LIMIT: Final = 2**61
CONFIDENCE: Final = 0.95

Chosen = tuple[int, int, int]
"""The cells of a quantile's value and of both interval ends.

A low end of -1, or a high end equal to the number of cells, means that end of the declared range.
"""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Runs of cells that have the same rank, for several groups, one array row per group.

    A run is one cell with rows, or all cells before, between, or after such cells. ``breaks`` are
    the first cells of the runs, followed by the number of all cells. ``first`` and ``last`` are the
    ranks at which a run begins and ends, in rank steps; one row is ``row`` rank steps. ``rows`` is
    the number of rows of each group. Groups with fewer runs are padded with empty runs at the end.
    """

    breaks: Integers
    first: Integers
    last: Integers
    rows: Integers
    row: int

    @classmethod
    def of(cls, groups: Sequence[Pair], cells: Cells, row: int) -> "Ranks":
        """Return the ranks of the rows of each group."""
        sizes = np.array([len(filled) for filled, _ in groups])
        widest = int(sizes.max())
        is_used = np.arange(widest) < sizes[:, None]
        filled, counts = np.full(is_used.shape, cells.count), np.zeros(is_used.shape, np.int64)
        filled[is_used], counts[is_used] = (
            np.concatenate(arrays) for arrays in zip(*groups, strict=True)
        )
        before = np.cumsum(np.column_stack([np.zeros(len(groups), np.int64), counts]), axis=1)
        if row * int(before.max()) >= OVERFLOW_LIMIT:
            before = before.astype(object)  # more rows than any engine holds: exact but slow
        breaks = np.full((len(groups), 2 * widest + 2), cells.count)
        breaks[:, 0] = 0
        breaks[:, 1:-1:2], breaks[:, 2:-1:2] = filled, np.minimum(filled + 1, cells.count)
        ranks = np.repeat(row * before, 2, axis=1)
        return cls(breaks, ranks[:, :-1], ranks[:, 1:], before[:, -1], row)

    def scores(self, ranks: Integers) -> Integers:
        """Return the negated distance of each run from its group's target rank in ``ranks``."""
        target = ranks[:, None]
        return _negate(np.maximum(self.first - target, target - self.last))

    def scores_below(self, ranks: Integers) -> Integers:
        """Return scores that penalize only runs below the target rank, as a flat low end needs."""
        return _negate(ranks[:, None] - self.last)

    def scores_above(self, ranks: Integers) -> Integers:
        """Return scores that penalize only runs above the target rank, as a flat high end needs."""
        return _negate(self.first - ranks[:, None])

    def rank_of(self, quantile: Quantile) -> Integers:
        """Return the rank steps of a quantile in each group, as QUANTILE_CONT defines its rank."""
        level = quantile.level
        ranks: Integers = 2 * level.numerator * (self.rows - 1) + level.denominator
        return ranks


def choose_each(
    counts: Sequence[Pair], quantile: Quantile, cells: Cells, entropy: Entropy
) -> list[Chosen]:
    """Return the cells of a quantile's value and of both interval ends, for each group.

    Groups are processed in batches, which limits the size of arrays.

    # Privacy: all three choices are charged. The choices of the ends use the value only after it is
    # chosen, and nothing derived from the counts leaves this function except these cells.
    """
    chosen: list[Chosen] = []
    batch: list[Pair] = []
    widest, min_columns = 0, count_columns(quantile) if quantile.decay else 0
    for group in counts:
        widest = max(widest, len(group[0]))
        if batch and (len(batch) + 1) * (2 * widest + 1 + min_columns) > MAX_BATCH_SIZE:
            chosen += _choose_batch(batch, quantile, cells, entropy)
            batch, widest = [], len(group[0])
        batch.append(group)
    return chosen + (_choose_batch(batch, quantile, cells, entropy) if batch else [])


def _choose_batch(
    groups: Sequence[Pair], quantile: Quantile, cells: Cells, entropy: Entropy
) -> list[Chosen]:
    """Return the chosen cells of groups that are processed as one array, one row per group."""
    ranks = Ranks.of(groups, cells, 2 * quantile.level.denominator)
    choose = partial(_choose, ranks.breaks, cells=cells, entropy=entropy)
    first, last = np.zeros(len(groups), np.int64), np.full(len(groups), cells.count)
    if quantile.decay:
        value = _choose_averaged(groups, quantile, cells, entropy)
    else:
        scores = ranks.scores(ranks.rank_of(quantile))
        value = choose(scores, (first, last), None, choice=quantile.choice)
    lows, highs = score_ends(ranks, quantile)
    low = choose(lows, (first, value + 1), (lows[:, 0], -1), choice=quantile.ends)
    high = choose(highs, (value, last), (highs[:, -1], cells.count), choice=quantile.ends)
    return list(zip(value.tolist(), low.tolist(), high.tolist(), strict=True))


def _choose_averaged(
    groups: Sequence[Pair], quantile: Quantile, cells: Cells, entropy: Entropy
) -> Integers:
    """Choose a position for each group, and return the cells that contain the positions.

    Positions are chosen among averaged rows (see `average_rows`). Those outside the range count as
    its first or last cell.
    """
    averaged = average_rows(groups, cells, quantile)
    one_each = np.ones((len(groups), 1), np.int64)
    widths = np.hstack([np.diff(averaged.places, axis=1), averaged.range_end * one_each])
    scores = np.hstack([averaged.scores, averaged.range_score * one_each])
    starts = np.hstack([averaged.places[:, :-1], 0 * one_each])
    found = quantile.choice.choose_each(scores, widths, entropy=entropy)
    positions = _position_within(starts, widths, found, entropy)
    return cells.find(np.clip(positions, 0, averaged.range_end - 1) >> averaged.bits)


def _position_within(
    starts: Integers, widths: Integers, found: Integers, entropy: Entropy
) -> Integers:
    """Return a uniformly random position in the chosen run of each group."""
    rows = np.arange(len(found))
    return starts[rows, found] + uniform_below_each(widths[rows, found], entropy)


def score_ends(ranks: Ranks, quantile: Quantile) -> tuple[Integers, Integers]:
    """Return the scores of all runs for the low and for the high end, one row per group."""
    rank, low, high = ranks.rank_of(quantile), quantile.low, quantile.high
    below, above = rank - low.shift, rank + high.shift
    if low.edge is not None:
        below = np.minimum(below, ranks.rows * ranks.row - low.edge)
    if high.edge is not None:
        above = np.maximum(above, high.edge)
    return (
        ranks.scores_below(below) if low.is_flat else ranks.scores(below),
        ranks.scores_above(above) if high.is_flat else ranks.scores(above),
    )


def _negate(gaps: Integers) -> Integers:
    """Return gaps as scores: negated and limited, with negative gaps counted as zero."""
    return -np.minimum(np.maximum(gaps, 0), MAX_VALUE).astype(np.int64, copy=False)


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
    """Return a cell in [first, last) for each group; cells with greater scores are more probable.

    ``breaks`` are the breaks of `Ranks`, and ``scores`` has the scores of its runs. ``within``
    holds the arrays first and last. ``edge`` adds an end of the declared range as a candidate: its
    scores, and the number that denotes it in the result. Runs outside [first, last) have zero
    width.
    """
    first, last = within
    positions = cells.start(np.clip(breaks, first[:, None], last[:, None]))
    widths, starts = np.diff(positions, axis=1), positions[:, :-1]
    if edge is not None:
        total = int(cells.start(np.array([cells.count]))[0])
        widths = np.column_stack([widths, np.full(len(widths), EDGE_WEIGHT * total)])
        starts = np.column_stack([starts, np.zeros(len(starts), np.int64)])
        scores = np.column_stack([scores, edge[0]])
    found = choice.choose_each(scores, widths, entropy=entropy)
    chosen = cells.find(_position_within(starts, widths, found, entropy))
    return chosen if edge is None else np.where(found == widths.shape[1] - 1, edge[1], chosen)


def read_cells(plan: Plan, chosen: tuple[tuple[Chosen, ...], ...]) -> Floats:
    """Return the values of all quantiles, one row per group."""
    table = np.empty((len(chosen), len(plan.quantiles)))
    for index, quantile in enumerate(plan.quantiles):
        cells = plan.histograms[quantile.histogram].cells
        values = np.array([row[index][0] for row in chosen], dtype=np.int64)
        table[:, index] = cells.middle(values)
    return table


def read_ends(
    plan: Plan, chosen: tuple[tuple[Chosen, ...], ...], index: int, confidence: float
) -> tuple[Floats, Floats]:
    """Return both ends of the intervals of one quantile, for each group.

    ``index`` is the quantile's index in the plan. The ends were chosen for a confidence of 95%, and
    also serve for lower levels. For higher levels, they are the ends of the declared range, which
    certainly contains the quantile.
    """
    cells = plan.histograms[plan.quantiles[index].histogram].cells
    bottom, top = (float(end) for end in cells.bounds)
    if confidence > CONFIDENCE:
        return np.full(len(chosen), bottom), np.full(len(chosen), top)
    lows, highs = (np.array([row[index][end] for row in chosen], dtype=np.int64) for end in (1, 2))
    last = cells.count - 1
    low = np.where(lows < 0, bottom, cells.ends(np.clip(lows, 0, last))[0])
    high = np.where(highs > last, top, cells.ends(np.clip(highs, 0, last))[1])
    return low, high


def spread_ends(
    plan: Plan, chosen: tuple[tuple[Chosen, ...], ...], index: int, confidence: float
) -> Callable[[Floats, int], Floats]:
    """Return a model of a quantile's error: a function of levels in (0, 1) and a group's index.

    The function returns the quantile of the error (value minus exact value) at 1 - level: the error
    exceeds it with probability ``level``.

    Why: on either side, the distance from the value to the exact value is modeled as exponential.
         Beyond each end of the interval, the exact value lies with probability (1 - c) / 2, where c
         is the confidence, at least 95%. Where this leaves the declared range, its bound is used.
    """
    values = read_cells(plan, chosen)[:, index]
    lows, highs = read_ends(plan, chosen, index, confidence)
    bottom, top = plan.histograms[plan.quantiles[index].histogram].cells.bounds
    rarity = -math.log(1.0 - max(confidence, CONFIDENCE))

    def spread(levels: Floats, group: int) -> Floats:
        value = values[group]
        size = -np.log(2.0 * np.minimum(levels, 1.0 - levels)) / rarity
        end = np.where(levels < 0.5, lows[group], highs[group])
        errors: Floats = value - np.clip(value + (end - value) * size, bottom, top)
        return errors

    return spread


NO_CELLS = np.empty(0, dtype=np.int64)
MAX_DENOMINATOR = 100_000


@dataclass(frozen=True, slots=True)
class _ChosenCell:
    """A chosen cell; ``before`` and ``through`` are the estimated ranks at its start and end.

    The ranks come from noisy counts, or equal the target if the cell seems to have few rows.
    """

    cell: int
    before: int
    through: int


def choose_quantiles(
    sealed: Sealed,
    cells: Cells,
    tree: QuantileTree,
    levels: Sequence[Fraction],
    entropy: Entropy,
    *,
    size: int,
) -> list[int]:
    """Return the cell of each level, chosen by a tree; ``size`` is a noisy number of rows.

    # Privacy: nothing derived from the exact counts is released except the chosen cells. The target
    # of a split depends only on earlier choices and noisy counts.
    """
    (counts,) = unseal(sealed).counts
    filled, rows = counts.get((), (NO_CELLS, NO_CELLS))
    order = np.argsort(filled)
    exact = filled[order], rows[order]
    choices: dict[int | None, _ChosenCell] = {}
    for splits in tree.rounds:
        for split in splits:
            below = choices.get(split.below, _ChosenCell(-1, 0, 0))
            above = choices.get(split.above, _ChosenCell(cells.count, size, size))
            target = round(levels[split.place] * size)
            choices[split.place] = _choose_split(
                exact, cells, tree, (below, above), entropy, target=target
            )
    return [choices[index].cell for index in range(len(levels))]


def _choose_split(
    exact: Pair,
    cells: Cells,
    tree: QuantileTree,
    sides: tuple[_ChosenCell, _ChosenCell],
    entropy: Entropy,
    *,
    target: int,
) -> _ChosenCell:
    """Return the choice of one split, between ``sides``: earlier choices, or the ends of all cells.

    ``target`` is the rank to choose, in rows of the entire table. If an earlier choice shows that
    this rank is not between the sides, or if there is no cell between them, one of them is
    returned.
    """
    below, above = sides
    first, last = below.cell + 1, above.cell
    if first >= last or (target <= below.through and below.cell >= 0):
        return below if below.cell >= 0 else above
    if target >= above.before and above.cell < cells.count:
        return above
    inside = slice(*np.searchsorted(exact[0], [first, last]))
    filled, rows = exact[0][inside], exact[1][inside]
    level = _read_level(target - below.through, above.before - below.through)
    cell = _choose_by_halving((filled, rows), cells, tree, (first, last), entropy, level=level)
    index = int(np.searchsorted(filled, cell))
    rows_in_cell = int(rows[index]) if index < len(filled) and filled[index] == cell else 0
    noisy_below, noisy_in_cell = (
        saturate(count + int(noise))
        for count, noise in zip(
            (int(rows[:index].sum()), rows_in_cell),
            tree.noise.law.draw(2, entropy)[:, 0],
            strict=True,
        )
    )
    if noisy_in_cell <= tree.slack:
        return _ChosenCell(cell, target, target)
    before = min(max(below.through + noisy_below, below.through), max(above.before, below.through))
    through = min(max(before + noisy_in_cell, before), max(above.before, before))
    return _ChosenCell(cell, before, through)


def _read_level(target: int, rows: int) -> Fraction:
    """Return the target fraction of a split's rows, from noisy counts; never 0 or 1."""
    part = Fraction(target, max(rows, 1)).limit_denominator(MAX_DENOMINATOR)
    return min(
        max(part, Fraction(1, MAX_DENOMINATOR)), Fraction(MAX_DENOMINATOR - 1, MAX_DENOMINATOR)
    )


def _choose_by_halving(
    exact: Pair,
    cells: Cells,
    tree: QuantileTree,
    within: tuple[int, int],
    entropy: Entropy,
    *,
    level: Fraction,
) -> int:
    """Return a cell within [first, last), where cells closer to the target rank are more probable.

    ``exact`` counts the rows in these cells, and ``level`` is the target rank as a fraction of
    these rows.
    """
    filled, rows = exact
    breaks = np.empty(2 * len(filled) + 2, dtype=np.int64)
    breaks[0], breaks[-1] = within
    breaks[1:-1:2], breaks[2:-1:2] = filled, filled + 1
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows)])
    ranks = level.denominator * before
    low, high = np.repeat(ranks, 2)[:-1], np.repeat(ranks, 2)[1:]
    rank = level.numerator * int(before[-1])
    gaps: Integers = np.maximum(np.maximum(low - rank, rank - high), 0)
    choice = tree.choose(level)
    position = int(choice.choose_interval(cells.start(breaks), -gaps, entropy=entropy))
    return int(np.clip(cells.find(np.array([position])), within[0], within[1] - 1)[0])
