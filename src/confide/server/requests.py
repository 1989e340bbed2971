"""Request schemas; those of statistics are made from the registry."""

from functools import lru_cache, reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, create_model

from confide.server.responses import (
    LONGEST_SQL,
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

Sql = Annotated[str, Field(max_length=LONGEST_SQL)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Key = Annotated[str, Field(min_length=1, max_length=200)]
Level = Annotated[float, Field(gt=0, lt=1)]
Finite = Annotated[float, Field(ge=-1e15, le=1e15, allow_inf_nan=False)]


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


class StatisticRequest(_ChargedRequest):
    """The fields of every estimate: statistic, table, cost, and the level of its intervals.

    # Privacy: its fields hold strings and numbers; there is no kind of JSON for a function.
    """

    statistic: str
    table: Name
    confidence: Level = 0.95

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the statistic, but for the table."""
        common = StatisticRequest.model_fields
        return {name: getattr(self, name) for name in type(self).model_fields if name not in common}


@lru_cache
def any_statistic(specs: tuple[StatisticSpec[Any], ...]) -> Any:
    """Return the type of a request for one of these statistics."""
    requests = tuple(map(_request_type, specs))
    return Annotated[reduce(or_, requests), Field(discriminator="statistic")]


def statistic_adapter() -> TypeAdapter[StatisticRequest]:
    """Return the reader of requests for the statistics that are registered now."""
    return _adapter(tuple(STATISTICS.values()))


@lru_cache
def _adapter(specs: tuple[StatisticSpec[Any], ...]) -> TypeAdapter[StatisticRequest]:
    return TypeAdapter(any_statistic(specs))


def _request_type(spec: StatisticSpec[Any]) -> type[StatisticRequest]:
    """Return the schema of a request for one statistic."""
    fields = {one.name: _field(one) for one in spec.remote_fields if one.name != "table"}
    said = (spec.remote_summary or spec.summary).replace("``", "`")
    title = spec.name.title().replace("_", "")
    made: type[StatisticRequest] = create_model(
        f"{title}StatisticRequest",
        __base__=StatisticRequest,
        __doc__=f"{said[0].upper()}{said[1:]}.",
        **{"statistic": (Literal[spec.name], ...), **fields},
    )
    return made


def _field(argument: ArgumentField) -> Any:
    """Return the type and default of a field; one that may be None in Python may be null."""
    kind = checked_type(*argument.argument.kinds)
    described = Field(
        ... if argument.is_required else argument.default, description=argument.argument.help
    )
    return (kind | None if argument.default is None else kind), described


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
