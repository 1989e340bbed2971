import math
from fractions import Fraction

import pytest
from flint import acb, arb, ctx
from scipy.special import log_ndtr

from confide.errors import BadDeclaration
from confide.loss.curves import gaussian_delta, gaussian_epsilon, mu_squared_for

EPSILONS = ["1e-6", "0.1", "1", "10", "1e4", "1e9"]
DELTAS = ["0.5", "1e-6", "1e-30", "1e-300"]


def curve(mu: float, epsilon: float) -> float:
    """Return the integral of P - exp(epsilon) Q where it is positive, without erfc."""
    with ctx.workprec(300):
        start, shift, size = arb(epsilon) / mu + arb(mu) / 2, acb(mu), acb(epsilon).exp()

        def density(y: acb, _: bool) -> acb:
            first, second = (-((y - shift) ** 2) / 2).exp(), (-(y**2) / 2).exp()
            return (first - size * second) / (2 * acb.pi()).sqrt()

        tiny = arb(2) ** -2000
        return float(acb.integral(density, acb(start), acb(start + 60), abs_tol=tiny).real)


def test_the_known_calibration() -> None:
    """At (1, 1e-6) the exact standard deviation is 4.2247 times the sensitivity."""
    sigma = 1 / math.sqrt(mu_squared_for(1, 1e-6))

    assert "4.2247" == f"{sigma:.4f}"


@pytest.mark.parametrize("mu", [0.01, 0.5, 1.0, 6.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.25, 1.0, 30.0])
def test_the_curve_is_the_integral_over_the_best_event(mu: float, epsilon: float) -> None:
    """The closed form equals the integral of P - exp(epsilon) Q where it is positive."""
    expected = curve(mu, epsilon)
    actual = float(gaussian_delta(Fraction(mu) ** 2, Fraction(epsilon)))

    if expected > 1e-300:
        assert pytest.approx(expected, rel=1e-14) == actual
    else:
        assert expected <= actual <= 1e-300


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_calibration_is_safe_and_tight(epsilon: str, delta: str) -> None:
    """The returned mu^2 satisfies (epsilon, delta), and one part in 2**55 more does not."""
    mu_squared = mu_squared_for(epsilon, delta)
    more = mu_squared * (1 + Fraction(1, 2**55))

    assert gaussian_delta(mu_squared, Fraction(epsilon)) <= Fraction(delta)
    assert gaussian_delta(more, Fraction(epsilon)) > Fraction(delta)
    assert mu_squared.numerator.bit_length() <= 64


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_the_inverses_agree(epsilon: str, delta: str) -> None:
    """Epsilon computed back from mu^2 is at most the original, and close to it."""
    back = gaussian_epsilon(mu_squared_for(epsilon, delta), delta)

    assert back <= Fraction(epsilon) * (1 + Fraction(1, 2**60))
    assert pytest.approx(float(epsilon), rel=1e-9) == float(back)


def test_no_epsilon_is_needed_where_delta_covers_all() -> None:
    """Epsilon is 0 once delta exceeds the total variation distance."""
    assert 0 == gaussian_epsilon(Fraction(1, 100), Fraction(1, 2))


def test_delta_grows_with_mu() -> None:
    """A larger mu never has a smaller delta."""
    deltas = [gaussian_delta(Fraction(k, 10), Fraction(1)) for k in range(1, 40)]

    assert sorted(deltas) == deltas


def test_floats_alone_would_not_do() -> None:
    """In doubles the two terms of the curve cancel to zero, but the exact curve is positive."""
    mu, epsilon = 1e-3, 0.02
    left, right = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    exact = gaussian_delta(Fraction(1, 10**6), Fraction(2, 100))

    assert abs((math.exp(left) - math.exp(right)) / float(exact) - 1) > 1e-13


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, "x", None, True])
def test_a_bad_epsilon_is_named(bad: object) -> None:
    """An epsilon that is not a finite number of at least 0 raises an error that names it."""
    with pytest.raises(BadDeclaration, match="epsilon"):
        mu_squared_for(bad, 1e-6)


@pytest.mark.parametrize("bad", [0, 1, -1e-9, 2, math.nan, math.inf, "x", None, True, "1e-1300"])
def test_a_bad_delta_is_named(bad: object) -> None:
    """A delta outside (0, 1), or too small for the curve, raises an error that names it."""
    with pytest.raises(BadDeclaration, match="delta"):
        mu_squared_for(1, bad)
    with pytest.raises(BadDeclaration, match="delta"):
        gaussian_epsilon(1, bad)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "x", None])
def test_a_bad_mu_squared_is_named(bad: object) -> None:
    """A mu^2 that is not a finite number above 0 raises an error that names it."""
    with pytest.raises(BadDeclaration, match="mu_squared"):
        gaussian_epsilon(bad, 1e-6)
