"""Sampling of integers by inversion, over lazily revealed bits.

The distribution of the integer Z is symmetric about zero, so a draw is a sign and a magnitude. The
magnitude is the greatest k with U < P(|Z| >= k), for U uniform on (0, 1). Doubles enclose it, for
a whole array at once. If the enclosure contains several integers, the sampler reveals more digits
of the same U and compares it with the tail P(|Z| >= k) in ball arithmetic. So the distribution is
exact: doubles never decide a case that their error bounds leave open, and no digit of U is drawn
twice.
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
    "MAX_NOISE",
    "MAX_SCALE",
    "Floats",
    "Integer",
    "Integers",
    "Law",
    "Reals",
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
"""One double or an array of doubles, which NumPy handles alike."""

Integer = int | np.int64
"""One integer: NumPy's, or Python's if the draw needed refinement and may have any size."""

MAX_SCALE: Final = 10**15
MAX_NOISE: Final = 2**62
WORD_BITS: Final = 64
BLOCK_WORDS: Final = 4096
CHUNK_WORDS: Final = 16 * BLOCK_WORDS
SIGN_BIT: Final = np.uint64(1)


class Law(Protocol):
    """An integer distribution that is symmetric about zero.

    For U = e^-t the drawn |Z| is the floor of the real number ``scale * magnitude(U) + shift``.
    When t changes by 1, ``magnitude`` changes by at most 1, or 1.26 for the normal distribution.
    The factor 2 in ``margin`` of `enclose` covers both. Over [2**-64, 1], the value of
    ``magnitude`` in doubles is within ``slack`` of the exact value; ``slack`` includes the rounding
    of ``scale``, of the final product, and of the sums in `enclose`. (If ``scale * magnitude`` is
    small, adding ``shift`` may lose more than ``slack``. But then the sum is far from the next
    integer, so the floor stays the same.)
    """

    @property
    def scale(self) -> float:
        """The factor that multiplies the magnitude."""
        ...

    @property
    def shift(self) -> float:
        """The summand added before the floor is taken: 0, or 1/2 to round."""
        ...

    @property
    def slack(self) -> float:
        """A bound on the error of the magnitude in doubles."""
        ...

    def magnitude(self, uniform: Reals) -> Reals:
        """Return the real magnitude for one double or an array of doubles."""
        ...

    def tail(self, magnitude: int) -> arb:
        """Return a ball around P(|Z| >= magnitude) at the current precision; exactly 1 at zero."""
        ...

    def draw(self, count: int, entropy: Entropy) -> Integers:
        """Return ``count`` independent draws."""
        ...

    def draw_one(self, entropy: Entropy) -> Integer:
        """Return one draw."""
        ...


def check_scale(name: str, scale: Fraction, *, largest: int = MAX_SCALE) -> None:
    """Raise BadDeclaration above ``largest``, where noise may not fit into a 64-bit integer."""
    if scale > largest:
        raise BadDeclaration(
            f"`{name}` must be at most {largest:.0e} in grid steps. Use a coarser grid; got "
            f"{float_above(scale):.3g}."
        )


def draw_one(law: Law, entropy: Entropy, *, bits: int = WORD_BITS) -> Integer:
    """Return one draw of any size, faster than `draw`.

    For the same words, `draw` returns the same integer, clipped to [-2**62, 2**62].

    # Privacy: the running time must not depend on the size of the draw. So integers are converted
    # in one-element arrays. As a scalar, a NumPy integer takes up to 10 of 8,000 ns longer for some
    # values on some CPUs, and a Python integer takes longer the more digits it has. Doubles take
    # the same time either way, so they are computed as scalars. The sign is applied by arithmetic,
    # not by a branch, except to the rare draw that needs refinement. bench/noise.py measures the
    # effect. Callers convert the noisy sum to a Python integer, never the noise.
    """
    words = entropy.words(1)
    prefixes = (words >> np.uint64(WORD_BITS + 1 - bits)).view(np.int64)
    signs = -(words & SIGN_BIT).view(np.int64)
    settled, guess = enclose(law, prefixes.astype(np.float64)[0], bits - 1)
    if not settled:
        magnitude = _settle(law, Uniform(entropy, int(prefixes[0]), bits - 1), int(guess))
        return -magnitude if signs[0] else magnitude
    magnitudes = np.array((guess,)).astype(np.int64)
    drawn: np.int64 = ((magnitudes ^ signs) - signs)[0]
    return drawn


def draw(law: Law, count: int, entropy: Entropy, *, bits: int = WORD_BITS) -> Integers:
    """Return ``count`` independent integers whose distribution is exactly ``law``.

    ``bits`` is the number of random bits that doubles use. With fewer bits, more draws need
    refinement; only tests use this. A magnitude above 2**62 is returned as 2**62 (at the largest
    scale, this has probability below exp(-4600)). Callers add it to values within 2**61 and
    saturate the sum there, so the result is that of the unbounded draw.
    """
    drawn = np.empty(count, dtype=np.int64)
    for start in range(0, count, CHUNK_WORDS):
        words = entropy.words(min(CHUNK_WORDS, count - start))
        for offset in range(0, len(words), BLOCK_WORDS):
            block = words[offset : offset + BLOCK_WORDS]
            drawn[start + offset : start + offset + len(block)] = _draw(law, block, entropy, bits)
    return drawn


def _draw(law: Law, words: Words, entropy: Entropy, bits: int) -> Integers:
    """Convert each word to one draw: its lowest bit is the sign, its top bits start U."""
    prefixes = (words >> np.uint64(WORD_BITS + 1 - bits)).view(np.int64)
    settled, guesses = enclose(law, prefixes.astype(np.float64), bits - 1)
    magnitudes = guesses.astype(np.int64)
    for index in np.flatnonzero(~settled):
        number = Uniform(entropy, int(prefixes[index]), bits - 1)
        magnitudes[index] = min(_settle(law, number, int(guesses[index])), MAX_NOISE)
    signs = -(words & SIGN_BIT).view(np.int64)
    return (magnitudes ^ signs) - signs


@overload
def enclose(law: Law, prefixes: np.float64, bits: int) -> tuple[np.bool_, np.float64]: ...
@overload
def enclose(law: Law, prefixes: Floats, bits: int) -> tuple[NDArray[np.bool_], Floats]: ...
def enclose(law: Law, prefixes: Reals, bits: int) -> tuple[Reals, Reals]:
    """Return a mask of the magnitudes known after ``bits`` digits of U, and a value for each.

    Values that are not yet known are guesses. ``prefixes`` are the digits as integers, rounded to
    doubles. ``law.slack`` allows for this rounding and for that of the sum with 1/2.

    Why: with v = prefix, U lies in [v, v + 1] / 2**bits. So for v >= 1 its logarithm is within
    1 / (2v) <= 1 / (v + 1/2) of the logarithm at the center. Hence the real magnitude is within
    scale * (slack + 2 / (v + 1/2)) of its value at the center. If both ends of this interval
    have the same floor, no later digit can change it. Nothing is claimed for v = 0, where the
    logarithm is unbounded.
    """
    center = (prefixes + 0.5) * 2.0**-bits
    value = law.scale * law.magnitude(center) + law.shift
    margin = law.scale * (law.slack + 2.0 ** (1 - bits) / center)
    low = np.floor(np.maximum(value - margin, 0.0))
    return (low == np.floor(value + margin)) & (prefixes > 0), low


def _settle(law: Law, number: Uniform, guess: int) -> int:
    """Return the greatest k with U < P(|Z| >= k); reveal digits of U, in ``number``, as needed."""
    return _greatest(lambda k: number.is_below(lambda: law.tail(k)), guess)


def rounded_variance(variance: float) -> float:
    """Return approximately the variance of noise after rounding to integers.

    Why: rounding adds about the variance of a uniform variable on [-1/2, 1/2], which is 1 / 12,
    unless the noise is so small that it rounds to zero.
    """
    return variance + min(variance, 1.0 / 12.0)


def half_width(law: Law, miss: Fraction) -> int:
    """Return the smallest integer w >= 0 with P(|Z| > w) <= miss, exactly.

    Why: P(|Z| > w) = P(|Z| >= w + 1), which decreases in w.
    """
    return first_integer(lambda width: not is_above(lambda: law.tail(width + 1), miss), start=0)


def _greatest(reaches: Callable[[int], bool], guess: int) -> int:
    """Return the greatest k for which ``reaches`` is true, searching outward from ``guess``.

    ``reaches`` must be true for every k <= 0, and for every k below one for which it is true.
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
