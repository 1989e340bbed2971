"""Random questions about random declarations, as `make soak` asks them for an hour."""

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
    """Return random choices that depend on the run's seed."""
    return np.random.default_rng(int(entropy.words(1)[0]))


def test_no_unit_moves_totals_too_far_under_random_declarations(rng: np.random.Generator) -> None:
    """Types, bounds, keys, limits and joins at random: 3,200 pairs keep within their plans."""
    problems = [problem for _ in range(ROUNDS) for problem in soak.compare_declared(rng)]

    assert [] == problems


def test_a_plan_that_falls_short_is_found(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With plans for nine tenths of what a unit can move, the same rounds find some that does."""

    def are_near(plan: Plan, moved: Iterable[Moved]) -> bool:
        return all(one.part(plan) <= Fraction(9, 10) for one in moved)

    monkeypatch.setattr(soak, "passes", are_near)

    assert any(soak.compare_declared(rng) for _ in range(ROUNDS))
