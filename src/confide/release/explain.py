"""Explanations of a query in sentences, for `Curator.explain`; no row is read for them."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Final, assert_never

from confide.aggregates import function_of
from confide.declare import Row
from confide.expressions.tree import Expression
from confide.plan import DeclaredKeys, Plan, PlannedAggregate, SelectedKeys
from confide.plan.contribution import unit_of
from confide.plan.range_analysis import range_of
from confide.plan.selection import TopKeysPlan
from confide.query.canonical import Writer
from confide.query.tree import Join, PerUnit, Scan, Source
from confide.release import Cost, predict_errors, predict_group_errors
from confide.release.answer import GROUP_SIZE
from confide.release.notes import notes_of

__all__ = ["Explanation", "explain_plan", "explain_selection"]

MECHANISMS: Final = {
    "Laplace": "Laplace noise",
    "KNorm": "joint noise, shaped by the changes that one row can cause (K-norm),",
    "Gaussian": "Gaussian noise",
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Sentences about a query; they do not depend on any row."""

    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def explain_plan(
    plan: Plan, cost: Cost, *, reused: bool = False, level: float = 0.95
) -> Explanation:
    """Return an explanation of what the query reads and sums, of its noise, and of its cost.

    ``level`` is the confidence level of expected errors. If ``reused``, a stored answer is free.
    """
    return Explanation(
        (
            _explain_source(plan),
            *notes_of(plan),
            *_explain_keys(plan),
            *(_explain_statistic(one, plan) for one in plan.statistics),
            *_explain_noise(plan),
            *_explain_errors(plan, level),
            *_explain_rest(plan),
            *_explain_cost(f"{cost}, charged before the first row is read", reused=reused),
        )
    )


def explain_selection(
    selection: TopKeysPlan, cost: Cost, *, reused: bool = False, level: float = 0.95
) -> Explanation:
    """Return an explanation of the choice of the most frequent keys and of its cost."""
    plan = selection.plan
    rounds = f"{selection.rounds} choice{'s' if selection.rounds > 1 else ''}"
    return Explanation(
        (
            _explain_source(plan),
            *notes_of(plan),
            f"It selects {selection.count:,} of {len(selection.groups):,} declared keys by "
            f"{rounds} of {type(selection.selector).__name__}, with a higher probability for keys "
            "with more rows. It releases no counts.",
            f"With {100 * level:.12g}% confidence, the count of each selected key is less than "
            f"{selection.regret(level):.4g} below the largest remaining count.",
            *_explain_cost(
                f"{cost}, for any number of keys, charged before the first row is read",
                reused=reused,
            ),
        )
    )


def _explain_cost(cost: str, *, reused: bool) -> Iterator[str]:
    """Yield the sentences about the cost of an answer; if ``reused``, a stored one is free."""
    if reused:
        yield "It was answered before, and the same answer is free."
        yield f"A new answer, with fresh=True, costs {cost}."
    else:
        yield f"It costs {cost}."


def _explain_source(plan: Plan) -> str:
    unit = unit_of(plan.query.source, plan.catalog)
    about = "every row is a different unit" if isinstance(unit, Row) else f"a unit is one {unit}"
    rows = "" if plan.where is None else f" where {_text(plan.where)}"
    return f"It reads {_describe_source(plan.query.source)}{rows}; {about}."


def _describe_source(source: Source) -> str:
    match source:
        case Scan(table=name):
            return name
        case PerUnit(source=inner):
            return f"one row per unit of {_describe_source(inner)}"
        case Join(left=left, right=right, public=is_public):
            other = _describe_source(right)
            how = f"the public table {other}" if is_public else f"{other} on the unit"
            return f"{_describe_source(left)} joined with {how}"
        case _:
            assert_never(source)


def _explain_keys(plan: Plan) -> Iterator[str]:
    if not plan.query.keys:
        return
    names = ", ".join(map(_text, plan.query.keys))
    match plan.keys:
        case DeclaredKeys(groups=groups):
            declared = prod(len(domain) for domain in plan.domains if domain is not None)
            allows = "the declaration allows" if len(groups) == declared else "WHERE allows"
            yield (
                f"The answer has every {names} that {allows}, {len(groups):,} "
                f"group{'s' if len(groups) > 1 else ''}, including those without rows."
            )
        case SelectedKeys(selection=selection):
            yield (
                f"The values of {names} are undeclared, so one is shown only if its number of "
                f"units, plus noise, is at least {selection.threshold:,}. This takes a quarter of "
                "the cost and a part of the delta that is set aside."
            )
        case _:
            assert_never(plan.keys)
    pairs = zip(plan.query.keys, plan.domains, strict=True)
    known = [_text(key) for key, domain in pairs if domain is not None and None not in domain]
    if known:
        yield f"Rows in which {' or '.join(known)} is NULL do not count in any group."


def _explain_statistic(statistic: PlannedAggregate, plan: Plan) -> str:
    aggregate = statistic.aggregate
    name = _text(aggregate)
    function = function_of(aggregate)
    ranges = [] if function.is_count else [_explain_range(x, plan) for x in aggregate.arguments]
    return f"{'; '.join([f'{name} {function.explain(aggregate)}', *ranges])}."


def _explain_range(argument: Expression, plan: Plan) -> str:
    found = range_of(argument, plan.ranges)
    low, high = map(_bound, (found.low, found.high))
    return f"values of {_text(argument)} are clipped to the range from {low} to {high}"


def _explain_noise(plan: Plan) -> Iterator[str]:
    if not plan.totals:
        return
    law = MECHANISMS[plan.noise.mechanism]
    count = len(plan.totals)
    totals = "the total" if count == 1 else f"the {count} totals"
    each = " of each group" if plan.query.keys else ""
    yield f"{law[0].upper()}{law[1:]} is added to {totals}{each}."


def _explain_errors(plan: Plan, level: float) -> Iterator[str]:
    found = predict_errors(plan, level)
    sizes = predict_group_errors(plan, level)
    known = [f"{name} ±{width:.4g}" for name, width in found.items() if width is not None]
    sized = [f"{name} about ±{width:.4g}" for name, width in sizes.items()]
    unknown = [name for name, width in found.items() if width is None and name not in sizes]
    at = f"at {100 * level:.12g}% confidence"
    if known:
        yield f"Margins of error {at}: {', '.join(known)}."
    if sized:
        group = f"group of {GROUP_SIZE:,} rows"
        yield f"Margins of error {at} for a {group}: {', '.join(sized)}."
    if unknown:
        yield f"The error of {_listed(unknown)} depends on the data. The answer has intervals."


def _explain_rest(plan: Plan) -> Iterator[str]:
    """Yield a sentence about the clauses that are applied to the noisy answer."""
    query = plan.query
    clauses = [
        ("HAVING", query.having is not None),
        ("ORDER BY", bool(query.order)),
        ("LIMIT", query.limit is not None),
    ]
    used = [word for word, is_used in clauses if is_used]
    if used:
        verbs = ("apply", "cost") if len(used) > 1 else ("applies", "costs")
        yield f"{_listed(used)} {verbs[0]} to the noisy answer and {verbs[1]} nothing."


def _listed(words: list[str]) -> str:
    if len(words) > 2:
        return f"{', '.join(words[:-1])}, and {words[-1]}"
    return " and ".join(words)


def _bound(end: int | float) -> str:
    return f"{end:,}" if isinstance(end, int) else f"{end:,.6g}"


def _text(expression: Expression) -> str:
    return Writer((), first_alias="").write(expression)
