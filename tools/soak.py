"""Run random queries on random neighboring databases, and compare exact totals with the plan.

Each round draws a neighboring relation, 200 pairs of small databases, and eight queries. It checks
whether any pair differs by more than the planned sensitivity. Even rounds also draw a declaration:
types, bounds, keys, and limits of two private tables, next to a public one. Odd rounds draw limits
for a table that has every type. Every tenth round also draws noise for queries on a random
declaration and tests it against their claims. The number of a round is enough to repeat it:

    python tools/soak.py --minutes 60
    python tools/soak.py --round 1234
"""

# ruff: noqa: TID251  # a round must be repeatable; it draws no noise that protects data

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from confide.audit import PAIRS, Verdict, epsilon_for, open_sides, query_cases
from confide.curator import Curator
from confide.declare import (
    Bool,
    Budget,
    Catalog,
    Category,
    Column,
    Date,
    Float,
    Int,
    Table,
    Text,
)
from confide.engines import DuckDB
from confide.errors import ConfideError, Refusal
from confide.mechanisms import Neighbours
from support.declarations import draw_schemas, draw_text, draw_two, fill
from support.grammar import draw_question
from support.people import Limits, change_one, declare_worlds, draw_worlds
from support.reach import WORLDS, Pair, passes

QUESTIONS: Final = 8
SALT: Final = "grain"
SHARES: Final = ("1", "1/100", "1/100000")
BUDGETS: Final = (Budget(100), Budget(100, 1e-6))
NOISE_INTERVAL: Final = 10
SAMPLES: Final = 400
FALSE_ALARMS: Final = 1e-9
COUNTS: Final[Counter[str]] = Counter()
"""The number of queries compared and refused."""


def main() -> int:
    """Run rounds until the time is over; return 1 if any round found a problem."""
    parser = argparse.ArgumentParser(description="ask random questions of random neighbours")
    parser.add_argument("--minutes", type=float, default=60, help="for how long")
    parser.add_argument("--round", type=int, help="this round alone")
    parser.add_argument("--first", type=int, help="the number of the first round")
    wanted = parser.parse_args()
    if wanted.round is not None:
        return report(run_round(wanted.round))
    first = wanted.first if wanted.first is not None else time.time_ns() // 10**9
    end, rounds, found = time.monotonic() + 60 * wanted.minutes, 0, 0
    while time.monotonic() < end:
        found += report(run_round(first + rounds))
        rounds += 1
    print(
        f"rounds {first} to {first + rounds - 1}: {COUNTS['compared'] * WORLDS:,} pairs compared, "
        f"{COUNTS['refused']:,} of {COUNTS.total():,} questions refused, {found} rounds failed"
    )
    return int(found > 0)


def report(problems: list[str]) -> int:
    """Print the problems of a round, and return 1 if there are any."""
    for problem in problems:
        print(problem, flush=True)
    return int(bool(problems))


def run_round(number: int) -> list[str]:
    """Return the problems found in a round."""
    rng = np.random.default_rng(number)
    compare = compare_totals if number % 2 else compare_declared
    problems = [f"round {number}: {problem}" for problem in compare(rng)]
    if number % NOISE_INTERVAL == 0:
        problems += [f"round {number}: {problem}" for problem in weigh_noise(rng)]
    return problems


def compare_totals(rng: np.random.Generator) -> list[str]:
    """Return the queries that fail, or whose exact totals differ by more than planned."""
    rows = int(rng.integers(1, 8))
    limits = Limits(rows, int(rng.integers(1, rows + 1)), unique=rows == 1 and rng.random() < 0.5)
    neighbours = list(Neighbours)[int(rng.integers(2))]
    budget = BUDGETS[int(rng.integers(2))]
    people = draw_worlds(rng, WORLDS, limits)
    before = declare_worlds(people, limits, rng)
    after = declare_worlds(change_one(people, neighbours, limits, rng), limits, rng)
    pair = Pair(
        Curator([before], budget=budget, neighbours=neighbours),
        DuckDB(Catalog([before]), salt=SALT),
        DuckDB(Catalog([after]), salt=SALT),
    )
    problems = []
    for _ in range(QUESTIONS):
        text = draw_question(rng)
        try:
            plan = pair.plan(text, str(rng.choice(SHARES)))
        except Refusal as refusal:
            problems.append(f"refused: {text}: {refusal}")
            continue
        COUNTS["compared"] += 1
        if not passes(plan, pair.compare(plan).values()):
            problems.append(f"moves too far under {limits}, {neighbours}: {text}")
    return problems


def compare_declared(rng: np.random.Generator) -> list[str]:
    """Return the queries on a random declaration that fail, or whose totals differ too much.

    Some queries do not fit every declaration, so a refusal is counted, but a fault is a problem.
    """
    schemas, neighbours = draw_schemas(rng), list(Neighbours)[int(rng.integers(2))]
    budget = BUDGETS[int(rng.integers(2))]
    before, after = (fill(schemas, one, rng) for one in draw_two(schemas, WORLDS, neighbours, rng))
    pair = Pair(
        Curator(before, budget=budget, neighbours=neighbours),
        DuckDB(Catalog(before), salt=SALT),
        DuckDB(Catalog(after), salt=SALT),
    )
    problems = []
    for _ in range(QUESTIONS):
        text = draw_text(schemas, rng, earned=budget.delta > 0)
        try:
            plan = pair.plan(text, str(rng.choice(SHARES)))
            is_correct = passes(plan, pair.compare(plan).values())
        except Refusal:
            COUNTS["refused"] += 1
            continue
        except ConfideError as error:
            is_correct, text = False, f"{text}: {error!r}"
        COUNTS["compared"] += 1
        if not is_correct:
            problems.append(f"moves too far, {neighbours}, {schemas}: {text}")
    return problems


def weigh_noise(rng: np.random.Generator) -> list[str]:
    """Return the queries on a random declaration whose noise disproves their claim."""
    table, neighbours = draw_declaration(rng), list(Neighbours)[int(rng.integers(2))]
    budget = BUDGETS[int(rng.integers(2))]
    people = PAIRS[neighbours][int(rng.integers(len(PAIRS[neighbours])))]
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        sides = open_sides([table], budget, neighbours, people, Path(folder))
        for case in query_cases(sides, SAMPLES, epsilon=epsilon_for(budget)):
            finding = case.run(FALSE_ALARMS)
            if finding.verdict is Verdict.CONVICTED:
                problems.append(f"disproved: {finding.subject} ({finding.pair}) of {table!r}")
    return problems


def draw_declaration(rng: np.random.Generator) -> Table:
    """Return a table with random columns and limits."""
    low = int(rng.integers(-1_000, 1_000))
    kinds: list[Column] = [
        Int(low, low + int(rng.integers(1, 10**6))),
        Float(low, low + float(rng.uniform(0.001, 1e6))),
        Float(0, 10, step=0.5),
        Category(["A", "B", None]),
        Bool(),
        Text(),
        Date("2020-01-01", "2020-12-31"),
    ]
    chosen = rng.permutation(len(kinds))[: int(rng.integers(1, len(kinds) + 1))]
    columns = {f"c{place}": kinds[place] for place in chosen}
    rows = int(rng.integers(1, 6))
    groups = int(rng.integers(1, rows + 1))
    return Table(
        "t",
        "t.csv",
        unit="pid",
        columns=columns,
        max_rows_per_unit=rows,
        max_groups_per_unit=groups,
    )


if __name__ == "__main__":
    raise SystemExit(main())
