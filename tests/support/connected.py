"""A program that starts Spark Connect on this machine and compares it with DuckDB.

It runs in its own process, since a process uses Spark either directly or over the network.
"""

import os
import sys
import warnings
from typing import Any

import pyarrow as pa

from confide.curator import Curator
from confide.declare import Budget, Category, Column, Float, PublicTable, Table
from support.spark import FAST_JAVA_OPTIONS

TEXT = "SELECT t.k, COUNT(*) AS n, SUM(x * w) AS s FROM t JOIN p ON t.k = p.k GROUP BY t.k"
SETTINGS = {
    # A single small query does not pay off optimizations for large ones.
    "spark.driver.extraJavaOptions": FAST_JAVA_OPTIONS,
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


def ask(source: object, names: object) -> list[tuple[object, ...]]:
    """Return an answer with almost no noise, rounded to integers."""
    columns: dict[str, Column] = {"x": Float(0, 50), "k": Category(["a", "b"])}
    table = Table("t", source, unit="pid", columns=columns, max_rows_per_unit=2)
    curator = Curator([table, PublicTable("p", names)], budget=Budget(1e12))
    answer = curator.sql(TEXT, epsilon=1e9)
    engine: Any = curator._engine
    engine.close()
    return [(row["k"], round(row["n"]), round(row["s"])) for row in answer.rows]


def main() -> None:
    """Print how each kind of source compares with DuckDB."""
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    warnings.simplefilter("ignore")
    rows = pa.table({"pid": [1, 2, 2, 2, 3], "x": [1.0, 5.0, 5.0, 5.0, 99.0], "k": list("abbba")})
    names = pa.table({"k": ["a", "b"], "w": [1, 2]})
    builder: Any = SparkSession.builder
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    connected = builder.remote("local[2]").getOrCreate()
    frames = connected.createDataFrame(rows), connected.createDataFrame(names)
    saved = "confide_rows", "confide_names"
    for name, frame in zip(saved, frames, strict=True):
        frame.write.mode("overwrite").saveAsTable(name)
    port = connected.client.host.rpartition(":")[2]
    address = f"sc://localhost:{port}" if port.isdigit() else "sc://localhost"
    for sources in (frames, [f"{address}?table={name}" for name in saved]):
        sys.stdout.write("equal\n" if ask(rows, names) == ask(*sources) else "different\n")
    for name in saved:
        connected.sql(f"DROP TABLE {name}").collect()
    sys.stdout.flush()
    # Spark Connect clients wait a long time for a server that is gone; ours ends with the process.
    os._exit(0)


if __name__ == "__main__":
    main()
