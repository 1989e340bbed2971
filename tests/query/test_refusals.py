"""Refused queries report the reason and the position; none reads any data."""

import logging
import re

import pytest

from confide.errors import Refusal, UnknownName, UnsupportedQuery
from confide.query.sql import parse, read_sql
from support.questions import NAMES

STATEMENTS = [
    ("", "A query must be a string"),
    ("   \n", "A query must be a string"),
    (";;", "A query must be a string"),
    ("-- nothing", "A query must be a string"),
    ("DROP TABLE visits", "one SELECT"),
    ("INSERT INTO visits VALUES (1)", "one SELECT"),
    ("UPDATE visits SET age = 1", "one SELECT"),
    ("DELETE FROM visits", "one SELECT"),
    ("CREATE TABLE x AS SELECT COUNT(*) FROM visits", "one SELECT"),
    ("COPY visits TO 'x.csv'", "one SELECT"),
    ("ATTACH 'x.db'", "one SELECT"),
    ("PRAGMA show_tables", "one SELECT"),
    ("SET memory_limit = '1GB'", "one SELECT"),
    ("EXPLAIN SELECT COUNT(*) FROM visits", "one SELECT"),
    ("DESCRIBE visits", "one SELECT"),
    ("SUMMARIZE visits", "one SELECT"),
    ("CALL pragma_version()", "one SELECT"),
    ("VALUES (1)", "one SELECT"),
    ("TABLE visits", "one SELECT"),
    ("(SELECT COUNT(*) FROM visits)", "one SELECT"),
    (
        "SELECT COUNT(*) FROM visits; SELECT COUNT(*) FROM visits",
        "one statement is supported at a time",
    ),
    ("SELECT COUNT(*) FROM visits; DROP TABLE visits", "one statement is supported at a time"),
    ("SELECT COUNT(*) FROM visits UNION SELECT COUNT(*) FROM labs", "UNION"),
    ("SELECT COUNT(*) FROM visits EXCEPT SELECT 1", "EXCEPT"),
    ("SELECT COUNT(*) FROM visits INTERSECT ALL SELECT 1", "INTERSECT"),
    ("WITH p AS (SELECT 1) DELETE FROM visits", "one SELECT"),
    ("SELECT COUNT(*) FROM visits WHERE", "cannot be parsed"),
    ("SELECT COUNT(* FROM visits", "parentheses do not match"),
    ("SELECT COUNT(*) FROM visits WHERE ward = 'A", "ends inside"),
    ("SELECT COUNT(*)", "needs FROM"),
    ("SELECT , COUNT(*) FROM visits", "missing next to this comma"),
    ("SELECT COUNT(*), , SUM(age) FROM visits", "missing next to this comma"),
    ("SELECT SUM(LEAST(, age)) FROM visits", "missing next to this comma"),
    ("SELECT SUM(LEAST(age, )) FROM visits", "missing next to this comma"),
    ("SELECT SUM(age FROM visits", "parentheses do not match"),
    ("SELECT SUM(age)) FROM visits", "parentheses do not match"),
    ("SELECT COUNT(*) AS >= FROM visits", "not a single word|cannot be parsed"),
    ("SELECT /*+ PARALLEL(8) */ COUNT(*) FROM visits", "Hints"),
    ("SELECT COUNT(*) INTO x FROM visits", "INTO is not supported"),
    ("SELECT COUNT(*) FROM visits FOR UPDATE", "FOR is not supported"),
    ("SELECT COUNT(*) FROM visits WHERE age > ?", "Parameters"),
    ("SELECT COUNT(*) FROM visits WHERE age > $1", "Parameters"),
    ("SELECT COUNT(*) FROM visits WHERE age > :x", "Parameters"),
    ("SELECT COUNT(*) FROM visits WHERE age > '\ud800'", "UTF-8"),
]

ROWS = [
    ("SELECT * FROM visits", "Rows cannot be selected"),
    ("SELECT v.* FROM visits v", "Rows cannot be selected"),
    ("FROM visits", "Rows cannot be selected"),
    ("SELECT age FROM visits", "neither in GROUP BY nor inside an aggregate"),
    ("SELECT age, COUNT(*) FROM visits", "neither in GROUP BY nor inside an aggregate"),
    ("SELECT ward, AVG(cost) + age FROM visits GROUP BY ward", "Column 'age'"),
    ("SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING age > 1", "Column 'age'"),
    ("SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY age", "Column 'age'"),
    ("SELECT 1 FROM visits", "Rows cannot be selected"),
    ("SELECT NULL, COUNT(*) FROM visits", "always NULL"),
    ("SELECT COLUMNS('a.*') FROM visits", "not supported"),
    ("SELECT COUNT(* EXCLUDE (age)) FROM visits", "not supported"),
    ("SELECT COUNT(v.*) FROM visits v", "Rows cannot be selected"),
    ("SELECT MIN(age) FROM visits", "MIN is the value"),
    ("SELECT MAX(age) FROM visits", "MAX is the value"),
    ("SELECT ANY_VALUE(age) FROM visits", "value of a single row"),
    ("SELECT FIRST(age) FROM visits", "FIRST is the value of a single row"),
    ("SELECT ARG_MAX(age, cost) FROM visits", "not supported"),
    ("SELECT STRING_AGG(ward, ',') FROM visits", "not supported"),
    ("SELECT LIST(age) FROM visits", "not supported"),
    ("SELECT ARRAY_AGG(age) FROM visits", "not supported"),
    ("SELECT HISTOGRAM(age) FROM visits", "not supported"),
    ("SELECT MODE(age) FROM visits", "LIMIT 1"),
    ("SELECT APPROX_COUNT_DISTINCT(age) FROM visits", "not supported"),
    ("SELECT QUANTILE(age, 0.5) FROM visits", "QUANTILE_CONT"),
    ("SELECT QUANTILE_DISC(age, 0.5) FROM visits", "PERCENTILE_CONT"),
    ("SELECT STDDEV_POP(age), VAR_POP(age) FROM visits", "STDDEV_SAMP"),
    ("SELECT COUNT_IF(smoker) FROM visits", "FILTER"),
    ("SELECT BOOL_OR(smoker) FROM visits", "not supported"),
    ("SELECT CORR(age, cost) FROM visits", "not supported"),
]

PEOPLE = [
    ("SELECT patient_id FROM visits", "cannot be selected"),
    ("SELECT patient_id, COUNT(*) FROM visits GROUP BY patient_id", "per-unit subquery"),
    ("SELECT COUNT(*) FROM visits GROUP BY unit", "cannot be selected"),
    ("SELECT COUNT(*) FROM visits WHERE patient_id = 7", "cannot be selected, compared"),
    ("SELECT COUNT(*) FROM visits WHERE patient_id IS NULL", "cannot be selected, compared"),
    ("SELECT COUNT(patient_id) FROM visits", "COUNT(DISTINCT patient_id)"),
    ("SELECT SUM(patient_id) FROM visits", "cannot be selected"),
    ("SELECT SUM(cost) FILTER (WHERE patient_id = 7) FROM visits", "cannot be selected"),
    ("SELECT DISTINCT patient_id FROM visits", "cannot be selected"),
    ("SELECT COUNT(*) FROM visits ORDER BY patient_id", "cannot be selected"),
    ("SELECT COUNT(DISTINCT age) FROM visits", "can count only units"),
    ("SELECT COUNT(DISTINCT patient_id + 1) FROM visits", "can count only units"),
    ("SELECT COUNT(DISTINCT patient_id, age) FROM visits", "can count only units"),
    ("SELECT SUM(DISTINCT age) FROM visits", "DISTINCT is supported only in"),
    (
        "SELECT COUNT(DISTINCT l.patient_id) FROM visits v LEFT JOIN labs l USING (patient_id)",
        "first",
    ),
    ("SELECT COUNT(*) FROM people GROUP BY unit", "cannot be selected"),
]

SHAPES = [
    ("SELECT SUM(age) OVER () FROM visits", "Window"),
    ("SELECT ROW_NUMBER() OVER (ORDER BY age) FROM visits", "Window"),
    ("SELECT COUNT(*) FROM visits WINDOW w AS (PARTITION BY age)", "WINDOW"),
    ("SELECT COUNT(*) FROM visits QUALIFY TRUE", "QUALIFY"),
    ("SELECT COUNT(*) FROM visits WHERE age IN (SELECT age FROM visits)", "Subqueries as values"),
    (
        "SELECT COUNT(*) FROM visits WHERE age > (SELECT AVG(age) FROM visits)",
        "Subqueries as values",
    ),
    ("SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM labs)", "EXISTS"),
    ("SELECT COUNT(*), (SELECT COUNT(*) FROM visits) FROM visits", "Subqueries as values"),
    ("SELECT COUNT(*) FROM visits WHERE age = ANY (SELECT 1)", "not supported"),
    ("SELECT COUNT(*) FROM visits, LATERAL (SELECT 1) x", "only declared tables"),
    ("SELECT COUNT(*) FROM (VALUES (1), (2)) t", "only declared tables"),
    ("SELECT COUNT(*) FROM UNNEST([1, 2])", "Lists"),
    ("SELECT COUNT(*) FROM RANGE(10)", "only declared tables"),
    ("SELECT COUNT(*) FROM READ_CSV('/etc/passwd')", "only declared tables"),
    ("SELECT COUNT(*) FROM READ_PARQUET('x')", "only declared tables"),
    ("SELECT COUNT(*) FROM visits TABLESAMPLE 10%", "TABLESAMPLE"),
    ("SELECT COUNT(*) FROM visits USING SAMPLE 10", "TABLESAMPLE"),
    ("SELECT COUNT(*) FROM visits PIVOT (SUM(age) FOR ward IN ('A'))", "PIVOT"),
    ("SELECT COUNT(*) FROM visits v(a)", "Column names after"),
    ("SELECT COUNT(*) FROM main.visits", "Schemas"),
    ("SELECT SUM(main.visits.age) FROM visits", "Schemas"),
    ("SELECT COUNT(*) FROM (visits)", "Parentheses in FROM"),
    ("SELECT COUNT(*) FROM (visits JOIN labs USING (patient_id))", "Parentheses in FROM"),
    ("SELECT COUNT(*) FROM visits GROUP BY ALL", "List the keys"),
    ("SELECT COUNT(*) FROM visits GROUP BY ROLLUP (ward)", "ROLLUP"),
    ("SELECT COUNT(*) FROM visits GROUP BY CUBE (ward, age)", "CUBE"),
    ("SELECT COUNT(*) FROM visits GROUP BY GROUPING SETS ((ward), ())", "GROUPING SETS"),
    ("SELECT COUNT(*) FROM visits GROUP BY 'x'", "must contain a column"),
    ("SELECT COUNT(*) FROM visits GROUP BY 2", "from 1 to 1"),
    ("SELECT COUNT(*) FROM visits GROUP BY 1", "cannot be used in GROUP BY"),
    ("SELECT DISTINCT COUNT(*) FROM visits", "cannot be used in GROUP BY"),
    ("SELECT DISTINCT ward FROM visits GROUP BY ward", "Remove DISTINCT"),
    ("SELECT DISTINCT ON (ward) ward FROM visits", "ON is not supported after DISTINCT"),
    ("SELECT COUNT(*) AS n, SUM(age) AS N FROM visits", "Two columns"),
    ("SELECT COUNT(*), COUNT(*) FROM visits", "Two columns"),
    ("SELECT COUNT(*) FROM visits GROUP BY " + ", ".join(["age"] * 17), "at most 16 keys"),
    ("SELECT " + ", ".join(["age"] * 201) + " FROM visits", "200 columns"),
    (f"SELECT COUNT(*) AS {'n' * 201} FROM visits", "1 to 200 printable characters"),
    ("SELECT SUM(age" + " + 10000" * 40 + ") FROM visits", "Rename it with AS"),
    ('SELECT COUNT(*) AS "a\tb" FROM visits', "printable"),
    ("SELECT COUNT(*) FROM visits WHERE COUNT(*) > 1", "cannot be used in WHERE"),
    ("SELECT AVG(SUM(age)) FROM visits", "aggregate of an aggregate"),
    ("SELECT SUM(age) FILTER (WHERE COUNT(*) > 1) FROM visits", "aggregate of an aggregate"),
    ("SELECT SUM(age ORDER BY cost) FROM visits", "ORDER BY inside"),
    ("SELECT COUNT(*) FROM visits LIMIT 5 OFFSET 5", "OFFSET"),
    ("SELECT COUNT(*) FROM visits LIMIT 0", "LIMIT takes"),
    ("SELECT COUNT(*) FROM visits LIMIT -1", "LIMIT takes"),
    ("SELECT COUNT(*) FROM visits LIMIT 0000000000012345678901", "LIMIT takes"),
    ("SELECT COUNT(*) FROM visits LIMIT 000000000001" + "9" * 5_000, "LIMIT takes"),
    ("SELECT COUNT(*) FROM visits LIMIT 10%", "not supported"),
    ("SELECT COUNT(*) FROM visits LIMIT (SELECT 1)", "LIMIT takes"),
    ("SELECT COUNT(*) FROM visits FETCH FIRST 5 ROWS ONLY", "Write LIMIT"),
    ("SELECT ward FROM visits GROUP BY ward ORDER BY ward NULLS FIRST", "NULLS FIRST"),
    ("SELECT ward FROM visits GROUP BY ward ORDER BY 'x'", "sorted by a constant"),
    ("SELECT ward FROM visits GROUP BY ward ORDER BY 3", "from 1 to 1"),
    ("SELECT ward FROM visits GROUP BY ward ORDER BY 0000000012", "from 1 to 1"),
    ("SELECT ward FROM visits GROUP BY 0000000012", "from 1 to 1"),
    ("SELECT ward FROM visits GROUP BY ward ORDER BY ALL", "not supported"),
    (
        "SELECT ward FROM visits GROUP BY 1 ORDER BY " + ", ".join(["1"] * 201),
        "at most 200 sort keys",
    ),
]

TABLES = [
    ("SELECT COUNT(*) FROM icd", "must be private"),
    ("SELECT COUNT(*) FROM icd JOIN visits ON code = diagnosis", "must be private"),
    ("SELECT COUNT(*) FROM visits, labs", "needs a condition"),
    ("SELECT COUNT(*) FROM visits JOIN icd ON TRUE", "equal columns"),
    ("SELECT COUNT(*) FROM visits CROSS JOIN icd", "INNER and LEFT"),
    ("SELECT COUNT(*) FROM visits NATURAL JOIN icd", "NATURAL"),
    ("SELECT COUNT(*) FROM visits ASOF JOIN labs ON visits.day >= labs.day", "ASOF"),
    ("SELECT COUNT(*) FROM visits POSITIONAL JOIN labs", "POSITIONAL"),
    ("SELECT COUNT(*) FROM visits SEMI JOIN icd ON diagnosis = code", "INNER and LEFT"),
    ("SELECT COUNT(*) FROM visits ANTI JOIN icd ON diagnosis = code", "INNER and LEFT"),
    ("SELECT COUNT(*) FROM visits RIGHT JOIN icd ON diagnosis = code", "INNER and LEFT"),
    ("SELECT COUNT(*) FROM visits FULL JOIN labs USING (patient_id)", "INNER and LEFT"),
    ("SELECT COUNT(*) FROM visits JOIN icd ON diagnosis > code", "equal columns"),
    ("SELECT COUNT(*) FROM visits JOIN icd ON diagnosis = code OR ward = code", "equal columns"),
    (
        "SELECT COUNT(*) FROM visits JOIN icd ON diagnosis = LOWER(code)",
        "with a column of 'icd'",
    ),
    ("SELECT COUNT(*) FROM visits JOIN icd ON 'C34' = code", "with a column of 'icd'"),
    ("SELECT COUNT(*) FROM visits JOIN icd ON code = chapter", "with a column of 'icd'"),
    (
        "SELECT COUNT(*) FROM visits JOIN icd ON age = code",
        "does not support arguments of type (int, text)",
    ),
    ("SELECT COUNT(*) FROM visits JOIN icd ON patient_id = code", "cannot be selected"),
    ("SELECT COUNT(*) FROM visits JOIN icd ON COUNT(*) = weight", "cannot be used in ON"),
    ("SELECT COUNT(*) FROM visits a JOIN visits b USING (patient_id)", "with itself"),
    ("SELECT COUNT(*) FROM visits a JOIN visits b ON a.age = b.age", "the unit alone"),
    ("SELECT COUNT(*) FROM visits v JOIN labs l ON v.day = l.day", "the unit alone"),
    (
        "SELECT COUNT(*) FROM visits v JOIN labs l ON v.unit = l.patient_id AND v.day = l.day",
        "Move other conditions to WHERE",
    ),
    (
        "SELECT COUNT(*) FROM visits JOIN people ON patient_id = people.unit",
        "without a unit column",
    ),
    (
        "SELECT COUNT(*) FROM visits JOIN notes USING (patient_id)",
        "Unknown column 'patient_id' in 'notes'",
    ),
    ("SELECT COUNT(*) FROM visits JOIN visits ON TRUE", "Two tables are called"),
    ("SELECT SUM(day) FROM visits JOIN labs USING (patient_id)", "several columns"),
    (
        "SELECT COUNT(*) FROM visits v LEFT JOIN labs l USING (patient_id) JOIN notes n "
        "ON l.patient_id = n.pid",
        "itself joined by LEFT JOIN",
    ),
    ("SELECT COUNT(*) FROM visits" + " JOIN icd ON diagnosis = code" * 17, "at most 16 joins"),
    (
        "SELECT COUNT(*) FROM visits"
        + "".join(f" JOIN icd i{k} ON diagnosis = i{k}.code" for k in range(8)),
        "At most 8 tables",
    ),
    ("SELECT AVG(age) FROM (SELECT age FROM visits)", "one row per unit"),
    ("SELECT AVG(age) FROM (SELECT * FROM visits) v", "one row per unit"),
    ("WITH v AS (SELECT * FROM visits) SELECT COUNT(*) FROM v", "one row per unit"),
    (
        "SELECT AVG(n) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)",
        "by the unit alone",
    ),
    (
        "SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM visits GROUP BY patient_id, ward)",
        "by the unit alone",
    ),
    (
        "SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY 1 LIMIT 9)",
        "LIMIT is not supported in a subquery",
    ),
    (
        "SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) n FROM visits GROUP BY 1 HAVING n > 1)",
        "Use WHERE in the outer query",
    ),
    (
        "SELECT AVG(n) FROM (SELECT patient_id, 1 AS n FROM visits GROUP BY patient_id)",
        "must be an aggregate",
    ),
    (
        "SELECT AVG(n) FROM (SELECT patient_id, age AS n FROM visits GROUP BY patient_id)",
        "Column 'age'",
    ),
    (
        "SELECT AVG(n) FROM (SELECT patient_id, COUNT(DISTINCT unit) n FROM visits GROUP BY 1)",
        "always 1",
    ),
    ("SELECT COUNT(*) FROM (SELECT patient_id FROM visits GROUP BY 1)", "needs an aggregate"),
    (
        "SELECT AVG(unit) FROM (SELECT patient_id, COUNT(*) AS unit FROM visits GROUP BY 1)",
        "reserved for the unit",
    ),
    (
        "SELECT AVG(n) FROM (SELECT patient_id AS n, COUNT(*) AS n FROM visits GROUP BY 1)",
        "the same name",
    ),
    (
        "SELECT AVG(n) FROM (SELECT unit, COUNT(*) AS n FROM people GROUP BY unit)",
        "subquery is not needed",
    ),
    (
        "SELECT AVG(m) FROM (SELECT patient_id, SUM(n) AS m FROM (SELECT patient_id, COUNT(*) AS n "
        "FROM visits GROUP BY 1) GROUP BY 1)",
        "cannot be nested",
    ),
    (
        "WITH p AS (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY 1), q AS (SELECT "
        "patient_id, SUM(n) AS m FROM p GROUP BY 1) SELECT AVG(m) FROM q",
        "cannot be nested",
    ),
    (
        "WITH RECURSIVE p AS (SELECT patient_id, COUNT(*) n FROM visits GROUP BY 1) SELECT AVG(n) "
        "FROM p",
        "RECURSIVE",
    ),
    (
        "WITH visits AS (SELECT patient_id, COUNT(*) n FROM visits GROUP BY 1) SELECT AVG(n) "
        "FROM visits",
        "already the name",
    ),
    (
        "WITH p AS (SELECT unit, COUNT(*) n FROM visits GROUP BY 1) SELECT COUNT(*) FROM labs",
        "never used",
    ),
    ("WITH p(a) AS (SELECT 1) SELECT COUNT(*) FROM p", "Column names after"),
    ("WITH p AS MATERIALIZED (SELECT 1) SELECT COUNT(*) FROM p", "not supported"),
    ("WITH p AS (DELETE FROM visits) SELECT COUNT(*) FROM p", "cannot be parsed|one row per unit"),
]

EXPRESSIONS = [
    ("RANDOM() < 0.5", "Random"),
    ("SLEEP(10) = 1", "not supported"),
    ("CURRENT_DATE = day", "not supported"),
    ("CURRENT_SETTING('x') = 'y'", "not supported"),
    ("GETENV('HOME') = 'y'", "not supported"),
    ("VERSION() = 'y'", "not supported"),
    ("REGEXP_MATCHES(ward, '(a+)+')", "not supported"),
    ("ward SIMILAR TO 'a'", "not supported"),
    ("ward ~ 'a'", "not supported"),
    ("ward ILIKE diagnosis", "must be a constant"),
    ("ward LIKE diagnosis", "must be constants"),
    ("ward LIKE 'a!%' ESCAPE '!'", "ESCAPE"),
    ("REPLACE(ward, '', 'x') = 'y'", "at least one character"),
    ("SPLIT_PART(ward, '-', 0) = 'y'", "from 1 to 1,000"),
    ("TRIM(ward, NULL) = 'y'", "must be a constant"),
    ("STRPOS(ward, diagnosis) = 1", "must be constants"),
    ("LEFT(ward, -1) = 'y'", "at least 0"),
    ("RIGHT(ward, age) = 'y'", "at least 0"),
    ("LOG(1, 2, age) = 1", "cannot be parsed|base and a number|Remove it"),
    ("cost // 2 = 1", "CAST(x AS BIGINT)"),
    ("age & 1 = 1", "not supported"),
    ("day = INTERVAL 1 DAY", "is added to a date"),
    ("day + INTERVAL '1 month 3 days' > day", "one number and one unit"),
    ("day + INTERVAL '1.5' DAY > day", "must be an integer"),
    ("day + INTERVAL 3 MICROSECOND > day", "takes one of day, week"),
    ("day + 1.5 > day", "does not support arguments of type (date, float)"),
    ("day + day > day", "does not support arguments of type (date, date)"),
    ("day = DATE '9999-12-31' + 1", "years 1 to 9999"),
    ("DATE_DIFF('microsecond', day, day) = 1", "takes one of day, week"),
    ("STRFTIME(day, '%c') = 'x'", "takes a format of"),
    ("STRFTIME(day, 'x') = 'x'", "takes a format of"),
    ("STRFTIME(day, ward) = 'x'", "must be a constant"),
    ("YEARWEEK(day, 1) = 1", "not supported"),
    ("[1, 2] = [1]", "Lists"),
    ("{'a': 1} = 1", "Structures"),
    ("age IS TRUE", "IS can be used only with NULL"),
    ("age IS DISTINCT FROM 1", "not supported"),
    ("age", "must be a Boolean"),
    ("NULL", "must be a Boolean"),
    ("age AND smoker", "does not support arguments of type (int, bool)"),
    ("NOT age", "does not support arguments of type (int)"),
    ("age = '1'", "does not support arguments of type (int, text)"),
    ("ward = 1", "does not support arguments of type (text, int)"),
    ("smoker = 1", "does not support arguments of type (bool, int)"),
    ("day = 'yesterday'", "is not a date"),
    ("day = '2021-02-30'", "is not a date"),
    ("cost % 2 = 1", "integers"),
    ("smoker + 1 = 2", "does not support arguments of type (bool, int)"),
    ("age < 2 < 3", "parentheses"),
    ("age = 1 = smoker", "parentheses"),
    ("age IN (cost, 2)", "must be constants"),
    ("age IN ()", "cannot be parsed|IN needs"),
    ("ROUND(cost, age) = 1", "must be constants"),
    ("ROUND(cost, 16) = 1", "from -15 to 15 digits"),
    ("ROUND(cost, -16) + 1 = 1", "from -15 to 15 digits"),
    ("NULLIF(" * 14 + "cost" + ", 1)" * 14 + " = 1", "at most 5,000 parts"),
    ("CASE " * 4 + "age" + (" WHEN 1 THEN 2" * 20 + " END") * 4 + " = 1", "5,000 parts"),
    ("SUBSTR(ward, age) = 'x'", "must be constants"),
    ("EXTRACT(timezone FROM day) = 1", "`EXTRACT` takes one of"),
    ("DATE_TRUNC('microsecond', day) = day", "`DATE_TRUNC` takes one of"),
    ("CAST(age AS TIMESTAMP) IS NULL", "Only dates, timestamps"),
    ("CAST(day AS TIMESTAMP)::INT = 1", "can be cast to DATE only"),
    ("CAST(day AS TIMESTAMP) = 'noon'", "is not a timestamp"),
    ("CAST(day AS TIMESTAMP) = '2020-01-01 10:00:00Z'", "is not a timestamp"),
    ("CAST(day AS TIMESTAMP) - CAST(day AS TIMESTAMP) IS NULL", "(timestamp, timestamp)"),
    ("CAST(age AS TINYINT) = 1", "Values can be cast only to"),
    ("CAST(age AS DECIMAL(38, 20)) = 1", "from -15 to 15 digits"),
    ("CAST(age AS UUID) IS NULL", "cast only to BIGINT, DOUBLE"),
    ("CAST(age AS INT[]) IS NULL", "Lists"),
    ("CASE WHEN smoker THEN 1 ELSE 'a' END = 1", "does not support"),
    ("CASE WHEN smoker THEN NULL END IS NULL", "does not support"),
    ("COALESCE(NULL) = 1", "does not support"),
    ("cost < 1e400", "at most 38 digits"),
    ("cost < " + "9" * 39, "at most 38 digits"),
    ("cost < " + "9" * 5000, "at most 38 digits"),
    ("ward = '" + "x" * 1001 + "'", "at most 1,000"),
    ("ward = 'a\nb'", "control characters"),
    ("ward = E'a\\n'", "not supported"),
    ("ward = 'a' COLLATE nocase", "not supported"),
    ("x -> 1", "JSON"),
    ("age + SUM(age) > 1", "cannot be used in WHERE"),
]

UNKNOWN = [
    ("SELECT COUNT(*) FROM visist", "Did you mean 'visits'?"),
    ("SELECT COUNT(*) FROM sqlite_master", "Unknown table 'sqlite_master'"),
    ("SELECT COUNT(*) FROM duckdb_settings", "Declared: visits, labs, notes"),
    ("SELECT COUNT(*) FROM '/etc/passwd'", "Unknown table '/etc/passwd'"),
    ("SELECT AVG(csot) FROM visits", "Did you mean 'cost'?"),
    ("SELECT AVG(v.csot) FROM visits v", "Unknown column 'csot' in 'v'. Did you mean 'cost'?"),
    ("SELECT AVG(w.cost) FROM visits v", "No table is called 'w'"),
    ("SELECT AVG(visits.cost) FROM visits v", "No table is called 'visits'"),
    ("SELECT COUNT(rowid) FROM visits", "Unknown column 'rowid'"),
    ("SELECT COUNT(DISTINCT patient) FROM visits", "Unknown column 'patient'"),
    ("SELECT AVG(cost) AS c, c + 1 AS d FROM visits", "Unknown column 'c'"),
    ("SELECT COUNT(*) AS n FROM visits WHERE n > 1", "to HAVING"),
    ("SELECT COUNT(*) FROM visits JOIN icd ON diagnosis = cod", "Did you mean 'code'?"),
    ("SELECT COUNT(*) FROM visits JOIN icd USING (cod)", "Unknown column 'cod'"),
]


def refusal(text: str) -> UnsupportedQuery | UnknownName:
    """Return the error for a query that must be refused."""
    with pytest.raises(Refusal) as caught:
        read_sql(text, NAMES)
    assert isinstance(caught.value, UnsupportedQuery | UnknownName)
    return caught.value


@pytest.mark.parametrize(
    ("text", "reason"), STATEMENTS + ROWS + PEOPLE + SHAPES + TABLES, ids=lambda text: text[:60]
)
def test_a_query_is_refused_with_its_reason(text: str, reason: str) -> None:
    """Each of these queries is refused, and the message gives a reason or an alternative."""
    found = refusal(text)

    assert "unsupported-query" == found.code
    assert any(part in found.message for part in reason.split("|"))


@pytest.mark.parametrize(("condition", "reason"), EXPRESSIONS, ids=lambda text: text[:60])
def test_an_expression_is_refused_with_its_reason(condition: str, reason: str) -> None:
    """Each of these conditions is refused, and the message gives a reason or an alternative."""
    found = refusal(f"SELECT COUNT(*) FROM visits WHERE {condition}")

    assert "unsupported-query" == found.code
    assert any(part in found.message for part in reason.split("|"))


@pytest.mark.parametrize(("text", "reason"), UNKNOWN)
def test_an_unknown_name_is_refused_with_known_ones(text: str, reason: str) -> None:
    """Undeclared names are refused, and only declared names are suggested."""
    found = refusal(text)

    assert "unknown-name" == found.code
    assert reason in found.message


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "SELECT COUNT(*),\n  MAX(age) AS oldest\nFROM visits",
            "line 2:   MAX(age) AS oldest\n          ^^^^^^^^",
        ),
        (
            "SELECT SUM(csot) FROM visits",
            "line 1: SELECT SUM(csot) FROM visits\n" + " " * 19 + "^^^^",
        ),
        (
            "SELECT COUNT(*) FROM visits QUALIFY TRUE",
            "line 1: SELECT COUNT(*) FROM visits QUALIFY TRUE\n" + " " * 36 + "^^^^^^^",
        ),
        (
            "SELECT COUNT(*) FROM visits WHERE age = '3'",
            "line 1: SELECT COUNT(*) FROM visits WHERE age = '3'\n" + " " * 42 + "^^^^^^^^^",
        ),
    ],
)
def test_the_refused_part_is_underlined(text: str, lines: str) -> None:
    """The message ends with the analyst's own line and carets under the refused part."""
    assert lines == refusal(text).excerpt
    assert str(refusal(text)).endswith(lines)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM visits WHERE " + "(" * 10_000 + "age > 1" + ")" * 10_000,
        "SELECT COUNT(*) FROM visits WHERE age > 1" + " OR age > 1" * 10_000,
        "x" * 100_000,
    ],
)
def test_long_texts_are_refused_unread(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries over the length limit never reach the tokenizer."""
    monkeypatch.setattr(parse, "_tokenize", None)

    assert "at most 20,000 characters" in refusal(text).message


@pytest.mark.parametrize(
    "condition",
    [
        "(" * 200 + "age > 1" + ")" * 200,
        "(" * 9_000 + "age > 1" + ")" * 9_000,
        "NOT " * 500 + "smoker",
        "age > " + "- " * 500 + "1",
        "ABS(" * 100 + "age" + ")" * 100 + " > 1",
        "CASE WHEN smoker THEN " * 100 + "1" + " END" * 100 + " = 1",
        "CASE " * 2_000,
        "(NOT " * 15 + "smoker" + ")" * 15,
        "(" * 9_000,
        "age IN (" * 100,
        "(SELECT " * 100,
    ],
    ids=lambda text: text[:20],
)
def test_deep_nesting_never_reaches_the_parser(
    condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nesting is limited before parsing, so the parser's recursion is bounded."""
    monkeypatch.setattr(parse, "_parse", None)
    text = f"SELECT COUNT(*) FROM visits WHERE {condition}"

    assert "nested more than 20 levels deep" in refusal(text).message


@pytest.mark.parametrize("chain", [" + 1", " * age", " - 1"])
def test_long_chains_never_reach_our_own_recursion(chain: str) -> None:
    """A chain of operators is as deep as it is long, and is refused past 60 levels."""
    text = f"SELECT COUNT(*) FROM visits WHERE age{chain * 1000} > 1"

    assert "at most 60 levels" in refusal(text).message


def test_the_search_for_a_function_name_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locating a refused function does not take longer after a long text."""
    looked: list[int] = []

    class Near:
        def search(self, text: str, start: int, end: int) -> re.Match[str] | None:
            looked.append(end - start)
            return called.search(text, start, end)

    called = parse.CALL_START
    monkeypatch.setattr(parse, "CALL_START", Near())
    found = refusal(f"SELECT /* {'a' * 19_000} */ MAX(age) FROM visits")

    assert found.excerpt.endswith("^" * len("MAX(age)"))
    assert looked
    assert parse.MAX_NAME_LENGTH >= max(looked)


def test_a_query_must_be_a_string() -> None:
    """A query that is not a string is refused."""
    with pytest.raises(UnsupportedQuery, match="A query must be a string"):
        read_sql(7, NAMES)  # type: ignore[arg-type]  # deliberately wrong


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The parser's own warnings, which quote the query, are not logged."""
    text = "WITH p AS (CALL x) SELECT COUNT(*) FROM visits"
    with caplog.at_level(logging.DEBUG):
        refusal(text)

    assert [] == caplog.records
