"""What may be asked about, as the server tells it: enough to read questions made in Python."""

from datetime import date
from typing import Any

from confide.declare import (
    ROW,
    Bool,
    Catalog,
    Category,
    Column,
    Date,
    Float,
    Int,
    Kind,
    PublicTable,
    Table,
    Text,
)
from confide.errors import Fault
from confide.query import Names

__all__ = ["read_names"]


def read_names(body: dict[str, Any]) -> Names:
    """Return the names that questions may use, from the list of tables."""
    private = [_table(shown) for shown in body["tables"] if not shown["is_public"]]
    public = [shown for shown in body["tables"] if shown["is_public"]]
    kinds = {
        shown["name"]: {column["name"]: Kind(column["type"]) for column in shown["columns"]}
        for shown in public
    }
    return Names(Catalog([*private, *(PublicTable(name, None) for name in kinds)]), kinds)


def _table(shown: dict[str, Any]) -> Table:
    unit = ROW if shown["unit"] is None else shown["unit"]
    columns = {column["name"]: _column(column) for column in shown["columns"]}
    return Table(shown["name"], None, unit=unit, columns=columns)


def _column(shown: dict[str, Any]) -> Column:
    low, high = shown["low"], shown["high"]
    match shown["type"]:
        case "int":
            return Int(low, high)
        case "float":
            return Float(low, high)
        case "date":
            return Date(date.fromisoformat(low), date.fromisoformat(high))
        case "category":
            return Category(shown["values"])
        case "bool":
            return Bool()
        case "text":
            return Text()
        case other:
            raise Fault(f"the server has a column of type {other!r}; update confide")
