"""Keys and statistics of each group, as arithmetic on them needs them."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from confide.plan import Plan
from confide.query.functions import Aggregation
from confide.query.tree import Aggregate, Expression, Key, Value
from confide.release.estimates import Floats, estimate
from confide.release.noise import NoisyTotals

__all__ = ["COUNTS", "Statistics", "floor_counts"]

COUNTS: Final = (Aggregation.COUNT, Aggregation.COUNT_UNITS)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Gives the column of a key or a statistic, from totals of each group."""

    plan: Plan
    groups: tuple[tuple[Value, ...], ...]
    totals: Floats

    @classmethod
    def of(cls, totals: NoisyTotals, plan: Plan) -> "Statistics":
        """Return those that were released."""
        return cls(plan, totals.groups, totals.values(plan))

    def __call__(self, expression: Expression) -> NDArray[Any]:
        if isinstance(expression, Key):
            return np.array([group[expression.place] for group in self.groups], dtype=object)
        statistic = next(s for s in self.plan.statistics if s.aggregate == expression)
        return floor_counts(estimate(statistic, self.plan, self.totals), expression, self.plan)


def floor_counts(values: Floats, expression: Expression, plan: Plan) -> Floats:
    """Return counts without what lies below zero, if the owner asks for it; others as they are."""
    is_count = isinstance(expression, Aggregate) and expression.function in COUNTS
    return np.maximum(values, 0.0) if is_count and plan.is_nonnegative else values
