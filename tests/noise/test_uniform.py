"""Coins, categories, and integers have exactly the stated probabilities."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from flint import arb, ctx

from confide.exact import ball
from confide.noise import SYSTEM, bernoulli, categorical, uniform_below, uniform_below_each
from confide.noise.uniform import Real, Uniform
from support.entropy import SeededEntropy
from support.laws import ALPHA, binomial_p, chi_square_p
from support.scripted import ScriptedEntropy
from support.tails import floor

LAST = 2**64 - 1


def chance(value: Fraction) -> Real:
    return partial(ball, value)


def toss(value: Fraction, *words: int) -> bool:
    """Return the coin for these words, all of which must be used."""
    source = ScriptedEntropy(words)
    [coin] = bernoulli(chance(value), 1, source).tolist()

    assert len(words) == source.used
    return bool(coin)


@pytest.mark.parametrize("value", [Fraction(0), Fraction(1)])
def test_a_certain_coin_is_certain(value: Fraction) -> None:
    """A coin of probability 0 or 1 never errs and uses one word, even the first and the last."""
    for word in (0, 1, 2**63, LAST - 1, LAST):
        assert bool(value) == toss(value, word)


def test_half_is_the_top_bit() -> None:
    """A coin of probability 1/2 is true for a word below 2**63, and false for any other."""
    half = Fraction(1, 2)

    assert toss(half, 0)
    assert toss(half, 2**63 - 1)
    assert not toss(half, 2**63)
    assert not toss(half, LAST)


def test_a_chance_beyond_the_first_word_asks_for_more() -> None:
    """A coin of probability 2**-65 needs the second word exactly if the first is zero."""
    tiny = Fraction(1, 2**65)

    assert not toss(tiny, 1)
    assert toss(tiny, 0, 2**63 - 1)
    assert not toss(tiny, 0, 2**63)
    assert toss(1 - tiny, LAST - 1)
    assert toss(1 - tiny, LAST, 2**63 - 1)
    assert not toss(1 - tiny, LAST, 2**63)


def test_a_third_is_decided_by_its_own_digits() -> None:
    """Digits equal to those of 1/3 leave the coin open; the first other one decides."""
    third, digits = Fraction(1, 3), 0x5555555555555555

    assert toss(third, digits - 1)
    assert not toss(third, digits + 1)
    assert toss(third, digits, digits, digits - 1)
    assert not toss(third, digits, digits, digits + 1)


def test_an_irrational_chance_is_decided_by_its_own_digits() -> None:
    """For 1/e, the word below its digits is true, the one above false, and its own needs more."""
    with ctx.workprec(128):
        digits = floor(arb(-1).exp() * 2**64)
    source = ScriptedEntropy([digits - 1, digits + 1, digits, 0])

    assert [True, False, True] == bernoulli(arb(-1).exp, 3, source).tolist()
    assert 4 == source.used


@pytest.mark.statistical
@pytest.mark.parametrize("value", [Fraction(1, 3), Fraction(999, 1000), Fraction(1, 10**4)])
def test_coins_have_their_chance(value: Fraction, entropy: SeededEntropy) -> None:
    """10^6 coins fit their probability and reject one that is off by a tenth."""
    count = 1_000_000
    found = int(bernoulli(chance(value), count, entropy).sum())
    rare = min(value, 1 - value) / 10

    assert binomial_p(found, count, float(value)) > ALPHA
    if rare * count > 100:
        assert binomial_p(found, count, float(value + rare)) < ALPHA
        assert binomial_p(found, count, float(value - rare)) < ALPHA


def choose(weights: list[int], *words: int) -> int:
    """Return the index for these words, all of which must be used."""
    source = ScriptedEntropy(words)
    [index] = categorical(weights, 1, source).tolist()

    assert len(words) == source.used
    return int(index)


def test_categories_change_at_their_borders() -> None:
    """Weights 1, 2, 1 change category exactly at a quarter and at three quarters."""
    weights = [1, 2, 1]

    assert 0 == choose(weights, 0)
    assert 0 == choose(weights, 2**62 - 1)
    assert 1 == choose(weights, 2**62)
    assert 1 == choose(weights, 3 * 2**62 - 1)
    assert 2 == choose(weights, 3 * 2**62)
    assert 2 == choose(weights, LAST)


def test_a_border_inside_a_word_asks_for_more() -> None:
    """Weights 1, 1, 1 have borders at thirds, where the digits of 1/3 leave the choice open."""
    third, weights = 0x5555555555555555, [1, 1, 1]

    assert 0 == choose(weights, third, third, 0)
    assert 1 == choose(weights, third, third, LAST)
    assert 1 == choose(weights, 2 * third, 2 * third, 0)
    assert 2 == choose(weights, 2 * third, 2 * third, LAST)


def test_borders_closer_than_a_word_are_distinguished() -> None:
    """A category of weight 1 in 2**80 is chosen by the second word if the first is its own."""
    weights = [2**79, 1, 2**79 - 1]

    assert 0 == choose(weights, 2**63 - 1)
    assert 1 == choose(weights, 2**63, 2**48 - 1)
    assert 2 == choose(weights, 2**63, 2**48)
    assert 2 == choose(weights, 2**63 + 1)


@pytest.mark.parametrize("weights", [[0, 1], [1, 0], [0, 1, 0, 0], [0, 0, 7]])
def test_a_weight_of_zero_is_never_chosen(weights: list[int]) -> None:
    """Every word, even the first and the last, chooses a positive weight."""
    for word in (0, 1, 2**63, LAST):
        assert weights[choose(weights, word)] > 0


def test_a_single_category_is_certain(entropy: SeededEntropy) -> None:
    """A single category is always chosen."""
    assert [0, 0, 0] == categorical([5], 3, entropy).tolist()


@pytest.mark.statistical
def test_categories_have_their_chances(entropy: SeededEntropy) -> None:
    """200,000 choices fit weights 3, 1, 0, 6 and reject a weight that is 10% too large."""
    found = categorical([3, 1, 0, 6], 200_000, entropy)

    assert chi_square_p(found, [0.3, 0.1, 0.0, 0.6]) > ALPHA
    assert chi_square_p(found, [0.3, 0.11, 0.0, 0.59]) < ALPHA
    assert chi_square_p(found, [0.3, 0.09, 0.0, 0.61]) < ALPHA


def below(bound: int, *words: int) -> int:
    """Return the integer for these words, all of which must be used."""
    source = ScriptedEntropy(words)
    number = uniform_below(bound, source)

    assert len(words) == source.used
    return number


def test_integers_change_at_their_borders() -> None:
    """floor(bound * U) is exact: powers of two need one word, and thirds may need more."""
    third = 0x5555555555555555

    assert 0 == below(1, LAST)
    assert 0 == below(2, 2**63 - 1)
    assert 1 == below(2, 2**63)
    assert 2**64 - 1 == below(2**64, LAST)
    assert 0 == below(3, third, third, 0)
    assert 1 == below(3, third, third, LAST)
    assert 2 == below(3, 2 * third + 1)
    assert 2**70 - 1 == below(2**70, LAST, LAST)


def test_each_bound_uses_its_own_words() -> None:
    """Each bound uses one word, and further words go to the numbers that are still open."""
    third = 0x5555555555555555
    source = ScriptedEntropy((LAST, third, 2**63, third, LAST))

    assert [0, 1, 1] == uniform_below_each(np.array([1, 3, 2]), source).tolist()
    assert 5 == source.used


@pytest.mark.statistical
def test_integers_are_equally_likely(entropy: SeededEntropy) -> None:
    """60,000 numbers below 6 fit a fair die and reject a face that is 20% too likely."""
    found = [uniform_below(6, entropy) for _ in range(60_000)]

    assert chi_square_p(found, [1 / 6] * 6) > ALPHA
    assert chi_square_p(found, [0.2, *[0.16] * 5]) < ALPHA


@pytest.mark.statistical
def test_large_bounds_are_filled(entropy: SeededEntropy) -> None:
    """Numbers below 3 * 2**80 are equally likely in each third, and odd half the time."""
    found = [uniform_below(3 * 2**80, entropy) for _ in range(3_000)]

    assert chi_square_p([number >> 80 for number in found], [1 / 3] * 3) > ALPHA
    assert binomial_p(sum(number & 1 for number in found), len(found), 0.5) > ALPHA


def test_a_cell_is_exact_whatever_the_precision() -> None:
    """Both ends of a cell of 640 digits are exact, and its ball contains both."""
    number = Uniform(ScriptedEntropy([LAST] * 10))
    for _ in range(10):
        number.reveal()
    low, high = number.cell()

    assert [2**640 - 1, -640] == [int(part) for part in low.man_exp()]
    assert arb(1) == high
    assert number.ball().contains(low)
    assert number.ball().contains(high)


def test_threads_may_refine_at_once() -> None:
    """Concurrent threads, which share the ball precision, return the same answers as one thread."""
    third = 0x5555555555555555
    scripts = [[third] * depth + [end] for depth in range(1, 60) for end in (0, LAST)] * 20

    def decide(script: list[int]) -> bool:
        [coin] = bernoulli(chance(Fraction(1, 3)), 1, ScriptedEntropy(script, SYSTEM)).tolist()
        return bool(coin)

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(decide, scripts))

    assert [script[-1] == 0 for script in scripts] == found
