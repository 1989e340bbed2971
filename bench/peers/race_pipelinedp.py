"""Timed answers of PipelineDP's engine in one local process."""

from collections.abc import Callable
from typing import Any

import pipeline_dp
from bench.peers.race import Rows, race


def _open(rows: Rows) -> dict[str, Callable[[], object]]:
    people = list(
        zip(range(len(rows.price)), rows.region.tolist(), rows.price.tolist(), strict=True)
    )
    metrics = pipeline_dp.Metrics

    def ask(metric: Any, *, by_region: bool) -> object:
        accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=0)
        engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
        wanted = pipeline_dp.AggregateParams(
            metrics=[metric],
            noise_kind=pipeline_dp.NoiseKind.LAPLACE,
            max_partitions_contributed=1,
            max_contributions_per_partition=1,
            min_value=0,
            max_value=500,
        )
        places = pipeline_dp.DataExtractors(
            privacy_id_extractor=lambda row: row[0],
            partition_extractor=(lambda row: row[1]) if by_region else (lambda _: 0),
            value_extractor=lambda row: row[2],
        )
        keys = list(range(50)) if by_region else [0]
        found = engine.aggregate(people, wanted, places, public_partitions=keys)
        accountant.compute_budgets()
        return list(found)

    return {
        "count": lambda: ask(metrics.COUNT, by_region=False),
        "sum": lambda: ask(metrics.SUM, by_region=False),
        "mean": lambda: ask(metrics.MEAN, by_region=False),
        "counts by region": lambda: ask(metrics.COUNT, by_region=True),
    }


if __name__ == "__main__":
    race(_open)
