"""Work that statements postpone until after grouping or rounding does not change totals."""

import math
from collections import defaultdict
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from confide.curator import Curator
from confide.declare import ROW, Bool, Budget, Catalog, Category, Column, Float, Int, Table
from confide.engines import DuckDB
from confide.engines.sql.statements import write_statement
from confide.ledger import Hold
from confide.loss import Share
from confide.query.sql import read_sql
from confide.release.unseal import unseal
from support.entropy import SeededEntropy

SHARE: Final = Share.floor("1/100")
ROWS: Final = 2_000
LISTED: Final = ("a", "B", "é", "it's", "", None)
STORED: Final = ("a", "A", "b", "B", "é", "e\u0301", "it's", "", " ", "odd", None)
COLUMNS: Final[dict[str, Column]] = {
    "text": Category(LISTED),
    "other": Category(["x", "y"]),
    "flag": Bool(),
    "n": Int(-3, 8),
}
REALS: Final = (
    *(0.0, -0.0, 0.1, 0.5, 1.0, 2.5, 3.0, -1.0, 1e-320, 2.0**52, 2.0**63, -(2.0**63), 1e19),
    *(1e300, -1e300, math.nextafter(3, 4), math.nextafter(-1, -2), math.nextafter(math.inf, 0)),
    *(math.inf, -math.inf, math.nan, None),
)


@pytest.fixture
def rng(entropy: SeededEntropy) -> np.random.Generator:
    """Return a random generator seeded by the run's seed."""
    return np.random.default_rng(int(entropy.words(1)[0]))


def draw_table(rng: np.random.Generator) -> pa.Table:
    """Return rows with various strings, and with numbers in and out of their bounds."""
    texts = [STORED[place] for place in rng.integers(0, len(STORED), ROWS)]
    others = [("x", "y", "z", None)[place] for place in rng.integers(0, 4, ROWS)]
    flags = [(True, False, None)[place] for place in rng.integers(0, 3, ROWS)]
    numbers = [None if x == 12 else int(x) for x in rng.integers(-9, 13, ROWS)]
    return pa.table(
        {
            "text": pa.array(texts, pa.string()),
            "other": pa.array(others, pa.string()),
            "flag": pa.array(flags, pa.bool_()),
            "n": pa.array(numbers, pa.int16()),
        }
    )


def add_up(rows: pa.Table, keys: list[str]) -> dict[tuple[Any, ...], tuple[int, ...]]:
    """Return the rows, known numbers, and doubled distances from 2.5 of each group, in Python."""
    sums: defaultdict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
    lists = {"text": LISTED, "other": ("x", "y"), "flag": (True, False)}
    for row in rows.to_pylist():
        group = tuple(row[key] if row[key] in lists[key] else None for key in keys)
        sums[group][0] += 1
        if row["n"] is not None:
            sums[group][1] += 1
            sums[group][2] += 2 * max(-3, min(row["n"], 8)) - 5
    return {group: tuple(found) for group, found in sums.items()}


@pytest.mark.parametrize(
    "keys", [["text"], ["other"], ["text", "other"], ["flag", "text"]], ids="-".join
)
def test_stored_strings_add_up_to_declared_ones(keys: list[str], rng: np.random.Generator) -> None:
    """A category's groups are those of its list; other strings count as NULL."""
    rows = draw_table(rng)
    table = Table("t", rows, unit=ROW, columns=COLUMNS)
    curator = Curator([table], budget=Budget(1))
    named = ", ".join(keys)
    text = f"SELECT {named}, COUNT(*) AS rows, AVG(n) AS mean FROM t GROUP BY {named}"
    plan = curator._planner.plan(read_sql(text, curator.names), SHARE)
    found = unseal(DuckDB(Catalog([table]), salt="").run(plan.measurement, Hold(0, SHARE))).groups

    assert "stored" in write_statement(plan.measurement, "").sql("duckdb")
    assert add_up(rows, keys) == found


@pytest.mark.parametrize("unit", ["cut", "row"])
@pytest.mark.parametrize(
    "declared",
    [Float(-1, 3), Float(0, 3, step="1/100"), Float(-1e280, 1e280), Float(0.1, 0.3, step="1/10")],
    ids=str,
)
def test_doubles_are_clipped_before_or_after_rounding(declared: Float, unit: str) -> None:
    """Clipped steps equal the steps of clipped values; NULL and NaN add nothing."""
    rows = pa.table({"pid": range(len(REALS)), "x": pa.array(REALS, pa.float64())})
    whose = ROW if unit == "row" else "pid"
    table = Table("t", rows, unit=whose, columns={"x": declared})
    curator = Curator([table], budget=Budget(1))
    plan = curator._planner.plan(read_sql("SELECT AVG(x) AS mean FROM t", curator.names), SHARE)
    found = unseal(DuckDB(Catalog([table]), salt="").run(plan.measurement, Hold(0, SHARE))).groups
    grid = next(total.grid for total in plan.totals if total.grid is not None)
    centre, rate = float(grid.center), float(1 / grid.step)
    low, high = float(declared.low), float(declared.high)
    known = [value for value in REALS if value is not None and not math.isnan(value)]
    steps = [round((max(low, min(value, high)) - centre) * rate) for value in known]

    assert {(): (len(known), sum(max(grid.low, min(step, grid.high)) for step in steps))} == found
