"""The scanner finds the same keys as the parser, on the right lines."""

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.declare.toml_reader import KeyPath, Lines

HARD = '''\
# [not.a.section]
title = """
[nor.this]
key = "no"
four quotes end here""""
list = [
  "a]", # a ] in a comment
  { x = [1, 2], y = '=' },
]

[ tables . "odd = name" ]   # spaces and quotes
'quoted.key' = 'it''s'
'''.replace("'it''s'", '"it\'s"')


def leaves(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the path of every key that the parser found."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from leaves(inner, (*path, key))


@pytest.mark.parametrize(
    ("line", "path"),
    [
        (2, ("title",)),
        (6, ("list",)),
        (11, ("tables",)),
        (11, ("tables", "odd = name")),
        (12, ("tables", "odd = name", "quoted.key")),
        (11, ("tables", "odd = name", "missing")),
        (1, ("nowhere",)),
    ],
)
def test_a_key_is_found_on_its_line(line: int, path: KeyPath) -> None:
    """Strings, lists, comments, and quoted keys do not mislead; a missing key has a line too."""
    assert line == Lines(HARD).of(path)


def test_the_scanner_invents_no_keys() -> None:
    """A section header inside a string is not a section."""
    known = set(Lines(HARD).known)

    assert set() == known - set(leaves(tomllib.loads(HARD)))


def test_a_section_counts_where_it_is_opened() -> None:
    """A table named like its own columns is found at its own header."""
    text = "[a.b]\nx = 1\n[a]\ny = 2\n"

    assert 3 == Lines(text).of(("a",))
    assert 1 == Lines(text).of(("a", "b"))


def test_windows_line_ends_count_once() -> None:
    """CR LF is one line ending."""
    assert 3 == Lines("a = 1\r\nb = 2\r\nc = 3\r\n").of(("c",))


KEY = st.one_of(
    st.from_regex(r"[A-Za-z0-9_-]{1,5}", fullmatch=True),
    st.text(alphabet="ab.=[]#{} '", min_size=1, max_size=4).map(lambda text: f'"{text}"'),
)
VALUE = st.sampled_from(
    [
        "1",
        "'='",
        '"#"',
        "[1,\n 2]",
        "[[], ['[']]",
        "{}",
        "{ a = 1, b = { c = ']' } }",
        "'''\n[x]\n'''",
    ]
)


@given(
    entries=st.lists(st.tuples(KEY, VALUE), max_size=8, unique_by=lambda pair: pair[0].strip('"'))
)
def test_scanner_and_parser_agree(entries: list[tuple[str, str]]) -> None:
    """Every key of a random document is found on its own line."""
    lines, text = {}, ""
    for key, value in entries:
        lines[key.strip('"')] = text.count("\n") + 1
        text += f"{key} = {value} # ]\n"
    parsed = tomllib.loads(text)

    assert set(lines) == set(parsed)
    assert lines == {key: Lines(text).of((key,)) for key in parsed}
