"""Gaussian mechanism on the integers, with exact calibration."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from flint import arb

from confide.errors import BadDeclaration
from confide.exact import Number, fraction_above, integer, positive, probability
from confide.loss import GaussianLoss, mu_squared_for
from confide.mechanisms.grid import MAX_VALUE, Grid, Values
from confide.noise import SYSTEM, Entropy, RoundedGaussian

__all__ = ["Gaussian"]


@dataclass(frozen=True, slots=True, init=False)
class Gaussian:
    """A mechanism that adds rounded normal noise to integers, or to numbers on a grid.

    ``sensitivity`` is the most that one unit can change the vector of all numbers released
    together, in Euclidean norm (the l2 sensitivity). ``cells``, if given, is the number of values
    that one unit can change. Set the noise by ``epsilon`` and ``delta``, by ``mu`` (Gaussian DP),
    or by ``rho`` (zero-concentrated DP, mu^2 = 2 rho). Real numbers need ``grid=`` and are rounded
    to its multiples.

    Law:     P(Z = z) = Phi((z + 1/2) / sigma) - Phi((z - 1/2) / sigma), independent for each
             number, with sigma = s / mu where s is the sensitivity in grid steps.
    Claim:   mu-Gaussian DP; for a given epsilon and delta, sigma is minimal up to rounding.
    Why:     let N be normal noise. On integers, x + round(N) = round(x + N). This is a function of
             x + N, the output of the Gaussian mechanism. The trade-off curve of that mechanism,
             between inputs at distance s, is the curve of N(0, 1) against N(mu, 1). delta increases
             in mu, and we use the largest allowed mu.
    Source:  [DRS22], [BW18]; sampled exactly, see noise/sampler.py.
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
        exact_grid = Grid.of(grid)
        count = None if cells is None else integer("cells", cells, low=1, high=MAX_VALUE)
        noise = RoundedGaussian(_sensitivity_squared(exact_grid, exact, count) / mu_squared)
        names = ("sensitivity", "mu_squared", "grid", "cells", "noise")
        for name, value in zip(names, (exact, mu_squared, exact_grid, count, noise), strict=True):
            object.__setattr__(self, name, value)

    @property
    def loss(self) -> GaussianLoss:
        """The privacy loss of one release."""
        return GaussianLoss(mu_squared=self.mu_squared)

    @property
    def sigma(self) -> float:
        """The standard deviation of the normal variable before rounding, in the unit of ``x``."""
        return self.noise.scale * float(self.grid.step or 1)

    def release(self, x: Values, *, entropy: Entropy = SYSTEM) -> Any:
        """Return ``x`` plus noise: a number, a list, or an array, as ``x`` is."""
        self.grid.check_cells(x, self.cells)
        return self.grid.add_noise(self.noise, x, entropy)

    def interval(self, confidence: Number = 0.95) -> tuple[Any, Any]:
        """Return the narrowest symmetric range that contains the noise with this confidence."""
        return self.grid.interval(self.noise, probability("confidence", confidence, zero=False))


def _mu_squared(
    epsilon: Number | None, delta: Number | None, mu: Number | None, rho: Number | None
) -> Fraction:
    given = [value is not None for value in (epsilon, mu, rho)]
    if sum(given) != 1 or (epsilon is None) != (delta is None):
        raise BadDeclaration(
            "The Gaussian mechanism needs exactly one of `mu=`, `rho=`, and `epsilon=` with "
            "`delta=`."
        )
    if mu is not None:
        return positive("mu", mu) ** 2
    if rho is not None:
        return 2 * positive("rho", rho)
    return mu_squared_for(positive("epsilon", epsilon), probability("delta", delta, zero=False))


def _sensitivity_squared(grid: Grid, sensitivity: Fraction, cells: int | None) -> Fraction:
    """Return the squared sensitivity in grid steps, including the effect of rounding.

    Why: each of the c = ``cells`` values that change moves by less than one step more after
         rounding, so the vector of changes is longer by less than sqrt(c). For a single value,
         rounding the sensitivity up to full steps suffices.
    """
    if grid.step is None:
        return sensitivity**2
    if cells is None or cells == 1:
        return grid.sensitivity_in_steps(sensitivity, 1) ** 2
    return (sensitivity / grid.step + fraction_above(arb(cells).sqrt())) ** 2
