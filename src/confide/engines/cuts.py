"""Which rows of a unit stay: so many groups and rows, by keyed hash.

The rule: order a unit's groups by a keyed hash of what they hold and then by what they hold, and
keep the first (unless as many groups as rows may stay); order the rows of these groups likewise,
and keep the first. Windows carry it out. To spare them, rows that they would drop anyway are
dropped before, and units with too few rows to lose any go around them.

The hash is the engine's own, of 63 bits, since MD5 of texts took over ten times as long. Another
engine may thus keep other rows of a unit, but each keeps a function of that unit's rows.
"""

from collections.abc import Sequence
from typing import Final

from sqlglot import expressions as sql

from confide.engines.expressions import Sql, call, case, cast, number
from confide.engines.fragments import UNIT, column, label, table, unit_column
from confide.plan import Contribution

__all__ = ["cut_rows"]

MOST_CLASSES: Final = 8
LARGEST_MARK: Final = 2**63 - 1
MARK, SIZE, BOUND, PLACE = "mark", "size", "bound", "place"
MARKED, UNITS, NEAR, CHOSEN = "marked rows", "all units", "near rows", "chosen rows"  # no table's


def cut_rows(
    rows: sql.Select,
    limits: Contribution,
    keys: Sequence[str],
    parts: Sequence[str],
    salt: str,
) -> sql.Select:
    """Keep so many groups and rows of each unit, first by keyed hash, then by what they hold.

    ``keys`` and ``parts`` name all the columns of ``rows`` but the unit; groups differ in keys.

    # Privacy: ties are between equal rows only, so which rows of a unit stay is a function of that
    # unit's rows, whatever else is in the table.
    """
    held, most = [*keys, *parts], limits.rows
    by_row = _mark(held, f"{salt} rows")
    if not keys or limits.groups >= most:
        stages = _near(rows, held, by_row, most)
        kept: sql.Query = _few(NEAR, held, most)
    else:
        by_group = _mark(keys, f"{salt} groups")
        stages = _near(rows, held, by_group, limits.groups)
        rank = _rank("DENSE_RANK", by_group, keys)
        chosen = _first(NEAR, [*held, SIZE], rank, limits.groups)
        kept = _add(_few(NEAR, held, limits.groups), _few(CHOSEN, held, most))
        stages.append((CHOSEN, chosen, True))
    kept = _add(kept, _first(stages[-1][0], held, _rank("ROW_NUMBER", by_row, held), most))
    result = sql.select(unit_column(), *map(column, held))
    result = result.from_(kept.subquery("stayed", copy=False), copy=False)
    for name, stage, is_stored in stages:
        quoted = sql.to_identifier(name, quoted=True)
        result = result.with_(quoted, stage, materialized=is_stored, copy=False)
    return result


def _mark(names: Sequence[str], salt: str) -> Sql:
    """Return a keyed hash of the unit and these columns, from 0 to 2^63 - 1.

    Hashing twice is on purpose: the engine joins the hashes of several values by XOR, which would
    favour the same values in every unit; the second hash mixes the bits.
    """
    inner = call("HASH", sql.Literal.string(salt), unit_column(), *map(column, names))
    halved = sql.BitwiseRightShift(this=call("HASH", inner), expression=number(1))
    return cast(sql.Paren(this=halved), "BIGINT")


def _near(
    rows: sql.Select, held: Sequence[str], mark: Sql, most: int
) -> list[tuple[str, sql.Select, bool]]:
    """Return the stages that give each row its unit's size and drop rows far from the first.

    Claim: of every unit all rows stay that have one of its ``most`` least marks.
    Why:   marks fall into ``most`` classes by their remainder. The least mark of each class, if
           there is one in each, are ``most`` different marks, so none past the greatest of them is
           among the least; where a class is empty its least is set to the largest mark of all.
    """
    marked = sql.select(unit_column(), *map(column, held), label(mark.copy(), MARK))
    marked = marked.from_(rows.subquery("rows", copy=False), copy=False)
    is_bounded = most <= MOST_CLASSES
    bound = label(_bound(most), BOUND) if is_bounded else label(number(LARGEST_MARK), BOUND)
    units = sql.select(unit_column(), label(sql.Count(this=sql.Star()), SIZE), bound)
    units = units.from_(table(MARKED), copy=False).group_by(unit_column(), copy=False)
    columns = [label(column(name, MARKED), name) for name in (UNIT, *held)]
    near = sql.select(*columns, label(column(SIZE, UNITS), SIZE)).from_(table(MARKED), copy=False)
    same = sql.EQ(this=unit_column(MARKED), expression=unit_column(UNITS))
    near = near.join(table(UNITS), on=same, copy=False)
    if is_bounded:
        inside = sql.LTE(this=column(MARK, MARKED), expression=column(BOUND, UNITS))
        near = near.where(inside, copy=False)
    return [(MARKED, marked, False), (UNITS, units, True), (NEAR, near, is_bounded)]


def _bound(most: int) -> Sql:
    """Return the greatest of the least marks of each class."""
    least: list[Sql] = []
    for remainder in range(most):
        its_class = sql.Mod(this=column(MARK), expression=number(most))
        inside = sql.EQ(this=its_class, expression=number(remainder))
        least.append(sql.Min(this=case(inside, column(MARK), number(LARGEST_MARK))))
    return call("GREATEST", *least)


def _rank(function: str, mark: Sql, names: Sequence[str]) -> Sql:
    order = [sql.Ordered(this=part) for part in (mark.copy(), *map(column, names))]
    ranks = sql.Order(expressions=order)
    return sql.Window(this=call(function), partition_by=[unit_column()], order=ranks)


def _few(source: str, held: Sequence[str], most: int) -> sql.Select:
    """Return the rows of units that have no more than ``most``."""
    return _pick(table(source), held, sql.LTE(this=column(SIZE), expression=number(most)))


def _first(source: str, held: Sequence[str], rank: Sql, most: int) -> sql.Select:
    """Return the first rows of units that have more."""
    many = sql.GT(this=column(SIZE), expression=number(most))
    ranked = _pick(table(source), held, many).select(label(rank, PLACE), copy=False)
    inside = sql.LTE(this=column(PLACE), expression=number(most))
    return _pick(ranked.subquery("ranked", copy=False), held, inside)


def _add(some: sql.Query, others: sql.Query) -> sql.Query:
    return sql.union(some, others, distinct=False, copy=False)


def _pick(source: Sql, held: Sequence[str], condition: Sql) -> sql.Select:
    rows = sql.select(unit_column(), *map(column, held)).from_(source, copy=False)
    return rows.where(condition, copy=False)
