"""A small declared world for queries, without any data."""

from typing import Final

from confide.declare import (
    ROW,
    Bool,
    Catalog,
    Category,
    Date,
    Float,
    Int,
    Kind,
    PublicTable,
    Table,
    Text,
)
from confide.query import Names

__all__ = ["CATALOG", "NAMES"]

CATALOG: Final = Catalog(
    [
        Table(
            "visits",
            "visits.parquet",
            unit="patient_id",
            columns={
                "age": Int(0, 120),
                "cost": Float(0, 5_000),
                "ward": Category(["A", "B", "C"]),
                "diagnosis": Text(),
                "smoker": Bool(),
                "day": Date("2020-01-01", "2026-12-31"),
            },
            max_rows_per_unit=20,
        ),
        Table(
            "labs",
            "labs.parquet",
            unit="patient_id",
            columns={
                "value": Float(0, 10),
                "test": Text(),
                "day": Date("2020-01-01", "2026-12-31"),
            },
            max_rows_per_unit=5,
        ),
        Table("notes", "notes.csv", unit="pid", columns={"words": Int(0, 500)}),
        Table("people", "people.csv", unit=ROW, columns={"income": Int(0, 10**6), "city": Text()}),
        PublicTable("icd", "icd.csv"),
        PublicTable("cities", "cities.csv"),
    ]
)
NAMES: Final = Names(
    CATALOG,
    {
        "icd": {"code": Kind.TEXT, "chapter": Kind.TEXT, "weight": Kind.FLOAT},
        "cities": {"city": Kind.TEXT, "Name of region": Kind.TEXT, "size": Kind.INT},
    },
)
