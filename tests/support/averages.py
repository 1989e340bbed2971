"""Rows averaged with their neighbours, as the law of `average_rows` says it: row by row."""

import numpy as np
from numpy.typing import NDArray

from confide.engines.sealed import Pair

__all__ = ["average_directly", "average_pair"]

NEAR = 32

Integers = NDArray[np.int64]


def average_directly(x: Integers, beside: int, count: int) -> Integers:
    """Return to which of ``count`` cells each row moves; ``x`` are the cells of all, in order."""
    near = count // NEAR
    if not near or not len(x):
        return x
    width = 2 * beside + 1
    ends = np.zeros(beside, np.int64), np.full(beside, count - 1)
    padded = np.concatenate([ends[0], x, ends[1]])
    windows = np.lib.stride_tricks.sliding_window_view(padded, width)
    clipped = np.clip(windows, x[:, None] - near, x[:, None] + near)
    means: Integers = (2 * clipped.sum(axis=1) + width) // (2 * width)
    return means


def average_pair(counts: Pair, beside: int, count: int) -> Pair:
    """Return the cells that hold rows once these are averaged, with how many each holds."""
    cells, rows = np.unique(average_directly(np.repeat(*counts), beside, count), return_counts=True)
    return cells, rows
