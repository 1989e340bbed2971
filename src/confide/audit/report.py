"""Audits of a declaration, and their reports; `confide audit` calls `audit_declaration`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from confide.audit.evidence import CONFIDENCE, Case, Finding, Verdict, run_cases
from confide.audit.mechanism_cases import holdout_cases, mechanism_cases
from confide.audit.method_cases import method_cases
from confide.audit.query_cases import epsilon_for, open_sides, query_cases
from confide.audit.worlds import PAIRS, Person
from confide.declare import Declaration, PublicTable, Table

__all__ = ["FULL", "QUICK", "Effort", "Report", "audit_declaration"]


@dataclass(frozen=True, slots=True)
class Effort:
    """The number of outputs per side, and the number of pairs of neighboring datasets.

    The number of outputs is ``mechanisms`` for a mechanism alone (fewer if it is slow), ``queries``
    for a query whose noise is drawn repeatedly, and ``methods`` for complete calls of a curator's
    methods.
    """

    mechanisms: int
    queries: int
    methods: int
    pairs: int


FULL: Final = Effort(mechanisms=65_536, queries=600, methods=80, pairs=len(Person))
QUICK: Final = Effort(mechanisms=8_192, queries=160, methods=32, pairs=2)


@dataclass(frozen=True, slots=True)
class Report:
    """All findings of an audit."""

    findings: tuple[Finding, ...]
    confidence: float
    finished: datetime

    @property
    def convicted(self) -> tuple[Finding, ...]:
        """The findings that disprove a claim."""
        return tuple(one for one in self.findings if one.verdict is Verdict.CONVICTED)

    def __str__(self) -> str:
        drawn = sum(2 * one.samples for one in self.findings)
        outcome = f"{len(self.convicted)} disproved" if self.convicted else "none disproved"
        return f"{len(self.findings)} claims tested with {drawn:,} outputs: {outcome}"

    def to_html(self) -> str:
        """Return the report as a self-contained HTML page."""
        rows = "\n".join(map(_write_row, self.findings))
        when = self.finished.strftime("%Y-%m-%d %H:%M UTC")
        return PAGE.format(
            summary=escape(str(self)), rows=rows, when=when, confidence=f"{self.confidence:.1%}"
        )


def _cases_without_data(effort: Effort) -> list[Case]:
    """Return the cases that need no declaration."""
    return [*mechanism_cases(effort.mechanisms), *holdout_cases(effort.mechanisms)]


def audit_declaration(
    declaration: Declaration,
    effort: Effort = FULL,
    *,
    begin: Callable[[int], None] = lambda _: None,
    advance: Callable[[Case], None] = lambda _: None,
) -> Report:
    """Return the report of an audit of mechanisms, holdout sessions, and a declaration's answers.

    Rows are synthesized from the declared columns. No private file is opened, and no budget of the
    declaration is spent. ``begin`` is called with the number of cases, and ``advance`` with each
    case before it runs.
    """
    tables: list[Table | PublicTable] = [*declaration.tables, *declaration.public_tables]
    epsilon = epsilon_for(declaration.budget)
    cases = _cases_without_data(effort)
    with TemporaryDirectory(prefix="confide-audit-") as folder:
        for index, people in enumerate(_choose_pairs(declaration, effort)):
            sides = open_sides(
                tables, declaration.budget, declaration.neighbours, people, Path(folder, str(index))
            )
            cases += query_cases(sides, effort.queries, epsilon=epsilon)
            if index == 0:
                cases += method_cases(sides, effort.methods, epsilon=epsilon)
        begin(len(cases))
        return _run(cases, advance)


def _choose_pairs(
    declaration: Declaration, effort: Effort
) -> Sequence[tuple[Person | None, Person]]:
    """Return the pairs to audit, with the high outlier first: it changes totals the most."""
    pairs = sorted(PAIRS[declaration.neighbours], key=lambda people: people[1] is not Person.HIGH)
    return pairs[: effort.pairs]


def _run(cases: list[Case], advance: Callable[[Case], None]) -> Report:
    findings = run_cases(cases, confidence=CONFIDENCE, advance=advance)
    return Report(tuple(findings), CONFIDENCE, datetime.now(UTC))


def _write_row(finding: Finding) -> str:
    evidence = finding.evidence
    cells = [
        finding.subject,
        finding.pair,
        finding.way,
        str(evidence.claim) if evidence else "",
        f"{evidence.found:.3g}" if evidence else "",
        f"{finding.samples:,}" if evidence else "",
        evidence.event if evidence else finding.note,
        str(finding.verdict),
    ]
    html = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr class="{finding.verdict.name.lower()}">{html}</tr>'


PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>confide audit</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; }}
table {{ border-collapse: collapse; font-size: 13px; }}
th, td {{ text-align: left; vertical-align: top; padding: .3rem .6rem; }}
td {{ border-top: 1px solid #ddd; }}
td:nth-child(5), td:nth-child(6) {{ text-align: right; font-variant-numeric: tabular-nums; }}
tr.convicted td {{ background: #fde0dc; font-weight: 600; }} tr.alike td {{ color: #666; }}
</style></head><body>
<h1>Audit</h1>
<p><strong>{summary}.</strong> Finished {when}.</p>
<p>Each line tests a claim on two neighboring datasets of synthetic rows that fit the declaration.
One half of the outputs selects an event that distinguishes the two datasets, and the other half
measures it. <em>Found</em> is the smallest value that is consistent with the counts; a smaller
claim is disproved. If all claims are true, none of them is disproved with a probability of at least
{confidence}. An audit can find errors, but it cannot prove that there are none.</p>
<table><thead><tr><th>Subject</th><th>Datasets differ in</th><th>Outputs</th><th>Claimed</th>
<th>Found</th><th>Samples per side</th><th>Best event</th><th>Verdict</th></tr></thead><tbody>
{rows}
</tbody></table></body></html>
"""
