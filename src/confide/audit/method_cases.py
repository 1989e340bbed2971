"""Audit cases for every query method of a curator.

A trial calls a method on one dataset and returns the numbers in its result. `METHODS` lists the
trials, and `TEXTS` the methods whose output has no noise. A test compares them with the class, so
that no new method is forgotten.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import numpy as np

from confide.audit.evidence import Case, Finding, Verdict, sample_case
from confide.audit.projections import Outputs
from confide.audit.query_cases import (
    NeighboringCurators,
    claim_for,
    compare_texts,
    count_all,
    key_column,
    make_scores,
)
from confide.audit.worlds import count_usual
from confide.curator import Curator
from confide.declare import Float, Int, Table
from confide.errors import BudgetExceeded, MissingPackage, Refusal
from confide.loss import Share
from confide.query import count
from confide.release import Answer
from confide.statistics.estimate import EstimateResult
from confide.statistics.moments import MEAN
from confide.statistics.registry import STATISTICS
from confide.statistics.spec import StatisticSpec

__all__ = ["METHODS", "WITHOUT_DATA", "method_cases"]

WHOLE_OUTPUT: Final = "complete call"
NOT_ANSWERED: Final = 9.0
"""The number for a query after the end of a session."""

RunQuery = Callable[[Curator], Sequence[float]]
Trial = tuple[str, RunQuery]
"""A description of a query, and a function that runs it and returns its numbers."""

WITHOUT_DATA: Final = frozenset({"as_analyst", "open", "register_estimator", "table"})
"""Methods that read no data: they return nothing or a curator, or only build a query."""


def method_cases(sides: NeighboringCurators, samples: int, *, epsilon: float) -> Iterator[Case]:
    """Yield a case for each query method, with ``samples`` outputs per side if they have noise."""
    table = next(iter(sides.curators[0].catalog.private.values()))
    for name, make in {**METHODS, **_statistic_trials()}.items():
        made = make(table, epsilon)
        if made is None:
            continue
        subject, run_query = f"{name}: {made[0]}", made[1]
        yield Case(subject, sides.pair, _trial_runner(sides, subject, run_query, samples, epsilon))
    for name, show in TEXTS.items():
        yield Case(name, sides.pair, _comparison_runner(sides, name, show, table, epsilon))


def _trial_runner(
    sides: NeighboringCurators, subject: str, run_query: RunQuery, samples: int, epsilon: float
) -> Callable[[float], Finding]:
    def run(false_alarms: float) -> Finding:
        first, second = (_run_once(curator, run_query) for curator in sides.curators)
        if isinstance(first, str) or isinstance(second, str):
            return compare_texts(subject, sides.pair, str(first), str(second))
        if len(first) != len(second):
            note = "returns more numbers on one side than on the other"
            return Finding(subject, sides.pair, WHOLE_OUTPUT, Verdict.CONVICTED, note=note)
        case = sample_case(
            subject,
            sides.pair,
            WHOLE_OUTPUT,
            claim=claim_for(sides.curators[0], _share(sides.curators[0], epsilon)),
            draw=lambda count: (
                _draw(sides.curators[0], run_query, count),
                _draw(sides.curators[1], run_query, count),
            ),
            samples=samples,
        )
        return case.run(false_alarms)

    return run


def _comparison_runner(
    sides: NeighboringCurators,
    name: str,
    show: Callable[[Curator, str, float], str],
    table: Table,
    epsilon: float,
) -> Callable[[float], Finding]:
    def run(_: float) -> Finding:
        first, second = (show(one, count_all(table), epsilon) for one in sides.curators)
        return compare_texts(name, sides.pair, first, second)

    return run


def _run_once(curator: Curator, run_query: RunQuery) -> Sequence[float] | str:
    try:
        return run_query(curator)
    except Refusal as refusal:
        return f"refused: {refusal}"
    except MissingPackage as missing:
        return f"not tried: {missing}"


def _draw(curator: Curator, run_query: RunQuery, number: int) -> Outputs:
    return np.array([list(run_query(curator)) for _ in range(number)], dtype=np.float64)


def _share(curator: Curator, epsilon: float) -> Any:
    """Return the share of the budget that a count with this epsilon costs."""
    table = next(iter(curator.catalog.private.values()))
    return curator.preview(count_all(table), epsilon=epsilon).cost.share


def _numbers(answer: Answer) -> list[float]:
    """Return every number of an answer, including its intervals."""
    shown = [*answer.rows, *answer.interval_rows()]
    values = [value for row in shown for value in row.values()]
    return [float(value) for value in values if isinstance(value, int | float)]


def _sql_trial(table: Table, epsilon: float) -> Trial:
    text = count_all(table)
    return text, lambda curator: _numbers(curator.sql(text, epsilon=epsilon, fresh=True))


def _selection_trial(table: Table, epsilon: float) -> Trial | None:
    key = key_column(table)
    if key is None:
        return None
    name, values = key
    text = f'SELECT "{name}" FROM "{table.name}" GROUP BY 1 ORDER BY COUNT(*) DESC LIMIT 1'  # noqa: S608

    def run_query(curator: Curator) -> list[float]:
        (row,) = curator.sql(text, epsilon=epsilon, fresh=True).rows
        return [float(values.index(row[name]))]

    return text, run_query


def _ask_trial(table: Table, epsilon: float) -> Trial:
    def run_query(curator: Curator) -> list[float]:
        question = curator.table(table.name).agg(n=count())
        return _numbers(curator.ask(question, epsilon=epsilon, fresh=True))

    return "a count, built in Python", run_query


def _find_answer_trial(table: Table, epsilon: float) -> Trial:
    text = count_all(table)

    def run_query(curator: Curator) -> list[float]:
        curator.sql(text, epsilon=epsilon, fresh=True)
        found = curator.find_answer(text)
        return [] if found is None else _numbers(found)

    return "a stored count, by its query", run_query


def _answer_trial(table: Table, epsilon: float) -> Trial:
    text = count_all(table)

    def run_query(curator: Curator) -> list[float]:
        entry = curator.sql(text, epsilon=epsilon, fresh=True).receipt.entry
        found = curator.answer(entry)
        return [] if found is None else _numbers(found)

    return "a stored count, by its ledger entry", run_query


def _choose_trial(table: Table, epsilon: float) -> Trial:
    scores = make_scores(table)
    names = list(scores)

    def run_query(curator: Curator) -> list[float]:
        chosen = curator.choose(names, scores, epsilon=epsilon, fresh=True)
        return [float(names.index(chosen.value))]

    return f"one of {len(names)} counts", run_query


def _watch_trial(
    ask_all: Callable[[Curator, int, float, Sequence[str]], Iterator[bool]],
) -> Callable[[Table, float], Trial]:
    """Return a function that makes the trial of a method that opens a watch.

    The trial asks the same count twice, or until the session ends. ``ask_all`` takes a curator, a
    threshold, an epsilon, and the queries, and yields the results.
    """

    def make(table: Table, epsilon: float) -> Trial:
        scores = [count_all(table)] * 2
        threshold = count_usual(table) + table.max_rows_per_unit

        def run_query(curator: Curator) -> list[float]:
            results = [NOT_ANSWERED] * len(scores)
            with suppress(BudgetExceeded):
                for index, is_above in enumerate(ask_all(curator, threshold, epsilon, scores)):
                    results[index] = float(is_above)
            return results

        return f"a session of {len(scores)} counts", run_query

    return make


def _watch(
    curator: Curator, threshold: int, epsilon: float, scores: Sequence[str]
) -> Iterator[bool]:
    session = curator.watch(threshold, epsilon=epsilon)
    return (session.ask(text) for text in scores)


def _durable_watch(
    curator: Curator, threshold: int, epsilon: float, scores: Sequence[str]
) -> Iterator[bool]:
    session = curator.durable_watch(threshold, epsilon=epsilon)
    return (session.ask(text) for text in scores)


def _resume_watch(
    curator: Curator, threshold: int, epsilon: float, scores: Sequence[str]
) -> Iterator[bool]:
    entry = curator.durable_watch(threshold, epsilon=epsilon).receipt.entry
    return (curator.resume_watch(entry).ask(text) for text in scores)


def _release_trial(table: Table, epsilon: float) -> Trial:
    texts = list(make_scores(table).values())

    def run_query(curator: Curator) -> list[float]:
        answers = curator.release(texts, epsilon=epsilon, fresh=True)
        return [number for answer in answers for number in _numbers(answer)]

    return f"{len(texts)} counts in one batch", run_query


def _statistic_trial(spec: StatisticSpec[Any]) -> Callable[[Table, float], Trial | None]:
    """Return a function that makes a statistic's trial, or None without suitable columns."""

    def make(table: Table, epsilon: float) -> Trial | None:
        arguments = spec.audit(table)
        if arguments is None:
            return None
        given = {field.name: getattr(arguments, field.name) for field in spec.fields}

        def run_query(curator: Curator) -> list[float]:
            # A statistic registered at run time has no method of its own.
            method = getattr(curator, spec.name, partial(curator.estimate, spec.name))
            return _finite_numbers(method(**given, epsilon=epsilon, fresh=True))

        return spec.trial, run_query

    return make


def _by_name_trial(table: Table, epsilon: float) -> Trial | None:
    """Return a trial of `estimate`, which takes a statistic's name."""
    made = _statistic_trial(MEAN)(table, epsilon)
    if made is None:
        return None
    given = {"column": table.names_of(Int, Float)[0], "epsilon": epsilon, "fresh": True}
    return "a mean, by its name", lambda curator: _finite_numbers(
        curator.estimate(MEAN.name, table.name, **given)
    )


def _finite_numbers(found: EstimateResult) -> list[float]:
    """Return the finite ones of an estimate's values, standard errors, and p-value."""
    results = [*found.numbers, *found.standard_errors, found.p_value]
    return [float(number) for number in results if number is not None and math.isfinite(number)]


def _statistic_trials() -> dict[str, Callable[[Table, float], Trial | None]]:
    """Return the trials of the statistics registered now."""
    return {name: _statistic_trial(spec) for name, spec in STATISTICS.items()}


METHODS: Final[dict[str, Callable[[Table, float], Trial | None]]] = {
    "sql": _sql_trial,
    "sql, selection": _selection_trial,
    "ask": _ask_trial,
    "find_answer": _find_answer_trial,
    "answer": _answer_trial,
    "choose": _choose_trial,
    "watch": _watch_trial(_watch),
    "durable_watch": _watch_trial(_durable_watch),
    "resume_watch": _watch_trial(_resume_watch),
    "release": _release_trial,
    "estimate": _by_name_trial,
    **_statistic_trials(),
}
"""Trials of each method that reads rows; the part after a comma distinguishes variants."""

TEXTS: Final[dict[str, Callable[[Curator, str, float], str]]] = {
    "preview": lambda curator, text, epsilon: str(curator.preview(text, epsilon=epsilon)),
    "explain": lambda curator, text, epsilon: str(curator.explain(text, epsilon=epsilon)),
    "cost": lambda curator, _, epsilon: str(curator.cost(Share.floor(epsilon / 100))),
}
"""Methods that read no rows; their output must be identical on both sides."""
