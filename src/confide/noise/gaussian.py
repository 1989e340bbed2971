"""Rounded Gaussian noise."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import numpy as np
from flint import arb

from confide.exact import ball, positive
from confide.noise.entropy import Entropy
from confide.noise.sampler import (
    MAX_SCALE,
    Floats,
    Integer,
    Integers,
    Reals,
    check_scale,
    draw,
    draw_one,
    rounded_variance,
)

__all__ = ["RoundedGaussian"]

SLACK: Final = 2.0**-41

# `magnitude` approximates x(U) by s^2 times a ratio of two polynomials in s = sqrt(-ln U). These
# are their coefficients of s^0, s^1, ..., printed by tools/fit_gaussian_quantile.py.
NUMERATOR: Final = (
    1.253314137322141, 5.122270220913224, 13.767887819921361, 25.897581581036217,
    37.489209725819116, 42.420897679387856, 37.781159880694815, 26.11627007786609,
    13.564170164846953, 4.989495817167426, 1.2482736111315398, 0.19766860718963447,
    0.01705361831758592, 0.0006567182822211932, 8.002297027791722e-06, -3.717290896271872e-13,
)  # fmt: skip
DENOMINATOR: Final = (
    1.0, 4.086980327070928, 11.485185047406134, 22.70677235689411,
    35.226168126226554, 43.44938358849253, 43.27066360405061, 34.611517001916084,
    21.86613252991309, 10.589141478512884, 3.7187315261033924, 0.9031501103828294,
    0.14077605778754756, 0.012075146396913473, 0.00046439056434236767, 5.658397403719066e-06,
)  # fmt: skip
COEFFICIENTS: Final = np.array([NUMERATOR, DENOMINATOR])
TERM_COUNT: Final = len(NUMERATOR)


@dataclass(frozen=True, slots=True)
class RoundedGaussian:
    """Integer noise that rounds a continuous normal variable to the nearest integer.

    Law:     P(Z = z) = Phi((z + 1/2) / sigma) - Phi((z - 1/2) / sigma) over the integers.
    Why:     let N be standard normal and U uniform on (0, 1). For k >= 1, P(|Z| >= k) equals
             P(|N| >= (k - 1/2) / sigma), and U lies below it exactly when
             sigma * x(U) + 1/2 >= k, where x(U) = -Phi^-1(U / 2). So |Z| is the floor of the left
             side. The slope of x in -ln U is the Mills ratio at x, at most sqrt(pi / 2) < 1.26.
    Slack:   the approximation in `magnitude` is within 3.9e-14 of x for U >= 2**-64
             (tools/fit_gaussian_quantile, 20,000 points). The 16 terms of each polynomial have the
             same sign, except for one that is negligible. So in any order of summation, doubles
             lose at most 66 parts in 2**53 of x <= 9.2. The total error is below
             1.2e-13 < 2**-42.9. The measured error, with the rounding of sigma and of the product,
             is 3.9e-14 = 2**-44.5 (tools/measure_slack.py, 10^6 points). We allow 2**-41.
    Checked: tests/noise/test_gaussian.py.
    """

    sigma_squared: Fraction
    scale: float = field(init=False)
    slack: float = field(default=SLACK, init=False)
    shift: float = field(default=0.5, init=False)

    def __post_init__(self) -> None:
        exact = positive("sigma_squared", self.sigma_squared)
        check_scale("sigma_squared", exact, largest=MAX_SCALE**2)
        object.__setattr__(self, "sigma_squared", exact)
        object.__setattr__(self, "scale", math.sqrt(exact))

    def magnitude(self, uniform: Reals) -> Reals:
        """Return x(U) in doubles for U = ``uniform``, by the same operations for every U."""
        squares = -np.log(uniform)
        roots = np.sqrt(squares)
        if isinstance(roots, np.ndarray):
            top, bottom = COEFFICIENTS @ _powers(roots)
        else:
            top, bottom = (
                _polynomial(NUMERATOR, float(roots)),
                _polynomial(DENOMINATOR, float(roots)),
            )
        return squares * (top / bottom)

    def tail(self, magnitude: int) -> arb:
        """Enclose P(|Z| >= magnitude)."""
        if magnitude <= 0:
            return arb(1)
        return (arb(2 * magnitude - 1) / (8 * ball(self.sigma_squared)).sqrt()).erfc()

    @property
    def deviation(self) -> float:
        """The standard deviation before rounding."""
        return self.scale

    @property
    def variance(self) -> float:
        """The approximate variance after rounding."""
        return rounded_variance(float(self.sigma_squared))

    def density(self, distance: Floats) -> Floats:
        """Return the density of the noise at a distance in standard deviations, up to a factor."""
        return np.exp(-(distance**2) / 2.0)

    def draw(self, count: int, entropy: Entropy) -> Integers:
        """Return ``count`` independent draws."""
        return draw(self, count, entropy)

    def draw_one(self, entropy: Entropy) -> Integer:
        """Return one draw."""
        return draw_one(self, entropy)


def _powers(base: Floats) -> Floats:
    """Return the powers 0 to 15 of ``base``, one per row; each step doubles the number of rows."""
    rows = np.empty((TERM_COUNT, *base.shape))
    rows[0] = 1.0
    rows[1] = base
    known = 2
    while known < TERM_COUNT:
        np.multiply(rows[:known], rows[known - 1] * base, out=rows[known : 2 * known])
        known *= 2
    return rows


def _polynomial(coefficients: tuple[float, ...], base: float) -> float:
    """Return the value of a polynomial at one number, without the overhead of arrays."""
    value = 0.0
    for coefficient in reversed(coefficients):
        value = value * base + coefficient
    return value
