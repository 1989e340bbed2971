"""Print the layers of confide, ground first, as pyproject.toml lists them.

Needs nothing but Python, so that `make tree` works before anything is installed.
"""

import re
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
LAYER = re.compile(r'^    "(?P<names>[^"]+)",\s+# (?P<about>.+)$')


def read_layers(text: str) -> list[tuple[str, str]]:
    """Return (names, description) of every layer, ground first."""
    lines = text.partition("\nlayers = [\n")[2].partition("\n]\n")[0].splitlines()
    found = [LAYER.match(line) for line in lines]
    if not lines or None in found:
        raise ValueError("every layer in pyproject.toml needs a name and a comment")
    return [(match["names"], match["about"]) for match in reversed(found) if match]


def draw(layers: list[tuple[str, str]]) -> str:
    """Return the layers as a table."""
    width = max(len(names) for names, _ in layers)
    rows = [f"{names:<{width}}  {about}" for names, about in layers]
    return "\n".join(["a module imports only from lines above its own", "", *rows])


if __name__ == "__main__":
    sys.stdout.write(draw(read_layers(PROJECT.read_text(encoding="utf-8"))) + "\n")
