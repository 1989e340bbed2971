"""The `/v1` routes for analysts: tables, budget, explain, preview, query, and answers."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query

from confide.server import requests, responses
from confide.server.auth import CurrentCaller, CurrentService, StrictRoute, caller_of_header
from confide.server.serialization import (
    show_answer,
    show_budget,
    show_entry,
    show_preview,
    show_tables,
)
from confide.server.service import Caller, Service

__all__ = ["REFUSALS", "Entry", "answer_query", "price_args_of", "router"]

REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    401: {"model": responses.ErrorResponse, "description": "No valid token."},
    403: {"model": responses.ErrorResponse, "description": "Not the caller's resource."},
    408: {"model": responses.ErrorResponse, "description": "The request arrived too slowly."},
    409: {"model": responses.ErrorResponse, "description": "Key used for another query."},
    413: {"model": responses.ErrorResponse, "description": "The request is too large."},
    422: {"model": responses.ErrorResponse, "description": "The query cannot be answered."},
    429: {"model": responses.ErrorResponse, "description": "Budget or rate limit exceeded."},
    503: {"model": responses.ErrorResponse, "description": "Still running; retry later."},
}
MAX_ENTRY: Final = 2**62

Entry = Annotated[int, Path(ge=0, lt=MAX_ENTRY)]
Limit = Annotated[int, Query(ge=1, le=1_000)]
Before = Annotated[int | None, Query(ge=0, lt=MAX_ENTRY)]
Level = Annotated[float, Query(gt=0, lt=1)]

router = APIRouter(prefix="/v1", route_class=StrictRoute, responses=REFUSALS)


def price_args_of(body: requests.QueryRequest) -> dict[str, Any]:
    """Return the price arguments of a query, as keywords for the curator."""
    given = {"epsilon": body.epsilon, "share": body.share, "error": body.error}
    named = {name: value for name, value in given.items() if value is not None}
    return {**named, "confidence": body.confidence}


def answer_query(
    service: Service, caller: Caller, body: requests.AnswerRequest
) -> responses.AnswerResponse:
    """Return the answer to a query, and charge for it unless a stored one is reused."""
    price_args, confirm = price_args_of(body), body.confirm
    found = service.ask(
        caller, body.sql, price_args, key=body.key, fresh=body.fresh, confirm=confirm
    )
    return show_answer(found, body.confidence)


@router.get("/tables", dependencies=[Depends(caller_of_header)])
async def tables(service: CurrentService) -> responses.TablesResponse:
    """List the declared tables with their columns and bounds. Costs nothing."""
    return await service.run(lambda: show_tables(service.curator))


@router.get("/budget")
async def budget(caller: CurrentCaller, service: CurrentService) -> responses.BudgetResponse:
    """Return the caller's total, spent, and remaining budget."""
    return await service.run(lambda: show_budget(service.budget(caller)))


@router.post("/explain")
async def explain(
    caller: CurrentCaller, service: CurrentService, body: requests.QueryRequest
) -> responses.ExplanationResponse:
    """Explain a query in sentences. Reads no data and costs nothing."""

    def work() -> responses.ExplanationResponse:
        found = service.explain(caller, body.sql, price_args_of(body))
        return responses.ExplanationResponse(sentences=list(found.sentences))

    return await service.run_query(caller, work)


@router.post("/preview")
async def preview(
    caller: CurrentCaller, service: CurrentService, body: requests.QueryRequest
) -> responses.PreviewResponse:
    """Return the cost and margins of error of a query. Reads no data and costs nothing."""

    def work() -> responses.PreviewResponse:
        return show_preview(service.preview(caller, body.sql, price_args_of(body)))

    return await service.run_query(caller, work)


@router.post("/query")
async def query(
    caller: CurrentCaller, service: CurrentService, body: requests.AnswerRequest
) -> responses.AnswerResponse:
    """Answer a query with noise, and charge for it once."""
    return await service.run_query(caller, lambda: answer_query(service, caller, body))


@router.get("/answers")
async def answers(
    caller: CurrentCaller, service: CurrentService, limit: Limit = 100, before: Before = None
) -> responses.AnswersResponse:
    """List a page of the caller's own charges, newest first."""

    def work() -> responses.AnswersResponse:
        found = service.entries(caller.analyst, limit, before)
        return responses.AnswersResponse(
            answers=[show_entry(entry) for entry in found],
            before=found[-1].number if len(found) == limit else None,
        )

    return await service.run(work)


@router.get("/answers/{entry}")
async def answer(
    caller: CurrentCaller, service: CurrentService, entry: Entry, confidence: Level = 0.95
) -> responses.AnswerResponse:
    """Return one of the caller's stored answers. Costs nothing."""
    return await service.run(lambda: show_answer(service.answer(caller, entry), confidence))
