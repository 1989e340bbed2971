import math

import pytest

from confide.errors import BadDeclaration
from confide.loss import GaussianLoss, PureLoss, mu_squared_for, repeat
from confide.loss.textbook import textbook_advanced_composition, textbook_gaussian_sigma


def achieved(epsilon: float, delta: float) -> float:
    """Return the delta that the classical noise achieves."""
    return GaussianLoss(1 / textbook_gaussian_sigma(epsilon, delta) ** 2).delta(epsilon)


def test_the_classical_noise_wastes_a_quarter_at_one() -> None:
    """At (1, 1e-6) the classical standard deviation is 1.25 times the exact one."""
    exact = 1 / math.sqrt(mu_squared_for(1, 1e-6))

    assert "1.254" == f"{textbook_gaussian_sigma(1, 1e-6) / exact:.3f}"


def test_the_classical_noise_fails_for_large_epsilon() -> None:
    """At delta 1e-6 the formula is valid at epsilon 8.6 and wrong from 8.8 on."""
    assert achieved(8.6, 1e-6) <= 1e-6
    for epsilon in (8.8, 10, 20):
        assert achieved(epsilon, 1e-6) > 1e-6


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_the_classical_noise_holds_below_one(delta: float) -> None:
    """The formula is valid in its stated range."""
    for epsilon in (0.01, 0.1, 0.5, 0.99):
        assert achieved(epsilon, delta) <= delta


@pytest.mark.parametrize(("epsilon", "times"), [(0.01, 1000), (0.1, 100), (0.5, 30)])
def test_advanced_composition_is_looser_than_ours(epsilon: float, times: int) -> None:
    """Our composition never needs more epsilon than the advanced composition theorem."""
    ours = repeat(PureLoss(epsilon), times).epsilon_at(1e-6)

    assert ours < textbook_advanced_composition(epsilon, times, 1e-6)


def test_bad_arguments_are_named() -> None:
    """An argument that is zero, negative, or of the wrong type raises an error that names it."""
    with pytest.raises(BadDeclaration, match="epsilon"):
        textbook_gaussian_sigma(0, 1e-6)
    with pytest.raises(BadDeclaration, match="delta"):
        textbook_gaussian_sigma(1, 0)
    with pytest.raises(BadDeclaration, match="times"):
        textbook_advanced_composition(1, 0, 1e-6)
    with pytest.raises(BadDeclaration, match="slack"):
        textbook_advanced_composition(1, 1, 1)
