"""Time one query with opendp's Polars API, for comparison in `bench/curator.py`.

It runs under its own interpreter, as `time_opendp.py file row count`, with `user` for users as
units and `sum` for a sum of the integer column. It prints the seconds from the query to the answer,
without import time.
"""

import sys
from time import perf_counter
from typing import Any

import opendp.prelude as dp
import polars as pl

REGIONS = [f"region {number:02d}" for number in range(50)]
PRODUCTS = list(range(10_000))


def ask(path: str, unit: str, statistic: str) -> None:
    """Release a statistic of each region, or of each product with users as units."""
    by_user = unit == "user"
    whose = {"identifier": pl.col("customer")} if by_user else {}
    context = dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=dp.unit_of(contributions=1, **whose),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        margins=[dp.polars.Margin(max_length=10**9)],
    )
    query = context.query()
    if by_user:
        query = query.truncate_per_group(5, by=["product"]).truncate_num_groups(
            3, by=["product"], keep="first"
        )
    key, values = ("product", PRODUCTS) if by_user else ("region", REGIONS)
    whole: Any = pl.col("items").fill_null(0)
    items = whole.dp.sum((0, 99))
    found = query.group_by(key).agg(items if statistic == "sum" else dp.len(signed=True))
    found.with_keys(pl.LazyFrame({key: values})).release().collect()


if __name__ == "__main__":
    dp.enable_features("contrib", "honest-but-curious")
    start = perf_counter()
    ask(*sys.argv[1:])
    print(perf_counter() - start)
