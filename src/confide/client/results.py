"""Answers, choices, and watches from a server."""

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
"""Interval ends, one dictionary per row, with keys such as ``x_low`` and ``x_high``."""


@dataclass(frozen=True, slots=True)
class RemoteReceipt:
    """Proof of a charge: the ledger entry and its hash in the chain."""

    entry: int
    digest: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RemoteAnswer:
    """Noisy values, one row per group, with their intervals, cost, and receipt.

    ``_ends`` are the intervals at the confidence level ``_level``. ``_fetch`` takes a ledger entry
    and another level, and fetches the intervals at that level from the server.
    """

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
        """Return the answer in a response; ``fetch`` gets intervals at other levels."""
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
        """Return the values as a pandas DataFrame."""
        pd = import_frames("pandas")
        return pd.DataFrame(self.rows, columns=list(self.columns))

    def to_polars(self) -> Any:
        """Return the values as a polars DataFrame."""
        pl = import_frames("polars")
        return pl.DataFrame(self.rows, schema=list(self.columns), orient="row")

    def to_arrow(self) -> Any:
        """Return the values as an Arrow table."""
        return write_arrow(self.columns, self.rows)

    @refusing
    def interval_rows(self, confidence: Number = 0.95) -> Ends:
        """Return, for each row, the ends ``x_low`` and ``x_high`` of every noisy column x.

        If the confidence level differs from that of the answer, they are fetched from the server,
        for free.
        """
        level = float(probability("confidence", confidence, zero=False))
        ends = self._ends if level == self._level else self._fetch(self.receipt.entry, level)
        if len(ends) != len(self.rows):
            raise Fault("The server sent the intervals of another answer. Request them again.")
        # A null end stands for the infinity on its side, because JSON has none.
        infinities = {"_low": -float("inf"), "_high": float("inf")}
        return [
            {
                name: infinities[name[name.rindex("_") :]] if end is None else end
                for name, end in row.items()
            }
            for row in ends
        ]

    def intervals(self, confidence: Number = 0.95) -> Any:
        """Return the intervals as a pandas DataFrame, with the group keys first."""
        pd = import_frames("pandas")
        keys = self._keys()
        both = zip(self.rows, self.interval_rows(confidence), strict=True)
        return pd.DataFrame([{**{key: row[key] for key in keys}, **ends} for row, ends in both])

    def plot(self) -> Chart:
        """Return a chart of every noisy column, with 95% intervals as error bars."""
        keys = self._keys()
        numbers = [name for name in self.columns if name not in keys]
        return draw_chart(keys, numbers, self.rows, self.interval_rows())

    def __repr__(self) -> str:
        return write_text(self.columns, self.rows, self._own_ends(), self._footer(), self.notes)

    def _repr_html_(self) -> str:
        return write_table(self.columns, self.rows, self._own_ends(), self._footer(), self.notes)

    def _own_ends(self) -> Ends:
        """Return the intervals that came with the answer, so that display needs no request."""
        return self.interval_rows(self._level)

    def _footer(self) -> str:
        is_noisy = len(self._keys()) < len(self.columns)
        return write_footer(is_noisy=is_noisy, cost=self.cost, level=self._level)

    def _keys(self) -> list[str]:
        noisy = {name.removesuffix("_low") for row in self._ends[:1] for name in row}
        return [name for name in self.columns if name not in noisy]


def read_cost(body: dict[str, Any]) -> Cost:
    """Return the cost in a response: an exact share and its epsilon."""
    return Cost(Fraction(body["share"]), float(body["epsilon"]))


Send = Callable[..., dict[str, Any]]
"""A function that sends a method, a path, and perhaps a body, and returns the response."""


@dataclass(frozen=True, slots=True)
class RemoteChoice:
    """The chosen candidate and the cost of the choice.

    ``regret`` bounds the gap between its score and the best, at 95% confidence.
    """

    value: str
    cost: Cost
    receipt: RemoteReceipt
    reused: bool
    regret: float

    @classmethod
    def of(cls, body: dict[str, Any]) -> "RemoteChoice":
        """Return the choice in a response."""
        regret = float("inf") if body["regret"] is None else float(body["regret"])
        receipt = RemoteReceipt(**body["receipt"])
        return cls(body["value"], read_cost(body["cost"]), receipt, body["reused"], regret)

    def __str__(self) -> str:
        return f"{self.value!r}, within {self.regret:.4g} of the best (95%); cost {self.cost}"


class RemoteWatch:
    """A session on the server that reports whether answers are above a threshold.

    ``receipt.entry`` is the number of the session, for `Connection.resume_watch`. ``left`` is the
    number of "above" answers that it can still give.
    """

    def __init__(
        self, body: dict[str, Any], send: Send, text: Callable[[str | TableQuery], str]
    ) -> None:
        self._path, self._send, self._to_sql = f"/v1/watches/{body['watch']}", send, text
        self._width: float | None = body["half_width"]
        self.left: int = body["left"]
        self.reused: bool = body["reused"]
        self.cost, self.receipt = read_cost(body["cost"]), RemoteReceipt(**body["receipt"])

    def ask(self, query: str | TableQuery, *, key: str | None = None) -> bool:
        """Return whether one COUNT or SUM is above the threshold, up to noise."""
        body = {"sql": self._to_sql(query), "key": key or secrets.token_hex(16)}
        response = self._send("POST", f"{self._path}/ask", body)
        self.left = response["left"]
        return bool(response["above"])

    def half_width(self) -> float:
        """Return the distance from the threshold beyond which results are 95% reliable."""
        return float("inf") if self._width is None else self._width

    def close(self) -> None:
        """Close the session; its cost is not refunded."""
        self._send("DELETE", self._path)
