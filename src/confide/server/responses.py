"""What crosses the network, in both directions: every field named, nothing else allowed."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "AnalystBudget",
    "Answered",
    "Answers",
    "Ask",
    "BudgetShown",
    "ColumnShown",
    "CostShown",
    "EntryShown",
    "Error",
    "ExplanationShown",
    "HoldoutShown",
    "Holdouts",
    "LedgerShown",
    "NewToken",
    "Predictions",
    "PreviewShown",
    "Question",
    "ReceiptShown",
    "Refused",
    "Scored",
    "TableShown",
    "TablesShown",
    "TokenMade",
    "TokenShown",
    "TokensShown",
]

LONGEST_SQL = 100_000
WRITTEN = r"^[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?(/[0-9]{1,40})?%?$"


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True, frozen=True)


Amount = (
    Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
    | Annotated[str, Field(pattern=WRITTEN, max_length=100, examples=["1/20", "5%"])]
)
"""A number above zero, or one as text, such as "1/3" or "5%"."""

Cell = str | int | float | bool | None


class Question(_Shape):
    """A question and what its answer may cost: exactly one of epsilon, share and error."""

    sql: str = Field(
        max_length=LONGEST_SQL, examples=["SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"]
    )
    epsilon: Amount | None = None
    share: Amount | None = None
    error: Amount | None = None
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95


class Ask(Question):
    """A question to be answered and paid."""

    key: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="the same key is answered once, however often it is sent"
    )
    fresh: bool = Field(default=False, description="pay for a new answer to an old question")


class CostShown(_Shape):
    """A part of the budget, exact, and its epsilon at the budget's delta."""

    share: str
    epsilon: float


class ReceiptShown(_Shape):
    """The ledger's entry, and its link in the chain."""

    entry: int
    digest: str


class Answered(_Shape):
    """Noisy values, one row a group, with both ends of each number's interval."""

    columns: list[str]
    rows: list[dict[str, Cell]]
    intervals: list[dict[str, float | None]]
    confidence: float
    cost: CostShown
    receipt: ReceiptShown
    reused: bool
    notes: list[str]


class PreviewShown(_Shape):
    """What an answer would cost and how far off it would be; null where the data decide.

    ``errors`` are half-widths, and ``regret`` holds, at ``confidence``. ``reused`` tells that there
    is an answer already which asking gives the caller for free.
    """

    cost: CostShown
    errors: dict[str, float | None]
    mechanisms: list[str]
    regret: float | None
    reused: bool
    confidence: float
    notes: list[str]


class ExplanationShown(_Shape):
    """What a query would do, in sentences."""

    sentences: list[str]


class ColumnShown(_Shape):
    """One declared column."""

    name: str
    type: str
    low: Cell = None
    high: Cell = None
    values: list[int | str | None] | None = None


class TableShown(_Shape):
    """One declared table; a public one tells its columns only.

    ``unit`` is the column that tells whom a row is about, null where every row is another person.
    """

    name: str
    is_public: bool
    unit: str | None
    max_rows_per_unit: int | None
    max_groups_per_unit: int | None
    columns: list[ColumnShown]


class TablesShown(_Shape):
    """Everything that may be asked about, and under which promise."""

    tables: list[TableShown]
    neighbours: str
    epsilon: float
    delta: float


class BudgetShown(_Shape):
    """The budget of the caller: total is theirs, and left is what can still be granted."""

    total: CostShown
    spent: CostShown
    left: CostShown


class AnalystBudget(_Shape):
    """What one analyst may spend, and has spent."""

    name: str
    limit: str | None
    spent: str


class EntryShown(_Shape):
    """One charge of the ledger."""

    entry: int
    analyst: str
    question: str
    share: str
    state: str
    digest: str
    at: str | None = None


class Answers(_Shape):
    """Charges of the caller, newest first; ``before`` continues the list."""

    answers: list[EntryShown]
    before: int | None


class LedgerShown(_Shape):
    """Charges of everybody, newest first, and whether the whole ledger adds up."""

    entries: list[EntryShown]
    before: int | None
    verified: bool | None
    analysts: list[AnalystBudget]


class Predictions(_Shape):
    """One prediction for each row of a holdout, in its order."""

    predictions: Annotated[list[float], Field(min_length=1, max_length=10_000_000)]


class Scored(_Shape):
    """The best score so far, with its interval; whether this submission moved it; what is left."""

    value: float
    interval: list[float]
    is_better: bool
    left: int | None


class HoldoutShown(_Shape):
    """A holdout: what it scores, what it promises, and how many submissions are left."""

    name: str
    metric: str
    left: int | None
    guarantee: str


class Holdouts(_Shape):
    """Every holdout of the server."""

    holdouts: list[HoldoutShown]


class NewToken(_Shape):
    """A token to be made: an owner's for anybody, an analyst's for an agent of their own."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}$")]
    role: Literal["owner", "analyst"] = "analyst"
    days: Annotated[int, Field(ge=1, le=3660)] = 90
    share: Amount | None = Field(default=None, description="the most that this token may spend")


class TokenShown(_Shape):
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


class TokensShown(_Shape):
    """Every token, newest first."""

    tokens: list[TokenShown]


class TokenMade(_Shape):
    """A new token; its text is shown this once."""

    text: str
    token: TokenShown


class Error(_Shape):
    """Why a request was refused; with ``cost`` and ``left`` where the budget was too small."""

    code: str
    message: str
    cost: str | None = None
    left: str | None = None


class Refused(_Shape):
    """The one shape of every refusal."""

    error: Error
