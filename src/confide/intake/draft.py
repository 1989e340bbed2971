"""First draft of `confide.toml`, from the names and types of columns.

Everything that requires domain knowledge (the privacy unit, bounds, limits, the budget) is left to
the owner, as a comment to complete: a bound that is read from the data would reveal something about
the data.
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
max_share_per_query = "20%"  # a query that costs more needs confirmation; 1 turns this off

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
KEEP_LINE: Final = "Take its line below away"
NO_LINE: Final = "It has no line below"
GUESSED_NOTE: Final = "# These types are guessed from the first rows; you know better.\n"
UNIT_COMMENT: Final = "# the column that tells whom a row is about; or"
GUESSED_UNIT_COMMENT: Final = (
    "# to judge by its name, the column that tells whom a row is about; or"
)
LINES: Final[dict[Kind | None, str]] = {
    Kind.INT: '# {name} = {{ type = "int", low = LOW, high = HIGH }}',
    Kind.FLOAT: '# {name} = {{ type = "float", low = LOW, high = HIGH }}',
    Kind.DATE: '# {name} = {{ type = "date", low = YYYY-MM-DD, high = YYYY-MM-DD }}',
    Kind.BOOL: '{name} = {{ type = "bool" }}',
    Kind.TEXT: '{name} = {{ type = "text" }}  # or {{ type = "category", values = ["A", "B"] }}',
    None: '# {name} = {{ type = "TYPE" }}  # int, float, category, text, bool or date',
}
FLAG_ALTERNATIVE: Final = '  # or { type = "category", values = ["No", "Yes"] }'
"""The alternative declaration of a flag whose values are words in the data."""
PERSON_WORDS: Final = (
    "person|patient|user|customer|client|member|subject|respondent|participant|student|employee|"
    "rider|driver|passenger|worker|voter|player|applicant|borrower|pupil|resident|citizen|donor"
)
UNIT_PATTERNS: Final = (
    re.compile(rf"(?:{PERSON_WORDS})_?(?:id|no|number|key)", re.IGNORECASE),
    re.compile(rf"(?:{PERSON_WORDS})", re.IGNORECASE),
    re.compile(r"(?:id|uid|pid|unit)", re.IGNORECASE),
)
"""Patterns for names of columns that identify people, the most certain first."""
NEVER_UNIT_KINDS: Final = frozenset({Kind.BOOL, Kind.FLOAT, Kind.DATE})
"""Kinds that never identify people: many share a flag, and a measurement is not an identifier."""


@dataclass(frozen=True, slots=True)
class DraftTable:
    """A source and the kinds of its columns; the kind of a column of unknown type is None.

    ``is_guessed`` states that the kinds were guessed from rows, for lack of a schema. Such types
    are written as comments.
    """

    name: str
    source: str
    columns: Mapping[str, Kind | None]
    is_guessed: bool = False


def draft_toml(tables: Sequence[DraftTable]) -> str:
    """Return the text of a `confide.toml` that lists these tables."""
    return "".join([HEAD, *map(_draft_table, tables)])


def name_table(stem: str, taken: Sequence[str]) -> str:
    """Return a plain and unused name for a table, as similar to a file's name as possible.

    >>> name_table("2024 visits", []), name_table("Labs", ["labs"])
    ('t_2024_visits', 'Labs_2')
    """
    cleaned = "".join(char if char.isascii() and char.isalnum() else "_" for char in stem)[:50]
    name = cleaned if NAME.match(cleaned) else f"t_{cleaned}"
    used = {other.lower() for other in taken}
    candidates = (name, *(f"{name}_{number}" for number in range(2, len(used) + 3)))
    return next(candidate for candidate in candidates if candidate.lower() not in used)


def guess_unit(columns: Mapping[str, Kind | None]) -> str | None:
    """Return the column that seems to identify people, by its name and type alone.

    >>> guess_unit({"member": Kind.BOOL, "Rider_ID": Kind.TEXT, "id": Kind.INT})
    'Rider_ID'
    >>> guess_unit({"age": Kind.INT, "visit_id": Kind.INT})
    """
    names = [name for name, kind in columns.items() if kind not in NEVER_UNIT_KINDS]
    found = (name for words in UNIT_PATTERNS for name in names if words.fullmatch(name))
    return next(found, None)


def _draft_table(table: DraftTable) -> str:
    unit = guess_unit(table.columns)
    whom = UNIT_COMMENT if unit is None else GUESSED_UNIT_COMMENT
    quoted = _quote(unit or "COLUMN").ljust(19)
    line = KEEP_LINE if unit is None else NO_LINE
    head = TABLE.format(
        name=table.name, source=_quote(table.source), unit=quoted, whom=whom, line=line
    )
    lines = [
        _draft_column(name, kind, is_guessed=table.is_guessed)
        for name, kind in table.columns.items()
        if name != unit
    ]
    return (
        head + (GUESSED_NOTE if table.is_guessed else "") + "".join(f"{line}\n" for line in lines)
    )


def _draft_column(name: str, kind: Kind | None, *, is_guessed: bool) -> str:
    if not NAME.match(name):
        return f"# {name!a} cannot be declared: rename it to letters, digits and underscores"
    line = LINES[kind].format(name=name)
    if is_guessed and kind is Kind.BOOL:
        line += FLAG_ALTERNATIVE
    return f"# {line}" if is_guessed and not line.startswith("#") else line


def _quote(text: str) -> str:
    """Return a basic TOML string, with the escapes of JSON and an escaped DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
