"""One question to opendp's Polars API, timed: what `bench/curator.py` compares itself with.

Runs under an interpreter of its own, as `time_opendp.py file row` or `time_opendp.py file user`;
it prints the seconds from the question to the counts, without what it takes to import.
"""

import sys
from time import perf_counter

import opendp.prelude as dp
import polars as pl

REGIONS = [f"region {number:02d}" for number in range(50)]
PRODUCTS = list(range(10_000))


def ask(path: str, unit: str) -> None:
    """Release the rows of each region, or of each product with users as units."""
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
    counts = query.group_by(key).agg(dp.len(signed=True))
    counts.with_keys(pl.LazyFrame({key: values})).release().collect()


if __name__ == "__main__":
    dp.enable_features("contrib", "honest-but-curious")
    start = perf_counter()
    ask(sys.argv[1], sys.argv[2])
    print(perf_counter() - start)
