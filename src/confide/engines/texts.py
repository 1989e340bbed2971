"""Which texts read as numbers, truth values and days, as patterns that every engine can match.

The rules are those by which DuckDB casts texts. Engines whose own casts take other texts compare
with these patterns first. Letters are ASCII, white space is that of C; nothing depends on a locale.
"""

from typing import Final

__all__ = ["BLANKS", "BYTES", "DAY", "FALSE", "FOREVER", "NUMBER", "TRUE", "UNREAL"]

BLANKS: Final = " \t\n\x0b\x0c\r"
_BLANK: Final = f"[{BLANKS}]*"
_DIGITS: Final = "[0-9]+(_[0-9]+)*"

NUMBER: Final = (
    f"^{_BLANK}[+-]?({_DIGITS}(\\.({_DIGITS})?)?|\\.{_DIGITS})([eE][+-]?{_DIGITS})?{_BLANK}$"
)
"""A decimal number; single underscores may part its digits, and are left out."""

BYTES: Final = f"^{_BLANK}0([xX][0-9a-fA-F]+(_[0-9a-fA-F]+)*|[bB][01]+(_[01]+)*){_BLANK}$"
"""A whole number to the base 16 or 2, which is no double."""

UNREAL: Final = f"^{_BLANK}[+-]?([iI][nN][fF]([iI][nN][iI][tT][yY])?|[nN][aA][nN]){_BLANK}$"
"""An infinity, or no number at all; both are doubles."""

TRUE: Final = ("true", "t", "yes", "y", "1")
FALSE: Final = ("false", "f", "no", "n", "0")
"""What a truth value may look like, in lower case."""

_TIME: Final = "([01]?[0-9]|2[0-4]):[0-5]?[0-9](:[0-5]?[0-9](\\.[0-9]+)?)?"
_ZONE: Final = " ?(Z|UTC|[+-][0-9][0-9](:?[0-9][0-9])?)"
DAY: Final = (
    f"^{_BLANK}(-?[0-9]{{1,7}})([- /\\\\])([0-9]{{1,2}})\\2([0-9]{{1,2}})"
    f"({_BLANK}|[ T]{_TIME}({_ZONE})?{_BLANK})$"
)
"""Year, month and day, with one sign between; a time of day may follow and does not matter."""

FOREVER: Final = f"^{_BLANK}-?[iI][nN][fF]([iI][nN][iI][tT][yY])?{_BLANK}$"
"""A day after or before all others."""
