"""Releases from the results of blocks: ranks chosen among them, and sums with noise."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from confide.engines.sql.blocks import Floats, SealedBlocks, open_blocks
from confide.mechanisms import Exponential
from confide.mechanisms.grid import saturate
from confide.noise import Entropy
from confide.plan.noise import TotalNoise
from confide.plan.totals import ValueGrid
from confide.release.noise import draw_noise, round_to_steps

__all__ = ["add_blocks", "choose_block_rank"]


def _steps(results: Floats, grid: ValueGrid) -> list[int]:
    """Return results in whole steps of a grid, within it; what failed is the lower bound.

    # Privacy: a failed block is a result like any other, so nothing tells how many failed.
    """
    low, step = float(grid.centre), float(grid.step)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        places = np.rint((np.nan_to_num(results, nan=-np.inf) - low) / step)
    places = np.nan_to_num(places, nan=float(grid.low))
    return [int(place) for place in np.clip(places, grid.low, grid.high)]


def choose_block_rank(
    sealed: SealedBlocks,
    output: int,
    grid: ValueGrid,
    choice: Exponential,
    entropy: Entropy,
    *,
    level: Fraction,
) -> int:
    """Return the step at about this level among one output's results."""
    results = open_blocks(sealed)[:, output]
    filled, blocks = np.unique(np.array(_steps(results, grid), dtype=np.int64), return_counts=True)
    breaks = np.empty(2 * len(filled) + 2, dtype=np.int64)
    breaks[0], breaks[-1] = grid.low, grid.high + 1
    breaks[1:-1:2], breaks[2:-1:2] = filled, filled + 1
    ranks = np.concatenate([np.zeros(1, np.int64), np.cumsum(blocks)])
    low, high = np.repeat(ranks, 2)[:-1], np.repeat(ranks, 2)[1:]
    target = round(level * len(results))
    gaps = np.maximum(np.maximum(low - target, target - high), 0)
    return int(choice.choose_interval(breaks, -gaps, entropy=entropy))


def add_blocks(
    sealed: SealedBlocks,
    grids: Sequence[ValueGrid],
    windows: Sequence[tuple[int, int]],
    noise: TotalNoise,
    entropy: Entropy,
    *,
    squared: bool = False,
) -> list[int]:
    """Return for each output the noisy sum over blocks of its steps above the window's low end.

    With ``squared``, the sum of (2 s - w)^2 / w, rounded down, for s steps in a window of w: how
    far results lie from the window's middle. It lies within [0, w] as s does.

    # Privacy: every result is cut to its window before it is added, so one block adds from 0 to
    # the width of the window, for which the noise was made.
    """
    results = open_blocks(sealed)
    drawn = draw_noise(noise, 1, entropy)[0]
    released = []
    for output, (grid, (low, high)) in enumerate(zip(grids, windows, strict=True)):
        width = max(1, high - low)
        inside = [min(max(step - low, 0), high - low) for step in _steps(results[:, output], grid)]
        if squared:
            inside = [(2 * step - width) ** 2 // width for step in inside]
        total = round_to_steps(sum(inside), noise.steps[output])
        released.append(saturate(saturate(total) + int(drawn[output])))
    return released
