"""Choices and watches that came over the network."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confide.client.answers import RemoteReceipt, read_cost
from confide.query import TableQuery
from confide.release import Cost

__all__ = ["RemoteChoice", "RemoteWatch", "Send"]

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

    ``receipt.entry`` is its number, by which `Connection.take_up_watch` finds it again.
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
