"""Statements that add up totals by group key.

The statement is built in layers, each a SELECT over the one before: the rows that count, with
their keys and values; what each of them adds to each total; the cut; the sums. Names within are
ours: ``the unit``, ``k0``, ``v0``, ``t0`` and so on.

A column of few listed texts is a place in its list while rows are cut: a number is hashed and
sorted sooner than a text. Which text has which place follows from the declaration alone, so units
are cut alike on every engine. Its text is put in place of the number outside.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from sqlglot import expressions as sql

from confide.declare import Category, Kind
from confide.engines.protocol import Groups
from confide.engines.sql.contribution_bounding import cut_rows
from confide.engines.sql.expressions import (
    UNIT,
    Emitter,
    Sql,
    call,
    case,
    column,
    is_known,
    label,
    nested,
    number,
    one_zero,
    select,
    typed,
    unit_column,
)
from confide.engines.sql.sources import SourceWriter, as_stored, leftmost
from confide.engines.sql.stored_values import as_listed, as_narrow, as_plain
from confide.engines.sql.summands import (
    Layers,
    ZeroBasedGrid,
    clipped_part,
    ends_within,
    exact_sum,
    stored_part,
    try_steps,
    uncentre,
    whole_part,
)
from confide.expressions.tree import Column, Expression, Value
from confide.plan import (
    Measure,
    Measurement,
    Range,
    Total,
    ValueGrid,
    private_tables,
)

__all__ = [
    "centre_totals",
    "decode_keys",
    "find_stored",
    "kinds_of_keys",
    "small_keys",
    "write_key",
    "write_statement",
]

T = TypeVar("T")
Keys = tuple[Value, ...]
MOST_PLACES: Final = 64
"""In longer lists a text is found no sooner than it is hashed, on engines that compare them all."""


def write_key(place: int, measurement: Measurement, emitter: Emitter, *, is_narrow: bool) -> Sql:
    """Return a key of a row that is cut or counted; both zeros of the doubles are one key.

    ``is_narrow`` says that the engine holds listed texts as numbers of few bits.
    """
    key, placed = measurement.query.keys[place], _find_placed(measurement).get(place)
    if placed is not None and isinstance(key, Column):
        return _place(column(as_stored(key.name), key.table), placed, is_narrow=is_narrow)
    value = emitter.emit(key)
    return one_zero(value) if key.kind is Kind.FLOAT else value


def find_stored(measurement: Measurement) -> dict[int, Category]:
    """Return the keys, by their places, that may stay as they are stored until rows are counted."""
    is_declared = measurement.keys is not None
    return _categories(measurement) if is_declared and not measurement.contribution.is_cut else {}


def kinds_of_keys(measurement: Measurement) -> dict[str, Kind]:
    """Return the kinds of the keys that have one, as they are while rows are cut."""
    placed = _find_placed(measurement)
    kinds = (
        (f"k{place}", Kind.INT if place in placed else key.kind)
        for place, key in enumerate(measurement.query.keys)
    )
    return {name: kind for name, kind in kinds if kind is not None}


def small_keys(measurement: Measurement) -> list[str]:
    """Return the keys that are whole numbers of 31 bits in every row that is cut.

    Why: a view clips them to such a domain, or they are places in a list; and where the domain has
         no NULL, rows without a key are left out.
    """
    tables, placed = (
        private_tables(measurement.query.source, measurement.catalog),
        _find_placed(measurement),
    )
    return [
        f"k{place}"
        for place, (key, domain) in enumerate(
            zip(measurement.query.keys, measurement.domains, strict=True)
        )
        if isinstance(key, Column) and key.table in tables and domain
        if all(map(_is_text if place in placed else _is_small, domain))
    ]


def decode_keys(found: Mapping[Keys, T], measurement: Measurement) -> dict[Keys, T]:
    """Return what a statement found of each group, by the values of its keys."""
    lists = {place: _texts(declared) for place, declared in _find_placed(measurement).items()}
    if not lists:
        return dict(found)

    def name(place: int, value: Any) -> Value:
        is_placed = place in lists and value is not None
        named: Value = lists[place][value] if is_placed else value
        return named

    return {
        tuple(name(place, value) for place, value in enumerate(keys)): one
        for keys, one in found.items()
    }


def _find_placed(measurement: Measurement) -> dict[int, Category]:
    """Return the keys, by their places, that are places in their lists while rows are cut."""
    if not measurement.contribution.is_cut:
        return {}
    listed = _categories(measurement).items()
    return {place: one for place, one in listed if 0 < len(_texts(one)) <= MOST_PLACES}


def _categories(measurement: Measurement) -> dict[int, Category]:
    """Return the keys, by their places, that are columns of listed strings in a private table."""
    tables = private_tables(measurement.query.source, measurement.catalog)
    found: dict[int, Category] = {}
    for place, key in enumerate(measurement.query.keys):
        if isinstance(key, Column) and key.table in tables:
            declared = tables[key.table].columns[key.name]
            if isinstance(declared, Category) and declared.kind is Kind.TEXT:
                found[place] = declared
    return found


def _place(text: Sql, declared: Category, *, is_narrow: bool) -> Sql:
    """Return the place of a text in its list, NULL if it has none."""
    if is_narrow:
        return call("ENUM_CODE", as_narrow(text, declared))
    places = [
        sql.If(this=sql.Literal.string(one), true=number(place))
        for place, one in enumerate(_texts(declared))
    ]
    return sql.Case(this=as_plain(text, declared), ifs=places)


def _texts(declared: Category) -> list[str]:
    return [one for one in declared.values if isinstance(one, str)]


def _is_small(value: Value) -> bool:
    return type(value) is int and 0 <= value < 2**31  # truths are no numbers to engines


def _is_text(value: Value) -> bool:
    return isinstance(value, str)


def write_statement(
    measurement: Measurement, salt: str, unit: Kind = Kind.TEXT, *, is_narrow: bool = False
) -> sql.Select:
    """Return the statement that gives, for each group found, its keys and exact totals.

    Keys are those of the plan after `decode_keys`, totals after `centre_totals`. ``unit`` says
    whether units are whole numbers or texts, ``is_narrow`` whether the engine holds listed texts as
    numbers of few bits.
    """
    keys = [f"k{place}" for place in range(len(measurement.query.keys))]
    parts = [f"t{place}" for place in _carried(measurement)]
    stored = _stored_keys(measurement)
    rows = _added(_values(measurement, salt, unit, stored, is_narrow=is_narrow), measurement, keys)
    if measurement.contribution.is_cut and not _is_of_units(measurement):
        kinds = {UNIT: unit, **dict.fromkeys(parts, Kind.INT), **kinds_of_keys(measurement)}
        small = small_keys(measurement)
        rows = cut_rows(rows, measurement.contribution, keys, parts, salt, kinds=kinds, small=small)
    sums = [
        _summed(total, f"t{_twin(place, measurement)}", measurement)
        for place, total in enumerate(measurement.totals)
    ]
    if measurement.keys is None:
        sums.append(_units(measurement))
    statement = _grouped(map(column, keys), sums, rows, keys)
    return _listed(statement, keys, stored) if stored else statement


def _is_of_units(measurement: Measurement) -> bool:
    """Tell whether all that is asked is how many units there are, which a cut does not change.

    Why: a cut leaves a row of every unit, and one row makes it count.
    """
    plain = (total.measure is Measure.UNITS and _is_plain(total) for total in measurement.totals)
    return measurement.has_unit and not measurement.query.keys and all(plain)


def centre_totals(groups: Groups, measurement: Measurement) -> Groups:
    """Return the plan's totals from those of its statement, which adds rows up from zero."""
    grids = {
        place: _uncentred(total, total.grid, measurement)
        for place, total in enumerate(measurement.totals)
        if total.grid is not None
    }
    moved = {
        place: (uncentred, _counts(measurement.totals[place], measurement))
        for place, uncentred in grids.items()
        if uncentred.is_moved
    }

    def centre(totals: tuple[int, ...]) -> tuple[int, ...]:
        changed = list(totals)
        for place, (uncentred, rows) in moved.items():
            changed[place] = uncentred.centre(totals[place], 0 if rows is None else totals[rows])
        return tuple(changed)

    return {keys: centre(totals) for keys, totals in groups.items()} if moved else groups


def _counts(total: Total, measurement: Measurement) -> int | None:
    """Return the place of the total that counts the rows that a sum adds up, if there is one."""
    for place, other in enumerate(measurement.totals):
        same = (other.argument, other.where) == (total.argument, total.where)
        if same and other.measure is Measure.ROWS and other.grid is None:
            return place
    return None


def _uncentred(total: Total, grid: ValueGrid, measurement: Measurement) -> ZeroBasedGrid:
    """Return the grid on which the rows of a sum are added up.

    It is the plan's own where that has no rows to count beside, or the sum is of no column.
    """
    if _clipped_range(total, measurement) is None or total.argument is None:
        return ZeroBasedGrid(grid)
    found = uncentre(grid, total.argument.kind)
    return (
        found if not found.shift or _counts(total, measurement) is not None else ZeroBasedGrid(grid)
    )


def _carried(measurement: Measurement) -> list[int]:
    """Return the places of the totals to which each row adds something of its own."""
    return [
        place
        for place, total in enumerate(measurement.totals)
        if not _is_plain(total) and _twin(place, measurement) == place
    ]


def _is_plain(total: Total) -> bool:
    """Tell whether every row adds one, so that there is nothing to carry."""
    return total.argument is None and total.where is None


def _twin(place: int, measurement: Measurement) -> int:
    """Return the place of a total, or of the sum of the very values that it counts.

    Why: what a row adds to that sum is NULL where its value is NULL or its condition does not hold.
    """
    total = measurement.totals[place]
    sums = enumerate(measurement.totals) if total.measure is Measure.ROWS else ()
    for twin, other in sums:
        same = (other.argument, other.where) == (total.argument, total.where)
        if same and other.grid is not None:
            return twin
    return place


def _grouped(
    shown: Iterable[Sql], sums: Iterable[Sql], rows: sql.Select, keys: Sequence[str]
) -> sql.Select:
    """Return groups of rows with their sums; the tree of the rows is used up.

    Why: rows that only leave out others, and show columns of the selection below by their own
         names, need no selection of their own.
    """
    is_plain = all(isinstance(part, sql.Column) for part in rows.expressions)
    statement = rows if is_plain else select([], nested(rows, "kept"))
    statement.set("expressions", [*shown, *sums])
    if keys:
        statement.set("group", sql.Group(expressions=[column(key) for key in keys]))
    return statement


def _stored_keys(measurement: Measurement) -> dict[int, Category]:
    """Return the keys, by their places, that are compared with their lists after grouping.

    Why: a text that is not listed counts as NULL, so groups of stored texts, renamed and added up,
         are the groups of listed ones; it is faster to compare a few groups than every row. Totals
         of several groups add up, except where a unit is to be counted once.
    """
    counts_units = any(total.measure is Measure.UNITS for total in measurement.totals)
    return {} if counts_units else find_stored(measurement)


def _listed(
    statement: sql.Select, keys: Sequence[str], stored: Mapping[int, Category]
) -> sql.Select:
    """Return the groups under their listed texts, those with the same ones added up."""
    parts = [f"t{place}" for place in range(len(statement.expressions) - len(keys))]
    names = zip(statement.expressions, [*keys, *parts], strict=True)
    statement.set("expressions", [label(value, name) for value, name in names])
    listed = [
        label(as_listed(column(key), stored[place]) if place in stored else column(key), key)
        for place, key in enumerate(keys)
    ]
    renamed = select([*listed, *map(column, parts)], nested(statement, "stored"))
    sums = [exact_sum(column(part)) for part in parts]
    return _grouped(map(column, keys), sums, renamed, keys)


def _values(
    measurement: Measurement,
    salt: str,
    unit: Kind,
    stored: Mapping[int, Category],
    *,
    is_narrow: bool,
) -> sql.Select:
    """Return the rows that count: unit, keys, and for each total its value and condition."""
    emitter, source = Emitter(measurement.ranges), measurement.query.source
    columns = [label(unit_column(leftmost(source)), UNIT)] if measurement.has_unit else []
    for place, key in enumerate(measurement.query.keys):
        if place in stored and isinstance(key, Column):
            value: Sql = column(as_stored(key.name), key.table)
        else:
            value = write_key(place, measurement, emitter, is_narrow=is_narrow)
        columns.append(label(value, f"k{place}"))
    layers = Layers.of(_arguments(measurement), measurement.ranges)
    columns += [label(value, name) for name, value in _operands(measurement, emitter)]
    columns += layers.first()
    writer = SourceWriter(measurement.catalog, measurement.facts, measurement.ranges, salt, unit)
    rows = writer.attach(sql.Select(expressions=columns or [number(1)]), source)
    if measurement.where is not None:
        rows.set("where", sql.Where(this=emitter.emit(measurement.where)))
    return layers.stack(rows)


def _arguments(measurement: Measurement) -> dict[str, Expression]:
    """Return the values of the totals, but for those that are read as they are stored."""
    totals = {f"v{place}": measurement.totals[place] for place in _carried(measurement)}
    return {
        name: total.argument
        for name, total in totals.items()
        if total.argument is not None and _stored_argument(total, measurement) is None
    }


def _operands(measurement: Measurement, emitter: Emitter) -> Iterator[tuple[str, Sql]]:
    """Yield the conditions of the totals, and values as they are stored with their steps."""
    for place in _carried(measurement):
        total = measurement.totals[place]
        if total.where is not None:
            yield f"w{place}", emitter.emit(total.where)
        stored = _stored_argument(total, measurement)
        if stored is not None and total.grid is not None:
            yield f"v{place}", stored
            yield (
                f"s{place}",
                try_steps(stored.copy(), _uncentred(total, total.grid, measurement).grid),
            )


def _stored_argument(total: Total, measurement: Measurement) -> Sql | None:
    """Return the column as it is stored of a total whose steps are clipped instead."""
    if (
        total.grid is None
        or not _step_ends(total, measurement)
        or not isinstance(total.argument, Column)
    ):
        return None
    return column(as_stored(total.argument.name), total.argument.table)


def _added(rows: sql.Select, measurement: Measurement, keys: list[str]) -> sql.Select:
    """Return unit, keys and what each row adds to each total: a whole number, or NULL."""
    unit = [unit_column()] if measurement.has_unit else []
    parts = [
        label(_part(measurement.totals[place], place, measurement), f"t{place}")
        for place in _carried(measurement)
    ]
    shown = [*unit, *map(column, keys), *parts]
    added = select(shown or [number(1)], nested(rows, "counted"))
    if measurement.keys is not None and not measurement.contribution.is_cut:
        return added  # groups that are not declared are never answered
    answered = zip(keys, measurement.domains, strict=True)
    known = [
        is_known(column(key))
        for key, domain in answered
        if domain is not None and None not in domain
    ]
    return added.where(*known, copy=False) if known else added


def _part(total: Total, place: int, measurement: Measurement) -> Sql:
    value = column(f"v{place}")
    part: Sql = number(1)
    if total.grid is not None and total.argument is not None:
        grid = _uncentred(total, total.grid, measurement).grid
        part = _steps(total, place, measurement, grid, total.argument.kind)
    elif total.argument is not None:
        # Without a cut nothing but COUNT sees the part, and it counts what is not NULL.
        part = case(is_known(value), part) if measurement.contribution.is_cut else value
    return part if total.where is None else case(column(f"w{place}"), part)


def _steps(
    total: Total, place: int, measurement: Measurement, grid: ValueGrid, kind: Kind | None
) -> Sql:
    """Return what a row adds to a sum, on its grid."""
    value, clipped, ends = (
        column(f"v{place}"),
        _clipped_range(total, measurement),
        _step_ends(total, measurement),
    )
    if clipped is None or kind is None:
        return whole_part(value, grid)
    if ends is None:
        return clipped_part(value, kind, grid, clipped)
    return stored_part(column(f"s{place}"), value, clipped, ends)


def _step_ends(total: Total, measurement: Measurement) -> tuple[int, int] | None:
    """Return the ends to which the steps of a real column can be clipped, instead of itself."""
    clipped, argument = _clipped_range(total, measurement), total.argument
    if clipped is None or total.grid is None or argument is None or argument.kind is not Kind.FLOAT:
        return None
    return ends_within(_uncentred(total, total.grid, measurement).grid, clipped)


def _clipped_range(total: Total, measurement: Measurement) -> Range | None:
    """Return the range that a view holds a value to: that of a column of a private table."""
    match total.argument:
        case Column(table=alias, name=name) if alias in private_tables(
            measurement.query.source, measurement.catalog
        ):
            return measurement.ranges[alias, name]
        case _:
            return None


def _summed(total: Total, part: str, measurement: Measurement) -> Sql:
    if total.measure is Measure.UNITS and measurement.has_unit:
        who: Sql = unit_column()
        counted = who if _is_plain(total) else case(is_known(column(part)), who)
        return sql.Count(this=sql.Distinct(expressions=[counted]))
    if _is_plain(total):
        return sql.Count(this=sql.Star())
    if total.grid is None:
        return sql.Count(this=column(part))
    return exact_sum(typed(column(part), Kind.INT))


def _units(measurement: Measurement) -> Sql:
    """Return the number of units of a group, by which its key earns its name."""
    who = sql.Distinct(expressions=[unit_column()]) if measurement.has_unit else sql.Star()
    return sql.Count(this=who)
