"""Answers, choices and watches from a server."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from confide.errors import Fault, refusing
from confide.exact import Number, probability
from confide.query import TableQuery
from confide.release import Cost
from confide.release.display import (
    Chart,
    draw_chart,
    import_frames,
    write_arrow,
    write_footer,
    write_table,
    write_text,
)

__all__ = [
    "RemoteAnswer",
    "RemoteChoice",
    "RemoteReceipt",
    "RemoteWatch",
    "Send",
    "read_cost",
]

Ends = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class RemoteReceipt:
    """Proof of a charge: the entry's number, and its link in the chain."""

    entry: int
    digest: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RemoteAnswer:
    """Noisy values, one row a group, with their intervals, cost and receipt."""

    columns: tuple[str, ...]
    rows: list[dict[str, Any]]
    cost: Cost
    receipt: RemoteReceipt
    reused: bool
    notes: tuple[str, ...]
    _ends: Ends
    _level: float
    _fetch: Callable[[int, float], Ends]

    @classmethod
    def of(cls, body: dict[str, Any], fetch: Callable[[int, float], Ends]) -> "RemoteAnswer":
        """Return the answer that a response holds; ``fetch`` gets intervals of other levels."""
        return cls(
            columns=tuple(body["columns"]),
            rows=body["rows"],
            cost=read_cost(body["cost"]),
            receipt=RemoteReceipt(**body["receipt"]),
            reused=body["reused"],
            notes=tuple(body["notes"]),
            _ends=body["intervals"],
            _level=body["confidence"],
            _fetch=fetch,
        )

    def to_pandas(self) -> Any:
        """Return the values as a pandas frame."""
        pd = import_frames("pandas")
        return pd.DataFrame(self.rows, columns=list(self.columns))

    def to_polars(self) -> Any:
        """Return the values as a polars frame."""
        pl = import_frames("polars")
        return pl.DataFrame(self.rows, schema=list(self.columns), orient="row")

    def to_arrow(self) -> Any:
        """Return the values as an Arrow table."""
        return write_arrow(self.columns, self.rows)

    @refusing
    def interval_rows(self, confidence: Number = 0.95) -> Ends:
        """Return for each row the ends ``x_low`` and ``x_high`` of every numeric column x.

        Another level than the one asked for is fetched from the server, for free.
        """
        level = float(probability("confidence", confidence, zero=False))
        ends = self._ends if level == self._level else self._fetch(self.receipt.entry, level)
        if len(ends) != len(self.rows):
            raise Fault("the server sent intervals of another answer; ask it again")
        # JSON has no infinity: an end that is missing lies infinitely far away, on its own side.
        far = {"_low": -float("inf"), "_high": float("inf")}
        return [
            {
                name: far[name[name.rindex("_") :]] if end is None else end
                for name, end in row.items()
            }
            for row in ends
        ]

    def intervals(self, confidence: Number = 0.95) -> Any:
        """Return the intervals as a pandas frame, with the keys in front."""
        pd = import_frames("pandas")
        keys = self._keys()
        both = zip(self.rows, self.interval_rows(confidence), strict=True)
        return pd.DataFrame([{**{key: row[key] for key in keys}, **ends} for row, ends in both])

    def plot(self) -> Chart:
        """Return a chart of every numeric column, with its 95 % intervals as error bars."""
        keys = self._keys()
        numbers = [name for name in self.columns if name not in keys]
        return draw_chart(keys, numbers, self.rows, self.interval_rows())

    def __repr__(self) -> str:
        return write_text(self.columns, self.rows, self._own_ends(), self._footer(), self.notes)

    def _repr_html_(self) -> str:
        return write_table(self.columns, self.rows, self._own_ends(), self._footer(), self.notes)

    def _own_ends(self) -> Ends:
        """Return the intervals that came with the answer: to show it asks nobody."""
        return self.interval_rows(self._level)

    def _footer(self) -> str:
        is_noisy = len(self._keys()) < len(self.columns)
        return write_footer(is_noisy=is_noisy, cost=self.cost, level=self._level)

    def _keys(self) -> list[str]:
        noisy = {name.removesuffix("_low") for row in self._ends[:1] for name in row}
        return [name for name in self.columns if name not in noisy]


def read_cost(body: dict[str, Any]) -> Cost:
    """Return a cost as the server wrote it: an exact share, and its epsilon."""
    return Cost(Fraction(body["share"]), float(body["epsilon"]))


Send = Callable[..., dict[str, Any]]
"""How a request is sent: method, path, body."""


@dataclass(frozen=True, slots=True)
class RemoteChoice:
    """The candidate that was chosen, with what the choice cost.

    ``regret`` bounds by how much its score may fall short of the best one, at 95 % confidence.
    """

    value: str
    cost: Cost
    receipt: RemoteReceipt
    reused: bool
    regret: float

    @classmethod
    def of(cls, body: dict[str, Any]) -> "RemoteChoice":
        """Return the choice that a response holds."""
        regret = float("inf") if body["regret"] is None else float(body["regret"])
        receipt = RemoteReceipt(**body["receipt"])
        return cls(body["value"], read_cost(body["cost"]), receipt, body["reused"], regret)

    def __str__(self) -> str:
        return f"{self.value!r}, within {self.regret:.4g} of the best (95 %); cost {self.cost}"


class RemoteWatch:
    """A session at the server that tells whether answers are above a threshold.

    ``receipt.entry`` is its number, by which `Connection.resume_watch` finds it again.
    """

    def __init__(
        self, body: dict[str, Any], send: Send, text: Callable[[str | TableQuery], str]
    ) -> None:
        self._path, self._send, self._text = f"/v1/watches/{body['watch']}", send, text
        self._width: float | None = body["half_width"]
        self.left: int = body["left"]
        self.reused: bool = body["reused"]
        self.cost, self.receipt = read_cost(body["cost"]), RemoteReceipt(**body["receipt"])

    def ask(self, query: str | TableQuery, *, key: str | None = None) -> bool:
        """Tell whether the answer to one COUNT or SUM is above the threshold, up to noise."""
        asked = {"sql": self._text(query), "key": key or secrets.token_hex(16)}
        told = self._send("POST", f"{self._path}/ask", asked)
        self.left = told["left"]
        return bool(told["above"])

    def half_width(self) -> float:
        """Return how far from the threshold an answer must lie to be told rightly, at 95 %."""
        return float("inf") if self._width is None else self._width

    def close(self) -> None:
        """End the session; what it cost stays."""
        self._send("DELETE", self._path)
