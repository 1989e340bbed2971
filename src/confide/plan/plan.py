"""How a question will be answered: limits, exact totals, noise, keys. Reads no row."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, assert_never

from confide.declare import Catalog, Float, Kind, Row, Table
from confide.errors import BadDeclaration, UnsupportedQuery
from confide.loss import GaussianLoss, PureLoss
from confide.mechanisms import Neighbours
from confide.plan.keys import DeclaredKeys, Domain, EarnedKeys, domain_of, plan_keys
from confide.plan.noise import Reach, TotalNoise, noise_for, reach_of
from confide.plan.ranges import Range, Ranges, range_of
from confide.plan.sizes import check_sizes
from confide.plan.sources import Contribution, PublicFacts, limits_of, ranges_of, unit_of
from confide.plan.totals import Measure, Total, grid_for
from confide.query.functions import Aggregation, Function
from confide.query.tree import (
    Aggregate,
    Call,
    Column,
    Expression,
    Join,
    Literal,
    PerUnit,
    Query,
    Scan,
    Source,
    walk,
)

__all__ = ["Plan", "Statistic", "make_plan"]


@dataclass(frozen=True, slots=True)
class Statistic:
    """One aggregate of the question, by the places of the totals that it is computed from."""

    aggregate: Aggregate
    rows: int | None = None
    value: int | None = None
    square: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that answering needs, fixed before the first row is read."""

    query: Query
    ranges: Ranges
    contribution: Contribution
    totals: tuple[Total, ...]
    statistics: tuple[Statistic, ...]
    domains: tuple[Domain | None, ...]
    keys: DeclaredKeys | EarnedKeys
    reach: Reach
    loss: PureLoss | GaussianLoss
    noise: TotalNoise
    has_unit: bool
    catalog: Catalog
    facts: PublicFacts

    @property
    def failure(self) -> Fraction:
        """The probability that naming keys tells of a single unit."""
        return (
            self.keys.selection.loss.failure if isinstance(self.keys, EarnedKeys) else Fraction(0)
        )


def make_plan(
    query: Query,
    catalog: Catalog,
    facts: PublicFacts,
    neighbours: Neighbours,
    loss: PureLoss | GaussianLoss,
    *,
    failure: Fraction = Fraction(0),
) -> Plan:
    """Return how to answer ``query`` at the cost of ``loss``, or refuse it.

    ``failure`` is the delta that keys may use which nobody declared.
    """
    check_sizes(query)
    contribution = limits_of(query.source, catalog, facts)
    ranges = ranges_of(query.source, catalog, facts)
    domains = tuple(domain_of(key, ranges) for key in query.keys)
    with _enough_noise():
        keys, rest = plan_keys(domains, contribution.groups, neighbours, loss, failure)
    wanted = _Totals(_tables(query.source, catalog), ranges, tuple(_aggregates(query)))
    statistics = tuple(wanted.statistic(aggregate) for aggregate in wanted.aggregates)
    totals = tuple(wanted.places)
    answered = len(keys.groups) if isinstance(keys, DeclaredKeys) else None
    reach = reach_of(totals, contribution, neighbours, answered)
    with _enough_noise():
        noise = noise_for(totals, reach, rest)
    return Plan(
        query=query,
        ranges=ranges,
        contribution=contribution,
        totals=totals,
        statistics=statistics,
        domains=domains,
        keys=keys,
        reach=reach,
        loss=loss,
        noise=noise,
        has_unit=not isinstance(unit_of(query.source, catalog), Row),
        catalog=catalog,
        facts=facts,
    )


@contextmanager
def _enough_noise() -> Iterator[None]:
    """Turn noise beyond what can be added into the analyst's to mend: the cost is too small."""
    try:
        yield
    except BadDeclaration:
        raise UnsupportedQuery(
            "so small a cost would need more noise than can be added; ask with a larger epsilon or "
            "share"
        ) from None


def _aggregates(query: Query) -> dict[Aggregate, None]:
    """Return the different aggregates of a question, in the order in which they occur."""
    tops = [output.expression for output in query.outputs]
    tops += [query.having] if query.having is not None else []
    tops += [order.expression for order in query.order]
    parts = (part for top in tops for part in walk(top))
    return dict.fromkeys(part for part in parts if isinstance(part, Aggregate))


def _tables(source: Source, catalog: Catalog) -> Mapping[str, Table]:
    """Return the private tables that are read row by row, by their names in the question."""
    match source:
        case Scan(table=name, alias=alias):
            return {alias: catalog.private[name]} if name in catalog.private else {}
        case Join(left=left, right=right):
            return {**_tables(left, catalog), **_tables(right, catalog)}
        case PerUnit():
            return {}
        case _:
            assert_never(source)


@dataclass(frozen=True, slots=True)
class _Totals:
    """Collects the totals that a question needs, each once."""

    tables: Mapping[str, Table]
    ranges: Ranges
    aggregates: tuple[Aggregate, ...]
    places: dict[Total, int] = field(default_factory=dict)

    def place(self, total: Total) -> int:
        return self.places.setdefault(total, len(self.places))

    def statistic(self, aggregate: Aggregate) -> Statistic:
        argument, where = aggregate.argument, aggregate.where
        match aggregate.function:
            case Aggregation.COUNT:
                return Statistic(aggregate, rows=self.place(Total(Measure.ROWS, argument, where)))
            case Aggregation.COUNT_UNITS:
                return Statistic(aggregate, rows=self.place(Total(Measure.UNITS, None, where)))
            case Aggregation.SUM if not self._has_mean(aggregate):
                return Statistic(aggregate, value=self._value(aggregate, centred=False))
            case Aggregation.SUM | Aggregation.MEAN:
                return Statistic(
                    aggregate, rows=self._rows(aggregate), value=self._value(aggregate)
                )
            case Aggregation.VARIANCE | Aggregation.STDDEV:
                value = self._value(aggregate)
                return Statistic(
                    aggregate,
                    rows=self._rows(aggregate),
                    value=value,
                    square=self._square(aggregate),
                )
            case Aggregation.QUANTILE:
                raise UnsupportedQuery("quantiles cannot be asked yet; ask for COUNT, SUM or AVG")
            case _:
                assert_never(aggregate.function)

    def _has_mean(self, aggregate: Aggregate) -> bool:
        """Whether the sum can share the centred total of a mean or a variance."""
        return any(
            other.function in CENTRED
            and (other.argument, other.where) == (aggregate.argument, aggregate.where)
            for other in self.aggregates
        )

    def _rows(self, aggregate: Aggregate) -> int:
        return self.place(Total(Measure.ROWS, aggregate.argument, aggregate.where))

    def _value(self, aggregate: Aggregate, *, centred: bool = True) -> int:
        argument = _argument(aggregate)
        grid = grid_for(self._range(argument), argument.kind, self._step(argument), centred=centred)
        return self.place(Total(Measure.VALUE, argument, aggregate.where, grid))

    def _square(self, aggregate: Aggregate) -> int:
        """Place the total of squared distances from the centre of the range."""
        argument = _argument(aggregate)
        found = self._range(argument)
        grid = grid_for(found, argument.kind, self._step(argument), centred=True)
        centre = Literal(float(grid.centre), Kind.FLOAT)
        distance = Call(Function.SUBTRACT, (argument, centre), Kind.FLOAT)
        square = Call(Function.MULTIPLY, (distance, distance), Kind.FLOAT)
        if max(abs(found.low), abs(found.high)) > LARGEST_SQUARED:
            raise UnsupportedQuery("squares of such large numbers cannot be added up; scale them")
        furthest = max(abs(found.low - float(grid.centre)), abs(found.high - float(grid.centre)))
        spread = grid_for(Range(0.0, furthest**2), Kind.FLOAT, None, centred=True)
        return self.place(Total(Measure.VALUE, square, aggregate.where, spread))

    def _range(self, argument: Expression) -> Range:
        found = range_of(argument, self.ranges)
        if argument.kind not in (Kind.INT, Kind.FLOAT):
            raise UnsupportedQuery(
                f"only numbers can be added up, not a {argument.kind} expression"
            )
        if not found.is_bounded:
            raise UnsupportedQuery(
                "this expression has no bounds, so one person could change its sum without limit; "
                "write LEAST(GREATEST(expression, low), high) around it"
            )
        return found

    def _step(self, argument: Expression) -> Fraction | None:
        """Return the declared step of a bare column."""
        if not isinstance(argument, Column):
            return None
        table = self.tables.get(argument.table)
        declared = table.columns.get(argument.name) if table is not None else None
        return declared.step if isinstance(declared, Float) else None


LARGEST_SQUARED: Final = 1e140
CENTRED: Final = (Aggregation.MEAN, Aggregation.VARIANCE, Aggregation.STDDEV)


def _argument(aggregate: Aggregate) -> Expression:
    if aggregate.argument is None:
        raise UnsupportedQuery(f"{aggregate.function} needs an expression to add up")
    return aggregate.argument
