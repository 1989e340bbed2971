"""confide: a trusted curator for data about people."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from confide.errors import (
    BadArgument,
    BadDeclaration,
    BudgetExceeded,
    ConfideError,
    Fault,
    Refusal,
    UnknownName,
    UnsupportedQuery,
)

if TYPE_CHECKING:
    from confide import holdout
    from confide.aggregates import (
        count,
        count_units,
        mean,
        median,
        quantile,
        stddev,
        sum,  # noqa: A004  # the word that users know
        variance,
    )
    from confide.client import connect
    from confide.curator import Curator
    from confide.declare import (
        ROW,
        Bool,
        Budget,
        Category,
        Date,
        Decimal,
        Float,
        Int,
        Limit,
        Limits,
        PublicTable,
        Table,
        Text,
        Timestamp,
    )
    from confide.execution import ConfirmationRequired
    from confide.holdout import Holdout
    from confide.ledger import KeyUsed
    from confide.loss import compose
    from confide.query import case, coalesce, col, concat, date_diff, greatest, least, make_date
    from confide.release import Answer, Cost

__all__ = [
    "ROW",
    "Answer",
    "BadArgument",
    "BadDeclaration",
    "Bool",
    "Budget",
    "BudgetExceeded",
    "Category",
    "ConfideError",
    "ConfirmationRequired",
    "Cost",
    "Curator",
    "Date",
    "Decimal",
    "Fault",
    "Float",
    "Holdout",
    "Int",
    "KeyUsed",
    "Limit",
    "Limits",
    "PublicTable",
    "Refusal",
    "Table",
    "Text",
    "Timestamp",
    "UnknownName",
    "UnsupportedQuery",
    "case",
    "coalesce",
    "col",
    "compose",
    "concat",
    "connect",
    "count",
    "count_units",
    "date_diff",
    "greatest",
    "holdout",
    "least",
    "make_date",
    "mean",
    "median",
    "quantile",
    "stddev",
    "sum",
    "variance",
]

_DECLARED: Final = (
    *("ROW", "Bool", "Budget", "Category", "Date", "Decimal", "Float"),
    *("Int", "Limit", "Limits", "PublicTable", "Table", "Text", "Timestamp"),
)
_AGGREGATES: Final = (
    *("count", "count_units", "mean", "median", "quantile", "stddev", "sum", "variance"),
)
_TERMS: Final = ("case", "coalesce", "col", "concat", "date_diff", "greatest", "least", "make_date")
_HOMES: Final = {
    **dict.fromkeys(_DECLARED, "confide.declare"),
    **dict.fromkeys(_AGGREGATES, "confide.aggregates"),
    **dict.fromkeys(_TERMS, "confide.query"),
    "Curator": "confide.curator",
    "connect": "confide.client",
    **dict.fromkeys(("Answer", "Cost"), "confide.release"),
    "compose": "confide.loss",
    "ConfirmationRequired": "confide.execution",
    "KeyUsed": "confide.ledger",
    "Holdout": "confide.holdout",
}
_PACKAGES: Final = ("holdout",)


def __dir__() -> list[str]:
    """List what is offered, imported or not; what a module needs for itself is left out."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> Any:
    """Import what is first used: engines and parsers take a while, and few need them all."""
    if name in _PACKAGES:
        return import_module(f"confide.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'confide' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
