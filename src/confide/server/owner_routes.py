"""The `/v1` routes for the owner, and for tokens."""

from typing import Annotated

from fastapi import APIRouter, Path

from confide.client.http import NotYours
from confide.loss import Share
from confide.server import requests, responses
from confide.server.auth import CurrentCaller, CurrentOwner, CurrentService, StrictRoute
from confide.server.routes import REFUSALS, Before, Limit
from confide.server.serialization import show_entry, show_token
from confide.server.service import Caller, Service
from confide.server.tokens import Role, Token

__all__ = ["make_token", "router", "show_ledger"]

TokenId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]

router = APIRouter(prefix="/v1", route_class=StrictRoute, responses=REFUSALS)


@router.get("/ledger")
async def ledger(
    caller: CurrentOwner,
    service: CurrentService,
    *,
    limit: Limit = 100,
    before: Before = None,
    verify: bool = False,
) -> responses.LedgerResponse:
    """List everyone's charges, newest first; with ``verify``, check balance and hash chain."""
    return await service.run(
        lambda: show_ledger(caller, service, limit, before, is_verified=verify)
    )


def show_ledger(
    caller: Caller, service: Service, limit: int, before: int | None, *, is_verified: bool
) -> responses.LedgerResponse:
    """Return a page of the ledger, each analyst's spending, and the result of a requested check."""
    found = service.entries(None, limit, before)
    return responses.LedgerResponse(
        entries=[show_entry(entry) for entry in found],
        before=found[-1].number if len(found) == limit else None,
        verified=service.is_ledger_consistent() if is_verified else None,
        analysts=[
            responses.AnalystBudgetResponse(
                name=name, limit=None if cap is None else str(cap), spent=str(spent)
            )
            for name, cap, spent in service.accounts(caller)
        ],
    )


@router.get("/tokens")
async def tokens(caller: CurrentCaller, service: CurrentService) -> responses.TokensResponse:
    """List tokens. The owner sees all of them, and an agent sees only its own.

    An analyst sees their own tokens and those of their agents.
    """

    def work() -> responses.TokensResponse:
        mine = [one for one in service.tokens.list_all() if caller.may_see(one)]
        return responses.TokensResponse(tokens=[show_token(token) for token in mine])

    return await service.run(work)


@router.post("/tokens", status_code=201)
async def new_token(
    caller: CurrentCaller, service: CurrentService, body: requests.TokenRequest
) -> responses.NewTokenResponse:
    """Create a token, which is shown only in this response.

    The owner creates tokens for owners and analysts. An analyst creates tokens for agents, each
    with a ``name`` and a ``share`` of the analyst's own budget.
    """

    def work() -> responses.NewTokenResponse:
        text, token = make_token(service, caller, body)
        return responses.NewTokenResponse(text=text, token=show_token(token))

    return await service.run(work)


def make_token(service: Service, caller: Caller, body: requests.TokenRequest) -> tuple[str, Token]:
    """Create a token and return it with its text, or raise `NotYours` if the caller may not."""
    limit = None if body.share is None else Share.floor(body.share)
    if caller.is_owner:
        if body.role == "analyst":
            service.curator.ledger.limits.admit(body.name, "")
        return service.tokens.make(
            body.name, Role(body.role), days=body.days, limit=limit, may_confirm=body.may_confirm
        )
    # Privacy: a right that the owner did not give cannot be passed on.
    if body.may_confirm and not caller.token.may_confirm:
        raise NotYours(
            "Your token cannot pass on the right to confirm. Ask the owner for one made with "
            "`confide token NAME --may-confirm`, or omit `may_confirm`."
        )
    if caller.token.limit is not None:
        raise NotYours(
            "A token with a spending limit cannot create other tokens. Ask its issuer for another "
            "token."
        )
    if body.role != "analyst" or limit is None:
        raise NotYours(
            "An analyst can create tokens only for agents, with a share of the analyst's own "
            "budget. Send `share` and omit `role`, or ask the owner for other tokens."
        )
    return service.tokens.make(
        caller.name,
        days=body.days,
        label=body.name,
        limit=limit,
        parent=caller.token,
        may_confirm=body.may_confirm,
    )


@router.delete("/tokens/{token}", status_code=204)
async def revoke(caller: CurrentCaller, service: CurrentService, token: TokenId) -> None:
    """Revoke a token and those issued with it. Analysts can revoke only what their token issued."""

    def work() -> None:
        found = {one.id: one for one in service.tokens.list_all()}.get(token)
        is_theirs = found is not None and found.parent == caller.token.id
        if not (caller.is_owner or is_theirs):
            raise NotYours("You did not create this token. `GET /v1/tokens` lists your tokens.")
        if not service.tokens.revoke(token):
            raise NotYours("Unknown token. `GET /v1/tokens` lists all tokens.")

    await service.run(work)
