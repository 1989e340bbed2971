"""Argument types of the tools, with descriptions for the model, and the format of results."""

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from inspect import Parameter
from operator import or_
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from confide.statistics.arguments import Argument
from confide.statistics.registry import STATISTICS
from confide.statistics.schemas import checked_type

__all__ = [
    "Above",
    "Board",
    "Candidates",
    "Confirm",
    "Epsilon",
    "Error",
    "Fresh",
    "Key",
    "Limit",
    "Predictions",
    "Queries",
    "Sensitivity",
    "Share",
    "Signed",
    "Sql",
    "Threshold",
    "Watch",
    "Weights",
    "omit_none",
    "show_percents",
    "statistic_parameters",
]

MAX_SQL_LENGTH: Final = 100_000

Sql = Annotated[str, Field(max_length=MAX_SQL_LENGTH, description="one SELECT with aggregates")]
# Strict: reject `true` and "0.1". Coerced to 1, `true` would mean the whole budget.
_Number = Annotated[float, Field(strict=True)]
Share = Annotated[
    _Number | Annotated[str, Field(max_length=60)] | None,
    Field(description='share of the total budget, such as "1%"'),
]
Epsilon = Annotated[_Number | None, Field(gt=0, description="epsilon of this answer, such as 0.1")]
Error = Annotated[
    _Number | None, Field(gt=0, description="target margin of error at 95% confidence")
]
Fresh = Annotated[bool, Field(description="pay for a new answer to an answered query")]
Confirm = Annotated[
    bool, Field(description="pay a cost above the owner's limit; only if a person agreed to it")
]
Limit = Annotated[int, Field(ge=1, le=200, description="maximum number of queries")]
Key = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=200,
        description="idempotency key: requests with the same key are charged once",
    ),
]
Candidates = Annotated[
    dict[str, str],
    Field(
        min_length=1,
        max_length=1_000,
        description="score of each candidate by name: a SELECT of one COUNT or SUM",
    ),
]
Queries = Annotated[
    list[str],
    Field(min_length=1, max_length=1_000, description="SQL queries, one SELECT each"),
]
Above = Annotated[
    int, Field(ge=1, le=1_000, description='results "above" to pay for; more need more noise')
]
Board = Annotated[str, Field(max_length=200, description="name of a holdout")]
Predictions = Annotated[
    list[float], Field(description="one number for each row of the holdout, in order")
]
Weights = Annotated[
    list[float] | None, Field(description="importance of each query, one number per query")
]
Threshold = Annotated[float, Field(description="threshold for the results of the session")]
Sensitivity = Annotated[
    float | None, Field(description="the most that one person can change a sum")
]
Signed = Annotated[bool, Field(description="whether sums can be negative")]
Watch = Annotated[int, Field(description="number of the session, from the tool watch")]


ROWS: Final = frozenset({"rows", "intervals"})
"""The fields of results whose names the analyst chose."""


def show_percents(found: Any, *, down: bool = False) -> Any:
    """Return a result with its budget shares in percent, the format in which agents pass them.

    Costs are rounded up and the remaining budget is rounded down, to a millionth of a percent.
    Rows of answers stay as they are: a column may have any name, also "share".

    >>> show_percents({"left": {"share": "9/40", "epsilon": 0.4}, "rows": [{"share": "9/40"}]})
    {'left': {'share': '22.5%', 'epsilon': 0.4}, 'rows': [{'share': '9/40'}]}
    >>> show_percents({"rows": [{"share": "high", "epsilon": 3}]})
    {'rows': [{'share': 'high', 'epsilon': 3}]}
    """
    match found:
        case list():
            return [show_percents(one) for one in found]
        case {"share": str(share), "epsilon": _, **rest} if not rest:
            return {**found, "share": _percent(Fraction(share), down=down)}
        case {"share": str(share), "entry": _, "question": _}:
            return {**found, "share": _percent(Fraction(share), down=down)}
        case dict():
            return {
                name: one if name in ROWS else show_percents(one, down=name == "left")
                for name, one in found.items()
            }
        case _:
            return found


def _percent(share: Fraction, *, down: bool) -> str:
    millionths = share * 10**8
    rounded = math.floor(millionths) if down else math.ceil(millionths)
    return f"{Decimal(rounded).scaleb(-6).normalize():f}%"


def omit_none(**given: Any) -> dict[str, Any]:
    """Return the given arguments, without those that are None.

    >>> omit_none(share="1%", epsilon=None)
    {'share': '1%'}
    """
    return {name: value for name, value in given.items() if value is not None}


def statistic_parameters() -> list[Parameter]:
    """Return the parameters of the estimate tool: the arguments of all registered statistics.

    An argument shared by several statistics accepts every type that one of them accepts. The
    request is then validated against the statistic that the call names.
    """
    shared: dict[str, list[Argument]] = {}
    for spec in STATISTICS.values():
        for field in spec.remote_fields:
            shared.setdefault(field.name, []).append(field.argument)
    names, table = Literal[tuple(STATISTICS)], _shared_type(shared.pop("table"))
    return [
        Parameter("statistic", Parameter.POSITIONAL_OR_KEYWORD, annotation=names),
        Parameter("table", Parameter.POSITIONAL_OR_KEYWORD, annotation=table),
        *(_optional(name, _shared_type(listed, None)) for name, listed in shared.items()),
        _optional("share", Share),
        _optional("epsilon", Epsilon),
        Parameter("confirm", Parameter.KEYWORD_ONLY, default=False, annotation=Confirm),
    ]


def _optional(name: str, annotation: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _shared_type(listed: Sequence[Argument], *more: Any) -> Any:
    """Return the union of an argument's types in several statistics, and of the types ``more``.

    The descriptions of the argument are joined. One that begins another description is omitted.
    """
    kinds = dict.fromkeys(kind for argument in listed for kind in argument.kinds)
    helps = dict.fromkeys(argument.help for argument in listed)
    distinct = [one for one in helps if not any(o != one and o.startswith(one) for o in helps)]
    kind = reduce(or_, more, checked_type(*kinds))
    return Annotated[kind, Field(description="; or ".join(distinct))]
