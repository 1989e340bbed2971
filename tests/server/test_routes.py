"""The API routes: response fields, status codes, and costs."""

import json
import re
from fractions import Fraction
from typing import Any

import pytest

import confide as cf
from confide.client.http import STATUS
from confide.server.responses import AnswerResponse, ErrorResponse
from support.service import COUNT, House, bearer
from support.tree import ROOT

ASK = {"sql": COUNT, "share": "1/100"}


def test_an_answer_has_the_documented_fields(house: House) -> None:
    """POST /v1/query returns columns, rows, intervals around the values, cost, and receipt."""
    found = house.post("/v1/query", {**ASK, "confidence": 0.9}).json()

    assert set(AnswerResponse.model_fields) == set(found)
    assert ["ward", "n"] == found["columns"]
    assert {"share": "1/100"}.items() <= found["cost"].items()
    assert 0.9 == found["confidence"]
    for row, ends in zip(found["rows"], found["intervals"], strict=True):
        assert ends["n_low"] <= row["n"] <= ends["n_high"]


def test_a_preview_is_free(house: House) -> None:
    """POST /v1/preview returns cost and half-widths, and leaves the budget unchanged."""
    found = house.post("/v1/preview", {"sql": COUNT, "epsilon": 0.1}).json()

    assert {"share": "1/20", "epsilon": 0.1} == found["cost"]
    assert found["errors"]["n"] > 0
    assert 0.95 == found["confidence"]
    asked = {"sql": COUNT, "epsilon": 0.1, "confidence": 0.5}
    assert found["errors"]["n"] > house.post("/v1/preview", asked).json()["errors"]["n"]
    assert "0" == house.get("/v1/budget").json()["spent"]["share"]


def test_a_repeat_is_free_and_the_same(house: House) -> None:
    """A repeated query, in any spelling, gets the same values for free, and previews say so."""
    first = house.post("/v1/query", ASK).json()
    seen = {who: house.post("/v1/preview", ASK, who).json() for who in (house.ana, house.ben)}
    again = house.post("/v1/query", {"sql": COUNT.lower().replace("as n", 'as "n"'), "epsilon": 1})

    assert first["rows"] == again.json()["rows"]
    assert again.json()["reused"]
    assert [True, False] == [seen[who]["reused"] for who in (house.ana, house.ben)]
    assert "0" == again.json()["cost"]["share"]
    assert "1/100" == house.get("/v1/budget").json()["spent"]["share"]


def test_a_key_is_answered_once(house: House) -> None:
    """The same key gets the same answer for one charge; a different query with it gets a 409."""
    keyed = {**ASK, "key": "k1", "fresh": True}
    first, again = house.post("/v1/query", keyed).json(), house.post("/v1/query", keyed).json()
    other = house.post("/v1/query", {**keyed, "sql": "SELECT COUNT(*) AS n FROM visits"})

    assert first["receipt"] == again["receipt"]
    assert first["rows"] == again["rows"]
    assert (409, "key-used") == (other.status_code, other.json()["error"]["code"])
    assert "1/100" == house.get("/v1/budget").json()["spent"]["share"]


def test_keys_of_two_analysts_are_independent(house: House) -> None:
    """Two analysts can use the same key independently."""
    keyed = {**ASK, "key": "same"}
    first = house.post("/v1/query", keyed).json()
    second = house.post(
        "/v1/query", {**keyed, "sql": "SELECT COUNT(*) AS n FROM visits"}, house.ben
    )

    assert 200 == second.status_code
    assert first["receipt"]["entry"] != second.json()["receipt"]["entry"]


def test_the_budget_adds_up_exactly(house: House) -> None:
    """Shares are exact fractions in strings: thirds of a hundredth add up to a hundredth."""
    for _ in range(3):
        house.post("/v1/query", {"sql": COUNT, "share": "1/300", "fresh": True})
    shown = house.get("/v1/budget").json()

    assert Fraction(1, 100) == Fraction(shown["spent"]["share"])
    assert Fraction(1, 2) == Fraction(shown["total"]["share"])
    assert Fraction(49, 100) == Fraction(shown["left"]["share"])


def test_history_is_paged_newest_first(house: House) -> None:
    """GET /v1/answers lists the caller's charges in consecutive pages."""
    for _ in range(5):
        house.post("/v1/query", {**ASK, "fresh": True})
    first = house.get("/v1/answers?limit=3").json()
    rest = house.get(f"/v1/answers?limit=3&before={first['before']}").json()
    entries = [entry["entry"] for entry in first["answers"] + rest["answers"]]

    assert 5 == len(entries)
    assert sorted(entries, reverse=True) == entries
    assert rest["before"] is None
    assert {"ana"} == {entry["analyst"] for entry in first["answers"]}


def test_an_answer_can_be_fetched_at_another_level(house: House) -> None:
    """GET /v1/answers/N returns the same values, with intervals at the requested level."""
    first = house.post("/v1/query", ASK).json()
    house.post("/v1/query", {**ASK, "fresh": True})
    again = house.get(f"/v1/answers/{first['receipt']['entry']}?confidence=0.5").json()

    assert first["rows"] == again["rows"]
    assert again["intervals"][0]["n_low"] >= first["intervals"][0]["n_low"]
    assert 0.5 == again["confidence"]


def test_the_ledger_is_shown_and_verified(house: House) -> None:
    """The owner sees every charge, each analyst's spending, and that the ledger verifies."""
    house.post("/v1/query", ASK)
    house.post("/v1/query", ASK, house.ben)
    shown = house.get("/v1/ledger?verify=true", house.owner).json()

    assert shown["verified"] is True
    assert ["ben", "ana"] == [entry["analyst"] for entry in shown["entries"]]
    spent = {one["name"]: (one["limit"], one["spent"]) for one in shown["analysts"]}
    assert {"ana": ("1/2", "1/100"), "ben": ("1/4", "1/100")} == spent


def test_tables_show_declarations_but_not_sources(house: House) -> None:
    """GET /v1/tables shows bounds, categories, and limits, but not sources or the salt."""
    shown = house.get("/v1/tables").json()
    columns = {column["name"]: column for column in shown["tables"][0]["columns"]}

    assert ["visits", "wards"] == [table["name"] for table in shown["tables"]]
    assert (0, 120) == (columns["age"]["low"], columns["age"]["high"])
    assert "source" not in json.dumps(shown)
    assert house.curator.ledger.salt not in json.dumps(shown)


@pytest.mark.parametrize(
    ("status", "code", "body"),
    [
        (422, "unsupported-query", {"sql": "SELECT MAX(age) FROM visits", "share": 0.01}),
        (422, "unknown-name", {"sql": "SELECT COUNT(*) FROM labs", "share": 0.01}),
        (422, "bad-argument", {"sql": COUNT}),
        (422, "bad-argument", {"sql": COUNT, "share": 0.01, "epsilon": 1}),
        (429, "budget-exceeded", {"sql": COUNT, "epsilon": 3}),
        (429, "budget-exceeded", {"sql": COUNT, "share": "3/4"}),
        (422, "malformed-request", {"sql": COUNT, "share": -1}),
        (422, "malformed-request", {"sql": COUNT, "share": "lots"}),
        (422, "malformed-request", {"sql": COUNT, "share": 0.01, "file": "/etc/passwd"}),
        (422, "malformed-request", {"sql": 7, "share": 0.01}),
        (422, "malformed-request", {"sql": COUNT, "share": True}),
        (422, "malformed-request", {"sql": COUNT, "share": 0.01, "confidence": 1}),
        (422, "malformed-request", {"sql": COUNT, "share": 0.01, "confidence": 0.9995}),
        (422, "malformed-request", {"sql": "x" * 100_001, "share": 0.01}),
        (422, "malformed-request", [COUNT]),
    ],
)
def test_refusals_have_one_shape(house: House, status: int, code: str, body: Any) -> None:
    """A refusal has its status and {"error": {"code", "message"}}, and spends nothing."""
    answer = house.post("/v1/query", body)

    assert (status, code) == (answer.status_code, answer.json()["error"]["code"])
    ErrorResponse.model_validate(answer.json())
    assert 0 == house.curator.budget.spent.share


@pytest.mark.parametrize(
    "body",
    [
        b'{"sql": "SELECT COUNT(*) AS n FROM visits", "share": NaN}',
        b'{"sql": "SELECT COUNT(*) AS n FROM visits", "share": Infinity}',
        b'{"sql": "SELECT COUNT(*) AS n FROM visits", "share": 0.01, "share": 0.5}',
        b'{"sql": "SELECT COUNT(*) AS n FROM visits", "share": ' + b"9" * 5_000 + b"}",
        b"[" * 100_000,
        b'{"sql": "\xff\xfe", "share": 0.01}',
        b"{",
        b"",
    ],
    ids=["nan", "infinity", "twice", "huge", "deep", "not utf-8", "half", "empty"],
)
def test_ambiguous_json_is_rejected(house: House, body: bytes) -> None:
    """Ambiguous or non-standard JSON gets a 422."""
    headers = {**bearer(house.ana), "content-type": "application/json"}
    answer = house.client.post("/v1/query", content=body, headers=headers)

    assert (422, "malformed-request") == (answer.status_code, answer.json()["error"]["code"])
    assert 0 == house.curator.budget.spent.share


@pytest.mark.parametrize(
    "path",
    [
        "/v1/answers/../ledger",
        "/v1//ledger",
        "/v1/ledger/",
        "/V1/LEDGER",
        "/v1/ledger%00",
        "/v1/ledger;x=1",
        "/static/../models.py",
        "/static/%2e%2e/models.py",
        "/static/..%2f..%2fserver/models.py",
        "/static//etc/passwd",
    ],
)
def test_encoded_paths_bypass_no_check(house: House, path: str) -> None:
    """No encoding of a path lets an analyst use an owner's route, or anyone read a file."""
    answer = house.client.get(path, headers=bearer(house.ana), follow_redirects=False)

    assert answer.status_code in (307, 403, 404, 405)
    assert "class" not in answer.text


def test_an_unknown_route_is_refused_in_the_same_shape(house: House) -> None:
    """404 and 405 have a code and a message like every refusal."""
    lost, wrong = house.client.get("/v2"), house.client.put("/v1/query")

    assert (404, 405) == (lost.status_code, wrong.status_code)
    assert {"not-found"} == {one.json()["error"]["code"] for one in (lost, wrong)}


def test_no_route_takes_a_path_or_an_address(house: House) -> None:
    """No parameter or field in the OpenAPI document is a file, a source, a host, or a URL."""
    document = house.app.openapi()
    names = set(re.findall(r'"(?:name|title)": "([^"]+)"', json.dumps(document["paths"])))
    for shape in document["components"]["schemas"].values():
        names |= set(shape.get("properties", {}))
    suspect = re.compile(r"path|file|source|url|uri|host|address|folder|connection", re.IGNORECASE)

    assert [] == sorted(name for name in names if suspect.search(name))


def test_the_page_of_routes_is_the_document(house: House) -> None:
    """docs/routes.md lists exactly the routes of the OpenAPI document, each once."""
    page = (ROOT / "docs" / "routes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([A-Z]+) (\S+)` \|", page, re.MULTILINE)
    routes = [
        (method.upper(), path)
        for path, methods in house.app.openapi()["paths"].items()
        for method in methods
    ]

    assert sorted(routes) == sorted(rows)


def test_every_refusal_has_a_status() -> None:
    """Every fault has a 5xx status, and errors use exactly the documented statuses."""
    assert all(status >= 500 for kind, status in STATUS.items() if issubclass(kind, cf.Fault))
    assert {401, 403, 404, 408, 409, 413, 422, 429, 500, 503} == set(STATUS.values())
