"""The model of a logistic or Poisson regression: which terms of a row are added up."""

from dataclasses import dataclass

import numpy as np

from confide.expressions.terms import Constant
from confide.query import Term
from confide.statistics.formula import Design
from confide.statistics.linear import Moments
from confide.statistics.links import Link, Reach
from confide.statistics.reading import Floats

__all__ = ["Model"]


@dataclass(frozen=True, slots=True)
class Model:
    """A regression: its formula, its link, and the terms that are added up."""

    design: Design
    link: Link

    @property
    def size(self) -> int:
        """How many coefficients there are, the constant among them."""
        return len(self.design.columns) + self.design.has_intercept

    @property
    def has_own_means(self) -> bool:
        """Whether the sums of weights times the constant are those of means."""
        return self.link.is_own_weight and self.design.has_intercept

    def reach(self, coefficients: Floats) -> Reach:
        """Return the largest that parts of a row can be, whatever its columns are."""
        free = np.abs(coefficients[1:] if self.design.has_intercept else coefficients).sum()
        fixed = coefficients[0] if self.design.has_intercept else 0.0
        return self.link.reach(float(fixed - free), float(fixed + free))

    def columns(self) -> list[Term]:
        """Return the columns within [-1, 1], the constant first if there is one."""
        scaled = self._scaled()
        return [Constant(1.0), *scaled] if self.design.has_intercept else scaled

    def _scaled(self) -> list[Term]:
        scales = Moments(self.design).scales
        pairs = zip(scales, self.design.columns, strict=False)
        return [scale.term(column.term) for scale, column in pairs]

    def response_terms(self) -> list[Term]:
        """Return columns times what the response differs from the middle."""
        part = (self._response() - self.link.middle) / self.link.response_reach
        return [_bound(column * part) for column in self.columns()]

    def product_terms(self) -> list[Term]:
        """Return products of columns, a constant among them; its square is the count."""
        return _multiply([Constant(1.0), *self._scaled()], None)[1:]

    def curved_terms(self, coefficients: Floats) -> list[Term]:
        """Return products of columns times weights, and columns times means if they are others.

        Columns and mean are made once, so that an engine need not compute them for each product.
        """
        reach, columns = self.reach(coefficients), self.columns()
        mean = self._mean(columns, coefficients)
        products = _multiply(columns, self.link.weight_term(mean) / reach.weight)
        if self.has_own_means:
            return products
        part = (mean - self.link.middle) / reach.mean
        return [*products, *(_bound(column * part) for column in columns)]

    def residual_terms(self, coefficients: Floats) -> list[Term]:
        """Return columns times what the mean leaves of the response."""
        reach, columns = self.reach(coefficients).residual, self.columns()
        part = (self._response() - self._mean(columns, coefficients)) / reach
        return [_bound(column * part) for column in columns]

    def _response(self) -> Term:
        return self.design.response.term.clip(0.0, self.link.largest)

    def _mean(self, columns: list[Term], coefficients: Floats) -> Term:
        pairs = zip(columns, coefficients, strict=True)
        return self.link.mean_term(_add_up([column * float(weight) for column, weight in pairs]))

    def unscale(self, scaled: Floats) -> Floats:
        """Return coefficients of the columns themselves."""
        inner = Moments(self.design).scales[:-1]
        halves = np.array([scale.half for scale in inner])
        if not self.design.has_intercept:
            return np.asarray(scaled / halves)
        slopes = scaled[..., 1:] / halves
        centres = np.array([scale.centre for scale in inner])
        first = scaled[..., :1] - (slopes * centres).sum(axis=-1, keepdims=True)
        return np.concatenate([first, slopes], axis=-1)


def _bound(term: Term) -> Term:
    return term.clip(-1.0, 1.0)


def _add_up(parts: list[Term]) -> Term:
    """Return a sum in which no piece lies deep."""
    while len(parts) > 1:
        pairs = [one + other for one, other in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(parts) - len(parts) % 2 :]
    return parts[0]


def _multiply(columns: list[Term], weight: Term | None) -> list[Term]:
    found = []
    for i in range(len(columns)):
        for j in range(i, len(columns)):
            both = columns[i] * columns[j]
            found.append(_bound(both if weight is None else both * weight))
    return found
