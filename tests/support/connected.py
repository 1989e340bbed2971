"""A program that starts Spark Connect on this machine and asks it what DuckDB is asked too.

It runs apart, since one process works with Spark either in the old way or over the network.
"""

import os
import sys
import warnings
from typing import Any

import pyarrow as pa

from confide.curator import Curator
from confide.declare import Budget, Category, Column, Float, Table

TEXT = "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY k"


def ask(source: object) -> list[tuple[object, ...]]:
    """Return an answer next to without noise, in whole numbers."""
    columns: dict[str, Column] = {"x": Float(0, 50), "k": Category(["a", "b"])}
    table = Table("t", source, unit="pid", columns=columns, max_rows_per_unit=2)
    curator = Curator([table], budget=Budget(1e12))
    answer = curator.sql(TEXT, epsilon=1e9)
    engine: Any = curator._engine
    engine.close()
    return [(row["k"], round(row["n"]), round(row["s"])) for row in answer.rows]


def main() -> None:
    """Print how each way of reading compares with DuckDB."""
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    warnings.simplefilter("ignore")
    rows = pa.table({"pid": [1, 2, 2, 2, 3], "x": [1.0, 5.0, 5.0, 5.0, 99.0], "k": list("abbba")})
    session = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false")
    connected = session.getOrCreate()
    frame = connected.createDataFrame(rows)
    frame.write.mode("overwrite").saveAsTable("confide_rows")
    port = connected.client.host.rpartition(":")[2]
    address = f"sc://localhost:{port}" if port.isdigit() else "sc://localhost"
    for source in (frame, f"{address}?table=confide_rows"):
        sys.stdout.write("equal\n" if ask(rows) == ask(source) else "different\n")
    connected.sql("DROP TABLE confide_rows").collect()
    sys.stdout.flush()
    # Clients of Spark Connect wait long for a server that has gone; the server goes with us.
    os._exit(0)


if __name__ == "__main__":
    main()
