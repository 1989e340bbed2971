"""How an estimate is paid for: charged once, read as often as it needs, kept with its receipt.

Every estimate is computed from noisy totals alone. The totals are what the ledger keeps, so asking
for the same estimate again computes it from the same totals and costs nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from confide.declare import Catalog
from confide.errors import UnsupportedQuery
from confide.execution.executor import Desk, Manner
from confide.expressions.functions import Aggregation
from confide.expressions.tree import Aggregate, Value
from confide.ledger import Hold, Receipt
from confide.loss import Share
from confide.noise import BoxNoise, DiscreteLaplace
from confide.plan import DeclaredKeys, Plan
from confide.query.tree import Query
from confide.release import Cost, NoisyTotals, perturb
from confide.release.reference import list_primes, reference_noise
from confide.release.sizes import check_written, find_plans, write_sizes

__all__ = [
    "Asked",
    "Floats",
    "Paid",
    "Sums",
    "pay",
    "read_sums",
    "release_totals",
    "split_share",
    "total_variances",
]

Floats = NDArray[np.float64]
T = TypeVar("T")

HIGHEST_RATE: Final = 700.0
"""Beyond this exp leaves the doubles, and the noise is 0 as good as always."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Who answers, what is declared, what an estimate may cost, and how it was called."""

    desk: Desk
    catalog: Catalog
    grant: Callable[[], Share]
    manner: Manner

    def plan(self, query: Query, share: Share) -> Plan:
        """Return the plan of sums, or refuse groups that nobody declared: before any charge.

        # Privacy: naming undeclared groups would take delta, for which estimates do not pay.
        """
        plan = self.desk.plan(query, share)
        if not isinstance(plan.keys, DeclaredKeys):
            raise UnsupportedQuery(
                "estimates are made of groups known beforehand, and this column has too many "
                "values for that; declare a shorter range, or a Category"
            )
        return plan


@dataclass(frozen=True, slots=True)
class Paid(Generic[T]):
    """Released numbers with the plan that they were made by, and what they cost."""

    prepared: T
    noisy: dict[str, Any]
    cost: Cost
    receipt: Receipt
    reused: bool


def pay(
    asked: Asked,
    terms: Mapping[str, object],
    prepare: Callable[[Share], T],
    release: Callable[[T, Hold], dict[str, Any]],
    *,
    readings: int = 1,
) -> Paid[T]:
    """Return what ``release`` gives for one charge, or what it gave when asked the same before.

    ``prepare`` plans, and refuses, from the declaration alone; it runs before the charge.

    Claim:   all readings together cost the share granted, and none comes before the charge.
    Why:     the plans that ``prepare`` makes share out the granted loss: epsilon, mu^2 and the
             divergence of one order each add up, for readings chosen after earlier ones too.
    Source:  [DR14]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_reading.py.
    """
    request = asked.desk.open(asked.desk.name_question(terms), asked.manner)
    settled = request.settled
    share = request.share(asked.grant) if settled is None else settled.receipt.share
    prepared = prepare(share)
    plans = find_plans(prepared)
    if settled is None:
        # Privacy: charged before any row is read, for everything that will be released.
        hold = request.reserve(share, readings=readings)
        written = {**release(prepared, hold), "sizes": write_sizes(plans)}
        settled = request.commit(hold, written)
    check_written(settled.noisy, plans)
    return Paid(prepared, settled.noisy, settled.cost, settled.receipt, settled.reused)


def split_share(share: Share, parts: Sequence[Fraction]) -> tuple[Share, ...]:
    """Return the share cut into parts that add up to at most the whole.

    Why: each is rounded down, and ``parts`` add up to at most 1.
    """
    return tuple(Share.floor(share.fraction * part) for part in parts)


def release_totals(desk: Desk, plan: Plan, hold: Hold) -> list[list[int]]:
    """Return the noisy totals of every declared group, in whole noise steps."""
    noisy = perturb(desk.engine.run(plan, hold), plan, desk.entropy)
    return [list(row) for row in noisy.steps]


@dataclass(frozen=True, slots=True)
class Sums:
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


def read_sums(plan: Plan, steps: Sequence[Sequence[int]]) -> Sums:
    """Return the released sums of a planned question whose outputs are counts and plain sums.

    A declared NULL is a group of its own, and empty: estimates leave out rows without a value.
    What is released of it is noise alone, and is dropped.
    """
    if not isinstance(plan.keys, DeclaredKeys):
        raise TypeError("statistics are asked of declared groups")
    table = NoisyTotals(plan.keys.groups, tuple(map(tuple, steps))).values(plan)
    kept = [place for place, group in enumerate(plan.keys.groups) if None not in group]
    groups = tuple(plan.keys.groups[place] for place in kept)
    wanted = [output.expression for output in plan.query.outputs]
    aggregates = [part for part in wanted if isinstance(part, Aggregate)]
    places, scales = zip(*(_place(plan, part) for part in aggregates), strict=True)
    columns, factors = list(places), np.array(scales)
    noise = reference_noise(plan)[:, columns] * factors
    values = table[np.ix_(kept, columns)] * factors
    return Sums(groups, values, noise, total_variances(plan)[columns] * factors**2)


def _place(plan: Plan, aggregate: Aggregate) -> tuple[int, float]:
    """Return where the total of an output stands, and what one unit of it means."""
    statistic = next(one for one in plan.statistics if one.aggregate == aggregate)
    if aggregate.function is Aggregation.SUM and statistic.rows is None:
        place = statistic.value
        grid = plan.totals[place].grid if place is not None else None
        if place is not None and grid is not None:
            return place, float(grid.step)
    if aggregate.function is Aggregation.COUNT and statistic.rows is not None:
        return statistic.rows, 1.0
    raise TypeError("only counts and plain sums are read")


def total_variances(plan: Plan) -> Floats:
    """Return the variance of each total's noise, in the total's own units.

    Why: that of the two-sided geometric law is 1 / (cosh(1 / b) - 1); a box of d sides has a
         Gamma(d + 1) radius with mean square (d + 1)(d + 2), times a uniform place of mean square
         h^2 / 3; rounding to whole steps adds 1 / 12.
    """
    law = plan.noise.law
    match law:
        case DiscreteLaplace():
            steps = [1.0 / (np.cosh(min(1.0 / law.scale, HIGHEST_RATE)) - 1.0)]
        case BoxNoise(half_widths=widths):
            spread = (len(widths) + 1) * (len(widths) + 2) / 3.0
            steps = [_rounded(spread * float(width) ** 2) for width in widths]
        case laws:
            steps = [_rounded(float(one.sigma_squared)) for one in laws]
    sizes = np.array([float(size) for size in plan.noise.steps])
    variances: Floats = np.array(steps, dtype=np.float64) * sizes**2
    return variances


def _rounded(variance: float) -> float:
    """Return the variance after rounding to whole steps; noise far below a step is rounded away."""
    return variance + min(variance, 1.0 / 12.0)
