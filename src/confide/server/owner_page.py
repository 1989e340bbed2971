"""The owner's HTML page: ledger, analysts, and tokens."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse

from confide.client.http import MalformedRequest, NotYours
from confide.errors import ConfideError
from confide.server import requests
from confide.server.auth import CurrentService, caller_of_cookie
from confide.server.middleware import record_error
from confide.server.owner_routes import TokenId, make_token
from confide.server.pages import check_origin
from confide.server.rendering import render
from confide.server.routes import Before
from confide.server.service import Caller, Service
from confide.server.tokens import spent_by_analyst

__all__ = ["router"]

PAGE_SIZE: Final = 50
MALFORMED_FORM: Final = (
    "A token needs a name of letters, digits, and `_.@-`, a number of days from 1 to 3660, and a "
    "spending limit such as 5%, or none."
)


async def owner_of_cookie(caller: Annotated[Caller, Depends(caller_of_cookie)]) -> Caller:
    """Return the signed-in caller, or raise `NotYours` if they are not the owner."""
    if not caller.is_owner:
        raise NotYours("Only the owner can open this page. Use a token with the role `owner`.")
    return caller


router = APIRouter(include_in_schema=False, dependencies=[Depends(check_origin)])
Owner = Annotated[Caller, Depends(owner_of_cookie)]


@router.get("/owner")
async def owner(
    request: Request,
    caller: Owner,
    service: CurrentService,
    *,
    before: Before = None,
    verify: bool = False,
) -> HTMLResponse:
    """Show the tokens and a page of the ledger; with ``verify``, also check the whole ledger."""
    return await service.run(
        lambda: _page(request, caller, service, before=before, is_verified=verify)
    )


@router.post("/owner/tokens")
async def new_token(
    request: Request,
    caller: Owner,
    service: CurrentService,
    *,
    name: Annotated[str, Form(max_length=63)] = "",
    role: Annotated[str, Form(max_length=10)] = "analyst",
    days: Annotated[str, Form(max_length=6)] = "90",
    share: Annotated[str, Form(max_length=60)] = "",
    may_confirm: Annotated[str, Form(max_length=10)] = "",
) -> HTMLResponse:
    """Create a token and show it once."""

    def work() -> HTMLResponse:
        try:
            given = {"name": name.strip(), "role": role, "days": int(days), "share": share or None}
            given["may_confirm"] = may_confirm == "yes"
            text, made = make_token(service, caller, requests.TokenRequest.model_validate(given))
        except ValueError:
            refusal = record_error(request.scope, MalformedRequest(MALFORMED_FORM))
            return _page(request, caller, service, refusal=refusal)
        except ConfideError as error:
            return _page(request, caller, service, refusal=record_error(request.scope, error))
        return _page(request, caller, service, text=text, made=made)

    return await service.run(work)


@router.post("/owner/tokens/{token}/revoke")
async def revoke(
    request: Request, caller: Owner, service: CurrentService, token: TokenId
) -> HTMLResponse:
    """Revoke a token."""

    def work() -> HTMLResponse:
        service.tokens.revoke(token)
        return _page(request, caller, service)

    return await service.run(work)


def _page(
    request: Request,
    caller: Caller,
    service: Service,
    *,
    before: int | None = None,
    is_verified: bool = False,
    **values: Any,
) -> HTMLResponse:
    entries, tokens = service.entries(None, PAGE_SIZE, before), service.tokens.list_all()
    given = {
        "made": None,
        "tokens": tokens,
        "spent": spent_by_analyst(tokens, service.curator.ledger),
        "entries": entries,
        "losses": service.curator.ledger.lost_anchors(),
        "before": entries[-1].number if len(entries) == PAGE_SIZE else None,
        "sound": service.is_ledger_consistent() if is_verified else None,
        **values,
    }
    return render(request, "owner.html", caller, **given)
