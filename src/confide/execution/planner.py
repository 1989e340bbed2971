"""`Planner`: reads queries and plans them at a price, without reading a private row.

The curator uses it for previews, and the executor for answers. A query is read into a tree, split
at its aggregates, and becomes a payable. At a share of the budget, the payable becomes a plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Final

from confide.declare import Catalog, Kind
from confide.engines.protocol import Facts
from confide.errors import UnsupportedQuery
from confide.execution.pricing import Price, Pricing
from confide.loss import Loss, Share
from confide.mechanisms import Neighbours
from confide.plan import Measurement, Plan, make_measurement, make_plan
from confide.plan.selection import check_score, check_selection, plan_top_keys
from confide.query import Names, Query, Split, TableQuery, canonical, is_selection, split_query
from confide.query.sql import read_sql
from confide.release import check_program
from confide.release.payable import Payable, PricedQuery, PricedTopKeys, QueryPlan

__all__ = ["Planner", "QueryPayable", "Score", "TopKeysPayable"]

PARSE_CACHE_SIZE: Final = 64

Score = str | TableQuery
"""A query for one COUNT or SUM, without groups."""


@dataclass(frozen=True, slots=True)
class Planner:
    """The steps from a query to a plan.

    They need only the declaration, facts about public tables, and the budget's terms. ``names``
    are the tables and columns that queries can use.
    """

    catalog: Catalog
    facts: Facts
    neighbours: Neighbours
    pricing: Pricing
    names: Names = field(init=False)
    _read_sql: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = Names(self.catalog, self.kinds)
        object.__setattr__(self, "names", names)
        # Parsing depends only on the SQL and the declared names, so repeated SQL can be cached.
        object.__setattr__(
            self, "_read_sql", lru_cache(PARSE_CACHE_SIZE)(partial(read_sql, names=names))
        )

    @property
    def kinds(self) -> Mapping[str, Mapping[str, Kind]]:
        """The column types of the public tables."""
        return self.facts.kinds

    def read(self, statement: str | TableQuery) -> Query:
        """Return a statement as a tree with only declared names and known types."""
        if isinstance(statement, str):
            query: Query = self._read_sql(statement)
            return query
        if not isinstance(statement, TableQuery):
            raise UnsupportedQuery(
                "A query must be a string with SQL, or start with `curator.table(name)`; got "
                f"{type(statement).__name__}."
            )
        return statement.build(self.names)

    def read_score(self, score: Score) -> Query:
        """Return a score as a tree, or refuse a query that is not one COUNT or SUM."""
        query = self.read(score)
        check_score(query)
        return query

    def payable(self, split: Split) -> "QueryPayable | TopKeysPayable":
        """Return the payable of a query, without a price."""
        kind = TopKeysPayable if is_selection(split.query) else QueryPayable
        return kind(self, split)

    def share_for(self, payable: Payable[Any], price: Price) -> Share:
        """Return the share of the budget that a payable costs at a price."""
        if price.error is None or not isinstance(payable, QueryPayable | TopKeysPayable):
            return self.pricing.share_for_cost(price)
        return self.pricing.share(price, lambda share: payable.at(share).errors(price.confidence))

    def measure(self, split: Split) -> Measurement:
        """Return the measurement of a query, or refuse the query."""
        check_program(split.program)
        may_select = bool(self.pricing.ledger.opening.delta_pot)
        return make_measurement(split, self.catalog, self.facts, may_select=may_select)

    def calibrate(self, measurement: Measurement, share: Share) -> Plan:
        """Return the plan of a measurement at a share of the budget."""
        return make_plan(
            measurement,
            self.neighbours,
            self.pricing.noise_loss(share),
            failure=self.pricing.failure(share),
            granted=self.pricing.loss(share),
        )

    def plan(self, query: Query, share: Share) -> Plan:
        """Return the plan of a query at a share of the budget."""
        return self.calibrate(self.measure(split_query(query)), share)

    def loss(self, share: Share) -> Loss:
        """Return the loss that a share allows, in the filter's own unit."""
        return self.pricing.loss(share)


@dataclass(slots=True)
class QueryPayable:
    """The totals and quantiles of a query; the measurement is made once, on first use."""

    planner: Planner
    split: Split
    _measurement: Measurement | None = None

    @property
    def identity(self) -> str:
        """The canonical text of the query."""
        return canonical(self.split.query)

    def at(self, share: Share) -> QueryPlan:
        """Return the plan for a share of the budget."""
        if self._measurement is None:
            self._measurement = self.planner.measure(self.split)
        return PricedQuery(self.planner.calibrate(self._measurement, share))


@dataclass(frozen=True, slots=True)
class TopKeysPayable:
    """The most frequent keys of a query, chosen by private selection."""

    planner: Planner
    split: Split

    @property
    def identity(self) -> str:
        """The canonical text of the query."""
        return canonical(self.split.query)

    def at(self, share: Share) -> QueryPlan:
        """Return the plan for a share of the budget."""
        planner, query = self.planner, self.split.query
        check_selection(query, planner.catalog, planner.facts)
        plan = planner.plan(query, share)
        return PricedTopKeys(plan_top_keys(plan, planner.neighbours, planner.loss(share)))
