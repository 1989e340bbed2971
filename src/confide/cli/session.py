"""From a declaration file to a curator, in one place for every command."""

from pathlib import Path
from typing import Final

from confide.curator import Budget, Curator
from confide.declare import Declaration, read_toml

__all__ = ["FORGETFUL", "open_curator"]

FORGETFUL: Final = (
    "The ledger of this version lives in memory: what is spent here is forgotten when the command "
    "ends, and the next one begins with the whole budget. Do not give analysts this command yet."
)


def open_curator(config: Path) -> Curator:
    """Return the curator that a file declares."""
    return make_curator(read_toml(config))


def make_curator(declaration: Declaration) -> Curator:
    """Return the curator of a declaration."""
    terms = declaration.budget
    return Curator(
        [*declaration.tables, *declaration.public_tables],
        budget=Budget(terms.epsilon, terms.delta, accounting=terms.accounting),
        neighbours=declaration.neighbours,
    )
