"""HTML pages for analysts: sign in, preview, ask, history, budget.

A form first previews a query. The preview contains a random idempotency key, and the button that
pays sends it, so that a repeated click is charged once.
"""

import secrets
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from confide.client.http import NotReady, NotSignedIn, NotYours
from confide.curator import Preview
from confide.errors import ConfideError, Fault
from confide.execution import ConfirmationRequired
from confide.release import Answer
from confide.release.formatting import percent, to_csv
from confide.server.auth import COOKIE, CurrentService, caller_of_cookie
from confide.server.middleware import record_error
from confide.server.rendering import (
    accepts_html,
    draw_answer,
    draw_burn_down,
    draw_spending,
    render,
)
from confide.server.responses import MAX_SQL_LENGTH
from confide.server.routes import Before, Entry
from confide.server.serialization import show_tables
from confide.server.service import Caller, Service

__all__ = ["router"]

COOKIE_SECONDS: Final = 7 * 86_400
PAGE_SIZE: Final = 50
MAX_CHART_ENTRIES: Final = 2_000
PRICE_KINDS: Final = ("share", "epsilon", "error")
FRESH_STEP: Final = "fresh"
"""The value of the button that pays for a new answer to an answered query."""
PAID_STEPS: Final = ("ask", FRESH_STEP)
CONFIRMED: Final = "yes"
API_INDEX: Final = {
    "message": "This is a confide server. Send an `Authorization: Bearer <token>` header to /v1.",
    "schema": "/openapi.json",
    "tables": "/v1/tables",
    "budget": "/v1/budget",
    "preview": "/v1/preview",
    "query": "/v1/query",
    "tools": "/mcp",
    "sign_in": "/sign-in",
}
"""The response to programs that ask for the start page: where to go instead."""
PAGE_ADVICE: Final = "To pay this much, confirm the cost below."
INITIAL_FORM: Final = {"sql": "", "by": "share", "amount": "1%"}


def check_origin(request: Request) -> None:
    """Raise `NotYours` for a form that is not known to come from this site.

    # Privacy: the cookie is SameSite=Strict; this check protects users whose browsers ignore it.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    host = request.headers.get("host", "")
    is_own = site == "same-origin" if site is not None else origin in _origins(host)
    if request.method == "POST" and not is_own:
        raise NotYours("Another website sent this form. Use the form on this website.")


def _origins(host: str) -> tuple[str, str]:
    return f"http://{host}", f"https://{host}"


router = APIRouter(include_in_schema=False, dependencies=[Depends(check_origin)])
SignedIn = Annotated[Caller, Depends(caller_of_cookie)]


@router.get("/sign-in")
async def show_sign_in(request: Request) -> HTMLResponse:
    """Show the sign-in form."""
    return render(request, "sign_in.html")


@router.post("/sign-in")
async def sign_in(
    request: Request, service: CurrentService, token: Annotated[str, Form(max_length=200)] = ""
) -> Response:
    """Store the token in a cookie that scripts and other sites cannot use."""
    try:
        await service.run(lambda: service.sign_in(token.strip()))
    except NotSignedIn as refusal:
        return render(request, "sign_in.html", status=401, refusal=refusal)
    answer = RedirectResponse("/", 303)
    is_secure = request.url.scheme == "https"
    answer.set_cookie(
        COOKIE,
        token.strip(),
        max_age=COOKIE_SECONDS,
        httponly=True,
        samesite="strict",
        secure=is_secure,
    )
    return answer


@router.post("/sign-out")
async def sign_out() -> Response:
    """Delete the cookie with the token."""
    answer = RedirectResponse("/sign-in", 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


@router.get("/")
async def ask_page(request: Request, service: CurrentService) -> Response:
    """Show the query form and the available tables; return links to the API to a program."""
    accepts_json = "application/json" in request.headers.get("accept", "")
    if not accepts_html(request) and (accepts_json or COOKIE not in request.cookies):
        return JSONResponse(API_INDEX)
    caller = await caller_of_cookie(request)
    return await service.run(lambda: _page(request, caller, service, INITIAL_FORM))


@router.post("/ask")
async def ask(
    request: Request,
    caller: SignedIn,
    service: CurrentService,
    *,
    sql: Annotated[str, Form(max_length=MAX_SQL_LENGTH)] = "",
    by: Annotated[str, Form(max_length=10)] = "share",
    amount: Annotated[str, Form(max_length=60)] = "",
    step: Annotated[str, Form(max_length=10)] = "preview",
    key: Annotated[str, Form(max_length=64)] = "",
    confirm: Annotated[str, Form(max_length=10)] = "",
) -> HTMLResponse:
    """Preview a query, or pay for its answer; a high cost needs another click to confirm it."""
    form = {"sql": sql, "by": by if by in PRICE_KINDS else "share", "amount": amount.strip()}

    def work() -> dict[str, Any]:
        if step in PAID_STEPS and key:
            is_confirmed = confirm == CONFIRMED
            return draw_answer(_ask(caller, service, form, key, step, is_confirmed=is_confirmed))
        return _preview(caller, service, form)

    try:
        outcome = await service.run_query(caller, work)
    except ConfirmationRequired as refusal:
        outcome = _ask_to_confirm(request, caller, refusal, key, step)
    except ConfideError as refusal:
        outcome = {"refusal": record_error(request.scope, refusal)}
        # The query may have been charged; a retry with the same key costs nothing more.
        if step in PAID_STEPS and isinstance(refusal, Fault | NotReady):
            outcome |= {"key": key, "step": step}
    if "hx-request" in request.headers:
        state = await service.run(lambda: service.budget(caller))
        given = {"form": form, "budget": state, "is_fragment": True, **outcome}
        return render(request, "outcome.html", caller, **given)
    return await service.run(lambda: _page(request, caller, service, form, **outcome))


def _ask(
    caller: Caller,
    service: Service,
    form: dict[str, str],
    key: str,
    step: str,
    *,
    is_confirmed: bool,
) -> Answer:
    price_args, fresh = {form["by"]: form["amount"]}, step == FRESH_STEP
    return service.ask(caller, form["sql"], price_args, key=key, fresh=fresh, confirm=is_confirmed)


def _ask_to_confirm(
    request: Request, caller: Caller, refusal: ConfirmationRequired, key: str, step: str
) -> dict[str, Any]:
    """Return a refusal with a button that confirms the cost, if the caller can confirm."""
    if not caller.may_confirm:
        return {"refusal": record_error(request.scope, refusal)}
    shown = record_error(request.scope, refusal.advise(PAGE_ADVICE))
    return {"refusal": shown, "key": key, "step": step, "unconfirmed": refusal.cost}


def _preview(caller: Caller, service: Service, form: dict[str, str]) -> dict[str, Any]:
    found: Preview = service.preview(caller, form["sql"], {form["by"]: form["amount"]})
    left = service.budget(caller).left.share - found.cost.share
    return {
        "preview": found,
        "left_after": left if left >= 0 else None,
        "key": secrets.token_hex(16),
    }


def _page(
    request: Request, caller: Caller, service: Service, form: dict[str, str], **outcome: Any
) -> HTMLResponse:
    declared, budget = show_tables(service.curator), service.budget(caller)
    given = {"form": form, "declared": declared, "budget": budget, **outcome}
    return render(request, "ask.html", caller, **given)


@router.get("/history")
async def history(
    request: Request, caller: SignedIn, service: CurrentService, before: Before = None
) -> HTMLResponse:
    """Show a page of the caller's charges, newest first."""

    def work() -> HTMLResponse:
        found = service.entries(caller.analyst, PAGE_SIZE, before)
        older = found[-1].number if len(found) == PAGE_SIZE else None
        return render(request, "history.html", caller, entries=found, before=older)

    return await service.run(work)


@router.get("/history/{entry}.csv")
async def download(caller: SignedIn, service: CurrentService, entry: Entry) -> Response:
    """Return an answer as CSV, escaped so that spreadsheets run no formulas."""
    text = await service.run(lambda: to_csv(service.answer(caller, entry)))
    headers = {"content-disposition": f'attachment; filename="answer-{entry}.csv"'}
    return Response(text, media_type="text/csv; charset=utf-8", headers=headers)


@router.get("/history/{entry}")
async def stored_answer(
    request: Request, caller: SignedIn, service: CurrentService, entry: Entry
) -> HTMLResponse:
    """Show a stored answer at no cost."""

    def work() -> HTMLResponse:
        answer, query_text = service.answer(caller, entry), service.query_text(caller, entry)
        return render(request, "entry.html", caller, query_text=query_text, **draw_answer(answer))

    return await service.run(work)


@router.get("/budget")
async def budget(request: Request, caller: SignedIn, service: CurrentService) -> HTMLResponse:
    """Show the remaining budget, its history, and spending: the owner sees everyone's."""

    def work() -> HTMLResponse:
        state = service.budget(caller)
        whose = None if caller.is_owner else caller.analyst
        newest = service.entries(whose, MAX_CHART_ENTRIES, None)
        drawn = newest[::-1]
        first = state.left.share + sum(entry.share.fraction for entry in drawn)
        accounts = [
            (name, percent(limit) if limit is not None else "", percent(spent))
            for name, limit, spent in service.accounts(caller)
        ]
        return render(
            request,
            "budget.html",
            caller,
            budget=state,
            declared=show_tables(service.curator),
            spec=draw_burn_down(drawn, first),
            spending=draw_spending(drawn) if caller.is_owner and drawn else "",
            accounts=accounts,
        )

    return await service.run(work)
