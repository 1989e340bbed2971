"""Tables and messages that fit the terminal, for all commands."""

import math
import re
import textwrap
from collections.abc import Container
from fractions import Fraction
from typing import Final, Literal

from rich.box import HEAVY_HEAD, SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from confide.curator import BudgetState
from confide.intake.check import CheckFinding
from confide.release.formatting import Figures, Tabular, percent, plain

__all__ = [
    "budget_line",
    "make_table",
    "name_options",
    "percent",
    "print_message",
    "show_budget",
    "show_figures",
    "show_findings",
    "show_paid",
]

BAR_WIDTH: Final = 30
MIN_WIDTH: Final = 40
MIN_TEXT_WIDTH: Final = 24
MAX_WIDTH: Final = 100_000
CARETS: Final = re.compile(r" *\^+")
ARGUMENT: Final = re.compile(
    r"""(?<!\w)(?P<quote>['"])(?:(?!(?P=quote))[^\\]|\\.)*(?P=quote)"""
    r"|(?<![\w(-])(?P<name>epsilon|share|error|confidence|fresh|confirm)="
    r"(?P<value>(?>\w[\w.%/]*\b|))(?!, delta)"
)
"""A quoted string or a keyword argument; an apostrophe within a word does not begin a string."""


def print_message(console: Console, text: str, *, style: str = "", hang: int = 0) -> None:
    """Print a message, wrapped at spaces on a terminal and unchanged elsewhere.

    A line that is marked by carets below it is never wrapped. Continuation lines are indented
    ``hang`` columns more than the first line.
    """
    lines = text.splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        is_marked = CARETS.fullmatch(below) or CARETS.fullmatch(line)
        shown = line if is_marked or not console.is_terminal else _fill(line, console.width, hang)
        console.print(Text(shown), style=style, soft_wrap=True)


def _fill(line: str, width: int, hang: int) -> str:
    """Return a line wrapped to ``width`` columns.

    >>> print(_fill("  line 3: epsilon is missing", 20, 2))
      line 3: epsilon is
        missing
    """
    begins = len(line) - len(line.lstrip())
    indent = " " * (begins + hang if begins + hang + MIN_TEXT_WIDTH <= width else begins)
    return textwrap.fill(
        line,
        max(width, MIN_WIDTH),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def name_options(message: str) -> str:
    """Return a message with Python keyword arguments rewritten as command-line options.

    Arguments inside a call, or followed by a delta, describe a budget. They stay unchanged, and so
    do quoted strings.

    >>> name_options("pass epsilon= or share=; share=5 is too much; ask with fresh=True")
    'pass --epsilon or --share; --share 5 is too much; ask with --fresh'
    >>> name_options("To pay this much, pass confirm=True.")
    'To pay this much, pass --yes.'
    >>> name_options("such as Budget(epsilon=1.0), or epsilon=2, delta=1e-8")
    'such as Budget(epsilon=1.0), or epsilon=2, delta=1e-8'
    >>> name_options("'epsilon=1' is not a day")
    "'epsilon=1' is not a day"
    """
    return ARGUMENT.sub(_name_option, message)


def _name_option(found: re.Match[str]) -> str:
    name, value = found["name"], found["value"]
    if name == "confirm":
        return "--yes"
    return f"--{name} {value.removeprefix('True')}".rstrip() if name else found[0]


def make_table(
    *headings: str, title: str = "", right: Container[str] = (), is_light: bool = False
) -> Table:
    """Return a table without rows, whose cells wrap instead of being truncated.

    A light table has no lines between columns, which leaves more room for text.
    """
    box, padding = (SIMPLE_HEAD, (0, 1, 0, 0)) if is_light else (HEAVY_HEAD, (0, 1, 0, 1))
    named = Text(title, style="table.title") if title else None
    table = Table(title=named, box=box, padding=padding, pad_edge=not is_light)
    for heading in headings:
        _add_column(table, heading, is_right=heading in right)
    return table


def _add_column(table: Table, heading: str, *, is_right: bool) -> None:
    side: Literal["left", "right"] = "right" if is_right else "left"
    table.add_column(Text(plain(heading)), justify=side, overflow="fold")


def show_figures(console: Console, figures: Figures) -> None:
    """Print an answer with a 95% interval next to each noisy column."""
    wide = _wide_table(figures)
    needed = console.measure(wide, options=console.options.update(width=MAX_WIDTH)).maximum
    is_narrow = needed > console.width
    console.print(_narrow_table(figures) if is_narrow and figures.noisy_columns() else wide)


def _wide_table(figures: Figures) -> Table:
    """Return a table with one row per group."""
    noisy = set(figures.noisy_columns())
    table = Table()
    for name in figures.columns:
        _add_column(table, name, is_right=name in noisy)
        if name in noisy:
            table.add_column("95% interval", justify="right", style="dim")
    for row in figures.rows:
        cells: list[Text] = []
        for name, cell in zip(figures.columns, row, strict=True):
            cells += [Text(cell.text), Text(cell.interval)] if name in noisy else [Text(cell.text)]
        table.add_row(*cells)
    return table


def _narrow_table(figures: Figures) -> Table:
    """Return a table with one row per number."""
    noisy = figures.noisy_columns()
    keys = [name for name in figures.columns if name not in noisy]
    table = make_table(*keys, "column", "value", "95% interval", right=("value", "95% interval"))
    for row in figures.rows:
        cells = dict(zip(figures.columns, row, strict=True))
        named = [Text(cells[key].text) for key in keys]
        for name in noisy:
            cell = cells[name]
            table.add_row(*named, Text(plain(name)), Text(cell.text), Text(cell.interval))
            named = [Text("")] * len(keys)
        table.add_section()
    return table


def show_paid(console: Console, answer: Tabular, state: BudgetState) -> None:
    """Print the cost of an answer and the remaining budget."""
    for note in answer.notes:
        print_message(console, plain(note))
    paid = "nothing (stored answer)" if answer.reused else f"{percent(answer.cost.share)}"
    print_message(console, f"cost {paid}; {budget_line(state)}")
    if answer.reused:
        print_message(console, "To pay for a new answer, add --fresh.")


def budget_line(state: BudgetState) -> str:
    """Return the remaining budget as a bar and as a percentage, rounded down."""
    full = math.floor(state.left.share * BAR_WIDTH)
    bar = "#" * full + "." * (BAR_WIDTH - full)
    return f"budget [{bar}] {percent(state.left.share, down=True)} left"


def show_budget(console: Console, state: BudgetState, delta: Fraction) -> None:
    """Print the total, spent, and remaining budget."""
    epsilon = f"epsilon at delta {float(delta):g}"
    table = make_table("", "share", epsilon, title="Budget", right=("share", epsilon))
    for name, cost in (("total", state.total), ("spent", state.spent), ("remaining", state.left)):
        is_left = cost is state.left
        table.add_row(name, percent(cost.share, down=is_left), f"{cost.epsilon:.4g}")
    console.print(table)


def show_findings(console: Console, findings: list[CheckFinding]) -> None:
    """Print the differences between a declaration and its data, problems first."""
    table = make_table("", "table", "column", "finding", title="Comparison with the data")
    for finding in findings:
        mark = Text("problem", style="red") if finding.is_problem else Text("note")
        table.add_row(
            mark, finding.table, Text(plain(finding.column)), Text(plain(finding.message))
        )
    console.print(table)
