"""A leaderboard that the server offers: labels that only the board holds, and its terms."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from confide.declare.tables import read_name
from confide.errors import BadDeclaration
from confide.exact import whole

__all__ = ["Board"]

MOST: int = 10**9


@dataclass(frozen=True, slots=True)
class Board:
    """Labels in one column of a CSV file, and how often they may be scored against.

    ``state`` is the file in which the board keeps how far it is, shared by all workers.
    """

    name: str
    labels: str
    column: str
    state: str
    submissions: int
    metric: str = "accuracy"
    high: Fraction | None = None
    tau: Fraction | None = None
    beta: Fraction = Fraction(1, 20)

    def __post_init__(self) -> None:
        read_name("name", self.name)
        whole("submissions", self.submissions, low=1, high=MOST)
        if Path(self.labels).suffix.lower() != ".csv":
            raise BadDeclaration(f"labels must be a .csv file, got {Path(self.labels).name!r}")
