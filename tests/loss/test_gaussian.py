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
    """Integrate P - exp(epsilon) Q over the outcomes where it is positive, without erfc."""
    with ctx.workprec(300):
        start, shift, size = arb(epsilon) / mu + arb(mu) / 2, acb(mu), acb(epsilon).exp()

        def density(y: acb, _: bool) -> acb:
            first, second = (-((y - shift) ** 2) / 2).exp(), (-(y**2) / 2).exp()
            return (first - size * second) / (2 * acb.pi()).sqrt()

        tiny = arb(2) ** -2000
        return float(acb.integral(density, acb(start), acb(start + 60), abs_tol=tiny).real)


def test_the_known_calibration() -> None:
    """At (1, 1e-6) the exact deviation is 4.2247 sensitivities."""
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
    """The mu^2 found keeps (epsilon, delta), and a part in 2**55 more would not."""
    mu_squared = mu_squared_for(epsilon, delta)
    more = mu_squared * (1 + Fraction(1, 2**55))

    assert gaussian_delta(mu_squared, Fraction(epsilon)) <= Fraction(delta)
    assert gaussian_delta(more, Fraction(epsilon)) > Fraction(delta)
    assert mu_squared.numerator.bit_length() <= 64


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_the_inverses_agree(epsilon: str, delta: str) -> None:
    """Back from mu^2 to epsilon comes out at most epsilon, and near it."""
    back = gaussian_epsilon(mu_squared_for(epsilon, delta), delta)

    assert back <= Fraction(epsilon) * (1 + Fraction(1, 2**60))
    assert pytest.approx(float(epsilon), rel=1e-9) == float(back)


def test_no_epsilon_is_needed_where_delta_covers_all() -> None:
    """Epsilon is 0 once delta passes the total variation distance."""
    assert 0 == gaussian_epsilon(Fraction(1, 100), Fraction(1, 2))


def test_delta_grows_with_mu() -> None:
    """More signal is never cheaper."""
    deltas = [gaussian_delta(Fraction(k, 10), Fraction(1)) for k in range(1, 40)]

    assert sorted(deltas) == deltas


def test_floats_alone_would_not_do() -> None:
    """In doubles the two terms of the curve cancel to nothing where the exact one does not."""
    mu, epsilon = 1e-3, 0.02
    left, right = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    exact = gaussian_delta(Fraction(1, 10**6), Fraction(2, 100))

    assert abs((math.exp(left) - math.exp(right)) / float(exact) - 1) > 1e-13


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, "x", None, True])
def test_a_bad_epsilon_is_named(bad: object) -> None:
    """Anything but a finite number of at least 0 is refused by name."""
    with pytest.raises(BadDeclaration, match="epsilon"):
        mu_squared_for(bad, 1e-6)


@pytest.mark.parametrize("bad", [0, 1, -1e-9, 2, math.nan, math.inf, "x", None, True, "1e-1300"])
def test_a_bad_delta_is_named(bad: object) -> None:
    """Anything but a number in (0, 1) that the curve can reach is refused by name."""
    with pytest.raises(BadDeclaration, match="delta"):
        mu_squared_for(1, bad)
    with pytest.raises(BadDeclaration, match="delta"):
        gaussian_epsilon(1, bad)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "x", None])
def test_a_bad_mu_squared_is_named(bad: object) -> None:
    """Anything but a finite number above 0 is refused by name."""
    with pytest.raises(BadDeclaration, match="mu_squared"):
        gaussian_epsilon(bad, 1e-6)
