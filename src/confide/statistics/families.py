"""Exponential families of one column, and their sufficient statistics.

A family defines terms of a row, each within [-1, 1]. Its sums are the count of rows, followed by
the sums of the terms. Noisy sums are first clipped to the range that exact sums can have.
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
    "FAMILY_NAMES",
    "Family",
    "LikelihoodModel",
    "Scaled",
    "divide",
    "make_family",
    "pad",
]

MIN_SCALE: Final = 1e-6
MIN_LOG_GAP: Final = 1e-3
"""Lower limit of the gap between the logarithm of a mean and the mean of logarithms."""
MIN_FRACTION: Final = 2.0**-10
MAX_NEWTON_STEPS: Final = 12
TOLERANCE: Final = 1e-10
RECURRENCE_STEPS: Final = 6


@dataclass(frozen=True, slots=True)
class Scaled:
    """A linear scale from [``low``, ``high``] to [-1, 1]."""

    low: float
    high: float

    @property
    def center(self) -> float:
        """The middle of the range."""
        return (self.low + self.high) / 2.0

    @property
    def half(self) -> float:
        """Half the width of the range; 1 for a single point."""
        return (self.high - self.low) / 2.0 or 1.0

    def term(self, value: Term) -> Term:
        """Return the term of the scaled value, from that of the value."""
        return ((value - self.center) / self.half).clip(-1.0, 1.0)

    def back(self, mean: Floats) -> Floats:
        """Return the mean of the values, within the range, from the mean of scaled values."""
        return self.center + self.half * np.clip(mean, -1.0, 1.0)


class LikelihoodModel(Protocol):
    """A family of distributions: its parameters, and their estimates from sums."""

    @property
    def parameters(self) -> tuple[str, ...]: ...

    def solve(self, sums: Floats) -> Floats:
        """Return the maximum likelihood parameters.

        The last axis of ``sums`` has the count and the sums of the terms. The last axis of the
        result has the parameters.
        """
        ...

    def covariance(self, parameters: Floats) -> Floats:
        """Return the covariance matrix of one row's count, which is 1, and its terms.

        The count does not vary, so its row and column are zero.
        """
        ...


class Family(LikelihoodModel, Protocol):
    """A family of distributions of one number."""

    def terms(self, value: Term) -> list[Term]:
        """Return the terms to sum over the rows, in addition to the count."""
        ...


def divide(sums: Floats) -> Floats:
    """Return the means of the terms; a count below 1 is treated as 1."""
    return sums[..., 1:] / np.maximum(sums[..., :1], 1.0)


def pad(covariance: Floats) -> Floats:
    """Return a covariance matrix of terms, with a zero row and column for the count in front."""
    return np.pad(covariance, ((1, 0), (1, 0)))


@dataclass(frozen=True, slots=True)
class Normal:
    """Normal: mean and standard deviation, from sums of z and 2 z^2 - 1, for scaled values z."""

    x: Scaled
    parameters: tuple[str, ...] = ("mean", "stddev")

    def terms(self, value: Term) -> list[Term]:
        z = self.x.term(value)
        return [z, (2.0 * z * z - 1.0).clip(-1.0, 1.0)]

    def solve(self, sums: Floats) -> Floats:
        means = np.clip(divide(sums), -1.0, 1.0)
        mean, square = means[..., 0], (means[..., 1] + 1.0) / 2.0
        variance = np.clip(square - mean**2, MIN_SCALE**2, 1.0)
        return np.stack([self.x.back(mean), self.x.half * np.sqrt(variance)], axis=-1)

    def covariance(self, parameters: Floats) -> Floats:
        mean = (parameters[0] - self.x.center) / self.x.half
        variance = (parameters[1] / self.x.half) ** 2
        mixed = 4.0 * mean * variance
        square = 8.0 * variance**2 + 16.0 * mean**2 * variance
        return pad(np.array([[variance, mixed], [mixed, square]]))


@dataclass(frozen=True, slots=True)
class Poisson:
    """Poisson: the rate, which equals the mean."""

    x: Scaled
    parameters: tuple[str, ...] = ("rate",)

    def terms(self, value: Term) -> list[Term]:
        return [self.x.term(value)]

    def solve(self, sums: Floats) -> Floats:
        return np.maximum(self.x.back(divide(sums)), MIN_SCALE * self.x.half)

    def covariance(self, parameters: Floats) -> Floats:
        return pad(parameters.reshape(1, 1) / self.x.half**2)


@dataclass(frozen=True, slots=True)
class ExponentialDistribution:
    """Exponential: the rate, which is the reciprocal of the mean."""

    x: Scaled
    parameters: tuple[str, ...] = ("rate",)

    def terms(self, value: Term) -> list[Term]:
        return [self.x.term(value)]

    def solve(self, sums: Floats) -> Floats:
        return 1.0 / np.maximum(self.x.back(divide(sums)), MIN_SCALE * self.x.half)

    def covariance(self, parameters: Floats) -> Floats:
        return pad((parameters.reshape(1, 1) * self.x.half) ** -2.0)


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gamma: shape and scale, from the sums of x and of its logarithm.

    In the logarithm, values below ``least`` count as ``least``; otherwise it would be unbounded.
    """

    x: Scaled
    least: float
    parameters: tuple[str, ...] = ("shape", "scale")

    @property
    def logs(self) -> Scaled:
        """The scale of logarithms."""
        return Scaled(float(np.log(self.least)), float(np.log(self.x.high)))

    def terms(self, value: Term) -> list[Term]:
        return [self.x.term(value), self.logs.term(greatest(value, self.least).ln())]

    def solve(self, sums: Floats) -> Floats:
        means = divide(sums)
        mean = np.maximum(self.x.back(means[..., 0]), self.least)
        gap = np.maximum(np.log(mean) - self.logs.back(means[..., 1]), MIN_LOG_GAP)
        shape = (3.0 - gap + np.sqrt((gap - 3.0) ** 2 + 24.0 * gap)) / (12.0 * gap)
        for _ in range(MAX_NEWTON_STEPS):
            value = np.log(shape) - special.digamma(shape) - gap
            slope = 1.0 / shape - _trigamma(shape)
            before, shape = shape, np.maximum(shape - value / slope, shape / 2.0)
            if np.allclose(before, shape, rtol=TOLERANCE, atol=0.0):
                break
        return np.stack([shape, mean / shape], axis=-1)

    def covariance(self, parameters: Floats) -> Floats:
        shape, scale = parameters
        along = np.array([1.0 / self.x.half, 1.0 / self.logs.half])
        mixed = np.array([[shape * scale**2, scale], [scale, special.polygamma(1, shape)]])
        return pad(mixed * np.outer(along, along))


@dataclass(frozen=True, slots=True)
class Beta:
    """Beta: both shapes, from the sums of the logarithms of x and of 1 - x.

    Values are first clipped to [least, 1 - least], so that the logarithms are bounded.
    """

    least: float = MIN_FRACTION
    parameters: tuple[str, ...] = ("a", "b")

    @property
    def logs(self) -> Scaled:
        """The scale of logarithms."""
        return Scaled(float(np.log(self.least)), 0.0)

    def terms(self, value: Term) -> list[Term]:
        inside = value.clip(self.least, 1.0 - self.least)
        return [self.logs.term(inside.ln()), self.logs.term((1.0 - inside).ln())]

    def solve(self, sums: Floats) -> Floats:
        logs = np.minimum(self.logs.back(divide(sums)), np.log1p(-self.least))
        means = np.exp(logs)
        total = means.sum(axis=-1, keepdims=True)
        means = means * np.minimum(1.0, (1.0 - MIN_LOG_GAP) / total)
        target = np.log(means)
        shapes = 0.5 + means / (2.0 * (1.0 - means.sum(axis=-1, keepdims=True)))
        for _ in range(MAX_NEWTON_STEPS):
            before, shapes = shapes, _step_beta(shapes, target)
            if np.allclose(before, shapes, rtol=TOLERANCE, atol=0.0):
                break
        return np.asarray(shapes)

    def covariance(self, parameters: Floats) -> Floats:
        a, b = parameters
        both = special.polygamma(1, a + b)
        own = special.polygamma(1, parameters)
        spread = np.diag(own) - both
        return pad(np.asarray(spread / self.logs.half**2))


def _trigamma(x: Floats) -> Floats:
    """Return the derivative of digamma to nine digits, several times as fast as SciPy.

    It is used for steps of Newton's method, where an error slows convergence but does not change
    the limit.

    Why: psi'(x) = 1 / x^2 + psi'(x + 1), applied six times, gives psi'(y) at y = x + 6. There, the
         asymptotic series is used; its first omitted term is below 1 / (30 y^9), and y >= 6.
    """
    shifted = x + RECURRENCE_STEPS
    square = 1.0 / (shifted * shifted)
    series = 1.0 / 6.0 - square * (1.0 / 30.0 - square / 42.0)
    found = 1.0 / shifted + 0.5 * square + series * square / shifted
    for shift in range(RECURRENCE_STEPS):
        found = found + 1.0 / np.square(x + shift)
    return np.asarray(found)


def _step_beta(shapes: Floats, target: Floats) -> Floats:
    """Return the shapes after one Newton step, which changes each by at most a factor of 2."""
    total = shapes.sum(axis=-1, keepdims=True)
    gap = special.digamma(shapes) - special.digamma(total) - target
    own, both = _trigamma(shapes), _trigamma(total)
    # The Jacobian is diagonal minus a constant matrix, so its inverse has a closed form.
    diagonal = gap / own
    shared = both * diagonal.sum(axis=-1, keepdims=True)
    step = diagonal + shared / own / (1.0 - both * (1.0 / own).sum(axis=-1, keepdims=True))
    return np.asarray(np.clip(shapes - step, shapes / 2.0, shapes * 2.0))


def _gamma(low: float, high: float) -> Gamma:
    if high <= 0.0:
        raise UnsupportedQuery(
            "A gamma distribution needs values above 0, and this column's bounds allow none. "
            "Choose another family or column."
        )
    return Gamma(Scaled(max(low, 0.0), high), low if low > 0.0 else high * MIN_FRACTION)


def _beta(low: float, high: float) -> Beta:
    if low < 0.0 or high > 1.0:
        raise UnsupportedQuery(
            "A beta distribution needs values from 0 to 1. Pass `within=(0, 1)`, or declare these "
            "bounds."
        )
    return Beta()


def _positive(
    kind: type[Poisson] | type[ExponentialDistribution], low: float, high: float
) -> Family:
    if high <= 0.0:
        raise UnsupportedQuery(
            "This family needs values above 0, and this column's bounds allow none. Choose another "
            "family or column."
        )
    return kind(Scaled(max(low, 0.0), high))


def make_family(name: str, low: float, high: float) -> Family:
    """Return the family with this name, for values within the bounds."""
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
            raise UnsupportedQuery(f"Unknown family {name!r}. Choose one of {FAMILY_NAMES}.")


KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "normal": "mean, stddev",
        "poisson": "rate",
        "exponential": "rate",
        "gamma": "shape, scale",
        "beta": "a, b",
        "bernoulli": "p",
        "categorical": "one probability per value",
        "multivariate-normal": "means and covariances",
    }
)
FAMILIES: Final = tuple(KINDS)
FAMILY_NAMES: Final = ", ".join(FAMILIES)
