"""`/v1` routes of the owner, and those that hand out tokens."""

from typing import Annotated

from fastapi import APIRouter, Path

from confide.client.http import NotYours
from confide.loss import Share
from confide.server import requests, responses
from confide.server.auth import CurrentCaller, Owning, StrictRoute, Working
from confide.server.routes import REFUSALS, Before, Limit
from confide.server.serialization import show_entry, show_token
from confide.server.service import Caller, Service
from confide.server.tokens import Role, Token

__all__ = ["make_token", "router", "show_ledger"]

TokenId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]

router = APIRouter(prefix="/v1", route_class=StrictRoute, responses=REFUSALS)


@router.get("/ledger")
async def ledger(
    caller: Owning,
    service: Working,
    *,
    limit: Limit = 100,
    before: Before = None,
    verify: bool = False,
) -> responses.LedgerResponse:
    """List everybody's charges, newest first; with ``verify``, recompute balance and chain."""
    return await service.run(
        lambda: show_ledger(caller, service, limit, before, is_verified=verify)
    )


def show_ledger(
    caller: Caller, service: Service, limit: int, before: int | None, *, is_verified: bool
) -> responses.LedgerResponse:
    """Return a page of the ledger, what each analyst spent, and whether it all adds up."""
    found = service.entries(None, limit, before)
    return responses.LedgerResponse(
        entries=[show_entry(entry) for entry in found],
        before=found[-1].number if len(found) == limit else None,
        verified=service.is_sound() if is_verified else None,
        analysts=[
            responses.AnalystBudgetResponse(
                name=name, limit=None if most is None else str(most), spent=str(spent)
            )
            for name, most, spent in service.accounts(caller)
        ],
    )


@router.get("/tokens")
async def tokens(caller: CurrentCaller, service: Working) -> responses.TokensResponse:
    """List tokens: all for the owner, for an analyst one's own and those handed out by them.

    An agent sees its own token alone, and not what else its analyst has.
    """

    def work() -> responses.TokensResponse:
        mine = [one for one in service.tokens.listed() if caller.may_see(one)]
        return responses.TokensResponse(tokens=[show_token(token) for token in mine])

    return await service.run(work)


@router.post("/tokens", status_code=201)
async def new_token(
    caller: CurrentCaller, service: Working, asked: requests.TokenRequest
) -> responses.NewTokenResponse:
    """Make a token, whose text is shown this once.

    An owner makes one for an analyst. An analyst hands a part of their own budget to an agent, who
    is called ``name``, and must say how large a ``share``.
    """

    def work() -> responses.NewTokenResponse:
        text, token = make_token(service, caller, asked)
        return responses.NewTokenResponse(text=text, token=show_token(token))

    return await service.run(work)


def make_token(service: Service, caller: Caller, asked: requests.TokenRequest) -> tuple[str, Token]:
    """Return a new token within the caller's rights."""
    limit = None if asked.share is None else Share.floor(asked.share)
    if caller.is_owner:
        if asked.role == "analyst":
            service.curator.ledger.limits.admit(asked.name, "")
        return service.tokens.make(asked.name, Role(asked.role), days=asked.days, limit=limit)
    if caller.token.limit is not None:
        raise NotYours(
            "a token that was handed out cannot hand out others; ask whoever handed it out"
        )
    if asked.role != "analyst" or limit is None:
        raise NotYours(
            "an analyst can hand a part of their own budget to an agent: leave out the role and "
            'say "share"; other tokens are made by the owner'
        )
    return service.tokens.make(
        caller.name, days=asked.days, label=asked.name, limit=limit, parent=caller.token
    )


@router.delete("/tokens/{token}", status_code=204)
async def revoke(caller: CurrentCaller, service: Working, token: TokenId) -> None:
    """Shut a token for good, with those it handed out; analysts shut what they handed out."""

    def work() -> None:
        found = {one.id: one for one in service.tokens.listed()}.get(token)
        is_theirs = found is not None and found.parent == caller.token.id
        if not (caller.is_owner or is_theirs):
            raise NotYours("this token is not one that you handed out; GET /v1/tokens lists those")
        if not service.tokens.revoke(token):
            raise NotYours("there is no such token; GET /v1/tokens lists them")

    await service.run(work)
