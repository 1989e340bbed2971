"""MCP tools, called through the SDK's client."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client

from confide.client import connect
from confide.errors import Fault
from confide.loss import Share
from confide.mcp import HttpBackend, make_tools
from mcp import Client, StdioServerParameters
from support.agents import call, text_of, tools_of
from support.service import COUNT, House, bearer, build_house, close_files, serving
from support.tree import ROOT

TOOLS = [
    "ask",
    "budget",
    "choose",
    "estimate",
    "history",
    "holdout_ask",
    "list_tables",
    "preview",
    "release",
    "watch",
    "watch_ask",
]
TOTAL = "SELECT COUNT(*) AS n FROM visits"
OLD = "SELECT COUNT(*) AS n FROM visits WHERE age >= 60"
MEAN = {"statistic": "mean", "table": "visits", "column": "age"}
PAID: list[tuple[str, dict[str, Any]]] = [
    ("ask", {"sql": COUNT}),
    ("choose", {"candidates": {"all": TOTAL, "old": OLD}}),
    ("release", {"queries": [TOTAL, COUNT], "weights": [1, 0.5]}),
    ("watch", {"threshold": -1e9}),
    ("estimate", MEAN),
]
ASK = {"sql": COUNT, "share": "1%"}
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
"""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A server whose application is not running; tools call its service directly."""
    built = build_house(tmp_path)
    yield built
    close_files(built.app)


def test_the_tools_describe_their_costs(house: House) -> None:
    """Each description states the cost; the instructions explain free calls and refusals."""

    async def run() -> tuple[str, dict[str, str]]:
        async with Client(tools_of(house)) as client:
            listed = (await client.list_tools()).tools
            return client.instructions or "", {one.name: one.description or "" for one in listed}

    instructions, tools = anyio.run(run)

    assert TOOLS == sorted(tools)
    assert all("free" in text.lower() or name == "holdout_ask" for name, text in tools.items())
    for word in ("budget-exceeded", "free", "interval", "epsilon", "GROUP BY"):
        assert word in instructions


def test_the_page_of_agents_lists_the_tools() -> None:
    """docs/agents.md has exactly one row for each tool."""
    page = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")

    assert TOOLS == sorted(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))


def test_a_model_can_pay_for_a_new_answer(house: House) -> None:
    """A repeated query is charged with ``fresh`` and free without it."""
    first, fresh, budget = call(
        tools_of(house), ("ask", ASK), ("ask", {**ASK, "fresh": True}), ("budget", {})
    )

    assert not first.structured_content["reused"]
    assert not fresh.structured_content["reused"]
    assert "2%" == budget.structured_content["spent"]["share"]


def test_a_model_is_charged_for_the_first_ask(house: House) -> None:
    """Only the first ask is charged: not list, preview, a repeat, budget, or history."""
    shown, before, first, after, again, budget, history = call(
        tools_of(house),
        ("list_tables", {}),
        ("preview", ASK),
        ("ask", ASK),
        ("preview", ASK),
        ("ask", ASK),
        ("budget", {}),
        ("history", {"limit": 5}),
    )

    assert "visits" == shown.structured_content["tables"][0]["name"]
    assert "1%" == before.structured_content["cost"]["share"]
    assert (False, True) == tuple(one.structured_content["reused"] for one in (before, after))
    assert not first.structured_content["reused"]
    assert again.structured_content["reused"]
    assert first.structured_content["rows"] == again.structured_content["rows"]
    assert "1%" == budget.structured_content["spent"]["share"]
    assert 1 == len(history.structured_content["answers"])


@pytest.mark.parametrize(
    ("code", "given"),
    [
        ("unsupported-query", {"sql": "SELECT MAX(age) FROM visits", "share": "1%"}),
        ("unknown-name", {"sql": "SELECT COUNT(*) FROM labs", "share": "1%"}),
        ("budget-exceeded", {"sql": COUNT, "share": "90%"}),
        ("bad-argument", {"sql": COUNT}),
        ("bad-argument", {"sql": COUNT, "share": "1%", "epsilon": 1}),
    ],
)
def test_refusals_include_their_code(house: House, code: str, given: dict[str, Any]) -> None:
    """A refused call returns an error with its code and advice, and spends nothing."""
    (refused,) = call(tools_of(house), ("ask", given))

    assert refused.is_error
    assert f"{code}: " in text_of(refused)
    assert 0 == house.curator.budget.spent.share


def test_a_fault_reveals_nothing_to_a_model(caplog: pytest.LogCaptureFixture) -> None:
    """All internal errors give the same message; the log has only their place in the code."""
    kinds = (Fault, ValueError, KeyError)

    def broken(kind: type[Exception]) -> Any:
        def ask(_: Any) -> Any:
            raise kind("the row of Mr Smith")

        return make_tools(ask)

    results = [call(broken(kind), ("budget", {}))[0] for kind in kinds]

    assert all(result.is_error for result in results)
    assert 1 == len({text_of(result) for result in results})
    assert "Smith" not in text_of(results[0]) + caplog.text
    assert all(f"{kind.__name__} at " in caplog.text for kind in kinds)


def test_choose_release_and_estimate_work(house: House) -> None:
    """choose returns a name, release answers in order, estimate works, and repeats are free."""
    given = [(tool, {**asked, "share": "1%"}) for tool, asked in PAID if tool != "watch"]
    _, choice, batch, mean, *again, budget = call(tools_of(house), *given, *given, ("budget", {}))

    assert choice.structured_content["value"] in ("all", "old")
    assert [["n"], ["ward", "n"]] == [one["columns"] for one in batch.structured_content["answers"]]
    assert mean.structured_content["lows"][0] <= mean.structured_content["highs"][0]
    assert not any(result.is_error for result in again)
    assert "4%" == budget.structured_content["spent"]["share"]


def test_a_watch_is_charged_once(house: House) -> None:
    """Opening a watch is charged, "below" is free, keys repeat results, and "above" ends it."""
    high, low = call(
        tools_of(house),
        ("watch", {"threshold": 1e9, "share": "1%"}),
        ("watch", {"threshold": -1e9, "share": "1%", "key": "k"}),
    )
    number = low.structured_content["watch"]
    said_to_low = {"watch": number, "sql": TOTAL, "key": "once"}
    below, above, again, over, same, budget = call(
        tools_of(house),
        ("watch_ask", {"watch": high.structured_content["watch"], "sql": TOTAL}),
        ("watch_ask", said_to_low),
        ("watch_ask", said_to_low),
        ("watch_ask", {"watch": number, "sql": TOTAL}),
        ("watch", {"threshold": -1e9, "share": "1%", "key": "k"}),
        ("budget", {}),
    )

    assert {"above": False, "left": 1} == below.structured_content
    assert {"above": True, "left": 0} == above.structured_content == again.structured_content
    assert "budget-exceeded: " in text_of(over)
    assert (number, True) == tuple(same.structured_content[name] for name in ("watch", "reused"))
    assert "2%" == budget.structured_content["spent"]["share"]


@pytest.mark.parametrize(("tool", "given"), PAID, ids=[tool for tool, _ in PAID])
def test_no_tool_exceeds_an_agents_limit(house: House, tool: str, given: dict[str, Any]) -> None:
    """Every tool refuses a tenth to an agent with a limit of one twentieth, and spends nothing."""
    parent = house.tokens.find(house.ana)
    bot, _ = house.tokens.make("ana", label="bot", limit=Share.floor("1/20"), parent=parent)
    past, within, budget = call(
        tools_of(house, bot),
        (tool, {**given, "share": "10%"}),
        (tool, {**given, "share": "4%"}),
        ("budget", {}),
    )

    assert "budget-exceeded: " in text_of(past)
    assert not within.is_error
    assert "1%" == budget.structured_content["left"]["share"]


def test_an_agent_cannot_use_its_analysts_watch(house: House) -> None:
    """An agent cannot use ana's watch: its number is refused like an unknown one."""
    parent = house.tokens.find(house.ana)
    bot, _ = house.tokens.make("ana", label="bot", limit=Share.floor("1/20"), parent=parent)
    (opened,) = call(tools_of(house), ("watch", {"threshold": -1e9, "share": "1%"}))
    number = opened.structured_content["watch"]
    asked = [("watch_ask", {"watch": one, "sql": TOTAL}) for one in (number, number + 999)]
    theirs, nothing = call(tools_of(house, bot), *asked)
    (own,) = call(tools_of(house), asked[0])

    assert text_of(theirs) == text_of(nothing)
    assert "not-yours: " in text_of(theirs)
    assert {"above": True, "left": 0} == own.structured_content


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("estimate", {"statistic": "mean", "table": "visits", "share": "1%"}),
        ("estimate", {**MEAN, "bins": 3, "share": "1%"}),
        ("ask", {"sql": TOTAL, "share": "a lot"}),
    ],
)
def test_malformed_calls_name_the_argument(house: House, tool: str, given: dict[str, Any]) -> None:
    """A malformed call gets an error that names the argument, as the routes do."""
    (refused,) = call(tools_of(house), (tool, given))

    assert "malformed-request: " in text_of(refused)
    assert 0 == house.curator.budget.spent.share


@pytest.mark.parametrize(
    ("tool", "given", "told"),
    [
        ("ask", {"sql": TOTAL, "share": "1%", "fesh": True}, "'fesh' (did you mean `fresh`?)"),
        ("budget", {"of": "ana"}, "'of' (arguments: none)"),
        ("ask", {"share": "1%"}, "`sql`: is required (one SELECT"),
        ("ask", {"sql": TOTAL, "share": [1]}, "`share`: input should be a valid number (share of"),
        ("ask", {"sql": TOTAL, "share": True}, "`share`: input should be a valid number (share of"),
        ("ask", {"sql": TOTAL, "epsilon": True}, "`epsilon`: input should be a valid number"),
        ("ask", {"sql": TOTAL, "error": True}, "`error`: input should be a valid number"),
        ("holdout_ask", {"name": "b", "predictions": ["a"] * 99}, "`predictions`: input should be"),
        ("ask", {"sql": TOTAL, "share": "a lot"}, '`share`: or a string such as "5%" or "1/20"'),
        ("holdout_ask", {"name": "nobody's", "predictions": [1]}, "Holdouts of this server: "),
    ],
)
def test_wrong_arguments_get_a_short_error(
    house: House, tool: str, given: dict[str, Any], told: str
) -> None:
    """Unknown, missing, or malformed arguments get a short error before any charge."""
    (refused,) = call(tools_of(house), (tool, given))

    assert refused.is_error
    assert told in text_of(refused)
    assert len(text_of(refused)) < 300
    assert "pydantic" not in text_of(refused)
    assert 0 == house.curator.budget.spent.share


def test_a_share_can_be_a_number(house: House) -> None:
    """A share can be a number: 0.01 is one hundredth."""
    asked, budget = call(tools_of(house), ("ask", {**ASK, "share": 0.01}), ("budget", {}))

    assert not asked.is_error
    assert "1%" == budget.structured_content["spent"]["share"]


def test_an_agent_cannot_spend_more_than_its_limit(house: House) -> None:
    """An agent with a limit of one twentieth spends it and is then refused; ana is charged."""
    parent = house.tokens.find(house.ana)
    limit = Share.floor("1/20")
    bot, _ = house.tokens.make("ana", label="bot", limit=limit, parent=parent)
    questions = [
        ("ask", {"sql": f"SELECT COUNT(*) AS n FROM visits WHERE age > {age}", "share": "2%"})
        for age in range(4)
    ]
    *asked, budget = call(tools_of(house, bot), *questions, ("budget", {}))

    assert [False, False, True, True] == [result.is_error for result in asked]
    assert "budget-exceeded: " in text_of(asked[2])
    assert "1%" == budget.structured_content["left"]["share"]
    assert "1/25" == str(house.curator.as_analyst("ana").budget.spent.share)


@pytest.fixture
def served(house: House) -> Iterator[str]:
    """The server on a real socket."""
    with serving(house.app) as address:
        yield address


def test_tools_over_http_need_a_token(house: House, served: str) -> None:
    """Tools over HTTP answer for the token's holder; without a token, they return a 401."""

    async def run(token: str) -> Any:
        async with (
            httpx2.AsyncClient(headers=bearer(token), timeout=60) as http,
            Client(streamable_http_client(f"{served}/mcp", http_client=http)) as client,
        ):
            return await client.call_tool("ask", ASK)

    answered = anyio.run(run, house.ben)
    closed = [
        httpx2.post(f"{served}/mcp", json={}, headers=headers, timeout=60)
        for headers in ({}, bearer("wrong"), {"authorization": f"Basic {house.ana}"})
    ]

    assert not answered.is_error
    assert "ben" == house.curator.ledger.history(1)[0].question.analyst
    assert [401, 401, 401] == [answer.status_code for answer in closed]
    assert {"not-signed-in"} == {answer.json()["error"]["code"] for answer in closed}


def test_tools_can_use_a_remote_server(house: House, served: str) -> None:
    """`confide mcp --url` queries over HTTP, with the same answers and refusals."""
    with connect(served, house.ana) as connection:
        tools = make_tools(lambda _: HttpBackend(connection))
        shown, before, answer, refused, budget, history = call(
            tools,
            ("list_tables", {}),
            ("preview", ASK),
            ("ask", ASK),
            ("ask", {"sql": "SELECT MAX(age) FROM visits", "share": "1%"}),
            ("budget", {}),
            ("history", {}),
        )
        others = call(tools, *((tool, {**given, "share": "1%"}) for tool, given in PAID[1:]))
        number = others[2].structured_content["watch"]
        (told,) = call(tools, ("watch_ask", {"watch": number, "sql": TOTAL}))

    assert shown.structured_content["tables"]
    assert before.structured_content["cost"] == answer.structured_content["cost"]
    assert "unsupported-query: " in text_of(refused)
    assert "1%" == budget.structured_content["spent"]["share"]
    assert 1 == len(history.structured_content["answers"])
    assert not any(result.is_error for result in others)
    assert {"above": True, "left": 0} == told.structured_content


def test_tools_over_the_standard_streams(tmp_path: Path) -> None:
    """`confide mcp` opens the declaration and answers within the token's limits."""
    rows = "\n".join(f"{pid},{'AB'[pid % 2]}" for pid in range(100))
    (tmp_path / "visits.csv").write_text(f"pid,ward\n{rows}\n", encoding="utf-8")
    (tmp_path / "confide.toml").write_text(DECLARED, encoding="utf-8")
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}

    async def run() -> Any:
        made = await anyio.run_process(
            [sys.executable, "-m", "confide", "token", "bot", "--share", "2%"], cwd=tmp_path
        )
        shown = StdioServerParameters(
            command=sys.executable,
            args=["-m", "confide", "mcp"],
            cwd=tmp_path,
            env={**environment, "CONFIDE_TOKEN": made.stdout.decode().strip()},
        )
        async with Client(shown) as client:
            first = await client.call_tool("ask", ASK)
            second = await client.call_tool(
                "ask", {**ASK, "share": "2%", "sql": COUNT + " LIMIT 1"}
            )
            return first, second

    first, second = anyio.run(run)

    assert not first.is_error
    assert "budget-exceeded: " in text_of(second)
