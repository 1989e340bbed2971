"""Choices, batches, watches, and estimates over HTTP: fields, costs, and access."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import confide as cf
from confide.client import Connection, connect
from confide.client.http import NotYours
from confide.server.responses import ChooseResponse, EstimateResponse
from support.clocks import stop_rate_clock
from support.service import House, bearer, build_house, open_house, serving

TOTAL = "SELECT COUNT(*) AS n FROM visits"
OLD = "SELECT COUNT(*) AS n FROM visits WHERE age >= 60"
AGES = "SELECT SUM(age) AS s FROM visits"
SHARE = {"share": "1/100"}
STATISTICS: list[dict[str, Any]] = [
    {"statistic": "mean", "column": "age"},
    {"statistic": "variance", "column": "age", "bounds": [0, 100]},
    {"statistic": "mean", "column": "age", "bounds": "private"},
    {"statistic": "quantiles", "column": "age", "levels": [0.25, 0.75]},
    {"statistic": "density", "column": "age", "bins": 4},
    {"statistic": "exponential_family", "column": "age", "family": "normal"},
    {"statistic": "fit", "formula": "age ~ ward"},
    {"statistic": "sample_and_aggregate", "estimator": "middle"},
]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[House, str]]:
    """A server on a real socket, with a registered estimator."""
    house = build_house(tmp_path)
    house.curator.register_estimator(
        "middle", lambda block: block["age"].mean(), columns=["age"], bounds=[(0, 120)]
    )
    with serving(house.app) as address:
        yield house, address


@pytest.fixture
def ana(served: tuple[House, str]) -> Iterator[Connection]:
    """A connection as the analyst ana."""
    house, address = served
    with connect(address, house.ana) as connection:
        yield connection


def spent(house: House, token: str | None = None) -> Fraction:
    return Fraction(house.get("/v1/budget", token).json()["spent"]["share"])


def test_a_choice_names_one_candidate(house: House) -> None:
    """POST /v1/choose returns a candidate, its regret, cost, and receipt; a repeat is free."""
    asked = {"candidates": {"all": TOTAL, "old": OLD}, **SHARE}
    first, again = house.post("/v1/choose", asked).json(), house.post("/v1/choose", asked).json()

    assert set(ChooseResponse.model_fields) == set(first)
    assert first["value"] in ("all", "old")
    assert (first["value"], True) == (again["value"], again["reused"])
    assert Fraction(1, 100) == spent(house)


def test_a_batch_is_charged_once(house: House) -> None:
    """POST /v1/release answers every query in order, for a single charge."""
    asked = {"queries": [TOTAL, AGES], "weights": [1.0, "1/10"], **SHARE}
    first, again = house.post("/v1/release", asked).json(), house.post("/v1/release", asked).json()

    assert [["n"], ["s"]] == [one["columns"] for one in first["answers"]]
    assert [one["rows"] for one in first["answers"]] == [one["rows"] for one in again["answers"]]
    assert Fraction(1, 100) == spent(house)


def test_a_watch_is_paid_when_it_is_opened(house: House) -> None:
    """Opening a session costs its share; "below" is free, and "above" ends it."""
    opened = house.post("/v1/watches", {"threshold": -1e9, **SHARE}).json()
    path = f"/v1/watches/{opened['watch']}/ask"
    told, over = house.post(path, {"sql": TOTAL}), house.post(path, {"sql": TOTAL})

    assert {"above": True, "left": 0} == told.json()
    assert (429, "budget-exceeded") == (over.status_code, over.json()["error"]["code"])
    assert Fraction(1, 100) == spent(house)


def test_a_watch_key_uses_up_one_answer(house: House) -> None:
    """A repeated key uses up one "above" answer; a different query with it is refused."""
    opened = house.post("/v1/watches", {"threshold": -1e9, "above": 2, **SHARE}).json()
    path = f"/v1/watches/{opened['watch']}/ask"
    told = [house.post(path, {"sql": TOTAL, "key": "k"}).json() for _ in range(3)]

    assert [{"above": True, "left": 1}] * 3 == told
    assert 409 == house.post(path, {"sql": OLD, "key": "k"}).status_code


def test_a_watch_is_private_to_its_analyst(house: House) -> None:
    """B and the owner cannot query, read, or close A's session, nor learn that it exists."""
    number = house.post("/v1/watches", {"threshold": 0, **SHARE}).json()["watch"]
    refused = []
    for path in (f"/v1/watches/{number}", f"/v1/watches/{number + 999}"):
        for token in (house.ben, house.owner):
            refused.append(house.post(f"{path}/ask", {"sql": TOTAL}, token))
            refused.append(house.get(path, token))
            refused.append(house.client.delete(path, headers=bearer(token)))

    assert {403} == {answer.status_code for answer in refused}
    assert 1 == len({answer.text for answer in refused})
    assert 1 == house.get(f"/v1/watches/{number}").json()["left"]


def test_several_workers_share_a_watch(tmp_path: Path) -> None:
    """Workers can continue each other's sessions, and share the paid "above" answers."""
    one, other = (build_house(tmp_path, workers=2) for _ in range(2))
    with one.client, other.client:
        number = one.post("/v1/watches", {"threshold": -1e9, "above": 2, **SHARE}).json()["watch"]
        path = f"/v1/watches/{number}/ask"
        told = [house.post(path, {"sql": TOTAL}, one.ana) for house in (one, other, one)]

        assert [200, 200, 429] == [answer.status_code for answer in told]
        assert [1, 0] == [answer.json()["left"] for answer in told[:2]]
        assert Fraction(1, 100) == spent(other, one.ana)


def test_a_watch_is_found_again_by_its_key(house: House) -> None:
    """The same key finds the same session for one charge; other terms with it are refused."""
    asked = {"threshold": 5, "key": "k", **SHARE}
    first, again = house.post("/v1/watches", asked).json(), house.post("/v1/watches", asked).json()

    assert first["watch"] == again["watch"]
    assert (False, True) == (first["reused"], again["reused"])
    assert 409 == house.post("/v1/watches", {**asked, "threshold": 6}).status_code
    assert Fraction(1, 100) == spent(house)


def test_a_closed_watch_stays_closed(house: House) -> None:
    """Closing a session is permanent and refunds nothing."""
    path = f"/v1/watches/{house.post('/v1/watches', {'threshold': 5, **SHARE}).json()['watch']}"
    closed = house.client.delete(path, headers=bearer(house.ana))

    assert 200 == closed.status_code
    assert 0 == house.get(path).json()["left"]
    assert 429 == house.post(f"{path}/ask", {"sql": TOTAL}).status_code
    assert Fraction(1, 100) == spent(house)


@pytest.mark.parametrize("asked", STATISTICS, ids=lambda one: str(one["statistic"]))
def test_an_estimate_has_the_documented_fields(
    served: tuple[House, str], asked: dict[str, Any]
) -> None:
    """POST /v1/statistics returns names, values inside their intervals, cost, and receipt."""
    house, address = served
    with connect(address, house.ana) as connection:
        found = connection.send("POST", "/v1/statistics", {"table": "visits", **asked, **SHARE})

    assert set(EstimateResponse.model_fields) == set(found)
    rows = zip(found["lows"], found["values"], found["highs"], strict=True)
    assert all(low <= value <= high for low, value, high in rows)
    assert len(found["names"]) == len(found["values"]) == len(found["standard_errors"])
    assert {"share": "1/100"}.items() <= found["cost"].items()


def test_only_registered_functions_run(house: House) -> None:
    """Only a registered estimator's name is accepted; code, modules, and paths are refused."""
    for name in ("numpy.mean", "lambda rows: rows", "/etc/passwd", "__import__"):
        asked = {"statistic": "sample_and_aggregate", "table": "visits", "estimator": name}
        answer = house.post("/v1/statistics", {**asked, **SHARE})

        assert (422, "unknown-name") == (answer.status_code, answer.json()["error"]["code"])
    assert 0 == spent(house)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/choose", {"candidates": {"all": TOTAL}}),
        ("/v1/release", {"queries": [TOTAL]}),
        ("/v1/watches", {"threshold": 0}),
        ("/v1/statistics", {"statistic": "mean", "table": "visits", "column": "age"}),
    ],
)
def test_an_agent_stays_within_its_share(house: House, path: str, body: dict[str, Any]) -> None:
    """A token with a limit cannot exceed it on any of these routes."""
    made = house.post("/v1/tokens", {"name": "bot", "share": "1/50"}).json()
    costs = {"share": "1/80"}
    first = house.post(path, {**body, **costs, "key": "a"}, made["text"])
    past = house.post(path, {**body, **costs, "key": "b", **fresh(path)}, made["text"])

    assert 200 == first.status_code
    assert (429, "budget-exceeded") == (past.status_code, past.json()["error"]["code"])
    assert Fraction(1, 80) == spent(house)


def fresh(path: str) -> dict[str, bool]:
    return {} if path == "/v1/watches" else {"fresh": True}


def test_the_connection_has_the_curators_methods(ana: Connection) -> None:
    """A connection's choose, release, watch, and estimates return the curator's structures."""
    best = ana.choose(["all", "old"], {"all": TOTAL, "old": OLD}, share="1/100")
    count, ages = ana.release([TOTAL, AGES], share=Fraction(1, 100), weights=[1, Fraction(1, 2)])
    watch = ana.watch(-1e9, share="1/100")
    mean = ana.mean("visits", "age", share="1/100")
    ends, wider = mean.interval(0.5), mean.interval(0.99)

    assert best.value in ("all", "old")
    assert (("n",), ("s",)) == (count.columns, ages.columns)
    assert count.interval_rows(0.99)[0]["n_low"] <= count.interval_rows(0.5)[0]["n_low"]
    assert (True, 0) == (watch.ask(TOTAL), watch.left)
    assert wider[0] <= ends[0] <= mean.value <= ends[1] <= wider[1]
    assert Fraction(1, 25) == ana.budget.spent.share
    assert 0 == ana.resume_watch(watch.receipt.entry).left
    watch.close()
    with pytest.raises(cf.BudgetExceeded):
        watch.ask(TOTAL)
    with pytest.raises(NotYours):
        ana.resume_watch(10**6)


def test_estimates_keep_their_form(ana: Connection) -> None:
    """Estimates keep their structure over HTTP, and refusals are the curator's."""
    assert 2 == len(ana.quantiles("visits", "age", [0.2, 0.8], share="1/100").value)
    assert {"mean", "stddev"} == set(
        ana.exponential_family("visits", "age", family="normal", share="1/100").value
    )
    density = ana.density("visits", "age", bins=3, share="1/100")
    assert (3, 4) == (len(density.value), len(density.edges or ()))
    assert 3 == len(ana.fit("visits", "age ~ ward", share="1/100").to_pandas())
    assert 0 <= ana.sample_and_aggregate("visits", "middle", share="1/100").value <= 120
    with pytest.raises(cf.Refusal):
        ana.covariance("visits", ["age"], share="1/100")
    with pytest.raises(cf.Refusal):
        ana.compare_means("visits", "age", by="ward", share="1/100")
    with pytest.raises(cf.Refusal):
        ana.compare_proportions("visits", "age", by="ward", share="1/100")
    with pytest.raises(cf.Refusal):
        ana.independence("visits", "ward", "ward", share="1/100")
    with pytest.raises(cf.Refusal):
        ana.variance("visits", "nothing", share="1/100")


def test_the_rate_is_divided_among_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nine requests per minute, each of two workers admits half, rounded up."""
    stop_rate_clock(monkeypatch)
    with open_house(tmp_path, workers=2, requests_per_minute=9) as house:
        codes = [house.get("/v1/budget").status_code for _ in range(6)]

    assert [200] * 5 + [429] == codes
