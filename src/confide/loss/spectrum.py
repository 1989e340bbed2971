"""Fourier transforms of laws on a circle, each with a bound of its rounding errors."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Spectrum"]

_ROUNDING = 2.0**-53
_PER_LEVEL = 8.0
_PRODUCT = 4.0


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """The transform of a non-negative array of length ``size``, a power of 2.

    Claim:   each exact coefficient is within ``error`` of ``value``, entry by entry.
    Why:     an output of a fast transform of length 2^k is a sum in which each input passes one
             path of k butterflies, multiplied by roots of unity; with at most 8 units of
             rounding a butterfly its error is at most 8 k u times the sum of the inputs (a
             complex product errs by less than sqrt(5) u, a sum by u, a root by u). Products and
             squares carry their factors' errors along.
    Source:  [Hig02] chapter 24; [BPZ07] for complex products.
    Checked: tests/loss/test_spectrum.py, against transforms in extended precision.
    """

    size: int
    value: NDArray[np.complex128]
    error: NDArray[np.float64]

    @classmethod
    def of(cls, law: NDArray[np.float64]) -> "Spectrum":
        """Transform a law."""
        value = np.fft.rfft(law)
        error = np.full(len(value), _fft_error(len(law)) * law.sum())
        return cls(len(law), value, error)

    def times(self, other: "Spectrum") -> "Spectrum":
        """Multiply coefficients: the law of the sum of two independent places."""
        mine, its = np.abs(self.value), np.abs(other.value)
        error = mine * other.error + its * self.error + self.error * other.error
        error += _PRODUCT * _ROUNDING * mine * its
        return Spectrum(self.size, self.value * other.value, error)

    def power(self, exponent: int) -> "Spectrum":
        """Multiply with itself, ``exponent`` >= 1 times in all."""
        found = None
        square = self
        while True:
            if exponent & 1:
                found = square if found is None else found.times(square)
            exponent >>= 1
            if not exponent:
                break
            square = square.times(square)
        return found if found is not None else self

    def law_above(self) -> NDArray[np.float64]:
        """Return the law, each mass at least the exact one."""
        law: NDArray[np.float64] = np.fft.irfft(self.value, self.size)
        length = np.abs(self.value)
        total = 2 * (self.error.sum() + _fft_error(self.size) * length.sum()) / self.size
        # One percent covers the errors of the errors, 1e-290 all that has underflowed.
        return np.maximum(law, 0.0) + np.float64(1.01 * total + 1e-290)


def _fft_error(size: int) -> float:
    return _PER_LEVEL * _ROUNDING * (size.bit_length() - 1)
