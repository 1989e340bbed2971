"""The `/v1` routes for choices, batches, and watches."""

from fastapi import APIRouter

from confide.server import requests, responses
from confide.server import service as operations
from confide.server.auth import CurrentCaller, CurrentService, StrictRoute
from confide.server.routes import REFUSALS, Entry

__all__ = ["router"]

router = APIRouter(prefix="/v1", route_class=StrictRoute, responses=REFUSALS)


@router.post("/choose")
async def choose(
    caller: CurrentCaller, service: CurrentService, body: requests.ChooseRequest
) -> responses.ChooseResponse:
    """Choose a candidate with nearly the highest score, without revealing scores."""
    return await service.run_query(caller, lambda: operations.choose(service, caller, body))


@router.post("/release")
async def release(
    caller: CurrentCaller, service: CurrentService, body: requests.ReleaseRequest
) -> responses.ReleaseResponse:
    """Answer a batch of queries, planned together and charged once."""
    return await service.run_query(caller, lambda: operations.release(service, caller, body))


@router.post("/watches")
async def open_watch(
    caller: CurrentCaller, service: CurrentService, body: requests.WatchRequest
) -> responses.WatchResponse:
    """Open a session that compares answers with a threshold."""
    return await service.run_query(caller, lambda: operations.open_watch(service, caller, body))


@router.get("/watches/{watch}")
async def read_watch(
    caller: CurrentCaller, service: CurrentService, watch: Entry
) -> responses.WatchResponse:
    """Return the state of a session. Costs nothing."""
    return await service.run(lambda: operations.read_watch(service, caller, watch))


@router.post("/watches/{watch}/ask")
async def ask_watch(
    caller: CurrentCaller, service: CurrentService, watch: Entry, body: requests.WatchQueryRequest
) -> responses.WatchQueryResponse:
    """Return whether one COUNT or SUM is above the threshold; "below" is free."""
    return await service.run_query(
        caller, lambda: operations.ask_watch(service, caller, watch, body)
    )


@router.delete("/watches/{watch}")
async def close_watch(
    caller: CurrentCaller, service: CurrentService, watch: Entry
) -> dict[str, str]:
    """Close a session; its cost is not refunded."""
    await service.run(lambda: operations.close_watch(service, caller, watch))
    return {"status": "closed"}
