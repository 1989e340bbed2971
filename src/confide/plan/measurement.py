"""`Measurement`: what to measure, without a price."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from confide.aggregates import function_of
from confide.aggregates.needs import (
    ChooseQuantiles,
    CountRows,
    CountUnits,
    Need,
    SumProducts,
    SumValues,
)
from confide.declare import Catalog, Float, Kind, Row, Table
from confide.errors import UnsupportedQuery
from confide.expressions.functions import Function
from confide.expressions.tree import AggregateCall, Call, Column, Expression, Literal
from confide.plan.cells import cells_for
from confide.plan.checks import check_exact, check_sizes
from confide.plan.contribution import (
    ContributionBounds,
    PublicFacts,
    contribution_bounds,
    leftmost_table,
    optional_tables,
    private_tables,
    ranges_of,
    unit_of,
)
from confide.plan.keys import DeclaredKeys, Domain, declared_keys, domain_of, narrow_domain
from confide.plan.quantiles import HistogramCount, read_level
from confide.plan.range_analysis import Range, RangeAnalysis
from confide.plan.range_arithmetic import Ranges, narrow
from confide.plan.totals import MAX_SQUARED_INPUT, Measure, Total, ValueGrid, bound_of, grid_for
from confide.query.canonical import canonical
from confide.query.split import Split
from confide.query.tree import Query

__all__ = ["Domains", "Measurement", "PlannedAggregate", "make_measurement"]

MAX_QUANTILE_INPUT: Final = 1e300


@dataclass(frozen=True, slots=True)
class PlannedAggregate:
    """An aggregate of the query, with the indices of the totals and quantiles it is computed from.

    ``parts`` lists its needs in order, each with the index of a total. For a quantile, the index
    is that of the quantile; a need with several levels is listed once per level.
    """

    aggregate: AggregateCall
    parts: tuple[tuple[Need, int], ...]

    @property
    def only_total(self) -> int | None:
        """The index of its only total, or None if it needs more than that."""
        match self.parts:
            case ((need, place),) if not isinstance(need, ChooseQuantiles):
                return place
            case _:
                return None

    @property
    def quantiles(self) -> tuple[int, ...]:
        """The indices of its quantiles."""
        return tuple(place for need, place in self.parts if isinstance(need, ChooseQuantiles))


Domains = tuple[Domain | None, ...]


@dataclass(frozen=True, slots=True)
class Measurement:
    """Everything to read from the rows for a query; it depends on the declaration alone.

    Rows count if ``where`` is true: the query's WHERE, and a FILTER shared by all aggregates.
    ``text`` is the canonical text of the query; measurements with the same text are equal.
    ``keys`` is None if keys are undeclared. ``levels`` lists the quantiles: a histogram's index
    and a level.
    """

    text: str
    query: Query
    where: Expression | None
    ranges: Ranges
    contribution: ContributionBounds
    totals: tuple[Total, ...]
    statistics: tuple[PlannedAggregate, ...]
    domains: Domains
    keys: DeclaredKeys | None
    has_unit: bool
    catalog: Catalog
    facts: PublicFacts
    histograms: tuple[HistogramCount, ...] = ()
    levels: tuple[tuple[int, Fraction], ...] = ()

    @property
    def is_nonnegative(self) -> bool:
        """Whether the owner requires released counts to be nonnegative."""
        return leftmost_table(self.query.source, self.catalog).nonnegative

    @property
    def group_count(self) -> int | None:
        """The number of groups in the answer, or None if it depends on the rows."""
        return len(self.keys.groups) if self.keys is not None else None


def make_measurement(
    split: Split, catalog: Catalog, facts: PublicFacts, *, may_select: bool
) -> Measurement:
    """Return the measurement for a query that was split, or refuse the query.

    ``may_select`` is whether the budget has a delta for undeclared keys.
    """
    query, aggregates = split.query, split.aggregates
    contribution = contribution_bounds(query.source, catalog, facts)
    ranges = ranges_of(query.source, catalog, facts)
    check_sizes(query, ranges)
    domains, kept = _domains(query, ranges)
    keys = declared_keys(kept, may_select=may_select)
    group_count = len(keys.groups) if keys is not None else None
    shared = _shared_filter(aggregates) if keys is not None else None
    tables = private_tables(query.source, catalog)
    collector = _Totals(tables, RangeAnalysis(ranges), aggregates, group_count, shared)
    _check_informative(collector)
    statistics = tuple(collector.statistic(aggregate) for aggregate in collector.aggregates)
    return Measurement(
        text=canonical(query),
        query=query,
        where=_conjunction(query.where, shared),
        ranges=ranges,
        contribution=contribution,
        totals=tuple(collector.places),
        statistics=statistics,
        domains=domains,
        keys=keys,
        has_unit=not isinstance(unit_of(query.source, catalog), Row),
        catalog=catalog,
        facts=facts,
        histograms=tuple(collector.histograms),
        levels=tuple(collector.levels),
    )


def _check_informative(collector: "_Totals") -> None:
    """Refuse a query whose answer follows from the declaration, so that it is never charged."""
    if collector.group_count is not None and not collector.aggregates:
        raise UnsupportedQuery(
            "all of these keys are known from the declaration, so this tells nothing about rows; "
            "add a statistic, such as COUNT(*)"
        )


def _domains(query: Query, ranges: Ranges) -> tuple[Domains, Domains]:
    """Return the domain of each key, and the domain restricted to rows that satisfy WHERE."""
    for key in query.keys:
        check_exact(key, ranges, query.source)
    optional, narrowed = optional_tables(query.source), narrow(ranges, query.where)
    domains = tuple(domain_of(key, ranges, optional) for key in query.keys)
    kept = (domain_of(key, narrowed, optional) for key in query.keys)
    return domains, tuple(map(narrow_domain, domains, kept))


def _shared_filter(aggregates: tuple[AggregateCall, ...]) -> Expression | None:
    """Return the FILTER shared by all aggregates, which is applied like WHERE, or None.

    Why: rows that fail it count in no aggregate. Removing them before contribution bounding changes
         no noise-free answer, except that fewer of the remaining rows are dropped. The groups must
         not depend on it: it applies to declared keys only, and `_domains` ignores it.
    """
    filters = {aggregate.where for aggregate in aggregates}
    return filters.pop() if len(filters) == 1 else None


def _conjunction(*conditions: Expression | None) -> Expression | None:
    """Return the conjunction of the conditions that are not None."""
    known = tuple(one for one in conditions if one is not None)
    return Call(Function.AND, known, Kind.BOOL) if len(known) > 1 else next(iter(known), None)


@dataclass(frozen=True, slots=True)
class _Totals:
    """Collects the totals and histograms that a query needs, without duplicates.

    ``shared`` is the FILTER that selects rows before aggregation.
    """

    tables: Mapping[str, Table]
    analysis: RangeAnalysis
    aggregates: tuple[AggregateCall, ...]
    group_count: int | None
    shared: Expression | None = None
    places: dict[Total, int] = field(default_factory=dict)
    histograms: dict[HistogramCount, int] = field(default_factory=dict)
    levels: dict[tuple[int, Fraction], int] = field(default_factory=dict)

    def place(self, total: Total) -> int:
        return self.places.setdefault(total, len(self.places))

    def statistic(self, aggregate: AggregateCall) -> PlannedAggregate:
        """Register everything that an aggregate needs, in the order of its needs."""
        call, *siblings = (self._filtered(one) for one in (aggregate, *self.aggregates))
        needs = function_of(call).needs(call, siblings)
        parts = ((need, place) for need in needs for place in self._places(need))
        return PlannedAggregate(aggregate, tuple(parts))

    def _filtered(self, aggregate: AggregateCall) -> AggregateCall:
        return aggregate if self.shared is None else replace(aggregate, where=None)

    def _places(self, need: Need) -> Iterator[int]:
        match need:
            case CountRows(argument=argument, where=where):
                yield self.place(Total(Measure.ROWS, argument, where))
            case CountUnits(where=where):
                yield self.place(Total(Measure.UNITS, None, where))
            case SumValues(argument=argument, where=where, centered=is_centered):
                grid = self._grid(argument, centered=is_centered)
                yield self.place(Total(Measure.VALUE, argument, where, grid))
            case SumProducts():
                yield self._product(need)
            case ChooseQuantiles(levels=levels):
                yield from (self._quantile(need, level) for level in levels)

    def _grid(self, argument: Expression, *, centered: bool = True) -> ValueGrid:
        found = bound_of(argument, self.analysis)
        return grid_for(found, argument.kind, self._step(argument), centered=centered)

    def _product(self, need: SumProducts) -> int:
        """Register the total of products of distances from the centers of both ranges."""
        (left, near), (right, far) = map(self._distance, (need.left, need.right))
        product = Call(Function.MULTIPLY, (left, right), Kind.FLOAT)
        lies = _square(near) if left == right else _multiply(near, far)
        grid = grid_for(lies, Kind.FLOAT, None, centered=True)
        return self.place(Total(Measure.VALUE, product, need.where, grid))

    def _distance(self, argument: Expression) -> tuple[Expression, Range]:
        """Return an argument minus the center of its range, and the range of the difference."""
        center = float(self._grid(argument).center)
        found = bound_of(argument, self.analysis)
        if max(abs(found.low), abs(found.high)) > MAX_SQUARED_INPUT:
            raise UnsupportedQuery("squares of such large numbers cannot be added up; scale them")
        distance = Call(Function.SUBTRACT, (argument, Literal(center, Kind.FLOAT)), Kind.FLOAT)
        return distance, Range(found.low - center, found.high - center)

    def _quantile(self, need: ChooseQuantiles, level: Fraction) -> int:
        """Register a quantile of the histogram of its argument."""
        level, argument = read_level(level), need.argument
        is_integer = argument.kind is Kind.INT
        step = Fraction(1) if is_integer else self._step(argument)
        cells = cells_for(
            bound_of(argument, self.analysis, MAX_QUANTILE_INPUT),
            step,
            self.group_count,
            is_integer=is_integer,
        )
        if cells is None:
            raise UnsupportedQuery(
                f"a quantile of {self.group_count:,} groups is too much to count; group by fewer "
                "keys"
            )
        found = HistogramCount(argument, need.where, cells)
        place = self.histograms.setdefault(found, len(self.histograms))
        return self.levels.setdefault((place, level), len(self.levels))

    def _step(self, argument: Expression) -> Fraction | None:
        """Return the declared step if the argument is a column, or None."""
        if not isinstance(argument, Column):
            return None
        table = self.tables.get(argument.table)
        declared = table.columns.get(argument.name) if table is not None else None
        return declared.step if isinstance(declared, Float) else None


def _square(found: Range) -> Range:
    return Range(0.0, max(abs(found.low), abs(found.high)) ** 2)


def _multiply(left: Range, right: Range) -> Range:
    corners = [one * other for one in (left.low, left.high) for other in (right.low, right.high)]
    return Range(min(corners), max(corners))
