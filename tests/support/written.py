"""The statements that a curator's engine is given."""

from typing import Any

from confide.curator import Curator

__all__ = ["write_down_statements"]


def write_down_statements(curator: Curator) -> list[str]:
    """Return a list to which every statement is added whose rows the engine reads from now on."""
    engine: Any = curator._engine
    written: list[str] = []
    run = engine._rows

    def write_down(statement: str) -> Any:
        written.append(statement)
        return run(statement)

    engine._rows = write_down
    return written
