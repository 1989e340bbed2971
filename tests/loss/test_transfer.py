"""Transfer theorems hold for exactly computable cases, and agree with published results."""

import math

import numpy as np
import pytest
from scipy import integrate, special

from confide.loss.transfer import (
    approximate_transfer,
    gaussian_information,
    gaussian_transfer,
    information_transfer,
    max_information,
    max_information_transfer,
    monitor_transfer,
    posterior_transfer,
    pure_transfer,
    pure_transfer_published,
)


def output_law(n: int, epsilon: float) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return P(y | count) for the geometric mechanism on a count of n bits, clipped to 0..n."""
    q = math.exp(-epsilon)
    law = np.zeros((n + 1, n + 1))
    for count in range(n + 1):
        for y in range(n + 1):
            distance = abs(y - count)
            law[count, y] = q**distance * ((1 - q) / (1 + q) if 0 < y < n else 1 / (1 + q))
    return law


@pytest.mark.parametrize("n", [6, 30, 200])
@pytest.mark.parametrize("epsilon", [0.02, 0.1, 0.5])
def test_the_pure_bound_holds_where_it_can_be_counted(n: int, epsilon: float) -> None:
    """For a private count and every rule R from outputs to sets of bad counts, the bound holds.

    R(y) is the worst set of counts with prior probability at most ``chance``: those that y makes
    most likely.
    """
    law, prior = output_law(n, epsilon), special.binom(n, np.arange(n + 1)) * 0.5**n
    assert np.allclose(law.sum(axis=1), 1)
    for chance in (0.3, 0.05, 1e-3):
        happened = 0.0
        for y in range(n + 1):
            order, mass = np.argsort(-law[:, y]), 0.0
            for count in order:
                if mass + prior[count] <= chance:
                    mass += prior[count]
                    happened += prior[count] * law[count, y]

        assert happened <= pure_transfer(epsilon, n, chance) * (1 + 1e-12)
        assert happened <= math.exp(max_information(epsilon, n)) * chance * (1 + 1e-12)


def test_the_pure_bound_implies_the_published_one() -> None:
    """With epsilon^2 = L / 2n it is sqrt(chance); for epsilon = tau it is below the published."""
    n, chance = 10_000, 1e-9
    epsilon = math.sqrt(-math.log(chance) / (2 * n))

    assert pytest.approx(math.sqrt(chance)) == pure_transfer(epsilon, n, chance)
    for tau in (0.02, 0.05, 0.1):
        each = math.exp(-2 * tau**2 * n)
        assert 2 * pure_transfer(tau, n, each) <= pure_transfer_published(tau, n)


def test_no_bound_passes_one() -> None:
    """If a theorem is vacuous, its bound is 1."""
    assert 1.0 == pure_transfer(1.0, 10_000, 0.05)
    assert 1.0 == pure_transfer_published(0.001, 100)
    assert 1.0 == max_information_transfer(0.001, 100)


def test_max_information_leaves_half_of_the_exponent() -> None:
    """For epsilon = tau^2 the bound is Hoeffding's for both sides, times e^max-information."""
    for tau, n in ((0.1, 2_000), (0.05, 10_000)):
        chance = math.exp(-2 * tau**2 * n)
        kept = 2 * math.exp(max_information(tau**2, n)) * chance
        assert pytest.approx(kept) == max_information_transfer(tau, n)
        assert max_information_transfer(tau, n) < 1


def test_max_information_of_independent_rows_is_smaller() -> None:
    """With an allowed failure, the bound for independent rows applies if it is smaller."""
    assert 100.0 == max_information(0.01, 10_000)
    assert pytest.approx(0.5 + 0.01 * math.sqrt(10_000 * math.log(2e6) / 2)) == max_information(
        0.01, 10_000, 1e-6
    )
    assert max_information(2.0, 10, 1e-6) == max_information(2.0, 10)


def test_the_approximate_theorem_is_as_printed() -> None:
    """epsilon = tau / 4, delta = (beta / 8)^(4 / tau), n = 48 ln(8 / beta) / tau^2."""
    epsilon, log_delta, rows = approximate_transfer(0.1, 0.05)

    assert pytest.approx((0.025, 40 * math.log(0.05 / 8), 4800 * math.log(160))) == (
        epsilon,
        log_delta,
        rows,
    )


@pytest.mark.parametrize("tau", [0.01, 0.05, 0.1])
@pytest.mark.parametrize("beta", [0.001, 0.01, 0.1])
def test_the_monitor_implies_the_published_constants(tau: float, beta: float) -> None:
    """(tau / 64, tau beta / 32)-DP and (tau / 8, tau beta / 16) on the sample give (tau, beta)."""
    found = monitor_transfer(tau / 64, tau * beta / 32, tau / 8, tau * beta / 16, beta)

    assert found <= tau


def test_the_posterior_theorem_is_as_printed() -> None:
    """tau = alpha + e^epsilon - 1 + c + 2 d and beta = miss / c + delta / d."""
    tau, beta = posterior_transfer(0.1, 1e-6, 0.02, 1e-5, c=0.01, d=0.001)

    assert pytest.approx(0.02 + math.expm1(0.1) + 0.012) == tau
    assert pytest.approx(1e-3 + 1e-3) == beta


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.0])
def test_information_of_one_noisy_bit_is_below_its_bound(sigma: float) -> None:
    """The information of a fair bit with normal noise, by quadrature, is at most its bound."""

    def density(x: float, mean: float) -> float:
        return math.exp(-((x - mean) ** 2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))

    def entropy_part(x: float) -> float:
        both = density(x, 0), density(x, 1)
        mixed = sum(both) / 2
        return sum(0.5 * part * math.log(part / mixed) for part in both if part > 0)

    exact = integrate.quad(entropy_part, -12 * sigma, 1 + 12 * sigma)[0]

    assert 0 < exact <= gaussian_information(1, 1, sigma)


@pytest.mark.parametrize("information", [1e-4, 0.1, 1.0, 30.0])
def test_the_best_exponent_is_found(information: float) -> None:
    """No exponent s on a fine grid gives a smaller bound."""
    grid = np.linspace(1e-3, 1 - 1e-3, 5_000)
    smallest = np.min((2 * information - np.log1p(-grid)) / (4 * 1_000 * grid * 0.05))

    assert information_transfer(information, 1_000, 0.05) <= math.sqrt(smallest) * (1 + 1e-9)


def test_normal_noise_has_a_best_amount() -> None:
    """Both too little and too much noise increase tau."""
    found = [gaussian_transfer(100, 20_000, sigma, 0.05) for sigma in (1e-4, 0.011, 0.1)]

    assert found[1] < min(found[0], found[2])


@pytest.mark.parametrize("sigma", [1e8, 1e16, 1e100])
def test_noise_that_drowns_everything_has_a_bound_too(sigma: float) -> None:
    """With huge noise, the bound stays finite and close to that of a nonadaptive query."""
    assert 0 < information_transfer(gaussian_information(10, 1_000, sigma), 1_000, 0.05) < 0.2
    assert math.isfinite(gaussian_transfer(10, 1_000, sigma, 0.05))
