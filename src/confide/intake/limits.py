"""Contribution bounds from a paid, noisy count of people by their number of rows.

The owner runs this once, before analysts do. The counts are an ordinary answer, charged to the
ledger, so the suggestion may be shown to anyone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from confide.curator import open_declared
from confide.declare import Declaration, Row, Table
from confide.errors import BadDeclaration
from confide.release import Cost

__all__ = ["LimitSuggestion", "RowLimit", "suggest_limits"]

LIMITS: Final = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 500, 1_000, 2_000, 5_000)
MAX_COUNTED_ROWS: Final = 10_000
"""People with more rows count as having this many."""
CONFIDENCE: Final = 0.999
ACCEPTABLE_LOSS: Final = 0.05
"""The suggested limit is the smallest one that drops at most this fraction of the rows."""


@dataclass(frozen=True, slots=True)
class RowLimit:
    """A value of `max_rows_per_unit`, with estimates of what it would drop.

    ``units_above`` is the fraction of people with more rows, and ``rows_dropped`` the fraction of
    rows that would not count.
    """

    rows: int
    units_above: float
    rows_dropped: float


@dataclass(frozen=True, slots=True)
class LimitSuggestion:
    """Estimates for several limits of a table, the suggested limit, and the cost of the counts."""

    table: str
    limits: tuple[RowLimit, ...]
    suggested: int
    cost: Cost


def suggest_limits(
    declaration: Declaration, table: str | None = None, *, confirm: bool = False, **price: Any
) -> LimitSuggestion:
    """Return a suggestion for `max_rows_per_unit` of a table, from noisy counts that are charged.

    ``price`` sets the cost, as for a query. ``table`` can be omitted if there is only one.

    Raises:
        BadDeclaration: the table is unknown or omitted, or has at most one row per person.
    """
    chosen = _find_table(declaration, table)
    # Privacy: each person is in one group of the counts, as a per-unit subquery has one row per
    # person. The limit on rows only bounds the number that is compared, not the sensitivity.
    counted = replace(chosen, max_rows_per_unit=MAX_COUNTED_ROWS)
    tables = tuple(counted if one is chosen else one for one in declaration.tables)
    curator = open_declared(replace(declaration, tables=tables))
    answer = curator.sql(_count_people(chosen), confirm=confirm, **price)
    ends = answer.interval_rows(CONFIDENCE)
    limit_name = answer.columns[0]
    people = {
        int(row[limit_name]): clear_count(row["people"], end["people_low"])
        for row, end in zip(answer.rows, ends, strict=True)
    }
    limits = estimate_losses([people.get(limit, 0.0) for limit in (*LIMITS, MAX_COUNTED_ROWS)])
    fits = [one.rows for one in limits if one.rows_dropped <= ACCEPTABLE_LOSS] or [LIMITS[-1]]
    suggested = fits[0] if any(people.values()) else chosen.max_rows_per_unit
    return LimitSuggestion(chosen.name, limits, suggested, answer.cost)


def clear_count(count: float, low: float) -> float:
    """Return a noisy count, or 0 if its interval reaches 0; ``low`` is the lower end.

    A count whose interval reaches 0 is mostly noise, which many rows per person would multiply.
    """
    return float(count) if low > 0 else 0.0


def estimate_losses(people: Sequence[float]) -> tuple[RowLimit, ...]:
    """Return estimates of the losses of each limit, from noisy numbers of people by number of rows.

    The i-th number counts people with more rows than the (i-1)-th limit, but not more than the
    i-th. The last number counts people above all limits. People are taken to have the number of
    rows in the middle of their range.
    """
    ends = (0, *LIMITS, MAX_COUNTED_ROWS)
    groups = [
        (count, (low + 1 + high) / 2)
        for (low, high), count in zip(pairwise(ends), people, strict=True)
    ]
    total = sum(count for count, _ in groups) or 1.0
    rows = sum(count * mean for count, mean in groups) or 1.0
    return tuple(
        RowLimit(
            limit,
            sum(count for count, mean in groups if mean > limit) / total,
            sum(count * max(mean - limit, 0.0) for count, mean in groups) / rows,
        )
        for limit in LIMITS
    )


def _find_table(declaration: Declaration, name: str | None) -> Table:
    """Return the named table, or the only one."""
    names = [table.name for table in declaration.tables]
    if name is None and len(names) != 1:
        raise BadDeclaration(f"Name one of the tables: {', '.join(names)}.")
    chosen = next((one for one in declaration.tables if name in (None, one.name)), None)
    if chosen is None:
        raise BadDeclaration(f"Unknown table {name!r}. Declared: {', '.join(names)}.")
    if isinstance(chosen.unit, Row) or chosen.unique:
        raise BadDeclaration(
            f"In `{chosen.name}`, every person has one row by declaration, so it needs no limits."
        )
    return chosen


def _count_people(table: Table) -> str:
    """Return the query that counts people by their number of rows."""
    unit, name = _quote(str(table.unit)), _quote(table.name)
    # The unit's column cannot be grouped by, so no other name may equal its name.
    is_taken = str(table.unit).lower() in ("n", "limit_")
    rows, found = ("row_count", "row_limit") if is_taken else ("n", "limit_")
    cases = " ".join(f"WHEN {rows} <= {limit} THEN {limit}" for limit in LIMITS)
    return (  # declared names, quoted
        f"SELECT CASE {cases} ELSE {MAX_COUNTED_ROWS} END AS {found}, COUNT(*) AS people "  # noqa: S608
        f"FROM (SELECT {unit}, COUNT(*) AS {rows} FROM {name} GROUP BY {unit}) AS units "
        f"GROUP BY {found} ORDER BY {found}"
    )


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
