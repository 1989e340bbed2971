"""On which line each key of a TOML text stands, for messages; the parser does not tell."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

__all__ = ["Lines", "KeyPath"]

KeyPath = tuple[str, ...]
"""A key with those above it: ("tables", "visits", "unit")."""

TOKEN: Final = re.compile(
    r'''
    """(?:[^\\]|\\.)*?"""(?:"{0,2})   # texts over several lines may end in up to five quotes
    | \'\'\'.*?\'\'\'(?:'{0,2})
    | "(?:[^"\\]|\\.)*" | '[^']*'
    | \#[^\n]* | \n | [\[\]{}=.,] | [^\s\[\]{}=.,\#"']+
    ''',
    re.VERBOSE | re.DOTALL,
)
Token = tuple[str, int]


@dataclass(frozen=True, slots=True, init=False)
class Lines:
    """Where the keys of a text that the parser has accepted stand.

    Keys inside braces count as standing where the whole value begins.

    >>> lines = Lines("[tables.visits]\\nunit = 'id'\\nage = {low = 0}")
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
    tokens = _tokens(text.replace("\r\n", "\n"))
    for first, line in tokens:
        if first == "\n":
            continue
        is_section = first == "["
        path: list[str] = [] if is_section else [_key(first)]
        for token, _ in tokens:
            if token in ("=", "\n"):
                break
            if token not in ("[", "]", "."):
                path.append(_key(token))
        if not is_section:
            _skip_value(tokens)
        yield tuple(path), line, is_section


def _skip_value(tokens: Iterator[Token]) -> None:
    """Pass over a value and the end of its line; lists go over several lines."""
    depth = 0
    for token, _ in tokens:
        depth += (token in "[{") - (token in "]}")
        if token == "\n" and not depth:
            return


def _tokens(text: str) -> Iterator[Token]:
    line = 1
    for match in TOKEN.finditer(text):
        token = match[0]
        if not token.startswith("#"):
            yield token, line
        line += token.count("\n")


def _key(token: str) -> str:
    """Return the key that a token spells: bare, or quoted."""
    return str(tomllib.loads(f"key = {token}")["key"]) if token[0] in "\"'" else token
