"""Links, model terms, and the normal surrogate of logistic and Poisson regression.

The solver in `glm` uses all three. It releases noisy sums over the rows only for a few vectors of
coefficients. For coefficients near these, it predicts the sums by the formulas for jointly normal
columns: the normal surrogate.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from confide.errors import UnsupportedQuery
from confide.expressions.terms import Constant
from confide.lazy import lazy_module
from confide.query import Term
from confide.statistics.estimate import Floats
from confide.statistics.formula import Design, Numbers
from confide.statistics.likelihood import lift_matrix
from confide.statistics.linear import Moments

if TYPE_CHECKING:
    from scipy import special
else:
    special = lazy_module("scipy.special")

__all__ = [
    "MAX_COEFFICIENT",
    "Link",
    "LinkBounds",
    "Model",
    "NormalSurrogate",
    "find_link",
    "make_surrogate",
    "shorten",
]

Derivatives = tuple[Floats, Floats, Floats, Floats]
MIN_BOUND: Final = 1e-9


@dataclass(frozen=True, slots=True)
class LinkBounds:
    """Upper bounds on |mean - middle|, the weight, and |residual| of a row.

    They hold for every row whose linear predictor lies in a given range. `Link` defines the terms.
    """

    mean: float
    weight: float
    residual: float


@dataclass(frozen=True, slots=True)
class Link:
    """The mean of the response as a function of the linear predictor, and its derivatives.

    The weight is the first derivative; for both families it is also the variance of the response.
    With ``is_own_weight``, the weight equals the mean. ``middle`` is subtracted from responses and
    means before they are summed. ``largest`` is the largest response. ``peak`` is the linear
    predictor at which the weight is largest.

    ``derive`` maps linear predictors to means minus ``middle`` and their first three derivatives.
    ``start`` returns the linear predictor for a mean. ``mean_term`` returns the term of a row's
    mean, given the term of its linear predictor. ``weight_term`` returns the term of a row's
    weight, given the term of its mean.
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
    def max_response(self) -> float:
        """The largest difference between a response and ``middle``."""
        return max(self.middle, self.largest - self.middle)

    def bounds(self, low: float, high: float) -> LinkBounds:
        """Return the bounds for rows whose linear predictor lies between ``low`` and ``high``."""
        means = self.derive(np.array([low, high]))[0]
        weight = self.derive(np.clip(np.array(self.peak), low, high))[1]
        top = float(means[1]) + self.middle
        residual = max(self.largest - float(means[0]) - self.middle, top)
        sizes = (float(np.abs(means).max()), float(weight), residual)
        return LinkBounds(*(max(size, MIN_BOUND * self.largest) for size in sizes))


def find_link(response: Numbers, family: str) -> Link:
    """Return the link of a family; raise `UnsupportedQuery` if the response does not suit it."""
    if family == "logistic":
        if not response.is_binary:
            raise UnsupportedQuery(
                "Logistic regression needs a response that is declared as Bool or Int(0, 1), and "
                f"{response.name!r} is neither. Choose another response or family."
            )
        return _logistic()
    if response.low < 0.0 or response.high <= 0.0:
        raise UnsupportedQuery(
            "Poisson regression needs a response that is at least 0, with an upper bound above 0. "
            f"Declare such bounds for {response.name!r}, or choose another family."
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
    """Return the link for counts up to ``largest``, with means capped at ``largest``.

    Above the cap, the derivatives returned are ``largest`` too, instead of 0.
    """
    log_largest = float(np.log(largest))

    def derive(linear: Floats) -> Derivatives:
        mean = np.exp(np.minimum(linear, log_largest))
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


@dataclass(frozen=True, slots=True)
class Model:
    """A logistic or Poisson regression: its formula, its link, and the terms to sum.

    All terms lie within [-1, 1]. Coefficients belong to the scaled columns, and the first to the
    constant if there is one.
    """

    design: Design
    link: Link

    @property
    def size(self) -> int:
        """The number of coefficients, including the constant."""
        return len(self.design.columns) + self.design.has_intercept

    @property
    def has_own_means(self) -> bool:
        """Whether every sum of column x mean is also a sum of column x column x weight.

        This holds if the weight equals the mean and there is a constant: the product of the
        constant and a column is the column.
        """
        return self.link.is_own_weight and self.design.has_intercept

    def bounds(self, coefficients: Floats) -> LinkBounds:
        """Return the bounds for any row, at these coefficients."""
        radius = np.abs(coefficients[1:] if self.design.has_intercept else coefficients).sum()
        center = coefficients[0] if self.design.has_intercept else 0.0
        return self.link.bounds(float(center - radius), float(center + radius))

    def columns(self) -> list[Term]:
        """Return the columns scaled to [-1, 1], with the constant first if there is one."""
        scaled = self._scaled()
        return [Constant(1.0), *scaled] if self.design.has_intercept else scaled

    def _scaled(self) -> list[Term]:
        scales = Moments(self.design).scales
        pairs = zip(scales, self.design.columns, strict=False)
        return [scale.term(column.term) for scale, column in pairs]

    def response_terms(self) -> list[Term]:
        """Return each column times (response - ``middle``), scaled to [-1, 1]."""
        part = (self._response() - self.link.middle) / self.link.max_response
        return [_bound(column * part) for column in self.columns()]

    def product_terms(self) -> list[Term]:
        """Return the products of all pairs of columns and all squares of columns.

        A constant is included, even if the formula has none. Its square is left out, because the
        sum of its square is the count.
        """
        return _multiply([Constant(1.0), *self._scaled()], None)[1:]

    def curved_terms(self, coefficients: Floats) -> list[Term]:
        """Return each product of two columns times the weight, then each column times the mean.

        The weight and the mean (minus `Link.middle`) are divided by their bounds. If
        `has_own_means`, the terms with the mean are left out. The columns and the mean are shared
        terms, so an engine need not recompute them for every product.
        """
        bounds, columns = self.bounds(coefficients), self.columns()
        mean = self._mean(columns, coefficients)
        products = _multiply(columns, self.link.weight_term(mean) / bounds.weight)
        if self.has_own_means:
            return products
        part = (mean - self.link.middle) / bounds.mean
        return [*products, *(_bound(column * part) for column in columns)]

    def residual_terms(self, coefficients: Floats) -> list[Term]:
        """Return each column times the residual, divided by the bound on residuals.

        A residual is the response minus its mean at these coefficients.
        """
        largest, columns = self.bounds(coefficients).residual, self.columns()
        part = (self._response() - self._mean(columns, coefficients)) / largest
        return [_bound(column * part) for column in columns]

    def _response(self) -> Term:
        return self.design.response.term.clip(0.0, self.link.largest)

    def _mean(self, columns: list[Term], coefficients: Floats) -> Term:
        pairs = zip(columns, coefficients, strict=True)
        return self.link.mean_term(
            _balanced_sum([column * float(coefficient) for column, coefficient in pairs])
        )

    def unscale(self, scaled: Floats) -> Floats:
        """Return the coefficients of the unscaled columns from those of the scaled ones."""
        inner = Moments(self.design).scales[:-1]
        halves = np.array([scale.half for scale in inner])
        if not self.design.has_intercept:
            return np.asarray(scaled / halves)
        slopes = scaled[..., 1:] / halves
        centers = np.array([scale.center for scale in inner])
        first = scaled[..., :1] - (slopes * centers).sum(axis=-1, keepdims=True)
        return np.concatenate([first, slopes], axis=-1)


def _bound(term: Term) -> Term:
    return term.clip(-1.0, 1.0)


def _balanced_sum(parts: list[Term]) -> Term:
    """Return a sum as a balanced tree, which limits the nesting depth."""
    while len(parts) > 1:
        pairs = [one + other for one, other in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(parts) - len(parts) % 2 :]
    return parts[0]


def _multiply(columns: list[Term], weight: Term | None) -> list[Term]:
    """Return the product of each pair of columns, and of ``weight`` if any, clipped to [-1, 1].

    A column and itself are also a pair.
    """
    found = []
    for i in range(len(columns)):
        for j in range(i, len(columns)):
            both = columns[i] * columns[j]
            found.append(_bound(both if weight is None else both * weight))
    return found


MAX_COEFFICIENT: Final = 20.0
"""The largest absolute value allowed for a coefficient of a scaled column."""
MAX_NEWTON_STEPS: Final = 20
TOLERANCE: Final = 1e-9
MIN_VARIANCE: Final = 1e-6
NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
WEIGHTS: Final = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True, slots=True)
class NormalSurrogate:
    """Imaginary rows with jointly normal columns.

    They are given by their number ``rows``, and by the columns' means and covariances. The constant
    has mean 1 and covariances 0.
    """

    link: Link
    rows: float
    means: Floats
    covariance: Floats

    def expected_sums(self, coefficients: Floats) -> tuple[Floats, Floats]:
        """Return the expected sums of columns times mean responses, and their derivatives.

        `Link.middle` is subtracted from the mean responses. The derivatives are by the
        coefficients: one matrix for each row of ``coefficients``.

        Why:     let x be a row of columns, normal with mean m and covariance C. Let b be the
                 coefficients, L = x b the linear predictor, and g(L) the mean of the response.
                 Stein's identity E x g(L) = m E g(L) + C b E g'(L) gives the sums, and a second
                 application gives their derivatives. L is normal, so expectations over it are
                 approximated by Gauss-Hermite quadrature at 15 nodes.
        Source:  [Ste81]; [Bri83] uses it for regressions.
        Checked: tests/statistics/test_normal_surrogate.py.
        """
        slopes = coefficients @ self.covariance
        deviation = np.sqrt(np.maximum((slopes * coefficients).sum(axis=-1), 0.0))
        linear = (coefficients @ self.means)[..., None] + deviation[..., None] * NODES
        mean, first, second, third = (
            (part @ WEIGHTS)[..., None] for part in self.link.derive(linear)
        )
        sums = self.means * mean + slopes * first
        means = np.broadcast_to(self.means, slopes.shape)
        curved = (
            _outer(means, means * first + slopes * second)
            + _outer(slopes, means * second + slopes * third)
            + self.covariance * first[..., None]
        )
        return self.rows * sums, self.rows * curved

    def solve(self, sums: Floats, start: Floats, ridge: float = 0.0) -> Floats:
        """Return coefficients for which `expected_sums` returns nearly these sums.

        A ``ridge`` penalty pulls the coefficients toward ``start``. The method takes Newton steps
        that change each coefficient by at most 1, and keeps coefficients within `MAX_COEFFICIENT`.
        It stops after 20 steps, even if the sums are not reached.
        """
        found, goal = np.atleast_2d(start).copy(), np.atleast_2d(sums)
        ridges = (ridge + 1e-12 * self.rows) * np.eye(len(self.means))
        active = np.arange(len(found))
        for _ in range(MAX_NEWTON_STEPS):
            old = found[active]
            current, curved = self.expected_sums(old)
            missing = goal[active] - current - ridge * (old - np.atleast_2d(start)[active])
            solved = np.linalg.solve(curved + ridges, missing[..., None])[..., 0]
            step: Floats = np.asarray(solved, dtype=np.float64)
            found[active] = np.clip(old + shorten(step), -MAX_COEFFICIENT, MAX_COEFFICIENT)
            active = active[np.abs(found[active] - old).max(axis=-1) > TOLERANCE]
            if not len(active):
                break
        return found.reshape(start.shape)


def _outer(one: Floats, other: Floats) -> Floats:
    product: Floats = one[..., :, None] * other[..., None, :]
    return product


def shorten(step: Floats) -> Floats:
    """Return a step in the same direction that changes every coefficient by at most 1."""
    longest = np.abs(step).max(axis=-1, keepdims=True)
    shorter: Floats = step * np.minimum(1.0, 1.0 / np.maximum(longest, TOLERANCE))
    return shorter


def make_surrogate(
    link: Link, products: Floats, deviation: float, *, constant: bool
) -> NormalSurrogate:
    """Return the surrogate for columns whose products have these noisy sums.

    ``products`` is the matrix of the sums; its first row and column belong to the constant.
    ``deviation`` is the standard deviation of their noise. Eigenvalues of ``products`` that are
    smaller are raised to it. Eigenvalues of the covariance matrix are raised to ``deviation``
    divided by the number of rows, or to `MIN_VARIANCE` if that is larger. If ``constant``, the
    surrogate's columns include the constant.
    """
    lifted = lift_matrix(products, deviation)
    rows = max(float(lifted[0, 0]), 1.0)
    means = lifted[0, 1:] / rows
    floor = max(deviation / rows, MIN_VARIANCE)
    inner = lift_matrix(lifted[1:, 1:] / rows - _outer(means, means), floor)
    if not constant:
        return NormalSurrogate(link, rows, means, inner)
    covariance = np.zeros_like(products)
    covariance[1:, 1:] = inner
    return NormalSurrogate(link, rows, np.concatenate([[1.0], means]), covariance)
