"""Index of the greatest noisy score, decided exactly.

Each score gets its own continuous noise, of which only as much is computed as the comparison
needs: doubles enclose every noisy score, and while more than one index could still be the
greatest, those contenders reveal more digits. Ties have probability zero, so the winner is that
of the infinitely precise comparison, and its noisy score is never formed.
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

__all__ = ["EXPONENTIAL", "GUMBEL", "Shape", "greatest", "greatest_each"]

WORD: Final = 64
SLACK: Final = 2.0**-44


@dataclass(frozen=True, slots=True)
class Shape:
    """A noise law as a decreasing function of a uniform number, in doubles and in balls.

    ``quantile`` gives the noise of each number, and the size of its derivative there.
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


def greatest(
    scores: Integers | Floats,
    rate: Fraction,
    shape: Shape,
    entropy: Entropy,
    weights: Sequence[int] | Integers | None = None,
) -> int:
    """Return the index that maximises ``rate * score + ln(weight) + noise``.

    Scores are finite; weights are whole, at least 1 and at most 2**256.

    Why: an index is out once the upper end of its enclosure lies below the lower end of another.
    Where doubles overflow the enclosure is the whole line. Doubles are wrong by less than SLACK
    of each term; a term that its sum cancels is at most ln(2**256) < 178 and paid for by the 64.
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


def greatest_each(
    scores: Integers, rate: Fraction, shape: Shape, entropy: Entropy, weights: Integers
) -> Integers:
    """Return what `greatest` does for each row of a table of whole scores.

    An index with a weight of zero is none; every row has one with another weight.
    """
    if not len(scores):
        return np.empty(0, dtype=np.int64)
    places = np.flatnonzero(weights.any(axis=0))  # others need no noise
    scores, weights = scores[:, places], weights[:, places]
    words = entropy.words(scores.size).reshape(scores.shape)
    noise, margin = _enclose(shape, words)
    is_one = weights > 0
    lowest = np.iinfo(np.int64).min
    tops = np.where(is_one, scores, lowest).max(axis=1, keepdims=True)
    values = _head_starts(scores, rate, tops) + np.log(np.maximum(weights, 1).astype(np.float64))
    margin += SLACK * (65.0 + np.abs(values))
    unknown = ~np.isfinite(values)
    values[unknown], margin[unknown] = 0.0, np.inf
    values += noise
    lower = np.where(is_one, values - margin, -np.inf).max(axis=1, keepdims=True)
    contending = is_one & (values + margin >= lower)
    found: Integers = contending.argmax(axis=1)
    for row in np.flatnonzero(contending.sum(axis=1) > 1).tolist():
        start = partial(
            _start, words=words[row], scores=scores[row], rate=rate, weights=weights[row]
        )
        contenders = np.flatnonzero(contending[row]).tolist()
        found[row] = _refine({index: start(index, entropy) for index in contenders}, shape)
    return places[found]


def _head_starts(scores: Integers | Floats, rate: Fraction, tops: Integers | None = None) -> Floats:
    """Return ``rate * (score - greatest score)``, each to four parts in 2**53, or an infinity.

    ``tops`` are the greatest scores of the rows of a table.

    Why: the gap between two 64-bit integers is below 2**64, so subtraction that wraps gives it
    exactly when its bits are read without a sign; doubles round their gap once.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        gaps = (scores.max() if tops is None else tops) - scores
        unsigned = gaps.view(np.uint64) if scores.dtype.kind == "i" else gaps
        starts: Floats = unsigned.astype(np.float64) * -float_above(rate)
    return starts


def _enclose(shape: Shape, words: NDArray[np.uint64]) -> tuple[Floats, Floats]:
    """Return the noise at the centre of each cell and how far the true noise may be from it.

    Why: U is within 2**-65 of the centre of its cell, whose double is off by 2**-53 * U where
    the word is rounded and by 2**-65 where the half is lost; slope is the size of the derivative
    at the double, doubled because over that distance it changes by less than a factor of two,
    except next to 0 and 1, where the margin is infinite.
    """
    centre = (words.astype(np.float64) + 0.5) * 2.0**-WORD
    edge = (centre < 2.0**-62) | (centre > 1.0 - 2.0**-50)
    inside = np.where(edge, 0.5, centre)
    noise, slope = shape.quantile(inside)
    spread = 2.0 * slope * (2.0**-WORD + 2.0**-53 * inside)
    return noise, np.where(edge, np.inf, spread + SLACK * (1.0 + np.abs(noise)))


@dataclass(frozen=True, slots=True)
class Contender:
    """An index that could still be the greatest: its noise so far, its own score and weight."""

    number: Uniform
    head_start: Fraction
    weight: int

    def ends(self, shape: Shape) -> tuple[arb, arb]:
        """Return exact numbers below and above the noisy score."""
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
    """Return an index with what is known of its noise."""
    return Contender(
        number=Uniform(entropy, int(words[index]), WORD),
        head_start=rate * (Fraction(scores[index].item()) - Fraction(scores.max().item())),
        weight=1 if weights is None else int(weights[index]),
    )


def _refine(contenders: dict[int, Contender], shape: Shape) -> int:
    """Reveal digits of the contenders' noise until one of them is ahead for certain."""
    bits = WORD
    while len(contenders) > 1:
        bits += WORD
        for contender in contenders.values():
            contender.number.reveal()
        with ctx.workprec(2 * bits):
            ends = {index: contender.ends(shape) for index, contender in contenders.items()}
            best = max(low for low, _ in ends.values())
            contenders = {index: contenders[index] for index in ends if ends[index][1] >= best}
    return next(iter(contenders))
