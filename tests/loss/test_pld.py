import math
from fractions import Fraction

import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.exact import ball, fraction_below
from confide.loss import (
    BoundedRangeLoss,
    GaussianLoss,
    LaplaceLoss,
    Loss,
    PureLoss,
    RenyiLoss,
    pld,
    repeat,
)

Parts = tuple[tuple[Loss, int], ...]


def exact_delta(epsilons: list[tuple[Fraction, int]], start: Fraction) -> Fraction:
    """Return the delta of composed randomized responses, by summing over all outcomes."""
    with ctx.workprec(400):
        law: dict[Fraction, arb] = {Fraction(0): arb(1)}
        for epsilon, times in epsilons:
            law = spread(law, epsilon, times)
        total = arb(0)
        for place, mass in law.items():
            if place > start:
                total += mass * -ball(start - place).expm1()
        return fraction_below(total)


def spread(law: dict[Fraction, arb], epsilon: Fraction, times: int) -> dict[Fraction, arb]:
    """Return the distribution after ``times`` steps of +-epsilon."""
    wide: dict[Fraction, arb] = {}
    up = 1 / (1 + (-ball(epsilon)).exp())
    for down in range(times + 1):
        chance = math.comb(times, down) * up ** (times - down) * (1 - up) ** down
        for place, mass in law.items():
            moved = place + (times - 2 * down) * epsilon
            wide[moved] = wide.get(moved, arb(0)) + mass * chance
    return wide


@pytest.mark.parametrize("times", [1, 2, 10, 100, 1000])
@pytest.mark.parametrize("size", [Fraction(1, 100), Fraction(1, 3), Fraction(3)])
def test_repeated_pure_losses_are_exact(size: Fraction, times: int) -> None:
    """n randomized responses have the binomial delta, bounded from above to 8 digits or more."""
    for part in (Fraction(1, 5), Fraction(1, 2), Fraction(9, 10)):
        start = part * min(size * times, 6 * size * math.isqrt(times) + times * size**2)
        expected = exact_delta([(size, times)], start)
        actual = pld.delta_above(((PureLoss(size), times),), start)

        assert expected <= actual <= expected * (1 + Fraction(times + 10, 10**11))


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.fractions(Fraction(1, 40), 2, max_denominator=40), st.integers(1, 6)),
        min_size=1,
        max_size=3,
        unique_by=lambda use: use[0],
    ),
    st.fractions(0, 3, max_denominator=7),
)
def test_mixed_pure_losses_are_bounded_from_above(
    uses: list[tuple[Fraction, int]], start: Fraction
) -> None:
    """The bound is never below the exact delta, even if the losses do not fit one grid."""
    parts = tuple((PureLoss(size), times) for size, times in uses)
    expected = exact_delta(uses, start)
    actual = pld.delta_above(parts, start)

    assert expected <= actual <= expected + Fraction(1, 1000)


@pytest.mark.parametrize("delta", ["0.1", "1e-6", "1e-30", "1e-150"])
def test_a_gaussian_loss_is_recovered(delta: str) -> None:
    """A Gaussian loss on the lattice has its own epsilon, bounded closely from above."""
    loss = GaussianLoss(Fraction(1, 4))
    exact = loss.epsilon_above(Fraction(delta))
    found = pld.epsilon_above(((loss, 1),), Fraction(delta))

    assert exact <= found <= exact * (1 + Fraction(1, 100))


def test_two_gaussian_losses_are_one() -> None:
    """Two halves composed on the grid have the epsilon of the whole, bounded closely from above."""
    exact = GaussianLoss(Fraction(1, 2)).epsilon_above(Fraction(1, 10**6))
    found = pld.epsilon_above(((GaussianLoss(Fraction(1, 4)), 2),), Fraction(1, 10**6))

    assert exact <= found <= exact * (1 + Fraction(1, 1000))


MIXED: Parts = (
    (BoundedRangeLoss(Fraction(3, 10)), 7),
    (GaussianLoss(Fraction(1, 4)), 1),
    (LaplaceLoss(Fraction(1, 10), 50), 40),
    (PureLoss(Fraction(1, 7)), 10),
)


@pytest.mark.parametrize("delta", ["1e-2", "1e-6", "1e-12"])
def test_epsilon_inverts_delta(delta: str) -> None:
    """Epsilon at delta has that delta, up to the error of the grid for infinite losses."""
    epsilon = pld.epsilon_above(MIXED, Fraction(delta))
    assert isinstance(epsilon, Fraction)

    assert pytest.approx(float(delta), rel=0.02) == float(pld.delta_above(MIXED, epsilon))


def test_delta_is_monotone() -> None:
    """Delta decreases in epsilon and increases in the number of uses."""
    deltas = [pld.delta_above(MIXED, Fraction(k, 4)) for k in range(16)]
    uses = [pld.delta_above(((PureLoss(Fraction(1, 5)), n),), Fraction(1)) for n in range(6, 40)]

    assert sorted(deltas, reverse=True) == deltas
    assert sorted(uses) == uses


@pytest.mark.parametrize(
    "parts",
    [
        ((PureLoss(Fraction(1, 100)), 1000),),
        ((LaplaceLoss(Fraction(1, 100), 1000), 1000),),
        ((BoundedRangeLoss(Fraction(1, 10)), 1000),),
        MIXED,
    ],
)
def test_a_thousand_uses_cost_less_than_their_sum(parts: Parts) -> None:
    """The bound on a thousand uses is below that of basic composition."""
    found = pld.epsilon_above(parts, Fraction(1, 12345))

    assert 0 < found < sum(times * loss.epsilon for loss, times in parts)


def test_an_infinite_mu_gives_no_bound() -> None:
    """For a loss of infinite mu, the batch returns no bound."""
    parts = ((RenyiLoss(Fraction(2), Fraction(1)), 2),)

    assert 1 == pld.delta_above(parts, Fraction(1))
    assert math.inf == pld.epsilon_above(parts, Fraction(1, 100))


def test_the_exact_sum_rejects_a_smaller_epsilon() -> None:
    """The same comparison rejects a bound for an epsilon that is one percent smaller."""
    start = Fraction(1, 2)
    expected = exact_delta([(Fraction(1, 10), 20)], start)

    assert pld.delta_above(((PureLoss(Fraction(99, 1000)), 20),), start) < expected


def test_a_value_that_rounds_to_epsilon_still_counts() -> None:
    """Delta is never below the exact one, even if a loss and epsilon are the same double."""
    loss = repeat(PureLoss(Fraction(136, 11)), 3)
    just_below = Fraction(37.090909090909086)
    keep = 1 / (1 + math.exp(-136 / 11))
    exact = keep**3 * -math.expm1(float(just_below - Fraction(408, 11)))

    assert just_below < Fraction(408, 11)
    assert loss.delta_above(just_below) >= Fraction(exact) * Fraction(999, 1000)
