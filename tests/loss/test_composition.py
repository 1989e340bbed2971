import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import BadDeclaration
from confide.loss import (
    ApproximateLoss,
    BoundedRangeLoss,
    ComposedLoss,
    GaussianLoss,
    LaplaceLoss,
    Loss,
    PureLoss,
    RenyiLoss,
    compose,
    repeat,
)
from confide.loss.textbook import textbook_advanced_composition

SIZES = st.fractions(min_value=Fraction(1, 50), max_value=2, max_denominator=50)
LOSSES = st.one_of(
    SIZES.map(PureLoss),
    SIZES.map(BoundedRangeLoss),
    SIZES.map(GaussianLoss),
    st.builds(LaplaceLoss, SIZES, st.integers(1, 9)),
    SIZES.map(lambda size: RenyiLoss(Fraction(3), size)),
    SIZES.map(lambda size: ApproximateLoss(PureLoss(size), Fraction(1, 1000))),
)
LISTS = st.lists(LOSSES, max_size=6)


@given(LISTS, st.randoms())
def test_the_order_does_not_matter(losses: list[Loss], order: object) -> None:
    """Losses in another order compose to an equal value with the same hash."""
    mixed = list(losses)
    order.shuffle(mixed)  # type: ignore[attr-defined]

    assert compose(losses) == compose(mixed)
    assert hash(compose(losses)) == hash(compose(mixed))


@given(LISTS, LISTS)
def test_composing_in_stages_changes_nothing(first: list[Loss], second: list[Loss]) -> None:
    """A composed loss counts as its parts."""
    assert compose(first + second) == compose([compose(first), compose(second)])


@given(LOSSES, st.integers(0, 30))
def test_n_at_once_is_n_one_by_one(loss: Loss, n: int) -> None:
    """Repeating n times equals composing n copies."""
    assert compose([loss] * n) == repeat(loss, n)


@given(LISTS)
def test_sums_add_up(losses: list[Loss]) -> None:
    """Epsilons, squares of mu, and Renyi divergences of the parts add up exactly."""
    whole, order = compose(losses), Fraction(2)

    assert sum((loss.epsilon for loss in losses), Fraction(0)) == whole.epsilon
    assert sum((loss.mu_squared for loss in losses), Fraction(0)) == whole.mu_squared
    assert sum((loss.renyi_above(order) for loss in losses), Fraction(0)) == whole.renyi_above(
        order
    )


@settings(max_examples=12)
@given(st.lists(LOSSES, min_size=1, max_size=3), LOSSES)
def test_more_is_never_cheaper(losses: list[Loss], extra: Loss) -> None:
    """One more loss never lowers epsilon at a delta by more than the error of the grid."""
    before, after = compose(losses), compose([*losses, extra])

    assert before.epsilon_at(1e-2) <= after.epsilon_at(1e-2) * (1 + 1e-3)


@settings(max_examples=12)
@given(st.lists(LOSSES, min_size=2, max_size=4))
def test_the_least_bound_is_used(losses: list[Loss]) -> None:
    """Epsilon at a delta exceeds neither the sum of epsilons nor the bound from the sum of mu^2."""
    whole, delta = compose(losses), Fraction(1, 100)
    found = whole.epsilon_above(delta)

    assert found <= whole.epsilon
    if isinstance(whole.mu_squared, Fraction):
        assert found <= GaussianLoss(whole.mu_squared).epsilon_above(delta)


def test_gaussian_losses_compose_exactly() -> None:
    """Gaussian parts become one Gaussian loss."""
    assert GaussianLoss(Fraction(3)) == compose(
        [GaussianLoss(Fraction(1)), GaussianLoss(Fraction(2))]
    )


def test_nothing_costs_nothing() -> None:
    """The composition of no losses has zero cost by every measure."""
    zero = compose([])

    assert 0 == zero.epsilon == zero.mu == zero.renyi(2) == zero.delta(0) == zero.epsilon_at(0)
    assert zero == repeat(PureLoss(1), 0)
    assert PureLoss(1) == compose([zero, PureLoss(1)])


def test_failures_add_up() -> None:
    """The failures of the parts are summed, and the core is the sum of the cores."""
    loss = ApproximateLoss(PureLoss(Fraction(1, 10)), Fraction(1, 10**6))
    twice = repeat(loss, 2)

    assert Fraction(2, 10**6) == twice.failure
    assert repeat(PureLoss(Fraction(1, 10)), 2) == twice.core
    assert math.inf == twice.epsilon == twice.mu == twice.epsilon_at(1e-6)
    assert 2e-6 <= twice.delta(0.2) <= 2.000001e-6
    assert 0.2 == twice.epsilon_at(2e-6)


def test_certain_failure_gives_no_guarantee() -> None:
    """Failures that sum to 1 leave delta at 1."""
    hopeless = repeat(ApproximateLoss(PureLoss(1), Fraction(1, 2)), 5)

    assert 1 == hopeless.delta(10)
    assert math.inf == hopeless.epsilon_at(0.999)


def test_post_processing_is_free_and_advanced_composition_is_beaten() -> None:
    """A thousand uses of 0.01 cost far less than basic and advanced composition say."""
    many = repeat(PureLoss(0.01), 1000)
    ours = many.epsilon_at(1e-6)

    assert ours < 0.9 * textbook_advanced_composition(0.01, 1000, 1e-6) < many.epsilon


def test_known_value_of_the_source_documents() -> None:
    """100 times pure 0.01 with 100 times Laplace 0.01 is 0.571 at delta 1e-6."""
    both = compose([repeat(PureLoss(0.01), 100), repeat(LaplaceLoss(0.01, 1000), 100)])

    assert "0.571" == f"{both.epsilon_at(1e-6):.3f}"


@pytest.mark.parametrize("bad", [-1, 1.5, "2", None, True])
def test_a_bad_number_of_times_is_named(bad: int) -> None:
    """A number of times that is not an integer of at least 0 raises an error that names it."""
    with pytest.raises(BadDeclaration, match="`times` must be"):
        repeat(PureLoss(1), bad)


def test_a_composed_loss_shows_its_parts() -> None:
    """The representation counts equal parts instead of listing them."""
    whole = repeat(PureLoss(1), 10**6)

    assert isinstance(whole, ComposedLoss)
    assert ((PureLoss(1), 10**6),) == whole.parts
