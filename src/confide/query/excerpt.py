"""The refused piece of an analyst's text, shown under their own words."""

from typing import Final

__all__ = ["underline"]

WIDTH: Final = 70


def underline(text: str, start: int, end: int) -> str:
    r"""Return the line of ``text`` that holds ``start`` with carets below [start, end).

    A piece that runs over several lines is underlined to the end of its first; a long line is
    cut around the piece.

    >>> print(underline("SELECT *\nFROM visits", 7, 8))
    line 1: SELECT *
                   ^
    """
    start = max(0, min(start, len(text) - 1))
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", start)
    line = text[first:] if last < 0 else text[first:last]
    begin = start - first
    length = max(1, min(end - start, len(line) - begin))
    cut = max(0, begin - WIDTH // 4) if len(line) > WIDTH else 0
    shown = "".join(char if char.isprintable() else " " for char in line[cut : cut + WIDTH])
    length = max(1, min(length, len(shown) - (begin - cut)))
    label = f"line {text.count(chr(10), 0, start) + 1}: "
    return f"{label}{shown}\n{' ' * (len(label) + begin - cut)}{'^' * length}"
