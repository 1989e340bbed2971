"""What a question may name: declared tables and their columns, and nothing else."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from confide.declare import Catalog, Kind, Row
from confide.errors import UnknownName

__all__ = ["Names", "TableNames", "match_name", "suggest_name"]

SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class TableNames:
    """One declared table as a question sees it.

    ``unit`` is the column that tells whom a row is about; None for a public table, and where
    every row is another person.
    """

    name: str
    columns: Mapping[str, Kind]
    unit: str | None
    public: bool


@dataclass(frozen=True, slots=True, init=False)
class Names:
    """All declared tables by name; upper and lower case are the same, as in SQL."""

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
        """Return a declared table, or refuse with the names that could have been meant."""
        match = match_name(str(name), self.tables)
        if match is None:
            raise UnknownName(f"there is no table {name!r}; {suggest_name(str(name), self.tables)}")
        return self.tables[match]


def match_name(name: str, options: Iterable[str]) -> str | None:
    """Return the option that ``name`` means: spelled alike, else alike but for case.

    >>> match_name("AGE", ["age", "ward"]), match_name("a", ["A", "b"]), match_name("x", ["y"])
    ('age', 'A', None)
    """
    listed = list(options)
    if name in listed:
        return name
    alike = [option for option in listed if option.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def suggest_name(name: str, options: Iterable[str]) -> str:
    """Return what to write instead, out of declared names only."""
    listed = list(options)
    lower = {option.lower(): option for option in listed}
    close = get_close_matches(name.lower()[:63], list(lower), n=1)
    if close:
        return f"did you mean {lower[close[0]]!r}?"
    more = ", ..." if len(listed) > SHOWN else ""
    return f"declared are: {', '.join(listed[:SHOWN])}{more}"
