"""Validation of TOML values, with the line number of each problem; used by `toml`."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeVar

from confide.errors import BadDeclaration

__all__ = ["Field", "KeyPath", "Lines", "Problems", "explain_error", "flag", "text"]

KeyPath = tuple[str, ...]
"""A key with the keys above it, such as ("tables", "visits", "unit")."""

TOKEN: Final = re.compile(
    r'''
    """(?:[^\\]|\\.)*?"""(?:"{0,2})   # multi-line strings may end in up to five quotes
    | \'\'\'.*?\'\'\'(?:'{0,2})
    | "(?:[^"\\]|\\.)*" | '[^']*'
    | \#[^\n]* | \n | [\[\]{}=.,] | [^\s\[\]{}=.,\#"']+
    ''',
    re.VERBOSE | re.DOTALL,
)
Token = tuple[str, int]
ERROR_POSITION: Final = re.compile(r"\(at line (\d+), column (\d+)\)")
MAX_EXCERPT_LENGTH: Final = 100
PLACEHOLDERS: Final = {
    "LOW": "Replace LOW and HIGH with numbers.",
    "HIGH": "Replace LOW and HIGH with numbers.",
    "YYYY-MM-DD": "Replace YYYY-MM-DD with dates, such as 2020-01-31.",
}
"""The placeholders that `confide init` writes, with advice for each."""
VALUE_EXAMPLES: Final = '`unit = "person"` or `low = 2020-01-31`'


@dataclass(frozen=True, slots=True, init=False)
class Lines:
    r"""The line numbers of the keys in a valid TOML document.

    A key inside an inline table gets the line on which that table starts.

    >>> lines = Lines("[tables.visits]\nunit = 'id'\nage = {low = 0}")
    >>> lines.of(("tables", "visits", "unit")), lines.of(("tables", "visits", "age", "low"))
    (2, 3)
    """

    known: Mapping[KeyPath, int]

    def __init__(self, text: str) -> None:
        known: dict[KeyPath, int] = {}
        section: KeyPath = ()
        for path, line, is_section in _statements(text):
            full_path = path if is_section else (*section, *path)
            for length in range(1, len(full_path)):
                known.setdefault(full_path[:length], line)
            known[full_path] = line
            section = path if is_section else section
        object.__setattr__(self, "known", MappingProxyType(known))

    def of(self, path: KeyPath) -> int:
        """Return the line of a key, or of the closest key above it that has a line."""
        while path and path not in self.known:
            path = path[:-1]
        return self.known.get(path, 1)


def explain_error(text: str, error: Exception) -> str:
    r"""Return the number and text of the line with a TOML error, plus advice.

    >>> import tomllib
    >>> try:
    ...     tomllib.loads("age = { low = LOW, high = 9 }")
    ... except tomllib.TOMLDecodeError as error:
    ...     print(explain_error("age = { low = LOW, high = 9 }", error))
    Line 1 is `age = { low = LOW, high = 9 }`. Replace LOW and HIGH with numbers.
    """
    place = ERROR_POSITION.search(str(error))
    if place is None:
        return f"{error}. Fix it there."
    written = text.splitlines()[int(place[1]) - 1 : int(place[1])]
    shown = written[0].strip()[:MAX_EXCERPT_LENGTH] if written else ""
    if "://" in shown:  # a URL may contain a password
        shown = shown.partition("=")[0].strip()
    hint = next((advice for blank, advice in PLACEHOLDERS.items() if blank in shown), None)
    if hint is None:
        problem = str(error).partition(" (at ")[0]
        if problem == "Invalid value":
            hint = f"At column {place[2]}, write a value as in {VALUE_EXAMPLES}."
        else:
            hint = f"{problem}, at column {place[2]}. Fix it there."
    return f"Line {place[1]} is `{shown}`. {hint}"


def _statements(text: str) -> Iterator[tuple[KeyPath, int, bool]]:
    """Yield the key and the line of each section header (True) and of each assignment (False)."""
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
    """Skip a value and the end of its line; lists may span several lines."""
    depth = 0
    for part, _ in tokens:
        depth += (part in "[{") - (part in "]}")
        if part == "\n" and not depth:
            return


def _tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a TOML document with their line numbers, without comments."""
    line = 1
    for match in TOKEN.finditer(text):
        token = match[0]
        if not token.startswith("#"):
            yield token, line
        line += token.count("\n")


def _key(token: str) -> str:
    """Return the key that a bare or quoted token represents."""
    return str(tomllib.loads(f"key = {token}")["key"]) if token[0] in "\"'" else token


T = TypeVar("T")
MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Field:
    """A key of a section: a function that reads its value, and advice if the key is required.

    The function takes the key and the value, and raises BadDeclaration for a bad value. The advice
    is a sentence to show if the key is missing.
    """

    read: Callable[[str, object], Any]
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Problems:
    """The problems found in a file, each with its line."""

    lines: Lines
    found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, path: KeyPath, message: str, *, shown: KeyPath | None = None) -> None:
        """Add a problem at the line of ``path``.

        Its message starts with ``shown`` if given, else with ``path``.
        """
        name = ".".join(path if shown is None else shown)
        problem = (self.lines.of(path), f"{name}: {message}" if name else message)
        if problem not in self.found:
            self.found.append(problem)

    def attempt(
        self, path: KeyPath, make: Callable[[], T], *, shown: KeyPath | None = None
    ) -> T | None:
        """Return the result of ``make``, or None after adding its error as a problem."""
        try:
            return make()
        except BadDeclaration as error:
            self.add(path, str(error), shown=shown)
            return None

    def section(self, path: KeyPath, value: object) -> dict[str, Any] | None:
        """Return a section's keys and values, or None if the value is not a section."""
        if isinstance(value, dict):
            return value
        self.add(path, f"This must be a section; got {value!r}.")
        return None

    def check_keys(self, path: KeyPath, values: Mapping[str, object], known: list[str]) -> None:
        """Add a problem for each unknown key, with the most similar known key."""
        for key in values:
            if key not in known:
                self.add((*path, key), f"Unknown key {key!r}. {_suggest(key, known)}", shown=path)

    def read(
        self, path: KeyPath, values: Mapping[str, object], fields: Mapping[str, Field]
    ) -> dict[str, Any] | None:
        """Return the values that are valid, or None if a required one is missing or not valid."""
        result: dict[str, Any] = {}
        is_complete = True
        for key, known in fields.items():
            value = values.get(key, MISSING)
            if value is MISSING:
                if known.advice:
                    self.add(path, f"`{key}` is missing. {known.advice}")
                    is_complete = False
                continue
            before = len(self.found)
            got = self.attempt((*path, key), partial(known.read, key, value), shown=path)
            if len(self.found) == before:
                result[key] = got
            else:
                is_complete = is_complete and not known.advice
        return result if is_complete else None

    def raise_all(self, name: str) -> None:
        """Raise one error that lists all problems, in line order."""
        if not self.found:
            return
        count = "1 problem" if len(self.found) == 1 else f"{len(self.found)} problems"
        listed = "\n".join(f"  line {line}: {message}" for line, message in sorted(self.found))
        raise BadDeclaration(f"`{name}` has {count}:\n{listed}")


def text(name: str, value: object) -> str:
    """Return a string that is not empty, or raise BadDeclaration."""
    if not isinstance(value, str) or not value.strip():
        raise BadDeclaration(f"`{name}` must be a string that is not empty; got {value!r}.")
    return value


def flag(name: str, value: object) -> bool:
    """Return a Boolean, or raise BadDeclaration."""
    if not isinstance(value, bool):
        raise BadDeclaration(f"`{name}` must be true or false; got {value!r}.")
    return value


def _suggest(key: str, known: list[str]) -> str:
    close = get_close_matches(key.lower(), known, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Known keys: {', '.join(known)}."
