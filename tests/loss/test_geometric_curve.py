import itertools
import math
from fractions import Fraction

import pytest
from flint import arb, ctx
from scipy.special import ndtr, ndtri

from confide.exact import ball
from confide.loss.curves import geometric_delta, mu_squared_of, renyi_at

CASES = [
    (Fraction(1), 1),
    (Fraction(1), 2),
    (Fraction(3), 5),
    (Fraction(1, 4), 3),
    (Fraction(8), 4),
]


def pair(epsilon: Fraction, steps: int) -> list[tuple[arb, arb]]:
    """Return a list of (P(y), Q(y)) for Z and Z + steps, down to exp(-150)."""
    q = (-ball(epsilon / steps)).exp()
    reach = int(150 * steps / float(epsilon)) + steps
    weight = (1 - q) / (1 + q)
    return [(weight * q ** abs(y), weight * q ** abs(y - steps)) for y in range(-reach, reach)]


@pytest.mark.parametrize(("epsilon", "steps"), CASES)
def test_delta_is_the_sum_over_the_law(epsilon: Fraction, steps: int) -> None:
    """The closed form equals the sum of P - exp(epsilon) Q where it is positive."""
    with ctx.workprec(300):
        law = pair(epsilon, steps)
        for part in range(8):
            start = epsilon * part / 8
            factor = ball(start).exp()
            gains = [p - factor * q for p, q in law]
            expected = float(sum((gain for gain in gains if gain > 0), arb(0)))

            assert pytest.approx(expected, rel=1e-13) == float(
                geometric_delta(epsilon, steps, start)
            )


@pytest.mark.parametrize(("epsilon", "steps"), CASES)
@pytest.mark.parametrize("order", [Fraction(5, 4), Fraction(2), Fraction(30)])
def test_renyi_is_the_sum_over_the_law(epsilon: Fraction, steps: int, order: Fraction) -> None:
    """The closed form equals the Renyi sum over all outcomes."""
    with ctx.workprec(300):
        a = ball(order)
        moment = sum((p**a * q ** (1 - a) for p, q in pair(epsilon, steps)), arb(0))
        expected = float(moment.log() / (a - 1))

    assert pytest.approx(expected, rel=1e-13) == float(renyi_at(epsilon, steps, order))


def corners(epsilon: Fraction, steps: int) -> list[tuple[float, float]]:
    q = math.exp(-float(epsilon) / steps)
    return [(q**j / (1 + q), q ** (steps + 1 - j) / (1 + q)) for j in range(1, steps + 1)]


@pytest.mark.parametrize(("epsilon", "steps"), [*CASES, (Fraction(1), 1000), (Fraction(12), 301)])
def test_mu_is_the_greatest_gap_over_all_corners(epsilon: Fraction, steps: int) -> None:
    """No corner of the trade-off curve is below the Gaussian one, and one corner touches it."""
    worst = max(-ndtri(alpha) - ndtri(beta) for alpha, beta in corners(epsilon, steps))

    assert pytest.approx(worst, rel=1e-9) == math.sqrt(mu_squared_of(epsilon, steps))


@pytest.mark.parametrize(("epsilon", "steps"), CASES)
def test_the_gaussian_curve_stays_below(epsilon: Fraction, steps: int) -> None:
    """Between corners too, no test at any level beats the Gaussian pair of this mu."""
    mu = math.sqrt(mu_squared_of(epsilon, steps))
    points = [(0.0, 1.0), *sorted(corners(epsilon, steps)), (1.0, 0.0)]
    for (a, b), (c, d) in itertools.pairwise(points):
        for part in range(21):
            alpha, beta = a + (c - a) * part / 20, b + (d - b) * part / 20
            gaussian = ndtr(-ndtri(alpha) - mu) if 0 < alpha < 1 else 1.0 - alpha

            assert gaussian <= beta + 1e-12


def test_one_step_is_randomized_response() -> None:
    """With one step, mu is 2 Phi^-1(exp(epsilon) / (1 + exp(epsilon)))."""
    for epsilon in (0.01, 1.0, 5.0):
        expected = 2 * ndtri(1 / (1 + math.exp(-epsilon)))

        assert pytest.approx(expected, rel=1e-9) == math.sqrt(mu_squared_of(Fraction(epsilon), 1))


def test_more_steps_cost_less_down_to_the_continuous_law() -> None:
    """Mu decreases in the number of steps, toward 2 u(exp(-epsilon / 2) / 2)."""
    squares = [mu_squared_of(Fraction(1), steps) for steps in (1, 2, 4, 8, 100, 10**6, 10**15)]
    limit = -2 * ndtri(math.exp(-0.5) / 2)

    assert sorted(squares, reverse=True) == squares
    assert pytest.approx(limit, rel=1e-9) == math.sqrt(squares[-1])


def test_extreme_sizes_are_exact() -> None:
    """Tiny and huge epsilons keep their digits."""
    assert pytest.approx(math.sqrt(math.pi / 2) * 1e-12, rel=1e-12) == math.sqrt(
        mu_squared_of(Fraction(1, 10**12), 1)
    )
    assert pytest.approx(2 * math.sqrt(2e9), rel=1e-6) == math.sqrt(
        mu_squared_of(Fraction(10**9), 1)
    )
    assert pytest.approx(1e-24, rel=1e-9) == float(renyi_at(Fraction(1, 10**12), 1, Fraction(2)))
