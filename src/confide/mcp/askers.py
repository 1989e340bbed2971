"""Whom the tools ask: a server over HTTP, or a curator in the same process."""

from typing import Any, Protocol

from confide.client import Connection, RemoteAnswer

__all__ = ["Asker", "ConnectionAsker"]

Want = dict[str, Any]


class Asker(Protocol):
    """One caller's way to a curator; everything it returns can be written as JSON."""

    def tables(self) -> dict[str, Any]:
        """Return what may be asked about."""
        ...

    def preview(self, sql: str, want: Want) -> dict[str, Any]:
        """Return what an answer would cost; spends nothing."""
        ...

    def ask(self, sql: str, want: Want) -> dict[str, Any]:
        """Return an answer, paid for."""
        ...

    def budget(self) -> dict[str, Any]:
        """Return total, spent and left."""
        ...

    def history(self, limit: int) -> list[dict[str, Any]]:
        """Return what was asked, newest first."""
        ...

    def holdout_ask(self, name: str, predictions: list[float]) -> dict[str, Any]:
        """Return the score of predictions."""
        ...


class ConnectionAsker:
    """Asks a server over HTTP, with the token that the agent was given."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def tables(self) -> dict[str, Any]:
        """Return what may be asked about."""
        return {"tables": self._connection.tables()}

    def preview(self, sql: str, want: Want) -> dict[str, Any]:
        """Return what an answer would cost."""
        found = self._connection.preview(sql, **want)
        return {
            "cost": {"share": str(found.cost.share), "epsilon": found.cost.epsilon},
            "errors": found.errors,
            "mechanisms": list(found.mechanisms),
            "regret": found.regret,
        }

    def ask(self, sql: str, want: Want) -> dict[str, Any]:
        """Return an answer, paid for."""
        return _written(self._connection.sql(sql, **want))

    def budget(self) -> dict[str, Any]:
        """Return total, spent and left."""
        state = self._connection.budget
        parts = {"total": state.total, "spent": state.spent, "left": state.left}
        return {
            name: {"share": str(cost.share), "epsilon": cost.epsilon}
            for name, cost in parts.items()
        }

    def history(self, limit: int) -> list[dict[str, Any]]:
        """Return what was asked, newest first."""
        return [entry for entry, _ in zip(self._connection.answers(), range(limit), strict=False)]

    def holdout_ask(self, name: str, predictions: list[float]) -> dict[str, Any]:
        """Return the score of predictions."""
        return self._connection.holdout_ask(name, predictions)


def _written(answer: RemoteAnswer) -> dict[str, Any]:
    """Return an answer for a model to read: each row with its intervals beside the values."""
    ends = answer.interval_rows()
    return {
        "columns": list(answer.columns),
        "rows": answer.rows,
        "intervals": [{name: _plain(end) for name, end in row.items()} for row in ends],
        "confidence": 0.95,
        "cost": {"share": str(answer.cost.share), "epsilon": answer.cost.epsilon},
        "receipt": {"entry": answer.receipt.entry, "digest": answer.receipt.digest},
        "reused": answer.reused,
    }


def _plain(end: float) -> float | None:
    return end if abs(end) < float("inf") else None
