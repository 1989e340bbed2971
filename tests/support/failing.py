"""A program with a Spark of its own, whose parts really fail: what an analyst hears is printed.

It runs apart, since Java is killed in the end. What is left is a ledger, from which another process
resumes the question.
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
from support.spark import QUICK

__all__ = ["COUNT", "open_curator", "write_rows"]

COUNT = "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY k"
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
DROP_FROM_BOUND, READ_ANYTHING = 24, (1, 2)
"""Numbers of Linux: of a call of prctl, and of what lets root read what nobody may."""


def write_rows(folder: Path) -> None:
    """Write the rows as a folder of Parquet."""
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
    """Print what an analyst hears, and what is spent."""
    try:
        told = str(len(curator.sql(COUNT, epsilon=1e9, key=key, fresh=True).rows))
    except Fault as fault:
        told = f"{fault.code}: {fault}"
    sys.stdout.write(f"{told} | {curator.budget.spent.share}\n")
    sys.stdout.flush()


def main(folder: Path) -> None:
    """Take away the right to read, give it back, and kill Java; ask after each."""
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    warnings.simplefilter("ignore")
    if os.geteuid() == 0:
        # Root may read what modes forbid. Java is not to, which this process starts from here on.
        for right in READ_ANYTHING:
            ctypes.CDLL(None).prctl(DROP_FROM_BOUND, right, 0, 0, 0)
    builder: Any = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    curator = open_curator(folder)
    part = folder / "rows" / "part.parquet"
    part.chmod(0)
    ask(curator, "denied")
    part.chmod(0o600)
    ask(curator, "denied")
    process = session.sparkContext._gateway.proc  # there is no other way
    os.kill(process.pid, signal.SIGKILL)
    process.wait(60)
    ask(curator, "killed")
    sys.stdout.flush()
    os._exit(0)  # what ends a session would wait for it


if __name__ == "__main__":
    main(Path(sys.argv[1]))
