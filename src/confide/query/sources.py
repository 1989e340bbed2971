"""Tables side by side: which joins a question may make, and per-unit subqueries."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from confide.errors import UnsupportedQuery
from confide.query.construction import lift_keys, make_call
from confide.query.functions import Aggregation, Function
from confide.query.scope import RESERVED, UNIT, Member, Scope, Unit
from confide.query.tree import (
    Aggregate,
    Column,
    Expression,
    Join,
    JoinKind,
    Output,
    PerUnit,
    Scan,
    Source,
    walk,
)

__all__ = ["OWN_ROWS", "Pair", "Tables", "make_per_unit", "start_tables"]

MOST: Final = 8
OWN_ROWS: Final = (
    "of one unit's rows only COUNT, SUM and AVG can be asked; write one of these in the subquery, "
    "and MEDIAN or VAR_SAMP outside"
)
Pair = tuple[Expression | Unit, Column | Unit]


@dataclass(frozen=True, slots=True)
class Tables:
    """The joined tables of a question: the tree's source and the names it offers."""

    source: Source
    scope: Scope
    prefix: str

    def alias(self) -> str:
        """Return the tree's name for the next table."""
        return f"{self.prefix}{len(self.scope.members) + 1}"

    def join(
        self,
        member: Member,
        kind: JoinKind,
        pairs: Sequence[Pair],
        merged: frozenset[str] = frozenset(),
    ) -> "Tables":
        """Return the tables with one more, joined on pairs that must be equal, left side first.

        Privacy: private tables meet on the unit only, so that a row of the join is about one
        unit; a public table is about no one and may be joined on any of its columns.
        """
        if len(self.scope.members) >= MOST:
            raise UnsupportedQuery(f"at most {MOST} tables may be joined")
        on = _match_public(pairs) if member.public else self._match_units(member, pairs)
        optional = replace(member, optional=kind is JoinKind.LEFT)
        source = Join(self.source, member.source, kind, member.public, on)
        return Tables(source, self.scope.plus(optional, merged), self.prefix)

    def _match_units(self, member: Member, pairs: Sequence[Pair]) -> tuple[()]:
        match list(pairs):
            case [(Unit(member=left), Unit())] if not left.optional:
                pass
            case _:
                raise UnsupportedQuery(
                    "private tables are joined on the unit alone, from a table that is not itself "
                    "LEFT JOINed; move other conditions to WHERE"
                )
        if left.unit is None or member.unit is None:
            raise UnsupportedQuery(
                "every row of this table is another person, who cannot be found in another table; "
                "ask about each table alone, or join a public one"
            )
        if isinstance(member.source, Scan) and member.source.table in _scanned(self.source):
            raise UnsupportedQuery(
                f"joining {member.source.table!r} with itself would multiply each unit's rows; "
                "summarise one side first in a per-unit subquery"
            )
        return ()


def _match_public(pairs: Sequence[Pair]) -> tuple[tuple[Expression, Column], ...]:
    on = []
    for left, right in pairs:
        if isinstance(left, Unit) or isinstance(right, Unit):
            raise UnsupportedQuery(
                "a public table is about no one and cannot be joined on a unit; join it on another "
                "column: ON left.x = table.y"
            )
        make_call(Function.EQUAL, left, right)  # refuses types that cannot be equal
        on.append((left, right))
    if not on:
        raise UnsupportedQuery("a join needs a condition: JOIN table ON left.x = table.y")
    return tuple(on)


def _scanned(source: Source) -> set[str]:
    """Return the private tables whose own rows a source holds."""
    match source:
        case Scan(table=table):
            return {table}
        case PerUnit():
            return set()
        case Join(left=left, right=right, public=public):
            return _scanned(left) | (set() if public else _scanned(right))


def start_tables(member: Member, prefix: str) -> Tables:
    """Return the first table of a question, which must be private."""
    if member.public:
        raise UnsupportedQuery(
            f"{member.label!r} is public and stands first; name a private table first and join "
            "the public one to it"
        )
    return Tables(member.source, Scope((member,)), prefix)


def make_per_unit(
    tables: Tables,
    where: Expression | None,
    outputs: Sequence[Output],
    *,
    label: str,
    alias: str,
    unit: str = UNIT,
) -> Member:
    """Return one row for each unit of ``tables``, as a member of another question.

    ``unit`` is what that question calls the unit.
    """
    first = tables.scope.members[0]
    if first.unit is None:
        raise UnsupportedQuery("every row of this table is another person: no subquery is needed")
    if any(isinstance(member.source, PerUnit) for member in tables.scope.members):
        raise UnsupportedQuery("per-unit subqueries go one level deep; write it as one subquery")
    names = [unit, *(output.name for output in outputs)]
    if len({name.lower() for name in names}) < len(names):
        # Privacy: engines take names that differ in letters alone for one.
        raise UnsupportedQuery("two columns of the subquery have one name; rename one with AS")
    lifted = tuple(Output(output.name, lift_keys(output.expression, ())) for output in outputs)
    columns = {}
    for output in lifted:
        statistics = [part for part in walk(output.expression) if isinstance(part, Aggregate)]
        if not statistics or output.expression.kind is None:
            raise UnsupportedQuery(
                f"{output.name!r} must be an aggregate of the unit's rows, such as SUM(x) or "
                "COUNT(*)"
            )
        if any(part.function is Aggregation.COUNT_UNITS for part in statistics):
            raise UnsupportedQuery("a unit counts itself once; leave that out of the subquery")
        if output.name.lower() in RESERVED:
            said = f"{output.name!r} means the person here; give the column another name"
            raise UnsupportedQuery(said)
        columns[output.name] = output.expression.kind
    if not columns:
        raise UnsupportedQuery("a per-unit subquery needs an aggregate, such as COUNT(*) AS n")
    return Member(PerUnit(tables.source, where, lifted, alias), label, columns, unit)
