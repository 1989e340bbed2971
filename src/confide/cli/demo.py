"""`confide demo`: queries on the sample survey with an HTML report, and single mechanisms.

The mechanisms run on an invented clinic. Each patient counts once in every query on it, and
neighboring datasets differ in one patient. So a count changes by at most 1, and a sum of nights by
at most `MAX_NIGHTS`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from confide.cli.context import check_writable
from confide.cli.output import budget_line, make_table, percent, print_message, show_figures
from confide.curator import Curator, Preview
from confide.declare import Budget
from confide.errors import BadDeclaration, Refusal
from confide.examples.sample import sample_table
from confide.intake.convert import copy_parquet
from confide.loss import Loss, compose
from confide.mechanisms import Exponential, Gaussian, Laplace, PermuteAndFlip, SparseVector
from confide.release.formatting import Figures, draw_charts, figures_of

__all__ = [
    "QUERIES",
    "DemoQuery",
    "Outcome",
    "run_demo",
    "run_mechanisms",
    "write_report",
    "write_sample",
]

SMOKERS: Final = 87
WARDS: Final = {"north": 61, "south": 96, "west": 83}
NIGHTS: Final = 731
MAX_NIGHTS: Final = 14
CONDITIONS: Final = {"asthma": 31, "diabetes": 52, "hypertension": 74, "migraine": 28, "other": 55}
CALLS_PER_MONTH: Final = {"January": 12, "February": 19, "March": 54, "April": 22}
CALL_THRESHOLD: Final = 40
DELTA: Final = 1e-6


@dataclass(frozen=True, slots=True)
class DemoRow:
    """One line about a mechanism: its query, answer, interval, and loss."""

    mechanism: str
    query: str
    answer: str
    interval: str
    loss: Loss


def run_mechanisms(console: Console) -> None:
    """Print one line for each mechanism, and their total cost."""
    lines = [
        count_smokers(),
        count_wards(),
        sum_nights(),
        choose_condition(),
        flip_condition(),
        watch_months(),
    ]
    headings = ("mechanism", "query", "answer", "95% interval", "loss")
    title = "Synthetic clinic with 240 patients (answers differ in each run)"
    table = make_table(*headings, title=title, is_light=True)
    for line in lines:
        table.add_row(line.mechanism, line.query, line.answer, line.interval, cost(line.loss))
    console.print(table)
    together = compose([line.loss for line in lines]).epsilon_at(DELTA)
    print_message(
        console, f"All mechanisms together: epsilon {text_above(together)} at delta {DELTA:g}."
    )


def count_smokers() -> DemoRow:
    """Return the line about a noisy count."""
    mechanism = Laplace(sensitivity=1, epsilon=0.5)
    answer = int(mechanism.release(SMOKERS))
    interval = around(answer, mechanism.interval(0.95))
    return DemoRow("Laplace", "How many patients smoke?", str(answer), interval, mechanism.loss)


def count_wards() -> DemoRow:
    """Return the line about a noisy histogram.

    A patient is in one ward, so one more patient changes all counts together by 1.
    """
    mechanism = Laplace(sensitivity=1, epsilon=0.5)
    answers = [int(count) for count in mechanism.release(list(WARDS.values()))]
    intervals = [around(answer, mechanism.interval(0.95)) for answer in answers]
    named = (f"{ward} {answer}" for ward, answer in zip(WARDS, answers, strict=True))
    return DemoRow(
        "Laplace, 3 cells",
        "How many are in each ward?",
        "\n".join(named),
        "\n".join(intervals),
        mechanism.loss,
    )


def sum_nights() -> DemoRow:
    """Return the line about a noisy sum of bounded values."""
    mechanism = Gaussian(sensitivity=MAX_NIGHTS, epsilon=1.0, delta=DELTA)
    answer = int(mechanism.release(NIGHTS))
    interval = around(answer, mechanism.interval(0.95))
    query = f"How many nights in total, at most {MAX_NIGHTS} per patient?"
    return DemoRow("Gaussian", query, str(answer), interval, mechanism.loss)


def choose_condition() -> DemoRow:
    """Return the line about the choice of the largest of several counts."""
    mechanism = Exponential(sensitivity=1, epsilon=0.5)
    chosen = list(CONDITIONS)[mechanism.choose(list(CONDITIONS.values()))]
    return DemoRow("Exponential", "Which condition is most common?", chosen, "", mechanism.loss)


def flip_condition() -> DemoRow:
    """Return the line about permute-and-flip, which has a smaller error at the same epsilon."""
    mechanism = PermuteAndFlip(sensitivity=1, epsilon=0.5)
    chosen = list(CONDITIONS)[mechanism.choose(list(CONDITIONS.values()))]
    return DemoRow(
        "Permute-and-flip", "Which condition is most common?", chosen, "", mechanism.loss
    )


def watch_months() -> DemoRow:
    """Return the line about a sparse vector: it finds the first month above a threshold.

    The cost does not depend on the number of months below the threshold.
    """
    mechanism = SparseVector(CALL_THRESHOLD, above=1, sensitivity=1, epsilon=1.0)
    found = next(
        (month for month, calls in CALLS_PER_MONTH.items() if mechanism.ask(calls)), "none"
    )
    query = f"First month with more than {CALL_THRESHOLD} calls?"
    return DemoRow("Sparse vector", query, found, "", mechanism.loss)


def around(answer: int, noise: Sequence[float]) -> str:
    """Return the interval for the exact value: the answer minus the noise, from low to high."""
    low, high = noise
    return f"{math.floor(answer - high)} to {math.ceil(answer - low)}"


def cost(loss: Loss) -> str:
    """Return a loss as a string, rounded up."""
    if math.isfinite(loss.epsilon):
        return f"epsilon {text_above(loss.epsilon)}"
    return f"mu {text_above(loss.mu)}"


def text_above(value: float | Fraction) -> str:
    """Return ``value`` as a string, rounded up to four decimals.

    >>> text_above(0.5), text_above(0.25001), text_above(Fraction(1, 3))
    ('0.5', '0.2501', '0.3334')
    """
    return f"{Decimal(math.ceil(Fraction(value) * 10_000)) / 10_000:f}"


@dataclass(frozen=True, slots=True)
class DemoQuery:
    """One query of the demo, with its title, SQL, cost or target margin of error, and remark."""

    title: str
    sql: str
    want: Mapping[str, Any]
    remark: str = ""


QUERIES: Final = (
    DemoQuery(
        "How many are 65 or older?",
        "SELECT COUNT(*) AS people FROM people WHERE age >= 65",
        {"epsilon": 0.05},
        "Adding or removing a person changes a count by 1, so little noise protects everyone.",
    ),
    DemoQuery(
        "Does blood pressure rise with age?",
        "SELECT CASE WHEN age < 20 THEN 'below 20' WHEN age < 40 THEN '20 to 39'\n"
        "            WHEN age < 60 THEN '40 to 59' ELSE '60 and above' END AS years,\n"
        "       AVG(systolic) AS systolic\n"
        "FROM people GROUP BY years",
        {"epsilon": 0.2},
        "Groups do not overlap, so four groups cost no more than one.",
    ),
    DemoQuery(
        "Who has smoked, by education?",
        "SELECT education, COUNT(*) FILTER (WHERE ever_smoked) / COUNT(ever_smoked) AS smoked\n"
        "FROM people GROUP BY education ORDER BY smoked DESC",
        {"epsilon": 0.3},
        "This is a ratio of two statistics. Both are paid for once, and the division is free.",
    ),
    DemoQuery(
        "How do people rate their health, and how long do they sleep?",
        "SELECT health, COUNT(*) AS people, AVG(sleep_hours) AS hours\nFROM people GROUP BY health",
        {"epsilon": 0.3},
        "Few people say 'Poor', so the interval of their mean is wider.",
    ),
    DemoQuery(
        "Are people with diabetes heavier for their height?",
        "SELECT diabetes,\n"
        "       AVG(LEAST(weight_kg / (height_cm / 100 * (height_cm / 100)), 60)) AS bmi\n"
        "FROM people WHERE age >= 20 GROUP BY diabetes",
        {"epsilon": 0.3},
        "LEAST prevents one extreme value from determining the scale of the noise.",
    ),
    DemoQuery(
        "How many hours do all of them sleep on a workday?",
        "SELECT SUM(sleep_hours) AS hours FROM people",
        {"epsilon": 0.05},
    ),
    DemoQuery(
        "How many have no health insurance, with a margin of error of 40?",
        "SELECT COUNT(*) AS people FROM people WHERE NOT insured",
        {"error": 40},
        "confide finds the lowest cost that meets the target margin of error.",
    ),
    DemoQuery(
        "What is the median weight of adults?",
        "SELECT sex, MEDIAN(weight_kg) AS middle FROM people WHERE age >= 20 GROUP BY sex",
        {"epsilon": 0.3},
        "A quantile is chosen by rank, so wide bounds hardly affect its accuracy.",
    ),
    DemoQuery(
        "What are the mean and standard deviation of cholesterol?",
        "SELECT sex, AVG(cholesterol) AS mean, STDDEV(cholesterol) AS deviation\n"
        "FROM people GROUP BY sex",
        {"epsilon": 0.2},
    ),
    DemoQuery(
        "Which combinations of education and health are most common?",
        "SELECT education, health FROM people\n"
        "GROUP BY education, health ORDER BY COUNT(*) DESC LIMIT 3",
        {"epsilon": 0.1},
        "The query selects the 3 largest of 25 groups, without their counts. It would cost the "
        "same with 2,500 groups.",
    ),
    DemoQuery(
        "How much does the heaviest person weigh?",
        "SELECT MAX(weight_kg) FROM people",
        {"epsilon": 0.1},
        "A maximum is the value of one person, so it is refused. A refusal costs nothing.",
    ),
    DemoQuery(
        "How many are 65 or older, in a different spelling?",
        "select count(*) as people\nfrom people\nwhere (age) >= 65",
        {"epsilon": 0.05},
        "A repeated query returns the stored answer for free, so repetition does not remove noise.",
    ),
    DemoQuery(
        "What are the mean weights by age and sex, at a high cost?",
        "SELECT age, sex, AVG(weight_kg) AS weight FROM people GROUP BY age, sex",
        {"epsilon": 2.0},
        "A query that exceeds the remaining budget is refused before any row is read.",
    ),
)


EPSILON: Final = 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a query: its result, or the reason for a refusal.

    ``expected`` describes the margins of error that the preview showed, and ``left`` is the
    remaining share of the budget.
    """

    query: DemoQuery
    expected: str
    figures: Figures | None
    refusal: str
    cost: Fraction
    left: Fraction
    is_reused: bool


def run_demo(console: Console, report: Path) -> None:
    """Run every query, print the outcomes, and write the report."""
    check_writable(report)
    with console.status("Opening the sample data"):
        curator = Curator([sample_table()], budget=Budget(EPSILON))
    print_message(
        console,
        f"8,366 people from a US health survey, unweighted. The total budget is epsilon {EPSILON}. "
        "Noise differs in each run.",
    )
    outcomes: list[Outcome] = []
    for number, query in enumerate(QUERIES, start=1):
        outcome = ask(curator, query)
        show_outcome(console, number, outcome, budget_line(curator.budget))
        outcomes.append(outcome)
    report.write_text(write_report(outcomes, EPSILON), encoding="utf-8")
    console.print()
    print_message(console, f"Wrote a report with charts to {report}.")


def write_sample(console: Console, path: Path) -> None:
    """Write the survey, which is in the public domain, to a CSV or Parquet file."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise BadDeclaration(f"`--data` must be a .csv or .parquet file; got {path.name!r}.")
    check_writable(path)
    if path.exists():
        raise BadDeclaration(f"`{path}` already exists. Remove it, or choose another file name.")
    copy_parquet(Path(str(sample_table().source)), path)
    print_message(
        console,
        f"Wrote 8,366 people from a US health survey to {path}. To draft a declaration, run "
        f"`confide init {path}`.",
    )


def ask(curator: Curator, query: DemoQuery) -> Outcome:
    """Return the outcome of a query; a refused query costs nothing."""
    figures, refusal, expected, cost, is_reused = None, "", "", Fraction(0), False
    try:
        expected = _describe_error(curator.preview(query.sql, **query.want))
        answer = curator.sql(query.sql, **query.want)
        figures, cost, is_reused = figures_of(answer), answer.cost.share, answer.reused
    except Refusal as error:
        refusal = str(error)
    left = curator.budget.left.share
    return Outcome(query, expected, figures, refusal, cost, left, is_reused)


def show_outcome(console: Console, number: int, outcome: Outcome, budget: str) -> None:
    """Print one query, its answer, and the remaining budget."""
    console.print()
    console.rule(f"[bold]{number}. {outcome.query.title}", align="left")
    print_message(console, outcome.query.sql, style="cyan", hang=2)
    if outcome.expected:
        print_message(console, outcome.expected, style="dim")
    if outcome.figures is not None:
        show_figures(console, outcome.figures)
    else:
        print_message(console, f"Refused: {outcome.refusal}", style="yellow", hang=2)
    if outcome.query.remark:
        print_message(console, outcome.query.remark, style="italic")
    print_message(console, f"{describe_cost(outcome)}; {budget}")


def describe_cost(outcome: Outcome) -> str:
    """Return the cost of an outcome, in words."""
    if outcome.figures is None:
        return "cost nothing (refused)"
    if outcome.is_reused:
        return "cost nothing (stored answer)"
    return f"cost {percent(outcome.cost)}"


def _describe_error(preview: Preview) -> str:
    """Return the margins of error that a preview predicts, in words."""
    known = [f"{name} +-{width:,.4g}" for name, width in preview.errors.items() if width]
    if preview.regret is not None:
        known = [f"each selected group within {preview.regret:,.4g} of the largest remaining one"]
    return f"preview (95% confidence): {', '.join(known)}" if known else ""


STYLE: Final = """
:root { color-scheme: light dark; --edge: #8884; --soft: #8881; --bar: #4c78a8; }
body { font: 16px/1.5 sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin: 0 0 .5rem; }
section { border: 1px solid var(--edge); border-radius: .5rem; padding: 1rem; margin: 1.2rem 0; }
pre { background: var(--soft); padding: .6rem; border-radius: .3rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem; text-align: left; }
td.number, th.number { text-align: right; } thead th { border-bottom: 1px solid var(--edge); }
.interval, .note { opacity: .7; } .refused { border-left: 4px solid #e0a030; padding-left: .8rem; }
.cost { margin-top: .8rem; }
.budget { background: var(--soft); border-radius: .3rem; height: .7rem; margin-top: .3rem; }
.budget div { background: var(--bar); border-radius: .3rem; height: 100%; }
svg { max-width: 100%; height: auto; display: block; margin-top: .8rem; }
"""


def write_report(outcomes: Sequence[Outcome], epsilon: int) -> str:
    """Return the report as one HTML page."""
    sections = "".join(
        _section(number, outcome) for number, outcome in enumerate(outcomes, start=1)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>confide demo</title><style>{STYLE}</style></head><body>"
        "<h1>What a small privacy budget buys</h1>"
        "<p>8,366 people of the US National Health and Nutrition Examination Survey 2017-2018, "
        f"unweighted. This page shows {len(outcomes)} queries within a total epsilon of {epsilon}. "
        "Every value contains noise, and its interval covers the value without noise with 95% "
        "probability.</p>"
        f"{sections}</body></html>\n"
    )


def _section(number: int, outcome: Outcome) -> str:
    query = outcome.query
    parts = [f"<h2>{number}. {escape(query.title)}</h2>", f"<pre>{escape(query.sql)}</pre>"]
    if outcome.expected:
        expected = outcome.expected.replace("+-", "\N{PLUS-MINUS SIGN}")
        parts.append(f'<p class="note">{escape(expected)}</p>')
    if outcome.figures is not None:
        parts += [_table(outcome.figures), *draw_charts(outcome.figures)]
    else:
        parts.append(f'<pre class="refused">{escape(outcome.refusal)}</pre>')
    if query.remark:
        parts.append(f"<p>{escape(query.remark)}</p>")
    left = percent(outcome.left, down=True)
    parts.append(
        f'<div class="note cost">{describe_cost(outcome)}; {left} of the budget remains</div>'
    )
    width = f"{float(outcome.left) * 100:.2f}%"
    parts.append(f'<div class="budget"><div style="width:{width}"></div></div>')
    return f"<section>{''.join(parts)}</section>"


def _table(figures: Figures) -> str:
    noisy = set(figures.noisy_columns())
    heads = "".join(
        f'<th class="number">{escape(name)}</th><th class="number">95% interval</th>'
        if name in noisy
        else f"<th>{escape(name)}</th>"
        for name in figures.columns
    )
    rows = "".join(
        f"<tr>{_cells(figures, index, noisy)}</tr>" for index in range(len(figures.rows))
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def _cells(figures: Figures, index: int, noisy: set[str]) -> str:
    parts: list[str] = []
    for name, cell in zip(figures.columns, figures.rows[index], strict=True):
        if name not in noisy:
            parts.append(f"<td>{escape(cell.text)}</td>")
            continue
        parts.append(f'<td class="number">{escape(cell.text)}</td>')
        parts.append(f'<td class="number interval">{escape(cell.interval)}</td>')
    return "".join(parts)
