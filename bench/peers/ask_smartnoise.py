"""Errors of SmartNoise SQL, with epsilon chosen so that the whole answer costs 1."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
from bench.peers.errors import Floats, People, repeat, report
from snsql import Privacy, from_df

TIMES = 100


def _ask(people: People, question: str, truth: float) -> Floats:
    frame = pd.DataFrame({"x": people.values})
    bounds = {"type": "float", "lower": 0.0, "upper": 100.0}
    table = {"row_privacy": True, "rows": len(frame), "x": bounds}
    described = {"": {"s": {"t": table}}}

    def open_reader(epsilon: float) -> Any:
        return from_df(frame, privacy=Privacy(epsilon=epsilon, delta=1e-9), metadata=described)

    cost = open_reader(1.0).get_privacy_cost(question)[0]
    reader = open_reader(1.0 / float(cost))
    return repeat(lambda: float(reader.execute(question)[1][0]), truth, TIMES)


def _mean(people: People) -> Floats:
    return _ask(people, "SELECT AVG(x) AS m FROM s.t", people.values.mean())


def _variance(people: People) -> Floats:
    return _ask(people, "SELECT VARIANCE(x) AS v FROM s.t", float(np.var(people.values, ddof=1)))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    report({"mean": _mean, "variance": _variance})
