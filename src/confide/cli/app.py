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
from typer.core import TyperGroup

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


class _Commands(TyperGroup):
    """A command group that turns errors into a message and an exit code."""

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
    help="Ask about personal data and get differentially private answers.",
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
            help="Show the version and exit.",
            callback=lambda value: _show_version(is_asked=value),
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Ask about personal data and get differentially private answers."""
    del version  # its callback has printed the version


Config = Annotated[Path, typer.Option("--config", help="The declaration file.")]
Epsilon = Annotated[
    str | None, typer.Option(help="What the answer may cost, as an epsilon of its own.")
]
Share = Annotated[
    str | None, typer.Option(help="What the answer may cost, as a part of the budget: 0.05 or 5%.")
]
Error = Annotated[
    str | None, typer.Option(help="How near every number must be; confide finds the least cost.")
]
Confidence = Annotated[
    str, typer.Option(help="How often --error, or what a preview tells, is to hold.")
]
Question = Annotated[str, typer.Argument(metavar="SQL", help="One SELECT over declared tables.")]
Url = Annotated[
    str | None,
    typer.Option(help="Ask this server instead; your token is in CONFIDE_TOKEN.", metavar="URL"),
]
DEFAULT_CONFIG: Final = Path("confide.toml")


@app.command()
def demo(
    *,
    report: Annotated[Path, typer.Option(help="Where the page goes.")] = Path("demo-report.html"),
    mechanisms: Annotated[
        bool, typer.Option("--mechanisms", help="Run each mechanism once instead.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Write the survey into this .csv or .parquet file instead, to try."),
    ] = None,
) -> None:
    """Ask a health survey a few questions, within a budget; write a page with charts."""
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
        list[str], typer.Argument(help="Parquet or CSV files, or tables of PostgreSQL by address.")
    ],
    *,
    interactive: Annotated[
        bool, typer.Option("--interactive", help="Ask for everything that the draft leaves open.")
    ] = False,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Draft a declaration from the names and types of columns; you add the bounds."""
    owners.draft_declaration(Console(), data, config, interactive=interactive)
    records.create_draft_key(Console(), config)


@app.command()
def convert(
    data: Annotated[Path, typer.Argument(metavar="FILE.csv", help="A CSV file of any kind.")],
    copy: Annotated[
        Path | None, typer.Argument(metavar="COPY.parquet", help="Where the copy goes.")
    ] = None,
) -> None:
    """Copy a CSV file with odd separators, numbers, dates or names into one that confide reads."""
    owners.convert_file(Console(), data, copy)


@app.command()
def check(config: Config = DEFAULT_CONFIG) -> None:
    """Compare the declaration with the data, for the owner's eyes."""
    if not owners.check_declaration(Console(), config):
        raise typer.Exit(WRONG_USE)


@app.command("suggest-limits")
def suggest_limits(
    table: Annotated[
        str | None, typer.Argument(help="A declared table; may be omitted if there is only one.")
    ] = None,
    *,
    share: Annotated[str, typer.Option(help="Share of the budget to spend, such as 1%.")] = "1%",
    yes: Annotated[
        bool, typer.Option("--yes", help="Confirm a cost above the owner's limit per query.")
    ] = False,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Suggest `max_rows_per_unit` from noisy counts of people by number of rows."""
    owners.print_suggested_limits(Console(), config, table, {"share": share, "confirm": yes})


@app.command()
def audit(
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer neighbours and outputs: about a minute.")
    ] = False,
    report: Annotated[Path, typer.Option(help="Where the page goes.")] = Path("audit-report.html"),
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Try to disprove the privacy of the declaration's answers, on invented rows."""
    if not audits.run_audit(Console(), config, report, is_quick=quick):
        raise typer.Exit(REFUSED)


@app.command()
def preview(
    question: Question,
    *,
    epsilon: Epsilon = None,
    share: Share = None,
    error: Error = None,
    confidence: Confidence = "0.95",
    url: Url = None,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Show what an answer would cost and how far off it would be; spends nothing."""
    want = analysts.PriceOptions(epsilon, share, error, confidence)
    analysts.preview_query(Console(), question, config, want, url=url)


@app.command()
def explain(
    question: Question,
    *,
    epsilon: Epsilon = None,
    share: Share = None,
    error: Error = None,
    confidence: Confidence = "0.95",
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Say in sentences what a question would do; reads no row and spends nothing."""
    analysts.explain_query(
        Console(), question, config, analysts.PriceOptions(epsilon, share, error, confidence)
    )


@app.command()
def sql(
    question: Question,
    *,
    epsilon: Epsilon = None,
    share: Share = None,
    error: Error = None,
    confidence: Confidence = "0.95",
    form: Annotated[Format, typer.Option("--format", help="How it is written.")] = Format.TABLE,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the answer into this .svg or .png file too.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Makes it safe to repeat: the same answer, charged once.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Pay for a new answer to a question asked before.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Confirm a cost above the owner's limit per query.")
    ] = False,
    url: Url = None,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Ask a question and pay for the answer."""
    want = analysts.PriceOptions(epsilon, share, error, confidence)
    options: dict[str, Any] = {"key": key, "fresh": fresh, "confirm": yes}
    analysts.answer_query(question, config, want, options, form=form.value, plot=plot, url=url)


@app.command()
def budget(config: Config = DEFAULT_CONFIG) -> None:
    """Show what of the budget is spent and what is left."""
    owners.print_budget(Console(), config)


@app.command()
def ledger(
    *,
    verify: Annotated[bool, typer.Option("--verify", help="Recompute balance and chain.")] = False,
    export: Annotated[
        Path | None, typer.Option(help="Write every charge, without values, into this file.")
    ] = None,
    again: Annotated[
        Path | None, typer.Option("--recount", help="Add up such a file; needs nothing else.")
    ] = None,
    accept: Annotated[
        bool,
        typer.Option("--accept-lost-anchor", help="Record that the anchor is lost, and go on."),
    ] = False,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Show every charge; with --verify, recompute them all."""
    if accept:
        owners.accept_lost_anchor(Console(), config)
    elif again is not None:
        owners.print_recount(Console(), again)
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
        str | None, typer.Option(help="Purpose of the answers; default: [record] of the file.")
    ] = None,
    contact: Annotated[
        str | None, typer.Option(help="Contact for questions; default: [record] of the file.")
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
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=64, help="How many processes answer.")] = 1,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Serve the curator over HTTP, with a page for people; callers need tokens."""
    servers.run_server(Console(), config, host, port, workers)


@app.command()
def token(
    name: Annotated[str | None, typer.Argument(help="The analyst, or the owner.")] = None,
    *,
    role: Annotated[Roles, typer.Option(help="What its holder may do.")] = Roles.ANALYST,
    days: Annotated[int, typer.Option(min=1, max=3660, help="How long it lives.")] = 90,
    share: Annotated[str | None, typer.Option(help="The most that it may spend: 5%.")] = None,
    may_confirm: Annotated[
        bool,
        typer.Option("--may-confirm", help="Let an agent confirm a cost above the owner's limit."),
    ] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Shut all tokens of NAME.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="Show all tokens.")] = False,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Make a token for the server, and print it once."""
    require_extra("confide.server", "server", "Tokens need")
    if listed:
        servers.list_tokens(Console(), config)
    elif name is None:
        raise BadDeclaration("say whose token: confide token NAME")
    elif revoke:
        servers.revoke_tokens(Console(), config, name)
    else:
        rights: dict[str, Any] = {"share": share, "may_confirm": may_confirm}
        servers.make_token(Console(), config, name, role=role.value, days=days, **rights)


@app.command()
def mcp(url: Url = None, config: Config = DEFAULT_CONFIG) -> None:
    """Serve tools for a language model on the standard streams, within a token's limits."""
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
