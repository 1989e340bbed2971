"""The tables of one question, and what names mean among them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from confide.declare import Kind
from confide.errors import UnknownName, UnsupportedQuery
from confide.query.names import TableNames, match_name, suggest_name
from confide.query.tree import Column, PerUnit, Scan

__all__ = ["RESERVED", "UNIT", "Member", "Scope", "Unit", "make_member"]

UNIT: Final = "unit"
"""What every private table's unit may be called, unless a column has that name."""

RESERVED: Final = frozenset({UNIT, "the unit"})
"""Names that no column of a per-unit question may have.

# Privacy: the second is the identifier's in every statement; a column of that name would be it.
"""


@dataclass(frozen=True, slots=True)
class Unit:
    """Whom the rows of a member are about: not a value, and never part of an expression."""

    member: "Member"


@dataclass(frozen=True, slots=True)
class Member:
    """A table, or a per-unit subquery, under the analyst's name for it (``label``).

    ``unit`` is the column of its unit, if it has one. ``optional`` marks the right side of a
    LEFT JOIN, whose rows may be missing.
    """

    source: Scan | PerUnit
    label: str
    columns: Mapping[str, Kind]
    unit: str | None
    public: bool = False
    optional: bool = False

    def find(self, name: str) -> Column | Unit | None:
        """Return what ``name`` means in this member, if anything; columns go before the unit."""
        found = match_name(name, self.columns)
        if found is not None:
            return Column(self.source.alias, found, self.columns[found])
        if not self.public and name.lower() in (UNIT, (self.unit or UNIT).lower()):
            return Unit(self)
        return None


def make_member(table: TableNames, label: str, alias: str) -> Member:
    """Return a declared table as a member; ``alias`` is the tree's name for it."""
    return Member(Scan(table.name, alias), label, table.columns, table.unit, table.public)


@dataclass(frozen=True, slots=True)
class Scope:
    """The members of a question so far, and the names that USING has made one."""

    members: tuple[Member, ...] = ()
    merged: frozenset[str] = frozenset()

    def find(self, name: str, label: str | None = None) -> Column | Unit:
        """Return the column or the unit that a name means, or refuse it."""
        members = self.members if label is None else (self.member(label),)
        found = [hit for member in members if (hit := member.find(name)) is not None]
        if not found:
            where = "" if label is None else f" in {label!r}"
            known = suggest_name(name, _column_names(members))
            raise UnknownName(f"there is no column {name!r}{where}; {known}")
        if len(found) > 1 and name.lower() not in self.merged:
            labels = [f"{member.label}.{name}" for member in members if member.find(name)]
            raise UnsupportedQuery(
                f"{name!r} could mean several columns; write {' or '.join(labels)}"
            )
        return found[0]

    def column(self, name: str, label: str | None = None) -> Column:
        """Return the column that a name means; a unit is refused, for it is not a value.

        Privacy: this is the only way from a name to an expression, so no answer, key or condition
        can be made of a unit.
        """
        match self.find(name, label):
            case Column() as column:
                return column
            case Unit():
                raise UnsupportedQuery(
                    "who a row is about is never shown, compared or grouped by; count people with "
                    f"COUNT(DISTINCT {name}), join private tables on {name}, or group by {name} "
                    "in a per-unit subquery"
                )

    def member(self, label: str) -> Member:
        """Return the member that the analyst calls ``label``."""
        for member in self.members:
            if member.label.lower() == label.lower():
                return member
        labels = [member.label for member in self.members]
        raise UnknownName(f"no table is called {label!r} here; {suggest_name(label, labels)}")

    def plus(self, member: Member, merged: frozenset[str] = frozenset()) -> "Scope":
        """Return the scope with one more member, whose label must be new."""
        if any(other.label.lower() == member.label.lower() for other in self.members):
            raise UnsupportedQuery(
                f"two tables are called {member.label!r} here; give one another name with AS"
            )
        return Scope((*self.members, member), self.merged | merged)


def _column_names(members: tuple[Member, ...]) -> Iterator[str]:
    yield from dict.fromkeys(name for member in members for name in member.columns)
