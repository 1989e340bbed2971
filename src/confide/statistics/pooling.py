"""How the results of blocks become one estimate: which part of the cost does what."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from confide.engines.blocks import SealedBlocks
from confide.loss import Loss
from confide.mechanisms import Exponential, Neighbours
from confide.noise import Entropy
from confide.plan.blocks import choose_rank, grid_of_bounds, sum_noise
from confide.plan.grants import take_part
from confide.plan.noise import TotalNoise
from confide.plan.totals import ValueGrid
from confide.release.blocks import ASINH, choose_block_rank
from confide.release.reference import sample_noise
from confide.statistics.reading import Floats
from confide.statistics.replicas import spread_normals, thin

__all__ = ["Pooling"]

BOUNDS_PART: Final = Fraction(2, 5)
SPREAD_PART: Final = Fraction(1, 10)
WINDOW_PART: Final = Fraction(1, 2)
QUARTILE_PART: Final = Fraction(1, 4)
LOW, MIDDLE, HIGH = Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)
WIDENING: Final = 2
FAR: Final = 4.0
NORMAL_RANGE: Final = 1.349
"""How many standard deviations lie between the quartiles of a normal law."""

Bounds = tuple[tuple[Fraction, Fraction] | None, ...]
Window = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pooling:
    """The releases that one granted loss pays for.

    Claim:   all of them together cost ``granted``.
    Why:     parts of it that add up to at most 1 are taken: two fifths for bounds where some are to
             be found, shared by their ranks; of the rest, by method, for quartiles, medians, sums
             and sums of squares, shared by the numbers that the estimator returns.
    Source:  [DR14]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_aggregate.py.
    """

    bounds: Bounds
    method: str
    granted: Loss
    neighbours: Neighbours
    entropy: Entropy

    @property
    def rest(self) -> Fraction:
        """The part that finding bounds leaves."""
        return 1 - BOUNDS_PART if None in self.bounds else Fraction(1)

    def check(self) -> None:
        """Refuse a loss for which there is no noise, before it is charged.

        Why: all grids are as wide, and a narrower window needs no more steps of noise.
        """
        if None in self.bounds:
            self._bounds_choice()
        whole = grid_of_bounds(Fraction(0), Fraction(1))
        pairs: list[list[int]] = [[] for _ in self.bounds]
        if self.method != "mean":
            self._quartile_choice()
            pairs = [[whole.low, whole.high] for _ in self.bounds]
        if self.method == "median":
            self._median_choice()
        self.write_steps([whole for _ in self.bounds], pairs)

    def find_bounds(self, sealed: SealedBlocks, place: int) -> list[int]:
        """Return where the middle of the results lies and how far from it most of them are.

        Both are steps on a scale that has room for any number.
        """
        if self.bounds[place] is not None:
            return []
        choice = self._bounds_choice()
        middle = choose_block_rank(
            sealed, place, ASINH, choice, self.entropy, level=MIDDLE, bend=_bend
        )
        distance = choose_block_rank(
            sealed,
            place,
            ASINH,
            choice,
            self.entropy,
            level=HIGH,
            bend=_distance(_unbend(middle)),
        )
        return [middle, distance]

    def grid(self, place: int, found: Sequence[int]) -> ValueGrid:
        """Return the grid between the bounds of an output, declared or found."""
        declared = self.bounds[place]
        if declared is not None:
            return grid_of_bounds(*declared)
        middle, distance = (_unbend(step) for step in found)
        reach = FAR * max(abs(distance), abs(middle) * 2.0**-20, 2.0**-20)
        return grid_of_bounds(Fraction(middle - reach), Fraction(middle + reach))

    def quartiles(self, sealed: SealedBlocks, place: int, grid: ValueGrid) -> list[int]:
        """Return two quartiles of the results, in steps; none for the plain mean."""
        if self.method == "mean":
            return []
        choice = self._quartile_choice()
        return [
            choose_block_rank(sealed, place, grid, choice, self.entropy, level=level)
            for level in (LOW, HIGH)
        ]

    def median(self, sealed: SealedBlocks, place: int, grid: ValueGrid) -> int:
        """Return the middle of the results, in steps."""
        choice = self._median_choice()
        return choose_block_rank(sealed, place, grid, choice, self.entropy, level=MIDDLE)

    def window(self, quartiles: Sequence[int], grid: ValueGrid) -> Window:
        """Return within which steps results count: far outside both quartiles, or everywhere."""
        if not quartiles:
            return grid.low, grid.high
        low, high = min(quartiles), max(quartiles)
        wide = WIDENING * max(high - low, 1)
        return max(grid.low, low - wide), min(grid.high, high + wide)

    def windows(
        self, grids: Sequence[ValueGrid], quartiles: Sequence[Sequence[int]]
    ) -> list[Window]:
        """Return the window of each output."""
        return [self.window(pair, grid) for pair, grid in zip(quartiles, grids, strict=True)]

    def write_steps(
        self, grids: Sequence[ValueGrid], quartiles: Sequence[Sequence[int]]
    ) -> list[str]:
        """Return in which steps everything is released: numbers mean nothing without them."""
        found = [grid.step for grid in grids]
        if self.method != "median":
            windows = self.windows(grids, quartiles)
            found += self.sum_noise(windows).steps
            found += self.square_noise(windows).steps if self.method == "mean" else ()
        return [str(step) for step in found]

    def sum_noise(self, windows: Sequence[Window]) -> TotalNoise:
        """Return the noise of the sums over blocks."""
        part = 1 - SPREAD_PART if self.method == "mean" else 1 - WINDOW_PART
        return self._noise(part, windows)

    def square_noise(self, windows: Sequence[Window]) -> TotalNoise:
        """Return the noise of the sums of squares, from which the spread of results is read."""
        return self._noise(SPREAD_PART, windows)

    def _noise(self, part: Fraction, windows: Sequence[Window]) -> TotalNoise:
        widths = [high - low for low, high in windows]
        return sum_noise(widths, self.neighbours, take_part(self.granted, self.rest * part))

    def _choice(self, part: Fraction) -> Exponential:
        return choose_rank(self.neighbours, self.granted, part)

    def _bounds_choice(self) -> Exponential:
        return self._choice(BOUNDS_PART / (2 * self.bounds.count(None)))

    def _quartile_choice(self) -> Exponential:
        part = WINDOW_PART if self.method == "window" else QUARTILE_PART
        return self._choice(self.rest * part / (2 * len(self.bounds)))

    def _median_choice(self) -> Exponential:
        return self._choice(self.rest * (1 - QUARTILE_PART) / len(self.bounds))

    def read(
        self, place: int, grids: Sequence[ValueGrid], noisy: dict[str, Any]
    ) -> tuple[float, float, Floats]:
        """Return an output's estimate, the deviation of one block's result, and moves by noise.

        The deviation of a middle is that of a mean times sqrt(pi / 2), if results are normal.
        """
        grid, blocks = grids[place], float(noisy["blocks"])
        unit, start = float(grid.step), float(grid.centre)
        pair = noisy["quartiles"][place]
        deviation = abs(pair[1] - pair[0]) / NORMAL_RANGE if pair else 0.0
        if self.method == "median":
            middle = start + unit * noisy["sums"][place]
            ranks = spread_normals(len(grids) + 1)[:, -1] * (
                2**0.5 / float(self._median_choice().rate)
            )
            moved = ranks * (unit * deviation * (2 * np.pi) ** 0.5 / blocks)
            return middle, unit * deviation * (np.pi / 2) ** 0.5, moved
        windows = self.windows(grids, noisy["quartiles"])
        low, high = windows[place]
        noise = self.sum_noise(windows)
        mean = noisy["sums"][place] * float(noise.steps[place]) / blocks
        if not pair:
            deviation = self._deviation(place, windows, noisy, mean)
        sample = sample_noise(noise)[:, place]
        moved = thin(sample) * (unit / blocks)
        inside = float(np.clip(mean, 0, high - low))
        return start + unit * (low + inside), unit * deviation, moved

    def _deviation(
        self, place: int, windows: Sequence[Window], noisy: dict[str, Any], mean: float
    ) -> float:
        """Return the deviation of results from the noisy sum of squares about the middle."""
        size = float(self.square_noise(windows).steps[place])
        width = float(max(1, windows[place][1] - windows[place][0]))
        square = noisy["squares"][place] * size / float(noisy["blocks"]) * width / 4.0
        return float(np.sqrt(np.clip(square - (mean - width / 2.0) ** 2, 0.0, width**2 / 4.0)))


def _bend(numbers: Floats) -> Floats:
    return np.asarray(np.arcsinh(numbers * 2.0**20))


def _distance(centre: float) -> Callable[[Floats], Floats]:
    return lambda results: _bend(np.abs(results - centre))


def _unbend(step: int) -> float:
    return math.sinh(float(ASINH.centre + ASINH.step * step)) / 2.0**20
