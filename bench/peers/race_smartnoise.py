"""Timed answers of SmartNoise SQL on a pandas DataFrame."""

import warnings
from collections.abc import Callable
from functools import partial

import pandas as pd
from bench.peers.race import Rows, race
from snsql import Privacy, from_df

QUESTIONS = {
    "count": "SELECT COUNT(*) AS n FROM s.t",
    "sum": "SELECT SUM(price) AS x FROM s.t",
    "mean": "SELECT AVG(price) AS x FROM s.t",
    "counts by region": "SELECT region, COUNT(*) AS n FROM s.t GROUP BY region",
}


def _open(rows: Rows) -> dict[str, Callable[[], object]]:
    frame = pd.DataFrame({"region": rows.region, "items": rows.items, "price": rows.price})
    table = {
        "row_privacy": True,
        "rows": len(frame),
        "region": {"type": "int", "lower": 0, "upper": 49},
        "items": {"type": "int", "lower": 0, "upper": 99},
        "price": {"type": "float", "lower": 0.0, "upper": 500.0},
    }
    described = {"": {"s": {"t": table}}}
    reader = from_df(frame, privacy=Privacy(epsilon=1.0, delta=1e-9), metadata=described)
    return {name: partial(reader.execute, text) for name, text in QUESTIONS.items()}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    race(_open)
