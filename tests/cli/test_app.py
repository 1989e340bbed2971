"""Commands for owners and analysts, from the command line."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from confide.cli.app import app, exit_code
from confide.errors import BadDeclaration, ConfideError, Fault, Refusal
from confide.ledger import open_ledger
from confide.loss import auto_filter

DECLARED = """\
[budget]
epsilon = 2

[tables.visits]
source = "visits.csv"
unit = "pid"
max_rows_per_unit = 2

[tables.visits.columns]
ward = { type = "category", values = ["A", "=B"] }
age = { type = "int", low = 0, high = 120 }
"""
WARD = 'ward = { type = "text" }'
COUNT = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
LEDGER = '[ledger]\nurl = "sqlite:///ledger.db"\n'
ASKED: tuple[tuple[str, ...], ...] = ((), (), ("--fresh",))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with data and a declaration, in which commands run."""
    rows = [f"{pid},{'A' if pid % 2 else '=B'},{pid % 90}" for pid in range(400)]
    (tmp_path / "visits.csv").write_text("\n".join(["pid,ward,age", *rows]), encoding="utf-8")
    (tmp_path / "confide.toml").write_text(DECLARED, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, given: str | None = None) -> Result:
    """Run a command and let any exception but an exit fail the test; ``given`` is typed into it."""
    return CliRunner().invoke(
        app, list(arguments), input=given, env={"COLUMNS": "200"}, catch_exceptions=False
    )


def test_a_question_is_answered_with_intervals_and_paid(here: Path) -> None:
    """`confide sql` prints each group with its interval, and its cost to standard error."""
    shown = run("sql", COUNT, "--epsilon", "0.5")

    assert 0 == shown.exit_code
    assert re.search(r"│ A +│ +-?\d+ │ +-?\d+ to -?\d+ │", shown.stdout)
    assert "cost 25%" in shown.stderr
    assert "75% left" in shown.stderr


def test_json_is_for_programs(here: Path) -> None:
    """Standard output is one JSON value with values, intervals, cost, and receipt."""
    found = json.loads(run("sql", COUNT, "--share", "5%", "--format", "json").stdout)

    assert ["ward", "n"] == found["columns"]
    assert ["A", "=B"] == [row["ward"] for row in found["rows"]]
    assert Fraction("1/20") == Fraction(found["cost"]["share"])
    assert not found["reused"]
    for row, ends in zip(found["rows"], found["intervals"], strict=True):
        assert ends["n_low"] <= row["n"] <= ends["n_high"]


def test_csv_cannot_carry_a_formula(here: Path) -> None:
    """A key that a spreadsheet would run as a formula gets an apostrophe, as does the header."""
    text = COUNT.replace("AS n", 'AS "@n"')
    lines = run("sql", text, "--epsilon", "1", "--format", "csv").stdout.splitlines()

    assert "ward,'@n,'@n_low,'@n_high" == lines[0]
    assert ["A", "'=B"] == [line.split(",")[0] for line in lines[1:]]


def test_accuracy_first(here: Path) -> None:
    """With --error, the interval is as narrow as requested, and the cost follows."""
    shown = run("sql", COUNT, "--error", "20", "--format", "json")
    ends = json.loads(shown.stdout)["intervals"][0]

    assert 0 == shown.exit_code
    assert ends["n_high"] - ends["n_low"] <= 40


def test_a_preview_reads_and_spends_nothing(here: Path) -> None:
    """`confide preview` prints the same cost and half-widths in every run."""
    first, second = (run("preview", COUNT, "--epsilon", "0.5") for _ in range(2))

    assert 0 == first.exit_code
    assert first.stdout == second.stdout
    assert "would cost 25% of the budget (epsilon 0.5)" in first.stdout


def test_a_preview_uses_the_given_confidence(here: Path) -> None:
    """`--confidence` sets the level of half-widths, which is named above them."""
    usual, low = (
        run("preview", COUNT, "--epsilon", "0.5", "--confidence", p) for p in ("0.95", "0.5")
    )

    assert "margin of error (95%)" in usual.stdout
    assert "margin of error (50%)" in low.stdout
    assert low.stdout.replace("50%", "95%") != usual.stdout


def test_a_preview_needs_no_price(here: Path) -> None:
    """Without a price, `confide preview` assumes one and prints it."""
    shown = run("preview", COUNT)

    assert 0 == shown.exit_code
    assert "Assuming --share 1%" in shown.stdout
    assert "would cost 1% of the budget" in shown.stdout


def test_a_preview_of_a_choice_shows_its_regret(here: Path) -> None:
    """For chosen keys, a preview shows the regret of the choice instead of a half-width."""
    shown = run("preview", "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1")

    assert re.search(
        r"A selected key is within [\d,.]+ of the best, at 95% confidence\.", shown.stdout
    )
    assert "margin of error" not in shown.stdout


def test_a_stored_answer_is_reported_as_free(here: Path) -> None:
    """`preview` and `explain` report a stored answer, and the option that pays for a new one."""
    (here / "confide.toml").write_text(DECLARED + LEDGER, encoding="utf-8")
    notes = {"preview": "has a stored answer, which is free", "explain": "the same answer is free"}
    for command, note in notes.items():
        assert note not in run(command, COUNT).stdout
    run("sql", COUNT, "--epsilon", "0.5")
    spent = run("budget").stdout

    for command, note in notes.items():
        shown = run(command, COUNT, "--epsilon", "0.2").stdout
        assert note in shown
        assert ", with --fresh" in shown
    assert spent == run("budget").stdout


def test_a_question_is_explained_in_sentences(here: Path) -> None:
    """`confide explain` prints sentences without reading rows or spending budget."""
    shown = run("explain", COUNT, "--epsilon", "0.5")

    assert 0 == shown.exit_code
    assert "COUNT(*) is a noisy count of rows" in shown.stdout


def test_an_explanation_needs_no_price(here: Path) -> None:
    """Without a price, `confide explain` assumes one and prints it; two prices are refused."""
    shown = run("explain", COUNT)

    assert 0 == shown.exit_code
    assert "Assuming --share 1%" in shown.output
    assert "costs 1% of the budget" in shown.output
    assert 0 != run("explain", COUNT, "--epsilon", "0.5", "--share", "1%").exit_code


@pytest.mark.parametrize(
    ("code", "said", "arguments"),
    [
        (1, "unsupported-query", ["sql", "SELECT MAX(age) FROM visits", "--epsilon", "1"]),
        (1, "unknown-name", ["preview", "SELECT COUNT(*) FROM labs", "--epsilon", "1"]),
        (1, "budget-exceeded", ["sql", COUNT, "--epsilon", "3"]),
        (1, "`--epsilon 3` exceeds", ["sql", COUNT, "--epsilon", "3"]),
        (
            1,
            "pass `--epsilon` or `--share`",
            ["sql", "SELECT AVG(age) FROM visits", "--error", "1"],
        ),
        (2, "Pass exactly one of", ["sql", COUNT]),
        (2, "exactly one of", ["sql", COUNT, "--epsilon", "1", "--share", "1%"]),
        (2, "`epsilon` must be", ["sql", COUNT, "--epsilon", "little"]),
        (2, "cannot be read", ["sql", COUNT, "--epsilon", "1", "--config", "none.toml"]),
        (2, ".svg or .png", ["sql", COUNT, "--epsilon", "1", "--plot", "x.pdf"]),
        (2, "cannot be written", ["sql", COUNT, "--epsilon", "1", "--plot", "none/x.svg"]),
        (2, "cannot be written", ["demo", "--report", "none/page.html"]),
        (2, "cannot be written", ["init", "visits.csv", "--config", "none/confide.toml"]),
        (2, "Missing argument", ["sql"]),
        (2, "No such command", ["nonsense"]),
        (2, "already exists", ["init", "visits.csv"]),
        (2, "must be a .parquet or .csv", ["init", "x.xlsx", "--config", "y.toml"]),
        (2, "already exists", ["demo", "--data", "visits.csv"]),
        (2, "a .csv or .parquet", ["demo", "--data", "people.xlsx"]),
        (2, "'.' must be a .parquet or .csv", ["init", ".", "--config", "y.toml"]),
        (2, "is a folder", ["convert", "."]),
        (2, "cannot be copied", ["convert", "none.csv"]),
        (2, "must be a .parquet file", ["convert", "visits.csv", "copy.csv"]),
        (2, "got nothing", ["holdout", "plan"]),
        (2, "confide convert tab.tsv", ["init", "tab.tsv", "--config", "y.toml"]),
    ],
)
def test_refusals_and_wrong_use_have_their_codes(
    here: Path, code: int, said: str, arguments: list[str]
) -> None:
    """A refusal exits with 1, wrong use with 2; both print only the reason, to standard error."""
    shown = run(*arguments)

    assert code == shown.exit_code
    assert said in shown.stderr
    assert "" == shown.stdout


@pytest.mark.parametrize(
    "wrong", [("--share", "five"), ("--error", "0"), ("--error", "5", "--confidence", "95")]
)
def test_an_invalid_price_is_refused_even_for_a_free_answer(
    here: Path, wrong: tuple[str, ...]
) -> None:
    """An invalid price is refused even if a stored answer would be free."""
    (here / "confide.toml").write_text(DECLARED + LEDGER, encoding="utf-8")
    assert 0 == run("sql", COUNT, "--share", "1%").exit_code

    assert 2 == run("sql", COUNT, *wrong).exit_code


def test_a_new_answer_is_paid_for(here: Path) -> None:
    """A repeated query is free and names `--fresh`, which pays for a new answer."""
    (here / "confide.toml").write_text(DECLARED + LEDGER, encoding="utf-8")
    first, again, fresh = (run("sql", COUNT, "--share", "1%", *more) for more in ASKED)

    assert ["cost 1%", "cost nothing", "cost 1%"] == [
        shown.stderr.splitlines()[1].split(";")[0].split(" (")[0] for shown in (first, again, fresh)
    ]
    assert "at most 2 rows in at most 2 groups" in first.stderr
    assert "add --fresh" in again.stderr


def test_a_file_with_decimal_commas_becomes_a_declaration(here: Path) -> None:
    """`init` refuses a file with semicolons and decimal commas, but accepts its converted copy."""
    rows = "\n".join(f"{pid};{pid % 7},5" for pid in range(20))
    (here / "kunden.csv").write_text(f"Kunde;Größe\n{rows}\n", encoding="cp1252")
    refused = run("init", "kunden.csv", "--config", "new.toml")
    copied = run("convert", "kunden.csv")

    assert "confide convert kunden.csv" in refused.stderr
    assert (0, True) == (copied.exit_code, "decimal comma" in copied.stdout)
    assert 0 == run("init", "kunden.parquet", "--config", "new.toml").exit_code
    assert '# Groesse = { type = "float"' in (here / "new.toml").read_text(encoding="utf-8")


def test_a_draft_suggests_converting_decimal_commas(here: Path) -> None:
    """A column of decimal commas is drafted as text, with a hint to convert the file."""
    (here / "paid.csv").write_text('pid,paid\n1,"1,5"\n2,"2,5"\n', encoding="utf-8")
    drafted = run("init", "paid.csv", "--config", "new.toml")

    assert (0, True) == (drafted.exit_code, "confide convert paid.csv" in drafted.stdout)


def test_a_refused_piece_is_underlined(here: Path) -> None:
    """On a terminal of any width, the carets are below the refused words."""
    text = f"SELECT COUNT(*) AS {'long_' * 8}name, 1 + 1 + MAX(age) FROM visits"
    shown = CliRunner().invoke(app, ["sql", text, "--epsilon", "1"], env={"COLUMNS": "40"})
    line, carets = shown.stderr.splitlines()[-2:]

    assert "MAX(age)" == line[carets.index("^") : carets.rindex("^") + 1]


def test_terminal_codes_in_a_query_are_escaped(here: Path) -> None:
    """An escape character in a message is printed in escaped form."""
    shown = run("sql", 'SELECT COUNT(*) FROM "a\x1b[2Jb"', "--epsilon", "1")

    assert 1 == shown.exit_code
    assert "\x1b[2J" not in shown.stderr


def test_init_warns_of_a_row_in_place_of_names(here: Path) -> None:
    """Without a line of names, the first row would end up in the declaration."""
    Path("bare.csv").write_text("Ann,34,2020-01-31\nBob,35,2020-02-01\n")
    Path("wide.csv").write_text("person,2023,2024\n1,5,6\n2,7,8\n")

    assert "look like values: 34, 2020-01-31" in " ".join(
        run("init", "bare.csv", "--config", "bare.toml").output.split()
    )
    assert "look like values" not in run("init", "wide.csv", "--config", "wide.toml").output


def test_init_check_and_ask(here: Path) -> None:
    """A draft leads to an answer: complete the open lines, check, and run a query."""
    assert 0 == run("init", "visits.csv", "--config", "new.toml").exit_code
    assert 2 == run("check", "--config", "new.toml").exit_code
    draft = (here / "new.toml").read_text(encoding="utf-8")
    for line, finished in {
        "# epsilon = 1.0 ": "epsilon = 1.0 ",
        '# unit = "pid"': 'unit = "pid"',
        '# age = { type = "int", low = 0, high = 120 }': (
            'age = { type = "int", low = 0, high = 80 }'
        ),
    }.items():
        assert line in draft
        draft = draft.replace(line, finished)
    (here / "new.toml").write_text(draft, encoding="utf-8")
    checked = run("check", "--config", "new.toml")

    assert 0 == checked.exit_code
    assert "are outside the bounds" in checked.stdout
    assert "Do not publish them" in checked.stdout
    question = "SELECT AVG(age) AS a FROM visits"
    assert 0 == run("sql", question, "--epsilon", "0.2", "--config", "new.toml").exit_code


def test_an_interactive_draft_needs_no_editing(here: Path) -> None:
    """Accepted defaults and a few answers make a declaration that can be queried at once."""
    answers = "\n" * 30
    drafted = run("init", "visits.csv", "--interactive", "--config", "new.toml", given=answers)

    assert 0 == drafted.exit_code, drafted.output
    assert "Which column identifies a person?" in drafted.output
    assert 0 == run("check", "--config", "new.toml").exit_code
    question = "SELECT AVG(age) AS a FROM visits"
    assert 0 == run("sql", question, "--epsilon", "0.1", "--config", "new.toml").exit_code


ODD = {
    "a letter of Latin-1": (b"pid,Gr\xf6\xdfe\n1,2\n", "not encoded in UTF-8"),
    "semicolons": (b"pid;x\n1;2\n", "separated by ';'"),
    "one name twice": (b"pid,a,a\n1,2,3\n", "two columns named 'a'"),
    "nothing": (b"", "no column names"),
}


@pytest.mark.parametrize("case", ODD)
def test_init_explains_how_to_fix_an_odd_file(here: Path, case: str) -> None:
    """A file that cannot be drafted from is refused with a plain message and what to do."""
    body, said = ODD[case]
    (here / "odd.csv").write_bytes(body)
    shown = run("init", "odd.csv", "--config", "new.toml")

    assert 2 == shown.exit_code
    assert said in shown.stderr
    assert case == "nothing" or "confide convert odd.csv" in shown.stderr
    assert "codec" not in shown.stderr


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_the_survey_can_be_written_to_a_file(here: Path, name: str) -> None:
    """`confide demo --data` writes the survey, from which `confide init` drafts a declaration."""
    assert 0 == run("demo", "--data", name).exit_code
    assert 0 == run("init", name, "--config", "new.toml").exit_code
    draft = (here / "new.toml").read_text(encoding="utf-8")

    assert '# unit = "person"\n' in draft
    assert '# cholesterol = { type = "int", low = LOW, high = HIGH }' in draft


def test_a_draft_explains_how_to_fix_odd_names(here: Path) -> None:
    """The draft names columns that cannot be declared, and `init` suggests a converted copy."""
    (here / "odd.csv").write_text("Patient\\ID,rent per month\n1,2\n", encoding="utf-8")
    shown = run("init", "odd.csv", "--config", "new.toml")

    assert 0 == shown.exit_code
    assert "confide convert odd.csv" in shown.stdout
    assert '\n# "rent per month" = ' in (here / "new.toml").read_text(encoding="utf-8")
    assert "'Patient\\\\ID' cannot be declared" in (here / "new.toml").read_text(encoding="utf-8")


def test_check_fails_when_data_and_declaration_do_not_fit(here: Path) -> None:
    """A missing column makes `confide check` exit with 2 and name it."""
    (here / "visits.csv").write_text("pid,age\n1,2\n", encoding="utf-8")
    shown = run("check")

    assert 2 == shown.exit_code
    assert "ward" in shown.stdout
    assert "1 problem, " in shown.stdout


@pytest.mark.parametrize("command", [["budget"], ["ledger"], ["ledger", "--verify"]])
def test_a_missing_ledger_is_reported(here: Path, command: list[str]) -> None:
    """Commands about the budget warn that a ledger in memory ends with the command."""
    shown = run(*command)

    assert 0 == shown.exit_code
    assert "forgotten when the command ends" in " ".join(shown.stdout.split())


def test_plots_are_written(here: Path) -> None:
    """--plot draws the answer as SVG, and as PNG if the converter is installed."""
    assert 0 == run("sql", COUNT, "--epsilon", "1", "--plot", "a.svg").exit_code
    assert 0 == run("sql", COUNT, "--epsilon", "1", "--plot", "a.png").exit_code
    assert (here / "a.svg").read_text(encoding="utf-8").startswith("<svg")
    assert (here / "a.png").read_bytes().startswith(b"\x89PNG")


def test_every_problem_of_a_file_reaches_the_owner(here: Path) -> None:
    """Every error of a declaration is listed by line on standard error."""
    broken = DECLARED.replace("epsilon = 2", "epsilon = 0").replace("high = 120", "hi = 120")
    (here / "confide.toml").write_text(broken, encoding="utf-8")
    shown = run("budget")

    assert 2 == shown.exit_code
    assert ["line 2:", "line 11:", "line 11:"] == re.findall(r"line \d+:", shown.stderr)


@pytest.mark.parametrize(
    ("code", "error"), [(1, Refusal("no")), (2, BadDeclaration("no")), (3, Fault("no"))]
)
def test_each_family_has_its_exit_code(code: int, error: ConfideError) -> None:
    """Refusals exit with 1, bad declarations with 2, and faults with 3."""
    assert code == exit_code(error)


def test_a_real_process_answers_and_refuses(here: Path) -> None:
    """`python -m confide` exits with 0 for an answer and 1 for a refusal, without a traceback."""
    command = [sys.executable, "-m", "confide", "sql", "--epsilon", "0.4"]
    environment = {**os.environ, "COLUMNS": "200"}
    answered, refused = (
        subprocess.run(
            [*command, text], check=False, capture_output=True, text=True, env=environment
        )
        for text in (COUNT, "DROP TABLE visits")
    )

    assert 0 == answered.returncode
    assert "95% interval" in answered.stdout
    assert 1 == refused.returncode
    assert refused.stderr.startswith("unsupported-query: ")
    assert "Traceback" not in refused.stderr


def test_an_answer_without_groups_says_why(here: Path) -> None:
    """If no group is left, the answer has no rows and an explanation."""
    empty = f"{COUNT} HAVING COUNT(*) > 1000000000"
    shown = run("sql", empty, "--epsilon", "0.5")

    assert 0 == shown.exit_code
    assert "No group is shown" in shown.stderr
    assert "No group is shown" not in run("sql", COUNT, "--epsilon", "0.5").stderr


def test_a_draft_of_the_demo_treats_words_as_text(here: Path) -> None:
    """`init` drafts a column of three words in the demo's survey as text."""
    assert 0 == run("demo", "--data", "people.csv").exit_code
    assert 0 == run("init", "people.csv", "--config", "new.toml").exit_code
    draft = (here / "new.toml").read_text(encoding="utf-8")

    assert '# diabetes = { type = "text" }' in draft
    assert '# insured = { type = "bool" }  # or { type = "category"' in draft


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            "epsilon = 2",
            "epsilon = 3",
            "a budget of epsilon 2 and delta 0, but the declared budget",
        ),
        ("epsilon = 2", "epsilon = 2\ndelta = 1e-8", "epsilon 2 and delta 1e-08. Declare"),
        ("[budget]", '[budget]\nneighbours = "replace"', "neighbours = 'add-remove'"),
    ],
)
def test_check_compares_the_ledger_with_the_budget(
    here: Path, before: str, after: str, said: str
) -> None:
    """A budget that differs from the ledger's is a problem; the check changes no file."""
    (here / "confide.toml").write_text(DECLARED + LEDGER, encoding="utf-8")
    assert 0 == run("check").exit_code
    assert not (here / "ledger.db").exists()
    assert 0 == run("sql", COUNT, "--share", "1%").exit_code
    assert 0 == run("check").exit_code
    kept = (here / "ledger.db").read_bytes()
    (here / "confide.toml").write_text(DECLARED.replace(before, after) + LEDGER, encoding="utf-8")
    shown = run("check")

    assert (2, True) == (shown.exit_code, "1 problem, " in shown.stdout)
    assert said in " ".join(shown.stdout.replace("│", " ").split())
    assert kept == (here / "ledger.db").read_bytes()
    assert ["ledger.db"] == [path.name for path in here.glob("ledger*")]
    refused = run("budget").stderr
    assert (True, False) == (said in refused, "--" in refused)


def test_a_ledger_of_another_accounting_is_reported(here: Path) -> None:
    """If only the accounting differs, the message is about the accounting."""
    with_delta = DECLARED.replace("epsilon = 2", "epsilon = 2\ndelta = 1e-8")
    (here / "confide.toml").write_text(with_delta + LEDGER, encoding="utf-8")
    assert 0 == run("sql", COUNT, "--share", "1%").exit_code
    counted = with_delta.replace("1e-8", '1e-8\naccounting = "renyi"')
    (here / "confide.toml").write_text(counted + LEDGER, encoding="utf-8")

    for command in ("check", "budget"):
        shown = run(command)
        said = " ".join((shown.stdout + shown.stderr).replace("│", " ").split())
        assert 2 == shown.exit_code
        assert (
            "uses gaussian accounting, but the declared budget uses renyi accounting. Set" in said
        )
        assert "Filter" not in said


def test_check_reports_a_damaged_ledger(here: Path) -> None:
    """A file that is not a ledger is listed as a problem, without other output."""
    (here / "confide.toml").write_text(DECLARED + LEDGER, encoding="utf-8")
    (here / "ledger.db").write_bytes(b"this is no database, and long enough to look at" * 100)
    command, environment = [sys.executable, "-m", "confide"], {**os.environ, "COLUMNS": "200"}
    checked, asked = (
        subprocess.run(
            [*command, name], check=False, capture_output=True, text=True, env=environment
        )
        for name in ("check", "budget")
    )

    assert (2, "") == (checked.returncode, checked.stderr)
    assert "Check `url` in `[ledger]`." in " ".join(checked.stdout.replace("│", " ").split())
    assert "describe real rows" not in checked.stdout
    said = "The ledger's database failed: DatabaseError: file is not a database\n"
    assert (3, True) == (asked.returncode, asked.stderr.startswith(said))
    assert "Traceback" not in asked.stderr


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_the_file_of_another_program_is_left_alone(here: Path, mode: str) -> None:
    """A database of another program is refused, and neither it nor its folder changes."""
    (here / "confide.toml").write_text(DECLARED + LEDGER, encoding="utf-8")
    with closing(sqlite3.connect(here / "ledger.db")) as other:
        other.execute(f"PRAGMA journal_mode = {mode}")
        other.execute("CREATE TABLE places (url TEXT)")
    kept = (here / "ledger.db").read_bytes()
    shown = run("check")
    commands = (["budget"], ["sql", COUNT, "--share", "1%"], ["token", "ana"], ["token", "--list"])
    asked = [run(*command) for command in commands]

    assert (2, True) == (shown.exit_code, "1 problem, " in shown.stdout)
    assert "tables of another program" in " ".join(shown.stdout.replace("│", " ").split())
    assert "describe real rows" not in shown.stdout
    assert [(2, "")] * len(asked) == [(one.exit_code, one.stdout) for one in asked]
    assert all("tables of another program" in one.stderr for one in asked)
    assert kept == (here / "ledger.db").read_bytes()
    assert ["ledger.db"] == [path.name for path in here.glob("ledger*")]


def test_check_reads_a_ledger_that_is_in_use(here: Path) -> None:
    """`confide check` reads the newest part of a ledger from the log next to its file."""
    (here / "confide.toml").write_text(DECLARED + LEDGER, encoding="utf-8")
    ledger = open_ledger(here / "ledger.db", auto_filter(3, 0, "auto"), neighbours="add-remove")
    assert (here / "ledger.db-wal").stat().st_size
    shown = run("check")
    ledger.close()

    assert 2 == shown.exit_code
    assert "a budget of epsilon 3 and delta 0" in " ".join(shown.stdout.replace("│", " ").split())


def test_results_from_rows_are_followed_by_a_warning(here: Path) -> None:
    """Results from real rows are followed by a warning."""
    narrow = DECLARED.replace("high = 120", "high = 20")
    (here / "confide.toml").write_text(narrow, encoding="utf-8")

    assert "describe real rows. Do not publish them" in run("check").stdout


def test_check_notes_strings_whose_keys_can_never_be_released(here: Path) -> None:
    """Without delta, a text column gets a note that its keys cannot be released."""
    text = DECLARED.replace('ward = { type = "category", values = ["A", "=B"] }', WARD)
    (here / "confide.toml").write_text(text, encoding="utf-8")
    without = run("check")
    with_delta = text.replace("epsilon = 2", "epsilon = 2\ndelta = 1e-8")
    (here / "confide.toml").write_text(with_delta, encoding="utf-8")

    assert (0, True) == (without.exit_code, "With delta 0, undeclared keys" in without.stdout)
    assert "describe real rows" not in without.stdout
    assert "undeclared keys" not in run("check").stdout


def test_check_accepts_a_category_without_delta(here: Path) -> None:
    """A category without delta gets no note, since its keys are declared."""
    shown = run("check")

    assert (0, "0 problems, 0 notes") == (shown.exit_code, shown.stdout.strip())


@pytest.mark.usefixtures("spending_guard")
def test_a_high_cost_needs_a_yes(here: Path) -> None:
    """Above the owner's limit `confide sql` exits with 1 and names --yes, which then pays."""
    (here / "confide.toml").write_text(DECLARED + LEDGER, encoding="utf-8")
    preview = run("preview", COUNT, "--share", "89%")
    refused = run("sql", COUNT, "--share", "89%")
    paid = run("sql", COUNT, "--share", "89%", "--yes")

    assert 0 == preview.exit_code
    assert "needs confirmation" in preview.stdout
    assert (1, "") == (refused.exit_code, refused.stdout)
    assert refused.stderr.startswith("confirmation-required: ")
    assert "89" in refused.stderr
    assert "pass `--yes`." in refused.stderr
    assert 0 == paid.exit_code
    assert 0 == run("sql", COUNT, "--share", "89%").exit_code


def test_the_owner_declares_the_limit_per_query(here: Path) -> None:
    """`max_share_per_query` in [budget] sets the limit of `confide sql`."""
    strict = DECLARED.replace("epsilon = 2\n", 'epsilon = 2\nmax_share_per_query = "5%"\n')
    (here / "confide.toml").write_text(strict + LEDGER, encoding="utf-8")

    assert 0 == run("sql", COUNT, "--share", "5%").exit_code
    assert "more than 5" in run("sql", COUNT, "--share", "6%", "--fresh").stderr
