"""Where things stand in a TOML text, for messages: keys, and what the parser did not accept."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

__all__ = ["KeyPath", "Lines", "explain_error"]

KeyPath = tuple[str, ...]
"""A key with those above it: ("tables", "visits", "unit")."""

WORD: Final = re.compile(
    r'''
    """(?:[^\\]|\\.)*?"""(?:"{0,2})   # texts over several lines may end in up to five quotes
    | \'\'\'.*?\'\'\'(?:'{0,2})
    | "(?:[^"\\]|\\.)*" | '[^']*'
    | \#[^\n]* | \n | [\[\]{}=.,] | [^\s\[\]{}=.,\#"']+
    ''',
    re.VERBOSE | re.DOTALL,
)
Word = tuple[str, int]
PLACE: Final = re.compile(r"\(at line (\d+), column (\d+)\)")
LONGEST: Final = 100
BLANKS: Final = {
    "LOW": "write numbers in the place of LOW and HIGH",
    "HIGH": "write numbers in the place of LOW and HIGH",
    "YYYY-MM-DD": "write dates in the place of YYYY-MM-DD, such as 2020-01-31",
}
"""What `confide init` leaves open, and what to write there."""
EXAMPLE: Final = 'unit = "person" and low = 2020-01-31'


@dataclass(frozen=True, slots=True, init=False)
class Lines:
    r"""Where the keys of a text that the parser has accepted stand.

    Keys inside braces count as standing where the whole value begins.

    >>> lines = Lines("[tables.visits]\nunit = 'id'\nage = {low = 0}")
    >>> lines.of(("tables", "visits", "unit")), lines.of(("tables", "visits", "age", "low"))
    (2, 3)
    """

    known: Mapping[KeyPath, int]

    def __init__(self, text: str) -> None:
        known: dict[KeyPath, int] = {}
        section: KeyPath = ()
        for path, line, is_section in _statements(text):
            whole = path if is_section else (*section, *path)
            for length in range(1, len(whole)):
                known.setdefault(whole[:length], line)
            known[whole] = line
            section = path if is_section else section
        object.__setattr__(self, "known", MappingProxyType(known))

    def of(self, path: KeyPath) -> int:
        """Return the line of a key, or of the nearest one above it that is written out."""
        while path and path not in self.known:
            path = path[:-1]
        return self.known.get(path, 1)


def explain_error(text: str, error: Exception) -> str:
    r"""Return where a text is not TOML, what stands there, and what to write instead.

    >>> import tomllib
    >>> try:
    ...     tomllib.loads("age = { low = LOW, high = 9 }")
    ... except tomllib.TOMLDecodeError as error:
    ...     print(explain_error("age = { low = LOW, high = 9 }", error))
    line 1: age = { low = LOW, high = 9 }: write numbers in the place of LOW and HIGH
    """
    place = PLACE.search(str(error))
    if place is None:
        return f"{error}; mend it there"
    written = text.splitlines()[int(place[1]) - 1 : int(place[1])]
    shown = written[0].strip()[:LONGEST] if written else ""
    if "://" in shown:  # an address may hold a password
        shown = shown.partition("=")[0].strip()
    hint = next((said for blank, said in BLANKS.items() if blank in shown), None)
    if hint is None:
        what = str(error).partition(" (at ")[0].lower()
        cure = f"write as in {EXAMPLE}" if what == "invalid value" else "mend it there"
        hint = f"{what}, at column {place[2]}; {cure}"
    return f"line {place[1]}: {shown}: {hint}"


def _statements(text: str) -> Iterator[tuple[KeyPath, int, bool]]:
    """Yield each section header (True) and each assignment (False) with its line."""
    words = _words(text.replace("\r\n", "\n"))
    for first, line in words:
        if first == "\n":
            continue
        is_section = first == "["
        path: list[str] = [] if is_section else [_key(first)]
        for word, _ in words:
            if word in ("=", "\n"):
                break
            if word not in ("[", "]", "."):
                path.append(_key(word))
        if not is_section:
            _skip_value(words)
        yield tuple(path), line, is_section


def _skip_value(words: Iterator[Word]) -> None:
    """Pass over a value and the end of its line; lists go over several lines."""
    depth = 0
    for word, _ in words:
        depth += (word in "[{") - (word in "]}")
        if word == "\n" and not depth:
            return


def _words(text: str) -> Iterator[Word]:
    line = 1
    for match in WORD.finditer(text):
        word = match[0]
        if not word.startswith("#"):
            yield word, line
        line += word.count("\n")


def _key(word: str) -> str:
    """Return the key that a word spells: bare, or quoted."""
    return str(tomllib.loads(f"key = {word}")["key"]) if word[0] in "\"'" else word
