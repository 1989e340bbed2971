"""Logistic and Poisson regression: Newton's steps on noisy sums.

A step needs two sums over the rows: the slope of the log-likelihood and its curvature, both at
the coefficients that the step before gave. The engine adds them up with noise; nobody sees a row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from scipy import special

from confide.errors import UnsupportedQuery
from confide.ledger import Hold
from confide.loss import Share
from confide.plan import Plan
from confide.query import Query, Term, canonical
from confide.query.terms import Constant
from confide.statistics.columns import plan_sums
from confide.statistics.estimate import Estimate, make_estimate
from confide.statistics.formula import Design
from confide.statistics.linear import Moments
from confide.statistics.reading import (
    Asked,
    Floats,
    pay,
    read_sums,
    release_totals,
    split_share,
    total_variances,
)
from confide.statistics.replicas import POINTS, root_of, spread_normals

__all__ = ["fit_generalised"]

PARTS: Final = (Fraction(15, 100), Fraction(10, 100), Fraction(30, 100), Fraction(45, 100))
"""How the cost is shared out: the start, a slope, a slope with curvature, a last slope."""
CURVED: Final = 2
MOST_ROUNDS: Final = 20
LARGEST: Final = 20.0
LONGEST_STEP: Final = 4.0


@dataclass(frozen=True, slots=True)
class Link:
    """How the mean of the response follows from the linear part, and how much it then varies.

    ``scale`` is the largest mean; means and curvatures are divided by it, so that both lie in
    [0, 1]; ``steepness`` multiplies the curvature up to 1 where it is known to stay below.
    """

    scale: float
    steepness: float
    mean: Callable[[Floats], Floats]
    start: Callable[[float], float]
    mean_term: Callable[[Term], Term]
    weight_term: Callable[[Term], Term]
    weight: Callable[[Floats], Floats]


def _logistic() -> Link:
    return Link(
        scale=1.0,
        steepness=4.0,
        mean=special.expit,
        start=lambda mean: float(special.logit(np.clip(mean, 0.01, 0.99))),
        mean_term=lambda eta: (1.0 / (1.0 + (-eta).exp())).clip(0.0, 1.0),
        weight_term=lambda mean: mean * (1.0 - mean),
        weight=lambda mean: mean * (1.0 - mean),
    )


def _poisson(largest: float) -> Link:
    return Link(
        scale=largest,
        steepness=1.0,
        mean=lambda eta: np.minimum(np.exp(np.minimum(eta, 700.0)), largest) / largest,
        start=lambda mean: float(np.log(np.clip(mean, 1e-3, 1.0) * largest)),
        mean_term=lambda eta: (eta.exp() / largest).clip(0.0, 1.0),
        weight_term=lambda mean: mean,
        weight=lambda mean: mean,
    )


@dataclass(frozen=True, slots=True)
class Model:
    """A regression: its formula, its link, and the sums that each step asks for."""

    table: str
    design: Design
    link: Link

    @property
    def size(self) -> int:
        """How many coefficients there are in the scale of the sums, the constant among them."""
        return len(self.design.columns) + self.design.has_intercept

    def columns(self) -> list[Term]:
        """Return the scaled columns, the constant first if there is one."""
        moments = Moments(self.design)
        inner = zip(moments.scales, self.design.columns, strict=False)
        scaled = [scale.term(column.term) for scale, column in inner]
        return [Constant(1.0), *scaled] if self.design.has_intercept else scaled

    def response(self) -> Term:
        """Return the response, from 0 to 1."""
        return (self.design.response.term / self.link.scale).clip(0.0, 1.0)

    def start_query(self) -> list[Term]:
        """Return the sums of the response and of the products of columns."""
        columns, response = self.columns(), self.response()
        products = _products(columns, None)[self.design.has_intercept :]  # 1 * 1 is the count
        return [*(_bound(column * response) for column in columns), *products]

    def step_query(self, coefficients: Floats, *, curved: bool) -> list[Term]:
        """Return the sums of slope, and of curvature if ``curved``, at these coefficients."""
        columns = self.columns()
        parts = [
            column * float(weight) for column, weight in zip(columns, coefficients, strict=True)
        ]
        mean = self.link.mean_term(_add_up(parts))
        slope = [_bound(column * (self.response() - mean)) for column in columns]
        if not curved:
            return slope
        weight = (self.link.weight_term(mean) * self.link.steepness).clip(0.0, 1.0)
        return [*slope, *_products(columns, weight)]

    def read_matrix(self, products: Floats) -> Floats:
        """Return the sums of products as a symmetric matrix."""
        matrix = np.zeros((self.size, self.size))
        upper = np.triu_indices(self.size)
        matrix[upper] = products
        matrix.T[upper] = products
        return matrix


def _bound(term: Term) -> Term:
    return term.clip(-1.0, 1.0)


def _add_up(parts: list[Term]) -> Term:
    """Return a sum in which no piece lies deep."""
    while len(parts) > 1:
        pairs = [one + other for one, other in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(parts) - len(parts) % 2 :]
    return parts[0]


def _products(columns: list[Term], weight: Term | None) -> list[Term]:
    found = []
    for i in range(len(columns)):
        for j in range(i, len(columns)):
            both = columns[i] * columns[j]
            found.append(_bound(both if weight is None else both * weight))
    return found


def fit_generalised(asked: Asked, table: str, design: Design, family: str) -> Estimate:
    """Return the coefficients of a logistic or Poisson regression, with standard errors.

    Law:     four releases of sums within [-1, 1], each plus the plan's noise, and more where the
             noise is far below one row; between them Newton's steps, the last with 45 % of the
             cost for the slope alone.
    Claim:   costs what was granted; for many rows the error is that of the likeliest coefficients.
    Why:     each release is one of totals, chosen from what earlier ones showed, and their losses
             add up. Near the solution a step ends within curvature^-1 times the noise of its slope,
             which falls like 1 / n, and a square of the distance before, which the steps made
             small; the noise of the curvature only multiplies that distance.
    Source:  [LeC56] for one step from a near start; docs/proofs/statistics.md.
    Checked: tests/statistics/test_regression.py.
    """
    model = Model(table, design, _link(design, family))
    begin = model.start_query()
    start = asked.desk.read(plan_sums(table, design.names, begin, counted=design.has_intercept))

    def prepare(share: Share) -> tuple[Share, ...]:
        plan = asked.plan(start, split_share(share, PARTS)[0])
        shares = split_share(share, _parts(plan))
        curved = asked.desk.read(_question(model, np.ones(model.size), CURVED))
        asked.plan(curved, shares[CURVED])  # refused now, not after the charge
        return shares

    walked: list[_Walk] = []

    def release(shares: tuple[Share, ...], hold: Hold) -> dict[str, Any]:
        steps: list[list[list[int]]] = []
        walk = _Walk(asked, model, start, shares)
        for number in range(len(shares)):
            plan = walk.plan(number)
            steps.append(release_totals(asked.desk, plan, hold))
            walk.take(number, plan, steps[-1])
        walked.append(walk)
        return {"rounds": steps}

    terms = {"estimate": family, "formula": design.text, "query": canonical(start)}
    paid = pay(asked, terms, prepare, release, readings=MOST_ROUNDS)
    is_new = bool(walked) and not paid.reused
    walk = walked[-1] if is_new else _Walk(asked, model, start, paid.prepared)
    for number, steps in enumerate(() if is_new else paid.noisy["rounds"]):
        walk.take(number, walk.plan(number), steps)  # the way of a stored answer, once more
    title = f"{family} regression {design.text}"
    numbers, replicas = walk.unscale(walk.coefficients), walk.unscale(walk.replicas())
    return make_estimate(title, design.labels, numbers, replicas, paid, form="named")


def _parts(plan: Plan) -> tuple[Fraction, ...]:
    """Return the parts of the cost; where noise is far below one row, more steps pay.

    Each slope after the curvature brings the solution about half a decimal nearer.
    """
    deviation = float(np.sqrt(total_variances(plan)[-1])) / plan.totals[-1].per_row
    decimals = -np.log10(max(deviation, 1e-30))
    more = int(np.clip(2 * decimals, 0, MOST_ROUNDS - len(PARTS)))
    *first, last = PARTS
    return (*first, *[last / (2 * more)] * more, last / 2) if more else PARTS


def _link(design: Design, family: str) -> Link:
    response = design.response
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


def _question(model: Model, coefficients: Floats, number: int) -> Any:
    terms = model.step_query(coefficients, curved=number == CURVED)
    return plan_sums(model.table, model.design.names, terms, counted=False)


class _Walk:
    """The way from the start to the last coefficients, over released sums alone."""

    def __init__(self, asked: Asked, model: Model, start: Query, shares: tuple[Share, ...]) -> None:
        self.asked, self.model, self.start, self.shares = asked, model, start, shares
        self.coefficients: Floats = np.zeros(model.size)
        self.curvature: Floats = np.eye(model.size)
        self.noise: Floats = np.zeros((POINTS, model.size))

    def plan(self, number: int) -> Plan:
        """Return the plan of a round, at the coefficients reached so far."""
        query = self.start
        if number:
            query = self.asked.desk.read(_question(self.model, self.coefficients, number))
        return self.asked.plan(query, self.shares[number])

    def take(self, number: int, plan: Plan, steps: list[list[int]]) -> None:
        """Move on by what a round released."""
        sums = read_sums(plan, steps)
        size, values = self.model.size, sums.values[0]
        first = 1 if number == 0 and self.model.design.has_intercept else 0
        slope = values[first : first + size]
        if number in (0, CURVED):
            products = np.concatenate([values[:first], values[first + size :]])
            matrix = self.model.read_matrix(products)
            matrix = _lift(matrix, float(np.sqrt(size * sums.variance.max())))
            self.curvature = matrix / (self.model.link.steepness if number else 1.0)
        if number == 0:
            slope = self._begin(slope)
        step = np.linalg.solve(self.curvature, slope)
        step *= min(1.0, LONGEST_STEP / max(float(np.abs(step).max()), 1e-9))
        self.coefficients = np.clip(self.coefficients + step, -LARGEST, LARGEST)
        self.noise = sums.noise[:: max(1, len(sums.noise) // POINTS)][:POINTS, :size]

    def _begin(self, cross: Floats) -> Floats:
        """Return the slope where all rows have the same mean, with the curvature there."""
        constant, link = self.model.design.has_intercept, self.model.link
        products = self.curvature
        if constant:
            self.coefficients[0] = link.start(float(cross[0] / max(products[0, 0], 1.0)))
        even = float(link.mean(np.array(self.coefficients[0] if constant else 0.0)))
        self.curvature = products * max(float(link.weight(np.array(even))), 1e-3)
        return cross - even * products[0] if constant else cross

    def replicas(self) -> Floats:
        """Return what the coefficients could as well have been.

        Why: near the solution they vary by curvature^-1 times (noise + slope of a sample), and the
             slope of a sample has the curvature for its covariance, in the scale of the response.
        """
        scale = self.model.link.scale
        inverse: Floats = np.asarray(np.linalg.inv(self.curvature), dtype=np.float64)
        spread = spread_normals(self.model.size) @ root_of(inverse / scale).T
        moved: Floats = self.coefficients + spread + self.noise @ inverse.T
        return moved

    def unscale(self, scaled: Floats) -> Floats:
        """Return coefficients of the columns themselves."""
        moments = Moments(self.model.design)
        inner = moments.scales[:-1]
        halves = np.array([scale.half for scale in inner])
        if not self.model.design.has_intercept:
            return np.asarray(scaled / halves)
        slopes = scaled[..., 1:] / halves
        centres = np.array([scale.centre for scale in inner])
        first = scaled[..., :1] - (slopes * centres).sum(axis=-1, keepdims=True)
        return np.concatenate([first, slopes], axis=-1)


def _lift(matrix: Floats, floor: float) -> Floats:
    values, vectors = np.linalg.eigh(matrix)
    lifted: Floats = (vectors * np.maximum(values, floor)) @ vectors.T
    return lifted
