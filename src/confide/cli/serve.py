"""The `confide serve`, `confide token`, and `confide mcp` commands."""

import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from confide.cli.context import open_connection, read_token
from confide.cli.output import make_table, percent, print_message
from confide.curator import open_declared_ledger
from confide.declare import Declaration, read_toml
from confide.errors import BadDeclaration
from confide.lazy import lazy_module, require_extra
from confide.loss import Share

if TYPE_CHECKING:
    from confide import mcp
    from confide.server import agents, middleware
    from confide.server import app as server_app
    from confide.server import service as services
    from confide.server import tokens as token_store
else:
    mcp = lazy_module("confide.mcp")
    agents = lazy_module("confide.server.agents")
    middleware = lazy_module("confide.server.middleware")
    services = lazy_module("confide.server.service")
    server_app = lazy_module("confide.server.app")
    token_store = lazy_module("confide.server.tokens")

__all__ = ["list_tokens", "make_token", "revoke_tokens", "run_server", "run_tools"]

MAX_CONNECTIONS: Final = 4_096
GRACE_SECONDS: Final = 120


def run_server(console: Console, config: Path, host: str, port: int, workers: int) -> None:
    """Serve until interrupted, then finish the running queries."""
    uvicorn = require_extra("uvicorn", "server", "A server needs")
    server_app.check_declared(read_toml(config))
    _check_address(host, port)
    os.environ[server_app.CONFIG_VARIABLE] = str(config.resolve())
    os.environ[server_app.WORKERS_VARIABLE] = str(workers)
    message = f"confide listens on http://{host}:{port} once the data is open. Ctrl-C stops it."
    print_message(console, message)
    console.file.flush()  # so that a log file shows it at once
    uvicorn.run(
        "confide.server:open_app",
        factory=True,
        host=host,
        port=port,
        workers=workers,
        http=middleware.TimeoutProtocol,
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_worker_healthcheck=GRACE_SECONDS,  # a worker opens its data before it responds
    )


def _check_address(host: str, port: int) -> None:
    """Raise BadDeclaration for an address that the server cannot listen on."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "unknown name"
        raise BadDeclaration(
            f"confide cannot listen on {host}, port {port} ({reason}). Pass another `--port` or "
            "`--host`."
        ) from None


def run_tools(config: Path, url: str | None) -> None:
    """Serve tools on the standard streams on behalf of the token's holder.

    With a ``url``, the tools query that server. Otherwise they query the declaration's own curator,
    within the token's limits.
    """
    require_extra("confide.mcp", "mcp", "Tools for agents need")
    token = read_token()
    if url is not None:
        remote = mcp.HttpBackend(open_connection(url, for_tools=True))
        mcp.make_tools(lambda _: remote).run("stdio")
        return
    require_extra("confide.server", "server,mcp", "Tools for agents next to the data need")
    declaration = read_toml(config)
    curator, tokens = server_app.open_curator(declaration), server_app.open_tokens(declaration)
    service = services.Service(curator, tokens, declaration.server, declaration.boards)
    service.sign_in(token)
    mcp.make_tools(lambda _: agents.ServiceBackend(service, service.sign_in(token))).run("stdio")


def make_token(
    console: Console,
    config: Path,
    name: str,
    *,
    role: str,
    days: int,
    share: str | None,
    may_confirm: bool = False,
) -> None:
    """Create a token and print it as the only line of standard output."""
    declaration, tokens = _open(config)
    if role == token_store.Role.ANALYST:
        declaration.limits.admit(name, "")
    limit = None if share is None else Share.floor(share)
    text, token = tokens.make(
        name, token_store.Role(role), days=days, limit=limit, may_confirm=may_confirm
    )
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    cap = "" if limit is None else f" It can spend at most {percent(limit.fraction)} of the budget."
    print_message(
        Console(stderr=True),
        f"This token for {token.role} {name} expires on {_day(token.expires)}.{cap} It is shown "
        "only once; store it like a password.",
    )


def revoke_tokens(console: Console, config: Path, name: str) -> None:
    """Revoke all active tokens of a name, and print how many."""
    _, tokens = _open(config)
    live = [token for token in tokens.list_all() if token.name == name and token.revoked is None]
    if not live:
        raise BadDeclaration(
            f"{name!r} has no valid token. `confide token --list` lists all tokens."
        )
    for token in live:
        tokens.revoke(token.id)
    revoked = "1 token" if len(live) == 1 else f"{len(live)} tokens"
    print_message(console, f"Revoked {revoked} for {name}.")


def list_tokens(console: Console, config: Path) -> None:
    """Print all tokens without their secrets, newest first."""
    declaration, store = _open(config)
    tokens = store.list_all()
    by_analyst = token_store.spent_by_analyst(tokens, open_declared_ledger(declaration))
    shares = ("limit", "spent")
    headings = ("id", "name", "role", "expires", *shares, "state")
    table = make_table(*headings, title="Tokens", right=shares, is_light=True)
    for token in tokens:
        label = f"{token.name} / {token.label}" if token.label else token.name
        cap = "" if token.limit is None else percent(token.limit.fraction)
        spent = percent(token.spent.fraction)
        if token.limit is None:
            of_analyst = by_analyst.get(token.name)
            spent = "" if of_analyst is None else f"{percent(of_analyst)} by {token.name}"
        rights = "may confirm" if token.may_confirm else ""
        state = "revoked" if token.revoked is not None else rights
        until = _day(token.expires)
        table.add_row(token.id, Text(label), token.role.value, until, cap, Text(spent), state)
    console.print(table)


def _open(config: Path) -> "tuple[Declaration, token_store.TokenStore]":
    declaration = read_toml(config)
    return declaration, server_app.open_tokens(declaration)


def _day(seconds: int) -> str:
    """Return the UTC date of a time in seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
