"""Uniform numbers, revealed bit by bit as comparisons need them."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import accumulate
from math import ceil, floor

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from confide.exact import ball, fraction_above, fraction_below
from confide.noise.entropy import Entropy

__all__ = [
    "Real",
    "Uniform",
    "bernoulli",
    "categorical",
    "uniform_below",
    "uniform_below_each",
]

Real = Callable[[], arb]
"""A real number: encloses itself in a ball at whatever precision is current."""

STEP = 64


class Uniform:
    """A number in [0, 1), known to lie in the cell [prefix, prefix + 1] / 2**bits.

    Why: the digits not yet revealed are independent fair coins, so deciding by the cell alone,
    and revealing more digits while it cannot decide, gives the answer that the whole infinite
    number would have given. A comparison with a fixed real number ends with probability one.
    """

    __slots__ = ("bits", "entropy", "prefix")

    def __init__(self, entropy: Entropy, prefix: int = 0, bits: int = 0) -> None:
        self.entropy, self.prefix, self.bits = entropy, prefix, bits

    def reveal(self) -> None:
        """Learn 64 more digits."""
        self.prefix = (self.prefix << STEP) | int(self.entropy.words(1)[0])
        self.bits += STEP

    def cell(self) -> tuple[arb, arb]:
        """Return both ends of the cell, exactly."""
        return arb((self.prefix, -self.bits)), arb((self.prefix + 1, -self.bits))

    def ball(self) -> arb:
        """Return the whole cell as one ball."""
        return arb((2 * self.prefix + 1, -self.bits - 1), (1, -self.bits - 1))

    def is_below(self, real: Real) -> bool:
        """Tell whether the number lies below ``real``."""
        while True:
            with ctx.workprec(self.bits + STEP):
                low, high = self.cell()
                bound = real()
                if high <= bound:
                    return True
                if low >= bound:
                    return False
            self.reveal()


def bernoulli(chance: Real, count: int, entropy: Entropy) -> NDArray[np.bool_]:
    """Return ``count`` independent coins that show true with probability ``chance``, exactly.

    Law:     P(true) = chance, whatever real number in [0, 1] it is.
    Why:     a coin is true where its uniform number lies below the chance. The first 64 digits
             decide unless they are those of the chance itself; then more digits are revealed.
    """
    with ctx.workprec(2 * STEP):
        scaled = chance() * 2**STEP
        low, high = floor(fraction_below(scaled)), ceil(fraction_above(scaled))
    words = entropy.words(count)
    coins = words < np.uint64(min(max(low, 0), 2**STEP - 1))
    doubtful = ~coins & (words < np.uint64(min(high, 2**STEP - 1)))
    if high >= 2**STEP:
        doubtful |= words == np.uint64(2**STEP - 1)
    for index in np.flatnonzero(doubtful):
        coins[index] = Uniform(entropy, int(words[index]), STEP).is_below(chance)
    return coins


def categorical(weights: Sequence[int], count: int, entropy: Entropy) -> NDArray[np.intp]:
    """Return ``count`` independent indices, each drawn in proportion to its whole weight.

    Weights are at least 0 and not all 0.

    Why: index i is the first whose cumulated weight, as a part of the whole, exceeds U. The
    first 64 digits tell which, unless they are those of a border itself. A border at the whole,
    before weights of 0, is never passed.
    """
    *borders, total = accumulate(weights)
    borders = [border for border in borders if border < total]
    floors = np.array([(border << STEP) // total for border in borders], dtype=np.uint64)
    words = entropy.words(count)
    drawn = np.searchsorted(floors, words, side="right")
    for index in np.flatnonzero(np.isin(words, floors)):
        number = Uniform(entropy, int(words[index]), STEP)
        parts = (Fraction(border, total) for border in borders)
        drawn[index] = sum(not number.is_below(partial(ball, part)) for part in parts)
    return drawn


def uniform_below(bound: int, entropy: Entropy) -> int:
    """Return a whole number in [0, bound), each equally likely; ``bound`` is at least 1."""
    return _settle(bound, Uniform(entropy, int(entropy.words(1)[0]), STEP))


def uniform_below_each(bounds: NDArray[np.int64], entropy: Entropy) -> NDArray[np.int64]:
    """Return what `uniform_below` does for each of some bounds."""
    words = entropy.words(len(bounds)).tolist()
    drawn = (
        _settle(bound, Uniform(entropy, word, STEP))
        for bound, word in zip(bounds.tolist(), words, strict=True)
    )
    return np.fromiter(drawn, dtype=np.int64, count=len(bounds))


def _settle(bound: int, number: Uniform) -> int:
    """Return a uniform number's whole part after it is multiplied by a bound.

    Why: floor(bound * U) is uniform, and is settled once both ends of U's cell agree on it.
    """
    while True:
        low = number.prefix * bound >> number.bits
        if low == ((number.prefix + 1) * bound - 1) >> number.bits:
            return low
        number.reveal()
