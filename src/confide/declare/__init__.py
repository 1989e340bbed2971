"""The owner's declaration: columns, units, tables, limits, and the budget, or `confide.toml`."""

from confide.declare.budget import Budget, Limit, Limits
from confide.declare.columns import Bool, Category, Column, Date, Float, Int, Kind, Text
from confide.declare.server import BoardSettings, ServerSettings
from confide.declare.tables import ROW, Catalog, PublicTable, Row, Table, is_parquet
from confide.declare.toml import Declaration, read_toml

__all__ = [
    "ROW",
    "BoardSettings",
    "Bool",
    "Budget",
    "Catalog",
    "Category",
    "Column",
    "Date",
    "Declaration",
    "Float",
    "Int",
    "Kind",
    "Limit",
    "Limits",
    "PublicTable",
    "Row",
    "ServerSettings",
    "Table",
    "Text",
    "is_parquet",
    "read_toml",
]
