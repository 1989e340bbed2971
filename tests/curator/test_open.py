"""`Curator.open` opens what a declaration file declares, as the command line does."""

import os
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

import confide as cf
from confide.cli.app import app
from confide.errors import BadDeclaration

COUNT = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
DECLARED = """\
[budget]
epsilon = 2
max_share_per_query = "30%"
neighbours = "replace"

[ledger]
url = "sqlite:///ledger.db"

[tables.visits]
source = "visits.csv"
unit = "pid"

[tables.visits.columns]
ward = { type = "category", values = ["A", "B"] }

[analysts.ana]
share = 0.25
max_share_per_query = "1%"

[purposes.planning]
share = 0.1
"""


@pytest.fixture
def declared(tmp_path: Path) -> Path:
    """Return a declaration next to its data, in a folder that is not the current one."""
    (tmp_path / "visits.csv").write_text("pid,ward\n1,A\n2,B\n", encoding="utf-8")
    path = tmp_path / "confide.toml"
    path.write_text(DECLARED, encoding="utf-8")
    return path


def test_a_file_becomes_a_curator(declared: Path) -> None:
    """The curator has the file's tables, budget, relation, ledger, and limits."""
    curator = cf.Curator.open(declared)
    answer = curator.sql(COUNT, share="30%")

    assert ["A", "B"] == [row["ward"] for row in answer.rows]
    assert (Fraction(2), "replace") == (curator.terms.epsilon, str(curator.neighbours))
    assert (declared.parent / "ledger.db").exists()
    assert Fraction(3, 10) == cf.Curator.open(str(declared)).budget.spent.share
    with pytest.raises(cf.ConfirmationRequired):
        curator.sql(COUNT, share="31%", fresh=True)


def test_an_analyst_gets_their_limits(declared: Path) -> None:
    """With an analyst, the curator has that analyst's limits; an undeclared one is refused."""
    ana = cf.Curator.open(declared, analyst="ana", purpose="planning")

    assert Fraction(1, 4) == ana.budget.total.share
    assert Fraction(1, 10) == ana.budget.left.share
    with pytest.raises(cf.ConfirmationRequired):
        ana.sql(COUNT, share="2%")
    with pytest.raises(BadDeclaration, match="eve"):
        cf.Curator.open(declared, "eve")
    with pytest.raises(BadDeclaration):
        cf.Curator.open(declared, "")


def test_the_command_line_and_python_share_answers(
    declared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer paid for on the command line is free in Python, from the default file name."""
    monkeypatch.chdir(declared.parent)
    paid = CliRunner().invoke(app, ["sql", COUNT, "--share", "5%"], catch_exceptions=False)
    again = cf.Curator.open().sql(COUNT, share="5%")

    assert 0 == paid.exit_code
    assert again.reused


def test_a_missing_file_is_a_bad_declaration(tmp_path: Path) -> None:
    """A file that does not exist is named, with what to do."""
    with pytest.raises(BadDeclaration, match="confide init"):
        cf.Curator.open(tmp_path / f"none{os.sep}confide.toml")
