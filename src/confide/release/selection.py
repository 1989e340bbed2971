"""Private choices among exact values: of keys, candidates, bin widths, and block ranks.

plan/selection.py plans these choices and states what they cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from confide.engines import Sealed
from confide.engines.protocol import Floats, SealedBlocks
from confide.ledger import Receipt
from confide.mechanisms import Exponential, SparseVector
from confide.mechanisms.grid import saturate
from confide.noise import Entropy
from confide.plan import Plan
from confide.plan.calibration import TotalNoise
from confide.plan.selection import CandidatePlan, TopKeysPlan, WidthChoice, only_total
from confide.plan.sensitivity import score_unit
from confide.plan.totals import ValueGrid
from confide.release.answer import Cost
from confide.release.noise import NoisyMeasurement, round_to_steps
from confide.release.unseal import unseal

__all__ = [
    "Choice",
    "add_blocks",
    "choose_block_rank",
    "choose_candidate",
    "choose_width",
    "compare_score",
    "select_keys",
]


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen candidate and the cost of the choice.

    ``regret`` bounds how much its score may fall short of the best one, at 95% confidence.
    """

    value: str
    cost: Cost
    receipt: Receipt
    reused: bool
    regret: float

    def __str__(self) -> str:
        within = f"within {self.regret:.4g} of the best (95% confidence)"
        return f"{self.value!r}, {within}; cost {self.cost}"


def select_keys(sealed: Sealed, selection: TopKeysPlan, entropy: Entropy) -> NoisyMeasurement:
    """Return the chosen keys in the order in which they were chosen, without any numbers.

    # Privacy: every declared key takes part, whether or not it has rows; counts of other keys are
    # dropped unseen. Clipping a count at 2^61 never increases the change that a unit can cause.
    """
    exact = unseal(sealed).groups
    groups = list(selection.groups)
    scores = np.array([saturate(exact.get(group, (0,))[0]) for group in groups], dtype=np.int64)
    chosen = []
    for _ in range(selection.count):
        index = selection.selector.choose(scores, entropy=entropy)
        chosen.append(groups.pop(index))
        scores = np.delete(scores, index)
    return NoisyMeasurement(tuple(chosen), ((),) * len(chosen))


def choose_candidate(sealed: Sequence[Sealed], candidates: CandidatePlan, entropy: Entropy) -> int:
    """Return the index of the chosen candidate."""
    scores = [
        _score(values, plan, candidates.step)
        for values, plan in zip(sealed, candidates.plans, strict=True)
    ]
    return candidates.selector.choose(np.array(scores, dtype=np.int64), entropy=entropy)


def compare_score(sealed: Sealed, plan: Plan, step: Fraction, vector: SparseVector) -> bool:
    """Return whether a score is above the threshold of a session, up to noise."""
    return vector.ask(_score(sealed, plan, step))


def _score(sealed: Sealed, plan: Plan, step: Fraction) -> int:
    """Return an exact total in steps.

    # Privacy: a total beyond 2^61 steps is clipped, not refused, so no error message reveals it.
    """
    (total,) = unseal(sealed).groups.get((), (0,))
    return saturate(round_to_steps(total * score_unit(only_total(plan)), step))


def _grid_indices(results: Floats, grid: ValueGrid) -> list[int]:
    """Return block results as integer steps of a grid, clipped to it.

    A failed block has NaN as its result, which becomes the lower bound.

    # Privacy: a failed block is a result like any other, so nothing reveals how many failed.
    """
    low, step = float(grid.center), float(grid.step)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        indices = np.rint((np.nan_to_num(results, nan=-np.inf) - low) / step)
    indices = np.nan_to_num(indices, nan=float(grid.low))
    return [int(index) for index in np.clip(indices, grid.low, grid.high)]


def choose_block_rank(
    sealed: SealedBlocks,
    output: int,
    grid: ValueGrid,
    choice: Exponential,
    entropy: Entropy,
    *,
    level: Fraction,
) -> int:
    """Return a grid step, chosen near the quantile of this level of one output's block results.

    ``output`` is the index of the estimator's output.
    """
    results = unseal(sealed)[:, output]
    indices = np.array(_grid_indices(results, grid), dtype=np.int64)
    filled, blocks = np.unique(indices, return_counts=True)
    breaks = np.empty(2 * len(filled) + 2, dtype=np.int64)
    breaks[0], breaks[-1] = grid.low, grid.high + 1
    breaks[1:-1:2], breaks[2:-1:2] = filled, filled + 1
    ranks = np.concatenate([np.zeros(1, np.int64), np.cumsum(blocks)])
    low, high = np.repeat(ranks, 2)[:-1], np.repeat(ranks, 2)[1:]
    target = round(level * len(results))
    gaps = np.maximum(np.maximum(low - target, target - high), 0)
    return int(choice.choose_interval(breaks, -gaps, entropy=entropy))


def add_blocks(
    sealed: SealedBlocks,
    grids: Sequence[ValueGrid],
    windows: Sequence[tuple[int, int]],
    noise: TotalNoise,
    entropy: Entropy,
    *,
    squared: bool = False,
) -> list[int]:
    """Return a noisy sum over blocks for each output of an estimator, in noise steps.

    Every result adds s, its number of grid steps above the lower end of the output's window,
    clipped to the window. With ``squared``, it adds (2 s - w)^2 / w instead, rounded down, where w
    is the width of the window, at least 1. This measures the distance from the window's middle, and
    is from 0 to w, like s.

    # Privacy: every result is clipped to its window before it is added, so one block adds from 0 to
    # w, to which the noise is calibrated.
    """
    results = unseal(sealed)
    drawn = noise.law.draw(1, entropy)[0]
    released = []
    for output, (grid, (low, high)) in enumerate(zip(grids, windows, strict=True)):
        width = max(1, high - low)
        indices = _grid_indices(results[:, output], grid)
        inside = [min(max(index - low, 0), high - low) for index in indices]
        if squared:
            inside = [(2 * step - width) ** 2 // width for step in inside]
        total = round_to_steps(sum(inside), noise.steps[output])
        released.append(saturate(saturate(total) + int(drawn[output])))
    return released


def choose_width(sealed: Sealed, choice: WidthChoice, entropy: Entropy) -> int:
    """Return k for the chosen number of bins 2^k; see `WidthChoice`.

    # Privacy: counts of bins outside the range are dropped unseen; nothing leaves except the index
    # of the chosen candidate.
    """
    exact = unseal(sealed).groups
    counts = [exact.get((index,), (0,))[0] for index in range(2**choice.levels)]
    scores = np.array([saturate(score) for score in choice.scores(counts)], dtype=np.int64)
    return choice.selector.choose(scores, entropy=entropy)
