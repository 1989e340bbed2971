"""Bearer tokens, cookies, and strict JSON requests."""

import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Any, Final, NoReturn, TypeVar

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import TypeAdapter, ValidationError

from confide.client.http import MalformedRequest, NotSignedIn, NotYours
from confide.server.responses import WRITTEN
from confide.server.service import Caller, Service

__all__ = [
    "COOKIE",
    "LONGEST",
    "CurrentCaller",
    "Owning",
    "StrictRoute",
    "Working",
    "caller_of_cookie",
    "caller_of_header",
    "read_json",
    "read_shape",
    "service_of",
    "write_complaints",
]

T = TypeVar("T")


def read_json(body: bytes) -> Any:
    """Return the value of a text in JSON, or raise `json.JSONDecodeError`.

    >>> read_json(b'{"sql": "SELECT 1"}')
    {'sql': 'SELECT 1'}
    """
    text = body.decode("utf-8", "replace")
    if "\ufffd" in text and b"\xef\xbf\xbd" not in body:
        raise json.JSONDecodeError("not UTF-8", "", 0)
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise json.JSONDecodeError("too long a number, or nested too deeply", "", 0) from error


def read_shape(shape: TypeAdapter[T], value: dict[str, Any]) -> T:
    """Return a request of the documented shape, or refuse it as the routes do."""
    try:
        return shape.validate_python(value)
    except ValidationError as error:
        raise MalformedRequest(write_complaints(error.errors())) from None


def write_complaints(problems: Sequence[Any]) -> str:
    """Return where a request differs from the documented shape; its values are not repeated."""
    found: list[str] = []
    for problem in problems[:5]:
        parts = [str(part) for part in problem["loc"] if part != "body"]
        # What begins like this is a word of pydantic's for one of several shapes.
        place = ".".join(part for part in parts if not part.startswith("constrained-"))
        is_amount = problem.get("ctx", {}).get("pattern") == WRITTEN
        said = 'or text such as "5%" or "1/20"' if is_amount else problem["msg"]
        found.append(f"{place[:80] or 'the body'}: {said}")
    return "; ".join(dict.fromkeys(found))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise json.JSONDecodeError("a name stands twice", "", 0)
    return found


def _refuse(name: str) -> NoReturn:
    raise json.JSONDecodeError(f"{name} is not a number", "", 0)


COOKIE: Final = "confide-token"
LONGEST: Final = 200
"""Characters of what may be a token at all."""
BEARER: Final = HTTPBearer(auto_error=False, description="made by `confide token NAME`")


def service_of(request: Request) -> Service:
    """Return the service that this application stands in front of."""
    service: Service = request.app.state.service
    return service


async def _working(request: Request) -> Service:
    """Return the service without a thread, in which a plain function would run."""
    return service_of(request)


async def _sign_in(request: Request, text: str) -> Caller:
    service = service_of(request)
    if not text or len(text) > LONGEST:
        raise NotSignedIn("say who you are: send the header `Authorization: Bearer TOKEN`")
    caller = await service.run(lambda: service.sign_in(text))
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


CurrentCaller = Annotated[Caller, Depends(caller_of_header)]
Owning = Annotated[Caller, Depends(owner_of_header)]
Working = Annotated[Service, Depends(_working)]


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
