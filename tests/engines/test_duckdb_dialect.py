"""DuckDB reads statements as the tree specifies: every double to the last bit, every cast."""

import math
import struct
from collections.abc import Sequence
from typing import Final

import duckdb
import pytest
from sqlglot import expressions as sql

from confide.declare import Category
from confide.engines.duckdb.dialect import write_duckdb
from confide.engines.sql.builders import TYPES, cast, number, try_cast
from confide.engines.sql.stored_values import as_enum
from support.entropy import SeededEntropy

EDGES: Final = (
    *(0.0, 5e-324, 2.2250738585072014e-308, 0.1, 0.5, 1.0, 2.5, 1e15, 1e16, 1e22, 123456789.123),
    *(2.0**53 + 2, 2.0**63, math.nextafter(1, 2), math.nextafter(1, 0), 1.7976931348623157e308),
)


def read(values: Sequence[sql.Expr]) -> tuple[object, ...]:
    statement = write_duckdb(sql.Select(expressions=list(values)))
    (found,) = duckdb.connect().execute(statement).fetchall()
    return tuple(found)


def test_doubles_are_read_to_the_last_bit(entropy: SeededEntropy) -> None:
    """Every finite double is read with the bits that were written."""
    drawn = struct.unpack("<2000d", entropy.words(2_000).tobytes())
    wanted = [*EDGES, *(-edge for edge in EDGES), *filter(math.isfinite, drawn)]
    kinds = [sql.Anonymous(this="TYPEOF", expressions=[number(value)]) for value in wanted]

    assert wanted == list(read([number(value) for value in wanted]))
    assert {"DOUBLE"} == set(read(kinds))


@pytest.mark.parametrize("kind", TYPES.values())
def test_casts_are_those_of_the_tree(kind: str) -> None:
    """A cast converts to its type; a TRY_CAST that cannot be done gives NULL."""
    text = "2020-01-31" if kind == "DATE" else "1"
    made = [cast(sql.Literal.string(text), kind), try_cast(sql.Literal.string(text), kind)]
    types = [sql.Anonymous(this="TYPEOF", expressions=[one]) for one in made]
    failed = try_cast(sql.Literal.string("?"), kind)

    assert [kind, kind] == list(read([*types]))
    assert ("?" if kind == "VARCHAR" else None,) == read([failed])


def test_enum_casts_list_their_strings() -> None:
    """A cast to an ENUM lists its strings."""
    listed = as_enum(sql.Literal.string("b"), Category(["a", "b"]))

    assert ("b",) == read([listed])
