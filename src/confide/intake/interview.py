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
YES_OR_NO: Final = ("yes", "no")
DATE_FORMAT: Final = "a date such as 2020-01-31"


def complete_draft(tables: Sequence[DraftTable], ask: Ask) -> str:
    """Return the text of a complete `confide.toml`, from the owner's answers.

    Raises:
        BadDeclaration: an answer cannot be used after several attempts.
    """
    epsilon = _ask_until(
        ask,
        "Total epsilon of all answers (1 is cautious, 10 is not)",
        "1",
        _epsilon,
        "a number above 0",
    )
    delta = _ask_until(
        ask,
        "Delta, far below 1 / number of people (0: pure)",
        "1e-8",
        _number_from(Fraction(0), Fraction(1)),
        "a number from 0 to below 1",
    )
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
    if (
        _ask_one(ask, "Does every person have at most one row? (yes/no)", default, YES_OR_NO)
        == "yes"
    ):
        return ["unique = true"]
    wanted = "a positive integer"
    rows = _ask_until(
        ask, "How many rows of one person can count in an answer?", "10", _count, wanted
    )
    most = str(min(int(rows), 3))
    groups = _ask_until(ask, "In how many groups can one person count?", most, _count, wanted)
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
            first = _ask_until(ask, f"  Smallest possible {name}", str(low), _number, "a number")
            above = _number_from(Fraction(first))
            wanted = f"a number from {first} on"
            last = _ask_until(ask, f"  Largest possible {name}", str(high), above, wanted)
            return f'{key} = {{ type = "{kind}", low = {first}, high = {last} }}'
        case "date" | "timestamp":
            first = _ask_until(
                ask, f"  First possible {name}, such as 2020-01-01", "", _date, DATE_FORMAT
            )
            last = _ask_until(ask, f"  Last possible {name}", "", _date, DATE_FORMAT)
            return f'{key} = {{ type = "{kind}", low = {first}, high = {last} }}'
        case "category":
            values = _ask_until(
                ask, f"  All values of {name}, separated by commas", "", _values, "a list of values"
            )
            return f'{key} = {{ type = "category", values = [{values}] }}'
        case _:
            return f'{key} = {{ type = "{kind}" }}'


def _values(text: str) -> str | None:
    """Return TOML for a list of values; integers if all of them are."""
    values = [_unquote(value.strip()) for value in text.strip().strip("[]").split(",")]
    values = [value for value in values if value]
    if not values:
        return None
    if all(value.lstrip("-").isdigit() for value in values):
        return ", ".join(str(int(value)) for value in values)
    return ", ".join(map(quote, values))


def _unquote(text: str) -> str:
    """Return a string without a pair of quotes around it."""
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if is_quoted else text


def _number(text: str) -> str | None:
    """Return TOML for a number, or None."""
    try:
        number = Fraction(text.replace("_", "").replace(",", ""))
    except (ValueError, ZeroDivisionError):
        return None
    if "/" in text:
        return None
    return str(number) if number.denominator == 1 else repr(float(number))


def _number_from(low: Fraction, high: Fraction | None = None) -> Callable[[str], str | None]:
    """Return a reader of numbers that are at least ``low`` and below ``high``."""

    def read(text: str) -> str | None:
        found = _number(text)
        fits = (
            found is not None
            and low <= Fraction(found)
            and (high is None or Fraction(found) < high)
        )
        return found if fits else None

    return read


def _epsilon(text: str) -> str | None:
    found = _number(text)
    return found if found is not None and Fraction(found) > 0 else None


def _date(text: str) -> str | None:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        return None


def _count(text: str) -> str | None:
    return str(int(text)) if text.isdigit() and int(text) else None


def _ask_one(ask: Ask, question: str, default: str, allowed: Sequence[str]) -> str:
    """Return one of the allowed answers; a unique beginning of it suffices."""

    def read(text: str) -> str | None:
        exact = [one for one in allowed if one.lower() == text.lower()]
        begun = [one for one in allowed if text and one.lower().startswith(text.lower())]
        found = exact or begun
        return found[0] if len(found) == 1 else None

    return _ask_until(ask, question, default, read, f"one of: {', '.join(allowed)}")


def _ask_until(
    ask: Ask, question: str, default: str, read: Callable[[str], str | None], wanted: str
) -> str:
    """Return the first usable answer; ``read`` returns None for answers that cannot be used."""
    hint = ""
    for _ in range(MAX_ATTEMPTS):
        answer = read(ask(f"{hint}{question}", default))
        if answer is not None:
            return answer
        hint = f"That is not {wanted}.\n"
    raise BadDeclaration(
        f"No usable answer to: {question.strip()}. Run the command again, or draft without "
        "--interactive."
    )
