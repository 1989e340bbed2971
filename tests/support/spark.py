"""A Spark for tests: one process on this machine, unreachable from outside."""

import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from confide.declare import PublicTable, Table
from support.warehouses import as_arrow, moved

__all__ = ["FAST_JAVA_OPTIONS", "Spark", "run_spark"]

NUMBERS: Final = count()
MANY_ROWS: Final = 2_000
FAST_JAVA_OPTIONS: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn400m "
    "-XX:ReservedCodeCacheSize=400m -XX:MetaspaceSize=256m "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""Java options for many small queries, where startup matters more than fast loops.

Each query compiles classes of its own. Without a large code cache, Java would discard compiled
methods of Spark and compile them again. Without a large metaspace, it would collect garbage to make
room for classes.
"""

SETTINGS: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": FAST_JAVA_OPTIONS,
    "spark.driver.memory": "1g",
    "spark.log.level": "OFF",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Owner settings that must not change results: statements run in their own session.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "Asia/Tokyo",
}


@dataclass(frozen=True, slots=True)
class Spark:
    """A running session, as an owner would have it."""

    session: Any
    folder: Path

    def frame(self, rows: Any) -> Any:
        """Return Arrow rows as a DataFrame.

        Many rows go to a Parquet file. Rows in memory are a constant to Spark's optimizer, which
        would evaluate statements over them row by row during planning.
        """
        if len(rows) > MANY_ROWS:
            path = self.folder / f"rows{next(NUMBERS)}.parquet"
            pq.write_table(rows, path)
            return self.session.read.parquet(str(path))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Spark's own advice on versions of pandas
            return self.session.createDataFrame(_without_views(rows))

    def move(self, tables: Iterable[Table | PublicTable]) -> list[Table | PublicTable]:
        """Return the same declarations over DataFrames with their rows."""
        return [moved(table, self.frame(as_arrow(table.source))) for table in tables]

    def save(self, rows: Any) -> str:
        """Return the name of a new table in Spark's catalog that contains these rows."""
        name = f"copy{next(NUMBERS)}"
        self.frame(rows).write.saveAsTable(name)
        return name

    def listen(self) -> str:
        """Return the address of a Spark Connect server, which is started in the same Java."""
        services = self.session._jvm.org.apache.spark.sql.connect.service
        server = getattr(getattr(services, "SparkConnectService$"), "MODULE$")
        server.start(self.session.sparkContext._jsc.sc())
        return f"sc://127.0.0.1:{server.localPort()}"


def _without_views(rows: pa.Table) -> pa.Table:
    """Return rows whose strings have an Arrow type that Spark supports."""
    fields = [
        field.with_type(pa.string()) if field.type == pa.string_view() else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))


@contextmanager
def run_spark() -> Iterator[Spark]:
    """Run Spark in a separate process until the block ends."""
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory(prefix="confide-spark-") as folder, _quiet(Path(folder)):
        builder: Any = SparkSession.builder
        builder = builder.master("local[2]").appName("confide")
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        session = builder.config("spark.sql.warehouse.dir", f"{folder}/tables").getOrCreate()
        try:
            yield Spark(session, Path(folder))
        finally:
            session.stop()


@contextmanager
def _quiet(folder: Path) -> Iterator[None]:
    """Keep Java's output out of the terminal, and its leftover files in the folder."""
    before, os.environ["SPARK_LOCAL_DIRS"] = os.environ.get("SPARK_LOCAL_DIRS"), str(folder)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["SPARK_LOCAL_DIRS"]
        else:
            os.environ["SPARK_LOCAL_DIRS"] = before
