"""On which line each key of a TOML text stands, for messages; the parser does not tell."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

__all__ = ["KeyPath", "Lines"]

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
