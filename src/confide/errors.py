"""The three families of error, with codes that never change.

Whoever has to act decides the family: the owner (`BadDeclaration`), the analyst (`Refusal`) or
we ourselves (`Fault`). Text that may reach an analyst quotes their own words and declared facts.
"""

from fractions import Fraction
from typing import ClassVar

__all__ = ["BadDeclaration", "BudgetExceeded", "ConfideError", "Fault", "Refusal"]


class ConfideError(Exception):
    """Everything that confide raises on purpose."""

    code: ClassVar[str] = "error"


class BadDeclaration(ConfideError):
    """An argument or a declaration cannot be right; nothing was drawn, read or spent."""

    code = "bad-declaration"


class Refusal(ConfideError):
    """The question cannot be answered as asked; nothing was read or spent."""

    code = "refusal"


class Fault(ConfideError):
    """Something on our side failed; the caller did nothing wrong."""

    code = "fault"


class BudgetExceeded(Refusal):
    """The answer costs more than is left; no row was read and nothing was spent."""

    code = "budget-exceeded"

    def __init__(self, message: str, *, cost: Fraction, left: Fraction) -> None:
        super().__init__(message)
        self.cost, self.left = cost, left
