"""Two curators that differ in one person, for attacks that compare their outputs."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from confide.curator import Curator
from confide.declare import Budget, Column, PublicTable, Table
from confide.errors import ConfideError
from confide.ledger import QueryIdentity
from confide.loss import Share
from confide.query.sql import read_sql
from confide.release.unseal import unseal

__all__ = ["LARGE_BUDGET", "open_one", "outcome", "totals_of"]

LARGE_BUDGET: Final = Budget(10**9, 1e-9)

Rows = Sequence[Mapping[str, Any]]


def open_one(
    rows: Rows,
    columns: Mapping[str, Column],
    *,
    schema: pa.Schema | None = None,
    budget: Budget = LARGE_BUDGET,
    public: tuple[PublicTable, ...] = (),
    **limits: Any,
) -> Curator:
    """Return a curator over these rows, whose unit is ``who``."""
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    declared = Table("p", table, unit="who", columns=columns, **limits)
    return Curator([declared, *public], budget=budget)


def outcome(curator: Curator, text: str, epsilon: float = 1) -> tuple[str, ...]:
    """Return an answer's shape or a refusal's text, which must not depend on rows."""
    try:
        answer = curator.sql(text, epsilon=epsilon, fresh=True)
    except ConfideError as refusal:
        return type(refusal).__name__, str(refusal)
    keys = () if answer.plan.failure else tuple(map(str, answer.totals.groups))
    return ("answered", *answer.columns, str(answer.cost), str(answer.plan.noise), *keys)


def totals_of(curator: Curator, text: str) -> dict[Any, tuple[int, ...]]:
    """Return the exact totals of an answer, which only a test may read."""
    share = Share.floor("1%")
    plan = curator._planner.plan(read_sql(text, curator.names), share)
    paid = curator.ledger.reserve(QueryIdentity(text, "", ""), share)
    return unseal(curator._engine.run(plan.measurement, paid)).groups
