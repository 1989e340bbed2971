"""Textbook formulas, for teaching and comparison only.

No other code in confide calls them. They are looser than `compose` and `mu_squared_for`, and the
second one is wrong outside its range; see docs/proofs/gaussian-calibration.md.
"""

import math

from confide.exact import float_above, integer, positive, probability

__all__ = ["textbook_advanced_composition", "textbook_gaussian_sigma"]

_MAX_USES = 1 << 62


def textbook_advanced_composition(epsilon: object, times: int, slack: object) -> float:
    """Return the epsilon of ``times`` uses by the advanced composition theorem, for comparison.

    Claim:   k uses of an epsilon-DP mechanism are (epsilon', slack)-DP with
             epsilon' = epsilon sqrt(2 k ln(1 / slack)) + k epsilon (exp(epsilon) - 1).
    Why:     the privacy losses are a martingale with bounded steps, up to a drift of at most
             epsilon (exp(epsilon) - 1) per step; Azuma's inequality bounds the sum.
    Source:  [DRV10] Theorem III.3.
    Checked: tests/loss/test_textbook.py.
    """
    each = float_above(positive("epsilon", epsilon))
    count = integer("times", times, low=1, high=_MAX_USES)
    miss = float(probability("slack", slack, zero=False))
    return each * math.sqrt(2 * count * math.log(1 / miss)) + count * each * math.expm1(each)


def textbook_gaussian_sigma(epsilon: object, delta: object, sensitivity: object = 1) -> float:
    """Return the classical standard deviation of Gaussian noise, for comparison.

    Claim:   for epsilon < 1, noise of standard deviation
             sensitivity sqrt(2 ln(1.25 / delta)) / epsilon is (epsilon, delta)-DP. For large
             epsilon it is not.
    Why:     a tail bound of the normal distribution, applied to the privacy loss.
    Source:  [DR14] Theorem A.1.
    Checked: tests/loss/test_textbook.py.
    """
    size = float_above(positive("sensitivity", sensitivity))
    miss = float(probability("delta", delta, zero=False))
    return size * math.sqrt(2 * math.log(1.25 / miss)) / float(positive("epsilon", epsilon))
