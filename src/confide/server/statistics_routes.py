"""`/v1` route of statistics."""

from typing import Annotated

from fastapi import APIRouter, Body

from confide.server import requests, responses
from confide.server.auth import CurrentCaller, StrictRoute, Working
from confide.server.routes import REFUSALS
from confide.server.service import estimate

__all__ = ["router"]

router = APIRouter(prefix="/v1", route_class=StrictRoute, responses=REFUSALS)


@router.post("/statistics")
async def statistics(
    caller: CurrentCaller, service: Working, asked: Annotated[requests.Statistic, Body()]
) -> responses.EstimateResponse:
    """Estimate something of the population, with intervals that count sampling and noise."""
    return await service.run_question(caller, lambda: estimate(service, caller, asked))
