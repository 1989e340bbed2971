"""`confide demo`: real people, a small budget, a few telling questions and a report."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from rich.console import Console

from confide.cli.questions import QUESTIONS, Asked, sample_table
from confide.cli.screen import budget_line, percent, say, show_figures
from confide.cli.session import check_writable
from confide.curator import Curator, Preview
from confide.declare import Budget
from confide.errors import BadDeclaration, Refusal
from confide.release.formatting import Figures, figures_of

__all__ = ["Outcome", "run_demo", "write_sample"]

EPSILON: Final = 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """A question and what came of it: figures, or the reason why there are none."""

    asked: Asked
    expected: str
    figures: Figures | None
    refusal: str
    cost: Fraction
    left: Fraction
    is_reused: bool


def run_demo(console: Console, report: Path) -> None:
    """Ask every question, print what came of it and write the report."""
    from confide.cli.report import write_report

    check_writable(report)
    with console.status("opening 8,366 people"):
        curator = Curator([sample_table()], budget=Budget(EPSILON))
    say(
        console,
        f"8,366 people of a US health survey, unweighted; the budget is epsilon {EPSILON}. "
        "Noise differs at every run.",
    )
    outcomes: list[Outcome] = []
    for number, asked in enumerate(QUESTIONS, start=1):
        outcome = ask(curator, asked)
        show_outcome(console, number, outcome, budget_line(curator.budget))
        outcomes.append(outcome)
    report.write_text(write_report(outcomes, EPSILON), encoding="utf-8")
    console.print()
    say(console, f"The same with charts: {report}")


def write_sample(console: Console, path: Path) -> None:
    """Write the survey's rows into a file, for own trials; they are in the public domain."""
    import duckdb

    if path.suffix.lower() not in (".csv", ".parquet"):
        raise BadDeclaration(f"--data must be a .csv or .parquet file, got {path.name!r}")
    check_writable(path)
    if path.exists():
        raise BadDeclaration(f"{path} is there already; remove it, or name another file")
    rows = duckdb.read_parquet(str(sample_table().source))
    if path.suffix.lower() == ".csv":
        rows.write_csv(str(path))
    else:
        rows.write_parquet(str(path))
    say(
        console,
        f"{path} holds 8,366 people of a US health survey; `confide init {path}` drafts a "
        "declaration",
    )


def ask(curator: Curator, asked: Asked) -> Outcome:
    """Return what comes of a question: an answer, or a refusal that costs nothing."""
    figures, refusal, expected, cost, is_reused = None, "", "", Fraction(0), False
    try:
        expected = _describe_error(curator.preview(asked.sql, **asked.want))
        answer = curator.sql(asked.sql, **asked.want)
        figures, cost, is_reused = figures_of(answer), answer.cost.share, answer.reused
    except Refusal as error:
        refusal = str(error)
    left = curator.budget.left.share
    return Outcome(asked, expected, figures, refusal, cost, left, is_reused)


def show_outcome(console: Console, number: int, outcome: Outcome, budget: str) -> None:
    """Print one question, its answer and the budget after it."""
    console.print()
    console.rule(f"[bold]{number}. {outcome.asked.title}", align="left")
    say(console, outcome.asked.sql, style="cyan", hang=2)
    if outcome.expected:
        say(console, outcome.expected, style="dim")
    if outcome.figures is not None:
        show_figures(console, outcome.figures)
    else:
        say(console, f"refused: {outcome.refusal}", style="yellow", hang=2)
    if outcome.asked.remark:
        say(console, outcome.asked.remark, style="italic")
    say(console, f"{describe_cost(outcome)}; {budget}")


def describe_cost(outcome: Outcome) -> str:
    """Return what a question cost, in words."""
    if outcome.figures is None:
        return "cost nothing: refused"
    if outcome.is_reused:
        return "cost nothing: asked before"
    return f"cost {percent(outcome.cost)}"


def _describe_error(preview: Preview) -> str:
    """Return how far off an answer will be, which is known before it is paid for."""
    known = [f"{name} +-{width:,.4g}" for name, width in preview.errors.items() if width]
    if preview.regret is not None:
        known = [f"a chosen group is within {preview.regret:,.4g} of the largest one left"]
    return f"known beforehand, at 95 %: {', '.join(known)}" if known else ""
