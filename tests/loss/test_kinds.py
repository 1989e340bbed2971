import math
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import BadDeclaration
from confide.loss import (
    ApproximateLoss,
    BoundedRangeLoss,
    GaussianLoss,
    LaplaceLoss,
    Loss,
    PureLoss,
    RenyiLoss,
    compose,
)

SIZE = st.fractions(min_value=Fraction(1, 100), max_value=8, max_denominator=100)
KINDS: list[Callable[[Fraction], Loss]] = [
    PureLoss,
    lambda size: LaplaceLoss(size, 1),
    lambda size: LaplaceLoss(size, 6),
    BoundedRangeLoss,
    GaussianLoss,
    lambda size: RenyiLoss(Fraction(7), size),
    lambda size: ApproximateLoss(PureLoss(size), Fraction(1, 1000)),
]
NOT_POSITIVE = [0, -1, -0.5, math.nan, math.inf, -math.inf, "x", "", None, True, [1], 1j]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(SIZE, SIZE)
def test_more_is_never_cheaper(
    kind: Callable[[Fraction], Loss], one: Fraction, other: Fraction
) -> None:
    """The larger of two losses of a kind is nowhere smaller."""
    small, large = kind(min(one, other)), kind(max(one, other))

    assert small.epsilon <= large.epsilon
    assert small.mu <= large.mu
    assert small.renyi(5) <= large.renyi(5)
    assert small.delta(0.5) <= large.delta(0.5)
    assert small.epsilon_at(0.01) <= large.epsilon_at(0.01)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(SIZE, st.sampled_from([0.3, 0.01, 1e-4, 1e-9]))
def test_epsilon_and_delta_belong_together(
    kind: Callable[[Fraction], Loss], size: Fraction, delta: float
) -> None:
    """The epsilon at a delta has at most that delta, and a slightly smaller epsilon has more."""
    loss, target = kind(size), Fraction(str(delta))
    epsilon = loss.epsilon_above(target)
    if isinstance(epsilon, Fraction):
        assert loss.delta_above(epsilon) <= target * (1 + Fraction(1, 2**60))
    if isinstance(epsilon, Fraction) and epsilon:
        assert loss.delta_above(epsilon * (1 - Fraction(1, 2**50))) >= target


@pytest.mark.parametrize("kind", KINDS[:4])
@settings(max_examples=30)
@given(SIZE)
def test_a_pure_loss_covers_the_finer_kinds(
    kind: Callable[[Fraction], Loss], size: Fraction
) -> None:
    """No epsilon-DP loss costs more than the pure loss of the same epsilon, by any measure."""
    loss, pure = kind(size), PureLoss(size)

    assert loss.epsilon == pure.epsilon
    assert loss.mu <= pure.mu
    assert loss.renyi(3) <= pure.renyi(3)
    for epsilon in (0, 0.1, 1, 3):
        assert loss.delta(epsilon) <= pure.delta(epsilon)


@pytest.mark.parametrize("kind", KINDS[:5])
@settings(max_examples=30)
@given(SIZE)
def test_gaussian_conversion_only_loosens(kind: Callable[[Fraction], Loss], size: Fraction) -> None:
    """The Gaussian loss with the mu of a loss has at least its delta everywhere."""
    loss = kind(size)
    assert isinstance(loss.mu_squared, Fraction)
    gaussian = GaussianLoss(loss.mu_squared)
    for epsilon in (0, 0.05, 0.5, 2):
        assert loss.delta(epsilon) <= gaussian.delta(epsilon)


def test_a_missing_bound_is_infinite() -> None:
    """A bound that a kind of loss cannot prove is infinite."""
    assert math.inf == GaussianLoss(1).epsilon
    assert math.inf == RenyiLoss(2, 1).mu == RenyiLoss(2, 1).epsilon == RenyiLoss(2, 1).renyi(3)
    failing = ApproximateLoss(PureLoss(1), 1e-6)
    assert math.inf == failing.epsilon == failing.mu == failing.renyi(2) == failing.epsilon_at(1e-7)


def test_known_values() -> None:
    """Curves pass through points that can be computed by hand."""
    assert pytest.approx((math.e - 1) / (math.e + 1), rel=1e-15) == PureLoss(1).delta(0)
    assert 0 == PureLoss(1).delta(1) == LaplaceLoss(1, 9).delta(1) == BoundedRangeLoss(1).delta(1)
    assert pytest.approx(math.tanh(0.25), rel=1e-15) == BoundedRangeLoss(1).delta(0)
    assert 1.5 == GaussianLoss(1).renyi(3)
    assert 1 == PureLoss(1).epsilon_at(0)
    assert 0.001 == ApproximateLoss(PureLoss(1), 0.001).delta(1)


def test_nested_failures_are_combined() -> None:
    """The failure of a loss with two failures is the probability of either."""
    twice = ApproximateLoss(ApproximateLoss(PureLoss(1), Fraction(1, 4)), Fraction(1, 3))

    assert ApproximateLoss(PureLoss(1), Fraction(1, 2)) == twice
    assert PureLoss(1) == twice.core


def test_deltas_never_pass_one() -> None:
    """A delta is at most 1, even after rounding up."""
    for loss in (PureLoss(1e9), GaussianLoss(1e12), LaplaceLoss(1e6, 3), BoundedRangeLoss(1e5)):
        assert 1 == loss.delta(0.5)


@pytest.mark.parametrize("bad", NOT_POSITIVE)
def test_a_bad_size_is_named(bad: object) -> None:
    """A size that is not a finite number above 0 raises an error that names its field."""
    for kind, name in (
        (PureLoss, "epsilon"),
        (BoundedRangeLoss, "epsilon"),
        (GaussianLoss, "mu_squared"),
        (lambda value: LaplaceLoss(value, 1), "epsilon"),
        (lambda value: RenyiLoss(2, value), "divergence"),
    ):
        with pytest.raises(BadDeclaration, match=f"`{name}` must be"):
            kind(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [0, -3, 1.0, 2**63, "1", None, True])
def test_bad_steps_are_named(bad: int) -> None:
    """Steps that are not an integer from 1 to 2**63 - 1 raise an error that names them."""
    with pytest.raises(BadDeclaration, match="`steps` must be"):
        LaplaceLoss(1, bad)


@pytest.mark.parametrize("bad", [1, 0.5, -1, math.nan, math.inf, "x", None])
def test_a_bad_order_is_named(bad: object) -> None:
    """An order that is not a finite number above 1 raises an error that names it."""
    with pytest.raises(BadDeclaration, match="`order` must be"):
        RenyiLoss(bad, 1)  # type: ignore[arg-type]
    with pytest.raises(BadDeclaration, match="`alpha` must be"):
        PureLoss(1).renyi(bad)


@pytest.mark.parametrize("bad", [1, 1.5, -1e-9, math.nan, math.inf, "x", None, True])
def test_a_bad_probability_is_named(bad: object) -> None:
    """A delta or failure outside [0, 1) raises an error that names it."""
    with pytest.raises(BadDeclaration, match="`failure` must be"):
        ApproximateLoss(PureLoss(1), bad)  # type: ignore[arg-type]
    with pytest.raises(BadDeclaration, match="`delta` must be"):
        PureLoss(1).epsilon_at(bad)


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, "x", None, True])
def test_a_bad_epsilon_is_named(bad: object) -> None:
    """A curve evaluated at a negative or infinite epsilon raises an error that names it."""
    with pytest.raises(BadDeclaration, match="`epsilon` must be"):
        PureLoss(1).delta(bad)


@pytest.mark.parametrize("bad", [1, None, "loss", PureLoss])
def test_a_value_that_is_not_a_loss_is_named(bad: Loss) -> None:
    """Composing or wrapping a value that is not a loss raises an error that names the argument."""
    with pytest.raises(BadDeclaration, match="`losses` must be"):
        compose([bad])
    with pytest.raises(BadDeclaration, match="`inner` must be"):
        ApproximateLoss(bad, 0)
