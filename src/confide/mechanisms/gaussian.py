"""Gaussian mechanism on the integers, calibrated exactly."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from flint import arb

from confide.errors import BadDeclaration
from confide.exact import Number, fraction_above, integer, positive, probability
from confide.loss import GaussianLoss, mu_squared_for
from confide.mechanisms.grid import LARGEST_VALUE, Grid, Values
from confide.noise import SYSTEM, Entropy, RoundedGaussian

__all__ = ["Gaussian"]


@dataclass(frozen=True, slots=True, init=False)
class Gaussian:
    """Release numbers plus rounded normal noise.

    ``sensitivity`` is the most that one unit can change the vector of all the numbers released
    together, in Euclidean length (the l2 sensitivity). The noise is given by ``epsilon`` and
    ``delta``, or by ``mu`` (Gaussian DP), or by ``rho`` (zero-concentrated DP, mu^2 = 2 rho).

    Law:     P(Z = z) = Phi((z + 1/2) / sigma) - Phi((z - 1/2) / sigma), independent for each
             number, with sigma = s / mu where s is the sensitivity in grid steps.
    Claim:   mu-Gaussian DP; with epsilon and delta given, the least noise of its kind for them.
    Why:     on integers x + round(N) = round(x + N), a function of the Gaussian mechanism's own
             output x + N, whose trade-off curve between inputs at distance s is that of N(0, 1)
             against N(mu, 1). delta grows with mu, and the largest mu allowed is taken.
    Source:  [DRS22], [BW18]; drawn exactly, see noise/sampler.py.
    Checked: tests/mechanisms/test_gaussian.py (law), tests/audit/test_claims.py (claim).

    >>> mechanism = Gaussian(sensitivity=1.0, epsilon=1.0, delta=1e-6)
    >>> round(mechanism.sigma, 3)
    4.225
    >>> mechanism.loss.epsilon_at(1e-6) <= 1.0000001
    True
    """

    sensitivity: Fraction
    mu_squared: Fraction
    grid: Grid
    cells: int | None
    noise: RoundedGaussian = field(repr=False, compare=False)

    def __init__(
        self,
        sensitivity: Number = 1,
        epsilon: Number | None = None,
        delta: Number | None = None,
        *,
        mu: Number | None = None,
        rho: Number | None = None,
        grid: Number | None = None,
        cells: int | None = None,
    ) -> None:
        exact = positive("sensitivity", sensitivity)
        mu_squared = _mu_squared(epsilon, delta, mu, rho)
        places = Grid.of(grid)
        count = None if cells is None else integer("cells", cells, low=1, high=LARGEST_VALUE)
        noise = RoundedGaussian(_moves_squared(places, exact, count) / mu_squared)
        names = ("sensitivity", "mu_squared", "grid", "cells", "noise")
        for name, value in zip(names, (exact, mu_squared, places, count, noise), strict=True):
            object.__setattr__(self, name, value)

    @property
    def loss(self) -> GaussianLoss:
        """What one release costs."""
        return GaussianLoss(mu_squared=self.mu_squared)

    @property
    def sigma(self) -> float:
        """The standard deviation of the normal number before rounding, in the unit of ``x``."""
        return self.noise.scale * float(self.grid.step or 1)

    def release(self, x: Values, *, entropy: Entropy = SYSTEM) -> Any:
        """Return ``x`` plus noise, in the form in which it came."""
        self.grid.check_cells(x, self.cells)
        return self.grid.add_noise(self.noise, x, entropy)

    def interval(self, confidence: Number = 0.95) -> tuple[Any, Any]:
        """Return the narrowest symmetric range that holds the noise of one number."""
        return self.grid.interval(self.noise, probability("confidence", confidence, zero=False))


def _mu_squared(
    epsilon: Number | None, delta: Number | None, mu: Number | None, rho: Number | None
) -> Fraction:
    given = [value is not None for value in (epsilon, mu, rho)]
    if sum(given) != 1 or (epsilon is None) != (delta is None):
        raise BadDeclaration(
            "Gaussian needs epsilon and delta together, or mu, or rho: one of these"
        )
    if mu is not None:
        return positive("mu", mu) ** 2
    if rho is not None:
        return 2 * positive("rho", rho)
    return mu_squared_for(positive("epsilon", epsilon), probability("delta", delta, zero=False))


def _moves_squared(grid: Grid, sensitivity: Fraction, cells: int | None) -> Fraction:
    """Return the squared distance in steps that values can move, counting their rounding.

    Why: each of c changed cells moves by less than one step more, so the vector of moves is
         longer by less than sqrt(c); one cell that moves a whole number of steps gains nothing.
    """
    if grid.step is None:
        return sensitivity**2
    if cells is None or cells == 1:
        return grid.moves(sensitivity, 1) ** 2
    return (sensitivity / grid.step + fraction_above(arb(cells).sqrt())) ** 2
