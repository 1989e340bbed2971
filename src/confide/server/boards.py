"""The leaderboards of a server: reusable holdouts that score predictions."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confide.client.http import NotFound
from confide.declare import BoardSettings
from confide.errors import BadDeclaration
from confide.holdout import Leaderboard

__all__ = ["Boards", "read_predictions"]


class Boards:
    """The leaderboards of a declaration.

    Scores stay valid no matter how submissions adapt to earlier scores. A board gives no privacy
    guarantee to the rows behind its labels, and spends nothing from the budget.
    """

    def __init__(self, declared: Sequence[BoardSettings] = ()) -> None:
        self._boards = {board.name: _open(board) for board in declared}

    @property
    def names(self) -> list[str]:
        """The names of the leaderboards."""
        return list(self._boards)

    def submit(self, name: str, predictions: Sequence[float]) -> dict[str, Any]:
        """Submit predictions; return the fields of a `ScoreResponse`."""
        score = self._find(name).submit(predictions)
        low, high = score.interval
        return {
            "value": score.value,
            "interval": [low, high],
            "is_better": score.is_better,
            "left": self._find(name).left.queries,
        }

    def describe(self, name: str) -> dict[str, Any]:
        """Return the fields of a `HoldoutResponse`."""
        board = self._find(name)
        return {
            "name": name,
            "metric": board.metric.name,
            "left": board.left.queries,
            "guarantee": str(board.guarantee.claim),
        }

    def _find(self, name: str) -> Leaderboard:
        if name not in self._boards:
            known = ", ".join(self._boards) or "none"
            raise NotFound(f"Unknown holdout. Holdouts of this server: {known}.")
        return self._boards[name]


def read_predictions(text: str) -> list[float]:
    r"""Return the numbers in the last column of a CSV file, with or without a header.

    >>> read_predictions("id,prediction\n1,0\n2,1\n")
    [0.0, 1.0]
    """
    try:
        rows = [row for row in csv.reader(io.StringIO(text)) if row]
    except csv.Error:
        rows = []
    if rows and not _is_number(rows[0][-1]):
        rows = rows[1:]
    if not rows or not all(_is_number(row[-1]) for row in rows):
        raise BadDeclaration(
            "Predictions must be a CSV file whose last column has only numbers. Send one line per "
            "row, such as `17,0.25`."
        )
    return [float(row[-1]) for row in rows]


def _is_number(text: str) -> bool:
    try:
        return float(text) == float(text)
    except ValueError:
        return False


def _open(board: BoardSettings) -> Leaderboard:
    return Leaderboard(
        _read_labels(board),
        metric=board.metric,
        high=board.high,
        submissions=board.submissions,
        tau=board.tau,
        beta=board.beta,
        ledger=board.state,
        name=board.name,
    )


def _read_labels(board: BoardSettings) -> list[float]:
    """Return the labels; errors are for the owner, who starts the server."""
    try:
        with Path(board.labels).open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise BadDeclaration(
            f"The labels of board {board.name!r} cannot be read ({error.strerror}). Check `labels` "
            "in its section of the declaration."
        ) from None
    if not rows or board.column not in rows[0]:
        raise BadDeclaration(
            f"The labels of board {board.name!r} must have a column {board.column!r}, and the file "
            "has none. Set `column` to the name of its label column."
        )
    try:
        return [float(row[board.column]) for row in rows]
    except (TypeError, ValueError):
        raise BadDeclaration(
            f"The labels of board {board.name!r} are not all numbers. Replace the others, or name "
            "another `column`."
        ) from None
