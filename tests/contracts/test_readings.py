"""Readings of cells and keys of expressions, which are the same on every engine."""

from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from confide.curator import Curator
from confide.declare import Bool, Budget, Catalog, Category, Column, Date, Float, Int, Table, Text
from confide.engines import open_engine
from confide.errors import BadDeclaration
from support.places import PLACES, SALT, Pairing, Place, find_place, pair_tables, read_exactly

STORED: Final[dict[str, pa.DataType]] = {
    "text": pa.string(),
    "double": pa.float64(),
    "single": pa.float32(),
    "fixed": pa.decimal128(10, 2),
    "whole": pa.int64(),
    "truth": pa.bool_(),
}
CELLS: Final[dict[str, list[Any]]] = {
    "text": [
        *("0", "1", "7", "0.0", "1.0", "7.0", "1.00", "1.", "-0.0", "01", " 1", "1e0", "10", "100"),
        *("1.5", "7.5", "x", "true", "NO", "nan", "inf", "", "1..0", "0x1", "-1.0", "1.0 "),
    ],
    "double": [0.0, -0.0, 1.0, 1.5, 7.0, 10.0, -1.0, 2.0**53, 1e300, float("nan"), float("-inf")],
    "single": [0.0, 1.0, 1.5, 7.0, float("inf")],
    "fixed": [Decimal(one) for one in ("0.00", "1.00", "1.50", "7.00", "100.00")],
    "whole": [0, 1, 7, 10, -1, 2**53 - 1, 2**53],
    "truth": [True, True, False],
}
CODES: Final = (0, 1, 7, -1, 2**53 - 1)
DECLARED: Final[dict[str, Column]] = {
    "codes": Category(CODES),
    "strings": Category([str(code) for code in CODES]),
    "flag": Bool(),
}
READ: Final[dict[str, dict[Any, int]]] = {
    "text_codes": {0: 3, 1: 8, 7: 2, -1: 1},
    "text_strings": {"0": 3, "1": 4, "7": 2, "-1": 1},
    "text_flag": {False: 4, True: 9},
    "double_codes": {0: 2, 1: 1, 7: 1, -1: 1},
    "double_strings": {"0": 2, "1": 1, "7": 1, "-1": 1},
    "double_flag": {False: 2, True: 8},
    "single_codes": {0: 1, 1: 1, 7: 1},
    "single_strings": {"0": 1, "1": 1, "7": 1},
    "single_flag": {False: 1, True: 4},
    "fixed_codes": {0: 1, 1: 1, 7: 1},
    "fixed_strings": {"0": 1, "1": 1, "7": 1},
    "fixed_flag": {False: 1, True: 4},
    "whole_codes": {0: 1, 1: 1, 7: 1, -1: 1, 2**53 - 1: 1},
    "whole_strings": {"0": 1, "1": 1, "7": 1, "-1": 1, str(2**53 - 1): 1},
    "whole_flag": {False: 1, True: 6},
    "truth_codes": {0: 1, 1: 2},
    "truth_flag": {False: 1, True: 2},
}
"""The number of cells of each stored type that are read as each value; all others are NULL."""

MANY: Final = max(map(len, CELLS.values())) + 1


@pytest.fixture(scope="session", params=PLACES)
def place(request: pytest.FixtureRequest) -> Place:
    """Return a place for each engine's rows, in turn."""
    return find_place(request.param, request)


def declare(*, is_cut: bool) -> Table:
    """Return a table with a column for each stored type and each declaration that can read it."""
    columns, rows = {}, {}
    for name in READ:
        stored, kind = name.split("_")
        cells = CELLS[stored] + [None] * (MANY - len(CELLS[stored]))
        rows[name] = pa.array(cells, STORED[stored])
        columns[name] = DECLARED[kind]
    limits: Mapping[str, Any] = {"max_rows_per_unit": 2} if is_cut else {"unique": True}
    people = {"pid": range(MANY), "x": np.arange(float(MANY))}
    columns["x"] = Float(0, MANY)
    return Table("t", pa.table({**people, **rows}), unit="pid", columns=columns, **limits)


def count_keys(pair: Pairing, text: str) -> dict[Any, int]:
    """Return the number of rows of each key, on which both engines agree."""
    plan = pair.plan(text)
    found = read_exactly(pair.there, plan)

    assert read_exactly(pair.here, plan) == found
    return {key: count for (key,), (count, *_) in found[0].items() if key is not None}


def check_readings(place: Place) -> None:
    """Check every reading, before and after contribution bounding and in every kind of total."""
    for is_cut in (False, True):
        pair = pair_tables([declare(is_cut=is_cut)], place)
        for name, expected in READ.items():
            assert expected == count_keys(pair, f"SELECT {name}, COUNT(*) FROM t GROUP BY {name}")
        for name in ("text_strings", "double_codes", "text_flag"):
            units = f"SELECT {name}, COUNT(DISTINCT pid) FROM t GROUP BY {name}"
            middle = pair.plan(f"SELECT {name}, MEDIAN(x) AS m FROM t GROUP BY {name}")

            assert READ[name] == count_keys(pair, units)
            assert read_exactly(pair.here, middle) == read_exactly(pair.there, middle)


def test_each_cell_is_read_by_its_own_value(place: Place) -> None:
    """0.0 and 1.0 are Booleans and 1.0 is the code 1, but 1.5 and "01" are not."""
    check_readings(place)


def check_integers(place: Place) -> None:
    """Check that listed integers are numbers in conditions, expressions and sums."""
    pair = pair_tables([declare(is_cut=False)], place)
    name = "text_codes"
    counted = f"SELECT {name}, COUNT(*) FROM t WHERE {name} {{}} GROUP BY {name}"
    total = pair.plan(f"SELECT SUM({name}) AS s FROM t WHERE {name} BETWEEN -1 AND 9")

    assert {1: 8} == count_keys(pair, counted.format("= 1"))
    assert {1: 8, 7: 2} == count_keys(pair, counted.format("IN (1, 7, 8)"))
    assert {0: 3, -1: 1} == count_keys(pair, counted.format("< 0.5"))
    assert {0: 12, 1: 2} == count_keys(
        pair, f"SELECT CAST({name} / 6 AS INT) AS k, COUNT(*) FROM t GROUP BY k"
    )
    assert read_exactly(pair.here, total) == read_exactly(pair.there, total)


def test_listed_integers_are_numbers_in_queries(place: Place) -> None:
    """A category of integers is compared, computed with and added up like any integer."""
    check_integers(place)


UNFIT: Final[list[tuple[str, Column]]] = [
    ("double", Category(["A", "B"])),
    ("single", Category(["A", "1st"])),
    ("fixed", Category(["low", "high", None])),
    ("whole", Category(["A", "B"])),
    ("whole", Category(["0.5", "01"])),
    ("truth", Category(["0", "1"])),
    ("truth", Category([2, 3])),
]


def check_refusals(place: Place) -> None:
    """Check that a list which the stored type rules out is refused by the name of that type."""
    for stored, declared in UNFIT:
        cells = pa.array(CELLS[stored], STORED[stored])
        rows = pa.table({"pid": range(len(cells)), "k": cells})
        table = Table("t", rows, unit="pid", columns={"k": declared}, unique=True)

        with pytest.raises(BadDeclaration, match=r"Column 'k' of table 't' is stored as .*\. List"):
            open_engine(Catalog(place.move([table])), salt=SALT)


def test_a_list_that_the_stored_type_rules_out_is_refused(place: Place) -> None:
    """A category none of whose values the column can hold is refused when the table opens."""
    check_refusals(place)


def test_strings_never_refuse_a_list(place: Place) -> None:
    """Cells that are not listed are data: the table opens, and its rows have no group."""
    rows = pa.table({"pid": [1, 2, 3], "k": ["x", "2.5", None], "flag": ["2.0", "x", None]})
    columns: dict[str, Column] = {"k": Category([1, 2]), "flag": Bool()}
    pair = pair_tables([Table("t", rows, unit="pid", columns=columns, unique=True)], place)

    assert {} == count_keys(pair, "SELECT k, COUNT(*) FROM t GROUP BY k")
    assert {} == count_keys(pair, "SELECT flag, COUNT(*) FROM t GROUP BY flag")


def test_no_query_is_charged_if_no_value_can_be_read() -> None:
    """The refusal comes before any charge, and names the stored type."""
    rows = pa.table({"pid": [1, 2], "k": [1.0, 2.0]})
    table = Table("t", rows, unit="pid", columns={"k": Category(["A", "B"])})

    with pytest.raises(
        BadDeclaration, match="is stored as DOUBLE, so no value can be one of the listed"
    ):
        Curator([table], budget=Budget(1))


KEYS: Final = {
    "FLOOR(price / 100) * 100": 16,
    "CEIL(price / 7)": 216,
    "ROUND(price / 100) * 100": 16,
    "ROUND(price, -2)": 16,
    "CAST(price / 3 AS INT) % 10": 10,
    "FLOOR(price * 0.1) / 10": 151,
    "FLOOR(SQRT(price))": 39,
    "CASE WHEN price < 100 THEN -1 ELSE FLOOR(price / 100) * 100 END": 16,
    "n - n % 100": 16,
    "ROUND(n, -2)": 16,
    "CAST(n / 8 AS INT)": 189,
    "YEAR(day) * 100 + MONTH(day)": 42,
    "DATE_TRUNC('quarter', day)": 14,
}
"""Keys of expressions, with the number of values that they have."""


def declare_prices() -> Table:
    """Return prices on a grid and next to its hundreds, integers, and days."""
    hundreds = np.arange(0.0, 1501.0, 50.0)
    near = [np.nextafter(hundreds, end) for end in (-np.inf, np.inf)]
    prices = np.unique(np.clip(np.concatenate([np.arange(0.0, 1500.5, 0.5), *near]), 0, 1500))
    first, many = date(2020, 1, 1), len(prices)
    days = [first + timedelta(days=place % 1_260) for place in range(many)]
    numbers = [place % 1_501 for place in range(many)]
    rows = {"pid": range(many), "price": prices, "n": numbers, "day": days}
    columns: dict[str, Column] = {
        "price": Float(0, 1500),
        "n": Int(0, 1500),
        "day": Date(first, first + timedelta(days=1_259)),
    }
    return Table("t", pa.table(rows), unit="pid", columns=columns, unique=True)


def check_keys(place: Place) -> None:
    """Check that an engine computes each key of the domain, and no other."""
    pair = pair_tables([declare_prices()], place)
    for key, count in KEYS.items():
        text = f"SELECT {key} AS k, COUNT(*) FROM t GROUP BY k"
        (domain,) = pair.plan(text).domains

        assert domain is not None
        assert set(count_keys(pair, text)) == set(domain)
        assert count == len(domain)


def test_keys_of_expressions_are_those_that_engines_compute(place: Place) -> None:
    """No engine loses a key that it computes, and no answer has one that it cannot compute."""
    check_keys(place)


def test_no_string_shows_the_sign_of_a_zero(place: Place) -> None:
    """A negative zero, stored or computed, is the string of zero on every engine."""
    rows = pa.table({"pid": range(4), "x": [-0.0, -0.001, 0.0, 0.001], "note": [""] * 4})
    columns: dict[str, Column] = {"x": Float(-1, 1), "note": Text()}
    table = Table("t", rows, unit="pid", columns=columns, unique=True)
    pair = pair_tables([table], place)

    for value in ("ROUND(x, 2)", "x * 0", "CASE WHEN x < 1 THEN -x * 0 END"):
        key = f"CAST({value} AS TEXT)"
        counted = f"SELECT {key} AS k, COUNT(*) FROM t GROUP BY k"
        assert {"0.0": 4} == count_keys(pair, counted)
