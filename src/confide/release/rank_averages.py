"""Averages of neighboring rows, from which the value of a quantile is chosen.

A wide gap between two rows would get most of the probability. Averaging the positions of rows near
each other in rank makes the gaps change slowly with rank, so the choice is more accurate at the
same cost.

Each row counts as two *halves*. The halves of all rows in a cell are spread evenly over that cell.
They have integer positions and are numbered in order. Below the range and above it, the sequence
continues with virtual halves a small distance apart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from confide.engines.protocol import Integers, Pair
from confide.plan import Cells, Quantile

__all__ = ["Averaged", "average_rows", "count_columns"]

MAX_LOG_PENALTY: Final = 60
"""No position in the range weighs less than exp(-60) times the maximum weight."""

SCORED_LOG_WEIGHT: Final = 92.0
"""Runs that weigh less than exp(-92) are omitted: negligible compared with exp(-60)."""

AVERAGED_LOG_WEIGHT: Final = 48.0
"""Averages omit halves with weights below exp(-48): in 2^62 steps, they add 1/100 of a step."""

TOP_BITS: Final = 62
MIN_HALF_DISTANCE: Final = 2**13 - 2
"""The minimum distance of halves, in fine steps (see `Averaged`)."""

FINE_BITS: Final = 14
MAX_ROW_BITS: Final = 40


@dataclass(frozen=True, slots=True)
class Averaged:
    """Runs between consecutive averaged halves, one array row per group.

    ``places`` are their bounds, in fine steps; one unit of cell weight is 2^bits fine steps.
    ``scores`` are the negated distances of the runs' ranks from the quantile's rank. The entire
    range, with the positions from 0 to ``range_end``, is one more candidate, and its score is
    ``range_score``.
    """

    places: Integers
    scores: Integers
    bits: int
    range_end: int
    range_score: int


def _half_counts(quantile: Quantile) -> tuple[int, int]:
    """Return the numbers of halves scored and of halves averaged, on each side of the rank."""
    fall = float(quantile.choice.rate) * quantile.level.denominator
    scored = math.ceil(SCORED_LOG_WEIGHT / fall) + 1
    return scored, scored + math.ceil(AVERAGED_LOG_WEIGHT / float(quantile.decay)) + 1


def count_columns(quantile: Quantile) -> int:
    """Return the number of halves that `average_rows` computes for each group."""
    return 2 * _half_counts(quantile)[1] + 1


def average_rows(groups: Sequence[Pair], cells: Cells, quantile: Quantile) -> Averaged:
    """Return the runs between averaged halves of rows, with their scores.

    Law:     let a/b be the level and r the quantile's rank, as in `Quantile`. Let x_j be the
             position of half j, A = exp(-rate b), and B = exp(-decay). Half j is averaged to y_j,
             the sum over t of w_t x_(j+t). Here, w_t is (1 - p) B^|t| (1 - B) / (1 + B), plus p
             for t = 0, with p = A/B ((1 - B) / (1 - A))^2. A position from y_j to y_(j+1)
             has weight exp(-rate |b j - r|), plus exp(-60) if it is in the range.
    Claim:   one additional row changes b j - r by at most d = max(2a, 2b - 2a) for each position,
             and the sum Z of all weights by a factor within exp(+-(decay d / b + (rate b)^2 / 8)),
             where the last term is 0 for the median.
    Why:     with the additional row, half j is at x'_j, and x_(j-2) <= x'_j <= x_j, so the same is
             true of y. With gaps g_i = x_(i+1) - x_i, the width of run j is the sum over t of
             w_t g_(j+t). So Z is the sum over i of g_i phi(i - r / b), where phi(s) is the sum over
             t of w_t exp(-rate b |s - t|). For integer s, phi(s) is exp(-decay |s|) times a
             constant, and in between it is smaller by at most a factor of cosh(rate b / 2).
    Source:  docs/proofs/quantiles.md, which also covers rounding errors of doubles.
    Checked: tests/release/test_rank_averages.py.
    """
    level, bottom = quantile.level, quantile.level.denominator
    total = int(cells.start(np.array([cells.count]))[0])
    bits = TOP_BITS - total.bit_length()
    max_rows = 2 ** min(bits - FINE_BITS, MAX_ROW_BITS)
    clipped = [(filled, np.minimum(rows, max_rows)) for filled, rows in groups]
    ranks = [2 * level.numerator * (int(rows.sum()) - 1) + bottom for _, rows in clipped]
    center = np.array([rank // bottom for rank in ranks], dtype=np.int64)[:, None]
    remainder = np.array([rank % bottom for rank in ranks], dtype=np.int64)[:, None]
    scored, seen = _half_counts(quantile)
    x = _place(clipped, cells, center + np.arange(-seen, seen + 1), bits)
    places = _average(x, quantile)[:, seen - scored : seen + scored + 1]
    scores = -np.abs(np.arange(-scored, scored) * bottom - remainder)
    range_score = -math.ceil(MAX_LOG_PENALTY / quantile.choice.rate)
    return Averaged(places, scores, bits, total << bits, range_score)


def _place(groups: Sequence[Pair], cells: Cells, halves: Integers, bits: int) -> Integers:
    """Return the positions of consecutive halves, one array row per group.

    ``halves`` are their numbers; the first half of the first row has number 1.
    """
    filled, rows = (np.concatenate(arrays) for arrays in zip(*groups, strict=True))
    through = np.concatenate([np.zeros(1, np.int64), np.cumsum(2 * rows)])
    sizes = np.array([len(group[0]) for group in groups])
    last = np.cumsum(sizes)
    before, after = through[last - sizes][:, None], through[last][:, None]
    number, range_end = halves + before, int(cells.start(np.array([cells.count]))[0]) << bits
    x = np.where(
        halves < 1,
        (halves - 1) * MIN_HALF_DISTANCE,
        range_end + (number - after) * MIN_HALF_DISTANCE,
    )
    is_row = (halves >= 1) & (number <= after)
    first = np.repeat(np.maximum(number[:, 0], before[:, 0] + 1) - 1, sizes)
    end = np.repeat(np.minimum(number[:, -1], after[:, 0]), sizes)
    listed = np.maximum(np.minimum(through[1:], end) - np.maximum(through[:-1], first), 0)
    used = np.flatnonzero(listed)
    start = cells.start(filled[used])
    width = (cells.start(filled[used] + 1) - start) << bits
    entry = np.repeat(np.arange(len(used)), listed[used])
    part = (number[is_row] - through[used][entry]) / (2.0 * rows[used] + 1.0)[entry]
    x[is_row] = (start << bits)[entry] + np.rint(width[entry] * part).astype(np.int64)
    return x


def _average(x: Integers, quantile: Quantile) -> Integers:
    """Return the averaged position of each half; every row of ``x`` is averaged by itself.

    An average is computed from the gaps below and above the half. Gaps are nonnegative, so no
    digits cancel.
    """
    decay = float(quantile.decay)
    fall = float(quantile.choice.rate) * quantile.level.denominator
    own = math.exp(decay - fall) * (math.expm1(-decay) / math.expm1(-fall)) ** 2
    gaps: Any = np.diff(x, axis=1).astype(np.float64)
    turns = decay * np.arange(x.shape[1])
    none = np.zeros((len(x), 1))
    below = np.hstack([none, np.cumsum(gaps * np.exp(turns[:-1]), axis=1)]) * np.exp(-turns)
    ahead = np.cumsum((gaps * np.exp(-turns[:-1] - decay))[:, ::-1], axis=1)[:, ::-1]
    above = np.hstack([ahead, none]) * np.exp(turns)
    part = (1.0 - own) / (1.0 + math.exp(-decay))
    moved: Integers = np.rint((above - below) * part).astype(np.int64)
    return x + moved
