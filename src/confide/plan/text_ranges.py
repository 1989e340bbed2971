"""Ranges of strings: the strings that an expression can be, if they are known.

Otherwise, the range of a string is the interval of its possible lengths in characters.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from itertools import product
from typing import Final

from confide.declare import Kind
from confide.expressions.functions import Function
from confide.expressions.tree import Expression, Literal
from confide.plan.range_arithmetic import (
    ANY_LENGTH,
    EMPTY_RANGE,
    UNBOUNDED,
    Bound,
    Range,
)

__all__ = ["MAX_OPERAND_LENGTH", "SPACES", "TEXT_RULES", "length_range", "unite"]

F = Function
Parts = Sequence[Range]
Rule = Callable[[Parts, Sequence[Expression]], Range]

MAX_OPERAND_LENGTH: Final = 10_000
"""How many characters CONCAT, REPLACE, and SPLIT_PART read of a string of unknown length."""
MAX_KNOWN: Final = 10_000
MAX_SPELLED: Final = 1_000
"""The maximum number of integers or dates whose strings are listed."""
MAX_CASE_GROWTH: Final = 3
"""The most characters that LOWER or UPPER writes for one character."""
TEXT_LENGTHS: Final = {Kind.INT: 20, Kind.FLOAT: 32, Kind.BOOL: 5, Kind.DATE: 10}
"""The maximum length of a value of each type, cast to a string."""
SPACES: Final = "".join(
    map(chr, (0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000))
)
"""The characters that Unicode calls spaces, which TRIM removes by default."""


def length_range(part: Range) -> Range:
    """Return the range of the lengths of strings, without an upper end if they are unknown."""
    if part.is_empty:
        return EMPTY_RANGE
    known = _known_strings(part)
    if known is not None:
        lengths = [len(value) for value in known if value is not None]
        return Range(min(lengths), max(lengths)) if lengths else EMPTY_RANGE
    return Range(max(part.low, 0), part.high)


def unite(parts: Parts) -> Range:
    """Return the smallest range that contains all ranges, of lengths if a string is unknown."""
    are_texts = any(isinstance(value, str) for part in parts for value in part.values or ())
    if are_texts and any(part.values is None for part in parts):
        parts = [length_range(part) for part in parts]
    found = parts[0]
    for part in parts[1:]:
        found = found.union(part)
    return found


def _known_strings(part: Range) -> tuple[str | None, ...] | None:
    """Return the strings that an argument can be, if they are known."""
    known = part.values
    return None if known is None else tuple(one for one in known if not isinstance(one, int))


def _one_of(values: Iterable[str | None]) -> Range:
    return Range(-math.inf, math.inf, tuple(dict.fromkeys(values)))


def _up_to(length: Bound) -> Range:
    return Range(0, length) if math.isfinite(length) else UNBOUNDED


def _change(change: Callable[[str], str], growth: Callable[[Bound], Bound]) -> Rule:
    """Return the rule of a function of a string.

    ``change`` computes the value for a known string. ``growth`` returns the maximum length of the
    value, given that of an unknown string.
    """

    def rule(parts: Parts, _: Sequence[Expression]) -> Range:
        known = _known_strings(parts[0])
        if parts[0].is_empty:
            return EMPTY_RANGE
        if known is None:
            return _up_to(growth(length_range(parts[0]).high))
        return _one_of(None if value is None else change(value) for value in known)

    return rule


def _change_case(change: Callable[[str], str]) -> Rule:
    """Return the rule of LOWER or UPPER: strings stay known if all are ASCII, as engines differ."""

    def rule(parts: Parts, arguments: Sequence[Expression]) -> Range:
        known = _known_strings(parts[0])
        if known is not None and not all(value is None or value.isascii() for value in known):
            return _up_to(length_range(parts[0]).high * MAX_CASE_GROWTH)
        return _change(change, lambda length: length * MAX_CASE_GROWTH)(parts, arguments)

    return rule


def _substring(parts: Parts, arguments: Sequence[Expression]) -> Range:
    """Return the substrings of known strings if positions count from the start, else lengths."""
    start, end = None, None
    longest = length_range(parts[0]).high
    match arguments[1:]:
        case [Literal(value=int(first))] if first > 0:
            start = first - 1
        case [Literal(value=int(first)), Literal(value=int(count))] if first > 0 <= count:
            start, end = first - 1, first - 1 + count
        case [Literal(value=int(first))] if first < 0:
            start, longest = first, min(longest, -first)
        case _:
            pass
    match arguments[1:]:
        case [_, Literal(value=int(count))]:
            longest = min(longest, abs(count))
        case _:
            pass
    known = _known_strings(parts[0])
    if known is None or start is None:
        return EMPTY_RANGE if parts[0].is_empty else _up_to(longest)
    return _one_of(one and one[start:end] for one in known)


def _concatenate(parts: Parts, _: Sequence[Expression]) -> Range:
    known = [_known_strings(part) for part in parts]
    if any(part.is_empty for part in parts):
        return EMPTY_RANGE
    listed = [values for values in known if values is not None]
    if len(listed) == len(parts) and math.prod(map(len, listed)) <= MAX_KNOWN:
        return _one_of(
            None if None in strings else "".join(filter(None, strings))
            for strings in product(*listed)
        )
    return Range(0, sum(map(_operand_length, parts)))


def _operand_length(part: Range) -> Bound:
    """Return the most characters that CONCAT or REPLACE reads of a string."""
    longest = length_range(part).high
    return longest if math.isfinite(longest) else MAX_OPERAND_LENGTH


def _trim(change: Callable[[str, str], str]) -> Rule:
    def rule(parts: Parts, arguments: Sequence[Expression]) -> Range:
        characters = _literal_text(arguments[1]) if len(arguments) > 1 else SPACES
        if characters is None:
            return EMPTY_RANGE
        return _change(lambda text: change(text, characters), lambda length: length)(
            parts, arguments
        )

    return rule


def _replace(parts: Parts, arguments: Sequence[Expression]) -> Range:
    old, new = map(_literal_text, arguments[1:])
    if old is None or new is None:
        return EMPTY_RANGE
    rate = max(1.0, len(new) / len(old))
    longest = _operand_length(parts[0])
    found = _change(lambda text: text.replace(old, new), lambda _: math.ceil(longest * rate))
    return found(parts, arguments)


def _split(parts: Parts, arguments: Sequence[Expression]) -> Range:
    match arguments[1:]:
        case [Literal(value=str(separator)), Literal(value=int(place))]:
            pass
        case _:
            return EMPTY_RANGE

    def piece(text: str) -> str:
        pieces = text.split(separator)
        return pieces[place - 1] if place <= len(pieces) else ""

    return _change(piece, lambda length: length)(parts, arguments)


def _literal_text(argument: Expression) -> str | None:
    value = argument.value if isinstance(argument, Literal) else None
    return value if isinstance(value, str) else None


def _position(parts: Parts, arguments: Sequence[Expression]) -> Range:
    """Return the range of the position at which a literal first occurs; 0 if it does not."""
    sought, known = _literal_text(arguments[1]), _known_strings(parts[0])
    if sought is None or parts[0].is_empty:
        return EMPTY_RANGE
    if known is not None:
        places = [text.find(sought) + 1 for text in known if text is not None]
        return Range(min(places), max(places)) if places else EMPTY_RANGE
    last = length_range(parts[0]).high - len(sought) + 1
    return Range(0, min(max(last, 0), ANY_LENGTH.high))


def _length(parts: Parts, _: Sequence[Expression]) -> Range:
    found = length_range(parts[0])
    if found.is_empty:
        return ANY_LENGTH
    return Range(found.low, min(found.high, ANY_LENGTH.high))


def _to_text(parts: Parts, arguments: Sequence[Expression]) -> Range:
    """Return the range of a cast to a string, which lists the strings of few integers or dates."""
    (part,), kind = parts, getattr(arguments[0], "kind", None)
    if kind is Kind.TEXT or part.is_empty:
        return part
    if kind is Kind.BOOL:
        return _one_of(("true", "false"))
    if kind is Kind.INT and part.values is not None and len(part.values) <= MAX_SPELLED:
        return _one_of(None if value is None else str(value) for value in part.values)
    if kind in (Kind.INT, Kind.DATE) and part.high - part.low < MAX_SPELLED:
        spell = str if kind is Kind.INT else lambda one: date.fromordinal(one).isoformat()
        return _one_of(map(spell, range(int(part.low), int(part.high) + 1)))
    return _up_to(TEXT_LENGTHS.get(kind, math.inf)) if kind is not None else UNBOUNDED


TEXT_RULES: Final[dict[F, Rule]] = {
    F.LOWER: _change_case(str.lower),
    F.UPPER: _change_case(str.upper),
    F.SUBSTR: _substring,
    F.LENGTH: _length,
    F.CONCAT: _concatenate,
    F.TRIM: _trim(str.strip),
    F.LTRIM: _trim(str.lstrip),
    F.RTRIM: _trim(str.rstrip),
    F.REPLACE: _replace,
    F.SPLIT_PART: _split,
    F.STRPOS: _position,
    F.TO_TEXT: _to_text,
}
