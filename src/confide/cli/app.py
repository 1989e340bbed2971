"""The commands with their options, and the exit codes.

Modules next to this one implement the commands. They are imported when a command runs, so that
``confide --help`` stays fast.
"""

from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
from rich.console import Console
from typer.core import TyperArgument, TyperGroup, TyperOption

from confide.cli.holdout import app as holdout
from confide.errors import BadArgument, BadDeclaration, ConfideError, Refusal
from confide.lazy import lazy_module, require_extra

if TYPE_CHECKING:
    from confide.cli import analyst as analysts
    from confide.cli import audit as audits
    from confide.cli import demo as demos
    from confide.cli import output
    from confide.cli import owner as owners
    from confide.cli import record as records
    from confide.cli import serve as servers
    from confide.release import formatting
else:
    analysts = lazy_module("confide.cli.analyst")
    audits = lazy_module("confide.cli.audit")
    demos = lazy_module("confide.cli.demo")
    output = lazy_module("confide.cli.output")
    owners = lazy_module("confide.cli.owner")
    records = lazy_module("confide.cli.record")
    servers = lazy_module("confide.cli.serve")
    formatting = lazy_module("confide.release.formatting")

__all__ = ["app", "main"]

REFUSED: Final = 1
WRONG_USE: Final = 2
FAULT: Final = 3


class Format(StrEnum):
    """Output formats of an answer."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


class Roles(StrEnum):
    """Roles of a token."""

    ANALYST = "analyst"
    OWNER = "owner"


class _Argument(TyperArgument):
    """An argument whose help shows no type."""

    def display_type(self, ctx: Any) -> str:
        del ctx
        return ""


class _Commands(TyperGroup):
    """A command group that turns errors into a message and an exit code."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        for parameter in command.params if command is not None else ():
            if isinstance(parameter, TyperArgument):
                parameter.__class__ = _Argument
            elif isinstance(parameter, TyperOption) and parameter.is_flag:
                parameter.metavar = ""
        return command

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ConfideError as error:
            message, *quoted = map(formatting.plain, str(error).splitlines() or [""])
            lines = "\n".join([f"{error.code}: {output.name_options(message)}", *quoted])
            output.print_message(Console(stderr=True), lines, style="red", hang=2)
            raise typer.Exit(exit_code(error)) from None


app = typer.Typer(
    name="confide",
    cls=_Commands,
    help="Query personal data with differential privacy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(holdout, name="holdout")


def _show_version(*, is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"confide {metadata.version('confide')}")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            metavar="",
            help="Show the version and exit.",
            callback=lambda value: _show_version(is_asked=value),
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Query personal data with differential privacy."""
    del version  # its callback has printed the version


Config = Annotated[
    Path, typer.Option("--config", metavar="FILE", help="Path of the declaration file.")
]
Epsilon = Annotated[
    str | None,
    typer.Option(metavar="NUMBER", help="Epsilon to spend on this query, such as 0.1."),
]
Share = Annotated[
    str | None,
    typer.Option(metavar="SHARE", help="Share of the total budget to spend, such as 5% or 1/20."),
]
Error = Annotated[
    str | None,
    typer.Option(metavar="NUMBER", help="Target margin of error, met at the lowest possible cost."),
]
Confidence = Annotated[
    str,
    typer.Option(metavar="LEVEL", help="Confidence level for --error and for previewed errors."),
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Confirm a cost above the owner's limit per query.")
]
Query = Annotated[
    str, typer.Argument(metavar="SQL", help="Query: one SELECT over declared tables.")
]
Url = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Server to query, with the token in CONFIDE_TOKEN."),
]
DEFAULT_CONFIG: Final = Path("confide.toml")


@app.command()
def demo(
    *,
    report: Annotated[Path, typer.Option(metavar="FILE", help="Path of the HTML report.")] = Path(
        "demo-report.html"
    ),
    mechanisms: Annotated[
        bool, typer.Option("--mechanisms", help="Run each mechanism once instead.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Only write the survey to a .csv or .parquet file."),
    ] = None,
) -> None:
    """Run a few queries on a health survey, and write a report with charts."""
    if data is not None:
        demos.write_sample(Console(), data)
        return
    if mechanisms:
        demos.run_mechanisms(Console())
        return
    demos.run_demo(Console(), report)


@app.command()
def init(
    data: Annotated[
        list[str],
        typer.Argument(metavar="DATA", help="Parquet or CSV files, or URLs of database tables."),
    ],
    *,
    interactive: Annotated[
        bool,
        typer.Option("--interactive", help="Ask for everything that the draft leaves open."),
    ] = False,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Draft a declaration from the names and types of columns; you add the bounds."""
    owners.draft_declaration(Console(), data, config, interactive=interactive)
    records.create_draft_key(Console(), config)


@app.command()
def convert(
    data: Annotated[Path, typer.Argument(metavar="FILE.csv", help="CSV file to convert.")],
    copy: Annotated[
        Path | None, typer.Argument(metavar="COPY.parquet", help="Path of the copy.")
    ] = None,
) -> None:
    """Convert a CSV file with unusual separators, numbers, dates, or names to Parquet."""
    owners.convert_file(Console(), data, copy)


@app.command()
def check(config: Config = DEFAULT_CONFIG) -> None:
    """Compare the declaration with the data, for the owner only."""
    if not owners.check_declaration(Console(), config):
        raise typer.Exit(WRONG_USE)


@app.command("suggest-limits")
def suggest_limits(
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="Declared table; optional if there is only one."),
    ] = None,
    *,
    share: Annotated[
        str, typer.Option(metavar="SHARE", help="Share of the total budget to spend, such as 1%.")
    ] = "1%",
    yes: Yes = False,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Suggest `max_rows_per_unit` from noisy counts of people by number of rows."""
    owners.print_suggested_limits(Console(), config, table, {"share": share, "confirm": yes})


@app.command()
def audit(
    *,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Use fewer samples; takes about a minute."),
    ] = False,
    report: Annotated[Path, typer.Option(metavar="FILE", help="Path of the HTML report.")] = Path(
        "audit-report.html"
    ),
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Try to disprove the privacy of the declaration's answers, on synthetic rows."""
    if not audits.run_audit(Console(), config, report, is_quick=quick):
        raise typer.Exit(REFUSED)


@app.command()
def preview(
    query: Query,
    *,
    epsilon: Epsilon = None,
    share: Share = None,
    error: Error = None,
    confidence: Confidence = "0.95",
    url: Url = None,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Show the cost and the margins of error of a query; spends nothing."""
    want = analysts.PriceOptions(epsilon, share, error, confidence)
    analysts.preview_query(Console(), query, config, want, url=url)


@app.command()
def explain(
    query: Query,
    *,
    epsilon: Epsilon = None,
    share: Share = None,
    error: Error = None,
    confidence: Confidence = "0.95",
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Explain a query in sentences; reads no rows and spends nothing."""
    want = analysts.PriceOptions(epsilon, share, error, confidence)
    analysts.explain_query(Console(), query, config, want)


@app.command()
def sql(
    query: Query,
    *,
    epsilon: Epsilon = None,
    share: Share = None,
    error: Error = None,
    confidence: Confidence = "0.95",
    form: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.TABLE,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Path of a chart of the answer, as .svg or .png."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Idempotency key; a repeated key is charged once."),
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Pay for a new answer to an answered query."),
    ] = False,
    yes: Yes = False,
    url: Url = None,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Run a query and pay for the answer."""
    want = analysts.PriceOptions(epsilon, share, error, confidence)
    options: dict[str, Any] = {"key": key, "fresh": fresh, "confirm": yes}
    analysts.answer_query(query, config, want, options, form=form.value, plot=plot, url=url)


@app.command()
def budget(config: Config = DEFAULT_CONFIG) -> None:
    """Show the total, spent, and remaining budget."""
    owners.print_budget(Console(), config)


@app.command()
def ledger(
    *,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Verify the balance and the hash chain."),
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write every charge, without values, to a new file."),
    ] = None,
    recounted: Annotated[
        Path | None,
        typer.Option(
            "--recount", metavar="FILE", help="Recompute the total from an exported file."
        ),
    ] = None,
    accept: Annotated[
        bool,
        typer.Option("--accept-lost-anchor", help="Record the loss of the anchor and continue."),
    ] = False,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Show every charge, and verify the ledger with --verify."""
    if accept:
        owners.accept_lost_anchor(Console(), config)
    elif recounted is not None:
        owners.print_recount(Console(), recounted)
    elif export is not None:
        owners.export_ledger(Console(), config, export)
    else:
        owners.print_ledger(Console(), config, is_verified=verify)


@app.command()
def record(
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", help="New JSON file for the record.")] = Path(
        "release-record.json"
    ),
    purpose: Annotated[
        str | None,
        typer.Option(metavar="PURPOSE", help="Purpose of the answers; overrides the declaration."),
    ] = None,
    contact: Annotated[
        str | None,
        typer.Option(metavar="CONTACT", help="Contact for questions; overrides the declaration."),
    ] = None,
    plain: Annotated[
        Path | None,
        typer.Option(metavar="PAGE", help="New .md or .html page in plain words, instead."),
    ] = None,
    check: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Record to check, instead.")
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="EXPORT", help="Exported ledger to recompute for --check."),
    ] = None,
    new_key: Annotated[
        bool, typer.Option("--new-key", help="Create the missing signing key, instead.")
    ] = False,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Write a signed release record for a public registry, or check one."""
    if ledger is not None and check is None:
        raise BadDeclaration("`--ledger` needs `--check`. Pass the record to check as well.")
    typed = {"purpose": purpose, "contact": contact}
    given = {name: value for name, value in typed.items() if value is not None}
    if check is not None:
        records.check_record(Console(), check, ledger)
    elif new_key:
        records.create_record_key(Console(), config)
    elif plain is not None:
        records.write_page(Console(), config, plain, given)
    else:
        records.write_record(Console(), config, out, given)


@app.command()
def serve(
    *,
    host: Annotated[str, typer.Option(metavar="HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="Port to listen on.")
    ] = 8000,
    workers: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, max=64, help="Number of worker processes.")
    ] = 1,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Serve the curator over HTTP, with a web UI; callers need tokens."""
    servers.run_server(Console(), config, host, port, workers)


@app.command()
def token(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of the analyst or the owner.")
    ] = None,
    *,
    role: Annotated[Roles, typer.Option(help="Role of the token.")] = Roles.ANALYST,
    days: Annotated[
        int,
        typer.Option(metavar="DAYS", min=1, max=3660, help="Days until the token expires."),
    ] = 90,
    share: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Spending limit of the token, such as 5%."),
    ] = None,
    may_confirm: Annotated[
        bool,
        typer.Option(
            "--may-confirm",
            help="Let an agent confirm a cost above the owner's limit.",
        ),
    ] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Revoke all tokens for NAME.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List all tokens.")] = False,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Create a token for the server, and print it once."""
    require_extra("confide.server", "server", "Tokens need")
    if listed:
        servers.list_tokens(Console(), config)
    elif name is None:
        raise BadDeclaration("A token needs a name. Run `confide token NAME`.")
    elif revoke:
        servers.revoke_tokens(Console(), config, name)
    else:
        rights: dict[str, Any] = {"share": share, "may_confirm": may_confirm}
        servers.make_token(Console(), config, name, role=role.value, days=days, **rights)


@app.command()
def mcp(url: Url = None, config: Config = DEFAULT_CONFIG) -> None:
    """Serve tools for a language model on standard input and output, within a token's limits."""
    servers.run_tools(config, url)


def main() -> NoReturn:
    """Run the command line; exit with 0, 1 (refusal), 2 (usage or declaration error), 3 (fault)."""
    app()
    raise SystemExit(0)


def exit_code(error: ConfideError) -> int:
    """Return the exit code for the family of an error."""
    match error:
        case BadDeclaration() | BadArgument():
            return WRONG_USE
        case Refusal():
            return REFUSED
        case _:
            return FAULT
