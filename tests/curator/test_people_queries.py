"""Queries on people with several rows, and in two tables, give DuckDB's answers.

The data comes from two surveys of real people: the RAND health insurance experiment by year, and
patients of the NAFLD study with their laboratory values. No limit drops rows here; see
test_cut_queries.py for limits that do.
"""

from collections.abc import Callable
from typing import Final

import pytest

from support.datasets import nafld, randhie
from support.noiseless import BUDGETS, World, compare, find_insensitive, open_world

YEARS: Final = (
    "SELECT COUNT(*) AS n, COUNT(DISTINCT zper) AS u, COUNT(educ) AS c FROM years",
    "SELECT year, COUNT(*) AS n, SUM(visits) AS s, AVG(visits) AS m FROM years GROUP BY year",
    "SELECT site, AVG(outpatient) AS m, STDDEV(outpatient) AS d FROM years GROUP BY site",
    "SELECT female, child, COUNT(DISTINCT zper) AS u FROM years GROUP BY female, child",
    "SELECT SUM(outpatient + inpatient) AS s, AVG(outpatient + inpatient) AS m FROM years",
    "SELECT COUNT(*) FILTER (WHERE visits = 0) AS never, COUNT(*) AS n FROM years",
    "SELECT COUNT(*) FILTER (WHERE visits = 0) / COUNT(*) AS share FROM years",
    "SELECT visits, COUNT(*) AS n FROM years GROUP BY visits",
    "SELECT LEAST(visits, 5) AS v, COUNT(*) AS n, AVG(disease) AS m FROM years GROUP BY v",
    "SELECT VAR_SAMP(visits) AS v, VAR_SAMP(other_visits) AS w FROM years WHERE limited > 0.5",
    "SELECT AVG(LN(1 + income)) AS m, AVG(SQRT(income)) AS r FROM years",
    "SELECT FLOOR(age / 10) AS decade, AVG(visits) AS m FROM years GROUP BY decade",
    "SELECT CASE WHEN age < 18 THEN 'child' WHEN age < 45 THEN 'young' ELSE 'old' END AS g, "
    "SUM(admissions) AS s FROM years GROUP BY g",
    "SELECT SUM(visits * female::INT) AS s, SUM(visits * (1 - female::INT)) AS t FROM years",
    "SELECT AVG(outpatient) FILTER (WHERE NOT child) - AVG(outpatient) FILTER (WHERE child) AS d "
    "FROM years",
    "SELECT COUNT(*) AS n FROM years WHERE educ IS NULL OR NOT educ BETWEEN 8 AND 16",
    "SELECT AVG(t) AS m, STDDEV(t) AS d FROM "
    "(SELECT zper, SUM(visits) AS t FROM years GROUP BY zper)",
    "SELECT k, COUNT(*) AS n FROM (SELECT zper, COUNT(*) AS k FROM years GROUP BY zper) GROUP BY k",
    "WITH p AS (SELECT zper, AVG(outpatient) AS m FROM years WHERE year <= 3 GROUP BY zper) "
    "SELECT COUNT(*) AS n, AVG(m) AS mean FROM p WHERE m > 50",
    "SELECT AVG(late - early) AS d FROM (SELECT zper, SUM(visits) FILTER (WHERE year > 2) AS late, "
    "SUM(visits) FILTER (WHERE year <= 2) AS early FROM years GROUP BY zper)",
    "SELECT site, AVG(s) AS m FROM years JOIN (SELECT zper, SUM(inpatient) AS s FROM years "
    "GROUP BY zper) AS p ON years.zper = p.zper GROUP BY site",
)
PATIENTS: Final = (
    "SELECT male, COUNT(*) AS n, AVG(bmi) AS m, COUNT(bmi) AS c FROM patients GROUP BY male",
    "SELECT status, AVG(age) AS m, AVG(futime) AS f FROM patients GROUP BY status",
    "SELECT FLOOR(age / 10) * 10 AS decade, AVG(CAST(status AS INT)) AS dead FROM patients "
    "GROUP BY decade",
    "SELECT AVG(weight / (height * height / 10000)) AS m, AVG(bmi) AS b FROM patients",
    "SELECT COUNT(*) AS n FROM patients WHERE weight IS NULL AND NOT height IS NULL",
    "SELECT SUM(COALESCE(weight, 80)) AS s FROM patients WHERE age BETWEEN 40 AND 60",
    "SELECT COUNT(*) AS n, COUNT(DISTINCT id) AS u, SUM(value) AS s FROM labs",
    "SELECT test, COUNT(*) AS n, AVG(value) AS m FROM labs GROUP BY test",
    "SELECT test, STDDEV(value) AS d FROM labs GROUP BY test",
    "SELECT test, COUNT(DISTINCT id) AS u FROM labs WHERE days >= 0 GROUP BY test",
    "SELECT test, days < 0 AS before, COUNT(*) AS n FROM labs GROUP BY test, before",
    "SELECT FLOOR(days / 365) AS y, COUNT(*) AS n FROM labs WHERE test = 'chol' GROUP BY y",
    "SELECT AVG(value) FILTER (WHERE test = 'sbp') / AVG(value) FILTER (WHERE test = 'dbp') AS r "
    "FROM labs",
)
JOINED: Final = (
    "SELECT COUNT(*) AS n, COUNT(DISTINCT patients.id) AS u FROM patients "
    "JOIN labs ON patients.id = labs.id",
    "SELECT male, test, COUNT(*) AS n, AVG(value) AS m FROM labs JOIN patients USING (id) "
    "GROUP BY male, test",
    "SELECT test, AVG(value) AS m, SUM(age) AS s FROM patients JOIN labs USING (id) "
    "WHERE age > 60 GROUP BY test",
    "SELECT COUNT(*) AS n, COUNT(value) AS c, COUNT(DISTINCT patients.id) AS u FROM patients "
    "LEFT JOIN labs ON patients.id = labs.id",
    "SELECT status, COUNT(*) AS n FROM patients LEFT JOIN (SELECT id, COUNT(*) AS k FROM labs "
    "GROUP BY id) AS l ON patients.id = l.id WHERE k IS NULL GROUP BY status",
    "SELECT status, AVG(m) AS mean, COUNT(*) AS n FROM patients JOIN (SELECT id, AVG(value) AS m "
    "FROM labs WHERE test = 'sbp' GROUP BY id) AS l ON patients.id = l.id GROUP BY status",
    "WITH l AS (SELECT id, COUNT(*) AS k FROM labs GROUP BY id) "
    "SELECT male, AVG(COALESCE(k, 0)) AS m FROM patients LEFT JOIN l ON patients.id = l.id "
    "GROUP BY male",
    "SELECT AVG(n) AS m FROM (SELECT patients.id, COUNT(value) AS n FROM patients "
    "LEFT JOIN labs ON patients.id = labs.id WHERE bmi > 30 GROUP BY patients.id)",
    "SELECT labs.test, COUNT(*) FILTER (WHERE value > most) AS high, COUNT(*) AS n FROM labs "
    "JOIN ranges ON labs.test = ranges.test GROUP BY labs.test",
    "SELECT COUNT(*) AS n, COUNT(least) AS c, SUM(GREATEST(value - most, 0)) AS s FROM labs "
    "LEFT JOIN ranges ON labs.test = ranges.test",
    "SELECT male, AVG(value - least) AS m FROM labs JOIN patients ON labs.id = patients.id "
    "JOIN ranges ON ranges.test = labs.test WHERE futime > 1000 GROUP BY male",
)
CASES: Final = [
    *((randhie, text) for text in YEARS),
    *((nafld, text) for text in (*PATIENTS, *JOINED)),
]


@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize(("maker", "text"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_people_are_counted_as_by_duckdb(
    maker: Callable[[], World], text: str, accounting: str
) -> None:
    """Each cell equals DuckDB's, and an error of 1% would be detected; missing groups are empty."""
    opened = open_world(maker, accounting)

    assert [] == compare(opened, text)
    assert [] == find_insensitive(opened, text)


@pytest.mark.parametrize("maker", [randhie, nafld])
def test_bounds_clip_people_too(maker: Callable[[], World]) -> None:
    """DuckDB gives other sums for rows that are not clipped, so the comparison has power."""
    opened = open_world(maker, "pure")
    name, column = {"randhie": ("years", "outpatient"), "nafld": ("labs", "value")}[maker.__name__]
    raw = next(table.source for table in opened.world.tables if table.name == name)
    opened.oracle.register("raw", raw)
    text = f"SELECT SUM({column}) AS s FROM {name}"

    assert [] == compare(opened, text)
    assert 1 == len(compare(opened, text, f"SELECT SUM({column}) AS s FROM raw"))
