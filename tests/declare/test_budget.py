"""Budgets are exact and valid."""

from fractions import Fraction
from typing import Any

import pytest

from confide.declare import Budget
from confide.errors import BadDeclaration


def test_a_budget_is_what_was_written() -> None:
    """Epsilon and delta are the decimals that the owner wrote."""
    budget = Budget(0.1, 1e-8)

    assert (Fraction(1, 10), Fraction(1, 10**8)) == (budget.epsilon, budget.delta)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epsilon": 0}, "`epsilon` must be a finite number greater than 0"),
        ({"epsilon": float("inf")}, "`epsilon` must be a finite number greater than 0"),
        ({"epsilon": 1, "delta": 1}, "`delta` must be a number at least 0 and less than 1"),
        ({"epsilon": 1, "delta": -1e-9}, "`delta` must be a number at least 0 and less than 1"),
        ({"epsilon": 1, "accounting": "zcdp"}, "must be auto, pure, gaussian, or renyi;"),
        ({"epsilon": 1, "accounting": "gaussian"}, "needs a `delta` greater than 0"),
        ({"epsilon": 1, "accounting": "renyi"}, "needs a `delta` greater than 0"),
    ],
)
def test_a_wrong_budget_is_refused(given: dict[str, Any], said: str) -> None:
    """A budget that no filter could enforce is refused."""
    with pytest.raises(BadDeclaration) as caught:
        Budget(**given)

    assert said in str(caught.value)
