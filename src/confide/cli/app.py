"""The commands and their exit codes.

A command imports what it runs inside its body, so that ``confide --help`` stays quick.
"""

import sys
from typing import Final, NoReturn

import typer
from rich.console import Console

from confide.errors import BadDeclaration, ConfideError, Refusal

__all__ = ["app", "main"]

REFUSED: Final = 1
WRONG: Final = 2
FAULT: Final = 3

app = typer.Typer(
    name="confide",
    help="Ask about personal data and get differentially private answers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def describe() -> None:
    """Keep ``confide demo`` a command of its own while it is the only one."""


@app.command()
def demo() -> None:
    """Ask a small invented clinic a few questions, one for each mechanism."""
    from confide.cli.demo import run_demo

    run_demo(Console())


def main() -> NoReturn:
    """Run the command line; exit with 0, 1 (refusal), 2 (wrong use or declaration) or 3 (fault)."""
    try:
        app()
    except ConfideError as error:
        Console(stderr=True).print(f"{error.code}: {error}", style="red", markup=False)
        sys.exit(exit_code(error))
    sys.exit(0)


def exit_code(error: ConfideError) -> int:
    """Return the exit code of the family that ``error`` belongs to."""
    match error:
        case Refusal():
            return REFUSED
        case BadDeclaration():
            return WRONG
        case _:
            return FAULT
