"""The cut of units in other shapes, for engines that gain by them; the rows that stay are the same.

Statements are built in the shape that is fastest on DuckDB: it reads rows twice to drop most of
them before they are sorted, and ranks rows and groups in one go. PostgreSQL reads them once; so
does Spark, unless there are few enough to tell every task which units are large.
"""

from typing import Any

from sqlglot import expressions as sql

from confide.engines.cuts import GROUP, LARGE, PLACE
from confide.engines.expressions import Sql
from confide.engines.fragments import column, nested, select, table
from confide.engines.marks import MARK

__all__ = ["send_large_units", "sort_once"]


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
