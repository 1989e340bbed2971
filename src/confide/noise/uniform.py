"""Uniform numbers whose bits are revealed as comparisons need them."""

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
"""A real number, given by a function that returns a ball around it at the current precision."""

WORD_BITS = 64


class Uniform:
    """A number in [0, 1), known to lie in the cell [prefix, prefix + 1] / 2**bits.

    ``bits`` is the number of binary digits revealed so far; ``prefix`` is the integer they form.

    Why: the digits not yet revealed are independent fair coins. A comparison is decided by the cell
    alone; while the cell allows both outcomes, more digits are revealed. So the outcome is that of
    the number with all its digits. A comparison with a fixed real number ends with probability
    one.
    """

    __slots__ = ("bits", "entropy", "prefix")

    def __init__(self, entropy: Entropy, prefix: int = 0, bits: int = 0) -> None:
        self.entropy, self.prefix, self.bits = entropy, prefix, bits

    def reveal(self) -> None:
        """Reveal 64 more digits."""
        self.prefix = (self.prefix << WORD_BITS) | int(self.entropy.words(1)[0])
        self.bits += WORD_BITS

    def cell(self) -> tuple[arb, arb]:
        """Return the exact ends of the cell."""
        return arb((self.prefix, -self.bits)), arb((self.prefix + 1, -self.bits))

    def ball(self) -> arb:
        """Return the whole cell as one ball."""
        return arb((2 * self.prefix + 1, -self.bits - 1), (1, -self.bits - 1))

    def is_below(self, real: Real) -> bool:
        """Return whether the number is below ``real``."""
        while True:
            with ctx.workprec(self.bits + WORD_BITS):
                low, high = self.cell()
                bound = real()
                if high <= bound:
                    return True
                if low >= bound:
                    return False
            self.reveal()


def bernoulli(chance: Real, count: int, entropy: Entropy) -> NDArray[np.bool_]:
    """Return ``count`` independent Booleans that are true with probability ``chance``, exactly.

    Law:     P(true) = chance, for any real number in [0, 1].
    Why:     a Boolean is true if its uniform number is below ``chance``. The first 64 digits
             decide, unless they equal those of ``chance``; then more digits are revealed.
    """
    with ctx.workprec(2 * WORD_BITS):
        scaled = chance() * 2**WORD_BITS
        low, high = floor(fraction_below(scaled)), ceil(fraction_above(scaled))
    words = entropy.words(count)
    coins = words < np.uint64(min(max(low, 0), 2**WORD_BITS - 1))
    doubtful = ~coins & (words < np.uint64(min(high, 2**WORD_BITS - 1)))
    if high >= 2**WORD_BITS:
        doubtful |= words == np.uint64(2**WORD_BITS - 1)
    for index in np.flatnonzero(doubtful):
        coins[index] = Uniform(entropy, int(words[index]), WORD_BITS).is_below(chance)
    return coins


def categorical(weights: Sequence[int], count: int, entropy: Entropy) -> NDArray[np.intp]:
    """Return ``count`` independent indices, each drawn with probability proportional to its weight.

    Weights are integers of at least 0, and not all 0.

    Why: the result is the first index whose cumulative weight, as a fraction of the total, exceeds
    a uniform number U. The ``borders`` are the cumulative weights below the total; the result is
    the number of borders that are at most U. The first 64 digits of U decide, unless they equal
    those of a border.
    """
    *borders, total = accumulate(weights)
    borders = [border for border in borders if border < total]
    floors = np.array([(border << WORD_BITS) // total for border in borders], dtype=np.uint64)
    words = entropy.words(count)
    drawn = np.searchsorted(floors, words, side="right")
    for index in np.flatnonzero(np.isin(words, floors)):
        number = Uniform(entropy, int(words[index]), WORD_BITS)
        parts = (Fraction(border, total) for border in borders)
        drawn[index] = sum(not number.is_below(partial(ball, part)) for part in parts)
    return drawn


def uniform_below(bound: int, entropy: Entropy) -> int:
    """Return a uniform integer in [0, bound), for ``bound`` of at least 1."""
    return _settle(bound, Uniform(entropy, int(entropy.words(1)[0]), WORD_BITS))


def uniform_below_each(bounds: NDArray[np.int64], entropy: Entropy) -> NDArray[np.int64]:
    """Return the result of `uniform_below` for each bound."""
    words = entropy.words(len(bounds)).tolist()
    drawn = (
        _settle(bound, Uniform(entropy, word, WORD_BITS))
        for bound, word in zip(bounds.tolist(), words, strict=True)
    )
    return np.fromiter(drawn, dtype=np.int64, count=len(bounds))


def _settle(bound: int, number: Uniform) -> int:
    """Return floor(bound * U) for a uniform number U.

    Why: floor(bound * U) is uniform on the integers in [0, bound). It is known once it is the same
    for all numbers in U's cell.
    """
    while True:
        low = number.prefix * bound >> number.bits
        if low == ((number.prefix + 1) * bound - 1) >> number.bits:
            return low
        number.reveal()
