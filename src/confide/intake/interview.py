"""Questions to the owner that complete a draft (`confide init --interactive`).

Every answer has a default where general knowledge suggests one. The draft also suggests types, and
whether the unit repeats. No bound and no value is suggested from the data.
"""

from collections.abc import Callable, Sequence
from datetime import date
from fractions import Fraction
from typing import Final

from confide.declare.tables import NAME, is_column_name
from confide.errors import BadDeclaration
from confide.intake.draft import DraftColumn, DraftTable, quote, unit_advice
from confide.intake.hints import bounds_hint

__all__ = ["Ask", "complete_draft"]

Ask = Callable[[str, str], str]
"""A function that asks a question with a default answer, and returns the answer."""

SKIP: Final = "skip"
TYPES: Final = ("int", "float", "category", "text", "bool", "date", "timestamp", SKIP)
MAX_ATTEMPTS: Final = 5


def complete_draft(tables: Sequence[DraftTable], ask: Ask) -> str:
    """Return the text of a complete `confide.toml`, from the owner's answers.

    Raises:
        BadDeclaration: an answer cannot be used after several attempts.
    """
    epsilon = _ask_number(ask, "Total epsilon of all answers (1 is cautious, 10 is not)", "1.0")
    delta = _ask_number(ask, "Delta, far below 1 / number of people (0: pure)", "1e-8")
    parts = [
        "# Written by `confide init --interactive`.\n\n[budget]\n",
        f'epsilon = {epsilon}\ndelta = {delta}\nmax_share_per_query = "20%"\n\n',
        '[ledger]\nurl = "sqlite:///ledger.db"\n',
        *(_complete_table(table, ask) for table in tables),
    ]
    return "".join(parts)


def _complete_table(table: DraftTable, ask: Ask) -> str:
    suggested, sentences = unit_advice(table)
    about = " ".join(sentences)
    names = [*table.columns, "ROW"]
    unit = _ask_one(
        ask,
        f"Table {table.name}. {about}{' ' if about else ''}Which column identifies a person? "
        "(ROW: every row is a different person)",
        suggested or "ROW",
        names,
    )
    lines = [f"\n[tables.{table.name}]", f"source = {quote(table.source)}", f"unit = {quote(unit)}"]
    if unit != "ROW":
        lines += _ask_limits(table.columns[unit], ask)
    lines.append(f"\n[tables.{table.name}.columns]")
    for name, column in table.columns.items():
        if name != unit and is_column_name(name) and (line := _complete_column(name, column, ask)):
            lines.append(line)
    return "\n".join(lines) + "\n"


def _ask_limits(unit: DraftColumn, ask: Ask) -> list[str]:
    """Return the lines for the limits of one unit."""
    default = "yes" if unit.is_unique else "no"
    if _ask_one(ask, "Does every person have at most one row?", default, ("yes", "no")) == "yes":
        return ["unique = true"]
    rows = _ask_count(ask, "How many rows of one person can count in an answer?", "10")
    groups = _ask_count(ask, "In how many groups can one person count?", str(min(int(rows), 3)))
    return [f"max_rows_per_unit = {rows}", f"max_groups_per_unit = {groups}"]


def _complete_column(name: str, column: DraftColumn, ask: Ask) -> str:
    """Return the line of a column, or an empty string if the owner leaves it out."""
    key = name if NAME.match(name) else quote(name)
    default = "text" if column.kind is None else column.kind.value
    note = f" ({column.note})" if column.note else ""
    kind = _ask_one(ask, f"Column {name}{note}. Type ({', '.join(TYPES)})", default, TYPES)
    match kind:
        case "skip":
            return ""
        case "int" | "float":
            low, high = bounds_hint(name) or ("", "")
            first = _ask_number(ask, f"  Smallest possible {name}", str(low))
            last = _ask_number(ask, f"  Largest possible {name}", str(high))
            return f'{key} = {{ type = "{kind}", low = {first}, high = {last} }}'
        case "date" | "timestamp":
            first = _ask_date(ask, f"  First possible {name}, such as 2020-01-01")
            last = _ask_date(ask, f"  Last possible {name}")
            return f'{key} = {{ type = "{kind}", low = {first}, high = {last} }}'
        case "category":
            values = _ask_until(ask, f"  All values of {name}, separated by commas", "", _values)
            return f'{key} = {{ type = "category", values = [{values}] }}'
        case _:
            return f'{key} = {{ type = "{kind}" }}'


def _values(text: str) -> str | None:
    """Return TOML for a list of values; integers if all of them are."""
    values = [value.strip() for value in text.split(",") if value.strip()]
    if not values:
        return None
    if all(value.lstrip("-").isdigit() for value in values):
        return ", ".join(str(int(value)) for value in values)
    return ", ".join(map(quote, values))


def _number(text: str) -> str | None:
    """Return TOML for a number, or None."""
    try:
        Fraction(text)
    except (ValueError, ZeroDivisionError):
        return None
    return None if "/" in text else text.replace("+", "")


def _date(text: str) -> str | None:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        return None


def _ask_number(ask: Ask, question: str, default: str) -> str:
    return _ask_until(ask, question, default, _number)


def _ask_count(ask: Ask, question: str, default: str) -> str:
    return _ask_until(
        ask, question, default, lambda text: text if text.isdigit() and int(text) else None
    )


def _ask_date(ask: Ask, question: str) -> str:
    return _ask_until(ask, question, "", _date)


def _ask_one(ask: Ask, question: str, default: str, allowed: Sequence[str]) -> str:
    lowered = {one.lower(): one for one in allowed}
    return _ask_until(ask, question, default, lambda text: lowered.get(text.lower()))


def _ask_until(ask: Ask, question: str, default: str, read: Callable[[str], str | None]) -> str:
    """Return the first usable answer; ``read`` returns None for answers that cannot be used."""
    for _ in range(MAX_ATTEMPTS):
        answer = read(ask(question, default))
        if answer is not None:
            return answer
    raise BadDeclaration(
        f"No usable answer to: {question.strip()}. Run the command again, or draft without "
        "--interactive."
    )
