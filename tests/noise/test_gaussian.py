"""Draws follow the rounded normal distribution, at every scale and number of bits."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy import special

from confide.errors import BadDeclaration
from confide.exact import ball
from confide.noise import RoundedGaussian
from confide.noise.sampler import draw, draw_one, half_width
from support.entropy import SeededEntropy
from support.laws import ALPHA, binomial_p, chi_square_p
from support.scripted import ScriptedEntropy
from support.tails import cells, floor, point, sort_into_cells

DRAWS = 2_000_000
"""With sigma off by 2%, the test statistic has a mean of at least 994, and 53 suffices to reject
(5 cells, sigma 1/2). So such a sigma escapes with probability below 1e-50."""

REFINED = 10_000
"""With sigma off by 20%: a mean of at least 403, and 53 suffices; escape below 1e-30."""


def rounded_gaussian(sigma: Fraction) -> RoundedGaussian:
    return RoundedGaussian(sigma**2)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("sigma", "width"), [(Fraction(1, 2), 1), (Fraction(3), 1), (Fraction(1000), 200)]
)
def test_draws_follow_the_law(sigma: Fraction, width: int, entropy: SeededEntropy) -> None:
    """Draws fit the stated distribution and reject a sigma that is 2% too large or too small."""
    found = sort_into_cells(rounded_gaussian(sigma).draw(DRAWS, entropy), width)
    off = Fraction(51, 50)

    assert chi_square_p(found, cells(rounded_gaussian(sigma), width, 50)) > ALPHA
    assert chi_square_p(found, cells(rounded_gaussian(sigma * off), width, 50)) < ALPHA
    assert chi_square_p(found, cells(rounded_gaussian(sigma / off), width, 50)) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("sigma", "width", "bits"),
    [(Fraction(1, 2), 1, 2), (Fraction(1, 2), 1, 8), (Fraction(3), 1, 8), (Fraction(1000), 500, 8)],
)
def test_refined_draws_follow_the_law(
    sigma: Fraction, width: int, bits: int, entropy: SeededEntropy
) -> None:
    """Draws whose doubles use only 8 or 2 bits fit the distribution and reject a sigma 20% off."""
    found = sort_into_cells(draw(rounded_gaussian(sigma), REFINED, entropy, bits=bits), width)
    off = Fraction(6, 5)

    assert chi_square_p(found, cells(rounded_gaussian(sigma), width, 50)) > ALPHA
    assert chi_square_p(found, cells(rounded_gaussian(sigma * off), width, 50)) < ALPHA
    assert chi_square_p(found, cells(rounded_gaussian(sigma / off), width, 50)) < ALPHA


def test_a_tiny_sigma_gives_zeros(entropy: SeededEntropy) -> None:
    """At sigma 1/1000 every draw is 0; another has probability below exp(-125000)."""
    assert not rounded_gaussian(Fraction(1, 1000)).draw(DRAWS, entropy).any()
    assert not RoundedGaussian(Fraction(1, 10**400)).draw(1_000, entropy).any()
    assert not draw(rounded_gaussian(Fraction(1, 1000)), 1_000, entropy, bits=8).any()


@pytest.mark.statistical
@pytest.mark.parametrize("sigma", [10**12, 10**15])
def test_large_sigmas_follow_the_law(sigma: int, entropy: SeededEntropy) -> None:
    """Where doubles settle few draws or none, draws exceed given bounds as often as stated."""
    law = rounded_gaussian(Fraction(sigma))
    found = law.draw(2_000, entropy)
    for bound in (sigma // 10, sigma, 2 * sigma):
        stated = float(special.erfc(bound / sigma / math.sqrt(2)))

        assert binomial_p(int((np.abs(found) >= bound).sum()), len(found), stated) > ALPHA
        assert binomial_p(int((found > 0).sum()), len(found), 0.5) > ALPHA
    assert binomial_p(int((found % 2 == 0).sum()), len(found), 0.5) > ALPHA


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(1000), Fraction(10**15)])
@pytest.mark.parametrize("bits", [8, 64])
def test_a_draw_rounds_the_normal_number_of_its_digits(
    sigma: Fraction, bits: int, entropy: SeededEntropy
) -> None:
    """A draw is floor(sigma x(U) + 1/2) with a sign, where U has the digits of its words."""
    law = rounded_gaussian(sigma)
    for _ in range(300):
        words = entropy.words(4).tolist()
        prefix = words[0] >> (65 - bits)
        for word in words[1:]:
            prefix = prefix << 64 | word
        with ctx.workprec(400):
            normal = arb(2).sqrt() * arb((prefix, -(bits - 1 + 192))).erfcinv()
            exact = floor(ball(sigma) * normal + arb(0.5))

        expected = -exact if words[0] & 1 else exact
        assert expected == draw_one(law, ScriptedEntropy(words), bits=bits)
        assert [expected] == draw(law, 1, ScriptedEntropy(words), bits=bits).tolist()


@pytest.mark.parametrize("sigma_squared", [10**30 + 1, Fraction(10**32), 10**400])
def test_a_sigma_beyond_the_integers_is_refused(sigma_squared: object) -> None:
    """A sigma whose noise could exceed 64 bits raises an error that names the argument."""
    with pytest.raises(BadDeclaration, match=r"`sigma_squared` must be at most 1e\+30"):
        RoundedGaussian(sigma_squared)  # type: ignore[arg-type]  # callers pass what they like


@pytest.mark.parametrize("sigma_squared", [0, -1, math.nan, math.inf, "x", None, True, 0.0])
def test_a_sigma_that_is_no_positive_number_is_refused(sigma_squared: object) -> None:
    """A sigma squared that is not a finite positive number raises an error that names it."""
    with pytest.raises(BadDeclaration, match="`sigma_squared` must be a finite number"):
        RoundedGaussian(sigma_squared)  # type: ignore[arg-type]  # callers pass what they like


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(3), Fraction(1000)])
def test_the_tail_is_that_of_the_law(sigma: Fraction) -> None:
    """Differences of the tail equal those of Phi at (z + 1/2) / sigma and (z - 1/2) / sigma."""
    law = rounded_gaussian(sigma)
    s = float(sigma)
    for value in (0, 1, 2, 10):
        stated = float(special.ndtr((-value + 0.5) / s) - special.ndtr((-value - 0.5) / s))

        assert stated == pytest.approx(point(law, value), rel=1e-9)
        assert stated == pytest.approx(point(law, -value), rel=1e-9)


@pytest.mark.parametrize("sigma", [Fraction(1, 3), Fraction(3), Fraction(1000)])
@pytest.mark.parametrize("miss", [Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**30)])
def test_the_half_width_is_the_least(sigma: Fraction, miss: Fraction) -> None:
    """P(|Z| > w) is at most ``miss`` for the half-width w, and more than ``miss`` for w - 1."""
    law = rounded_gaussian(sigma)
    width = half_width(law, miss)
    with ctx.workprec(200):
        assert law.tail(width + 1) < ball(miss)
        assert width == 0 or law.tail(width) > ball(miss)
