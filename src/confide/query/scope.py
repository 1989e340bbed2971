"""Names, aliases, and joins allowed in a query.

Both front ends use this module to turn names into columns and to build FROM. A *member* is a table
or per-unit subquery in FROM. Its *label* is the name that the analyst gave it. Its *alias* is the
name that the front end gave it in the tree, such as "t1".
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from confide.aggregates import CountUnitsFunction
from confide.declare import Catalog, Kind, Row
from confide.errors import UnknownName, UnsupportedQuery
from confide.expressions.construct import lift_keys, make_call
from confide.expressions.functions import Function
from confide.expressions.tree import AggregateCall, Column, Expression, walk
from confide.query.tree import Join, JoinKind, Output, PerUnit, Scan, Source

__all__ = [
    "PER_UNIT_ADVICE",
    "RESERVED_NAMES",
    "UNIT",
    "Member",
    "Names",
    "Pair",
    "Scope",
    "TableNames",
    "Tables",
    "Unit",
    "make_member",
    "make_per_unit",
    "match_name",
    "start_tables",
    "suggest_name",
]

MAX_SUGGESTIONS: Final = 12


@dataclass(frozen=True, slots=True)
class TableNames:
    """The columns of one declared table, as a query can name them.

    ``unit`` is the column that identifies the unit. It is None for a public table, and for a table
    in which every row is a unit of its own.
    """

    name: str
    columns: Mapping[str, Kind]
    unit: str | None
    public: bool


@dataclass(frozen=True, slots=True, init=False)
class Names:
    """All declared tables by name; lookups ignore case, as in SQL.

    ``public`` maps the names of public tables to their columns and types.
    """

    tables: Mapping[str, TableNames]

    def __init__(
        self, catalog: Catalog, public: Mapping[str, Mapping[str, Kind]] | None = None
    ) -> None:
        found = public or {}
        tables = {
            name: TableNames(
                name=name,
                columns={column: declared.kind for column, declared in table.columns.items()},
                unit=None if isinstance(table.unit, Row) else table.unit,
                public=False,
            )
            for name, table in catalog.private.items()
        } | {
            name: TableNames(name, dict(found.get(name, {})), unit=None, public=True)
            for name in catalog.public
        }
        object.__setattr__(self, "tables", MappingProxyType(tables))

    def table(self, name: str) -> TableNames:
        """Return a declared table, or raise UnknownName with similar names."""
        match = match_name(str(name), self.tables)
        if match is None:
            raise UnknownName(f"Unknown table {name!r}. {suggest_name(str(name), self.tables)}")
        return self.tables[match]


def match_name(name: str, options: Iterable[str]) -> str | None:
    """Return the option equal to ``name``, or else the one that differs only in case.

    If no option matches, or if several differ only in case, the result is None.

    >>> match_name("AGE", ["age", "ward"]), match_name("a", ["A", "b"]), match_name("x", ["y"])
    ('age', 'A', None)
    """
    listed = list(options)
    if name in listed:
        return name
    alike = [option for option in listed if option.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def suggest_name(name: str, options: Iterable[str]) -> str:
    """Return a suggestion for the error message, made of ``options`` only."""
    listed = list(options)
    lower = {option.lower(): option for option in listed}
    close = get_close_matches(name.lower()[:63], list(lower), n=1)
    if close:
        return f"Did you mean {lower[close[0]]!r}?"
    more = ", and others" if len(listed) > MAX_SUGGESTIONS else ""
    return f"Declared: {', '.join(listed[:MAX_SUGGESTIONS])}{more}."


UNIT: Final = "unit"
"""A name for the unit that works in every private table, unless a column has that name."""

RESERVED_NAMES: Final = frozenset({UNIT, "the unit"})
"""Names that no column of a per-unit query can have.

A column called "unit" would take the place of the unit in the outer query, because columns take
precedence (see `Member.find`).

# Privacy: generated SQL calls the unit's identifier "the unit", so a column of that name would
expose it.
"""


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a member's rows, as something to count or join; it is never an expression."""

    member: "Member"


@dataclass(frozen=True, slots=True)
class Member:
    """A table or per-unit subquery under the analyst's name for it (``label``).

    ``unit`` is the name of the column that identifies the unit; see `TableNames`. ``optional``
    marks the right side of a LEFT JOIN, whose rows may be missing.
    """

    source: Scan | PerUnit
    label: str
    columns: Mapping[str, Kind]
    unit: str | None
    public: bool = False
    optional: bool = False

    def find(self, name: str) -> Column | Unit | None:
        """Return the column or unit that ``name`` refers to, if any; columns take precedence."""
        found = match_name(name, self.columns)
        if found is not None:
            return Column(self.source.alias, found, self.columns[found])
        if not self.public and name.lower() in (UNIT, (self.unit or UNIT).lower()):
            return Unit(self)
        return None


def make_member(table: TableNames, label: str, alias: str) -> Member:
    """Return a declared table as a member; ``alias`` is its name in the tree."""
    return Member(Scan(table.name, alias), label, table.columns, table.unit, table.public)


@dataclass(frozen=True, slots=True)
class Scope:
    """The members that a query can name.

    ``merged`` are the column names, in lower case, that joined members share by USING. Any other
    name that several members have must be qualified with a label.
    """

    members: tuple[Member, ...] = ()
    merged: frozenset[str] = frozenset()

    def find(self, name: str, label: str | None = None) -> Column | Unit:
        """Return the column or unit that a name refers to, or raise an error."""
        members = self.members if label is None else (self.member(label),)
        found = [hit for member in members if (hit := member.find(name)) is not None]
        if not found:
            where = "" if label is None else f" in {label!r}"
            suggestion = suggest_name(name, _column_names(members))
            raise UnknownName(f"Unknown column {name!r}{where}. {suggestion}")
        if len(found) > 1 and name.lower() not in self.merged:
            labels = [f"{member.label}.{name}" for member in members if member.find(name)]
            raise UnsupportedQuery(
                f"{name!r} could mean several columns. Write `{'` or `'.join(labels)}`."
            )
        return found[0]

    def column(self, name: str, label: str | None = None) -> Column:
        """Return the column that a name refers to, or raise UnsupportedQuery if it is a unit.

        Privacy: a unit is not a value, and names outside of join conditions become expressions only
        here. So no output, key, WHERE, or HAVING can depend on a unit's identity.
        """
        match self.find(name, label):
            case Column() as column:
                return column
            case Unit():
                raise UnsupportedQuery(
                    f"`{name}` identifies people, so it cannot be selected, compared, or grouped "
                    f"by. Use `COUNT(DISTINCT {name})` to count people, join private tables on "
                    f"`{name}`, or group by `{name}` in a per-unit subquery."
                )

    def member(self, label: str) -> Member:
        """Return the member with the label ``label``."""
        for member in self.members:
            if member.label.lower() == label.lower():
                return member
        labels = [member.label for member in self.members]
        raise UnknownName(f"No table is called {label!r} here. {suggest_name(label, labels)}")

    def plus(self, member: Member, merged: frozenset[str] = frozenset()) -> "Scope":
        """Return the scope with one more member, whose label must be new."""
        if any(other.label.lower() == member.label.lower() for other in self.members):
            raise UnsupportedQuery(
                f"Two tables are called {member.label!r} here. Rename one of them with AS."
            )
        return Scope((*self.members, member), self.merged | merged)


def _column_names(members: tuple[Member, ...]) -> Iterator[str]:
    yield from dict.fromkeys(name for member in members for name in member.columns)


MAX_JOINED_TABLES: Final = 8
PER_UNIT_ADVICE: Final = (
    "A per-unit subquery supports only COUNT, SUM, and AVG. Use one of these inside, and an "
    "aggregate such as MEDIAN or VAR_SAMP outside."
)
Pair = tuple[Expression | Unit, Column | Unit]
"""A join condition: an expression over earlier tables, and a new column. Either can be a unit."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The joined tables of a query: the source in the tree and the names in scope.

    The aliases of the tables are ``prefix`` and a number.
    """

    source: Source
    scope: Scope
    prefix: str

    def alias(self) -> str:
        """Return the alias of the next table in the tree."""
        return f"{self.prefix}{len(self.scope.members) + 1}"

    def join(
        self,
        member: Member,
        kind: JoinKind,
        pairs: Sequence[Pair],
        merged: frozenset[str] = frozenset(),
    ) -> "Tables":
        """Return the tables with one more, joined where both sides of each pair are equal.

        Each pair has its left side first, from the earlier tables.

        Privacy: private tables are joined on the unit only, so every row of the join belongs to one
        unit. Public tables contain no units, so any of their columns may be joined on.
        """
        if len(self.scope.members) >= MAX_JOINED_TABLES:
            raise UnsupportedQuery(
                f"At most {MAX_JOINED_TABLES} tables can be joined. Split the query."
            )
        on = _match_public(pairs) if member.public else self._match_units(member, pairs)
        optional = replace(member, optional=kind is JoinKind.LEFT)
        source = Join(self.source, member.source, kind, member.public, on)
        return Tables(source, self.scope.plus(optional, merged), self.prefix)

    def _match_units(self, member: Member, pairs: Sequence[Pair]) -> tuple[()]:
        """Check that ``pairs`` joins a private table on the unit, and return no pairs.

        The tree needs no pairs, because engines always join private tables on the unit.
        """
        match list(pairs):
            case [(Unit(member=left), Unit())] if not left.optional:
                pass
            case _:
                raise UnsupportedQuery(
                    "Private tables must be joined on the unit alone, and not on the unit of a "
                    "table that was itself joined by LEFT JOIN. Move other conditions to WHERE."
                )
        if left.unit is None or member.unit is None:
            raise UnsupportedQuery(
                "A table without a unit column cannot be joined with another private table, "
                "because its rows cannot be matched to people. Query each table by itself, or join "
                "a public table."
            )
        if isinstance(member.source, Scan) and member.source.table in _scanned_tables(self.source):
            raise UnsupportedQuery(
                f"Joining {member.source.table!r} with itself would multiply each unit's rows. "
                "Summarize one side first, in a per-unit subquery."
            )
        return ()


def _match_public(pairs: Sequence[Pair]) -> tuple[tuple[Expression, Column], ...]:
    """Return the pairs on which a public table is joined, or raise UnsupportedQuery."""
    on = []
    for left, right in pairs:
        if isinstance(left, Unit) or isinstance(right, Unit):
            raise UnsupportedQuery(
                "A public table has no units, so it cannot be joined on one. Join it on another "
                "column, such as `ON left.x = table.y`."
            )
        make_call(Function.EQUAL, left, right)  # raises if the types are not comparable
        on.append((left, right))
    if not on:
        raise UnsupportedQuery(
            "A join needs a condition, such as `JOIN table ON left.x = table.y`."
        )
    return tuple(on)


def _scanned_tables(source: Source) -> set[str]:
    """Return the private tables that a source reads outside of per-unit subqueries."""
    match source:
        case Scan(table=table):
            return {table}
        case PerUnit():
            return set()
        case Join(left=left, right=right, public=public):
            return _scanned_tables(left) | (set() if public else _scanned_tables(right))


def start_tables(member: Member, prefix: str) -> Tables:
    """Return the first table of a query, or raise UnsupportedQuery if it is public."""
    if member.public:
        raise UnsupportedQuery(
            f"The first table must be private, but {member.label!r} is public. Start with a "
            "private table, and join the public one to it."
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
    """Return a per-unit subquery over ``tables`` as a member of the outer query.

    ``where`` and ``outputs`` are those of the subquery. ``unit`` is the name of its unit column.
    """
    first = tables.scope.members[0]
    if first.unit is None:
        raise UnsupportedQuery(
            "Every row of this table is a different unit, so a per-unit subquery is not needed. "
            "Remove it."
        )
    if any(isinstance(member.source, PerUnit) for member in tables.scope.members):
        raise UnsupportedQuery("Per-unit subqueries cannot be nested. Write one subquery.")
    names = [unit, *(output.name for output in outputs)]
    if len({name.lower() for name in names}) < len(names):
        # Privacy: engines treat names that differ only in case as equal, so one column could be
        # read in place of another, whose bounds may be narrower.
        raise UnsupportedQuery(
            "Two columns of the subquery have the same name. Rename one of them with AS."
        )
    lifted = tuple(Output(output.name, lift_keys(output.expression, ())) for output in outputs)
    columns = {}
    for output in lifted:
        statistics = [part for part in walk(output.expression) if isinstance(part, AggregateCall)]
        if not statistics or output.expression.kind is None:
            raise UnsupportedQuery(
                f"Column {output.name!r} of the subquery must be an aggregate of the unit's rows, "
                "such as `SUM(x)` or `COUNT(*)`."
            )
        if any(part.function == CountUnitsFunction.name for part in statistics):
            raise UnsupportedQuery(
                "The number of units is always 1 in a per-unit subquery. Remove this column."
            )
        if output.name.lower() in RESERVED_NAMES:
            advice = (
                f"The name {output.name!r} is reserved for the unit. Rename the column with AS."
            )
            raise UnsupportedQuery(advice)
        columns[output.name] = output.expression.kind
    if not columns:
        raise UnsupportedQuery("A per-unit subquery needs an aggregate, such as `COUNT(*) AS n`.")
    return Member(PerUnit(tables.source, where, lifted, alias), label, columns, unit)
