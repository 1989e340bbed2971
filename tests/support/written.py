"""The statements that a curator passes to its engine."""

from typing import Any

from confide.curator import Curator

__all__ = ["record_statements"]


def record_statements(curator: Curator) -> list[str]:
    """Return a list that collects every statement whose rows the engine reads from now on."""
    engine: Any = curator._engine
    written: list[str] = []
    run = engine._rows

    def write_down(statement: str) -> Any:
        written.append(statement)
        return run(statement)

    engine._rows = write_down
    return written
