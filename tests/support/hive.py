"""A comparison of a Hive table in Spark with DuckDB."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from confide.curator import Curator
from confide.declare import Budget, Category, Column, Date, Float, Table

__all__ = ["compare_hive", "hive_settings"]

TEXT = "SELECT k, MONTH(day) AS m, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY k, m"
MADE = (
    "CREATE DATABASE clinic",
    "CREATE TABLE clinic.visits (pid INT, x DOUBLE, k STRING) PARTITIONED BY (day DATE) "
    "STORED AS ORC",
    "INSERT INTO clinic.visits PARTITION (day = '2020-02-01') VALUES (1, 1.0, 'a'), (2, 5.0, 'b')",
    "INSERT INTO clinic.visits PARTITION (day = '2020-03-01') VALUES (2, 6.5, 'b'), (3, 99.0, 'a')",
)
COLUMNS: dict[str, Column] = {
    "x": Float(0, 50),
    "k": Category(["a", "b"]),
    "day": Date("2020-01-01", "2020-03-31"),
}


def ask(source: object) -> list[tuple[object, ...]]:
    """Return an answer with almost no noise, rounded to integers."""
    table = Table("t", source, unit="pid", columns=COLUMNS, max_rows_per_unit=2)
    answer = Curator([table], budget=Budget(1e12)).sql(TEXT, epsilon=1e9)
    return [(row["k"], row["m"], round(row["n"]), round(2 * row["s"])) for row in answer.rows]


def hive_settings(folder: Path) -> dict[str, str]:
    """Return the settings of a Spark whose Hive tables are in a folder."""
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={folder / 'metastore'};create=true"
        ),
    }


def compare_hive(session: Any) -> str:
    """Return the table's provider, and whether its answer equals that of DuckDB."""
    for statement in MADE:
        session.sql(statement)
    rows = session.sql("SELECT * FROM clinic.visits").collect()
    here = pa.Table.from_pylist([row.asDict() for row in rows])
    described = session.sql("DESCRIBE EXTENDED clinic.visits").collect()
    (provider,) = [row[1] for row in described if row[0] == "Provider"]
    is_equal = ask(here) == ask("spark:clinic.visits")
    return f"{provider} {'equal' if is_equal else 'different'}"
