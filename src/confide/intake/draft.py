"""First draft of `confide.toml`, from names and types of columns.

Whatever must come from knowledge of the subject (whom a row is about, bounds, limits, the budget)
is left open: a bound that was read from the data would tell about the data.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from confide.declare.columns import Kind
from confide.declare.tables import NAME

__all__ = ["DraftTable", "draft_toml", "guess_unit", "name_table"]

HEAD: Final = """\
# Drafted by `confide init`. A line that begins with "# " and a name is yours to finish: write what
# you know of the subject, not what you see in the data, and take the "# " away. What stays behind
# "# " cannot be asked about. `confide check` says what is missing.
#
# int, float, date:  low and high are what is possible at all (an age: 0 and 120). Values outside
#                    are clipped; bounds twice as wide make twice the noise.
# category:          every value that may be asked for, such as ["A", "B"] or, for codes, [1, 2, 3];
#                    others count as NULL.
# text:              values that nobody listed: one is shown only if many share it (needs delta).
# bool:              true or false; 0 and 1 are read as such, also if stored as 0.0 and 1.0.

[budget]
# epsilon = 1.0              # what all answers together may tell: 1 is careful, 10 is not
# delta = 1e-8               # far below 1 / the number of people; without it, privacy is pure

[ledger]
url = "sqlite:///ledger.db"  # keeps what was spent; without it every command starts anew
"""
TABLE: Final = """
[tables.{name}]
source = {source}
# unit = {unit} {whom}
#                            # "ROW" when every row is another person. It is who is protected: two
#                            # numbers for one person would be two people. {line}
# max_rows_per_unit = 1      # how many rows of one person count in an answer; the rest is cut
#                            # Does nobody have more than one? Add unique = true, and none is cut
# max_groups_per_unit = 1    # and in how many of its groups; less means less noise

[tables.{name}.columns]
"""
KEPT: Final = "Take its line below away"
LEFT_OUT: Final = "It has no line below"
GUESSED: Final = "# These types are guessed from the first rows; you know better.\n"
NAMED: Final = "# the column that tells whom a row is about; or"
SOUGHT: Final = "# to judge by its name, the column that tells whom a row is about; or"
LINES: Final[dict[Kind | None, str]] = {
    Kind.INT: '# {name} = {{ type = "int", low = LOW, high = HIGH }}',
    Kind.FLOAT: '# {name} = {{ type = "float", low = LOW, high = HIGH }}',
    Kind.DATE: '# {name} = {{ type = "date", low = YYYY-MM-DD, high = YYYY-MM-DD }}',
    Kind.BOOL: '{name} = {{ type = "bool" }}',
    Kind.TEXT: '{name} = {{ type = "text" }}  # or {{ type = "category", values = ["A", "B"] }}',
    None: '# {name} = {{ type = "TYPE" }}  # int, float, category, text, bool or date',
}
WORDED: Final = '  # or { type = "category", values = ["No", "Yes"] }'
"""What a flag may be as well that was written as words."""
WORDS: Final = (
    "person|patient|user|customer|client|member|subject|respondent|participant|student|employee|"
    "rider|driver|passenger|worker|voter|player|applicant|borrower|pupil|resident|citizen|donor"
)
UNITS: Final = (
    re.compile(rf"(?:{WORDS})_?(?:id|no|number|key)", re.IGNORECASE),
    re.compile(rf"(?:{WORDS})", re.IGNORECASE),
    re.compile(r"(?:id|uid|pid|unit)", re.IGNORECASE),
)
"""Names of columns that tell whom a row is about, the surest first."""
VALUES: Final = frozenset({Kind.BOOL, Kind.FLOAT, Kind.DATE})
"""What is no name of anybody: many people share a flag, and a measured number names nobody."""


@dataclass(frozen=True, slots=True)
class DraftTable:
    """A source and its columns; one whose type is not known has None.

    Types that were guessed from rows, where there is no schema, stay comments.
    """

    name: str
    source: str
    columns: Mapping[str, Kind | None]
    is_guessed: bool = False


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


def guess_unit(columns: Mapping[str, Kind | None]) -> str | None:
    """Return the column that seems to tell whom a row is about, by its name and type alone.

    >>> guess_unit({"member": Kind.BOOL, "Rider_ID": Kind.TEXT, "id": Kind.INT})
    'Rider_ID'
    >>> guess_unit({"age": Kind.INT, "visit_id": Kind.INT})
    """
    names = [name for name, kind in columns.items() if kind not in VALUES]
    found = (name for words in UNITS for name in names if words.fullmatch(name))
    return next(found, None)


def _draft_table(table: DraftTable) -> str:
    unit = guess_unit(table.columns)
    whom = NAMED if unit is None else SOUGHT
    shown = _quote(unit or "COLUMN").ljust(19)
    line = KEPT if unit is None else LEFT_OUT
    head = TABLE.format(
        name=table.name, source=_quote(table.source), unit=shown, whom=whom, line=line
    )
    lines = [
        _draft_column(name, kind, is_guessed=table.is_guessed)
        for name, kind in table.columns.items()
        if name != unit
    ]
    return head + (GUESSED if table.is_guessed else "") + "".join(f"{line}\n" for line in lines)


def _draft_column(name: str, kind: Kind | None, *, is_guessed: bool) -> str:
    if not NAME.match(name):
        return f"# {name!a} cannot be declared: rename it to letters, digits and underscores"
    line = LINES[kind].format(name=name)
    if is_guessed and kind is Kind.BOOL:
        line += WORDED
    return f"# {line}" if is_guessed and not line.startswith("#") else line


def _quote(text: str) -> str:
    """Return a basic string of TOML; its escapes are those of JSON, and DEL besides."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
