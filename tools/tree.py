"""Print the layers of confide, lowest first, with the modules of each and their purpose.

It needs only Python, so that `make tree` works before anything is installed.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "confide"
LAYER = re.compile(r'^    "(?P<name>[^"]+)",\s+# (?P<about>.+)$')


def read_layers(text: str) -> list[tuple[str, str]]:
    """Return the name and description of every layer, lowest first."""
    lines = text.partition("\nlayers = [\n")[2].partition("\n]\n")[0].splitlines()
    found = [LAYER.match(line) for line in lines]
    if not lines or None in found:
        raise ValueError("every layer in pyproject.toml needs a name and a comment")
    return [(match["name"], match["about"]) for match in reversed(found) if match]


def purpose(path: Path) -> str:
    """Return the first line of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    return (docstring or "").partition("\n")[0]


def list_modules(package: Path) -> Iterator[tuple[str, str]]:
    """Yield the name within confide and the purpose of each module in a package."""
    for path in sorted(package.rglob("*.py")):
        if path.name != "__init__.py":
            name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
            yield name, purpose(path)


def draw(layers: list[tuple[str, str]]) -> str:
    """Return the layers as text, each followed by its modules, one per line."""
    lines = ["A module imports only from layers above its own in this list."]
    for layer, about in layers:
        lines += ["", f"{layer}: {about}"]
        modules = list(list_modules(PACKAGE / layer))
        width = max((len(name) for name, _ in modules), default=0)
        lines += [f"    {name:<{width}}  {text}" for name, text in modules]
    return "\n".join(lines)


if __name__ == "__main__":
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    sys.stdout.write(draw(read_layers(text)) + "\n")
