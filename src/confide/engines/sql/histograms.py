"""Statements that count rows by group and cell, for quantiles.

The layers are those of every statement: the rows that count, with keys and cell; the cut; the
counts. Nothing but whole numbers leaves the engine, one for each cell that holds rows.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, assert_never

import numpy as np
from sqlglot import expressions as sql

from confide.declare import Category, Kind, is_parquet
from confide.engines.protocol import Counts, Integers, Pair
from confide.engines.sql.contribution_bounding import cut_rows
from confide.engines.sql.expressions import (
    UNIT,
    Emitter,
    Sql,
    call,
    case,
    cast,
    column,
    is_known,
    label,
    nested,
    number,
    select,
    try_cast,
    unit_column,
)
from confide.engines.sql.sources import SourceWriter, as_stored, leftmost
from confide.engines.sql.statements import find_stored, kinds_of_keys, small_keys, write_key
from confide.engines.sql.stored_values import as_listed, as_narrow
from confide.engines.sql.summands import clipped_part, whole_part
from confide.expressions.tree import Column, Value
from confide.plan import (
    AsinhCells,
    Cells,
    GridCells,
    HistogramCount,
    Measurement,
    private_tables,
)
from confide.plan.cells import MOST_VALUES

__all__ = ["read_counts", "write_histogram"]

CELL, ROWS, PACKED, VALUE = "cell", "rows", "packed", "v"  # keys are k0, k1 and so on
NOTHING: Final = np.empty(0, dtype=np.int64)
NARROW: Final = 2**8
"""So many cells have numbers of 8 bits."""


def write_histogram(
    measurement: Measurement,
    histogram: HistogramCount,
    salt: str,
    unit: Kind = Kind.TEXT,
    *,
    is_narrow: bool = False,
) -> sql.Select:
    """Return the statement that gives each group found its keys, and cells with their rows.

    Cells and rows come in one list, so that they cannot be told apart wrongly: rows times 2^20
    plus the cell, in 64 bits, for which no engine has enough rows. ``unit`` says whether units
    are whole numbers or texts. ``is_narrow`` is for an engine that counts by numbers of few bits
    without hashing, and holds listed texts as such.

    Why: where values are packed (`_is_packed`), NULL is placed in a cell like others, but COUNT
         leaves it out; a cell may then hold no rows.
    """
    keys = [f"k{place}" for place in range(len(measurement.query.keys))]
    is_packed = is_narrow and _is_packed(measurement, histogram)
    rows = _rows(measurement, histogram, salt, unit, is_narrow=is_narrow, is_packed=is_packed)
    if measurement.contribution.is_cut:
        kinds = {UNIT: unit, CELL: Kind.INT, **kinds_of_keys(measurement)}
        small = small_keys(measurement)
        rows = cut_rows(
            rows, measurement.contribution, keys, [CELL], salt, kinds=kinds, small=small
        )
    many = label(sql.Count(this=column(VALUE) if is_packed else sql.Star()), ROWS)
    counts = select([*map(column, keys), column(CELL), many], nested(rows, "kept"))
    counts.set("group", sql.Group(expressions=[column(name) for name in (*keys, CELL)]))
    # Narrow texts were compared with their list before they were counted, others are after it.
    stored = find_stored(measurement)
    finish = _as_text if is_narrow else as_listed
    listed = [
        label(finish(column(key), stored[place]) if place in stored else column(key), key)
        for place, key in enumerate(keys)
    ]
    # Filtering the counts, not the rows, spares the engine from placing every row twice.
    one = column(ROWS) * number(MOST_VALUES) + column(CELL)
    held = sql.GT(this=column(ROWS), expression=number(0))
    known = sql.Where(this=held if is_packed else is_known(column(CELL)))
    packed = sql.Filter(this=call("LIST", one), expression=known)
    named = select([*listed, column(CELL), column(ROWS)], nested(counts, "counts"))
    statement = select([*map(column, keys), label(packed, PACKED)], nested(named, "listed"))
    if keys:
        statement.set("group", sql.Group(expressions=[column(key) for key in keys]))
    return statement


def _is_packed(measurement: Measurement, histogram: HistogramCount) -> bool:
    """Tell whether a file is likely to hold few different values, each row being a place in a list.

    Why: functions of one value are then computed once for each of the list, but choices by CASE
         for each row. LEAST and GREATEST are such functions; elsewhere they take longer than CASE.
    """
    tables = private_tables(measurement.query.source, measurement.catalog)
    match histogram:
        case HistogramCount(argument=Column(table=alias, kind=Kind.INT), cells=cells, where=None):
            is_file = alias in tables and is_parquet(tables[alias].source)
            return is_file and _is_small(cells, measurement)
        case _:
            return False


def _is_small(cells: Cells, measurement: Measurement) -> bool:
    """Tell whether cells are numbers of few bits, of rows that no cut has to order."""
    return cells.count <= NARROW and not measurement.contribution.is_cut


def _as_text(value: Sql, declared: Category) -> Sql:
    """Return the text of a value that was compared with its list already."""
    del declared
    return cast(value, "VARCHAR")


def _rows(
    measurement: Measurement,
    histogram: HistogramCount,
    salt: str,
    unit: Kind,
    *,
    is_narrow: bool,
    is_packed: bool,
) -> sql.Select:
    """Return unit, keys and cell of each row that counts; the cell is NULL where it does not."""
    emitter, source, stored = (
        Emitter(measurement.ranges),
        measurement.query.source,
        find_stored(measurement),
    )
    columns = [label(unit_column(leftmost(source)), UNIT)] if measurement.has_unit else []
    for place, key in enumerate(measurement.query.keys):
        match key:
            case Column(table=alias, name=name) if place in stored:
                value: Sql = column(as_stored(name), alias)
                value = as_narrow(value, stored[place]) if is_narrow else value
            case _:
                value = write_key(place, measurement, emitter, is_narrow=is_narrow)
        columns.append(label(value, f"k{place}"))
    columns.append(label(_value(histogram, emitter, is_packed=is_packed), VALUE))
    if histogram.where is not None:
        columns.append(label(emitter.emit(histogram.where), "w"))
    writer = SourceWriter(measurement.catalog, measurement.facts, measurement.ranges, salt, unit)
    rows = writer.attach(sql.Select(expressions=columns), source)
    if measurement.where is not None:
        rows.set("where", sql.Where(this=emitter.emit(measurement.where)))
    return _place(rows, measurement, histogram, is_narrow=is_narrow, is_packed=is_packed)


def _place(
    rows: sql.Select,
    measurement: Measurement,
    histogram: HistogramCount,
    *,
    is_narrow: bool,
    is_packed: bool,
) -> sql.Select:
    """Return rows with the cells of their values, without those whose keys cannot be answered."""
    keys = [f"k{place}" for place in range(len(measurement.query.keys))]
    cell = _cell(measurement, histogram, is_packed=is_packed)
    cell = cell if histogram.where is None else case(column("w"), cell)
    if is_narrow and _is_small(histogram.cells, measurement):
        cell = try_cast(cell, "UTINYINT")  # no cell is past it, and none could fail if one were
    unit = [unit_column()] if measurement.has_unit else []
    value = [column(VALUE)] if is_packed else []
    shown = [*unit, *map(column, keys), label(cell, CELL), *value]
    placed = select(shown, nested(rows, "counted"))
    if measurement.keys is not None and not measurement.contribution.is_cut:
        return placed  # groups that are not declared are never answered
    known = [
        is_known(column(key))
        for key, domain in zip(keys, measurement.domains, strict=True)
        if domain is not None and None not in domain
    ]
    return placed.where(*known, copy=False) if known else placed


def _value(histogram: HistogramCount, emitter: Emitter, *, is_packed: bool) -> Sql:
    if is_packed and isinstance(histogram.argument, Column):
        return column(as_stored(histogram.argument.name), histogram.argument.table)
    value = emitter.emit(histogram.argument)
    return value if isinstance(histogram.cells, GridCells) else cast(value, "DOUBLE")


def _cell(measurement: Measurement, histogram: HistogramCount, *, is_packed: bool) -> Sql:
    """Return the cell of a value, a whole number of the plan's; NULL stays NULL, unless packed."""
    value: Sql = column(VALUE)
    match histogram.cells:
        case GridCells(grid=grid):
            match histogram.argument:
                case Column(table=alias, name=name, kind=kind) if alias in private_tables(
                    measurement.query.source, measurement.catalog
                ):
                    clipped = measurement.ranges[alias, name]
                    if is_packed:
                        low, high = number(int(clipped.low)), number(int(clipped.high))
                        value = call("LEAST", call("GREATEST", value, low), high)
                    return clipped_part(value, kind, grid, clipped)
                case _:
                    return whole_part(value, grid)
        case AsinhCells() as cells:
            return _bent_cell(value, cells)
        case _:
            assert_never(histogram.cells)


def _bent_cell(value: Sql, cells: AsinhCells) -> Sql:
    """Return the cell by the same operations as `AsinhCells`."""
    inside = call("LEAST", call("GREATEST", value, number(cells.low)), number(cells.high))
    place: Sql = sql.Paren(this=inside - number(cells.low)) * number(cells.line)
    if cells.bend:
        curve = call("ASINH", inside.copy() * number(cells.rate))
        place = place + sql.Paren(this=curve - number(cells.offset)) * number(cells.bend)
    # Privacy: the clamp has whole ends, so each row is counted in one of the plan's cells.
    first, last = number(0.0), number(float(cells.count - 1))
    clamped = call("LEAST", call("GREATEST", call("FLOOR", place), first), last)
    # LEAST and GREATEST skip NULL, which must stay NULL.
    return case(is_known(value.copy()), cast(clamped, "INTEGER"))


def read_counts(found: Mapping[str, Any], keys: int) -> Counts:
    """Return the cells of each group, in order, with the rows in each, from columns by name."""
    names = [_keys(found[f"k{place}"].tolist()) for place in range(keys)]
    groups = list(zip(*names, strict=True)) if keys else [()]
    lists = [NOTHING if packed is None else packed for packed in found[PACKED].tolist()]
    places = {group: place for place, group in enumerate(dict.fromkeys(groups))}
    sizes = np.array([len(one) for one in lists], dtype=np.int64)
    owners = np.repeat(np.array([places[group] for group in groups], dtype=np.int64), sizes)
    pairs = _unpack(owners, np.concatenate([NOTHING, *lists]), len(places))
    return dict(zip(places, pairs, strict=True))


def _keys(values: list[Any]) -> list[Value]:
    """Return the keys of one column as they are declared: days are no points in time."""
    return [value.date() if isinstance(value, datetime) else value for value in values]


def _unpack(owners: Integers, packed: Any, count: int) -> list[Pair]:
    """Return for each of so many groups its cells in order, each once, with the rows in it."""
    numbers = packed.astype(np.int64)
    cells, rows = owners * MOST_VALUES + numbers % MOST_VALUES, numbers // MOST_VALUES
    order = np.argsort(cells)
    cells, rows = cells[order], rows[order]
    first = np.flatnonzero(np.diff(cells, prepend=-1))
    cells, rows = cells[first], np.add.reduceat(rows, first)
    starts = np.searchsorted(cells, np.arange(count) * MOST_VALUES)
    parts = (np.split(column, starts)[1:] for column in (cells % MOST_VALUES, rows))
    return list(zip(*parts, strict=True))
