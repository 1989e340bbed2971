"""The page on TPC-H is correct, and other queries on customers give DuckDB's answers."""

import re
from typing import Final

import pytest

from confide.errors import Refusal
from support.datasets import tpch
from support.noiseless import BUDGETS, ask_oracle, compare, find_insensitive, open_world
from support.tree import ROOT

PAGE: Final = (ROOT / "docs" / "tpch.md").read_text(encoding="utf-8")
BLOCKS: Final = re.findall(r"^```sql( refused)?\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
ANSWERED: Final = [text for mark, text in BLOCKS if not mark]
REFUSED: Final = [text for mark, text in BLOCKS if mark]
OTHERS: Final = (
    "SELECT COUNT(*) AS n, COUNT(DISTINCT custkey) AS u, AVG(c_acctbal) AS m FROM customer",
    "SELECT c_mktsegment, COUNT(*) AS n, STDDEV(c_acctbal) AS d FROM customer GROUP BY 1",
    "SELECT SUM(c_acctbal) FILTER (WHERE c_acctbal < 0) AS owed FROM customer",
    "SELECT n_name, AVG(c_acctbal) AS m FROM customer JOIN nation ON c_nationkey = n_nationkey "
    "GROUP BY n_name",
    "SELECT r_name, COUNT(*) AS n FROM customer JOIN nation ON c_nationkey = n_nationkey "
    "JOIN region ON n_regionkey = r_regionkey GROUP BY r_name",
    "SELECT YEAR(o_orderdate) AS y, o_orderstatus, COUNT(*) AS n, AVG(o_totalprice) AS m "
    "FROM orders GROUP BY y, o_orderstatus",
    "SELECT c_mktsegment, SUM(o_totalprice) AS s, COUNT(*) AS n FROM customer "
    "JOIN orders ON customer.custkey = orders.custkey GROUP BY c_mktsegment",
    "SELECT COUNT(*) AS n, COUNT(o_totalprice) AS c FROM customer LEFT JOIN orders "
    "ON customer.custkey = orders.custkey",
    "SELECT AVG(k) AS m, AVG(s) AS p FROM (SELECT custkey, COUNT(*) AS k, SUM(o_totalprice) AS s "
    "FROM orders GROUP BY custkey)",
    "WITH spending AS (SELECT custkey, SUM(o_totalprice) AS s FROM orders GROUP BY custkey) "
    "SELECT c_mktsegment, COUNT(*) AS n, AVG(s) AS m FROM customer JOIN spending "
    "ON customer.custkey = spending.custkey WHERE s > 1000000 GROUP BY c_mktsegment",
    "SELECT p_mfgr, AVG(l_extendedprice / p_retailprice) AS m, COUNT(*) AS n FROM lineitem "
    "JOIN part ON l_partkey = p_partkey GROUP BY p_mfgr",
    "SELECT l_shipmode, AVG(l_tax) AS m, VAR_SAMP(l_quantity) AS v FROM lineitem "
    "WHERE LENGTH(l_shipinstruct) > 5 GROUP BY l_shipmode",
    "SELECT COUNT(*) AS n FROM orders WHERE LOWER(o_comment) LIKE '%furious%'",
    "SELECT SUBSTR(c_phone, 1, 2) = '13' AS canada, COUNT(*) AS n FROM customer GROUP BY canada",
    "SELECT l_linestatus, COUNT(*) FILTER (WHERE l_receiptdate > l_commitdate) / COUNT(*) AS late "
    "FROM lineitem GROUP BY l_linestatus",
    "SELECT QUARTER(l_shipdate) AS q, SUM(l_quantity * ps_supplycost) AS s FROM lineitem "
    "JOIN partsupp ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey GROUP BY q",
)
# Chosen keys come without numbers; DuckDB's must be the same ones, in any order.
CHOSEN: Final = "ORDER BY COUNT(*) DESC"


@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize("text", [*ANSWERED, *OTHERS], ids=lambda text: " ".join(text.split())[:50])
def test_customers_are_counted_as_by_duckdb(text: str, accounting: str) -> None:
    """Without noise, each statement gives DuckDB's answer, and an error of 1% would be detected."""
    opened = open_world(tpch, accounting)
    found = ask_oracle(opened.oracle, text)

    assert [] == compare(opened, text)
    assert [] == find_insensitive(opened, text)
    assert CHOSEN in text or any(row[name] for row in found for name in list(row)[-1:])


def test_order_and_limit_are_those_of_sql() -> None:
    """Where the page sorts and limits rows, they are DuckDB's, in its order."""
    opened = open_world(tpch, "pure")
    for text in ANSWERED:
        if "LIMIT" not in text:
            continue
        key = re.findall(r"SELECT (\w+)", text)[0]
        expected = [row[key] for row in ask_oracle(opened.oracle, text)]

        assert expected == [row[key] for row in opened.curator.sql(text, epsilon=1e9).rows]


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: " ".join(text.split())[:50])
def test_queries_marked_as_refused_are_refused(text: str) -> None:
    """The statement is refused, and nothing is spent."""
    curator = open_world(tpch, "pure").curator
    spent = curator.budget.spent

    with pytest.raises(Refusal):
        curator.sql(text, epsilon=1e9)
    assert spent == curator.budget.spent


def test_every_query_is_discussed() -> None:
    """Each of the 22 queries is discussed on the page once."""
    heads = re.findall(r"^\*\*(.*?)\*\*", PAGE, re.MULTILINE | re.DOTALL)
    numbers = [int(number) for head in heads for number in re.findall(r"(\d+)\. ", head)]

    assert list(range(1, 23)) == sorted(numbers)


def test_a_single_missing_row_is_detected() -> None:
    """Without one item of 60,175, every total differs, so the comparison has power."""
    opened = open_world(tpch, "pure")
    text = "SELECT COUNT(*) AS n, SUM(l_extendedprice) AS s, SUM(l_quantity) AS q FROM lineitem"
    one_less = text.replace("lineitem", "(SELECT * FROM lineitem LIMIT 60174)")

    assert [] == compare(opened, text)
    assert 3 == len(compare(opened, text, one_less))
