"""Contribution bounding in plain Python: hashes of rows, their order, and the rows that count."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import lru_cache
from hashlib import md5
from typing import Any, Final

from confide.declare import Kind
from confide.declare.columns import to_milliseconds
from confide.engines.sql import row_hash

__all__ = ["keep_rows", "mark_of"]

MASK: Final = 2**31 - 1
EPOCH: Final = date(1970, 1, 1).toordinal()
Row = tuple[Any, ...]


def fold(value: int) -> int:
    """Return the xor of the upper and the lower bits."""
    return (value ^ (value >> 31)) & MASK


@lru_cache(maxsize=2**16)
def digits_of(value: Any, kind: Kind) -> list[int]:  # noqa: PLR0911  # one for each type
    """Return the integers that represent a value."""
    if value is None:
        return [MASK, MASK] if kind is Kind.FLOAT else [MASK]
    match kind:
        case Kind.INT:
            return [fold(value)]
        case Kind.TIMESTAMP:
            return [fold(to_milliseconds(value))]
        case Kind.BOOL:
            return [int(value)]
        case Kind.DATE:
            return [(value.toordinal() - EPOCH) & MASK]
        case Kind.FLOAT:
            whole = round(max(-(2.0**52), min(value, 2.0**52)))
            return [fold(whole), round(value / (1 + abs(value)) * 2.0**30) & MASK]
        case Kind.TEXT:
            digest = md5(value.encode(), usedforsecurity=False).digest()
            return [int.from_bytes(digest[-4:]) & MASK]


def join_texts(values: list[tuple[Any, Kind]]) -> list[tuple[Any, Kind]]:
    """Return values with all strings joined into one, at the position of the first."""
    texts = ["\x1e" if value is None else value for value, kind in values if kind is Kind.TEXT]
    if len(texts) < 2:
        return values
    first = next(place for place, (_, kind) in enumerate(values) if kind is Kind.TEXT)
    others = [(value, kind) for value, kind in values if kind is not Kind.TEXT]
    return [*others[:first], ("\x1f".join(texts), Kind.TEXT), *others[first:]]


@lru_cache(maxsize=2**10)
def make_secrets(make: Callable[[str, int], Sequence[int]], salt: str, count: int) -> Sequence[int]:
    """Return the secrets of a salt; ``make`` is the engines' function or a test's replacement."""
    return make(salt, count)


def number_of(values: Iterable[tuple[Any, Kind]], salt: str) -> int:
    """Return the keyed number of some values."""
    listed = join_texts(list(values))
    digits = [digit for value, kind in listed for digit in digits_of(value, kind)]
    secrets = make_secrets(row_hash._secrets, salt, len(digits))
    return fold(sum(digit * secret for digit, secret in zip(digits, secrets, strict=True)))


def mark_of(values: Iterable[tuple[Any, Kind]], salt: str) -> int:
    """Return the keyed hash of some values."""
    number = number_of(values, salt)
    square = number * number
    return ((square >> 31) % 2**15 + (square >> 16) % 2**14) * 2**31 + number


def content(values: Iterable[Any]) -> list[tuple[bool, Any]]:
    """Return a sort key of values in which NULL comes last."""
    return [(value is None, 0 if value is None else value) for value in values]


def keep_rows(
    rows: Sequence[Row], limits: tuple[int, int], kinds: Mapping[str, Kind], keys: int, salt: str
) -> list[Row]:
    """Return the rows of one unit that count: those of its first groups, and of these the first.

    A row consists of its unit, ``keys`` keys, and its summands, whose kinds are given in this
    order.
    """
    most_rows, most_groups = limits
    is_grouped = keys and most_groups < most_rows
    listed = list(kinds.values())

    def order(row: Row) -> tuple[Any, ...]:
        hashed = row[: 1 + keys] if is_grouped else row
        mark = mark_of(zip(hashed, listed, strict=False), f"{salt} groups")
        first = (mark, content(hashed[1:]))
        if not is_grouped:
            return first
        values = [(mark, Kind.INT), *zip(row[1 + keys :], listed[1 + keys :], strict=True)]
        return (*first, (number_of(values, salt) ** 2 >> 16) & MASK, content(row[1 + keys :]))

    ordered = sorted(rows, key=order)
    groups = list(dict.fromkeys(row[1 : 1 + keys] for row in ordered))
    first = set(groups[:most_groups] if is_grouped else groups)
    return [row for row in ordered if row[1 : 1 + keys] in first][:most_rows]
