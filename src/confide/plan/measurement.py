"""`Measurement`: what to measure, free of any price."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, assert_never

from confide.declare import Catalog, Float, Kind, Row, Table
from confide.errors import UnsupportedQuery
from confide.expressions.functions import Aggregation, Function
from confide.expressions.tree import AggregateCall, Call, Column, Expression, Literal, walk
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
from confide.plan.keys import DeclaredKeys, Domain, declared_keys, domain_of, keep_keys
from confide.plan.quantiles import HistogramCount, read_level
from confide.plan.range_analysis import Range, RangeAnalysis
from confide.plan.range_arithmetic import Ranges, narrow
from confide.plan.totals import LARGEST_SQUARED, Measure, Total, bound_of, grid_for
from confide.query.canonical import canonical
from confide.query.tree import Query

__all__ = ["Domains", "Measurement", "PlannedAggregate", "make_measurement"]

LARGEST_CHOSEN: Final = 1e300
CENTRED: Final = (Aggregation.MEAN, Aggregation.VARIANCE, Aggregation.STDDEV)


@dataclass(frozen=True, slots=True)
class PlannedAggregate:
    """One aggregate of the question, by the places of what it is computed from.

    ``rows``, ``value`` and ``square`` are places of totals, ``quantile`` is one of quantiles.
    """

    aggregate: AggregateCall
    rows: int | None = None
    value: int | None = None
    square: int | None = None
    quantile: int | None = None


Domains = tuple[Domain | None, ...]


@dataclass(frozen=True, slots=True)
class Measurement:
    """What is read of the rows to answer a query; it follows from the declaration alone.

    Rows count where ``where`` holds: the query's WHERE, and a FILTER that all aggregates share.
    ``text`` is the canonical text of the query: equal texts, equal measurements. ``keys`` is None
    where nobody declared them. ``levels`` are the quantiles: the place of a histogram, and a level.
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
        """Whether the owner wants no count shown below zero."""
        return leftmost_table(self.query.source, self.catalog).nonnegative

    @property
    def answered(self) -> int | None:
        """How many groups are answered; None where the rows decide it."""
        return len(self.keys.groups) if self.keys is not None else None


def make_measurement(
    query: Query, catalog: Catalog, facts: PublicFacts, *, may_select: bool
) -> Measurement:
    """Return what to measure for ``query``, or refuse it.

    ``may_select`` says whether the budget has a delta for keys that nobody declared.
    """
    contribution = contribution_bounds(query.source, catalog, facts)
    ranges = ranges_of(query.source, catalog, facts)
    check_sizes(query, ranges)
    domains, kept = _domains(query, ranges)
    keys = declared_keys(kept, may_select=may_select)
    answered = len(keys.groups) if keys is not None else None
    aggregates = tuple(_aggregates(query))
    shared = _shared_filter(aggregates) if keys is not None else None
    tables = private_tables(query.source, catalog)
    wanted = _Totals(tables, RangeAnalysis(ranges), aggregates, answered, shared)
    _check_news(wanted)
    statistics = tuple(wanted.statistic(aggregate) for aggregate in wanted.aggregates)
    return Measurement(
        text=canonical(query),
        query=query,
        where=_both(query.where, shared),
        ranges=ranges,
        contribution=contribution,
        totals=tuple(wanted.places),
        statistics=statistics,
        domains=domains,
        keys=keys,
        has_unit=not isinstance(unit_of(query.source, catalog), Row),
        catalog=catalog,
        facts=facts,
        histograms=tuple(wanted.histograms),
        levels=tuple(wanted.levels),
    )


def _check_news(wanted: "_Totals") -> None:
    """Refuse to be paid for keys that the declaration tells."""
    if wanted.answered is not None and not wanted.aggregates:
        raise UnsupportedQuery(
            "all of these keys are known from the declaration, so this tells nothing about rows; "
            "add a statistic, such as COUNT(*)"
        )


def _domains(query: Query, ranges: Ranges) -> tuple[Domains, Domains]:
    """Return the values of each key, and of these only what rows that WHERE keeps may have."""
    for key in query.keys:
        check_exact(key, ranges, query.source)
    optional, fewer = optional_tables(query.source), narrow(ranges, query.where)
    domains = tuple(domain_of(key, ranges, optional) for key in query.keys)
    kept = (domain_of(key, fewer, optional) for key in query.keys)
    return domains, tuple(map(keep_keys, domains, kept))


def _aggregates(query: Query) -> dict[AggregateCall, None]:
    """Return the different aggregates of a question, in the order in which they occur."""
    tops = [output.expression for output in query.outputs]
    tops += [query.having] if query.having is not None else []
    tops += [order.expression for order in query.order]
    parts = (part for top in tops for part in walk(top))
    return dict.fromkeys(part for part in parts if isinstance(part, AggregateCall))


def _shared_filter(aggregates: tuple[AggregateCall, ...]) -> Expression | None:
    """Return the FILTER of all aggregates, which is applied like WHERE, or None.

    Why: rows that fail it count in no aggregate, so leaving them out before a unit's rows are
         bounded changes no noise-free answer except that fewer of the rows in it are dropped. The
         groups must not depend on it: it applies to declared keys only, and `_domains` ignores it.
    """
    filters = {aggregate.where for aggregate in aggregates}
    return filters.pop() if len(filters) == 1 else None


def _both(*conditions: Expression | None) -> Expression | None:
    """Return the condition that all of these hold."""
    known = tuple(one for one in conditions if one is not None)
    return Call(Function.AND, known, Kind.BOOL) if len(known) > 1 else next(iter(known), None)


@dataclass(frozen=True, slots=True)
class _Totals:
    """Collects the totals and histograms that a question needs, each once.

    ``shared`` is the FILTER that rows have passed already.
    """

    tables: Mapping[str, Table]
    finder: RangeAnalysis
    aggregates: tuple[AggregateCall, ...]
    answered: int | None
    shared: Expression | None = None
    places: dict[Total, int] = field(default_factory=dict)
    histograms: dict[HistogramCount, int] = field(default_factory=dict)
    levels: dict[tuple[int, Fraction], int] = field(default_factory=dict)

    def place(self, total: Total) -> int:
        return self.places.setdefault(total, len(self.places))

    def statistic(self, aggregate: AggregateCall) -> PlannedAggregate:
        argument, where = aggregate.argument, self._where(aggregate)
        match aggregate.function:
            case Aggregation.COUNT:
                return PlannedAggregate(
                    aggregate, rows=self.place(Total(Measure.ROWS, argument, where))
                )
            case Aggregation.COUNT_UNITS:
                return PlannedAggregate(
                    aggregate, rows=self.place(Total(Measure.UNITS, None, where))
                )
            case Aggregation.SUM if not self._has_mean(aggregate):
                return PlannedAggregate(aggregate, value=self._value(aggregate, centred=False))
            case Aggregation.SUM | Aggregation.MEAN:
                return PlannedAggregate(
                    aggregate, rows=self._rows(aggregate), value=self._value(aggregate)
                )
            case Aggregation.VARIANCE | Aggregation.STDDEV:
                value = self._value(aggregate)
                return PlannedAggregate(
                    aggregate,
                    rows=self._rows(aggregate),
                    value=value,
                    square=self._square(aggregate),
                )
            case Aggregation.QUANTILE:
                return PlannedAggregate(aggregate, quantile=self._quantile(aggregate))
            case _:
                assert_never(aggregate.function)

    def _has_mean(self, aggregate: AggregateCall) -> bool:
        """Whether the sum can share the centred total of a mean or a variance."""
        return any(
            other.function in CENTRED
            and (other.argument, other.where) == (aggregate.argument, aggregate.where)
            for other in self.aggregates
        )

    def _where(self, aggregate: AggregateCall) -> Expression | None:
        return None if self.shared is not None else aggregate.where

    def _rows(self, aggregate: AggregateCall) -> int:
        return self.place(Total(Measure.ROWS, aggregate.argument, self._where(aggregate)))

    def _value(self, aggregate: AggregateCall, *, centred: bool = True) -> int:
        argument = _argument(aggregate)
        grid = grid_for(
            bound_of(argument, self.finder),
            argument.kind,
            self._step(argument),
            centred=centred,
        )
        return self.place(Total(Measure.VALUE, argument, self._where(aggregate), grid))

    def _square(self, aggregate: AggregateCall) -> int:
        """Place the total of squared distances from the centre of the range."""
        argument = _argument(aggregate)
        found = bound_of(argument, self.finder)
        grid = grid_for(found, argument.kind, self._step(argument), centred=True)
        centre = Literal(float(grid.centre), Kind.FLOAT)
        distance = Call(Function.SUBTRACT, (argument, centre), Kind.FLOAT)
        square = Call(Function.MULTIPLY, (distance, distance), Kind.FLOAT)
        if max(abs(found.low), abs(found.high)) > LARGEST_SQUARED:
            raise UnsupportedQuery("squares of such large numbers cannot be added up; scale them")
        furthest = max(abs(found.low - float(grid.centre)), abs(found.high - float(grid.centre)))
        spread = grid_for(Range(0.0, furthest**2), Kind.FLOAT, None, centred=True)
        return self.place(Total(Measure.VALUE, square, self._where(aggregate), spread))

    def _quantile(self, aggregate: AggregateCall) -> int:
        """Place a quantile of the histogram of its argument."""
        level, argument = read_level(aggregate.level), _argument(aggregate)
        is_whole = argument.kind is Kind.INT
        step = Fraction(1) if is_whole else self._step(argument)
        cells = cells_for(
            bound_of(argument, self.finder, LARGEST_CHOSEN), step, self.answered, is_whole=is_whole
        )
        if cells is None:
            raise UnsupportedQuery(
                f"a quantile of {self.answered:,} groups is too much to count; group by fewer keys"
            )
        found = HistogramCount(argument, self._where(aggregate), cells)
        place = self.histograms.setdefault(found, len(self.histograms))
        return self.levels.setdefault((place, level), len(self.levels))

    def _step(self, argument: Expression) -> Fraction | None:
        """Return the declared step of a bare column."""
        if not isinstance(argument, Column):
            return None
        table = self.tables.get(argument.table)
        declared = table.columns.get(argument.name) if table is not None else None
        return declared.step if isinstance(declared, Float) else None


def _argument(aggregate: AggregateCall) -> Expression:
    if aggregate.argument is None:
        raise UnsupportedQuery(f"{aggregate.function} needs an expression to add up")
    return aggregate.argument
