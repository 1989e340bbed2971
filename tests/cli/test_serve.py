"""Commands for tokens, the server, and queries to a remote server."""

import re
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from confide.cli.app import app
from confide.client.http import TooManyRequests
from confide.mcp import ToolBackend
from support.clocks import stop_rate_clock
from support.service import COUNT, House, build_house, serving

DECLARED = """\
[budget]
epsilon = 2
[ledger]
url = "sqlite:///ledger.db"
[tables.visits]
source = "visits.csv"
unit = "pid"
[tables.visits.columns]
ward = { type = "category", values = ["A", "B"] }
[analysts.ana]
share = 0.25
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a declaration, in which commands run."""
    (tmp_path / "visits.csv").write_text("pid,ward\n1,A\n2,B\n", encoding="utf-8")
    (tmp_path / "confide.toml").write_text(DECLARED, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, **environment: str) -> Result:
    """Run a command and let any exception but an exit fail the test."""
    env = {"COLUMNS": "200", "CONFIDE_TOKEN": "", **environment}
    return CliRunner().invoke(app, list(arguments), env=env, catch_exceptions=False)


@pytest.mark.parametrize(
    ("missing", "extra", "command"),
    [
        ("confide.server", "server", ["token", "ana"]),
        ("uvicorn", "server", ["serve"]),
        ("confide.mcp", "mcp", ["mcp"]),
    ],
)
def test_a_command_names_a_missing_extra(
    here: Path, monkeypatch: pytest.MonkeyPatch, missing: str, extra: str, command: list[str]
) -> None:
    """A command that needs more packages names the extra to install, and exits with 2."""
    monkeypatch.setitem(sys.modules, missing, None)
    shown = run(*command)

    assert 2 == shown.exit_code
    assert f'pip install "confide[{extra}]"' in shown.stderr


def test_a_token_spends_at_most_everything(here: Path) -> None:
    """A token's limit cannot exceed the whole budget."""
    shown = run("token", "ana", "--share", "2")

    assert (2, "") == (shown.exit_code, shown.stdout)
    assert "at most 100% of the budget" in shown.stderr


def test_an_address_in_use_is_refused_before_serving(here: Path) -> None:
    """If the port is in use, `confide serve` reports that and not that it listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        shown = run("serve", "--port", str(taken.getsockname()[1]))

    assert (2, "") == (shown.exit_code, shown.stdout)
    assert "cannot listen on 127.0.0.1" in shown.stderr


def test_the_list_shows_spending_without_a_limit(here: Path) -> None:
    """A token without its own limit is listed with its analyst's spending."""
    run("token", "ana")

    assert "0% by ana" in run("token", "--list").stdout


def test_a_token_is_made_listed_and_revoked(here: Path) -> None:
    """The secret is printed once, to standard output; neither list nor database contains it."""
    made = run("token", "ana", "--days", "7", "--share", "5%")
    text = made.stdout.strip()
    listed = run("token", "--list").stdout
    revoked = run("token", "ana", "--revoke")
    again = run("token", "ana", "--revoke")

    assert re.fullmatch(r"confide-[0-9a-f]{16}\.[A-Za-z0-9_-]{43}", text)
    assert "at most 5%" in made.stderr
    assert "ana" in listed
    assert text.split(".")[1] not in listed + made.stderr
    assert text.split(".")[1].encode() not in (here / "ledger.db").read_bytes()
    assert (0, "Revoked 1 token for ana.") == (revoked.exit_code, revoked.stdout.strip())
    assert 2 == again.exit_code
    assert "revoked" in run("token", "--list").stdout


@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        ("needs a name", ["token"]),
        ("Unknown analyst", ["token", "zoe"]),
        ("letters, digits", ["token", "a b", "--role", "owner"]),
        ("`share` must be", ["token", "ana", "--share", "0"]),
        (".png, .svg, or .html", ["holdout", "experiment", "--out", "figures.pdf"]),
        ("cannot be written", ["holdout", "experiment", "--out", "nowhere/figures.svg"]),
    ],
)
def test_wrong_use_is_explained(here: Path, said: str, arguments: list[str]) -> None:
    """Wrong use exits with 2 and a helpful message."""
    shown = run(*arguments)

    assert 2 == shown.exit_code
    assert said in shown.stderr


@pytest.mark.parametrize(
    "arguments", [["mcp"], ["sql", COUNT, "--share", "1%", "--url", "http://localhost:1"]]
)
def test_a_missing_token_is_not_a_bad_declaration(here: Path, arguments: list[str]) -> None:
    """Without CONFIDE_TOKEN, a command is refused as not signed in, and names the variable."""
    shown = run(*arguments)

    assert 1 == shown.exit_code
    assert "not-signed-in" in shown.stderr
    assert "CONFIDE_TOKEN" in shown.stderr


def test_local_tools_use_the_declaration(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`confide mcp` scores on the declared leaderboards, within the declared rate limit."""
    askers: list[Callable[[None], ToolBackend]] = []

    class Tools:
        def __init__(self, asker_of: Callable[[None], ToolBackend]) -> None:
            askers.append(asker_of)

        def run(self, _: str) -> None:
            """Do nothing."""

    monkeypatch.setattr("confide.mcp.make_tools", Tools)
    stop_rate_clock(monkeypatch)
    (here / "labels.csv").write_text("y\n" + "0\n1\n" * 4_000, encoding="utf-8")
    board = '[holdouts.digits]\nlabels = "labels.csv"\ncolumn = "y"\nstate = "boards.db"\n'
    rate = "submissions = 1000\n[server]\nrequests_per_minute = 3\n"
    (here / "confide.toml").write_text(DECLARED + board + rate, encoding="utf-8")
    run("mcp", CONFIDE_TOKEN=run("token", "ana").stdout.strip())

    assert 999 == askers[0](None).holdout_ask("digits", [0] * 8_000)["left"]
    askers[0](None)
    with pytest.raises(TooManyRequests):
        askers[0](None)


def test_a_server_needs_a_ledger(here: Path) -> None:
    """Tokens and the server need a ledger on disk."""
    text = DECLARED.replace('[ledger]\nurl = "sqlite:///ledger.db"\n', "")
    (here / "confide.toml").write_text(text, encoding="utf-8")

    for arguments in (["serve"], ["token", "ana"]):
        shown = run(*arguments)
        assert (2, True) == (shown.exit_code, "[ledger]" in shown.stderr)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[House, str]]:
    """Yield a house on a real socket, and its URL."""
    house = build_house(tmp_path, wards=["A", "B"])
    with serving(house.app) as address:
        yield house, address


def test_questions_go_to_a_server(served: tuple[House, str]) -> None:
    """`--url` previews, answers, and refuses like a local file, with the same exit codes."""
    house, address = served
    before = run("preview", COUNT, "--share", "1%", "--url", address, CONFIDE_TOKEN=house.ana)
    asked = run("sql", COUNT, "--share", "1%", "--url", address, CONFIDE_TOKEN=house.ana)
    table = run(
        *("sql", COUNT, "--share", "1%", "--url", address, "--format", "csv"),
        CONFIDE_TOKEN=house.ana,
    )
    refused = run(
        "sql",
        "SELECT MAX(age) FROM visits",
        "--share",
        "1%",
        "--url",
        address,
        CONFIDE_TOKEN=house.ana,
    )
    wrong = run("sql", COUNT, "--share", "1%", "--url", address, CONFIDE_TOKEN="confide-x")

    assert "would cost 1% of the budget" in before.stdout
    assert "cost 1%" in asked.stderr
    assert "nothing (stored answer)" in table.stderr
    assert "ward,n,n_low,n_high" == table.stdout.splitlines()[0]
    assert (1, True) == (refused.exit_code, "unsupported-query" in refused.stderr)
    assert (1, True) == (wrong.exit_code, "not-signed-in" in wrong.stderr)
    assert "1/100" == str(house.curator.budget.spent.share)


def test_a_token_may_confirm_if_the_owner_says_so(here: Path) -> None:
    """`--may-confirm` gives a token the right to confirm, and `--list` shows it."""
    run("token", "ana")
    run("token", "ana", "--may-confirm")
    listed = run("token", "--list").stdout

    assert 1 == listed.count("may confirm")


@pytest.mark.usefixtures("spending_guard")
def test_a_remote_query_above_the_limit_needs_a_yes(tmp_path: Path) -> None:
    """`confide sql --url` names --yes as well, and --yes reaches the server."""
    house = build_house(tmp_path)
    with serving(house.app) as address:
        asked = ("sql", COUNT, "--share", "30%", "--url", address)
        refused = run(*asked, CONFIDE_TOKEN=house.ana)
        paid = run(*asked, "--yes", CONFIDE_TOKEN=house.ana)

    assert 1 == refused.exit_code
    assert "pass `--yes`." in refused.stderr
    assert 0 == paid.exit_code
