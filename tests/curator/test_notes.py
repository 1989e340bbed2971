"""Notes of answers and previews: contribution limits, and how many rows a quantile needs."""

import re
from typing import Any, Final

import pytest

from confide.curator import Curator
from confide.declare import Category, Column, Int, Text
from support.neighbours import open_one, totals_of

WARDS: Final = ("A", "B", "C")
PATIENTS, VISITS = 40, 20
LIMITS: Final = {"max_rows_per_unit": 5, "max_groups_per_unit": 2}


def visits(**limits: Any) -> Curator:
    """Return a curator over patients with twenty visits each, one of them in February."""
    rows = [
        {"who": who, "month": 2 if visit == 0 else 3 + visit % 9, "ward": WARDS[who % 3], "t": "n"}
        for who in range(PATIENTS)
        for visit in range(VISITS)
    ]
    columns: dict[str, Column] = {
        "month": Int(1, 12),
        "ward": Category(list(WARDS)),
        "t": Text(),
    }
    return open_one(rows, columns, **limits)


@pytest.mark.parametrize(
    ("filtered", "plain"),
    [
        (
            "SELECT COUNT(*) FILTER (WHERE month = 2) AS n FROM p",
            "SELECT COUNT(*) AS n FROM p WHERE month = 2",
        ),
        (
            "SELECT ward, COUNT(*) FILTER (WHERE month = 2) AS n, "
            "AVG(month) FILTER (WHERE month = 2) AS m FROM p WHERE t = 'n' GROUP BY ward",
            "SELECT ward, COUNT(*) AS n, AVG(month) AS m FROM p WHERE t = 'n' AND month = 2 "
            "GROUP BY ward",
        ),
        (
            "SELECT SUM(month) FILTER (WHERE month > 2) / COUNT(*) FILTER (WHERE month > 2) AS s, "
            "MEDIAN(month) FILTER (WHERE month > 2) AS q FROM p",
            "SELECT SUM(month) / COUNT(*) AS s, MEDIAN(month) AS q FROM p WHERE month > 2",
        ),
    ],
)
def test_a_filter_that_all_aggregates_share_is_a_where(filtered: str, plain: str) -> None:
    """Rows that fail it do not use up a unit's limit, so both queries count the same rows."""
    curator = visits(**LIMITS)

    assert totals_of(curator, plain) == totals_of(curator, filtered)


def test_february_is_counted_whole() -> None:
    """The one visit in February of each patient counts, although the limit drops 15 of 20."""
    counted = totals_of(visits(**LIMITS), "SELECT COUNT(*) FILTER (WHERE month = 2) AS n FROM p")

    assert {(): (PATIENTS,)} == counted


def test_a_filter_of_one_aggregate_applies_after_the_limit() -> None:
    """Next to a total of all rows, February is counted among the rows that the limit leaves."""
    text = "SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE month = 2) AS f FROM p"
    ((rows, february),) = totals_of(visits(**LIMITS), text).values()

    assert PATIENTS * LIMITS["max_rows_per_unit"] == rows
    assert february < PATIENTS


def test_a_shared_filter_leaves_every_declared_key() -> None:
    """A FILTER on the key keeps the other keys in the answer, as in SQL; WHERE does not."""
    curator = visits(**LIMITS)
    text = "SELECT ward, COUNT(*) FILTER (WHERE ward = 'A') AS n FROM p GROUP BY ward"

    assert list(WARDS) == [row["ward"] for row in curator.sql(text, epsilon=1).rows]


def test_undeclared_keys_are_not_chosen_by_a_filter() -> None:
    """The undeclared keys shown do not depend on a FILTER, so it is not a WHERE there."""
    curator = visits(**LIMITS)
    text = "SELECT t, COUNT(*) FILTER (WHERE month = 2) AS n FROM p GROUP BY t"
    ((february, _),) = totals_of(curator, text).values()

    assert february < PATIENTS


UNGROUPED: Final = (
    "Each unit contributes at most 5 rows. If it has more, a keyed hash chooses among its rows, "
    "and the others are dropped."
)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("SELECT COUNT(*) AS n FROM p", UNGROUPED),
        (
            "SELECT ward, COUNT(*) AS n FROM p WHERE month > 2 GROUP BY ward",
            "Each unit contributes at most 5 rows in at most 2 groups. If it has more, a keyed "
            "hash chooses among its rows that pass WHERE, before GROUP BY, and the others are "
            "dropped.",
        ),
        (
            "SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE month = 2) AS f FROM p",
            "Each unit contributes at most 5 rows. If it has more, a keyed hash chooses among its "
            "rows, before FILTER, and the others are dropped.",
        ),
        (
            "SELECT AVG(s) AS m FROM (SELECT who, SUM(month) AS s FROM p GROUP BY who)",
            "Each unit contributes at most 5 rows. If it has more, a keyed hash chooses among its "
            "rows, before they are aggregated, and the others are dropped.",
        ),
        (
            "SELECT ward FROM p GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1",
            "Each unit contributes at most 5 rows in at most 2 groups. If it has more, a keyed "
            "hash chooses among its rows, before GROUP BY, and the others are dropped.",
        ),
    ],
)
def test_answers_and_previews_name_the_limit(text: str, note: str) -> None:
    """Answers and previews have the same note, as a field and in their output."""
    curator = visits(**LIMITS)
    preview, answer = curator.preview(text, epsilon=1), curator.sql(text, epsilon=1)

    assert (note,) == preview.notes == answer.notes
    assert note in str(preview)
    assert note in str(answer)
    assert note in answer._repr_html_()
    assert note in str(curator.explain(text, epsilon=1))


NEEDS: Final = re.compile(
    r"Noise moves the rank of (?P<name>.+) by up to (?P<error>[\d,]+) rows \(95% confidence\). "
    r"In (?P<place>a group|a table) with fewer than about (?P<few>[\d,]+) rows, its value is "
    r"unreliable; with fewer than about (?P<fewer>[\d,]+), its interval often ends at a declared "
    r"bound. A larger share lowers these numbers."
)


@pytest.mark.parametrize(
    ("text", "place", "name"),
    [
        (
            "SELECT QUANTILE_CONT(month, 0.9) AS q FROM p",
            "a table",
            "QUANTILE_CONT(month, 0.9)",
        ),
        (
            "SELECT ward, MEDIAN(month) AS m, QUANTILE_CONT(month, 0.9) AS q FROM p GROUP BY ward",
            "a group",
            "QUANTILE_CONT(month, 0.9), which it affects most of 2 quantiles,",
        ),
    ],
)
def test_quantiles_name_how_many_rows_they_need(text: str, place: str, name: str) -> None:
    """Answers and previews name the number of rows that a quantile and its interval need.

    A rank error of a tenth of the rows beyond the 90% quantile, a 100th of the group, is too large.
    """
    curator = visits(**LIMITS)
    preview, answer = curator.preview(text, epsilon=1), curator.sql(text, epsilon=1)
    found, better = (
        NEEDS.fullmatch(curator.preview(text, epsilon=epsilon).notes[-1]) for epsilon in (1, 10)
    )
    assert found is not None
    assert better is not None
    error, few, fewer = (int(found[one].replace(",", "")) for one in ("error", "few", "fewer"))

    assert preview.notes == answer.notes
    assert preview.notes[-1] in str(preview)
    assert (place, name) == (found["place"], found["name"])
    assert 0.85 * few < 100 * error < 1.2 * few
    assert few < fewer
    assert int(better["error"].replace(",", "")) < error


def test_no_limit_no_note() -> None:
    """A table of one row per unit has no limit to name."""
    rows = [{"who": who, "x": 1} for who in range(9)]
    curator = open_one(rows, {"x": Int(0, 1)}, unique=True)

    assert () == curator.sql("SELECT COUNT(*) AS n FROM p", epsilon=1).notes
