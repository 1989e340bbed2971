"""Write the reference page of a package in Markdown, from its ``__all__`` and its docstrings."""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "confide": "What users type",
    "confide.curator": "The curator",
    "confide.declare": "Declarations",
    "confide.release": "Answers",
    "confide.statistics": "Statistics",
    "confide.holdout": "The reusable holdout",
    "confide.mechanisms": "Mechanisms",
    "confide.loss": "Losses and filters",
    "confide.noise": "Noise",
    "confide.ledger": "The ledger",
    "confide.audit": "The audit",
    "confide.client": "The client",
    "confide.server": "The server",
    "confide.mcp": "Tools for language models",
    "confide.errors": "Errors",
}
"""Packages that have a page, with its title."""

LABEL = re.compile(r"^(Law|Claim|Why|Source|Checked|Raises):[ ]*", re.MULTILINE)
CODE = re.compile(r"``([^`]+)``")
KEY = re.compile(r"\[([A-Z]\w*\d\d[a-z]?)\]")
FILE = re.compile(r"(?:src|tests|docs|bench)(?:/[\w.-]+)+\.(?:py|md)\b")
WIDTH = 88

Function = ast.FunctionDef | ast.AsyncFunctionDef


def write_reference(name: str) -> str:
    """Return the page of one package: each public name with its signature and docstring."""
    module = importlib.import_module(name)
    parts = [f"# {PACKAGES[name]}: `{name}`", format_docstring(module.__doc__ or "")]
    for member in sorted(module.__all__, key=lambda text: (text.islower(), text.lower())):
        parts += write_member(module, member)
    return "\n\n".join(part for part in parts if part) + "\n"


def write_member(module: ModuleType, name: str) -> Iterator[str]:
    """Yield the parts of the page that describe one public name."""
    value = getattr(module, name)
    yield f"## {name}"
    if isinstance(value, ModuleType):
        yield f"The package [`{value.__name__}`]({value.__name__}.md)."
    elif inspect.isclass(value):
        yield from write_class(name, value)
    elif inspect.isroutine(value):
        yield from write_function(name, value)
    else:
        yield f"A constant of type `{type(value).__name__}`."


def write_function(name: str, value: Any) -> Iterator[str]:
    """Yield the signature and the docstring of a function."""
    [node] = parse(value)
    if isinstance(node, Function):
        yield call(name, arguments(node), node.returns)
    yield format_docstring(inspect.getdoc(value) or "")


def write_class(name: str, kind: type) -> Iterator[str]:
    """Yield the signature and the docstring of a class, and its methods."""
    if not (issubclass(kind, Enum | BaseException) or kind.__module__ == "builtins"):
        yield call(name, [str(item) for item in made_from(kind)], None)
    yield format_docstring(inspect.getdoc(kind) or "")
    if issubclass(kind, Enum):
        yield "Members: " + ", ".join(f"`{member.name}`" for member in kind)
    elif issubclass(kind, BaseException):
        yield f"Code: `{getattr(kind, 'code', '')}`"
    else:
        for method, value in inspect.getmembers(kind):
            if not method.startswith("_") and is_ours(kind, method):
                yield from write_method(f"{name}.{method}", value)


def write_method(name: str, value: Any) -> Iterator[str]:
    """Yield the parts of the page that describe a method or a property."""
    if isinstance(value, property | cached_property):
        yield f"### {name}"
        yield format_docstring(inspect.getdoc(value) or "")
    elif inspect.isroutine(value):
        yield f"### {name}"
        yield from write_function(name.rpartition(".")[2], value)


def is_ours(kind: type, name: str) -> bool:
    """Return whether a member is defined in confide, rather than in a base of another package."""
    homes = [base.__module__ for base in kind.__mro__ if name in vars(base)]
    return bool(homes) and homes[0].startswith("confide")


def made_from(kind: type) -> list[str]:
    """Return the parameters of a class as written: those of __init__, or its fields."""
    fields: list[str] = []
    for base in reversed(kind.__mro__[:-1]):
        if not base.__module__.startswith("confide"):
            continue
        [node] = parse(base)
        body = node.body if isinstance(node, ast.ClassDef) else []
        for item in body:
            if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                fields = arguments(item)
            elif isinstance(item, ast.AnnAssign) and not has_init(body):
                fields += [ast.unparse(item)] if is_argument(item) else []
    return fields


def has_init(body: list[ast.stmt]) -> bool:
    """Return whether a class body defines __init__."""
    return any(isinstance(item, ast.FunctionDef) and item.name == "__init__" for item in body)


def is_argument(item: ast.AnnAssign) -> bool:
    """Return whether a field is public and a parameter of the class."""
    text = ast.unparse(item)
    return not (text.startswith("_") or "ClassVar" in text or "init=False" in text)


def parse(value: Any) -> list[ast.stmt]:
    """Return the source of a class or a function, parsed as one statement."""
    return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(value)))).body


def arguments(node: Function) -> list[str]:
    """Return the parameters of a function as written, without self."""
    every = node.args
    named = [*every.posonlyargs, *every.args]
    defaults = [None] * (len(named) - len(every.defaults)) + list(every.defaults)
    found = [argument(*pair) for pair in zip(named, defaults, strict=True)]
    found = found[1:] if found and found[0] in ("self", "cls") else found
    if every.vararg:
        found.append("*" + argument(every.vararg, None))
    elif every.kwonlyargs:
        found.append("*")
    found += [argument(*pair) for pair in zip(every.kwonlyargs, every.kw_defaults, strict=True)]
    return found + (["**" + argument(every.kwarg, None)] if every.kwarg else [])


def argument(item: ast.arg, default: ast.expr | None) -> str:
    """Return one parameter with its type and default."""
    typed = ast.unparse(item)
    return typed if default is None else f"{typed} = {ast.unparse(default)}"


def call(name: str, given: list[str], returns: ast.expr | None) -> str:
    """Return a signature as code, with one parameter per line if it is long."""
    tail = f" -> {ast.unparse(returns)}".replace("'", "") if returns is not None else ""
    text = f"{name}({', '.join(given)}){tail}"
    if len(text) > WIDTH:
        text = "".join([f"{name}(\n", *(f"    {item},\n" for item in given), f"){tail}"])
    return f"```python\n{text}\n```"


def format_docstring(text: str) -> str:
    """Return a docstring as Markdown: labels as a list, examples as code."""
    return "\n\n".join(map(format_paragraph, re.split(r"\n[ ]*\n", inspect.cleandoc(text))))


def format_paragraph(text: str) -> str:
    r"""Return one paragraph of a docstring as Markdown.

    >>> print(format_paragraph("Law:   a ``law``\n       of two lines\nClaim: none"))
    - **Law:** a `law` of two lines
    - **Claim:** none
    """
    if text.lstrip().startswith(">>>"):
        return f"```python\n{inspect.cleandoc(text)}\n```"
    if (example := text.find("\n>>>")) >= 0:
        return "\n\n".join(map(format_paragraph, (text[:example], text[example + 1 :])))
    if not LABEL.match(text):
        return mark(text)
    _, *parts = LABEL.split(text)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return "\n".join(f"- **{label}:** {mark(' '.join(said.split()))}" for label, said in pairs)


def mark(text: str) -> str:
    """Return plain text as Markdown: names as code, keys and files as links.

    >>> mark("``x`` of [MT07]")
    '`x` of [[MT07]](../references.md)'
    """
    pieces = re.split(r"(``[^`]+``)", text)
    plain = [
        CODE.sub(r"`\1`", piece) if place % 2 else link(re.sub(r"([*<])", r"\\\1", piece))
        for place, piece in enumerate(pieces)
    ]
    return "".join(plain)


def link(text: str) -> str:
    """Return Markdown with links to the references and to the files that it names."""
    text = KEY.sub(r"[[\1]](../references.md)", text)
    return FILE.sub(
        lambda found: f"[{found[0]}](../../{found[0]})" if file_exists(found[0]) else found[0], text
    )


def file_exists(path: str) -> bool:
    """Return whether the project contains a file."""
    return (ROOT / path).is_file()
