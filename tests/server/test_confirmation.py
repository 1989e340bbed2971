"""The spending guard over HTTP, on the page, and for agents."""

import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import text

import confide as cf
from confide.client import Connection, connect
from confide.mcp import HttpBackend, make_tools
from confide.server.tokens import TokenStore, open_tables
from support.agents import call, text_of, tools_of
from support.service import COUNT, House, bearer, open_house, serving

TOTAL: Final = "SELECT COUNT(*) AS n FROM visits"
OLD: Final = "SELECT COUNT(*) AS n FROM visits WHERE age >= 60"
ROUTES: Final[dict[str, dict[str, Any]]] = {
    "/v1/query": {"sql": COUNT},
    "/v1/choose": {"candidates": {"all": TOTAL, "old": OLD}},
    "/v1/release": {"queries": [TOTAL, OLD]},
    "/v1/watches": {"threshold": 10},
    "/v1/statistics": {"statistic": "mean", "table": "visits", "column": "age"},
}
TOOLS: Final = {
    "ask": "/v1/query",
    "choose": "/v1/choose",
    "release": "/v1/release",
    "watch": "/v1/watches",
    "estimate": "/v1/statistics",
}
OWN: Final = {"sec-fetch-site": "same-origin", "accept": "text/html"}
FORM: Final = {"sql": COUNT, "by": "share", "amount": "30%"}

pytestmark = pytest.mark.usefixtures("spending_guard")


@pytest.fixture
def house(tmp_path: Path, spending_guard: None) -> Iterator[House]:
    """A server whose budget has the users' default limit."""
    with open_house(tmp_path) as opened:
        yield opened


def spent(house: House) -> Fraction:
    return house.curator.budget.spent.share


@pytest.mark.parametrize("route", ROUTES)
def test_every_charging_route_is_guarded(house: House, route: str) -> None:
    """Above the limit, each route answers 422 with the price, and `confirm` pays."""
    body = {**ROUTES[route], "share": "30%"}
    refused = house.post(route, body)

    assert 422 == refused.status_code
    error = refused.json()["error"]
    assert ("confirmation-required", "3/10", "1/5") == (
        error["code"],
        error["cost"],
        error["limit"],
    )
    assert '`"confirm": true`' in error["message"]
    assert 0 == spent(house)
    assert 200 == house.post(route, {**body, "confirm": True}).status_code
    assert Fraction(3, 10) == spent(house)


def test_a_preview_is_never_guarded(house: House) -> None:
    """A preview needs no confirmation and states that the query does."""
    found = house.post("/v1/preview", {"sql": COUNT, "share": "30%"}).json()

    assert "needs confirmation" in found["notes"][-1]


@pytest.mark.parametrize("tool", TOOLS)
def test_an_agent_confirms_only_with_the_right_to(house: House, tool: str) -> None:
    """Through the tools, `confirm` counts only with a token made for that."""
    may, _ = house.tokens.make("ben", may_confirm=True)
    given = {**ROUTES[TOOLS[tool]], "share": "21%", "confirm": True}
    (refused,) = call(tools_of(house), (tool, given))
    unspent = spent(house)
    (asked,) = call(tools_of(house, may), (tool, {**given, "confirm": False}))
    (paid,) = call(tools_of(house, may), (tool, given))

    assert refused.is_error
    assert "confirmation-required" in text_of(refused)
    assert "--may-confirm" in text_of(refused)
    assert 0 == unspent
    assert asked.is_error
    assert '`"confirm": true`' in text_of(asked)
    assert not paid.is_error
    assert Fraction(21, 100) == spent(house)


def test_tools_that_use_a_server_are_guarded_alike(house: House) -> None:
    """`confide mcp --url` tells the server that a model asks, so a plain token cannot confirm."""
    may, _ = house.tokens.make("ben", may_confirm=True)
    given = {"sql": COUNT, "share": "21%", "confirm": True}
    with serving(house.app) as address:
        outcomes = []
        for token in (house.ana, may):
            with connect(address, token, for_tools=True) as connection:
                outcomes += call(_remote_tools(connection), ("ask", given))

    assert [True, False] == [outcome.is_error for outcome in outcomes]
    assert "--may-confirm" in text_of(outcomes[0])


def _remote_tools(connection: Connection) -> Any:
    backend = HttpBackend(connection)
    return make_tools(lambda _: backend)


def test_an_issued_token_cannot_confirm(house: House) -> None:
    """An agent's token cannot confirm, even over HTTP, unless its issuer has the right itself."""
    may, _ = house.tokens.make("ben", may_confirm=True)
    new = {"name": "robot", "share": "25%"}
    plain = house.post("/v1/tokens", new).json()["text"]
    refused = house.post("/v1/tokens", {**new, "may_confirm": True})
    trusted = house.post("/v1/tokens", {**new, "may_confirm": True}, may).json()["text"]
    body = {"sql": COUNT, "share": "21%", "confirm": True}

    assert (403, "not-yours") == (refused.status_code, refused.json()["error"]["code"])
    assert 422 == house.post("/v1/query", body, plain).status_code
    assert 0 == spent(house)
    assert "0" == house.get("/v1/tokens", plain).json()["tokens"][0]["spent"]
    assert 200 == house.post("/v1/query", body, trusted).status_code


def test_a_limited_token_of_the_owner_cannot_confirm(house: House) -> None:
    """The owner's token for an agent has a share; without the right, it cannot confirm anywhere."""
    new = {"name": "ana", "share": "25%"}
    plain = house.post("/v1/tokens", new, house.owner).json()["text"]
    trusted = house.post("/v1/tokens", {**new, "may_confirm": True}, house.owner).json()["text"]
    body = {"sql": COUNT, "share": "21%", "confirm": True}
    refused = house.post("/v1/query", body, plain)

    assert 422 == refused.status_code
    assert "--may-confirm" in refused.json()["error"]["message"]
    assert 0 == spent(house)
    assert 200 == house.post("/v1/query", body, trusted).status_code


def test_a_python_client_gets_the_same_refusal(house: House) -> None:
    """A connection raises the curator's refusal, with its cost and advice for Python."""
    issued = house.post("/v1/tokens", {"name": "robot", "share": "25%"}).json()["text"]
    with serving(house.app) as address:
        with connect(address, house.ana) as ana, pytest.raises(cf.ConfirmationRequired) as refused:
            ana.sql(COUNT, share="30%")
        with connect(address, issued) as robot, pytest.raises(cf.ConfirmationRequired) as agent:
            robot.sql(COUNT, share="21%", confirm=True)
        with connect(address, house.ana) as ana:
            answer = ana.sql(COUNT, share="30%", confirm=True)
            estimate = ana.mean("visits", "age", share="20%")

    assert refused.value.cost == answer.cost
    assert Fraction(1, 5) == refused.value.limit == estimate.cost.share
    assert str(refused.value).endswith("pass `confirm=True`.")
    assert "--may-confirm" in str(agent.value)
    assert 1 == str(agent.value).count("This query would cost")


def test_a_high_cost_takes_another_click_on_the_page(house: House) -> None:
    """Paying shows the price and a button to confirm it; that button pays, once."""
    house.client.post("/sign-in", data={"token": house.ana}, headers=OWN)
    preview = _click(house, FORM)
    asked = _click(house, _fields(preview))
    assert "confirmation-required" in asked
    assert re.search(r"Confirm and pay 30 ?%", asked)
    assert "Nothing was read or spent." in asked
    assert 0 == spent(house)
    fields = _fields(asked)
    with_scripts = house.client.post(
        "/ask", data=_fields(preview), headers={**OWN, "hx-request": "true"}
    )
    assert 'name="confirm" value="yes"' in with_scripts.text
    paid, again = _click(house, fields), _click(house, fields)

    assert 'id="answer"' in paid
    assert 'id="answer"' in again
    assert Fraction(3, 10) == spent(house)


def test_an_agent_gets_no_button_to_confirm(house: House) -> None:
    """On the page, a token without the right to confirm gets advice and finds no button."""
    issued = house.post("/v1/tokens", {"name": "robot", "share": "40%"}).json()["text"]
    house.client.post("/sign-in", data={"token": issued}, headers=OWN)
    fields = _fields(_click(house, FORM))
    asked = _click(house, fields)
    forced = _click(house, {**fields, "confirm": "yes"})

    for page in (asked, forced):
        assert "--may-confirm" in page
        assert "Confirm and pay" not in page
    assert 0 == spent(house)


def _click(house: House, form: dict[str, str]) -> str:
    page: str = house.client.post("/ask", data=form, headers=OWN).text
    return page


def _fields(page: str) -> dict[str, str]:
    """Return the hidden fields of the outcome, which hold the query to pay for."""
    outcome = page.split('id="outcome"')[1]
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', outcome))


def test_the_owner_page_can_give_the_right(house: House) -> None:
    """The owner's form creates a token that may confirm, and lists show who may."""
    house.client.post("/sign-in", data={"token": house.owner}, headers=OWN)
    form = {"name": "ben", "role": "analyst", "days": "1", "may_confirm": "yes"}
    house.client.post("/owner/tokens", data=form, headers=OWN)
    listed = house.get("/v1/tokens", house.owner).json()["tokens"]

    assert 1 == sum(token["may_confirm"] for token in listed)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_tokens_of_the_first_layout_cannot_confirm(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Opening an older token table upgrades it; its tokens stay valid and cannot confirm."""
    is_file = kind == "sqlite"
    path = tmp_path / "ledger.db" if is_file else request.getfixturevalue("postgres").create()
    before = open_tables(path)
    token, _ = TokenStore(before).make("ana", may_confirm=True)
    before.change(
        lambda connection: [
            connection.execute(text(statement))
            for statement in (
                "ALTER TABLE confide_tokens DROP COLUMN may_confirm",
                "UPDATE confide_server SET version = 1",
            )
        ]
    )
    before.close()
    after = TokenStore(open_tables(path))
    found = after.find(token)

    assert found is not None
    assert not found.may_confirm
    assert after.make("ben", may_confirm=True)[1].may_confirm


def test_the_client_header_only_takes_rights_away(house: House) -> None:
    """A request that claims to come from tools loses the right to confirm; others keep it."""
    body = {"sql": COUNT, "share": "21%", "confirm": True}
    headers = {**bearer(house.ana), "confide-client": "tools"}

    assert 422 == house.client.post("/v1/query", json=body, headers=headers).status_code
    assert 200 == house.post("/v1/query", body).status_code
