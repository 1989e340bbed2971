"""Exact index of the greatest noisy score, for mechanisms that choose a candidate.

Each score gets its own continuous noise, computed only as precisely as the comparison needs.
Doubles enclose every noisy score. While several indices could still be the greatest, more digits
of their noise are revealed. Ties have probability zero, so the winner is that of the infinitely
precise comparison, and its noisy score is never computed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from confide.exact import ball, float_above
from confide.noise.entropy import Entropy
from confide.noise.sampler import Floats, Integers
from confide.noise.uniform import Uniform

__all__ = ["EXPONENTIAL", "GUMBEL", "Shape", "noisy_argmax", "noisy_argmax_rows"]

WORD_BITS: Final = 64
SLACK: Final = 2.0**-44


@dataclass(frozen=True, slots=True)
class Shape:
    """A noise distribution, as a decreasing function of a uniform number.

    ``quantile`` returns the noise for each number and the absolute value of its derivative there,
    in doubles. ``enclosed`` returns the noise for one number in ball arithmetic.
    """

    name: str
    quantile: Callable[[Floats], tuple[Floats, Floats]]
    enclosed: Callable[[arb], arb]


def _gumbel(u: Floats) -> tuple[Floats, Floats]:
    rarity = -np.log1p(-u)
    return -np.log(rarity), 1.0 / ((1.0 - u) * rarity)


EXPONENTIAL: Final = Shape(
    name="exponential",
    quantile=lambda u: (-np.log(u), 1.0 / u),
    enclosed=lambda u: -u.log(),
)
"""P(noise > x) = exp(-x) for x >= 0, since the noise is -ln U."""

GUMBEL: Final = Shape(
    name="gumbel",
    quantile=_gumbel,
    enclosed=lambda u: -(-(-u).log1p()).log(),
)
"""P(noise <= x) = exp(-exp(-x)), since the noise is -ln(-ln(1 - U))."""


def noisy_argmax(
    scores: Integers | Floats,
    rate: Fraction,
    shape: Shape,
    entropy: Entropy,
    weights: Sequence[int] | Integers | None = None,
) -> int:
    """Return the index that maximizes ``rate * score + ln(weight) + noise``.

    Scores are finite. Weights are integers from 1 to 2**256.

    Why: an index is out once the upper end of its enclosure is below the lower end of another's.
    If doubles overflow, the enclosure is the entire real line. In doubles, each term of the sum has
    a relative error below SLACK. If two terms nearly cancel, one of them is ln(weight), at most
    ln(2**256) < 178; the summand 64 covers the errors of both.
    """
    words = entropy.words(len(scores))
    noise, margin = _enclose(shape, words)
    values = _head_starts(scores, rate)
    if weights is not None:
        values += np.log(np.asarray(weights, dtype=np.float64))
    margin += SLACK * (1.0 + np.abs(values) + 64.0 * (weights is not None))
    unknown = ~np.isfinite(values)
    values[unknown], margin[unknown] = 0.0, np.inf
    values += noise
    contenders = np.flatnonzero(values + margin >= (values - margin).max())
    if len(contenders) == 1:
        return int(contenders[0])
    start = partial(_start, words=words, scores=scores, rate=rate, weights=weights)
    return _refine({index: start(index, entropy) for index in contenders.tolist()}, shape)


def noisy_argmax_rows(
    scores: Integers, rate: Fraction, shape: Shape, entropy: Entropy, weights: Integers
) -> Integers:
    """Return the result of `noisy_argmax` for each row of a table of integer scores.

    An index of weight 0 is not a candidate. Every row must have an index of positive weight.
    """
    if not len(scores):
        return np.empty(0, dtype=np.int64)
    columns = np.flatnonzero(weights.any(axis=0))  # the other columns need no noise
    scores, weights = scores[:, columns], weights[:, columns]
    words = entropy.words(scores.size).reshape(scores.shape)
    noise, margin = _enclose(shape, words)
    is_candidate = weights > 0
    lowest = np.iinfo(np.int64).min
    tops = np.where(is_candidate, scores, lowest).max(axis=1, keepdims=True)
    values = _head_starts(scores, rate, tops) + np.log(np.maximum(weights, 1).astype(np.float64))
    margin += SLACK * (65.0 + np.abs(values))
    unknown = ~np.isfinite(values)
    values[unknown], margin[unknown] = 0.0, np.inf
    values += noise
    lower = np.where(is_candidate, values - margin, -np.inf).max(axis=1, keepdims=True)
    contending = is_candidate & (values + margin >= lower)
    found: Integers = contending.argmax(axis=1)
    for row in np.flatnonzero(contending.sum(axis=1) > 1).tolist():
        start = partial(
            _start, words=words[row], scores=scores[row], rate=rate, weights=weights[row]
        )
        contenders = np.flatnonzero(contending[row]).tolist()
        found[row] = _refine({index: start(index, entropy) for index in contenders}, shape)
    return columns[found]


def _head_starts(scores: Integers | Floats, rate: Fraction, tops: Integers | None = None) -> Floats:
    """Return ``rate * (score - greatest score)``, with a relative error of at most 4 / 2**53.

    If ``scores`` is a table, ``tops`` has the greatest score of the candidates in each row.
    Overflow gives an infinity.

    Why: the gap between two 64-bit integers is below 2**64. So subtraction that wraps around gives
    the gap exactly if the result is read as an unsigned integer. For doubles, the gap is rounded
    once.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        gaps = (scores.max() if tops is None else tops) - scores
        unsigned = gaps.view(np.uint64) if scores.dtype.kind == "i" else gaps
        starts: Floats = unsigned.astype(np.float64) * -float_above(rate)
    return starts


def _enclose(shape: Shape, words: NDArray[np.uint64]) -> tuple[Floats, Floats]:
    """Return the noise at the center of each cell, with a bound on its error over the cell.

    A cell contains the uniform numbers U whose first 64 bits are the word.

    Why: U is within 2**-65 of the center of its cell. The double at the center is off by
    2**-53 * U if the word is rounded, and by 2**-65 if the summand 1/2 is lost. ``slope`` is the
    absolute derivative at the double. It is doubled because the derivative can grow over these
    distances, but by less than a factor of two. Next to 0 and 1, it can grow by more, and the error
    bound is infinite.
    """
    center = (words.astype(np.float64) + 0.5) * 2.0**-WORD_BITS
    edge = (center < 2.0**-62) | (center > 1.0 - 2.0**-50)
    inside = np.where(edge, 0.5, center)
    noise, slope = shape.quantile(inside)
    variation = 2.0 * slope * (2.0**-WORD_BITS + 2.0**-53 * inside)
    return noise, np.where(edge, np.inf, variation + SLACK * (1.0 + np.abs(noise)))


@dataclass(frozen=True, slots=True)
class Contender:
    """An index that could still win: the digits of its noise, its relative score, and its weight.

    ``head_start`` is the rate times the difference between its score and the greatest score.
    """

    number: Uniform
    head_start: Fraction
    weight: int

    def ends(self, shape: Shape) -> tuple[arb, arb]:
        """Return a lower and an upper bound of the noisy score, relative to the greatest score."""
        value = ball(self.head_start) + arb(self.weight).log() + shape.enclosed(self.number.ball())
        if not value.is_finite():
            return arb.neg_inf(), arb.pos_inf()
        return value.lower(), value.upper()


def _start(
    index: int,
    entropy: Entropy,
    *,
    words: NDArray[np.uint64],
    scores: Integers | Floats,
    rate: Fraction,
    weights: Sequence[int] | Integers | None,
) -> Contender:
    """Return the contender at ``index``; the word there has the first digits of its noise."""
    return Contender(
        number=Uniform(entropy, int(words[index]), WORD_BITS),
        head_start=rate * (Fraction(scores[index].item()) - Fraction(scores.max().item())),
        weight=1 if weights is None else int(weights[index]),
    )


def _refine(contenders: dict[int, Contender], shape: Shape) -> int:
    """Return the index of the greatest noisy score; reveal digits until only one can be it."""
    bits = WORD_BITS
    while len(contenders) > 1:
        bits += WORD_BITS
        for contender in contenders.values():
            contender.number.reveal()
        with ctx.workprec(2 * bits):
            ends = {index: contender.ends(shape) for index, contender in contenders.items()}
            best = max(low for low, _ in ends.values())
            contenders = {index: contenders[index] for index in ends if ends[index][1] >= best}
    return next(iter(contenders))
