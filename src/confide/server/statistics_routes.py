"""`/v1` route of statistics."""

from typing import Annotated

from fastapi import APIRouter, Body

from confide.server import requests, responses
from confide.server.auth import CurrentCaller, StrictRoute, Working
from confide.server.routes import REFUSALS
from confide.server.service import estimate
from confide.statistics.registry import STATISTICS

__all__ = ["make_router"]


def make_router() -> APIRouter:
    """Return the route, which takes the statistics that are registered now."""
    router = APIRouter(prefix="/v1", route_class=StrictRoute, responses=REFUSALS)

    async def statistics(
        caller: CurrentCaller, service: Working, asked: requests.StatisticRequest
    ) -> responses.EstimateResponse:
        """Estimate something of the population, with intervals that count sampling and noise."""
        return await service.run_question(caller, lambda: estimate(service, caller, asked))

    kind = requests.any_statistic(tuple(STATISTICS.values()))
    statistics.__annotations__["asked"] = Annotated[kind, Body()]
    router.post("/statistics")(statistics)
    return router
