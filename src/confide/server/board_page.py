"""The HTML page with the leaderboards."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, File, Request
from fastapi.responses import HTMLResponse

from confide.client.http import MalformedRequest
from confide.errors import ConfideError
from confide.server.auth import CurrentService, caller_of_cookie
from confide.server.board_routes import Name
from confide.server.boards import read_predictions
from confide.server.middleware import record_error
from confide.server.pages import check_origin
from confide.server.rendering import render
from confide.server.service import Caller, Service

__all__ = ["router"]

router = APIRouter(include_in_schema=False, dependencies=[Depends(check_origin)])
SignedIn = Annotated[Caller, Depends(caller_of_cookie)]


@router.get("/boards")
async def boards(request: Request, caller: SignedIn, service: CurrentService) -> HTMLResponse:
    """Show every leaderboard."""
    return await service.run(lambda: _page(request, caller, service))


@router.post("/boards/{name}")
async def submit(
    request: Request,
    caller: SignedIn,
    service: CurrentService,
    name: Name,
    predictions: Annotated[bytes, File()] = b"",
) -> HTMLResponse:
    """Score a file of predictions."""

    def work() -> HTMLResponse:
        try:
            score = service.boards.submit(name, read_predictions(predictions.decode("utf-8")))
        except UnicodeDecodeError:
            problem = MalformedRequest("The file is not encoded in UTF-8. Save it as UTF-8.")
            refusal = record_error(request.scope, problem)
            return _page(request, caller, service, refusal=refusal)
        except ConfideError as error:
            return _page(request, caller, service, refusal=record_error(request.scope, error))
        return _page(request, caller, service, score=score, scored=name)

    return await service.run_query(caller, work)


def _page(request: Request, caller: Caller, service: Service, **values: Any) -> HTMLResponse:
    found = [service.boards.describe(name) for name in service.boards.names]
    given = {"boards": found, "score": None, "scored": "", **values}
    return render(request, "boards.html", caller, **given)
