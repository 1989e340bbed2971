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
    Holdout(N, N, queries=50, overfits=50, sigma=0.2, method=method, curator=curator)

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


def test_validity_alone_and_other_neighbours_are_refused() -> None:
    """A curator takes private sessions only, whose loss is stated for its own neighbours."""
    with pytest.raises(BadDeclaration, match="validity, not privacy"):
        Holdout(N, N, queries=10, overfits=2, curator=open_curator())
    with pytest.raises(BadDeclaration, match="neighbours='replace'"):
        Holdout(
            N, N, queries=10, overfits=2, epsilon=1, curator=open_curator(neighbours="add-remove")
        )
