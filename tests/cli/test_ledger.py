"""Commands for the ledger."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from confide.cli import app

COUNT = "SELECT COUNT(*) AS n FROM visits"
DECLARATION = """\
[budget]
epsilon = 1

[ledger]
url = "sqlite:///ledger.db"
anchor = "anchor.log"

[tables.visits]
source = "visits.csv"
unit = "pid"
columns = { age = { type = "int", low = 0, high = 120 } }

[analysts.ana]
share = "25%"
"""


def run(*words: str) -> Result:
    """Run a command as a user types it."""
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a declaration that has a ledger."""
    (tmp_path / "confide.toml").write_text(DECLARATION, encoding="utf-8")
    rows = "".join(f"{place},{20 + place}\n" for place in range(50))
    (tmp_path / "visits.csv").write_text(f"pid,age\n{rows}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path


def ask(*words: str, share: str = "10%") -> Result:
    return run("sql", COUNT, "--share", share, "--format", "json", *words)


def test_commands_share_one_budget(here: Path) -> None:
    """Commands share one budget, and a repeated query is charged once."""
    first, second = (json.loads(ask().stdout) for _ in range(2))

    assert first["rows"] == second["rows"]
    assert (False, True) == (first["reused"], second["reused"])
    assert "90%" in run("budget").stdout.replace(" %", "%")
    assert "forgotten" not in ask().stderr + run("budget").stdout + run("ledger").stdout


def test_a_key_makes_a_command_safe_to_repeat(here: Path) -> None:
    """The same key returns the same answer, and another query with it is refused."""
    first, second = (json.loads(ask("--key", "k").stdout) for _ in range(2))
    other = run("sql", COUNT.replace("COUNT(*)", "SUM(age)"), "--share", "1%", "--key", "k")

    assert first["rows"] == second["rows"]
    assert 1 == other.exit_code
    assert "key-used" in other.stderr


def test_the_budget_runs_out_over_commands(here: Path) -> None:
    """Two commands cannot both spend most of the budget."""
    assert 0 == ask(share="60%").exit_code
    refused = run("sql", COUNT.replace("COUNT(*)", "SUM(age)"), "--share", "60%")

    assert 1 == refused.exit_code
    assert "budget-exceeded" in refused.stderr


def test_the_ledger_is_shown_and_verified(here: Path) -> None:
    """`confide ledger --verify` lists each charge and reports that they add up."""
    ask()
    shown = run("ledger", "--verify")

    assert 0 == shown.exit_code
    assert "answered" in shown.stdout
    assert "The balance and the hash chain are consistent." in shown.stdout


def test_analysts_are_listed_with_their_limits(here: Path) -> None:
    """`confide budget` shows the limit of each declared analyst."""
    shown = run("budget").stdout

    assert "ana" in shown
    assert "25" in shown


def test_an_export_adds_up_without_ledger_and_data(here: Path) -> None:
    """The spent budget can be recomputed from the export alone."""
    ask()
    exported = run("ledger", "--export", "charges.jsonl")
    for name in ("ledger.db", "visits.csv", "confide.toml"):
        (here / name).unlink()
    counted = run("ledger", "--recount", "charges.jsonl")

    assert 0 == exported.exit_code
    assert 0 == counted.exit_code
    assert "1 charges, 1 of them answered" in counted.stdout
    assert "epsilon 0.1" in counted.stdout


def test_an_export_does_not_overwrite(here: Path) -> None:
    """An existing file is not overwritten, and a missing file differs from a broken one."""
    (here / "charges.jsonl").write_text("mine", encoding="utf-8")

    assert 2 == run("ledger", "--export", "charges.jsonl").exit_code
    assert "mine" == (here / "charges.jsonl").read_text(encoding="utf-8")
    assert 3 == run("ledger", "--recount", "charges.jsonl").exit_code
    assert 2 == run("ledger", "--recount", "nothing.jsonl").exit_code


def test_a_restored_ledger_is_refused(here: Path) -> None:
    """An old copy of the ledger is refused instead of restoring the budget."""
    ask()
    old = (here / "ledger.db").read_bytes()
    run("sql", COUNT.replace("COUNT(*)", "SUM(age)"), "--share", "10%")
    (here / "ledger.db").write_bytes(old)
    for name in ("ledger.db-wal", "ledger.db-shm"):
        (here / name).unlink(missing_ok=True)
    shown = run("budget")

    assert 3 == shown.exit_code
    assert "ledger-behind" in shown.stderr


def lose_anchor(here: Path) -> None:
    """Delete the anchor of a ledger with a charge."""
    ask()
    (here / "anchor.log").unlink()


def test_a_lost_anchor_is_accepted_by_the_owner_alone(here: Path) -> None:
    """Every command is refused and says what to do; then the loss shows in all books."""
    lose_anchor(here)
    refused = [run("budget"), run("ledger", "--verify"), ask()]
    accepted = run("ledger", "--accept-lost-anchor")
    shown = [run("ledger"), run("ledger", "--verify")]
    exported = run("ledger", "--export", "x.jsonl")
    shown.append(run("ledger", "--recount", "x.jsonl"))

    assert [3] * 3 == [one.exit_code for one in refused]
    for one in refused:
        assert "anchor-lost" in one.stderr
        assert "confide ledger --accept-lost-anchor" in " ".join(one.stderr.split())
    assert 0 == accepted.exit_code == exported.exit_code
    assert "named another anchor" in accepted.stdout
    for one in shown:
        assert 0 == one.exit_code
        assert "the owner accepted the loss of the anchor" in one.stdout
    assert (here / "anchor.log").read_text(encoding="utf-8")
    assert 0 == ask().exit_code


def test_a_ledger_can_go_on_without_an_anchor(here: Path) -> None:
    """Where the declaration names none, that is recorded too."""
    lose_anchor(here)
    declared = DECLARATION.replace('anchor = "anchor.log"\n', "")
    (here / "confide.toml").write_text(declared, encoding="utf-8")
    refused, accepted = run("budget"), run("ledger", "--accept-lost-anchor")

    assert 3 == refused.exit_code
    assert "continues without one" in accepted.stdout
    assert 0 == run("budget").exit_code
    assert "continued without an anchor" in run("ledger").stdout


def test_nothing_to_accept_changes_nothing(here: Path) -> None:
    """A ledger with its anchor, none at all, or one that is not declared."""
    missing = run("ledger", "--accept-lost-anchor")
    assert 2 == missing.exit_code
    assert not (here / "ledger.db").exists()
    ask()
    before = run("ledger").stdout
    accepted = run("ledger", "--accept-lost-anchor")

    assert 0 == accepted.exit_code
    assert "Nothing was changed" in accepted.stdout
    assert before == run("ledger").stdout
    start = DECLARATION.index("[ledger]")
    end = DECLARATION.index("[tables")
    without = DECLARATION[:start] + DECLARATION[end:]
    (here / "confide.toml").write_text(without, encoding="utf-8")
    assert 2 == run("ledger", "--accept-lost-anchor").exit_code


def test_a_restored_ledger_is_not_accepted(here: Path) -> None:
    """An anchor that is ahead of the ledger is not lost."""
    ask()
    old = (here / "ledger.db").read_bytes()
    run("sql", COUNT.replace("COUNT(*)", "SUM(age)"), "--share", "10%")
    (here / "ledger.db").write_bytes(old)
    accepted = run("ledger", "--accept-lost-anchor")

    assert 3 == accepted.exit_code
    assert "ledger-behind" in accepted.stderr
    assert old == (here / "ledger.db").read_bytes()


def test_a_ledger_of_either_relation_is_shown(here: Path) -> None:
    """A ledger under neighbours = "replace" can be shown, verified, and exported."""
    declared = DECLARATION.replace("epsilon = 1\n", 'epsilon = 1\nneighbours = "replace"\n')
    (here / "confide.toml").write_text(declared, encoding="utf-8")
    assert 0 == ask().exit_code
    looks = [run("budget"), run("ledger", "--verify"), run("ledger", "--export", "x.jsonl")]

    assert [0, 0, 0] == [look.exit_code for look in looks]
