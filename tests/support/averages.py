"""The distribution of a quantile from averaged rows, as stated and as implemented."""

import numpy as np
from numpy.typing import NDArray

from confide.engines.protocol import Pair
from confide.plan import AsinhCells, Cells, Quantile
from confide.release.rank_averages import average_rows

__all__ = ["chances_as_run", "chances_as_stated", "even_cells", "log_ratios"]

MAX_DEPTH = 60.0
TAIL = 60.0
LONG_TAIL = 100.0

Floats = NDArray[np.float64]


def even_cells(count: int) -> Cells:
    """Return ``count`` cells of equal weight."""
    return AsinhCells(0.0, float(count), count, line=1.0, bend=0.0, rate=0.0, is_integer=False)


def share_out(places: Floats, scores: Floats, starts: Floats, deepest: float) -> Floats:
    """Return the probability of each cell, from the boundaries of stretches and their scores.

    Anything outside all cells counts for the first or the last one. ``deepest`` is an additional
    score of all positions in cells.
    """
    ends = np.unique(np.concatenate([places, starts]))
    ends = ends[(ends >= places[0]) & (ends <= places[-1])]
    middle, count = (ends[:-1] + ends[1:]) / 2, len(starts) - 1
    stretch = np.minimum(np.searchsorted(places, middle, "right"), len(scores)) - 1
    cell = np.clip(np.searchsorted(starts, middle, "right") - 1, 0, count - 1)
    masses = np.bincount(cell, np.exp(scores)[stretch] * np.diff(ends), minlength=count)
    weights = masses + np.exp(deepest) * np.diff(starts)
    chances: Floats = weights / weights.sum()
    return chances


def chances_as_run(counts: Pair, quantile: Quantile, cells: Cells) -> Floats:
    """Return the probability of each cell from the stretches that the program chooses among."""
    averaged = average_rows([counts], cells, quantile)
    starts = np.ldexp(cells.start(np.arange(cells.count + 1)).astype(np.float64), averaged.bits)
    rate = float(quantile.choice.rate)
    scores, deepest = rate * averaged.scores[0], rate * averaged.range_score
    return share_out(averaged.places[0].astype(np.float64), scores, starts, deepest)


def chances_as_stated(counts: Pair, quantile: Quantile, cells: Cells) -> Floats:
    """Return the probability of each cell from the stated distribution, term by term.

    Halves without a row are at the ends of the range, with steps of almost zero width.
    """
    starts = cells.start(np.arange(cells.count + 1)).astype(np.float64)
    halves = [
        starts[cell] + (starts[cell + 1] - starts[cell]) * place / (2 * rows + 1)
        for cell, rows in zip(*(side.tolist() for side in counts), strict=True)
        for place in range(1, 2 * rows + 1)
    ]
    level, rate = quantile.level, float(quantile.choice.rate)
    a, b = np.exp(-rate * level.denominator), np.exp(-float(quantile.decay))
    far = int(TAIL / float(quantile.decay)) + 2
    beyond = int(LONG_TAIL / (rate * level.denominator)) + 2
    own = a / b * ((1 - b) / (1 - a)) ** 2
    weights = (1 - own) * (1 - b) / (1 + b) * b ** np.abs(np.arange(-far, far + 1.0))
    weights[far] += own
    padding = np.zeros(far + beyond), np.full(far + beyond, starts[-1])
    y = np.convolve(np.concatenate([padding[0], halves, padding[1]]), weights, "valid")
    number = np.arange(1 - beyond, len(halves) + beyond)
    rank = 2 * level.numerator * (len(halves) // 2 - 1) + level.denominator
    scores = -rate * np.abs(number * level.denominator - rank)
    deepest = -rate * np.ceil(MAX_DEPTH / rate)
    return share_out(np.maximum.accumulate(y), scores, starts, deepest)


def log_ratios(old: Pair, new: Pair, quantile: Quantile, cells: Cells) -> Floats:
    """Return log-ratios of the densities of all positions, except slivers of 2^-20 of a cell.

    The log-ratios of cells lie between those of their positions.
    """
    sides = [average_rows([one], cells, quantile) for one in (old, new)]
    whole, rate = sides[0].range_end, float(quantile.choice.rate)
    ends = np.unique(np.concatenate([[0, whole], *(side.places[0] for side in sides)]))
    ends = ends[(ends >= 0) & (ends <= whole)]
    wide = np.diff(ends) > 2 ** max(sides[0].bits - 20, 0)
    middle = (ends[:-1] + np.diff(ends) // 2)[wide]
    logs = []
    for side in sides:
        weights = np.concatenate([[0.0], np.exp(rate * side.scores[0]), [0.0]])
        deepest = np.exp(rate * side.range_score)
        stretch = np.searchsorted(side.places[0], middle, "right")
        masses = weights[1:-1] * np.diff(side.places[0]).astype(np.float64)
        logs.append(np.log((weights[stretch] + deepest) / (masses.sum() + deepest * whole)))
    ratios: Floats = logs[1] - logs[0]
    return ratios
