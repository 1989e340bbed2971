"""Plans reach the figures from the theory, and their inverses agree with them."""

import math
from dataclasses import replace
from typing import Any

import pytest

from confide.errors import BadDeclaration, UnsupportedQuery
from confide.holdout import Holdout, coding_bounds, plan
from confide.holdout.coding_bounds import history_nats, step_nats, value_nats
from confide.holdout.intervals import hoeffding_width
from confide.holdout.planning import THEOREMS, Bound, HoldoutPlan, Theorem
from confide.holdout.planning import _Request as Request

FIGURES = [
    # tau, queries, overfits, published theorem, coding with its claim, coding to the last overfit
    (0.1, 100, 10, 1.38e7, 41_361, 5_474),
    (0.1, 10**6, 10, 2.80e7, 115_403, 14_940),
    (0.05, 10**4, 10, 8.35e7, 334_192, 42_568),
    (0.05, 10**4, 100, 8.35e8, 2.63e6, 249_606),
]
UNGUESSED = [
    ("splitting", 41_500, 6.45e6),
    ("rounding", 24_078, 2.41e6),
    ("gaussian, posterior", 53_551, 614_575),
    ("gaussian, information", 22_812, 242_667),
]


def rows(found: HoldoutPlan, rule: str) -> int:
    return next(bound.n for bound in found.bounds if bound.rule == rule)


def solve(wish: Request, rule: Theorem) -> Bound:
    found = wish.solve(rule)
    assert found is not None
    return found


@pytest.mark.parametrize("figures", FIGURES)
def test_guessed_sessions_reach_their_figures(
    figures: tuple[float, int, int, float, float, int],
) -> None:
    """Each bound with a guess needs at most the number of rows from the theory."""
    tau, queries, overfits, theorem, same, stop = figures
    found = plan(tau=tau, beta=0.05, queries=queries, overfits=overfits)

    assert pytest.approx(theorem, rel=0.005) == rows(found, "thresholdout, published theorem")
    assert rows(found, "coding, published claim") <= same
    assert rows(found, "coding") <= stop


@pytest.mark.parametrize(("rule", "short", "long"), UNGUESSED)
def test_sessions_without_a_guess_reach_their_figures(rule: str, short: float, long: float) -> None:
    """Each bound without a guess needs at most the number of rows from the theory."""
    assert rows(plan(tau=0.1, queries=100), rule) <= short
    assert rows(plan(tau=0.1, queries=10**4), rule) <= long * 1.0005


def test_the_best_that_can_be_run_is_the_plan() -> None:
    """Bounds are sorted best first, and the plan is the first that confide can run."""
    found = plan(tau=0.1, queries=100, overfits=10)

    assert sorted(bound.n for bound in found.bounds) == [bound.n for bound in found.bounds]
    assert len(THEOREMS) == len(found.bounds)
    assert ("coding", 5432) == (found.method, found.n)
    assert "gaussian" == plan(tau=0.1, queries=100).method
    assert "coding" in str(found)
    assert "5,432" in str(found)


@pytest.mark.parametrize("rule", THEOREMS, ids=lambda rule: rule.name)
def test_more_is_never_cheaper(rule: Theorem) -> None:
    """A smaller tau or beta, more queries, or more overfits never need fewer rows."""
    wish = Request(tau=0.1, beta=0.05, queries=50, overfits=5, sought="n")
    base = solve(wish, rule).n

    assert base <= solve(replace(wish, tau=0.08), rule).n
    assert base <= solve(replace(wish, beta=0.01), rule).n
    assert base <= solve(replace(wish, queries=60), rule).n
    assert base <= solve(replace(wish, overfits=6), rule).n


@pytest.mark.parametrize("rule", THEOREMS, ids=lambda rule: rule.name)
def test_inverses_agree(rule: Theorem) -> None:
    """With the planned rows, the smallest tau is the requested one; with one less, it is larger."""
    wish = Request(tau=0.1, beta=0.05, queries=40, overfits=4, sought="n")
    need = solve(wish, rule).n
    tau = replace(wish, sought="tau")

    assert solve(replace(tau, n=need), rule).tau <= 0.1 + 1e-6
    assert solve(replace(tau, n=need - 1), rule).tau > 0.1 - 1e-6
    assert solve(replace(wish, sought="queries", n=need), rule).queries >= 40


PLANNED = [
    # tau, beta, queries, overfits; for the first four, rounding once made normal noise miss tau
    (0.07, 0.05, 500, 4),
    (0.05, 0.1, 100, 1),
    (0.1, 0.05, 3_000, 3),
    (0.1, 0.05, 10_000, 10),
    (0.15, 0.05, 60, 4),
]


@pytest.mark.parametrize(("tau", "beta", "queries", "overfits"), PLANNED)
def test_a_session_on_the_planned_rows_keeps_its_tau(
    tau: float, beta: float, queries: int, overfits: int
) -> None:
    """With the planned rows, a session of every method guarantees the planned tau."""
    bounds = {
        bound.rule: bound.n
        for bound in plan(tau=tau, beta=beta, queries=queries, overfits=overfits).bounds
    }
    ways = {"gaussian, information": "gaussian"} | {
        way: way for way in ("rounding", "splitting", "ladder")
    }
    for rule, method in ways.items():
        holdout = Holdout(None, bounds[rule], tau=tau, beta=beta, queries=queries, method=method)
        assert holdout.guarantee.holds
    size = bounds["coding"]
    limits: dict[str, Any] = {"tau": tau, "beta": beta, "queries": queries}
    assert Holdout(size, size, overfits=overfits, **limits).guarantee.holds
    size = plan(overfits=overfits, epsilon=1, **limits).n
    assert Holdout(size, size, overfits=overfits, epsilon=1, **limits).guarantee.holds


@pytest.mark.parametrize("rows", [60, 1_000])
def test_an_endless_session_may_have_fewer_overfits_than_planned(rows: int) -> None:
    """No number of overfits below the limit gives a longer code than the planned one."""
    threshold, queries = coding_bounds.anytime_threshold(rows, rows), 101
    cells = math.ceil(1 / threshold)
    spent = [
        history_nats(queries - 1 - size, size) + size * value_nats(0, cells)
        for size in range(queries)
    ]
    for overfits in (5, 95, 100):
        nats = max(spent[: overfits + 1]) + step_nats(queries, 0.05) + math.log(2)
        tau = threshold + hoeffding_width(rows, nats)
        assert coding_bounds.fits_anytime(rows, tau + 1e-9, 0.05, queries, overfits)
        assert not coding_bounds.fits_anytime(rows, tau - 1e-9, 0.05, queries, overfits)

    assert max(spent) > spent[-1]


def test_overfits_are_found_for_given_rows() -> None:
    """For given n, tau and queries, one more overfit than the plan's needs more rows."""
    found = plan(n=10_000, tau=0.1, queries=1_000)

    assert "overfits" == found.sought
    assert found.overfits is not None
    assert plan(tau=0.1, queries=1_000, overfits=found.overfits).n <= 10_000
    assert plan(tau=0.1, queries=1_000, overfits=found.overfits + 1).n > 10_000


def test_both_can_be_open() -> None:
    """With only n and tau given, bounds are shown for several numbers of overfits."""
    found = plan(n=20_000, tau=0.1)
    shown = {bound.overfits for bound in found.bounds if bound.rule == "coding"}

    assert 10 == found.overfits
    assert len(shown) >= 3


def test_private_sessions_can_be_planned() -> None:
    """With epsilon the plan is a private Thresholdout, and a larger epsilon needs fewer rows."""
    found = plan(tau=0.1, queries=100, overfits=10, epsilon=1)

    assert "thresholdout" == found.method
    assert found.n <= 27_000
    assert plan(tau=0.1, queries=100, overfits=10, epsilon=0.5).n > found.n


def test_open_plans_with_epsilon_are_private() -> None:
    """With epsilon, every bound is private, even if queries and overfits are open."""
    found = plan(n=100_000, tau=0.1, epsilon=1)

    assert "thresholdout" == found.method
    assert {"thresholdout"} == {bound.rule for bound in found.bounds}
    assert found.overfits is not None


def test_impossible_plans_are_refused() -> None:
    """A plan is refused if it leaves out nothing or too much, or has a number out of range."""
    for wish in (
        {},
        {"tau": 0.1},
        {"tau": 0.1, "queries": 5, "overfits": 2, "n": 10},
        {"tau": 1.5, "queries": 5},
        {"tau": 0.1, "queries": 0},
        {"tau": 0.1, "queries": 5, "beta": 0},
        {"n": 100},
        {"tau": 0.1, "queries": 100, "epsilon": 1},
        {"n": 1_000, "queries": 100, "epsilon": 1},
    ):
        with pytest.raises(BadDeclaration):
            plan(**wish)
    with pytest.raises(UnsupportedQuery, match="No method"):
        plan(n=3, tau=0.01, queries=100)
