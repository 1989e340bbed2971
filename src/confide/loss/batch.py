"""Tight composition of a batch of losses that is fixed beforehand.

Each loss becomes a discrete pair on one grid; the law of the sum of their privacy losses is found
by a Fourier transform after tilting it by exp(theta x) towards the tail that matters. So rounding
errors are small compared with delta itself, however small delta is, and they are added to it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from confide.exact import float_below
from confide.loss import gaussian
from confide.loss.lattice import Lattice, discretise
from confide.loss.protocol import Bound, Loss
from confide.loss.spectrum import Spectrum

__all__ = ["delta_above", "epsilon_above"]

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
    small = gaussian.delta_at(total, epsilon) / (1 << 20)
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
