"""Commands of the owner: draft and check the declaration."""

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from rich.console import Console

from confide.cli.screen import show_findings
from confide.declare import PublicTable, Table, read_toml
from confide.declare.draft import DraftTable, draft_toml, name_table
from confide.declare.tables import NAME
from confide.engines.guesses import guess_kinds, say_conversion
from confide.engines.inspection import Finding, inspect_table, read_schema
from confide.engines.opening import Home, home_of, read_address
from confide.errors import BadDeclaration

__all__ = ["check_declaration", "draft_declaration"]


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
    console.print(
        f"{config} names {len(tables)} table(s). Open it, and finish the lines that begin with "
        '"# ": budget, unit, bounds. Then run `confide check`.',
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    for path, table in zip(map(Path, data), tables, strict=True):
        if table.is_guessed and not all(map(NAME.match, table.columns)):
            console.print(
                f"Some columns of {path.name} have names that cannot be declared. Make a copy with "
                f"plain names, and draft from that: {say_conversion(path)}",
                style="yellow",
                markup=False,
                highlight=False,
                soft_wrap=True,
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
        guess_kinds(path) if is_csv else read_schema(path),
        is_guessed=is_csv,
    )


def check_declaration(console: Console, config: Path) -> bool:
    """Print how the declaration fits the data; tell whether questions can be asked."""
    declaration = read_toml(config)
    tables: list[Table | PublicTable] = [*declaration.tables, *declaration.public_tables]
    findings: list[Finding] = []
    for table in tables:
        with console.status(f"reading {table.name}"):
            findings += inspect_table(table)
    findings.sort(key=lambda finding: not finding.is_problem)
    problems = sum(finding.is_problem for finding in findings)
    if findings:
        show_findings(console, findings)
        console.print(
            "These figures are exact and about real rows: keep them to yourself, and do not "
            "choose bounds by them.",
            style="yellow",
        )
    console.print(f"{problems} problem(s), {len(findings) - problems} note(s)", highlight=False)
    return not problems
