"""Private selection: the most frequent keys, and the best of several queries.

Databases are tiny, so that the distribution of a choice can be computed. A statement is read once
and chosen from many times.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import permutations, product
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.curator import Curator
from confide.declare import Bool, Budget, Catalog, Category, Column, Float, Int, Table, Text
from confide.engines import DuckDB, Sealed
from confide.errors import BadDeclaration, BudgetExceeded, Fault, Refusal
from confide.execution import Score
from confide.ledger import Hold
from confide.loss import BoundedRangeLoss, GaussianLoss, Loss, PureLoss, RenyiLoss, Share
from confide.mechanisms import Exponential, Neighbours, PermuteAndFlip
from confide.plan import Plan
from confide.plan.selection import TopKeysPlan, max_epsilon, only_total, plan_candidates
from confide.plan.sensitivity import score_change
from confide.query import count, count_units, split_query
from confide.query.sql import read_sql
from confide.release.noise import round_to_steps
from confide.release.payable import PricedTopKeys
from confide.release.selection import choose_candidate, select_keys
from confide.release.unseal import unseal
from support.auditor import audit, largest_ratio
from support.entropy import SeededEntropy
from support.laws import ALPHA, binomial_p, chi_square_p
from support.people import Limits, change_one, declare_worlds, draw_worlds

BUDGETS: Final = {
    "pure": Budget(10**9),
    "gaussian": Budget(10**9, 1e-6),
    "renyi": Budget(10**9, 1e-6, accounting="renyi"),
}
SMALL: Final = {
    "pure": Budget(4),
    "gaussian": Budget(4, 1e-6),
    "renyi": Budget(4, 1e-6, accounting="renyi"),
}
BY_WARD: Final = "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT {}"
SHARE: Final = Share.floor("1/100")
WARDS: Final = ("A", "B", "C", "D", "E")


def declare(
    counts: dict[str, int], *, rows: int = 1, each: int = 1, age: int | None = None
) -> Table:
    """Return a table with the given counts of rows by ward, ``each`` of them about one person."""
    wards = [ward for ward, many in counts.items() for _ in range(many)]
    data = pa.table(
        {
            "pid": pa.array([place // each for place in range(len(wards))], pa.int64()),
            "ward": pa.array(wards, pa.string()),
            "age": pa.array([age or place % 90 for place in range(len(wards))], pa.int64()),
            "cost": pa.array([10.0 * (place % 7) for place in range(len(wards))], pa.float64()),
            "words": pa.array(wards, pa.string()),
            "smoker": pa.array([place % 3 == 0 for place in range(len(wards))], pa.bool_()),
        }
    )
    columns: dict[str, Column] = {
        "ward": Category(WARDS),
        "age": Int(0, 99),
        "cost": Float(0, 100),
        "words": Text(),
        "smoker": Bool(),
    }
    return Table("visits", data, unit="pid", columns=columns, max_rows_per_unit=rows)


def plan_of(curator: Curator, text: str, share: str = "1/100") -> Plan:
    return curator._planner.plan(read_sql(text, curator.names), Share.floor(share))


def selection_of(curator: Curator, text: str, share: str = "1/100") -> TopKeysPlan:
    payable = curator._planner.payable(split_query(read_sql(text, curator.names)))
    priced = payable.at(Share.floor(share))
    assert isinstance(priced, PricedTopKeys)
    return priced.selection


def read(curator: Curator, plan: Plan) -> Sealed:
    return curator._engine.run(plan.measurement, Hold(0, SHARE))


COUNTS: Final = {"D": 40, "A": 25, "Z": 90, "C": 12, "B": 3}


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
@pytest.mark.parametrize("most", [1, 3, 5, 9])
def test_without_noise_the_most_frequent_keys_come_first(
    budget: Budget, neighbours: Neighbours, most: int
) -> None:
    """At a huge epsilon, the answer is the exact top k of the declared keys, in order."""
    curator = Curator([declare(COUNTS)], budget=budget, neighbours=neighbours)
    answer = curator.sql(BY_WARD.format(most), share="1/2")

    assert [{"ward": ward} for ward in "DACBE"][:most] == answer.rows
    assert ["ward"] == list(answer.intervals().columns)
    assert ("ward",) == answer.columns


def test_without_noise_other_counts_and_keys_are_chosen_too() -> None:
    """Units, filtered rows, several keys, and queries in Python are chosen by their counts."""
    table = declare({"A": 12, "B": 9, "C": 2}, rows=12, each=4)
    curator = Curator([table], budget=BUDGETS["pure"])
    visits = curator.table("visits").group_by("ward")

    def ask(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in curator.sql(text, share="1/100").rows]

    by_units = (
        "SELECT ward AS w FROM visits GROUP BY ward ORDER BY COUNT(DISTINCT pid) DESC LIMIT 3"
    )
    by_filter = (
        "SELECT ward FROM visits GROUP BY ward "
        "ORDER BY COUNT(*) FILTER (WHERE ward <> 'A') DESC LIMIT 2"
    )
    by_two = "SELECT smoker, ward FROM visits GROUP BY ward, smoker ORDER BY COUNT(*) DESC LIMIT 2"
    sorted_by_count = visits.order_by(count(), descending=True).limit(2)
    sorted_by_units = visits.order_by(count_units(), descending=True).limit(1)

    assert {("A",), ("B",)} == set(ask(by_units)[:2])
    assert [("B",), ("C",)] == ask(by_filter)
    assert [(False, "A"), (False, "B")] == ask(by_two)
    assert ["A", "B"] == [row["ward"] for row in sorted_by_count.ask(share="1/100").rows]
    assert {"A", "B"} > {row["ward"] for row in sorted_by_units.ask(share="1/100").rows}


def flip_law(scores: Sequence[float], rate: float) -> list[float]:
    """Return the distribution of permute-and-flip, by enumerating every order of the candidates."""
    heads = [math.exp(rate * (score - max(scores))) for score in scores]
    law = [0.0] * len(scores)
    orders = list(permutations(range(len(scores))))
    for order in orders:
        still = 1.0
        for index in order:
            law[index] += still * heads[index] / len(orders)
            still *= 1 - heads[index]
    return law


def gumbel_law(scores: Sequence[float], rate: float) -> list[float]:
    """Return the distribution of the exponential mechanism."""
    weights = [math.exp(rate * (score - max(scores))) for score in scores]
    return [weight / sum(weights) for weight in weights]


def top_two_law(
    scores: Sequence[float], rate: float, one: Callable[[Sequence[float], float], list[float]]
) -> dict[int, float]:
    """Return the distribution of two choices without replacement; the pair (i, j) is 10 i + j."""
    law: dict[int, float] = {}
    for i, first in enumerate(one(scores, rate)):
        rest = [j for j in range(len(scores)) if j != i]
        second = one([scores[j] for j in rest], rate)
        law |= {10 * i + j: first * p for j, p in zip(rest, second, strict=True)}
    return law


@pytest.mark.statistical
@pytest.mark.parametrize("accounting", SMALL)
def test_two_keys_are_chosen_by_the_stated_law(accounting: str, entropy: SeededEntropy) -> None:
    """Ordered pairs fit two rounds of the distribution, and would expose a rate 1.5 times off."""
    curator = Curator([declare({"A": 9, "B": 6, "C": 2}, rows=3)], budget=SMALL[accounting])
    selection = selection_of(curator, BY_WARD.format(2), "1")
    sealed = read(curator, selection.plan)
    law = flip_law if accounting == "pure" else gumbel_law
    epsilon, scores = float(selection.selector.epsilon), [9, 6, 2, 0, 0]
    draws = []
    for _ in range(3_000):
        first, second = (group[0] for group in select_keys(sealed, selection, entropy).groups)
        draws.append(10 * WARDS.index(str(first)) + WARDS.index(str(second)))

    assert chi_square_p(draws, top_two_law(scores, epsilon / 3, law)) > ALPHA
    assert chi_square_p(draws, top_two_law(scores, epsilon / 3 * 1.5, law)) < ALPHA
    assert chi_square_p(draws, top_two_law(scores, epsilon / 3 / 1.5, law)) < ALPHA


def spent_on(loss: PureLoss | BoundedRangeLoss, granted: Loss, rounds: int) -> Fraction:
    """Return the fraction of a grant that ``rounds`` uses take."""
    match granted:
        case PureLoss(epsilon=epsilon):
            return rounds * loss.epsilon / epsilon
        case GaussianLoss(mu_squared=mu_squared):
            return rounds * loss.mu_squared / mu_squared
        case RenyiLoss(order=order, divergence=divergence):
            return rounds * loss.renyi_above(order) / divergence
        case _:
            raise AssertionError


@pytest.mark.parametrize("kind", [PureLoss, BoundedRangeLoss])
@pytest.mark.parametrize("rounds", [1, 3, 100])
@pytest.mark.parametrize(
    "granted",
    [GaussianLoss(4), GaussianLoss(Fraction(1, 10**6)), RenyiLoss(9, 2), RenyiLoss("3/2", 1e-4)],
    ids=str,
)
def test_rounds_take_all_of_the_grant_and_no_more(
    granted: Loss, kind: type[PureLoss] | type[BoundedRangeLoss], rounds: int
) -> None:
    """The epsilon of a round is rounded down, by less than one part in 10^15."""
    taken = spent_on(kind(max_epsilon(granted, kind, rounds)), granted, rounds)

    assert taken <= 1
    assert taken > 1 - Fraction(1, 10**15)


@pytest.mark.parametrize("accounting", SMALL)
def test_the_cost_of_a_choice_is_its_share(accounting: str) -> None:
    """All rounds of a selection cost at most the share charged, which the ledger shows."""
    curator = Curator([declare(COUNTS)], budget=SMALL[accounting])
    selection = selection_of(curator, BY_WARD.format(3), "1/7")
    granted = curator.ledger.filter.loss_of(Share.floor("1/7"))
    answer = curator.sql(BY_WARD.format(3), share="1/7")

    assert 3 == selection.rounds
    assert spent_on(selection.selector.loss, granted, 3) <= 1
    assert Fraction(1, 7) == answer.cost.share == curator.budget.spent.share
    assert curator.sql(BY_WARD.format(3), share="1/7").reused
    assert Fraction(1, 7) == curator.budget.spent.share


def test_mechanisms_follow_the_accounting() -> None:
    """Pure accounting uses permute-and-flip, and other accounting the exponential mechanism."""
    kinds = {
        accounting: type(
            selection_of(Curator([declare(COUNTS)], budget=b), BY_WARD.format(1)).selector
        )
        for accounting, b in SMALL.items()
    }

    assert {"pure": PermuteAndFlip, "gaussian": Exponential, "renyi": Exponential} == kinds


def test_the_cost_does_not_grow_with_the_keys() -> None:
    """Each choice has the same rate among 5 keys and among 100."""
    curator = Curator([declare(COUNTS)], budget=SMALL["gaussian"])
    few = selection_of(curator, BY_WARD.format(3))
    many = selection_of(
        curator, "SELECT age FROM visits GROUP BY age ORDER BY COUNT(*) DESC LIMIT 3"
    )

    assert (5, 100) == (len(few.groups), len(many.groups))
    assert few.selector == many.selector


def test_the_key_left_over_is_free() -> None:
    """A query for all five keys, or for more, pays for four rounds and returns five."""
    curator = Curator([declare(COUNTS)], budget=SMALL["pure"])
    four, five, nine = (selection_of(curator, BY_WARD.format(k)) for k in (4, 5, 9))

    assert (4, 4, 4) == (four.rounds, five.rounds, nine.rounds)
    assert (4, 5, 5) == (four.count, five.count, nine.count)
    assert four.selector == nine.selector


def test_a_preview_reports_the_regret() -> None:
    """A preview reads and spends nothing, and bounds the regret of a chosen count."""
    curator = Curator([declare(COUNTS)], budget=SMALL["pure"])
    preview = curator.preview(BY_WARD.format(2), epsilon=1)

    assert pytest.approx(math.log(5 / 0.025) / 0.5) == preview.regret
    assert {} == preview.errors
    assert ("PermuteAndFlip",) == preview.mechanisms
    assert "of the best" in str(preview)
    assert [] == list(curator.ledger.entries())


@pytest.mark.statistical
@pytest.mark.parametrize("accounting", SMALL)
def test_regret_is_seldom_larger_than_told(accounting: str, entropy: SeededEntropy) -> None:
    """In at least 80% of 1,000 selections, no round exceeds the 80% bound on regret."""
    curator = Curator([declare(COUNTS)], budget=SMALL[accounting])
    selection = selection_of(curator, BY_WARD.format(2), "1/4")
    sealed, bound = read(curator, selection.plan), selection.regret(0.8)
    misses = 0
    for _ in range(1_000):
        left, worst = {**COUNTS, "E": 0}, 0
        del left["Z"]
        for (ward,) in select_keys(sealed, selection, entropy).groups:
            worst = max(worst, max(left.values()) - left.pop(str(ward)))
        misses += worst >= bound

    assert misses <= 200 or binomial_p(misses, 1_000, 0.2) > ALPHA


REFUSED: Final = {
    "SELECT words FROM visits GROUP BY words ORDER BY COUNT(*) DESC LIMIT 2": "among declared keys",
    "SELECT cost FROM visits GROUP BY cost ORDER BY COUNT(*) DESC LIMIT 2": "among declared keys",
    "SELECT age FROM visits GROUP BY age, ward, age + 1, age - 1 ORDER BY COUNT(*) DESC LIMIT 9": (
        "among declared keys"
    ),
    "SELECT age, ward FROM visits GROUP BY age, ward, age + 1 ORDER BY COUNT(*) DESC LIMIT 50000": (
        "takes too long"
    ),
}


@pytest.mark.parametrize("budget", SMALL.values(), ids=SMALL)
@pytest.mark.parametrize("text", REFUSED)
def test_a_refused_selection_spends_nothing(text: str, budget: Budget) -> None:
    """Undeclared keys, or too many keys, are refused with advice and without a charge."""
    curator = Curator([declare(COUNTS)], budget=budget)
    with pytest.raises(Refusal, match=REFUSED[text]):
        curator.sql(text, share="1/10")
    with pytest.raises(Refusal, match=REFUSED[text]):
        curator.preview(text, share="1/10")

    assert [] == list(curator.ledger.entries())


def test_a_selection_has_no_half_width_to_ask_for() -> None:
    """error= is refused for keys and choices, and so is a cost beyond the budget."""
    curator = Curator([declare(COUNTS)], budget=SMALL["pure"])
    scores = {"A": "SELECT COUNT(*) FROM visits"}
    ask: list[Callable[[], object]] = [
        lambda: curator.sql(BY_WARD.format(1), error=1),
        lambda: curator.choose(["A"], scores, error=1),  # type: ignore[call-arg]  # no such
        lambda: curator.sql(BY_WARD.format(1), epsilon=5),
        lambda: curator.choose(["A"], scores, epsilon=5),
    ]
    for question in ask:
        with pytest.raises(Refusal):
            question()

    assert [] == list(curator.ledger.entries())


def test_shares_of_one_kth_fit_and_nothing_after() -> None:
    """Seven fresh selections of a seventh each fit exactly; the eighth reads nothing."""
    curator = Curator([declare(COUNTS)], budget=SMALL["gaussian"])
    for _ in range(7):
        curator.sql(BY_WARD.format(2), share="1/7", fresh=True)
    left = curator.budget.left.share
    with pytest.raises(BudgetExceeded):
        curator.sql(BY_WARD.format(2), share="1/7", fresh=True)

    assert left < Fraction(1, 10**9)
    assert 7 == len(list(curator.ledger.entries()))


def test_a_selection_is_charged_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine runs only after the charge, and the charge stays if the engine fails."""
    curator = Curator([declare(COUNTS)], budget=SMALL["pure"])
    seen = []

    def fail(engine: DuckDB, plan: Plan, hold: Hold) -> Sealed:
        seen.append(curator.ledger.filter.spent.fraction)
        raise Fault("power cut")

    monkeypatch.setattr(DuckDB, "run", fail)
    with pytest.raises(Fault):
        curator.sql(BY_WARD.format(2), share="1/4")
    with pytest.raises(Fault):
        curator.choose(["A", "B"], lambda _: "SELECT COUNT(*) FROM visits", share="1/4")

    assert [Fraction(1, 4), Fraction(1, 2)] == seen
    assert Fraction(1, 2) == curator.budget.spent.share


def test_nothing_but_keys_is_kept() -> None:
    """The ledger stores the chosen keys or the chosen index, and no count."""
    curator = Curator([declare(COUNTS)], budget=BUDGETS["pure"])
    keys = curator.sql(BY_WARD.format(2), share="1/4")
    place = curator.choose(["A", "D"], count_ward, share="1/4")
    entries = list(curator.ledger.entries())
    kept = [curator.ledger.stored(entry.question) for entry in entries]

    assert [
        {"groups": [["D"], ["A"]], "steps": [[], []], "cells": [], "sizes": []},
        {"place": 1},
    ] == [stored[1] for stored in kept if stored is not None]
    assert (keys.receipt, place.receipt) == tuple(stored[0] for stored in kept if stored)


# Neighboring datasets.


MANY: Final = 2**13


def narrow(selection: TopKeysPlan) -> TopKeysPlan:
    """Return the selection among two keys only, for which the worst neighboring pair is known."""
    groups = tuple(group for group in selection.groups if group[0] in ("A", "B"))
    return TopKeysPlan(selection.plan, groups, 1, selection.selector)


def neighbour_draws(
    tables: tuple[Table, Table],
    neighbours: Neighbours,
    entropy: SeededEntropy,
) -> list[np.ndarray[Any, Any]]:
    """Return the ward that each database chooses, over many runs at epsilon 1."""
    outputs = []
    for table in tables:
        curator = Curator([table], budget=Budget(1), neighbours=neighbours)
        selection = narrow(selection_of(curator, BY_WARD.format(1), "1"))
        sealed = read(curator, selection.plan)
        found = [select_keys(sealed, selection, entropy).groups for _ in range(MANY)]
        outputs.append(np.array([WARDS.index(str(groups[0][0])) for groups in found]))
    return outputs


@pytest.mark.statistical
def test_adding_a_unit_gives_away_at_most_epsilon(entropy: SeededEntropy) -> None:
    """A person with all their rows in one ward reveals at most epsilon, and most of it is detected.

    The worst event has log-ratio 1; at this size the auditor proves 0.71 of it, give or take 0.04.
    """
    tables = declare({}, rows=3), declare({"A": 7}, rows=3, each=7)
    draws = neighbour_draws(tables, Neighbours.ADD_REMOVE, entropy)

    assert 0.4 < audit(*draws) <= 1


@pytest.mark.parametrize("law", [flip_law, gumbel_law])
def test_two_rounds_give_away_at_most_epsilon(
    law: Callable[[Sequence[float], float], list[float]],
) -> None:
    """Two rounds at half of epsilon each reveal at most epsilon, and some pair more than 0.9 of it.

    The test tries all units of at most two rows in each of three keys, next to few or many others.
    """
    epsilon, rows = 1.0, 2
    rate = epsilon / 2 / rows
    worst = 0.0
    for before in product((0, 1, 40), repeat=3):
        for added in product(range(rows + 1), repeat=3):
            after = [score + more for score, more in zip(before, added, strict=True)]
            one, other = top_two_law(before, rate, law), top_two_law(after, rate, law)
            worst = max(worst, largest_ratio(one, other))

    assert 0.9 * epsilon < worst <= epsilon + 1e-12


@pytest.mark.statistical
def test_replacing_a_unit_needs_twice_the_noise(entropy: SeededEntropy) -> None:
    """Replaced units reveal at most epsilon; with the rate of monotonic scores they would not.

    The worst log-ratio is ln(2 sqrt(e) - 1) = 0.83 at the right rate and ln(2 e - 1) = 1.49 at the
    other; the auditor falls short of each by about 0.25, give or take 0.04.
    """
    tables = declare({"A": 3}, rows=3, each=3), declare({"B": 3}, rows=3, each=3)
    right = neighbour_draws(tables, Neighbours.REPLACE, entropy)
    wrong = neighbour_draws(tables, Neighbours.ADD_REMOVE, entropy)

    assert 0.3 < audit(*right) <= 1
    assert audit(*wrong) > 1


MOVED: Final = (
    "COUNT(*)",
    "COUNT(cost)",
    "COUNT(DISTINCT pid)",
    "COUNT(*) FILTER (WHERE age > 40)",
    "SUM(age)",
    "SUM(cost)",
    "SUM(-price)",
    "SUM(age - 60)",
)
FALLING: Final = ("SUM(cost)", "SUM(-price)", "SUM(age - 60)")
LIMITS: Final = (Limits(1, 1, unique=True), Limits(1, 1), Limits(3, 2), Limits(4, 4), Limits(6, 1))


@pytest.fixture
def rng(entropy: SeededEntropy) -> np.random.Generator:
    """Return random choices that depend on the run's seed."""
    return np.random.default_rng(int(entropy.words(1)[0]))


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_no_unit_moves_a_score_further_than_planned(
    limits: Limits, neighbours: Neighbours, rng: np.random.Generator
) -> None:
    """In 200 neighboring pairs for each limit, every score changes within its bounds.

    Added units decrease no count and no sum of nonnegative numbers.
    """
    people = draw_worlds(rng, 200, limits)
    after = change_one(people, neighbours, limits, rng)
    tables = declare_worlds(people, limits, rng), declare_worlds(after, limits, rng)
    curator = Curator([tables[0]], budget=Budget(100), neighbours=neighbours)
    engines = [DuckDB(Catalog([table]), salt="grain") for table in tables]
    for statistic in MOVED:
        plan = plan_of(
            curator, f"SELECT world, ward, {statistic} AS n FROM visits GROUP BY world, ward"
        )
        one, other = (
            unseal(engine.run(plan.measurement, Hold(0, SHARE))).groups for engine in engines
        )
        groups = one.keys() | other.keys()
        moved = [one.get(group, (0,))[0] - other.get(group, (0,))[0] for group in groups]
        moves = score_change(only_total(plan), plan.contribution, neighbours)
        grid = only_total(plan).grid
        unit = 1 if grid is None else grid.step

        assert moves.low <= min(moved) * unit, statistic
        assert moves.high >= max(moved) * unit, statistic
        assert moves.low == 0 or neighbours is Neighbours.REPLACE or statistic in FALLING


@pytest.mark.parametrize(
    ("statistic", "low", "high"),
    [
        ("COUNT(*)", 0, 3),
        ("COUNT(DISTINCT pid)", 0, 1),
        ("SUM(age)", 0, 297),
        ("SUM(-age)", -297, 0),
    ],
)
def test_some_unit_moves_a_score_as_far_as_planned(statistic: str, low: int, high: int) -> None:
    """The bounds are tight: a person with seven rows, all at a bound, attains them."""
    old = declare({"A": 7}, rows=3, each=7, age=99)
    text = f"SELECT ward, {statistic} AS n FROM visits GROUP BY ward"
    curator = Curator([old], budget=Budget(100))
    plan = plan_of(curator, text)
    moved = unseal(read(curator, plan)).groups[("A",)][0]  # without this person the table is empty
    moves = score_change(only_total(plan), plan.contribution, Neighbours.ADD_REMOVE)
    replaced = score_change(only_total(plan), plan.contribution, Neighbours.REPLACE)

    assert [low, high] == [moves.low, moves.high]
    assert moved in (low, high)
    assert moved
    assert [low - high, high - low] == [replaced.low, replaced.high]


# The best of several queries.


def count_ward(ward: str) -> str:
    return f"SELECT COUNT(*) AS n FROM visits WHERE ward = '{ward}'"


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_without_noise_the_best_candidate_is_chosen(budget: Budget, neighbours: Neighbours) -> None:
    """At a huge epsilon, the candidate with the largest count or sum is chosen."""
    curator = Curator([declare(COUNTS)], budget=budget, neighbours=neighbours)
    visits = curator.table("visits")
    mixed: dict[str, Score] = {
        "count": visits.agg(n=count()),
        "sum": "SELECT SUM(cost) AS s FROM visits",
        "units": visits.agg(n=count_units()),
        "ages": "SELECT SUM(age) AS s FROM visits",
    }

    assert "D" == curator.choose(list("ABCD"), count_ward, share="1/8").value
    assert "ages" == curator.choose(mixed, mixed, share="1/8").value
    assert "sum" == curator.choose(["count", "sum", "units"], mixed, share="1/8").value


def test_a_choice_is_paid_once_and_then_free() -> None:
    """Many candidates cost one share, in one ledger entry; the same choice again is free."""
    curator = Curator([declare(COUNTS)], budget=SMALL["gaussian"])
    first = curator.choose(list("ABCDE"), count_ward, share="1/8")
    again = curator.choose(list("ABCDE"), count_ward, share="1/8")
    other = curator.choose(list("ABCD"), count_ward, share="1/8")

    assert (False, True, False) == (first.reused, again.reused, other.reused)
    assert (first.value, first.receipt) == (again.value, again.receipt)
    assert (Fraction(1, 8), Fraction(0)) == (first.cost.share, again.cost.share)
    assert 2 == len(list(curator.ledger.entries()))
    assert first.regret == again.regret
    assert repr(first.value) in str(first)
    curator.ledger.verify()


@pytest.mark.statistical
@pytest.mark.parametrize("accounting", SMALL)
def test_a_candidate_is_chosen_by_the_stated_law(accounting: str, entropy: SeededEntropy) -> None:
    """Choices fit the distribution for sensitivity 2, and would expose a rate 1.5 times off."""
    curator = Curator([declare({"A": 9, "B": 7, "C": 5}, rows=2)], budget=SMALL[accounting])
    plans = [plan_of(curator, count_ward(ward)) for ward in "ABC"]
    granted = curator.ledger.filter.loss_of(Share.floor("1/2"))
    contest = plan_candidates(plans, curator.neighbours, granted)
    sealed = [read(curator, plan) for plan in plans]
    law = flip_law if accounting == "pure" else gumbel_law
    rate = float(contest.selector.epsilon) / 2
    draws = [choose_candidate(sealed, contest, entropy) for _ in range(6_000)]

    assert chi_square_p(draws, law([9, 7, 5], rate)) > ALPHA
    assert chi_square_p(draws, law([9, 7, 5], rate * 1.5)) < ALPHA
    assert chi_square_p(draws, law([9, 7, 5], rate / 1.5)) < ALPHA


def test_scores_share_one_scale() -> None:
    """A count and a sum of up to 99 per row are compared with the noise of the larger."""
    curator = Curator([declare(COUNTS, rows=2)], budget=SMALL["pure"])
    plans = [plan_of(curator, f"SELECT {what} FROM visits") for what in ("COUNT(*)", "SUM(age)")]
    contest = plan_candidates(plans, Neighbours.ADD_REMOVE, PureLoss(1))
    replaced = plan_candidates(plans, Neighbours.REPLACE, PureLoss(1))

    assert (Fraction(1), True) == (contest.step, contest.is_exact)
    assert Fraction(1, 198) == contest.selector.rate
    assert Fraction(1, 396) == replaced.selector.rate
    assert pytest.approx(198 * math.log(2 / 0.05)) == contest.regret()


def test_fine_sums_are_rounded_to_fit() -> None:
    """Sums on a grid of 2^-40 are compared in steps of 2^-30 of one unit's largest change."""
    curator = Curator([declare(COUNTS)], budget=SMALL["pure"])
    plans = [plan_of(curator, "SELECT SUM(cost) FROM visits")]
    contest = plan_candidates(plans, Neighbours.ADD_REMOVE, PureLoss(1))

    assert not contest.is_exact
    assert Fraction(100, 2**30) == contest.step
    assert 2**30 == 2 * contest.selector.sensitivity


@given(
    value=st.fractions(-(10**6), 10**6),
    step=st.fractions("1/1000", 1000),
    low=st.fractions(-100, 0),
    high=st.fractions(0, 100),
    part=st.fractions(0, 1),
)
def test_rounding_keeps_moves_within_whole_steps(
    value: Fraction, step: Fraction, low: Fraction, high: Fraction, part: Fraction
) -> None:
    """A value that changes within [low, high] changes within the next whole steps once rounded."""
    moved = value + low + part * (high - low)
    change = round_to_steps(moved, step) - round_to_steps(value, step)

    assert math.floor(low / step) <= change <= math.ceil(high / step)


BAD_CHOICES: Final[dict[str, tuple[Any, Any]]] = {
    "no candidates": ([], count_ward),
    "text for a list": ("AB", count_ward),
    "numbers": ([1, 2], count_ward),
    "twice the same": (["A", "A"], count_ward),
    "too many": ([str(place) for place in range(1_001)], count_ward),
    "missing score": (["A", "B"], {"A": "SELECT COUNT(*) FROM visits"}),
    "two numbers": (["A"], lambda _: "SELECT COUNT(*), SUM(age) FROM visits"),
    "a mean": (["A"], lambda _: "SELECT AVG(age) FROM visits"),
    "arithmetic": (["A"], lambda _: "SELECT 2 * COUNT(*) FROM visits"),
    "groups": (["A"], lambda _: "SELECT COUNT(*) FROM visits GROUP BY ward"),
    "having": (["A"], lambda _: "SELECT COUNT(*) FROM visits HAVING COUNT(*) > 3"),
    "unknown column": (["A"], lambda _: "SELECT COUNT(*) FROM visits WHERE rank = 1"),
    "no question": (["A"], lambda _: "DROP TABLE visits"),
}


@pytest.mark.parametrize("case", BAD_CHOICES)
def test_a_refused_choice_spends_nothing(case: str) -> None:
    """Invalid candidates and scores are refused before any charge."""
    curator = Curator([declare(COUNTS)], budget=SMALL["pure"])
    candidates, score = BAD_CHOICES[case]
    with pytest.raises((BadDeclaration, Refusal)):
        curator.choose(candidates, score, share="1/8")

    assert [] == list(curator.ledger.entries())


@pytest.mark.statistical
def test_a_choice_gives_away_at_most_epsilon(entropy: SeededEntropy) -> None:
    """One person's rows change the choice by at most epsilon, and most of it is detected."""
    outputs = []
    for table in (declare({}, rows=3), declare({"A": 7}, rows=3, each=7)):
        curator = Curator([table], budget=Budget(1))
        plans = [plan_of(curator, count_ward(ward)) for ward in "AB"]
        contest = plan_candidates(plans, curator.neighbours, PureLoss(1))
        sealed = [read(curator, plan) for plan in plans]
        outputs.append(np.array([choose_candidate(sealed, contest, entropy) for _ in range(MANY)]))

    assert 0.4 < audit(*outputs) <= 1
