"""`confide serve`: HTTP and the page, in as many processes as wanted."""

import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from confide.cli.context import open_declared_ledger, read_token
from confide.cli.extras import import_extra
from confide.cli.output import make_table, percent, say
from confide.declare import Declaration, read_toml
from confide.errors import BadDeclaration
from confide.loss import Share
from confide.server.app import open_tokens
from confide.server.tokens import Role, TokenStore, spent_by_analyst

__all__ = ["list_tokens", "make_token", "revoke_tokens", "run_server", "run_tools"]

MOST_CONNECTIONS: Final = 4_096
GRACE_SECONDS: Final = 120


def run_server(console: Console, config: Path, host: str, port: int, workers: int) -> None:
    """Serve until told to stop; questions that are being answered are finished first."""
    uvicorn = import_extra("uvicorn", "server", "a server needs")
    from confide.server.app import CONFIG, WORKERS, check_declared
    from confide.server.middleware import TimeoutProtocol

    check_declared(read_toml(config))
    _check_address(host, port)
    os.environ[CONFIG], os.environ[WORKERS] = str(config.resolve()), str(workers)
    said = f"confide listens on http://{host}:{port} once the data is open; Ctrl-C ends it"
    say(console, said)
    console.file.flush()  # a log that is a file shows it at once
    uvicorn.run(
        "confide.server:open_app",
        factory=True,
        host=host,
        port=port,
        workers=workers,
        http=TimeoutProtocol,
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_worker_healthcheck=GRACE_SECONDS,  # a worker opens its data before it answers
    )


def _check_address(host: str, port: int) -> None:
    """Refuse an address that this machine cannot listen on, before anything says that it does."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no such name"
        raise BadDeclaration(
            f"confide cannot listen on {host}, port {port} ({reason}); say another --port or --host"
        ) from None


def run_tools(config: Path, url: str | None) -> None:
    """Serve tools on the standard streams, on behalf of whoever the token names.

    With a ``url`` everything is asked there; without, of the declaration's own curator, within the
    limits of the token.
    """
    make_tools = import_extra("confide.mcp", "mcp", "tools for agents need").make_tools
    token = read_token()
    if url is not None:
        from confide.client import connect
        from confide.mcp import HttpBackend

        remote = HttpBackend(connect(url, token))
        make_tools(lambda _: remote).run("stdio")
        return
    import_extra("confide.server", "server,mcp", "tools beside the data need")
    from confide.server.agents import ServiceBackend
    from confide.server.app import open_curator, open_tokens
    from confide.server.service import Service

    declaration = read_toml(config)
    curator, tokens = open_curator(declaration), open_tokens(declaration)
    office = Service(curator, tokens, declaration.service, declaration.boards)
    office.sign_in(token)
    make_tools(lambda _: ServiceBackend(office, office.sign_in(token))).run("stdio")


def make_token(
    console: Console, config: Path, name: str, *, role: str, days: int, share: str | None
) -> None:
    """Make a token and print it: the standard output has its text and nothing else."""
    declaration, tokens = _open(config)
    if role == Role.ANALYST:
        declaration.limits.admit(name, "")
    limit = None if share is None else Share.floor(share)
    text, token = tokens.make(name, Role(role), days=days, limit=limit)
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    most = "" if limit is None else f", for at most {percent(limit.fraction)} of the budget"
    say(
        Console(stderr=True),
        f"The token of {token.role} {name}, until {_day(token.expires)}{most}. It is shown this "
        "once: keep it where you keep passwords.",
    )


def revoke_tokens(console: Console, config: Path, name: str) -> None:
    """Shut every live token of a name, and print how many."""
    _, tokens = _open(config)
    live = [token for token in tokens.listed() if token.name == name and token.revoked is None]
    if not live:
        raise BadDeclaration(f"{name!r} has no token; `confide token --list` shows who has")
    for token in live:
        tokens.revoke(token.id)
    say(console, f"{len(live)} token(s) of {name} revoked")


def list_tokens(console: Console, config: Path) -> None:
    """Print every token, newest first, without its secret."""
    declaration, store = _open(config)
    tokens = store.listed()
    by_analyst = spent_by_analyst(tokens, open_declared_ledger(declaration))
    shares = ("may spend", "has spent")
    headings = ("id", "name", "role", "until", *shares, "state")
    table = make_table(*headings, title="Tokens", right=shares, is_light=True)
    for token in tokens:
        label = f"{token.name} / {token.label}" if token.label else token.name
        most = "" if token.limit is None else percent(token.limit.fraction)
        spent = percent(token.spent.fraction)
        if token.limit is None:
            of_analyst = by_analyst.get(token.name)
            spent = "" if of_analyst is None else f"{percent(of_analyst)} by {token.name}"
        state = "revoked" if token.revoked is not None else ""
        until = _day(token.expires)
        table.add_row(token.id, Text(label), token.role.value, until, most, Text(spent), state)
    console.print(table)


def _open(config: Path) -> tuple[Declaration, TokenStore]:
    declaration = read_toml(config)
    return declaration, open_tokens(declaration)


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
