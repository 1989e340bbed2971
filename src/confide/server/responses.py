"""Schemas of response bodies, and the types and limits that requests share.

`serialization` fills most of the responses in.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "AnalystBudgetResponse",
    "AnswerResponse",
    "AnswersResponse",
    "BudgetResponse",
    "ChooseResponse",
    "ColumnResponse",
    "CostResponse",
    "EntryResponse",
    "ErrorDetail",
    "ErrorResponse",
    "EstimateResponse",
    "ExplanationResponse",
    "HoldoutResponse",
    "HoldoutsResponse",
    "LedgerResponse",
    "NewTokenResponse",
    "PreviewResponse",
    "ReceiptResponse",
    "ReleaseResponse",
    "ScoreResponse",
    "TableResponse",
    "TablesResponse",
    "TokenResponse",
    "TokensResponse",
    "WatchQueryResponse",
    "WatchResponse",
]

MAX_SQL_LENGTH = 100_000
AMOUNT_PATTERN = r"^[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?(/[0-9]{1,40})?%?$"


class Schema(BaseModel):
    """The base class of all schemas: no unknown fields, no coercion, no infinite numbers."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True, frozen=True)


Amount = (
    Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
    | Annotated[str, Field(pattern=AMOUNT_PATTERN, max_length=100, examples=["1/20", "5%"])]
)
"""A positive number, or a string such as "1/3" or "5%"."""

Cell = str | int | float | bool | None


class CostResponse(Schema):
    """An exact share of the budget, and its epsilon at the budget's delta."""

    share: str
    epsilon: float


class ReceiptResponse(Schema):
    """A ledger entry and its hash in the chain."""

    entry: int
    digest: str


class AnswerResponse(Schema):
    """Keys and noisy values by row, with both ends of each noisy number's interval."""

    columns: list[str]
    rows: list[dict[str, Cell]]
    intervals: list[dict[str, float | None]]
    confidence: float
    cost: CostResponse
    receipt: ReceiptResponse
    reused: bool
    notes: list[str]


class PreviewResponse(Schema):
    """The cost of an answer and its margins of error at the level ``confidence``.

    A margin in ``errors`` is null if it is not known in advance. ``regret`` bounds how far chosen
    counts are below the best; it is null if no key is chosen. ``reused`` is true if there is a
    stored answer, which the caller would get for free.
    """

    cost: CostResponse
    errors: dict[str, float | None]
    mechanisms: list[str]
    regret: float | None
    reused: bool
    confidence: float
    notes: list[str]


class ExplanationResponse(Schema):
    """An explanation of a query, in sentences."""

    sentences: list[str]


class ColumnResponse(Schema):
    """One declared column."""

    name: str
    type: str
    low: Cell = None
    high: Cell = None
    values: list[int | str | None] | None = None


class TableResponse(Schema):
    """One declared table.

    For a public table, ``unit`` and both limits are null. For a private table, ``unit`` is the
    column that identifies the privacy unit, or null if each row is its own unit.
    """

    name: str
    is_public: bool
    unit: str | None
    max_rows_per_unit: int | None
    max_groups_per_unit: int | None
    columns: list[ColumnResponse]


class TablesResponse(Schema):
    """The declared tables and the privacy guarantee."""

    tables: list[TableResponse]
    neighbours: str
    epsilon: float
    delta: float


class BudgetResponse(Schema):
    """The caller's own total budget, their spending, and the amount they can still spend."""

    total: CostResponse
    spent: CostResponse
    left: CostResponse


class AnalystBudgetResponse(Schema):
    """The limit and spending of one analyst."""

    name: str
    limit: str | None
    spent: str


class EntryResponse(Schema):
    """One charge in the ledger."""

    entry: int
    analyst: str
    question: str
    share: str
    state: str
    digest: str
    at: str | None = None


class AnswersResponse(Schema):
    """A page of the caller's charges, newest first; pass ``before`` to get the next page."""

    answers: list[EntryResponse]
    before: int | None


class LedgerResponse(Schema):
    """A page of all charges, newest first, and the spending of each analyst.

    Unless ``before`` is null, pass it to get the next page. ``verified`` is whether the ledger is
    consistent, or null if no check was requested.
    """

    entries: list[EntryResponse]
    before: int | None
    verified: bool | None
    analysts: list[AnalystBudgetResponse]


class ScoreResponse(Schema):
    """The best score so far with its interval, whether it improved, and the submissions left."""

    value: float
    interval: list[float]
    is_better: bool
    left: int | None


class HoldoutResponse(Schema):
    """A holdout: its metric, its guarantee, and the number of submissions left."""

    name: str
    metric: str
    left: int | None
    guarantee: str


class HoldoutsResponse(Schema):
    """All holdouts on the server."""

    holdouts: list[HoldoutResponse]


class TokenResponse(Schema):
    """A token without its secret; times are seconds since 1970."""

    id: str
    name: str
    label: str
    role: str
    made: int
    expires: int
    revoked: int | None
    limit: str | None
    spent: str
    parent: str | None
    may_confirm: bool


class TokensResponse(Schema):
    """The tokens that the caller can see, newest first."""

    tokens: list[TokenResponse]


class NewTokenResponse(Schema):
    """A new token; ``text`` is shown only in this response."""

    text: str
    token: TokenResponse


class ErrorDetail(Schema):
    """An error. If the cost was too high, it has the cost and the remaining budget or the limit."""

    code: str
    message: str
    cost: str | None = None
    epsilon: float | None = None
    left: str | None = None
    limit: str | None = None


class ErrorResponse(Schema):
    """The body of every error response."""

    error: ErrorDetail


class ChooseResponse(Schema):
    """The chosen candidate; with 95% confidence, its score is at most ``regret`` below the best."""

    value: str
    regret: float | None
    cost: CostResponse
    receipt: ReceiptResponse
    reused: bool


class ReleaseResponse(Schema):
    """The answers to a batch, in the order of its queries."""

    answers: list[AnswerResponse]


class WatchResponse(Schema):
    """A prepaid session that compares query values with a threshold.

    If a value is at least ``half_width`` away from the threshold, the answer is correct with 95%
    confidence.
    """

    watch: int
    left: int
    half_width: float | None
    cost: CostResponse
    receipt: ReceiptResponse
    reused: bool


class WatchQueryResponse(Schema):
    """Whether the value is above the threshold, up to noise, and the "above" answers left."""

    above: bool
    left: int


class EstimateResponse(Schema):
    """Named numbers with standard errors and intervals; null stands for infinities and NaN.

    ``form`` is their structure: one number, a list, numbers by name, or the heights of bins with
    ends in ``edges``. A hypothesis test has a ``p_value``.
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
    cost: CostResponse
    receipt: ReceiptResponse
    reused: bool
