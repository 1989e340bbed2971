"""`confide mcp`: tools for a language model over the standard streams."""

from pathlib import Path
from typing import Any

from confide.cli.remote import read_token
from confide.declare import read_toml
from confide.errors import BadDeclaration

__all__ = ["run_tools"]


def run_tools(config: Path, url: str | None) -> None:
    """Serve tools on the standard streams, on behalf of whoever the token names.

    With a ``url`` everything is asked there; without, of the declaration's own curator, within the
    limits of the token.
    """
    make_tools: Any = _import_tools()
    token = read_token()
    if url is not None:
        from confide.client import connect
        from confide.mcp import ConnectionAsker

        remote = ConnectionAsker(connect(url, token))
        make_tools(lambda _: remote).run("stdio")
        return
    from confide.server.agents import OfficeAsker
    from confide.server.office import Office
    from confide.server.opening import open_curator, open_tokens

    declaration = read_toml(config)
    curator, tokens = open_curator(declaration), open_tokens(declaration)
    office = Office(curator, tokens, declaration.service, declaration.boards)
    office.sign_in(token)
    make_tools(lambda _: OfficeAsker(office, office.sign_in(token))).run("stdio")


def _import_tools() -> Any:
    try:
        from confide.mcp import make_tools
    except ImportError:
        raise BadDeclaration(
            'tools for agents need more packages; install them with pip install "confide[mcp]"'
        ) from None
    return make_tools
