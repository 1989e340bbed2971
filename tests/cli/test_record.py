"""`confide record` from the command line: keys, records, pages, and checks by third parties."""

import json
import re
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from confide.cli import app

COUNT = "SELECT COUNT(*) AS n FROM visits"
DECLARED = """\
[budget]
epsilon = 1

[ledger]
url = "sqlite:///books/ledger.db"

[record]
purpose = "plan staff"
contact = "privacy@clinic.example"
people = "patients"

[tables.visits]
source = "visits.csv"
unit = "pid"
columns = { age = { type = "int", low = 0, high = 120 } }
"""


def run(*words: str) -> Result:
    """Run a command and let any exception but an exit fail the test."""
    env = {"COLUMNS": "300"}
    return CliRunner().invoke(app, list(words), env=env, catch_exceptions=False)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a declaration, its data, a signing key, and one answer."""
    rows = "".join(f"{place},{20 + place}\n" for place in range(50))
    (tmp_path / "visits.csv").write_text(f"pid,age\n{rows}", encoding="utf-8")
    (tmp_path / "books").mkdir()
    (tmp_path / "confide.toml").write_text(DECLARED, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert 0 == run("record", "--new-key").exit_code
    assert 0 == run("sql", COUNT, "--share", "10%").exit_code
    return tmp_path


def test_a_record_is_written_and_checked(here: Path) -> None:
    """The record is JSON, and a third party with the export confirms the spent epsilon."""
    written = run("record", "--out", "record.json")
    run("ledger", "--export", "charges.jsonl")
    alone = run("record", "--check", "record.json")
    checked = run("record", "--check", "record.json", "--ledger", "charges.jsonl")
    document = json.loads((here / "record.json").read_text(encoding="utf-8"))

    assert 0 == written.exit_code
    assert "1/10" == document["ledger"]["spent"]["share"]
    assert "plan staff" == document["deployment"]["basic"]["intended_use"]
    assert (0, 0) == (alone.exit_code, checked.exit_code)
    assert "The totals were not checked." in alone.stdout
    assert "The export confirms the record: 1 charge spent 10" in checked.stdout
    for shown in (written, alone, checked):
        assert document["signature"]["public_key"] in shown.stdout


def test_options_replace_the_declared_words(here: Path) -> None:
    """--purpose and --contact are used instead of those of the file."""
    run("record", "--out", "r.json", "--purpose", "teach", "--contact", "me@example.org")
    document = json.loads((here / "r.json").read_text(encoding="utf-8"))

    assert "teach" == document["deployment"]["basic"]["intended_use"]
    assert "me@example.org" == document["contact"]


def test_a_forged_record_or_export_is_refused(here: Path) -> None:
    """A changed record exits with 1, and so does an export that does not confirm it."""
    run("record", "--out", "record.json")
    text = (here / "record.json").read_text(encoding="utf-8")
    (here / "forged.json").write_text(text.replace('"1/10"', '"1/100"'), encoding="utf-8")
    run("ledger", "--export", "charges.jsonl")
    lines = (here / "charges.jsonl").read_text(encoding="utf-8").splitlines()
    (here / "cut.jsonl").write_text("\n".join(lines[:-1]), encoding="utf-8")
    forged = run("record", "--check", "forged.json")
    cut = run("record", "--check", "record.json", "--ledger", "cut.jsonl")

    assert 1 == forged.exit_code
    assert forged.stderr.startswith("record-mismatch: The signature does not match")
    assert 3 == cut.exit_code
    assert cut.stderr.startswith("ledger-damaged: ")


@pytest.mark.parametrize("name", ["people.md", "people.html"])
def test_a_page_for_people_is_written(here: Path, name: str) -> None:
    """--plain writes the page in its format, and no record."""
    written = run("record", "--plain", name)
    page = (here / name).read_text(encoding="utf-8")

    assert 0 == written.exit_code
    assert "patients" in page
    assert "privacy@clinic.example" in page
    assert not (here / "release-record.json").exists()


def test_the_key_lies_next_to_the_ledger(here: Path) -> None:
    """The key has the ledger's name and mode 0600, and is not replaced."""
    path = here / "books" / "ledger.key"
    again = run("record", "--new-key")

    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert 2 == again.exit_code
    assert "already exists" in again.stderr


def test_init_creates_a_key_that_record_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`confide init` writes the key of the ledger that it drafts, and keeps one that exists."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text("pid,age\n1,20\n2,30\n", encoding="utf-8")
    drafted = run("init", "visits.csv")
    key = (tmp_path / "ledger.key").read_bytes()
    (tmp_path / "confide.toml").unlink()
    again = run("init", "visits.csv")
    (tmp_path / "confide.toml").write_text(DECLARED.replace("books/", ""), encoding="utf-8")
    recorded = run("record")

    assert "ledger.key" in drafted.stdout
    assert 0o600 == stat.S_IMODE((tmp_path / "ledger.key").stat().st_mode)
    assert "ledger.key" not in again.stdout
    assert key == (tmp_path / "ledger.key").read_bytes()
    assert 0 == recorded.exit_code


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "confide.toml"], "already exists"),
        (["--plain", "people.txt"], r"\.md or \.html"),
        (["--ledger", "charges.jsonl"], "needs `--check`"),
        (["--check", "none.json"], "cannot be read"),
        (["--out", "none/record.json"], "cannot be written"),
        (["--contact", ""], "needs a purpose and a contact"),
    ],
)
def test_wrong_use_is_refused(here: Path, words: list[str], said: str) -> None:
    """Wrong options exit with 2 and say what to do; no file is written or changed."""
    shown = run("record", *words)

    assert 2 == shown.exit_code
    assert re.search(said, shown.stderr)
    assert DECLARED == (here / "confide.toml").read_text(encoding="utf-8")


def test_a_missing_key_or_ledger_is_named(here: Path) -> None:
    """Without a key, or without a ledger that lasts, the message says what to add."""
    (here / "books" / "ledger.key").unlink()
    keyless = run("record")
    declared = DECLARED.replace('[ledger]\nurl = "sqlite:///books/ledger.db"\n', "")
    (here / "confide.toml").write_text(declared, encoding="utf-8")
    bare = run("record")

    assert 2 == keyless.exit_code
    assert "--new-key" in keyless.stderr
    assert 2 == bare.exit_code
    assert "[ledger]" in bare.stderr
