"""Rows averaged with those beside them in rank, so that a choice sees evener gaps between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from confide.engines.sealed import Integers, Pair
from confide.plan import Cells

__all__ = ["average_rows"]

NEAR: Final = 32
"""Rows further away than this part of all cells are taken to lie that near."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Cells in order, group after group, and how many rows of it each holds."""

    cells: Integers
    rows: Integers
    group: Integers

    def __getitem__(self, kept: Mask | Integers) -> "_Blocks":
        return _Blocks(self.cells[kept], self.rows[kept], self.group[kept])


def average_rows(groups: Sequence[Pair], cells: Cells, beside: int) -> list[Pair]:
    """Return for each group the cells of its rows once each row is averaged with its neighbours.

    Law:     let x_j be the cell of row j of n in order, with x_j the first cell for j < 1 and the
             last for j > n. Row j moves to y_j, the rounded mean of x_j and, for each t from 1 to
             ``beside``, of max(x_(j-t), x_j - near) and min(x_(j+t), x_j + near).
    Claim:   one row more in a group makes the number of its y below a cell, and of those up to
             it, greater by 0 or 1.
    Why:     y_j = f(x_(j-k), ..., x_(j+k)), with the same f for all j, that falls with none of
             its arguments. One row more leaves x_j for those before it, and gives x_(j-1) to
             those after, itself lying between: x_(j-1) <= x'_j <= x_j for every j. So
             y_(j-1) <= y'_j <= y_j. If y_j is below a cell then so is y'_j, for j = 1 to n; if
             y'_j is, then so is y_(j-1), for j = 1 to n + 1.
    Source:  docs/proofs/quantiles.md.
    Checked: tests/release/test_averages.py (all neighbours of random rows).
    """
    near = cells.count // NEAR
    if not beside or not near:
        return list(groups)
    blocks, is_own = _line_up(groups, cells.count - 1, beside)
    is_still = is_own & _find_still(blocks, beside)
    is_seen = ~is_still
    is_seen[1:] |= ~is_still[:-1]
    is_seen[:-1] |= ~is_still[1:]
    moved = _average(blocks[is_seen], (is_own & ~is_still)[is_seen], beside, near)
    return _gather(moved, blocks[is_still], cells.count, len(groups))


def _line_up(groups: Sequence[Pair], top: int, beside: int) -> tuple[_Blocks, Mask]:
    """Return the cells of all groups, and which hold rows.

    On either side of a group stands the first or the last cell, as often as it can be averaged.
    """
    sizes = np.array([len(filled) for filled, _ in groups])
    ends = np.cumsum(sizes + 2) - 1
    is_own = np.ones(int(ends[-1]) + 1, dtype=np.bool_)
    is_own[ends] = is_own[ends - sizes - 1] = False
    cells, rows = np.zeros(len(is_own), np.int64), np.full(len(is_own), beside)
    cells[ends] = top
    cells[is_own] = np.concatenate([filled for filled, _ in groups])
    rows[is_own] = np.concatenate([counted for _, counted in groups])
    return _Blocks(cells, rows, np.repeat(np.arange(len(groups)), sizes + 2)), is_own


def _find_still(blocks: _Blocks, beside: int) -> Mask:
    """Mark cells none of whose rows move: they hold more rows than are beside, next to such cells.

    Why: of the 2k + 1 rows that are averaged at least k + 1 lie in the cell and the others in the
         cells next to it, so the mean is off by at most k / (2k + 1), and rounded away.
    """
    is_long = blocks.rows >= beside
    is_next = (np.diff(blocks.cells) == 1) & is_long[1:] & is_long[:-1]
    is_still = blocks.rows > beside
    is_still[:-1] &= is_next
    is_still[1:] &= is_next
    is_still[[0, -1]] = False
    return is_still


def _average(blocks: _Blocks, is_moved: Mask, beside: int, near: int) -> _Blocks:
    """Return where the rows of some cells move; the others are seen beside them.

    Of rows in one cell only those that others are near are listed one by one: the middle one of
    2 * beside + 1 is as many as are left.
    """
    width = 2 * beside + 1
    listed = np.minimum(blocks.rows, width)
    rows = np.repeat(is_moved.astype(np.int64), listed)
    is_more = is_moved & (blocks.rows > width)
    rows[(np.cumsum(listed) - listed)[is_more] + beside] = blocks.rows[is_more] - 2 * beside
    x, last = np.repeat(blocks.cells, listed), len(rows) - beside
    middle = x[beside:last]
    low, high, total = middle - near, middle + near, middle.copy()
    for apart in range(1, beside + 1):
        total += np.maximum(x[beside - apart : last - apart], low)
        total += np.minimum(x[beside + apart : last + apart], high)
    means = (2 * total + width) // (2 * width)
    group = np.repeat(blocks.group, listed)[beside:last]
    return _Blocks(means, rows[beside:last], group)[rows[beside:last] > 0]


def _gather(moved: _Blocks, still: _Blocks, count: int, groups: int) -> list[Pair]:
    """Return the cells of each group, each once and in order, with the rows in it."""
    places = np.concatenate([one.group * count + one.cells for one in (moved, still)])
    order = np.argsort(places, kind="stable")
    places, rows = places[order], np.concatenate([moved.rows, still.rows])[order]
    first = np.flatnonzero(np.diff(places, prepend=-1))
    counted = np.add.reduceat(rows, first) if len(first) else rows
    borders = np.searchsorted(places[first], count * np.arange(1, groups))
    return list(
        zip(np.split(places[first] % count, borders), np.split(counted, borders), strict=True)
    )
