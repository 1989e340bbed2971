"""SmartNoise SQL: the analyst's question, its epsilon set so that the whole answer costs 1."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
from bench.peers.errors import Data, Floats, repeat, report
from snsql import Privacy, from_df

TIMES = 100


def _ask(data: Data, question: str, truth: float) -> Floats:
    frame = pd.DataFrame({"x": data.values})
    bounds = {"type": "float", "lower": 0.0, "upper": 100.0}
    table = {"row_privacy": True, "rows": len(frame), "x": bounds}
    described = {"": {"s": {"t": table}}}

    def open_reader(epsilon: float) -> Any:
        return from_df(frame, privacy=Privacy(epsilon=epsilon, delta=1e-9), metadata=described)

    cost = open_reader(1.0).get_privacy_cost(question)[0]
    reader = open_reader(1.0 / float(cost))
    return repeat(lambda: float(reader.execute(question)[1][0]), truth, TIMES)


def _mean(data: Data) -> Floats:
    return _ask(data, "SELECT AVG(x) AS m FROM s.t", data.values.mean())


def _variance(data: Data) -> Floats:
    return _ask(data, "SELECT VARIANCE(x) AS v FROM s.t", float(np.var(data.values, ddof=1)))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    report({"mean": _mean, "variance": _variance})
