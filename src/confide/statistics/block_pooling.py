"""Pooling of block results into one estimate, and the division of its cost.

`sample_and_aggregate` runs the estimator on blocks and uses `Pooling` for everything after that. An
output is one of the numbers that the estimator returns. Its results are counted in steps of a grid
whose step 0 is the lower bound.
"""

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
from confide.plan.selection import FINE_BITS, choose_rank, coarsen_grid, grid_of_bounds, sum_noise
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

QUARTILE_FRACTIONS: Final[dict[str, tuple[Fraction, ...]]] = {
    "window": (Fraction(1, 2), Fraction(2, 3)),
    "mean": (),
    "median": (Fraction(2, 5), Fraction(2, 3)),
}
"""Candidate fractions of the loss for the quartiles of each method.

The first fraction that makes quartiles reliable is used; if there is none, they are not chosen.
"""

METHODS: Final = tuple(QUARTILE_FRACTIONS)
MIN_STRENGTH: Final = 24
"""The minimum `Pooling.strength` at which quartiles are chosen."""

COARSE_BITS: Final = 8
"""Quartiles, and medians without quartiles, have at least 2^COARSE_BITS candidates."""
SPREAD_FRACTION: Final = Fraction(1, 10)
"""Fraction of the loss for sums of squares, if they are needed."""
LOW, MIDDLE, HIGH = Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)
WINDOW_FACTOR: Final = 2
"""Distance from a quartile to the window's end, in interquartile ranges."""
NORMAL_RANGE: Final = 1.349
"""The interquartile range of a normal distribution, in standard deviations."""

SKEW_LIMIT: Final = 0.25
SKEW_TAIL_FACTOR: Final = 4.0
SKEW_SPREAD_FACTOR: Final = 25.0
"""Corrections for skewed distributions; see `Pooling._read_window`."""
NORMALS_PER_OUTPUT: Final = 3
"""Number of columns of evenly spread normal numbers that the replicas of one output need."""

Bounds = tuple[tuple[Fraction, Fraction], ...]
Window = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pooling:
    """The releases that one granted loss pays for.

    ``bounds`` has a pair (low, high) per output. The quartiles get the fraction ``part`` of the
    loss. It is 0 if they would not be reliable; then everything is released within the bounds.

    Claim:   all releases together cost ``granted``.
    Why:     they use fractions of it that add up to at most 1: ``part`` for quartiles, and the
             rest, depending on the method, for medians or for sums and sums of squares. The outputs
             share each fraction. ``part`` depends only on the declaration, the method, the loss,
             and the number of blocks.
    Source:  [DR14]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_block_pooling.py.
    """

    bounds: Bounds
    method: str
    granted: Loss
    neighbours: Neighbours
    entropy: Entropy
    blocks: int
    part: Fraction = Fraction(0)

    def choose_part(self) -> "Pooling":
        """Return a copy with a fraction for quartiles, if they can be chosen reliably.

        Claim:   for any results and each output, the following holds with probability at least
                 0.98. At least a quarter of the results are at or above the chosen lower quartile,
                 and at least a quarter at or below the chosen upper quartile.
        Why:     otherwise a choice misses its rank among the k results by at least k / 2 - 1/2,
                 where 1/2 comes from rounding the rank. For a rate r, one of N candidates that
                 misses by at least g is chosen with probability at most N exp(-r g). With
                 r k >= 24 and k >= 10, the probability for one quartile is below 0.006 for the
                 minimum of 257 candidates. It is below 0.001 for more candidates, of which there
                 are at most 1 + exp(r k / 4 - 2). So a window may be too wide, which makes the
                 interval too wide, but the window does not miss the results.
        Source:  [MT07]; docs/proofs/statistics.md.
        Checked: tests/statistics/test_block_pooling.py.
        """
        tried = (replace(self, part=part) for part in QUARTILE_FRACTIONS[self.method])
        return next((one for one in tried if one.strength >= MIN_STRENGTH), self)

    def check(self) -> None:
        """Refuse a loss that is too small for any noise, before it is charged.

        Why: the check tries the full width of the grids. All grids have the same number of steps,
             and a narrower window needs less noise.
        """
        for part in (Fraction(0), *QUARTILE_FRACTIONS[self.method]):
            replace(self, part=part).check_part()

    def check_part(self) -> None:
        """Refuse a loss that is too small for any noise, with this fraction for quartiles."""
        unit_grid = grid_of_bounds(Fraction(0), Fraction(1))
        pairs: list[list[int]] = [[] for _ in self.bounds]
        if self.part:
            pairs = [[unit_grid.low, unit_grid.high] for _ in self.bounds]
        if self.method == "median":
            self._median_choice()
        self.write_steps([unit_grid for _ in self.bounds], pairs)

    @property
    def grids(self) -> list[ValueGrid]:
        """The grid between the bounds, for each output."""
        return [grid_of_bounds(*pair) for pair in self.bounds]

    @property
    def has_squares(self) -> bool:
        """Whether the variance of the results is computed from a sum of squares."""
        return self.method != "median" and not self.part

    @property
    def strength(self) -> float:
        """The rate of the exponential mechanism for a quartile, times the number of blocks."""
        return float(self._quartile_choice().rate) * self.blocks

    @property
    def _cell(self) -> int:
        """The number of steps between adjacent candidates for a quartile."""
        return _choose_cell(self.strength / 4.0)

    def quartiles(self, sealed: SealedBlocks, index: int, grid: ValueGrid) -> list[int]:
        """Return both quartiles of an output's results, in steps, or none if they are not chosen.

        ``index`` is the index of the output, and ``grid`` is its grid.
        """
        if not self.part:
            return []
        choice, cell = self._quartile_choice(), self._cell
        coarse = coarsen_grid(grid, grid.low, grid.high, cell)
        return [
            cell * choose_block_rank(sealed, index, coarse, choice, self.entropy, level=level)
            for level in (LOW, HIGH)
        ]

    def median(
        self, sealed: SealedBlocks, index: int, grid: ValueGrid, quartiles: Sequence[int]
    ) -> int:
        """Return the median of an output's results, in steps.

        If there are quartiles, candidates lie within their window. The distance between them is at
        most about an eighth of the median's standard error, or one step.

        Why: with fewer candidates, a wrong one is less likely to be chosen, and this resolution is
             sufficient.
        """
        low, high = self.window(quartiles, grid)
        choice = self._median_choice()
        cell = _choose_cell(float(choice.rate) * self.blocks / 2.0)
        if quartiles:
            resolution = self._range(quartiles) / (8.0 * math.sqrt(self.blocks))
            cell = 1 << max(0, math.floor(math.log2(resolution)))
        coarse = coarsen_grid(grid, low, high, cell)
        found = choose_block_rank(sealed, index, coarse, choice, self.entropy, level=MIDDLE)
        return low + cell * found

    def _range(self, quartiles: Sequence[int]) -> float:
        """Return the interquartile range in steps, increased because candidates are coarse."""
        return math.hypot(quartiles[1] - quartiles[0], self._cell)

    def window(self, quartiles: Sequence[int], grid: ValueGrid) -> Window:
        """Return the window to which results are clipped; without quartiles, the full grid."""
        if not quartiles:
            return grid.low, grid.high
        low, high = min(quartiles), max(quartiles)
        margin = WINDOW_FACTOR * max(high - low, self._cell)
        return max(grid.low, low - margin), min(grid.high, high + margin)

    def windows(
        self, grids: Sequence[ValueGrid], quartiles: Sequence[Sequence[int]]
    ) -> list[Window]:
        """Return the window of each output."""
        return [self.window(pair, grid) for pair, grid in zip(quartiles, grids, strict=True)]

    def write_steps(
        self, grids: Sequence[ValueGrid], quartiles: Sequence[Sequence[int]]
    ) -> list[str]:
        """Return the sizes of the steps of all releases, to be stored with the released numbers.

        A stored answer is read only if they have not changed. The first entry has the fraction and
        the distance of candidates for quartiles; answers of confide 0.1 do not have it.
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
        return self._noise(1 - (self.part or SPREAD_FRACTION), windows)

    def square_noise(self, windows: Sequence[Window]) -> TotalNoise:
        """Return the noise of the sums of squares, from which variances are computed."""
        return self._noise(SPREAD_FRACTION, windows)

    def _noise(self, part: Fraction, windows: Sequence[Window]) -> TotalNoise:
        widths = [high - low for low, high in windows]
        return sum_noise(widths, self.neighbours, fraction_of(self.granted, part))

    def _quartile_choice(self) -> Exponential:
        return self._choice(self.part / (2 * len(self.bounds)))

    def _median_choice(self) -> Exponential:
        return self._choice((1 - self.part) / len(self.bounds))

    def _choice(self, part: Fraction) -> Exponential:
        return choose_rank(self.neighbours, self.granted, part)

    def read(self, index: int, noisy: dict[str, Any]) -> tuple[float, Floats]:
        """Return an output's estimate and its replicas, from the released numbers."""
        grid, pair = self.grids[index], noisy["quartiles"][index]
        if self.method == "median":
            found, replicas = self._read_median(index, noisy)
        elif pair:
            found, replicas = self._read_window(index, noisy)
        else:
            found, replicas = self._read_mean(index, noisy)
        unit, start = float(grid.step), float(grid.center)
        inside = np.clip(replicas, grid.low, grid.high)
        return start + unit * min(max(found, grid.low), grid.high), start + unit * inside

    def _read_median(self, index: int, noisy: dict[str, Any]) -> tuple[float, Floats]:
        """Return the chosen median, and replicas of the population median.

        Law:  for k normal results with standard deviation s, the standard error of the median is
              sqrt(pi / 2) times that of the mean. The error of the chosen rank is a Laplace
              variable with scale 1 / rate, and results near the median are sqrt(2 pi) s / k apart.
              Without quartiles, s is unknown. The replicas then alternate between the two bounds,
              which become the ends of the interval.
        """
        grid, pair = self.grids[index], noisy["quartiles"][index]
        middle, normals = float(noisy["sums"][index]), self._normals(index)
        if not pair:
            return middle, np.where(_is_odd(normals), float(grid.high), float(grid.low))
        rank_errors = _laplace(normals[:, 1]) / float(self._median_choice().rate)
        errors = (math.pi / 2.0 / self.blocks) ** 0.5 * normals[:, 0]
        errors += (2.0 * math.pi) ** 0.5 / self.blocks * rank_errors
        deviation = self._range(pair) / NORMAL_RANGE * self._deviation_factors(index)
        return middle, np.asarray(middle + deviation * errors)

    def _read_window(self, index: int, noisy: dict[str, Any]) -> tuple[float, Floats]:
        """Return the mean within a window, and replicas of the population mean.

        Law:  let d be the distance of the mean from the midpoint of the quartiles, in multiples of
              the interquartile range, and at most 1/4. For a skewed distribution, the standard
              deviation of the results is up to 1 + 25 d^2 times the value that the range suggests
              for normal results. Their mean is up to 4 d^2 ranges farther from the midpoint than
              the mean within the window. Both bounds hold for gamma and lognormal distributions up
              to skewness 2. Every other replica includes the larger distance. If the quartiles are
              equal or adjacent candidates, the results may lie anywhere between the quartiles, or
              up to half a candidate's distance outside. The interval includes that range.
        """
        pair, blocks = noisy["quartiles"][index], self.blocks
        windows = self.windows(self.grids, noisy["quartiles"])
        low, high = windows[index]
        noise, normals = self.sum_noise(windows), self._normals(index)
        mean = noisy["sums"][index] * float(noise.steps[index]) / blocks
        inside, width = min(max(mean, 0.0), float(high - low)), self._range(pair)
        skew = (low + inside - (pair[0] + pair[1]) / 2.0) / width
        skew = min(max(skew, -SKEW_LIMIT), SKEW_LIMIT)
        deviation = width / NORMAL_RANGE * (1.0 + SKEW_SPREAD_FACTOR * skew**2)
        tail = math.copysign(SKEW_TAIL_FACTOR * skew**2 * width, skew) * _is_odd(normals)
        errors = deviation / blocks**0.5 * normals[:, 0] * self._deviation_factors(index)
        noise_sample = thin(sample_noise(noise)[:, index]) / blocks
        replicas = low + inside + errors + noise_sample + tail
        if abs(pair[1] - pair[0]) <= self._cell:
            replicas[::4] = np.minimum(replicas[::4], min(pair) - self._cell / 2.0)
            replicas[2::4] = np.maximum(replicas[2::4], max(pair) + self._cell / 2.0)
        return low + inside, replicas

    def _read_mean(self, index: int, noisy: dict[str, Any]) -> tuple[float, Floats]:
        """Return the mean within the bounds, and replicas of the population mean.

        Law:  the variance of the results follows from the noisy sum of their squared distances from
              the midpoint of the bounds. Replicas add noise to both sums. They limit the variance
              to m (w - m) k / (k - 1), the largest that k results with a mean m within a width w
              can have. So if the noise hides the variance, many replicas have this variance.
        """
        windows, blocks = self.windows(self.grids, noisy["quartiles"]), self.blocks
        low, high = windows[index]
        width = float(max(1, high - low))
        sums, squares = self.sum_noise(windows), self.square_noise(windows)
        normals = self._normals(index)
        mean = noisy["sums"][index] * float(sums.steps[index]) / blocks
        square = noisy["squares"][index] * float(squares.steps[index]) / blocks
        means = mean + thin(sample_noise(sums)[:, index]) / blocks
        noise_sample = thin(sample_noise(squares)[:, index]) / blocks
        found = width / 4.0 * (square + _reorder(noise_sample, normals[:, 1]))
        inside = np.clip(means, 0.0, width)
        unbiased = blocks / (blocks - 1.0)
        largest = inside * (width - inside) * unbiased
        variance = np.clip((found - (inside - width / 2.0) ** 2) * unbiased, 0.0, largest)
        factors = _student_factors(
            NORMALS_PER_OUTPUT * len(self.bounds), NORMALS_PER_OUTPUT * index + 2, blocks - 1.0
        )
        students = normals[:, 0] * factors
        return low + mean, np.asarray(low + means + np.sqrt(variance / blocks) * students)

    def _normals(self, index: int) -> Floats:
        """Return the columns of evenly spread normal numbers that belong to an output."""
        normals = spread_normals(NORMALS_PER_OUTPUT * len(self.bounds))
        return normals[:, NORMALS_PER_OUTPUT * index : NORMALS_PER_OUTPUT * (index + 1)]

    def _deviation_factors(self, index: int) -> Floats:
        """Return factors for the uncertainty of a standard deviation derived from quartiles.

        Multiplied by normal numbers, they give Student t numbers, one per replica.

        Why: the interquartile range of k normal results has a relative variance of 1.36 / k. The
             quartiles are chosen with a rate r, which misses each rank with variance 2 / r^2 and
             adds 21.8 / (r k)^2. The relative variance of a standard deviation with f degrees of
             freedom is about 1 / (2 f), which gives f.
        """
        freedom = 1.0 / (2.72 / self.blocks + 43.5 / self.strength**2)
        return _student_factors(
            NORMALS_PER_OUTPUT * len(self.bounds), NORMALS_PER_OUTPUT * index + 2, freedom
        )


def _choose_cell(exponent: float) -> int:
    """Return the number of steps between candidates, if the worst one has weight exp(-exponent).

    Why: the probability that a candidate beyond all results is chosen is at most N exp(-exponent),
         where N is the number of candidates. For N = exp(exponent - 2), it is exp(-2).
    """
    bits = math.floor((exponent - 2.0) / math.log(2.0))
    return 1 << FINE_BITS - min(max(bits, COARSE_BITS), FINE_BITS)


@lru_cache(maxsize=64)
def _student_factors(dimensions: int, column: int, freedom: float) -> Floats:
    """Return evenly spread factors that turn normal numbers into Student t numbers.

    ``freedom`` is the number of degrees of freedom. The factors use one column of
    `spread_normals`, so that they are independent of the other columns.
    """
    levels = special.ndtr(spread_normals(dimensions)[:, column])
    return np.asarray(np.sqrt(freedom / (2.0 * special.gammaincinv(freedom / 2.0, levels))))


def _laplace(normals: Floats) -> Floats:
    """Return Laplace numbers of scale 1 at the same quantile levels as normal numbers."""
    return np.asarray(-np.sign(normals) * np.log(2.0 * special.ndtr(-np.abs(normals))))


def _reorder(values: Floats, by: Floats) -> Floats:
    """Return the values in the order of ``by``, so that they are independent of other columns."""
    return np.asarray(np.sort(values)[np.argsort(np.argsort(by[: len(values)]))])


def _is_odd(rows: Floats) -> Any:
    """Return a mask of every other row."""
    return np.arange(len(rows)) % 2 == 1
