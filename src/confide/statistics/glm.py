"""Logistic and Poisson regression: the solver.

Four kinds of sums over the rows are enough: of responses, of products of columns, of means and
weights at coefficients near the solution, and of what these coefficients leave unexplained.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from confide.ledger import Hold
from confide.loss import Share
from confide.plan import Plan
from confide.query import Query, Term, canonical
from confide.statistics.estimate import (
    Estimate,
    EstimateContext,
    Floats,
    NoisySums,
    charge_and_release,
    make_estimate,
    read_sums,
    release_totals,
    split_share,
)
from confide.statistics.formula import Design, plan_sums
from confide.statistics.glm_model import (
    LARGEST,
    Model,
    NormalSurrogate,
    find_link,
    make_stand_in,
    shorten,
)
from confide.statistics.likelihood import fill_matrix, lift_matrix
from confide.statistics.replicas import root_of, spread_normals, thin

__all__ = ["MOST_ROUNDS", "GlmSolver", "SumRequest", "fit_generalised", "forecast"]

RESPONSE_PART: Final = Fraction(20, 100)
PRODUCT_PART: Final = Fraction(10, 100)
CURVED_PART: Final = Fraction(25, 100)
LAST_PART: Final = Fraction(45, 100)
MOST_ROUNDS: Final = 5
CLEAR: Final = 10.0
"""Rows in deviations of their noise: from ten times as many on, more rounds of curvature pay."""
CAUTION: Final = 4.0
"""Early steps are held back by as many deviations of their noise."""
LEAST: Final = 1e-9
FEW: Final = 5
DOUBT: Final = 0.1
"""The least that a replica's curvature is lifted to, as a part of what the estimate's is."""


@dataclass(frozen=True, slots=True)
class SumRequest:
    """Sums to release next, each of terms within [-1, 1], and their part of the cost."""

    terms: list[Term]
    part: Fraction
    counted: bool = False


@dataclass(frozen=True, slots=True)
class Curvature:
    """How fast the sums of means rise, as released, with points of its noise.

    ``floor`` is what noise alone hardly gives to an eigenvalue, ``tangent`` the curvature of the
    stand-in at the same coefficients.
    """

    released: Floats
    noise: Floats
    floor: float
    tangent: Floats

    @property
    def lifted(self) -> Floats:
        """The curvature without directions in which it may be noise alone."""
        return lift_matrix(self.released, self.floor)

    def replicate(self) -> Floats:
        """Return what the curvature could as well have been; where little is left, next to none."""
        return lift_matrix(self.released + self.noise, DOUBT * self.floor)


class GlmSolver:
    """A walk that `ask` tells the next release of, and that `take` moves on by it.

    It is the same whenever it is walked over the same sums, so a stored answer is walked anew.
    """

    def __init__(self, model: Model) -> None:
        size = model.size
        self.model = model
        self.taken, self.rounds = 0, 1
        self.coefficients: Floats = np.zeros(size)
        self.responses: Floats = np.zeros(size)
        self.deviation = 0.0
        self.stand_in = NormalSurrogate(model.link, 1.0, np.zeros(size), np.eye(size))
        self.curvature = Curvature(np.eye(size), np.zeros((1, size, size)), 0.0, np.eye(size))
        self.before: Floats = self.coefficients
        self.slope: Floats = np.zeros(size)
        self.noise: Floats = np.zeros((1, size))

    def ask(self) -> SumRequest | None:
        """Return the question of the next release, or None at the end."""
        match self.taken:
            case 0:
                return SumRequest(self.model.response_terms(), RESPONSE_PART)
            case 1:
                return SumRequest(self.model.product_terms(), PRODUCT_PART, counted=True)
            case number if number < 2 + self.rounds:
                terms = self.model.curved_terms(self.coefficients)
                return SumRequest(terms, CURVED_PART / self.rounds)
            case number if number == 2 + self.rounds:
                return SumRequest(self.model.residual_terms(self.coefficients), LAST_PART)
            case _:
                return None

    def take(self, sums: NoisySums) -> None:
        """Move on by what was released."""
        match self.taken:
            case 0:
                reach = self.model.link.response_reach
                self.responses = sums.values[0] * reach
                self.deviation = float(np.sqrt(sums.variance.max())) * reach
            case 1:
                self._begin(sums)
            case number if number < 2 + self.rounds:
                self._bend(sums)
            case _:
                self._end(sums)
        self.taken += 1

    def _begin(self, sums: NoisySums) -> None:
        """Start where normal columns would have the responses that were released."""
        constant, link = self.model.design.has_intercept, self.model.link
        deviation = float(np.sqrt(sums.variance.max()))
        products = fill_matrix(sums.values[0], len(self.model.design.columns) + 1)
        self.stand_in = make_stand_in(link, products, deviation, constant=constant)
        clear = self.stand_in.rows / max(deviation, 1e-300) / CLEAR
        self.rounds = 1 + int(np.clip(np.log10(max(clear, 1e-300)), 0, MOST_ROUNDS - 1))
        start = np.zeros(self.model.size)
        if constant:
            start[0] = link.start(self.responses[0] / self.stand_in.rows + link.middle)
        self.coefficients = self.stand_in.solve(self.responses, start, CAUTION * self.deviation)

    def _bend(self, sums: NoisySums) -> None:
        """Learn the curvature here, and move to where the means would add up to the responses."""
        size, reach = self.model.size, self.model.reach(self.coefficients)
        count = size * (size + 1) // 2
        deviations = np.sqrt(sums.variance)
        self.curvature = Curvature(
            released=fill_matrix(sums.values[0, :count], size) * reach.weight,
            noise=fill_matrix(self._thin(sums.reorder(1)[:, :count]), size) * reach.weight,
            floor=max(float(np.sqrt(size) * deviations[:count].max()) * reach.weight, LEAST),
            tangent=self.stand_in.add_up(self.coefficients)[1],
        )
        own = self.model.has_own_means
        means = self.curvature.released[0] if own else sums.values[0, count:] * reach.mean
        deviation = float(deviations.max()) * (reach.weight if own else reach.mean)
        missing, self.before = self.responses - means, self.coefficients
        self.coefficients = self._move(self.curvature.lifted, missing, CAUTION * deviation)

    def _end(self, sums: NoisySums) -> None:
        """Take the last step."""
        reach = self.model.reach(self.coefficients).residual
        self.before, self.slope = self.coefficients, sums.values[0] * reach
        self.noise = self._thin(sums.noise) * reach
        deviation = float(np.sqrt(sums.variance.max())) * reach
        self.coefficients = self._move(self.curvature.lifted, self.slope, deviation)

    def replicate(self) -> Floats:
        """Return what the coefficients could as well have been, once the walk is at its end.

        Why: what was released differs from the slope at the population's coefficients by noise,
             whose law is known, and by the sample, whose covariance is the curvature; and the
             curvature that was released differs by noise from that of the rows. Replicas of the
             last step move all three.
        """
        normals = spread_normals(self.model.size)[: len(self.noise)]
        sample = normals @ root_of(self.curvature.lifted).T
        return self._move(self.curvature.replicate(), self.slope + self.noise + sample, 0.0)

    def _thin(self, noise: Floats) -> Floats:
        """Return as many points of the noise as there are replicas: fewer of many coefficients."""
        thinned = thin(noise)
        return thinned if self.model.size <= FEW else thinned[::4]

    def _move(self, curvature: Floats, slope: Floats, ridge: float) -> Floats:
        """Return where the sums of means are larger by ``slope`` than before the step.

        Why: a straight step would be curvature^-1 times the slope. The stand-in tells how the way
             bends: the sums of its means change by as much as its own tangent has along the step.
        """
        ridges = ridge * np.eye(self.model.size)
        solved = np.linalg.solve(curvature + ridges, slope[..., None])[..., 0]
        straight: Floats = np.asarray(solved, dtype=np.float64)
        sums = self.stand_in.add_up(self.before)[0] + straight @ self.curvature.tangent
        start = np.clip(self.before + shorten(straight), -LARGEST, LARGEST)
        return self.stand_in.solve(sums, start)


def forecast(model: Model) -> list[SumRequest]:
    """Return the questions of a walk before it is known: the same terms with other numbers.

    The curvature has its least part, so that a plan too dear is refused before the charge.
    """
    ones = np.ones(model.size)
    return [
        SumRequest(model.response_terms(), RESPONSE_PART),
        SumRequest(model.product_terms(), PRODUCT_PART, counted=True),
        SumRequest(model.curved_terms(ones), CURVED_PART / MOST_ROUNDS),
        SumRequest(model.residual_terms(ones), LAST_PART),
    ]


Steps = list[list[int]]
MOST_READINGS: Final = MOST_ROUNDS + 3


def fit_generalised(asked: EstimateContext, table: str, design: Design, family: str) -> Estimate:
    """Return the coefficients of a logistic or Poisson regression, with standard errors.

    Law:     four releases of sums within [-1, 1], each plus the plan's noise, and more where there
             are many rows beside the noise; between them steps towards the solution, the last
             with 45 % of the cost.
    Claim:   costs what was granted; for many rows the error is that of the likeliest coefficients.
    Why:     each release is one of totals, chosen from what earlier ones showed, and their losses
             add up. Near the solution a step ends within curvature^-1 times the noise of its slope,
             which falls like 1 / n, and a square of the distance before, which the steps made
             small; the noise of the curvature only multiplies that distance.
    Source:  [LeC56] for one step from a near start; docs/proofs/statistics.md.
    Checked: tests/statistics/test_regression.py, tests/statistics/test_exactness.py.
    """
    model = Model(design, find_link(design.response, family))

    def read(question: SumRequest) -> Query:
        query = plan_sums(table, design.names, question.terms, counted=question.counted)
        return asked.planner.read(query)

    def plan(question: SumRequest, share: Share) -> Plan:
        return asked.plan(read(question), split_share(share, [question.part])[0])

    def prepare(share: Share) -> tuple[Share, Plan]:
        plans = [plan(question, share) for question in forecast(model)]  # refused before the charge
        return share, plans[0]

    def walk_over(share: Share, run: Callable[[Plan], Steps]) -> GlmSolver:
        walk = GlmSolver(model)
        while question := walk.ask():
            planned = plan(question, share)
            walk.take(read_sums(planned, run(planned)))
        return walk

    walks: list[GlmSolver] = []

    def release(prepared: tuple[Share, Plan], hold: Hold) -> dict[str, Any]:
        rounds: list[Steps] = []

        def run(planned: Plan) -> Steps:
            rounds.append(release_totals(asked.executor, planned, hold))
            return rounds[-1]

        walks.append(walk_over(prepared[0], run))
        return {"rounds": rounds}

    start = canonical(read(forecast(model)[0]))
    terms = {"estimate": family, "formula": design.text, "query": start}
    paid = charge_and_release(asked, terms, prepare, release, readings=MOST_READINGS)
    stored = iter(paid.noisy["rounds"])
    is_new = bool(walks) and not paid.reused
    walk = walks[-1] if is_new else walk_over(paid.prepared[0], lambda _: next(stored))
    title = f"{family} regression {design.text}"
    numbers, replicas = model.unscale(walk.coefficients), model.unscale(walk.replicate())
    return make_estimate(title, design.labels, numbers, replicas, paid, form="named")
