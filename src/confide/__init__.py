"""confide: a trusted curator for data about people."""

from confide.errors import BadDeclaration, BudgetExceeded, ConfideError, Fault, Refusal
from confide.loss import compose

__all__ = [
    "BadDeclaration",
    "BudgetExceeded",
    "ConfideError",
    "Fault",
    "Refusal",
    "compose",
]
