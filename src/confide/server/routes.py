"""`/v1` routes of analysts: ask, preview, explain, tables, budget, answers."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query

from confide.server import requests, responses
from confide.server.auth import CurrentCaller, StrictRoute, Working, caller_of_header
from confide.server.serialization import (
    show_answer,
    show_budget,
    show_entry,
    show_preview,
    show_tables,
)
from confide.server.service import Caller, Service

__all__ = ["REFUSALS", "Entry", "answer_question", "router", "want_of"]

REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    401: {"model": responses.ErrorResponse, "description": "no live token"},
    403: {"model": responses.ErrorResponse, "description": "not yours"},
    408: {"model": responses.ErrorResponse, "description": "the request came too slowly"},
    409: {"model": responses.ErrorResponse, "description": "the key was used for another question"},
    413: {"model": responses.ErrorResponse, "description": "too large"},
    422: {"model": responses.ErrorResponse, "description": "cannot be asked"},
    429: {"model": responses.ErrorResponse, "description": "budget or rate"},
    503: {"model": responses.ErrorResponse, "description": "not ready yet; ask again"},
}
LARGEST: Final = 2**62

Entry = Annotated[int, Path(ge=0, lt=LARGEST)]
Limit = Annotated[int, Query(ge=1, le=1_000)]
Before = Annotated[int | None, Query(ge=0, lt=LARGEST)]
Level = Annotated[float, Query(gt=0, lt=1)]

router = APIRouter(prefix="/v1", route_class=StrictRoute, responses=REFUSALS)


def want_of(asked: requests.QueryRequest) -> dict[str, Any]:
    """Return what a question says about its cost, for the curator to read."""
    given = {"epsilon": asked.epsilon, "share": asked.share, "error": asked.error}
    named = {name: value for name, value in given.items() if value is not None}
    return {**named, "confidence": asked.confidence}


def answer_question(
    service: Service, caller: Caller, asked: requests.AnswerRequest
) -> responses.AnswerResponse:
    """Return the answer to a question, paid for."""
    found = service.ask(caller, asked.sql, want_of(asked), key=asked.key, fresh=asked.fresh)
    return show_answer(found, asked.confidence)


@router.get("/tables", dependencies=[Depends(caller_of_header)])
async def tables(service: Working) -> responses.TablesResponse:
    """List the declared tables, their columns and bounds; costs nothing."""
    return await service.run(lambda: show_tables(service.curator))


@router.get("/budget")
async def budget(caller: CurrentCaller, service: Working) -> responses.BudgetResponse:
    """Show the caller's budget: total, spent and left."""
    return await service.run(lambda: show_budget(service.budget(caller)))


@router.post("/explain")
async def explain(
    caller: CurrentCaller, service: Working, asked: requests.QueryRequest
) -> responses.ExplanationResponse:
    """Explain in sentences what a query would do. Reads no row, spends nothing."""

    def work() -> responses.ExplanationResponse:
        found = service.explain(caller, asked.sql, want_of(asked))
        return responses.ExplanationResponse(sentences=list(found.sentences))

    return await service.run_question(caller, work)


@router.post("/preview")
async def preview(
    caller: CurrentCaller, service: Working, asked: requests.QueryRequest
) -> responses.PreviewResponse:
    """Show what an answer would cost and how far off it would be; reads nothing, costs nothing."""

    def work() -> responses.PreviewResponse:
        return show_preview(service.preview(caller, asked.sql, want_of(asked)))

    return await service.run_question(caller, work)


@router.post("/query")
async def query(
    caller: CurrentCaller, service: Working, asked: requests.AnswerRequest
) -> responses.AnswerResponse:
    """Answer a question with noise, and charge for it once."""
    return await service.run_question(caller, lambda: answer_question(service, caller, asked))


@router.get("/answers")
async def answers(
    caller: CurrentCaller, service: Working, limit: Limit = 100, before: Before = None
) -> responses.AnswersResponse:
    """List the caller's own charges, newest first."""

    def work() -> responses.AnswersResponse:
        found = service.entries(caller.analyst, limit, before)
        return responses.AnswersResponse(
            answers=[show_entry(entry) for entry in found],
            before=found[-1].number if len(found) == limit else None,
        )

    return await service.run(work)


@router.get("/answers/{entry}")
async def answer(
    caller: CurrentCaller, service: Working, entry: Entry, confidence: Level = 0.95
) -> responses.AnswerResponse:
    """Show one of the caller's own answers again, for free."""
    return await service.run(lambda: show_answer(service.recall(caller, entry), confidence))
