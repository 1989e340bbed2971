"""One query of each family over one small world, to compare engines."""

from collections.abc import Mapping
from datetime import date
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from confide.declare import Bool, Category, Column, Date, Float, Int, PublicTable, Table, Text
from support.noiseless import World, make_world

__all__ = ["EXPECTED", "FAMILIES", "MAGNIFIED", "NEAR", "are_near", "families"]


def families() -> World:
    """Return visits and lab values of people, some over their limits, and a table of wards."""
    rows: list[dict[str, Any]] = [
        {
            "pid": person,
            "cost": (person * 37 + visit * 11) % 97 + 0.25 * visit,
            "age": float(20 + person % 60),
            "ward": "ABCD"[(person + visit) % 4],
            "note": f"é{(person * visit) % 5}",
            "urgent": None if person % 7 == 0 else visit % 2 == 0,
            "day": date(2020, 1 + (person + visit) % 12, 1 + person % 28),
        }
        for person in range(120)
        for visit in range(1 + person % 6)
    ]
    columns: dict[str, Column] = {
        "cost": Float(0, 80),
        "age": Int(25, 70),
        "ward": Category(["A", "B", "C", "E"]),
        "note": Text(),
        "urgent": Bool(),
        "day": Date("2020-02-01", "2020-10-31"),
    }
    world = make_world(rows, columns, max_rows_per_unit=4, max_groups_per_unit=2)
    wards = pa.table({"name": ["A", "B", "C"], "beds": pa.array([10, 20, 30], pa.int64())})
    labs = Table(
        "labs",
        pa.table({"pid": [n * n % 130 for n in range(300)], "level": [n % 11 for n in range(300)]}),
        unit="pid",
        columns={"level": Int(1, 9)},
        max_rows_per_unit=2,
    )
    tables = (*world.tables, labs, PublicTable("wards", wards))
    return World(tables, {})


FAMILIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "counts of rows and units": "SELECT COUNT(*) AS n, COUNT(DISTINCT pid) AS u FROM t",
        "sums and means": "SELECT SUM(cost) AS s, AVG(age) AS m FROM t",
        "variances": "SELECT VAR_SAMP(cost) AS v, STDDEV(age) AS d FROM t",
        "medians and quantiles": "SELECT ward, MEDIAN(cost) AS m FROM t GROUP BY ward",
        "groups of declared keys": "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward",
        "groups of undeclared keys": "SELECT note, COUNT(*) AS n FROM t GROUP BY note",
        "groups of several keys": "SELECT ward, urgent, SUM(cost) AS s FROM t "
        "GROUP BY ward, urgent",
        "conditions and FILTER": "SELECT SUM(cost) FILTER (WHERE urgent) AS s FROM t "
        "WHERE age BETWEEN 30 AND 60 AND ward IN ('A', 'B') OR note LIKE '_1%'",
        "arithmetic": "SELECT SUM(cost * age / 7 - 3) AS s, SUM(age % 7) AS r FROM t",
        "rounding": "SELECT SUM(ROUND(cost / 8, 1)) AS r, SUM(FLOOR(cost)) AS f, "
        "SUM(CEIL(cost)) AS c FROM t",
        "roots": "SELECT SUM(SQRT(cost)) AS r, SUM(ABS(cost - 40)) AS a FROM t",
        "logarithms and exponentials": "SELECT SUM(LN(1 + cost)) AS l, SUM(EXP(age / 70)) AS e "
        "FROM t",
        "CASE, COALESCE, LEAST, GREATEST": "SELECT "
        "SUM(CASE WHEN urgent THEN cost ELSE 1 END) AS c, "
        "SUM(COALESCE(LEAST(cost, 40), 0)) AS l FROM t",
        "parts of dates": "SELECT MONTH(day) AS m, DAYOFWEEK(day) AS w, COUNT(*) AS n FROM t "
        "GROUP BY m, w",
        "starts of months": "SELECT DATE_TRUNC('month', day) AS m, SUM(cost) AS s FROM t "
        "GROUP BY m",
        "strings": "SELECT UPPER(SUBSTR(note, 1, 1)) AS k, SUM(LEAST(LENGTH(note), 3)) AS s FROM t "
        "GROUP BY k",
        "casts": "SELECT SUM(LEAST(GREATEST(CAST(SUBSTR(note, 2) AS INT), 0), 9)) AS c, "
        "SUM(CAST(urgent AS INT)) AS u FROM t",
        "HAVING, ORDER BY, LIMIT": "SELECT ward, AVG(cost) AS m FROM t GROUP BY ward "
        "HAVING COUNT(*) > 5 ORDER BY m DESC LIMIT 3",
        "private choice of the largest groups": "SELECT ward FROM t GROUP BY ward "
        "ORDER BY COUNT(*) DESC LIMIT 2",
        "joins with public tables": "SELECT ward, SUM(beds) AS s FROM t JOIN wards ON ward = name "
        "GROUP BY ward",
        "left joins with public tables": "SELECT ward, COUNT(*) AS n, SUM(beds) AS s FROM t "
        "LEFT JOIN wards ON ward = name GROUP BY ward",
        "joins of two private tables": "SELECT ward, COUNT(*) AS n, SUM(level * cost) AS s FROM t "
        "JOIN labs ON t.pid = labs.pid GROUP BY ward",
        "left joins of two private tables": "SELECT COUNT(*) AS n, AVG(level) AS m FROM t "
        "LEFT JOIN labs ON t.pid = labs.pid",
        "statistics per unit": "SELECT AVG(s) AS m FROM "
        "(SELECT pid, SUM(cost) AS s FROM t GROUP BY pid)",
        "joins with statistics per unit": "SELECT ward, AVG(k) AS m FROM t "
        "JOIN (SELECT pid, COUNT(*) AS k FROM t GROUP BY pid) AS p ON t.pid = p.pid GROUP BY ward",
    }
)
"""One query per family."""

EXPECTED: Final[Mapping[tuple[str, str], str]] = MappingProxyType({})
"""Where an engine's integers differ from DuckDB's, by family and place, and why."""

NEAR: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {("logarithms and exponentials", "spark"): "near: the last bit of `LN` and `EXP` is Java's"}
)
"""Where results agree except for a last bit, which changes a sum by one grid step per row."""

MAGNIFIED: Final = (
    "SELECT SUM(LEAST(GREATEST(EXP(cost / 2) - 7 * FLOOR(EXP(cost / 2) / 7), 0), 7)) AS s FROM t"
)
"""A query in which such a bit changes more than one step: the remainder of very large numbers."""


def are_near(expected: Mapping[Any, Any], actual: Mapping[Any, Any]) -> bool:
    """Return whether all totals agree up to one step per row, the effect of a last bit."""
    return expected.keys() == actual.keys() and all(
        abs(a - b) <= max(totals)
        for group, totals in expected.items()
        for a, b in zip(totals, actual[group], strict=True)
    )
