"""The winner is that of the infinitely precise comparison, with the stated distribution."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from confide.noise import EXPONENTIAL, GUMBEL, Entropy, noisy_argmax, noisy_argmax_rows
from confide.noise.selection import Shape, _enclose
from support.entropy import SeededEntropy
from support.laws import ALPHA, binomial_p, chi_square_p
from support.scripted import ScriptedEntropy

ONE = Fraction(1)
LAST = 2**64 - 1
SHAPES = [EXPONENTIAL, GUMBEL]

each_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)


def softmax(*logarithms: float) -> list[float]:
    """Return the distribution of the winner with Gumbel noise."""
    total = math.fsum(map(math.exp, logarithms))
    return [math.exp(logarithm) / total for logarithm in logarithms]


def permute_and_flip(*scores: float) -> list[float]:
    """Return the distribution of permute-and-flip, with coins of probability exp(score - best).

    Candidate i is chosen with probability p_i times the integral over t in [0, 1] of the product
    of 1 - t p_j over the others, where t is its position in the order.
    """
    best = max(scores)
    chances = [math.exp(score - best) for score in scores]
    law = []
    for index, chance in enumerate(chances):
        others = np.polynomial.Polynomial([1.0])
        for other in chances[:index] + chances[index + 1 :]:
            others *= np.polynomial.Polynomial([1.0, -other])
        law.append(chance * float(others.integ()(1.0)))
    return law


LAWS = {"exponential": permute_and_flip, "gumbel": softmax}


def choose_often(
    scores: list[int] | list[float], shape: Shape, count: int, entropy: Entropy
) -> list[int]:
    array = np.array(scores)
    return [noisy_argmax(array, ONE, shape, entropy) for _ in range(count)]


def test_the_laws_are_the_known_ones() -> None:
    """For scores 0, 1, 2 the two distributions are those of the errata, and they differ."""
    assert [0.0594, 0.1756, 0.7650] == pytest.approx(permute_and_flip(0, 1, 2), abs=5e-5)
    assert [0.0900, 0.2447, 0.6652] == pytest.approx(softmax(0, 1, 2), abs=5e-5)


@pytest.mark.statistical
@each_shape
def test_choices_follow_their_own_law(shape: Shape, entropy: SeededEntropy) -> None:
    """20,000 choices fit the distribution of their noise and reject that of the other noise."""
    [other] = [name for name in LAWS if name != shape.name]
    found = choose_often([0, 1, 2], shape, 20_000, entropy)

    assert chi_square_p(found, LAWS[shape.name](0, 1, 2)) > ALPHA
    assert chi_square_p(found, LAWS[other](0, 1, 2)) < ALPHA


@pytest.mark.statistical
@each_shape
def test_the_rate_scales_the_scores(shape: Shape, entropy: SeededEntropy) -> None:
    """Scores 0, 3, 6 at rate 1/3 choose as 0, 1, 2 do; a rate 15% off is rejected."""
    scores = np.array([0.0, 3.0, 6.0])
    found = [noisy_argmax(scores, Fraction(1, 3), shape, entropy) for _ in range(20_000)]

    assert chi_square_p(found, LAWS[shape.name](0, 1, 2)) > ALPHA
    assert chi_square_p(found, LAWS[shape.name](0, 1.15, 2.3)) < ALPHA
    assert chi_square_p(found, LAWS[shape.name](0, 0.85, 1.7)) < ALPHA


@pytest.mark.statistical
def test_weights_are_a_base_measure(entropy: SeededEntropy) -> None:
    """Choices fit probabilities multiplied by the weights, and reject equal weights."""
    scores, weights = np.array([0, 1, 0]), [1, 2, 5]
    found = [noisy_argmax(scores, ONE, GUMBEL, entropy, weights) for _ in range(20_000)]

    assert chi_square_p(found, softmax(0, 1 + math.log(2), math.log(5))) > ALPHA
    assert chi_square_p(found, softmax(0, 1, 0)) < ALPHA


@pytest.mark.statistical
def test_a_heavy_weight_balances_a_low_score(entropy: SeededEntropy) -> None:
    """A weight of 2**256 offsets a score that is ln(2**256) lower: both win half the time."""
    scores = np.array([0.0, -256 * math.log(2)])
    found = [noisy_argmax(scores, ONE, GUMBEL, entropy, [1, 2**256]) for _ in range(5_000)]

    assert binomial_p(sum(found), len(found), 0.5) > ALPHA
    assert binomial_p(sum(found), len(found), 0.57) < ALPHA


@each_shape
def test_ties_in_the_first_word_are_broken_by_later_digits(shape: Shape) -> None:
    """Equal scores with equal words are decided by the first other word; the smaller U wins."""
    tie, even = np.array([7, 7]), 2**63 + 12345

    assert 0 == noisy_argmax(tie, ONE, shape, ScriptedEntropy([even, even, 1, 3]))
    assert 1 == noisy_argmax(tie, ONE, shape, ScriptedEntropy([even, even, 3, 1]))
    assert 0 == noisy_argmax(tie, ONE, shape, ScriptedEntropy([even, even, 9, 9, 9, 9, 1, 3]))
    assert 1 == noisy_argmax(tie, ONE, shape, ScriptedEntropy([even, even, 9, 9, 9, 9, 3, 1]))


@each_shape
def test_only_contenders_go_on(shape: Shape) -> None:
    """An index that cannot win draws no more words; the other two are refined."""
    scores, even = np.array([7, -(10**6), 7]), 2**62
    source = ScriptedEntropy([even, even, even, 6, 4])

    assert 2 == noisy_argmax(scores, ONE, shape, source)
    assert 5 == source.used


@each_shape
@pytest.mark.parametrize("word", [0, LAST])
def test_words_at_the_ends_are_refined(shape: Shape, word: int) -> None:
    """If the noise is unbounded in doubles, more digits decide."""
    tie = np.array([0, 0])

    assert 0 == noisy_argmax(tie, ONE, shape, ScriptedEntropy([word, word, 1, 1, 1, 3]))
    assert 1 == noisy_argmax(tie, ONE, shape, ScriptedEntropy([word, word, 1, 1, 3, 1]))


@each_shape
def test_near_ties_are_decided_as_in_balls(shape: Shape, entropy: SeededEntropy) -> None:
    """With scores that balance the noise to within 1e-17 or more, the winner is the exact one."""
    refined = 0
    for round_ in range(400):
        words = entropy.words(8).tolist()
        noise, _ = shape.quantile(np.array([words[0], words[1]]) * 2.0**-64)
        nudge = (-1.0) ** round_ * 10.0 ** -(round_ % 18)
        scores = np.array([0.0, float(noise[0] - noise[1]) + nudge])
        with ctx.workprec(600):
            exact = [
                arb(score) + shape.enclosed(spell(words[place::2]))
                for place, score in enumerate(scores.tolist())
            ]
            expected = int(exact[1] > exact[0])
        source = ScriptedEntropy(words)

        assert expected == noisy_argmax(scores, ONE, shape, source)
        refined += source.used > 2
    assert 50 < refined < 350


def spell(words: list[int]) -> arb:
    """Return the number in [0, 1) with these words as digits."""
    prefix = 0
    for word in words:
        prefix = prefix << 64 | word
    return arb((prefix, -64 * len(words)))


@each_shape
def test_huge_gaps_leave_no_choice(shape: Shape, entropy: SeededEntropy) -> None:
    """A gap of 10^6 or more decides; another winner has probability below exp(-10^5)."""
    for scores in (
        np.array([0, 10**6, 0]),
        np.array([-(2**63), 2**63 - 1, 0]),
        np.array([-1e308, 1e308, 0.0]),
        np.array([-5e-324, 1e300, 5e-324]),
    ):
        assert {1} == {noisy_argmax(scores, ONE, shape, entropy) for _ in range(50)}


@each_shape
def test_extreme_rates_are_exact(shape: Shape, entropy: SeededEntropy) -> None:
    """A rate too large for doubles decides at once; one too small makes all indices alike."""
    scores = np.array([0, 1])
    spread = np.array([-1e308, 1e308])

    assert {1} == {noisy_argmax(scores, Fraction(10**400), shape, entropy) for _ in range(20)}
    assert {0, 1} == {noisy_argmax(scores, Fraction(1, 10**400), shape, entropy) for _ in range(50)}
    assert {0, 1} == {noisy_argmax(spread, Fraction(1, 10**310), shape, entropy) for _ in range(50)}


@pytest.mark.statistical
@each_shape
def test_large_integers_keep_their_last_digit(shape: Shape, entropy: SeededEntropy) -> None:
    """Scores of 2**60 and 2**60 + 1, equal as doubles, are chosen like 0 and 1, not like equals."""
    found = choose_often([2**60, 2**60 + 1], shape, 5_000, entropy)

    assert chi_square_p(found, LAWS[shape.name](0, 1)) > ALPHA
    assert chi_square_p(found, [0.5, 0.5]) < ALPHA


@each_shape
def test_one_candidate_wins(shape: Shape) -> None:
    """A single candidate wins without refinement, even on the first and the last word."""
    for word in (0, 1, LAST):
        assert 0 == noisy_argmax(np.array([3]), ONE, shape, ScriptedEntropy([word]))


@each_shape
def test_margins_hold_the_noise(shape: Shape, entropy: SeededEntropy) -> None:
    """Over the whole cell of any word, the exact noise is within the margin of its double."""
    near = [2**power + step for power in range(2, 64) for step in (-1, 0, 1, 1025)]
    words = [0, 1, *near, *(LAST - word for word in near), *entropy.words(2_000).tolist(), LAST]
    noise, margin = _enclose(shape, np.array(words, dtype=np.uint64))
    bounded = 0
    with ctx.workprec(300):
        for word, value, spread in zip(words, noise.tolist(), margin.tolist(), strict=True):
            if spread == math.inf:
                continue
            bounded += 1
            for end in (word, word + 1):
                gap = abs(shape.enclosed(arb((end, -64))) - arb(value))
                assert gap <= arb(spread)

    assert bounded > len(words) - 80
    assert float(np.median(margin)) < 1e-12


@each_shape
@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(10**400), Fraction(1, 10**400)], ids=str)
def test_each_row_chooses_as_if_alone(shape: Shape, rate: Fraction, entropy: SeededEntropy) -> None:
    """The winner of a row in a table is that of the same scores, weights, and words alone."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    scores = rng.integers(-(2**61), 2**61, (200, 6)) >> rng.integers(0, 61, (200, 1))
    weights = rng.integers(0, 3, (200, 6)) * 2 ** rng.integers(0, 60, (200, 6))
    weights[:, 3] = np.maximum(weights[:, 3], 1)
    words = entropy.words(scores.size).reshape(scores.shape)
    rest = entropy.words(10_000).tolist()
    found = noisy_argmax_rows(
        scores, rate, shape, ScriptedEntropy([*words.ravel().tolist(), *rest]), weights
    )
    for row, winner in enumerate(found.tolist()):
        filled = np.flatnonzero(weights[row])
        source = ScriptedEntropy(words[row, filled].tolist(), entropy)
        given = scores[row, filled], rate, shape, source, weights[row, filled]
        alone = filled[noisy_argmax(*given)]

        assert weights[row, winner] > 0
        assert alone == winner or source.used > len(filled)  # later digits differed


@each_shape
def test_ties_in_a_row_are_broken_by_later_digits(shape: Shape) -> None:
    """Rows with equal scores and words are decided separately, each by its first other word."""
    even = 2**63 + 12345
    source = ScriptedEntropy([even] * 9 + [1, 3, 3, 1, 9, 9, 1, 3])
    scores, weights = np.full((3, 3), 7), np.array([[5, 5, 0], [0, 5, 5], [5, 0, 5]])

    assert [0, 2, 0] == noisy_argmax_rows(scores, ONE, shape, source, weights).tolist()
    assert 17 == source.used


@pytest.mark.statistical
def test_rows_follow_the_law_of_their_own_weights(entropy: SeededEntropy) -> None:
    """Choices in a row follow its scores and weights; an index of weight 0 is never chosen."""
    scores = np.tile([[0, 1, 0, 50], [3, 2, -50, 1]], (10_000, 1))
    weights = np.tile([[1, 2, 5, 0], [1, 1, 0, 4]], (10_000, 1))
    found = noisy_argmax_rows(scores, ONE, GUMBEL, entropy, weights)

    assert chi_square_p(found[::2].tolist(), softmax(0, 1 + math.log(2), math.log(5))) > ALPHA
    assert chi_square_p(found[::2].tolist(), softmax(0, 1, 0)) < ALPHA
    law = softmax(3, 2, 1 + math.log(4))
    assert chi_square_p(found[1::2].tolist(), {0: law[0], 1: law[1], 3: law[2]}) > ALPHA


@each_shape
def test_no_rows_choose_nothing(shape: Shape, entropy: SeededEntropy) -> None:
    """A table without rows has no winners and needs no noise."""
    nothing = np.empty((0, 3), dtype=np.int64)

    assert [] == noisy_argmax_rows(nothing, ONE, shape, entropy, nothing).tolist()
