"""The normal surrogate: its sums, their derivatives, and the solution for coefficients."""

import numpy as np
import pytest
from numpy.typing import NDArray

from confide.query import col
from confide.statistics.formula import Numbers
from confide.statistics.glm_model import MAX_COEFFICIENT, NormalSurrogate, find_link, make_surrogate

Floats = NDArray[np.float64]
MEANS = np.array([1.0, 0.2, -0.3])
COVARIANCE = np.array([[0.0, 0.0, 0.0], [0.0, 0.3, 0.1], [0.0, 0.1, 0.2]])
COEFFICIENTS = np.array([-0.4, 0.7, -0.5])


@pytest.fixture(params=["logistic", "poisson"])
def surrogate(request: pytest.FixtureRequest) -> NormalSurrogate:
    """A surrogate of 1,000 rows with an intercept and two columns, for each link."""
    top = 1.0 if request.param == "logistic" else 1_000.0
    response = Numbers("y", col("y"), 0.0, top, is_binary=request.param == "logistic")
    return NormalSurrogate(find_link(response, request.param), 1_000.0, MEANS, COVARIANCE)


def integrate(surrogate: NormalSurrogate) -> tuple[Floats, Floats]:
    """Return the sums and their derivatives, by integration over both columns."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    places = np.stack([axis.ravel() for axis in np.meshgrid(nodes, nodes)])
    mass = np.outer(weights, weights).ravel() / weights.sum() ** 2
    inner = MEANS[1:] + (np.linalg.cholesky(COVARIANCE[1:, 1:]) @ places).T
    columns = np.column_stack([np.ones(len(inner)), inner])
    mean, weight, _, _ = surrogate.link.derive(columns @ COEFFICIENTS)
    curved = (columns * (mass * weight)[:, None]).T @ columns
    return surrogate.rows * (mass * mean) @ columns, surrogate.rows * curved


def test_sums_are_those_of_normal_columns(surrogate: NormalSurrogate) -> None:
    """Sums and curvature equal the integral over all columns, to one part in a million."""
    sums, curved = surrogate.expected_sums(COEFFICIENTS)
    expected_sums, expected_curved = integrate(surrogate)

    np.testing.assert_allclose(expected_sums, sums, rtol=1e-6)
    np.testing.assert_allclose(expected_curved, curved, rtol=1e-6, atol=1e-6)


def test_coefficients_are_found_again(surrogate: NormalSurrogate) -> None:
    """Solving for the sums of known coefficients recovers them, also in batches."""
    many = np.stack([COEFFICIENTS, np.zeros(3), 2.0 * COEFFICIENTS])
    found = surrogate.solve(surrogate.expected_sums(many)[0], np.zeros_like(many))

    np.testing.assert_allclose(many, found, atol=1e-8)


def test_impossible_sums_give_finite_coefficients(surrogate: NormalSurrogate) -> None:
    """Sums that no coefficients can produce give bounded coefficients."""
    found = surrogate.solve(np.array([1e9, -1e9, 1e9]), np.zeros(3))

    assert np.abs(found).max() <= MAX_COEFFICIENT


def test_a_ridge_draws_towards_the_start(surrogate: NormalSurrogate) -> None:
    """A ridge far above the curvature keeps the starting point."""
    start = np.array([0.1, 0.0, 0.0])
    found = surrogate.solve(np.array([500.0, 100.0, 0.0]), start, 1e9)

    np.testing.assert_allclose(start, found, atol=1e-5)


def test_products_give_means_and_covariances(surrogate: NormalSurrogate) -> None:
    """Without noise, the surrogate has the columns' means and covariances, and keeps a constant."""
    rng = np.random.default_rng(3)
    columns = np.column_stack([np.ones(50), rng.uniform(-1, 1, (50, 2))])
    with_constant, without = (
        make_surrogate(surrogate.link, columns.T @ columns, 0.0, constant=constant)
        for constant in (True, False)
    )

    np.testing.assert_allclose(columns.mean(axis=0), with_constant.means)
    np.testing.assert_allclose(np.cov(columns.T, bias=True), with_constant.covariance, atol=1e-12)
    np.testing.assert_allclose(with_constant.covariance[1:, 1:], without.covariance)


def test_noise_alone_makes_no_negative_variance(surrogate: NormalSurrogate) -> None:
    """Products of pure noise still give positive variances and at least one row."""
    noise = np.array([[-3.0, 2.0, 1.0], [2.0, -5.0, 0.5], [1.0, 0.5, 1.0]])
    made = make_surrogate(surrogate.link, noise, 2.0, constant=False)

    assert made.rows >= 1.0
    assert np.linalg.eigvalsh(made.covariance).min() > 0.0
