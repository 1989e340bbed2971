"""Commands about the ledger: what is spent, by whom, and whether it adds up."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from confide.cli.screen import make_table, percent, say, show_budget
from confide.cli.session import open_declared_ledger, warn_forgetful
from confide.curator import BudgetState
from confide.declare import Declaration, read_toml
from confide.errors import BadDeclaration
from confide.execution.pricing import Prices
from confide.ledger import Entry, Ledger, recount
from confide.release.formatting import plain

__all__ = ["export_ledger", "print_budget", "print_ledger", "print_recount"]

HEADINGS: Final[tuple[str, ...]] = ("entry", "time (UTC)", "analyst", "share", "state", "link")
RIGHT: Final = ("entry", "share")


def print_budget(console: Console, config: Path) -> None:
    """Print total, spent and left, and what each declared analyst has."""
    declaration = read_toml(config)
    ledger = open_declared_ledger(declaration)
    state = _state(Prices(declaration.budget, ledger), ledger)
    show_budget(console, state, declaration.budget.delta)
    if declaration.limits.analysts:
        _show_analysts(console, declaration, ledger)
    warn_forgetful(console, ledger)


def print_ledger(console: Console, config: Path, *, is_verified: bool) -> None:
    """Print every charge, and whether they add up."""
    ledger = open_declared_ledger(read_toml(config))
    if is_verified:
        ledger.verify()
    show_entries(console, ledger.entries())
    if is_verified:
        say(console, "balance and chain agree")
    warn_forgetful(console, ledger)


def export_ledger(console: Console, config: Path, path: Path) -> None:
    """Write the history into a file that is not there yet."""
    ledger = open_declared_ledger(read_toml(config))
    try:
        with path.open("x", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in ledger.export())
    except FileExistsError:
        raise BadDeclaration(f"{path} is there already; name another file") from None
    except OSError as error:
        raise BadDeclaration(
            f"{path} cannot be written ({error.strerror}); name another file"
        ) from error
    say(
        console,
        f"{path} has every charge and no values; whoever has it can run "
        f"`confide ledger --recount {path}`",
    )


def print_recount(console: Console, path: Path) -> None:
    """Print what an export adds up to; neither the ledger nor the data is needed."""
    try:
        with path.open(encoding="utf-8") as file:
            found = recount(file)
    except OSError as error:
        raise BadDeclaration(f"{path} cannot be read ({error.strerror}); name an export") from error
    spent, terms = found.filter.spent, found.filter
    loss = terms.loss_of(spent)
    epsilon = loss.epsilon_at(terms.delta)
    say(
        console,
        f"ledger {found.ledger}\n{found.entries:,} charges, {found.answered:,} of them answered\n"
        f"spent {percent(spent.fraction)} of epsilon {float(terms.epsilon):g}, delta "
        f"{float(terms.delta):g}: epsilon {epsilon:.4g}\nnewest link {found.digest}",
    )


def show_entries(console: Console, entries: Iterable[Entry]) -> None:
    """Print the history of the budget, oldest first: a line of facts, and the question below."""
    lines, questions = [HEADINGS], [""]
    for entry in entries:
        lines.append(_cells(entry))
        questions.append(plain(entry.question.text))
    if len(lines) == 1:
        say(console, "nothing was charged yet")
        return
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for cells, question in zip(lines, questions, strict=True):
        placed = (
            cell.rjust(width) if heading in RIGHT else cell.ljust(width)
            for heading, cell, width in zip(HEADINGS, cells, widths, strict=True)
        )
        say(console, "  ".join(placed).rstrip(), style="bold")
        if question:
            say(console, " " * (widths[0] + 2) + question)


def _cells(entry: Entry) -> tuple[str, ...]:
    return (
        str(entry.number),
        f"{entry.moment:%Y-%m-%d %H:%M}",
        plain(entry.question.analyst) or "-",
        percent(entry.share.fraction),
        entry.state,
        entry.digest[:12],
    )


def _show_analysts(console: Console, declaration: Declaration, ledger: Ledger) -> None:
    shares = ("limit", "spent", "left now")
    table = make_table("", *shares, title="Analysts", right=shares)
    for name in declaration.limits.analysts:
        allowed = ledger.allowance(name)
        table.add_row(
            Text(plain(name)),
            percent(allowed.total.fraction),
            percent(allowed.spent.fraction),
            percent(allowed.left.fraction, down=True),
        )
    console.print(table)


def _state(prices: Prices, ledger: Ledger) -> BudgetState:
    allowed = ledger.allowance()
    return BudgetState(
        total=prices.cost(allowed.total),
        spent=prices.cost(allowed.spent),
        left=prices.cost(allowed.left),
    )
