"""A program that compares a Spark Connect server with DuckDB.

It runs in its own process, since a process uses Spark either directly or over the network.
"""

import os
import sys
import warnings
from typing import Any

import pyarrow as pa

from confide.curator import Curator
from confide.declare import Budget, Category, Column, Float, PublicTable, Table

TEXT = "SELECT t.k, COUNT(*) AS n, SUM(x * w) AS s FROM t JOIN p ON t.k = p.k GROUP BY t.k"


def ask(source: object, names: object) -> list[tuple[object, ...]]:
    """Return an answer with almost no noise, rounded to integers."""
    columns: dict[str, Column] = {"x": Float(0, 50), "k": Category(["a", "b"])}
    table = Table("t", source, unit="pid", columns=columns, max_rows_per_unit=2)
    curator = Curator([table, PublicTable("p", names)], budget=Budget(1e12))
    answer = curator.sql(TEXT, epsilon=1e9)
    engine: Any = curator._engine
    engine.close()
    return [(row["k"], round(row["n"]), round(row["s"])) for row in answer.rows]


def main(address: str) -> None:
    """Print how each kind of source compares with DuckDB."""
    from pyspark.sql import SparkSession

    warnings.simplefilter("ignore")
    rows = pa.table({"pid": [1, 2, 2, 2, 3], "x": [1.0, 5.0, 5.0, 5.0, 99.0], "k": list("abbba")})
    names = pa.table({"k": ["a", "b"], "w": [1, 2]})
    builder: Any = SparkSession.builder
    connected = builder.remote(address).getOrCreate()
    frames = connected.createDataFrame(rows), connected.createDataFrame(names)
    saved = "confide_rows", "confide_names"
    for name, frame in zip(saved, frames, strict=True):
        frame.write.mode("overwrite").saveAsTable(name)
    for sources in (frames, [f"{address}?table={name}" for name in saved]):
        sys.stdout.write("equal\n" if ask(rows, names) == ask(*sources) else "different\n")
    for name in saved:
        connected.sql(f"DROP TABLE {name}").collect()
    sys.stdout.flush()
    os._exit(0)  # anything that ends a session would wait for it


if __name__ == "__main__":
    main(sys.argv[1])
