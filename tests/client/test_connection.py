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
    """A server on a real socket."""
    house = build_house(tmp_path_factory.mktemp("house"), requests_per_minute=100_000)
    with serving(house.app) as address:
        yield house, address


@pytest.fixture
def ana(served: tuple[House, str]) -> Iterator[Connection]:
    """A connection as the analyst ana."""
    house, address = served
    with connect(address, house.ana) as connection:
        yield connection


@pytest.mark.parametrize("values", [[1, 2, None], ["1", "2", None], [-3]])
def test_listed_values_keep_their_type(values: list[int | str | None]) -> None:
    """A client receives the values of a category with the declared type, integer or string."""
    rows = pa.table({"code": [1, 2, 3]})
    declared = cf.Table("t", rows, unit=cf.ROW, columns={"code": cf.Category(values)})
    shown = show_tables(cf.Curator([declared], budget=cf.Budget(1)))
    read = read_names(json.loads(shown.model_dump_json())).table("t")

    assert cf.Category(values).kind is read.columns["code"]


def test_an_answer_has_the_same_views(ana: Connection) -> None:
    """A remote answer's DataFrames, intervals, cost, chart, and HTML match the curator's."""
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
    assert str(answer).endswith(f"95% intervals in brackets; cost {answer.cost}")
    assert answer.plot().spec["data"]["values"]


def test_other_levels_are_fetched_for_free(ana: Connection) -> None:
    """Higher confidence gives wider intervals of the same answer, at no cost."""
    answer = ana.sql(COUNT, share="1/100", fresh=True)
    before = ana.budget.spent.share
    narrow, wide = answer.interval_rows(0.5)[0], answer.interval_rows(0.999)[0]

    assert wide["n_low"] < narrow["n_low"] <= narrow["n_high"] < wide["n_high"]
    assert before == ana.budget.spent.share


def test_queries_built_in_python_are_equivalent(ana: Connection) -> None:
    """A query built in Python equals the one written in SQL: its repeat is free."""
    built = ana.table("visits").where(cf.col("age") >= 65).group_by("ward").agg(n=cf.count())
    text = "SELECT ward, COUNT(*) AS n FROM visits WHERE age >= 65 GROUP BY ward"

    assert built.preview(share="1/50").errors == ana.preview(text, share="1/50").errors
    assert not built.preview(share="1/50").reused
    assert not built.ask(share="1/50").reused
    assert built.preview(share="1/50").reused
    assert ana.sql(text, share="1/50").reused


def test_fractions_are_sent_exactly(ana: Connection) -> None:
    """A Fraction is sent exactly: a third of a hundredth costs exactly that."""
    answer = ana.sql(COUNT, share=Fraction(1, 300), fresh=True)

    assert Fraction(1, 300) == answer.cost.share


def test_history_and_recall(ana: Connection) -> None:
    """The caller's charges are listed newest first, and each answer can be fetched again."""
    answer = ana.sql("SELECT COUNT(*) AS everyone FROM visits", share="1/100")
    newest = next(iter(ana.answers()))

    assert answer.receipt.entry == newest["entry"]
    assert answer.rows == ana.answer(newest["entry"]).rows


def test_refusals_keep_their_class(ana: Connection, served: tuple[House, str]) -> None:
    """Each refusal is raised as the curator's exception class, with its figures."""
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
    """A transport that serves requests but loses some responses."""

    def __init__(self, http: httpx2.Client, losses: int) -> None:
        self.http, self.losses, self.sent = http, losses, 0

    def request(self, *given: Any, **named: Any) -> Any:
        """Send a request, and lose the response while losses remain."""
        self.sent += 1
        answer = self.http.request(*given, **named)
        if self.losses:
            self.losses -= 1
            raise httpx2.ReadError("gone")
        return answer


@pytest.fixture
def shaky(served: tuple[House, str]) -> Iterator[Callable[[int], tuple[Connection, Shaky]]]:
    """Return a factory of connections that lose a number of responses."""
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
    """Three lost responses cost one charge, even with fresh=True."""
    connection, transport = shaky(3)
    before = served[0].curator.as_analyst("ana").budget.spent.share
    answer = connection.sql(COUNT, share="1/100", fresh=True)
    after = served[0].curator.as_analyst("ana").budget.spent.share

    assert 4 == transport.sent
    assert Fraction(1, 100) == after - before
    assert answer.rows == connection.answer(answer.receipt.entry).rows


def test_a_submission_is_sent_once(shaky: Callable[[int], tuple[Connection, Shaky]]) -> None:
    """Predictions whose score was lost are not resent, so they use up one submission."""
    connection, transport = shaky(1)
    with pytest.raises(Unreachable):
        connection.holdout_ask("digits", [0, 1])

    assert 1 == transport.sent


def test_nulls_become_infinities() -> None:
    """A null end or error of an estimate is read as the infinity on its side."""
    body: dict[str, Any] = {"form": "one", "names": ["x"], "confidence": 0.95, "reused": False}
    body |= {"values": [1.0], "standard_errors": [None], "lows": [None], "highs": [None]}
    body |= {"cost": {"share": "0", "epsilon": 0}, "receipt": {"entry": 1, "digest": ""}}
    body |= dict.fromkeys(("statistic", "edges", "p_value"))
    found = RemoteEstimate.of(body, lambda _: found)

    assert (1.0, math.inf) == (found.value, found.standard_error)
    assert str(found).endswith(": 1 [-inf, inf]")
    assert (-math.inf, math.inf) == found.interval()


def test_an_unreachable_server_is_reported(
    shaky: Callable[[int], tuple[Connection, Shaky]],
) -> None:
    """After several attempts, the client raises a fault that the server is unreachable."""
    connection, transport = shaky(1_000)
    with pytest.raises(Unreachable, match="cannot be reached"):
        _ = connection.budget

    assert transport.sent < 10


def test_unreachable_errors_advise_how_to_retry(
    shaky: Callable[[int], tuple[Connection, Shaky]],
) -> None:
    """The message for an unreachable server gives the right advice for each kind of request."""
    connection, _ = shaky(1_000)
    asked: list[Callable[[], object]] = [
        lambda: connection.sql(COUNT, share="1/100"),
        lambda: connection.choose(["A"], {"A": COUNT}, share="1/100"),
        lambda: connection.release([COUNT], share="1/100"),
        lambda: connection.quantiles("visits", "age", [0.5], share="1/100"),
    ]
    for ask in asked:
        with pytest.raises(Unreachable, match=r"the same key; .* is free without `fresh=True`"):
            ask()
    with pytest.raises(Unreachable, match=r"may have been counted"):
        connection.holdout_ask("digits", [0, 1])
    with pytest.raises(Unreachable, match=r"Then retry; this costs nothing"):
        connection.preview(COUNT, share="1/100")


def test_a_lost_watch_is_not_called_free(
    ana: Connection, shaky: Callable[[int], tuple[Connection, Shaky]]
) -> None:
    """A lost watch response explains how to find the watch, and that a new one is charged."""
    watch = ana.watch(-100_000, share="1/100")
    connection, _ = shaky(1_000)
    watch._send = connection.send
    with pytest.raises(Unreachable, match=r'a result "above" may have been used up') as used:
        watch.ask("SELECT COUNT(*) AS n FROM visits")
    with pytest.raises(Unreachable, match=r"because opening another one is charged again") as no:
        connection.watch(-100_000, share="1/100")

    assert "free" not in str(used.value) + str(no.value)
    assert 0 == ana.resume_watch(watch.receipt.entry).left
    lost = next(entry for entry in ana.answers() if '"watch"' in entry["question"])
    assert lost["entry"] > watch.receipt.entry
    assert 1 == ana.resume_watch(lost["entry"]).left


def test_a_server_explains_as_the_curator_does(tmp_path: Path) -> None:
    """`explain` over HTTP returns the curator's sentences and spends nothing."""
    house = build_house(tmp_path)
    with serving(house.app) as address, connect(address, house.ana) as ana:
        found = ana.explain(COUNT, epsilon=0.1)
    expected = house.curator.as_analyst("ana").explain(COUNT, epsilon=0.1)

    assert expected.sentences == found.sentences
    assert 0 == house.curator.budget.spent.share


def test_displaying_an_answer_needs_no_request() -> None:
    """An answer shows the intervals and level that it came with, without a request."""

    def fetch(entry: int, level: float) -> list[dict[str, Any]]:
        raise Unreachable("nobody is there")

    body: dict[str, Any] = {"columns": ["n"], "rows": [{"n": 7}], "reused": False}
    body |= {"cost": {"share": "1/100", "epsilon": 0.02}, "receipt": {"entry": 1, "digest": ""}}
    body |= {"intervals": [{"n_low": 3, "n_high": None}], "confidence": 0.999, "notes": ["few"]}
    answer = RemoteAnswer.of(body, fetch)

    for shown in (repr(answer), answer._repr_html_()):
        assert "99.9% intervals in brackets" in shown
        assert "inf" in shown
        assert "few" in shown
        assert "95%" not in shown


def test_rate_limit_errors_are_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a rate limit error, the client waits and retries before it gives up."""
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
    """HTTP to another machine, a malformed URL, and a malformed token are refused."""
    with pytest.raises(cf.BadDeclaration):
        connect(url, token)


def test_http_can_be_allowed() -> None:
    """`allow_http=True` permits HTTP to another machine."""
    connect("http://hospital.example", "t", allow_http=True).close()
