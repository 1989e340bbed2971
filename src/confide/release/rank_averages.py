"""Averages the ranks of neighboring rows, so that gaps change slowly.

Each row counts as two halves, spread over its cell with the others of that cell. Halves are
numbered in order. Below the first and above the last, outside the range, others go on that no row
has, a small step apart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from confide.engines.protocol import Integers, Pair
from confide.plan import Cells, Quantile

__all__ = ["Averaged", "average_rows", "count_columns"]

DEEPEST: Final = 60
"""No place of the range weighs less than exp(-60) times the most that one can weigh."""

SCORED: Final = 92.0
"""Stretches of ranks that weigh less than exp(-92) are left out: nothing beside exp(-60)."""

FORGOTTEN: Final = 48.0
"""Averages leave out halves of weights below exp(-48): of 2^62 steps a hundredth of a step."""

TOP_BITS: Final = 62
APART: Final = 2**13 - 2
"""Halves are so many steps apart or more."""

FINE_BITS: Final = 14
MOST_BITS: Final = 40


@dataclass(frozen=True, slots=True)
class Averaged:
    """Stretches between averaged halves, one row a group.

    ``places`` are where they begin and end, in steps of which one weight of a cell has 2^bits;
    ``scores`` are how far their ranks are from the quantile's, below zero. ``whole`` is where the
    range ends, and ``deepest`` the score that all places of the range have besides.
    """

    places: Integers
    scores: Integers
    bits: int
    whole: int
    deepest: int


def _reach(quantile: Quantile) -> tuple[int, int]:
    """Return how many halves are scored, and how many are seen, on either side of the rank."""
    fall = float(quantile.choice.rate) * quantile.level.denominator
    scored = math.ceil(SCORED / fall) + 1
    return scored, scored + math.ceil(FORGOTTEN / float(quantile.decay)) + 1


def count_columns(quantile: Quantile) -> int:
    """Return how many numbers a group takes."""
    return 2 * _reach(quantile)[1] + 1


def average_rows(groups: Sequence[Pair], cells: Cells, quantile: Quantile) -> Averaged:
    """Return the stretches between averaged halves of rows, with their scores.

    Law:     let x_j be the place of half j, and A = exp(-rate b), B = exp(-decay). It moves to
             y_j, the sum over t of w_t x_(j+t), where w_t is 1 - p times B^|t| (1 - B) / (1 + B),
             and p more for t = 0, with p = A/B ((1 - B) / (1 - A))^2. A place from y_j to y_(j+1)
             weighs exp(-rate |b j - r|), and exp(-60) besides if it is in the range.
    Claim:   one row more moves b j - r by at most d = max(2a, 2b - 2a) for each place, and the
             sum Z of all weights by a factor within exp(+-(decay d / b + (rate b)^2 / 8)), of
             which the last term is 0 for the median.
    Why:     x_(j-2) <= x'_j <= x_j, hence the same of y. With gaps g_i = x_(i+1) - x_i a stretch
             is the sum of w_t g_(j+t), so Z is the sum of g_i phi(i - r / b), where phi is the
             sum of w_t exp(-rate b |s - t|). That is exp(-decay |s|) times a constant for whole
             s, and between them less by at most a factor of cosh(rate b / 2).
    Source:  docs/proofs/quantiles.md, also for what doubles may do to it.
    Checked: tests/release/test_averages.py.
    """
    level, bottom = quantile.level, quantile.level.denominator
    total = int(cells.start(np.array([cells.count]))[0])
    bits = TOP_BITS - total.bit_length()
    most = 2 ** min(bits - FINE_BITS, MOST_BITS)
    clipped = [(filled, np.minimum(rows, most)) for filled, rows in groups]
    ranks = [2 * level.numerator * (int(rows.sum()) - 1) + bottom for _, rows in clipped]
    centre = np.array([rank // bottom for rank in ranks], dtype=np.int64)[:, None]
    aside = np.array([rank % bottom for rank in ranks], dtype=np.int64)[:, None]
    scored, seen = _reach(quantile)
    x = _place(clipped, cells, centre + np.arange(-seen, seen + 1), bits)
    places = _average(x, quantile)[:, seen - scored : seen + scored + 1]
    scores = -np.abs(np.arange(-scored, scored) * bottom - aside)
    deepest = -math.ceil(DEEPEST / quantile.choice.rate)
    return Averaged(places, scores, bits, total << bits, deepest)


def _place(groups: Sequence[Pair], cells: Cells, halves: Integers, bits: int) -> Integers:
    """Return where halves of some numbers lie, for each group a row of them, without gaps."""
    filled, rows = (np.concatenate([one[side] for one in groups]) for side in range(2))
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(2 * rows)])
    sizes = np.array([len(one[0]) for one in groups])
    last = np.cumsum(sizes)
    before, after = upto[last - sizes][:, None], upto[last][:, None]
    number, whole = halves + before, int(cells.start(np.array([cells.count]))[0]) << bits
    x = np.where(halves < 1, (halves - 1) * APART, whole + (number - after) * APART)
    is_row = (halves >= 1) & (number <= after)
    first = np.repeat(np.maximum(number[:, 0], before[:, 0] + 1) - 1, sizes)
    end = np.repeat(np.minimum(number[:, -1], after[:, 0]), sizes)
    listed = np.maximum(np.minimum(upto[1:], end) - np.maximum(upto[:-1], first), 0)
    used = np.flatnonzero(listed)
    start = cells.start(filled[used])
    width = (cells.start(filled[used] + 1) - start) << bits
    entry = np.repeat(np.arange(len(used)), listed[used])
    part = (number[is_row] - upto[used][entry]) / (2.0 * rows[used] + 1.0)[entry]
    x[is_row] = (start << bits)[entry] + np.rint(width[entry] * part).astype(np.int64)
    return x


def _average(x: Integers, quantile: Quantile) -> Integers:
    """Return averages of places, each with those in its row of the table.

    Sums are over gaps, which are at least zero, so that no digits cancel.
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
