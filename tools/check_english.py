"""Check the English of comments, docstrings, and names, and count it in messages and docs.

Comments, docstrings, and names must not match any pattern of `english.toml`. Messages, templates,
and Markdown may, but only as often as `english_counts.json` allows, and these numbers only fall.

    python -m tools.check_english            check the project, as `make lint` does
    python -m tools.check_english PATH ...   print every match in these files or folders
    python -m tools.check_english --update   lower the allowed counts to the current ones
"""

import argparse
import ast
import io
import json
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

ROOT: Final = Path(__file__).parents[1]
RULES: Final = ROOT / "tools" / "english.toml"
COUNTS: Final = ROOT / "tools" / "english_counts.json"
FOLDERS: Final = ("src", "tests", "tools", "bench")
UPDATE: Final = "python -m tools.check_english --update"
FENCED: Final = re.compile(r"```.*?```", re.DOTALL)
CODE_SPAN: Final = re.compile(r"`[^`\n]*`")
PARAGRAPH: Final = re.compile(r"\n\s*\n|\n(?=[-|#])")
DOCTEST: Final = re.compile(r"^[ ]*>>>.*?(?=\n[ ]*\n|\Z)", re.DOTALL | re.MULTILINE)
PLACEHOLDER: Final = re.compile(r"\{[%{#].*?[%}#]\}", re.DOTALL)
SHOWN_TO_USERS: Final = frozenset({"callback", "command", "tool"})
"""Decorators of functions whose docstring is help for users, and so a message."""

Area = Literal["code", "messages", "templates", "markdown"]
Kind = Literal["prose", "first_line", "name"]
Definition = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Rule:
    """A banned pattern, with what to write instead and an example that it matches."""

    kind: Kind
    pattern: re.Pattern[str]
    advice: str
    example: str
    in_tests: bool = True


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of `english.toml`, and what they do not apply to."""

    rules: tuple[Rule, ...]
    exempt_paths: tuple[str, ...]
    exempt_names: frozenset[str]

    @classmethod
    def read(cls, path: Path = RULES) -> "Rules":
        """Return the rules of a file."""
        listed: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        exempt = listed.pop("exempt")
        rules = tuple(_read_rule(kind, one) for kind, found in listed.items() for one in found)
        return cls(rules, tuple(exempt["paths"]), frozenset(exempt["names"]))

    def is_exempt(self, path: Path) -> bool:
        """Return whether the comments, docstrings, and names of a file are exempt."""
        return path.is_relative_to(ROOT) and str(path.relative_to(ROOT)).startswith(
            self.exempt_paths
        )


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of text from a file, with its line and the kind of rules that apply to it."""

    area: Area
    kind: Kind
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Match:
    """A match of a rule in a file."""

    area: Area
    path: Path
    line: int
    excerpt: str
    advice: str

    def __str__(self) -> str:
        shown = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{shown}:{self.line}: ...{self.excerpt}... Write: {self.advice}"


def _read_rule(kind: str, listed: Mapping[str, Any]) -> Rule:
    if kind not in ("prose", "first_line", "name"):
        raise ValueError(f"{RULES.name} has an unknown section {kind!r}")
    return Rule(**{**listed, "kind": kind, "pattern": re.compile(listed["pattern"])})


def find_matches(path: Path, text: str, rules: Rules) -> list[Match]:
    """Return the matches in a file."""
    is_test = "tests" in path.parts
    return [
        Match(piece.area, path, piece.line, piece.text[max(0, start - 30) : end + 30], rule.advice)
        for piece in read_pieces(path, text)
        if not (piece.area == "code" and rules.is_exempt(path))
        if not (piece.kind == "name" and piece.text in rules.exempt_names)
        for rule in rules.rules
        if rule.kind == piece.kind and (rule.in_tests or not is_test)
        for start, end in (found.span() for found in rule.pattern.finditer(piece.text))
    ]


def read_pieces(path: Path, text: str) -> Iterator[Piece]:
    """Yield the pieces of a file that rules apply to, with whitespace collapsed."""
    for piece in _read_file(path, text):
        if collapsed := " ".join(piece.text.split()):
            yield Piece(piece.area, piece.kind, piece.line, collapsed)


def _read_file(path: Path, text: str) -> Iterator[Piece]:
    match path.suffix:
        case ".py":
            yield from _read_comments(text)
            yield from _read_python(ast.parse(text), has_messages="tests" not in path.parts)
        case ".html":
            yield Piece("templates", "prose", 1, PLACEHOLDER.sub(" ", text))
        case ".ipynb":
            cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
            yield from _read_markdown("\n\n".join("".join(cell["source"]) for cell in cells))
        case _:
            yield from _read_markdown(text)


def _read_markdown(text: str) -> Iterator[Piece]:
    """Yield the paragraphs, list items, and table rows of Markdown, without code."""
    prose = CODE_SPAN.sub("`...`", FENCED.sub(lambda code: "\n" * code[0].count("\n"), text))
    place = 0
    for part in PARAGRAPH.split(prose):
        place = prose.index(part, place)
        yield Piece("markdown", "prose", prose.count("\n", 0, place) + 1, part)


def _read_comments(text: str) -> Iterator[Piece]:
    """Yield comments, with those on adjacent lines joined."""
    start, last, joined = 0, -1, ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, comment = token.start[0], token.string.lstrip("# ")
        if line != last + 1:
            yield Piece("code", "prose", start, joined)
            start, joined = line, ""
        last, joined = line, f"{joined} {comment}"
    yield Piece("code", "prose", start, joined)


def _read_python(node: ast.AST, *, has_messages: bool, is_help: bool = False) -> Iterator[Piece]:
    """Yield the docstrings, names, and messages of a syntax tree.

    The docstring of a command is its help, and so a message: ``is_help`` is true within one.
    """
    yield from _read_names(node)
    if isinstance(node, Definition):
        is_help = any(map(_shows_docstring, node.decorator_list))
    if isinstance(node, Definition | ast.Module | ast.ClassDef) and not is_help:
        first = (ast.get_docstring(node) or "").partition("\n")[0]
        yield Piece("code", "first_line", getattr(node, "lineno", 1), first)
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Expr(value=ast.Constant(value=str(text))):
                prose = DOCTEST.sub("", text)
                yield Piece("messages" if is_help else "code", "prose", child.lineno, prose)
            case ast.Constant(value=str(text)) if has_messages:
                yield Piece("messages", "prose", child.lineno, text)
            case ast.JoinedStr(values=values):
                text = "".join(map(_read_part, values))
                yield Piece("messages", "prose", child.lineno, text if has_messages else "")
                for value in values:
                    if isinstance(value, ast.FormattedValue):
                        yield from _read_python(value, has_messages=has_messages)
            case _:
                yield from _read_python(child, has_messages=has_messages, is_help=is_help)


def _read_names(node: ast.AST) -> Iterator[Piece]:
    """Yield the name of a function, or of a constant of a module."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield Piece("code", "name", node.lineno, name)
        case ast.Module(body=body):
            for statement in body:
                if isinstance(statement, ast.Assign | ast.AnnAssign):
                    yield from _read_targets(statement)
        case _:
            pass


def _read_targets(statement: ast.Assign | ast.AnnAssign) -> Iterator[Piece]:
    """Yield the names that an assignment binds."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield Piece("code", "name", statement.lineno, node.id)


def _shows_docstring(decorator: ast.expr) -> bool:
    """Return whether a decorator shows the function's docstring to users, as Typer's do."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Attribute) and called.attr in SHOWN_TO_USERS


def _read_part(node: ast.expr) -> str:
    """Return a part of an f-string, with an ellipsis for a value."""
    return str(node.value) if isinstance(node, ast.Constant) else "..."


def list_files() -> list[Path]:
    """Return the files of the project that the rules apply to."""
    code = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    templates = (ROOT / "src").rglob("templates/*.html")
    docs = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").rglob("*.md")]
    notebooks = (ROOT / "notebooks").glob("*.*")
    pages = [*docs, *(path for path in notebooks if path.suffix in (".md", ".ipynb"))]
    return sorted([*code, *templates, *pages])


def find_all(paths: Iterable[Path], rules: Rules) -> list[Match]:
    """Return the matches in several files."""
    return [
        found
        for path in paths
        for found in find_matches(path, path.read_text(encoding="utf-8"), rules)
    ]


def count_areas(matches: Iterable[Match]) -> dict[str, int]:
    """Return the number of matches in each area that has an allowed count."""
    counts = Counter(found.area for found in matches)
    return {area: counts[area] for area in ("messages", "templates", "markdown")}


def compare_counts(counts: Mapping[str, int], allowed: Mapping[str, int]) -> list[str]:
    """Return a complaint for each area whose count differs from the allowed one."""
    complaints = []
    for area, count in counts.items():
        limit = allowed.get(area, 0)
        if count > limit:
            complaints.append(
                f"{area}: {count} matches, but only {limit} are allowed. Run "
                "`python -m tools.check_english` with the files that you changed."
            )
        elif count < limit:
            complaints.append(f"{area}: {count} matches, fewer than {limit}. Run `{UPDATE}`.")
    return complaints


def lower_counts(counts: Mapping[str, int], allowed: Mapping[str, int]) -> dict[str, int]:
    """Return the allowed counts, lowered to the current ones; a new area starts at its count."""
    return {area: min(count, allowed.get(area, count)) for area, count in counts.items()}


def main() -> None:
    """Check the project, or print the matches in given files; exit with 1 if there are any."""
    parser = argparse.ArgumentParser(description="Check the English of the project.")
    parser.add_argument(
        "paths", nargs="*", type=Path, help="Print every match in these files or folders."
    )
    parser.add_argument("--update", action="store_true", help="Lower the allowed counts.")
    given = parser.parse_args()
    rules = Rules.read()
    if given.paths:
        folders = tuple(path.resolve() for path in given.paths)
        chosen = [path for path in list_files() if any(map(path.is_relative_to, folders))]
        complaints = [str(found) for found in find_all(chosen, rules)]
    else:
        complaints = check_project(find_all(list_files(), rules), is_update=given.update)
    print("\n".join(complaints) or "The English follows docs/style.md.")
    sys.exit(bool(complaints))


def check_project(matches: list[Match], *, is_update: bool) -> list[str]:
    """Return the matches in code and the counts that differ, after lowering them if asked to."""
    counts = count_areas(matches)
    allowed = json.loads(COUNTS.read_text(encoding="utf-8")) if COUNTS.exists() else {}
    if is_update:
        allowed = lower_counts(counts, allowed)
        COUNTS.write_text(json.dumps(allowed, indent=1) + "\n", encoding="utf-8")
    in_code = [str(found) for found in matches if found.area == "code"]
    return in_code + compare_counts(counts, allowed)


if __name__ == "__main__":
    main()
