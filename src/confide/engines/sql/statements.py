"""Statements that compute totals by group key.

A statement is built in layers, each a SELECT over the layer before. The first selects the rows that
count: unit, group keys (``k0``, ...), and as far as a total needs them, its argument (``v0``, ...),
condition (``w0``, ...), and step on a grid (``s0``, ...). The second computes *summands*: the
integer that each row adds to each total (``t0``, ...). Contribution bounding and the sums follow.

During contribution bounding, a key with few declared strings is *coded*: each string is represented
by its position in the declared list, because integers are hashed and sorted faster than strings.
The positions follow from the declaration alone, so every engine keeps the same contributions.
`decode_keys` replaces the positions in the result by strings.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from sqlglot import expressions as sql

from confide.declare import Category, Kind
from confide.engines.protocol import Groups
from confide.engines.sql.builders import (
    UNIT,
    Sql,
    call,
    case,
    column,
    is_known,
    label,
    nested,
    normalize_zero,
    number,
    select,
    typed,
    unit_column,
)
from confide.engines.sql.contribution_bounding import bound_contributions
from confide.engines.sql.expressions import Emitter
from confide.engines.sql.sources import SourceWriter, leftmost, stored_name
from confide.engines.sql.stored_values import as_comparable, as_enum, as_listed
from confide.engines.sql.summands import (
    Layers,
    ZeroBasedGrid,
    clipped_summand,
    ends_within,
    exact_sum,
    stored_summand,
    summand,
    try_steps,
    zero_based_grid,
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
    "center_totals",
    "decode_keys",
    "find_stored",
    "kinds_of_keys",
    "small_keys",
    "write_key",
    "write_statement",
]

T = TypeVar("T")
Keys = tuple[Value, ...]
MAX_LISTED: Final = 64
"""The longest list that is coded; in longer ones, finding a string may take longer than a hash."""


def write_key(index: int, measurement: Measurement, emitter: Emitter, *, has_enums: bool) -> Sql:
    """Return the SQL of a group key, which may be coded; -0.0 becomes 0.0, so both are one key.

    ``has_enums`` states that the engine represents declared strings as ENUM values.
    """
    key, coded = measurement.query.keys[index], _find_coded(measurement).get(index)
    if coded is not None and isinstance(key, Column):
        return _position(column(stored_name(key.name), key.table), coded, has_enums=has_enums)
    value = emitter.emit(key)
    return normalize_zero(value) if key.kind is Kind.FLOAT else value


def find_stored(measurement: Measurement) -> dict[int, Category]:
    """Return the keys, by position, that need no comparison with their lists before counting."""
    is_declared = measurement.keys is not None
    return (
        _categories(measurement)
        if is_declared and not measurement.contribution.needs_bounding
        else {}
    )


def kinds_of_keys(measurement: Measurement) -> dict[str, Kind]:
    """Return the kind of each key during contribution bounding, except keys without a kind."""
    coded = _find_coded(measurement)
    kinds = (
        (f"k{index}", Kind.INT if index in coded else key.kind)
        for index, key in enumerate(measurement.query.keys)
    )
    return {name: kind for name, kind in kinds if kind is not None}


def small_keys(measurement: Measurement) -> list[str]:
    """Return the names of the keys that are integers from 0 to 2^31 - 1 in every row to be bounded.

    Why: the key is coded, or a view clips it to a domain of small integers. The domain lacks NULL,
         so rows in which the key is NULL are left out.
    """
    tables, coded = (
        private_tables(measurement.query.source, measurement.catalog),
        _find_coded(measurement),
    )
    return [
        f"k{index}"
        for index, (key, domain) in enumerate(
            zip(measurement.query.keys, measurement.domains, strict=True)
        )
        if isinstance(key, Column) and key.table in tables and domain
        if all(map(_is_text if index in coded else _is_small, domain))
    ]


def decode_keys(found: Mapping[Keys, T], measurement: Measurement) -> dict[Keys, T]:
    """Return results by group; positions become strings, and milliseconds become timestamps."""
    lists = {index: _strings(declared) for index, declared in _find_coded(measurement).items()}
    if not lists:
        return dict(found)

    def name(index: int, value: Any) -> Value:
        is_coded = index in lists and value is not None
        named: Value = lists[index][value] if is_coded else value
        return named

    return {
        tuple(name(index, value) for index, value in enumerate(keys)): one
        for keys, one in found.items()
    }


def _find_coded(measurement: Measurement) -> dict[int, Category]:
    """Return the coded keys: the position of each among the keys, and its declaration."""
    if not measurement.contribution.needs_bounding:
        return {}
    listed = _categories(measurement).items()
    return {index: one for index, one in listed if 0 < len(_strings(one)) <= MAX_LISTED}


def _categories(measurement: Measurement) -> dict[int, Category]:
    """Return the keys that are columns of declared strings in a private table, by position."""
    tables = private_tables(measurement.query.source, measurement.catalog)
    found: dict[int, Category] = {}
    for index, key in enumerate(measurement.query.keys):
        if isinstance(key, Column) and key.table in tables:
            declared = tables[key.table].columns[key.name]
            if isinstance(declared, Category) and declared.kind is Kind.TEXT:
                found[index] = declared
    return found


def _position(text: Sql, declared: Category, *, has_enums: bool) -> Sql:
    """Return the position of a string in its declared list, or NULL if the list lacks it."""
    if has_enums:
        return call("ENUM_CODE", as_enum(text, declared))
    branches = [
        sql.If(this=sql.Literal.string(one), true=number(index))
        for index, one in enumerate(_strings(declared))
    ]
    return sql.Case(this=as_comparable(text, declared), ifs=branches)


def _strings(declared: Category) -> list[str]:
    return [one for one in declared.values if isinstance(one, str)]


def _is_small(value: Value) -> bool:
    return type(value) is int and 0 <= value < 2**31  # engines distinguish Booleans from integers


def _is_text(value: Value) -> bool:
    return isinstance(value, str)


def write_statement(
    measurement: Measurement, salt: str, unit: Kind = Kind.TEXT, *, has_enums: bool = False
) -> sql.Select:
    """Return the statement that computes the keys and exact totals of each group found.

    `decode_keys` and `center_totals` convert its keys and totals to those of the measurement.
    ``unit`` is the kind of units, integers or strings; ``has_enums`` is as for `write_key`.
    """
    keys = [f"k{index}" for index in range(len(measurement.query.keys))]
    parts = [f"t{index}" for index in _totals_with_summands(measurement)]
    stored = _stored_keys(measurement)
    rows = _added(_values(measurement, salt, unit, stored, has_enums=has_enums), measurement, keys)
    if measurement.contribution.needs_bounding and not _only_counts_units(measurement):
        kinds = {UNIT: unit, **dict.fromkeys(parts, Kind.INT), **kinds_of_keys(measurement)}
        small = small_keys(measurement)
        rows = bound_contributions(
            rows, measurement.contribution, keys, parts, salt, kinds=kinds, small=small
        )
    sums = [
        _summed(total, f"t{_twin(index, measurement)}", measurement)
        for index, total in enumerate(measurement.totals)
    ]
    if measurement.keys is None:
        sums.append(_units(measurement))
    statement = _grouped(map(column, keys), sums, rows, keys)
    return _listed(statement, keys, stored) if stored else statement


def _only_counts_units(measurement: Measurement) -> bool:
    """Return whether a query only counts units, without keys and conditions.

    Why: bounding keeps a row of every unit, so it does not change such a count.
    """
    plain = (total.measure is Measure.UNITS and _is_plain(total) for total in measurement.totals)
    return measurement.has_unit and not measurement.query.keys and all(plain)


def center_totals(groups: Groups, measurement: Measurement) -> Groups:
    """Return the totals of a measurement from those of its statement; see `ZeroBasedGrid`."""
    grids = {
        index: _zero_based(total, total.grid, measurement)
        for index, total in enumerate(measurement.totals)
        if total.grid is not None
    }
    shifted = {
        index: (zero_based, _find_row_count(measurement.totals[index], measurement))
        for index, zero_based in grids.items()
        if zero_based.is_shifted
    }

    def center_group(totals: tuple[int, ...]) -> tuple[int, ...]:
        changed = list(totals)
        for index, (zero_based, rows) in shifted.items():
            changed[index] = zero_based.center(totals[index], 0 if rows is None else totals[rows])
        return tuple(changed)

    return {keys: center_group(totals) for keys, totals in groups.items()} if shifted else groups


def _find_row_count(total: Total, measurement: Measurement) -> int | None:
    """Return the position of the total that counts the rows of a sum, or None."""
    for index, other in enumerate(measurement.totals):
        same = (other.argument, other.where) == (total.argument, total.where)
        if same and other.measure is Measure.ROWS and other.grid is None:
            return index
    return None


def _zero_based(total: Total, grid: ValueGrid, measurement: Measurement) -> ZeroBasedGrid:
    """Return the grid on which the statement adds the rows of a sum.

    It is ``grid``, the measurement's, unless the sum is over a column that a view clips. It is also
    ``grid`` if converting the sum needs the number of its rows, and no total counts them.
    """
    if _clipped_range(total, measurement) is None or total.argument is None:
        return ZeroBasedGrid(grid)
    found = zero_based_grid(grid, total.argument.kind)
    return (
        found
        if not found.shift or _find_row_count(total, measurement) is not None
        else ZeroBasedGrid(grid)
    )


def _totals_with_summands(measurement: Measurement) -> list[int]:
    """Return the positions of the totals that need a column of summands."""
    return [
        index
        for index, total in enumerate(measurement.totals)
        if not _is_plain(total) and _twin(index, measurement) == index
    ]


def _is_plain(total: Total) -> bool:
    """Return whether every row adds one, so that rows need no summand."""
    return total.argument is None and total.where is None


def _twin(index: int, measurement: Measurement) -> int:
    """Return the position of the total whose summands a total uses.

    Why: a total that counts values can use the summands of a sum over the same values. They are
         NULL if and only if the value is NULL or the condition does not hold.
    """
    total = measurement.totals[index]
    sums = enumerate(measurement.totals) if total.measure is Measure.ROWS else ()
    for twin, other in sums:
        same = (other.argument, other.where) == (total.argument, total.where)
        if same and other.grid is not None:
            return twin
    return index


def _grouped(
    shown: Iterable[Sql], sums: Iterable[Sql], rows: sql.Select, keys: Sequence[str]
) -> sql.Select:
    """Return the statement that groups ``rows``, which it modifies, and selects keys and totals.

    Why: if ``rows`` only filters its source, and selects columns under their own names, its columns
         are replaced instead of nesting it.
    """
    is_plain = all(isinstance(part, sql.Column) for part in rows.expressions)
    statement = rows if is_plain else select([], nested(rows, "kept"))
    statement.set("expressions", [*shown, *sums])
    if keys:
        statement.set("group", sql.Group(expressions=[column(key) for key in keys]))
    return statement


def _stored_keys(measurement: Measurement) -> dict[int, Category]:
    """Return the keys, by position, that are compared with their lists after grouping.

    Why: undeclared strings count as NULL. So rows can first be grouped by their stored strings.
         Each group is then renamed to its declared string or NULL, and groups of one name are added
         up. Comparing a few groups is faster than comparing every row. Numbers of units do not add
         up, since a unit in several groups must be counted once.
    """
    counts_units = any(total.measure is Measure.UNITS for total in measurement.totals)
    return {} if counts_units else find_stored(measurement)


def _listed(
    statement: sql.Select, keys: Sequence[str], stored: Mapping[int, Category]
) -> sql.Select:
    """Return the groups renamed to their declared strings, with groups of one name added up."""
    parts = [f"t{index}" for index in range(len(statement.expressions) - len(keys))]
    names = zip(statement.expressions, [*keys, *parts], strict=True)
    statement.set("expressions", [label(value, name) for value, name in names])
    listed = [
        label(as_listed(column(key), stored[index]) if index in stored else column(key), key)
        for index, key in enumerate(keys)
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
    has_enums: bool,
) -> sql.Select:
    """Return the first layer of a statement: the rows that count (see the module's docstring)."""
    emitter, source = Emitter(measurement.ranges), measurement.query.source
    columns = [label(unit_column(leftmost(source)), UNIT)] if measurement.has_unit else []
    for index, key in enumerate(measurement.query.keys):
        if index in stored and isinstance(key, Column):
            value: Sql = column(stored_name(key.name), key.table)
        else:
            value = write_key(index, measurement, emitter, has_enums=has_enums)
        columns.append(label(value, f"k{index}"))
    layers = Layers.of(_arguments(measurement), measurement.ranges)
    columns += [label(value, name) for name, value in _operands(measurement, emitter)]
    columns += layers.first()
    writer = SourceWriter(measurement.catalog, measurement.facts, measurement.ranges, salt, unit)
    rows = writer.attach(sql.Select(expressions=columns or [number(1)]), source)
    if measurement.where is not None:
        rows.set("where", sql.Where(this=emitter.emit(measurement.where)))
    return layers.stack(rows)


def _arguments(measurement: Measurement) -> dict[str, Expression]:
    """Return the arguments of the totals by name, except those of `_stored_argument`."""
    totals = {
        f"v{index}": measurement.totals[index] for index in _totals_with_summands(measurement)
    }
    return {
        name: total.argument
        for name, total in totals.items()
        if total.argument is not None and _stored_argument(total, measurement) is None
    }


def _operands(measurement: Measurement, emitter: Emitter) -> Iterator[tuple[str, Sql]]:
    """Yield named columns: the conditions of the totals, and stored arguments with their steps."""
    for index in _totals_with_summands(measurement):
        total = measurement.totals[index]
        if total.where is not None:
            yield f"w{index}", emitter.emit(total.where)
        stored = _stored_argument(total, measurement)
        if stored is not None and total.grid is not None:
            yield f"v{index}", stored
            yield (
                f"s{index}",
                try_steps(stored.copy(), _zero_based(total, total.grid, measurement).grid),
            )


def _stored_argument(total: Total, measurement: Measurement) -> Sql | None:
    """Return the argument of a total as stored, if its steps are clipped instead of its values."""
    if (
        total.grid is None
        or not _step_ends(total, measurement)
        or not isinstance(total.argument, Column)
    ):
        return None
    return column(stored_name(total.argument.name), total.argument.table)


def _added(rows: sql.Select, measurement: Measurement, keys: list[str]) -> sql.Select:
    """Return the second layer: the unit, the keys, and each row's summands (see `_part`)."""
    unit = [unit_column()] if measurement.has_unit else []
    parts = [
        label(_part(measurement.totals[index], index, measurement), f"t{index}")
        for index in _totals_with_summands(measurement)
    ]
    shown = [*unit, *map(column, keys), *parts]
    added = select(shown or [number(1)], nested(rows, "counted"))
    if measurement.keys is not None and not measurement.contribution.needs_bounding:
        return added  # undeclared groups are never released
    answered = zip(keys, measurement.domains, strict=True)
    known = [
        is_known(column(key))
        for key, domain in answered
        if domain is not None and None not in domain
    ]
    return added.where(*known, copy=False) if known else added


def _part(total: Total, index: int, measurement: Measurement) -> Sql:
    """Return a row's summand for the total at a position, NULL if the row does not count."""
    value = column(f"v{index}")
    part: Sql = number(1)
    if total.grid is not None and total.argument is not None:
        grid = _zero_based(total, total.grid, measurement).grid
        part = _steps(total, index, measurement, grid, total.argument.kind)
    elif total.argument is not None:
        # Without bounding, only COUNT reads this summand, and it counts values that are not NULL.
        part = case(is_known(value), part) if measurement.contribution.needs_bounding else value
    return part if total.where is None else case(column(f"w{index}"), part)


def _steps(
    total: Total, index: int, measurement: Measurement, grid: ValueGrid, kind: Kind | None
) -> Sql:
    """Return a row's summand for a sum: the step of its value on the grid."""
    value, clipped, ends = (
        column(f"v{index}"),
        _clipped_range(total, measurement),
        _step_ends(total, measurement),
    )
    if clipped is None or kind is None:
        return summand(value, grid)
    if ends is None:
        return clipped_summand(value, kind, grid, clipped)
    return stored_summand(column(f"s{index}"), value, clipped, ends)


def _step_ends(total: Total, measurement: Measurement) -> tuple[int, int] | None:
    """Return the bounds to which a double column's steps are clipped; None if they are not."""
    clipped, argument = _clipped_range(total, measurement), total.argument
    if clipped is None or total.grid is None or argument is None or argument.kind is not Kind.FLOAT:
        return None
    return ends_within(_zero_based(total, total.grid, measurement).grid, clipped)


def _clipped_range(total: Total, measurement: Measurement) -> Range | None:
    """Return the range to which a view clips a total's argument; None unless a private column."""
    match total.argument:
        case Column(table=alias, name=name) if alias in private_tables(
            measurement.query.source, measurement.catalog
        ):
            return measurement.ranges[alias, name]
        case _:
            return None


def _summed(total: Total, part: str, measurement: Measurement) -> Sql:
    """Return a total of a group, from the column ``part`` of its summands."""
    if total.measure is Measure.UNITS and measurement.has_unit:
        unit: Sql = unit_column()
        counted = unit if _is_plain(total) else case(is_known(column(part)), unit)
        return sql.Count(this=sql.Distinct(expressions=[counted]))
    if _is_plain(total):
        return sql.Count(this=sql.Star())
    if total.grid is None:
        return sql.Count(this=column(part))
    return exact_sum(typed(column(part), Kind.INT))


def _units(measurement: Measurement) -> Sql:
    """Return the number of units in a group, by which partition selection decides on its key."""
    unit = sql.Distinct(expressions=[unit_column()]) if measurement.has_unit else sql.Star()
    return sql.Count(this=unit)
