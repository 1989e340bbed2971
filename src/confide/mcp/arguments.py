"""What the tools take, with a word on each for the model that fills it in."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

__all__ = [
    "Above",
    "Candidates",
    "Column",
    "Columns",
    "Ends",
    "Epsilon",
    "Error",
    "Key",
    "Limit",
    "Queries",
    "Share",
    "Sql",
    "Statistic",
    "Word",
    "say",
]

LONGEST_SQL: Final = 100_000

Sql = Annotated[str, Field(max_length=LONGEST_SQL, description="one SELECT with aggregates")]
Share = Annotated[str | None, Field(max_length=60, description='part of the budget, such as "1%"')]
Epsilon = Annotated[float | None, Field(gt=0, description="epsilon of this answer, such as 0.1")]
Error = Annotated[float | None, Field(gt=0, description="half-width wanted at 95 %")]
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
Word = Annotated[str | None, Field(max_length=2_000)]
Column = Annotated[str | None, Field(max_length=200, description="one numeric column")]
Columns = Annotated[list[str] | None, Field(max_length=100, description="several columns")]
Ends = Annotated[
    list[float] | None,
    Field(min_length=2, max_length=2, description="[low, high], narrower than declared"),
]


def say(**given: Any) -> dict[str, Any]:
    """Return what was said, without what was left out.

    >>> say(share="1%", epsilon=None)
    {'share': '1%'}
    """
    return {name: value for name, value in given.items() if value is not None}
