"""Leaderboards over HTTP and in the web UI."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import confide as cf
from confide.declare import BoardSettings
from confide.errors import BadDeclaration, Fault
from confide.server import TokenStore, make_app
from confide.server.boards import Boards, read_predictions
from confide.server.tokens import open_tables
from support.boards import declare_board
from support.service import bearer, close_files, visits

ROWS = 8_000
OWN = {"sec-fetch-site": "same-origin", "accept": "text/html"}


@pytest.fixture
def board(tmp_path: Path) -> BoardSettings:
    """A declared board whose labels alternate between 0 and 1."""
    return declare_board(tmp_path, [row % 2 for row in range(ROWS)])


@pytest.fixture
def client(board: BoardSettings) -> Iterator[TestClient]:
    """A client of a server with that board, authenticated as ana."""
    tokens = TokenStore(open_tables(None))
    curator = cf.Curator([visits(["A", "B"])], budget=cf.Budget(1))
    app = make_app(curator, tokens, boards=[board])
    text, _ = tokens.make("ana")
    with TestClient(app, headers=bearer(text)) as opened:
        opened.post("/sign-in", data={"token": text}, headers=OWN)
        yield opened
    close_files(app)


def ask(client: TestClient, predictions: list[int], name: str = "digits") -> Any:
    return client.post(f"/v1/holdouts/{name}/ask", json={"predictions": predictions})


def test_a_better_submission_raises_the_score(client: TestClient) -> None:
    """Better submissions raise the best score, and its interval covers the true score."""
    chance = ask(client, [0] * ROWS).json()
    right = ask(client, [row % 2 for row in range(ROWS)]).json()
    again = ask(client, [0] * ROWS).json()

    assert right["is_better"]
    assert right["value"] > chance["value"]
    assert (right["value"], False) == (again["value"], again["is_better"])
    assert right["interval"][0] <= 1.0 <= right["interval"][1] + 1e-9
    assert 997 == again["left"]


def test_boards_are_listed_and_unknown_ones_refused(client: TestClient) -> None:
    """The list has each metric and the submissions left; an unknown name gets a standard 404."""
    (shown,) = client.get("/v1/holdouts").json()["holdouts"]
    lost = ask(client, [0, 1], "letters")

    assert ("digits", "accuracy", 1_000) == (shown["name"], shown["metric"], shown["left"])
    assert (404, "not-found") == (lost.status_code, lost.json()["error"]["code"])


def test_wrong_predictions_cost_no_submission(client: TestClient) -> None:
    """Too few, too many, or non-numeric predictions get a 422 and use up no submission."""
    answers = [ask(client, [0] * 10), ask(client, [0] * (ROWS + 1))]
    answers.append(client.post("/v1/holdouts/digits/ask", json={"predictions": ["a"]}))

    assert [422, 422, 422] == [answer.status_code for answer in answers]
    assert 1_000 == client.get("/v1/holdouts").json()["holdouts"][0]["left"]


def test_a_file_can_be_submitted_in_the_web_ui(client: TestClient) -> None:
    """A CSV file of predictions is scored, and a malformed one gets an error message."""
    text = "id,prediction\n" + "\n".join(f"{row},{row % 2}" for row in range(ROWS))
    scored = client.post("/boards/digits", files={"predictions": text.encode()}, headers=OWN).text
    wrong = client.post("/boards/digits", files={"predictions": b"a\nb\n"}, headers=OWN).text

    assert "Your submission improved it." in scored
    assert "bad-argument" in wrong
    assert "999 submissions left" in wrong


def test_a_board_outlives_the_server(board: BoardSettings, client: TestClient) -> None:
    """Another server with the same state continues where the first one stopped."""
    ask(client, [row % 2 for row in range(ROWS)])
    tokens = TokenStore(open_tables(None))
    text, _ = tokens.make("ana")
    curator = cf.Curator([visits(["A", "B"])], budget=cf.Budget(1))
    with TestClient(make_app(curator, tokens, boards=[board]), headers=bearer(text)) as second:
        found = ask(second, [0] * ROWS).json()

    assert 998 == found["left"]
    assert not found["is_better"]


def test_a_board_fault_is_not_revealed(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """An internal error is shown in the web UI as a fault, without its message."""
    monkeypatch.setattr(Boards, "submit", lambda *_: (_ for _ in ()).throw(Fault("Mr Smith")))
    page = client.post("/boards/digits", files={"predictions": b"1\n"}, headers=OWN).text

    assert "<code>fault</code>" in page
    assert "Smith" not in page


@pytest.mark.parametrize("text", ["", "y\n", "a,b\n1,x\n", "1\nnan\n", "1" * 200_000])
def test_a_file_without_numbers_is_refused(text: str) -> None:
    """A file whose last column is not numeric is refused."""
    with pytest.raises(BadDeclaration, match="last column"):
        read_predictions(text)


def test_labels_are_checked_when_the_server_starts(board: BoardSettings, tmp_path: Path) -> None:
    """Missing or non-numeric labels raise BadDeclaration."""
    (tmp_path / "labels.csv").write_text("z\n1\n", encoding="utf-8")
    curator = cf.Curator([visits(["A", "B"])], budget=cf.Budget(1))
    with pytest.raises(BadDeclaration, match="must have a column"):
        make_app(curator, TokenStore(open_tables(None)), boards=[board])
