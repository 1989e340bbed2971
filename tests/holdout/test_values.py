"""Values are checked, and means keep the error bound that their sensitivity assumes."""

import math
from fractions import Fraction
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import BadDeclaration
from confide.holdout.values import (
    BLOCK_ROWS,
    BLOCK_VALUES,
    LARGE_BLOCK_ROWS,
    LINE_VALUES,
    MEAN_ERROR,
    Array,
    check_guess,
    check_range,
    guess_of,
    guesses_of,
    mean_of,
    means_of,
    read_column,
    read_matrix,
    sensitivity,
)
from support.entropy import SeededEntropy

UNIT = st.floats(0, 1, allow_subnormal=True)


def exact_mean(values: list[float]) -> Fraction:
    return sum(map(Fraction, values), Fraction(0)) / len(values)


@given(st.lists(UNIT, min_size=1, max_size=300))
def test_means_are_near_the_true_ones(values: list[float]) -> None:
    """The mean of a column, alone or in a matrix, is within MEAN_ERROR of the exact one."""
    array = np.array(values)

    assert abs(exact_mean(values) - Fraction(mean_of("x", array))) <= MEAN_ERROR
    matrix = np.ascontiguousarray(np.stack([array, array[::-1]], axis=1))
    for mean in means_of("x", matrix):
        assert abs(exact_mean(values) - Fraction(float(mean))) <= MEAN_ERROR


def test_long_columns_are_as_near() -> None:
    """Over several blocks, with sums that floats round, the error stays within MEAN_ERROR."""
    values = np.linspace(0, 1, 3 * BLOCK_ROWS + 17) ** 3

    assert abs(exact_mean(values.tolist()) - Fraction(mean_of("x", values))) <= MEAN_ERROR


def test_the_longest_columns_are_as_near(entropy: SeededEntropy) -> None:
    """Means that are summed in lines and large blocks, or by column, are within MEAN_ERROR too."""
    counts = entropy.words(LARGE_BLOCK_ROWS + BLOCK_ROWS + 5) >> np.uint64(11)
    values, exact = counts / 2**53, Fraction(sum(counts.tolist()), 2**53 * len(counts))

    for array in (values, values[::-1]):
        assert abs(exact - Fraction(mean_of("x", array))) <= MEAN_ERROR
        assert abs(exact - Fraction(guess_of("x", array))) <= MEAN_ERROR
    assert abs(exact - Fraction(float(means_of("x", values[:, None])[0]))) <= MEAN_ERROR


@pytest.mark.parametrize("width", [1, 3, 500, LINE_VALUES // 2, LINE_VALUES, LINE_VALUES + 1])
@pytest.mark.parametrize("order", ["C", "F"])
def test_matrices_of_any_width_keep_the_error(
    width: int, order: Literal["C", "F"], entropy: SeededEntropy
) -> None:
    """The means of narrow and wide matrices, in either memory order, are within MEAN_ERROR."""
    rows = BLOCK_VALUES // width + 5
    counts = (entropy.words(rows * width) >> np.uint64(11)).reshape(rows, width)
    matrix, sums = np.asarray(counts / 2**53, order=order), counts.astype(object).sum(axis=0)

    for work in (means_of, guesses_of):
        for total, mean in zip(sums, work("x", matrix), strict=True):
            assert abs(Fraction(int(total), 2**53 * rows) - Fraction(float(mean))) <= MEAN_ERROR


@pytest.mark.parametrize("kind", ["f2", "f4", ">f8"])
def test_narrow_floats_are_added_in_doubles(kind: str) -> None:
    """Guesses from half and single precision are exact if the sum is exact in doubles."""
    matrix = np.full((7 * LINE_VALUES + 1, 5), 0.75, dtype=kind)

    assert [0.75] * 5 == guesses_of("x", matrix).tolist()


@given(st.lists(UNIT, min_size=2, max_size=100), UNIT)
def test_one_row_moves_a_mean_by_the_sensitivity_at_most(values: list[float], other: float) -> None:
    """Replacing a row changes the computed mean by at most `sensitivity`."""
    changed = [other, *values[1:]]
    moved = Fraction(mean_of("x", np.array(values))) - Fraction(mean_of("x", np.array(changed)))

    assert abs(moved) <= sensitivity(len(values))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1e-300, 1 + 2**-52, 2.0, -0.5])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_values_outside_are_refused(bad: float, kind: type) -> None:
    """NaN and values outside [0, 1] are refused at every position."""
    if kind is np.float32 and np.float32(bad) in (np.float32(1), np.float32(0)):
        bad = -0.5
    for place in (0, 5_000, BLOCK_ROWS + 3):
        values: Array = np.full(BLOCK_ROWS + 10, 0.5, dtype=kind)
        values[place] = bad
        with pytest.raises(BadDeclaration, match=r"\[0, 1\]"):
            mean_of("x", values)
    matrix: Array = np.full((200, 3), 0.5, dtype=kind)
    matrix[150, 1] = bad
    with pytest.raises(BadDeclaration, match=r"\[0, 1\]"):
        means_of("x", matrix)


def test_infinities_that_cancel_are_refused_without_a_warning() -> None:
    """Infinities that cancel in a sum are refused without a NumPy warning."""
    values = np.full(4 * BLOCK_ROWS, 0.5)
    values[:2] = math.inf, -math.inf
    for work, given_values in ((mean_of, values), (guess_of, values), (means_of, values[:, None])):
        with pytest.raises(BadDeclaration, match=r"\[0, 1\]"):
            work("x", given_values)
    with pytest.raises(BadDeclaration, match=r"\[0, 1\]"):
        guesses_of("x", np.stack([values, values], axis=1))


@pytest.mark.parametrize("kind", [">f8", "<f8", ">f4", "<f4", "f2"])
def test_the_order_of_bytes_does_not_matter(kind: str) -> None:
    """Floats of either byte order are checked correctly."""
    for bad in (2.0, -0.5, math.nan):
        values = np.full(3 * BLOCK_ROWS, 0.25, dtype=kind)
        values[7] = bad
        for work in (mean_of, check_range):
            with pytest.raises(BadDeclaration, match=r"\[0, 1\]"):
                work("x", values)

    assert 0.25 == mean_of("x", np.full(3 * BLOCK_ROWS, 0.25, dtype=kind))


def test_the_ends_of_the_range_pass() -> None:
    """0, -0, 1 and the smallest floats are accepted, and so are Booleans and integers."""
    edges = np.array([0.0, -0.0, 1.0, 5e-324, 1 - 2**-53])

    assert pytest.approx(0.4) == mean_of("x", edges)
    assert 0.5 == mean_of("x", np.array([True, False]))
    assert 0.5 == mean_of("x", np.array([0, 1, 1, 0], dtype=np.uint8))
    assert [0.5] == means_of("x", np.array([[0], [1]])).tolist()
    assert [0.5, 1.0] == means_of("x", np.array([[False, True], [True, True]])).tolist()


def test_wrong_shapes_are_refused() -> None:
    """Columns need one number per row; matrices need one column per query."""
    assert 3 == len(read_column("x", [[0.1], [0.2], [0.3]], 3))
    for bad in ([0.1, 0.2], [[0.1, 0.2]] * 3, ["a", "b", "c"], 0.5, [None, 1, 2], [1j, 0, 0]):
        with pytest.raises(BadDeclaration):
            read_column("x", bad, 3)
    for wrong in ([0.1, 0.2, 0.3], np.zeros((2, 4)), np.zeros((3, 0))):
        with pytest.raises(BadDeclaration):
            read_matrix("x", wrong, 3)


def test_a_guess_is_looked_at_through_its_mean() -> None:
    """A guess from a long array is refused if its mean is outside [0, 1]."""
    assert 0.25 == guess_of("x", np.full(BLOCK_ROWS + 1, 0.25))
    for bad in (math.nan, 2.0, -3.0):
        with pytest.raises(BadDeclaration):
            guess_of("x", np.full(BLOCK_ROWS + 1, bad))
    for wrong in (True, "0.5", 1.5, -0.1, math.nan, None):
        with pytest.raises(BadDeclaration):
            check_guess("guess", wrong)


@pytest.mark.parametrize("guess", [Fraction(10**400), -0.1, math.nan, 1j, np.complex128(1), True])
def test_guesses_outside_are_refused(guess: object) -> None:
    """A guess that is not a real number in [0, 1] is refused."""
    with pytest.raises(BadDeclaration, match=r"\[0, 1\]"):
        check_guess("guess", guess)
