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
from confide.declare.tables import NAME, is_column_name
from confide.intake.hints import bounds_hint

__all__ = [
    "DraftColumn",
    "DraftTable",
    "draft_toml",
    "guess_unit",
    "name_table",
    "quote",
    "unit_advice",
]

HEAD: Final = """\
# Drafted by `confide init`. Complete the lines that start with "# " and a name, then remove the
# "# ". Use what you know about the subject, not what you see in the data: analysts can see the
# declaration. A column that stays a comment cannot be queried. `confide check` lists gaps.
#
# int, float, date   `low` and `high` are the smallest and largest possible values, such as 0 and
#                    120 for an age. Values outside are clipped. Wide bounds mean more noise.
# category           Lists all values, such as ["A", "B"] or codes [1, 2, 3]. Others count as NULL.
# text               Values that you cannot list. An answer shows one only if enough people share
#                    it. This needs delta.
# bool               True or false, also stored as 0 and 1.

[budget]
# epsilon = 1.0        # the total privacy loss of all answers: 1 is cautious, 10 is not
# delta = 1e-8         # far below 1 / the number of people; without it, the guarantee is pure
max_share_per_query = "20%"  # a query that costs more needs confirmation; 1 turns this off

[ledger]
url = "sqlite:///ledger.db"  # records all spending; without it, every command starts from zero

[record]
# purpose = "PURPOSE"  # of the answers; for `confide record`, which informs a public registry
# contact = "CONTACT"  # for questions about them
"""
TABLE: Final = """
[tables.{name}]
source = {source}
# Who is protected? `unit` is the column that identifies a person. Use "ROW" if every row is a
# different person. Two identifiers of one person would be protected as two people.
{advice}# unit = {unit}
# max_rows_per_unit = 1     # how many rows of one person can count in an answer; others are dropped
# max_groups_per_unit = 1   # and in how many groups; small limits mean less noise
# unique = true             # instead of both limits, if no person has more than one row

[tables.{name}.columns]
"""
BOUNDS_COMMENT: Final = "  # bounds suggested by the name, not by the data"
LINES: Final[dict[Kind | None, str]] = {
    Kind.INT: '# {name} = {{ type = "int", low = {low}, high = {high} }}',
    Kind.FLOAT: '# {name} = {{ type = "float", low = {low}, high = {high} }}',
    Kind.TIMESTAMP: '# {name} = {{ type = "timestamp", low = YYYY-MM-DD, high = YYYY-MM-DD }}',
    Kind.DATE: '# {name} = {{ type = "date", low = YYYY-MM-DD, high = YYYY-MM-DD }}',
    Kind.BOOL: '{name} = {{ type = "bool" }}',
    Kind.TEXT: '{name} = {{ type = "text" }}  # or {{ type = "category", values = ["A", "B"] }}',
    None: '# {name} = {{ type = "TYPE" }}  # int, float, category, text, bool, date, timestamp',
}
GUESSED_NOTE: Final = "# Types are guessed from the first rows; correct them if necessary.\n"
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
MAX_CODES: Final = 50
MIN_ROWS_PER_CODE: Final = 20
MAX_ROWS_PER_NAME: Final = 200
NEVER_UNIT_KINDS: Final = frozenset({Kind.BOOL, Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP})
"""Kinds that never identify people: many share a flag, and a measurement is not an identifier."""


@dataclass(frozen=True, slots=True)
class DraftColumn:
    """The kind of a column, or None if it is unknown, and facts for the owner.

    ``is_guessed`` states that the kind depends on rows, not only on a schema; such a column is
    written as a comment. ``values`` is the number of different values, and ``rows`` the number of
    rows; both are 0 if they were not counted.
    """

    kind: Kind | None
    is_guessed: bool = False
    note: str = ""
    values: int = 0
    rows: int = 0

    @property
    def is_unique(self) -> bool:
        """Whether every row has a different value."""
        return 0 < self.values == self.rows

    @property
    def has_few_values(self) -> bool:
        """Whether there are too few values, and too many rows per value, to identify people."""
        return 0 < self.values <= MAX_CODES and self.rows >= MIN_ROWS_PER_CODE * self.values

    @property
    def has_many_values(self) -> bool:
        """Whether the values are strings that repeat, but rarely, so they could identify people."""
        is_dense = self.values * MAX_ROWS_PER_NAME >= self.rows
        return self.kind is Kind.TEXT and is_dense and not self.is_unique and self.rows > 0


@dataclass(frozen=True, slots=True)
class DraftTable:
    """A source and its columns."""

    name: str
    source: str
    columns: Mapping[str, DraftColumn]


def draft_toml(tables: Sequence[DraftTable]) -> str:
    """Return the text of a `confide.toml` that lists these tables."""
    return "".join([HEAD, *map(_draft_table, tables)])


def name_table(stem: str, taken: Sequence[str]) -> str:
    """Return a plain name for a table or a column, as similar to ``stem`` as possible.

    The name differs from all names in ``taken``, even if case is ignored.

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


def unit_advice(table: DraftTable) -> tuple[str | None, list[str]]:
    """Return the suggested unit, or None, and sentences about columns that may identify people."""
    columns = {name: one for name, one in table.columns.items() if not one.has_few_values}
    unit = guess_unit({name: column.kind for name, column in columns.items()})
    others = {name: column for name, column in columns.items() if name != unit}
    sentences: list[str] = []
    if unit is not None:
        sentences.append(f"Suggested by its name: {unit}. {_describe(columns[unit])}".strip())
    if unique := [name for name, column in others.items() if column.is_unique]:
        sentences.append(f"Every row has its own value of {', '.join(unique)}.")
    if unit is None and (many := [n for n, column in others.items() if column.has_many_values]):
        sentences.append(f"Columns with many different values: {', '.join(many)}.")
    return unit, sentences


def _describe(column: DraftColumn) -> str:
    if not column.rows:
        return ""
    if column.is_unique:
        return "Its values never repeat, so `unique = true` may hold."
    return "Its values repeat, so people have several rows."


def _draft_table(table: DraftTable) -> str:
    unit, sentences = unit_advice(table)
    if unit is None:
        sentences.append("Below, delete the line of the column that you choose as `unit`.")
    advice = "".join(f"# {_one_line(sentence)}\n" for sentence in sentences)
    head = TABLE.format(
        name=table.name, source=quote(table.source), unit=quote(unit or "COLUMN"), advice=advice
    )
    lines = [_draft_column(name, column) for name, column in table.columns.items() if name != unit]
    guessed = any(column.is_guessed for column in table.columns.values())
    return head + (GUESSED_NOTE if guessed else "") + "".join(f"{line}\n" for line in lines)


def _draft_column(name: str, column: DraftColumn) -> str:
    if not is_column_name(name):
        return f"# {name!a} cannot be declared: rename it, without quotes and backslashes."
    hint = bounds_hint(name) if column.kind in (Kind.INT, Kind.FLOAT) else None
    key = name if NAME.match(name) else quote(name)
    low, high = ("LOW", "HIGH") if hint is None else hint
    line = LINES[column.kind].format(name=key, low=low, high=high)
    if hint is not None:
        line += BOUNDS_COMMENT
    elif column.note:
        line += f"  # {column.note}"
    return f"# {line}" if column.is_guessed and not line.startswith("#") else line


def _one_line(text: str) -> str:
    """Return a comment without characters that would end it."""
    return "".join(char if char.isprintable() else "?" for char in text)


def quote(text: str) -> str:
    """Return a basic TOML string, with the escapes of JSON and an escaped DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
