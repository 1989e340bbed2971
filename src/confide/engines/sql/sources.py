"""The FROM clause of statements: typed and clipped views of tables, joins, and per-unit subqueries.

A *raw* table is the stored data of a declared table. Its view has columns in the types that queries
know. The view of a private table has the declared columns, clipped to their bounds, and the unit as
`UNIT`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, assert_never

from sqlglot import expressions as sql

from confide.aggregates import UnitForm, function_of
from confide.declare import (
    Bool,
    Catalog,
    Category,
    Column,
    Date,
    Float,
    Int,
    Kind,
    Table,
    Text,
    Timestamp,
)
from confide.engines.sql.builders import (
    TYPES,
    UNIT,
    Sql,
    call,
    case,
    cast,
    clamp_to,
    clamped,
    column,
    finite,
    is_known,
    label,
    literal,
    nested,
    normalize_zero,
    number,
    select,
    table,
    timestamp_literal,
    try_cast,
    typed,
    unit_column,
    valid_date,
    without_nan,
)
from confide.engines.sql.contribution_bounding import bound_contributions
from confide.engines.sql.expressions import Emitter
from confide.engines.sql.stored_values import (
    as_boolean,
    as_iso_timestamp,
    as_listed,
    as_listed_integer,
)
from confide.engines.sql.summands import exact_sum, summand
from confide.errors import BadDeclaration
from confide.expressions.tree import AggregateCall
from confide.plan import (
    UNIT_COLUMNS_ALIAS,
    PublicFacts,
    UnitColumns,
    ValueGrid,
    grid_for,
    unit_columns,
)
from confide.plan.range_analysis import range_of
from confide.plan.range_arithmetic import Ranges
from confide.query.tree import Join, PerUnit, Scan, Source

__all__ = [
    "SourceWriter",
    "inline_views",
    "name_enums",
    "raw_name",
    "stored_name",
    "view_of_private",
    "view_of_public",
    "write_views",
]

MAX_EXACT_INTEGER: Final = 2**53
MAX_INT64_DOUBLE: Final = 2.0**63 - 1_024
"""The largest double that a 64-bit integer holds."""


@dataclass(frozen=True, slots=True)
class SourceWriter:
    """Writes the FROM clause of a statement; ``unit`` is the kind of units, integers or strings."""

    catalog: Catalog
    facts: PublicFacts
    ranges: Ranges
    salt: str
    unit: Kind = Kind.TEXT

    def attach(self, select: sql.Select, source: Source) -> sql.Select:
        """Return the selection with ``source`` as its FROM clause."""
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
        """Return the condition of a join: the query's own, or equal units of private tables."""
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
        """Return one row per unit: exact statistics of its rows, after bounding their number."""
        columns = unit_columns(source, self.catalog, self.facts)
        emitter = Emitter(columns.inner)
        names = [f"a{index}" for index in range(len(columns.aggregates))]
        values = [
            label(_added(aggregate, emitter), name)
            for name, aggregate in zip(names, columns.aggregates, strict=True)
        ]
        unit = label(unit_column(leftmost(source.source)), UNIT)
        inner = replace(self, ranges=columns.inner)
        rows = inner.attach(sql.Select(expressions=[unit, *values]), source.source)
        if source.where is not None:
            rows.set("where", sql.Where(this=emitter.emit(source.where)))
        if columns.limits.needs_bounding:
            kinds = {UNIT: self.unit, **dict.fromkeys(names, Kind.INT)}
            rows = bound_contributions(
                rows, columns.limits, [], names, f"{self.salt} unit", kinds=kinds
            )
        return _statistics(source, columns, rows)


def leftmost(source: Source) -> str:
    """Return the alias of the table that provides the unit of a source's rows."""
    return leftmost(source.left) if isinstance(source, Join) else source.alias


def _statistics(source: PerUnit, columns: UnitColumns, rows: sql.Select) -> sql.Select:
    """Return the SELECT that computes each unit's statistics, and then its outputs from these.

    ``rows`` has the summands of each row (`_added`).
    """
    statistics = [
        label(_summed(aggregate, index, columns), f"g{index}")
        for index, aggregate in enumerate(columns.aggregates)
    ]
    grouped = select([unit_column(), *statistics], nested(rows, "kept"))
    grouped.set("group", sql.Group(expressions=[unit_column()]))
    emitter = Emitter(columns.ranges)
    outputs = [
        label(emitter.emit(columns.over_columns(output.expression)), output.name)
        for output in source.outputs
    ]
    return select([unit_column(UNIT_COLUMNS_ALIAS), *outputs], nested(grouped, UNIT_COLUMNS_ALIAS))


def _added(aggregate: AggregateCall, emitter: Emitter) -> Sql:
    """Return the summand of one row for a statistic of its unit: an integer, or NULL."""
    added: Sql = number(1)
    if aggregate.argument is not None:
        value = emitter.emit(aggregate.argument)
        grid = _grid(aggregate, emitter.ranges)
        added = case(is_known(value), added) if grid is None else summand(value, grid)
    return added if aggregate.where is None else case(emitter.emit(aggregate.where), added)


def _grid(aggregate: AggregateCall, ranges: Ranges) -> ValueGrid | None:
    """Return the grid on which a statistic sums values, or None if it only counts rows."""
    if aggregate.argument is None or function_of(aggregate).unit_form is UnitForm.COUNT:
        return None
    found, kind = range_of(aggregate.argument, ranges), aggregate.argument.kind
    if kind is Kind.INT and found.largest <= MAX_EXACT_INTEGER:
        return ValueGrid(Fraction(0), Fraction(1), int(found.low), int(found.high))
    return grid_for(found, kind, None, centered=False)


def _summed(aggregate: AggregateCall, index: int, columns: UnitColumns) -> Sql:
    """Return a unit's statistic from the summands of its rows.

    # Privacy: integers are summed, and only the sum is converted to a double. So the result does
    # not depend on the order in which an engine reads the rows.
    """
    part = typed(column(f"a{index}"), Kind.INT)
    grid = _grid(aggregate, columns.inner)
    if grid is None:
        return sql.Count(this=part)
    if (
        aggregate.kind is Kind.INT
        and columns.ranges[UNIT_COLUMNS_ALIAS, f"g{index}"].largest <= MAX_EXACT_INTEGER
    ):
        return cast(exact_sum(part), "BIGINT")
    total = typed(cast(exact_sum(part), "DOUBLE") * number(float(grid.step)), Kind.FLOAT)
    if function_of(aggregate).unit_form is UnitForm.SUM:
        return try_cast(total, "BIGINT") if aggregate.kind is Kind.INT else total
    return sql.Paren(this=total) / sql.Nullif(
        this=sql.Count(this=part.copy()), expression=number(0)
    )


RAW: Final = "raw "  # no declared table has a space
GUARDS: Final = {Kind.FLOAT: finite, Kind.DATE: valid_date}


def view_of_private(
    declared: Table, raw: str, unit: Sql | None, stored: Mapping[str, Kind]
) -> sql.Select:
    """Return the declared columns of a table, clipped to their bounds, after the unit.

    ``raw`` is the name of the raw table, and ``unit`` the SQL of the unit, or None if the unit is
    the row. A row without a unit concerns no protected person, so it is left out. ``stored`` gives
    the kinds of the raw columns, which saves casts. Categories and numbers are selected a second
    time, by `_stored`, for statements that apply lists or bounds later.
    """
    columns = [
        label(_clipped(kind, typed(column(name), stored.get(name)), stored.get(name)), name)
        for name, kind in declared.columns.items()
    ]
    columns += [
        label(
            _stored(kind, typed(column(name), stored.get(name)), stored.get(name)),
            stored_name(name),
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
    """Return the view of each table over its raw table, and the kind of units: INT or TEXT.

    ``kinds`` gives the kinds of each table's raw columns, including the unit's. Units are integers
    if all tables store them as integers, else strings.

    # Privacy: three mistakes are avoided here. A cast that fails on one row would reveal something
    # about it, so units are cast only to strings, and other casts give NULL or cannot fail. If NaN
    # were a unit, all rows without an identifier would be one unit, so NaN becomes NULL, and these
    # rows are left out. If 0.0 and -0.0 were two strings, one unit would become two, so -0.0
    # becomes 0.0.
    """
    units = {
        name: kinds[name][declared.unit]
        for name, declared in catalog.private.items()
        if isinstance(declared.unit, str)
    }
    unit_kind = Kind.INT if set(units.values()) <= {Kind.INT} else Kind.TEXT
    views = {name: view_of_public(kinds[name], raw_name(name)) for name in catalog.public}
    for name, declared in catalog.private.items():
        unit: Sql | None = None
        if isinstance(declared.unit, str):
            found = typed(column(declared.unit), units[name])
            known = normalize_zero(without_nan(found)) if units[name] is Kind.FLOAT else found
            unit = known if units[name] is unit_kind else cast(known, TYPES[unit_kind])
        views[name] = view_of_private(declared, raw_name(name), unit, kinds[name])
    return views, unit_kind


def inline_views(
    statement: sql.Select,
    views: Mapping[str, sql.Select],
    lists: Mapping[tuple[str, ...], str],
) -> set[str]:
    """Inline views into a statement, without the columns that it does not use.

    ``lists`` maps the strings of an ENUM type to its name in the engine, which replaces the type
    (as in `name_enums`). Returns the names of the columns that are read, in lower case, and
    possibly some others.

    Why: an engine inlines a view itself, but resolves all its columns first. For a small table,
         this takes longer than reading the rows. Used columns are found by name alone, so an unused
         column may stay if it has the same name as a used one.
    """
    used, tables, kinds = set(), [], []
    for node in _nodes(statement):  # a single walk, since it takes long
        if isinstance(node, sql.Column):
            used.add(node.name.lower())
        elif isinstance(node, sql.Table):
            tables.append(node)
        elif isinstance(node, sql.DataType):
            kinds.append(node)
    _name_types(kinds, lists)
    read = set(used)
    for named in tables:
        view = views.get(named.name)
        if view is not None:
            shown = [part.copy() for part in view.expressions if part.alias.lower() in used]
            rows = sql.Select(expressions=shown or [number(1)])
            rows.set("from_", view.args["from_"].copy())
            if where := view.args.get("where"):
                rows.set("where", where.copy())
            read |= {node.name.lower() for node in _nodes(rows) if isinstance(node, sql.Column)}
            named.replace(nested(rows, named.alias_or_name))
    return read


def raw_name(name: str) -> str:
    """Return the name of the raw table of a declared table."""
    return f"{RAW}{name}"


def stored_name(name: str) -> str:
    """Return a view's name for a column as stored (see `_stored`)."""
    return f"stored {name}"  # no declared name begins with "stored "


def name_enums(rows: sql.Select, names: Mapping[tuple[str, ...], str]) -> None:
    """Replace the ENUM types that `stored_values.as_enum` writes by their names in the engine.

    ``names`` maps the strings of an ENUM type to its name.
    """
    _name_types([node for node in _nodes(rows) if isinstance(node, sql.DataType)], names)


def _nodes(tree: sql.Expr) -> list[sql.Expr]:
    """Return the nodes of a tree in any order, in a third of the time of sqlglot's own walk."""
    found: list[sql.Expr] = [tree]
    for node in found:  # the list grows during the loop
        for value in node.args.values():
            if isinstance(value, sql.Expr):
                found.append(value)
            elif isinstance(value, list):
                found += [part for part in value if isinstance(part, sql.Expr)]
    return found


def _name_types(kinds: Iterable[sql.DataType], names: Mapping[tuple[str, ...], str]) -> None:
    """Replace each ENUM type in ``kinds`` that has a name by its name."""
    for found in kinds:
        if found.this is sql.DataType.Type.ENUM:
            name = names.get(tuple(listed.name for listed in found.expressions))
            if name is not None:
                kind = sql.Identifier(this=name, quoted=True)
                found.replace(sql.DataType(this=sql.DataType.Type.USERDEFINED, kind=kind))


def view_of_public(kinds: Mapping[str, Kind], raw: str) -> sql.Select:
    """Return the SELECT of the columns of a public table, in the types that queries know.

    Raises:
        BadDeclaration: the table has no column of such a type.
    """
    if not kinds:
        raise BadDeclaration(
            f"Public table {raw.removeprefix(RAW)!r} has no column that queries can use. Give it "
            "columns of numbers, strings, Booleans, or dates."
        )
    columns = []
    for name, kind in kinds.items():
        value = try_cast(typed(column(name), kind), TYPES[kind])
        guard = GUARDS.get(kind)
        columns.append(label(value if guard is None else guard(value), name))
    return sql.select(*columns).from_(table(raw))


def _stored(declared: Column, raw: Sql, stored: Kind | None) -> Sql:
    """Return a raw value in the type of its declared column, not clipped or compared with its list.

    There are two exceptions. A category of integers is compared with its list. An integer that
    is stored in another type is clipped to its bounds if it does not fit in 64 bits.
    """
    # Privacy: the raw data may be replaced after its types were read, so casts must not fail on any
    # row.
    if isinstance(declared, Int) and stored is not Kind.INT:
        return _as_integer(raw, declared.low, declared.high)
    if isinstance(declared, Category) and declared.kind is Kind.INT:
        return as_listed_integer(raw, declared, stored)
    return try_cast(raw, TYPES[declared.kind])


def _clipped(  # noqa: PLR0911  # one for each type
    declared: Column, raw: Sql, stored: Kind | None
) -> Sql:
    """Return a raw value as declared: clipped to its bounds, or NULL if its list lacks it.

    A timestamp becomes an integer, the milliseconds since 1970.
    """
    match declared:
        case Int(low=low, high=high):
            return clamped(_stored(declared, raw, stored), low, high)
        case Float(low=low, high=high):
            return _clamped_double(try_cast(raw, "DOUBLE"), float(low), float(high))
        case Category():
            listed = _stored(declared, raw, stored)
            return listed if declared.kind is Kind.INT else as_listed(listed, declared)
        case Date(low=first, high=last):
            return clamp_to(try_cast(raw, "DATE"), literal(first), literal(last))
        case Timestamp(low=low, high=high):
            ends = map(timestamp_literal, (low, high))
            text = as_iso_timestamp(raw) if stored is Kind.TEXT else raw
            count = call("EPOCH_US", clamp_to(try_cast(text, "TIMESTAMP"), *ends))
            return sql.Paren(this=sql.IntDiv(this=count, expression=number(1_000)))
        case Bool():
            return as_boolean(raw, stored)
        case Text(max_length=length):
            text = try_cast(raw, "VARCHAR")
            return text if length is None else call("SUBSTR", text, number(1), number(length))
        case _:
            assert_never(declared)


def _as_integer(raw: Sql, low: int, high: int) -> Sql:
    """Return an integer from a raw value of any type; NULL if it is not a number.

    Numbers beyond 64 bits are clipped to the bounds, so that they do not become NULL.
    """
    ends = map(float, (low, high))
    least, most = (max(-MAX_INT64_DOUBLE, min(end, MAX_INT64_DOUBLE)) for end in ends)
    near = clamped(without_nan(try_cast(raw, "DOUBLE")), least, most)
    return call("COALESCE", try_cast(raw.copy(), "BIGINT"), cast(near, "BIGINT"))


def _clamped_double(value: Sql, low: float, high: float) -> Sql:
    """Return a double clamped to [low, high], NULL for NULL and NaN.

    Engines order NaN above infinity, so a plain clamp would turn it into ``high``.
    """
    infinity = cast(sql.Literal.string("inf"), "DOUBLE")
    below = sql.If(this=sql.LT(this=value, expression=number(low)), true=number(low))
    inside = sql.If(this=sql.LTE(this=value.copy(), expression=number(high)), true=value.copy())
    above = sql.If(this=sql.LTE(this=value.copy(), expression=infinity), true=number(high))
    return sql.Case(ifs=[below, inside, above])
