"""Every asking method of a curator on trial.

`METHODS` names them all; a test compares it with the class, so that no new method is forgotten.
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

WHOLE: Final = "the whole way"
OVER: Final = 9.0

Ask = Callable[[Curator], Sequence[float]]
Trial = tuple[str, Ask]
"""What is asked, in words, and the numbers that come back."""

WITHOUT_DATA: Final = frozenset({"as_analyst", "register_estimator", "table"})
"""Methods that return nothing, or nothing but a way to ask."""


def method_cases(sides: NeighboringCurators, samples: int, *, epsilon: float) -> Iterator[Case]:
    """Yield a case for each asking method, with so many outputs of each side."""
    table = next(iter(sides.curators[0].catalog.private.values()))
    for name, make in {**METHODS, **_statistics()}.items():
        made = make(table, epsilon)
        if made is None:
            continue
        subject, ask = f"{name}: {made[0]}", made[1]
        yield Case(subject, sides.pair, _trying(sides, subject, ask, samples, epsilon))
    for name, show in TEXTS.items():
        yield Case(name, sides.pair, _comparing(sides, name, show, table, epsilon))


def _trying(
    sides: NeighboringCurators, subject: str, ask: Ask, samples: int, epsilon: float
) -> Callable[[float], Finding]:
    def run(false_alarms: float) -> Finding:
        first, second = (_attempt(curator, ask) for curator in sides.curators)
        if isinstance(first, str) or isinstance(second, str):
            return compare_texts(subject, sides.pair, str(first), str(second))
        if len(first) != len(second):
            note = "returns more numbers on one side than on the other"
            return Finding(subject, sides.pair, WHOLE, Verdict.CONVICTED, note=note)
        case = sample_case(
            subject,
            sides.pair,
            WHOLE,
            claim=claim_for(sides.curators[0], _share(sides.curators[0], epsilon)),
            draw=lambda count: (
                _draw(sides.curators[0], ask, count),
                _draw(sides.curators[1], ask, count),
            ),
            samples=samples,
        )
        return case.run(false_alarms)

    return run


def _comparing(
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


def _attempt(curator: Curator, ask: Ask) -> Sequence[float] | str:
    try:
        return ask(curator)
    except Refusal as refusal:
        return f"refused: {refusal}"
    except MissingPackage as missing:
        return f"not tried: {missing}"


def _draw(curator: Curator, ask: Ask, number: int) -> Outputs:
    return np.array([list(ask(curator)) for _ in range(number)], dtype=np.float64)


def _share(curator: Curator, epsilon: float) -> Any:
    """Return the share that an answer of this epsilon takes, by asking for its price."""
    table = next(iter(curator.catalog.private.values()))
    return curator.preview(count_all(table), epsilon=epsilon).cost.share


def _numbers(answer: Answer) -> list[float]:
    """Return every number of an answer, its intervals included."""
    shown = [*answer.rows, *answer.interval_rows()]
    values = [value for row in shown for value in row.values()]
    return [float(value) for value in values if isinstance(value, int | float)]


def _try_sql(table: Table, epsilon: float) -> Trial:
    text = count_all(table)
    return text, lambda curator: _numbers(curator.sql(text, epsilon=epsilon, fresh=True))


def _try_selection(table: Table, epsilon: float) -> Trial | None:
    key = key_column(table)
    if key is None:
        return None
    name, values = key
    text = f'SELECT "{name}" FROM "{table.name}" GROUP BY 1 ORDER BY COUNT(*) DESC LIMIT 1'  # noqa: S608

    def ask(curator: Curator) -> list[float]:
        (row,) = curator.sql(text, epsilon=epsilon, fresh=True).rows
        return [float(values.index(row[name]))]

    return text, ask


def _try_ask(table: Table, epsilon: float) -> Trial:
    def ask(curator: Curator) -> list[float]:
        question = curator.table(table.name).agg(n=count())
        return _numbers(curator.ask(question, epsilon=epsilon, fresh=True))

    return "a count, made in Python", ask


def _try_kept(table: Table, epsilon: float) -> Trial:
    text = count_all(table)

    def ask(curator: Curator) -> list[float]:
        curator.sql(text, epsilon=epsilon, fresh=True)
        kept = curator.kept(text)
        return [] if kept is None else _numbers(kept)

    return "a count that was asked before", ask


def _try_recall(table: Table, epsilon: float) -> Trial:
    text = count_all(table)

    def ask(curator: Curator) -> list[float]:
        entry = curator.sql(text, epsilon=epsilon, fresh=True).receipt.entry
        told = curator.recall(entry)
        return [] if told is None else _numbers(told)

    return "a count, by its entry in the ledger", ask


def _try_choose(table: Table, epsilon: float) -> Trial:
    scores = make_scores(table)
    names = list(scores)

    def ask(curator: Curator) -> list[float]:
        chosen = curator.choose(names, scores, epsilon=epsilon, fresh=True)
        return [float(names.index(chosen.value))]

    return f"one of {len(names)} counts", ask


def _try_watch(
    ask_all: Callable[[Curator, int, float, Sequence[str]], Iterator[bool]],
) -> Callable[[Table, float], Trial]:
    """Return a trial of a watch: all that a session tells, until it is over."""

    def make(table: Table, epsilon: float) -> Trial:
        scores = [count_all(table)] * 2
        threshold = count_usual(table) + table.max_rows_per_unit

        def ask(curator: Curator) -> list[float]:
            told = [OVER] * len(scores)
            with suppress(BudgetExceeded):
                for place, is_above in enumerate(ask_all(curator, threshold, epsilon, scores)):
                    told[place] = float(is_above)
            return told

        return f"a session of {len(scores)} counts", ask

    return make


def _watch(
    curator: Curator, threshold: int, epsilon: float, scores: Sequence[str]
) -> Iterator[bool]:
    session = curator.watch(threshold, epsilon=epsilon)
    return (session.ask(text) for text in scores)


def _keep_watch(
    curator: Curator, threshold: int, epsilon: float, scores: Sequence[str]
) -> Iterator[bool]:
    session = curator.keep_watch(threshold, epsilon=epsilon)
    return (session.ask(text) for text in scores)


def _resume_watch(
    curator: Curator, threshold: int, epsilon: float, scores: Sequence[str]
) -> Iterator[bool]:
    entry = curator.keep_watch(threshold, epsilon=epsilon).receipt.entry
    return (curator.resume_watch(entry).ask(text) for text in scores)


def _try_release(table: Table, epsilon: float) -> Trial:
    texts = list(make_scores(table).values())

    def ask(curator: Curator) -> list[float]:
        answers = curator.release(texts, epsilon=epsilon, fresh=True)
        return [number for answer in answers for number in _numbers(answer)]

    return f"{len(texts)} counts in one batch", ask


def _try_statistic(spec: StatisticSpec[Any]) -> Callable[[Table, float], Trial | None]:
    """Return a trial of a statistic, where a table has what it needs: all its numbers."""

    def make(table: Table, epsilon: float) -> Trial | None:
        arguments = spec.audit(table)
        if arguments is None:
            return None
        given = {field.name: getattr(arguments, field.name) for field in spec.fields}

        def ask(curator: Curator) -> list[float]:
            # A statistic that is registered at run time has no method of its own.
            method = getattr(curator, spec.name, partial(curator.estimate, spec.name))
            return _estimated(method(**given, epsilon=epsilon, fresh=True))

        return spec.trial, ask

    return make


def _try_by_name(table: Table, epsilon: float) -> Trial | None:
    """Return a trial of the method that takes the name of a statistic."""
    made = _try_statistic(MEAN)(table, epsilon)
    if made is None:
        return None
    given = {"column": table.names_of(Int, Float)[0], "epsilon": epsilon, "fresh": True}
    return "a mean, by its name", lambda curator: _estimated(
        curator.estimate(MEAN.name, table.name, **given)
    )


def _estimated(found: EstimateResult) -> list[float]:
    """Return all finite numbers of an estimate."""
    told = [*found.numbers, *found.standard_errors, found.p_value]
    return [float(number) for number in told if number is not None and math.isfinite(number)]


def _statistics() -> dict[str, Callable[[Table, float], Trial | None]]:
    """Return how each statistic is tried that is registered now."""
    return {name: _try_statistic(spec) for name, spec in STATISTICS.items()}


METHODS: Final[dict[str, Callable[[Table, float], Trial | None]]] = {
    "sql": _try_sql,
    "sql, selection": _try_selection,
    "ask": _try_ask,
    "kept": _try_kept,
    "recall": _try_recall,
    "choose": _try_choose,
    "watch": _try_watch(_watch),
    "keep_watch": _try_watch(_keep_watch),
    "resume_watch": _try_watch(_resume_watch),
    "release": _try_release,
    "estimate": _try_by_name,
    **_statistics(),
}
"""How each method that reads rows is tried; what follows a comma tells two trials apart."""

TEXTS: Final[dict[str, Callable[[Curator, str, float], str]]] = {
    "preview": lambda curator, text, epsilon: str(curator.preview(text, epsilon=epsilon)),
    "explain": lambda curator, text, epsilon: str(curator.explain(text, epsilon=epsilon)),
    "cost": lambda curator, _, epsilon: str(curator.cost(Share.floor(epsilon / 100))),
}
"""Methods that read no row: what they say must be the same word for word."""
