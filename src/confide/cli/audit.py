"""The `confide audit` command."""

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from confide.audit import FULL, QUICK, Case, Finding, Report, Verdict, audit_declaration
from confide.cli.context import check_writable
from confide.cli.output import make_table, print_message
from confide.declare import read_toml
from confide.release.formatting import plain

__all__ = ["run_audit"]

SUBJECT_WIDTH = 48


def run_audit(console: Console, config: Path, page: Path, *, is_quick: bool) -> bool:
    """Run the audit, print a table, write the report; return whether no claim was disproved."""
    declaration = read_toml(config)
    check_writable(page)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("Opening", total=None)

        def advance(case: Case) -> None:
            progress.update(
                task,
                advance=1,
                description=plain(case.subject)[:SUBJECT_WIDTH].ljust(SUBJECT_WIDTH),
            )

        report = audit_declaration(
            declaration,
            QUICK if is_quick else FULL,
            begin=lambda count: progress.update(task, total=count),
            advance=advance,
        )
    show_report(console, report)
    page.write_text(report.to_html(), encoding="utf-8")
    print_message(console, f"Wrote the full report to {page}.")
    return not report.convicted


def show_report(console: Console, report: Report) -> None:
    """Print each audited subject, with the datasets that give the strongest evidence against it."""
    table = make_table("subject, and how the datasets differ", title="Audit", is_light=True)
    table.caption = str(report)
    table.add_column("claimed", max_width=len("delta 0.0138"))
    for heading in ("found", "samples"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", max_width=len(Verdict.ACQUITTED))
    strongest: dict[str, Finding] = {}
    for finding in report.findings:
        if _rank(finding) > _rank(strongest.get(finding.subject)):
            strongest[finding.subject] = finding
    for finding in strongest.values():
        table.add_row(*_cells(finding), style=_style(finding))
    console.print(table)


def _rank(finding: Finding | None) -> float:
    """Return the strength of a finding relative to its claim; None ranks lowest."""
    if finding is None:
        return -1.0
    if finding.verdict is Verdict.CONVICTED:
        return float("inf")
    return (
        0.0 if finding.evidence is None else finding.evidence.found / finding.evidence.claim.value
    )


def _cells(finding: Finding) -> list[Text]:
    evidence = finding.evidence
    values = ["", "", ""]
    if evidence is not None:
        values = [str(evidence.claim), f"{evidence.found:.3g}", f"{finding.samples:,}"]
    subject = Text(plain(finding.subject)).append(f"\n  {plain(finding.pair)}", style="dim")
    return [subject, *map(Text, values), Text(str(finding.verdict))]


def _style(finding: Finding) -> str:
    return "bold red" if finding.verdict is Verdict.CONVICTED else ""
