"""Reading the sections of a declaration file, and collecting everything that is wrong in them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, TypeVar

from confide.declare.lines import KeyPath, Lines
from confide.errors import BadDeclaration

__all__ = ["Field", "Problems", "flag", "text"]

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
