"""What every noise law says of itself is true of its draws.

A law that is new is one more line in `LAWS`. Each statistical bound is passed by a true law except
once in 10^9 runs for each integer of a draw; a law whose variance or width is off by 3 % fails.
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
    """One law after the other."""
    return LAWS[request.param]


def test_a_draw_has_a_column_for_each_integer(law: NoiseLaw, entropy: SeededEntropy) -> None:
    """Draws and points of the sample have the dimension of the law, and so has its variance."""
    points = spread_points(law.uniforms)

    assert (5, law.dimension) == law.draw(5, entropy).shape
    assert (len(points), law.dimension) == law.sample(points).shape
    assert (law.dimension,) == law.variance().shape


def test_draws_have_the_variance(law: NoiseLaw, entropy: SeededEntropy) -> None:
    """The mean square is the variance within 6.2 standard errors; whole steps move it by 1/6."""
    squares = law.draw(DRAWS, entropy).astype(np.float64) ** 2
    errors = squares.std(axis=0) / math.sqrt(DRAWS)
    deviations = np.array([law.deviation(index) for index in range(law.dimension)])

    assert (np.abs(squares.mean(axis=0) - law.variance()) <= 6.2 * errors).all()
    assert (np.abs(law.variance() - deviations**2) <= 1 / 6 + 1e-9 * deviations**2).all()


def test_the_sample_is_spread_like_draws(law: NoiseLaw, entropy: SeededEntropy) -> None:
    """Distribution functions differ by what chance allows, and one in 200 for the few points."""
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
    """In each of four distances from zero lie as many draws as the density says."""
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
            # Rounding moves a density within a step: by as much again as its curvature there.
            assert abs(seen - chance) <= 6.2 * error + 0.1 / max(1.0, scale) ** 2
