"""The statistical tests themselves: few false alarms, and enough power."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import special, stats

from support.entropy import SeededEntropy
from support.laws import ALPHA, binomial_p, chi_square_p, mean_p

MEANS = [10, 12, 15, 16, 18, 20, 22, 25, 30, 50, 100]
CASES = [(n, mean / n) for n in (300, 10_000) for mean in MEANS]


def false_alarm_rate(n: int, p: float, p_value: Callable[[int], float]) -> float:
    """Return the exact probability that X ~ Binomial(n, p) gets a p-value below ALPHA."""
    x = np.arange(n + 1)
    log_weight = (
        special.gammaln(n + 1)
        - special.gammaln(x + 1)
        - special.gammaln(n - x + 1)
        + special.xlogy(x, p)
        + special.xlogy(n - x, 1 - p)
    )
    # Outcomes rarer than 1e-30 each have a negligible sum.
    likely = np.flatnonzero(log_weight > math.log(1e-30))
    alarms = [i for i in likely.tolist() if p_value(i) < ALPHA]
    return math.fsum(np.exp(log_weight[alarms]).tolist())


@pytest.mark.parametrize(("n", "p"), CASES)
def test_chi_square_rarely_rejects_a_correct_distribution(n: int, p: float) -> None:
    """A correct distribution of two cells is rejected with probability at most ALPHA, exactly."""

    def p_value(x: int) -> float:
        return chi_square_p(np.repeat([0, 1], [n - x, x]), [1 - p, p])

    assert false_alarm_rate(n, p, p_value) <= ALPHA


@pytest.mark.parametrize(("n", "p"), CASES)
def test_binomial_rarely_rejects_a_correct_probability(n: int, p: float) -> None:
    """The binomial test rejects a correct probability with probability at most ALPHA."""
    assert false_alarm_rate(n, p, lambda x: binomial_p(x, n, p)) <= ALPHA


def test_three_rare_cells_rarely_reject_a_correct_distribution() -> None:
    """With three cells, two of them rare, the exact false alarm rate stays below ALPHA."""
    n, p = 400, 0.03
    rate = 0.0
    for x in range(n // 4):
        for y in range(n // 4):
            z = n - x - y
            log_weight = math.lgamma(n + 1) - sum(math.lgamma(k + 1) for k in (x, y, z))
            log_weight += (x + y) * math.log(p) + z * math.log(1 - 2 * p)
            if log_weight > math.log(1e-20):
                draws = np.repeat([0, 1, 2], [x, y, z])
                alarm = chi_square_p(draws, [p, p, 1 - 2 * p]) < ALPHA
                rate += math.exp(log_weight) if alarm else 0.0

    assert rate <= ALPHA


@pytest.mark.statistical
def test_chi_square_has_teeth(entropy: SeededEntropy) -> None:
    """100,000 throws of a fair die fit a fair die, and expose a face that is 10% too likely."""
    draws = entropy.words(100_000) % np.uint64(6)
    loaded = [1.1 / 6] + [(1 - 1.1 / 6) / 5] * 5

    assert chi_square_p(draws, [1 / 6] * 6) > ALPHA
    assert chi_square_p(draws, loaded) < ALPHA


@pytest.mark.statistical
def test_a_mean_test_has_teeth(entropy: SeededEntropy) -> None:
    """1,000 uniform numbers on [0, 1) are consistent with a mean of at least 1/2, but not 0.65."""
    draws = entropy.words(1_000) / 2.0**64

    assert mean_p(draws, 0.5) > ALPHA
    assert mean_p(draws, 0.65) < ALPHA


@pytest.mark.parametrize("size", [24, 96])
def test_a_mean_test_keeps_its_level(size: int) -> None:
    """Student's t is exact for normal values: the p-value at its own critical value is ALPHA."""
    spread = np.tile([-1.0, 1.0], size // 2)
    error = spread.std(ddof=1) / math.sqrt(size)
    critical = stats.t.ppf(ALPHA, size - 1) * error

    assert math.isclose(ALPHA, mean_p(spread + critical, 0.0), rel_tol=1e-6)
    assert 1.0 == mean_p([0.5, 0.5], 0.5)
    assert 0.0 == mean_p([0.5, 0.5], 0.6)


def test_an_excluded_value_rejects_at_once() -> None:
    """One draw with probability zero makes the p-value zero."""
    assert 0.0 == chi_square_p([0] * 50 + [1] * 50 + [2], {0: 0.5, 1: 0.5})
    assert 0.0 == chi_square_p([0] * 50 + [1] * 50 + [2], {0: 0.5, 1: 0.5, 2: 0.0})


def test_rare_cells_are_merged_not_dropped() -> None:
    """An excess of draws in the far tail is detected, although each tail cell is rare."""
    law = {k: 0.5 ** (k + 1) for k in range(60)}
    fair = [k for k in range(10) for _ in range(2 ** (9 - k))]

    assert chi_square_p(fair, law) > ALPHA
    assert chi_square_p(fair + [40] * 60, law) < ALPHA


def test_too_few_draws_are_an_error_not_a_pass() -> None:
    """A test that could not fail raises an error."""
    with pytest.raises(ValueError, match="too few"):
        chi_square_p([0, 1, 0], [0.5, 0.5])


def test_probabilities_past_one_are_an_error() -> None:
    """Probabilities that sum to more than 1 raise an error."""
    with pytest.raises(ValueError, match="sum to at most 1"):
        chi_square_p([0, 1], [0.7, 0.7])
