"""Logistic and Poisson regression: the engine adds up noisy sums, and nobody sees a row."""

from collections.abc import Callable
from typing import Any, Final

from confide.ledger import Hold
from confide.loss import Share
from confide.plan import Plan
from confide.query import Query, canonical
from confide.statistics.columns import plan_sums
from confide.statistics.estimate import Estimate, make_estimate
from confide.statistics.formula import Design
from confide.statistics.links import find_link
from confide.statistics.model import Model
from confide.statistics.reading import Asked, pay, read_sums, release_totals, split_share
from confide.statistics.walk import MOST_ROUNDS, Question, Walk, foresee

__all__ = ["fit_generalised"]

Steps = list[list[int]]
MOST_READINGS: Final = MOST_ROUNDS + 3


def fit_generalised(asked: Asked, table: str, design: Design, family: str) -> Estimate:
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

    def read(question: Question) -> Query:
        query = plan_sums(table, design.names, question.terms, counted=question.counted)
        return asked.desk.read(query)

    def plan(question: Question, share: Share) -> Plan:
        return asked.plan(read(question), split_share(share, [question.part])[0])

    def prepare(share: Share) -> tuple[Share, Plan]:
        plans = [plan(question, share) for question in foresee(model)]  # refused before the charge
        return share, plans[0]

    def walk_over(share: Share, run: Callable[[Plan], Steps]) -> Walk:
        walk = Walk(model)
        while question := walk.ask():
            planned = plan(question, share)
            walk.take(read_sums(planned, run(planned)))
        return walk

    walks: list[Walk] = []

    def release(prepared: tuple[Share, Plan], hold: Hold) -> dict[str, Any]:
        rounds: list[Steps] = []

        def run(planned: Plan) -> Steps:
            rounds.append(release_totals(asked.desk, planned, hold))
            return rounds[-1]

        walks.append(walk_over(prepared[0], run))
        return {"rounds": rounds}

    start = canonical(read(foresee(model)[0]))
    terms = {"estimate": family, "formula": design.text, "query": start}
    paid = pay(asked, terms, prepare, release, readings=MOST_READINGS)
    stored = iter(paid.noisy["rounds"])
    is_new = bool(walks) and not paid.reused
    walk = walks[-1] if is_new else walk_over(paid.prepared[0], lambda _: next(stored))
    title = f"{family} regression {design.text}"
    numbers, replicas = model.unscale(walk.coefficients), model.unscale(walk.replicate())
    return make_estimate(title, design.labels, numbers, replicas, paid, form="named")
