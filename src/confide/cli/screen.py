"""What the commands print."""

import math
from fractions import Fraction

from rich.console import Console
from rich.table import Table
from rich.text import Text

from confide.curator import BudgetState
from confide.engines.inspection import Finding
from confide.release.figures import Figures, Tabular, percent, plain

__all__ = [
    "budget_line",
    "percent",
    "show_budget",
    "show_figures",
    "show_findings",
    "show_paid",
]

BAR = 30


def show_figures(console: Console, figures: Figures) -> None:
    """Print an answer: each noisy column with its 95 % interval beside it."""
    noisy = set(figures.noisy_columns())
    table = Table()
    for name in figures.columns:
        table.add_column(Text(plain(name)), justify="right" if name in noisy else "left")
        if name in noisy:
            table.add_column("95 % interval", justify="right", style="dim")
    for row in figures.rows:
        cells: list[Text] = []
        for name, cell in zip(figures.columns, row, strict=True):
            cells += [Text(cell.text), Text(cell.interval)] if name in noisy else [Text(cell.text)]
        table.add_row(*cells)
    console.print(table)


def show_paid(console: Console, answer: Tabular, state: BudgetState) -> None:
    """Print what an answer cost and what is left."""
    paid = "nothing: asked before" if answer.reused else f"{percent(answer.cost.share)}"
    console.print(f"cost {paid}; {budget_line(state)}", markup=False, highlight=False)
    if answer.reused:
        console.print("a new answer must be paid for: add --fresh", highlight=False)


def budget_line(state: BudgetState) -> str:
    """Return the budget as a bar and what is left of it, rounded down."""
    full = math.floor(state.left.share * BAR)
    bar = "#" * full + "." * (BAR - full)
    return f"budget [{bar}] {percent(state.left.share, down=True)} left"


def show_budget(console: Console, state: BudgetState, delta: Fraction) -> None:
    """Print total, spent and left."""
    table = Table(title="Budget")
    for heading in ("", "share", f"epsilon at delta {float(delta):g}"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, cost in (("total", state.total), ("spent", state.spent), ("left", state.left)):
        table.add_row(name, percent(cost.share, down=name == "left"), f"{cost.epsilon:.4g}")
    console.print(table)


def show_findings(console: Console, findings: list[Finding]) -> None:
    """Print how a declaration fits its data, problems first."""
    table = Table(title="The declaration beside the data")
    for heading in ("", "table", "column", "finding"):
        table.add_column(heading)
    for finding in findings:
        mark = Text("problem", style="red") if finding.is_problem else Text("note")
        table.add_row(
            mark, finding.table, Text(plain(finding.column)), Text(plain(finding.message))
        )
    console.print(table)
