"""A loss as a discrete pair of laws that is at least as easy to tell apart.

The privacy loss of the discrete pair takes values on a grid only, so that many of them can be
added up by a Fourier transform.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from confide.exact import ball, float_above
from confide.loss.protocol import Loss

__all__ = ["Lattice", "discretise"]

_PRECISION = 192


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """Where the privacy loss lies under P: at ``step * index`` with ``mass``, or at infinity.

    Each mass is rounded up, so the masses may sum up to a little more than 1.
    """

    step: Fraction
    index: NDArray[np.int64]
    mass: NDArray[np.float64]
    infinite: float


@lru_cache(maxsize=1024)
def discretise(loss: Loss, step: Fraction, most: int, tail: Fraction) -> Lattice:
    """Return a discrete pair on the grid of ``step`` that dominates every pair of ``loss``.

    Law:     h(a) is the least delta at exp(epsilon) = a; below a = 1 it is continued by
             h(a) = 1 - a + a h(1 / a). At about ``most`` grid points x the chords of h over a =
             exp(x) are drawn; P gets exp(x) times the change of slope at x, and what is left of h
             at the last point is put at infinity.
    Claim:   for every a > 0 the discrete pair has a hockey-stick divergence of at least h(a).
    Why:     h is convex, as a supremum of convex curves over pairs in both orders, so its chords
             lie above it, and raising values or masses only lifts them further; a convex polygon
             from (0, 1) down to its last value is the curve of the pair read off its corners.
    Source:  [DGKKM22] for the chords, [ZDW22] for domination.
    Checked: tests/loss/test_lattice.py.
    """
    points = _choose(loss, step, most, tail)
    with ctx.workprec(_PRECISION):
        height = [_height(loss, step * point) for point in points]
        mass = [_corner(points, height, place, step) for place in range(len(points))]
        infinite = float_above(height[-1])
    return Lattice(step, np.array(points), np.array(mass), infinite)


def _choose(loss: Loss, step: Fraction, most: int, tail: Fraction) -> list[int]:
    """Return grid points, evenly spread and dense at both ends of the range of the loss."""
    end = loss.epsilon if isinstance(loss.epsilon, Fraction) else loss.epsilon_above(tail)
    last = max(1, math.ceil(Fraction(end) / step))
    stride = -(-2 * last // most)
    inner = range(0, last, stride)
    return sorted({*inner, *(-point for point in inner), last, -last, last - 1, 1 - last})


def _height(loss: Loss, point: Fraction) -> arb:
    if point >= 0:
        return ball(loss.delta_above(point))
    ratio = ball(point).exp()
    return 1 - ratio + ratio * ball(loss.delta_above(-point))


def _corner(points: list[int], height: list[arb], place: int, step: Fraction) -> float:
    """Return exp(x) times the change of slope at one point, rounded up."""
    here = height[place]
    if place == 0:
        found = 1 - here
    else:
        back = ball((points[place - 1] - points[place]) * step)
        found = (height[place - 1] - here) / -back.expm1()
    if place + 1 < len(points):
        ahead = ball((points[place + 1] - points[place]) * step)
        found += (height[place + 1] - here) / ahead.expm1()
    return max(0.0, float_above(found))
