"""Tests of draws against a stated distribution, with p-values to compare with ALPHA.

A test at level ALPHA evaluates its statistic in far tails, where Pearson's statistic is no longer
chi-square: one cell with a mean of 10 to 15 makes it cross the 1e-9 line up to 480 times too often.
The likelihood ratio crosses it at most 7 times too often, for any mean. So we compute the latter,
and SLACK accounts for the rest. tests/repo/test_laws.py computes the false alarm rate exactly.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

__all__ = ["ALPHA", "binomial_p", "chi_square_p", "mean_p"]

ALPHA: Final = 1e-9
"""The probability that a statistical test fails although the draws are correct."""

RARE: Final = 10
"""Cells with a smaller expected count are merged."""

SLACK: Final = 10
"""A factor for p-values, since the likelihood ratio is only approximately chi-square."""

Cell = tuple[int, float]
"""An observed count and an expected count."""


def chi_square_p(draws: ArrayLike, probabilities: Mapping[int, float] | Sequence[float]) -> float:
    """Return the p-value of ``draws`` if value v has probability ``probabilities[v]``.

    Values that are not listed share the remaining probability. Adjacent rare cells are merged. A
    small p-value is evidence against the distribution; 0.0 means that a value was drawn that the
    distribution excludes.

    Why: twice the log likelihood ratio of k cells is approximately chi-square with k - 1 degrees of
    freedom, and Williams' divisor removes the first-order error of its mean.
    """
    flat = np.asarray(draws).ravel()
    law = dict(enumerate(probabilities)) if isinstance(probabilities, Sequence) else probabilities
    values, counts = np.unique(flat, return_counts=True)
    seen = Counter(dict(zip(values.tolist(), counts.tolist(), strict=True)))
    cells = _count_cells(seen, law)
    if any(count and not expected for count, expected in cells):
        return 0.0
    merged = _merge_rare(cell for cell in cells if cell[1])
    if len(merged) < 2:
        raise ValueError(f"{flat.size} draws are too few: only one cell expects {RARE} of them")
    return _likelihood_ratio_p(merged)


def binomial_p(successes: int, trials: int, probability: float) -> float:
    """Return the two-sided p-value of ``successes``; it is exact, so never too small."""
    below = special.bdtr(successes, trials, probability)
    above = special.bdtrc(successes - 1, trials, probability) if successes else 1.0
    return min(1.0, 2 * float(min(below, above)))


def mean_p(values: ArrayLike, least: float) -> float:
    """Return the p-value of ``values`` if the mean of their distribution is at least ``least``.

    Why: Student's t-test assumes that means of many values are approximately normal. A long tail
    below the mean makes it conservative: a low mean then comes with a large standard deviation.
    """
    flat = np.asarray(values, dtype=np.float64).ravel()
    error = float(flat.std(ddof=1)) / math.sqrt(flat.size)
    above = float(flat.mean()) - least
    if error == 0.0:
        return float(above >= 0.0)
    return float(special.stdtr(flat.size - 1, above / error))


def _count_cells(seen: Counter[int], law: Mapping[int, float]) -> list[Cell]:
    left = 1 - math.fsum(law.values())
    if left < -1e-9 or min(law.values()) < 0:
        raise ValueError("probabilities must be at least 0 and sum to at most 1")
    size = seen.total()
    cells = [(seen[value], size * float(law[value])) for value in sorted(law)]
    # A remainder of 1e-12 is the rounding error of adding floats, not other values.
    others = size - sum(count for count, _ in cells)
    return [*cells, (others, size * left if left > 1e-12 else 0.0)]


def _merge_rare(cells: Iterable[Cell]) -> list[Cell]:
    kept: list[Cell] = []
    count, expected = 0, 0.0
    for cell in cells:
        if cell[1] >= RARE:
            kept.append(cell)
            continue
        count, expected = count + cell[0], expected + cell[1]
        if expected >= RARE:
            kept.append((count, expected))
            count, expected = 0, 0.0
    if expected:
        least = min(range(len(kept)), key=lambda i: kept[i][1], default=None)
        rest = (0, 0.0) if least is None else kept.pop(least)
        kept.append((rest[0] + count, rest[1] + expected))
    return kept


def _likelihood_ratio_p(cells: Sequence[Cell]) -> float:
    count = np.array([cell[0] for cell in cells], dtype=float)
    expected = np.array([cell[1] for cell in cells])
    expected *= count.sum() / expected.sum()
    freedom = len(cells) - 1
    ratio = 2 * float(np.sum(special.rel_entr(count, expected)))
    divisor = 1 + (float(np.sum(1 / expected)) - 1 / count.sum()) / (6 * freedom)
    tail = float(special.gammaincc(freedom / 2, max(ratio, 0.0) / divisor / 2))
    return min(1.0, SLACK * tail)
