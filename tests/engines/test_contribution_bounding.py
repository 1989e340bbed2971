"""The rows of a unit that stay depend on that unit alone."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from confide.curator import Curator
from confide.declare import Budget, Catalog
from confide.engines import DuckDB
from confide.ledger import Hold
from confide.loss import Share
from confide.query.sql import read_sql
from confide.release.unseal import unseal
from support.entropy import SeededEntropy
from support.people import Limits, Person, declare_worlds, draw_worlds

SHARE: Final = Share.floor("1/100")
QUESTION: Final = "SELECT tag, COUNT(*) AS n FROM visits GROUP BY tag"


def tagged(people: Sequence[Person]) -> list[Person]:
    """Return the same people with a distinct number on every row."""
    numbers = iter(range(10_000))
    return [
        replace(person, rows=tuple({**row, "tag": next(numbers)} for row in person.rows))
        for person in people
    ]


def kept_tags(people: Sequence[Person], limits: Limits, rng: np.random.Generator) -> set[int]:
    """Return the tags of the rows that stay."""
    table = declare_worlds(people, limits, rng)
    curator = Curator([table], budget=Budget(1))
    plan = curator._planner.plan(read_sql(QUESTION, curator.names), SHARE)
    found = unseal(
        DuckDB(Catalog([table]), salt="grain").run(plan.measurement, Hold(0, SHARE))
    ).groups
    assert {1} == {count for (count,) in found.values()}
    return {int(str(tag)) for (tag,) in found}


@pytest.fixture
def rng(entropy: SeededEntropy) -> np.random.Generator:
    """Return a random generator seeded by the run's seed."""
    return np.random.default_rng(int(entropy.words(1)[0]))


@pytest.mark.parametrize(
    "limits", [Limits(1, 1), Limits(3, 3), Limits(3, 1), Limits(6, 2)], ids=str
)
def test_rows_kept_do_not_depend_on_other_units(limits: Limits, rng: np.random.Generator) -> None:
    """A unit keeps the same rows when other units are added, removed, or reordered."""
    everybody = tagged(draw_worlds(rng, 150, limits))
    half = everybody[::2]
    alone = kept_tags(half, limits, rng)
    among = kept_tags(everybody, limits, rng)
    mine = {row["tag"] for person in half for row in person.rows}

    assert alone == among & mine


@pytest.mark.parametrize(
    "limits", [Limits(1, 1), Limits(3, 3), Limits(3, 1), Limits(6, 2)], ids=str
)
def test_a_unit_keeps_as_many_rows_as_allowed(limits: Limits, rng: np.random.Generator) -> None:
    """A unit whose rows are all in different groups keeps as many as both limits allow."""
    everybody = tagged(draw_worlds(rng, 150, limits))
    kept = kept_tags(everybody, limits, rng)
    staying = Counter(
        {person.pid: len(kept & {row["tag"] for row in person.rows}) for person in everybody}
    )
    most = min(limits.rows, limits.groups)

    assert {person.pid: min(most, len(person.rows)) for person in everybody} == staying


def test_the_choice_depends_on_the_salt(rng: np.random.Generator) -> None:
    """Another salt keeps other rows, so an attacker without the salt cannot predict them."""
    limits = Limits(1, 1)
    table = declare_worlds(tagged(draw_worlds(rng, 150, limits)), limits, rng)
    curator = Curator([table], budget=Budget(1))
    plan = curator._planner.plan(read_sql(QUESTION, curator.names), SHARE)
    kept = [
        set(
            unseal(DuckDB(Catalog([table]), salt=salt).run(plan.measurement, Hold(0, SHARE))).groups
        )
        for salt in ("one", "two")
    ]

    assert kept[0] != kept[1]
