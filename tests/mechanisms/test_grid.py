"""Rounding to the grid is exact, keeps order, and commutes with full steps."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import BadDeclaration
from confide.mechanisms.grid import MAX_VALUE, Grid, read_integers, saturate
from confide.noise import DiscreteLaplace
from support.scripted import ScriptedEntropy

STEPS = st.sampled_from([Fraction(1), Fraction(1, 10), Fraction(1, 3), Fraction(7, 2)])
REALS = st.floats(-1e9, 1e9, allow_nan=False)


def nearest(value: float, step: Fraction) -> int:
    """Return the exact result: the decimal that the double prints as, rounded with ties upward."""
    exact = Fraction(value) if value.is_integer() else Fraction(repr(value))
    return (exact / step + Fraction(1, 2)).__floor__()


@given(value=REALS, step=STEPS)
def test_rounding_is_exact(value: float, step: Fraction) -> None:
    """Every double is rounded to the multiple of the step that is closest in fractions."""
    assert nearest(value, step) == int(Grid(step).read(value))


@given(count=st.integers(-(10**6), 10**6), step=STEPS, ulps=st.integers(-3, 3))
def test_rounding_is_exact_next_to_ties(count: int, step: Fraction, ulps: int) -> None:
    """A double on a tie, or a few units in the last place from it, is rounded correctly."""
    tie = float((count + Fraction(1, 2)) * step)
    value = tie + ulps * float(np.spacing(tie))

    assert nearest(value, step) == int(Grid(step).read(value))


@pytest.mark.parametrize(("value", "steps"), [(0.5, 1), (-0.5, 0), (1.5, 2), (2.5, 3), (-2.5, -2)])
def test_ties_round_upward(value: float, steps: int) -> None:
    """A tie is rounded toward plus infinity, on both sides of zero."""
    assert steps == int(Grid(Fraction(1)).read(value))


def test_a_decimal_tie_is_a_tie() -> None:
    """With step 0.1, a change from 0.15 to 0.25 is one step, despite their binary values."""
    assert [2, 3, 4, 5] == Grid(Fraction(1, 10)).read([0.15, 0.25, 0.35, 0.45]).tolist()


@given(cents=st.integers(-(10**7), 10**7), moves=st.integers(-1000, 1000))
def test_rounding_commutes_with_whole_steps(cents: int, moves: int) -> None:
    """A decimal that changes by k full steps changes by k steps after rounding."""
    grid = Grid(Fraction(1, 10))
    before, after = cents / 100, (cents + 10 * moves) / 100

    assert moves == int(grid.read(after)) - int(grid.read(before))


@given(values=st.tuples(REALS, REALS), step=STEPS)
def test_rounding_keeps_order(values: tuple[float, float], step: Fraction) -> None:
    """The smaller of two numbers is not the larger one after rounding."""
    low, high = Grid(step).read(sorted(values)).tolist()

    assert low <= high


@given(
    start=st.lists(st.fractions(-50, 50), min_size=3, max_size=3),
    moves=st.lists(st.fractions(-3, 3), min_size=3, max_size=3),
    step=STEPS,
)
def test_moves_counts_what_rounding_adds(
    start: list[Fraction], moves: list[Fraction], step: Fraction
) -> None:
    """The total change of rounded cells never exceeds `moves`, for one cell or several."""

    def rounded(value: Fraction) -> int:
        return (value / step + Fraction(1, 2)).__floor__()

    far = [abs(rounded(x + m) - rounded(x)) for x, m in zip(start, moves, strict=True)]
    grid, total = Grid(step), sum(map(abs, moves), Fraction(0))

    assert sum(far) <= grid.sensitivity_in_steps(total, 3) or total == 0
    assert all(
        one <= grid.sensitivity_in_steps(abs(move), 1) for one, move in zip(far, moves, strict=True)
    )


def test_moves_is_attained() -> None:
    """Two cells that share one step can change by two, and `moves` allows no more."""
    grid = Grid(Fraction(1))
    before, after = grid.read([0.4, 0.4]), grid.read([0.9, 0.9])

    assert 2 == int(np.abs(after - before).sum()) == grid.sensitivity_in_steps(Fraction(1), 2)


@pytest.mark.parametrize("value", [2**53 + 1, 2**60 + 1, -(2**61) + 1, MAX_VALUE])
def test_integers_beyond_doubles_are_kept(value: int) -> None:
    """Integers that no double represents are read unchanged, with and without a grid."""
    assert value == int(Grid().read(value))
    assert value == int(Grid(Fraction(1)).read(np.array([value]))[0])
    assert [value // 2 + value % 2] == Grid(Fraction(2)).read(np.array([value])).tolist()


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_every_integer_array_is_read(kind: str) -> None:
    """Arrays of every integer type are read exactly."""
    assert [0, 1, 100] == read_integers("x", np.array([0, 1, 100], dtype=kind)).tolist()


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "longdouble"])
def test_every_float_array_is_read(kind: str) -> None:
    """Arrays of every float type are rounded, with ties upward."""
    array = np.array([0.5, 2.5, -1.25], dtype=kind)

    assert [1, 3, -1] == Grid(Fraction(1)).read(array).tolist()


def test_form_is_kept() -> None:
    """A number, a list, or an array is returned in the same form and unit."""
    grid = Grid(Fraction(1, 2))

    assert 1.5 == grid.write(np.array(3), 1.4)
    assert [1.5, 2.0] == grid.write(np.array([3, 4]), [1.4, 2.1])
    assert (1, 2) == grid.write(np.array([[3, 4]]), np.array([[1.4, 2.1]])).shape
    assert type(Grid().write(np.array(3), 3)) is int


@pytest.mark.parametrize("value", [MAX_VALUE, -MAX_VALUE])
def test_answers_saturate(value: int) -> None:
    """Single and array answers never exceed 2**61 in absolute value."""
    law = DiscreteLaplace(Fraction(10**15))
    outwards, inwards = 2**60 + (value < 0), 2**60 + (value > 0)  # the last bit is the sign

    assert value == Grid().add_noise(law, value, ScriptedEntropy([outwards]))
    assert abs(value) > abs(Grid().add_noise(law, value, ScriptedEntropy([inwards])))
    noisy = Grid().add_noise(law, np.array([value] * 2), ScriptedEntropy([outwards, inwards]))
    assert value == noisy[0]
    assert abs(value) > abs(noisy[1])
    assert (MAX_VALUE, -MAX_VALUE) == (saturate(2**70), saturate(-(2**70)))


def test_the_last_step_inside_is_exact() -> None:
    """2**61 grid steps are allowed, and twice that is refused."""
    assert [MAX_VALUE] == Grid(Fraction(4)).read([2.0**63]).tolist()
    with pytest.raises(BadDeclaration, match="2\\*\\*61"):
        Grid(Fraction(4)).read([2.0**64])
