"""HTML pages for analysts: sign in, preview, ask, history, budget."""

import secrets
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from confide.client.http import NotReady, NotSignedIn, NotYours
from confide.curator import Preview
from confide.errors import ConfideError, Fault
from confide.release import Answer
from confide.release.formatting import percent, to_csv
from confide.server.auth import COOKIE, Working, caller_of_cookie
from confide.server.middleware import note
from confide.server.rendering import draw_answer, draw_burn_down, draw_spending, render
from confide.server.responses import LONGEST_SQL
from confide.server.routes import Before, Entry
from confide.server.serialization import show_tables
from confide.server.service import Caller, Service

__all__ = ["router"]

WEEK: Final = 7 * 86_400
SHOWN: Final = 50
DRAWN: Final = 2_000
WANTS: Final = ("share", "epsilon", "error")
ANEW: Final = "anew"
PAID: Final = ("ask", ANEW)
FIRST: Final = {"sql": "", "by": "share", "amount": "1%"}


def check_origin(request: Request) -> None:
    """Refuse a form that another site sent in the name of whoever is signed in here.

    # Privacy: the cookie is not sent across sites in the first place; this holds where a browser
    # does not know of that rule.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    host = request.headers.get("host", "")
    is_own = site == "same-origin" if site is not None else origin in _origins(host)
    if request.method == "POST" and not is_own:
        raise NotYours("this form was sent by another site; use the page itself")


def _origins(host: str) -> tuple[str, str]:
    return f"http://{host}", f"https://{host}"


router = APIRouter(include_in_schema=False, dependencies=[Depends(check_origin)])
SignedIn = Annotated[Caller, Depends(caller_of_cookie)]


@router.get("/sign-in")
async def show_sign_in(request: Request) -> HTMLResponse:
    """Show the form for a token."""
    return render(request, "sign_in.html")


@router.post("/sign-in")
async def sign_in(
    request: Request, service: Working, token: Annotated[str, Form(max_length=200)] = ""
) -> Response:
    """Keep the token in a cookie that no script and no other site can use."""
    try:
        await service.run(lambda: service.sign_in(token.strip()))
    except NotSignedIn as refusal:
        return render(request, "sign_in.html", status=401, refusal=refusal)
    answer = RedirectResponse("/", 303)
    is_secure = request.url.scheme == "https"
    answer.set_cookie(
        COOKIE, token.strip(), max_age=WEEK, httponly=True, samesite="strict", secure=is_secure
    )
    return answer


@router.post("/sign-out")
async def sign_out() -> Response:
    """Forget the token in this browser."""
    answer = RedirectResponse("/sign-in", 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


@router.get("/")
async def ask_page(request: Request, caller: SignedIn, service: Working) -> HTMLResponse:
    """Show the question box and what may be asked about."""
    return await service.run(lambda: _page(request, caller, service, FIRST))


@router.post("/ask")
async def ask(
    request: Request,
    caller: SignedIn,
    service: Working,
    *,
    sql: Annotated[str, Form(max_length=LONGEST_SQL)] = "",
    by: Annotated[str, Form(max_length=10)] = "share",
    amount: Annotated[str, Form(max_length=60)] = "",
    step: Annotated[str, Form(max_length=10)] = "preview",
    key: Annotated[str, Form(max_length=64)] = "",
) -> HTMLResponse:
    """Preview a question, or, on the second click, pay for its answer."""
    form = {"sql": sql, "by": by if by in WANTS else "share", "amount": amount.strip()}

    def work() -> dict[str, Any]:
        if step in PAID and key:
            return draw_answer(_ask(caller, service, form, key, step))
        return _preview(caller, service, form)

    try:
        outcome = await service.run_question(caller, work)
    except ConfideError as refusal:
        outcome = {"refusal": note(request.scope, refusal)}
        # What may have been charged is taken up again by its key, and charged once.
        if step in PAID and isinstance(refusal, Fault | NotReady):
            outcome |= {"key": key, "step": step}
    if "hx-request" in request.headers:
        state = await service.run(lambda: service.budget(caller))
        given = {"form": form, "budget": state, "is_fragment": True, **outcome}
        return render(request, "outcome.html", caller, **given)
    return await service.run(lambda: _page(request, caller, service, form, **outcome))


def _ask(caller: Caller, service: Service, form: dict[str, str], key: str, step: str) -> Answer:
    want = {form["by"]: form["amount"]}
    return service.ask(caller, form["sql"], want, key=key, fresh=step == ANEW)


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
    request: Request, caller: SignedIn, service: Working, before: Before = None
) -> HTMLResponse:
    """Show what the caller asked, newest first."""

    def work() -> HTMLResponse:
        found = service.entries(caller.analyst, SHOWN, before)
        older = found[-1].number if len(found) == SHOWN else None
        return render(request, "history.html", caller, entries=found, before=older)

    return await service.run(work)


@router.get("/history/{entry}.csv")
async def download(caller: SignedIn, service: Working, entry: Entry) -> Response:
    """Give an answer as CSV, in which no spreadsheet finds a formula."""
    text = await service.run(lambda: to_csv(service.recall(caller, entry)))
    headers = {"content-disposition": f'attachment; filename="answer-{entry}.csv"'}
    return Response(text, media_type="text/csv; charset=utf-8", headers=headers)


@router.get("/history/{entry}")
async def kept(request: Request, caller: SignedIn, service: Working, entry: Entry) -> HTMLResponse:
    """Show one answer again, for free."""

    def work() -> HTMLResponse:
        answer, question = service.recall(caller, entry), service.question(caller, entry)
        return render(request, "kept.html", caller, question=question, **draw_answer(answer))

    return await service.run(work)


@router.get("/budget")
async def budget(request: Request, caller: SignedIn, service: Working) -> HTMLResponse:
    """Show what is left, how it went over time, and who spent it."""

    def work() -> HTMLResponse:
        state = service.budget(caller)
        whose = None if caller.is_owner else caller.analyst
        newest = service.entries(whose, DRAWN, None)
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
