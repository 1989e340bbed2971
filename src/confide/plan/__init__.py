"""Query plans, made before any row is read."""

from confide.plan.cells import AsinhCells, Cells, GridCells
from confide.plan.contribution import (
    UNIT_COLUMNS_ALIAS,
    ContributionBounds,
    PublicFacts,
    UnitColumns,
    declared_range,
    private_tables,
    unit_columns,
)
from confide.plan.keys import DeclaredKeys, SelectedKeys
from confide.plan.measurement import Measurement, PlannedAggregate, make_measurement
from confide.plan.plan import Plan, make_plan
from confide.plan.quantiles import HistogramCount, Quantile, plan_quantile
from confide.plan.range_analysis import UNBOUNDED, Range
from confide.plan.range_arithmetic import Ranges
from confide.plan.totals import Measure, Total, ValueGrid, grid_for

__all__ = [
    "UNBOUNDED",
    "UNIT_COLUMNS_ALIAS",
    "AsinhCells",
    "Cells",
    "ContributionBounds",
    "DeclaredKeys",
    "GridCells",
    "HistogramCount",
    "Measure",
    "Measurement",
    "Plan",
    "PlannedAggregate",
    "PublicFacts",
    "Quantile",
    "Range",
    "Ranges",
    "SelectedKeys",
    "Total",
    "UnitColumns",
    "ValueGrid",
    "declared_range",
    "grid_for",
    "make_measurement",
    "make_plan",
    "plan_quantile",
    "private_tables",
    "unit_columns",
]
