"""A curator that charges nothing returns stored answers and resumes charges that wait."""

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pytest

import confide as cf
from confide.curator import paid_only
from confide.errors import BadArgument
from confide.execution.executor import NotPaid
from confide.ledger import KeyUsed, MemoryLedger

COUNT: Final = "SELECT COUNT(*) AS n FROM t"
SUM: Final = "SELECT SUM(x) AS s FROM t"
TOP: Final = "SELECT g FROM t GROUP BY g ORDER BY COUNT(*) DESC LIMIT 2"
ROWS: Final = pa.table({"who": list(range(60)), "x": [0.5] * 60, "g": ["a", "b", "c"] * 20})
ONE: Final[dict[str, Any]] = {"share": "1%"}
Method = Callable[..., Any]
METHODS: Final[dict[str, Method]] = {
    "sql": lambda one, **said: one.sql(COUNT, **ONE, **said),
    "error": lambda one, **said: one.sql(COUNT, error=1_000, **said),
    "ask": lambda one, **said: one.table("t").agg(n=cf.count()).ask(**ONE, **said),
    "select": lambda one, **said: one.sql(TOP, **ONE, **said),
    "choose": lambda one, **said: one.choose(["n", "s"], {"n": COUNT, "s": SUM}, **ONE, **said),
    "release": lambda one, **said: one.release([COUNT, SUM], **ONE, **said)[0],
    "watch": lambda one, **said: one.durable_watch(5, **ONE, **said),
    "mean": lambda one, **said: one.mean("t", "x", **ONE, **said),
    "quantiles": lambda one, **said: one.quantiles("t", "x", [0.5], **ONE, **said),
}


@pytest.fixture
def curator() -> cf.Curator:
    """Return a curator of sixty people."""
    columns: dict[str, cf.Float | cf.Category] = {
        "x": cf.Float(0, 1),
        "g": cf.Category(["a", "b", "c"]),
    }
    table = cf.Table("t", ROWS, unit="who", columns=columns)
    return cf.Curator([table], budget=cf.Budget(1), ledger=None).as_analyst("ana")


@pytest.mark.parametrize("method", METHODS)
def test_what_is_not_paid_for_is_not_charged(curator: cf.Curator, method: str) -> None:
    """Every method that charges raises NotPaid, whether or not there is a key."""
    for said in ({}, {"key": "k"}):
        with pytest.raises(NotPaid):
            METHODS[method](paid_only(curator), **said)

    assert [] == list(curator.ledger.entries())


@pytest.mark.parametrize("method", METHODS)
def test_what_is_paid_for_is_returned(curator: cf.Curator, method: str) -> None:
    """An answer comes back with its key, and, unless a new one is wanted, without."""
    ask = METHODS[method]
    paid = ask(curator, key="k")
    again = ask(paid_only(curator), key="k")

    assert (paid.receipt, True) == (again.receipt, again.reused)
    assert 0 == again.cost.share
    if method != "watch":
        assert paid.receipt == ask(paid_only(curator)).receipt
        with pytest.raises(NotPaid):
            ask(paid_only(curator), fresh=True, key="new")
    assert 1 == len(list(curator.ledger.entries()))


@pytest.mark.parametrize("method", METHODS)
def test_a_charge_that_waits_is_resumed(
    curator: cf.Curator, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A charge that a crash left without an answer gets one with its key, for free."""
    ask = METHODS[method]
    with monkeypatch.context() as broken:
        broken.delattr(MemoryLedger, "commit")
        with pytest.raises(AttributeError):
            ask(curator, key="k")
    resumed = ask(paid_only(curator), key="k")
    (entry,) = curator.ledger.entries()

    assert (entry.number, "answered") == (resumed.receipt.entry, entry.state)


def test_keys_and_arguments_are_checked_alike(curator: cf.Curator) -> None:
    """A key of another query, and an argument that cannot be right, are refused as ever."""
    curator.sql(COUNT, share="1%", key="k")
    with pytest.raises(KeyUsed):
        paid_only(curator).sql(SUM, share="1%", key="k")
    with pytest.raises(BadArgument):
        paid_only(curator).sql(COUNT, share="1%", key="\n")


def test_an_error_that_is_wanted_is_kept(curator: cf.Curator) -> None:
    """A stored answer with a larger error does not do."""
    curator.sql(COUNT, share="1%")
    with pytest.raises(NotPaid):
        paid_only(curator).sql(COUNT, error=20)


def test_the_curator_itself_goes_on_charging(curator: cf.Curator) -> None:
    """The limit is the copy's alone."""
    paid_only(curator)

    assert not curator.sql(COUNT, share="1%").reused
