"""Tight composition of a batch of uses that is fixed in advance.

Each loss becomes a discrete pair on one grid; the law of the sum of their privacy losses is found
by a Fourier transform after tilting it by exp(theta x) towards the tail that matters. So rounding
errors are small compared with delta itself, however small delta is, and they are added to it.

A loss as a discrete pair of laws that is at least as easy to tell apart.

The privacy loss of the discrete pair takes values on a grid only, so that many of them can be
added up by a Fourier transform.

Fourier transforms of laws on a circle, each with a bound of its rounding errors.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from confide.exact import ball, float_above, float_below
from confide.loss import curves
from confide.loss.protocol import Bound, Loss

__all__ = [
    "Lattice",
    "Spectrum",
    "delta_above",
    "discretise",
    "epsilon_above",
]

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


_TRANSFORM_ROUNDING = 2.0**-53
_PER_LEVEL = 8.0
_PRODUCT = 4.0


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """The transform of a non-negative array of length ``size``, a power of 2.

    Claim:   each exact coefficient is within ``error`` of ``value``, entry by entry.
    Why:     an output of a fast transform of length 2^k is a sum in which each input passes one
             path of k butterflies, multiplied by roots of unity; with at most 8 units of
             rounding a butterfly its error is at most 8 k u times the sum of the inputs (a
             complex product errs by less than sqrt(5) u, a sum by u, a root by u). Products and
             squares carry their factors' errors along.
    Source:  [Hig02] chapter 24; [BPZ07] for complex products.
    Checked: tests/loss/test_spectrum.py, against transforms in extended precision.
    """

    size: int
    value: NDArray[np.complex128]
    error: NDArray[np.float64]

    @classmethod
    def of(cls, law: NDArray[np.float64]) -> "Spectrum":
        """Transform a law."""
        value = np.fft.rfft(law)
        error = np.full(len(value), _fft_error(len(law)) * law.sum())
        return cls(len(law), value, error)

    def times(self, other: "Spectrum") -> "Spectrum":
        """Multiply coefficients: the law of the sum of two independent places."""
        mine, its = np.abs(self.value), np.abs(other.value)
        error = mine * other.error + its * self.error + self.error * other.error
        error += _PRODUCT * _TRANSFORM_ROUNDING * mine * its
        return Spectrum(self.size, self.value * other.value, error)

    def power(self, exponent: int) -> "Spectrum":
        """Multiply with itself, ``exponent`` >= 1 times in all."""
        found = None
        square = self
        while True:
            if exponent & 1:
                found = square if found is None else found.times(square)
            exponent >>= 1
            if not exponent:
                break
            square = square.times(square)
        return found if found is not None else self

    def law_above(self) -> NDArray[np.float64]:
        """Return the law, each mass at least the exact one."""
        law: NDArray[np.float64] = np.fft.irfft(self.value, self.size)
        length = np.abs(self.value)
        total = 2 * (self.error.sum() + _fft_error(self.size) * length.sum()) / self.size
        # One percent covers the errors of the errors, 1e-290 all that has underflowed.
        return np.maximum(law, 0.0) + np.float64(1.01 * total + 1e-290)


def _fft_error(size: int) -> float:
    return _PER_LEVEL * _TRANSFORM_ROUNDING * (size.bit_length() - 1)


Parts = tuple[tuple[Loss, int], ...]
Floats = NDArray[np.float64]

_COARSENESS = 0.02  # the grid's step, in units of the typical mu of one use
_SMALLEST_SIZE, _LARGEST_SIZE = 1 << 14, 1 << 20
_DOTS = 1 << 14  # chords over all parts together
_DEVIATIONS = 12  # half the circle, in deviations of the tilted law
_TILTS = np.geomspace(1e-3, 1e3, 25)  # tilts to try, in units of 1 / mu
_FINER = np.geomspace(0.6, 1.6, 21)
_ROUNDING = 2.0**-53
_MOST_SLACK = 1e-3
_MOST_EXPONENT = 700.0


@lru_cache(maxsize=256)
def delta_above(parts: Parts, epsilon: Fraction) -> Fraction:
    """Bound the delta of all parts together at ``epsilon``; 1 where the batch cannot tell.

    Law:     the sum of independent privacy losses, one for each use of each part.
    Claim:   the uses together are (epsilon, delta)-DP, even if each mechanism is chosen in view
             of earlier answers.
    Why:     each pair is dominated by its lattice, and domination survives adaptive composition;
             the law of the sum is bounded from above as `_Tail` says.
    Source:  [ZDW22] for composition, [KJH20] for the transform.
    Checked: tests/loss/test_batch.py, tests/oracle/test_loss_oracle.py.
    """
    start, total = float_below(epsilon), _mu_squared(parts)
    if total is None:
        return Fraction(1)
    small = curves.gaussian_delta(total, epsilon) / (1 << 20)
    tail = _tail(parts, small, lambda grid, t: grid.log_bound(t) - t * start)
    return Fraction(1) if tail is None else min(Fraction(1), Fraction(tail.delta(start)))


@lru_cache(maxsize=256)
def epsilon_above(parts: Parts, delta: Fraction) -> Bound:
    """Bound the epsilon of all parts together at ``delta``; infinite where it cannot tell.

    Claim:   the uses together are (epsilon, delta)-DP.
    Why:     the bound of `delta_above` was seen to be at most delta at the epsilon returned.
    Source:  [ZDW22], [KJH20].
    Checked: tests/loss/test_batch.py, tests/oracle/test_loss_oracle.py.
    """
    log_delta = math.log(delta.numerator) - math.log(delta.denominator)
    small = delta / (1 << 20)
    tail = _tail(parts, small, lambda grid, t: (grid.log_bound(t) - log_delta) / t)
    return math.inf if tail is None else tail.epsilon(float_below(delta))


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """The lattices of all parts on one grid, and how often each is used."""

    step: float
    mu: float
    lattices: tuple[Lattice, ...]
    times: tuple[int, ...]

    def log_moment(self, theta: float) -> float:
        """Return ln of the mean of exp(theta x), where x is the sum of the finite losses."""
        return math.fsum(
            n * _log_moment(part, theta, self.step)
            for part, n in zip(self.lattices, self.times, strict=True)
        )

    def log_bound(self, theta: float) -> float:
        """Return about ln of what [CKS20] Proposition 12 gives for delta at epsilon = 0."""
        gain = theta * math.log(theta / (theta + 1)) - math.log(theta + 1)
        return self.log_moment(theta) + gain

    def slack(self, theta: float) -> float:
        """Bound the error of `log_moment`, and of tilting every part by exp(theta x)."""
        each = zip(self.lattices, self.times, strict=True)
        return 2 * math.fsum(n * _slack(part, theta, self.step) for part, n in each)

    def infinite(self) -> float:
        """Bound the chance that any of the losses is infinite."""
        each = zip(self.lattices, self.times, strict=True)
        return math.fsum(n * part.infinite for part, n in each) * (1 + 4 * _ROUNDING)

    def reach(self) -> int:
        """Return the greatest place that the sum can take."""
        each = zip(self.lattices, self.times, strict=True)
        return sum(n * int(part.index[-1]) for part, n in each)


def _log_moment(part: Lattice, theta: float, step: float) -> float:
    exponent = theta * step * part.index
    top = float(exponent.max())
    return top + math.log(float((part.mass * np.exp(exponent - top)).sum()))


def _slack(part: Lattice, theta: float, step: float) -> float:
    """Bound the relative error of one sum of masses times exp(theta x), or of one such mass.

    An exponent errs by a few roundings of its size, which is at most theta times the largest
    place, twice; an exponential and a product by a few, and a sum by one for each term.
    """
    largest = theta * step * float(np.abs(part.index).max())
    return _ROUNDING * (16 * largest + 32 + len(part.mass))


def _mu_squared(parts: Parts) -> Fraction | None:
    total = sum((n * loss.mu_squared for loss, n in parts), Fraction(0))
    return total if isinstance(total, Fraction) else None


def _lay(parts: Parts, tail: Fraction) -> _Grid | None:
    """Choose a grid and put every part on it, or give up where some mu is infinite.

    A part that does not fit the grid gains a variance of at most step^2 / 4, so the step follows
    the typical mu of one use. It divides the epsilon of the part that weighs most.
    """
    total = _mu_squared(parts)
    if total is None:
        return None
    uses, mu = sum(n for _, n in parts), math.sqrt(total)
    width = min(_COARSENESS * mu / math.sqrt(uses), 2 * _DEVIATIONS * mu / _SMALLEST_SIZE)
    step = max(Fraction(width), Fraction(2 * _DEVIATIONS * mu / (_LARGEST_SIZE / 2)))
    heavy = max(parts, key=lambda use: use[1] * use[0].mu_squared)[0].epsilon
    if isinstance(heavy, Fraction):
        step = heavy / math.ceil(heavy / step)
    most = min(512, max(24, _DOTS // len(parts)))
    lattices = tuple(discretise(loss, step, most, tail / n) for loss, n in parts)
    return _Grid(float(step), mu, lattices, tuple(n for _, n in parts))


def _tail(parts: Parts, small: Fraction, height: Callable[[_Grid, float], float]) -> "_Tail | None":
    """Sum up the batch with about the tilt of least ``height``; every tilt is sound."""
    grid = _lay(parts, small)
    if grid is None:
        return None
    coarse = min(_TILTS / grid.mu, key=lambda tilt: height(grid, float(tilt)))
    fine = min(coarse * _FINER, key=lambda tilt: height(grid, float(tilt)))
    return _sum_up(grid, float(fine))


@dataclass(frozen=True, slots=True, eq=False)
class _Tail:
    """The law of the summed privacy loss, from above.

    Law:     ``mass[i]`` exp(``log_scale`` - theta x) at x = ``place[i]``.
    Claim:   delta(epsilon) is at most the sum of mass (1 - exp(epsilon - x)) over x > epsilon,
             times 1 + slack, plus ``beyond``.
    Why:     the tilted law is found on a circle: what lies elsewhere is folded onto it, which
             only adds mass; below the circle nothing is claimed. What lies above it has a chance
             of at most exp(K(t) - t top) for every t > 0, with K the log-moment; that chance and
             the one of infinite losses are ``beyond``. The error of the transform is in ``mass``;
             ``slack`` bounds the relative errors of all exponentials and sums.
    Source:  [KJH20]; docs/decisions/0003-batch-composition.md.
    Checked: tests/loss/test_batch.py.
    """

    place: Floats
    mass: Floats
    theta: float
    log_scale: float
    slack: float
    beyond: float

    def delta(self, epsilon: float) -> float:
        """Bound delta at ``epsilon``."""
        if epsilon < self.place[0]:
            return 1.0
        # Privacy: a place moved up by its rounding error makes the loss larger, never smaller; so
        # a place counts whose float is not above epsilon while its true value may be.
        moved = self.place + 4 * _ROUNDING * np.abs(self.place)
        first = int(np.searchsorted(moved, epsilon, side="right"))
        exponent = self.log_scale - self.theta * self.place[first:]
        if len(exponent) and exponent[0] > _MOST_EXPONENT:
            return 1.0
        gain = -np.expm1(epsilon - moved[first:])
        found = float((self.mass[first:] * np.exp(exponent) * gain).sum())
        return min(1.0, found * (1 + self.slack) + self.beyond)

    def epsilon(self, delta: float) -> Bound:
        """Bound epsilon at ``delta``."""
        low, high = max(0.0, float(self.place[0])), max(0.0, float(self.place[-1]))
        if self.delta(high) > delta:
            return math.inf
        if self.delta(low) <= delta:
            return Fraction(low)
        for _ in range(48):
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return Fraction(high)


def _sum_up(grid: _Grid, theta: float) -> _Tail | None:
    """Return the tail of the sum, or nothing where the bounds of the errors are no use."""
    tilted = [_tilt(part, theta, grid.step) for part in grid.lattices]
    mean = sum(n * t.mean for t, n in zip(tilted, grid.times, strict=True))
    spread = sum(n * t.variance for t, n in zip(tilted, grid.times, strict=True))
    size = _circle(math.sqrt(spread), grid)
    low = min(round(mean) - size // 2, grid.reach() - size + 1)
    product = None
    for t, n in zip(tilted, grid.times, strict=True):
        power = Spectrum.of(t.on_circle(size)).power(n)
        product = power if product is None else product.times(power)
    if product is None:
        return None
    place = np.arange(low, low + size)
    mass = product.law_above()[place % size]
    reach = theta * grid.step * float(np.abs(place).max())
    slack = grid.slack(theta) + 16 * _ROUNDING * (reach + 64)
    if slack > _MOST_SLACK:
        return None
    log_scale = math.fsum(n * t.log_scale for t, n in zip(tilted, grid.times, strict=True))
    tilts = theta + np.arange(_DEVIATIONS + 1) / (grid.step * math.sqrt(spread))
    beyond = grid.infinite() + _chance_above(grid, low + size - 1, tilts.tolist())
    return _Tail(np.float64(grid.step) * place, mass, theta, log_scale, slack, beyond)


def _circle(deviation: float, grid: _Grid) -> int:
    wanted = min(2 * _DEVIATIONS * deviation, 2 * grid.reach() + 1)
    size = 1 << math.ceil(math.log2(max(wanted, _SMALLEST_SIZE)))
    return min(size, _LARGEST_SIZE)


def _chance_above(grid: _Grid, last: int, tilts: list[float]) -> float:
    """Bound the chance that the sum passes the grid's point ``last``, by Chernoff's method."""
    if last >= grid.reach():
        return 0.0
    top = last * grid.step * (1 - 4 * _ROUNDING)
    found = min(grid.log_moment(tilt) + grid.slack(tilt) - tilt * top for tilt in tilts)
    return 1.01 * math.exp(min(0.0, found))


@dataclass(frozen=True, slots=True, eq=False)
class _Tilted:
    """A lattice after multiplying its masses with exp(theta x - log_scale), nearly a law."""

    index: NDArray[np.int64]
    mass: Floats
    log_scale: float

    @property
    def mean(self) -> float:
        return float(self.mass @ self.index)

    @property
    def variance(self) -> float:
        return float(self.mass @ (self.index - self.mean) ** 2)

    def on_circle(self, size: int) -> Floats:
        """Return the masses on a circle of ``size`` points; places that meet are added."""
        law = np.zeros(size)
        np.add.at(law, self.index % size, self.mass)
        return law


def _tilt(part: Lattice, theta: float, step: float) -> _Tilted:
    log_scale = _log_moment(part, theta, step)
    mass = part.mass * np.exp(theta * step * part.index - log_scale)
    return _Tilted(part.index, mass, log_scale)
