"""Rounding of numbers to a grid before noise is added, and conversion of noisy grid steps back."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from confide.errors import BadDeclaration
from confide.exact import Number, positive
from confide.noise import Entropy, Integer, Integers, Law, half_width

__all__ = ["MAX_VALUE", "Grid", "Values", "read_integers", "read_one", "saturate"]

MAX_VALUE: Final = 2**61
ALLOWED_INTEGERS: Final = (
    f"integers from -2**61 to 2**61 (a value beyond {MAX_VALUE} could overflow)"
)
TIE_MARGIN: Final = 2.0**-40
MIN_STEP: Final = Fraction(1, 10**250)

Values = int | float | Sequence[int] | Sequence[float] | NDArray[Any]


@dataclass(frozen=True, slots=True)
class Grid:
    """The multiples of ``step``, or the integers if ``step`` is None.

    Claim: rounding to the nearest multiple, ties upward, commutes with shifts by full steps and
           never reverses an order. So if a number changes by at most k full steps, it still does
           after rounding. If it changes by at most k steps and k is not an integer, the rounded
           number changes by less than k + 1 steps.
    Why:   floor(x / step + 1/2) is nondecreasing, and adding a full step to x adds exactly 1. If
           doubles show that x is close to a tie, it is rounded in exact arithmetic. As everywhere
           in confide, a double that is not an integer then means the decimal that it prints as.
           With step 0.1, both 0.15 and 0.25 are ties, although the double 0.15 is below the tie.
    """

    step: Fraction | None = None

    @classmethod
    def of(cls, step: Number | None) -> "Grid":
        """Return the grid for a caller's ``grid=`` argument."""
        if step is None:
            return cls()
        exact = positive("grid", step)
        if not MIN_STEP <= exact <= 1 / MIN_STEP:
            raise BadDeclaration(f"`grid` must be a number from 1e-250 to 1e250; got {step!r}.")
        return cls(exact)

    def read(self, values: Values, name: str = "x") -> Integers:
        """Return the values rounded to grid steps, as an array of the same shape (0-d for one)."""
        if self.step is None:
            return read_integers(name, values)
        array = _as_array(name, values)
        if array.dtype.kind not in "iuf":
            raise BadDeclaration(f"`{name}` must be real numbers; got {_describe(values)}.")
        with np.errstate(over="ignore"):
            near = array.astype(np.float64)
            inside = np.abs(near / float(self.step)) <= MAX_VALUE
        if not inside.all():
            raise BadDeclaration(
                f"`{name}` must be finite and within 2**61 grid steps of 0; got NaN or a larger "
                "number."
            )
        return _round_to_steps(near, near if array.dtype.kind == "f" else array, self.step)

    def write(self, steps: Integers, like: Values) -> Any:
        """Return noisy grid steps as numbers: a number, a list, or an array, as ``like`` is."""
        scaled: NDArray[Any] = steps if self.step is None else steps * float(self.step)
        if isinstance(like, np.ndarray) and like.ndim:
            return scaled
        return scaled.tolist()

    def add_noise(self, law: Law, values: Values, entropy: Entropy) -> Any:
        """Return the values plus independent draws of ``law``, on the grid.

        # Privacy: saturate the sum, not the noise alone, so that the result is a function of
        # value + noise only.
        """
        steps = self.read(values)
        if steps.ndim == 0:
            noisy = np.array(saturate(int(steps) + law.draw_one(entropy)))
        else:
            noise = law.draw(steps.size, entropy).reshape(steps.shape)
            noisy = np.clip(steps + noise, -MAX_VALUE, MAX_VALUE)
        return self.write(noisy, values)

    def interval(self, law: Law, confidence: Fraction) -> tuple[Any, Any]:
        """Return the narrowest symmetric range that contains the noise with this confidence."""
        steps = half_width(law, 1 - confidence)
        width = steps if self.step is None else steps * float(self.step)
        return -width, width

    def sensitivity_in_steps(self, sensitivity: Fraction, cells: int | None) -> Fraction:
        """Return the l1 sensitivity of rounded values in grid steps.

        ``sensitivity`` is that of the values before rounding; one unit changes at most ``cells``
        of them.
        """
        if self.step is None:
            return sensitivity
        ratio = sensitivity / self.step
        return Fraction(-(-ratio.numerator // ratio.denominator) + (cells or 1) - 1)

    def check_cells(self, values: Values, cells: int | None) -> None:
        """Raise BadDeclaration for several real numbers if ``cells`` is not given."""
        if self.step is not None and cells is None and _as_array("x", values).size > 1:
            raise BadDeclaration(
                "A release of several numbers with `grid=` needs `cells=`, the number of them that "
                "one unit can change, because rounding moves each by up to one step."
            )


def saturate(value: Integer) -> int:
    """Return the value, clipped to [-2**61, 2**61]."""
    return int(max(-MAX_VALUE, min(value, MAX_VALUE)))


def read_one(name: str, value: object) -> int:
    """Return one integer within 2**61, or raise an error that does not quote the value."""
    array = read_integers(name, value)
    if array.ndim:
        raise BadDeclaration(f"`{name}` must be one integer; got {_describe(value)}.")
    return int(array)


def read_integers(name: str, values: object, *, least: int = 1) -> Integers:
    """Return an array of at least ``least`` integers within 2**61."""
    array = _as_array(name, values, least)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind == "f":
        raise BadDeclaration(
            f"`{name}` must be {ALLOWED_INTEGERS}. Pass `grid=` to round real numbers; got floats."
        )
    if array.dtype.kind == "O" and all(type(item) is int for item in array.flat):
        inside = all(abs(item) <= MAX_VALUE for item in array.flat)
    elif array.dtype.kind in "iu":
        inside = bool((array <= MAX_VALUE).all() and (array >= -MAX_VALUE).all())
    else:
        raise BadDeclaration(f"`{name}` must be {ALLOWED_INTEGERS}; got {_describe(values)}.")
    if not inside:
        raise BadDeclaration(f"`{name}` must be {ALLOWED_INTEGERS}; got a larger number.")
    return array.astype(np.int64)


def _as_array(name: str, values: object, least: int = 1) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError, TypeError) as error:
        raise BadDeclaration(f"`{name}` must be numbers; got {_describe(values)}.") from error
    if array.size < least:
        raise BadDeclaration(f"`{name}` must contain at least one number; got none.")
    return array


def _describe(values: object) -> str:
    if isinstance(values, np.ndarray):
        return f"an array of {values.dtype}"
    return f"{type(values).__name__}"


def _round_to_steps(near: NDArray[np.float64], exact: NDArray[Any], step: Fraction) -> Integers:
    """Return each value rounded to grid steps: in doubles, or in fractions if close to a tie.

    ``near`` are the values as doubles; ``exact`` are the values as the caller passed them.
    """
    quotient = near / float(step)
    rounded = np.floor(quotient + 0.5)
    doubtful = np.abs(quotient - rounded) >= 0.5 - TIE_MARGIN * np.maximum(1.0, np.abs(quotient))
    steps = np.atleast_1d(rounded.astype(np.int64))
    flat, values = steps.reshape(-1), np.atleast_1d(exact).reshape(-1)
    for index in np.flatnonzero(doubtful):
        item = values[index].item()
        ratio = Fraction(item if item % 1 == 0 else repr(item)) / step + Fraction(1, 2)
        flat[index] = ratio.numerator // ratio.denominator
    # In doubles, the values are within range up to rounding; clipping only reduces changes.
    return np.clip(flat, -MAX_VALUE, MAX_VALUE).reshape(exact.shape)
