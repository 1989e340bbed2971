"""How a question is answered, worked out before any row is read."""

from confide.plan.cells import BentCells, Cells, EvenCells
from confide.plan.contribution import (
    INNER,
    Contribution,
    PublicFacts,
    UnitColumns,
    declared_range,
    private_tables,
    unit_columns,
)
from confide.plan.keys import DeclaredKeys, EarnedKeys
from confide.plan.plan import Plan, Statistic, make_plan
from confide.plan.quantiles import Histogram, Quantile
from confide.plan.range_analysis import ANYTHING, Range
from confide.plan.range_arithmetic import Ranges
from confide.plan.totals import Measure, Total, ValueGrid, grid_for

__all__ = [
    "ANYTHING",
    "INNER",
    "BentCells",
    "Cells",
    "Contribution",
    "DeclaredKeys",
    "EarnedKeys",
    "EvenCells",
    "Histogram",
    "Measure",
    "Plan",
    "PublicFacts",
    "Quantile",
    "Range",
    "Ranges",
    "Statistic",
    "Total",
    "UnitColumns",
    "ValueGrid",
    "declared_range",
    "grid_for",
    "make_plan",
    "private_tables",
    "unit_columns",
]
