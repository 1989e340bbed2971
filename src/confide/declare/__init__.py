"""The owner's declaration: tables, columns, units, limits, and the budget; also as a TOML file."""

from typing import TYPE_CHECKING, Final

from confide.declare.budget import Budget, Limit, Limits
from confide.declare.columns import (
    Bool,
    Category,
    Column,
    Date,
    Decimal,
    Float,
    Int,
    Kind,
    Text,
    Timestamp,
)
from confide.declare.tables import ROW, Catalog, PublicTable, Row, Table, is_parquet
from confide.lazy import import_late

if TYPE_CHECKING:
    from confide.declare.record import RecordSettings
    from confide.declare.server import BoardSettings, ServerSettings
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
    "Decimal",
    "Declaration",
    "Float",
    "Int",
    "Kind",
    "Limit",
    "Limits",
    "PublicTable",
    "RecordSettings",
    "Row",
    "ServerSettings",
    "Table",
    "Text",
    "Timestamp",
    "is_parquet",
    "read_toml",
]

_HOMES: Final = {
    "BoardSettings": "confide.declare.server",
    "RecordSettings": "confide.declare.record",
    "ServerSettings": "confide.declare.server",
    "Declaration": "confide.declare.toml",
    "read_toml": "confide.declare.toml",
}
__getattr__ = import_late(__name__, _HOMES)
