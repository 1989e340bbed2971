"""Request schemas."""

from typing import Annotated, Any, Literal

from pydantic import Field

from confide.server.responses import (
    LONGEST_SQL,
    Amount,
    Schema,
)

__all__ = [
    "AnswerRequest",
    "ChooseRequest",
    "PredictionsRequest",
    "QueryRequest",
    "ReleaseRequest",
    "Statistic",
    "TokenRequest",
    "WatchQueryRequest",
    "WatchRequest",
]

Sql = Annotated[str, Field(max_length=LONGEST_SQL)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Names = Annotated[list[Name], Field(min_length=1, max_length=100)]
Key = Annotated[str, Field(min_length=1, max_length=200)]
Level = Annotated[float, Field(gt=0, lt=1)]
Finite = Annotated[float, Field(ge=-1e15, le=1e15, allow_inf_nan=False)]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Ends = Annotated[list[Finite], Field(min_length=2, max_length=2)]


class _PricedRequest(Schema):
    """What may be spent, by epsilon or by share; the same key is charged once."""

    epsilon: Amount | None = None
    share: Amount | None = None
    key: Key | None = None

    def cost(self) -> dict[str, float | str]:
        """Return what a request says about its cost."""
        given = {"epsilon": self.epsilon, "share": self.share}
        return {name: value for name, value in given.items() if value is not None}


class _ChargedRequest(_PricedRequest):
    """What may be spent, and how the call may be repeated."""

    fresh: bool = False


class ChooseRequest(_ChargedRequest):
    """Candidates with a question each, one COUNT or SUM; the one with the greatest is wanted."""

    candidates: Annotated[dict[Name, Sql], Field(min_length=1, max_length=1_000)]


class ReleaseRequest(_ChargedRequest):
    """Questions to be planned together and charged once; a weight says how much one matters."""

    queries: Annotated[list[Sql], Field(min_length=1, max_length=1_000)]
    weights: Annotated[list[Amount], Field(max_length=1_000)] | None = None
    confidence: Level = 0.95


class WatchRequest(_PricedRequest):
    """A session to be opened: what to compare with, and how many answers "above" it may give."""

    threshold: Finite
    above: Annotated[int, Field(ge=1, le=1_000)] = 1
    sensitivity: Amount | None = None
    signed: bool = False


class WatchQueryRequest(Schema):
    """One question of a session; the same key is told the same, however often it is sent."""

    sql: Sql
    key: Key | None = None


class _StatisticRequest(_ChargedRequest):
    """What every estimate says: the table, the cost, and the level of its intervals."""

    table: Name
    confidence: Level = 0.95


class MomentRequest(_StatisticRequest):
    """The mean or variance of a column; ``bounds`` are tighter than declared, or "private"."""

    statistic: Literal["mean", "variance"]
    column: Name
    bounds: Ends | Literal["private"] | None = None

    def arguments(self) -> Arguments:
        """Return what the curator's method takes beside the table."""
        return (self.column,), {"bounds": self.bounds}


class CovarianceRequest(_StatisticRequest):
    """Variances and covariances of columns."""

    statistic: Literal["covariance"]
    columns: Names
    bounds: Literal["private"] | None = None

    def arguments(self) -> Arguments:
        """Return what the curator's method takes beside the table."""
        return (self.columns,), {"bounds": self.bounds}


class QuantilesRequest(_StatisticRequest):
    """Quantiles of a column, which never cross."""

    statistic: Literal["quantiles"]
    column: Name
    levels: Annotated[list[Level], Field(min_length=1, max_length=100)]
    within: Ends | None = None

    def arguments(self) -> Arguments:
        """Return what the curator's method takes beside the table."""
        return (self.column, self.levels), {"within": self.within}


class HistogramRequest(_StatisticRequest):
    """A histogram density; without ``bins`` their width is chosen privately."""

    statistic: Literal["density"]
    column: Name
    bins: Annotated[int, Field(ge=1, le=10_000)] | None = None
    within: Ends | None = None

    def arguments(self) -> Arguments:
        """Return what the curator's method takes beside the table."""
        return (self.column,), {"bins": self.bins, "within": self.within}


class FitRequest(_StatisticRequest):
    """The likeliest law of a family, such as "normal" or "poisson"."""

    statistic: Literal["exponential_family"]
    columns: Names
    family: Name
    within: Ends | None = None

    def arguments(self) -> Arguments:
        """Return what the curator's method takes beside the table."""
        columns = self.columns if len(self.columns) > 1 else self.columns[0]
        return (columns,), {"family": self.family, "within": self.within}


class RegressionRequest(_StatisticRequest):
    """A regression such as "cost ~ age + smoker"."""

    statistic: Literal["fit"]
    formula: Annotated[str, Field(min_length=1, max_length=2_000)]
    family: Name = "linear"
    ridge: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] = 0.0

    def arguments(self) -> Arguments:
        """Return what the curator's method takes beside the table."""
        return (self.formula,), {"family": self.family, "ridge": self.ridge}


class CompareRequest(_StatisticRequest):
    """The difference of means, or of proportions, between the two groups of ``by``."""

    statistic: Literal["compare_means", "compare_proportions"]
    column: Name
    by: Name

    def arguments(self) -> Arguments:
        """Return what the curator's method takes beside the table."""
        return (self.column,), {"by": self.by}


class IndependenceRequest(_StatisticRequest):
    """Whether two columns have to do with each other."""

    statistic: Literal["independence"]
    columns: Annotated[list[Name], Field(min_length=2, max_length=2)]

    def arguments(self) -> Arguments:
        """Return what the curator's method takes beside the table."""
        return tuple(self.columns), {}


class AggregateRequest(_StatisticRequest):
    """An estimator that the owner registered, by its name; no other function ever runs."""

    statistic: Literal["sample_and_aggregate"]
    estimator: Name
    blocks: Annotated[int, Field(ge=1, le=1_000_000)] | None = None

    def arguments(self) -> Arguments:
        """Return what the curator's method takes beside the table."""
        return (self.estimator,), {"blocks": self.blocks}


Statistic = Annotated[
    MomentRequest
    | CovarianceRequest
    | QuantilesRequest
    | HistogramRequest
    | FitRequest
    | RegressionRequest
    | CompareRequest
    | IndependenceRequest
    | AggregateRequest,
    Field(discriminator="statistic"),
]
"""One of the estimates that can be asked for."""


class QueryRequest(Schema):
    """A question and what its answer may cost: exactly one of epsilon, share and error."""

    sql: str = Field(
        max_length=LONGEST_SQL, examples=["SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"]
    )
    epsilon: Amount | None = None
    share: Amount | None = None
    error: Amount | None = None
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95


class AnswerRequest(QueryRequest):
    """A question to be answered and paid."""

    key: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="the same key is answered once, however often it is sent"
    )
    fresh: bool = Field(default=False, description="pay for a new answer to an old question")


class PredictionsRequest(Schema):
    """One prediction for each row of a holdout, in its order."""

    predictions: Annotated[list[float], Field(min_length=1, max_length=10_000_000)]


class TokenRequest(Schema):
    """A token to be made: an owner's for anybody, an analyst's for an agent of their own."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}$")]
    role: Literal["owner", "analyst"] = "analyst"
    days: Annotated[int, Field(ge=1, le=3660)] = 90
    share: Amount | None = Field(default=None, description="the most that this token may spend")
