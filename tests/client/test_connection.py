"""The curator's methods over HTTP."""

import json
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pytest

import confide as cf
from confide.client import Connection, RemoteAnswer, RemoteEstimate, connect
from confide.client.connection import read_names
from confide.client.http import NotSignedIn, TooManyRequests, Unreachable
from confide.ledger.protocol import KeyUsed
from confide.server.serialization import show_tables
from support.clocks import stop_rate_clock
from support.service import COUNT, House, build_house, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, str]]:
    """A house on a real socket."""
    house = build_house(tmp_path_factory.mktemp("house"), requests_per_minute=100_000)
    with serving(house.app) as address:
        yield house, address


@pytest.fixture
def ana(served: tuple[House, str]) -> Iterator[Connection]:
    """A connection of the analyst ana."""
    house, address = served
    with connect(address, house.ana) as connection:
        yield connection


@pytest.mark.parametrize("values", [[1, 2, None], ["1", "2", None], [-3]])
def test_listed_values_keep_their_type_on_the_way(values: list[int | str | None]) -> None:
    """A client knows a category by the integers or the strings that the server declares."""
    rows = pa.table({"code": [1, 2, 3]})
    declared = cf.Table("t", rows, unit=cf.ROW, columns={"code": cf.Category(values)})
    shown = show_tables(cf.Curator([declared], budget=cf.Budget(1)))
    read = read_names(json.loads(shown.model_dump_json())).table("t")

    assert cf.Category(values).kind is read.columns["code"]


def test_an_answer_has_the_same_views(ana: Connection) -> None:
    """Frames, rows, intervals, cost, receipt, chart and notebook table are as the curator's."""
    answer = ana.sql(COUNT, share="1/100", fresh=True)
    frame, ends = answer.to_pandas(), answer.intervals(0.9)

    assert ["ward", "n"] == list(frame.columns)
    assert ["ward", "n_low", "n_high"] == list(ends.columns)
    assert ((ends["n_low"] <= frame["n"]) & (frame["n"] <= ends["n_high"])).all()
    assert (
        list(frame["n"]) == answer.to_polars()["n"].to_list() == answer.to_arrow()["n"].to_pylist()
    )
    assert Fraction(1, 100) == answer.cost.share
    assert not answer.reused
    assert 64 == len(answer.receipt.digest)
    assert "&lt;script&gt;" in answer._repr_html_()
    assert str(answer).endswith(f"95 % intervals in brackets; cost {answer.cost}")
    assert answer.plot().spec["data"]["values"]


def test_other_levels_are_fetched_for_free(ana: Connection) -> None:
    """Wider confidence gives wider intervals of the same answer, at no cost."""
    answer = ana.sql(COUNT, share="1/100", fresh=True)
    before = ana.budget.spent.share
    narrow, wide = answer.interval_rows(0.5)[0], answer.interval_rows(0.999)[0]

    assert wide["n_low"] < narrow["n_low"] <= narrow["n_high"] < wide["n_high"]
    assert before == ana.budget.spent.share


def test_questions_made_in_python_mean_the_same(ana: Connection) -> None:
    """A question built step by step is the one written in SQL: its repeat is free."""
    built = ana.table("visits").where(cf.col("age") >= 65).group_by("ward").agg(n=cf.count())
    text = "SELECT ward, COUNT(*) AS n FROM visits WHERE age >= 65 GROUP BY ward"

    assert built.preview(share="1/50").errors == ana.preview(text, share="1/50").errors
    assert not built.preview(share="1/50").reused
    assert not built.ask(share="1/50").reused
    assert built.preview(share="1/50").reused
    assert ana.sql(text, share="1/50").reused


def test_fractions_cross_exactly(ana: Connection) -> None:
    """A Fraction is not rounded on its way: a third of a hundredth is one."""
    answer = ana.sql(COUNT, share=Fraction(1, 300), fresh=True)

    assert Fraction(1, 300) == answer.cost.share


def test_history_and_recall(ana: Connection) -> None:
    """One's own charges are listed newest first, and each answer can be had again."""
    answer = ana.sql("SELECT COUNT(*) AS everyone FROM visits", share="1/100")
    newest = next(iter(ana.answers()))

    assert answer.receipt.entry == newest["entry"]
    assert answer.rows == ana.answer(newest["entry"]).rows


def test_refusals_come_back_as_themselves(ana: Connection, served: tuple[House, str]) -> None:
    """Each refusal is raised as the class that the curator would raise, with its figures."""
    with pytest.raises(cf.UnsupportedQuery, match="MAX"):
        ana.sql("SELECT MAX(age) FROM visits", share="1/100")
    with pytest.raises(cf.UnknownName, match="labs"):
        ana.preview("SELECT COUNT(*) FROM labs", share="1/100")
    with pytest.raises(cf.BadArgument, match="exactly one"):
        ana.sql("SELECT COUNT(*) AS m FROM visits")
    with pytest.raises(cf.BudgetExceeded) as refused:
        ana.sql("SELECT COUNT(*) AS m FROM visits", share="9/10")
    assert Fraction(9, 10) == refused.value.cost
    ana.sql("SELECT COUNT(*) AS k FROM visits", share="1/100", key="one")
    with pytest.raises(KeyUsed):
        ana.sql("SELECT COUNT(*) AS other FROM visits", share="1/100", key="one")
    with pytest.raises(NotSignedIn), connect(served[1], "confide-wrong") as wrong:
        _ = wrong.budget


class Shaky:
    """A transport on which requests are served, and some answers never arrive."""

    def __init__(self, http: httpx2.Client, losses: int) -> None:
        self.http, self.losses, self.sent = http, losses, 0

    def request(self, *given: Any, **named: Any) -> Any:
        """Send, and lose the answer while losses are left."""
        self.sent += 1
        answer = self.http.request(*given, **named)
        if self.losses:
            self.losses -= 1
            raise httpx2.ReadError("gone")
        return answer


@pytest.fixture
def shaky(served: tuple[House, str]) -> Iterator[Callable[[int], tuple[Connection, Shaky]]]:
    """Make a connection that loses so many answers."""
    house, address = served
    headers = {"authorization": f"Bearer {house.ana}"}
    with httpx2.Client(base_url=address, headers=headers, timeout=60) as http:

        def make(losses: int) -> tuple[Connection, Shaky]:
            transport = Shaky(http, losses)
            return Connection(transport, wait=lambda _: None), transport

        yield make


def test_a_lost_answer_is_fetched_and_paid_once(
    served: tuple[House, str], shaky: Callable[[int], tuple[Connection, Shaky]]
) -> None:
    """Three answers lost on the way cost one charge, also for a fresh one."""
    connection, transport = shaky(3)
    before = served[0].curator.as_analyst("ana").budget.spent.share
    answer = connection.sql(COUNT, share="1/100", fresh=True)
    after = served[0].curator.as_analyst("ana").budget.spent.share

    assert 4 == transport.sent
    assert Fraction(1, 100) == after - before
    assert answer.rows == connection.answer(answer.receipt.entry).rows


def test_a_submission_is_sent_once(shaky: Callable[[int], tuple[Connection, Shaky]]) -> None:
    """Predictions whose score was lost are not sent again: they would use up another submission."""
    connection, transport = shaky(1)
    with pytest.raises(Unreachable):
        connection.holdout_ask("digits", [0, 1])

    assert 1 == transport.sent


def test_what_json_cannot_hold_is_infinite_again() -> None:
    """Missing ends and errors of an estimate lie infinitely far away, each on its own side."""
    body: dict[str, Any] = {"form": "one", "names": ["x"], "confidence": 0.95, "reused": False}
    body |= {"values": [1.0], "standard_errors": [None], "lows": [None], "highs": [None]}
    body |= {"cost": {"share": "0", "epsilon": 0}, "receipt": {"entry": 1, "digest": ""}}
    body |= dict.fromkeys(("statistic", "edges", "p_value"))
    found = RemoteEstimate.of(body, lambda _: found)

    assert (1.0, math.inf) == (found.value, found.standard_error)
    assert str(found).endswith(": 1 [-inf, inf]")
    assert (-math.inf, math.inf) == found.interval()


def test_a_server_that_is_gone_is_told_so(
    shaky: Callable[[int], tuple[Connection, Shaky]],
) -> None:
    """After a few tries comes a fault that says the server cannot be reached."""
    connection, transport = shaky(1_000)
    with pytest.raises(Unreachable, match="cannot be reached"):
        _ = connection.budget

    assert transport.sent < 10


def test_what_cannot_be_reached_says_how_to_ask_again(
    shaky: Callable[[int], tuple[Connection, Shaky]],
) -> None:
    """With a key or without, a submission or a look: each says what can be done about it."""
    connection, _ = shaky(1_000)
    asked: list[Callable[[], object]] = [
        lambda: connection.sql(COUNT, share="1/100"),
        lambda: connection.choose(["A"], {"A": COUNT}, share="1/100"),
        lambda: connection.release([COUNT], share="1/100"),
        lambda: connection.quantiles("visits", "age", [0.5], share="1/100"),
    ]
    for ask in asked:
        with pytest.raises(Unreachable, match=r"the same key; .* without fresh=True is free"):
            ask()
    with pytest.raises(Unreachable, match=r"may have been counted"):
        connection.holdout_ask("digits", [0, 1])
    with pytest.raises(Unreachable, match=r"try again; this costs nothing"):
        connection.preview(COUNT, share="1/100")


def test_a_watch_is_never_said_to_come_back_free(
    ana: Connection, shaky: Callable[[int], tuple[Connection, Shaky]]
) -> None:
    """Who opens or asks a watch in vain is told how to find it, and that another is paid for."""
    watch = ana.watch(-100_000, share="1/100")
    connection, _ = shaky(1_000)
    watch._send = connection.send
    with pytest.raises(Unreachable, match=r'an answer "above" may have been used up') as used:
        watch.ask("SELECT COUNT(*) AS n FROM visits")
    with pytest.raises(Unreachable, match=r"by its entry, for another one is paid for anew") as no:
        connection.watch(-100_000, share="1/100")

    assert "free" not in str(used.value) + str(no.value)
    assert 0 == ana.resume_watch(watch.receipt.entry).left
    lost = next(entry for entry in ana.answers() if '"watch"' in entry["question"])
    assert lost["entry"] > watch.receipt.entry
    assert 1 == ana.resume_watch(lost["entry"]).left


def test_a_server_explains_as_the_curator_does(tmp_path: Path) -> None:
    """`explain` over HTTP returns the sentences of the curator behind it, and spends nothing."""
    house = build_house(tmp_path)
    with serving(house.app) as address, connect(address, house.ana) as ana:
        found = ana.explain(COUNT, epsilon=0.1)
    expected = house.curator.as_analyst("ana").explain(COUNT, epsilon=0.1)

    assert expected.sentences == found.sentences
    assert 0 == house.curator.budget.spent.share


def test_to_show_an_answer_asks_nobody() -> None:
    """An answer of another level shows its own intervals and says which, without the network."""

    def fetch(entry: int, level: float) -> list[dict[str, Any]]:
        raise Unreachable("nobody is there")

    body: dict[str, Any] = {"columns": ["n"], "rows": [{"n": 7}], "reused": False}
    body |= {"cost": {"share": "1/100", "epsilon": 0.02}, "receipt": {"entry": 1, "digest": ""}}
    body |= {"intervals": [{"n_low": 3, "n_high": None}], "confidence": 0.999, "notes": ["few"]}
    answer = RemoteAnswer.of(body, fetch)

    for shown in (repr(answer), answer._repr_html_()):
        assert "99.9 % intervals in brackets" in shown
        assert "inf" in shown
        assert "few" in shown
        assert "95 %" not in shown


def test_a_busy_server_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the rate limit, the client waits and tries again before it gives up."""
    waits: list[float] = []
    stop_rate_clock(monkeypatch)
    house = build_house(tmp_path, requests_per_minute=1)
    with serving(house.app) as address:
        headers = {"authorization": f"Bearer {house.ana}"}
        with httpx2.Client(base_url=address, headers=headers, timeout=60) as http:
            connection = Connection(http, wait=waits.append)
            connection.tables()
            with pytest.raises(TooManyRequests):
                connection.tables()

    assert sorted(waits) == waits
    assert waits


@pytest.mark.parametrize(
    ("url", "token"),
    [
        ("http://hospital.example", "t"),
        ("ftp://localhost", "t"),
        ("localhost:8000", "t"),
        ("https://", "t"),
        ("http://[::1", "t"),
        (7, "t"),
        ("https://hospital.example", "a\nb"),
        ("https://hospital.example", ""),
        ("https://hospital.example", "café"),
    ],
)
def test_a_token_is_not_sent_in_the_clear(url: Any, token: str) -> None:
    """Plain http to another machine is refused, like an address or a token that is none."""
    with pytest.raises(cf.BadDeclaration):
        connect(url, token)


def test_plain_http_can_be_allowed() -> None:
    """Whoever owns the network in between may say so."""
    connect("http://hospital.example", "t", allow_http=True).close()
