"""Audit cases for SQL queries: every aggregate and kind of key that a declaration allows.

Most cases run a query once, from SQL to answer, on each of two neighboring datasets. Then they draw
noise for the engine's totals many times, with the same function as the curator: only the noise
differs between answers on one dataset. Other cases compare output that has no noise.
"""

# ruff: noqa: S608  # names are declared ones, and only the curator's own parser reads the SQL

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from confide.aggregates import AGGREGATES
from confide.audit.claims import Claim, claim_of
from confide.audit.evidence import Case, Finding, Verdict, sample_case
from confide.audit.projections import Outputs
from confide.audit.worlds import TEXT_VALUES, Person, make_pair, write_world
from confide.curator import Curator
from confide.declare import (
    Bool,
    Budget,
    Category,
    Column,
    Float,
    Int,
    PublicTable,
    Row,
    Table,
    Text,
)
from confide.engines import Engine, Sealed, open_engine
from confide.errors import Refusal
from confide.ledger import QueryIdentity
from confide.loss import ApproximateLoss, Share
from confide.mechanisms import Neighbours
from confide.noise import SYSTEM
from confide.plan import Plan, SelectedKeys
from confide.release import Answer, NoisyMeasurement, add_noise
from confide.release.formatting import plain

__all__ = [
    "NeighboringCurators",
    "Parts",
    "claim_for",
    "compare_texts",
    "count_all",
    "epsilon_for",
    "key_column",
    "make_queries",
    "make_scores",
    "open_sides",
    "query_cases",
]


@dataclass(frozen=True, slots=True)
class Parts:
    """The names of a table's columns, grouped by the queries that they allow.

    Numbers are Int or Float columns, keys are Category or Bool columns, and flags are Bool columns.
    The others are Text columns.
    """

    numbers: tuple[str, ...]
    keys: tuple[str, ...]
    texts: tuple[str, ...]
    flags: tuple[str, ...]

    @classmethod
    def of(cls, table: Table) -> "Parts":
        """Return the columns of a table, grouped."""
        kinds: list[tuple[type[Column], ...]] = [(Int, Float), (Category, Bool), (Text,), (Bool,)]
        return cls(*(table.names_of(*some) for some in kinds))

    def quoted(self) -> "Parts":
        """Return the same names, quoted for SQL."""
        every = (self.numbers, self.keys, self.texts, self.flags)
        return Parts(*(tuple(f'"{name}"' for name in names) for names in every))


HANDWRITTEN: Final = frozenset(
    {"COUNT", "COUNT_UNITS", "SUM", "AVG", "VAR_SAMP", "STDDEV", "QUANTILE_CONT"}
)
"""Aggregates with handwritten queries, and STDDEV, which releases the same totals as VAR_SAMP."""


def make_queries(tables: Sequence[Table]) -> list[str]:
    """Return queries about private tables, alone and in joins of adjacent ones by unit."""
    queries = [text for table in tables for text in _table_queries(table)]
    joined = [table for table in tables if not isinstance(table.unit, Row)]
    for first, second in pairwise(joined):
        pair = (
            f'"{first.name}" AS a JOIN "{second.name}" AS b ON a."{first.unit}" = b."{second.unit}"'
        )
        queries.append(f"SELECT COUNT(*) AS n FROM {pair}")
    return queries


def _table_queries(table: Table) -> Iterator[str]:
    parts, name = Parts.of(table).quoted(), f'"{table.name}"'
    yield count_all(table)
    for number in parts.numbers[:2]:
        yield f"SELECT SUM({number}) AS s FROM {name}"
        yield f"SELECT AVG({number}) AS m, COUNT({number}) AS n FROM {name}"
    for number in parts.numbers[:1]:
        yield f"SELECT VAR_SAMP({number}) AS v FROM {name}"
        yield f"SELECT SUM({number} * {number} + 1) AS s FROM {name} WHERE {number} IS NOT NULL"
        yield f"SELECT MEDIAN({number}) AS q FROM {name}"
        for level in ("0.1", "0.9"):
            yield f"SELECT QUANTILE_CONT({number}, {level}) AS q FROM {name}"
    yield from _other_aggregates(parts, name)
    for key in parts.keys[:2]:
        yield f"SELECT {key}, COUNT(*) AS n FROM {name} GROUP BY {key}"
    for key in parts.keys[:1]:
        yield f"SELECT {key} FROM {name} GROUP BY {key} ORDER BY COUNT(*) DESC LIMIT 1"
        for number in parts.numbers[:1]:
            yield f"SELECT {key}, SUM({number}) AS s, COUNT(*) AS n FROM {name} GROUP BY {key}"
            yield f"SELECT {key}, MEDIAN({number}) AS q FROM {name} GROUP BY {key}"
    for text in parts.texts[:1]:
        yield f"SELECT {text}, COUNT(*) AS n FROM {name} GROUP BY {text}"
    if not isinstance(table.unit, Row):
        yield from _unit_queries(table, parts)


def _other_aggregates(parts: Parts, name: str) -> Iterator[str]:
    """Yield a query for each aggregate not in `HANDWRITTEN`, if the table has numbers."""
    if not parts.numbers:
        return
    x, y = (parts.numbers * 2)[:2]
    for function in AGGREGATES.values():
        if function.name not in HANDWRITTEN:
            yield f"SELECT {function.patterns[0].fill(x=x, y=y, q='0.5')} AS a FROM {name}"


def _unit_queries(table: Table, parts: Parts) -> Iterator[str]:
    name, unit = f'"{table.name}"', f'"{table.unit}"'
    for key in parts.keys[:1]:
        yield f"SELECT {key}, COUNT(DISTINCT {unit}) AS n FROM {name} GROUP BY {key}"
    for number in parts.numbers[:1]:
        inner = f"SELECT {unit}, SUM({number}) AS s FROM {name} GROUP BY {unit}"
        yield f"SELECT AVG(s) AS m FROM ({inner}) AS each_unit"


def make_scores(table: Table) -> dict[str, str]:
    """Return the queries of two counts, by name.

    An outlier changes only one of them, unless the table has no numbers.
    """
    everything = count_all(table)
    for name, column in table.columns.items():
        if isinstance(column, Int | Float):
            middle = float((column.low + column.high) / 2)
            return {
                "upper half": f'{everything} WHERE "{name}" >= {middle!r}',
                "lower half": f'{everything} WHERE "{name}" < {middle!r}',
            }
    return {"all rows": everything, "all rows again": f"{everything} WHERE 1 = 1"}


def count_all(table: Table) -> str:
    """Return the query for the number of rows."""
    return f'SELECT COUNT(*) AS n FROM "{table.name}"'


def key_column(table: Table) -> tuple[str, tuple[str | int | None, ...]] | None:
    """Return the name and the keys of the first column with declared keys, if there is one."""
    for name, column in table.columns.items():
        if isinstance(column, Category):
            return name, column.values
        if isinstance(column, Bool):
            return name, (False, True)
    return None


QUERY_CAPACITY: Final = 10_000
"""The budget of an audit's curators, in multiples of one query's epsilon."""

REDRAWN_NOISE: Final = "noise redrawn"


@dataclass(frozen=True, slots=True)
class NeighboringCurators:
    """Two curators on neighboring datasets, and engines on the same rows.

    ``pair`` describes the people in which the datasets differ.
    """

    pair: str
    curators: tuple[Curator, Curator]
    engines: tuple[Engine, Engine]


def open_sides(
    tables: Sequence[Table | PublicTable],
    budget: Budget,
    neighbours: Neighbours,
    people: tuple[Person | None, Person],
    folder: Path,
) -> NeighboringCurators:
    """Return curators on two synthetic datasets that differ in one person.

    Their budgets have the delta and the accounting of ``budget``, and a larger epsilon, so that all
    queries fit.
    """
    private = [table for table in tables if isinstance(table, Table)]
    worlds = make_pair(private, *people)
    terms = Budget(QUERY_CAPACITY * epsilon_for(budget), budget.delta, accounting=budget.accounting)
    written = [write_world(one, tables, folder / str(side)) for side, one in enumerate(worlds)]
    first, second = (Curator(one, budget=terms, neighbours=neighbours) for one in written)
    engines = (
        open_engine(first.catalog, salt=first.ledger.salt),
        open_engine(second.catalog, salt=second.ledger.salt),
    )
    return NeighboringCurators(_name_pair(people), (first, second), engines)


def _name_pair(people: tuple[Person | None, Person]) -> str:
    first, second = people
    return str(second) if first is None else f"{first}; or {second}"


def epsilon_for(budget: Budget) -> float:
    """Return the epsilon of each query.

    It is so large that a few hundred outputs can disprove a claim that is too small. With a delta,
    the noise is Gaussian, and an epsilon of 9 corresponds to a mu of about 2.
    """
    return 9.0 if budget.delta and budget.accounting != "pure" else 3.0


def query_cases(sides: NeighboringCurators, samples: int, *, epsilon: float) -> Iterator[Case]:
    """Yield a case for each query of `make_queries`."""
    private = list(sides.curators[0].catalog.private.values())
    for text in make_queries(private):
        yield Case(text, sides.pair, _make_run(sides, text, samples, epsilon))


def _make_run(
    sides: NeighboringCurators, text: str, samples: int, epsilon: float
) -> Callable[[float], Finding]:
    """Return the test of a query: by samples, or by comparison if there is no noise to draw."""

    def run(false_alarms: float) -> Finding:
        first, second = (_attempt(curator, text, epsilon) for curator in sides.curators)
        if not isinstance(first, Answer) or not isinstance(second, Answer):
            return compare_texts(text, sides.pair, str(first), str(second))
        if _shape(first) != _shape(second):
            return compare_texts(text, sides.pair, _shape(first), _shape(second))
        if not first.plan.totals and not first.plan.quantiles:
            return compare_texts(text, sides.pair, "selected keys", "selected keys")
        plan = first.plan
        samplers = [
            _make_sampler(engine, curator, plan)
            for engine, curator in zip(sides.engines, sides.curators, strict=True)
        ]
        case = sample_case(
            text,
            sides.pair,
            REDRAWN_NOISE,
            claim=claim_for(sides.curators[0], first.cost.share, first.plan),
            draw=lambda count: (samplers[0](count), samplers[1](count)),
            samples=samples,
        )
        return case.run(false_alarms)

    return run


def _attempt(curator: Curator, text: str, epsilon: float) -> Answer | str:
    try:
        return curator.sql(text, epsilon=epsilon, fresh=True)
    except Refusal as refusal:
        return f"refused: {refusal}"


def _shape(answer: Answer) -> str:
    """Return the parts of an answer that must not depend on rows, as a string."""
    keys = "earned" if isinstance(answer.plan.keys, SelectedKeys) else answer.plan.keys.groups
    return f"{answer.columns} {answer.cost} {answer.plan.noise} {keys}"


def compare_texts(subject: str, pair: str, first: str, second: str) -> Finding:
    """Return the finding about output without noise, which must be the same on both sides."""
    verdict = Verdict.ALIKE if first == second else Verdict.CONVICTED
    note = plain(first)[:200] if first == second else "differs between the sides"
    return Finding(subject, pair, "compared", verdict, note=note)


def claim_for(curator: Curator, share: Any, plan: Plan | None = None) -> Claim:
    """Return the privacy claim of an answer that costs this share of the budget."""
    loss = curator.ledger.opening.loss_of(Share.floor(share))
    failure = plan.failure if plan is not None else 0
    return claim_of(ApproximateLoss(loss, failure) if failure else loss)


def _make_sampler(engine: Engine, curator: Curator, plan: Plan) -> Callable[[int], Outputs]:
    """Return a function that draws outputs: totals that are read once, plus the plan's noise."""
    hold = curator.ledger.reserve(QueryIdentity("audit", "", ""), Share.floor("1/1000"))
    sealed: Sealed = engine.run(plan.measurement, hold)

    def draw(count: int) -> Outputs:
        return np.array([_encode(add_noise(sealed, plan, SYSTEM), plan) for _ in range(count)])

    return draw


def _encode(noisy: NoisyMeasurement, plan: Plan) -> list[float]:
    """Return the released values as numbers in a fixed order.

    With undeclared keys, they are the number of released keys and the totals of each string that
    the synthetic rows can have. NaN means that a string was not released as a key.
    """
    steps = dict(zip(noisy.groups, noisy.steps, strict=True))
    if not isinstance(plan.keys, SelectedKeys):
        cells = [float(cell) for row in noisy.cells for chosen in row for cell in chosen]
        return [float(step) for row in noisy.steps for step in row] + cells
    absent = (float("nan"),) * len(plan.totals)
    named = [value for text in TEXT_VALUES for value in steps.get((text,), absent)]
    return [float(len(steps)), *named]
