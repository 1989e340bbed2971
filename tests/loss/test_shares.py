import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import BadDeclaration
from confide.loss import UNITS, Share


def test_the_units_fit_every_database() -> None:
    """The total is below 2**62, and common fractions of it are integers."""
    assert UNITS < 2**62
    assert [] == [k for k in [*range(1, 23), 10**9] if UNITS % k]


def test_small_denominators_always_fit() -> None:
    """For every k up to 2000, k requests of 1/k fit, as fractions or as floats."""
    for k in range(1, 2001):
        assert k * Share.floor(Fraction(1, k)).units <= UNITS
        assert k * Share.floor(1 / k).units <= UNITS


@given(st.integers(2001, 10**6))
def test_large_denominators_always_fit(k: int) -> None:
    """For k up to 10**6, k requests of 1/k fit, and leave fewer than k units."""
    units = k * Share.floor(Fraction(1, k)).units

    assert UNITS - k < units <= UNITS
    assert k * Share.floor(1 / k).units <= UNITS


def test_the_float_rule_is_needed() -> None:
    """Eleven times the decimal of the float 1 / 11 exceeds the total."""
    assert 11 * math.floor(Fraction(repr(1 / 11)) * UNITS) > UNITS


@given(st.fractions(min_value=Fraction(1, 10**15), max_value=1))
def test_rounding_has_a_direction(value: Fraction) -> None:
    """A granted share is at most the request, and a charged share is at least the cost."""
    assert Share.floor(value).fraction <= value <= Share.ceil(value).fraction
    assert Share.ceil(value).units - Share.floor(value).units <= 1


@pytest.mark.parametrize("value", [0.25, "25%", " 25 %", "1/4", Fraction(1, 4), "0.25"])
def test_a_share_is_read_as_typed(value: object) -> None:
    """Numbers, decimals, fractions, and percentages are read exactly."""
    assert Fraction(1, 4) == Share.floor(value).fraction


@pytest.mark.parametrize(
    "bad", [0, -1, "-1%", math.nan, math.inf, "x%", "", None, True, 1e-30, [1], 10**30]
)
def test_a_bad_share_is_named(bad: object) -> None:
    """A request that is not a number above 0, or is below one unit, raises an error."""
    with pytest.raises(BadDeclaration, match="`share` must be"):
        Share.floor(bad)


def test_the_smallest_share_is_reported_where_it_matters() -> None:
    """Only the error for a share that is too small reports the smallest share."""
    with pytest.raises(
        BadDeclaration, match=r'greater than 0 and at most 1, such as 0.05 or "5%"; got 5000'
    ):
        Share.floor(5000)
    with pytest.raises(BadDeclaration, match=f"`share` must be at least 1/{UNITS};"):
        Share.floor(1e-30)


@pytest.mark.parametrize("bad", [-1, 1.0, 2**63, "1", None, True])
def test_bad_units_are_named(bad: int) -> None:
    """Units that are not an integer of at most 63 bits raise an error that names them."""
    with pytest.raises(BadDeclaration, match="`units` must be"):
        Share(bad)


def test_shares_add_and_compare() -> None:
    """Shares are added and compared by their units."""
    assert Share(5) == Share(2) + Share(3)
    assert Share(2) == Share(5) - Share(3)
    assert Share(2) < Share(3)
    with pytest.raises(BadDeclaration, match="units"):
        Share(2) - Share(3)
