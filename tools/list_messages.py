"""List every error message in the source, with its error class and its location."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from confide.errors import ConfideError

CALLS = {"say_conversion": "command", "suggest_name": "suggestion"}
PREFIXES = {"len": "number", "type": "type"}
SOURCE = Path(__file__).parents[1] / "src"


@dataclass(frozen=True, slots=True)
class Message:
    """One message: its error class, its text with {placeholders} for values, and its location."""

    error: str
    text: str
    module: str
    line: int

    @property
    def is_passed_on(self) -> bool:
        """Whether the text comes from another call, where it is listed on its own."""
        return self.text.startswith("<")


def error_kinds(base: type[ConfideError] = ConfideError) -> dict[str, type[ConfideError]]:
    """Return all loaded subclasses of an error, including itself, by class name."""
    found = {base.__name__: base}
    for kind in base.__subclasses__():
        found |= error_kinds(kind)
    return found


def list_messages(names: set[str]) -> list[Message]:
    """Return the messages passed to the named errors or collected as problems of a file."""
    return [
        message
        for path in sorted(SOURCE.rglob("*.py"))
        for message in _in_file(path, ast.parse(path.read_text(encoding="utf-8")), names)
    ]


def write_messages() -> str:
    """Return the docs page that lists every message, by error."""
    kinds = error_kinds()
    found = [message for message in list_messages(set(kinds)) if not message.is_passed_on]
    parts = [
        "# Messages",
        "What confide says when it refuses; braces stand for what was typed or declared.",
    ]
    for name in sorted({message.error for message in found}):
        lines = sorted({message.text for message in found if message.error == name})
        parts += [f"## {name}: {kinds[name].code}", "```text\n" + "\n\n".join(lines) + "\n```"]
    return "\n\n".join(parts) + "\n"


def _in_file(path: Path, tree: ast.Module, names: set[str]) -> Iterator[Message]:
    module = str(path.relative_to(SOURCE).with_suffix("")).replace("/", ".")
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[text, *_]) if name in names:
                yield Message(name, read_text(text), module, node.lineno)
            case ast.Call(
                func=ast.Attribute(attr="add", value=ast.Attribute(attr="problems")),
                args=[_, text, *_],
            ):
                yield Message("BadDeclaration", read_text(text), module, node.lineno)


def read_text(node: ast.expr) -> str:
    """Return the text of an expression, with {placeholders} for values.

    >>> read_text(ast.parse("f'a {b.c!r}' 'd'", mode="eval").body)
    'a {c}d'
    """
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(map(read_text, values))
        case ast.FormattedValue(value=value):
            return _read_part(value)
        case ast.BinOp(left=left, right=right):
            return read_text(left) + _read_part(right)
        case _:
            return f"<{ast.unparse(node)}>"


def _read_part(node: ast.expr) -> str:
    """Return the text of a part of a message, or a placeholder for a value."""
    is_text = isinstance(node, ast.JoinedStr | ast.Constant)
    return read_text(node) if is_text else "{" + name_value(node) + "}"


def name_value(node: ast.expr) -> str:
    """Return a short name for the value of an expression.

    >>> [name_value(ast.parse(code, mode="eval").body) for code in (
    ...     "_format(error)", "LIMIT // 10000", "type(given).__name__", "len(names)", "path.name"
    ... )]
    ['error', 'limit', 'type of given', 'number of names', 'path']
    """
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=word) | ast.Name(id=word):
            return word.strip("_").lower().replace("_", " ")
        case ast.Attribute(value=inner, attr="name" | "__name__"):
            return name_value(inner)
        case ast.Attribute(attr=word):
            return word.strip("_").lower().replace("_", " ")
        case ast.Call():
            return _name_call(node)
        case _:
            parts = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]
            return name_value(parts[0]) if parts else "value"


def _name_call(call: ast.Call) -> str:
    match call:
        case ast.Call(func=ast.Name(id=name)) if name in CALLS:
            return CALLS[name]
        case ast.Call(func=ast.Name(id=name), args=[first]) if name in PREFIXES:
            return f"{PREFIXES[name]} of {name_value(first)}"
        case ast.Call(func=ast.Name() | ast.Attribute(value=ast.Constant()), args=[*_, last]):
            return name_value(last)
        case ast.Call(func=ast.Attribute(value=owner)):
            return name_value(owner)
        case _:
            return name_value(call.func)
