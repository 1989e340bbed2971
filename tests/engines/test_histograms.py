"""Every row is counted once, in its own cell of the plan."""

import math
from datetime import date
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import confide as cf
from confide.curator import Curator
from confide.engines import Counts
from confide.ledger import Hold
from confide.loss import Share
from confide.plan import Plan
from confide.release.unseal import unseal

SHARE: Final = Share.floor("1/100")
NOTHING: Final = np.empty(0, dtype=np.int64)
AWKWARD: Final = (None, math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324, -0.0, 0.0, 999.5)


def open_curator(values: list[Any], keys: list[Any], **columns: Any) -> Curator:
    source = pa.table(
        {
            "pid": list(range(len(values))),
            "x": pa.array(values, pa.float64()),
            "k": pa.array(keys),
        }
    )
    table = cf.Table("t", source, unit="pid", columns=columns, unique=True)
    return Curator([table], budget=cf.Budget(1))


def count(curator: Curator, text: str) -> tuple[Plan, Counts]:
    """Return the plan of a query and the counts of its first histogram."""
    plan = curator._planner.plan(curator._planner.read(text), SHARE)
    return plan, unseal(curator._engine.run(plan.measurement, Hold(0, SHARE))).counts[0]


@pytest.mark.parametrize("low", [-1_000.0, 0.0, 3.5, 1e15])
@pytest.mark.parametrize("width", [1e-3, 1.0, 1e6, 1e300])
def test_each_value_is_counted_in_the_cell_that_encloses_it(low: float, width: float) -> None:
    """For any range, the ends of a value's cell enclose the clipped value."""
    high = low + width
    inside = [low, high, low + width / 3, low + width * 0.999, low / 2 + high / 2, *AWKWARD]
    columns = {"x": cf.Float(low, high), "k": cf.Int(0, 99)}
    curator = open_curator(inside, list(range(len(inside))), **columns)
    plan, counts = count(curator, "SELECT k, MEDIAN(x) AS m FROM t GROUP BY k")
    cells = plan.histograms[0].cells
    for key, value in enumerate(inside):
        found, rows = counts.get((key,), (NOTHING, NOTHING))
        if value is None or math.isnan(value):
            assert 0 == len(found)
            continue
        clipped = min(max(value, low), high)
        (least,), (most,) = cells.ends(found)

        assert [1] == rows.tolist()
        assert 0 <= found[0] < cells.count
        assert least - 1e-9 * abs(least) <= clipped <= most + 1e-9 * abs(most)


def test_cells_grow_with_their_values() -> None:
    """Cells are ordered by their values, and far narrower near zero than far from it."""
    curator = open_curator([1.0], [1], x=cf.Float(-100, 1e6), k=cf.Int(0, 9))
    plan, _ = count(curator, "SELECT MEDIAN(x) AS m FROM t")
    cells = plan.histograms[0].cells
    some = np.arange(0, cells.count, 37)
    (low, high), middle = cells.ends(some), cells.middle(some)

    assert (np.diff(middle) >= 0).all()
    assert (low <= middle).all()
    assert (middle <= high).all()
    assert (high - low)[np.abs(middle) < 1e-3].max() < 1e-6
    assert (high - low).max() < 1e6 / cells.count * 2


def test_counts_of_undeclared_keys_add_up() -> None:
    """Undeclared strings are one group, NULL, with all their rows."""
    keys = ["A", "B", "x", "y", None, "A"]
    listed = cf.Category(["A", "B", None])
    curator = open_curator([1.0, 2.0, 3.0, 3.0, 3.0, 1.0], keys, x=cf.Float(0, 9, step=1), k=listed)
    _, counts = count(curator, "SELECT k, MEDIAN(x) AS m FROM t GROUP BY k")
    shown = {key[0]: [part.tolist() for part in pair] for key, pair in counts.items()}

    assert {"A": [[1], [2]], "B": [[2], [1]], None: [[3], [3]]} == shown


def test_dates_and_booleans_are_keys_as_declared() -> None:
    """Keys are returned in the types of the plan's groups."""
    days = [date(2020, 1, 2), date(2020, 1, 3), None]
    curator = open_curator(
        [1.0, 2.0, 3.0], days, x=cf.Float(0, 9), k=cf.Date("2020-01-01", "2020-01-05")
    )
    plan, counts = count(curator, "SELECT k, x > 1 AS big, MEDIAN(x) AS m FROM t GROUP BY k, big")
    groups = plan.keys.groups  # type: ignore[union-attr]  # declared

    assert {(days[0], False), (days[1], True)} == counts.keys() & set(groups)


def test_rows_of_no_condition_are_not_counted() -> None:
    """WHERE and FILTER exclude rows, and an empty table has no cells."""
    curator = open_curator([1.0, 2.0, 3.0], [1, 2, 3], x=cf.Float(0, 9, step=1), k=cf.Int(0, 9))
    asked = "SELECT MEDIAN(x) FILTER (WHERE k > 1) AS m FROM t WHERE k < 3"
    _, counts = count(curator, asked)
    _, nothing = count(curator, "SELECT MEDIAN(x) AS m FROM t WHERE k > 7")

    assert [[2], [1]] == [part.tolist() for part in counts[()]]
    assert [[], []] == [part.tolist() for part in nothing[()]]


@pytest.mark.parametrize("high", [254, 255, 256, 70_000])
@pytest.mark.parametrize("listed", [2, 255, 256, 257])
def test_cells_and_lists_of_any_size_are_counted(high: int, listed: int) -> None:
    """No row is lost where cells or declared strings need more than 8 bits."""
    names = [f"k{place}" for place in range(listed)]
    keys = [names[0], names[-1], names[-1], "unlisted"]
    columns = {"x": cf.Int(0, high), "k": cf.Category(names)}
    curator = open_curator([0.0, high, high + 9.0, 1.0], keys, **columns)
    plan, counts = count(curator, "SELECT k, MEDIAN(x) AS m FROM t GROUP BY k")
    cells = plan.histograms[0].cells
    found = {
        key[0]: (cells.middle(pair[0]).tolist(), pair[1].tolist()) for key, pair in counts.items()
    }

    assert ([0.0], [1]) == found["k0"]
    assert [2] == found[names[-1]][1]
    assert cells.ends(counts[names[-1],][0])[1][0] >= high


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int64(), pa.uint64(), pa.float64(), pa.string(), pa.bool_()], ids=str
)
@pytest.mark.parametrize(("low", "high"), [(-3, 252), (0, 9), (5, 5), (1, 10_000)])
@pytest.mark.parametrize("is_listed", [True, False])
def test_files_are_counted_like_dataframes(
    kind: pa.DataType, low: int, high: int, is_listed: bool, tmp_path: Path
) -> None:
    """However a file stores integers, NULL has no cell and other values are in the nearest one.

    Numbers of a file are clipped in another way than those of a DataFrame (see the tests above).
    """
    wanted: list[Any] = [0, 1, 5, 9, 100, None, None] if kind != pa.bool_() else [True, False, None]
    wanted += [120, -3, -100] if kind in (pa.int8(), pa.int64(), pa.float64(), pa.string()) else []
    wanted += [2**62, -(2**62)] if kind == pa.int64() else []
    wanted += [2**63 + 5] if kind == pa.uint64() else []
    wanted += [math.nan, math.inf, -math.inf, 4.4, 1e300] if kind == pa.float64() else []
    values = [str(one) if kind == pa.string() and one is not None else one for one in wanted * 3]
    keys = ["A" if one is None else "BC"[place % 2] for place, one in enumerate(values)]
    rows = pa.table({"x": pa.array(values, kind), "k": pa.array(keys), "j": [1] * len(keys)})
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=7)
    k = cf.Category(["A", "B", "C", "D"]) if is_listed else cf.Text()
    columns: Any = {"x": cf.Int(low, high), "k": k, "j": cf.Int(0, 9)}
    tables = [
        cf.Table("t", source, unit=cf.ROW, columns=columns)
        for source in (rows, tmp_path / "t.parquet")
    ]
    curators = [Curator([table], budget=cf.Budget(1, delta=1e-6)) for table in tables]
    for asked in ("x", "x + 1", "x) FILTER (WHERE j > 0"):
        found = []
        for curator in curators:
            _, counts = count(curator, f"SELECT k, MEDIAN({asked}) AS m FROM t GROUP BY k")
            shown = {key: [part.tolist() for part in pair] for key, pair in counts.items()}
            found.append({key: pair for key, pair in shown.items() if pair[0]})

        assert found[0] == found[1]
        assert ("A",) not in found[0]
