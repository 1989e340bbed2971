"""Values to whole grid steps, and back after the noise."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from confide.errors import BadDeclaration
from confide.exact import Number, positive
from confide.noise import Entropy, Integer, Integers, Law, half_width

__all__ = ["LARGEST_VALUE", "Grid", "Values", "read_one", "read_whole", "saturate"]

LARGEST_VALUE: Final = 2**61
WHOLE: Final = f"whole numbers from -2**61 to 2**61 (a value beyond {LARGEST_VALUE} would overflow)"
NEAR_TIE: Final = 2.0**-40
SMALLEST_STEP: Final = Fraction(1, 10**250)

Values = int | float | Sequence[int] | Sequence[float] | NDArray[Any]


@dataclass(frozen=True, slots=True)
class Grid:
    """Multiples of ``step``; without a step, the integers themselves.

    Claim: rounding to the nearest multiple, ties upwards, commutes with moves by whole steps and
           never reverses an order. So a number that moves by at most a whole number of steps
           still does after rounding; otherwise it moves by less than one step more.
    Why:   floor(x / step + 1/2) is increasing, and adding a whole step adds exactly 1. Doubles
           only propose; whatever lies near a tie is rounded in exact arithmetic. There a double
           with a fraction means the decimal that prints it, as everywhere: with step 0.1 both
           0.15 and 0.25 are ties, although the binary number behind 0.15 lies below one.
    """

    step: Fraction | None = None

    @classmethod
    def of(cls, step: Number | None) -> "Grid":
        """Return the grid that a caller asked for."""
        if step is None:
            return cls()
        exact = positive("grid", step)
        if not SMALLEST_STEP <= exact <= 1 / SMALLEST_STEP:
            raise BadDeclaration(f"grid must be a number from 1e-250 to 1e250, got {step!r}")
        return cls(exact)

    def read(self, values: Values, name: str = "x") -> Integers:
        """Return the values in grid steps, as an array of the same shape (0-d for one value)."""
        if self.step is None:
            return read_whole(name, values)
        array = _as_array(name, values)
        if array.dtype.kind not in "iuf":
            raise BadDeclaration(f"{name} must be real numbers, got {_describe(values)}")
        with np.errstate(over="ignore"):
            near = array.astype(np.float64)
            inside = np.abs(near / float(self.step)) <= LARGEST_VALUE
        if not inside.all():
            raise BadDeclaration(
                f"{name} must be finite and within 2**61 grid steps of 0, got NaN or a larger one"
            )
        return _round_to_steps(near, near if array.dtype.kind == "f" else array, self.step)

    def write(self, steps: Integers, like: Values) -> Any:
        """Return noisy steps in the form and unit of the values that went in."""
        scaled: NDArray[Any] = steps if self.step is None else steps * float(self.step)
        if isinstance(like, np.ndarray) and like.ndim:
            return scaled
        return scaled.tolist()

    def add_noise(self, law: Law, values: Values, entropy: Entropy) -> Any:
        """Return the values plus independent draws of ``law``, on the grid.

        # Privacy: the sum is saturated, not the noise alone, so that the result is a function of
        # value + noise only.
        """
        steps = self.read(values)
        if steps.ndim == 0:
            noisy = np.array(saturate(int(steps) + law.draw_one(entropy)))
        else:
            noise = law.draw(steps.size, entropy).reshape(steps.shape)
            noisy = np.clip(steps + noise, -LARGEST_VALUE, LARGEST_VALUE)
        return self.write(noisy, values)

    def interval(self, law: Law, confidence: Fraction) -> tuple[Any, Any]:
        """Return the narrowest symmetric range that holds the noise with this confidence."""
        width = half_width(law, 1 - confidence)
        reach = width if self.step is None else width * float(self.step)
        return -reach, reach

    def moves(self, sensitivity: Fraction, cells: int | None) -> Fraction:
        """Return in steps how far values can move (sum over cells) that truly move this far."""
        if self.step is None:
            return sensitivity
        ratio = sensitivity / self.step
        return Fraction(-(-ratio.numerator // ratio.denominator) + (cells or 1) - 1)

    def check_cells(self, values: Values, cells: int | None) -> None:
        """Refuse real arrays when nobody said how many of their cells can move at once."""
        if self.step is not None and cells is None and _as_array("x", values).size > 1:
            raise BadDeclaration(
                "cells must be given with grid= for more than one number: how many of them one "
                "unit can change (rounding moves each of those by up to a step)"
            )


def saturate(value: Integer) -> int:
    """Return the value, or the nearest end of what an answer may be."""
    return int(max(-LARGEST_VALUE, min(value, LARGEST_VALUE)))


def read_one(name: str, value: object) -> int:
    """Return one whole number within 2**61, or refuse it without quoting it."""
    array = read_whole(name, value)
    if array.ndim:
        raise BadDeclaration(f"{name} must be one whole number, got {_describe(value)}")
    return int(array)


def read_whole(name: str, values: object, *, least: int = 1) -> Integers:
    """Return whole numbers within 2**61, ``least`` or more of them, or refuse them."""
    array = _as_array(name, values, least)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind == "f":
        raise BadDeclaration(
            f"{name} must be {WHOLE}, got floats; pass grid= to round real numbers"
        )
    if array.dtype.kind == "O" and all(type(item) is int for item in array.flat):
        inside = all(abs(item) <= LARGEST_VALUE for item in array.flat)
    elif array.dtype.kind in "iu":
        inside = bool((array <= LARGEST_VALUE).all() and (array >= -LARGEST_VALUE).all())
    else:
        raise BadDeclaration(f"{name} must be {WHOLE}, got {_describe(values)}")
    if not inside:
        raise BadDeclaration(f"{name} must be {WHOLE}, got a larger one")
    return array.astype(np.int64)


def _as_array(name: str, values: object, least: int = 1) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError, TypeError) as error:
        raise BadDeclaration(f"{name} must be numbers, got {_describe(values)}") from error
    if array.size < least:
        raise BadDeclaration(f"{name} must hold at least one number, got none")
    return array


def _describe(values: object) -> str:
    if isinstance(values, np.ndarray):
        return f"an array of {values.dtype}"
    return f"{type(values).__name__}"


def _round_to_steps(near: NDArray[np.float64], exact: NDArray[Any], step: Fraction) -> Integers:
    """Round exactly: doubles where they leave no doubt, fractions elsewhere."""
    quotient = near / float(step)
    rounded = np.floor(quotient + 0.5)
    doubtful = np.abs(quotient - rounded) >= 0.5 - NEAR_TIE * np.maximum(1.0, np.abs(quotient))
    steps = np.atleast_1d(rounded.astype(np.int64))
    flat, values = steps.reshape(-1), np.atleast_1d(exact).reshape(-1)
    for index in np.flatnonzero(doubtful):
        item = values[index].item()
        ratio = Fraction(item if item % 1 == 0 else repr(item)) / step + Fraction(1, 2)
        flat[index] = ratio.numerator // ratio.denominator
    # Doubles saw that values are about inside; cutting off the rest moves none farther.
    return np.clip(flat, -LARGEST_VALUE, LARGEST_VALUE).reshape(exact.shape)
