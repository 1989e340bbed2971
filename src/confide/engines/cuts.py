"""Which rows of a unit stay: so many groups and rows, by keyed hash.

The rule: order a unit's groups by their mark and then by what they hold, and within a group its
rows likewise; keep the first groups, and of these the first rows. (Where as many groups as rows may
stay, only rows are ordered.) A window carries it out. To spare it, rows that it would drop anyway
are dropped before, and units with too few rows to lose any go around it.
"""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from sqlglot import expressions as sql

from confide.declare import Kind
from confide.engines.expressions import Sql, call, number
from confide.engines.fragments import UNIT, column, label, nested, select, table, unit_column
from confide.engines.marks import LEVEL, MARK, NUMBER, least_first, mark_rows, number_rows
from confide.plan import Contribution

__all__ = ["cut_rows"]

MOST_LEVELS: Final = 8
SIZE, LEVELS, PLACE, GROUP = "the size", "the levels", "the place", "the group"
MARKED, UNITS, NEAR = "marked rows", "all units", "near rows"  # no table's
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
    names, by = [UNIT, *held], [UNIT, *hashed]
    marked = mark_rows(rows, names, by, kinds, f"{salt} groups", small=small)

    def first(source: sql.Select) -> sql.Select:
        if not is_grouped:
            return _first_rows(source, held, most)
        numbered = number_rows(source, [MARK, *parts], {**kinds, MARK: Kind.INT}, salt)
        return _first_groups(numbered, limits, keys, parts)

    if most > MOST_LEVELS:
        return first(marked)
    shown = [UNIT, *held]
    many = select([sql.Star()], table(NEAR))
    many.set("where", sql.Where(this=sql.GT(this=column(SIZE), expression=number(most))))
    few = select(map(column, shown), table(NEAR))
    few.set("where", sql.Where(this=sql.LTE(this=column(SIZE), expression=number(most))))
    kept = sql.Union(this=few, expression=first(many), distinct=False)
    result = select(map(column, shown), nested(kept, "stayed"))
    stages = ((MARKED, marked, False), (UNITS, _units(), True), (NEAR, _near(most), True))
    for name, stage, is_stored in stages:
        quoted = sql.to_identifier(name, quoted=True)
        result.with_(quoted, stage, materialized=is_stored, copy=False)
    return result


def _units() -> sql.Select:
    """Return each unit's number of rows, and the levels of their marks, which are single bits."""
    size = label(sql.Count(this=sql.Star()), SIZE)
    levels = label(call("BIT_OR", column(LEVEL)), LEVELS)
    units = select([unit_column(), size, levels], table(MARKED))
    units.set("group", sql.Group(expressions=[unit_column()]))
    return units


def _near(most: int) -> sql.Select:
    """Return the rows that may be among the first of their unit, each with the unit's size.

    Claim: of every unit all rows stay that have one of its ``most`` first marks.
    Why:   a row is dropped where its unit has marks of ``most`` or more higher levels, and each
           of these comes before the row's own.
    """
    every = sql.Column(this=sql.Star(), table=sql.to_identifier(MARKED, quoted=True))
    near = select([every, column(SIZE, UNITS)], table(MARKED))
    same = sql.EQ(this=unit_column(MARKED), expression=unit_column(UNITS))
    level = column(LEVEL, MARKED)
    above = sql.Paren(this=sql.Neg(this=sql.Paren(this=level + level.copy())))
    higher = sql.BitwiseAnd(this=column(LEVELS, UNITS), expression=above)
    inside = sql.LT(this=call("BIT_COUNT", higher), expression=number(most))
    return near.join(table(UNITS), on=sql.And(this=same, expression=inside), copy=False)


def _first_rows(source: sql.Select, held: Sequence[str], most: int) -> sql.Select:
    """Return the first rows of each unit."""
    place = _rank("ROW_NUMBER", [least_first(), *map(column, held)])
    ranked = select([*map(column, [UNIT, *held]), label(place, PLACE)], nested(source, MARKED))
    inside = sql.LTE(this=column(PLACE), expression=number(most))
    return select(map(column, [UNIT, *held]), nested(ranked, "ranked")).where(inside, copy=False)


def _first_groups(
    numbered: sql.Select, limits: Contribution, keys: Sequence[str], parts: Sequence[str]
) -> sql.Select:
    """Return the first groups of each unit, and of these the first rows.

    Why: rows stand in the order of their groups, so the rows of the first groups come first of
         all, and their places count no others.
    """
    held = [*keys, *parts]
    group = [least_first(), *map(column, keys)]
    # The square of a number of 31 bits is mixed best in the middle.
    middle = sql.BitwiseRightShift(
        this=sql.Paren(this=column(NUMBER) * column(NUMBER)), expression=number(16)
    )
    lower = sql.BitwiseAnd(this=sql.Paren(this=middle), expression=number(2**31 - 1))
    order = [*(part.copy() for part in group), sql.Paren(this=lower), *map(column, parts)]
    ranks = [label(_rank("DENSE_RANK", group), GROUP), label(_rank("ROW_NUMBER", order), PLACE)]
    ranked = select([*map(column, [UNIT, *held]), *ranks], nested(numbered, "numbered"))
    inside = [
        sql.LTE(this=column(GROUP), expression=number(limits.groups)),
        sql.LTE(this=column(PLACE), expression=number(limits.rows)),
    ]
    return select(map(column, [UNIT, *held]), nested(ranked, "ranked")).where(*inside, copy=False)


def _rank(function: str, order: Sequence[Sql]) -> Sql:
    ranks = sql.Order(expressions=[sql.Ordered(this=part, nulls_first=False) for part in order])
    return sql.Window(this=call(function), partition_by=[unit_column()], order=ranks)
