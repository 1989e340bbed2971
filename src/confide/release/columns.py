"""Keys and statistics of each group, as arithmetic on them needs them."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from confide.expressions.functions import Aggregation
from confide.expressions.tree import Aggregate, Expression, Key, Value
from confide.plan import Plan
from confide.release.estimates import Floats, estimate
from confide.release.noise import NoisyTotals

__all__ = ["COUNTS", "Statistics", "is_floored"]

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
        found = estimate(statistic, self.plan, self.totals)
        return np.maximum(found, 0.0) if is_floored(statistic.aggregate, self.plan) else found


def is_floored(aggregate: Aggregate, plan: Plan) -> bool:
    """Return whether a statistic is a count that the owner wants shown as zero or more."""
    return aggregate.function in COUNTS and plan.is_nonnegative
