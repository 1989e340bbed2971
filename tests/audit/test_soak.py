"""Random queries for random declarations, as in the hour-long `make soak`."""

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

import numpy as np
import pytest
from tools import soak

from confide.plan import Plan
from support.entropy import SeededEntropy
from support.reach import Moved

ROUNDS: Final = 2


@pytest.fixture
def rng(entropy: SeededEntropy) -> np.random.Generator:
    """Return a generator that is seeded from the run's seed."""
    return np.random.default_rng(int(entropy.words(1)[0]))


def test_no_unit_moves_totals_too_far_under_random_declarations(rng: np.random.Generator) -> None:
    """With random types, bounds, keys, limits and joins, 3,200 pairs stay within their plans."""
    problems = [problem for _ in range(ROUNDS) for problem in soak.compare_declared(rng)]

    assert [] == problems


def test_a_plan_that_falls_short_is_found(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With plans for only 90% of the sensitivity, the same rounds find a violation."""

    def are_within(plan: Plan, moved: Iterable[Moved]) -> bool:
        return all(one.part(plan) <= Fraction(9, 10) for one in moved)

    monkeypatch.setattr(soak, "passes", are_within)

    assert any(soak.compare_declared(rng) for _ in range(ROUNDS))
