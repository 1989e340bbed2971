"""Several queries paid for by one charge: `Curator.release` and `Curator.choose`.

`release_batch` answers all queries, and divides the cost among them so that errors are small.
`choose_among` returns the candidate whose query has about the greatest value, without the value.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from confide.engines import Engine
from confide.errors import BadDeclaration, UnsupportedQuery, refusing
from confide.exact import Number, positive
from confide.execution.executor import Executor, QueryOptions
from confide.execution.planner import Planner, Score
from confide.execution.pricing import ZERO_COST, Price
from confide.ledger import Hold, Payload
from confide.loss import PureLoss, Share
from confide.noise import Entropy
from confide.plan import Plan
from confide.plan.plan import check_numbers
from confide.plan.selection import CandidatePlan, plan_candidates
from confide.query import Query, canonical, is_selection
from confide.release import Answer, NoisyMeasurement, add_noise, predict_errors
from confide.release.estimates import estimate
from confide.release.noise_sample import noise_sample
from confide.release.payable import check_grid_steps, grid_steps
from confide.release.selection import Choice, choose_candidate

__all__ = [
    "Batch",
    "allocate",
    "choose_among",
    "pair_candidates",
    "plan_batch",
    "release_batch",
    "square_error",
]

MAX_BATCH_SIZE = 1_000
MAX_WEIGHT = Fraction(10**100)


@dataclass(frozen=True, slots=True)
class Batch:
    """Distinct queries with their weights.

    ``positions`` gives, for each query of the caller, its index among the distinct queries.
    """

    queries: tuple[Query, ...]
    weights: tuple[Fraction, ...]
    positions: tuple[int, ...]

    @classmethod
    @refusing
    def of(cls, queries: Sequence[Query], weights: Sequence[Number] | None) -> "Batch":
        """Return a batch; queries that are equal become one, and their weights are added."""
        if weights is not None and (isinstance(weights, str) or not isinstance(weights, Iterable)):
            raise BadDeclaration(
                f"`weights` must be a list with one weight per query; got {weights!r}."
            )
        given = [Fraction(1)] * len(queries) if weights is None else list(weights)
        if not 1 <= len(queries) <= MAX_BATCH_SIZE:
            raise BadDeclaration(
                f"A release must have 1 to {MAX_BATCH_SIZE:,} queries; got {len(queries):,}."
            )
        if len(given) != len(queries):
            raise BadDeclaration(
                f"`weights` must have one weight per query; got {len(given)} weights for "
                f"{len(queries)} queries."
            )
        if any(map(is_selection, queries)):
            raise UnsupportedQuery(
                "A release answers queries with numbers, but one of these queries only selects the "
                "most frequent keys. Select `COUNT(*)` as well, or run that query by itself."
            )
        indexes: dict[str, int] = {}
        positions = [indexes.setdefault(canonical(query), len(indexes)) for query in queries]
        sums = [Fraction(0)] * len(indexes)
        for position, weight in zip(positions, given, strict=True):
            sums[position] += _read_weight(weight)
        distinct = [queries[positions.index(position)] for position in range(len(indexes))]
        return cls(tuple(distinct), tuple(sums), tuple(positions))


@refusing
def plan_batch(planner: Planner, batch: Batch, share: Share) -> tuple[tuple[Share, Plan], ...]:
    """Return a share and a plan for each query of a batch with a total cost of ``share``.

    Law:     shares come from `allocate`, applied to the errors that equal shares would give. The
             error of a query is the mean squared noise over its numeric columns, times its weight.
    Claim:   the plans together cost at most ``share``. For queries whose errors do not depend on
             the data, the weighted squared errors add up to at most their sum under equal shares.
    Why:     losses add up as shares do, because epsilon, mu^2, and divergences do. The variance of
             the noise for a share s is proportional to s**-2 under pure accounting, otherwise to
             1 / s, up to rounding to integers. If equal shares still give the smaller sum of
             errors, because of rounding, they are used instead.
    Checked: tests/curator/test_batches.py.
    """
    equal = Share(share.units // len(batch.queries))
    if not equal.units:
        raise BadDeclaration(
            "The share is too small to be divided among the queries. Pass a larger one."
        )
    power = 2 if isinstance(planner.loss(equal), PureLoss) else 1
    uniform = _plan_each(planner, batch, [equal] * len(batch.queries))
    allocated = _plan_each(planner, batch, allocate(_weighted_errors(uniform, batch), share, power))
    before, after = (
        sum(filter(None, _weighted_errors(plans, batch))) for plans in (uniform, allocated)
    )
    return tuple(allocated if after <= before else uniform)


def _read_weight(weight: Number) -> Fraction:
    found = positive("weights", weight)
    if not 1 / MAX_WEIGHT <= found <= MAX_WEIGHT:
        raise BadDeclaration("`weights` must be from 1e-100 to 1e100, such as 1 and 10.")
    return found


def _plan_each(planner: Planner, batch: Batch, shares: Sequence[Share]) -> list[tuple[Share, Plan]]:
    """Return each query's share and plan, or refuse too many noisy values in all plans together."""
    plans: list[tuple[Share, Plan]] = []
    for share, query in zip(shares, batch.queries, strict=True):
        plans.append((share, planner.plan(query, share)))
        check_numbers(sum(plan.numbers for _, plan in plans))
    return plans


def _weighted_errors(plans: Sequence[tuple[Share, Plan]], batch: Batch) -> list[float | None]:
    """Return the squared error of each query, times its weight; None if `square_error` is None."""
    errors = [square_error(plan) for _, plan in plans]
    return [
        None if error is None else float(weight) * error
        for error, weight in zip(errors, batch.weights, strict=True)
    ]


def square_error(plan: Plan) -> float | None:
    """Return the mean squared noise over the numeric columns.

    Return None if it depends on the data, if there is no numeric column, or if it overflows a
    double.
    """
    if None in predict_errors(plan).values():
        return None
    noise = noise_sample(plan)
    expressions = [output.expression for output in plan.query.outputs]
    statistics = [each for each in plan.statistics if each.aggregate in expressions]
    with np.errstate(over="ignore"):
        squares = [np.mean(estimate(statistic, plan, noise) ** 2) for statistic in statistics]
    mean = float(np.mean(squares)) if squares else math.inf
    return mean if math.isfinite(mean) else None


@dataclass(frozen=True, slots=True)
class ReleasePayable:
    """A batch of queries that one charge pays for, before its price is set."""

    planner: Planner
    batch: Batch

    @property
    def identity(self) -> str:
        """The queries and their weights, as JSON."""
        weights = [str(weight) for weight in self.batch.weights]
        texts = list(map(canonical, self.batch.queries))
        return json.dumps({"release": texts, "by": weights})

    def at(self, share: Share) -> "PricedRelease":
        """Return the plans for a share of the budget."""
        return PricedRelease(plan_batch(self.planner, self.batch, share))


@dataclass(frozen=True, slots=True)
class PricedRelease:
    """The share and the plan of each query of a batch; one hold pays for all readings."""

    planned: tuple[tuple[Share, Plan], ...]

    @property
    def failure(self) -> Fraction:
        """A bound on the probability that partition selection violates its bound in some answer."""
        return sum((plan.failure for _, plan in self.planned), Fraction(0))

    @property
    def readings(self) -> int:
        """The number of readings: one for each query."""
        return len(self.planned)

    def run(self, engine: Engine, hold: Hold, entropy: Entropy) -> list[NoisyMeasurement]:
        """Read the rows for each query, and return its noisy values."""
        return [
            add_noise(engine.run(plan.measurement, hold), plan, entropy) for _, plan in self.planned
        ]

    def encode(self, noisy: list[NoisyMeasurement]) -> Payload:
        """Return the payload that the ledger stores."""
        return {"answers": [answer.to_json() for answer in noisy], "sizes": self._grid_steps()}

    def decode(self, payload: Payload) -> list[NoisyMeasurement]:
        """Return the stored measurements; refuse them if their grids differ from the plans'."""
        check_grid_steps(payload, self._grid_steps())
        return list(map(NoisyMeasurement.from_json, payload["answers"]))

    def _grid_steps(self) -> list[list[str]]:
        return [grid_steps(plan) for _, plan in self.planned]


def release_batch(
    executor: Executor, batch: Batch, price: Price, options: QueryOptions
) -> tuple[Answer, ...]:
    """Return the answers to all queries of the caller, in their order, from one charge.

    Claim:   the batch costs the share charged for it.
    Why:     its plans together cost at most that (see `plan_batch`), and one hold pays for as many
             readings as there are distinct queries.
    Checked: tests/curator/test_batches.py.
    """
    payable = ReleasePayable(executor.planner, batch)
    priced, noisy, settlement = executor.execute(payable, price, options)
    cost = executor.planner.pricing.cost
    answers = [
        Answer(
            plan,
            measurement,
            ZERO_COST if settlement.reused else cost(share),
            settlement.receipt,
            settlement.reused,
        )
        for (share, plan), measurement in zip(priced.planned, noisy, strict=True)
    ]
    return tuple(answers[position] for position in batch.positions)


MAX_CANDIDATES: Final = 1_000


@refusing
def pair_candidates(
    candidates: Iterable[str], score: Callable[[str], Score] | Mapping[str, Score]
) -> dict[str, Score]:
    """Return the query that scores each candidate, in the order of the candidates."""
    is_list = isinstance(candidates, Iterable) and not isinstance(candidates, str)
    names = list(candidates) if is_list else []
    if not 1 <= len(names) <= MAX_CANDIDATES or not all(isinstance(name, str) for name in names):
        raise BadDeclaration(
            f"`candidates` must be a list of 1 to {MAX_CANDIDATES:,} strings; got "
            f"{len(names):,} items of a {type(candidates).__name__}."
        )
    if len(set(names)) != len(names):
        raise BadDeclaration(
            "`candidates` must differ from each other, but one appears twice. List each once."
        )
    if not isinstance(score, Mapping):
        if not callable(score):
            raise BadDeclaration(
                "`score` must be a function that returns the query of a candidate, or a mapping "
                f"from candidates to queries; got {type(score).__name__}."
            )
        return {name: score(name) for name in names}
    missing = [name for name in names if name not in score]
    if missing:
        raise BadDeclaration(
            f"`score` has no query for the candidate {missing[0]!r}. Add one for every candidate."
        )
    return {name: score[name] for name in names}


@dataclass(frozen=True, slots=True)
class ChoosePayable:
    """A choice among candidates, each scored by a query."""

    planner: Planner
    queries: Mapping[str, Query]

    @property
    def identity(self) -> str:
        """The candidates and their queries, as JSON."""
        scores = [[name, canonical(query)] for name, query in self.queries.items()]
        return json.dumps({"choose": scores})

    def at(self, share: Share) -> "PricedChoice":
        """Return the selection plan for a share of the budget."""
        plans = [self.planner.plan(query, share) for query in self.queries.values()]
        granted = self.planner.loss(share)
        return PricedChoice(plan_candidates(plans, self.planner.neighbours, granted))


@dataclass(frozen=True, slots=True)
class PricedChoice:
    """A choice with its price: one use of the selector on the scores of all candidates."""

    selection: CandidatePlan
    failure: Fraction = Fraction(0)

    @property
    def readings(self) -> int:
        """The number of readings: one for each candidate."""
        return len(self.selection.plans)

    def run(self, engine: Engine, hold: Hold, entropy: Entropy) -> int:
        """Return the index of the chosen candidate."""
        sealed = [engine.run(plan.measurement, hold) for plan in self.selection.plans]
        return choose_candidate(sealed, self.selection, entropy)

    def encode(self, noisy: int) -> Payload:
        """Return the payload that the ledger stores."""
        return {"place": noisy}

    def decode(self, payload: Payload) -> int:
        """Return the stored index of the chosen candidate."""
        return int(payload["place"])


def choose_among(
    executor: Executor, scores: Mapping[str, Score], price: Price, options: QueryOptions
) -> Choice:
    """Return one candidate; a higher score makes a candidate more likely to be chosen.

    ``scores`` maps the name of each candidate to the query that scores it.

    Claim:   the choice costs the share charged for it, regardless of the number of candidates.
    Why:     a choice is one use of its selector, whose loss is at most that of the share.
    Source:  [MT07], [MS20], through `confide.plan.selection.plan_candidates`.
    Checked: tests/curator/test_selection.py.
    """
    queries = {name: executor.planner.read_score(query) for name, query in scores.items()}
    payable = ChoosePayable(executor.planner, queries)
    priced, index, settlement = executor.execute(payable, price, options)
    return Choice(
        list(queries)[index],
        settlement.cost,
        settlement.receipt,
        reused=settlement.reused,
        regret=priced.selection.regret(),
    )


def allocate(errors: Sequence[float | None], total: Share, power: int) -> tuple[Share, ...]:
    """Return a share for each query, such that the sum of weighted squared errors is minimal.

    ``errors`` are the weighted squared errors that equal shares would give, or None for queries
    whose error depends on the data. With a share s, an error is proportional to s**-``power``.

    Law:     each query without a known error gets an equal share; the others divide the rest in
             proportion to errors ** (1 / (power + 1)).
    Claim:   the shares add up to at most ``total``. Up to rounding, and if no root is raised to the
             minimum of `_root`, no other division of the rest gives the queries with known errors a
             smaller sum of errors.
    Why:     for a fixed sum of s_i, the sum of a_i * s_i**-power is convex. By Lagrange it is least
             where power * a_i * s_i**-(power + 1) is the same for all i. Shares are rounded down.
    Checked: tests/plan/test_cost_split.py.

    >>> [str(share.fraction) for share in allocate([1.0, 8.0], Share.floor("30%"), power=2)]
    ['1/10', '1/5']
    """
    known = [error for error in errors if error is not None]
    equal = Share(total.units // len(errors))
    largest = max(known, default=0.0)
    if not largest:
        return (equal,) * len(errors)
    rest = total.units - equal.units * (len(errors) - len(known))
    roots = [_root(error / largest, power) for error in known]
    total_root = sum(roots)
    parts = iter([Share(math.floor(rest * root / total_root)) for root in roots])
    return tuple(equal if error is None else next(parts) for error in errors)


def _root(ratio: float, power: int) -> Fraction:
    """Return ratio ** (1 / (power + 1)), but at least 0.001, so that every query gets a share."""
    return Fraction(max(ratio ** (1 / (power + 1)), 1e-3)).limit_denominator(10**9)
