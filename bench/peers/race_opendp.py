"""Timed answers of opendp's Polars API on a DataFrame in memory; a mean is a sum and a count."""

from collections.abc import Callable
from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl
from bench.peers.race import Rows, race


def _open(rows: Rows) -> dict[str, Callable[[], object]]:
    frame = pl.DataFrame(
        {
            "region": rows.region.astype(np.int32),
            "items": rows.items.astype(np.int32),
            "price": rows.price,
        }
    ).lazy()
    # opendp adds the attribute `dp` to every Polars expression.
    price: Any = pl.col("price").fill_nan(0.0).fill_null(0.0)
    items: Any = pl.col("items").fill_null(0)
    middle = items.dp.quantile(0.5, list(range(100)))

    def query() -> Any:
        return dp.Context.compositor(
            data=frame,
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(epsilon=1.0),
            split_evenly_over=1,
            margins=[dp.polars.Margin(max_length=10**9)],
        ).query()

    def counts() -> object:
        found = query().group_by("region").agg(dp.len(signed=True))
        keys = pl.LazyFrame({"region": np.arange(50, dtype=np.int32)})
        return found.with_keys(keys).release().collect()

    return {
        "count": lambda: query().select(dp.len(signed=True)).release().collect(),
        "sum": lambda: query().select(price.dp.sum((0.0, 500.0))).release().collect(),
        "mean": lambda: (
            query().select(price.dp.sum((0.0, 500.0)), dp.len(signed=True)).release().collect()
        ),
        "median": lambda: query().select(middle).release().collect(),
        "counts by region": counts,
    }


if __name__ == "__main__":
    dp.enable_features("contrib", "honest-but-curious")
    race(_open)
