"""The check of the project's English finds each banned pattern, and its counts only fall."""

from pathlib import Path

import pytest
from tools.check_english import (
    Area,
    Match,
    Rule,
    Rules,
    check_project,
    compare_counts,
    find_matches,
    lower_counts,
)

from support.tree import ROOT

RULES = Rules.read()
FORMS: dict[str, list[tuple[Area, str, str]]] = {
    "prose": [
        ("code", "src/a.py", "# Privacy: first.\n# {}\n"),
        ("code", "src/a.py", 'def run() -> None:\n    """Return it.\n\n    Also. {}\n    """\n'),
        ("messages", "src/a.py", 'TEXT = "An error. {}"\n'),
        ("messages", "src/a.py", 'TEXT = f"{1!r}. {}"\n'),
        ("templates", "src/a.html", "<p>A page. {}</p>"),
        ("markdown", "docs/a.md", "# A page\n\nA sentence. {}\n"),
    ],
    "first_line": [("code", "src/a.py", 'def run() -> None:\n    """{}"""\n')],
    "name": [("code", "src/a.py", "{} = 1\n"), ("code", "src/a.py", "def {}() -> None: ...\n")],
}
CASES = [(rule, *form) for rule in RULES.rules for form in FORMS[rule.kind]]


def find(text: str, name: str = "src/a.py") -> list[Match]:
    return find_matches(Path(name), text, RULES)


@pytest.mark.parametrize(("rule", "area", "name", "form"), CASES)
def test_each_pattern_is_found(rule: Rule, area: Area, name: str, form: str) -> None:
    """Each rule matches its example in code, messages, templates, and Markdown."""
    found = find(form.replace("{}", rule.example), name)

    assert (area, rule.advice) in {(match.area, match.advice) for match in found}


def test_patterns_match_across_lines() -> None:
    """A phrase that wraps is found, and reported with the line on which its text starts."""
    [match] = find('"""Module."""\n\n# a whole\n# number\n')

    assert (3, "integers") == (match.line, match.advice)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("docs/a.md", "A page with `a text` and\n\n```\na text\n```\n"),
        ("src/a.html", "<p>{{ a_text }}{# a text #}</p>"),
        ("tests/a.py", 'TEXT = "a text"\n'),
        ("tests/a.py", 'def test() -> None:\n    """When a row is gone, nothing fails."""\n'),
        ("src/a.py", "def take_up_watch() -> None: ...\n"),
        ("src/a.py", 'MAX_ROWS = "a string, compared with 95%"\n'),
        ("src/a.py", 'class Function:\n    LEAST = "least"\n'),
        ("src/a.py", '"""Module.\n\n>>> show()\n"a text"\n"""\n'),
    ],
)
def test_other_text_is_allowed(name: str, text: str) -> None:
    """Code in Markdown, placeholders, examples, test data, and exempt names have no matches."""
    assert [] == find(text, name)


def test_help_of_a_command_is_a_message() -> None:
    """The docstring of a command is shown to users, so it counts as a message."""
    text = '@app.command()\ndef run() -> None:\n    """Say what a text costs."""\n'

    assert ["messages"] == [match.area for match in find(text)]


def test_exempt_paths_are_not_checked() -> None:
    """Comments in an exempt folder have no matches, but its messages do."""
    exempt = Rules(RULES.rules, ("src/confide/",), frozenset())
    path, text = ROOT / "src/confide/a.py", '# a text\nTEXT = "a text"\n'

    assert ["code", "messages"] == [one.area for one in find_matches(path, text, RULES)]
    assert ["messages"] == [one.area for one in find_matches(path, text, exempt)]


def test_a_count_that_grows_or_falls_is_reported() -> None:
    """Only equal counts pass, so that an allowed count falls with the actual one."""
    assert [] == compare_counts({"messages": 2}, {"messages": 2})
    [grown] = compare_counts({"messages": 3}, {"messages": 2})
    [fallen] = compare_counts({"messages": 1}, {"messages": 2})

    assert "only 2 are allowed" in grown
    assert "--update" in fallen


def test_an_update_only_lowers_counts() -> None:
    """An update keeps the allowed count of an area that has grown."""
    counts = {"messages": 1, "markdown": 9, "templates": 4}

    assert {"messages": 1, "markdown": 5, "templates": 4} == lower_counts(
        counts, {"messages": 2, "markdown": 5}
    )


def test_a_match_in_code_fails_at_once() -> None:
    """A match in a comment is reported with its location, without any allowed count."""
    matches = find("# a text\n")

    assert ["src/a.py:1: ...a text... Write: strings, a string"] == [
        line for line in check_project(matches, is_update=False) if line.startswith("src/")
    ]
