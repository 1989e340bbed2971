"""Which rows of a unit stay: so many groups and rows, by keyed hash.

The rule: order a unit's groups by their mark and then by what they hold, and within a group its
rows likewise; keep the first groups, and of these the first rows. (Where as many groups as rows may
stay, only rows are ordered.) A window carries it out. To spare it, most rows of large units that it
would drop anyway are dropped before.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from sqlglot import expressions as sql

from confide.declare import Kind
from confide.engines.expressions import Sql, call, number
from confide.engines.fragments import UNIT, column, label, narrow, nested, select, unit_column
from confide.engines.marks import (
    LEVELS,
    MARK,
    NUMBER,
    level_of,
    mark_rows,
    number_rows,
    rarer_than,
)
from confide.plan import Contribution

__all__ = ["cut_rows"]

MORE_LEVELS: Final = 8
MOST_LEVELS: Final = LEVELS // 4
FOUND, PLACE, GROUP = "the levels", "the place", "the group"
MARKED, LARGE = "marked rows", "large units"  # no table's
TEXTS: Final[Mapping[str, Kind]] = MappingProxyType({})


def cut_rows(
    rows: sql.Select,
    limits: Contribution,
    keys: Sequence[str],
    parts: Sequence[str],
    salt: str,
    *,
    kinds: Mapping[str, Kind] = TEXTS,
    small: Collection[str] = (),
) -> sql.Select:
    """Keep so many groups and rows of each unit, first by keyed hash, then by what they hold.

    ``keys`` and ``parts`` name all the columns of ``rows`` but the unit; groups differ in keys.
    ``kinds`` says what they and the unit hold; columns that it leaves out are hashed as text.
    Those in ``small`` hold whole numbers from 0 to 2^31 - 1 in every row, which only saves time.

    # Privacy: ties are between equal rows only, so which rows of a unit stay is a function of that
    # unit's rows, whatever else is in the table.
    """
    held, is_grouped = [*keys, *parts], bool(keys) and limits.groups < limits.rows
    hashed, most = (keys, limits.groups) if is_grouped else (held, limits.rows)
    by = [UNIT, *hashed]

    def mark(source: sql.Select, names: Sequence[str]) -> sql.Select:
        return mark_rows(source, names, by, kinds, f"{salt} groups", small=small)

    if most <= MOST_LEVELS:
        # Named parts of a WITH would be shorter, but the engine takes long to put them in place.
        units = _large_units(mark(narrow(rows.copy(), by), [UNIT]), most)
        rows = _near_rows(mark(rows, [UNIT, *held]), units, most)
    else:
        rows = mark(rows, [UNIT, *held])
    if is_grouped and parts:
        rows = number_rows(rows, [MARK, *parts], {**kinds, MARK: Kind.INT}, salt)
    if is_grouped:
        return _first_groups(rows, limits, keys, parts)
    return _first_rows(rows, held, most)


def _large_units(marked: sql.Select, most: int) -> sql.Select:
    """Return the units with ``most`` or more levels among the rare ones, and these levels.

    A unit of many groups has some of the rarest levels, so few rows tell how far down its first
    groups can reach; small units are not found, and lose nothing here.
    """
    levels = call("BIT_OR", level_of())
    units = select([unit_column(), label(levels, FOUND)], nested(marked, MARKED))
    units.set("where", sql.Where(this=rarer_than(most + MORE_LEVELS)))
    units.set("group", sql.Group(expressions=[unit_column()]))
    enough = sql.GTE(this=call("BIT_COUNT", levels.copy()), expression=number(most))
    units.set("having", sql.Having(this=enough))
    return units


def _near_rows(marked: sql.Select, units: sql.Select, most: int) -> sql.Select:
    """Return the rows that may be among the first of their unit.

    Claim: of every unit all rows stay that have one of its ``most`` first marks.
    Why:   a row is dropped where its unit has marks of ``most`` or more lower levels, and each
           of these comes before the row's own.
    """
    every = sql.Column(this=sql.Star(), table=sql.to_identifier(MARKED, quoted=True))
    same = sql.EQ(this=unit_column(MARKED), expression=unit_column(LARGE))
    below = sql.Paren(this=sql.Sub(this=level_of(MARKED), expression=number(1)))
    lower = sql.BitwiseAnd(this=column(FOUND, LARGE), expression=below)
    behind = sql.GTE(this=call("BIT_COUNT", lower), expression=number(most))
    both = sql.And(this=same, expression=behind)
    near = select([every], nested(marked, MARKED))
    return near.join(nested(units, LARGE), on=both, join_type="anti", copy=False)


def _first_rows(source: sql.Select, held: Sequence[str], most: int) -> sql.Select:
    """Return the first rows of each unit."""
    place = _rank("ROW_NUMBER", map(column, [MARK, *held]))
    ranked = select([*map(column, [UNIT, *held]), label(place, PLACE)], nested(source, "near"))
    inside = sql.LTE(this=column(PLACE), expression=number(most))
    return select(map(column, [UNIT, *held]), nested(ranked, "ranked")).where(inside, copy=False)


def _first_groups(
    numbered: sql.Select, limits: Contribution, keys: Sequence[str], parts: Sequence[str]
) -> sql.Select:
    """Return the first groups of each unit, and of these the first rows.

    Why: rows stand in the order of their groups, so the rows of the first groups come first of
         all, and their places count no others.
    """
    held, group = [*keys, *parts], [MARK, *keys]
    order: list[Sql] = list(map(column, group))
    if parts:
        # The square of a number of 31 bits is mixed best in the middle.
        square = sql.Paren(this=column(NUMBER) * column(NUMBER))
        middle = sql.Paren(this=sql.BitwiseRightShift(this=square, expression=number(16)))
        lower = sql.BitwiseAnd(this=middle, expression=number(2**31 - 1))
        order += [sql.Paren(this=lower), *map(column, parts)]
    ranks = [
        label(_rank("DENSE_RANK", map(column, group)), GROUP),
        label(_rank("ROW_NUMBER", order), PLACE),
    ]
    ranked = select([*map(column, [UNIT, *held]), *ranks], nested(numbered, "numbered"))
    inside = [
        sql.LTE(this=column(GROUP), expression=number(limits.groups)),
        sql.LTE(this=column(PLACE), expression=number(limits.rows)),
    ]
    return select(map(column, [UNIT, *held]), nested(ranked, "ranked")).where(*inside, copy=False)


def _rank(function: str, order: Iterable[Sql]) -> Sql:
    ranks = sql.Order(expressions=[sql.Ordered(this=part, nulls_first=False) for part in order])
    return sql.Window(this=call(function), partition_by=[unit_column()], order=ranks)
