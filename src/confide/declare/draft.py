"""A first confide.toml for the owner to finish, from the names and types of columns alone.

Whatever must come from knowledge of the subject (whom a row is about, bounds, limits, the budget)
is left open: a bound that was read from the data would tell about the data.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from confide.declare.columns import Kind
from confide.declare.tables import NAME

__all__ = ["DraftTable", "draft_toml", "name_table"]

HEAD: Final = """\
# Drafted by `confide init` from the names and types of columns; no value was read.
# Every line that begins with "# " and a key is for you to finish: take bounds and limits from what
# you know of the subject, never from the data. Then run `confide check`.

[budget]
# epsilon = 1.0              # what may be spent in all, by everybody, for ever
# delta = 1e-8               # well below 1 / the number of people; leave out for pure privacy
"""
TABLE: Final = """
[tables.{name}]
source = {source}
# unit = "COLUMN"            # the column that tells whom a row is about (then take it out of the
#                            # columns below), or "ROW" when every row is another person
# max_rows_per_unit = 1      # how many rows of one person may count; confide drops the rest
# max_groups_per_unit = 1    # in how many groups of an answer they may be

[tables.{name}.columns]
"""
LINES: Final[dict[Kind | None, str]] = {
    Kind.INT: '# {name} = {{ type = "int", low = LOW, high = HIGH }}',
    Kind.FLOAT: '# {name} = {{ type = "float", low = LOW, high = HIGH }}',
    Kind.DATE: '# {name} = {{ type = "date", low = YYYY-MM-DD, high = YYYY-MM-DD }}',
    Kind.BOOL: '{name} = {{ type = "bool" }}',
    Kind.TEXT: '{name} = {{ type = "text" }}  # or {{ type = "category", values = ["A", "B"] }}',
    None: '# {name} = {{ type = "TYPE" }}  # int, float, category, text, bool or date',
}


@dataclass(frozen=True, slots=True)
class DraftTable:
    """A source as its schema shows it; a column whose type the schema does not tell has None."""

    name: str
    source: str
    columns: Mapping[str, Kind | None]


def draft_toml(tables: Sequence[DraftTable]) -> str:
    """Return the text of a file that names these tables and leaves the rest to the owner."""
    return "".join([HEAD, *map(_draft_table, tables)])


def name_table(stem: str, taken: Sequence[str]) -> str:
    """Return a plain name for a table, as near to a file's name as can be, and not taken.

    >>> name_table("2024 visits", []), name_table("Labs", ["labs"])
    ('t_2024_visits', 'Labs_2')
    """
    plain = "".join(char if char.isascii() and char.isalnum() else "_" for char in stem)[:50]
    name = plain if NAME.match(plain) else f"t_{plain}"
    used = {other.lower() for other in taken}
    places = (name, *(f"{name}_{number}" for number in range(2, len(used) + 3)))
    return next(place for place in places if place.lower() not in used)


def _draft_table(table: DraftTable) -> str:
    lines = [_draft_column(name, kind) for name, kind in table.columns.items()]
    head = TABLE.format(name=table.name, source=_quote(table.source))
    return head + "".join(f"{line}\n" for line in lines)


def _draft_column(name: str, kind: Kind | None) -> str:
    if not NAME.match(name):
        return f"# {name!a} cannot be declared: rename it to letters, digits and underscores"
    return LINES[kind].format(name=name)


def _quote(text: str) -> str:
    """Return a basic string of TOML; its escapes are those of JSON, and DEL besides."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
