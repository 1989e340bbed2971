"""SQL queries, each with its canonical text on one line."""

__all__ = ["CONDITIONS", "EXTENSIONS", "STATISTICS", "WHOLE"]

CONDITIONS = [
    ("age >= 65", "t1.age >= 65"),
    ("visits.age > 1", "t1.age > 1"),
    ("AGE = 3", "t1.age = 3"),
    ('"Age" = 3', "t1.age = 3"),
    ("age == 3", "t1.age = 3"),
    ("age <> 3", "t1.age <> 3"),
    ("age != 3", "t1.age <> 3"),
    ("age > -3", "t1.age > -3"),
    ("age > - (-3)", "t1.age > 3"),
    ("-age < 0", "-t1.age < 0"),
    ("cost > 0.5", "t1.cost > 0.5"),
    ("cost > .5", "t1.cost > 0.5"),
    ("cost > 5.", "t1.cost > 5.0"),
    ("cost > 1e-7", "t1.cost > 1e-07"),
    ("cost > 2E3", "t1.cost > 2000.0"),
    ("cost > -0.0", "t1.cost > 0.0"),
    ("cost < 9007199254740993", "t1.cost < 9007199254740993"),
    ("cost < 1_000", "t1.cost < 1000"),
    ("cost < 007", "t1.cost < 7"),
    ("age + 1 > 2", "t1.age + 1 > 2"),
    ("(age + 1) * 2 > 2", "(t1.age + 1) * 2 > 2"),
    ("age + 1 * 2 > 2", "t1.age + 1 * 2 > 2"),
    ("age - (1 - 2) > 2", "t1.age - (1 - 2) > 2"),
    ("age - 1 - 2 > 2", "t1.age - 1 - 2 > 2"),
    ("age / 2 > 2", "t1.age / 2 > 2"),
    ("age % 2 = 1", "t1.age % 2 = 1"),
    ("MOD(age, 2) = 1", "t1.age % 2 = 1"),
    ("age - -1 > 0", "t1.age - -1 > 0"),
    ("age BETWEEN 1 AND 2", "t1.age >= 1 AND t1.age <= 2"),
    ("age NOT BETWEEN 1 AND 2", "NOT (t1.age >= 1 AND t1.age <= 2)"),
    ("age IN (1, 2)", "t1.age IN (1, 2)"),
    ("age IN (2, 1)", "t1.age IN (2, 1)"),
    ("ward NOT IN ('A', NULL)", "NOT t1.ward IN ('A', NULL)"),
    ("ward = 'it''s'", "t1.ward = 'it''s'"),
    (r"ward = 'a\b'", r"t1.ward = 'a\b'"),
    ("ward = 'größe'", "t1.ward = 'größe'"),
    ("ward = '--'", "t1.ward = '--'"),
    ("diagnosis LIKE 'C%'", "t1.diagnosis LIKE 'C%'"),
    ("diagnosis NOT LIKE '_x'", "NOT t1.diagnosis LIKE '_x'"),
    ("NOT diagnosis LIKE '_x'", "NOT t1.diagnosis LIKE '_x'"),
    ("day IS NULL", "t1.day IS NULL"),
    ("day IS NOT NULL", "NOT t1.day IS NULL"),
    ("NOT day IS NULL", "NOT t1.day IS NULL"),
    ("(age = 1) IS NULL", "(t1.age = 1) IS NULL"),
    ("age = 1 IS NULL", "(t1.age = 1) IS NULL"),
    ("smoker", "t1.smoker"),
    ("NOT smoker", "NOT t1.smoker"),
    ("NOT NOT smoker", "NOT (NOT t1.smoker)"),
    ("smoker = TRUE", "t1.smoker = TRUE"),
    ("(age > 1) = (cost > 1)", "(t1.age > 1) = (t1.cost > 1)"),
    ("smoker AND age > 1 AND cost > 1", "t1.smoker AND t1.age > 1 AND t1.cost > 1"),
    ("smoker AND (age > 1 AND cost > 1)", "t1.smoker AND t1.age > 1 AND t1.cost > 1"),
    ("smoker OR age > 1 AND cost > 1", "t1.smoker OR t1.age > 1 AND t1.cost > 1"),
    ("(smoker OR age > 1) AND cost > 1", "(t1.smoker OR t1.age > 1) AND t1.cost > 1"),
    ("NOT (smoker OR age > 1)", "NOT (t1.smoker OR t1.age > 1)"),
    ("NOT age = 1", "NOT t1.age = 1"),
    ("day >= DATE '2021-05-06'", "t1.day >= DATE '2021-05-06'"),
    ("day >= '2021-05-06'", "t1.day >= DATE '2021-05-06'"),
    ("day >= CAST('2021-05-06' AS DATE)", "t1.day >= DATE '2021-05-06'"),
    ("day >= '2021-05-06'::DATE", "t1.day >= DATE '2021-05-06'"),
    ("'2021-05-06' < day", "DATE '2021-05-06' < t1.day"),
    ("day IN ('2021-05-06', '2021-05-07')", "t1.day IN (DATE '2021-05-06', DATE '2021-05-07')"),
    (
        "day BETWEEN '2021-01-01' AND '2021-12-31'",
        "t1.day >= DATE '2021-01-01' AND t1.day <= DATE '2021-12-31'",
    ),
    ("YEAR(day) = 2021", "YEAR(t1.day) = 2021"),
    ("EXTRACT(year FROM day) = 2021", "YEAR(t1.day) = 2021"),
    ("EXTRACT('month' FROM day) = 2", "MONTH(t1.day) = 2"),
    ("EXTRACT(dow FROM day) = 0", "DAYOFWEEK(t1.day) = 0"),
    ("DAYOFWEEK(day) = 0", "DAYOFWEEK(t1.day) = 0"),
    ("QUARTER(day) = 1 AND DAY(day) = 2", "QUARTER(t1.day) = 1 AND DAY(t1.day) = 2"),
    ("DATE_TRUNC('year', day) = day", "DATE_TRUNC('year', t1.day) = t1.day"),
    (
        "DATE_TRUNC('week', day) + INTERVAL 5 DAY < day",
        "DATE_ADD(DATE_TRUNC('week', t1.day), INTERVAL (5) DAY) < t1.day",
    ),
    ("DATE_TRUNC('day', day) = day", "t1.day = t1.day"),
    ("WEEK(day) < EXTRACT(week FROM day) * 2 - 9", "WEEK(t1.day) < WEEK(t1.day) * 2 - 9"),
    (
        "DAYOFYEAR(day) * 3 < DATE_PART('doy', day) + 99",
        "DAYOFYEAR(t1.day) * 3 < DAYOFYEAR(t1.day) + 99",
    ),
    ("ISOYEAR(day) = 2021", "ISOYEAR(t1.day) = 2021"),
    ("ISODOW(day) = 1", "(DAYOFWEEK(t1.day) + 6) % 7 + 1 = 1"),
    ("DECADE(day) = 202", "FLOOR(YEAR(t1.day) / 10) = 202"),
    ("CENTURY(day) = 21", "FLOOR((YEAR(t1.day) - 1) / 100) + 1 = 21"),
    (
        "EPOCH(day) > 1600000000",
        "DATE_DIFF('day', DATE '1970-01-01', t1.day) * 86400.0 > 1600000000",
    ),
    ("day - '2021-01-01'::DATE > 33", "DATE_DIFF('day', DATE '2021-01-01', t1.day) > 33"),
    ("DATEDIFF('day', '2021-01-01', day) < 44", "DATE_DIFF('day', DATE '2021-01-01', t1.day) < 44"),
    (
        "DATE_DIFF('year', day, DATE '2021-01-01') = 1",
        "YEAR(DATE '2021-01-01') - YEAR(t1.day) = 1",
    ),
    ("day + 7 > DATE '2021-06-06' - 3", "DATE_ADD(t1.day, INTERVAL (7) DAY) > DATE '2021-06-03'"),
    (
        "day + INTERVAL 2 WEEKS > DATE '2022-02-02'",
        "DATE_ADD(t1.day, INTERVAL (14) DAY) > DATE '2022-02-02'",
    ),
    (
        "day - INTERVAL '1' YEAR < '2019-12-12'",
        "DATE_ADD(t1.day, INTERVAL (-12) MONTH) < DATE '2019-12-12'",
    ),
    (
        "DATE_ADD(day, INTERVAL (age) QUARTER) > '2030-01-01'",
        "DATE_ADD(t1.day, INTERVAL (t1.age * 3) MONTH) > DATE '2030-01-01'",
    ),
    ("day > DATE '2021-01-31' + INTERVAL 1 MONTH", "t1.day > DATE '2021-02-28'"),
    ("day > DATE '2021-01-31' - 31", "t1.day > DATE '2020-12-31'"),
    ("STRFTIME(day, '%Y-%m') < '2021-03'", "STRFTIME(t1.day, '%Y-%m') < '2021-03'"),
    ("DAYNAME(day) < MONTHNAME(day)", "STRFTIME(t1.day, '%A') < STRFTIME(t1.day, '%B')"),
    (
        "LAST_DAY(day) - 9 < day",
        "DATE_ADD(DATE_ADD(DATE_ADD(DATE_TRUNC('month', t1.day), INTERVAL (1) MONTH), "
        "INTERVAL (-1) DAY), INTERVAL (-9) DAY) < t1.day",
    ),
    ("GREATEST(day, '2020-11-01') = day", "GREATEST(t1.day, DATE '2020-11-01') = t1.day"),
    (
        "day::TIMESTAMP > '2021-01-01 10:00:00'",
        "EPOCH_MS(DATE_DIFF('day', DATE '1970-01-01', t1.day) * 86400000) > "
        "TIMESTAMP '2021-01-01 10:00:00'",
    ),
    ("DATE(day) < '2020-02-20'", "CAST(t1.day AS DATE) < DATE '2020-02-20'"),
    ("DATE_TRUNC('Quarter', day) = day", "DATE_TRUNC('quarter', t1.day) = t1.day"),
    (
        "DATE_TRUNC('month', CAST(diagnosis AS DATE)) = day",
        "DATE_TRUNC('month', CAST(t1.diagnosis AS DATE)) = t1.day",
    ),
    ("ABS(age) + FLOOR(cost) + CEIL(cost) > 1", "ABS(t1.age) + FLOOR(t1.cost) + CEIL(t1.cost) > 1"),
    ("CEILING(cost) = 1", "CEIL(t1.cost) = 1"),
    ("ROUND(cost) = ROUND(cost, 1)", "ROUND(t1.cost) = ROUND(t1.cost, 1)"),
    ("ROUND(cost, -2) = 100", "ROUND(t1.cost, -2) = 100"),
    ("LEAST(age, 3) = GREATEST(1, age, 2)", "LEAST(t1.age, 3) = GREATEST(1, t1.age, 2)"),
    ("LN(cost) > EXP(age) / SQRT(cost)", "LN(t1.cost) > EXP(t1.age) / SQRT(t1.cost)"),
    ("LOWER(ward) = UPPER(diagnosis)", "LOWER(t1.ward) = UPPER(t1.diagnosis)"),
    ("LENGTH(diagnosis) = 3", "LENGTH(t1.diagnosis) = 3"),
    ("SUBSTR(diagnosis, 1, 3) = 'C34'", "SUBSTR(t1.diagnosis, 1, 3) = 'C34'"),
    ("SUBSTRING(diagnosis FROM 2) = 'x'", "SUBSTR(t1.diagnosis, 2) = 'x'"),
    ("POW(age, 2) = age ** 2", "POWER(t1.age, 2) = POWER(t1.age, 2)"),
    (
        "LOG(cost) > LOG10(age) AND LOG2(cost) < LOG(2, age)",
        "LOG10(t1.cost) > LOG10(t1.age) AND LOG2(t1.cost) < LOG2(t1.age)",
    ),
    ("LOG(3, cost) > 1", "LN(t1.cost) / LN(3) > 1"),
    ("SIGN(age - 50) = 1", "SIGN(t1.age - 50) = 1"),
    ("age // 10 = 3", "CAST((t1.age - t1.age % 10) / 10 AS BIGINT) = 3"),
    ("TRUNC(cost) = 5", "CASE WHEN t1.cost < 0 THEN CEIL(t1.cost) ELSE FLOOR(t1.cost) END = 5"),
    ("SIN(cost) < COS(cost) + TAN(cost)", "SIN(t1.cost) < COS(t1.cost) + TAN(t1.cost)"),
    (
        "ASIN(cost / 13) < ACOS(cost / 20) + ATAN(cost)",
        "ASIN(t1.cost / 13) < ACOS(t1.cost / 20) + ATAN(t1.cost)",
    ),
    ("ATAN2(cost, age) > PI() / 25", "ATAN2(t1.cost, t1.age) > 3.141592653589793 / 25"),
    ("COT(cost) > 1", "1 / TAN(t1.cost) > 1"),
    ("RADIANS(cost) > 0.2", "t1.cost * 0.017453292519943295 > 0.2"),
    ("DEGREES(cost) > 300", "t1.cost * 57.29577951308232 > 300"),
    ("LEFT(diagnosis, 1) = '3'", "SUBSTR(t1.diagnosis, 1, 1) = '3'"),
    ("RIGHT(diagnosis, 1) = '0'", "SUBSTR(t1.diagnosis, -1) = '0'"),
    (
        "ward || '-' || age || 'x' > 'B-5'",
        "t1.ward || '-' || CAST(t1.age AS VARCHAR) || 'x' > 'B-5'",
    ),
    ("CONCAT(ward, 1) < 'B'", "COALESCE(t1.ward, '') || '1' < 'B'"),
    ("TRIM(ward) = LTRIM(ward, 'x')", "TRIM(t1.ward) = LTRIM(t1.ward, 'x')"),
    ("TRIM(TRAILING 'x' FROM ward) = 'A'", "RTRIM(t1.ward, 'x') = 'A'"),
    ("REPLACE(ward, 'a', '') = 'A'", "REPLACE(t1.ward, 'a', '') = 'A'"),
    ("SPLIT_PART(ward, '-', 2) = 'A'", "SPLIT_PART(t1.ward, '-', 2) = 'A'"),
    ("POSITION('A' IN ward) = INSTR(ward, 'B')", "STRPOS(t1.ward, 'A') = STRPOS(t1.ward, 'B')"),
    ("STARTS_WITH(diagnosis, '1')", "SUBSTR(t1.diagnosis, 1, 1) = '1'"),
    ("ENDS_WITH(diagnosis, '12')", "SUBSTR(t1.diagnosis, -2) = '12'"),
    ("CONTAINS(diagnosis, '3')", "STRPOS(t1.diagnosis, '3') > 0"),
    ("diagnosis NOT ILIKE '1%'", "NOT LOWER(t1.diagnosis) LIKE '1%'"),
    ("COALESCE(age, 0) = 1", "COALESCE(t1.age, 0) = 1"),
    ("IFNULL(age, 0) = 1", "COALESCE(t1.age, 0) = 1"),
    ("NULLIF(age, 0) = 1", "CASE WHEN t1.age = 0 THEN NULL ELSE t1.age END = 1"),
    ("CASE WHEN smoker THEN 1 END = 1", "CASE WHEN t1.smoker THEN 1 ELSE NULL END = 1"),
    (
        "CASE age WHEN 1 THEN 'a' WHEN 2 THEN 'b' ELSE ward END = 'a'",
        "CASE WHEN t1.age = 1 THEN 'a' WHEN t1.age = 2 THEN 'b' ELSE t1.ward END = 'a'",
    ),
    ("IF(smoker, 1, 2) = 1", "CASE WHEN t1.smoker THEN 1 ELSE 2 END = 1"),
    ("CAST(diagnosis AS INTEGER) = 1", "CAST(t1.diagnosis AS BIGINT) = 1"),
    ("TRY_CAST(diagnosis AS BIGINT) = 1", "CAST(t1.diagnosis AS BIGINT) = 1"),
    ("diagnosis::DOUBLE = 1", "CAST(t1.diagnosis AS DOUBLE) = 1"),
    ("cost::DECIMAL(9, 1) > 5.5", "ROUND(CAST(t1.cost AS DOUBLE), 1) > 5.5"),
    ("CAST(cost AS NUMERIC(9)) > 7", "ROUND(CAST(t1.cost AS DOUBLE), 0) > 7"),
    ("age::VARCHAR = '1'", "CAST(t1.age AS VARCHAR) = '1'"),
    ("age::TEXT = '1'", "CAST(t1.age AS VARCHAR) = '1'"),
    ("CAST(age AS BOOLEAN)", "CAST(t1.age AS BOOLEAN)"),
    ("age > NULL", "t1.age > NULL"),
    ("TRUE", "TRUE"),
]

EXTENSIONS = [("AVG(smoker)", "AVG(CAST(t1.smoker AS BIGINT))")]
"""Statistics that DuckDB does not have."""

STATISTICS = [
    ("COUNT(*)", "COUNT(*)"),
    ("count(*)", "COUNT(*)"),
    ("COUNT(1)", "COUNT(*)"),
    ("COUNT(age)", "COUNT(t1.age)"),
    ("COUNT(DISTINCT patient_id)", "COUNT(DISTINCT t1.unit)"),
    ("COUNT(DISTINCT visits.Patient_ID)", "COUNT(DISTINCT t1.unit)"),
    ("COUNT(DISTINCT unit)", "COUNT(DISTINCT t1.unit)"),
    (
        "COUNT(DISTINCT (patient_id)) FILTER (WHERE smoker)",
        "COUNT(DISTINCT t1.unit) FILTER (WHERE t1.smoker)",
    ),
    ("SUM(age)", "SUM(t1.age)"),
    ("SUM(age > 5)", "SUM(CAST(t1.age > 5 AS BIGINT))"),
    ("SUM(age * cost)", "SUM(t1.age * t1.cost)"),
    ("AVG(cost)", "AVG(t1.cost)"),
    ("VAR_SAMP(cost)", "VAR_SAMP(t1.cost)"),
    ("VARIANCE(cost)", "VAR_SAMP(t1.cost)"),
    ("STDDEV(cost)", "STDDEV(t1.cost)"),
    ("STDDEV_SAMP(cost)", "STDDEV(t1.cost)"),
    ("MEDIAN(cost)", "QUANTILE_CONT(t1.cost, 0.5)"),
    ("QUANTILE_CONT(cost, 0.9)", "QUANTILE_CONT(t1.cost, 0.9)"),
    ("QUANTILE_CONT(cost, 1)", "QUANTILE_CONT(t1.cost, 1.0)"),
    ("PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY cost)", "QUANTILE_CONT(t1.cost, 0.9)"),
    ("PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY cost DESC)", "QUANTILE_CONT(t1.cost, 0.1)"),
    ("SUM(cost) FILTER (WHERE age > 1)", "SUM(t1.cost) FILTER (WHERE t1.age > 1)"),
    (
        "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age) FILTER (WHERE smoker)",
        "QUANTILE_CONT(t1.age, 0.5) FILTER (WHERE t1.smoker)",
    ),
    ("SUM(cost) / COUNT(*)", "SUM(t1.cost) / COUNT(*)"),
    ("100 * AVG(cost) - -1", "100 * AVG(t1.cost) - -1"),
    ("ROUND(AVG(cost), 2)", "ROUND(AVG(t1.cost), 2)"),
    ("COALESCE(SUM(cost), 0)", "COALESCE(SUM(t1.cost), 0)"),
    ("CASE WHEN COUNT(*) > 0 THEN 1 ELSE 0 END", "CASE WHEN COUNT(*) > 0 THEN 1 ELSE 0 END"),
]

WHOLE = [
    (
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward",
        "SELECT t1.ward AS ward, COUNT(*) AS n FROM visits AS t1 GROUP BY t1.ward",
    ),
    (
        "FROM visits v SELECT v.ward, COUNT(*) n GROUP BY 1;",
        "SELECT t1.ward AS ward, COUNT(*) AS n FROM visits AS t1 GROUP BY t1.ward",
    ),
    (
        "select WARD, count(*) as n -- how many\nfrom VISITS /* all */ group by Ward",
        "SELECT t1.ward AS ward, COUNT(*) AS n FROM visits AS t1 GROUP BY t1.ward",
    ),
    (
        "SELECT COUNT(*), AVG(cost) FROM visits",
        'SELECT COUNT(*) AS "count(*)", AVG(t1.cost) AS "avg(cost)" FROM visits AS t1',
    ),
    (
        'SELECT COUNT(*) AS "My ""n""" FROM visits',
        'SELECT COUNT(*) AS "My ""n""" FROM visits AS t1',
    ),
    (
        "SELECT age / 10 AS decade, COUNT(*) AS n FROM visits GROUP BY DECADE",
        "SELECT t1.age / 10 AS decade, COUNT(*) AS n FROM visits AS t1 GROUP BY t1.age / 10",
    ),
    (
        "SELECT LOWER(ward) AS ward, COUNT(*) AS n FROM visits GROUP BY ward",
        "SELECT LOWER(t1.ward) AS ward, COUNT(*) AS n FROM visits AS t1 GROUP BY t1.ward",
    ),
    (
        "SELECT YEAR(day) + 1 AS y, COUNT(*) AS n FROM visits GROUP BY YEAR(day), ward, ward",
        "SELECT YEAR(t1.day) + 1 AS y, COUNT(*) AS n FROM visits AS t1 "
        "GROUP BY YEAR(t1.day), t1.ward",
    ),
    (
        "SELECT DISTINCT ward, smoker FROM visits",
        "SELECT t1.ward AS ward, t1.smoker AS smoker FROM visits AS t1 GROUP BY t1.ward, t1.smoker",
    ),
    (
        "SELECT ward, 'all' AS label, COUNT(*) AS n FROM visits GROUP BY ward",
        "SELECT t1.ward AS ward, 'all' AS label, COUNT(*) AS n FROM visits AS t1 GROUP BY t1.ward",
    ),
    (
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING n > 5 ORDER BY 2 DESC LIMIT 3",
        "SELECT t1.ward AS ward, COUNT(*) AS n FROM visits AS t1 GROUP BY t1.ward "
        "HAVING COUNT(*) > 5 ORDER BY COUNT(*) DESC LIMIT 3",
    ),
    (
        "SELECT ward, AVG(cost) AS cost FROM visits GROUP BY ward HAVING cost > 5 ORDER BY cost",
        "SELECT t1.ward AS ward, AVG(t1.cost) AS cost FROM visits AS t1 GROUP BY t1.ward "
        "HAVING AVG(t1.cost) > 5 ORDER BY AVG(t1.cost)",
    ),
    (
        "SELECT LOWER(ward) AS ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING ward = 'A'"
        " ORDER BY ward",
        "SELECT LOWER(t1.ward) AS ward, COUNT(*) AS n FROM visits AS t1 GROUP BY t1.ward "
        "HAVING t1.ward = 'A' ORDER BY LOWER(t1.ward)",
    ),
    (
        "SELECT ward FROM visits GROUP BY ward HAVING SUM(cost) > 9 ORDER BY ward DESC, AVG(age)",
        "SELECT t1.ward AS ward FROM visits AS t1 GROUP BY t1.ward HAVING SUM(t1.cost) > 9 "
        "ORDER BY t1.ward DESC, AVG(t1.age)",
    ),
    (
        "SELECT COUNT(*) AS n FROM visits HAVING n > 3",
        "SELECT COUNT(*) AS n FROM visits AS t1 HAVING COUNT(*) > 3",
    ),
    (
        "SELECT chapter, COUNT(*) AS n FROM visits JOIN icd ON diagnosis = code GROUP BY chapter",
        "SELECT t2.chapter AS chapter, COUNT(*) AS n FROM visits AS t1 JOIN icd AS t2 "
        "ON t1.diagnosis = t2.code GROUP BY t2.chapter",
    ),
    (
        "SELECT COUNT(*) AS n FROM visits v LEFT JOIN icd i ON i.code = UPPER(v.diagnosis) AND "
        "(v.ward = i.chapter)",
        "SELECT COUNT(*) AS n FROM visits AS t1 LEFT JOIN icd AS t2 "
        "ON UPPER(t1.diagnosis) = t2.code AND t1.ward = t2.chapter",
    ),
    (
        'SELECT city, "name of region" AS r, COUNT(*) AS n FROM people INNER JOIN cities USING '
        "(city) GROUP BY 1, 2",
        'SELECT t1.city AS city, t2."Name of region" AS r, COUNT(*) AS n FROM people AS t1 '
        'JOIN cities AS t2 ON t1.city = t2.city GROUP BY t1.city, t2."Name of region"',
    ),
    (
        "SELECT COUNT(*) AS n FROM visits v JOIN labs l ON l.patient_id = v.patient_id",
        "SELECT COUNT(*) AS n FROM visits AS t1 JOIN labs AS t2 ON t1.unit = t2.unit",
    ),
    (
        "SELECT COUNT(DISTINCT patient_id) AS n FROM visits "
        "LEFT OUTER JOIN labs USING (patient_id)",
        "SELECT COUNT(DISTINCT t1.unit) AS n FROM visits AS t1 LEFT JOIN labs AS t2 "
        "ON t1.unit = t2.unit",
    ),
    (
        "SELECT l.day, COUNT(*) AS n FROM visits v JOIN labs l USING (patient_id) JOIN notes "
        "ON l.patient_id = notes.pid GROUP BY l.day",
        "SELECT t2.day AS day, COUNT(*) AS n FROM visits AS t1 JOIN labs AS t2 "
        "ON t1.unit = t2.unit JOIN notes AS t3 ON t1.unit = t3.unit GROUP BY t2.day",
    ),
    (
        "SELECT AVG(t) AS a FROM "
        "(SELECT patient_id, SUM(cost) AS t FROM visits GROUP BY patient_id)",
        "SELECT AVG(t1.t) AS a FROM (SELECT t1u1.unit, SUM(t1u1.cost) AS t FROM visits AS t1u1 "
        "GROUP BY t1u1.unit) AS t1",
    ),
    (
        "WITH p AS (SELECT patient_id AS who, SUM(cost) / COUNT(*) AS t FROM visits v "
        "WHERE v.smoker GROUP BY who) SELECT COUNT(DISTINCT who) AS n FROM p WHERE t > 5",
        "SELECT COUNT(DISTINCT t1.unit) AS n FROM (SELECT t1u1.unit, "
        "SUM(t1u1.cost) / COUNT(*) AS t FROM visits AS t1u1 WHERE t1u1.smoker "
        "GROUP BY t1u1.unit) AS t1 WHERE t1.t > 5",
    ),
    (
        "SELECT AVG(cost) AS a FROM visits JOIN (SELECT COUNT(*) AS n, patient_id FROM labs "
        "GROUP BY 2) AS p ON p.patient_id = visits.patient_id WHERE n > 2",
        "SELECT AVG(t1.cost) AS a FROM visits AS t1 JOIN (SELECT t2u1.unit, COUNT(*) AS n "
        "FROM labs AS t2u1 GROUP BY t2u1.unit) AS t2 ON t1.unit = t2.unit WHERE t2.n > 2",
    ),
    (
        "SELECT n, COUNT(*) AS people FROM (SELECT patient_id, COUNT(*) AS n FROM visits JOIN icd "
        "ON diagnosis = code GROUP BY patient_id) GROUP BY n",
        "SELECT t1.n AS n, COUNT(*) AS people FROM (SELECT t1u1.unit, COUNT(*) AS n FROM visits AS "
        "t1u1 JOIN icd AS t1u2 ON t1u1.diagnosis = t1u2.code GROUP BY t1u1.unit) AS t1 "
        "GROUP BY t1.n",
    ),
    (
        "SELECT COUNT(DISTINCT unit) AS n FROM people",
        "SELECT COUNT(DISTINCT t1.unit) AS n FROM people AS t1",
    ),
]
