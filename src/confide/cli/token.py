"""`confide token`: who may call the server."""

from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.text import Text

from confide.cli.screen import make_table, percent, say
from confide.cli.session import open_declared_ledger
from confide.declare import Declaration, read_toml
from confide.errors import BadDeclaration
from confide.loss import Share
from confide.server.opening import open_tokens
from confide.server.tokens import Role, TokenStore, spent_by_analyst

__all__ = ["list_tokens", "make_token", "revoke_tokens"]


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
