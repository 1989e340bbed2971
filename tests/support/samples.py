"""Thousands of releases of sums: terms of rows in NumPy, noise from a plan's own distribution."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import special

from confide.curator import Curator
from confide.declare import Budget, Column, Table
from confide.execution.executor import QueryOptions
from confide.execution.pricing import Price
from confide.expressions.terms import Applied, Constant, Named
from confide.loss import Share
from confide.plan import DeclaredKeys, Plan
from confide.query import Function, TableQuery, Term
from confide.statistics.estimate import EstimateContext, read_sums
from support.entropy import SeededEntropy
from support.laws import ALPHA

__all__ = [
    "BUDGETS",
    "Noise",
    "add_rows",
    "ask",
    "count_noise_of",
    "curator_of",
    "is_within",
    "noise_of",
    "plan_noise",
    "plan_of",
    "value_of",
]

Floats = NDArray[np.float64]
BUDGETS: Final = {"pure": Budget(10**6), "gaussian": Budget(10**6, 1e-6)}

OPERATIONS: Final[dict[Function, Any]] = {
    Function.ADD: np.add,
    Function.SUBTRACT: np.subtract,
    Function.MULTIPLY: np.multiply,
    Function.DIVIDE: np.divide,
    Function.NEGATE: np.negative,
    Function.LEAST: np.minimum,
    Function.GREATEST: np.maximum,
    Function.LN: np.log,
    Function.EXP: np.exp,
}


def curator_of(
    data: Mapping[str, Any], columns: Mapping[str, Column], budget: Budget, **options: Any
) -> Curator:
    """Return a curator of a table ``people`` with one row per person."""
    size = len(next(iter(data.values())))
    frame = pa.table({"pid": np.arange(size), **data})
    table = Table("people", frame, unit="pid", columns=columns)
    return Curator([table], budget=budget, **options)


def ask(curator: Curator, epsilon: float) -> EstimateContext:
    """Return the context of a statistic, as the curator's methods create it."""
    return EstimateContext(curator._executor, Price.of({"epsilon": epsilon}), QueryOptions())


def granted(asked: EstimateContext) -> Share:
    """Return the share that an estimate takes."""
    return asked.planner.pricing.share_for_cost(asked.price)


def value_of(
    term: Term, columns: Mapping[str, Floats], known: dict[int, Floats] | None = None
) -> Floats:
    """Return the value of a term for each row; ``known`` caches the values of earlier terms."""
    found = known.get(id(term)) if known is not None else None
    if found is not None:
        return found
    match term:
        case Named(name=name):
            result = columns[name]
        case Constant(value=value):
            result = np.asarray(value, dtype=np.float64)
        case Applied(function=function, arguments=arguments):
            result = OPERATIONS[Function(function)](
                *(value_of(each, columns, known) for each in arguments)
            )
        case _:
            raise TypeError(f"no value for {term!r}")
    if known is not None:
        known[id(term)] = result
    return result


def add_rows(terms: Sequence[Term], columns: Mapping[str, Floats]) -> Floats:
    """Return the number of rows and the sums of terms; the last axis of columns is the row."""
    first = next(iter(columns.values()))
    count = np.full(first.shape[:-1], first.shape[-1], dtype=np.float64)
    known: dict[int, Floats] = {}
    values = (value_of(term, columns, known) for term in terms)
    sums = [np.broadcast_to(value, first.shape).sum(axis=-1) for value in values]
    return np.stack([count, *sums], axis=-1)


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of one query: evenly spread points, and real draws."""

    points: Floats
    variance: Floats
    draws: Floats


def noise_of(
    curator: Curator, query: TableQuery, epsilon: float, count: int, entropy: SeededEntropy
) -> Noise:
    """Return the noise of a query without groups at this epsilon."""
    return plan_noise(plan_of(curator, query, epsilon), count, entropy)


def plan_noise(plan: Plan, count: int, entropy: SeededEntropy) -> Noise:
    """Return the noise of a plan without groups."""
    sums = read_sums(plan, [[0] * len(plan.totals)])
    sizes = [float(size) for size in plan.noise.steps]
    units = [float(total.grid.step if total.grid else Fraction(1)) for total in plan.totals]
    drawn = plan.noise.law.draw(count, entropy) * np.array(sizes) * np.array(units)
    return Noise(sums.noise, sums.variance, drawn)


def count_noise_of(
    curator: Curator, query: TableQuery, epsilon: float, count: int, entropy: SeededEntropy
) -> Noise:
    """Return the noise of counts by declared group, with one column per group."""
    plan = plan_of(curator, query, epsilon)
    assert isinstance(plan.keys, DeclaredKeys)
    groups = len(plan.keys.groups)
    sums = read_sums(plan, [[0]] * groups)
    steps = plan.noise.law.draw(count * groups, entropy).astype(np.float64)
    drawn: Floats = steps * float(plan.noise.steps[0])
    return Noise(sums.group_noise()[:, :, 0], sums.variance, drawn.reshape(count, groups))


def plan_of(curator: Curator, query: TableQuery, epsilon: float) -> Plan:
    """Return the plan of a query at this epsilon."""
    planner = curator._planner
    return planner.plan(planner.read(query), granted(ask(curator, epsilon)))


def is_within(hits: int, trials: int, low: float, high: float) -> bool:
    """Return whether ``hits`` is consistent with a rate between ``low`` and ``high``.

    A rate within that range is rejected with probability at most ALPHA.
    """
    above = special.bdtrc(hits - 1, trials, high) if hits else 1.0
    below = special.bdtr(hits, trials, low)
    return bool(min(above, below) > ALPHA / 2)
