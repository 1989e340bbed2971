"""`confide mcp`: tools for a language model over the standard streams."""

from pathlib import Path

from confide.cli.extras import import_extra
from confide.cli.remote import read_token
from confide.declare import read_toml

__all__ = ["run_tools"]


def run_tools(config: Path, url: str | None) -> None:
    """Serve tools on the standard streams, on behalf of whoever the token names.

    With a ``url`` everything is asked there; without, of the declaration's own curator, within the
    limits of the token.
    """
    make_tools = import_extra("confide.mcp", "mcp", "tools for agents need").make_tools
    token = read_token()
    if url is not None:
        from confide.client import connect
        from confide.mcp import ConnectionAsker

        remote = ConnectionAsker(connect(url, token))
        make_tools(lambda _: remote).run("stdio")
        return
    import_extra("confide.server", "server,mcp", "tools beside the data need")
    from confide.server.agents import OfficeAsker
    from confide.server.office import Office
    from confide.server.opening import open_curator, open_tokens

    declaration = read_toml(config)
    curator, tokens = open_curator(declaration), open_tokens(declaration)
    office = Office(curator, tokens, declaration.service, declaration.boards)
    office.sign_in(token)
    make_tools(lambda _: OfficeAsker(office, office.sign_in(token))).run("stdio")
