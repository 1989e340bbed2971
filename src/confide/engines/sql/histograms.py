"""Statements that count rows by group and cell, for quantiles.

A cell is a value, or a small part of a range. The layers are those of other statements (see
`statements`): the rows that count, with their keys and cell; contribution bounding; the counts. The
engine returns only group keys and integers, one integer for each cell that has rows.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, assert_never

import numpy as np
from sqlglot import expressions as sql

from confide.declare import Category, Kind, is_parquet
from confide.engines.protocol import Counts, Integers, Pair
from confide.engines.sql.builders import (
    UNIT,
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
from confide.engines.sql.contribution_bounding import bound_contributions
from confide.engines.sql.expressions import Emitter
from confide.engines.sql.sources import SourceWriter, leftmost, stored_name
from confide.engines.sql.statements import find_stored, kinds_of_keys, small_keys, write_key
from confide.engines.sql.stored_values import as_enum, as_listed
from confide.engines.sql.summands import clipped_summand, summand
from confide.expressions.tree import Column, Value
from confide.plan import (
    AsinhCells,
    Cells,
    GridCells,
    HistogramCount,
    Measurement,
    private_tables,
)
from confide.plan.cells import MAX_VALUES

__all__ = ["read_counts", "write_histogram"]

CELL, ROWS, PACKED, VALUE = "cell", "rows", "packed", "v"  # keys are k0, k1, and so on
EMPTY: Final = np.empty(0, dtype=np.int64)
MAX_BYTE_CELLS: Final = 2**8
"""The largest number of cells whose numbers fit in 8 bits."""


def write_histogram(
    measurement: Measurement,
    histogram: HistogramCount,
    salt: str,
    unit: Kind = Kind.TEXT,
    *,
    has_enums: bool = False,
) -> sql.Select:
    """Return the statement that counts the rows in each cell of each group.

    It returns one row per group: the keys, and a list of integers for the cells with rows. An
    integer is a number of rows times 2^20, plus the cell, so that both stay together. It fits in 64
    bits for any realistic number of rows. If a cell has several integers, their numbers of rows add
    up. ``unit`` is the kind of units, integers or strings. ``has_enums`` states that the engine
    groups by small integers and ENUM values without hashing.

    Why: if values are likely dictionary-encoded (see `_is_dictionary_encoded`), NULL gets the cell
         of the lower bound. But COUNT ignores NULL. So a cell may have no rows, and is left out.
    """
    keys = [f"k{index}" for index in range(len(measurement.query.keys))]
    is_encoded = has_enums and _is_dictionary_encoded(measurement, histogram)
    rows = _rows(measurement, histogram, salt, unit, has_enums=has_enums, is_encoded=is_encoded)
    if measurement.contribution.needs_bounding:
        kinds = {UNIT: unit, CELL: Kind.INT, **kinds_of_keys(measurement)}
        small = small_keys(measurement)
        rows = bound_contributions(
            rows, measurement.contribution, keys, [CELL], salt, kinds=kinds, small=small
        )
    row_count = label(sql.Count(this=column(VALUE) if is_encoded else sql.Star()), ROWS)
    counts = select([*map(column, keys), column(CELL), row_count], nested(rows, "kept"))
    counts.set("group", sql.Group(expressions=[column(name) for name in (*keys, CELL)]))
    # ENUM values were compared with their list before rows were counted; strings are compared here.
    stored = find_stored(measurement)
    finish = _as_text if has_enums else as_listed
    listed = [
        label(finish(column(key), stored[index]) if index in stored else column(key), key)
        for index, key in enumerate(keys)
    ]
    # NULL cells are filtered here, not in each row, where the engine would compute cells twice.
    packed_cell = column(ROWS) * number(MAX_VALUES) + column(CELL)
    held = sql.GT(this=column(ROWS), expression=number(0))
    known = sql.Where(this=held if is_encoded else is_known(column(CELL)))
    packed = sql.Filter(this=call("LIST", packed_cell), expression=known)
    named = select([*listed, column(CELL), column(ROWS)], nested(counts, "counts"))
    statement = select([*map(column, keys), label(packed, PACKED)], nested(named, "listed"))
    if keys:
        statement.set("group", sql.Group(expressions=[column(key) for key in keys]))
    return statement


def _is_dictionary_encoded(measurement: Measurement, histogram: HistogramCount) -> bool:
    """Return whether a histogram's column is likely dictionary-encoded in a file.

    Such a column is clipped by LEAST and GREATEST instead of CASE.

    Why: the engine computes functions of a dictionary-encoded column, such as LEAST and GREATEST,
         once per dictionary entry. It computes CASE once per row, which is faster otherwise.
    """
    tables = private_tables(measurement.query.source, measurement.catalog)
    match histogram:
        case HistogramCount(argument=Column(table=alias, kind=Kind.INT), cells=cells, where=None):
            is_file = alias in tables and is_parquet(tables[alias].source)
            return is_file and _is_small(cells, measurement)
        case _:
            return False


def _is_small(cells: Cells, measurement: Measurement) -> bool:
    """Return whether cells are integers of 8 bits, and rows need no contribution bounding."""
    return cells.count <= MAX_BYTE_CELLS and not measurement.contribution.needs_bounding


def _as_text(value: Sql, declared: Category) -> Sql:
    """Return the string of an ENUM value, which was already compared with its list."""
    del declared
    return cast(value, "VARCHAR")


def _rows(
    measurement: Measurement,
    histogram: HistogramCount,
    salt: str,
    unit: Kind,
    *,
    has_enums: bool,
    is_encoded: bool,
) -> sql.Select:
    """Return the unit, the keys, and the cell of each row that counts; the cell may be NULL."""
    emitter, source, stored = (
        Emitter(measurement.ranges),
        measurement.query.source,
        find_stored(measurement),
    )
    columns = [label(unit_column(leftmost(source)), UNIT)] if measurement.has_unit else []
    for index, key in enumerate(measurement.query.keys):
        match key:
            case Column(table=alias, name=name) if index in stored:
                value: Sql = column(stored_name(name), alias)
                value = as_enum(value, stored[index]) if has_enums else value
            case _:
                value = write_key(index, measurement, emitter, has_enums=has_enums)
        columns.append(label(value, f"k{index}"))
    columns.append(label(_value(histogram, emitter, is_encoded=is_encoded), VALUE))
    if histogram.where is not None:
        columns.append(label(emitter.emit(histogram.where), "w"))
    writer = SourceWriter(measurement.catalog, measurement.facts, measurement.ranges, salt, unit)
    rows = writer.attach(sql.Select(expressions=columns), source)
    if measurement.where is not None:
        rows.set("where", sql.Where(this=emitter.emit(measurement.where)))
    return _with_cells(rows, measurement, histogram, has_enums=has_enums, is_encoded=is_encoded)


def _with_cells(
    rows: sql.Select,
    measurement: Measurement,
    histogram: HistogramCount,
    *,
    has_enums: bool,
    is_encoded: bool,
) -> sql.Select:
    """Return rows with the cells of their values.

    If contributions are bounded or keys are undeclared, rows with an undeclared NULL key are left
    out.
    """
    keys = [f"k{index}" for index in range(len(measurement.query.keys))]
    cell = _cell(measurement, histogram, is_encoded=is_encoded)
    cell = cell if histogram.where is None else case(column("w"), cell)
    if has_enums and _is_small(histogram.cells, measurement):
        cell = try_cast(cell, "UTINYINT")  # all fit; others would be NULL
    unit = [unit_column()] if measurement.has_unit else []
    value = [column(VALUE)] if is_encoded else []
    shown = [*unit, *map(column, keys), label(cell, CELL), *value]
    with_cells = select(shown, nested(rows, "counted"))
    if measurement.keys is not None and not measurement.contribution.needs_bounding:
        return with_cells  # undeclared groups are never released
    known = [
        is_known(column(key))
        for key, domain in zip(keys, measurement.domains, strict=True)
        if domain is not None and None not in domain
    ]
    return with_cells.where(*known, copy=False) if known else with_cells


def _value(histogram: HistogramCount, emitter: Emitter, *, is_encoded: bool) -> Sql:
    """Return the value whose cell is counted; a dictionary-encoded column is read as stored."""
    if is_encoded and isinstance(histogram.argument, Column):
        return column(stored_name(histogram.argument.name), histogram.argument.table)
    value = emitter.emit(histogram.argument)
    return value if isinstance(histogram.cells, GridCells) else cast(value, "DOUBLE")


def _cell(measurement: Measurement, histogram: HistogramCount, *, is_encoded: bool) -> Sql:
    """Return the cell of a value, an integer.

    NULL stays NULL, except in a dictionary-encoded column, where it gets the lower bound's cell.
    """
    value: Sql = column(VALUE)
    match histogram.cells:
        case GridCells(grid=grid):
            match histogram.argument:
                case Column(table=alias, name=name, kind=kind) if alias in private_tables(
                    measurement.query.source, measurement.catalog
                ):
                    clipped = measurement.ranges[alias, name]
                    if is_encoded:
                        low, high = number(int(clipped.low)), number(int(clipped.high))
                        value = call("LEAST", call("GREATEST", value, low), high)
                    return clipped_summand(value, kind, grid, clipped)
                case _:
                    return summand(value, grid)
        case AsinhCells() as cells:
            return _asinh_cell(value, cells)
        case _:
            assert_never(histogram.cells)


def _asinh_cell(value: Sql, cells: AsinhCells) -> Sql:
    """Return the cell of a double, by the same operations as `AsinhCells`."""
    inside = call("LEAST", call("GREATEST", value, number(cells.low)), number(cells.high))
    position: Sql = sql.Paren(this=inside - number(cells.low)) * number(cells.line)
    if cells.bend:
        curve = call("ASINH", inside.copy() * number(cells.rate))
        position = position + sql.Paren(this=curve - number(cells.offset)) * number(cells.bend)
    # Privacy: clamping to the first and last cell counts every row in one of the plan's cells.
    first, last = number(0.0), number(float(cells.count - 1))
    clamped = call("LEAST", call("GREATEST", call("FLOOR", position), first), last)
    # LEAST and GREATEST skip NULL, which must stay NULL.
    return case(is_known(value.copy()), cast(clamped, "INTEGER"))


def read_counts(found: Mapping[str, Any], keys: int) -> Counts:
    """Return the cells of each group in order, with the number of rows in each.

    ``found`` is the result of `write_histogram`, as columns by name, and ``keys`` is the number of
    group keys.
    """
    names = [_keys(found[f"k{index}"].tolist()) for index in range(keys)]
    groups = list(zip(*names, strict=True)) if keys else [()]
    lists = [EMPTY if packed is None else packed for packed in found[PACKED].tolist()]
    positions = {group: index for index, group in enumerate(dict.fromkeys(groups))}
    sizes = np.array([len(packed) for packed in lists], dtype=np.int64)
    owners = np.repeat(np.array([positions[group] for group in groups], dtype=np.int64), sizes)
    pairs = _unpack(owners, np.concatenate([EMPTY, *lists]), len(positions))
    return dict(zip(positions, pairs, strict=True))


def _keys(values: list[Any]) -> list[Value]:
    """Return the group keys in one column, with dates instead of timestamps."""
    return [value.date() if isinstance(value, datetime) else value for value in values]


def _unpack(owners: Integers, packed: Any, count: int) -> list[Pair]:
    """Return the cells of each of ``count`` groups in order, each with its number of rows.

    ``owners`` has the position of the group of each packed integer. A group's list may have a cell
    several times.
    """
    numbers = packed.astype(np.int64)
    cells, rows = owners * MAX_VALUES + numbers % MAX_VALUES, numbers // MAX_VALUES
    order = np.argsort(cells)
    cells, rows = cells[order], rows[order]
    first = np.flatnonzero(np.diff(cells, prepend=-1))
    cells, rows = cells[first], np.add.reduceat(rows, first)
    starts = np.searchsorted(cells, np.arange(count) * MAX_VALUES)
    parts = (np.split(column, starts)[1:] for column in (cells % MAX_VALUES, rows))
    return list(zip(*parts, strict=True))
