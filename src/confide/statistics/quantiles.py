"""Joint estimation of several quantiles, which never cross.

For each requested level, three quantiles are chosen: at the level, and at a lower and a higher
level for the ends of its interval.
"""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Annotated, Any, Final

import numpy as np

from confide.declare import Float, Int, Table
from confide.errors import BadDeclaration
from confide.exact import Number, fraction
from confide.ledger import Hold
from confide.loss import Share
from confide.plan import Plan
from confide.plan.quantile_tree import QuantileTree, plan_quantile_tree
from confide.query import TableQuery, canonical, col, count, quantile
from confide.release.quantiles import choose_quantiles
from confide.statistics.arguments import (
    Argument,
    ColumnName,
    JsonList,
    JsonNumber,
    TableName,
    Within,
)
from confide.statistics.estimate import (
    Estimate,
    EstimateContext,
    Floats,
    Form,
    charge_and_release,
    make_estimate,
    read_sums,
    release_totals,
    split_share,
)
from confide.statistics.formula import ClipRange, Numbers, number_column, read_within
from confide.statistics.replicas import spread_normals
from confide.statistics.spec import StatisticSpec

__all__ = ["QUANTILES", "QuantilesArguments", "estimate_quantiles", "read_levels"]

COUNT_PART: Final = Fraction(1, 20)
MAX_LEVELS: Final = 100
MAX_DENOMINATOR: Final = 10**6
"""Levels are rounded to fractions with at most this denominator."""
TAIL_PROBABILITY: Final = 0.025
NORMAL_QUANTILE: Final = 1.959963984540054
"""The standard normal quantile at 1 - TAIL_PROBABILITY, from `scipy.special.ndtri`."""
LAPLACE_QUANTILE: Final = math.log(1 / (2 * TAIL_PROBABILITY))
RANK_CHANGE: Final = 0.75
"""Approximate change of a split's ranks by one row, in rows.

It is 1/2 for a split in the middle of its rows, and nearly 1 at either end.
"""


def read_levels(levels: Number | Sequence[Number]) -> tuple[list[Fraction], bool]:
    """Return the levels that a caller passed, as fractions, and whether it was a single number."""
    single = isinstance(levels, str) or not isinstance(levels, Sequence | np.ndarray)
    listed: list[Any] = [levels] if single else list(levels)  # type: ignore[arg-type]
    if not 1 <= len(listed) <= MAX_LEVELS:
        raise BadDeclaration(f"`levels` must have 1 to {MAX_LEVELS} items; got {len(listed)}.")
    given = [fraction("level", level, "a number between 0 and 1") for level in listed]
    read = [level.limit_denominator(MAX_DENOMINATOR) for level in given]
    if not all(0 < level < 1 for level in read):
        raise BadDeclaration(f"`levels` must lie between 0 and 1, exclusive; got {levels!r}.")
    return read, single


@dataclass(frozen=True, slots=True)
class _PreparedQuantiles:
    """The plans for the number of rows and for the histogram, and the tree that chooses cells.

    ``cells`` only computes the histogram; the tree spends its share.
    """

    count: Plan
    cells: Plan
    tree: QuantileTree


LEVEL: Final = JsonNumber(0, 1, is_open=True)


@dataclass(frozen=True, slots=True)
class QuantilesArguments:
    """The arguments of `quantiles`."""

    table: TableName
    column: ColumnName
    levels: Annotated[
        Number | Sequence[Number],
        Argument("levels such as 0.5 for the median", (LEVEL, JsonList(LEVEL, 1, MAX_LEVELS))),
    ]
    _: KW_ONLY
    within: Within = None


def estimate_quantiles(context: EstimateContext, arguments: QuantilesArguments) -> Estimate:
    """Return quantiles of a column, which never cross, with intervals.

    Law:     the noisy number of rows, for 5% of the cost, then `QuantileTree` on three levels for
             each requested level: the level itself, and one on each side for its interval.
    Claim:   costs the granted share. A 95% interval covers the population's quantile with
             approximately 95% probability.
    Why:     two errors shift the rank of a quantile at level q among n rows. The sampling error is
             at most 1.96 sqrt(n q (1 - q)) rows with probability 95%, and there is a similar bound
             on the error of the choices. The outer levels are at a distance from q of one row more
             than the root of the sum of the squares of both bounds, divided by n. The total error
             exceeds it with a probability of about 5%.
    Source:  [KSS22], [Smi11]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_quantiles.py.
    """
    levels, single = read_levels(arguments.levels)
    within = read_within(arguments.within)
    numbers = number_column(context, arguments.table, arguments.column, within)
    wanted = sorted(set(levels))
    rows = TableQuery(arguments.table).where(col(numbers.name).not_null())
    executor = context.executor
    count_query = executor.planner.read(rows.agg(n=count()))
    # A query for any quantile has the histogram from which all quantiles can be chosen.
    histogram_query = executor.planner.read(
        rows.agg(q=quantile(_clipped_term(numbers, within), Fraction(1, 2)))
    )

    def prepare(share: Share) -> _PreparedQuantiles:
        count_share, tree_share = split_share(share, (COUNT_PART, 1 - COUNT_PART))
        plan = executor.planner.plan(histogram_query, tree_share)
        unit_rows, granted = plan.contribution.rows, executor.planner.loss(tree_share)
        tree = plan_quantile_tree(3 * len(wanted), unit_rows, executor.planner.neighbours, granted)
        return _PreparedQuantiles(executor.planner.plan(count_query, count_share), plan, tree)

    def release(prepared: _PreparedQuantiles, hold: Hold) -> dict[str, Any]:
        steps = release_totals(executor, prepared.count, hold)
        size = max(1, round(float(read_sums(prepared.count, steps).values[0, 0])))
        all_levels, positions = _add_outer_levels(wanted, size, prepared.tree)
        sealed = executor.engine.run(prepared.cells.measurement, hold)
        cells = prepared.cells.histograms[0].cells
        chosen = choose_quantiles(
            sealed, cells, prepared.tree, all_levels, executor.entropy, size=size
        )
        return {"rows": size, "cells": [chosen[position] for position in positions]}

    terms = {
        "estimate": "quantiles",
        "query": canonical(histogram_query),
        "levels": [str(q) for q in wanted],
    }
    charged = charge_and_release(context, terms, prepare, release, readings=2)
    middle, low, high = _read_values(charged.prepared.cells, charged.noisy["cells"])
    indexes = [wanted.index(level) for level in levels]
    names = tuple(f"q{float(level):g}" for level in levels)
    replicas = _replicas(middle, low, high)[:, indexes]
    form: Form = "one" if single else "list"
    return make_estimate(
        f"quantiles of {numbers.name}", names, middle[indexes], replicas, charged, form=form
    )


def _clipped_term(numbers: Numbers, within: ClipRange) -> Any:
    return numbers.term if within is not None else col(numbers.name)


def _add_outer_levels(
    levels: Sequence[Fraction], size: int, tree: QuantileTree
) -> tuple[list[Fraction], list[int]]:
    """Return all levels to choose, in ascending order, and the positions of each quantile's levels.

    ``size`` is the number of rows. The second list has, for each of ``levels``, the positions of
    the level itself, of the lower end, and of the upper end of its interval.
    """
    rate = float(tree.epsilon) / (2.0 * tree.moved * RANK_CHANGE)
    choice_error = LAPLACE_QUANTILE / rate * math.sqrt(len(tree.rounds))
    numbered: list[tuple[Fraction, int]] = []
    for index, level in enumerate(levels):
        sampling_error = NORMAL_QUANTILE * math.sqrt(size * float(level * (1 - level)))
        distance = Fraction(math.hypot(sampling_error, choice_error) + 1.0) / size
        ends = (level, max(Fraction(0), level - distance), min(Fraction(1), level + distance))
        numbered += [(end, 3 * index + number) for number, end in enumerate(ends)]
    numbered.sort()
    order = {number: position for position, (_, number) in enumerate(numbered)}
    return [level for level, _ in numbered], [order[number] for number in range(len(numbered))]


def _read_values(plan: Plan, chosen: Sequence[int]) -> tuple[Floats, Floats, Floats]:
    """Return the values of the quantiles, and the lower and upper ends of their intervals.

    ``chosen`` has three cells for each quantile: its own, and those of both ends. An end beyond all
    cells becomes the end of the range.
    """
    cells = plan.histograms[0].cells
    indexes = np.clip(np.array(chosen, dtype=np.int64), 0, cells.count - 1)
    values, (lows, highs) = cells.middle(indexes), cells.ends(indexes)
    return values[0::3], np.minimum(lows[1::3], values[0::3]), np.maximum(highs[2::3], values[0::3])


def _replicas(middle: Floats, low: Floats, high: Floats) -> Floats:
    """Return replicas of each value, whose central 95% interval is the one from low to high."""
    normals = spread_normals(1) / NORMAL_QUANTILE
    replicas: Floats = middle + np.where(
        normals < 0, normals * (middle - low), normals * (high - middle)
    )
    return replicas


def _audit(table: Table) -> QuantilesArguments | None:
    """Return arguments for the median of the first numeric column."""
    numbers = table.names_of(Int, Float)
    return QuantilesArguments(table.name, numbers[0], 0.5) if numbers else None


QUANTILES: Final = StatisticSpec(
    name="quantiles",
    arguments=QuantilesArguments,
    estimate=estimate_quantiles,
    summary="quantiles of a column, such as ``[0.25, 0.5, 0.75]``; they never cross",
    details=(
        "Several levels together cost less than one by one. ``value`` is a list, or a number for "
        "one level."
    ),
    audit=_audit,
    trial="a median",
)
