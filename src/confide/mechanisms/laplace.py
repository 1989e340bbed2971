"""Laplace mechanism on the integers, for one number or a vector."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from confide.exact import Number, integer, positive, probability
from confide.loss import LaplaceLoss, PureLoss
from confide.mechanisms.grid import MAX_VALUE, Grid, Values
from confide.noise import SYSTEM, DiscreteLaplace, Entropy

__all__ = ["Laplace"]


@dataclass(frozen=True, slots=True, init=False)
class Laplace:
    """A mechanism that adds two-sided geometric noise to integers, or to numbers on a grid.

    ``sensitivity`` is the most that one unit can change all numbers released together, as a sum of
    absolute differences (the l1 sensitivity). ``cells``, if given, is the most values that one unit
    can change. Real numbers need ``grid=`` and are rounded to its multiples.

    Law:     P(Z = z) = tanh(1 / 2b) * exp(-|z| / b) over the integers, independent for each
             number, with b = s / epsilon where s is the sensitivity in grid steps.
    Claim:   epsilon-DP; for ``cells`` = 1 and an integer s, the loss is the smaller `LaplaceLoss`.
    Why:     a change of the input x by s, in l1, changes the sum of |y_i - x_i| by at most s, for
             any output y. So the two probabilities of y differ by a factor of at most exp(s / b).
             Rounding to the grid can increase the change of each value by less than one step; s
             includes this. Saturating the noisy values is post-processing.
    Source:  [DMNS06], [GRS12]; sampled exactly, see noise/sampler.py.
    Checked: tests/mechanisms/test_laplace.py (law), tests/audit/test_claims.py (claim).

    >>> mechanism = Laplace(sensitivity=1, epsilon=0.5)
    >>> mechanism.loss
    PureLoss(epsilon=Fraction(1, 2))
    >>> mechanism.interval(0.95)
    (-6, 6)
    >>> type(mechanism.release(1_000))
    <class 'int'>
    """

    sensitivity: Fraction
    epsilon: Fraction
    grid: Grid
    cells: int | None
    noise: DiscreteLaplace = field(repr=False, compare=False)
    steps: Fraction = field(repr=False, compare=False)

    def __init__(
        self,
        sensitivity: Number = 1,
        epsilon: Number = 1,
        *,
        grid: Number | None = None,
        cells: int | None = None,
    ) -> None:
        exact = positive("sensitivity", sensitivity), positive("epsilon", epsilon)
        exact_grid = Grid.of(grid)
        count = None if cells is None else integer("cells", cells, low=1, high=MAX_VALUE)
        steps = exact_grid.sensitivity_in_steps(exact[0], count)
        noise = DiscreteLaplace(steps / exact[1])
        names = ("sensitivity", "epsilon", "grid", "cells", "noise", "steps")
        for name, value in zip(names, (*exact, exact_grid, count, noise, steps), strict=True):
            object.__setattr__(self, name, value)

    @property
    def loss(self) -> PureLoss | LaplaceLoss:
        """The privacy loss of one release."""
        if self.cells == 1 and self.steps.denominator == 1:
            return LaplaceLoss(epsilon=self.epsilon, steps=int(self.steps))
        return PureLoss(epsilon=self.epsilon)

    def release(self, x: Values, *, entropy: Entropy = SYSTEM) -> Any:
        """Return ``x`` plus noise: a number, a list, or an array, as ``x`` is."""
        self.grid.check_cells(x, self.cells)
        return self.grid.add_noise(self.noise, x, entropy)

    def interval(self, confidence: Number = 0.95) -> tuple[Any, Any]:
        """Return the narrowest symmetric range with this confidence for the noise of one number."""
        return self.grid.interval(self.noise, probability("confidence", confidence, zero=False))
