"""Typed, clipped views; joins and per-unit rows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, assert_never

from sqlglot import expressions as sql

from confide.aggregates import UnitForm, function_of
from confide.declare import Bool, Catalog, Category, Column, Date, Float, Int, Kind, Table, Text
from confide.engines.sql.contribution_bounding import cut_rows
from confide.engines.sql.expressions import (
    TYPES,
    UNIT,
    Emitter,
    Sql,
    between,
    call,
    case,
    cast,
    clamped,
    column,
    finite,
    is_known,
    label,
    literal,
    nested,
    number,
    one_zero,
    real_day,
    select,
    table,
    try_cast,
    typed,
    unit_column,
    without_nan,
)
from confide.engines.sql.stored_values import as_listed, as_number, as_truth
from confide.engines.sql.summands import exact_sum, whole_part
from confide.errors import BadDeclaration
from confide.expressions.tree import AggregateCall
from confide.plan import INNER, PublicFacts, UnitColumns, ValueGrid, grid_for, unit_columns
from confide.plan.range_analysis import range_of
from confide.plan.range_arithmetic import Ranges
from confide.query.tree import Join, PerUnit, Scan, Source

__all__ = [
    "SourceWriter",
    "as_stored",
    "name_lists",
    "raw_name",
    "unfold_views",
    "view_of_private",
    "view_of_public",
    "write_views",
]

LARGEST_INT: Final = 2**53


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


def _added(aggregate: AggregateCall, emitter: Emitter) -> Sql:
    """Return what one row of a unit adds to one of its statistics."""
    added: Sql = number(1)
    if aggregate.argument is not None:
        value = emitter.emit(aggregate.argument)
        grid = _grid(aggregate, emitter.ranges)
        added = case(is_known(value), added) if grid is None else whole_part(value, grid)
    return added if aggregate.where is None else case(emitter.emit(aggregate.where), added)


def _grid(aggregate: AggregateCall, ranges: Ranges) -> ValueGrid | None:
    if aggregate.argument is None or function_of(aggregate).unit_form is UnitForm.COUNT:
        return None
    found, kind = range_of(aggregate.argument, ranges), aggregate.argument.kind
    if kind is Kind.INT and found.largest <= LARGEST_INT:
        return ValueGrid(Fraction(0), Fraction(1), int(found.low), int(found.high))
    return grid_for(found, kind, None, centred=False)


def _summed(aggregate: AggregateCall, place: int, columns: UnitColumns) -> Sql:
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
    if function_of(aggregate).unit_form is UnitForm.SUM:
        return try_cast(total, "BIGINT") if aggregate.kind is Kind.INT else total
    return sql.Paren(this=total) / sql.Nullif(
        this=sql.Count(this=part.copy()), expression=number(0)
    )


RAW: Final = "raw "  # no declared name has a space
GUARDS: Final = {Kind.FLOAT: finite, Kind.DATE: real_day}


def view_of_private(
    declared: Table, raw: str, unit: Sql | None, stored: Mapping[str, Kind]
) -> sql.Select:
    """Return the declared columns of a table, clipped to their bounds, with the unit in front.

    A row without a unit is about no one whom we could protect, so it is left out. ``stored`` says
    what the source's schema promises of its columns, which saves casts. Categories and numbers
    stand beside what is stored, for statements that compare groups with the list, and clip later.
    """
    columns = [
        label(_clipped(kind, typed(column(name), stored.get(name)), stored.get(name)), name)
        for name, kind in declared.columns.items()
    ]
    columns += [
        label(
            _stored(kind, typed(column(name), stored.get(name)), stored.get(name)), as_stored(name)
        )
        for name, kind in declared.columns.items()
        if isinstance(kind, Category | Float | Int)
    ]
    if unit is None:
        return sql.select(*columns).from_(table(raw))
    shown = sql.select(label(unit, UNIT), *columns).from_(table(raw))
    return shown.where(is_known(unit.copy()))


def write_views(
    catalog: Catalog, kinds: Mapping[str, Mapping[str, Kind]]
) -> tuple[dict[str, sql.Select], Kind]:
    """Return the view of each table over its raw one, and whether units are numbers or texts.

    ``kinds`` says of every table what its raw columns hold, the unit's among them. Units are whole
    numbers where all tables have such, else texts.

    # Privacy: a cast that fails on one row would tell of it, NaN would make one unit of all whom
    # nobody identified, and two texts of zero would make two units of one.
    """
    units = {
        name: kinds[name][declared.unit]
        for name, declared in catalog.private.items()
        if isinstance(declared.unit, str)
    }
    wanted = Kind.INT if set(units.values()) <= {Kind.INT} else Kind.TEXT
    views = {name: view_of_public(kinds[name], raw_name(name)) for name in catalog.public}
    for name, declared in catalog.private.items():
        unit: Sql | None = None
        if isinstance(declared.unit, str):
            found = typed(column(declared.unit), units[name])
            known = one_zero(without_nan(found)) if units[name] is Kind.FLOAT else found
            unit = known if units[name] is wanted else cast(known, TYPES[wanted])
        views[name] = view_of_private(declared, raw_name(name), unit, kinds[name])
    return views, wanted


def unfold_views(
    statement: sql.Select,
    views: Mapping[str, sql.Select],
    lists: Mapping[tuple[str, ...], str],
) -> set[str]:
    """Put what a view selects in place of its name, without the columns that nobody asks for.

    Lists of categories are said by the names that an engine knows them by (`name_lists`). Returned
    are the names of the columns that are read, in small letters, and of some others.

    Why: it is what an engine does with a view, except that it reads all columns of it first, which
         for a small table takes longer than the rows. What is asked for is found by name alone, so
         a column may stay that only has the name of another.
    """
    asked, tables, kinds = set(), [], []
    for node in _walk(statement):  # once for all, since it takes long
        if isinstance(node, sql.Column):
            asked.add(node.name.lower())
        elif isinstance(node, sql.Table):
            tables.append(node)
        elif isinstance(node, sql.DataType):
            kinds.append(node)
    _name_each(kinds, lists)
    read = set(asked)
    for named in tables:
        view = views.get(named.name)
        if view is not None:
            shown = [part.copy() for part in view.expressions if part.alias.lower() in asked]
            rows = sql.Select(expressions=shown or [number(1)])
            rows.set("from_", view.args["from_"].copy())
            if where := view.args.get("where"):
                rows.set("where", where.copy())
            read |= {node.name.lower() for node in _walk(rows) if isinstance(node, sql.Column)}
            named.replace(nested(rows, named.alias_or_name))
    return read


def raw_name(name: str) -> str:
    """Return the name of a table as its source has it."""
    return f"{RAW}{name}"


def as_stored(name: str) -> str:
    """Return the view's name for a column that is neither compared with its list nor clipped."""
    return f"stored {name}"  # no declared name has a space


def name_lists(rows: sql.Select, names: Mapping[tuple[str, ...], str]) -> None:
    """Name the types of `readings.as_narrow` as an engine knows them, where it does."""
    _name_each([node for node in _walk(rows) if isinstance(node, sql.DataType)], names)


def _walk(tree: sql.Expr) -> list[sql.Expr]:
    """Return the nodes of a tree in any order, in a third of the time that its own walk takes."""
    found: list[sql.Expr] = [tree]
    for node in found:  # which grows meanwhile
        for value in node.args.values():
            if isinstance(value, sql.Expr):
                found.append(value)
            elif isinstance(value, list):
                found += [part for part in value if isinstance(part, sql.Expr)]
    return found


def _name_each(kinds: Iterable[sql.DataType], names: Mapping[tuple[str, ...], str]) -> None:
    for found in kinds:
        if found.this is sql.DataType.Type.ENUM:
            name = names.get(tuple(listed.name for listed in found.expressions))
            if name is not None:
                kind = sql.Identifier(this=name, quoted=True)
                found.replace(sql.DataType(this=sql.DataType.Type.USERDEFINED, kind=kind))


def view_of_public(kinds: Mapping[str, Kind], raw: str) -> sql.Select:
    """Return the columns of a public table in the types that questions know.

    Raises:
        BadDeclaration: there is none of such a type.
    """
    if not kinds:
        raise BadDeclaration(
            f"public table {raw.removeprefix(RAW)!r} has no column that questions can use; keep in "
            "it what are numbers, texts, truth values or dates"
        )
    columns = []
    for name, kind in kinds.items():
        value = try_cast(typed(column(name), kind), TYPES[kind])
        guard = GUARDS.get(kind)
        columns.append(label(value if guard is None else guard(value), name))
    return sql.select(*columns).from_(table(raw))


def _stored(declared: Column, raw: Sql, stored: Kind | None) -> Sql:
    """Return a value in the type of its column, as the source has it."""
    # Privacy: a file may be replaced by one of other types, and must fail on no row of it.
    if isinstance(declared, Int) and stored is not Kind.INT:
        return _whole(raw, declared.low, declared.high)
    if isinstance(declared, Category) and declared.kind is Kind.INT:
        return as_number(raw, declared, stored)
    return try_cast(raw, TYPES[declared.kind])


def _clipped(declared: Column, raw: Sql, stored: Kind | None) -> Sql:
    match declared:
        case Int(low=low, high=high):
            return clamped(_stored(declared, raw, stored), low, high)
        case Float(low=least, high=most):
            return _clamped_double(try_cast(raw, "DOUBLE"), float(least), float(most))
        case Category():
            listed = _stored(declared, raw, stored)
            return listed if declared.kind is Kind.INT else as_listed(listed, declared)
        case Date(low=first, high=last):
            return between(try_cast(raw, "DATE"), literal(first), literal(last))
        case Bool():
            return as_truth(raw, stored)
        case Text():
            return try_cast(raw, "VARCHAR")
        case _:
            assert_never(declared)


def _whole(raw: Sql, low: int, high: int) -> Sql:
    """Return a whole number from a value of any type, NULL where there is none."""
    near = clamped(without_nan(try_cast(raw, "DOUBLE")), float(low), float(high))
    return call("COALESCE", try_cast(raw.copy(), "BIGINT"), cast(near, "BIGINT"))


def _clamped_double(value: Sql, low: float, high: float) -> Sql:
    """Return a double within [low, high], NULL for NULL and for NaN, which is above infinity."""
    infinity = cast(sql.Literal.string("inf"), "DOUBLE")
    below = sql.If(this=sql.LT(this=value, expression=number(low)), true=number(low))
    inside = sql.If(this=sql.LTE(this=value.copy(), expression=number(high)), true=value.copy())
    above = sql.If(this=sql.LTE(this=value.copy(), expression=infinity), true=number(high))
    return sql.Case(ifs=[below, inside, above])
