"""The demo: real people, instructive queries, and a self-contained page."""

import re
from fractions import Fraction
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from confide.cli.app import app
from confide.cli.demo import QUERIES, Outcome, ask, write_report
from confide.curator import Curator
from confide.declare import Budget
from confide.examples import sample_table
from confide.intake.check import inspect_table
from support.tree import run_python


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    """Return the outcome of each query."""
    curator = Curator([sample_table()], budget=Budget(2))
    return [ask(curator, asked) for asked in QUERIES]


def test_the_sample_is_declared_as_it_is() -> None:
    """Every declared column is in the sample and fits its bounds, and every person has one row."""
    assert [] == [found for found in inspect_table(sample_table()) if found.is_problem]


def test_the_demo_covers_all_outcomes(outcomes: list[Outcome]) -> None:
    """At least six queries are answered, one is free, two are refused, and some budget is left."""
    answered = [one for one in outcomes if one.figures is not None and not one.is_reused]

    assert len(answered) >= 6
    assert [0] == [one.cost for one in outcomes if one.is_reused]
    assert 2 == len([one for one in outcomes if one.refusal])
    assert 0 < outcomes[-1].left < 1


def test_the_demo_chooses_the_most_frequent_keys(outcomes: list[Outcome]) -> None:
    """One query returns three groups and no number, with a bound on the regret."""
    [top] = [one for one in outcomes if "LIMIT 3" in one.query.sql]

    assert top.figures is not None
    assert (("education", "health"), 3) == (top.figures.columns, len(top.figures.rows))
    assert [] == top.figures.noisy_columns()
    assert "each selected group within" in top.expected
    assert Fraction(1, 20) == top.cost


def test_the_budget_falls_by_what_answers_cost(outcomes: list[Outcome]) -> None:
    """The remaining budget after each query is the one before minus the cost, exactly."""
    left = [Fraction(1), *(one.left for one in outcomes)]
    costs = [one.cost for one in outcomes]

    assert costs == [before - after for before, after in pairwise(left)]


def test_the_free_repeat_has_the_same_values(outcomes: list[Outcome]) -> None:
    """The same query in other words returns the same result."""
    [again] = [one for one in outcomes if one.is_reused]

    assert outcomes[0].figures == again.figures


class _Page(HTMLParser):
    """Collects the elements of a page that would fetch or run something."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if tag in ("script", "link", "img", "iframe") or {"src", "href"} & set(names):
            self.outside.append(tag)


def test_the_page_needs_nothing_else(outcomes: list[Outcome]) -> None:
    """The report fetches and runs nothing, names every query, and draws well-formed charts."""
    page = write_report(outcomes, 2)
    parser = _Page()
    parser.feed(page)
    charts = re.findall(r"<svg.*?</svg>", page, re.DOTALL)

    assert [] == parser.outside
    assert [] == [one.query.title for one in outcomes if one.query.title not in page]
    assert len(charts) >= 4
    assert charts == [chart for chart in charts if ET.fromstring(chart) is not None]


def test_demo_prints_answers_and_writes_its_report(tmp_path: Path) -> None:
    """`confide demo` exits with 0, prints every query, and writes the requested page."""
    report = tmp_path / "page.html"
    arguments = ["demo", "--report", str(report)]
    shown = CliRunner().invoke(app, arguments, env={"COLUMNS": "160"}, catch_exceptions=False)

    assert 0 == shown.exit_code
    assert [] == [asked.title for asked in QUERIES if asked.title not in shown.output]
    assert len(QUERIES) == shown.output.count("% left")
    assert report.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_demo_prints_a_line_for_each_mechanism() -> None:
    """`confide demo --mechanisms` shows every mechanism and the total."""
    arguments = ["demo", "--mechanisms"]
    shown = CliRunner().invoke(app, arguments, env={"COLUMNS": "160"}, catch_exceptions=False)

    assert 0 == shown.exit_code
    for name in ("Laplace", "Gaussian", "Exponential", "Permute-and-flip", "Sparse vector"):
        assert name in shown.output
    assert re.search(r"together: epsilon [\d.]+ at delta 1e-06", shown.output)


def test_help_does_not_load_the_engine() -> None:
    """`confide --help` imports neither an engine nor the SQL parser."""
    program = (
        "import sys, confide.cli; print([m for m in ('duckdb', 'sqlglot') if m in sys.modules])"
    )

    assert "[]" == run_python("-c", program).strip()


def test_the_page_truncates_nothing(outcomes: list[Outcome]) -> None:
    """Long lines wrap, errors show their sign, and the cost has a margin."""
    page = write_report(outcomes, 2)

    assert "white-space: pre-wrap" in page
    assert "overflow-x" not in page
    assert "+-" not in page
    assert "\N{PLUS-MINUS SIGN}" in page
    assert len(outcomes) == page.count('class="note cost"')
