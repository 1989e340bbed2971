"""Commands for owners: `init`, `convert`, `check`, `budget`, and `ledger`."""

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from rich.console import Console
from rich.text import Text

from confide.cli.context import warn_without_ledger
from confide.cli.output import make_table, percent, print_message, show_budget, show_findings
from confide.curator import BudgetState, open_declared_ledger
from confide.declare import Declaration, PublicTable, Table, read_toml
from confide.declare import Text as TextColumn
from confide.declare.tables import is_column_name
from confide.engines.registry import FILE, read_address, scheme_of
from confide.errors import BadDeclaration, Fault
from confide.execution.pricing import Pricing
from confide.intake.check import CheckFinding, inspect_table
from confide.intake.convert import convert_csv
from confide.intake.csv_types import KINDS, conversion_hint, find_odd_titles, guess_formats
from confide.intake.draft import DraftColumn, DraftTable, draft_toml, name_table
from confide.intake.interview import complete_draft
from confide.intake.limits import suggest_limits
from confide.intake.sample import sample_file
from confide.ledger import Entry, Ledger, LostAnchor, check_ledger, recount
from confide.ledger import accept_lost_anchor as accept_loss
from confide.loss import Filter, auto_filter
from confide.release.formatting import plain

__all__ = [
    "accept_lost_anchor",
    "check_declaration",
    "convert_file",
    "draft_declaration",
    "export_ledger",
    "print_budget",
    "print_ledger",
    "print_recount",
    "print_suggested_limits",
]


def draft_declaration(
    console: Console, data: Sequence[str], config: Path, *, interactive: bool = False
) -> None:
    """Write a draft of the declaration, without overwriting an existing file."""
    if config.exists():
        raise _config_exists(config)
    tables: list[DraftTable] = []
    for source in data:
        tables.append(_draft_table(source, [table.name for table in tables], config))
    for path, table in zip(map(Path, data), tables, strict=True):
        if path.suffix.lower() == ".csv":
            _warn_of_values(console, path, table)
            _advise_conversion(console, path, table)
    text = complete_draft(tables, _ask(console)) if interactive else draft_toml(tables)
    try:
        with config.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise _config_exists(config) from None
    except OSError as error:
        raise BadDeclaration(
            f"`{config}` cannot be written ({error.strerror}). Choose another file name."
        ) from error
    named = ", ".join(table.name for table in tables)
    next_step = (
        "Run `confide check` to compare it with the data."
        if interactive
        else 'Complete the lines that start with "# " (budget, unit, bounds), then run '
        "`confide check`."
    )
    print_message(
        console,
        f"Wrote {config} with the tables {named}. {next_step}"
        if len(tables) > 1
        else f"Wrote {config} with the table {named}. {next_step}",
    )


def _config_exists(config: Path) -> BadDeclaration:
    return BadDeclaration(
        f"`{config}` already exists. Remove it, or choose another file with `--config`."
    )


def _ask(console: Console) -> Callable[[str, str], str]:
    """Return a function that asks the owner one thing and returns the answer or the default."""

    def ask(question: str, default: str) -> str:
        shown = f"{question} [{default}]: " if default else f"{question}: "
        return console.input(Text(shown)).strip() or default

    return ask


def _warn_of_values(console: Console, path: Path, table: DraftTable) -> None:
    """Print a warning if the first line of a file may be a row, whose values become names."""
    found = find_odd_titles(table.columns)
    if found:
        # Privacy: analysts see the names of columns, and the draft contains them.
        listed = ", ".join(map(plain, found[:3]))
        print_message(
            console,
            f"Some column names of {path.name} look like values: {listed}. If its "
            "first line is a row, delete the draft and add a line of names above that row.",
            style="yellow",
        )


def _advise_conversion(console: Console, path: Path, table: DraftTable) -> None:
    """Print the command that makes a readable copy, if some columns of the file need one."""
    if not all(map(is_column_name, table.columns)):
        reason = "names that cannot be declared"
    elif not set(guess_formats(path).values()) <= set(KINDS):
        reason = "amounts such as $1,234.50, decimal commas, or dates other than 2024-12-31"
    else:
        return
    print_message(
        console,
        f"Some columns of {path.name} have {reason}. Convert the file, then draft from the copy: "
        f"{conversion_hint(path)}",
        style="yellow",
    )


def _count(number: int, noun: str) -> str:
    """Return a number with a noun, in the plural unless the number is 1.

    >>> _count(1, "note"), _count(2_000, "note")
    ('1 note', '2,000 notes')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def convert_file(console: Console, path: Path, target: Path | None) -> None:
    """Write a copy that confide can read, and print the type of each column."""
    if path.is_dir():
        raise BadDeclaration(f"`{path}` is a folder. Pass the path of a CSV file.")
    copy = path.parent / f"{path.stem}.parquet" if target is None else target
    with console.status(Text(f"Reading {plain(path.name)}")):
        made = convert_csv(path, copy)
    lost, title = "unreadable cells", f"Columns of {plain(path.name)} in {plain(copy.name)}"
    table = make_table("original name", "new name", "type", lost, title=title, right=(lost,))
    for column in made.columns:
        unread = f"{column.unread:,}" if column.unread else ""
        table.add_row(Text(plain(column.title)), column.name, str(column.shape), unread)
    console.print(table)
    if made.long_rows:
        print_message(
            console,
            f"The header has fewer cells than {_count(made.long_rows, 'row')}. Extra cells were "
            "dropped, so check that the cells of these rows are in the right columns.",
            style="yellow",
        )
    print_message(
        console,
        "Unreadable cells are empty in the copy, and so are markers such as NA among numbers, "
        f"dates, and Booleans. Next, run `confide init {shlex.quote(str(copy))}`.",
    )


def _draft_table(source: str, taken: Sequence[str], config: Path) -> DraftTable:
    """Return the draft of a table in a file or at a URL."""
    if scheme_of(source) != FILE:
        columns = {name: DraftColumn(kind) for name, kind in read_address(source).items()}
        named = parse_qs(urlsplit(source).query)["table"][0]
        return DraftTable(name_table(named.rpartition(".")[2], taken), source, columns)
    path = Path(source)
    return DraftTable(
        name_table(path.stem, taken),
        Path(os.path.relpath(path, config.parent)).as_posix(),
        sample_file(path),
    )


def print_suggested_limits(
    console: Console, config: Path, table: str | None, options: dict[str, Any]
) -> None:
    """Print what limits on the rows of one person would drop, from counts that are charged."""
    declaration = read_toml(config)
    with console.status("counting rows per person"):
        found = suggest_limits(declaration, table, **options)
    title = f"Estimates for {plain(found.table)}"
    above, dropped = "people above", "rows dropped"
    shown = make_table("max_rows_per_unit", above, dropped, title=title, right=(above, dropped))
    for limit in found.limits:
        shown.add_row(f"{limit.rows:,}", f"{limit.units_above:.1%}", f"{limit.rows_dropped:.1%}")
        if not limit.units_above:
            break
    console.print(shown)
    print_message(
        console,
        f"Suggestion: max_rows_per_unit = {found.suggested}. It drops at most 5% of the rows, by "
        "these noisy estimates. Smaller limits mean less noise. max_groups_per_unit can be at most "
        f"as large. Cost: {percent(found.cost.share)} of the budget.",
    )
    if declaration.ledger is None:
        print_message(console, "Without [ledger], this cost is forgotten.", style="yellow")


def check_declaration(console: Console, config: Path) -> bool:
    """Print the differences between the declaration and the data; return whether it can be used."""
    declaration = read_toml(config)
    tables: list[Table | PublicTable] = [*declaration.tables, *declaration.public_tables]
    figures: list[CheckFinding] = []
    for table in tables:
        with console.status(f"Reading {table.name}"):
            figures += inspect_table(table)
    findings = [*figures, *_check_keys(declaration), *_check_ledger(declaration)]
    findings.sort(key=lambda finding: not finding.is_problem)
    problems = sum(finding.is_problem for finding in findings)
    if findings:
        show_findings(console, findings)
    if figures:
        print_message(
            console,
            "These values are exact and describe real rows. Do not publish them, and do not choose "
            "bounds from them.",
            style="yellow",
        )
    notes = len(findings) - problems
    print_message(console, f"{_count(problems, 'problem')}, {_count(notes, 'note')}")
    return not problems


def _check_keys(declaration: Declaration) -> Iterator[CheckFinding]:
    """Yield columns whose keys the budget can never release."""
    if declaration.budget.delta:
        return
    for table in declaration.tables:
        for name, column in table.columns.items():
            if isinstance(column, TextColumn):
                message = (
                    "With delta 0, undeclared keys of this column cannot be released. Set delta in "
                    "[budget], or declare a category with its values."
                )
                yield CheckFinding(table.name, name, message)


def _check_ledger(declaration: Declaration) -> Iterator[CheckFinding]:
    """Yield the reasons why an existing ledger does not match the declared budget."""
    if declaration.ledger is None:
        return
    try:
        check_ledger(
            declaration.ledger, _opening(declaration), neighbours=declaration.neighbours.value
        )
    except BadDeclaration as problem:
        yield CheckFinding("", "", str(problem), is_problem=True)
    except Fault as fault:
        reason = str(fault).split(". ")[0]
        yield CheckFinding("", "", f"{reason}. Check `url` in `[ledger]`.", is_problem=True)


def _opening(declaration: Declaration) -> Filter:
    """Return the declared budget as a filter, which an existing ledger must match."""
    budget = declaration.budget
    return auto_filter(budget.epsilon, budget.delta, budget.accounting)


HEADINGS: Final[tuple[str, ...]] = ("entry", "time (UTC)", "analyst", "share", "state", "hash")
RIGHT: Final = ("entry", "share")


def print_budget(console: Console, config: Path) -> None:
    """Print the total, spent, and remaining budget, and the budget of each declared analyst."""
    declaration = read_toml(config)
    ledger = open_declared_ledger(declaration)
    state = _state(Pricing(declaration.budget, ledger), ledger)
    show_budget(console, state, declaration.budget.delta)
    if declaration.limits.analysts:
        _show_analysts(console, declaration, ledger)
    warn_without_ledger(console, ledger)


def print_ledger(console: Console, config: Path, *, is_verified: bool) -> None:
    """Print every charge; with ``is_verified``, first verify the balance and the hash chain."""
    ledger = open_declared_ledger(read_toml(config))
    if is_verified:
        ledger.verify()
    show_entries(console, ledger.entries())
    _show_losses(console, ledger.lost_anchors())
    if is_verified:
        print_message(console, "The balance and the hash chain are consistent.")
    warn_without_ledger(console, ledger)


def accept_lost_anchor(console: Console, config: Path) -> None:
    """Record that the ledger's anchor is lost, so that the ledger can be opened again.

    Afterward it uses the declared anchor, or none.
    """
    declaration = read_toml(config)
    if declaration.ledger is None:
        raise BadDeclaration(
            "No ledger is declared, so no anchor can be lost. Check `[ledger]` in the declaration."
        )
    loss = accept_loss(
        declaration.ledger,
        _opening(declaration),
        neighbours=declaration.neighbours.value,
        anchor=declaration.anchor,
    )
    if loss is None:
        print_message(console, "The ledger has not lost its anchor. Nothing was changed.")
        return
    _show_losses(console, [loss])
    if loss.is_anchored:
        print_message(
            console,
            "The declared anchor now stores the newest hash of the ledger and detects old backups.",
        )
    else:
        print_message(
            console, "No anchor is declared, so the ledger continues without one.", style="yellow"
        )


def _show_losses(console: Console, losses: Iterable[LostAnchor]) -> None:
    """Print when the owner accepted the loss of an anchor, and at which record of the ledger."""
    for loss in losses:
        then = "named another anchor" if loss.is_anchored else "continued without an anchor"
        print_message(
            console,
            f"Record {loss.number}, {loss.moment:%Y-%m-%d %H:%M} UTC: the owner accepted the loss "
            f"of the anchor, and {then}. Earlier charges may be missing.",
            style="yellow",
        )


def export_ledger(console: Console, config: Path, path: Path) -> None:
    """Write every charge, without values, to a new file."""
    ledger = open_declared_ledger(read_toml(config))
    try:
        with path.open("x", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in ledger.export())
    except FileExistsError:
        raise BadDeclaration(f"`{path}` already exists. Choose another file name.") from None
    except OSError as error:
        raise BadDeclaration(
            f"`{path}` cannot be written ({error.strerror}). Choose another file name."
        ) from error
    print_message(
        console,
        f"Wrote every charge, without values, to {path}. To verify the total from this file alone, "
        f"run `confide ledger --recount {path}`.",
    )


def print_recount(console: Console, path: Path) -> None:
    """Print the recomputed total of an exported file; needs neither the ledger nor the data."""
    try:
        with path.open(encoding="utf-8") as file:
            found = recount(file)
    except OSError as error:
        raise BadDeclaration(
            f"`{path}` cannot be read ({error.strerror}). Pass a file that was written with "
            "`confide ledger --export`."
        ) from error
    spent, terms = found.filter.spent, found.filter
    epsilon = terms.epsilon_spent
    print_message(
        console,
        f"ledger {found.ledger}\n{found.entries:,} charges, {found.answered:,} of them answered\n"
        f"spent {percent(spent.fraction)} of epsilon {float(terms.epsilon):g}, delta "
        f"{float(terms.delta):g}: epsilon {epsilon:.4g}\nnewest hash {found.digest}",
    )
    _show_losses(console, found.lost_anchors)


def show_entries(console: Console, entries: Iterable[Entry]) -> None:
    """Print ledger entries, oldest first: a line of fields, with the query below it."""
    lines, queries = [HEADINGS], [""]
    for entry in entries:
        lines.append(_cells(entry))
        queries.append(plain(entry.question.text))
    if len(lines) == 1:
        print_message(console, "No charges yet.")
        return
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for cells, query in zip(lines, queries, strict=True):
        placed = (
            cell.rjust(width) if heading in RIGHT else cell.ljust(width)
            for heading, cell, width in zip(HEADINGS, cells, widths, strict=True)
        )
        print_message(console, "  ".join(placed).rstrip(), style="bold")
        if query:
            print_message(console, " " * (widths[0] + 2) + query)


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
    shares = ("limit", "spent", "remaining")
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


def _state(prices: Pricing, ledger: Ledger) -> BudgetState:
    allowed = ledger.allowance()
    return BudgetState(
        total=prices.cost(allowed.total),
        spent=prices.cost(allowed.spent),
        left=prices.cost(allowed.left),
    )
