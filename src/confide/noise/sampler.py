"""The sampler: integers by inverse distribution function, over lazily revealed bits.

A draw is the sign and the magnitude of an integer whose law is symmetric about zero. The
magnitude is the greatest k with U < P(|Z| >= k), for U uniform. Doubles enclose it for a whole
array at once; a draw that they leave in doubt is settled by revealing more digits of the same U
and comparing it with the tail in ball arithmetic. So the law is exact: doubles decide nothing
that they cannot know, and no digit of U is ever drawn twice.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final, Protocol, overload

import numpy as np
from flint import arb
from numpy.typing import NDArray

from confide.errors import BadDeclaration
from confide.exact import first_integer, float_above, is_above
from confide.noise.entropy import Entropy, Words
from confide.noise.uniform import Uniform

__all__ = [
    "LARGEST_NOISE",
    "LARGEST_SCALE",
    "Floats",
    "Integers",
    "Law",
    "Reals",
    "Whole",
    "check_scale",
    "draw",
    "draw_one",
    "enclose",
    "half_width",
    "rounded_variance",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Reals = Any
"""One double or an array of doubles; NumPy computes with either."""

Whole = int | np.int64
"""One integer: NumPy's, or Python's where the draw took refinement and may be of any size."""

LARGEST_SCALE: Final = 10**15
LARGEST_NOISE: Final = 2**62
WORD: Final = 64
BLOCK: Final = 4096
CHUNK: Final = 16 * BLOCK
ONE: Final = np.uint64(1)


class Law(Protocol):
    """An integer law that is symmetric about zero.

    For U = e^-t the real number ``scale * magnitude(U) + shift`` has the drawn |Z| as its floor.
    ``magnitude`` moves by at most 1 when t moves by 1 (by at most 1.26 for the normal law, which
    the factor 2 in ``margin`` covers), and its value in doubles is within ``slack`` of the truth
    over [2**-64, 1], rounding of ``scale``, of the final product and of the sums in ``enclose``
    included. (Adding ``shift`` may cost more than that where ``scale * magnitude`` is small, but
    then the sum is far from the next integer and no floor depends on it.)
    """

    @property
    def scale(self) -> float:
        """The factor of the magnitude."""
        ...

    @property
    def shift(self) -> float:
        """What is added before the floor is taken: 0, or 1/2 to round."""
        ...

    @property
    def slack(self) -> float:
        """How far doubles may be from the true magnitude."""
        ...

    def magnitude(self, uniform: Reals) -> Reals:
        """Return the real magnitude of an array of doubles, or of one."""
        ...

    def tail(self, magnitude: int) -> arb:
        """Enclose P(|Z| >= magnitude) at the current precision; exactly 1 at zero."""
        ...

    def draw(self, count: int, entropy: Entropy) -> Integers:
        """Return ``count`` independent draws."""
        ...

    def draw_one(self, entropy: Entropy) -> Whole:
        """Return one draw."""
        ...


def check_scale(name: str, scale: Fraction, *, largest: int = LARGEST_SCALE) -> None:
    """Refuse a scale whose noise would not fit a 64-bit integer."""
    if scale > largest:
        raise BadDeclaration(
            f"{name} must be at most {largest:.0e} in grid steps, got {float_above(scale):.3g}; "
            "take a coarser grid"
        )


def draw_one(law: Law, entropy: Entropy, *, bits: int = WORD) -> Whole:
    """Return one integer of any size: the one that ``draw`` returns for the same word, but faster.

    # Privacy: the time must not depend on the size of the draw. Integers are converted in
    # one-element arrays: as a scalar, a NumPy integer takes up to 10 of 8,000 ns longer for some
    # values on some CPUs, and a Python integer takes longer the more digits it has. Doubles take
    # the same time either way, so they are computed as scalars. The sign is arithmetic, not a
    # branch. bench/noise.py measures the effect. Callers convert the noisy sum to a Python
    # integer, never the noise.
    """
    words = entropy.words(1)
    prefixes = (words >> np.uint64(WORD + 1 - bits)).view(np.int64)
    signs = -(words & ONE).view(np.int64)
    settled, guess = enclose(law, prefixes.astype(np.float64)[0], bits - 1)
    if not settled:
        magnitude = _settle(law, Uniform(entropy, int(prefixes[0]), bits - 1), int(guess))
        return -magnitude if signs[0] else magnitude
    magnitudes = np.array((guess,)).astype(np.int64)
    drawn: np.int64 = ((magnitudes ^ signs) - signs)[0]
    return drawn


def draw(law: Law, count: int, entropy: Entropy, *, bits: int = WORD) -> Integers:
    """Return ``count`` independent integers that follow ``law`` exactly.

    ``bits`` is how many random bits the doubles get to see; fewer only send more draws through
    refinement, which the tests use. A magnitude beyond 2**62 is returned as 2**62 (at the largest
    scale that has probability below exp(-4600)); callers add it to values within 2**61 and
    saturate the sum there, which is what the unbounded draw would give.
    """
    drawn = np.empty(count, dtype=np.int64)
    for start in range(0, count, CHUNK):
        words = entropy.words(min(CHUNK, count - start))
        for offset in range(0, len(words), BLOCK):
            block = words[offset : offset + BLOCK]
            drawn[start + offset : start + offset + len(block)] = _draw(law, block, entropy, bits)
    return drawn


def _draw(law: Law, words: Words, entropy: Entropy, bits: int) -> Integers:
    """Turn each word into one draw: its lowest bit is the sign, its top bits open U."""
    prefixes = (words >> np.uint64(WORD + 1 - bits)).view(np.int64)
    settled, guesses = enclose(law, prefixes.astype(np.float64), bits - 1)
    magnitudes = guesses.astype(np.int64)
    for index in np.flatnonzero(~settled):
        number = Uniform(entropy, int(prefixes[index]), bits - 1)
        magnitudes[index] = min(_settle(law, number, int(guesses[index])), LARGEST_NOISE)
    signs = -(words & ONE).view(np.int64)
    return (magnitudes ^ signs) - signs


@overload
def enclose(law: Law, prefixes: np.float64, bits: int) -> tuple[np.bool_, np.float64]: ...
@overload
def enclose(law: Law, prefixes: Floats, bits: int) -> tuple[NDArray[np.bool_], Floats]: ...
def enclose(law: Law, prefixes: Reals, bits: int) -> tuple[Reals, Reals]:
    """Return which magnitudes are settled by the first ``bits`` digits of U, and their values.

    ``prefixes`` are those digits as integers, rounded to doubles. The rounding, like that of the
    sum with 1/2, is one of those of U that ``slack`` allows for.

    Why: with v = prefix, U lies in [v, v + 1] / 2**bits, so for v >= 1 its logarithm is within
    1 / (2v) <= 1 / (v + 1/2) of that of the centre; hence the real magnitude is within
    scale * (slack + 2 / (v + 1/2)) of its value at the centre. Where both ends of this interval
    have the same floor, no later digit can change it. Nothing is claimed for v = 0, where the
    logarithm is unbounded.
    """
    centre = (prefixes + 0.5) * 2.0**-bits
    value = law.scale * law.magnitude(centre) + law.shift
    margin = law.scale * (law.slack + 2.0 ** (1 - bits) / centre)
    low = np.floor(np.maximum(value - margin, 0.0))
    return (low == np.floor(value + margin)) & (prefixes > 0), low


def _settle(law: Law, number: Uniform, guess: int) -> int:
    """Return the greatest k with U < P(|Z| >= k)."""
    return _greatest(lambda k: number.is_below(lambda: law.tail(k)), guess)


def rounded_variance(variance: float) -> float:
    """Return the variance after rounding to integers; noise far below one is rounded away.

    Why: rounding adds that of an even number between -1/2 and 1/2, which is 1 / 12.
    """
    return variance + min(variance, 1.0 / 12.0)


def half_width(law: Law, miss: Fraction) -> int:
    """Return the least w with P(|Z| > w) <= miss, exactly.

    Why: P(|Z| > w) = P(|Z| >= w + 1), which falls as w grows.
    """
    return first_integer(lambda width: not is_above(lambda: law.tail(width + 1), miss), start=0)


def _greatest(reaches: Callable[[int], bool], guess: int) -> int:
    """Return the greatest k that ``reaches`` accepts, searching outwards from ``guess``.

    Every k <= 0 is accepted, and whatever is accepted, all below it is.
    """
    low, step = guess, 1
    while low > 0 and not reaches(low):
        low, step = low - step, 2 * step
    high, step = max(low, guess) + 1, 1
    while reaches(high):
        low, high, step = high, high + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        if middle <= 0 or reaches(middle):
            low = middle
        else:
            high = middle
    return max(low, 0)
