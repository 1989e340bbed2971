"""The `/v1` routes for leaderboards."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path

from confide.server import requests, responses
from confide.server.auth import CurrentCaller, CurrentService, StrictRoute
from confide.server.routes import REFUSALS

__all__ = ["Name", "router"]

Name = Annotated[str, Path(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")]
NOT_FOUND: Final[dict[int | str, dict[str, Any]]] = {
    404: {"model": responses.ErrorResponse, "description": "Unknown holdout."}
}

router = APIRouter(prefix="/v1", route_class=StrictRoute, responses={**REFUSALS, **NOT_FOUND})


@router.get("/holdouts")
async def holdouts(_: CurrentCaller, service: CurrentService) -> responses.HoldoutsResponse:
    """List the holdouts that predictions can be scored against."""

    def work() -> responses.HoldoutsResponse:
        found = [service.boards.describe(name) for name in service.boards.names]
        return responses.HoldoutsResponse(
            holdouts=[responses.HoldoutResponse(**one) for one in found]
        )

    return await service.run(work)


@router.post("/holdouts/{name}/ask")
async def ask(
    caller: CurrentCaller, service: CurrentService, name: Name, body: requests.PredictionsRequest
) -> responses.ScoreResponse:
    """Score predictions, one for each row of the holdout, and return the best score so far."""

    def work() -> responses.ScoreResponse:
        return responses.ScoreResponse(**service.boards.submit(name, body.predictions))

    return await service.run_query(caller, work)
