"""A stand-in for the columns of a regression: normal ones with the same means and covariances.

The sums that a regression is solved from have a simple form for normal columns. They are used
where a curve has to be followed between two points at which the rows' own sums were released.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from confide.statistics.gaussian import lift_matrix
from confide.statistics.links import Link
from confide.statistics.reading import Floats

__all__ = ["LARGEST", "StandIn", "make_stand_in", "shorten"]

LARGEST: Final = 20.0
"""No coefficient of columns within [-1, 1] is looked for beyond."""
MOST_STEPS: Final = 20
NEAR: Final = 1e-9
FLATTEST: Final = 1e-6
NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
WEIGHTS: Final = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True, slots=True)
class StandIn:
    """Rows of normal columns: how many, their means, their covariances; a constant varies not."""

    link: Link
    rows: float
    means: Floats
    covariance: Floats

    def add_up(self, coefficients: Floats) -> tuple[Floats, Floats]:
        """Return the sums of columns times means, and how they change with the coefficients.

        Why:     for x normal with mean m and covariance C, and a linear part L = x b, Stein's
                 identity E x g(L) = m E g(L) + C b E g'(L) gives the sums, and applied again their
                 derivatives; expectations over L, which is normal, are weighted sums at 15 points.
        Source:  [Ste81]; [Bri83] uses it for regressions.
        Checked: tests/statistics/test_standin.py.
        """
        slopes = coefficients @ self.covariance
        spread = np.sqrt(np.maximum((slopes * coefficients).sum(axis=-1), 0.0))
        linear = (coefficients @ self.means)[..., None] + spread[..., None] * NODES
        mean, first, second, third = (
            (part @ WEIGHTS)[..., None] for part in self.link.derive(linear)
        )
        sums = self.means * mean + slopes * first
        means = np.broadcast_to(self.means, slopes.shape)
        curved = (
            _outer(means, means * first + slopes * second)
            + _outer(slopes, means * second + slopes * third)
            + self.covariance * first[..., None]
        )
        return self.rows * sums, self.rows * curved

    def solve(self, sums: Floats, start: Floats, ridge: float = 0.0) -> Floats:
        """Return the coefficients with these sums, drawn towards ``start`` by a ridge.

        Newton's steps, none longer than 1: sums beyond reach end at the largest coefficients.
        """
        found, goal = np.atleast_2d(start).copy(), np.atleast_2d(sums)
        ridges = (ridge + 1e-12 * self.rows) * np.eye(len(self.means))
        left = np.arange(len(found))
        for _ in range(MOST_STEPS):
            old = found[left]
            here, curved = self.add_up(old)
            missing = goal[left] - here - ridge * (old - np.atleast_2d(start)[left])
            solved = np.linalg.solve(curved + ridges, missing[..., None])[..., 0]
            step: Floats = np.asarray(solved, dtype=np.float64)
            found[left] = np.clip(old + shorten(step), -LARGEST, LARGEST)
            left = left[np.abs(found[left] - old).max(axis=-1) > NEAR]
            if not len(left):
                break
        return found.reshape(start.shape)


def _outer(one: Floats, other: Floats) -> Floats:
    product: Floats = one[..., :, None] * other[..., None, :]
    return product


def shorten(step: Floats) -> Floats:
    """Return a step in the same direction by which no coefficient moves more than 1."""
    longest = np.abs(step).max(axis=-1, keepdims=True)
    shorter: Floats = step * np.minimum(1.0, 1.0 / np.maximum(longest, NEAR))
    return shorter


def make_stand_in(link: Link, products: Floats, deviation: float, *, constant: bool) -> StandIn:
    """Return the stand-in for columns with these noisy sums of products; a constant comes first.

    ``deviation`` is that of the noise; variances that it may have made up are lifted to it. With
    ``constant`` the constant is one of the columns.
    """
    lifted = lift_matrix(products, deviation)
    rows = max(float(lifted[0, 0]), 1.0)
    means = lifted[0, 1:] / rows
    floor = max(deviation / rows, FLATTEST)
    inner = lift_matrix(lifted[1:, 1:] / rows - _outer(means, means), floor)
    if not constant:
        return StandIn(link, rows, means, inner)
    covariance = np.zeros_like(products)
    covariance[1:, 1:] = inner
    return StandIn(link, rows, np.concatenate([[1.0], means]), covariance)
