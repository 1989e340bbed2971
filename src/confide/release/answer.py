"""`Answer` and `Cost`: the values that a caller gets, computed from a noisy measurement."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Protocol

import numpy as np

from confide.aggregates import function_of
from confide.aggregates.needs import CountRows, SumValues
from confide.errors import UnsupportedQuery
from confide.exact import Number, percent
from confide.expressions.tree import AggregateCall, Expression, Key
from confide.ledger import Receipt
from confide.plan import Plan
from confide.query import Program
from confide.release.combine import CombinedMeasurement, combine
from confide.release.display import (
    Chart,
    draw_chart,
    import_frames,
    write_arrow,
    write_footer,
    write_table,
    write_text,
)
from confide.release.estimates import half_width, interval
from confide.release.noise import NoisyMeasurement
from confide.release.noise_sample import noise_sample, read_confidence
from confide.release.notes import notes_of
from confide.release.program.intervals import program_intervals
from confide.release.program.run import ResultTable, is_noisy_number, run_program
from confide.release.shrinkage import shrink_counts

__all__ = ["GROUP_SIZE", "Answer", "Cost", "predict_errors", "predict_group_errors"]

GROUP_SIZE: Final = 1_000
"""The number of rows of the group for which errors that depend on the data are predicted."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an answer: a share of the budget, and its epsilon at the budget's delta."""

    share: Fraction
    epsilon: float

    def __str__(self) -> str:
        return f"{percent(self.share)} of the budget (epsilon {self.epsilon:.4g})"


class AnswerSource(Protocol):
    """A source of the stored answers to one query."""

    def stored(self) -> "Sequence[Answer]":
        """Return all stored answers that the caller may see at no cost."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Answer:
    """Noisy values, one row per group, with their intervals, cost, and receipt.

    ``totals`` are the released values. Rows and intervals are computed from them when needed.
    ``reused`` is whether a stored answer was returned. ``source`` finds all stored answers to the
    same query.
    """

    plan: Plan
    totals: NoisyMeasurement
    cost: Cost
    receipt: Receipt
    reused: bool
    source: AnswerSource | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, as the analyst gave them."""
        return self._program.columns

    @property
    def _program(self) -> Program:
        return Program.of(self.plan.query)

    def _run(self) -> ResultTable:
        return run_program(self._program, self.plan, self.totals)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about contribution limits and errors of quantiles; empty without either."""
        return notes_of(self.plan)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The values, one dictionary per row."""
        return self._run().rows

    def likely_rows(self) -> list[dict[str, Any]]:
        """Return the rows with each plain count replaced by its mean, given all noisy counts.

        This costs nothing. If many groups are small, these counts are more accurate. They are never
        negative. But they are biased: do not add them up. All other columns are unchanged, and so
        are the intervals.
        """
        if isinstance(self.totals, CombinedMeasurement):
            raise UnsupportedQuery(
                "Likely counts cannot be computed for a combined answer. Use a single answer."
            )
        result, noisy = self._run(), self.totals.values(self.plan)
        found = result.rows
        for output in self._program.outputs:
            index = _count_index(output.expression, self.plan)
            if index is None:
                continue
            counts = shrink_counts(noisy[:, index], self.plan.noise, index)
            for row, group in zip(found, result.order, strict=True):
                row[output.name] = float(counts[group])
        return found

    def combined(self) -> "Answer":
        """Combine all stored answers to this query into one, weighted by inverse variance.

        This costs nothing. It combines all answers that the caller may see at no cost: the caller's
        own, or everyone's if the owner allows it. More answers together give narrower intervals.
        """
        stored = self.source.stored() if self.source is not None else ()
        parts = [(each.plan, each.totals) for each in stored] or [(self.plan, self.totals)]
        free = Cost(Fraction(0), 0.0)
        return replace(self, totals=combine(parts), cost=free, reused=True)

    def to_pandas(self) -> Any:
        """Return the values as a pandas DataFrame."""
        pd = import_frames("pandas")
        return pd.DataFrame(self.rows, columns=list(self.columns))

    def to_polars(self) -> Any:
        """Return the values as a Polars DataFrame."""
        pl = import_frames("polars")
        return pl.DataFrame(self.rows, schema=list(self.columns), orient="row")

    def to_arrow(self) -> Any:
        """Return the values as an Arrow table."""
        return write_arrow(self.columns, self.rows)

    def interval_rows(self, confidence: Number = 0.95) -> list[dict[str, Any]]:
        """Return, for each row, the ends of the interval of every noisy numeric column.

        The ends of a column x are called ``x_low`` and ``x_high``.
        """
        level = read_confidence(confidence)
        return program_intervals(self._program, self.plan, self.totals, level)

    def intervals(self, confidence: Number = 0.95) -> Any:
        """Return the intervals as a pandas DataFrame, with the keys first."""
        pd = import_frames("pandas")
        rows, ends = self.rows, self.interval_rows(confidence)
        keys, numbers = self._names()
        columns = {key: [row[key] for row in rows] for key in keys}
        end_names = [f"{name}_{end}" for name in numbers for end in ("low", "high")]
        return pd.DataFrame(columns | {name: [row[name] for row in ends] for name in end_names})

    def plot(self) -> Chart:
        """Return a chart of every noisy numeric column, with its 95% intervals as error bars."""
        return draw_chart(*self._names(), self.rows, self.interval_rows())

    def __repr__(self) -> str:
        ends = self.interval_rows()
        return write_text(self.columns, self.rows, ends, self._footer(), self.notes)

    def _repr_html_(self) -> str:
        ends = self.interval_rows()
        return write_table(self.columns, self.rows, ends, self._footer(), self.notes)

    def _names(self) -> tuple[list[str], list[str]]:
        """Return the names of the key columns and of the noisy numeric columns."""
        outputs = self._program.outputs
        keys = [output.name for output in outputs if isinstance(output.expression, Key)]
        return keys, [output.name for output in outputs if is_noisy_number(output)]

    def _footer(self) -> str:
        return write_footer(is_noisy=bool(self._names()[1]), cost=self.cost)


def _count_index(expression: Expression, plan: Plan) -> int | None:
    """Return the index of a plain count among the totals, or None for anything else."""
    if not isinstance(expression, AggregateCall) or not function_of(expression).is_count:
        return None
    return next(s.only_total for s in plan.statistics if s.aggregate == expression)


def predict_errors(plan: Plan, confidence: Number = 0.95) -> dict[str, float | None]:
    """Return the predicted half-width of the interval of each noisy numeric column.

    It is None if it depends on the data, and for every column that is not a plain count or sum.
    """
    level, noise = read_confidence(confidence), noise_sample(plan)
    found: dict[str, float | None] = {}
    for output in plan.query.outputs:
        if not is_noisy_number(output):
            continue
        statistic = next((s for s in plan.statistics if s.aggregate == output.expression), None)
        found[output.name] = half_width(statistic, plan, noise, level) if statistic else None
    return found


def predict_group_errors(plan: Plan, confidence: Number = 0.95) -> dict[str, float]:
    """Return half-widths of means in a group of GROUP_SIZE rows, by column.

    `predict_errors` returns None for these columns, because their error depends on the data.

    Why: the error of a mean depends on the number of rows and on the mean itself. The mean is
         assumed to lie halfway between the middle and the upper end of the declared range. For a
         mean in the middle, the error is about 10% smaller; at an end, it is about 25% larger.
    """
    level, noise = read_confidence(confidence), noise_sample(plan)
    sizes = (total.grid.high / 2 if total.grid is not None else 1.0 for total in plan.totals)
    totals = GROUP_SIZE * np.array([list(sizes)])
    found: dict[str, float] = {}
    for output in plan.query.outputs:
        statistic = next((s for s in plan.statistics if s.aggregate == output.expression), None)
        match statistic.parts if statistic is not None else ():
            case ((CountRows(), _), (SumValues(), _)) if statistic is not None:
                (low,), (high,) = interval(statistic, plan, totals, noise, level)
                found[output.name] = float(high - low) / 2
            case _:
                pass
    return {name: width for name, width in found.items() if np.isfinite(width)}
