"""Argument schemas of the tools, with help for the model."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Final, Literal

from pydantic import Field

__all__ = [
    "Above",
    "Bins",
    "Board",
    "By",
    "Candidates",
    "Column",
    "Columns",
    "Ends",
    "Epsilon",
    "Error",
    "Estimator",
    "Family",
    "Formula",
    "Fresh",
    "Key",
    "Levels",
    "Limit",
    "Predictions",
    "Queries",
    "Sensitivity",
    "Share",
    "Signed",
    "Sql",
    "Statistic",
    "Table",
    "Threshold",
    "Watch",
    "Weights",
    "say",
    "show_percents",
]

LONGEST_SQL: Final = 100_000

Sql = Annotated[str, Field(max_length=LONGEST_SQL, description="one SELECT with aggregates")]
# Strict: true and "0.1" are no numbers, and true must not be taken for all of the budget.
_Number = Annotated[float, Field(strict=True)]
Share = Annotated[
    _Number | Annotated[str, Field(max_length=60)] | None,
    Field(description='part of the budget, such as "1%" or 0.01'),
]
Epsilon = Annotated[_Number | None, Field(gt=0, description="epsilon of this answer, such as 0.1")]
Error = Annotated[_Number | None, Field(gt=0, description="half-width wanted at 95 %")]
Fresh = Annotated[bool, Field(description="pay for a new answer to a question asked before")]
Limit = Annotated[int, Field(ge=1, le=200, description="how many, newest first")]
Key = Annotated[
    str | None,
    Field(min_length=1, max_length=200, description="a word of yours; repeating it pays nothing"),
]
Candidates = Annotated[
    dict[str, str],
    Field(
        min_length=1,
        max_length=1_000,
        description="name of each candidate -> SELECT of one COUNT or SUM, its score",
    ),
]
Queries = Annotated[
    list[str],
    Field(min_length=1, max_length=1_000, description="questions, one SELECT each"),
]
Above = Annotated[
    int, Field(ge=1, le=1_000, description='answers "above" to pay for; more need more noise')
]
Statistic = Literal[
    "mean",
    "variance",
    "covariance",
    "quantiles",
    "density",
    "exponential_family",
    "fit",
    "compare_means",
    "compare_proportions",
    "independence",
    "sample_and_aggregate",
]
Board = Annotated[str, Field(max_length=200, description="name of a holdout")]
Predictions = Annotated[
    list[float], Field(description="a number for each row of the holdout, in order")
]
Weights = Annotated[
    list[float] | None, Field(description="how much each question matters, a number for each")
]
Threshold = Annotated[float, Field(description="what answers are compared with")]
Sensitivity = Annotated[float | None, Field(description="the most that one person changes a sum")]
Signed = Annotated[bool, Field(description="whether sums may be negative")]
Watch = Annotated[int, Field(description="the number that the tool watch gave")]
Table = Annotated[str, Field(max_length=2_000, description="a table that list_tables names")]
By = Annotated[str | None, Field(max_length=2_000, description="a column of two groups")]
Levels = Annotated[list[float] | None, Field(description="parts such as 0.5 for the median")]
Formula = Annotated[
    str | None, Field(max_length=2_000, description='such as "cost ~ age + smoker"')
]
Family = Annotated[
    str | None, Field(max_length=2_000, description="a law, such as linear or normal")
]
Bins = Annotated[int | None, Field(description="how many; left out, they are chosen privately")]
Estimator = Annotated[
    str | None, Field(max_length=2_000, description="a name that the owner registered")
]
Column = Annotated[str | None, Field(max_length=200, description="one numeric column")]
Columns = Annotated[list[str] | None, Field(max_length=100, description="several columns")]
Ends = Annotated[
    list[float] | None,
    Field(min_length=2, max_length=2, description="[low, high], narrower than declared"),
]


def show_percents(found: Any, *, down: bool = False) -> Any:
    """Return a result with its shares in percent, which is how agents are asked to give them.

    Costs are rounded up and the remaining budget is rounded down, to a millionth of a percent.

    >>> show_percents({"left": {"share": "9/40", "epsilon": 0.4}, "rows": [{"share": "9/40"}]})
    {'left': {'share': '22.5%', 'epsilon': 0.4}, 'rows': [{'share': '9/40'}]}
    """
    match found:
        case list():
            return [show_percents(one) for one in found]
        case {"share": str(share), "epsilon": _, **rest} if not rest:
            return {**found, "share": _percent(Fraction(share), down=down)}
        case {"share": str(share), "entry": _, "question": _}:
            return {**found, "share": _percent(Fraction(share), down=down)}
        case dict():
            return {name: show_percents(one, down=name == "left") for name, one in found.items()}
        case _:
            return found


def _percent(share: Fraction, *, down: bool) -> str:
    millionths = share * 10**8
    whole = math.floor(millionths) if down else math.ceil(millionths)
    return f"{Decimal(whole).scaleb(-6).normalize():f}%"


def say(**given: Any) -> dict[str, Any]:
    """Return what was said, without what was left out.

    >>> say(share="1%", epsilon=None)
    {'share': '1%'}
    """
    return {name: value for name, value in given.items() if value is not None}
