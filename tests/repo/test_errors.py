"""Error codes are unique, not inherited, and documented."""

import re
from collections import Counter
from collections.abc import Iterator

from confide.errors import BadDeclaration, ConfideError, Fault, Refusal
from support.tree import ROOT, modules

FAMILIES = (BadDeclaration, Refusal, Fault)


def family(base: type[ConfideError]) -> Iterator[type[ConfideError]]:
    yield base
    for kind in base.__subclasses__():
        if kind.__module__.startswith("confide."):
            yield from family(kind)


def errors() -> list[type[ConfideError]]:
    modules()
    return list(family(ConfideError))


def test_each_error_has_a_code_of_its_own() -> None:
    """No two errors share a code, and none inherits one."""
    assert [] == [kind.__name__ for kind in errors() if "code" not in vars(kind)]
    assert {1} == set(Counter(kind.code for kind in errors()).values())


def test_each_error_belongs_to_a_family() -> None:
    """Each error is a BadDeclaration, a Refusal, or a Fault, which says who must act."""
    assert [ConfideError] == [kind for kind in errors() if not issubclass(kind, FAMILIES)]


def test_the_page_lists_exactly_the_codes() -> None:
    """docs/errors.md has one row for each code, under the name of its class."""
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| `(\w+)` \|", page, re.MULTILINE)

    assert sorted((kind.code, kind.__name__) for kind in errors()) == sorted(rows)
