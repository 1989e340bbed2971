"""A private session inside a curator pays for all of itself, first."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import confide as cf
from confide.errors import BadDeclaration, BudgetExceeded
from confide.holdout import Holdout

N = 1_000
HALF = np.tile([0.0, 1.0], N // 2)


def open_curator(**more: Any) -> cf.Curator:
    table = cf.Table(
        "people",
        pd.DataFrame({"age": [30, 40, 50]}),
        unit=cf.ROW,
        columns={"age": cf.Int(0, 120)},
    )
    terms: dict[str, Any] = {"budget": cf.Budget(epsilon=2.0), "neighbours": "replace", **more}
    return cf.Curator([table], **terms)


def test_a_session_takes_its_share(entropy: object) -> None:
    """A 1-DP session takes half of a budget of 2, beside other questions."""
    curator = open_curator()
    holdout = Holdout(N, N, queries=100, overfits=5, epsilon=1, curator=curator)
    curator.sql("SELECT COUNT(*) AS n FROM people", epsilon=0.5)
    holdout.ask(HALF, HALF)

    assert Fraction(3, 4) == pytest.approx(curator.budget.spent.share, rel=1e-9)
    curator.ledger.verify()


@pytest.mark.parametrize("method", ["thresholdout", "gaussian"])
def test_gaussian_budgets_pay_for_sessions_too(method: str) -> None:
    """Under a budget with delta the session is priced by its mu, not by its epsilon."""
    curator = open_curator(budget=cf.Budget(epsilon=2.0, delta=1e-6))
    more = {"overfits": 50} if method == "thresholdout" else {}
    Holdout(N, N, queries=50, sigma=0.2, method=method, curator=curator, **more)  # type: ignore[arg-type]

    assert 0 < curator.budget.spent.share < Fraction(1, 2)


def test_what_does_not_fit_is_never_begun(tmp_path: Path) -> None:
    """A session that costs more than is left is refused, and leaves no state behind."""
    curator = open_curator()
    terms: dict[str, Any] = {"queries": 100, "overfits": 5, "epsilon": 3, "ledger": tmp_path / "h"}
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            Holdout(N, N, curator=curator, **terms)

    assert 0 == curator.budget.spent.share
    assert not (tmp_path / "h").exists()


def test_going_on_is_free(tmp_path: Path) -> None:
    """A session found in its file was paid for when it began."""
    curator = open_curator()
    terms: dict[str, Any] = {"queries": 100, "overfits": 5, "epsilon": 1, "ledger": tmp_path / "h"}
    Holdout(N, N, curator=curator, **terms)
    Holdout(N, N, curator=curator, **terms)

    assert Fraction(1, 2) == pytest.approx(curator.budget.spent.share, rel=1e-9)


def test_a_session_goes_on_only_where_it_was_paid(tmp_path: Path) -> None:
    """With curator=, a session begun without, or paid by another ledger, is refused uncharged."""
    first, second = open_curator(), open_curator()
    terms: dict[str, Any] = {"queries": 100, "overfits": 5, "epsilon": 1, "ledger": tmp_path / "h"}
    Holdout(N, N, name="free", **terms)
    Holdout(N, N, name="paid", curator=first, **terms)
    # The other ledger has an entry of the same number, with a digest of its own.
    Holdout(N, N, name="other", curator=second, **terms)
    for name, curator in (("free", first), ("paid", second), ("other", first)):
        with pytest.raises(BadDeclaration, match="another name="):
            Holdout(N, N, name=name, curator=curator, **terms)

    assert Fraction(1, 2) == pytest.approx(first.budget.spent.share, rel=1e-9)
    assert 100 == Holdout(N, N, name="paid", curator=first, **terms).left.queries
    assert 100 == Holdout(N, N, name="paid", **terms).left.queries


def test_a_ledger_in_a_file_knows_what_it_paid_for(tmp_path: Path) -> None:
    """Opened again from its file, a curator's ledger lets the session go on, and pays once."""
    terms: dict[str, Any] = {"queries": 100, "overfits": 5, "epsilon": 1, "ledger": tmp_path / "h"}
    for _ in range(2):
        curator = open_curator(ledger=tmp_path / "ledger.db")
        Holdout(N, N, curator=curator, **terms)

        assert Fraction(1, 2) == pytest.approx(curator.budget.spent.share, rel=1e-9)


def test_a_session_is_charged_to_its_analyst() -> None:
    """The charge carries the curator's analyst and purpose, and keeps their limits."""
    limits = cf.Limits(
        analysts={"ada": cf.Limit(Fraction(1, 4)), "bob": cf.Limit(Fraction(3, 4))},
    )
    curator = open_curator(limits=limits)
    terms: dict[str, Any] = {"queries": 100, "overfits": 5, "epsilon": 1}
    with pytest.raises(BudgetExceeded):
        Holdout(N, N, curator=curator.as_analyst("ada"), **terms)
    Holdout(N, N, curator=curator.as_analyst("bob", purpose="models"), **terms)

    (entry,) = curator.ledger.entries()
    assert ("bob", "models") == (entry.question.analyst, entry.question.purpose)


def test_validity_alone_and_other_neighbours_are_refused() -> None:
    """A curator takes private sessions only, whose loss is stated for its own neighbours."""
    with pytest.raises(BadDeclaration, match="validity, not privacy"):
        Holdout(N, N, queries=10, overfits=2, curator=open_curator())
    with pytest.raises(BadDeclaration, match="neighbours='replace'"):
        Holdout(
            N, N, queries=10, overfits=2, epsilon=1, curator=open_curator(neighbours="add-remove")
        )
