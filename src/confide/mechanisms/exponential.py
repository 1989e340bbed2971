"""Exponential mechanism: choosing one of many candidates, from a list or from a number range."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from confide.errors import BadDeclaration
from confide.exact import Number, integer
from confide.loss import BoundedRangeLoss
from confide.mechanisms.grid import Grid, Values
from confide.mechanisms.scores import Selector, read_scores
from confide.noise import (
    GUMBEL,
    SYSTEM,
    Entropy,
    Integers,
    noisy_argmax,
    noisy_argmax_rows,
    uniform_below,
)

__all__ = ["Exponential"]

MAX_WEIGHT: Final = 2**256


@dataclass(frozen=True, slots=True, init=False)
class Exponential(Selector):
    """A mechanism that chooses a candidate, with a higher probability for higher scores.

    Law:     P(i) proportional to weight_i * exp(rate * score_i), with rate = epsilon / (2 s), or
             epsilon / s for monotone scores; s is the sensitivity.
    Claim:   epsilon-DP with epsilon-bounded range. Without weights, the chosen score is more than
             (ln d + t) / rate below the best of d with probability at most exp(-t).
    Why:     one unit changes every rate * score_i by an amount in one fixed interval of length
             epsilon. So ln P(i) changes by the same amount, minus a constant that is the same for
             all i. P sums to one before and after, so no change of ln P(i) exceeds epsilon in
             absolute value. The noisy maximum with Gumbel noise has this distribution. For the
             accuracy: candidates whose score is at least g below the best have in total at most
             d exp(-rate g) times the probability of the best.
    Source:  [MT07]; [DDR20] for the bounded range.
    Checked: tests/mechanisms/test_selection.py (law, accuracy), tests/audit/test_claims.py.

    >>> Exponential(sensitivity=1, epsilon=2).choose([0, 0, 500])
    2
    """

    @property
    def loss(self) -> BoundedRangeLoss:
        """The privacy loss of one choice."""
        return BoundedRangeLoss(epsilon=self.epsilon)

    def choose(
        self,
        scores: Values,
        *,
        weights: Sequence[int] | None = None,
        entropy: Entropy = SYSTEM,
    ) -> int:
        """Return the index of the chosen candidate.

        ``weights`` are the probabilities of the candidates at equal scores, up to a factor.
        """
        values = read_scores(scores)
        masses = None if weights is None else _read_weights(weights, len(values))
        return noisy_argmax(values, self.rate, GUMBEL, entropy, masses)

    def choose_each(
        self, scores: Integers, weights: Integers, *, entropy: Entropy = SYSTEM
    ) -> Integers:
        """Return the index chosen in each row of a table of scores.

        ``weights`` is a table of the same shape; an index of weight 0 is not a candidate. Each row
        is a separate choice, with its own privacy loss. If no unit affects two rows, as with
        disjoint groups, all choices together cost as much as one.
        """
        if scores.shape != weights.shape or not (weights > 0).any(axis=1).all():
            # Privacy: omit the number of scores, which may be data, here and in `choose_interval`.
            raise BadDeclaration(
                "`weights` must have one entry per score, with at least one greater than 0 in each "
                "row."
            )
        return noisy_argmax_rows(scores, self.rate, GUMBEL, entropy, weights)

    def choose_interval(
        self,
        breaks: Values,
        scores: Values,
        *,
        grid: Number | None = None,
        entropy: Entropy = SYSTEM,
    ) -> Any:
        """Return a number from [first break, last break), chosen by the score of its interval.

        Candidates are the integers (or the multiples of ``grid``) in that range, all with the same
        weight. Each has the score of the interval between two consecutive breaks that contains it.
        The breaks in between may depend on the data, because the candidates do not.
        """
        exact_grid = Grid.of(grid)
        ends = exact_grid.read(breaks, "breaks")
        values = read_scores(scores)
        if ends.ndim != 1 or len(ends) != len(values) + 1 or (np.diff(ends) < 0).any():
            raise BadDeclaration(
                "`breaks` must be in increasing order, with one more entry than the scores, such "
                "as [0, 1, 5] for two scores."
            )
        widths = np.diff(ends)
        filled = np.flatnonzero(widths > 0)
        if not len(filled):
            raise BadDeclaration("`breaks` must enclose at least one grid point; got none.")
        index = filled[noisy_argmax(values[filled], self.rate, GUMBEL, entropy, widths[filled])]
        point = int(ends[index]) + uniform_below(int(widths[index]), entropy)
        return exact_grid.write(np.array(point), point)


def _read_weights(weights: Sequence[int], count: int) -> list[int]:
    if np.shape(weights) != (count,):
        raise BadDeclaration(
            f"`weights` must have one entry for each of the {count} scores; got {weights!r}."
        )
    return [integer("weights", weight, low=1, high=MAX_WEIGHT) for weight in weights]
