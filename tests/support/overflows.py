"""Queries in which integers exceed 64 bits on some rows if an engine computes them badly."""

from typing import Final

import pandas as pd

from confide.declare import Int, Table

__all__ = ["REORDERED", "ROUNDED", "make_visits"]

M: Final = 2**63 - 1
CUBE: Final = "3000000000 * 3000000000 * 3000000000"
D_EXP: Final = "(FLOOR(EXP(CASE WHEN k > 8 THEN 709.7 ELSE 709 END) / EXP(709) * 1000) - 1000)"
D_PLAIN: Final = (
    f"LEAST(({2**53} * 1000 + CASE WHEN k > 8 THEN 500 ELSE 1024 END) - {2**53 * 1000 + 500}, 0)"
)
D_FLOOR: Final = (
    f"LEAST(FLOOR(CASE WHEN k > 8 THEN {2**62 + 511} ELSE {2**62 + 1024} END) - {2**62 + 511}, 0)"
)
D_ROUND: Final = (
    "LEAST(FLOOR((ROUND(CASE WHEN k > 8 THEN 3002399751580330.5 ELSE 3002399751580331 END, 2) "
    "- 3002399751580330.5) * 1000), 0)"
)
PER_UNIT: Final = "(SELECT pid, SUM(CASE WHEN k > 8 THEN 0.1 ELSE 0 END) AS s FROM v GROUP BY pid)"


def power(number: str, times: int) -> str:
    """Return a product of a number with itself."""
    return " * ".join([number] * times)


REORDERED: Final = (
    f"SUM(CASE WHEN k > 8 THEN (k * 0) * {CUBE} ELSE 0 END) AS n FROM v",
    f"COUNT(*) FROM v WHERE k > 8 AND GREATEST(LEAST(k, 0), 0) * {CUBE} = 0",
    f"COUNT(*) FROM (SELECT pid, SUM(k) * 0 * {CUBE} AS s FROM v WHERE k > 8 GROUP BY pid) "
    "WHERE s = 7",
    f"COUNT(*) FROM v WHERE (5 + (CASE WHEN k > 8 THEN {M} ELSE {M - 200} END + "
    f"CASE WHEN k > 5 THEN -{M} ELSE -{M - 1} END)) + 100 = 7",
)
"""Sums and products that an engine may reorder."""

ROUNDED: Final = (
    f"COUNT(*) FROM v WHERE {power(D_PLAIN, 8)} = 7",
    f"SUM(LEAST(GREATEST({power(D_FLOOR, 9)}, 0), 1)) AS n FROM v",
    f"COUNT(*) FROM v WHERE {power(D_ROUND, 8)} = 7",
    f"COUNT(*) FROM v WHERE {power(D_EXP, 2)} = 7",
    f"COUNT(*) FROM {PER_UNIT} WHERE {power('FLOOR(GREATEST((s - 0.2) * 1e19, 0))', 8)} = 7",
)
"""Powers of values that doubles might round past a range."""


def make_visits(high: int) -> Table:
    """Return rows of two people, one with the number ``high``."""
    frame = pd.DataFrame({"pid": [1, 1, 2, 2], "k": [1, 2, high, high]})
    return Table("v", frame, unit="pid", columns={"k": Int(0, 10)}, max_rows_per_unit=2)
