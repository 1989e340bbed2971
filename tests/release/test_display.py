"""How an answer looks in a terminal."""

from confide.declare import Category, Float
from support.neighbours import open_one


def test_an_answer_prints_as_a_table() -> None:
    """Names, keys, values with their intervals and the cost stand in lines of equal places."""
    rows = [{"who": n, "k": "ab"[n % 2], "x": 4.0} for n in range(10)]
    curator = open_one(rows, {"k": Category(["a", "b"]), "x": Float(0, 8)})
    text = "SELECT k, COUNT(*) AS n, AVG(x) AS m FROM p GROUP BY k ORDER BY k"
    head, *lines, last = str(curator.sql(text, epsilon=1e9)).splitlines()

    assert ["k", "n", "m"] == head.split()
    assert [["a", "5", "[5,"], ["b", "5", "[5,"]] == [line.split()[:3] for line in lines]
    assert all(line.count("[") == 2 == line.count("]") for line in lines)
    assert 1 == len({len(line) for line in (head, *lines)})
    assert last.startswith("95 % intervals in brackets; cost ")


def test_an_answer_without_rows_prints_its_head() -> None:
    """An answer that has no group is a head and a foot."""
    curator = open_one([{"who": 1, "x": 4.0}], {"x": Float(0, 8)})
    answer = curator.sql("SELECT COUNT(*) AS n FROM p HAVING COUNT(*) > 1000000", epsilon=1)

    assert ["n"] == str(answer).splitlines()[0].split()
    assert 2 == len(str(answer).splitlines())
