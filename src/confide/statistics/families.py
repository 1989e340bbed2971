"""Exponential families and their sufficient statistics.

Every term of a row lies in [-1, 1]. Sums are a count followed by the sums of the terms; they may
be noisy, so whatever is computed from them is first moved to where exact sums could be.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from confide.errors import UnsupportedQuery
from confide.lazy import lazy_module
from confide.query import Term, greatest
from confide.statistics.estimate import Floats

if TYPE_CHECKING:
    from scipy import special
else:
    special = lazy_module("scipy.special")

__all__ = [
    "FAMILIES",
    "FAMILY_LIST",
    "Family",
    "LikelihoodModel",
    "Scaled",
    "divide",
    "make_family",
    "pad",
]

TINY: Final = 1e-6
LEAST_GAP: Final = 1e-3
"""Below this, logarithms of means and means of logarithms agree up to any useful noise."""
FLOOR: Final = 2.0**-10
STEPS: Final = 12
NEAR: Final = 1e-10
SHIFTS: Final = 6


@dataclass(frozen=True, slots=True)
class Scaled:
    """A number from ``low`` to ``high``, seen as one from -1 to 1."""

    low: float
    high: float

    @property
    def centre(self) -> float:
        """The middle of the range."""
        return (self.low + self.high) / 2.0

    @property
    def half(self) -> float:
        """Half the width of the range; 1 for a single point."""
        return (self.high - self.low) / 2.0 or 1.0

    def term(self, value: Term) -> Term:
        """Return the scaled value of a row."""
        return ((value - self.centre) / self.half).clip(-1.0, 1.0)

    def back(self, mean: Floats) -> Floats:
        """Return a mean of scaled values as one of the values, within the range."""
        return self.centre + self.half * np.clip(mean, -1.0, 1.0)


class LikelihoodModel(Protocol):
    """A family of laws: its parameters, and how they follow from sums."""

    @property
    def parameters(self) -> tuple[str, ...]: ...

    def solve(self, sums: Floats) -> Floats:
        """Return the likeliest parameters; the last axes are sums in and parameters out."""
        ...

    def covariance(self, parameters: Floats) -> Floats:
        """Return the covariance of one row's (1, terms) if it follows the law.

        The count does not vary with the sample: its row and column are zero.
        """
        ...


class Family(LikelihoodModel, Protocol):
    """A family of laws of one number."""

    def terms(self, value: Term) -> list[Term]:
        """Return what is added up over the rows, besides their number."""
        ...


def divide(sums: Floats) -> Floats:
    """Return the means of the terms; fewer rows than one count as one."""
    return sums[..., 1:] / np.maximum(sums[..., :1], 1.0)


def pad(covariance: Floats) -> Floats:
    """Return a covariance of terms with the count in front."""
    return np.pad(covariance, ((1, 0), (1, 0)))


@dataclass(frozen=True, slots=True)
class Normal:
    """Normal: mean and standard deviation, from the sums of z and of 2 z^2 - 1."""

    x: Scaled
    parameters: tuple[str, ...] = ("mean", "stddev")

    def terms(self, value: Term) -> list[Term]:
        z = self.x.term(value)
        return [z, (2.0 * z * z - 1.0).clip(-1.0, 1.0)]

    def solve(self, sums: Floats) -> Floats:
        means = np.clip(divide(sums), -1.0, 1.0)
        mean, square = means[..., 0], (means[..., 1] + 1.0) / 2.0
        variance = np.clip(square - mean**2, TINY**2, 1.0)
        return np.stack([self.x.back(mean), self.x.half * np.sqrt(variance)], axis=-1)

    def covariance(self, parameters: Floats) -> Floats:
        mean = (parameters[0] - self.x.centre) / self.x.half
        variance = (parameters[1] / self.x.half) ** 2
        mixed = 4.0 * mean * variance
        square = 8.0 * variance**2 + 16.0 * mean**2 * variance
        return pad(np.array([[variance, mixed], [mixed, square]]))


@dataclass(frozen=True, slots=True)
class Poisson:
    """Poisson: the rate, which is the mean."""

    x: Scaled
    parameters: tuple[str, ...] = ("rate",)

    def terms(self, value: Term) -> list[Term]:
        return [self.x.term(value)]

    def solve(self, sums: Floats) -> Floats:
        return np.maximum(self.x.back(divide(sums)), TINY * self.x.half)

    def covariance(self, parameters: Floats) -> Floats:
        return pad(parameters.reshape(1, 1) / self.x.half**2)


@dataclass(frozen=True, slots=True)
class ExponentialDistribution:
    """Exponential: the rate, one over the mean."""

    x: Scaled
    parameters: tuple[str, ...] = ("rate",)

    def terms(self, value: Term) -> list[Term]:
        return [self.x.term(value)]

    def solve(self, sums: Floats) -> Floats:
        return 1.0 / np.maximum(self.x.back(divide(sums)), TINY * self.x.half)

    def covariance(self, parameters: Floats) -> Floats:
        return pad((parameters.reshape(1, 1) * self.x.half) ** -2.0)


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gamma: shape and scale, from the sums of x and of its logarithm.

    Values below ``least`` count as ``least`` in the logarithm, which would have no bounds else.
    """

    x: Scaled
    least: float
    parameters: tuple[str, ...] = ("shape", "scale")

    @property
    def logs(self) -> Scaled:
        return Scaled(float(np.log(self.least)), float(np.log(self.x.high)))

    def terms(self, value: Term) -> list[Term]:
        return [self.x.term(value), self.logs.term(greatest(value, self.least).ln())]

    def solve(self, sums: Floats) -> Floats:
        means = divide(sums)
        mean = np.maximum(self.x.back(means[..., 0]), self.least)
        gap = np.maximum(np.log(mean) - self.logs.back(means[..., 1]), LEAST_GAP)
        shape = (3.0 - gap + np.sqrt((gap - 3.0) ** 2 + 24.0 * gap)) / (12.0 * gap)
        for _ in range(STEPS):
            value = np.log(shape) - special.digamma(shape) - gap
            slope = 1.0 / shape - _trigamma(shape)
            before, shape = shape, np.maximum(shape - value / slope, shape / 2.0)
            if np.allclose(before, shape, rtol=NEAR, atol=0.0):
                break
        return np.stack([shape, mean / shape], axis=-1)

    def covariance(self, parameters: Floats) -> Floats:
        shape, scale = parameters
        along = np.array([1.0 / self.x.half, 1.0 / self.logs.half])
        mixed = np.array([[shape * scale**2, scale], [scale, special.polygamma(1, shape)]])
        return pad(mixed * np.outer(along, along))


@dataclass(frozen=True, slots=True)
class Beta:
    """Beta: both shapes, from the sums of the logarithms of x and 1 - x."""

    least: float = FLOOR
    parameters: tuple[str, ...] = ("a", "b")

    @property
    def logs(self) -> Scaled:
        return Scaled(float(np.log(self.least)), 0.0)

    def terms(self, value: Term) -> list[Term]:
        inside = value.clip(self.least, 1.0 - self.least)
        return [self.logs.term(inside.ln()), self.logs.term((1.0 - inside).ln())]

    def solve(self, sums: Floats) -> Floats:
        logs = np.minimum(self.logs.back(divide(sums)), np.log1p(-self.least))
        means = np.exp(logs)
        total = means.sum(axis=-1, keepdims=True)
        means = means * np.minimum(1.0, (1.0 - LEAST_GAP) / total)
        wanted = np.log(means)
        shapes = 0.5 + means / (2.0 * (1.0 - means.sum(axis=-1, keepdims=True)))
        for _ in range(STEPS):
            before, shapes = shapes, _step_beta(shapes, wanted)
            if np.allclose(before, shapes, rtol=NEAR, atol=0.0):
                break
        return np.asarray(shapes)

    def covariance(self, parameters: Floats) -> Floats:
        a, b = parameters
        both = special.polygamma(1, a + b)
        own = special.polygamma(1, parameters)
        spread = np.diag(own) - both
        return pad(np.asarray(spread / self.logs.half**2))


def _trigamma(x: Floats) -> Floats:
    """Return the slope of digamma to nine digits, several times as fast as SciPy's.

    Steps of Newton's method take it: an error there makes a step less good, not its end.

    Why: psi'(x) = 1 / x^2 + psi'(x + 1), six times; then the asymptotic series, of which the first
         term left out is below 1 / (30 y^9) with y >= 6.
    """
    moved = x + SHIFTS
    square = 1.0 / (moved * moved)
    series = 1.0 / 6.0 - square * (1.0 / 30.0 - square / 42.0)
    found = 1.0 / moved + 0.5 * square + series * square / moved
    for shift in range(SHIFTS):
        found = found + 1.0 / np.square(x + shift)
    return np.asarray(found)


def _step_beta(shapes: Floats, wanted: Floats) -> Floats:
    """Return shapes after one step of Newton's method, at most halved or doubled."""
    whole = shapes.sum(axis=-1, keepdims=True)
    gap = special.digamma(shapes) - special.digamma(whole) - wanted
    own, both = _trigamma(shapes), _trigamma(whole)
    # The matrix is diagonal less a constant, so its inverse is written down at once.
    plain = gap / own
    shared = both * plain.sum(axis=-1, keepdims=True)
    step = plain + shared / own / (1.0 - both * (1.0 / own).sum(axis=-1, keepdims=True))
    return np.asarray(np.clip(shapes - step, shapes / 2.0, shapes * 2.0))


def _gamma(low: float, high: float) -> Gamma:
    if high <= 0.0:
        raise UnsupportedQuery("a gamma law needs values above 0; this column's bounds have none")
    return Gamma(Scaled(max(low, 0.0), high), low if low > 0.0 else high * FLOOR)


def _beta(low: float, high: float) -> Beta:
    if low < 0.0 or high > 1.0:
        raise UnsupportedQuery(
            "a beta law is of values from 0 to 1; say within=(0, 1), or declare such bounds"
        )
    return Beta()


def _positive(
    kind: type[Poisson] | type[ExponentialDistribution], low: float, high: float
) -> Family:
    if high <= 0.0:
        raise UnsupportedQuery("this law needs values above 0; this column's bounds have none")
    return kind(Scaled(max(low, 0.0), high))


def make_family(name: str, low: float, high: float) -> Family:
    """Return the family of this name for values within these bounds."""
    match name:
        case "normal":
            return Normal(Scaled(low, high))
        case "poisson":
            return _positive(Poisson, low, high)
        case "exponential":
            return _positive(ExponentialDistribution, low, high)
        case "gamma":
            return _gamma(low, high)
        case "beta":
            return _beta(low, high)
        case _:
            raise UnsupportedQuery(f"there is no family {name!r}; {FAMILY_LIST}")


KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "normal": "mean, stddev",
        "poisson": "rate",
        "exponential": "rate",
        "gamma": "shape, scale",
        "beta": "a, b",
        "bernoulli": "p",
        "categorical": "one probability a value",
        "multivariate-normal": "means and covariances",
    }
)
FAMILIES: Final = tuple(KINDS)
FAMILY_LIST: Final = f"families are {', '.join(FAMILIES)}"
