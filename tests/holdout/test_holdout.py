"""`Holdout`: its arguments, its answers, and the effects of errors."""

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import confide as cf
from confide.errors import BadDeclaration, BudgetExceeded, Refusal
from confide.holdout import Holdout, mean_metric, plan
from confide.holdout.choice import METHODS, USED_OPTIONS

N = 6_000
HALF = np.tile([0.0, 1.0], N // 2)


def open_holdout(method: str = "coding", n: int = N, **more: Any) -> Holdout:
    """Return a session without rows by any method, with the terms that the method uses."""
    terms: dict[str, Any] = {"tau": 0.1, "queries": 100, "overfits": 10, **more}
    if method == "thresholdout":
        terms = {"epsilon": 1_000, **terms}
    used = {name: value for name, value in terms.items() if name in USED_OPTIONS[method]}
    return Holdout(n, n, method=method, **used)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_answers_by_one_interface(method: str) -> None:
    """Each method returns a value, an overfit flag, and an interval that covers 1/2."""
    holdout = open_holdout(method)
    answer = holdout.ask(HALF, HALF)

    low, high = answer.interval
    assert method == holdout.method
    assert 0 <= low <= 0.5 <= high <= 1
    assert isinstance(answer.value, float)
    assert isinstance(answer.overfit, bool)
    assert answer.value == float(answer)
    assert holdout.left.queries in (99, None)
    assert method in repr(holdout)


def test_an_accurate_guess_is_accepted_and_a_wrong_one_is_not() -> None:
    """An accurate guess is the answer; otherwise it is the middle of a cell close to the mean."""
    holdout = open_holdout()

    near = holdout.ask(np.full(N, 0.52), HALF)
    far = holdout.ask(np.zeros(N), HALF)
    assert 0.52 == pytest.approx(near.value)
    assert not near.overfit
    assert far.overfit
    assert abs(far.value - 0.5) <= 0.1
    assert (98, 9) == (holdout.left.queries, holdout.left.overfits)


def test_the_session_ends_after_its_overfits() -> None:
    """After B overfits every query is refused with that reason, and nothing changes."""
    holdout = open_holdout(n=8_000, overfits=2)
    for _ in range(2):
        holdout.ask(np.zeros(8_000), np.full(8_000, 0.5))

    for _ in range(2):
        with pytest.raises(BudgetExceeded, match="no overfits left"):
            holdout.ask(np.full(8_000, 0.5), np.full(8_000, 0.5))
    assert (98, 0) == (holdout.left.queries, holdout.left.overfits)
    assert issubclass(BudgetExceeded, Refusal)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "splitting"])
def test_a_batch_of_queries_equals_single_queries(method: str) -> None:
    """Except for noise, a matrix of queries gives the same answers as its columns one by one.

    Gaussian noise has a standard deviation of 0.01 here. So two answers differ by 0.1, seven
    standard deviations of their difference, in one of 10^11 runs.
    """
    train = np.stack([HALF, np.zeros(N), np.full(N, 0.3)], axis=1)
    heldout = np.stack([HALF, np.full(N, 0.25), np.full(N, 0.31)], axis=1)
    less: dict[str, Any] = {"sigma": 0.01} if method == "gaussian" else {}
    together, singly = open_holdout(method, **less), open_holdout(method, **less)
    answers = together.ask_many(train, heldout)
    ones = [singly.ask(train[:, i], heldout[:, i]) for i in range(3)]

    assert 3 == len(answers)
    assert [one.overfit for one in ones] == answers.overfit.tolist()
    assert together.left == singly.left
    loose = 0.1 if together.loss is not None else 1e-12
    for i, one in enumerate(ones):
        assert one.value == pytest.approx(answers[i].value, abs=loose)
        assert one.interval == pytest.approx(answers[i].interval, abs=2 * loose)


def test_splitting_uses_fresh_rows_for_every_query() -> None:
    """Query i returns the mean over block i alone, whether asked singly or in a matrix."""
    values = np.repeat(np.arange(10) / 10, 5)
    one = Holdout(None, 50, queries=10, method="splitting")
    many = Holdout(None, 50, queries=10, method="splitting")

    assert [i / 10 for i in range(10)] == pytest.approx([one.ask(values).value for _ in range(10)])
    told = many.ask_many(np.tile(values[:, None], (1, 12))).values
    assert [i / 10 for i in range(10)] == pytest.approx(told.tolist())
    with pytest.raises(BudgetExceeded):
        one.ask(values)


def test_the_ladder_never_decreases() -> None:
    """The ladder shows only the level of the best mean; a worse submission changes nothing."""
    holdout = open_holdout("ladder")
    shown = [holdout.ask(np.full(N, mean)).value for mean in (0.2, 0.6, 0.3, 0.61, 0.9)]

    assert sorted(shown) == shown
    assert shown[1] == shown[2]
    assert len(set(shown)) == 3


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "values",
    [np.full(N, 1.5), np.full(N, -0.1), np.full(N, math.nan), np.full(N - 1, 0.5), ["a"] * N],
    ids=["above", "below", "nan", "short", "text"],
)
def test_bad_values_change_nothing(method: str, values: Any) -> None:
    """Values out of range, NaN, and too few values are refused unquoted, without a change."""
    holdout = open_holdout(method)
    before = holdout.left, holdout.guarantee
    with pytest.raises(BadDeclaration) as caught:
        holdout.ask(HALF, values)
    with pytest.raises(BadDeclaration):
        holdout.ask(values, HALF)

    assert "1.5" not in str(caught.value)
    assert before[0] == holdout.left
    assert before[1] == holdout.guarantee


def frames(kind: str) -> tuple[Any, Any]:
    columns = {"x": np.linspace(0, 1, N), "y": np.tile([0, 1], N // 2)}
    match kind:
        case "pandas":
            return pd.DataFrame(columns), pd.DataFrame(columns)
        case "polars":
            return pl.DataFrame(columns), pl.DataFrame(columns)
        case _:
            pair = np.column_stack([columns["x"]]), columns["y"]
            return pair, pair


@pytest.mark.parametrize("kind", ["pandas", "polars", "pair"])
def test_functions_are_called_on_blocks_of_rows(kind: str) -> None:
    """A function receives all rows of a DataFrame, or X and y of a pair."""
    train, heldout = frames(kind)
    holdout = Holdout(train, heldout, tau=0.1, queries=10, overfits=3)
    if kind == "pair":
        answer = holdout.ask(lambda x, y: (x[:, 0] > 0.5) == (y == 1))
    else:
        answer = holdout.ask(lambda rows: np.asarray(rows["x"] > 0.5) == np.asarray(rows["y"] == 1))

    assert 0.5 == pytest.approx(answer.value, abs=0.01)


def test_arrays_of_rows_are_rows_too() -> None:
    """A function receives an array of rows as it is."""
    rows = np.linspace(0, 1, N).reshape(-1, 1)
    holdout = Holdout(rows, rows, tau=0.1, queries=10, overfits=3)

    assert 0.5 == pytest.approx(holdout.ask(lambda block: block[:, 0]).value)


def test_a_function_that_fails_on_training_rows_changes_nothing() -> None:
    """After an error on training rows, the session continues unchanged."""
    train, heldout = frames("pandas")
    holdout = Holdout(train, heldout, tau=0.1, queries=10, overfits=3)
    before = holdout.left
    for bad in (lambda rows: 1 / 0, lambda rows: rows["z"], lambda rows: rows["x"] * 2):
        with pytest.raises(BadDeclaration):
            holdout.ask(bad)

    assert before == holdout.left
    assert holdout.guarantee.holds


@pytest.mark.parametrize("epsilon", [None, 1])
def test_a_function_that_fails_on_the_holdout_alone_ends_the_session(epsilon: int | None) -> None:
    """The error is hidden, no row is read again, and earlier answers keep their guarantee.

    Privacy is no longer promised, because the failure itself revealed something about the rows.
    """
    train, heldout = frames("pandas")
    heldout.loc[17, "x"] = 0.123456789
    holdout = Holdout(train, heldout, tau=0.2, queries=10, overfits=3, epsilon=epsilon)
    seen: list[int] = []

    def spy(rows: Any) -> Any:
        seen.append(len(rows))
        if (rows["x"] == 0.123456789).any():
            raise ValueError("row 17 holds 0.123456789")
        return rows["x"]

    holds = holdout.guarantee.holds
    with pytest.raises(BadDeclaration) as caught:
        holdout.ask(spy)
    assert "0.123456789" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    asked = len(seen)
    for again in (spy, lambda rows: rows["x"]):
        with pytest.raises(Refusal, match="ended"):
            holdout.ask(again)
    with pytest.raises(Refusal, match="ended"):
        holdout.ask(np.full(N, 0.5), np.full(N, 0.5))
    assert asked + 1 == len(seen)  # one more call on the training rows, none on the holdout's
    assert (0, 0) == (holdout.left.queries, holdout.left.overfits)
    assert holds == holdout.guarantee.holds
    assert holdout.loss is None is holdout.guarantee.loss
    assert "failed on the holdout's rows" in str(holdout.guarantee)


def test_different_columns_are_refused() -> None:
    """Training and holdout rows with different columns, or another order, are refused."""
    train, heldout = frames("pandas")
    with pytest.raises(BadDeclaration, match="same columns"):
        Holdout(train, heldout.rename(columns={"x": "z"}), tau=0.1, queries=5, overfits=1)
    with pytest.raises(BadDeclaration, match="same columns"):
        Holdout(np.zeros((5, 2)), np.zeros((5, 3)), tau=0.1, queries=5, overfits=1)


@pytest.mark.parametrize(
    ("metric", "high", "predict", "expected"),
    [
        ("accuracy", None, lambda y: y, 1.0),
        ("zero-one-loss", None, lambda y: 1 - y, 1.0),
        ("brier", None, lambda y: np.full(N, 0.5), 0.25),
        ("squared-error", 4, lambda y: y + 1.0, 1.0),
        ("absolute-error", 2, lambda y: y + 7.0, 2.0),
        ("auc", None, lambda y: y * 1.0, 1.0),
        ("auc", None, lambda y: y * 0.0, 0.5),
    ],
)
def test_metrics_use_their_usual_scale(
    metric: str, high: Any, predict: Any, expected: float
) -> None:
    """Each named metric of simple predictions has its usual value."""
    train, heldout = frames("pair")
    holdout = Holdout(train, heldout, method="guess-and-check")
    answer = holdout.score(predict(train[1]), predict(heldout[1]), metric, high=high)

    low, up = answer.interval
    assert expected == pytest.approx(answer.value)
    assert low - 1e-9 <= expected <= up + 1e-9


def test_values_in_a_declared_range_are_scaled() -> None:
    """Values between low= and high= are rescaled; values outside are refused."""
    holdout = Holdout(N, N, method="guess-and-check")
    answer = holdout.ask(HALF * 40 - 10, HALF * 40 - 10, low=-10, high=30)

    assert 10 == pytest.approx(answer.value)
    assert -10 <= answer.interval[0] <= 10 <= answer.interval[1] <= 30
    with pytest.raises(BadDeclaration, match="range"):
        mean_metric(2, 1)
    with pytest.raises(BadDeclaration, match=r"\[0, 1\]"):
        holdout.ask(HALF * 41, HALF * 41, low=0, high=40)


def test_metrics_that_do_not_fit_are_refused() -> None:
    """Unknown metrics, missing ranges, and pairs with a tau or with privacy are refused."""
    train, heldout = frames("pair")
    holdout = Holdout(train, heldout, tau=0.1, queries=100, overfits=10)
    scores = heldout[1] * 1.0
    for metric in ("precision", "squared-error"):
        with pytest.raises(BadDeclaration):
            holdout.score(scores, scores, metric)
    with pytest.raises(BadDeclaration, match="pairs rows"):
        holdout.score(scores, scores, "auc")
    private = Holdout(train, heldout, queries=10, overfits=2, epsilon=1)
    with pytest.raises(BadDeclaration, match="pairs rows"):
        private.score(scores, scores, "auc")
    with pytest.raises(BadDeclaration, match="no labels"):
        Holdout(N, N, method="guess-and-check").score(scores, scores)
    assert (100, 10) == (holdout.left.queries, holdout.left.overfits)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "naive"])
def test_a_guarantee_never_claims_more_than_its_plan(method: str) -> None:
    """With half of the required rows, the guarantee says so and states the tau that does hold."""
    if method in ("guess-and-check", "thresholdout"):
        return
    need = next(
        bound.n for bound in plan(tau=0.1, queries=50, overfits=5).bounds if bound.method == method
    )
    short = open_holdout(method, n=need // 2, queries=50, overfits=5).guarantee
    enough = open_holdout(method, n=need, queries=50, overfits=5).guarantee

    assert not short.holds
    assert short.tau is not None
    assert short.tau > 0.1
    assert "none at this n" in str(short)
    assert enough.holds
    assert 0.1 == enough.tau


def test_guarantees_separate_privacy_from_validity() -> None:
    """Only noisy methods promise privacy; a naive holdout promises nothing."""
    assert "privacy: not guaranteed" in str(open_holdout("coding").guarantee)
    assert "-DP" in str(open_holdout("thresholdout").guarantee)
    assert "Gaussian-DP" in str(open_holdout("gaussian").guarantee)
    naive = open_holdout("naive").guarantee
    assert not naive.holds
    assert naive.tau is None


def test_the_method_follows_from_the_terms() -> None:
    """``auto`` chooses the method that suits the terms."""
    assert "coding" == Holdout(N, N, tau=0.1, queries=10, overfits=2).method
    assert "guess-and-check" == Holdout(N, N).method
    assert "thresholdout" == Holdout(N, N, threshold=0.04, sigma=0.01, queries=9, overfits=2).method
    assert "gaussian" == Holdout(None, 10**5, tau=0.1, queries=100).method
    assert "rounding" == Holdout(None, 1_000, queries=10).method
    assert "gaussian" == Holdout(None, N, sigma=0.01, queries=5).method
    for wrong in (
        {"method": "magic"},
        {"method": "coding"},
        {"method": "thresholdout", "queries": 3},
    ):
        with pytest.raises(BadDeclaration):
            Holdout(N, N, **wrong)
    with pytest.raises(BadDeclaration, match="not both"):
        Holdout(N, N, sigma=1, epsilon=1, queries=3, overfits=1)


OPTIONS: dict[str, Any] = {
    "tau": 0.1,
    "queries": 10,
    "overfits": 2,
    "threshold": 0.1,
    "sigma": 0.01,
    "epsilon": 1,
}


@pytest.mark.parametrize("method", METHODS)
def test_no_argument_is_ignored(method: str) -> None:
    """An option that a method does not use is refused, and the error lists methods that use it."""
    needed = {
        name: OPTIONS[name] for name in USED_OPTIONS[method] if name in ("queries", "overfits")
    }
    for option in sorted(set(OPTIONS) - set(USED_OPTIONS[method])):
        with pytest.raises(BadDeclaration, match=f"{option}=` is not used") as caught:
            Holdout(N, N, method=method, **needed, **{option: OPTIONS[option]})
        users = [name for name in METHODS if option in USED_OPTIONS[name]]
        assert all(name in str(caught.value) for name in users)


def test_arguments_are_not_ignored_under_auto() -> None:
    """Under ``auto``, options that the chosen method does not use are refused too."""
    with pytest.raises(BadDeclaration, match="tau=` is not used"):
        Holdout(N, N, tau=0.1, queries=10)
    with pytest.raises(BadDeclaration, match=r"epsilon=` is not used.*thresholdout"):
        Holdout(None, N, queries=10, epsilon=1)
    with pytest.raises(BadDeclaration, match="overfits=` is not used"):
        Holdout(None, N, queries=10, overfits=3)


def test_the_top_of_the_package_offers_it() -> None:
    """`cf.Holdout` and `cf.holdout.plan` need no separate import."""
    assert cf.Holdout is Holdout
    assert cf.holdout.plan is plan


def test_wrong_queries_are_refused() -> None:
    """Functions without rows, missing or wrong guesses, and three arrays raise BadDeclaration."""
    holdout = open_holdout()
    for wrong in ((lambda rows: rows,), (), (HALF, HALF, HALF), (HALF,)):
        with pytest.raises(BadDeclaration):
            holdout.ask(*wrong)
    with pytest.raises(BadDeclaration):
        holdout.ask(HALF, guess=2)
    with pytest.raises(BadDeclaration):
        holdout.ask_many(np.zeros((N, 2)), np.zeros((N, 3)))
    with pytest.raises(BadDeclaration):
        holdout.ask_many(np.zeros((N, 2)), guesses=[0.1])
    assert 0.5 == holdout.ask(HALF, guess=0.5).value
    assert 2 == len(holdout.ask_many(np.full((N, 2), 0.5), guesses=[0.5, 0.4]))
    for rows in (0, -3, "rows", (1, 2, 3), (np.zeros((4, 2)), np.zeros(3)), [[1], [2, 3]]):
        with pytest.raises(BadDeclaration):
            Holdout(rows, 10, method="naive")
