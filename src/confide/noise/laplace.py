"""Discrete Laplace noise: two-sided geometric noise of any positive scale."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import numpy as np
from flint import arb, ctx

from confide.exact import ball, positive
from confide.noise.entropy import Entropy
from confide.noise.sampler import Floats, Integer, Integers, Reals, check_scale, draw, draw_one

__all__ = ["DiscreteLaplace"]

SLACK: Final = 2.0**-42
MAX_RATE: Final = 700.0


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """Integer noise whose probability decays by the same factor at every step.

    Law:     P(Z = z) = tanh(1 / 2b) * exp(-|z| / b) over the integers, with b = ``exact_scale``.
    Why:     with q = exp(-1 / b), P(|Z| >= k) = 2 q^k / (1 + q) for k >= 1. A uniform U in (0, 1)
             lies below it exactly when k <= b * (ln(2 / (1 + q)) - ln U). So |Z| is the floor of
             the right side.
    Slack:   for U >= 2**-64 the logarithms add up to at most 45.1. NumPy's logarithm is within
             4 units in the last place (8 parts in 2**53). With the roundings of U, b, both sums,
             and the product, the error is below 45.1 * 14 * 2**-53 < 2**-43.6. The measured
             error, with the rounding of b and of the product, is 8.7e-15 = 2**-46.7
             (tools/measure_slack.py, 10^6 points). We allow 2**-42.
    Checked: tests/noise/test_laplace.py.
    """

    exact_scale: Fraction
    scale: float = field(init=False)
    start: float = field(init=False)
    slack: float = field(default=SLACK, init=False)
    shift: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        exact = positive("scale", self.exact_scale)
        check_scale("scale", exact)
        with ctx.workprec(128):
            start = float((2 / (1 + (-1 / ball(exact)).exp())).log())
        for name, value in (("exact_scale", exact), ("scale", float(exact)), ("start", start)):
            object.__setattr__(self, name, value)

    def magnitude(self, uniform: Reals) -> Reals:
        """Return ln(2 / (1 + q)) - ln U in doubles."""
        return self.start - np.log(uniform)

    def tail(self, magnitude: int) -> arb:
        """Enclose P(|Z| >= magnitude)."""
        if magnitude <= 0:
            return arb(1)
        rate = 1 / ball(self.exact_scale)
        return 2 * (-rate * magnitude).exp() / (1 + (-rate).exp())

    @property
    def deviation(self) -> float:
        """The standard deviation of the continuous Laplace distribution with this scale."""
        return math.sqrt(2.0) * self.scale

    @property
    def variance(self) -> float:
        """The variance: 1 / (cosh(1 / b) - 1)."""
        return float(1.0 / (np.cosh(min(1.0 / self.scale, MAX_RATE)) - 1.0))

    def density(self, distance: Floats) -> Floats:
        """Return the density of the noise at a distance in scales, up to a factor."""
        return np.exp(-np.abs(distance))

    def draw(self, count: int, entropy: Entropy) -> Integers:
        """Return ``count`` independent draws."""
        return draw(self, count, entropy)

    def draw_one(self, entropy: Entropy) -> Integer:
        """Return one draw."""
        return draw_one(self, entropy)
