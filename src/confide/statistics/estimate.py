"""Charged sums and `Estimate`: the base of all statistics.

Every estimate is computed from noisy totals alone. The totals are what the ledger keeps, so asking
for the same estimate again computes it from the same totals and costs nothing.
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
"""An owner's function, the columns that it is run on, and the bounds of its results."""


@dataclass(frozen=True, slots=True)
class EstimateContext:
    """Who answers, what is declared, what an estimate may cost, and how it was called.

    ``estimators`` are the owner's functions by name.
    """

    executor: Executor
    price: Price
    options: QueryOptions
    estimators: Mapping[str, RegisteredEstimator] = field(default_factory=dict)

    @property
    def planner(self) -> Planner:
        """What reads and plans the queries of an estimate."""
        return self.executor.planner

    @property
    def catalog(self) -> Catalog:
        """The declaration."""
        return self.planner.catalog

    def plan(self, query: Query, share: Share) -> Plan:
        """Return the plan of sums, or refuse groups that nobody declared: before any charge.

        # Privacy: naming undeclared groups would take delta, for which estimates do not pay.
        """
        plan = self.planner.plan(query, share)
        if not isinstance(plan.keys, DeclaredKeys):
            raise UnsupportedQuery(
                "estimates are made of groups known beforehand, and this column has too many "
                "values for that; declare a shorter range, or a Category"
            )
        return plan


@dataclass(frozen=True, slots=True)
class ChargedEstimate(Generic[T]):
    """Released numbers with the plan that they were made by, and what they cost."""

    prepared: T
    noisy: dict[str, Any]
    cost: Cost
    receipt: Receipt
    reused: bool


@dataclass(frozen=True, slots=True)
class StatisticPayable(Generic[T]):
    """Released numbers of a statistic, by its terms."""

    terms: Mapping[str, object]
    prepare: Callable[[Share], T]
    release: Callable[[T, Hold], Payload]
    readings: int

    @property
    def identity(self) -> str:
        """The terms as JSON."""
        return json.dumps(self.terms)

    def at(self, share: Share) -> "PricedStatistic[T]":
        """Plan what a share of the budget buys."""
        return PricedStatistic(self.prepare(share), self.release, self.readings)


@dataclass(frozen=True, slots=True)
class PricedStatistic(Generic[T]):
    """The plans of a statistic, and how its numbers are released."""

    prepared: T
    release: Callable[[T, Hold], Payload]
    readings: int
    failure: Fraction = Fraction(0)

    def run(self, engine: Engine, hold: Hold, entropy: Entropy) -> Payload:
        """Return the numbers that are released."""
        del engine, entropy  # those of the context
        return self.release(self.prepared, hold)

    def encode(self, noisy: Payload) -> Payload:
        """Return what the ledger keeps."""
        return {**noisy, "sizes": self._sizes()}

    def decode(self, payload: Payload) -> Payload:
        """Return what the ledger kept, if its grids are those of the plans."""
        check_grid_steps(payload, self._sizes())
        return payload

    def _sizes(self) -> list[list[str]]:
        return [grid_steps(plan) for plan in _find_plans(self.prepared)]


def charge_and_release(
    asked: EstimateContext,
    terms: Mapping[str, object],
    prepare: Callable[[Share], T],
    release: Callable[[T, Hold], Payload],
    *,
    readings: int = 1,
) -> ChargedEstimate[T]:
    """Return what ``release`` gives for one charge, or what it gave when asked the same before.

    ``prepare`` plans, and refuses, from the declaration alone; it runs before the charge.

    Claim:   all readings together cost the share granted, and none comes before the charge.
    Why:     the plans that ``prepare`` makes share out the granted loss: epsilon, mu^2 and the
             divergence of one order each add up, for readings chosen after earlier ones too.
    Source:  [DR14]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_reading.py.
    """
    payable = StatisticPayable(terms, prepare, release, readings)
    priced, noisy, settlement = asked.executor.execute(payable, asked.price, asked.options)
    return ChargedEstimate(
        priced.prepared, noisy, settlement.cost, settlement.receipt, settlement.reused
    )


def _find_plans(prepared: object) -> list[Plan]:
    """Return the plans among what was prepared: itself, the items of a tuple, or its fields."""
    if isinstance(prepared, Plan):
        return [prepared]
    if isinstance(prepared, tuple | list):
        return [plan for item in prepared for plan in _find_plans(item)]
    if is_dataclass(prepared):
        held = (getattr(prepared, field.name) for field in fields(prepared))
        return [one for one in held if isinstance(one, Plan)]
    return []


def split_share(share: Share, parts: Sequence[Fraction]) -> tuple[Share, ...]:
    """Return the share cut into parts that add up to at most the whole.

    Why: each is rounded down, and ``parts`` add up to at most 1.
    """
    return tuple(Share.floor(share.fraction * part) for part in parts)


def release_totals(executor: Executor, plan: Plan, hold: Hold) -> list[list[int]]:
    """Return the noisy totals of every declared group, in whole noise steps."""
    noisy = add_noise(executor.engine.run(plan.measurement, hold), plan, executor.entropy)
    return [list(row) for row in noisy.steps]


@dataclass(frozen=True, slots=True)
class NoisySums:
    """Noisy sums, one row a group and one column an output, with what their noise looks like.

    ``noise`` is a fixed sample of the noise of one group, ``variance`` its exact variances; the
    noise of different sums is uncorrelated, and that of different groups independent.
    """

    groups: tuple[tuple[Value, ...], ...]
    values: Floats
    noise: Floats
    variance: Floats

    def group_noise(self) -> Floats:
        """Return noise of all groups side by side: points, groups, sums."""
        return np.stack([self.reorder(place) for place in range(len(self.groups))], axis=1)

    def reorder(self, place: int) -> Floats:
        """Return the noise in another order for each place, as if drawn anew.

        Why: multiples of independent irrational numbers, modulo 1, fill the unit cube evenly, and
             so do their ranks. Logarithms of primes are independent of each other and of the roots
             that points of noise and sampling are multiples of. Points numbered by multiples of
             whole numbers would not do: some lines would hold the same few points in every place,
             and sums over 1,000 places a deviation half as large again as theirs.
        """
        return self.noise[_order(place, len(self.noise))]


@lru_cache(maxsize=16)
def _order(place: int, count: int) -> NDArray[np.int64]:
    """Return the order of ``count`` points at one place; sorting them takes milliseconds."""
    steps = np.arange(1.0, count + 1.0) * _stride(place)
    return np.argsort(np.argsort(steps % 1.0))


def _stride(place: int) -> float:
    """Return an irrational number for each place."""
    return float(_log_primes(1 << place.bit_length())[place])


@lru_cache(maxsize=16)
def _log_primes(number: int) -> Floats:
    return np.log(np.array(list_primes(number), dtype=np.float64))


def read_sums(plan: Plan, steps: Sequence[Sequence[int]]) -> NoisySums:
    """Return the released sums of a planned question whose outputs are counts and plain sums.

    A declared NULL is a group of its own, and empty: estimates leave out rows without a value.
    What is released of it is noise alone, and is dropped.
    """
    if not isinstance(plan.keys, DeclaredKeys):
        raise TypeError("statistics are asked of declared groups")
    table = NoisyMeasurement(plan.keys.groups, tuple(map(tuple, steps))).values(plan)
    kept = [place for place, group in enumerate(plan.keys.groups) if None not in group]
    groups = tuple(plan.keys.groups[place] for place in kept)
    wanted = [output.expression for output in plan.query.outputs]
    aggregates = [part for part in wanted if isinstance(part, AggregateCall)]
    places, scales = zip(*(_place(plan, part) for part in aggregates), strict=True)
    columns, factors = list(places), np.array(scales)
    noise = noise_sample(plan)[:, columns] * factors
    values = table[np.ix_(kept, columns)] * factors
    return NoisySums(groups, values, noise, total_variances(plan)[columns] * factors**2)


def _place(plan: Plan, aggregate: AggregateCall) -> tuple[int, float]:
    """Return where the total of an output stands, and what one unit of it means."""
    statistic = next(one for one in plan.statistics if one.aggregate == aggregate)
    place = statistic.only_total
    if place is None or not function_of(aggregate).is_linear:
        raise TypeError("only counts and plain sums are read")
    grid = plan.totals[place].grid
    return place, 1.0 if grid is None else float(grid.step)


def total_variances(plan: Plan) -> Floats:
    """Return the variance of each total's noise, in the total's own units."""
    sizes = np.array([float(size) for size in plan.noise.steps])
    variances: Floats = plan.noise.law.variance() * sizes**2
    return variances


Form = Literal["one", "named", "list", "bins"]
"""How numbers are handed over; those of bins are heights between edges."""


class EstimateResult(Protocol):
    """What every estimate offers, whatever was estimated.

    ``value``, ``standard_error``, and each end of ``interval`` have the form that suits the
    statistic. ``numbers``, ``standard_errors``, and ``intervals`` are the same in a row, by
    ``names``; an end or an error that is not known is infinite.
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
    """Numbers computed from one release, with what they cost.

    ``value``, ``standard_error`` and each end of ``interval`` have the same form: one number, a
    list, or a dictionary by name. Standard errors and intervals speak of the population that the
    rows were drawn from: they count how much another sample would differ and what the noise adds.

    Claim:   the interval holds the population's value with about the confidence asked for.
    Why:     ``replicas`` are the same estimate from sums moved by sampling, as the fitted model has
             it, and by the noise, whose law is known. Both moves are nearly symmetric, so what the
             sums could have been lies around what was released as the replicas do.
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
        """What was estimated."""
        return self._shape(list(self.numbers))

    @property
    def standard_error(self) -> Any:
        """The standard deviation of each number, over sampling and noise together."""
        return self._shape(self.standard_errors)

    @property
    def standard_errors(self) -> list[float]:
        """The standard errors in a row."""
        return [float(error) for error in self.replicas.std(axis=0)]

    @refusing
    def interval(self, confidence: Number = 0.95) -> Any:
        """Return (low, high) for each number, from the population's point of view."""
        return self._shape(self.intervals(confidence))

    @refusing
    def intervals(self, confidence: Number = 0.95) -> list[tuple[float, float]]:
        """Return the intervals in a row."""
        miss = 1.0 - float(probability("confidence", confidence, zero=False))
        ends = np.quantile(self.replicas, [miss / 2.0, 1.0 - miss / 2.0], axis=0)
        lows = np.minimum(ends[0], self.numbers)
        highs = np.maximum(ends[1], self.numbers)
        pairs = zip(lows, highs, strict=True)
        return [(float(low), float(high)) for low, high in pairs]

    def to_pandas(self) -> Any:
        """Return one row a number: value, standard error, 95 % interval."""
        pd = import_frames("pandas", ESTIMATE_ADVICE)
        return pd.DataFrame(self._rows()).set_index("parameter")

    def plot(self) -> Chart:
        """Return a chart of the numbers with their 95 % intervals."""
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
        return "\n".join([f"{self.title}, 95 % intervals; cost {self.cost}", *lines])

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
    paid: ChargedEstimate[Any],
    *,
    form: Form | None = None,
) -> Estimate:
    """Return the estimate that was computed from a release."""
    shape = form or ("one" if len(names) == 1 else "named")
    values = tuple(float(number) for number in numbers)
    return Estimate(title, names, values, replicas, shape, paid.cost, paid.receipt, paid.reused)
