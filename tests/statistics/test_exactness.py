"""With negligible noise, every estimator equals its non-private counterpart.

The counterparts are from NumPy, SciPy, statsmodels, and scikit-learn, on the same rows. Equal means
equal to one part in a million.
"""

from typing import Any, Final

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import optimize, special, stats
from sklearn.linear_model import LinearRegression, LogisticRegression

from confide.curator import Curator
from confide.declare import Bool, Budget, Category, Column, Float, Int
from support.samples import curator_of

ROWS: Final = 2_000
HUGE: Final = {"pure": Budget(10**11), "gaussian": Budget(10**17, 1e-6)}
SHARE: Final = "1/100"
"""An epsilon of 10^9; where noise falls like its square root, the same noise takes 10^15."""
COLUMNS: Final[dict[str, Column]] = {
    "x": Float(0, 100),
    "part": Float(0, 1),
    "age": Int(20, 80),
    "y": Bool(),
    "visits": Int(0, 40),
    "cost": Float(-50, 150),
    "ward": Category(["A", "B", "C"]),
    "g": Bool(),
}


@pytest.fixture(scope="module")
def people() -> dict[str, Any]:
    """Rows of synthetic people, all inside their bounds."""
    rng = np.random.default_rng(7)
    age = rng.integers(20, 81, ROWS)
    x = np.clip(rng.gamma(6.0, 5.0, ROWS), 0.2, 99.0)
    chance = 1.0 / (1.0 + np.exp(2.0 - 0.05 * age + 0.02 * x))
    return {
        "x": x,
        "part": np.clip(rng.beta(2.0, 5.0, ROWS), 0.002, 0.998),
        "age": age,
        "y": rng.random(ROWS) < chance,
        "visits": np.minimum(rng.poisson(np.exp(0.3 + 0.02 * age)), 40),
        "cost": np.clip(5.0 + 0.4 * age - 0.3 * x + rng.normal(0.0, 5.0, ROWS), -50, 150),
        "ward": rng.choice(["A", "B", "C"], ROWS),
        "g": rng.random(ROWS) < 0.4,
    }


@pytest.fixture(scope="module", params=HUGE)
def curator(request: pytest.FixtureRequest, people: dict[str, Any]) -> Curator:
    """A curator of these rows with negligible noise."""
    return curator_of(people, COLUMNS, HUGE[request.param])


def family(curator: Curator, column: Any, name: str) -> list[float]:
    return list(
        curator.exponential_family("people", column, family=name, share=SHARE).value.values()
    )


def fit_gamma(x: Any) -> tuple[float, float]:
    """Return the shape and scale that maximize the gamma likelihood, refined to the last digits."""
    gap = float(np.log(x.mean()) - np.log(x).mean())
    near = stats.gamma.fit(x, floc=0)[0]
    equation = lambda shape: np.log(shape) - special.digamma(shape) - gap  # noqa: E731
    shape = optimize.brentq(equation, near / 1.01, near * 1.01, xtol=1e-12)
    return shape, float(x.mean() / shape)


def fit_beta(x: Any) -> list[float]:
    """Return both shapes that maximize the beta likelihood, refined to the last digits."""
    logs = np.array([np.log(x).mean(), np.log1p(-x).mean()])
    equation = lambda both: special.digamma(both) - special.digamma(both.sum()) - logs  # noqa: E731
    near = stats.beta.fit(x, floc=0, fscale=1)[:2]
    found = optimize.root(equation, near, tol=1e-12).x
    assert near == pytest.approx(found, rel=1e-3)
    return [float(shape) for shape in found]


def test_families_are_the_likeliest_ones(curator: Curator, people: dict[str, Any]) -> None:
    """Parameters equal SciPy's maximum likelihood estimates, or the closed form."""
    x, part = people["x"], people["part"]
    shape, scale = fit_gamma(x)

    assert stats.norm.fit(x) == pytest.approx(family(curator, "x", "normal"), rel=1e-6)
    assert [1 / x.mean()] == pytest.approx(family(curator, "x", "exponential"), rel=1e-6)
    assert [people["visits"].mean()] == pytest.approx(
        family(curator, "visits", "poisson"), rel=1e-6
    )
    assert [shape, scale] == pytest.approx(family(curator, "x", "gamma"), rel=1e-6)
    assert fit_beta(part) == pytest.approx(family(curator, "part", "beta"), rel=1e-6)
    assert [people["y"].mean()] == pytest.approx(family(curator, "y", "bernoulli"), rel=1e-6)
    shares = [(people["ward"] == ward).mean() for ward in "ABC"]
    assert shares == pytest.approx(family(curator, "ward", "categorical"), rel=1e-6)


def test_a_joint_normal_law_has_the_sample_moments(
    curator: Curator, people: dict[str, Any]
) -> None:
    """Means and covariances equal NumPy's, divided by n."""
    both = np.stack([people["x"], people["age"]])
    covariance = np.cov(both, ddof=0)
    expected = [*both.mean(axis=1), covariance[0, 0], covariance[0, 1], covariance[1, 1]]

    assert expected == pytest.approx(family(curator, ["x", "age"], "multivariate-normal"), rel=1e-6)


def test_moments_are_the_sample_s(curator: Curator, people: dict[str, Any]) -> None:
    """Mean and variance equal NumPy's."""
    mean = curator.mean("people", "x", share=SHARE).value
    variance = curator.variance("people", "x", share=SHARE).value

    assert people["x"].mean() == pytest.approx(mean, rel=1e-6)
    assert people["x"].var(ddof=1) == pytest.approx(variance, rel=1e-6)


def test_standard_errors_are_those_without_noise(curator: Curator, people: dict[str, Any]) -> None:
    """Without noise, the standard error of a mean is the standard deviation / sqrt(n), to 3%."""
    found = curator.mean("people", "x", share=SHARE).standard_error

    assert people["x"].std() / np.sqrt(ROWS) == pytest.approx(found, rel=0.03)


def test_a_histogram_is_numpy_s(curator: Curator, people: dict[str, Any]) -> None:
    """Heights in 16 bins equal those of numpy.histogram."""
    expected, edges = np.histogram(people["x"], bins=16, range=(0, 100), density=True)
    density = curator.density("people", "x", bins=16, share=SHARE)

    assert edges == pytest.approx(density.edges)
    assert expected == pytest.approx(density.value, rel=1e-6, abs=1e-9)


def test_quantiles_lie_between_neighbouring_rows(curator: Curator, people: dict[str, Any]) -> None:
    """Each quantile is within a few rows, or one cell, of numpy.quantile, and none cross."""
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    found = curator.quantiles("people", "x", levels, share=SHARE).value
    below = [float(np.mean(people["x"] <= value)) for value in found]

    assert levels == pytest.approx(below, abs=3 / ROWS)
    assert sorted(found) == found


def test_linear_regression_is_least_squares(curator: Curator, people: dict[str, Any]) -> None:
    """Coefficients equal scikit-learn's, and standard errors statsmodels', to 3%."""
    dummies = [(people["ward"] == ward).astype(float) for ward in "BC"]
    columns = np.stack([people["age"], people["x"], people["g"].astype(float), *dummies], axis=1)
    plain = LinearRegression().fit(columns, people["cost"])
    errors = sm.OLS(people["cost"], sm.add_constant(columns)).fit().bse
    found = curator.fit("people", "cost ~ age + x + g + ward", share=SHARE)

    assert ["Intercept", "age", "x", "g", "ward[B]", "ward[C]"] == list(found.value)
    expected = [plain.intercept_, *plain.coef_]
    assert expected == pytest.approx(list(found.value.values()), rel=1e-6)
    assert errors == pytest.approx(list(found.standard_error.values()), rel=0.05)


def test_products_and_no_constant_are_understood(curator: Curator, people: dict[str, Any]) -> None:
    """``a*b - 1`` is least squares on a, b, and their product, without an intercept."""
    columns = np.stack([people["age"], people["x"], people["age"] * people["x"]], axis=1)
    expected = np.linalg.lstsq(columns.astype(float), people["cost"], rcond=None)[0]
    found = curator.fit("people", "cost ~ age*x - 1", share=SHARE)

    assert expected == pytest.approx(list(found.value.values()), rel=1e-6)


def test_logistic_regression_is_the_likeliest(curator: Curator, people: dict[str, Any]) -> None:
    """Coefficients equal statsmodels', and are close to scikit-learn's, which converges less."""
    columns = np.stack([people["age"], people["x"]], axis=1).astype(float)
    model = sm.Logit(people["y"].astype(float), sm.add_constant(columns)).fit(disp=0, tol=1e-12)
    plain = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(columns, people["y"])
    found = curator.fit("people", "y ~ age + x", family="logistic", share=SHARE)

    assert model.params == pytest.approx(list(found.value.values()), rel=1e-6)
    assert plain.coef_[0] == pytest.approx(list(found.value.values())[1:], rel=1e-3)
    assert model.bse == pytest.approx(list(found.standard_error.values()), rel=0.06)


def test_poisson_regression_is_the_likeliest(curator: Curator, people: dict[str, Any]) -> None:
    """Coefficients equal those of statsmodels."""
    columns = sm.add_constant(people["age"].astype(float))
    model = sm.GLM(people["visits"], columns, family=sm.families.Poisson()).fit(tol=1e-12)
    found = curator.fit("people", "visits ~ age", family="poisson", share=SHARE)

    assert model.params == pytest.approx(list(found.value.values()), rel=1e-6)


def test_tests_agree_with_scipy(curator: Curator, people: dict[str, Any]) -> None:
    """P-values equal SciPy's: to 1% if both are normal, to 0.02 if one is simulated."""
    g, x, y = people["g"], people["x"], people["y"]
    welch = stats.ttest_ind(x[~g], x[g], equal_var=False)
    means = curator.compare_means("people", "x", by="g", share=SHARE)
    parts = curator.compare_proportions("people", "y", by="g", share=SHARE)
    table = np.array([[np.sum((g == a) & (y == b)) for b in (False, True)] for a in (False, True)])
    chance = stats.chi2_contingency(table, correction=False)
    joint = curator.independence("people", "g", "y", share=SHARE)

    assert x[~g].mean() - x[g].mean() == pytest.approx(means.value, rel=1e-6)
    assert welch.pvalue == pytest.approx(means.p_value, rel=0.01)
    assert y[~g].mean() - y[g].mean() == pytest.approx(parts.value, rel=1e-6)
    assert chance.pvalue == pytest.approx(parts.p_value, rel=0.01)
    assert chance.statistic == pytest.approx(joint.statistic, rel=1e-6)
    assert chance.pvalue == pytest.approx(joint.p_value, abs=0.02)
