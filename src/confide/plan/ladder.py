"""Several quantiles at once, by halving: each choice is made among rows that no other one sees.

The middle one of the levels is chosen first, among all cells; then the middle ones of the lower and
of the upper levels, each among the cells on its side; and so on. Choices of one round are about
different rows, so a round costs what one choice does, and there are only about log2 of the number
of levels of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from confide.loss import BoundedRangeLoss, Loss
from confide.mechanisms import Exponential, Neighbours
from confide.noise import DiscreteLaplace, RoundedGaussian
from confide.plan.grants import calibrate, find_epsilon, take_part
from confide.plan.noise import Reach, TotalNoise, noise_for

__all__ = ["Ladder", "Rung", "plan_ladder"]

COUNT_PART: Final = Fraction(1, 5)


@dataclass(frozen=True, slots=True)
class Rung:
    """One choice: the level at ``place``, between those at ``below`` and ``above``, chosen before.

    None stands for the end of the range.
    """

    place: int
    below: int | None
    above: int | None


@dataclass(frozen=True, slots=True)
class Ladder:
    """The choices of several quantiles, round by round.

    Law:     a rung chooses a cell strictly between those of its neighbours, with a probability in
             proportion to its weight times exp(-rate gap), where gap is the distance of a n from
             [b L, b (L + m)]: of n rows between the neighbours L lie below the cell and m in it.
             Then L and m are released with noise. Which part a / b of its rows a rung wants follows
             from what was released before; where it is none, or all, the neighbour is taken. A
             cell with more rows than noise can feign moves what is wanted beside it; another is
             taken to lie at its level.
    Claim:   quantiles never cross, and all rounds together cost what was granted.
    Why:     rungs of one round are about cells of which none has any twice, so a row counts for at
             most one of them. One row more moves a n by a, b L by b for the cells above it and b m
             for its own, hence all gaps of its rung by at most max(a, b - a) either way, and L or
             m by 1. Log-ratios of the rungs of a round add up to what the rows of a unit make
             together. A unit replaced takes its rows away and brings others.
    Source:  [KSS22] for halving, [MT07]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_quantiles.py.
    """

    rounds: tuple[tuple[Rung, ...], ...]
    epsilon: Fraction
    moved: int
    noise: TotalNoise

    @property
    def slack(self) -> int:
        """How many rows noise may well feign: three deviations."""
        match self.noise.law:
            case DiscreteLaplace(scale=scale):
                return math.ceil(3.0 * math.sqrt(2.0) * scale)
            case (RoundedGaussian(sigma_squared=variance),):
                return math.ceil(3.0 * math.sqrt(variance))
            case _:
                raise TypeError("a count has noise of its own")

    def choose(self, level: Fraction) -> Exponential:
        """Return the choice of a rung that wants this part of its rows."""
        furthest = max(level.numerator, level.denominator - level.numerator)
        return Exponential(self.moved * furthest, self.epsilon)


def plan_ladder(levels: int, rows: int, neighbours: Neighbours, granted: Loss) -> Ladder:
    """Return how so many quantiles are chosen, at the cost of ``granted``.

    ``rows`` is how many rows a unit may have.
    """
    rounds = tuple(_list_rounds(levels))
    part = take_part(granted, Fraction(1, len(rounds)))
    moved = rows * (1 if neighbours is Neighbours.ADD_REMOVE else 2)
    epsilon = find_epsilon(take_part(part, 1 - COUNT_PART), BoundedRangeLoss)
    counts = calibrate(take_part(part, COUNT_PART))
    noise = noise_for((Reach(1, moved, moved**2),), counts)
    return Ladder(rounds, epsilon, moved, noise)


def _list_rounds(levels: int) -> Sequence[tuple[Rung, ...]]:
    rounds, pending = [], [(0, levels)]
    while pending:
        rungs, following = [], []
        for first, last in pending:
            middle = (first + last) // 2
            above = last if last < levels else None
            rungs.append(Rung(middle, first - 1 if first else None, above))
            following += [(a, b) for a, b in ((first, middle), (middle + 1, last)) if a < b]
        rounds.append(tuple(rungs))
        pending = following
    return rounds
