"""Contribution bounds of one unit, and the column ranges of a source.

A *source* is everything in FROM: declared tables, joins, and per-unit subqueries. The planner asks
for its contribution bounds, which determine sensitivities, and for the range of every column. Both
follow from the declaration, and from facts about public tables.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, assert_never

from confide.aggregates import UnitForm, function_of
from confide.declare import (
    Bool,
    Catalog,
    Category,
    Date,
    Float,
    Int,
    Kind,
    Row,
    Table,
    Text,
    Timestamp,
)
from confide.declare import Column as Declared
from confide.declare.columns import to_milliseconds
from confide.errors import UnsupportedQuery
from confide.expressions.tree import AggregateCall, Column, Expression, substitute, walk
from confide.plan.checks import check_exact
from confide.plan.range_analysis import (
    BOOLEAN_RANGE,
    MAX_EXACT_INTEGER,
    UNBOUNDED,
    Range,
    RangeAnalysis,
    range_of,
)
from confide.plan.range_arithmetic import Ranges
from confide.plan.totals import bound_of, grid_for
from confide.query.scope import PER_UNIT_ADVICE
from confide.query.tree import Join, JoinKind, PerUnit, Scan, Source

__all__ = [
    "UNIT_COLUMNS_ALIAS",
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

UNIT_COLUMNS_ALIAS: Final = "the unit's"  # no declared name has a space


class PublicFacts(Protocol):
    """Facts about public tables, which are safe to use because they contain no units."""

    def ranges(self, table: str) -> Mapping[str, Range]:
        """Return the range of each column."""
        ...

    def is_unique(self, table: str, columns: Sequence[str]) -> bool:
        """Return whether no two rows agree in all of these columns."""
        ...


@dataclass(frozen=True, slots=True)
class ContributionBounds:
    """The maximum number of rows and groups of a unit.

    ``needs_bounding`` is whether the engine must enforce these limits by dropping rows.

    Claim: after contribution bounding, one unit has at most ``rows`` rows in at most ``groups``
           groups, and which rows of a unit are kept depends on that unit's rows alone.
    Why:   rows and groups are ordered by a keyed hash of their content, then by the content, so
           ties are between equal rows. Where the engine drops nothing, the declaration or a
           per-unit subquery guarantees one row per unit, and a join with one match per row
           preserves that.
    """

    rows: int
    groups: int
    needs_bounding: bool


def contribution_bounds(source: Source, catalog: Catalog, facts: PublicFacts) -> ContributionBounds:
    """Return the maximum number of rows and groups that a unit can have in ``source``."""
    match source:
        case Scan(table=name):
            table = catalog.private[name]
            return ContributionBounds(
                table.max_rows_per_unit, table.max_groups_per_unit, not table.unique
            )
        case PerUnit():
            return ContributionBounds(rows=1, groups=1, needs_bounding=False)
        case Join(left=left, right=Scan(table=name), public=True, on=pairs):
            inner, ranges = (
                contribution_bounds(left, catalog, facts),
                ranges_of(left, catalog, facts),
            )
            for partner, _ in pairs:
                check_exact(partner, ranges, left)
            # Privacy: values of two types are compared in a third, in which different values may be
            # equal.
            same_types = all(left.kind is column.kind for left, column in pairs)
            if same_types and facts.is_unique(name, [column.name for _, column in pairs]):
                return inner
            if isinstance(unit_of(left, catalog), Row):
                raise UnsupportedQuery(
                    f"A row can match several rows of {name!r}, and without a unit column these "
                    f"cannot be limited. Join on columns that are unique in {name!r}."
                )
            return ContributionBounds(inner.rows, inner.groups, needs_bounding=True)
        case Join(left=left, right=right):
            first, second = (
                contribution_bounds(left, catalog, facts),
                contribution_bounds(right, catalog, facts),
            )
            rows = first.rows * second.rows
            needs_bounding = first.needs_bounding or second.needs_bounding
            return ContributionBounds(rows, min(rows, first.groups * second.groups), needs_bounding)
        case _:
            assert_never(source)


def ranges_of(source: Source, catalog: Catalog, facts: PublicFacts) -> Ranges:
    """Return the range of every column of the source."""
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
    """Return the aliases of the tables in which a row may have no match."""
    if not isinstance(source, Join):
        return frozenset()
    is_optional = source.kind is JoinKind.LEFT
    return optional_tables(source.left) | ({source.right.alias} if is_optional else frozenset())


def declared_range(column: Declared) -> Range:  # noqa: PLR0911  # one for each type
    """Return the range of a declared column, which the engine enforces for every value.

    For a `Text` column, it is the range of the number of characters.
    """
    match column:
        case Int(low=low, high=high):
            return Range(low, high)
        case Float(low=low, high=high):
            return Range(float(low), float(high))
        case Category(values=values):
            codes: list[float] = [value for value in values if isinstance(value, int)]
            codes = codes or [-math.inf, math.inf]
            return Range(min(codes), max(codes), values)
        case Date(low=first, high=last):
            return Range(first.toordinal(), last.toordinal())
        case Timestamp(low=low, high=high):
            return Range(to_milliseconds(low), to_milliseconds(high))
        case Bool():
            return BOOLEAN_RANGE
        case Text(max_length=length):
            return UNBOUNDED if length is None else Range(0, length)


def unit_of(source: Source, catalog: Catalog) -> str | Row:
    """Return the unit of the leftmost table."""
    return leftmost_table(source, catalog).unit


def leftmost_table(source: Source, catalog: Catalog) -> Table:
    """Return the leftmost table of a source, which is always private."""
    match source:
        case Scan(table=name):
            return catalog.private[name]
        case PerUnit(source=inner) | Join(left=inner):
            return leftmost_table(inner, catalog)
        case _:
            assert_never(source)


def private_tables(source: Source, catalog: Catalog) -> Mapping[str, Table]:
    """Return the private tables that are read row by row, by their alias in the query."""
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
    """The exact statistics of each unit's own rows, which a per-unit query computes.

    They are the columns ``g0``, ``g1``, ... of a table with one row per unit, in the order of
    ``aggregates``, and ``ranges`` holds their ranges. ``limits`` and ``inner`` are the contribution
    bounds and the column ranges of the rows of which they are statistics.
    """

    limits: ContributionBounds
    inner: Ranges
    aggregates: tuple[AggregateCall, ...]
    ranges: Ranges

    def over_columns(self, expression: Expression) -> Expression:
        """Return an expression with each aggregate replaced by its column."""
        return substitute(
            expression,
            {
                aggregate: Column(UNIT_COLUMNS_ALIAS, f"g{index}", aggregate.kind)
                for index, aggregate in enumerate(self.aggregates)
            },
        )


def unit_columns(source: PerUnit, catalog: Catalog, facts: PublicFacts) -> UnitColumns:
    """Return the columns of a per-unit query, with ranges that follow from contribution bounds.

    Aggregates that have no form per unit are refused.
    """
    limits = contribution_bounds(source.source, catalog, facts)
    inner = ranges_of(source.source, catalog, facts)
    parts = (part for output in source.outputs for part in walk(output.expression))
    aggregates = tuple(dict.fromkeys(part for part in parts if isinstance(part, AggregateCall)))
    if any(function_of(aggregate).unit_form is None for aggregate in aggregates):
        raise UnsupportedQuery(PER_UNIT_ADVICE)
    analysis = RangeAnalysis(inner)
    ranges = {
        (UNIT_COLUMNS_ALIAS, f"g{index}"): _aggregate_range(aggregate, analysis, limits.rows)
        for index, aggregate in enumerate(aggregates)
    }
    return UnitColumns(limits, inner, aggregates, ranges)


def _aggregate_range(aggregate: AggregateCall, analysis: RangeAnalysis, rows: int) -> Range:
    """Return the range of a statistic over at most ``rows`` rows, or refuse it as unbounded."""
    form = function_of(aggregate).unit_form
    if aggregate.argument is None or form is UnitForm.COUNT:
        return Range(0, rows)
    found = _grid_range(bound_of(aggregate.argument, analysis), aggregate.argument.kind, rows)
    if form is UnitForm.SUM:
        return Range(min(found.low, found.low * rows), max(found.high, found.high * rows))
    return Range(float(found.low), float(found.high))


def _grid_range(found: Range, kind: Kind | None, rows: int) -> Range:
    """Return a range widened so that it holds the mean of values that were summed on a grid.

    The engine rounds each of up to ``rows`` values to the grid, sums them, and converts the sum
    back. The mean of the values, or one of them, may then lie just outside ``found``.

    Why: the last step of a grid may lie past the end of the range. Sums of more steps than a double
         holds exactly are rounded; multiplying by a step that is a power of 2 is exact.
    """
    if kind is Kind.INT and found.largest <= MAX_EXACT_INTEGER:
        return found
    grid = grid_for(found, kind, None, centered=False)
    low, high = float(grid.low * grid.step), float(grid.high * grid.step)
    is_exact = rows * grid.largest <= MAX_EXACT_INTEGER and not grid.step.denominator & (
        grid.step.denominator - 1
    )
    room = 0.0 if is_exact else max(abs(low), abs(high)) / 2**50
    return Range(min(float(found.low), low) - room, max(float(found.high), high) + room)
