"""`confide audit` from the command line: a table, a page, and an exit code."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from confide.audit import Claim, Effort, Finding, Report, Verdict
from confide.audit import report as reports
from confide.audit.evidence import sample_case
from confide.cli import app
from confide.cli import audit as command
from support.laws import ALPHA

CONFIG = """
[budget]
epsilon = 1.0

[tables.visits]
source = "visits.parquet"
unit = "pid"

[tables.visits.columns]
age = { type = "int", low = 0, high = 9 }
ward = { type = "category", values = ["A", "B"] }
"""
LITTLE = Effort(mechanisms=512, queries=32, methods=16, pairs=1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a declaration, and make the audit small and its false alarms rare.

    The command's own confidence would convict a correct mechanism in one run of a thousand.
    """
    (tmp_path / "confide.toml").write_text(CONFIG, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "QUICK", LITTLE)
    monkeypatch.setattr(reports, "CONFIDENCE", 1 - ALPHA)
    return tmp_path


@pytest.mark.slow
def test_an_audit_prints_a_table_and_writes_a_page(folder: Path) -> None:
    """The audit needs no data; nothing is disproved, and the exit code is 0."""
    done = CliRunner().invoke(app, ["audit", "--quick"])
    page = (folder / "audit-report.html").read_text(encoding="utf-8")

    assert 0 == done.exit_code, done.output
    assert "none disproved" in done.output
    assert "Laplace(1, 1)" in page
    assert "COUNT(*)" in page
    assert "<script" not in page


@pytest.mark.slow
def test_a_disproof_is_an_exit_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a mechanism that reveals its input, the exit code is 1 and the page marks it."""
    shown = sample_case(
        "no noise",
        "0 and 1",
        "alone",
        claim=Claim.epsilon("0.1"),
        draw=lambda count: (np.zeros(count), np.ones(count)),
        samples=128,
    )
    monkeypatch.setattr(reports, "mechanism_cases", lambda _: [shown])
    monkeypatch.setattr(reports, "method_cases", lambda *_, **__: [])
    done = CliRunner().invoke(app, ["audit", "--quick"])

    assert 1 == done.exit_code, done.output
    assert "1 disproved" in done.output
    assert '<tr class="convicted">' in (folder / "audit-report.html").read_text(encoding="utf-8")


def test_a_wrong_declaration_is_reported_before_the_audit(folder: Path) -> None:
    """A file that declares nothing exits with 2."""
    (folder / "confide.toml").write_text("[budget]\n", encoding="utf-8")

    assert 2 == CliRunner().invoke(app, ["audit", "--quick"]).exit_code


def test_the_page_escapes_what_it_shows() -> None:
    """Names of columns and keys are escaped on the page."""
    found = Finding("<b>x</b>", "<i>", "&", Verdict.ALIKE, note="<u>")
    page = Report((found,), 0.999, datetime.now(UTC)).to_html()

    assert "<b>x</b>" not in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page
