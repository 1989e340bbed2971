"""Authentication by bearer token or cookie, and strict JSON parsing."""

import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, NoReturn, TypeVar

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import TypeAdapter, ValidationError

from confide.client.http import (
    CLIENT_HEADER,
    TOOLS_CLIENT,
    MalformedRequest,
    NotSignedIn,
    NotYours,
)
from confide.server.responses import AMOUNT_PATTERN
from confide.server.service import Caller, Service

__all__ = [
    "COOKIE",
    "MAX_TOKEN_LENGTH",
    "CurrentCaller",
    "CurrentOwner",
    "CurrentService",
    "StrictRoute",
    "caller_of_cookie",
    "caller_of_header",
    "describe_errors",
    "read_json",
    "service_of",
    "validate_request",
]

T = TypeVar("T")


def read_json(body: bytes) -> Any:
    """Return the value of a JSON document, or raise `json.JSONDecodeError`.

    >>> read_json(b'{"sql": "SELECT 1"}')
    {'sql': 'SELECT 1'}
    """
    text = body.decode("utf-8", "replace")
    if "\ufffd" in text and b"\xef\xbf\xbd" not in body:
        raise json.JSONDecodeError("not UTF-8", "", 0)
    try:
        return json.loads(
            text, object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant
        )
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise json.JSONDecodeError("number too long, or nesting too deep", "", 0) from error


def validate_request(adapter: TypeAdapter[T], value: dict[str, Any]) -> T:
    """Return a validated request, or raise `MalformedRequest` as the routes do."""
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise MalformedRequest(describe_errors(error.errors())) from None


def describe_errors(problems: Sequence[Any]) -> str:
    """Return the first five validation errors of a request as one string, without its values."""
    found: list[str] = []
    for problem in problems[:5]:
        parts = [str(part) for part in problem["loc"] if part != "body"]
        # Pydantic adds a part with this prefix for a member of a union.
        path = ".".join(part for part in parts if not part.startswith("constrained-"))
        is_amount = problem.get("ctx", {}).get("pattern") == AMOUNT_PATTERN
        message = 'or a string such as "5%" or "1/20"' if is_amount else problem["msg"]
        found.append(f"`{path[:80] or 'body'}`: {message}")
    return f"The request does not match the schema: {'; '.join(dict.fromkeys(found))}."


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise json.JSONDecodeError("duplicate name", "", 0)
    return found


def _reject_constant(name: str) -> NoReturn:
    raise json.JSONDecodeError(f"{name} is not a number", "", 0)


COOKIE: Final = "confide-token"
MAX_TOKEN_LENGTH: Final = 200
"""Characters; anything longer is rejected without a lookup."""
BEARER: Final = HTTPBearer(auto_error=False, description="Created with `confide token NAME`.")


def service_of(request: Request) -> Service:
    """Return the service behind the application of a request."""
    service: Service = request.app.state.service
    return service


async def _current_service(request: Request) -> Service:
    """Return the service; async, because FastAPI would run a sync dependency in a thread."""
    return service_of(request)


async def _sign_in(request: Request, text: str) -> Caller:
    service = service_of(request)
    if not text or len(text) > MAX_TOKEN_LENGTH:
        raise NotSignedIn(
            "Authentication is required. Send an `Authorization: Bearer <token>` header."
        )
    caller = await service.run(lambda: service.sign_in(text))
    request.state.caller = caller.name
    return replace(caller, uses_tools=request.headers.get(CLIENT_HEADER) == TOOLS_CLIENT)


async def caller_of_header(
    request: Request,
    given: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)],
) -> Caller:
    """Return the caller whose token is in the header."""
    # Privacy: with two headers, a proxy could check one token, and confide use the other.
    if len(request.headers.getlist("authorization")) > 1:
        raise NotSignedIn(
            "The request has several `Authorization` headers, so the caller is ambiguous. Send one."
        )
    return await _sign_in(request, given.credentials if given else "")


async def caller_of_cookie(request: Request) -> Caller:
    """Return the caller who signed in to the web UI."""
    return await _sign_in(request, request.cookies.get(COOKIE, ""))


async def owner_of_header(caller: Annotated[Caller, Depends(caller_of_header)]) -> Caller:
    """Return the caller, or raise `NotYours` if they are not the owner."""
    if not caller.is_owner:
        raise NotYours("Only the owner can use this route. Use a token with the role `owner`.")
    return caller


CurrentCaller = Annotated[Caller, Depends(caller_of_header)]
CurrentOwner = Annotated[Caller, Depends(owner_of_header)]
CurrentService = Annotated[Service, Depends(_current_service)]


class StrictRequest(Request):
    """A request with unambiguous JSON: no duplicate names, no NaN, no excessive nesting."""

    async def json(self) -> Any:
        """Return the parsed body."""
        return read_json(await self.body())


class StrictRoute(APIRoute):
    """A route that parses JSON strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, wrapped to parse JSON strictly."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return handle_strictly
