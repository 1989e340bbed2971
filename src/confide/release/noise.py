"""The one place where exact totals are opened: they leave it with their noise."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from confide.engines import Sealed, open_sealed
from confide.noise import BoxNoise, DiscreteLaplace, Entropy, Integers
from confide.plan import Plan
from confide.plan.noise import TotalNoise

__all__ = ["NoisyTotals", "perturb"]


@dataclass(frozen=True, slots=True)
class NoisyTotals:
    """For each group and total a whole number of noise steps: safe to show and to store."""

    steps: tuple[tuple[int, ...], ...]

    def values(self, plan: Plan) -> NDArray[np.float64]:
        """Return the totals in their own whole units, one row a group."""
        sizes = np.array([float(step) for step in plan.noise.steps])
        values: NDArray[np.float64] = np.array(self.steps, dtype=np.float64) * sizes
        return values


def perturb(sealed: Sealed, plan: Plan, entropy: Entropy) -> NoisyTotals:
    """Return the totals of every declared group plus the plan's noise.

    # Privacy: noise is drawn for every declared group, found or not, in the order of the plan;
    # groups that are not declared are dropped unseen.
    """
    exact = open_sealed(sealed)
    nothing = (0,) * len(plan.totals)
    noise = draw_noise(plan.noise, len(plan.groups), entropy).tolist()
    return NoisyTotals(
        tuple(
            tuple(
                _to_steps(total, size) + drawn
                for total, size, drawn in zip(
                    exact.get(group, nothing), plan.noise.steps, noise[place], strict=True
                )
            )
            for place, group in enumerate(plan.groups)
        )
    )


def _to_steps(total: int, size: Fraction) -> int:
    """Round a whole total to noise steps, ties upwards.

    Why: floor(total / size + 1/2) is increasing and adding a whole number of steps adds exactly
         that number, so a change within c rows stays within c rows' worth of steps.
    """
    top, bottom = size.numerator, size.denominator
    return (2 * total * bottom + top) // (2 * top)


def draw_noise(noise: TotalNoise, count: int, entropy: Entropy) -> Integers:
    """Return independent noise for ``count`` groups, one row each."""
    match noise.law:
        case DiscreteLaplace() as law:
            return law.draw(count, entropy).reshape(count, 1)
        case BoxNoise() as law:
            return law.draw(count, entropy)
        case laws:
            return np.stack([law.draw(count, entropy) for law in laws], axis=1)
