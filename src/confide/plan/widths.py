"""How the width of a histogram's bins is chosen: what one unit can do to the scores of widths.

Candidates are 1, 2, 4, ... bins over a fixed range. Cutting every bin in two pays when the halves
differ by more than chance and noise make them differ; the length of the vector of differences
says so, and one unit hardly changes a length.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from confide.loss import Loss
from confide.mechanisms import Neighbours
from confide.plan.selection import Selector, make_selector
from confide.plan.sources import Contribution

__all__ = ["WidthChoice", "plan_width"]

FINENESS: Final = 1_000
FEWEST: Final = 50
BELIEF: Final = 2
PER_ROW: Final = FINENESS + FINENESS // 10
"""How many steps a row moves a score: one for its length, a tenth for the count within."""


@dataclass(frozen=True, slots=True)
class WidthChoice:
    """One of 2^0, 2^1, ..., 2^levels bins, chosen by how well it suits exact counts.

    With counts n_j in 2^l bins and d_l the differences of their halves, halving all bins lowers the
    estimated squared error by (|d_l|^2 - 2 n - 3 2^l v) 2^l / n^2, where v is the variance of the
    noise that stays in a bin. The score of k is the least of |d_(k-1)| - t_(k-1), which says that
    coming to k paid, and t_l - |d_l| for l >= k, which says that going on does not; t_l is the
    square root of 2 max(n, 50) + 3 2^l v. Scores are counted in steps of 1 / 1000, rounded down.
    From each is taken a handicap that was known before: see `favour`.

    Claim:   one row more or less moves every score by at most 1100 steps.
    Why:     a row changes one coordinate of each d_l by 1, so its length by at most 1: 1000 steps;
             a root of 100 or more plus twice the count moves by at most 1 / sqrt(100): 100 steps.
             Rounding down keeps moves within whole numbers of steps, and the least of numbers
             moves no more than the numbers do. A handicap does not move at all.
    Source:  docs/proofs/statistics.md; [Rud82] for the criterion, [MT07] for the choice.
    Checked: tests/statistics/test_density.py.
    """

    levels: int
    variance: Fraction
    selector: Selector
    handicaps: tuple[int, ...] = ()

    def favour(self, halvings: float) -> "WidthChoice":
        """Return the choice that takes about so many halvings where the counts say little.

        # Privacy: ``halvings`` must follow from the declaration and what was released before.

        Every halving away from there makes a width less likely by a factor of e^2, as far as the
        noise of the choice can tell; scores that differ by more than that noise decide alone.
        """
        unit = BELIEF / self.selector.rate
        away = (abs(level - halvings) for level in range(self.levels + 1))
        return replace(self, handicaps=tuple(round(Fraction(far) * unit) for far in away))

    def scores(self, counts: Sequence[int]) -> list[int]:
        """Return the score of each number of bins, from counts in the most bins."""
        size = sum(counts)
        gains: list[int] = []
        halves = list(counts)
        for level in reversed(range(self.levels)):
            pairs = list(zip(halves[::2], halves[1::2], strict=True))
            length = sum((left - right) ** 2 for left, right in pairs)
            threshold = 2 * max(size, FEWEST) + 3 * 2**level * self.variance
            gains.append(_root(Fraction(length)) - _root(threshold))
            halves = [left + right for left, right in pairs]
        gains.reverse()  # gains[l]: what halving 2^l bins gains
        fits = [
            min([gains[level - 1]] * (level > 0) + [-gain for gain in gains[level:]], default=0)
            for level in range(self.levels + 1)
        ]
        handicaps = self.handicaps or (0,) * len(fits)
        return [fit - handicap for fit, handicap in zip(fits, handicaps, strict=True)]


def _root(square: Fraction) -> int:
    """Return the square root in steps, rounded down."""
    return math.isqrt(math.floor(square * FINENESS**2))


def plan_width(
    levels: int,
    variance: Fraction,
    contribution: Contribution,
    neighbours: Neighbours,
    granted: Loss,
) -> WidthChoice:
    """Return how the number of bins is chosen at the cost of ``granted``.

    Why: a unit has at most so many rows; adding or removing them one by one moves a score by so
         many times as much, and replacing a unit does both.
    """
    moves = PER_ROW * contribution.rows * (2 if neighbours is Neighbours.REPLACE else 1)
    return WidthChoice(levels, variance, make_selector(2 * moves, granted, rounds=1))
