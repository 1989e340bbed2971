"""The application: its routes, pages, MCP endpoint, middleware, and error handlers.

In each worker, `confide serve` runs `open_app`, which reads the declaration file.
"""

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
from confide.server.agents import McpEndpoint
from confide.server.auth import describe_errors
from confide.server.middleware import RETRY_SECONDS, RequestMiddleware, record_error, refusal_body
from confide.server.rendering import SERVER_FOLDER, accepts_html, render
from confide.server.service import Service
from confide.server.tokens import TokenStore, open_tables

__all__ = [
    "CONFIG_VARIABLE",
    "WORKERS_VARIABLE",
    "check_declared",
    "make_app",
    "open_app",
    "open_curator",
    "open_tokens",
]

API_DESCRIPTION: Final = (
    "Query personal data with differential privacy. Every answer is paid for from one budget. "
    "Previews, refusals, and repeated queries are free."
)


def make_app(
    curator: Curator,
    tokens: TokenStore,
    settings: ServerSettings | None = None,
    boards: Sequence[BoardSettings] = (),
) -> FastAPI:
    """Return the application that serves a curator and the declared leaderboards."""
    service = Service(curator, tokens, settings or ServerSettings(), boards)
    agents = McpEndpoint(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with agents.open():
            yield
        service.close()

    app = FastAPI(
        title="confide",
        version="1",
        description=API_DESCRIPTION,
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
    app.mount("/static", StaticFiles(directory=SERVER_FOLDER / "static"))
    _add_health(app, service)
    _add_error_handlers(app)
    if service.settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(service.settings.allowed_origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app.add_middleware(
        RequestMiddleware,
        metrics=service.metrics,
        max_body_size=service.settings.max_body_size,
        response_interval=service.settings.response_interval,
    )
    return app


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", tags=["operators"])
    async def healthz() -> dict[str, str]:
        """Report that the server is running. No token is needed."""
        return {"status": "ok"}

    @app.get("/metrics", tags=["operators"], response_class=PlainTextResponse)
    async def metrics() -> str:
        """Return counts of requests, refusals, answers, and running queries. No token is needed."""
        return service.metrics.text(service.rate_limiter.busy)


def _add_error_handlers(app: FastAPI) -> None:
    """Register handlers that return errors as JSON or, in the web UI, as a page."""

    def refuse(request: Request, error: ConfideError, status: int | None = None) -> Response:
        record_error(request.scope, error)
        if not request.url.path.startswith(("/v1/", "/mcp")) and accepts_html(request):
            return _refuse_on_page(request, error, status or status_of(error))
        headers = {"retry-after": str(RETRY_SECONDS)} if isinstance(error, NotReady) else {}
        if status_of(error) == 401:
            headers["www-authenticate"] = "Bearer"
        return JSONResponse(refusal_body(error), status or status_of(error), headers)

    @app.exception_handler(ConfideError)
    async def on_refusal(request: Request, error: ConfideError) -> Response:
        return refuse(request, error)

    @app.exception_handler(RequestValidationError)
    async def on_validation_error(request: Request, error: RequestValidationError) -> Response:
        return refuse(request, MalformedRequest(describe_errors(error.errors())))

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: HTTPException) -> Response:
        if error.status_code in (404, 405):
            message = "Unknown route. `GET /openapi.json` lists all routes."
            answer = refuse(request, NotFound(message), error.status_code)
            answer.headers.update(error.headers or {})
            return answer
        return refuse(request, MalformedRequest("The request cannot be parsed. Send JSON."))


def _refuse_on_page(request: Request, error: ConfideError, status: int) -> Response:
    """Return the page for an error, or a redirect to the sign-in page."""
    if isinstance(error, NotSignedIn):
        return RedirectResponse("/sign-in", 303)
    return render(
        request, "problem.html", status=status, refusal=record_error(request.scope, error)
    )


CONFIG_VARIABLE: Final = "CONFIDE_CONFIG"
WORKERS_VARIABLE: Final = "CONFIDE_WORKERS"


def open_app() -> FastAPI:
    """Return the application for the file that CONFIG_VARIABLE names, or for `confide.toml`."""
    declaration = read_toml(Path(os.environ.get(CONFIG_VARIABLE, "confide.toml")))
    _configure_logging()
    curator, tokens = open_curator(declaration), open_tokens(declaration)
    settings = replace(declaration.server, workers=int(os.environ.get(WORKERS_VARIABLE, "1")))
    return make_app(curator, tokens, settings, declaration.boards)


def check_declared(declaration: Declaration) -> None:
    """Raise an error if a declaration cannot be served, before any worker starts."""
    open_tokens(declaration)
    open_curator(declaration)


def open_curator(declaration: Declaration) -> Curator:
    """Return the curator of a declaration; raise an error if it has no persistent ledger."""
    _ledger_address(declaration)
    return open_declared(declaration)


def open_tokens(declaration: Declaration) -> TokenStore:
    """Return the token store in the database of a declaration's ledger."""
    return TokenStore(open_tables(_ledger_address(declaration)))


def _ledger_address(declaration: Declaration) -> str:
    if declaration.ledger is None:
        raise BadDeclaration(
            "A server needs a persistent ledger. Add a section `[ledger]` with "
            '`url = "sqlite:///ledger.db"` to the declaration.'
        )
    return declaration.ledger


def _configure_logging() -> None:
    """Write the server's log to standard output, one JSON object per line."""
    log = logging.getLogger("confide.server")
    if not log.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("%(message)s"))
        log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
