"""Contribution bounding by keyed hash, and rewrites of it for engines.

The rule: order a unit's groups by their mark (a keyed hash, see `row_hash`) and then by their keys.
Order the rows within a group by another keyed hash and then by their contents. Keep the first
groups, and of their rows the first ones. (Without keys, or if a unit may keep as many groups as
rows, order only rows, by their mark and then by their contents.)

Window functions apply the rule. They sort rows, which is slow. So if the limit is low, a filter
first drops most of the rows that they would drop anyway: rows of large units whose marks reach a
bound.

Statements are built in the form that is fastest on DuckDB. It reads rows twice (to find the bounds,
and to drop rows by them), and ranks rows and groups in one pass. PostgreSQL reads rows once. So
does Spark, unless there are few enough large units to broadcast them to every task.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from sqlglot import expressions as sql

from confide.declare import Kind
from confide.engines.sql.builders import (
    UNIT,
    Sql,
    call,
    cast,
    column,
    label,
    nested,
    number,
    prune_columns,
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

__all__ = ["bound_contributions", "broadcast_large_units", "sort_once"]

EXTRA_LEVELS: Final = 8
MAX_LEVELS: Final = LEVELS // 4
LEVEL_MASK, BOUND = "the levels", "the bound"
ROW_RANK, GROUP_RANK, ORDER = "the place", "the group", "the order"
MARKED_ROWS, LARGE_UNITS = "marked rows", "large units"  # no table has such a name
NO_KINDS: Final[Mapping[str, Kind]] = MappingProxyType({})


def bound_contributions(
    rows: sql.Select,
    limits: ContributionBounds,
    keys: Sequence[str],
    parts: Sequence[str],
    salt: str,
    *,
    kinds: Mapping[str, Kind] = NO_KINDS,
    small: Collection[str] = (),
) -> sql.Select:
    """Keep a limited number of groups and rows of each unit, by keyed hash and then by contents.

    ``keys`` are the columns of ``rows`` that distinguish groups, and ``parts`` all other columns
    except the unit. ``kinds`` gives the kinds of these columns and of the unit; columns without a
    kind are hashed as strings. Columns in ``small`` contain integers from 0 to 2^31 - 1 in every
    row, which only saves time.

    # Privacy: only equal rows can tie. So the rows that a unit keeps are a function of that unit's
    # rows, whatever else is in the table.
    """
    contents, is_grouped = [*keys, *parts], bool(keys) and limits.groups < limits.rows
    hashed, limit = (keys, limits.groups) if is_grouped else (contents, limits.rows)
    hash_columns = [UNIT, *hashed]
    named = f"{salt} groups"
    if limit <= MAX_LEVELS:
        # Common table expressions would be shorter, but the engine takes long to inline them.
        heights = measure_rows(
            prune_columns(rows.copy(), hash_columns),
            [UNIT],
            hash_columns,
            kinds,
            named,
            small=small,
        )
        units = _large_units(heights, limit)
        marked = mark_rows(rows, [UNIT, *contents], hash_columns, kinds, named, small=small)
        rows = _candidate_rows(marked, units)
    else:
        rows = mark_rows(rows, [UNIT, *contents], hash_columns, kinds, named, small=small)
    if is_grouped and parts:
        rows = number_rows(rows, [MARK, *parts], {**kinds, MARK: Kind.INT}, salt)
    if is_grouped:
        return _first_groups(rows, limits, keys, parts)
    return _first_rows(rows, contents, limit)


def _large_units(heights: sql.Select, limit: int) -> sql.Select:
    """Return the units whose rows have ``limit`` or more of the rare levels, each with a bound.

    ``heights`` are the units and heights of all rows. The bound of a unit is a mark; rows with that
    mark or a larger one can be dropped. Bounds are computed only from rows of the lowest levels,
    which are rare: a unit with many groups usually has enough of them. Units without a bound are
    not returned, and none of their rows will be dropped.

    Claim: a unit has ``limit`` or more marks below its bound, no two of the same level.
    Why:   let x be the integer with a bit for each rare level of the unit's rows (`LEVEL_MASK`).
           The bound is the least mark of a higher level than the ``limit``-th lowest bit of x. To
           find it, x & (x - 1) is x without its lowest bit. After ``limit`` - 1 such steps, that
           bit is the lowest bit of x, or x is 0 if there is no such bit. XOR of x and x - 1
           consists of this bit and all lower positions; the number of its bits is the next higher
           level.
    """
    levels = label(call("BIT_OR", level_of()), LEVEL_MASK)
    units = select([unit_column(), levels], nested(heights, MARKED_ROWS))
    units.set("where", sql.Where(this=rarer_than(limit + EXTRA_LEVELS)))
    units.set("group", sql.Group(expressions=[unit_column()]))
    below = sql.Paren(this=sql.Sub(this=column(LEVEL_MASK), expression=number(1)))
    for _ in range(limit - 1):
        others = sql.BitwiseAnd(this=column(LEVEL_MASK), expression=below.copy())
        units = select([unit_column(), label(others, LEVEL_MASK)], nested(units, LEVEL_MASK))
    past = call("BIT_COUNT", sql.BitwiseXor(this=column(LEVEL_MASK), expression=below))
    bound = sql.Mul(this=cast(past, "BIGINT"), expression=number(2**LEVEL_BITS))
    large = select([unit_column(), label(bound, BOUND)], nested(units, LEVEL_MASK))
    return large.where(sql.NEQ(this=column(LEVEL_MASK), expression=number(0)), copy=False)


def _candidate_rows(marked: sql.Select, units: sql.Select) -> sql.Select:
    """Return the rows that may be among the first rows of their unit.

    ``units`` are the results of `_large_units`.

    Claim: if a unit may keep n groups (or rows), all rows with one of its n lowest marks stay.
    Why:   a row is dropped only if its mark is not below its unit's bound. Then n other marks are
           below the bound, and precede the row's own.
    """
    every = sql.Column(this=sql.Star(), table=sql.to_identifier(MARKED_ROWS, quoted=True))
    same = sql.EQ(this=unit_column(MARKED_ROWS), expression=unit_column(LARGE_UNITS))
    behind = sql.GTE(this=column(MARK, MARKED_ROWS), expression=column(BOUND, LARGE_UNITS))
    both = sql.And(this=same, expression=behind)
    near = select([every], nested(marked, MARKED_ROWS))
    return near.join(nested(units, LARGE_UNITS), on=both, join_type="anti", copy=False)


def _first_rows(source: sql.Select, contents: Sequence[str], limit: int) -> sql.Select:
    """Return the first ``limit`` rows of each unit, by mark and then by ``contents``."""
    rank = _rank("ROW_NUMBER", map(column, [MARK, *contents]))
    ranked = select(
        [*map(column, [UNIT, *contents]), label(rank, ROW_RANK)], nested(source, "near")
    )
    inside = sql.LTE(this=column(ROW_RANK), expression=number(limit))
    return select(map(column, [UNIT, *contents]), nested(ranked, "ranked")).where(
        inside, copy=False
    )


def _first_groups(
    numbered: sql.Select, limits: ContributionBounds, keys: Sequence[str], parts: Sequence[str]
) -> sql.Select:
    """Return the rows of each unit's first groups, up to its limit of rows.

    Why: one ranking of a unit's rows suffices. Rows are ordered by group, so the rows of the first
         groups precede all others, and their ranks count no other rows.
    """
    contents, group = [*keys, *parts], [MARK, *keys]
    order = group
    if parts:
        # Compute the order in a subquery. Otherwise, the sort would carry along more columns.
        shown = [*map(column, [UNIT, *contents, MARK]), label(mixed_number(), ORDER)]
        numbered = select(shown, nested(numbered, "ordered"))
        order = [*group, ORDER, *parts]
    ranks = [
        label(_rank("DENSE_RANK", map(column, group)), GROUP_RANK),
        label(_rank("ROW_NUMBER", map(column, order)), ROW_RANK),
    ]
    ranked = select([*map(column, [UNIT, *contents]), *ranks], nested(numbered, "numbered"))
    inside = [
        sql.LTE(this=column(GROUP_RANK), expression=number(limits.groups)),
        sql.LTE(this=column(ROW_RANK), expression=number(limits.rows)),
    ]
    return select(map(column, [UNIT, *contents]), nested(ranked, "ranked")).where(
        *inside, copy=False
    )


def _rank(function: str, order: Iterable[Sql]) -> Sql:
    """Return a ranking function over the rows of each unit, in an order with NULL last."""
    ranks = sql.Order(expressions=[sql.Ordered(this=part, nulls_first=False) for part in order])
    return sql.Window(this=call(function), partition_by=[unit_column()], order=ranks)


def broadcast_large_units(statement: sql.Select) -> None:
    """Add a hint that broadcasts the large units to every Spark task.

    Each task then drops rows by itself.

    Why: the hint only changes how the join is executed. Which rows of a unit the join drops depends
         on that unit's rows alone, even if rows change between two reads. The ranks that follow
         enforce the limits in any case.
    """
    for join in list(statement.find_all(sql.Join)):
        if join.kind == "ANTI" and isinstance(join.parent, sql.Select):
            sent = sql.JoinHint(this="BROADCAST", expressions=[table(LARGE_UNITS)])
            join.parent.set("hint", sql.Hint(expressions=[sent]))


def sort_once(node: sql.Select) -> None:
    """Make a selection read rows once, and rank groups only among the rows that may stay.

    Why: the join drops no row that the ranks would keep, so it can be omitted. It is kept if it has
         the hint of `broadcast_large_units`. For the ranks, see `_rank_groups_last`.
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
        if set(ranks) == {GROUP_RANK, ROW_RANK} and _order(ranks[GROUP_RANK]) != _order(
            ranks[ROW_RANK]
        ):
            _rank_groups_last(node, source.this, ranks[GROUP_RANK])


def _order(rank: sql.Alias) -> Any:
    return rank.this.args["order"]


def _rank_groups_last(kept: sql.Select, ranked: sql.Select, group: sql.Alias) -> None:
    """Rank groups among the first rows of each unit, instead of among all rows.

    ``kept`` selects rows by both ranks, ``ranked`` is its subquery with the ranks, and ``group`` is
    the rank of the group there.

    Claim: the same rows stay.
    Why:   rows are ordered by group. If a row is among the first, all rows of earlier groups
           precede it, and are therefore among the first too. So its group has the same rank among
           the first rows as among all rows.
    """
    conditions = {found.this.name: found for found in kept.args["where"].find_all(sql.LTE)}
    contents = [shown.copy() for shown in ranked.expressions if isinstance(shown, sql.Column)]
    shown: list[Sql] = [part for part in ranked.expressions if part is not group]
    ranked.set("expressions", [*shown, column(MARK)])
    first = select([*contents, column(MARK)], nested(ranked, "ranked"))
    first.set("where", sql.Where(this=conditions[ROW_RANK].copy()))
    grouped = select([*(part.copy() for part in contents), group], nested(first, "first"))
    kept.set("from_", sql.From(this=nested(grouped, "grouped")))
    kept.set("where", sql.Where(this=conditions[GROUP_RANK].copy()))
