"""Which rows of a unit stay when it has too many; rewrites of it for engines.

The rule: order a unit's groups by their mark and then by what they hold, and within a group its
rows likewise; keep the first groups, and of these the first rows. (Where as many groups as rows may
stay, only rows are ordered.) A window carries it out. To spare it, most rows of large units that it
would drop anyway are dropped before.

Statements are built in the shape that is fastest on DuckDB: it reads rows twice to drop most of
them before they are sorted, and ranks rows and groups in one go. PostgreSQL reads them once; so
does Spark, unless there are few enough to tell every task which units are large.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from sqlglot import expressions as sql

from confide.declare import Kind
from confide.engines.sql.expressions import (
    UNIT,
    Sql,
    call,
    cast,
    column,
    label,
    narrow,
    nested,
    number,
    select,
    table,
    unit_column,
)
from confide.engines.sql.row_hash import (
    LEVEL_BITS,
    LEVELS,
    MARK,
    level_of,
    mark_rows,
    measure_rows,
    mixed_number,
    number_rows,
    rarer_than,
)
from confide.plan import ContributionBounds

__all__ = ["cut_rows", "send_large_units", "sort_once"]

MORE_LEVELS: Final = 8
MOST_LEVELS: Final = LEVELS // 4
FOUND, BOUND = "the levels", "the bound"
PLACE, GROUP, ORDER = "the place", "the group", "the order"
MARKED, LARGE = "marked rows", "large units"  # no table's
TEXTS: Final[Mapping[str, Kind]] = MappingProxyType({})


def cut_rows(
    rows: sql.Select,
    limits: ContributionBounds,
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
    named = f"{salt} groups"
    if most <= MOST_LEVELS:
        # Named parts of a WITH would be shorter, but the engine takes long to put them in place.
        heights = measure_rows(narrow(rows.copy(), by), [UNIT], by, kinds, named, small=small)
        units = _large_units(heights, most)
        marked = mark_rows(rows, [UNIT, *held], by, kinds, named, small=small)
        rows = _near_rows(marked, units)
    else:
        rows = mark_rows(rows, [UNIT, *held], by, kinds, named, small=small)
    if is_grouped and parts:
        rows = number_rows(rows, [MARK, *parts], {**kinds, MARK: Kind.INT}, salt)
    if is_grouped:
        return _first_groups(rows, limits, keys, parts)
    return _first_rows(rows, held, most)


def _large_units(heights: sql.Select, most: int) -> sql.Select:
    """Return the units with ``most`` or more levels among the rare ones, each with a bound.

    A unit of many groups has some of the rarest levels, so few rows tell how far down its first
    groups can reach; small units are not found, and lose nothing here.

    Claim: a unit has ``most`` or more marks below its bound, no two of one level.
    Why:   the bound is the least mark past the level of the ``most``-th lowest bit. x & (x - 1) is
           x without its lowest bit, so after ``most`` - 1 times that bit is the lowest of x, and x
           is 0 if there is none; and XOR of x and x - 1 has this bit and all below it, as many as
           there are levels up to it.
    """
    levels = label(call("BIT_OR", level_of()), FOUND)
    units = select([unit_column(), levels], nested(heights, MARKED))
    units.set("where", sql.Where(this=rarer_than(most + MORE_LEVELS)))
    units.set("group", sql.Group(expressions=[unit_column()]))
    below = sql.Paren(this=sql.Sub(this=column(FOUND), expression=number(1)))
    for _ in range(most - 1):
        others = sql.BitwiseAnd(this=column(FOUND), expression=below.copy())
        units = select([unit_column(), label(others, FOUND)], nested(units, FOUND))
    past = call("BIT_COUNT", sql.BitwiseXor(this=column(FOUND), expression=below))
    bound = sql.Mul(this=cast(past, "BIGINT"), expression=number(2**LEVEL_BITS))
    large = select([unit_column(), label(bound, BOUND)], nested(units, FOUND))
    return large.where(sql.NEQ(this=column(FOUND), expression=number(0)), copy=False)


def _near_rows(marked: sql.Select, units: sql.Select) -> sql.Select:
    """Return the rows that may be among the first of their unit.

    Claim: of every unit all rows stay that have one of its first marks, as many as may stay.
    Why:   a row is dropped where its mark is not below its unit's bound, and then as many others
           as may stay are below it, and come before the row's own.
    """
    every = sql.Column(this=sql.Star(), table=sql.to_identifier(MARKED, quoted=True))
    same = sql.EQ(this=unit_column(MARKED), expression=unit_column(LARGE))
    behind = sql.GTE(this=column(MARK, MARKED), expression=column(BOUND, LARGE))
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
    numbered: sql.Select, limits: ContributionBounds, keys: Sequence[str], parts: Sequence[str]
) -> sql.Select:
    """Return the first groups of each unit, and of these the first rows.

    Why: rows stand in the order of their groups, so the rows of the first groups come first of
         all, and their places count no others.
    """
    held, group = [*keys, *parts], [MARK, *keys]
    order = group
    if parts:
        # It is computed before the window, which would carry along what it is computed from.
        shown = [*map(column, [UNIT, *held, MARK]), label(mixed_number(), ORDER)]
        numbered = select(shown, nested(numbered, "ordered"))
        order = [*group, ORDER, *parts]
    ranks = [
        label(_rank("DENSE_RANK", map(column, group)), GROUP),
        label(_rank("ROW_NUMBER", map(column, order)), PLACE),
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


def send_large_units(statement: sql.Select) -> None:
    """Let every task know the large units, and drop the rows that their first ones leave behind.

    Why: the join is the one that every statement has, and only how it is carried out is said here.
         What it drops of a unit follows from that unit's rows alone, even if rows should change
         between two readings; and the ranks that follow keep no more than may count in any case.
    """
    for join in list(statement.find_all(sql.Join)):
        if join.kind == "ANTI" and isinstance(join.parent, sql.Select):
            sent = sql.JoinHint(this="BROADCAST", expressions=[table(LARGE)])
            join.parent.set("hint", sql.Hint(expressions=[sent]))


def sort_once(node: sql.Select) -> None:
    """Let a selection read rows once, and rank groups among the rows that may stay.

    Why: the join drops no row that stays, so it can be left out where no hint says how to carry it
         out. As for ranks, see `_nest`.
    """
    joins = node.args.get("joins") or []
    if any(join.kind == "ANTI" for join in joins) and not node.args.get("hint"):
        node.set("joins", [join for join in joins if join.kind != "ANTI"])
    source = node.args["from_"].this if node.args.get("from_") else None
    if isinstance(source, sql.Subquery) and isinstance(source.this, sql.Select):
        ranks = {
            shown.alias: shown
            for shown in source.this.expressions
            if isinstance(shown, sql.Alias) and isinstance(shown.this, sql.Window)
        }
        if set(ranks) == {GROUP, PLACE} and _order(ranks[GROUP]) != _order(ranks[PLACE]):
            _nest(node, source.this, ranks[GROUP])


def _order(rank: sql.Alias) -> Any:
    return rank.this.args["order"]


def _nest(kept: sql.Select, ranked: sql.Select, group: sql.Alias) -> None:
    """Rank groups among the first rows of each unit, instead of among all.

    Claim: the same rows stay.
    Why:   rows stand in the order of their groups. Before a row that is among the first stand all
           rows of earlier groups, which are therefore among the first too; so its group has the
           same place among the first rows as among all.
    """
    conditions = {found.this.name: found for found in kept.args["where"].find_all(sql.LTE)}
    held = [shown.copy() for shown in ranked.expressions if isinstance(shown, sql.Column)]
    shown: list[Sql] = [part for part in ranked.expressions if part is not group]
    ranked.set("expressions", [*shown, column(MARK)])
    first = select([*held, column(MARK)], nested(ranked, "ranked"))
    first.set("where", sql.Where(this=conditions[PLACE].copy()))
    grouped = select([*(part.copy() for part in held), group], nested(first, "first"))
    kept.set("from_", sql.From(this=nested(grouped, "grouped")))
    kept.set("where", sql.Where(this=conditions[GROUP].copy()))
