"""Queries built in Python equal those parsed from SQL."""

import math
from datetime import date
from fractions import Fraction
from typing import Any, cast

import pytest

from confide.errors import BadArgument, UnknownName, UnsupportedQuery
from confide.query import (
    TableQuery,
    Term,
    case,
    coalesce,
    col,
    concat,
    count,
    count_units,
    date_diff,
    greatest,
    is_selection,
    least,
    make_date,
    mean,
    median,
    quantile,
    stddev,
    variance,
)
from confide.query import sum as total
from confide.query.sql import read_sql
from support.questions import NAMES

VISITS = TableQuery("visits")
age, cost, ward, day = col("age"), col("cost"), col("ward"), col("day")

CONDITIONS = [
    (age >= 65, "age >= 65"),
    (65 <= age, "age >= 65"),
    (age != 3, "age <> 3"),
    (ward == "A", "ward = 'A'"),
    ((age > 1) & (cost < 2.5) & col("smoker"), "age > 1 AND cost < 2.5 AND smoker"),
    ((age > 1) | ~col("smoker"), "age > 1 OR NOT smoker"),
    (age.isin([1, 2, None]), "age IN (1, 2, NULL)"),
    (~ward.isin(("A", "B")), "ward NOT IN ('A', 'B')"),
    (age.between(1, 9), "age BETWEEN 1 AND 9"),
    (col("diagnosis").like("C%"), "diagnosis LIKE 'C%'"),
    (age.is_null(), "age IS NULL"),
    (age.not_null(), "age IS NOT NULL"),
    (day >= date(2021, 5, 6), "day >= DATE '2021-05-06'"),
    (day >= "2021-05-06", "day >= DATE '2021-05-06'"),
    (1 + age * 2 - 3 > -age, "1 + age * 2 - 3 > -age"),
    (1 - age > 2 * age, "1 - age > 2 * age"),
    (1 / cost > cost / 2, "1 / cost > cost / 2"),
    (age % 2 == 7 % age, "age % 2 = 7 % age"),
    (age.abs() > cost.floor() + cost.ceil(), "ABS(age) > FLOOR(cost) + CEIL(cost)"),
    (cost.round() == cost.round(2), "ROUND(cost) = ROUND(cost, 2)"),
    (cost.ln() > cost.exp() + cost.sqrt(), "LN(cost) > EXP(cost) + SQRT(cost)"),
    (cost**2 > cost.log2() + cost.log10(), "POWER(cost, 2) > LOG2(cost) + LOG10(cost)"),
    (cost.sign() == age // 10, "SIGN(cost) = age // 10"),
    (cost.sin() > cost.cos() + cost.tan(), "SIN(cost) > COS(cost) + TAN(cost)"),
    (cost.asin() > cost.acos() + cost.atan(), "ASIN(cost) > ACOS(cost) + ATAN(cost)"),
    (cost.atan2(age).degrees() > cost.radians(), "DEGREES(ATAN2(cost, age)) > RADIANS(cost)"),
    (cost.trunc() == 1, "TRUNC(cost) = 1"),
    (cost.clip(0, 10) > 5, "LEAST(GREATEST(cost, 0), 10) > 5"),
    (least(age, 3) == greatest(age, 1, 2), "LEAST(age, 3) = GREATEST(age, 1, 2)"),
    (coalesce(age, 0) == 0, "COALESCE(age, 0) = 0"),
    (ward.left(1) == ward.right(1), "LEFT(ward, 1) = RIGHT(ward, 1)"),
    (ward.trim() == ward.ltrim("x"), "TRIM(ward) = LTRIM(ward, 'x')"),
    (ward.rtrim() == ward.replace("a", "b"), "RTRIM(ward) = REPLACE(ward, 'a', 'b')"),
    (ward.split_part("-", 2).position("x") == 1, "STRPOS(SPLIT_PART(ward, '-', 2), 'x') = 1"),
    (ward.startswith("A") & ward.endswith("B"), "STARTS_WITH(ward, 'A') AND ENDS_WITH(ward, 'B')"),
    (ward.contains("A") | ward.ilike("b%"), "CONTAINS(ward, 'A') OR ward ILIKE 'b%'"),
    (concat(ward, "-", age) == "A-1", "CONCAT(ward, '-', age) = 'A-1'"),
    (day.extract("week") == day.extract("isodow"), "WEEK(day) = ISODOW(day)"),
    (
        day.truncate("week") == day.add("month", 1),
        "DATE_TRUNC('week', day) = day + INTERVAL 1 MONTH",
    ),
    (day.add("week", -age) < day - 3, "day + INTERVAL (-age) WEEK < day - 3"),
    (date_diff("month", "2021-01-01", day) == 1, "DATE_DIFF('month', '2021-01-01', day) = 1"),
    (day.strftime("%Y") == day.dayname(), "STRFTIME(day, '%Y') = DAYNAME(day)"),
    (day.monthname() == "May", "MONTHNAME(day) = 'May'"),
    (day.last_day() == make_date(2021, age, 1), "LAST_DAY(day) = MAKE_DATE(2021, age, 1)"),
    (day.year() + day.quarter() > day.month(), "YEAR(day) + QUARTER(day) > MONTH(day)"),
    (day.day() == day.weekday(), "DAY(day) = DAYOFWEEK(day)"),
    (day.truncate("month") == day, "DATE_TRUNC('month', day) = day"),
    (ward.lower() == ward.upper(), "LOWER(ward) = UPPER(ward)"),
    (ward.length() == 1, "LENGTH(ward) = 1"),
    (ward.substr(1, 2) == ward.substr(2), "SUBSTR(ward, 1, 2) = SUBSTR(ward, 2)"),
    (ward.cast("int") == 1, "CAST(ward AS BIGINT) = 1"),
    (
        case((age > 1, "a"), (age > 0, ward), otherwise="c") == "a",
        "CASE WHEN age > 1 THEN 'a' WHEN age > 0 THEN ward ELSE 'c' END = 'a'",
    ),
    (col("visits.age") == 1, "age = 1"),
]
STATISTICS = [
    (count(), "COUNT(*)"),
    (count("age"), "COUNT(age)"),
    (count_units(), "COUNT(DISTINCT patient_id)"),
    (total("cost"), "SUM(cost)"),
    (total(age * cost), "SUM(age * cost)"),
    (mean("cost"), "AVG(cost)"),
    (variance("cost"), "VARIANCE(cost)"),
    (stddev("cost"), "STDDEV(cost)"),
    (median("cost"), "MEDIAN(cost)"),
    (quantile("cost", 0.9), "QUANTILE_CONT(cost, 0.9)"),
    (quantile("cost", Fraction(1, 4)), "QUANTILE_CONT(cost, 0.25)"),
    (total("cost") / count(), "SUM(cost) / COUNT(*)"),
    (100 * mean("cost").where(age > 1), "100 * AVG(cost) FILTER (WHERE age > 1)"),
    (
        count().where(age > 1).where(cost > 1),
        "COUNT(*) FILTER (WHERE age > 1 AND cost > 1)",
    ),
]
QUESTIONS = [
    (
        VISITS.where(age >= 65).group_by("ward").agg(n=count(), total=total("cost")),
        "SELECT ward, COUNT(*) AS n, SUM(cost) AS total FROM visits WHERE age >= 65 GROUP BY ward",
    ),
    (
        VISITS.group_by(day.year(), decade=age / 10).agg(n=count()).having(col("n") > 5),
        'SELECT YEAR(day) AS "year(day)", age / 10 AS decade, COUNT(*) AS n FROM visits '
        "GROUP BY 1, 2 HAVING n > 5",
    ),
    (
        VISITS.group_by("ward").order_by(count(), descending=True).limit(3),
        "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 3",
    ),
    (
        VISITS.group_by("ward").agg(n=count()).order_by("n", descending=True).order_by("ward"),
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC, ward",
    ),
    (
        VISITS.join("icd", on={"diagnosis": "code"}, how="left").group_by("chapter").agg(n=count()),
        "SELECT chapter, COUNT(*) AS n FROM visits LEFT JOIN icd ON diagnosis = code "
        "GROUP BY chapter",
    ),
    (
        TableQuery("people").join("cities", on="city").group_by("city").agg(n=count()),
        "SELECT city, COUNT(*) AS n FROM people JOIN cities USING (city) GROUP BY city",
    ),
    (
        VISITS.join("labs").where(col("labs.day") > col("visits.day")).agg(m=mean("value")),
        "SELECT AVG(value) AS m FROM visits JOIN labs USING (patient_id) "
        "WHERE labs.day > visits.day",
    ),
    (
        VISITS.where(age > 1).per_unit(t=total("cost")).where(col("t") > 2).agg(a=mean("t")),
        "SELECT AVG(t) AS a FROM (SELECT patient_id, SUM(cost) AS t FROM visits WHERE age > 1 "
        "GROUP BY 1) WHERE t > 2",
    ),
    (
        VISITS.join(TableQuery("labs").per_unit(k=count())).where(col("k") > 2).agg(n=count()),
        "SELECT COUNT(*) AS n FROM visits JOIN (SELECT patient_id, COUNT(*) AS k FROM labs "
        "GROUP BY 1) USING (patient_id) WHERE k > 2",
    ),
]


@pytest.mark.parametrize(("term", "condition"), CONDITIONS)
def test_a_term_equals_the_condition_in_sql(term: Term, condition: str) -> None:
    """A term built with Python operators equals the SQL condition."""
    query = VISITS.where(term).agg(n=count()).build(NAMES)

    assert read_sql(f"SELECT COUNT(*) AS n FROM visits WHERE {condition}", NAMES) == query


@pytest.mark.parametrize(("term", "statistic"), STATISTICS)
def test_a_term_equals_the_statistic_in_sql(term: Term, statistic: str) -> None:
    """A statistic in Python equals the one in SQL."""
    assert read_sql(f"SELECT {statistic} AS x FROM visits", NAMES) == VISITS.agg(x=term).build(
        NAMES
    )


@pytest.mark.parametrize(("question", "text"), QUESTIONS)
def test_a_query_equals_the_sql_text(question: TableQuery, text: str) -> None:
    """A query built step by step has the same tree as the SQL text."""
    assert read_sql(text, NAMES) == question.build(NAMES)


def test_a_selection_is_recognized() -> None:
    """A query built in Python for the most frequent keys is a selection."""
    query = VISITS.group_by("ward").order_by(count(), descending=True).limit(3).build(NAMES)

    assert is_selection(query)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: (age > 1) and (cost > 1),
        lambda: (age > 1) or (cost > 1),
        lambda: not (age > 1),
        lambda: 1 < age < 3,
        lambda: bool(age == 1),
        lambda: age in [1, 2],
        lambda: 1 in age,
        lambda: age.isin([]),
        coalesce,
        least,
        lambda: list(age),
        lambda: age.isin("AB"),
        lambda: col(cast(Any, 3)),
        lambda: ward.cast("Intervals"),
        lambda: VISITS.where(cast(Any, "age > 1")),
        lambda: VISITS.where(cast(Any, True)),
        lambda: VISITS.agg(n=cast(Any, 1)),
        lambda: VISITS.limit(0),
        lambda: VISITS.limit(True),
        lambda: VISITS.join("icd", on="code", how="cross"),
        lambda: VISITS.join(VISITS),
        lambda: VISITS.join(VISITS.per_unit(n=count()).where(col("n") > 1)),
        lambda: age == None,  # noqa: E711  # a typical mistake of beginners
        lambda: age != None,  # noqa: E711
        lambda: VISITS.agg(count()),
        lambda: VISITS.per_unit(count()),
        lambda: VISITS.agg(n=count()).ask(epsilon=1),
        lambda: VISITS.agg(n=count()).preview(epsilon=1),
    ],
)
def test_mistakes_are_refused_at_once(mistake: Any) -> None:
    """Terms that Python would misinterpret, or that make no sense, raise an error at once."""
    with pytest.raises(UnsupportedQuery):
        mistake()


def test_group_by_accepts_lists_of_keys() -> None:
    """`group_by` accepts names, terms, and lists of them, and keeps their order."""
    wanted = VISITS.group_by("ward", "day", age % 10).agg(n=count()).build(NAMES)

    assert wanted == VISITS.group_by(["ward", "day"], age % 10).agg(n=count()).build(NAMES)
    assert wanted == VISITS.group_by(("ward", "day", age % 10)).agg(n=count()).build(NAMES)


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (VISITS, "selects nothing"),
        (VISITS.agg(x=age), "neither in GROUP BY nor inside"),
        (VISITS.where(count() > 1).agg(n=count()), "having"),
        (VISITS.agg(x=total(count())), "aggregate of an aggregate"),
        (VISITS.where(age).agg(n=count()), "must be a Boolean"),
        (VISITS.where(age == "1").agg(n=count()), "does not support"),
        (VISITS.where(age == [1]).agg(n=count()), "A value must be"),
        (VISITS.where(age > math.inf).agg(n=count()), "A value must be"),
        (VISITS.where(ward == "a\x00").agg(n=count()), "A value must be"),
        (VISITS.agg(x=quantile("cost", 2)), "from 0 to 1"),
        (VISITS.agg(x=quantile("cost", 10**400)), "from 0 to 1; got inf"),
        (VISITS.agg(n=count().where(cast(Any, "age > 1"))), "must be a Boolean"),
        (VISITS.agg(n=total("ward")), "needs numbers"),
        (VISITS.group_by("patient_id").agg(n=count()), r"cannot be selected.*cf\.count_units\(\)"),
        (VISITS.where(col("patient_id") == 1).agg(n=count()), r"cannot be selected.*per_unit\("),
        (VISITS.where(col("visits.patient_id") == 1).agg(n=count()), "cannot be selected"),
        (VISITS.group_by("ward").agg(ward=count()), "Two columns"),
        (VISITS.join("visits").agg(n=count()), "with itself"),
        (VISITS.join("labs", on="day").agg(n=count()), "the unit alone"),
        (VISITS.join("icd").agg(n=count()), "needs a condition"),
        (VISITS.join("people").agg(n=count()), "without a unit column"),
        (TableQuery("icd").agg(n=count()), "must be private"),
        (VISITS.per_unit().agg(n=count()), "needs an aggregate"),
        (VISITS.per_unit(n=count()).per_unit(m=total("n")).agg(a=mean("m")), "cannot be nested"),
        (VISITS.group_by("ward").per_unit(n=count()).agg(a=mean("n")), "conditions and statistics"),
        (VISITS.group_by("ward").order_by(least(1, 2)), "sorted by a constant"),
        (VISITS.group_by("ward").order_by(*["ward"] * 201), "at most 200 sort keys"),
    ],
)
def test_an_unsupported_query_is_refused(question: TableQuery, reason: str) -> None:
    """Unsupported queries are refused with the same reasons as in SQL."""
    with pytest.raises(UnsupportedQuery, match=reason):
        question.build(NAMES)


def test_unknown_names_are_suggested() -> None:
    """The error for a misspelled name suggests the declared name."""
    with pytest.raises(UnknownName, match="Did you mean 'cost'"):
        VISITS.agg(x=mean("csot")).build(NAMES)
    with pytest.raises(UnknownName, match="Did you mean 'visits'"):
        TableQuery("visit").agg(n=count()).build(NAMES)


def test_a_level_must_be_a_number() -> None:
    """A quantile level that is not a number is refused."""
    with pytest.raises(BadArgument, match="`q` must be"):
        quantile("cost", "half")


def test_depth_is_bounded() -> None:
    """Terms nested more than 50 levels deep are refused when built; long chains of & are flat."""
    deep, flat = age, age > 0
    for _ in range(49):
        deep = deep + 1
    for _ in range(500):
        flat = flat & (age > 1)

    assert 1 == len(VISITS.where(flat).agg(n=count()).build(NAMES).outputs)
    with pytest.raises(UnsupportedQuery, match="50 levels"):
        deep + 1


def test_size_is_bounded() -> None:
    """A term that repeats itself at every level is refused before it exhausts memory."""
    twice = cost
    for _ in range(40):
        twice = twice + twice

    with pytest.raises(UnsupportedQuery, match="5,000 parts"):
        VISITS.agg(x=total(twice)).build(NAMES)


def test_a_query_is_passed_to_its_runner() -> None:
    """A query is passed to its runner together with the price arguments."""

    class Echo:
        def ask(self, query: TableQuery, **want: Any) -> Any:
            return "asked", query.build(NAMES), want

        def preview(self, query: TableQuery, **want: Any) -> Any:
            return "previewed", query.build(NAMES), want

    question = TableQuery("visits", Echo()).agg(n=count())

    assert ("asked", question.build(NAMES), {"epsilon": 1}) == question.ask(epsilon=1)
    assert ("previewed", question.build(NAMES), {"share": "1%"}) == question.preview(share="1%")


def test_terms_are_usable_as_values() -> None:
    """Terms are hashable and printable, although == builds another term."""
    assert 2 == len({age, cost})
    assert "age" in repr(age > 1)
