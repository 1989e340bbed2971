from fractions import Fraction

from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from confide.loss.enclosure import (
    TINY,
    bound_above,
    first_dyadic,
    last_dyadic,
    normal_tail,
    normal_tail_inverse,
    shorten_down,
    shorten_up,
)

POSITIVE = st.fractions(min_value=Fraction(1, 10**12), max_value=10**12)


@given(POSITIVE)
def test_shortening_goes_one_way_and_not_far(value: Fraction) -> None:
    """A shortened number is on the stated side of the original, within one part in 2**62."""
    assert shorten_down(value) <= value <= shorten_up(value)
    assert shorten_up(value) - shorten_down(value) <= value / 2**62


@given(POSITIVE)
def test_thresholds_are_found_from_the_safe_side(edge: Fraction) -> None:
    """The last and the first true number enclose the point where a predicate changes."""
    last = last_dyadic(lambda value: value <= edge)
    first = first_dyadic(lambda value: value >= edge)

    assert last <= edge <= first
    assert first - last <= edge / 2**60


def test_a_threshold_at_zero_is_rounded_up() -> None:
    """If the predicate is true for all numbers above 0, a small true number is returned."""
    assert Fraction(1, 2**128) == first_dyadic(lambda value: value > 0)


def test_tails_far_out_stay_narrow() -> None:
    """The tail at a million standard deviations has twenty digits, although its point is a ball."""
    with ctx.workprec(256):
        tail = normal_tail(arb(1000_003) / 3 * 3)

        assert tail > 0
        assert tail.rel_accuracy_bits() > 66


def test_bounds_are_narrower_than_floats() -> None:
    """The error of a bound is below one part in 2**60, at any precision of the caller."""
    with ctx.workprec(53):
        found = bound_above(lambda: arb(1) / 3)

    assert Fraction(1, 3) <= found <= Fraction(1, 3) * (1 + Fraction(1, 2**60))


def test_the_inverse_of_the_tail_undoes_it() -> None:
    """The inverse of the tail at a point's tail is the point."""
    with ctx.workprec(128):
        point = arb(5) / 2

        assert normal_tail_inverse(normal_tail(point)).overlaps(point)


def test_tiny_bounds_do_not_fill_the_memory() -> None:
    """The bound on a number below 2**-4096 is 2**-4096."""
    tiny = -(arb(10) ** 20)

    assert TINY == bound_above(tiny.exp)
