"""The route of estimates: each by its name, an owner's function by that it was registered by."""

from typing import Annotated

from fastapi import APIRouter, Body

from confide.server import bodies
from confide.server.entry import Asking, StrictRoute, Working
from confide.server.estimates import estimate
from confide.server.routes import REFUSALS

__all__ = ["router"]

router = APIRouter(prefix="/v1", route_class=StrictRoute, responses=REFUSALS)


@router.post("/statistics")
async def statistics(
    caller: Asking, office: Working, asked: Annotated[bodies.Statistic, Body()]
) -> bodies.Estimated:
    """Estimate something of the population, with intervals that count sampling and noise."""
    return await office.run_question(caller, lambda: estimate(office, caller, asked))
