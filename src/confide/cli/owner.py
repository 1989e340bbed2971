"""Commands of the owner: copy a file, draft and check the declaration."""

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from rich.console import Console
from rich.text import Text

from confide.cli.screen import make_table, say, show_findings
from confide.declare import Declaration, Kind, PublicTable, Table, read_toml
from confide.declare import Text as TextColumn
from confide.declare.tables import NAME
from confide.engines.registry import Home, home_of, read_address
from confide.errors import BadDeclaration, Fault
from confide.intake.check import Finding, inspect_table, read_schema
from confide.intake.convert import convert_csv
from confide.intake.csv_types import KINDS, guess_shapes, say_conversion
from confide.intake.draft import DraftTable, draft_toml, name_table
from confide.ledger import check_ledger
from confide.loss import auto_filter
from confide.release.formatting import plain

__all__ = ["check_declaration", "convert_file", "draft_declaration"]


def draft_declaration(console: Console, data: Sequence[str], config: Path) -> None:
    """Write a draft of the declaration; a file that is there already stays as it is."""
    tables: list[DraftTable] = []
    for source in data:
        tables.append(_draft_table(source, [table.name for table in tables], config))
    try:
        with config.open("x", encoding="utf-8") as file:
            file.write(draft_toml(tables))
    except FileExistsError:
        raise BadDeclaration(
            f"{config} is there already; remove it, or draft into another file with --config"
        ) from None
    except OSError as error:
        raise BadDeclaration(
            f"{config} cannot be written ({error.strerror}); name another file"
        ) from error
    say(
        console,
        f"{config} names {len(tables)} table(s). Open it, and finish the lines that begin with "
        '"# ": budget, unit, bounds. Then run `confide check`.',
    )
    for path, table in zip(map(Path, data), tables, strict=True):
        if not table.is_guessed:
            continue
        if not all(map(NAME.match, table.columns)):
            _advise(console, path, "names that cannot be declared")
        elif not set(guess_shapes(path).values()) <= set(KINDS):
            _advise(console, path, "decimal commas, or dates that are not written 2024-12-31")


def _advise(console: Console, path: Path, what: str) -> None:
    say(
        console,
        f"Some columns of {path.name} have {what}. Make a copy with plain names and types, and "
        f"draft from that: {say_conversion(path)}",
        style="yellow",
    )


def convert_file(console: Console, path: Path, target: Path | None) -> None:
    """Write a copy that confide can read, and print how each column was read."""
    if path.is_dir():
        raise BadDeclaration(f"{path} is a folder; name a CSV file in it")
    copy = path.parent / f"{path.stem}.parquet" if target is None else target
    with console.status(Text(f"reading {plain(path.name)}")):
        made = convert_csv(path, copy)
    lost, title = "cells not read", f"{plain(path.name)}, as {plain(copy.name)} has it"
    table = make_table("in the file", "in the copy", "read as", lost, title=title, right=(lost,))
    for column in made.columns:
        unread = f"{column.unread:,}" if column.unread else ""
        table.add_row(Text(plain(column.title)), column.name, str(column.shape), unread)
    console.print(table)
    if made.long_rows:
        say(
            console,
            f"{made.long_rows:,} row(s) have more cells than the first line has names; what is too "
            "much was left out, so look whether their cells stand in the right columns.",
            style="yellow",
        )
    say(
        console,
        "Cells that were not read are empty in the copy, and so is NA or the like among numbers, "
        "dates and flags. Draft from it: confide init "
        f"{shlex.quote(str(copy))}",
    )


def _draft_table(source: str, taken: Sequence[str], config: Path) -> DraftTable:
    """Return what is known of a file, or of a table by its address."""
    if home_of(source) is not Home.FILES:
        columns = read_address(source)
        named = parse_qs(urlsplit(source).query)["table"][0]
        return DraftTable(name_table(named.rpartition(".")[2], taken), source, columns)
    path = Path(source)
    is_csv = path.suffix.lower() == ".csv"
    return DraftTable(
        name_table(path.stem, taken),
        Path(os.path.relpath(path, config.parent)).as_posix(),
        _guess_kinds(path) if is_csv else read_schema(path),
        is_guessed=is_csv,
    )


def _guess_kinds(path: Path) -> dict[str, Kind | None]:
    return {name: KINDS.get(shape, Kind.TEXT) for name, shape in guess_shapes(path).items()}


def check_declaration(console: Console, config: Path) -> bool:
    """Print how the declaration fits the data; tell whether questions can be asked."""
    declaration = read_toml(config)
    tables: list[Table | PublicTable] = [*declaration.tables, *declaration.public_tables]
    figures: list[Finding] = []
    for table in tables:
        with console.status(f"reading {table.name}"):
            figures += inspect_table(table)
    findings = [*figures, *_check_keys(declaration), *_check_ledger(declaration)]
    findings.sort(key=lambda finding: not finding.is_problem)
    problems = sum(finding.is_problem for finding in findings)
    if findings:
        show_findings(console, findings)
    if figures:
        say(
            console,
            "These figures are exact and about real rows: keep them to yourself, and do not "
            "choose bounds by them.",
            style="yellow",
        )
    say(console, f"{problems} problem(s), {len(findings) - problems} note(s)")
    return not problems


def _check_keys(declaration: Declaration) -> Iterator[Finding]:
    """Look for columns whose keys the budget can never name."""
    if declaration.budget.delta:
        return
    for table in declaration.tables:
        for name, column in table.columns.items():
            if isinstance(column, TextColumn):
                message = (
                    "with delta 0 no key of a text can be named; write delta in [budget], or "
                    "declare a category with its values"
                )
                yield Finding(table.name, name, message)


def _check_ledger(declaration: Declaration) -> Iterator[Finding]:
    """Look whether a ledger that is there keeps the budget that is declared."""
    if declaration.ledger is None:
        return
    budget = declaration.budget
    opening = auto_filter(budget.epsilon, budget.delta, budget.accounting)
    try:
        check_ledger(declaration.ledger, opening, neighbours=declaration.neighbours.value)
    except BadDeclaration as problem:
        yield Finding("", "", str(problem), is_problem=True)
    except Fault as fault:
        reason = str(fault).split(";")[0]
        yield Finding("", "", f"{reason}; look at url in [ledger]", is_problem=True)
