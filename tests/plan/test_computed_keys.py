"""Keys computed from dates, strings, and integers: the domain has every value, and no others."""

from datetime import date, timedelta
from typing import Any, Final

import duckdb
import pyarrow as pa
import pytest

from confide.declare import Bool, Catalog, Category, Column, Date, Int, Table
from confide.engines.sql.expressions import Emitter
from confide.expressions.tree import Column as Part
from confide.expressions.tree import walk
from confide.plan import declared_range
from confide.plan.keys import domain_of
from confide.query import Names
from confide.query.sql import read_sql

FIRST, LAST = date(2019, 11, 20), date(2021, 3, 5)
COLUMNS: Final[dict[str, Column]] = {
    "d": Date(FIRST, LAST),
    "ever": Date("0001-01-01", "9999-12-31"),
    "n": Int(-3, 14),
    "y": Int(2019, 2020),
    "m": Int(0, 13),
    "k": Category(["north-1", "South-2", None]),
    "b": Bool(),
}
NAMES: Final = Names(Catalog([Table("t", "t.parquet", unit="p", columns=COLUMNS)]), {})
RANGES: Final = {("t1", name): declared_range(column) for name, column in COLUMNS.items()}
VALUES: Final[dict[str, list[Any]]] = {
    "d": [FIRST + timedelta(days) for days in range((LAST - FIRST).days + 1)],
    "ever": [date(1, 1, 1) + timedelta(days) for days in range(0, 3_652_059, 997)],
    "n": list(range(-3, 15)),
    "y": [2019, 2020],
    "m": list(range(14)),
    "k": ["north-1", "South-2", None],
    "b": [True, False, None],
}
KEYS: Final = (
    *("WEEK(d)", "EXTRACT(doy FROM d)", "ISOYEAR(d)", "ISODOW(d)", "YEARWEEK(d)", "DECADE(d)"),
    *("DATE_TRUNC('week', d)", "DATE_TRUNC('decade', d)", "DATE_TRUNC('isoyear', d)"),
    *("DATE_DIFF('month', d, DATE '2020-05-05')", "d - DATE '2020-01-01'", "LAST_DAY(d)"),
    *("DATE_DIFF('week', DATE '2020-01-01', d)", "d + INTERVAL 1 MONTH", "d + n"),
    *("DATE_TRUNC('month', d + INTERVAL (n) MONTH)", "MAKE_DATE(y, m, 31)", "EPOCH(d)"),
    *("STRFTIME(d, '%Y-%m')", "DAYNAME(d)", "STRFTIME(ever, '%a %-d')", "MONTHNAME(ever)"),
    *("DATE_TRUNC('year', GREATEST(d, DATE '2020-01-01'))", "n // 5", "SIGN(n)", "TRUNC(n / 4)"),
    *("LEFT(k, 1) || RIGHT(k, 1)", "SPLIT_PART(k, '-', 1)", "REPLACE(UPPER(k), '-', '')"),
    *("y || '-' || m", "CONCAT(k, b)", "STRPOS(k, 'o')", "LENGTH(TRIM(k, '12'))", "b::VARCHAR"),
    "YEAR(ever + INTERVAL (n) MONTH)",
)
EXCESSIVE: Final = ("LEFT(k, 1) || RIGHT(k, 1)", "YEAR(ever + INTERVAL (n) MONTH)")
"""Keys whose domain has a value that no row has: they use a column twice, or not all days."""


@pytest.mark.parametrize("asked", KEYS)
def test_every_computed_key_is_in_its_domain(asked: str) -> None:
    """Over all combinations of values, the keys that DuckDB computes are those of the domain."""
    key = read_sql(f"SELECT COUNT(*) AS n FROM t GROUP BY {asked}", NAMES).keys[0]
    domain = domain_of(key, RANGES)
    used = {name for name in COLUMNS if Part("t1", name, COLUMNS[name].kind) in walk(key)}
    tables = {name: pa.table({name: VALUES[name]}) for name in used}
    connection = duckdb.connect()
    for name, rows in tables.items():
        connection.register(f"all_{name}", rows)
    crossed = " CROSS JOIN ".join(f"all_{name}" for name in used)
    value = Emitter(RANGES).emit(key).sql("duckdb")
    found = connection.execute(f"SELECT DISTINCT {value} FROM (SELECT * FROM {crossed}) AS t1")
    values = {value for (value,) in found.fetchall()}

    assert domain is not None
    assert values - {None} <= set(domain)
    assert asked in EXCESSIVE or set(domain) - {None} <= values
