"""Authorization: every route with every kind of caller."""

import re
import time
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from confide.declare import ServerSettings
from confide.engines import DuckDB
from confide.ledger import Hold, Payload, Receipt, SqlLedger
from confide.loss import Share
from confide.server import Role
from confide.server.service import Caller, Service
from support.service import COUNT, House, bearer, open_house

ASK = {"sql": COUNT, "share": "1/100"}
TOTAL = "SELECT COUNT(*) AS n FROM visits"
MEAN = {"statistic": "mean", "table": "visits", "column": "age", "share": "1/100"}
WATCH = "987654321"
ANALYST: list[tuple[str, str, Any]] = [
    ("GET", "/v1/tables", None),
    ("GET", "/v1/budget", None),
    ("POST", "/v1/preview", ASK),
    ("POST", "/v1/explain", ASK),
    ("POST", "/v1/query", ASK),
    ("GET", "/v1/answers", None),
    ("GET", "/v1/answers/0", None),
    ("POST", "/v1/choose", {"candidates": {"all": TOTAL}, "share": "1/100"}),
    ("POST", "/v1/release", {"queries": [TOTAL], "share": "1/100"}),
    ("POST", "/v1/statistics", MEAN),
    ("POST", "/v1/watches", {"threshold": 5, "share": "1/100"}),
    ("GET", f"/v1/watches/{WATCH}", None),
    ("POST", f"/v1/watches/{WATCH}/ask", {"sql": TOTAL}),
    ("DELETE", f"/v1/watches/{WATCH}", None),
    ("GET", "/v1/holdouts", None),
    ("POST", "/v1/holdouts/digits/ask", {"predictions": [0, 1]}),
    ("GET", "/v1/tokens", None),
    ("POST", "/v1/tokens", {"name": "bot", "share": "1/10"}),
    ("DELETE", "/v1/tokens/0123456789abcdef", None),
]
OWNER: list[tuple[str, str, Any]] = [("GET", "/v1/ledger", None)]
OPEN = {"/healthz", "/metrics"}


def send(house: House, route: tuple[str, str, Any], headers: dict[str, str]) -> Any:
    method, path, body = route
    return house.client.request(method, path, json=body, headers=headers)


def test_the_matrix_covers_every_route(house: House) -> None:
    """Every API route is in the lists above, or is public."""
    routes = {
        (method.upper(), path)
        for path, methods in house.app.openapi()["paths"].items()
        for method in methods
        if path not in OPEN
    }
    listed = {
        (method, re.sub(r"/[0-9a-f]{16}$", "/{token}", re.sub(r"/0$", "/{entry}", path)))
        for method, path, _ in ANALYST + OWNER
    }
    places = (("/digits/", "/{name}/"), (WATCH, "{watch}"))
    for found, place in places:
        listed = {(method, path.replace(found, place)) for method, path in listed}

    assert routes == listed


@pytest.mark.parametrize("route", ANALYST + OWNER, ids=lambda route: " ".join(route[:2]))
def test_invalid_tokens_are_rejected(house: House, route: tuple[str, str, Any]) -> None:
    """Missing, wrong, and truncated tokens and other schemes get the same 401; nothing is spent."""
    wrong = house.ana[:-1] + ("A" if house.ana[-1] != "A" else "B")
    unknown = "confide-0123456789abcdef." + "x" * 43
    tries = [
        {},
        {"authorization": ""},
        bearer(""),
        bearer(wrong),
        bearer(unknown),
        bearer(house.ana[:30]),
        bearer(house.ana.upper()),
        bearer(house.ana + "\x00"),
        bearer(f"{house.ana},{house.owner}"),
        bearer("x" * 10_000),
        {"authorization": f"Basic {house.ana}"},
        {"authorization": house.ana},
        {"cookie": f"confide-token={house.ana}"},
        {"x-forwarded-user": "head", "x-user": "ana"},
    ]
    for headers in tries:
        answer = send(house, route, headers)

        assert (401, "not-signed-in") == (answer.status_code, answer.json()["error"]["code"])
    assert 0 == house.curator.budget.spent.share


def test_a_second_authorization_header_is_rejected(house: House) -> None:
    """A second Authorization header is refused, because a proxy might have read the other one."""
    pair = [("authorization", f"Bearer {house.ana}"), ("authorization", f"Bearer {house.owner}")]

    assert 401 == house.client.get("/v1/ledger", headers=pair).status_code
    assert 401 == house.client.get("/v1/budget", headers=pair).status_code


def test_revoked_and_expired_tokens_are_rejected(tmp_path: Path) -> None:
    """A revoked or expired token gets the same 401 as an unknown one."""
    now = [time.time()]
    with open_house(tmp_path, clock=lambda: now[0]) as house:
        text, token = house.tokens.make("ana", days=1)
        assert 200 == house.get("/v1/budget", text).status_code
        house.tokens.revoke(token.id)
        revoked = house.get("/v1/budget", text)
        now[0] += 91 * 86_400
        expired, never = house.get("/v1/budget"), house.get("/v1/budget", "confide-" + "0" * 16)

    assert [401, 401, 401] == [answer.status_code for answer in (revoked, expired, never)]
    assert revoked.json() == expired.json() == never.json()


@pytest.mark.parametrize("route", OWNER, ids=lambda route: " ".join(route[:2]))
def test_analysts_cannot_use_the_owners_routes(house: House, route: tuple[str, str, Any]) -> None:
    """An analyst gets 403 from every owner's route."""
    assert 403 == send(house, route, bearer(house.ana)).status_code
    assert 200 == send(house, route, bearer(house.owner)).status_code


def test_answers_are_private_to_the_analyst_who_paid(house: House) -> None:
    """B cannot read A's answers, nor learn whether they exist; the owner can read them."""
    entry = house.post("/v1/query", ASK).json()["receipt"]["entry"]
    theirs, nothing = (
        house.get(f"/v1/answers/{entry}", house.ben),
        house.get(f"/v1/answers/{entry + 999}", house.ben),
    )

    assert 403 == theirs.status_code == nothing.status_code
    assert theirs.json()["error"]["code"] == nothing.json()["error"]["code"] == "not-yours"
    assert [] == house.get("/v1/answers", house.ben).json()["answers"]
    assert 200 == house.get(f"/v1/answers/{entry}").status_code
    assert 200 == house.get(f"/v1/answers/{entry}", house.owner).status_code


def test_owners_find_their_own_answers(house: House) -> None:
    """The owner's answers list contains the owner's queries, and none of the analysts'."""
    house.post("/v1/query", ASK)
    entry = house.post("/v1/query", ASK, house.owner).json()["receipt"]["entry"]
    listed = house.get("/v1/answers", house.owner).json()["answers"]

    assert [entry] == [one["entry"] for one in listed]


def test_one_analyst_cannot_spend_anothers_limit(house: House) -> None:
    """After A exhausts its limit, A is refused and B's full share is available."""
    assert 200 == house.post("/v1/query", {"sql": COUNT, "share": "1/2"}).status_code
    more = house.post("/v1/query", {"sql": COUNT, "share": "1/100", "fresh": True})
    bens = house.post("/v1/query", {"sql": COUNT, "share": "1/4"}, house.ben)
    past = house.post("/v1/query", {"sql": COUNT, "share": "1/100", "fresh": True}, house.ben)

    assert (429, "budget-exceeded") == (more.status_code, more.json()["error"]["code"])
    assert 200 == bens.status_code
    assert 429 == past.status_code


def test_another_analysts_answer_is_not_free(house: House) -> None:
    """A query that A paid for costs B the same, unless the owner shares answers."""
    first = house.post("/v1/query", ASK).json()
    second = house.post("/v1/query", ASK, house.ben).json()

    assert first["cost"] == second["cost"]
    assert not second["reused"]


@pytest.fixture
def agent_token(house: House) -> tuple[House, str, str]:
    """An agent's token for one tenth of the budget, issued by ana: its text and its id."""
    made = house.post("/v1/tokens", {"name": "bot", "share": "1/10"}).json()
    return house, made["text"], made["token"]["id"]


def test_an_agent_cannot_exceed_its_limit(agent_token: tuple[House, str, str]) -> None:
    """A token's limit can be spent exactly and never exceeded; ana is charged for it."""
    house, bot, _ = agent_token
    costs = [
        house.post("/v1/query", {**ASK, "share": "1/30", "fresh": True}, bot).status_code
        for _ in range(5)
    ]

    assert [200, 200, 200, 429, 429] == costs
    assert "1/10" == house.get("/v1/budget").json()["spent"]["share"]
    assert "0" == house.get("/v1/budget", bot).json()["left"]["share"]


def test_a_spent_agent_gets_stored_answers_for_free(
    agent_token: tuple[House, str, str],
) -> None:
    """A stored answer is free for an agent with a spent limit, and refunds nothing."""
    house, bot, _ = agent_token
    house.post("/v1/query", {**ASK, "share": "1/10"}, bot)
    again = house.post("/v1/query", {**ASK, "share": "1/10"}, bot)

    assert again.json()["reused"]
    assert "0" == house.get("/v1/budget", bot).json()["left"]["share"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/choose", {"candidates": {"all": TOTAL}}),
        ("/v1/release", {"queries": [TOTAL]}),
        ("/v1/statistics", MEAN),
        ("/v1/watches", {"threshold": 5, "key": "k"}),
    ],
)
def test_an_agent_repeats_anything_for_free(
    agent_token: tuple[House, str, str], path: str, body: dict[str, Any]
) -> None:
    """A choice, batch, estimate, or watch that took the entire limit can be repeated for free."""
    house, bot, _ = agent_token
    first, again = (house.post(path, {**body, "share": "1/10"}, bot) for _ in range(2))

    assert [200, 200] == [first.status_code, again.status_code]
    assert "1/10" == house.get("/v1/budget").json()["spent"]["share"]
    assert "0" == house.get("/v1/budget", bot).json()["left"]["share"]


def test_a_key_charges_an_agent_once(
    agent_token: tuple[House, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that failed after its charge resumes by its key, and its token is charged once."""
    house, bot, _ = agent_token
    asked = {**ASK, "key": "k"}
    with monkeypatch.context() as broken:
        broken.setattr(DuckDB, "run", lambda *_: 1 / 0)
        assert 500 == house.post("/v1/query", asked, bot).status_code

    assert 200 == house.post("/v1/query", asked, bot).status_code
    assert "9/100" == house.get("/v1/budget", bot).json()["left"]["share"]
    assert "1/100" == house.get("/v1/budget").json()["spent"]["share"]


def test_a_refused_query_costs_an_agent_nothing(agent_token: tuple[House, str, str]) -> None:
    """A refusal by the ledger leaves the agent's limit unchanged."""
    house, bot, _ = agent_token
    house.post("/v1/query", {**ASK, "share": "1/2"})
    refused = house.post("/v1/query", {**ASK, "share": "1/10", "fresh": True}, bot)

    assert 429 == refused.status_code
    assert "0" == str(house.tokens.find(bot).spent.fraction)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/release", {"queries": [TOTAL], "weights": [1, 2]}),
        ("/v1/query", {"sql": TOTAL, "key": "\t"}),
        ("/v1/query", {"sql": TOTAL, "epsilon": 1}),
    ],
)
def test_malformed_requests_cost_an_agent_nothing(
    agent_token: tuple[House, str, str], path: str, body: dict[str, Any]
) -> None:
    """Malformed weights, keys, and costs are refused before the agent's token is charged."""
    house, bot, _ = agent_token
    wrong = house.post(path, {"share": "1/100", **body}, bot)

    assert (422, "bad-argument") == (wrong.status_code, wrong.json()["error"]["code"])
    assert "1/10" == house.get("/v1/budget", bot).json()["left"]["share"]


def test_an_agent_cannot_create_or_revoke_tokens(agent_token: tuple[House, str, str]) -> None:
    """An agent's token cannot create tokens, or revoke other tokens."""
    house, bot, _ = agent_token
    mine = house.tokens.find(house.ana)

    assert 403 == house.post("/v1/tokens", {"name": "x", "share": "1/100"}, bot).status_code
    assert mine is not None
    gone = house.client.delete(f"/v1/tokens/{mine.id}", headers=bearer(bot))
    assert 403 == gone.status_code
    assert 200 == house.get("/v1/budget").status_code


def test_an_agent_sees_only_its_own_token(agent_token: tuple[House, str, str]) -> None:
    """An agent sees only its own token, not its analyst's others."""
    house, bot, _ = agent_token
    shown = house.get("/v1/tokens", bot).json()["tokens"]
    own = house.tokens.find(bot)
    assert own is not None

    assert [own.id] == [one["id"] for one in shown]
    assert len(shown) < len(house.get("/v1/tokens").json()["tokens"])


def test_revoking_an_analyst_revokes_its_agents(agent_token: tuple[House, str, str]) -> None:
    """Revoking the issuing token also invalidates the agent's."""
    house, bot, _ = agent_token
    mine = house.tokens.find(house.ana)
    assert mine is not None
    house.tokens.revoke(mine.id)

    assert 401 == house.get("/v1/budget", bot).status_code


def test_analysts_can_create_only_agent_tokens(house: House) -> None:
    """An analyst cannot create owners' or unlimited tokens, nor revoke other analysts' tokens."""
    bens = house.tokens.find(house.ben)
    assert bens is not None

    assert 403 == house.post("/v1/tokens", {"name": "x"}).status_code
    assert 403 == house.post("/v1/tokens", {"name": "x", "role": "owner", "share": 1}).status_code
    gone = house.client.delete(f"/v1/tokens/{bens.id}", headers=bearer(house.ana))
    assert 403 == gone.status_code
    assert {"ana"} == {one["name"] for one in house.get("/v1/tokens").json()["tokens"]}


def test_the_owner_creates_and_revokes_tokens(house: House) -> None:
    """The owner can create a token for a declared analyst and revoke it."""
    made = house.post("/v1/tokens", {"name": "ben", "days": 2}, house.owner).json()
    assert 200 == house.get("/v1/budget", made["text"]).status_code
    gone = house.client.delete(f"/v1/tokens/{made['token']['id']}", headers=bearer(house.owner))

    assert 204 == gone.status_code
    assert 401 == house.get("/v1/budget", made["text"]).status_code
    assert 422 == house.post("/v1/tokens", {"name": "zoe"}, house.owner).status_code


def test_an_undeclared_analyst_learns_no_names(house: House) -> None:
    """A token for a name without a declared limit is refused, without revealing other names."""
    text, _ = house.tokens.make("gone")
    refused = house.post("/v1/query", ASK, text)

    assert 403 == refused.status_code
    assert "ana" not in refused.json()["error"]["message"].split()
    assert "ben" not in refused.text


def test_every_token_takes_one_comparison(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right, wrong, unknown, and malformed tokens each take one digest and one comparison."""
    compared: list[tuple[int, int]] = []

    def compare(one: str, other: str) -> bool:
        compared.append((len(one), len(other)))
        return one == other

    monkeypatch.setattr("confide.server.tokens.hmac.compare_digest", compare)
    unknown = "confide-0123456789abcdef." + "x" * 43
    for text in (house.ana, house.ana[:-1] + "!", house.ana[:-2] + "AA", unknown, "x"):
        house.tokens.find(text)

    assert [(64, 64)] * 5 == compared


def test_an_owner_named_like_an_analyst_is_still_the_owner(house: House) -> None:
    """An owner with an analyst's name has the owner's rights, and the analyst does not."""
    text, _ = house.tokens.make("ana", Role.OWNER)

    assert 200 == house.get("/v1/ledger", text).status_code
    assert 403 == house.get("/v1/ledger").status_code


def test_a_token_is_charged_even_if_another_call_finishes_first(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call's token stays charged if a second call resumes its charge and finishes first."""
    _, token = house.tokens.make("ana", limit=Share.floor("1/100"))
    service = Service(house.curator, house.tokens, ServerSettings())
    ask = partial(service.ask, Caller(token), TOTAL, {"share": "1/100"}, key="once", fresh=False)
    commit, rivals = SqlLedger.commit, [ask]

    def commit_second(ledger: SqlLedger, hold: Hold, noisy: Payload) -> Receipt:
        if rivals:
            rivals.pop()()
        return commit(ledger, hold, noisy)

    monkeypatch.setattr(SqlLedger, "commit", commit_second)
    answer = ask()

    assert not answer.reused
    assert Fraction(1, 100) == answer.cost.share
    assert Fraction(1, 100) == house.tokens.refresh(token).spent.fraction
    assert Fraction(1, 100) == house.curator.as_analyst("ana").budget.spent.share


def test_a_token_with_a_limit_gets_the_error_that_it_wants(house: House) -> None:
    """It pays for a new answer if the stored one has a larger error; later that one is free."""
    _, token = house.tokens.make("ana", limit=Share.floor("1/10"))
    service = Service(house.curator, house.tokens, ServerSettings())
    ask = partial(service.ask, Caller(token), TOTAL, key=None, fresh=False)
    far = ask({"share": "1/1000"})
    near = ask({"error": 50})
    again = ask({"error": 50})

    assert (False, False, True) == (far.reused, near.reused, again.reused)
    assert near.receipt == again.receipt
    spent = house.tokens.refresh(token).spent.fraction
    assert far.cost.share + near.cost.share == spent
    assert spent == house.curator.as_analyst("ana").budget.spent.share


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/query", {"sql": TOTAL}),
        ("/v1/choose", {"candidates": {"all": TOTAL}}),
        ("/v1/release", {"queries": [TOTAL]}),
        ("/v1/statistics", {name: value for name, value in MEAN.items() if name != "share"}),
        ("/v1/watches", {"threshold": 5}),
    ],
)
def test_an_empty_token_gets_what_is_paid_for(house: House, path: str, body: Any) -> None:
    """With nothing left, the same key is answered for free, and a new key is refused."""
    text, token = house.tokens.make("ana", limit=Share.floor("1/100"))
    first = house.post(path, {**body, "share": "1/100", "key": "k"}, text)
    again = house.post(path, {**body, "share": "1/100", "key": "k"}, text)
    fresh = {} if path == "/v1/watches" else {"fresh": True}
    other = house.post(path, {**body, **fresh, "share": "1/100", "key": "new"}, text)

    assert [200, 200, 429] == [one.status_code for one in (first, again, other)]
    assert "budget-exceeded" == other.json()["error"]["code"]
    assert Fraction(1, 100) == house.tokens.refresh(token).spent.fraction
    assert 1 == len(list(house.curator.ledger.entries()))
