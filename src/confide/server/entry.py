"""Who is calling: a bearer token on the routes of programs, a cookie on the page."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Final

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from confide.client.http import NotSignedIn, NotYours
from confide.server.office import Caller, Office
from confide.server.strict_json import read_json

__all__ = [
    "COOKIE",
    "LONGEST",
    "Asking",
    "Owning",
    "StrictRoute",
    "Working",
    "caller_of_cookie",
    "caller_of_header",
    "office_of",
]

COOKIE: Final = "confide-token"
LONGEST: Final = 200
"""Characters of what may be a token at all."""
BEARER: Final = HTTPBearer(auto_error=False, description="made by `confide token NAME`")


def office_of(request: Request) -> Office:
    """Return the office that this application stands in front of."""
    office: Office = request.app.state.office
    return office


async def _working(request: Request) -> Office:
    """Return the office without a thread, in which a plain function would run."""
    return office_of(request)


async def _sign_in(request: Request, text: str) -> Caller:
    office = office_of(request)
    if not text or len(text) > LONGEST:
        raise NotSignedIn("say who you are: send the header `Authorization: Bearer TOKEN`")
    caller = await office.run(lambda: office.sign_in(text))
    request.state.caller = caller.name
    return caller


async def caller_of_header(
    request: Request,
    given: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)],
) -> Caller:
    """Return the caller whose token stands in the header."""
    # Privacy: two headers could be read differently by a proxy and by us.
    if len(request.headers.getlist("authorization")) > 1:
        raise NotSignedIn("send one Authorization header, not several")
    return await _sign_in(request, given.credentials if given else "")


async def caller_of_cookie(request: Request) -> Caller:
    """Return the caller who signed in on the page."""
    return await _sign_in(request, request.cookies.get(COOKIE, ""))


async def owner_of_header(caller: Annotated[Caller, Depends(caller_of_header)]) -> Caller:
    """Return the caller, who must be the owner."""
    if not caller.is_owner:
        raise NotYours("this is for the owner; your token is an analyst's")
    return caller


Asking = Annotated[Caller, Depends(caller_of_header)]
Owning = Annotated[Caller, Depends(owner_of_header)]
Working = Annotated[Office, Depends(_working)]


class StrictRequest(Request):
    """A request whose JSON means one thing: no name twice, no NaN, no depth beyond need."""

    async def json(self) -> Any:
        """Return the body's value."""
        return read_json(await self.body())


class StrictRoute(APIRoute):
    """A route that reads its JSON strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, behind strict reading."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return handle_strictly
