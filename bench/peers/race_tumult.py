"""Timed answers of Tumult Analytics' query builder on Spark in one local process."""

import os
import sys
import tempfile
import warnings
from collections.abc import Callable

os.environ["PYSPARK_PYTHON"] = sys.executable

import pandas as pd
from bench.peers.race import Rows, race
from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.warehouse.dir": f"{tempfile.gettempdir()}/confide-bench/warehouse",
}


def _open(rows: Rows) -> dict[str, Callable[[], object]]:
    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    frame = pd.DataFrame({"region": rows.region, "items": rows.items, "price": rows.price})
    table = spark.createDataFrame(frame)
    session = Session.from_dataframe(
        PureDPBudget(float("inf")), "t", table, protected_change=AddOneRow()
    )
    regions = KeySet.from_dict({"region": list(range(50))})

    def ask(query: object) -> Callable[[], object]:
        return lambda: session.evaluate(query, PureDPBudget(1)).collect()

    return {
        "count": ask(QueryBuilder("t").count()),
        "sum": ask(QueryBuilder("t").sum("price", 0, 500)),
        "mean": ask(QueryBuilder("t").average("price", 0, 500)),
        "median": ask(QueryBuilder("t").median("items", 0, 99)),
        "counts by region": ask(QueryBuilder("t").groupby(regions).count()),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    race(_open)
