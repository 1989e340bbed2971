"""Charged sums and `Estimate`, the basis of all statistics.

A statistic calls `charge_and_release` to plan, pay for, and release noisy totals, `read_sums` to
turn them into sums, and `make_estimate` for the result. Every estimate is computed from noisy
totals alone. The ledger stores the totals, so a repeated estimate is computed from the same totals
and costs nothing.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, assert_never

import numpy as np
from numpy.typing import NDArray

from confide.aggregates import function_of
from confide.declare import Catalog
from confide.engines import Engine
from confide.engines.protocol import Estimator
from confide.errors import UnsupportedQuery, refusing
from confide.exact import Number, probability
from confide.execution.executor import Executor, QueryOptions
from confide.execution.planner import Planner
from confide.execution.pricing import Price
from confide.expressions.tree import AggregateCall, Value
from confide.ledger import Hold, Payload, Receipt
from confide.loss import Share
from confide.noise import Entropy
from confide.noise.law import list_primes
from confide.plan import DeclaredKeys, Plan
from confide.query.tree import Query
from confide.release import Cost, NoisyMeasurement, add_noise
from confide.release.display import ESTIMATE_ADVICE, Chart, draw_chart, import_frames, write_table
from confide.release.noise_sample import noise_sample
from confide.release.payable import check_grid_steps, grid_steps
from confide.statistics.replicas import Floats

__all__ = [
    "ChargedEstimate",
    "Estimate",
    "EstimateContext",
    "EstimateResult",
    "Floats",
    "Form",
    "NoisySums",
    "RegisteredEstimator",
    "charge_and_release",
    "make_estimate",
    "read_sums",
    "release_totals",
    "split_share",
    "total_variances",
]

T = TypeVar("T")
RegisteredEstimator = tuple[Estimator, tuple[str, ...], Any]
"""The owner's function, the columns that it receives, and the bounds of its results."""


@dataclass(frozen=True, slots=True)
class EstimateContext:
    """The executor, price, and options of an estimate.

    ``estimators`` maps names to the functions that the owner registered.
    """

    executor: Executor
    price: Price
    options: QueryOptions
    estimators: Mapping[str, RegisteredEstimator] = field(default_factory=dict)

    @property
    def planner(self) -> Planner:
        """The planner, which parses and plans the estimate's queries."""
        return self.executor.planner

    @property
    def catalog(self) -> Catalog:
        """The declared tables."""
        return self.planner.catalog

    def plan(self, query: Query, share: Share) -> Plan:
        """Return the plan of a query for a share of the budget.

        # Privacy: revealing undeclared groups would cost delta, which estimates do not pay.

        Raises:
            UnsupportedQuery: the query's groups are not declared.
        """
        plan = self.planner.plan(query, share)
        if not isinstance(plan.keys, DeclaredKeys):
            raise UnsupportedQuery(
                "Estimates need declared group keys, and this column can have too many values. "
                "Declare a shorter range, or a `Category`."
            )
        return plan


@dataclass(frozen=True, slots=True)
class ChargedEstimate(Generic[T]):
    """Released numbers, with their plan, cost, and receipt.

    ``prepared`` is the plan, or the plans and shares, that the statistic made before the charge.
    ``noisy`` is the payload stored in the ledger.
    """

    prepared: T
    noisy: dict[str, Any]
    cost: Cost
    receipt: Receipt
    reused: bool


@dataclass(frozen=True, slots=True)
class StatisticPayable(Generic[T]):
    """A statistic before its share is known, as the executor charges for it.

    ``terms`` identify the statistic. ``prepare`` plans for a share; ``release`` reads the rows, at
    most ``readings`` times, and returns the noisy payload.
    """

    terms: Mapping[str, object]
    prepare: Callable[[Share], T]
    release: Callable[[T, Hold], Payload]
    readings: int

    @property
    def identity(self) -> str:
        """The terms as JSON, which identify the statistic in the ledger."""
        return json.dumps(self.terms)

    def at(self, share: Share) -> "PricedStatistic[T]":
        """Return the statistic, planned for a share of the budget."""
        return PricedStatistic(self.prepare(share), self.release, self.readings)


@dataclass(frozen=True, slots=True)
class PricedStatistic(Generic[T]):
    """A statistic planned for a share of the budget, ready to release.

    ``failure`` is 0, because estimates do not select undeclared keys.
    """

    prepared: T
    release: Callable[[T, Hold], Payload]
    readings: int
    failure: Fraction = Fraction(0)

    def run(self, engine: Engine, hold: Hold, entropy: Entropy) -> Payload:
        """Return the released numbers."""
        del engine, entropy  # the context has its own
        return self.release(self.prepared, hold)

    def encode(self, noisy: Payload) -> Payload:
        """Return the payload to store in the ledger."""
        return {**noisy, "sizes": self._sizes()}

    def decode(self, payload: Payload) -> Payload:
        """Return the stored payload, or raise an error if the plans' noise grids have changed."""
        check_grid_steps(payload, self._sizes())
        return payload

    def _sizes(self) -> list[list[str]]:
        return [grid_steps(plan) for plan in _find_plans(self.prepared)]


def charge_and_release(
    context: EstimateContext,
    terms: Mapping[str, object],
    prepare: Callable[[Share], T],
    release: Callable[[T, Hold], Payload],
    *,
    readings: int = 1,
) -> ChargedEstimate[T]:
    """Charge once and return the result of ``release``, or the stored result of the same ``terms``.

    ``prepare`` runs before the charge; it plans, or refuses, from the declaration alone.
    ``release`` reads the rows at most ``readings`` times.

    Claim:   all readings together cost the granted share, and none runs before the charge.
    Why:     the plans made by ``prepare`` split the granted loss. Epsilon, mu^2, and the divergence
             of one order are each additive, even if readings are chosen adaptively.
    Source:  [DR14]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_charges.py.
    """
    payable = StatisticPayable(terms, prepare, release, readings)
    priced, noisy, settlement = context.executor.execute(payable, context.price, context.options)
    return ChargedEstimate(
        priced.prepared, noisy, settlement.cost, settlement.receipt, settlement.reused
    )


def _find_plans(prepared: object) -> list[Plan]:
    """Return the plans in a prepared object: itself, its items, or its fields."""
    if isinstance(prepared, Plan):
        return [prepared]
    if isinstance(prepared, tuple | list):
        return [plan for item in prepared for plan in _find_plans(item)]
    if is_dataclass(prepared):
        held = (getattr(prepared, field.name) for field in fields(prepared))
        return [one for one in held if isinstance(one, Plan)]
    return []


def split_share(share: Share, parts: Sequence[Fraction]) -> tuple[Share, ...]:
    """Return a share, split into parts whose sum does not exceed it.

    Why: each part is rounded down, and ``parts`` add up to at most 1.
    """
    return tuple(Share.floor(share.fraction * part) for part in parts)


def release_totals(executor: Executor, plan: Plan, hold: Hold) -> list[list[int]]:
    """Return the noisy totals, one row per declared group, in integer noise steps."""
    noisy = add_noise(executor.engine.run(plan.measurement, hold), plan, executor.entropy)
    return [list(row) for row in noisy.steps]


@dataclass(frozen=True, slots=True)
class NoisySums:
    """Noisy sums with a sample of their noise.

    ``values`` has one row per group and one column per output of the query. ``noise`` is a fixed
    sample of one group's noise, with one point per row and one output per column; ``variance`` has
    the exact variance of each output. Noise is uncorrelated between outputs, and independent
    between groups.
    """

    groups: tuple[tuple[Value, ...], ...]
    values: Floats
    noise: Floats
    variance: Floats

    def group_noise(self) -> Floats:
        """Return a noise sample for all groups, with axes points, groups, and outputs."""
        return np.stack([self.reorder(index) for index in range(len(self.groups))], axis=1)

    def reorder(self, index: int) -> Floats:
        """Return the points of the noise sample in an order that differs for each ``index``.

        Samples with different indices can serve as independent draws.

        Why: multiples of linearly independent irrational numbers, modulo 1, fill the unit cube
             evenly, and so do their ranks. Logarithms of primes are independent of each other, and
             of the roots whose multiples are the points of noise and sampling. Steps by integers
             would not give a suitable order: some rows would hold the same few points for every
             index, and sums over 1,000 groups would have 1.5 times their standard deviation.
        """
        return self.noise[_order(index, len(self.noise))]


@lru_cache(maxsize=16)
def _order(index: int, count: int) -> NDArray[np.int64]:
    """Return a permutation of ``count`` points for an index; cached, because sorting is slow."""
    steps = np.arange(1.0, count + 1.0) * _irrational_step(index)
    return np.argsort(np.argsort(steps % 1.0))


def _irrational_step(index: int) -> float:
    """Return a different irrational number for each index."""
    return float(_log_primes(1 << index.bit_length())[index])


@lru_cache(maxsize=16)
def _log_primes(number: int) -> Floats:
    return np.log(np.array(list_primes(number), dtype=np.float64))


def read_sums(plan: Plan, steps: Sequence[Sequence[int]]) -> NoisySums:
    """Return the sums in released noise steps, for a query whose outputs are counts and plain sums.

    A declared NULL is a separate group. It is empty, because estimates exclude rows without a
    value, so its totals are pure noise and are dropped.
    """
    if not isinstance(plan.keys, DeclaredKeys):
        raise TypeError("Statistics need declared group keys.")
    table = NoisyMeasurement(plan.keys.groups, tuple(map(tuple, steps))).values(plan)
    kept = [index for index, group in enumerate(plan.keys.groups) if None not in group]
    groups = tuple(plan.keys.groups[index] for index in kept)
    wanted = [output.expression for output in plan.query.outputs]
    aggregates = [part for part in wanted if isinstance(part, AggregateCall)]
    places, scales = zip(*(_locate_total(plan, part) for part in aggregates), strict=True)
    columns, factors = list(places), np.array(scales)
    noise = noise_sample(plan)[:, columns] * factors
    values = table[np.ix_(kept, columns)] * factors
    return NoisySums(groups, values, noise, total_variances(plan)[columns] * factors**2)


def _locate_total(plan: Plan, aggregate: AggregateCall) -> tuple[int, float]:
    """Return the index of an output's total in the plan, and the value of one unit of the total."""
    statistic = next(one for one in plan.statistics if one.aggregate == aggregate)
    index = statistic.only_total
    if index is None or not function_of(aggregate).is_linear:
        raise TypeError("Only counts and plain sums can be read.")
    grid = plan.totals[index].grid
    return index, 1.0 if grid is None else float(grid.step)


def total_variances(plan: Plan) -> Floats:
    """Return the variance of the noise of each total, in squared units of the total."""
    sizes = np.array([float(size) for size in plan.noise.steps])
    variances: Floats = plan.noise.law.variance() * sizes**2
    return variances


Form = Literal["one", "named", "list", "bins"]
"""The structure of an estimate's numbers: one number, a dictionary by name, a list, or the heights
of a histogram's bins."""


class EstimateResult(Protocol):
    """The interface of every estimate.

    ``form`` is the structure of ``value``, of ``standard_error``, and of both ends of
    ``interval``. ``numbers``, ``standard_errors``, and ``intervals`` have the same content as flat
    sequences, in the order of ``names``. There, an unknown standard error or interval end is
    infinite. ``edges`` are the edges of a histogram's bins, and None for other forms.
    """

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def form(self) -> Form: ...
    @property
    def value(self) -> Any: ...
    @property
    def standard_error(self) -> Any: ...
    @property
    def numbers(self) -> Sequence[float]: ...
    @property
    def standard_errors(self) -> Sequence[float]: ...
    @property
    def edges(self) -> Floats | None: ...
    @property
    def p_value(self) -> float | None: ...
    @property
    def cost(self) -> Cost: ...
    @property
    def receipt(self) -> Receipt: ...
    @property
    def reused(self) -> bool: ...
    def interval(self, confidence: Number = 0.95) -> Any: ...
    def intervals(self, confidence: Number = 0.95) -> Sequence[tuple[float, float]]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """Numbers computed from one release, with their cost.

    ``value`` and ``standard_error`` are one number, a list, or a dictionary by name, as ``form``
    says; ``interval`` has a pair (low, high) instead of each number. Standard errors and intervals
    refer to the population that the rows were sampled from: they include both sampling error and
    noise. ``replicas`` has one replica per row and one column per number.

    Claim:   the interval covers the population value with about the requested confidence.
    Why:     ``replicas`` are the same estimate from sums perturbed by sampling error, as in the
             fitted model, and by the noise, whose distribution is known. Both are nearly symmetric,
             so the possible sums are distributed around the released sums like the replicas.
    Source:  [FWS20]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_coverage.py.
    """

    title: str
    names: tuple[str, ...]
    numbers: tuple[float, ...]
    replicas: Floats
    form: Form
    cost: Cost
    receipt: Receipt
    reused: bool
    edges: ClassVar[None] = None
    p_value: ClassVar[None] = None

    @property
    def value(self) -> Any:
        """The estimate."""
        return self._shape(list(self.numbers))

    @property
    def standard_error(self) -> Any:
        """The standard error of each number, from sampling and noise combined."""
        return self._shape(self.standard_errors)

    @property
    def standard_errors(self) -> list[float]:
        """The standard errors as a flat list."""
        return [float(error) for error in self.replicas.std(axis=0)]

    @refusing
    def interval(self, confidence: Number = 0.95) -> Any:
        """Return a confidence interval (low, high) for each population value."""
        return self._shape(self.intervals(confidence))

    @refusing
    def intervals(self, confidence: Number = 0.95) -> list[tuple[float, float]]:
        """Return the intervals as a flat list."""
        miss = 1.0 - float(probability("confidence", confidence, zero=False))
        ends = np.quantile(self.replicas, [miss / 2.0, 1.0 - miss / 2.0], axis=0)
        lows = np.minimum(ends[0], self.numbers)
        highs = np.maximum(ends[1], self.numbers)
        pairs = zip(lows, highs, strict=True)
        return [(float(low), float(high)) for low, high in pairs]

    def to_pandas(self) -> Any:
        """Return a DataFrame with one row per number: value, standard error, 95% interval."""
        pd = import_frames("pandas", ESTIMATE_ADVICE)
        return pd.DataFrame(self._rows()).set_index("parameter")

    def plot(self) -> Chart:
        """Return a chart of the numbers with their 95% intervals."""
        rows = self._rows()
        ends = [{"value_low": row["low"], "value_high": row["high"]} for row in rows]
        return draw_chart(["parameter"], ["value"], rows, ends)

    def _repr_html_(self) -> str:
        rows = self._rows()
        ends = [{"value_low": row["low"], "value_high": row["high"]} for row in rows]
        columns = ("parameter", "value", "standard_error")
        return write_table(columns, rows, ends, f"{self.title}; cost {self.cost}")

    def __str__(self) -> str:
        lines = [
            f"{row['parameter']}: {row['value']:.5g} [{row['low']:.5g}, {row['high']:.5g}]"
            for row in self._rows()
        ]
        return "\n".join([f"{self.title}, 95% intervals; cost {self.cost}", *lines])

    def __repr__(self) -> str:
        return f"<{self}>"

    def _rows(self) -> list[dict[str, Any]]:
        columns = zip(self.names, self.numbers, self.standard_errors, self.intervals(), strict=True)
        return [
            {"parameter": name, "value": value, "standard_error": error, "low": low, "high": high}
            for name, value, error, (low, high) in columns
        ]

    def _shape(self, numbers: list[Any]) -> Any:
        match self.form:
            case "one":
                return numbers[0]
            case "named":
                return dict(zip(self.names, numbers, strict=True))
            case "list" | "bins":
                return numbers
            case _:
                assert_never(self.form)


def make_estimate(
    title: str,
    names: tuple[str, ...],
    numbers: Floats,
    replicas: Floats,
    charged: ChargedEstimate[Any],
    *,
    form: Form | None = None,
) -> Estimate:
    """Return an estimate computed from a charged release."""
    shape = form or ("one" if len(names) == 1 else "named")
    values = tuple(float(number) for number in numbers)
    return Estimate(
        title, names, values, replicas, shape, charged.cost, charged.receipt, charged.reused
    )
