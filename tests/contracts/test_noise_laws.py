"""The contract of every noise distribution: its stated properties hold for its draws.

To test a new one, add a line to `LAWS`. A correct distribution fails each statistical bound once in
10^9 runs for each integer of a draw; one whose variance or width is off by 3% fails.
"""

import math
from fractions import Fraction
from typing import Final

import numpy as np
import pytest

from confide.noise import BoxNoise, DiscreteLaplace, IndependentNoise, NoiseLaw, RoundedGaussian
from confide.noise.law import spread_points
from support.entropy import SeededEntropy

LAWS: Final[dict[str, NoiseLaw]] = {
    "Laplace": IndependentNoise((DiscreteLaplace(Fraction(300)),)),
    "small Laplace": IndependentNoise((DiscreteLaplace(Fraction(2, 3)),)),
    "Gaussian": IndependentNoise((RoundedGaussian(Fraction(10**5)), RoundedGaussian(Fraction(2)))),
    "box": BoxNoise((Fraction(300), Fraction(7), Fraction(1_000))),
    "interval": BoxNoise((Fraction(50),)),
    "none": IndependentNoise(()),
}
DRAWS: Final = 200_000
RARE: Final = 1e-9


@pytest.fixture(params=sorted(LAWS))
def law(request: pytest.FixtureRequest) -> NoiseLaw:
    """Return each distribution in turn."""
    return LAWS[request.param]


def test_a_draw_has_a_column_for_each_integer(law: NoiseLaw, entropy: SeededEntropy) -> None:
    """Draws, points of the sample, and the variance have the dimension of the distribution."""
    points = spread_points(law.uniforms)

    assert (5, law.dimension) == law.draw(5, entropy).shape
    assert (len(points), law.dimension) == law.sample(points).shape
    assert (law.dimension,) == law.variance().shape


def test_draws_have_the_variance(law: NoiseLaw, entropy: SeededEntropy) -> None:
    """The mean square is the variance within 6.2 standard errors; rounding changes it by 1/6."""
    squares = law.draw(DRAWS, entropy).astype(np.float64) ** 2
    errors = squares.std(axis=0) / math.sqrt(DRAWS)
    deviations = np.array([law.deviation(index) for index in range(law.dimension)])

    assert (np.abs(squares.mean(axis=0) - law.variance()) <= 6.2 * errors).all()
    assert (np.abs(law.variance() - deviations**2) <= 1 / 6 + 1e-9 * deviations**2).all()


def test_the_sample_is_spread_like_draws(law: NoiseLaw, entropy: SeededEntropy) -> None:
    """Distribution functions of draws and sample differ by at most chance plus one in 200."""
    drawn, sample = law.draw(DRAWS, entropy), law.sample(spread_points(law.uniforms))
    allowed = math.sqrt(math.log(2 / RARE) / (2 * DRAWS)) + 0.005

    for index in range(law.dimension):
        grid = np.quantile(drawn[:, index], np.linspace(0.001, 0.999, 500))
        seen, told = (
            np.searchsorted(np.sort(column), grid, side="right") / len(column)
            for column in (drawn[:, index], sample[:, index])
        )
        assert np.abs(seen - told).max() <= allowed


def test_draws_have_the_density(law: NoiseLaw, entropy: SeededEntropy) -> None:
    """The density predicts the number of draws within each of four distances from zero."""
    drawn = law.draw(DRAWS, entropy)

    for index in range(law.dimension):
        scale = law.scale(index)
        reach = math.ceil(40 * scale)
        weights = law.density(index, np.arange(-reach, reach + 1) / scale)
        chances = weights / weights.sum()
        for part in (0.3, 1.0, 2.0, 4.0):
            width = math.floor(part * scale)
            chance = chances[reach - width : reach + width + 1].sum()
            seen = np.mean(np.abs(drawn[:, index]) <= width)
            error = math.sqrt(chance * (1 - chance) / DRAWS)
            # Rounding moves a density within a step, by up to its curvature there.
            assert abs(seen - chance) <= 6.2 * error + 0.1 / max(1.0, scale) ** 2
