"""A program that compares a Hive table, and whose Spark then really fails.

It runs in its own process, since a process has one Spark, with or without Hive, and since it kills
Java in the end. It prints the messages that an analyst gets, and leaves a ledger, from which
another process resumes the query.
"""

import ctypes
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from confide.curator import Curator
from confide.declare import Budget, Category, Column, Float, Table
from confide.errors import Fault
from support.hive import compare_hive, hive_settings
from support.spark import FAST_JAVA_OPTIONS

__all__ = ["COUNT", "open_curator", "write_rows"]

COUNT = "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY k"
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": FAST_JAVA_OPTIONS,
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
DROP_FROM_BOUND, READ_ANYTHING = 24, (1, 2)
"""Linux constants: a prctl operation, and the capabilities that let root read any file."""


def write_rows(folder: Path) -> None:
    """Write the rows as a folder of Parquet files."""
    rows = folder / "rows"
    rows.mkdir()
    some = pa.table({"pid": [1, 2, 2, 3], "x": [1.0, 2.0, 4.0, 99.0], "k": list("abba")})
    pq.write_table(some, rows / "part.parquet")


def open_curator(folder: Path) -> Curator:
    """Return a curator over the rows, whose ledger outlives the process."""
    columns: dict[str, Column] = {"x": Float(0, 50), "k": Category(["a", "b"])}
    table = Table("t", f"spark:{folder / 'rows'}", unit="pid", columns=columns, max_rows_per_unit=2)
    return Curator([table], budget=Budget(1e12), ledger=folder / "ledger.db")


def ask(curator: Curator, key: str) -> None:
    """Print the result that an analyst gets, and the spent budget."""
    try:
        told = str(len(curator.sql(COUNT, epsilon=1e9, key=key, fresh=True).rows))
    except Fault as fault:
        told = f"{fault.code}: {fault}"
    sys.stdout.write(f"{told} | {curator.budget.spent.share}\n")
    sys.stdout.flush()


def main(folder: Path) -> None:
    """Query a Hive table; revoke read permission, restore it, and kill Java; query in between."""
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    warnings.simplefilter("ignore")
    if os.geteuid() == 0:
        # Root may read any file. The Java process, which starts below, must not.
        for right in READ_ANYTHING:
            ctypes.CDLL(None).prctl(DROP_FROM_BOUND, right, 0, 0, 0)
    builder: Any = SparkSession.builder.master("local[2]")
    for name, value in {**SETTINGS, **hive_settings(folder)}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    sys.stdout.write(f"{compare_hive(session)}\n")
    curator = open_curator(folder)
    part = folder / "rows" / "part.parquet"
    part.chmod(0)
    ask(curator, "denied")
    part.chmod(0o600)
    ask(curator, "denied")
    process = session.sparkContext._gateway.proc  # there is no public attribute
    os.kill(process.pid, signal.SIGKILL)
    process.wait(60)
    ask(curator, "killed")
    sys.stdout.flush()
    os._exit(0)  # anything that ends a session would wait for it


if __name__ == "__main__":
    main(Path(sys.argv[1]))
