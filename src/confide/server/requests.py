"""Schemas of request bodies; those for statistics are generated from the registry."""

from functools import lru_cache, reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, create_model

from confide.release.noise_sample import MAX_CONFIDENCE
from confide.server.responses import (
    MAX_SQL_LENGTH,
    Amount,
    Schema,
)
from confide.statistics.arguments import ArgumentField
from confide.statistics.registry import STATISTICS
from confide.statistics.schemas import checked_type
from confide.statistics.spec import StatisticSpec

__all__ = [
    "AnswerRequest",
    "ChooseRequest",
    "PredictionsRequest",
    "QueryRequest",
    "ReleaseRequest",
    "StatisticRequest",
    "TokenRequest",
    "WatchQueryRequest",
    "WatchRequest",
    "any_statistic",
    "statistic_adapter",
]

Sql = Annotated[str, Field(max_length=MAX_SQL_LENGTH)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Key = Annotated[str, Field(min_length=1, max_length=200)]
Level = Annotated[float, Field(gt=0, lt=1)]
# Privacy: a level that answers do not support must be refused before the charge.
AnswerLevel = Annotated[float, Field(gt=0, le=MAX_CONFIDENCE)]
Confirm = Annotated[bool, Field(description="allow a cost above the owner's limit for one query")]
Finite = Annotated[float, Field(ge=-1e15, le=1e15, allow_inf_nan=False)]


class _PricedRequest(Schema):
    """A cost (an epsilon or a share), a key that makes retries free, and a confirmation."""

    epsilon: Amount | None = None
    share: Amount | None = None
    key: Key | None = None
    confirm: Confirm = False

    def cost(self) -> dict[str, float | str]:
        """Return the cost arguments that the request gives."""
        given = {"epsilon": self.epsilon, "share": self.share}
        return {name: value for name, value in given.items() if value is not None}


class _ChargedRequest(_PricedRequest):
    """A cost, a key, and whether to pay for a new answer."""

    fresh: bool = False


class ChooseRequest(_ChargedRequest):
    """Candidates, each with a query for its score: one COUNT or SUM. High scores are preferred."""

    candidates: Annotated[dict[Name, Sql], Field(min_length=1, max_length=1_000)]


class ReleaseRequest(_ChargedRequest):
    """Queries to be planned together and charged once, with optional weights of importance."""

    queries: Annotated[list[Sql], Field(min_length=1, max_length=1_000)]
    weights: Annotated[list[Amount], Field(max_length=1_000)] | None = None
    confidence: AnswerLevel = 0.95


class WatchRequest(_PricedRequest):
    """A session to open: its threshold, and the number of "above" answers it can give."""

    threshold: Finite
    above: Annotated[int, Field(ge=1, le=1_000)] = 1
    sensitivity: Amount | None = None
    signed: bool = False


class WatchQueryRequest(Schema):
    """One query in a session; repeating a key returns the same result."""

    sql: Sql
    key: Key | None = None


class StatisticRequest(_ChargedRequest):
    """The fields of every estimate: statistic, table, cost, and confidence level.

    # Privacy: fields hold only JSON values, so a request cannot contain a function.
    """

    statistic: str
    table: Name
    confidence: Level = 0.95

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the statistic, except the table."""
        common = StatisticRequest.model_fields
        return {name: getattr(self, name) for name in type(self).model_fields if name not in common}


@lru_cache
def any_statistic(specs: tuple[StatisticSpec[Any], ...]) -> Any:
    """Return the union of the request schemas of these statistics, told apart by ``statistic``."""
    requests = tuple(map(_request_type, specs))
    return Annotated[reduce(or_, requests), Field(discriminator="statistic")]


def statistic_adapter() -> TypeAdapter[StatisticRequest]:
    """Return the validator of requests for the statistics registered now."""
    return _adapter(tuple(STATISTICS.values()))


@lru_cache
def _adapter(specs: tuple[StatisticSpec[Any], ...]) -> TypeAdapter[StatisticRequest]:
    return TypeAdapter(any_statistic(specs))


def _request_type(spec: StatisticSpec[Any]) -> type[StatisticRequest]:
    """Return the schema of a request for one statistic."""
    fields = {one.name: _field(one) for one in spec.remote_fields if one.name != "table"}
    summary = (spec.remote_summary or spec.summary).replace("``", "`")
    title = spec.name.title().replace("_", "")
    model: type[StatisticRequest] = create_model(
        f"{title}StatisticRequest",
        __base__=StatisticRequest,
        __doc__=f"{summary[0].upper()}{summary[1:]}.",
        **{"statistic": (Literal[spec.name], ...), **fields},
    )
    return model


def _field(argument: ArgumentField) -> Any:
    """Return the type and default of a field; a default of None allows null."""
    kind = checked_type(*argument.argument.kinds)
    described = Field(
        ... if argument.is_required else argument.default, description=argument.argument.help
    )
    return (kind | None if argument.default is None else kind), described


class QueryRequest(Schema):
    """A query and its price: exactly one of epsilon, share, and error."""

    sql: str = Field(
        max_length=MAX_SQL_LENGTH, examples=["SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"]
    )
    epsilon: Amount | None = None
    share: Amount | None = None
    error: Amount | None = None
    confidence: AnswerLevel = 0.95


class AnswerRequest(QueryRequest):
    """A query to answer and charge for."""

    key: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="idempotency key: requests with the same key are charged once"
    )
    fresh: bool = Field(default=False, description="pay for a new answer to an answered query")
    confirm: Confirm = False


class PredictionsRequest(Schema):
    """One prediction for each row of a holdout, in its order."""

    predictions: Annotated[list[float], Field(min_length=1, max_length=10_000_000)]


class TokenRequest(Schema):
    """A token to create: by the owner for anyone, or by an analyst for an agent."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}$")]
    role: Literal["owner", "analyst"] = "analyst"
    days: Annotated[int, Field(ge=1, le=3660)] = 90
    share: Amount | None = Field(default=None, description="spending limit of the token")
    may_confirm: bool = Field(
        default=False, description="whether an agent with this token can confirm a high cost"
    )
