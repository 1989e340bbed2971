"""The `/v1` route for statistics."""

from typing import Annotated

from fastapi import APIRouter, Body

from confide.server import requests, responses
from confide.server.auth import CurrentCaller, CurrentService, StrictRoute
from confide.server.routes import REFUSALS
from confide.server.service import estimate
from confide.statistics.registry import STATISTICS

__all__ = ["make_router"]


def make_router() -> APIRouter:
    """Return a router for the statistics registered now."""
    router = APIRouter(prefix="/v1", route_class=StrictRoute, responses=REFUSALS)

    async def statistics(
        caller: CurrentCaller, service: CurrentService, body: requests.StatisticRequest
    ) -> responses.EstimateResponse:
        """Estimate a population parameter, with intervals that cover sampling error and noise."""
        return await service.run_query(caller, lambda: estimate(service, caller, body))

    kind = requests.any_statistic(tuple(STATISTICS.values()))
    statistics.__annotations__["body"] = Annotated[kind, Body()]
    router.post("/statistics")(statistics)
    return router
