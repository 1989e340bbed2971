"""From a plan to one statement that aggregates in the engine and returns whole numbers.

The statement is built in layers, each a SELECT over the one before: the rows that count, with
their keys and values; what each of them adds to each total; the cut; the sums. Names within are
ours: ``unit``, ``k0``, ``v0``, ``t0`` and so on.
"""

from sqlglot import expressions as sql

from confide.declare import Kind
from confide.engines.cuts import cut_rows
from confide.engines.expressions import Emitter, Sql, case, number
from confide.engines.fragments import UNIT, column, is_known, label, unit_column
from confide.engines.parts import clipped_part, exact_sum, whole_part
from confide.engines.sources import SourceWriter, leftmost
from confide.plan import DeclaredKeys, EarnedKeys, Measure, Plan, Range, Total
from confide.query.tree import Column, Expression, Join, Scan, Source

__all__ = ["write_statement"]


def write_statement(plan: Plan, salt: str) -> sql.Select:
    """Return the statement that gives, for each group found, its keys and exact totals."""
    keys = [f"k{place}" for place in range(len(plan.query.keys))]
    parts = [f"t{place}" for place in range(len(plan.totals))]
    rows = _added(_values(plan, salt), plan, keys)
    if plan.contribution.is_cut:
        rows = cut_rows(rows, plan.contribution, keys, parts, salt)
    sums = [_summed(total, part, plan) for total, part in zip(plan.totals, parts, strict=True)]
    if isinstance(plan.keys, EarnedKeys):
        sums.append(_units(plan))
    statement = sql.select(*map(column, keys), *sums).from_(
        rows.subquery("kept", copy=False), copy=False
    )
    return statement.group_by(*map(column, keys)) if keys else statement


def _values(plan: Plan, salt: str) -> sql.Select:
    """Return the rows that count: unit, keys, and for each total its value and condition."""
    emitter, source = Emitter(plan.ranges), plan.query.source
    columns = [label(unit_column(leftmost(source)), UNIT)] if plan.has_unit else []
    columns += [label(_key(key, emitter), f"k{i}") for i, key in enumerate(plan.query.keys)]
    for place, total in enumerate(plan.totals):
        if total.argument is not None:
            columns.append(label(emitter.emit(total.argument), f"v{place}"))
        if total.where is not None:
            columns.append(label(emitter.emit(total.where), f"w{place}"))
    writer = SourceWriter(plan.catalog, plan.facts, plan.ranges, salt)
    rows = writer.attach(sql.select(*(columns or [number(1)])), source)
    return rows if plan.query.where is None else rows.where(emitter.emit(plan.query.where))


def _key(key: Expression, emitter: Emitter) -> Sql:
    """Return a key; both zeros of the doubles are one key, and must look like one."""
    value = emitter.emit(key)
    if key.kind is not Kind.FLOAT:
        return value
    zero = number(0.0)
    return case(sql.EQ(this=value, expression=zero), zero.copy(), value.copy())


def _added(rows: sql.Select, plan: Plan, keys: list[str]) -> sql.Select:
    """Return unit, keys and what each row adds to each total: a whole number, or NULL."""
    unit = [unit_column()] if plan.has_unit else []
    parts = [
        label(_part(total, place, plan), f"t{place}") for place, total in enumerate(plan.totals)
    ]
    added = sql.select(*unit, *map(column, keys), *parts).from_(
        rows.subquery("counted", copy=False), copy=False
    )
    if isinstance(plan.keys, DeclaredKeys) and not plan.contribution.is_cut:
        return added  # groups that are not declared are never answered
    answered = zip(keys, plan.domains, strict=True)
    known = [
        is_known(column(key))
        for key, domain in answered
        if domain is not None and None not in domain
    ]
    return added.where(*known) if known else added


def _part(total: Total, place: int, plan: Plan) -> Sql:
    value = column(f"v{place}")
    part: Sql = number(1)
    if total.grid is not None and total.argument is not None:
        clipped, kind = _clipped_range(total, plan), total.argument.kind
        part = (
            clipped_part(value, kind, total.grid, clipped)
            if clipped is not None and kind is not None
            else whole_part(value, total.grid)
        )
    elif total.argument is not None:
        # Without a cut nothing but COUNT sees the part, and it counts what is not NULL.
        part = case(is_known(value), part) if plan.contribution.is_cut else value
    return part if total.where is None else case(column(f"w{place}"), part)


def _clipped_range(total: Total, plan: Plan) -> Range | None:
    """Return the range that a view holds a value to: that of a column of a private table."""
    match total.argument:
        case Column(table=alias, name=name) if alias in _private(plan.query.source, plan):
            return plan.ranges[alias, name]
        case _:
            return None


def _private(source: Source, plan: Plan) -> set[str]:
    """Return the aliases of the private tables that are read row by row."""
    match source:
        case Scan(table=name, alias=alias):
            return {alias} if name in plan.catalog.private else set()
        case Join(left=left, right=right):
            return _private(left, plan) | _private(right, plan)
        case _:
            return set()


def _summed(total: Total, part: str, plan: Plan) -> Sql:
    if total.measure is Measure.UNITS and plan.has_unit:
        counted = case(is_known(column(part)), unit_column())
        return sql.Count(this=sql.Distinct(expressions=[counted]))
    if total.grid is None:
        return sql.Count(this=column(part))
    return exact_sum(column(part))


def _units(plan: Plan) -> Sql:
    """Return the number of units of a group, by which its key earns its name."""
    who = sql.Distinct(expressions=[unit_column()]) if plan.has_unit else sql.Star()
    return sql.Count(this=who)
