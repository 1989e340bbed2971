"""Views through which every statement reads: declared types, clipped values."""

from collections.abc import Iterable, Mapping
from typing import Final, assert_never

from sqlglot import expressions as sql

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
)
from confide.engines.expressions import (
    TYPES,
    Sql,
    call,
    cast,
    finite,
    literal,
    number,
    real_day,
    try_cast,
    typed,
)
from confide.engines.fragments import (
    UNIT,
    between,
    clamped,
    column,
    is_known,
    label,
    nested,
    one_zero,
    table,
    without_nan,
)
from confide.engines.readings import as_listed, as_number, as_truth
from confide.errors import BadDeclaration

__all__ = [
    "as_stored",
    "name_lists",
    "raw_name",
    "unfold_views",
    "view_of_private",
    "view_of_public",
    "write_views",
]

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
    for node in statement.walk():  # once for all, since it takes long
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
            read |= {found.name.lower() for found in rows.find_all(sql.Column)}
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
    _name_each(list(rows.find_all(sql.DataType)), names)


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
