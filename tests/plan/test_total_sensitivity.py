"""Sensitivity of totals, tested on every small unit: few rows, few groups, extreme values."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Final

import pytest

from confide.loss import GaussianLoss, PureLoss
from confide.mechanisms import Neighbours
from confide.noise import BoxNoise, DiscreteLaplace, IndependentNoise, RoundedGaussian
from confide.plan import ContributionBounds, Measure, Total, ValueGrid
from confide.plan.calibration import noise_for
from confide.plan.sensitivity import TotalSensitivity, sensitivity_of

ROWS: Final = Total(Measure.ROWS, None, None)
UNITS: Final = Total(Measure.UNITS, None, None)
ABOVE, BELOW, ROUND, LEAN = (
    Total(Measure.VALUE, None, None, ValueGrid(Fraction(0), Fraction(1), low, high))
    for low, high in ((2, 5), (-4, 0), (-3, 3), (-1, 4))
)
ANSWERS: Final = (
    (ROWS,),
    (UNITS,),
    (ABOVE,),
    (BELOW,),
    (ROUND,),
    (LEAN,),
    (ROWS, UNITS),
    (ROWS, ROUND),
    (UNITS, LEAN),
)
LIMITS: Final = ((1, 1), (2, 1), (2, 2))

Changes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Units:
    """All units with at most this many rows and groups, and what they add to each total."""

    totals: tuple[Total, ...]
    rows: int
    groups: int
    answered: int

    def each(self) -> set[Changes]:
        """Return the totals that one unit can produce on its own, group by group."""
        kinds = list(product(range(self.answered), product(*map(_extremes, self.totals))))
        return {
            self._add(chosen)
            for count in range(self.rows + 1)
            for chosen in combinations_with_replacement(kinds, count)
            if len({group for group, _ in chosen}) <= self.groups
        }

    def _add(self, chosen: tuple[tuple[int, tuple[int, ...]], ...]) -> Changes:
        return tuple(
            tuple(
                (max if total.measure is Measure.UNITS else sum)(
                    [0, *(added[place] for where, added in chosen if where == group)]
                )
                for place, total in enumerate(self.totals)
            )
            for group in range(self.answered)
        )


def _extremes(total: Total) -> tuple[int, ...]:
    """Return the values that a row can add: zero if it is filtered out, or either extreme."""
    return (0, 1) if total.grid is None else (0, total.grid.low, total.grid.high)


def changes_of(units: Units, neighbours: Neighbours) -> Iterator[Changes]:
    """Yield the changes of totals when a unit is added or replaced by another."""
    found = units.each()
    if neighbours is Neighbours.ADD_REMOVE:
        yield from found
        return
    for before, after in product(found, found):
        yield tuple(
            tuple(b - a for a, b in zip(old, new, strict=True))
            for old, new in zip(before, after, strict=True)
        )


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("totals", ANSWERS, ids=lambda totals: str(ANSWERS.index(totals)))
def test_sensitivities_are_attained_by_some_unit(
    totals: tuple[Total, ...], limits: tuple[int, int], neighbours: Neighbours
) -> None:
    """No unit exceeds the bound for the sum over groups or for squares, and some unit attains each.

    One exception: the squares of a sum with asymmetric bounds around zero may fall short.
    """
    rows, groups = limits
    for answered in (1, 2, 3):
        contribution = ContributionBounds(rows, groups, needs_bounding=True)
        sensitivities = sensitivity_of(totals, contribution, neighbours, answered)
        units = Units(totals, rows, groups, answered)
        used = [_used(change, sensitivities) for change in set(changes_of(units, neighbours))]
        boxes, *squares = map(max, zip(*used, strict=True))

        assert boxes == 1
        for total, most in zip(totals, squares, strict=True):
            assert most <= 1 if total is LEAN else most == 1


def _used(change: Changes, sensitivities: tuple[TotalSensitivity, ...]) -> list[Fraction]:
    """Return the fractions of the bounds that a change uses: of the sum, and of each square."""
    parts = [
        [
            Fraction(abs(moved), sensitivity.side)
            for moved, sensitivity in zip(group, sensitivities, strict=True)
        ]
        for group in change
    ]
    boxes = sum(
        max(z / sensitivity.boxes for z, sensitivity in zip(group, sensitivities, strict=True))
        for group in parts
    )
    squares = [
        sum(group[place] ** 2 for group in parts) / Fraction(sensitivity.squares)
        for place, sensitivity in enumerate(sensitivities)
    ]
    return [Fraction(boxes), *squares]


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_undeclared_keys_count_as_many_groups(neighbours: Neighbours) -> None:
    """If keys are undeclared, the sensitivity equals that for very many groups."""
    for totals, (rows, groups) in product(ANSWERS, LIMITS):
        contribution = ContributionBounds(rows, groups, needs_bounding=True)
        many = sensitivity_of(totals, contribution, neighbours, 1_000)

        assert many == sensitivity_of(totals, contribution, neighbours)


SENSITIVITIES: Final = (
    TotalSensitivity(1, 3, 9),
    TotalSensitivity(1, 1, 2),
    TotalSensitivity(10**9, 6, 18),
)


@pytest.mark.parametrize("epsilon", [Fraction(1, 1_000), Fraction(1), Fraction(5_000)])
def test_noise_fits_the_sensitivity_of_each_total(epsilon: Fraction) -> None:
    """In sides, scales are boxes / epsilon and variances d squares / mu^2; steps divide sides."""
    joint, alone = (
        noise_for(SENSITIVITIES, PureLoss(epsilon)),
        noise_for(SENSITIVITIES[1:2], PureLoss(epsilon)),
    )
    bells = noise_for(SENSITIVITIES, GaussianLoss(epsilon))
    cuts, bell_cuts = (
        [
            sensitivity.side / step
            for sensitivity, step in zip(SENSITIVITIES, noise.steps, strict=True)
        ]
        for noise in (joint, bells)
    )

    assert BoxNoise(
        tuple(c * r.boxes / epsilon for c, r in zip(cuts, SENSITIVITIES, strict=True))
    ) == (joint.law)
    assert IndependentNoise((DiscreteLaplace(1 / epsilon),)) == alone.law
    assert isinstance(bells.law, IndependentNoise)
    assert [
        c**2 * 3 * r.squares / epsilon for c, r in zip(bell_cuts, SENSITIVITIES, strict=True)
    ] == [one.sigma_squared for one in bells.law.laws if isinstance(one, RoundedGaussian)]
    assert all(cut.denominator == 1 for cut in (*cuts, *bell_cuts))
