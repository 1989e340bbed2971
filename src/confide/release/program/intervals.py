"""Intervals of computed columns.

A single statistic has its own interval (release/intervals.py, release/quantiles.py). What rises or
falls with it has the ends of that, taken along (`interval_arithmetic`). What several statistics
are in is simulated if it is a ratio of linear expressions or nearly linear (`simulation`); else
the ends of all of them are taken along, each held so often that all hold together.
"""

from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from confide.aggregates import function_of
from confide.aggregates.intervals import floor_ends
from confide.expressions.tree import AggregateCall, Expression, Value
from confide.plan import Plan
from confide.query import Program
from confide.release.combine import noise_of
from confide.release.estimates import Floats, interval, is_clipped
from confide.release.noise import NoisyMeasurement
from confide.release.noise_sample import sample_levels
from confide.release.program.interval_arithmetic import (
    Ends,
    Mask,
    divisor_of,
    find_core,
    leaps,
    list_statistics,
    list_vanishing,
    map_ends,
)
from confide.release.program.run import (
    Statistics,
    evaluate,
    is_floored,
    is_noisy_number,
    order_groups,
)
from confide.release.program.simulation import simulate
from confide.release.quantiles import read_ends, spread_ends

__all__ = ["Intervals", "program_intervals"]

WORK: Final = 2**20
"""How many draws all groups share; each has a fourth of the sample at most, a 16th at least."""
FINEST: Final = 4
COARSEST: Final = 16


def program_intervals(
    program: Program, plan: Plan, noisy: NoisyMeasurement, level: float
) -> list[dict[str, float]]:
    """Return the ends ``x_low`` and ``x_high`` of every noisy column x, for each row."""
    intervals = Intervals(plan, noisy, level)
    ends: dict[str, Floats] = {}
    for output in filter(is_noisy_number, program.outputs):
        low, high = intervals.ends(output.expression)
        ends[f"{output.name}_low"], ends[f"{output.name}_high"] = low, high
    groups = order_groups(program, plan, noisy)
    return [{name: float(end[group]) for name, end in ends.items()} for group in groups]


@dataclass(frozen=True, slots=True)
class Intervals:
    """The intervals of an answer, at one confidence."""

    plan: Plan
    totals: NoisyMeasurement
    level: float

    def ends(self, expression: Expression) -> Ends:
        """Return both ends of an expression without noise, for each group."""
        core = find_core(expression)
        found = (
            self._own(core, self.level) if isinstance(core, AggregateCall) else self._several(core)
        )
        return self._map(expression, {core: found})

    def _own(self, aggregate: AggregateCall, level: float) -> Ends:
        """Return the ends of a statistic's own interval."""
        statistic = next(s for s in self.plan.statistics if s.aggregate == aggregate)
        totals, noise = self.totals.values(self.plan), noise_of(self.totals, self.plan)
        chosen = partial(read_ends, self.plan, self.totals.cells, confidence=level)
        ends = interval(statistic, self.plan, totals, noise, level, chosen=chosen)
        return floor_ends(*ends) if is_floored(aggregate, self.plan) else ends

    def _map(self, expression: Expression, ends: dict[Expression, Ends]) -> Ends:
        columns = Statistics.of(self.totals, self.plan)
        return map_ends(expression, columns, len(self.totals.groups), ends)

    def _several(self, expression: Expression) -> Ends:
        """Return the ends of what several statistics are in: simulated, where that is reliable."""
        if leaps(expression):
            return self._join(expression)
        low, high = self._simulate(expression)
        is_unknown = np.isnan(low) | self._may_vanish(expression)
        if not is_unknown.any():
            return low, high
        first, last = self._join(expression)
        return np.where(is_unknown, first, low), np.where(is_unknown, last, high)

    def _join(self, expression: Expression) -> Ends:
        """Return the ends of what several statistics allow together, and of what was released.

        Claim:   held as often as ``level`` says or more often, if each statistic is held as often
                 as its interval says and none is a quantile.
        Why:     each of k intervals fails k times more rarely than the whole may, so all together
                 hold often enough, however much they depend on each other. No count is below zero.
                 The ends of quantiles were chosen for 95 %, and there are no others; with few rows
                 these hold more often. A released value that no possible totals lead to says
                 nothing, so its interval has no ends.
        Checked: tests/release/test_program_intervals.py.
        """
        ends = self._together(expression)
        low, high = self._map(expression, ends)
        own = self._compute(expression, self.totals.groups, self.totals.values(self.plan))
        is_impossible = np.isnan(low) & ~np.isnan(own)
        return (
            np.where(is_impossible, -np.inf, np.fmin(low, own)),
            np.where(is_impossible, np.inf, np.fmax(high, own)),
        )

    def _may_vanish(self, expression: Expression) -> Mask:
        """Return in which groups a part may be NULL in whose place another would be shown.

        Why: what most draws of the noise make of it then says nothing of what it is without.
        """
        parts = list_vanishing(expression)
        ends = self._together(expression) if parts else {}
        found = [np.isfinite(end) for part in parts for end in self._map(part, ends)]
        is_sure: Mask = np.ones(len(self.totals.groups), np.bool_)
        for one in found:
            is_sure = is_sure & one
        return ~is_sure

    def _together(self, expression: Expression) -> dict[Expression, Ends]:
        """Return the ends of the statistics in an expression, each so wide that all hold."""
        used = list_statistics(expression)
        raised = 1.0 - (1.0 - self.level) / max(len(used), 1)
        ends: dict[Expression, Ends] = {}
        for one in used:
            statistic = next(s for s in self.plan.statistics if s.aggregate == one)
            found = self._own(one, self.level if statistic.quantiles else raised)
            ends[one] = floor_ends(*found) if function_of(one).is_count else found
        return ends

    def _simulate(self, expression: Expression) -> Ends:
        """Return the ends of an expression from simulated totals; NaN where these do not tell."""
        totals, noise = self.totals.values(self.plan), noise_of(self.totals, self.plan)
        every = min(max(len(noise) * len(totals) // WORK, FINEST), COARSEST)
        thinned, levels = noise[::every], sample_levels(self.plan)[::every]
        spreads = [
            spread_ends(self.plan, self.totals.cells, place, self.level)
            for place in range(len(self.plan.quantiles))
        ]

        def draw(place: int) -> Floats:
            columns = [spread(levels[:, q], place) for q, spread in enumerate(spreads)]
            return np.column_stack([thinned, *columns])

        divisor = divisor_of(expression)
        signs = np.sign(self._compute(divisor or expression, self.totals.groups, totals))

        def compute(place: int, table: Floats) -> Floats:
            groups = (self.totals.groups[place],) * len(table)
            values = self._compute(expression, groups, table)
            if divisor is None:
                return values
            is_same = np.sign(self._compute(divisor, groups, table)) == signs[place]
            return np.where(is_same, values, np.nan)

        doubtful = self._is_clipped(expression)
        return simulate(compute, totals, draw, self.level, doubtful, is_ratio=divisor is not None)

    def _is_clipped(self, expression: Expression) -> Mask:
        """Return in which groups noise led a statistic of the expression out of its range."""
        used, totals = list_statistics(expression), self.totals.values(self.plan)
        found: Mask = np.zeros(len(totals), np.bool_)
        for statistic in self.plan.statistics:
            if statistic.aggregate in used:
                found = found | is_clipped(statistic, self.plan, totals)
        return found

    def _compute(
        self, expression: Expression, groups: tuple[tuple[Value, ...], ...], totals: Floats
    ) -> Floats:
        columns = Statistics(self.plan, groups, totals)
        return evaluate(expression, columns, len(totals)).astype(np.float64)
