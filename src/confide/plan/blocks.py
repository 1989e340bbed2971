"""How results of blocks are put together: what one unit can do to them, and the noise for it.

Every unit lies in one block, so one unit changes the results of one block, within their bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from confide.declare import Table
from confide.loss import BoundedRangeLoss, Loss
from confide.mechanisms import Exponential, Neighbours
from confide.plan.grants import calibrate, find_epsilon, take_part
from confide.plan.noise import Reach, TotalNoise, noise_for
from confide.plan.totals import ValueGrid

__all__ = ["FINE_BITS", "BlockReading", "choose_rank", "cut_grid", "grid_of_bounds", "sum_noise"]

FINE_BITS: Final = 32
FINENESS: Final = 2**FINE_BITS


@dataclass(frozen=True, slots=True)
class BlockReading:
    """Which columns are read, in how many blocks, and how many rows of a unit stay."""

    table: Table
    columns: tuple[str, ...]
    blocks: int


def grid_of_bounds(low: Fraction, high: Fraction) -> ValueGrid:
    """Return the grid of one result: whole steps from its lower bound."""
    return ValueGrid(low, (high - low) / FINENESS, 0, FINENESS)


def cut_grid(grid: ValueGrid, low: int, high: int, cell: int) -> ValueGrid:
    """Return the multiples of ``cell`` steps of a grid, from ``low`` to ``high`` or just below."""
    return ValueGrid(grid.centre + grid.step * low, grid.step * cell, 0, (high - low) // cell)


def sum_noise(widths: Sequence[int], neighbours: Neighbours, granted: Loss) -> TotalNoise:
    """Return noise for the sums over blocks of results that lie so many steps above their least.

    Claim:   costs ``granted``.
    Why:     a unit added or removed changes one block, so each sum by at most its width; a unit
             replaced may change two blocks. These are the reaches of one row and of two.
    Source:  [NRS07]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_aggregate.py.
    """
    moved = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    reaches = [Reach(max(1, width), moved, moved**2) for width in widths]
    return noise_for(reaches, calibrate(granted))


def choose_rank(neighbours: Neighbours, granted: Loss, part: Fraction) -> Exponential:
    """Return the choice of a value at a rank among the blocks' results.

    Claim:   costs ``part`` of ``granted``.
    Why:     a step with L results below it and m at it has a gap: the distance of a fixed rank from
             [L, L + m]. One block's result moved changes L or L + m by at most 1, either way; a
             unit replaced may move two results.
    Source:  [MT07], [Smi11].
    Checked: tests/statistics/test_aggregate.py.
    """
    moved = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    return Exponential(moved, find_epsilon(take_part(granted, part), BoundedRangeLoss))
