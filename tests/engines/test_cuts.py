"""Which rows of a unit stay is that unit's own affair."""

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
    """Return the same people with a number of its own on every row."""
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
    """Return random choices that depend on the run's seed."""
    return np.random.default_rng(int(entropy.words(1)[0]))


@pytest.mark.parametrize(
    "limits", [Limits(1, 1), Limits(3, 3), Limits(3, 1), Limits(6, 2)], ids=str
)
def test_others_do_not_change_which_rows_stay(limits: Limits, rng: np.random.Generator) -> None:
    """A unit keeps the same rows when others come, go or stand in another order."""
    everybody = tagged(draw_worlds(rng, 150, limits))
    half = everybody[::2]
    alone = kept_tags(half, limits, rng)
    among = kept_tags(everybody, limits, rng)
    mine = {row["tag"] for person in half for row in person.rows}

    assert alone == among & mine


@pytest.mark.parametrize(
    "limits", [Limits(1, 1), Limits(3, 3), Limits(3, 1), Limits(6, 2)], ids=str
)
def test_a_unit_keeps_as_much_as_it_may(limits: Limits, rng: np.random.Generator) -> None:
    """Of a unit's rows, each a group of its own here, as many stay as both limits allow."""
    everybody = tagged(draw_worlds(rng, 150, limits))
    kept = kept_tags(everybody, limits, rng)
    staying = Counter(
        {person.pid: len(kept & {row["tag"] for row in person.rows}) for person in everybody}
    )
    most = min(limits.rows, limits.groups)

    assert {person.pid: min(most, len(person.rows)) for person in everybody} == staying


def test_the_choice_depends_on_the_salt(rng: np.random.Generator) -> None:
    """Another salt keeps other rows: nobody who does not know it can aim at the cut."""
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
