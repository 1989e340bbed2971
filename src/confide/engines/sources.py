"""Where rows come from: tables, joins, and one row for each unit."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, assert_never

from sqlglot import expressions as sql

from confide.declare import Catalog, Kind
from confide.engines.cuts import cut_rows
from confide.engines.expressions import Emitter, Sql, case, cast, number, try_cast, typed
from confide.engines.fragments import (
    UNIT,
    column,
    is_known,
    label,
    nested,
    select,
    table,
    unit_column,
)
from confide.engines.parts import exact_sum, whole_part
from confide.expressions.functions import Aggregation
from confide.expressions.tree import Aggregate
from confide.plan import INNER, PublicFacts, UnitColumns, ValueGrid, grid_for, unit_columns
from confide.plan.range_analysis import range_of
from confide.plan.range_arithmetic import Ranges
from confide.query.tree import Join, PerUnit, Scan, Source

__all__ = ["SourceWriter"]

LARGEST_INT: Final = 2**53
ADDED_UP: Final = (Aggregation.SUM, Aggregation.MEAN)


@dataclass(frozen=True, slots=True)
class SourceWriter:
    """Writes the FROM of a statement; ``unit`` says whether units are whole numbers or texts."""

    catalog: Catalog
    facts: PublicFacts
    ranges: Ranges
    salt: str
    unit: Kind = Kind.TEXT

    def attach(self, select: sql.Select, source: Source) -> sql.Select:
        """Return the selection with its rows from ``source``."""
        match source:
            case Scan(table=name, alias=alias):
                return select.from_(table(name, alias), copy=False)
            case PerUnit(alias=alias):
                return select.from_(nested(self._per_unit(source), alias), copy=False)
            case Join(left=left, right=right, kind=kind):
                other = (
                    table(right.table, right.alias)
                    if isinstance(right, Scan)
                    else nested(self._per_unit(right), right.alias)
                )
                rows, on = self.attach(select, left), self._condition(source)
                return rows.join(other, on=on, join_type=kind.value, copy=False)
            case _:
                assert_never(source)

    def _condition(self, join: Join) -> Sql:
        if not join.public:
            left = unit_column(leftmost(join.left))
            return sql.EQ(this=left, expression=unit_column(join.right.alias))
        emitter = Emitter(self.ranges)
        pairs = [
            sql.EQ(this=emitter.emit(left), expression=emitter.emit(right))
            for left, right in join.on
        ]
        return sql.and_(*pairs)

    def _per_unit(self, source: PerUnit) -> sql.Select:
        """Return one row a unit: exact statistics of its rows, cut to their limit first."""
        columns = unit_columns(source, self.catalog, self.facts)
        emitter = Emitter(columns.inner)
        names = [f"a{place}" for place in range(len(columns.aggregates))]
        values = [
            label(_added(aggregate, emitter), name)
            for name, aggregate in zip(names, columns.aggregates, strict=True)
        ]
        unit = label(unit_column(leftmost(source.source)), UNIT)
        inner = replace(self, ranges=columns.inner)
        rows = inner.attach(sql.Select(expressions=[unit, *values]), source.source)
        if source.where is not None:
            rows.set("where", sql.Where(this=emitter.emit(source.where)))
        if columns.limits.is_cut:
            kinds = {UNIT: self.unit, **dict.fromkeys(names, Kind.INT)}
            rows = cut_rows(rows, columns.limits, [], names, f"{self.salt} unit", kinds=kinds)
        return _statistics(source, columns, rows)


def leftmost(source: Source) -> str:
    """Return the alias of the table whose unit the rows of a source are about."""
    return leftmost(source.left) if isinstance(source, Join) else source.alias


def _statistics(source: PerUnit, columns: UnitColumns, rows: sql.Select) -> sql.Select:
    """Return each unit's statistics, and then what is computed from them."""
    statistics = [
        label(_summed(aggregate, place, columns), f"g{place}")
        for place, aggregate in enumerate(columns.aggregates)
    ]
    grouped = select([unit_column(), *statistics], nested(rows, "kept"))
    grouped.set("group", sql.Group(expressions=[unit_column()]))
    emitter = Emitter(columns.ranges)
    outputs = [
        label(emitter.emit(columns.over_columns(output.expression)), output.name)
        for output in source.outputs
    ]
    return select([unit_column(INNER), *outputs], nested(grouped, INNER))


def _added(aggregate: Aggregate, emitter: Emitter) -> Sql:
    """Return what one row of a unit adds to one of its statistics."""
    added: Sql = number(1)
    if aggregate.argument is not None:
        value = emitter.emit(aggregate.argument)
        grid = _grid(aggregate, emitter.ranges)
        added = case(is_known(value), added) if grid is None else whole_part(value, grid)
    return added if aggregate.where is None else case(emitter.emit(aggregate.where), added)


def _grid(aggregate: Aggregate, ranges: Ranges) -> ValueGrid | None:
    if aggregate.argument is None or aggregate.function not in ADDED_UP:
        return None
    found, kind = range_of(aggregate.argument, ranges), aggregate.argument.kind
    if kind is Kind.INT and found.largest <= LARGEST_INT:
        return ValueGrid(Fraction(0), Fraction(1), int(found.low), int(found.high))
    return grid_for(found, kind, None, centred=False)


def _summed(aggregate: Aggregate, place: int, columns: UnitColumns) -> Sql:
    """Return a unit's statistic from what its rows add.

    # Privacy: sums are of whole numbers and made real only afterwards, so that they do not depend
    # on the order in which an engine meets the rows.
    """
    part = typed(column(f"a{place}"), Kind.INT)
    grid = _grid(aggregate, columns.inner)
    if grid is None:
        return sql.Count(this=part)
    if aggregate.kind is Kind.INT and columns.ranges[INNER, f"g{place}"].largest <= LARGEST_INT:
        return cast(exact_sum(part), "BIGINT")
    total = typed(cast(exact_sum(part), "DOUBLE") * number(float(grid.step)), Kind.FLOAT)
    if aggregate.function is Aggregation.SUM:
        return try_cast(total, "BIGINT") if aggregate.kind is Kind.INT else total
    return sql.Paren(this=total) / sql.Nullif(
        this=sql.Count(this=part.copy()), expression=number(0)
    )
