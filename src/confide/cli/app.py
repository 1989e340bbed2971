"""The commands and their exit codes.

A command imports what it runs inside its body, so that ``confide --help`` stays quick.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from rich.console import Console
from typer.core import TyperGroup

from confide.errors import BadDeclaration, ConfideError, Refusal

__all__ = ["app", "main"]

REFUSED: Final = 1
WRONG: Final = 2
FAULT: Final = 3


class Format(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


class _Commands(TyperGroup):
    """Turns the errors of every command into a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ConfideError as error:
            from confide.cli.figures import plain

            lines = "\n".join(map(plain, str(error).splitlines()))
            Console(stderr=True).print(
                f"{error.code}: {lines}", style="red", markup=False, highlight=False, soft_wrap=True
            )
            raise typer.Exit(exit_code(error)) from None


app = typer.Typer(
    name="confide",
    cls=_Commands,
    help="Ask about personal data and get differentially private answers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

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
Confidence = Annotated[str, typer.Option(help="How often --error is to be kept.")]
Question = Annotated[str, typer.Argument(metavar="SQL", help="One SELECT over declared tables.")]
HERE: Final = Path("confide.toml")


@app.command()
def demo(
    *,
    report: Annotated[Path, typer.Option(help="Where the page goes.")] = Path("demo-report.html"),
    mechanisms: Annotated[
        bool, typer.Option("--mechanisms", help="Run each mechanism once instead.")
    ] = False,
) -> None:
    """Ask a health survey a few questions, within a budget; write a page with charts."""
    if mechanisms:
        from confide.cli.mechanisms import run_mechanisms

        run_mechanisms(Console())
        return
    from confide.cli.demo import run_demo

    run_demo(Console(), report)


@app.command()
def init(
    data: Annotated[list[Path], typer.Argument(help="Parquet or CSV files.")],
    config: Config = HERE,
) -> None:
    """Draft a declaration from the names and types of columns; bounds are left to the owner."""
    from confide.cli.owner import draft_declaration

    draft_declaration(Console(), data, config)


@app.command()
def check(config: Config = HERE) -> None:
    """Compare the declaration with the data, for the owner's eyes."""
    from confide.cli.owner import check_declaration

    if not check_declaration(Console(), config):
        raise typer.Exit(WRONG)


@app.command()
def preview(
    question: Question,
    *,
    epsilon: Epsilon = None,
    share: Share = None,
    error: Error = None,
    confidence: Confidence = "0.95",
    config: Config = HERE,
) -> None:
    """Show what an answer would cost and how far off it would be; spends nothing."""
    from confide.cli.analyst import Want, preview_question

    preview_question(Console(), question, config, Want(epsilon, share, error, confidence))


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
    config: Config = HERE,
) -> None:
    """Ask a question and pay for the answer."""
    from confide.cli.analyst import Want, answer_question

    want = Want(epsilon, share, error, confidence)
    answer_question(question, config, want, form=form.value, plot=plot)


@app.command()
def budget(config: Config = HERE) -> None:
    """Show what of the budget is spent and what is left."""
    from confide.cli.owner import print_budget

    print_budget(Console(), config)


@app.command()
def ledger(
    *,
    verify: Annotated[bool, typer.Option("--verify", help="Recompute balance and chain.")] = False,
    config: Config = HERE,
) -> None:
    """Show every charge; with --verify, recompute them all."""
    from confide.cli.owner import print_ledger

    print_ledger(Console(), config, is_verified=verify)


def main() -> NoReturn:
    """Run the command line; exit with 0, 1 (refusal), 2 (wrong use or declaration) or 3 (fault)."""
    app()
    raise SystemExit(0)


def exit_code(error: ConfideError) -> int:
    """Return the exit code of the family that ``error`` belongs to."""
    match error:
        case Refusal():
            return REFUSED
        case BadDeclaration():
            return WRONG
        case _:
            return FAULT
