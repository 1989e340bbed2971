"""Contribution bounds of one unit, and the column ranges of a source."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, assert_never

from confide.aggregates import UnitForm, function_of
from confide.declare import Bool, Catalog, Category, Date, Float, Int, Kind, Row, Table, Text
from confide.declare import Column as Declared
from confide.errors import UnsupportedQuery
from confide.expressions.tree import AggregateCall, Column, Expression, substitute, walk
from confide.plan.checks import check_exact
from confide.plan.range_analysis import ANYTHING, EXACT, TRUTH, Range, RangeAnalysis, range_of
from confide.plan.range_arithmetic import Ranges
from confide.plan.totals import bound_of, grid_for
from confide.query.scope import PER_UNIT_ADVICE
from confide.query.tree import Join, JoinKind, PerUnit, Scan, Source

__all__ = [
    "INNER",
    "ContributionBounds",
    "PublicFacts",
    "UnitColumns",
    "contribution_bounds",
    "declared_range",
    "leftmost_table",
    "optional_tables",
    "private_tables",
    "ranges_of",
    "unit_columns",
    "unit_of",
]

INNER: Final = "the unit's"  # no declared name has a space


class PublicFacts(Protocol):
    """What may be known of public tables, for they are about no one."""

    def ranges(self, table: str) -> Mapping[str, Range]:
        """Return where the values of each column lie."""
        ...

    def is_unique(self, table: str, columns: Sequence[str]) -> bool:
        """Tell whether these columns differ from row to row."""
        ...


@dataclass(frozen=True, slots=True)
class ContributionBounds:
    """At most this many rows and groups of a unit; ``is_cut`` says the engine must see to it.

    Claim: after the cut, one unit has at most ``rows`` rows in at most ``groups`` groups, and which
           rows of a unit stay depends on that unit's rows alone.
    Why:   rows and groups are ordered by a keyed hash of what they hold, then by what they hold, so
           equal places hold equal rows; without a cut, the declaration promises one row a unit,
           and a join with one partner a row keeps it so.
    """

    rows: int
    groups: int
    is_cut: bool


def contribution_bounds(source: Source, catalog: Catalog, facts: PublicFacts) -> ContributionBounds:
    """Return how many rows and groups of a unit ``source`` may hold."""
    match source:
        case Scan(table=name):
            table = catalog.private[name]
            return ContributionBounds(
                table.max_rows_per_unit, table.max_groups_per_unit, not table.unique
            )
        case PerUnit():
            return ContributionBounds(rows=1, groups=1, is_cut=False)
        case Join(left=left, right=Scan(table=name), public=True, on=pairs):
            inner, ranges = (
                contribution_bounds(left, catalog, facts),
                ranges_of(left, catalog, facts),
            )
            for partner, _ in pairs:
                check_exact(partner, ranges, left)
            # Privacy: two types compare in a third one, in which what differs may be equal.
            same_types = all(left.kind is column.kind for left, column in pairs)
            if same_types and facts.is_unique(name, [column.name for _, column in pairs]):
                return inner
            if isinstance(unit_of(left, catalog), Row):
                raise UnsupportedQuery(
                    f"a row can meet several rows of {name!r}, and without a unit column they "
                    "cannot be limited; join on columns that tell its rows apart"
                )
            return ContributionBounds(inner.rows, inner.groups, is_cut=True)
        case Join(left=left, right=right):
            first, second = (
                contribution_bounds(left, catalog, facts),
                contribution_bounds(right, catalog, facts),
            )
            rows = first.rows * second.rows
            is_cut = first.is_cut or second.is_cut
            return ContributionBounds(rows, min(rows, first.groups * second.groups), is_cut)
        case _:
            assert_never(source)


def ranges_of(source: Source, catalog: Catalog, facts: PublicFacts) -> Ranges:
    """Return the range of every column that the source's rows have."""
    match source:
        case Scan(table=name, alias=alias) if name in catalog.private:
            columns = catalog.private[name].columns.items()
            return {(alias, column): declared_range(declared) for column, declared in columns}
        case Scan(table=name, alias=alias):
            return {(alias, column): found for column, found in facts.ranges(name).items()}
        case PerUnit(outputs=outputs, alias=alias):
            inner = unit_columns(source, catalog, facts)
            return {
                (alias, output.name): range_of(inner.over_columns(output.expression), inner.ranges)
                for output in outputs
            }
        case Join(left=left, right=right):
            return {
                **ranges_of(left, catalog, facts),
                **ranges_of(right, catalog, facts),
            }
        case _:
            assert_never(source)


def optional_tables(source: Source) -> frozenset[str]:
    """Return the tables, by their names in a question, of which a row may have no partner."""
    if not isinstance(source, Join):
        return frozenset()
    is_optional = source.kind is JoinKind.LEFT
    return optional_tables(source.left) | ({source.right.alias} if is_optional else frozenset())


def declared_range(column: Declared) -> Range:
    """Return what a declaration promises of a column, once its values are clipped."""
    match column:
        case Int(low=low, high=high):
            return Range(low, high)
        case Float(low=least, high=most):
            return Range(float(least), float(most))
        case Category(values=values):
            codes: list[float] = [value for value in values if isinstance(value, int)]
            codes = codes or [-math.inf, math.inf]
            return Range(min(codes), max(codes), values)
        case Date(low=first, high=last):
            return Range(first.toordinal(), last.toordinal())
        case Bool():
            return TRUTH
        case Text():
            return ANYTHING


def unit_of(source: Source, catalog: Catalog) -> str | Row:
    """Return the unit of the leftmost table."""
    return leftmost_table(source, catalog).unit


def leftmost_table(source: Source, catalog: Catalog) -> Table:
    """Return the private table whose rows a question is about first."""
    match source:
        case Scan(table=name):
            return catalog.private[name]
        case PerUnit(source=inner) | Join(left=inner):
            return leftmost_table(inner, catalog)
        case _:
            assert_never(source)


def private_tables(source: Source, catalog: Catalog) -> Mapping[str, Table]:
    """Return the private tables that are read row by row, by their names in the question."""
    match source:
        case Scan(table=name, alias=alias):
            return {alias: catalog.private[name]} if name in catalog.private else {}
        case Join(left=left, right=right):
            return {**private_tables(left, catalog), **private_tables(right, catalog)}
        case PerUnit():
            return {}
        case _:
            assert_never(source)


@dataclass(frozen=True, slots=True)
class UnitColumns:
    """The statistics of a unit's own rows, as columns ``g0``, ``g1``, ... of one row a unit."""

    limits: ContributionBounds
    inner: Ranges
    aggregates: tuple[AggregateCall, ...]
    ranges: Ranges

    def over_columns(self, expression: Expression) -> Expression:
        """Return an expression over aggregates as one over these columns."""
        return substitute(
            expression,
            {
                aggregate: Column(INNER, f"g{place}", aggregate.kind)
                for place, aggregate in enumerate(self.aggregates)
            },
        )


def unit_columns(source: PerUnit, catalog: Catalog, facts: PublicFacts) -> UnitColumns:
    """Return the columns of a per-unit question, with ranges that follow from the unit's limits."""
    limits = contribution_bounds(source.source, catalog, facts)
    inner = ranges_of(source.source, catalog, facts)
    parts = (part for output in source.outputs for part in walk(output.expression))
    aggregates = tuple(dict.fromkeys(part for part in parts if isinstance(part, AggregateCall)))
    if any(function_of(aggregate).unit_form is None for aggregate in aggregates):
        raise UnsupportedQuery(PER_UNIT_ADVICE)
    finder = RangeAnalysis(inner)
    ranges = {
        (INNER, f"g{place}"): _statistic_range(aggregate, finder, limits.rows)
        for place, aggregate in enumerate(aggregates)
    }
    return UnitColumns(limits, inner, aggregates, ranges)


def _statistic_range(aggregate: AggregateCall, finder: RangeAnalysis, rows: int) -> Range:
    """Return where a statistic of at most ``rows`` rows can lie, or refuse what has no bounds."""
    form = function_of(aggregate).unit_form
    if aggregate.argument is None or form is UnitForm.COUNT:
        return Range(0, rows)
    found = _on_grid(bound_of(aggregate.argument, finder), aggregate.argument.kind, rows)
    if form is UnitForm.SUM:
        return Range(min(found.low, found.low * rows), max(found.high, found.high * rows))
    return Range(float(found.low), float(found.high))


def _on_grid(found: Range, kind: Kind | None, rows: int) -> Range:
    """Return where values lie that are rounded to their grid, added up and made real again.

    Why: the last step of a grid may lie past the end of the range. So many steps that doubles do
         not hold them all are rounded; steps of a power of 2 are multiplied exactly.
    """
    if kind is Kind.INT and found.largest <= EXACT:
        return found
    grid = grid_for(found, kind, None, centred=False)
    low, high = float(grid.low * grid.step), float(grid.high * grid.step)
    is_exact = rows * grid.largest <= EXACT and not grid.step.denominator & (
        grid.step.denominator - 1
    )
    room = 0.0 if is_exact else max(abs(low), abs(high)) / 2**50
    return Range(min(float(found.low), low) - room, max(float(found.high), high) + room)
