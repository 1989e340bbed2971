"""Application factory, and opening it from `confide.toml`."""

import logging
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.routing import Route

from confide.client.http import MalformedRequest, NotFound, NotReady, NotSignedIn, status_of
from confide.curator import Curator, open_declared
from confide.declare import BoardSettings, Declaration, ServerSettings, read_toml
from confide.errors import BadDeclaration, ConfideError
from confide.server import (
    board_page,
    board_routes,
    owner_page,
    owner_routes,
    pages,
    routes,
    session_routes,
    statistics_routes,
)
from confide.server.agents import AgentDoor
from confide.server.auth import write_complaints
from confide.server.middleware import RETRY_SECONDS, RequestMiddleware, note, refusal_body
from confide.server.rendering import HOME, render
from confide.server.service import Service
from confide.server.tokens import TokenStore, open_tables

__all__ = [
    "CONFIG",
    "WORKERS",
    "check_declared",
    "make_app",
    "open_app",
    "open_curator",
    "open_tokens",
]

ABOUT: Final = (
    "Ask about personal data and get differentially private answers. Every answer is paid from one "
    "budget; previews, refusals and repeats are free."
)


def make_app(
    curator: Curator,
    tokens: TokenStore,
    settings: ServerSettings | None = None,
    boards: Sequence[BoardSettings] = (),
) -> FastAPI:
    """Return the application in front of a curator, with the leaderboards that were declared."""
    service = Service(curator, tokens, settings or ServerSettings(), boards)
    agents = AgentDoor(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with agents.open():
            yield
        service.close()

    app = FastAPI(
        title="confide",
        version="1",
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    app.include_router(routes.router, tags=["analysts"])
    app.include_router(owner_routes.router, tags=["owners"])
    app.include_router(session_routes.router, tags=["analysts"])
    app.include_router(statistics_routes.make_router(), tags=["analysts"])
    app.include_router(board_routes.router, tags=["analysts"])
    app.include_router(pages.router)
    app.include_router(board_page.router)
    app.include_router(owner_page.router)
    app.router.routes.append(Route("/mcp", agents, name="agents", include_in_schema=False))
    app.mount("/static", StaticFiles(directory=HOME / "static"))
    _add_health(app, service)
    _add_refusals(app)
    if service.settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(service.settings.allowed_origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app.add_middleware(
        RequestMiddleware,
        counts=service.metrics,
        largest=service.settings.largest_body,
        answer_after=service.settings.answer_after,
    )
    return app


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", tags=["operators"])
    async def healthz() -> dict[str, str]:
        """Tell that the server is there; no token needed."""
        return {"status": "ok"}

    @app.get("/metrics", tags=["operators"], response_class=PlainTextResponse)
    async def metrics() -> str:
        """Count requests, refusals and answers, for Prometheus; no token needed."""
        return service.metrics.text(service.rate_limiter.busy)


def _add_refusals(app: FastAPI) -> None:
    """Give every refusal its one shape."""

    def refuse(request: Request, error: ConfideError, status: int | None = None) -> Response:
        note(request.scope, error)
        if not request.url.path.startswith(("/v1/", "/mcp")) and _is_browser(request):
            return _refuse_on_page(request, error, status or status_of(error))
        headers = {"retry-after": str(RETRY_SECONDS)} if isinstance(error, NotReady) else {}
        if status_of(error) == 401:
            headers["www-authenticate"] = "Bearer"
        return JSONResponse(refusal_body(error), status or status_of(error), headers)

    @app.exception_handler(ConfideError)
    async def on_refusal(request: Request, error: ConfideError) -> Response:
        return refuse(request, error)

    @app.exception_handler(RequestValidationError)
    async def on_shape(request: Request, error: RequestValidationError) -> Response:
        return refuse(request, MalformedRequest(write_complaints(error.errors())))

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: HTTPException) -> Response:
        if error.status_code in (404, 405):
            said = "there is no such route; GET /openapi.json lists them"
            answer = refuse(request, NotFound(said), error.status_code)
            answer.headers.update(error.headers or {})
            return answer
        return refuse(request, MalformedRequest("the request cannot be read; send JSON"))


def _is_browser(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")


def _refuse_on_page(request: Request, error: ConfideError, status: int) -> Response:
    if isinstance(error, NotSignedIn):
        return RedirectResponse("/sign-in", 303)
    return render(request, "problem.html", status=status, refusal=note(request.scope, error))


CONFIG: Final = "CONFIDE_CONFIG"
WORKERS: Final = "CONFIDE_WORKERS"


def open_app() -> FastAPI:
    """Return the application of the declaration file that the environment names."""
    declaration = read_toml(Path(os.environ.get(CONFIG, "confide.toml")))
    _log_lines()
    curator, tokens = open_curator(declaration), open_tokens(declaration)
    settings = replace(declaration.server, workers=int(os.environ.get(WORKERS, "1")))
    return make_app(curator, tokens, settings, declaration.boards)


def check_declared(declaration: Declaration) -> None:
    """Refuse a declaration that cannot be served, before any worker starts."""
    open_tokens(declaration)
    open_curator(declaration)


def open_curator(declaration: Declaration) -> Curator:
    """Return the curator of a declaration, whose ledger must outlive the process."""
    _address(declaration)
    return open_declared(declaration)


def open_tokens(declaration: Declaration) -> TokenStore:
    """Return the tokens that lie beside a declaration's ledger."""
    return TokenStore(open_tables(_address(declaration)))


def _address(declaration: Declaration) -> str:
    if declaration.ledger is None:
        raise BadDeclaration(
            "a server needs a ledger that outlives it: add a section [ledger] with "
            'url = "sqlite:///ledger.db" to the declaration'
        )
    return declaration.ledger


def _log_lines() -> None:
    """Write the server's log to the standard output, one JSON value a line."""
    log = logging.getLogger("confide.server")
    if not log.handlers:
        writer = logging.StreamHandler(sys.stdout)
        writer.setFormatter(logging.Formatter("%(message)s"))
        log.addHandler(writer)
    log.setLevel(logging.INFO)
    log.propagate = False
