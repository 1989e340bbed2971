"""Draws follow the discrete Laplace distribution, at every scale and number of bits."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from confide.errors import BadDeclaration
from confide.exact import ball
from confide.noise import MAX_NOISE, DiscreteLaplace
from confide.noise.sampler import draw, draw_one, half_width
from support.entropy import SeededEntropy
from support.laws import ALPHA, binomial_p, chi_square_p
from support.scripted import ScriptedEntropy
from support.tails import cells, floor, point, sort_into_cells

DRAWS = 2_000_000
"""With a scale off by 2%, the test statistic has a mean of at least 860, and 218 suffices to reject
(101 cells, scale 1000). So such a scale escapes with probability below 1e-50."""

REFINED = 10_000
"""With a scale off by 20%: a mean of at least 336, and 104 suffices; escape below 1e-15."""


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("scale", "width"), [(Fraction(1, 2), 1), (Fraction(3), 1), (Fraction(1000), 200)]
)
def test_draws_follow_the_law(scale: Fraction, width: int, entropy: SeededEntropy) -> None:
    """Draws fit the stated distribution and reject a scale that is 2% too large or too small."""
    found = sort_into_cells(DiscreteLaplace(scale).draw(DRAWS, entropy), width)
    off = Fraction(51, 50)

    assert chi_square_p(found, cells(DiscreteLaplace(scale), width, 50)) > ALPHA
    assert chi_square_p(found, cells(DiscreteLaplace(scale * off), width, 50)) < ALPHA
    assert chi_square_p(found, cells(DiscreteLaplace(scale / off), width, 50)) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("scale", "width", "bits"),
    [(Fraction(1, 2), 1, 2), (Fraction(1, 2), 1, 8), (Fraction(3), 1, 8), (Fraction(1000), 500, 8)],
)
def test_refined_draws_follow_the_law(
    scale: Fraction, width: int, bits: int, entropy: SeededEntropy
) -> None:
    """Draws whose doubles use only 8 or 2 bits fit the distribution and reject a scale 20% off."""
    found = sort_into_cells(draw(DiscreteLaplace(scale), REFINED, entropy, bits=bits), width)
    off = Fraction(6, 5)

    assert chi_square_p(found, cells(DiscreteLaplace(scale), width, 50)) > ALPHA
    assert chi_square_p(found, cells(DiscreteLaplace(scale * off), width, 50)) < ALPHA
    assert chi_square_p(found, cells(DiscreteLaplace(scale / off), width, 50)) < ALPHA


def test_a_tiny_scale_gives_zeros(entropy: SeededEntropy) -> None:
    """At scale 1/1000 every draw is 0; another has probability 2 exp(-1000)."""
    assert not DiscreteLaplace(Fraction(1, 1000)).draw(DRAWS, entropy).any()
    assert not DiscreteLaplace(Fraction(1, 10**400)).draw(1_000, entropy).any()
    assert not draw(DiscreteLaplace(Fraction(1, 1000)), 1_000, entropy, bits=8).any()


def test_a_tiny_scale_reaches_one_when_the_digits_say_so() -> None:
    """At scale 1/100, U = 2**-150 is below P(|Z| >= 1) = 2 exp(-100) and gives 1, not 0."""
    law = DiscreteLaplace(Fraction(1, 100))
    above, below = [1, 0, 1 << 62], [1, 0, 1 << 41]

    assert 0 == draw_one(law, ScriptedEntropy([1, 1 << 63, 0, 0]))
    assert 0 == draw_one(law, ScriptedEntropy(above))
    assert -1 == draw_one(law, ScriptedEntropy(below))
    assert [-1] == draw(law, 1, ScriptedEntropy(below)).tolist()


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [10**12, 10**15])
def test_large_scales_follow_the_law(scale: int, entropy: SeededEntropy) -> None:
    """Where doubles settle few draws or none, draws exceed given bounds as often as stated."""
    law = DiscreteLaplace(Fraction(scale))
    found = law.draw(2_000, entropy)
    for bound in (scale // 10, scale, 3 * scale):
        with ctx.workprec(100):
            stated = float(law.tail(bound))

        assert binomial_p(int((np.abs(found) >= bound).sum()), len(found), stated) > ALPHA
        assert binomial_p(int((found > 0).sum()), len(found), 0.5) > ALPHA
    assert binomial_p(int((found % 2 == 0).sum()), len(found), 0.5) > ALPHA


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1000), Fraction(10**15)])
@pytest.mark.parametrize("bits", [8, 64])
def test_a_draw_is_the_floor_of_its_digits(
    scale: Fraction, bits: int, entropy: SeededEntropy
) -> None:
    """A draw is floor(b (ln(2 / (1 + q)) - ln U)) with a sign; its words are the digits of U."""
    law = DiscreteLaplace(scale)
    for _ in range(300):
        words = entropy.words(4).tolist()
        prefix = words[0] >> (65 - bits)
        for word in words[1:]:
            prefix = prefix << 64 | word
        with ctx.workprec(400):
            uniform = arb((prefix, -(bits - 1 + 192)))
            start = (2 / (1 + (-1 / ball(scale)).exp())).log()
            exact = floor(ball(scale) * (start - uniform.log()))

        expected = -exact if words[0] & 1 else exact
        assert expected == draw_one(law, ScriptedEntropy(words), bits=bits)
        assert [expected] == draw(law, 1, ScriptedEntropy(words), bits=bits).tolist()


def test_an_array_saturates_where_one_draw_does_not() -> None:
    """U = 2**-7000 at scale 10^15 gives 4.85e18 in a single draw and 2**62 in an array."""
    law = DiscreteLaplace(Fraction(10**15))
    # 63 + 108 * 64 zero digits, then a one at position 7000.
    script = [0, *[0] * 108, 1 << (63 + 109 * 64 - 7000), 0, 0, 0]
    with ctx.workprec(200):
        start = (2 / (1 + (-1 / ball(law.exact_scale)).exp())).log()
        exact = floor(ball(law.exact_scale) * (start + 7000 * arb(2).log()))

    assert MAX_NOISE < exact
    assert exact == draw_one(law, ScriptedEntropy(script))
    assert [MAX_NOISE] == draw(law, 1, ScriptedEntropy(script)).tolist()
    assert [-MAX_NOISE] == draw(law, 1, ScriptedEntropy([1, *script[1:]])).tolist()


@pytest.mark.parametrize("scale", [10**15 + 1, Fraction(10**16), 10**400, "1e16"])
def test_a_scale_beyond_the_integers_is_refused(scale: object) -> None:
    """A scale whose noise could exceed 64 bits raises an error that names the argument."""
    with pytest.raises(BadDeclaration, match=r"`scale` must be at most 1e\+15"):
        DiscreteLaplace(scale)  # type: ignore[arg-type]  # callers pass what they like


@pytest.mark.parametrize("scale", [0, -1, math.nan, math.inf, "x", None, True, 0.0])
def test_a_scale_that_is_no_positive_number_is_refused(scale: object) -> None:
    """A scale that is not a finite positive number raises an error that names it."""
    with pytest.raises(BadDeclaration, match="`scale` must be a finite number greater than 0"):
        DiscreteLaplace(scale)  # type: ignore[arg-type]  # callers pass what they like


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(1000)])
def test_the_tail_is_that_of_the_law(scale: Fraction) -> None:
    """Differences of the tail are tanh(1 / 2b) exp(-|z| / b)."""
    law = DiscreteLaplace(scale)
    b = float(scale)
    for value in (0, 1, 2, 10):
        stated = math.tanh(1 / (2 * b)) * math.exp(-value / b)

        assert stated == pytest.approx(point(law, value), rel=1e-12)
        assert stated == pytest.approx(point(law, -value), rel=1e-12)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(3), Fraction(1000)])
@pytest.mark.parametrize("miss", [Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**30)])
def test_the_half_width_is_the_least(scale: Fraction, miss: Fraction) -> None:
    """P(|Z| > w) is at most ``miss`` for the half-width w, and more than ``miss`` for w - 1."""
    law = DiscreteLaplace(scale)
    width = half_width(law, miss)
    with ctx.workprec(200):
        assert law.tail(width + 1) < ball(miss)
        assert width == 0 or law.tail(width) > ball(miss)
