"""The solver for logistic and Poisson regression.

It releases four kinds of sums over the rows, one after the other:

1. columns times responses,
2. products of two columns,
3. columns times means, and products of two columns times weights, at up to five points,
4. columns times residuals, at the point that the third kind leads to.

A point is a vector of coefficients, and each one is closer to the solution. `Link` and `Model`
define means, weights, and residuals.
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
    MAX_COEFFICIENT,
    Model,
    NormalSurrogate,
    find_link,
    make_surrogate,
    shorten,
)
from confide.statistics.likelihood import fill_matrix, lift_matrix
from confide.statistics.replicas import root_of, spread_normals, thin

__all__ = ["MAX_ROUNDS", "GlmSolver", "SumRequest", "fit_generalised", "forecast"]

RESPONSE_PART: Final = Fraction(20, 100)
PRODUCT_PART: Final = Fraction(10, 100)
CURVATURE_PART: Final = Fraction(25, 100)
RESIDUAL_PART: Final = Fraction(45, 100)
"""Fractions of the cost for the four kinds of sums."""
MAX_ROUNDS: Final = 5
"""Maximum number of releases of the third kind of sums."""
CLEAR_SIGNAL_RATIO: Final = 10.0
"""The number of rounds is 1 up to 10 times this many rows per standard deviation of noise.

Each further factor of 10 adds a round.
"""
STEP_LIMIT_DEVIATIONS: Final = 4.0
"""Ridge penalty of all steps but the last, in standard deviations of the noise."""
MIN_EIGENVALUE: Final = 1e-9
SMALL_MODEL_SIZE: Final = 5
MIN_CURVATURE_FRACTION: Final = 0.1
"""Lower limit of the eigenvalues of a replica's curvature, relative to ``floor``."""


@dataclass(frozen=True, slots=True)
class SumRequest:
    """The sums to release next, of terms within [-1, 1], and their fraction ``part`` of the cost.

    If ``counted``, the number of rows is released with them.
    """

    terms: list[Term]
    part: Fraction
    counted: bool = False


@dataclass(frozen=True, slots=True)
class Curvature:
    """The released curvature, with a sample of its noise.

    The curvature is the matrix of sums of products of two columns times weights. It is the
    derivative of the sums of columns times means by the coefficients. Noise alone rarely gives an
    eigenvalue above ``floor``. ``tangent`` is the curvature of the normal surrogate at the same
    coefficients.
    """

    released: Floats
    noise: Floats
    floor: float
    tangent: Floats

    @property
    def lifted(self) -> Floats:
        """The curvature, with eigenvalues below the floor, which may be noise, raised to it."""
        return lift_matrix(self.released, self.floor)

    def replicate(self) -> Floats:
        """Return replicas of the curvature, with a much lower floor for their eigenvalues."""
        return lift_matrix(self.released + self.noise, MIN_CURVATURE_FRACTION * self.floor)


class GlmSolver:
    """An iterative solver: `ask` returns the next request, and `take` uses the released sums.

    It is deterministic, so the estimate of a stored answer is recomputed from its stored sums.
    ``coefficients`` belong to the scaled columns. ``previous`` are the coefficients before the last
    step.
    """

    def __init__(self, model: Model) -> None:
        size = model.size
        self.model = model
        self.release_count, self.rounds = 0, 1
        self.coefficients: Floats = np.zeros(size)
        self.responses: Floats = np.zeros(size)
        self.deviation = 0.0
        self.surrogate = NormalSurrogate(model.link, 1.0, np.zeros(size), np.eye(size))
        self.curvature = Curvature(np.eye(size), np.zeros((1, size, size)), 0.0, np.eye(size))
        self.previous: Floats = self.coefficients
        self.slope: Floats = np.zeros(size)
        self.noise: Floats = np.zeros((1, size))

    def ask(self) -> SumRequest | None:
        """Return the request for the next release, or None at the end."""
        match self.release_count:
            case 0:
                return SumRequest(self.model.response_terms(), RESPONSE_PART)
            case 1:
                return SumRequest(self.model.product_terms(), PRODUCT_PART, counted=True)
            case number if number < 2 + self.rounds:
                terms = self.model.curved_terms(self.coefficients)
                return SumRequest(terms, CURVATURE_PART / self.rounds)
            case number if number == 2 + self.rounds:
                return SumRequest(self.model.residual_terms(self.coefficients), RESIDUAL_PART)
            case _:
                return None

    def take(self, sums: NoisySums) -> None:
        """Update the coefficients with the released sums."""
        match self.release_count:
            case 0:
                largest = self.model.link.max_response
                self.responses = sums.values[0] * largest
                self.deviation = float(np.sqrt(sums.variance.max())) * largest
            case 1:
                self._start(sums)
            case number if number < 2 + self.rounds:
                self._step_by_means(sums)
            case _:
                self._step_by_residuals(sums)
        self.release_count += 1

    def _start(self, sums: NoisySums) -> None:
        """Set the surrogate, the number of rounds, and the first coefficients.

        With these, the surrogate expects the released sums of responses, up to a ridge penalty.
        """
        constant, link = self.model.design.has_intercept, self.model.link
        deviation = float(np.sqrt(sums.variance.max()))
        products = fill_matrix(sums.values[0], len(self.model.design.columns) + 1)
        self.surrogate = make_surrogate(link, products, deviation, constant=constant)
        clear = self.surrogate.rows / max(deviation, 1e-300) / CLEAR_SIGNAL_RATIO
        self.rounds = 1 + int(np.clip(np.log10(max(clear, 1e-300)), 0, MAX_ROUNDS - 1))
        start = np.zeros(self.model.size)
        if constant:
            start[0] = link.start(self.responses[0] / self.surrogate.rows + link.middle)
        self.coefficients = self.surrogate.solve(
            self.responses, start, STEP_LIMIT_DEVIATIONS * self.deviation
        )

    def _step_by_means(self, sums: NoisySums) -> None:
        """Set the curvature, and step to where means should have the same sums as responses."""
        size, bounds = self.model.size, self.model.bounds(self.coefficients)
        count = size * (size + 1) // 2
        deviations = np.sqrt(sums.variance)
        self.curvature = Curvature(
            released=fill_matrix(sums.values[0, :count], size) * bounds.weight,
            noise=fill_matrix(self._thin(sums.reorder(1)[:, :count]), size) * bounds.weight,
            floor=max(
                float(np.sqrt(size) * deviations[:count].max()) * bounds.weight, MIN_EIGENVALUE
            ),
            tangent=self.surrogate.expected_sums(self.coefficients)[1],
        )
        own = self.model.has_own_means
        means = self.curvature.released[0] if own else sums.values[0, count:] * bounds.mean
        deviation = float(deviations.max()) * (bounds.weight if own else bounds.mean)
        missing, self.previous = self.responses - means, self.coefficients
        self.coefficients = self._move(
            self.curvature.lifted, missing, STEP_LIMIT_DEVIATIONS * deviation
        )

    def _step_by_residuals(self, sums: NoisySums) -> None:
        """Take the last step, which should make the sums of columns times residuals zero."""
        largest = self.model.bounds(self.coefficients).residual
        self.previous, self.slope = self.coefficients, sums.values[0] * largest
        self.noise = self._thin(sums.noise) * largest
        deviation = float(np.sqrt(sums.variance.max())) * largest
        self.coefficients = self._move(self.curvature.lifted, self.slope, deviation)

    def replicate(self) -> Floats:
        """Return replicas of the coefficients, after the last step.

        Why: the slope is the sum of columns times residuals. The released slope differs from the
             one expected at the population's coefficients by noise with a known distribution, and
             by a sampling error, whose covariance is the curvature. The released curvature differs
             from the curvature of the rows by noise. Replicas of the last step vary all three.
        """
        normals = spread_normals(self.model.size)[: len(self.noise)]
        sample = normals @ root_of(self.curvature.lifted).T
        return self._move(self.curvature.replicate(), self.slope + self.noise + sample, 0.0)

    def _thin(self, noise: Floats) -> Floats:
        """Return the points of the noise, one per replica; large models have fewer replicas."""
        thinned = thin(noise)
        return thinned if self.model.size <= SMALL_MODEL_SIZE else thinned[::4]

    def _move(self, curvature: Floats, slope: Floats, ridge: float) -> Floats:
        """Return coefficients at which sums of columns times means should be larger by ``slope``.

        ``ridge`` is a penalty that shortens the step.

        Why: a Newton step from the previous coefficients is curvature^-1 times the slope. It treats
             the sums as linear, and the surrogate corrects that: the result is where the
             surrogate's sums have changed by the surrogate's curvature times the Newton step.
        """
        ridges = ridge * np.eye(self.model.size)
        solved = np.linalg.solve(curvature + ridges, slope[..., None])[..., 0]
        straight: Floats = np.asarray(solved, dtype=np.float64)
        sums = self.surrogate.expected_sums(self.previous)[0] + straight @ self.curvature.tangent
        start = np.clip(self.previous + shorten(straight), -MAX_COEFFICIENT, MAX_COEFFICIENT)
        return self.surrogate.solve(sums, start)


def forecast(model: Model) -> list[SumRequest]:
    """Return requests like those of a solver, before any coefficients are known.

    There is one request of each kind; its terms differ only in their coefficients. The curvature
    gets the smallest fraction of the cost that it can have, so that a cost that is too small is
    refused before the charge.
    """
    ones = np.ones(model.size)
    return [
        SumRequest(model.response_terms(), RESPONSE_PART),
        SumRequest(model.product_terms(), PRODUCT_PART, counted=True),
        SumRequest(model.curved_terms(ones), CURVATURE_PART / MAX_ROUNDS),
        SumRequest(model.residual_terms(ones), RESIDUAL_PART),
    ]


Steps = list[list[int]]
MAX_READINGS: Final = MAX_ROUNDS + 3


def fit_generalised(context: EstimateContext, table: str, design: Design, family: str) -> Estimate:
    """Return the coefficients of a logistic or Poisson regression, with standard errors.

    Law:     at least four releases of sums of terms within [-1, 1], each plus the plan's noise, and
             more if there are many rows relative to the noise. The first two give the start, and
             each later one a step towards the solution; the last takes 45% of the cost.
    Claim:   costs the granted share. For many rows the error is that of maximum likelihood.
    Why:     each release consists of totals of terms that depend only on earlier releases, and the
             losses of the releases add up. Near the solution, the error after a step has two parts.
             One is curvature^-1 times the noise of the step's slope, which decreases like 1 / n for
             n rows. The other is about the square of the distance from the solution before the
             step, which earlier steps made small. Noise in the curvature adds an error in
             proportion to that distance.
    Source:  [LeC56] for one step from a close start; docs/proofs/statistics.md.
    Checked: tests/statistics/test_regression.py, tests/statistics/test_exactness.py.
    """
    model = Model(design, find_link(design.response, family))

    def read(request: SumRequest) -> Query:
        query = plan_sums(table, design.names, request.terms, counted=request.counted)
        return context.planner.read(query)

    def plan(request: SumRequest, share: Share) -> Plan:
        return context.plan(read(request), split_share(share, [request.part])[0])

    def prepare(share: Share) -> tuple[Share, Plan]:
        plans = [plan(request, share) for request in forecast(model)]  # refuses before the charge
        return share, plans[0]

    def solve(share: Share, run: Callable[[Plan], Steps]) -> GlmSolver:
        solver = GlmSolver(model)
        while request := solver.ask():
            planned = plan(request, share)
            solver.take(read_sums(planned, run(planned)))
        return solver

    solvers: list[GlmSolver] = []

    def release(prepared: tuple[Share, Plan], hold: Hold) -> dict[str, Any]:
        rounds: list[Steps] = []

        def run(planned: Plan) -> Steps:
            rounds.append(release_totals(context.executor, planned, hold))
            return rounds[-1]

        solvers.append(solve(prepared[0], run))
        return {"rounds": rounds}

    start = canonical(read(forecast(model)[0]))
    terms = {"estimate": family, "formula": design.text, "query": start}
    charged = charge_and_release(context, terms, prepare, release, readings=MAX_READINGS)
    stored = iter(charged.noisy["rounds"])
    is_new = bool(solvers) and not charged.reused
    solver = solvers[-1] if is_new else solve(charged.prepared[0], lambda _: next(stored))
    title = f"{family} regression {design.text}"
    numbers, replicas = model.unscale(solver.coefficients), model.unscale(solver.replicate())
    return make_estimate(title, design.labels, numbers, replicas, charged, form="named")
