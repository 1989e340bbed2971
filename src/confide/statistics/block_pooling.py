"""Pools the results of blocks into one estimate, and divides its cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from confide.engines.protocol import SealedBlocks
from confide.lazy import lazy_module
from confide.loss import Loss
from confide.mechanisms import Exponential, Neighbours
from confide.noise import Entropy
from confide.plan.calibration import TotalNoise, fraction_of
from confide.plan.selection import FINE_BITS, choose_rank, cut_grid, grid_of_bounds, sum_noise
from confide.plan.totals import ValueGrid
from confide.release.noise_sample import sample_noise
from confide.release.selection import choose_block_rank
from confide.statistics.estimate import Floats
from confide.statistics.replicas import spread_normals, thin

if TYPE_CHECKING:
    from scipy import special
else:
    special = lazy_module("scipy.special")

__all__ = ["METHODS", "Bounds", "Pooling"]

QUARTILE_PARTS: Final[dict[str, tuple[Fraction, ...]]] = {
    "window": (Fraction(1, 2), Fraction(2, 3)),
    "mean": (),
    "median": (Fraction(2, 5), Fraction(2, 3)),
}
"""Parts of the loss that quartiles may get; the first that makes them reliable is taken."""

METHODS: Final = tuple(QUARTILE_PARTS)
RELIABLE: Final = 24
"""The least product of rate and blocks at which two quartiles are chosen."""

COARSE_BITS: Final = 8
SPREAD_PART: Final = Fraction(1, 10)
LOW, MIDDLE, HIGH = Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)
WIDENING: Final = 2
NORMAL_RANGE: Final = 1.349
"""How many standard deviations lie between the quartiles of a normal law."""

SKEW_LIMIT: Final = 0.25
TAIL_OF_SKEW: Final = 4.0
SPREAD_OF_SKEW: Final = 25.0
DRAWS: Final = 3
"""How many columns of evenly spread normal numbers the replicas of one output take."""

Bounds = tuple[tuple[Fraction, Fraction], ...]
Window = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pooling:
    """The releases that one granted loss pays for.

    ``part`` of it is for quartiles; it is 0 where they would not be reliable, and then everything
    is released within the whole bounds.

    Claim:   all of them together cost ``granted``.
    Why:     parts of it that add up to at most 1 are taken: ``part`` for quartiles, the rest, by
             method, for medians or for sums and sums of squares, shared by the numbers that the
             estimator returns. ``part`` depends on the loss and the number of blocks alone.
    Source:  [DR14]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_pooling.py.
    """

    bounds: Bounds
    method: str
    granted: Loss
    neighbours: Neighbours
    entropy: Entropy
    blocks: int
    part: Fraction = Fraction(0)

    def choose_part(self) -> "Pooling":
        """Return the same with a part for quartiles, if they can be chosen reliably.

        Claim:   whatever the results are, with probability 0.98 or more for each number, a quarter
                 of them are at or above the lower quartile, and a quarter at or below the upper.
        Why:     otherwise a choice misses its rank by half the k blocks (less 1/2, which rounding
                 the rank may give), and of N candidates one that misses by g is chosen with
                 probability at most N exp(-r g), for a rate r. With r k >= 24 and k >= 10, either
                 is below 0.006 for the 257 candidates that there are at least, and below 0.001 for
                 more, of which there are at most 1 + exp(r k / 4 - 2). So a window is too wide at
                 times, and then so is the interval, but it does not lie next to the results.
        Source:  [MT07]; docs/proofs/statistics.md.
        Checked: tests/statistics/test_pooling.py.
        """
        tried = (replace(self, part=part) for part in QUARTILE_PARTS[self.method])
        return next((one for one in tried if one.strength >= RELIABLE), self)

    def check(self) -> None:
        """Refuse a loss for which there is no noise, before it is charged.

        Why: all grids are as wide, and a narrower window needs no more steps of noise.
        """
        for part in (Fraction(0), *QUARTILE_PARTS[self.method]):
            replace(self, part=part).check_part()

    def check_part(self) -> None:
        """Refuse a loss for which there is no noise with this part for quartiles."""
        whole = grid_of_bounds(Fraction(0), Fraction(1))
        pairs: list[list[int]] = [[] for _ in self.bounds]
        if self.part:
            pairs = [[whole.low, whole.high] for _ in self.bounds]
        if self.method == "median":
            self._median_choice()
        self.write_steps([whole for _ in self.bounds], pairs)

    @property
    def grids(self) -> list[ValueGrid]:
        """The grid between the bounds of each output."""
        return [grid_of_bounds(*pair) for pair in self.bounds]

    @property
    def has_squares(self) -> bool:
        """Whether the spread of results is read from a sum of squares."""
        return self.method != "median" and not self.part

    @property
    def strength(self) -> float:
        """The rate of a quartile's choice, times the number of blocks."""
        return float(self._quartile_choice().rate) * self.blocks

    @property
    def _cell(self) -> int:
        """The steps from one candidate for a quartile to the next."""
        return _choose_cell(self.strength / 4.0)

    def quartiles(self, sealed: SealedBlocks, place: int, grid: ValueGrid) -> list[int]:
        """Return two quartiles of the results, in steps; none where they are not chosen."""
        if not self.part:
            return []
        choice, cell = self._quartile_choice(), self._cell
        coarse = cut_grid(grid, grid.low, grid.high, cell)
        return [
            cell * choose_block_rank(sealed, place, coarse, choice, self.entropy, level=level)
            for level in (LOW, HIGH)
        ]

    def median(
        self, sealed: SealedBlocks, place: int, grid: ValueGrid, quartiles: Sequence[int]
    ) -> int:
        """Return the middle of the results, in steps: of the window, if there are quartiles.

        Why: the fewer candidates, the fewer wrong ones. An eighth of its own standard error is near
             enough.
        """
        low, high = self.window(quartiles, grid)
        choice = self._median_choice()
        cell = _choose_cell(float(choice.rate) * self.blocks / 2.0)
        if quartiles:
            near = self._range(quartiles) / (8.0 * math.sqrt(self.blocks))
            cell = 1 << max(0, math.floor(math.log2(near)))
        cut = cut_grid(grid, low, high, cell)
        found = choose_block_rank(sealed, place, cut, choice, self.entropy, level=MIDDLE)
        return low + cell * found

    def _range(self, quartiles: Sequence[int]) -> float:
        """Return the steps between the quartiles, at least those of one candidate."""
        return math.hypot(quartiles[1] - quartiles[0], self._cell)

    def window(self, quartiles: Sequence[int], grid: ValueGrid) -> Window:
        """Return within which steps results count: far outside both quartiles, or everywhere."""
        if not quartiles:
            return grid.low, grid.high
        low, high = min(quartiles), max(quartiles)
        wide = WIDENING * max(high - low, self._cell)
        return max(grid.low, low - wide), min(grid.high, high + wide)

    def windows(
        self, grids: Sequence[ValueGrid], quartiles: Sequence[Sequence[int]]
    ) -> list[Window]:
        """Return the window of each output."""
        return [self.window(pair, grid) for pair, grid in zip(quartiles, grids, strict=True)]

    def write_steps(
        self, grids: Sequence[ValueGrid], quartiles: Sequence[Sequence[int]]
    ) -> list[str]:
        """Return in which steps everything is released: numbers mean nothing without them.

        The part for quartiles comes first, which no answer of confide 0.1 has.
        """
        found = [grid.step for grid in grids]
        if self.method != "median":
            windows = self.windows(grids, quartiles)
            found += self.sum_noise(windows).steps
            found += self.square_noise(windows).steps if self.has_squares else ()
        cell = self._cell if self.part else 1
        return [f"quartiles {self.part} {cell}", *(str(step) for step in found)]

    def sum_noise(self, windows: Sequence[Window]) -> TotalNoise:
        """Return the noise of the sums over blocks."""
        return self._noise(1 - (self.part or SPREAD_PART), windows)

    def square_noise(self, windows: Sequence[Window]) -> TotalNoise:
        """Return the noise of the sums of squares, from which the spread of results is read."""
        return self._noise(SPREAD_PART, windows)

    def _noise(self, part: Fraction, windows: Sequence[Window]) -> TotalNoise:
        widths = [high - low for low, high in windows]
        return sum_noise(widths, self.neighbours, fraction_of(self.granted, part))

    def _quartile_choice(self) -> Exponential:
        return self._choice(self.part / (2 * len(self.bounds)))

    def _median_choice(self) -> Exponential:
        return self._choice((1 - self.part) / len(self.bounds))

    def _choice(self, part: Fraction) -> Exponential:
        return choose_rank(self.neighbours, self.granted, part)

    def read(self, place: int, noisy: dict[str, Any]) -> tuple[float, Floats]:
        """Return an output's estimate, and replicas of it, from what was released."""
        grid, pair = self.grids[place], noisy["quartiles"][place]
        if self.method == "median":
            found, replicas = self._read_median(place, noisy)
        elif pair:
            found, replicas = self._read_window(place, noisy)
        else:
            found, replicas = self._read_mean(place, noisy)
        unit, start = float(grid.step), float(grid.centre)
        inside = np.clip(replicas, grid.low, grid.high)
        return start + unit * min(max(found, grid.low), grid.high), start + unit * inside

    def _read_median(self, place: int, noisy: dict[str, Any]) -> tuple[float, Floats]:
        """Return the middle that was chosen, and where else the population's may be.

        Law:  the standard error of a middle is sqrt(pi / 2) times that of a mean, if results are
              normal. The rank that is chosen misses by a Laplace variable with scale 1 / rate, and
              sqrt(2 pi) s / k is the distance of two results in a row, s their deviation. Without
              quartiles nothing is known of s, and the interval is the bounds.
        """
        grid, pair = self.grids[place], noisy["quartiles"][place]
        middle, normals = float(noisy["sums"][place]), self._normals(place)
        if not pair:
            return middle, np.where(_is_odd(normals), float(grid.high), float(grid.low))
        ranks = _laplace(normals[:, 1]) / float(self._median_choice().rate)
        spread = (math.pi / 2.0 / self.blocks) ** 0.5 * normals[:, 0]
        spread += (2.0 * math.pi) ** 0.5 / self.blocks * ranks
        deviation = self._range(pair) / NORMAL_RANGE * self._spread(place)
        return middle, np.asarray(middle + deviation * spread)

    def _read_window(self, place: int, noisy: dict[str, Any]) -> tuple[float, Floats]:
        """Return the mean within a window, and where else the population's may be.

        Law:  with d the distance of the mean from the middle of the quartiles, in multiples of
              their range, results of a skewed law have up to 1 + 25 d^2 times the deviation that
              the range suggests, and a mean up to 4 d^2 ranges farther out than in the window: both
              cover gamma and lognormal laws up to skewness 2. Quartiles that are one candidate,
              or neighbors, leave open where in between the results are: all of that is in the
              interval.
        """
        pair, blocks = noisy["quartiles"][place], self.blocks
        windows = self.windows(self.grids, noisy["quartiles"])
        low, high = windows[place]
        noise, normals = self.sum_noise(windows), self._normals(place)
        mean = noisy["sums"][place] * float(noise.steps[place]) / blocks
        inside, width = min(max(mean, 0.0), float(high - low)), self._range(pair)
        skew = (low + inside - (pair[0] + pair[1]) / 2.0) / width
        skew = min(max(skew, -SKEW_LIMIT), SKEW_LIMIT)
        deviation = width / NORMAL_RANGE * (1.0 + SPREAD_OF_SKEW * skew**2)
        tail = math.copysign(TAIL_OF_SKEW * skew**2 * width, skew) * _is_odd(normals)
        spread = deviation / blocks**0.5 * normals[:, 0] * self._spread(place)
        moved = thin(sample_noise(noise)[:, place]) / blocks
        replicas = low + inside + spread + moved + tail
        if abs(pair[1] - pair[0]) <= self._cell:
            replicas[::4] = np.minimum(replicas[::4], min(pair) - self._cell / 2.0)
            replicas[2::4] = np.maximum(replicas[2::4], max(pair) + self._cell / 2.0)
        return low + inside, replicas

    def _read_mean(self, place: int, noisy: dict[str, Any]) -> tuple[float, Floats]:
        """Return the mean within the bounds, and where else the population's may be.

        Law:  the deviation of results follows from the noisy sum of squares about the middle.
              Both sums are moved by their noise, so that a spread that the noise hides is as large
              as it may be: at most m (w - m), squared, for a mean m within a width of w.
        """
        windows, blocks = self.windows(self.grids, noisy["quartiles"]), self.blocks
        low, high = windows[place]
        width = float(max(1, high - low))
        sums, squares = self.sum_noise(windows), self.square_noise(windows)
        normals = self._normals(place)
        mean = noisy["sums"][place] * float(sums.steps[place]) / blocks
        square = noisy["squares"][place] * float(squares.steps[place]) / blocks
        means = mean + thin(sample_noise(sums)[:, place]) / blocks
        moved = thin(sample_noise(squares)[:, place]) / blocks
        found = width / 4.0 * (square + _reorder(moved, normals[:, 1]))
        inside = np.clip(means, 0.0, width)
        most = inside * (width - inside) * blocks / (blocks - 1.0)
        variance = np.clip(found - (inside - width / 2.0) ** 2, 0.0, most)
        factors = _inflate(DRAWS * len(self.bounds), DRAWS * place + 2, blocks - 1.0)
        students = normals[:, 0] * factors
        return low + mean, np.asarray(low + means + np.sqrt(variance / blocks) * students)

    def _normals(self, place: int) -> Floats:
        normals = spread_normals(DRAWS * len(self.bounds))
        return normals[:, DRAWS * place : DRAWS * (place + 1)]

    def _spread(self, place: int) -> Floats:
        """Return factors for how far a deviation read from quartiles may be off.

        Why: the range of the quartiles of k normal results has a relative variance of 1.36 / k, and
             one of 21.8 / (r k)^2 from their choice, which misses their ranks with a variance of
             2 / r^2 each. A deviation of f degrees of freedom has about 1 / (2 f).
        """
        freedom = 1.0 / (2.72 / self.blocks + 43.5 / self.strength**2)
        return _inflate(DRAWS * len(self.bounds), DRAWS * place + 2, freedom)


def _choose_cell(exponent: float) -> int:
    """Return the steps between candidates, where a bad one has weight exp(-exponent).

    Why: one beyond all results is chosen with probability at most N exp(-exponent), which for
         N = exp(exponent - 2) candidates is exp(-2).
    """
    bits = math.floor((exponent - 2.0) / math.log(2.0))
    return 1 << FINE_BITS - min(max(bits, COARSE_BITS), FINE_BITS)


@lru_cache(maxsize=64)
def _inflate(dimensions: int, column: int, freedom: float) -> Floats:
    """Return the factors that make normal numbers those of Student, evenly spread."""
    levels = special.ndtr(spread_normals(dimensions)[:, column])
    return np.asarray(np.sqrt(freedom / (2.0 * special.gammaincinv(freedom / 2.0, levels))))


def _laplace(normals: Floats) -> Floats:
    """Return Laplace numbers of scale 1 at the levels of normal ones."""
    return np.asarray(-np.sign(normals) * np.log(2.0 * special.ndtr(-np.abs(normals))))


def _reorder(values: Floats, by: Floats) -> Floats:
    """Return the values in the order of others, so that they have nothing to do with a third."""
    return np.asarray(np.sort(values)[np.argsort(np.argsort(by[: len(values)]))])


def _is_odd(rows: Floats) -> Any:
    """Return a mask of every other row."""
    return np.arange(len(rows)) % 2 == 1
