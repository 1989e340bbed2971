"""List what confide says when it refuses: every message in the source, with its error and place."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from confide.errors import ConfideError

SOURCE = Path(__file__).parents[1] / "src"


@dataclass(frozen=True, slots=True)
class Message:
    """One message: the class of its error, its words with {places} for values, where it stands."""

    error: str
    text: str
    module: str
    line: int

    @property
    def is_passed_on(self) -> bool:
        """Whether the words come from elsewhere, where they are a message of their own."""
        return self.text.startswith("<")


def error_kinds(base: type[ConfideError] = ConfideError) -> dict[str, type[ConfideError]]:
    """Return the errors of confide that are known by now, by the names of their classes."""
    found = {base.__name__: base}
    for kind in base.__subclasses__():
        found |= error_kinds(kind)
    return found


def list_messages(names: set[str]) -> list[Message]:
    """Return each message that is given to an error of these names, or noted of a file."""
    return [
        message
        for path in sorted(SOURCE.rglob("*.py"))
        for message in _in_file(path, ast.parse(path.read_text(encoding="utf-8")), names)
    ]


def write_messages() -> str:
    """Return the page of the site that lists every message, by error."""
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
            case ast.Call(func=ast.Name(id=name), args=[said, *_]) if name in names:
                yield Message(name, read_text(said), module, node.lineno)
            case ast.Call(
                func=ast.Attribute(attr="add", value=ast.Attribute(attr="problems")),
                args=[_, said, *_],
            ):
                yield Message("BadDeclaration", read_text(said), module, node.lineno)


def read_text(node: ast.expr) -> str:
    """Return the words of an expression, with {places} where a value goes.

    >>> read_text(ast.parse("f'a {b.c!r}' 'd'", mode="eval").body)
    'a {b.c}d'
    """
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(map(read_text, values))
        case ast.FormattedValue(value=value):
            return "{" + ast.unparse(value) + "}"
        case ast.BinOp(left=left, right=right):
            return read_text(left) + read_text(right)
        case _:
            return f"<{ast.unparse(node)}>"
