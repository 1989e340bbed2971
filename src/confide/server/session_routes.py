"""`/v1` routes of choices, batches and watches."""

from fastapi import APIRouter

from confide.server import requests, responses
from confide.server import service as operations
from confide.server.auth import CurrentCaller, StrictRoute, Working
from confide.server.routes import REFUSALS, Entry

__all__ = ["router"]

router = APIRouter(prefix="/v1", route_class=StrictRoute, responses=REFUSALS)


@router.post("/choose")
async def choose(
    caller: CurrentCaller, service: Working, asked: requests.ChooseRequest
) -> responses.ChooseResponse:
    """Choose the candidate with about the greatest score, and tell no number."""
    return await service.run_question(caller, lambda: operations.choose(service, caller, asked))


@router.post("/release")
async def release(
    caller: CurrentCaller, service: Working, asked: requests.ReleaseRequest
) -> responses.ReleaseResponse:
    """Answer a whole set of questions, planned together and charged once."""
    return await service.run_question(caller, lambda: operations.release(service, caller, asked))


@router.post("/watches")
async def open_watch(
    caller: CurrentCaller, service: Working, asked: requests.WatchRequest
) -> responses.WatchResponse:
    """Open a session that tells of each question whether its answer passes a threshold."""
    return await service.run_question(caller, lambda: operations.open_watch(service, caller, asked))


@router.get("/watches/{watch}")
async def look_at_watch(
    caller: CurrentCaller, service: Working, watch: Entry
) -> responses.WatchResponse:
    """Show where a session stands; costs nothing."""
    return await service.run(lambda: operations.look_at_watch(service, caller, watch))


@router.post("/watches/{watch}/ask")
async def ask_watch(
    caller: CurrentCaller, service: Working, watch: Entry, asked: requests.WatchQueryRequest
) -> responses.WatchQueryResponse:
    """Tell whether the answer to one COUNT or SUM is above the threshold; "below" is free."""
    return await service.run_question(
        caller, lambda: operations.ask_watch(service, caller, watch, asked)
    )


@router.delete("/watches/{watch}")
async def close_watch(caller: CurrentCaller, service: Working, watch: Entry) -> dict[str, str]:
    """Close a session; what it cost stays."""
    await service.run(lambda: operations.close_watch(service, caller, watch))
    return {"status": "closed"}
