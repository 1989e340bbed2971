"""`Answer` and `Cost`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from confide.aggregates import function_of
from confide.declare import Kind
from confide.errors import UnsupportedQuery
from confide.exact import Number
from confide.expressions.tree import AggregateCall, Expression, Key
from confide.ledger import Receipt
from confide.plan import Plan
from confide.query.tree import Output
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
from confide.release.estimates import half_width
from confide.release.noise import NoisyMeasurement
from confide.release.noise_sample import noise_sample, read_confidence
from confide.release.notes import notes_of
from confide.release.program.intervals import Intervals
from confide.release.program.run import Statistics, evaluate
from confide.release.shrinkage import shrink_counts

__all__ = ["Answer", "Cost", "predict_errors"]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an answer: a share of the budget, and its epsilon at the budget's delta."""

    share: Fraction
    epsilon: float

    def __str__(self) -> str:
        return f"{float(self.share):.4g} of the budget (epsilon {self.epsilon:.4g})"


class AnswerSource(Protocol):
    """A source of the stored answers to one query."""

    def stored(self) -> "Sequence[Answer]":
        """Return all stored answers that are free for the caller."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Answer:
    """Noisy values, one row per group, with their intervals, cost, and receipt."""

    plan: Plan
    totals: NoisyMeasurement
    cost: Cost
    receipt: Receipt
    reused: bool
    source: AnswerSource | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, as the analyst gave them."""
        return tuple(output.name for output in self.plan.query.outputs)

    @property
    def notes(self) -> tuple[str, ...]:
        """The contribution limits that applied, and at which step; empty if none did."""
        return notes_of(self.plan)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The values, one dictionary per row."""
        outputs = self.plan.query.outputs
        columns = [
            _shown(output, column) for output, column in zip(outputs, self._table(), strict=True)
        ]
        return [
            {name: column[place] for name, column in zip(self.columns, columns, strict=True)}
            for place in self._order()
        ]

    def likely_rows(self) -> list[dict[str, Any]]:
        """Return the rows with every count replaced by its mean given all noisy counts; free.

        If many groups are small, this is more accurate, and it is never below zero. But it is
        biased: do not add up the results. Columns other than plain counts, and intervals, are
        unchanged.
        """
        found = self.rows
        if isinstance(self.totals, CombinedMeasurement):
            raise UnsupportedQuery(
                "combined answers have no likely counts; ask one answer for them"
            )
        noisy, order = self.totals.values(self.plan), self._order()
        for output in self.plan.query.outputs:
            place = _count_place(output.expression, self.plan)
            if place is None:
                continue
            counts = shrink_counts(noisy[:, place], self.plan.noise, place)
            for row, position in zip(found, order, strict=True):
                row[output.name] = float(counts[position])
        return found

    def combined(self) -> "Answer":
        """Return all stored answers to this query as one, weighted by inverse variance; free.

        It combines all answers that are free for the caller: the caller's own, or everyone's if the
        owner allows it. More answers together give narrower intervals.
        """
        stored = self.source.stored() if self.source is not None else ()
        parts = [(one.plan, one.totals) for one in stored] or [(self.plan, self.totals)]
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
        """Return the ends ``x_low`` and ``x_high`` of every numeric column x, for each row."""
        intervals = Intervals(self.plan, self.totals, read_confidence(confidence))
        ends: dict[str, Any] = {}
        for output in self.plan.query.outputs:
            if not _is_number(output):
                continue
            low, high = intervals.ends(output.expression)
            ends[f"{output.name}_low"], ends[f"{output.name}_high"] = low, high
        return [{name: float(end[place]) for name, end in ends.items()} for place in self._order()]

    def intervals(self, confidence: Number = 0.95) -> Any:
        """Return the intervals as a pandas DataFrame, with the keys first."""
        pd = import_frames("pandas")
        rows, ends = self.rows, self.interval_rows(confidence)
        keys, numbers = self._names()
        columns = {key: [row[key] for row in rows] for key in keys}
        sides = [f"{name}_{side}" for name in numbers for side in ("low", "high")]
        return pd.DataFrame(columns | {name: [end[name] for end in ends] for name in sides})

    def plot(self) -> Chart:
        """Return a chart of every numeric column, with its 95% intervals as error bars."""
        return draw_chart(*self._names(), self.rows, self.interval_rows())

    def __repr__(self) -> str:
        ends = self.interval_rows()
        return write_text(self.columns, self.rows, ends, self._footer(), self.notes)

    def _repr_html_(self) -> str:
        ends = self.interval_rows()
        return write_table(self.columns, self.rows, ends, self._footer(), self.notes)

    def _names(self) -> tuple[list[str], list[str]]:
        """Return the names of the key columns and of the noisy numeric columns."""
        outputs = self.plan.query.outputs
        keys = [output.name for output in outputs if isinstance(output.expression, Key)]
        return keys, [output.name for output in outputs if _is_number(output)]

    def _footer(self) -> str:
        return write_footer(is_noisy=bool(self._names()[1]), cost=self.cost)

    def _table(self) -> list[NDArray[Any]]:
        columns = Statistics.of(self.totals, self.plan)
        count = len(self.totals.groups)
        return [evaluate(output.expression, columns, count) for output in self.plan.query.outputs]

    def _order(self) -> list[int]:
        """Return the indices of the rows in the answer, after HAVING, ORDER BY, and LIMIT."""
        query, count = self.plan.query, len(self.totals.groups)
        columns = Statistics.of(self.totals, self.plan)
        places = list(range(count))
        if query.having is not None:
            kept = evaluate(query.having, columns, count)
            places = [place for place in places if _plain(kept[place])]
        for order in reversed(query.order):
            values = [_plain(value) for value in evaluate(order.expression, columns, count)]
            missing = [place for place in places if values[place] is None]
            places = [place for place in places if values[place] is not None]
            places.sort(key=values.__getitem__, reverse=order.descending)
            places += missing
        return places if query.limit is None else places[: query.limit]


def _count_place(expression: Expression, plan: Plan) -> int | None:
    """Return the index of a plain count among the totals, or None for anything else."""
    if not isinstance(expression, AggregateCall) or not function_of(expression).is_count:
        return None
    return next(s.only_total for s in plan.statistics if s.aggregate == expression)


def _shown(output: Output, column: NDArray[Any]) -> list[Any]:
    """Return a column as Python values, with integers rounded to int."""
    values = [_plain(value) for value in column]
    if output.expression.kind is Kind.INT and not isinstance(output.expression, Key):
        return [None if value is None else round(value) for value in values]
    return values


def _plain(value: Any) -> Any:
    item = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(item, float) and math.isnan(item) else item


def _is_number(output: Output) -> bool:
    """Return whether a column holds noisy numbers."""
    is_key = isinstance(output.expression, Key)
    return not is_key and output.expression.kind in (Kind.INT, Kind.FLOAT)


def predict_errors(plan: Plan, confidence: Number = 0.95) -> dict[str, float | None]:
    """Return the half-width of each numeric column, or None if it depends on the data."""
    level, noise = read_confidence(confidence), noise_sample(plan)
    found: dict[str, float | None] = {}
    for output in plan.query.outputs:
        if not _is_number(output):
            continue
        statistic = next((s for s in plan.statistics if s.aggregate == output.expression), None)
        found[output.name] = half_width(statistic, plan, noise, level) if statistic else None
    return found
