"""How the mean of a count or of a yes follows from the linear part of a regression."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import special

from confide.errors import UnsupportedQuery
from confide.query import Term
from confide.statistics.columns import Numbers
from confide.statistics.reading import Floats

__all__ = ["Link", "Reach", "find_link"]

Derivatives = tuple[Floats, Floats, Floats, Floats]
SMALLEST: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Reach:
    """The largest that mean, weight and residual of a row can be, given its linear part's range."""

    mean: float
    weight: float
    residual: float


@dataclass(frozen=True, slots=True)
class Link:
    """The mean of the response at each linear part, and its weight: how fast it rises.

    For both families the weight is also the variance of the response. ``middle`` is taken from
    response and mean before they are added up, ``largest`` is the largest response, and
    ``peak`` is where the weight is largest. ``derive`` gives the mean less ``middle`` and three
    derivatives.
    """

    middle: float
    largest: float
    peak: float
    is_own_weight: bool
    derive: Callable[[Floats], Derivatives]
    start: Callable[[float], float]
    mean_term: Callable[[Term], Term]
    weight_term: Callable[[Term], Term]

    @property
    def response_reach(self) -> float:
        """The largest that a response can differ from ``middle``."""
        return max(self.middle, self.largest - self.middle)

    def reach(self, low: float, high: float) -> Reach:
        """Return how large the parts of a row can be where the linear part is within bounds."""
        means = self.derive(np.array([low, high]))[0]
        weight = self.derive(np.clip(np.array(self.peak), low, high))[1]
        top = float(means[1]) + self.middle
        left = max(self.largest - float(means[0]) - self.middle, top)
        sizes = (float(np.abs(means).max()), float(weight), left)
        return Reach(*(max(size, SMALLEST * self.largest) for size in sizes))


def find_link(response: Numbers, family: str) -> Link:
    """Return the link of a family, or refuse a response that the family cannot explain."""
    if family == "logistic":
        if not response.is_binary:
            raise UnsupportedQuery(
                f"logistic regression explains a Bool or Int(0, 1) column; {response.name!r} is "
                "neither"
            )
        return _logistic()
    if response.low < 0.0 or response.high <= 0.0:
        raise UnsupportedQuery(
            f"Poisson regression explains counts from 0 up; {response.name!r} may be below 0"
        )
    return _poisson(response.high)


def _logistic() -> Link:
    def derive(linear: Floats) -> Derivatives:
        mean = special.expit(linear)
        weight = mean * (1.0 - mean)
        return mean - 0.5, weight, weight * (1.0 - 2.0 * mean), weight * (1.0 - 6.0 * weight)

    return Link(
        middle=0.5,
        largest=1.0,
        peak=0.0,
        is_own_weight=False,
        derive=derive,
        start=lambda mean: float(special.logit(np.clip(mean, 0.01, 0.99))),
        mean_term=lambda linear: (1.0 / (1.0 + (-linear).exp())).clip(0.0, 1.0),
        weight_term=lambda mean: mean * (1.0 - mean),
    )


def _poisson(largest: float) -> Link:
    """Return the link of counts up to ``largest``, which no mean passes either."""
    top = float(np.log(largest))

    def derive(linear: Floats) -> Derivatives:
        mean = np.exp(np.minimum(linear, top))
        return mean, mean, mean, mean

    return Link(
        middle=0.0,
        largest=largest,
        peak=np.inf,
        is_own_weight=True,
        derive=derive,
        start=lambda mean: float(np.log(np.clip(mean, 1e-3 * largest, largest))),
        mean_term=lambda linear: linear.exp().clip(0.0, largest),
        weight_term=lambda mean: mean,
    )
