"""`Measurement`: everything that an engine must compute for a query, before it has a price.

The planner makes a measurement from a query whose aggregates are known (`Split`). A measurement
lists the totals (exact sums per group) and the quantiles that the aggregates need, the ranges of
all columns, and the group keys. `make_plan` turns it into a plan for a share of the budget.
"""

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

    ``parts`` lists its needs in order, each with an index into the measurement's ``totals`` or, for
    a quantile, into its ``levels``. A need with several levels is listed once per level.
    """

    aggregate: AggregateCall
    parts: tuple[tuple[Need, int], ...]

    @property
    def only_total(self) -> int | None:
        """The index of its only total, or None if it needs several totals or a quantile."""
        match self.parts:
            case ((need, index),) if not isinstance(need, ChooseQuantiles):
                return index
            case _:
                return None

    @property
    def quantiles(self) -> tuple[int, ...]:
        """The indices of its quantiles."""
        return tuple(index for need, index in self.parts if isinstance(need, ChooseQuantiles))


Domains = tuple[Domain | None, ...]
"""The domain of each group key, or None where it is unknown."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Everything to read from the rows for a query; it depends on the query and declaration alone.

    - ``text``: the canonical text of the query. Measurements with the same text are equal.
    - ``where``: the rows that count: the query's WHERE, and, if keys are declared, a FILTER shared
      by all aggregates.
    - ``contribution``: the maximum number of rows and groups of a unit.
    - ``totals``: the exact sums computed per group.
    - ``statistics``: the query's aggregates, with the indices of their totals and quantiles.
    - ``domains``: the values of each key before WHERE is applied, or None if they are unknown.
    - ``keys``: the groups of the answer, or None if keys are undeclared.
    - ``has_unit``: whether a column identifies units; otherwise every row is a unit.
    - ``histograms``: the counts of rows by cell, from which quantiles are chosen.
    - ``levels``: the quantiles, each as the index of a histogram and a level.
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
    """Refuse a query that only lists declared keys: its answer follows from the declaration."""
    if collector.group_count is not None and not collector.aggregates:
        raise UnsupportedQuery(
            "All of these keys are declared, so listing them reveals nothing about the rows. Add a "
            "statistic, such as `COUNT(*)`."
        )


def _domains(query: Query, ranges: Ranges) -> tuple[Domains, Domains]:
    """Return the domain of each key, and its domain restricted to rows that satisfy WHERE."""
    for key in query.keys:
        check_exact(key, ranges, query.source)
    optional, narrowed = optional_tables(query.source), narrow(ranges, query.where)
    domains = tuple(domain_of(key, ranges, optional) for key in query.keys)
    kept = (domain_of(key, narrowed, optional) for key in query.keys)
    return domains, tuple(map(narrow_domain, domains, kept))


def _shared_filter(aggregates: tuple[AggregateCall, ...]) -> Expression | None:
    """Return the FILTER that all aggregates share, or None; it is applied like WHERE.

    Why: rows that fail it count in no aggregate. Removing them before contribution bounding changes
         no noise-free answer, except that fewer of the remaining rows are dropped. The groups of
         the answer must not depend on it: the caller asks only if keys are declared, and `_domains`
         ignores it.
    """
    filters = {aggregate.where for aggregate in aggregates}
    return filters.pop() if len(filters) == 1 else None


def _conjunction(*conditions: Expression | None) -> Expression | None:
    """Return the conjunction of the conditions that are not None."""
    known = tuple(condition for condition in conditions if condition is not None)
    return Call(Function.AND, known, Kind.BOOL) if len(known) > 1 else next(iter(known), None)


@dataclass(frozen=True, slots=True)
class _Totals:
    """Collects the totals and histograms that a query needs, without duplicates.

    ``places``, ``histograms``, and ``levels`` map each total, histogram, and quantile to its index.
    ``shared`` is the FILTER shared by all aggregates, which is then removed from each of them.
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
        """Return the index of a total, and register it if it is new."""
        return self.places.setdefault(total, len(self.places))

    def statistic(self, aggregate: AggregateCall) -> PlannedAggregate:
        """Register everything that an aggregate needs; return it with the indices of its parts."""
        call, *siblings = (
            self._without_shared_filter(each) for each in (aggregate, *self.aggregates)
        )
        needs = function_of(call).needs(call, siblings)
        parts = ((need, index) for need in needs for index in self._register(need))
        return PlannedAggregate(aggregate, tuple(parts))

    def _without_shared_filter(self, aggregate: AggregateCall) -> AggregateCall:
        return aggregate if self.shared is None else replace(aggregate, where=None)

    def _register(self, need: Need) -> Iterator[int]:
        """Register the totals or quantiles of a need, and yield their indices."""
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
        """Register the sum of (x - center of x) * (y - center of y), and return its index."""
        (left, left_range), (right, right_range) = map(self._distance, (need.left, need.right))
        product = Call(Function.MULTIPLY, (left, right), Kind.FLOAT)
        is_square = left == right
        found = _square(left_range) if is_square else _multiply(left_range, right_range)
        grid = grid_for(found, Kind.FLOAT, None, centered=True)
        return self.place(Total(Measure.VALUE, product, need.where, grid))

    def _distance(self, argument: Expression) -> tuple[Expression, Range]:
        """Return an argument minus the center of its grid, and the range of the difference."""
        center = float(self._grid(argument).center)
        found = bound_of(argument, self.analysis)
        if max(abs(found.low), abs(found.high)) > MAX_SQUARED_INPUT:
            raise UnsupportedQuery(
                "These numbers are too large to square. Divide them by a constant, such as 1e9."
            )
        distance = Call(Function.SUBTRACT, (argument, Literal(center, Kind.FLOAT)), Kind.FLOAT)
        return distance, Range(found.low - center, found.high - center)

    def _quantile(self, need: ChooseQuantiles, level: Fraction) -> int:
        """Register a quantile and the histogram of its argument; return the quantile's index."""
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
                f"A quantile cannot be computed for {self.group_count:,} groups. Group by fewer "
                "keys."
            )
        found = HistogramCount(argument, need.where, cells)
        index = self.histograms.setdefault(found, len(self.histograms))
        return self.levels.setdefault((index, level), len(self.levels))

    def _step(self, argument: Expression) -> Fraction | None:
        """Return the declared step if the argument is a float column, or None."""
        if not isinstance(argument, Column):
            return None
        table = self.tables.get(argument.table)
        declared = table.columns.get(argument.name) if table is not None else None
        return declared.step if isinstance(declared, Float) else None


def _square(found: Range) -> Range:
    return Range(0.0, max(abs(found.low), abs(found.high)) ** 2)


def _multiply(left: Range, right: Range) -> Range:
    corners = [x * y for x in (left.low, left.high) for y in (right.low, right.high)]
    return Range(min(corners), max(corners))
