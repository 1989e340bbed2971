import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.loss import GaussianLoss, LaplaceLoss, PureLoss
from confide.loss.curves import (
    ORDERS,
    best_order,
    delta_from_renyi,
    epsilon_from_renyi,
    mu_squared_for,
    renyi_for,
)

ORDER = st.fractions(min_value=Fraction(101, 100), max_value=200, max_denominator=1000)
SIZE = st.fractions(min_value=Fraction(1, 1000), max_value=50, max_denominator=1000)
ROUNDING = 1 + Fraction(1, 2**60)
DELTA = st.integers(1, 40).map(lambda k: Fraction(1, 2**k))


def test_the_formula() -> None:
    """Epsilon is r + ln((a - 1) / a) - (ln delta + ln a) / (a - 1)."""
    expected = 0.5 + math.log(9 / 10) - (math.log(1e-6) + math.log(10)) / 9
    actual = epsilon_from_renyi(Fraction(10), Fraction(1, 2), Fraction(1, 10**6))

    assert pytest.approx(expected, rel=1e-14) == float(actual)


@given(ORDER, SIZE, DELTA)
def test_the_three_forms_are_inverse(order: Fraction, size: Fraction, delta: Fraction) -> None:
    """Delta inverts epsilon, and epsilon inverts the divergence, up to the last bit."""
    epsilon = epsilon_from_renyi(order, size, delta)
    if epsilon:
        assert delta_from_renyi(order, size, epsilon) <= delta * ROUNDING
        assert pytest.approx(float(size), rel=1e-9) == float(renyi_for(order, epsilon, delta))
    room = renyi_for(order, size, delta)
    if room:
        assert epsilon_from_renyi(order, room, delta) <= size * ROUNDING


@pytest.mark.parametrize("order", [Fraction(3, 2), Fraction(4), Fraction(20)])
@pytest.mark.parametrize("delta", [Fraction(1, 100), Fraction(1, 10**9)])
def test_conversion_only_loosens(order: Fraction, delta: Fraction) -> None:
    """Conversion through Renyi never gives a smaller epsilon or delta than the loss's own curve."""
    for loss in (PureLoss(1), LaplaceLoss(2, 7), GaussianLoss(Fraction(1, 3))):
        divergence = loss.renyi_above(order)
        assert isinstance(divergence, Fraction)

        assert epsilon_from_renyi(order, divergence, delta) >= loss.epsilon_above(delta)
        for epsilon in (Fraction(0), Fraction(1, 2), Fraction(3)):
            assert delta_from_renyi(order, divergence, epsilon) >= loss.delta_above(epsilon)


def test_the_best_order_is_nearly_best() -> None:
    """No order on a fine grid leaves more than 0.1% more room than the chosen one."""
    epsilon, delta = Fraction(1), Fraction(1, 10**6)
    chosen = best_order(epsilon, delta)
    room = max(renyi_for(order, epsilon, delta) / order for order in ORDERS)

    assert renyi_for(chosen, epsilon, delta) / chosen >= room * Fraction(999, 1000)
    assert 2 * room <= mu_squared_for(epsilon, delta)


def test_huge_divergences_give_no_guarantee() -> None:
    """A huge divergence gives delta = 1, not a number that fills the memory."""
    assert 1 == delta_from_renyi(Fraction(2), Fraction(10**30), Fraction(1))
