"""A leaderboard, declared as an owner would."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from confide.declare import BoardSettings
from confide.declare.toml import parse_toml

DECLARED: Final = """\
[budget]
epsilon = 1
[tables.people]
source = "people.csv"
unit = "ROW"
[tables.people.columns]
age = { type = "int", low = 0, high = 9 }
[holdouts.digits]
labels = "labels.csv"
column = "y"
state = "boards.db"
submissions = 1000
"""


def declare_board(folder: Path, labels: Iterable[object]) -> BoardSettings:
    """Return a board named digits over these labels, with its files in the folder."""
    lines = "\n".join(map(str, labels))
    (folder / "labels.csv").write_text(f"y\n{lines}\n", encoding="utf-8")
    [board] = parse_toml(DECLARED, name="x", folder=folder).boards
    return board
