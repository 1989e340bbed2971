"""What crosses the network for choices, batches, watches and estimates."""

from typing import Annotated, Any, Literal

from pydantic import Field

from confide.server.responses import (
    LONGEST_SQL,
    Amount,
    Answered,
    CostShown,
    ReceiptShown,
    _Shape,
)

__all__ = [
    "Batch",
    "Chosen",
    "Contest",
    "Estimated",
    "Released",
    "Statistic",
    "Told",
    "WatchAsked",
    "WatchOpened",
    "Watched",
]

Sql = Annotated[str, Field(max_length=LONGEST_SQL)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Names = Annotated[list[Name], Field(min_length=1, max_length=100)]
Key = Annotated[str, Field(min_length=1, max_length=200)]
Level = Annotated[float, Field(gt=0, lt=1)]
Finite = Annotated[float, Field(ge=-1e15, le=1e15, allow_inf_nan=False)]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Ends = Annotated[list[Finite], Field(min_length=2, max_length=2)]


class _Priced(_Shape):
    """What may be spent, by epsilon or by share; the same key is charged once."""

    epsilon: Amount | None = None
    share: Amount | None = None
    key: Key | None = None

    def cost(self) -> dict[str, float | str]:
        """Return what a request says about its cost."""
        given = {"epsilon": self.epsilon, "share": self.share}
        return {name: value for name, value in given.items() if value is not None}


class _Paid(_Priced):
    """What may be spent, and how the call may be repeated."""

    fresh: bool = False


class Contest(_Paid):
    """Candidates with a question each, one COUNT or SUM; the one with the greatest is wanted."""

    candidates: Annotated[dict[Name, Sql], Field(min_length=1, max_length=1_000)]


class Chosen(_Shape):
    """The candidate that was chosen; its score falls short of the best by at most ``regret``."""

    value: str
    regret: float | None
    cost: CostShown
    receipt: ReceiptShown
    reused: bool


class Batch(_Paid):
    """Questions to be planned together and charged once; a weight says how much one matters."""

    queries: Annotated[list[Sql], Field(min_length=1, max_length=1_000)]
    weights: Annotated[list[Amount], Field(max_length=1_000)] | None = None
    confidence: Level = 0.95


class Released(_Shape):
    """The answers to a batch, in the order of its questions."""

    answers: list[Answered]


class WatchAsked(_Priced):
    """A session to be opened: what to compare with, and how many answers "above" it may give."""

    threshold: Finite
    above: Annotated[int, Field(ge=1, le=1_000)] = 1
    sensitivity: Amount | None = None
    signed: bool = False


class WatchOpened(_Shape):
    """A session, paid for as a whole; answers further than ``half_width`` off are told rightly."""

    watch: int
    left: int
    half_width: float | None
    cost: CostShown
    receipt: ReceiptShown
    reused: bool


class Watched(_Shape):
    """One question of a session; the same key is told the same, however often it is sent."""

    sql: Sql
    key: Key | None = None


class Told(_Shape):
    """Whether the answer is above the threshold, and how many times more that may be told."""

    above: bool
    left: int


class _Statistic(_Paid):
    """What every estimate says: the table, the cost, and the level of its intervals."""

    table: Name
    confidence: Level = 0.95


class Moment(_Statistic):
    """The mean or variance of a column; ``bounds`` are tighter than declared, or "private"."""

    statistic: Literal["mean", "variance"]
    column: Name
    bounds: Ends | Literal["private"] | None = None

    def arguments(self) -> Arguments:
        """Return what the curator's method takes beside the table."""
        return (self.column,), {"bounds": self.bounds}


class Covariance(_Statistic):
    """Variances and covariances of columns."""

    statistic: Literal["covariance"]
    columns: Names
    bounds: Literal["private"] | None = None

    def arguments(self) -> Arguments:
        """Return what the curator's method takes beside the table."""
        return (self.columns,), {"bounds": self.bounds}


class Quantiles(_Statistic):
    """Quantiles of a column, which never cross."""

    statistic: Literal["quantiles"]
    column: Name
    levels: Annotated[list[Level], Field(min_length=1, max_length=100)]
    within: Ends | None = None

    def arguments(self) -> Arguments:
        """Return what the curator's method takes beside the table."""
        return (self.column, self.levels), {"within": self.within}


class Histogram(_Statistic):
    """A histogram density; without ``bins`` their width is chosen privately."""

    statistic: Literal["density"]
    column: Name
    bins: Annotated[int, Field(ge=1, le=10_000)] | None = None
    within: Ends | None = None

    def arguments(self) -> Arguments:
        """Return what the curator's method takes beside the table."""
        return (self.column,), {"bins": self.bins, "within": self.within}


class Family(_Statistic):
    """The likeliest law of a family, such as "normal" or "poisson"."""

    statistic: Literal["exponential_family"]
    columns: Names
    family: Name
    within: Ends | None = None

    def arguments(self) -> Arguments:
        """Return what the curator's method takes beside the table."""
        columns = self.columns if len(self.columns) > 1 else self.columns[0]
        return (columns,), {"family": self.family, "within": self.within}


class Regression(_Statistic):
    """A regression such as "cost ~ age + smoker"."""

    statistic: Literal["fit"]
    formula: Annotated[str, Field(min_length=1, max_length=2_000)]
    family: Name = "linear"
    ridge: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] = 0.0

    def arguments(self) -> Arguments:
        """Return what the curator's method takes beside the table."""
        return (self.formula,), {"family": self.family, "ridge": self.ridge}


class Comparison(_Statistic):
    """The difference of means, or of proportions, between the two groups of ``by``."""

    statistic: Literal["compare_means", "compare_proportions"]
    column: Name
    by: Name

    def arguments(self) -> Arguments:
        """Return what the curator's method takes beside the table."""
        return (self.column,), {"by": self.by}


class Independence(_Statistic):
    """Whether two columns have to do with each other."""

    statistic: Literal["independence"]
    columns: Annotated[list[Name], Field(min_length=2, max_length=2)]

    def arguments(self) -> Arguments:
        """Return what the curator's method takes beside the table."""
        return tuple(self.columns), {}


class Registered(_Statistic):
    """An estimator that the owner registered, by its name; no other function ever runs."""

    statistic: Literal["sample_and_aggregate"]
    estimator: Name
    blocks: Annotated[int, Field(ge=1, le=1_000_000)] | None = None

    def arguments(self) -> Arguments:
        """Return what the curator's method takes beside the table."""
        return (self.estimator,), {"blocks": self.blocks}


Statistic = Annotated[
    Moment
    | Covariance
    | Quantiles
    | Histogram
    | Family
    | Regression
    | Comparison
    | Independence
    | Registered,
    Field(discriminator="statistic"),
]
"""One of the estimates that can be asked for."""


class Estimated(_Shape):
    """Numbers with names, standard errors and intervals; null where one is infinite.

    ``form`` says how they belong together: one number, a list, numbers by name, or the heights of
    bins, whose ends are then in ``edges``. A test has a ``p_value``.
    """

    statistic: str
    form: Literal["one", "list", "named", "bins"]
    names: list[str]
    values: list[float | None]
    standard_errors: list[float | None]
    lows: list[float | None]
    highs: list[float | None]
    edges: list[float] | None = None
    p_value: float | None = None
    confidence: float
    cost: CostShown
    receipt: ReceiptShown
    reused: bool
