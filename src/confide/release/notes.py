"""Notes on contribution limits and errors of quantiles, for answers, previews, and explanations."""

import math
from collections.abc import Iterator
from typing import assert_never

from confide.plan import ContributionBounds, Plan
from confide.plan.contribution import contribution_bounds
from confide.query.canonical import Writer
from confide.query.tree import Join, PerUnit, Scan, Source

__all__ = ["notes_of"]


def notes_of(plan: Plan) -> tuple[str, ...]:
    """Return sentences on contribution limits and errors of quantiles; they depend on no row."""
    return (*_limit_notes(plan), *_quantile_notes(plan))


def _limit_notes(plan: Plan) -> Iterator[str]:
    """Yield a sentence for each place in the query where rows of a unit may be dropped."""
    limits = plan.contribution
    if limits.needs_bounding:
        groups = f" in at most {_count(limits.groups, 'group')}" if plan.query.keys else ""
        place = " that pass WHERE" if plan.where is not None else ""
        clauses = [name for name, is_used in _later(plan) if is_used]
        later = f"before {' and '.join(clauses)}" if clauses else ""
        yield _limit_note(f"{_rows(limits)}{groups}", place, later)
    for step in _per_unit_steps(plan.query.source):
        inner = contribution_bounds(step.source, plan.catalog, plan.facts)
        if inner.needs_bounding:
            place = " that pass the subquery's WHERE" if step.where is not None else ""
            yield _limit_note(_rows(inner), place, "before they are aggregated")


def _quantile_notes(plan: Plan) -> Iterator[str]:
    """Yield a sentence on the quantile that needs the most rows, if there is a quantile."""
    quantiles = [
        (plan.quantiles[index], statistic.aggregate)
        for statistic in plan.statistics
        for index in statistic.quantiles
    ]
    if not quantiles:
        return
    worst, aggregate = max(quantiles, key=lambda pair: pair[0].rows_needed)
    name, count = Writer((), first_alias="").write(aggregate), len(plan.quantiles)
    others = f", which it affects most of {count} quantiles," if count > 1 else ""
    place = "a group" if plan.query.keys else "a table"
    yield (
        f"Noise moves the rank of {name}{others} by up to {_round(worst.rank_error)} rows (95% "
        f"confidence). In {place} with fewer than about {_round(worst.rows_needed)} rows, its "
        f"value is unreliable; with fewer than about {_round(worst.rows_for_ends)}, its interval "
        "often ends at a declared bound. A larger share lowers these numbers."
    )


def _round(rows: float) -> str:
    """Return a number of rows as an integer, rounded up to two significant digits."""
    step = 10 ** max(0, math.floor(math.log10(max(rows, 1.0))) - 1)
    return f"{math.ceil(rows / step) * step:,}"


def _per_unit_steps(source: Source) -> Iterator[PerUnit]:
    """Yield the subqueries that produce one row per unit."""
    match source:
        case PerUnit():
            yield source
        case Join(left=left, right=right):
            yield from _per_unit_steps(left)
            yield from _per_unit_steps(right)
        case Scan():
            return
        case _:
            assert_never(source)


def _limit_note(limit: str, place: str, later: str) -> str:
    comma = ", " if later else ""
    return (
        f"Each unit contributes at most {limit}. If it has more, a keyed hash chooses among its "
        f"rows{place}{comma}{later}, and the others are dropped."
    )


def _later(plan: Plan) -> Iterator[tuple[str, bool]]:
    """Yield the clauses that apply after rows are dropped, and whether the query has each."""
    yield "GROUP BY", bool(plan.query.keys)
    filters = [total.where for total in plan.totals]
    filters += [histogram.where for histogram in plan.histograms]
    yield "FILTER", any(condition is not None for condition in filters)


def _rows(limits: ContributionBounds) -> str:
    return _count(limits.rows, "row")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number > 1 else ''}"
