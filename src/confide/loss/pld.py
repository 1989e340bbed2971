"""Tight composition of a batch of uses that is fixed in advance, by privacy loss distributions.

The *privacy loss* here is the random log-ratio x = ln(P(y) / Q(y)) of an output y drawn from P.
Each mechanism's pair (P, Q) is replaced by a discrete pair that is at least as easy to distinguish,
and whose privacy loss takes values on one common grid. Fourier transforms yield the distribution of
the sum of these privacy losses. Before them, all probabilities are multiplied by exp(theta x) (a
*tilt* by theta), so that the relevant tail has most of the mass. Rounding errors are then small
compared with delta, however small delta is. Each transform has a bound on its rounding errors,
which is added to delta.
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
    "discretize",
    "epsilon_above",
]

_PRECISION = 192


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """The distribution of the privacy loss under P, on a grid.

    The loss is ``step * index[i]`` with probability ``mass[i]``, and infinite with probability
    ``infinite``. These probabilities are rounded up, so they may sum to slightly more than 1.
    """

    step: Fraction
    index: NDArray[np.int64]
    mass: NDArray[np.float64]
    infinite: float


@lru_cache(maxsize=1024)
def discretize(loss: Loss, step: Fraction, most: int, tail: Fraction) -> Lattice:
    """Return a discrete pair on the grid of ``step`` that dominates every pair of ``loss``.

    The grid extends to the loss's epsilon, or if that is infinite, to its epsilon at delta =
    ``tail``.

    Law:     h(a) is the smallest delta at exp(epsilon) = a; below a = 1 it is extended by
             h(a) = 1 - a + a h(1 / a). Take the chords of h over a = exp(x), between about
             ``most`` grid points x. P gets exp(x) times the change of slope at x, and the value
             of h at the last point as its mass at infinity.
    Claim:   for every a > 0 the discrete pair has a hockey-stick divergence of at least h(a).
    Why:     h is convex, as a supremum of convex curves over pairs in both orders, so its chords
             lie above it, and raising values of h or masses only lifts them further. A convex
             polygonal curve from (0, 1) down to its last value is the h of the discrete pair
             that *Law* builds from its corners.
    Source:  [DGKKM22] for the chords, [ZDW22] for domination.
    Checked: tests/loss/test_pld_lattice.py.
    """
    points = _grid_points(loss, step, most, tail)
    with ctx.workprec(_PRECISION):
        height = [_height(loss, step * point) for point in points]
        mass = [_corner(points, height, index, step) for index in range(len(points))]
        infinite = float_above(height[-1])
    return Lattice(step, np.array(points), np.array(mass), infinite)


def _grid_points(loss: Loss, step: Fraction, most: int, tail: Fraction) -> list[int]:
    """Return sorted grid indices: evenly spaced, plus the two outermost ones on each side."""
    end = loss.epsilon if isinstance(loss.epsilon, Fraction) else loss.epsilon_above(tail)
    last = max(1, math.ceil(Fraction(end) / step))
    stride = -(-2 * last // most)
    inner = range(0, last, stride)
    return sorted({*inner, *(-point for point in inner), last, -last, last - 1, 1 - last})


def _height(loss: Loss, point: Fraction) -> arb:
    """Return a ball around h(exp(point))."""
    if point >= 0:
        return ball(loss.delta_above(point))
    ratio = ball(point).exp()
    return 1 - ratio + ratio * ball(loss.delta_above(-point))


def _corner(points: list[int], height: list[arb], index: int, step: Fraction) -> float:
    """Return exp(x) times the change of slope of the chords at one point x, rounded up."""
    here = height[index]
    if index == 0:
        change = 1 - here
    else:
        back = ball((points[index - 1] - points[index]) * step)
        change = (height[index - 1] - here) / -back.expm1()
    if index + 1 < len(points):
        ahead = ball((points[index + 1] - points[index]) * step)
        change += (height[index + 1] - here) / ahead.expm1()
    return max(0.0, float_above(change))


_TRANSFORM_ROUNDING = 2.0**-53
_ROUNDINGS_PER_LEVEL = 8.0
_ROUNDINGS_PER_PRODUCT = 4.0


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """The Fourier transform of a nonnegative array of length ``size``, a power of 2.

    Claim:   each exact coefficient is within ``error`` of ``value``, entry by entry.
    Why:     let u = 2^-53 be the unit of rounding. An output of a fast transform of length 2^k is
             a sum in which each input passes one path of k butterflies, multiplied by roots of
             unity. Each butterfly adds a relative error of at most 8 u (a complex product errs by
             less than sqrt(5) u, a sum by u, a root by u). So the error of an output is at most
             8 k u times the sum of the inputs. Products and squares propagate the errors of their
             factors.
    Source:  [Hig02] chapter 24; [BPZ07] for complex products.
    Checked: tests/loss/test_pld_spectrum.py, against transforms in extended precision.
    """

    size: int
    value: NDArray[np.complex128]
    error: NDArray[np.float64]

    @classmethod
    def of(cls, law: NDArray[np.float64]) -> "Spectrum":
        """Return the transform of a distribution."""
        value = np.fft.rfft(law)
        error = np.full(len(value), _fft_error(len(law)) * law.sum())
        return cls(len(law), value, error)

    def times(self, other: "Spectrum") -> "Spectrum":
        """Return the transform of the sum of two independent variables."""
        mine, its = np.abs(self.value), np.abs(other.value)
        error = mine * other.error + its * self.error + self.error * other.error
        error += _ROUNDINGS_PER_PRODUCT * _TRANSFORM_ROUNDING * mine * its
        return Spectrum(self.size, self.value * other.value, error)

    def power(self, exponent: int) -> "Spectrum":
        """Return the ``exponent``-th power, for ``exponent`` >= 1."""
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
        """Return the distribution, with each mass at least the exact one."""
        law: NDArray[np.float64] = np.fft.irfft(self.value, self.size)
        length = np.abs(self.value)
        total = 2 * (self.error.sum() + _fft_error(self.size) * length.sum()) / self.size
        # One percent covers rounding errors in ``total`` itself, and 1e-290 covers all underflow.
        return np.maximum(law, 0.0) + np.float64(1.01 * total + 1e-290)


def _fft_error(size: int) -> float:
    return _ROUNDINGS_PER_LEVEL * _TRANSFORM_ROUNDING * (size.bit_length() - 1)


Parts = tuple[tuple[Loss, int], ...]
Floats = NDArray[np.float64]

_STEP_RATIO = 0.02  # the grid's step, in units of the typical mu of one use
_MIN_SIZE, _MAX_SIZE = 1 << 14, 1 << 20
_MAX_CHORDS = 1 << 14  # chords over all parts together
_DEVIATIONS = 12  # half the length of the circle (see _Tail), in tilted standard deviations
_TILTS = np.geomspace(1e-3, 1e3, 25)  # tilts to try, in units of 1 / mu
_FINE_FACTORS = np.geomspace(0.6, 1.6, 21)
_ROUNDING = 2.0**-53
_MAX_SLACK = 1e-3
_MAX_EXPONENT = 700.0


@lru_cache(maxsize=256)
def delta_above(parts: Parts, epsilon: Fraction) -> Fraction:
    """Return an upper bound on delta at ``epsilon`` for all parts together; 1 if none is found.

    ``parts`` are losses with their numbers of uses.

    Law:     the sum of independent privacy losses, one for each use of each part.
    Claim:   the uses together are (epsilon, delta)-DP, even if each mechanism is chosen after
             seeing earlier answers.
    Why:     each pair is dominated by its lattice, and domination survives adaptive composition.
             `_Tail` bounds the distribution of the sum from above.
    Source:  [ZDW22] for composition, [KJH20] for the transform.
    Checked: tests/loss/test_pld.py, tests/oracle/test_loss_oracle.py.
    """
    start, total = float_below(epsilon), _mu_squared(parts)
    if total is None:
        return Fraction(1)
    small = curves.gaussian_delta(total, epsilon) / (1 << 20)
    tail = _tail(parts, small, lambda grid, t: grid.log_bound(t) - t * start)
    return Fraction(1) if tail is None else min(Fraction(1), Fraction(tail.delta(start)))


@lru_cache(maxsize=256)
def epsilon_above(parts: Parts, delta: Fraction) -> Bound:
    """Return an upper bound on epsilon at ``delta`` for all parts; infinite if none is found.

    Claim:   the uses together are (epsilon, delta)-DP.
    Why:     the bound of `delta_above` was checked to be at most delta at the returned epsilon.
    Source:  [ZDW22], [KJH20].
    Checked: tests/loss/test_pld.py, tests/oracle/test_loss_oracle.py.
    """
    log_delta = math.log(delta.numerator) - math.log(delta.denominator)
    small = delta / (1 << 20)
    tail = _tail(parts, small, lambda grid, t: (grid.log_bound(t) - log_delta) / t)
    return math.inf if tail is None else tail.epsilon(float_below(delta))


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """The lattices of all parts, on one grid.

    ``times`` are the numbers of uses, and ``mu`` is the mu of all uses together.
    """

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
        """Return approximately ln of the delta of [CKS20] Proposition 12 at epsilon = 0."""
        gain = theta * math.log(theta / (theta + 1)) - math.log(theta + 1)
        return self.log_moment(theta) + gain

    def slack(self, theta: float) -> float:
        """Return a bound on the error of `log_moment`, and of tilting all parts by exp(theta x)."""
        each = zip(self.lattices, self.times, strict=True)
        return 2 * math.fsum(n * _slack(part, theta, self.step) for part, n in each)

    def infinite(self) -> float:
        """Return a bound on the probability that any of the losses is infinite."""
        each = zip(self.lattices, self.times, strict=True)
        return math.fsum(n * part.infinite for part, n in each) * (1 + 4 * _ROUNDING)

    def max_index(self) -> int:
        """Return the greatest grid index that the sum can take."""
        each = zip(self.lattices, self.times, strict=True)
        return sum(n * int(part.index[-1]) for part, n in each)


def _log_moment(part: Lattice, theta: float, step: float) -> float:
    exponent = theta * step * part.index
    top = float(exponent.max())
    return top + math.log(float((part.mass * np.exp(exponent - top)).sum()))


def _slack(part: Lattice, theta: float, step: float) -> float:
    """Return a bound on the relative error of a sum of masses times exp(theta x), or of one mass.

    Why: a rounding error of an exponent is relative to its absolute value, at most ``exponent``
    here; there are few such errors. An exponential and a product add a few errors relative to
    the result, and a sum adds one per term.
    """
    exponent = theta * step * float(np.abs(part.index).max())
    return _ROUNDING * (16 * exponent + 32 + len(part.mass))


def _mu_squared(parts: Parts) -> Fraction | None:
    total = sum((n * loss.mu_squared for loss, n in parts), Fraction(0))
    return total if isinstance(total, Fraction) else None


def _discretize_all(parts: Parts, tail: Fraction) -> _Grid | None:
    """Return all parts on one grid, or None if some mu is infinite.

    If the privacy losses of a part are not grid points, its lattice has a variance larger by up to
    step^2 / 4. So the step is proportional to the typical mu of one use. It divides the epsilon of
    the part with the largest total mu^2, if that epsilon is finite.
    """
    total = _mu_squared(parts)
    if total is None:
        return None
    uses, mu = sum(n for _, n in parts), math.sqrt(total)
    width = min(_STEP_RATIO * mu / math.sqrt(uses), 2 * _DEVIATIONS * mu / _MIN_SIZE)
    step = max(Fraction(width), Fraction(2 * _DEVIATIONS * mu / (_MAX_SIZE / 2)))
    heavy = max(parts, key=lambda use: use[1] * use[0].mu_squared)[0].epsilon
    if isinstance(heavy, Fraction):
        step = heavy / math.ceil(heavy / step)
    most = min(512, max(24, _MAX_CHORDS // len(parts)))
    lattices = tuple(discretize(loss, step, most, tail / n) for loss, n in parts)
    return _Grid(float(step), mu, lattices, tuple(n for _, n in parts))


def _tail(parts: Parts, small: Fraction, height: Callable[[_Grid, float], float]) -> "_Tail | None":
    """Return the tail of the batch, tilted by about the theta that minimizes ``height``.

    Every tilt gives a valid bound. ``height`` approximates the bound, as ln delta or as epsilon.
    The grid of a part with infinite epsilon ends where its uses together have delta = ``small``.
    """
    grid = _discretize_all(parts, small)
    if grid is None:
        return None
    coarse = min(_TILTS / grid.mu, key=lambda tilt: height(grid, float(tilt)))
    fine = min(coarse * _FINE_FACTORS, key=lambda tilt: height(grid, float(tilt)))
    return _sum_up(grid, float(fine))


@dataclass(frozen=True, slots=True, eq=False)
class _Tail:
    """An upper bound on the distribution of the summed privacy loss.

    Law:     the sum is x = ``value[i]`` with probability ``mass[i]`` exp(``log_scale`` - theta x).
    Claim:   delta(epsilon) is at most the sum of these probabilities times 1 - exp(epsilon - x)
             over x > epsilon, times 1 + ``slack``, plus ``beyond``.
    Why:     the tilted distribution is computed on a circle of grid points, ``value``: mass
             outside its range is folded onto it, which only adds mass, and nothing is claimed for
             sums below ``value[0]``. The probability of sums above its last value, top, is at most
             exp(K(t) - t top) for every t > 0, with K(t) the log-moment of `_Grid`. ``beyond`` is
             this probability plus that of infinite losses. ``mass`` includes the error of the
             transform; ``slack`` bounds the relative errors of all exponentials and sums.
    Source:  [KJH20]; docs/decisions/0003-batch-composition.md.
    Checked: tests/loss/test_pld.py.
    """

    value: Floats
    mass: Floats
    theta: float
    log_scale: float
    slack: float
    beyond: float

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on delta at ``epsilon``."""
        if epsilon < self.value[0]:
            return 1.0
        # Privacy: raise each value by its rounding error, which can only make the loss larger. So a
        # value counts even if its float is not above epsilon but its exact value may be.
        raised = self.value + 4 * _ROUNDING * np.abs(self.value)
        first = int(np.searchsorted(raised, epsilon, side="right"))
        exponent = self.log_scale - self.theta * self.value[first:]
        if len(exponent) and exponent[0] > _MAX_EXPONENT:
            return 1.0
        gain = -np.expm1(epsilon - raised[first:])
        found = float((self.mass[first:] * np.exp(exponent) * gain).sum())
        return min(1.0, found * (1 + self.slack) + self.beyond)

    def epsilon(self, delta: float) -> Bound:
        """Return an upper bound on epsilon at ``delta``."""
        low, high = max(0.0, float(self.value[0])), max(0.0, float(self.value[-1]))
        if self.delta(high) > delta:
            return math.inf
        if self.delta(low) <= delta:
            return Fraction(low)
        for _ in range(48):
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return Fraction(high)


def _sum_up(grid: _Grid, theta: float) -> _Tail | None:
    """Return the tail of the sum; None if there are no parts or the error bounds are too large."""
    tilted = [_tilt(part, theta, grid.step) for part in grid.lattices]
    mean = sum(n * t.mean for t, n in zip(tilted, grid.times, strict=True))
    deviation = math.sqrt(sum(n * t.variance for t, n in zip(tilted, grid.times, strict=True)))
    size = _circle_size(deviation, grid)
    low = min(round(mean) - size // 2, grid.max_index() - size + 1)
    product = None
    for t, n in zip(tilted, grid.times, strict=True):
        power = Spectrum.of(t.on_circle(size)).power(n)
        product = power if product is None else product.times(power)
    if product is None:
        return None
    index = np.arange(low, low + size)
    mass = product.law_above()[index % size]
    exponent = theta * grid.step * float(np.abs(index).max())
    slack = grid.slack(theta) + 16 * _ROUNDING * (exponent + 64)
    if slack > _MAX_SLACK:
        return None
    log_scale = math.fsum(n * t.log_scale for t, n in zip(tilted, grid.times, strict=True))
    tilts = theta + np.arange(_DEVIATIONS + 1) / (grid.step * deviation)
    beyond = grid.infinite() + _probability_above(grid, low + size - 1, tilts.tolist())
    return _Tail(np.float64(grid.step) * index, mass, theta, log_scale, slack, beyond)


def _circle_size(deviation: float, grid: _Grid) -> int:
    """Return the number of grid points on the circle, a power of 2."""
    wanted = min(2 * _DEVIATIONS * deviation, 2 * grid.max_index() + 1)
    size = 1 << math.ceil(math.log2(max(wanted, _MIN_SIZE)))
    return min(size, _MAX_SIZE)


def _probability_above(grid: _Grid, last: int, tilts: list[float]) -> float:
    """Return a Chernoff bound on the probability that the sum exceeds the grid index ``last``."""
    if last >= grid.max_index():
        return 0.0
    top = last * grid.step * (1 - 4 * _ROUNDING)
    found = min(grid.log_moment(tilt) + grid.slack(tilt) - tilt * top for tilt in tilts)
    return 1.01 * math.exp(min(0.0, found))


@dataclass(frozen=True, slots=True, eq=False)
class _Tilted:
    """A lattice whose masses are multiplied by exp(theta x - log_scale), so they sum to about 1.

    The mean and the variance are in grid steps.
    """

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
        """Return the masses on a circle of ``size`` points; masses at the same point are added."""
        law = np.zeros(size)
        np.add.at(law, self.index % size, self.mass)
        return law


def _tilt(part: Lattice, theta: float, step: float) -> _Tilted:
    log_scale = _log_moment(part, theta, step)
    mass = part.mass * np.exp(theta * step * part.index - log_scale)
    return _Tilted(part.index, mass, log_scale)
