"""Exact reading of the numbers that callers pass."""

from fractions import Fraction

import pytest

from confide.errors import BadDeclaration
from confide.exact import MAX_DECIMAL_EXPONENT, MAX_NUMBER_LENGTH, positive

BEYOND = MAX_DECIMAL_EXPONENT + 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1/3", Fraction(1, 3)),
        (" 2.5e-3 ", Fraction(1, 400)),
        ("1_000", Fraction(1_000)),
        ("1e0000000000000000000000002", Fraction(100)),
        (f"1e-{MAX_DECIMAL_EXPONENT}", Fraction(1, 10**MAX_DECIMAL_EXPONENT)),
    ],
)
def test_a_string_is_read_exactly(text: str, expected: Fraction) -> None:
    """A string is read as a fraction, without rounding."""
    assert expected == positive("epsilon", text)


@pytest.mark.parametrize(
    "text",
    [
        f"1e{BEYOND}",
        f"1e-{BEYOND}",
        f"1e{'0' * 30}{BEYOND}",
        f"1e+{BEYOND:_}",
        "1e" + "".join(chr(ord("\u0660") + int(digit)) for digit in str(BEYOND)),
        "\u0661",
        "9" * (MAX_NUMBER_LENGTH + 1),
        "1e_5",
        "1e5_",
        "1/0",
        "",
    ],
)
def test_a_string_that_could_fill_the_memory_is_refused(text: str) -> None:
    """A string with a huge exponent, or that is not a number, is refused."""
    with pytest.raises(BadDeclaration, match="`epsilon` must be a finite number greater than 0"):
        positive("epsilon", text)
