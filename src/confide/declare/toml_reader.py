"""TOML sections with line numbers, and errors collected until the end."""

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


T = TypeVar("T")
MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a section: how its value is read, and what to write where it must be given."""

    read: Callable[[str, object], Any]
    needed: str = ""


@dataclass(frozen=True, slots=True)
class Problems:
    """What is wrong in a file so far, each with its line."""

    lines: Lines
    found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, path: KeyPath, message: str, *, shown: KeyPath | None = None) -> None:
        """Note a problem at the line of ``path``, under the name of ``shown`` (or of ``path``)."""
        name = ".".join(path if shown is None else shown)
        problem = (self.lines.of(path), f"{name}: {message}" if name else message)
        if problem not in self.found:
            self.found.append(problem)

    def attempt(
        self, path: KeyPath, make: Callable[[], T], *, shown: KeyPath | None = None
    ) -> T | None:
        """Return what ``make`` gives, or note why it cannot."""
        try:
            return make()
        except BadDeclaration as error:
            self.add(path, str(error), shown=shown)
            return None

    def section(self, path: KeyPath, value: object) -> dict[str, Any] | None:
        """Return a section's keys and values; None where it is something else."""
        if isinstance(value, dict):
            return value
        self.add(path, f"must be a section, got {value!r}")
        return None

    def check_keys(self, path: KeyPath, values: Mapping[str, object], known: list[str]) -> None:
        """Note each key that nobody knows, and the one that may be meant."""
        for key in values:
            if key not in known:
                self.add((*path, key), f"unknown key {key!r}; {_suggest(key, known)}", shown=path)

    def read(
        self, path: KeyPath, values: Mapping[str, object], fields: Mapping[str, Field]
    ) -> dict[str, Any] | None:
        """Return the values that can be read; None where one that is required cannot."""
        result: dict[str, Any] = {}
        is_whole = True
        for key, known in fields.items():
            value = values.get(key, MISSING)
            if value is MISSING:
                if known.needed:
                    self.add(path, f"{key} is missing; write {known.needed}")
                    is_whole = False
                continue
            before = len(self.found)
            got = self.attempt((*path, key), partial(known.read, key, value), shown=path)
            if len(self.found) == before:
                result[key] = got
            else:
                is_whole = is_whole and not known.needed
        return result if is_whole else None

    def raise_all(self, name: str) -> None:
        """Raise one error with every problem, in the order of their lines."""
        if not self.found:
            return
        count = "1 problem" if len(self.found) == 1 else f"{len(self.found)} problems"
        listed = "\n".join(f"  line {line}: {message}" for line, message in sorted(self.found))
        raise BadDeclaration(f"{name} has {count}:\n{listed}")


def text(name: str, value: object) -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise BadDeclaration(f"{name} must be a text, got {value!r}")
    return value


def flag(name: str, value: object) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise BadDeclaration(f"{name} must be true or false, got {value!r}")
    return value


def _suggest(key: str, known: list[str]) -> str:
    close = get_close_matches(key.lower(), known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are: {', '.join(known)}"
