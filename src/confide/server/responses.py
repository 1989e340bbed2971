"""Response schemas."""

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

LONGEST_SQL = 100_000
WRITTEN = r"^[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?(/[0-9]{1,40})?%?$"


class Schema(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True, frozen=True)


Amount = (
    Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
    | Annotated[str, Field(pattern=WRITTEN, max_length=100, examples=["1/20", "5%"])]
)
"""A number above zero, or one as text, such as "1/3" or "5%"."""

Cell = str | int | float | bool | None


class CostResponse(Schema):
    """A part of the budget, exact, and its epsilon at the budget's delta."""

    share: str
    epsilon: float


class ReceiptResponse(Schema):
    """The ledger's entry, and its link in the chain."""

    entry: int
    digest: str


class AnswerResponse(Schema):
    """Noisy values, one row a group, with both ends of each number's interval."""

    columns: list[str]
    rows: list[dict[str, Cell]]
    intervals: list[dict[str, float | None]]
    confidence: float
    cost: CostResponse
    receipt: ReceiptResponse
    reused: bool
    notes: list[str]


class PreviewResponse(Schema):
    """What an answer would cost and how far off it would be; null where the data decide.

    ``errors`` are half-widths, and ``regret`` holds, at ``confidence``. ``reused`` tells that there
    is an answer already which asking gives the caller for free.
    """

    cost: CostResponse
    errors: dict[str, float | None]
    mechanisms: list[str]
    regret: float | None
    reused: bool
    confidence: float
    notes: list[str]


class ExplanationResponse(Schema):
    """What a query would do, in sentences."""

    sentences: list[str]


class ColumnResponse(Schema):
    """One declared column."""

    name: str
    type: str
    low: Cell = None
    high: Cell = None
    values: list[int | str | None] | None = None


class TableResponse(Schema):
    """One declared table; a public one tells its columns only.

    ``unit`` is the column that tells whom a row is about, null where every row is another person.
    """

    name: str
    is_public: bool
    unit: str | None
    max_rows_per_unit: int | None
    max_groups_per_unit: int | None
    columns: list[ColumnResponse]


class TablesResponse(Schema):
    """Everything that may be asked about, and under which promise."""

    tables: list[TableResponse]
    neighbours: str
    epsilon: float
    delta: float


class BudgetResponse(Schema):
    """The budget of the caller: total is theirs, and left is what can still be granted."""

    total: CostResponse
    spent: CostResponse
    left: CostResponse


class AnalystBudgetResponse(Schema):
    """What one analyst may spend, and has spent."""

    name: str
    limit: str | None
    spent: str


class EntryResponse(Schema):
    """One charge of the ledger."""

    entry: int
    analyst: str
    question: str
    share: str
    state: str
    digest: str
    at: str | None = None


class AnswersResponse(Schema):
    """Charges of the caller, newest first; ``before`` continues the list."""

    answers: list[EntryResponse]
    before: int | None


class LedgerResponse(Schema):
    """Charges of everybody, newest first, and whether the whole ledger adds up."""

    entries: list[EntryResponse]
    before: int | None
    verified: bool | None
    analysts: list[AnalystBudgetResponse]


class ScoreResponse(Schema):
    """The best score so far, with its interval; whether this submission moved it; what is left."""

    value: float
    interval: list[float]
    is_better: bool
    left: int | None


class HoldoutResponse(Schema):
    """A holdout: what it scores, what it promises, and how many submissions are left."""

    name: str
    metric: str
    left: int | None
    guarantee: str


class HoldoutsResponse(Schema):
    """Every holdout of the server."""

    holdouts: list[HoldoutResponse]


class TokenResponse(Schema):
    """What is kept of a token; times are seconds since 1970."""

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


class TokensResponse(Schema):
    """Every token, newest first."""

    tokens: list[TokenResponse]


class NewTokenResponse(Schema):
    """A new token; its text is shown this once."""

    text: str
    token: TokenResponse


class ErrorDetail(Schema):
    """Why a request was refused; with ``cost`` and ``left`` where the budget was too small."""

    code: str
    message: str
    cost: str | None = None
    left: str | None = None


class ErrorResponse(Schema):
    """The one shape of every refusal."""

    error: ErrorDetail


class ChooseResponse(Schema):
    """The candidate that was chosen; its score falls short of the best by at most ``regret``."""

    value: str
    regret: float | None
    cost: CostResponse
    receipt: ReceiptResponse
    reused: bool


class ReleaseResponse(Schema):
    """The answers to a batch, in the order of its questions."""

    answers: list[AnswerResponse]


class WatchResponse(Schema):
    """A session, paid for as a whole; answers further than ``half_width`` off are told rightly."""

    watch: int
    left: int
    half_width: float | None
    cost: CostResponse
    receipt: ReceiptResponse
    reused: bool


class WatchQueryResponse(Schema):
    """Whether the answer is above the threshold, and how many times more that may be told."""

    above: bool
    left: int


class EstimateResponse(Schema):
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
    cost: CostResponse
    receipt: ReceiptResponse
    reused: bool
