"""`Curator`: the public entry point, built from a planner and an executor.

The planner turns a query into a plan, without reading rows. The executor charges for a plan, lets
the engine read rows, and commits the noisy result to the ledger.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

from confide.declare import Budget, Catalog, Limits, PublicTable, Table
from confide.declare.budget import CostArgs, PriceArgs, show_keywords
from confide.engines import open_engine
from confide.errors import BadDeclaration, UnsupportedQuery
from confide.exact import Number, percent
from confide.execution.batch import Batch, choose_among, pair_candidates, release_batch
from confide.execution.confirmation import confirmation_note, find_max_share
from confide.execution.executor import (
    Executor,
    QueryOptions,
    Settlement,
    find_ledger,
    settlement_of,
)
from confide.execution.planner import Planner, QueryPayable, Score, TopKeysPayable
from confide.execution.pricing import ZERO_COST, Price, Pricing
from confide.execution.watch_methods import WatchMethods
from confide.lazy import lazy_module
from confide.ledger import Ledger
from confide.loss import Share
from confide.mechanisms import Neighbours
from confide.query import Names, TableQuery, split_query
from confide.release import Answer, Cost, NoisyMeasurement
from confide.release.answer import GROUP_SIZE
from confide.release.explain import Explanation
from confide.release.payable import QueryPlan
from confide.release.selection import Choice
from confide.statistics import StatisticMethods

if TYPE_CHECKING:
    from confide.declare import Declaration, toml
else:
    toml = lazy_module("confide.declare.toml")

__all__ = [
    "BudgetState",
    "Curator",
    "Preview",
    "open_declared",
    "open_declared_ledger",
    "paid_only",
]

REUSE_NOTE: Final = "This query was answered before, and the same answer is free."
EPSILON_NOTE: Final = (
    "The epsilons do not add up, because under Gaussian accounting epsilon grows roughly with the "
    "square root of the share."
)
"""Printed if the epsilons of the spent and the remaining budget add up to more than the total."""
SUM_TOLERANCE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class BudgetState:
    """A snapshot of the budget."""

    total: Cost
    spent: Cost
    left: Cost

    def __str__(self) -> str:
        left = f"{percent(self.left.share, down=True)} of the budget left"
        line = f"{self.spent} spent; {left} (epsilon {self.left.epsilon:.4g})"
        added = self.spent.epsilon + self.left.epsilon
        adds_up = abs(added - self.total.epsilon) <= SUM_TOLERANCE * self.total.epsilon
        return line if adds_up else f"{line}. {EPSILON_NOTE}"


@dataclass(frozen=True, slots=True)
class Preview:
    """The predicted cost and error of an answer, computed without reading data or spending budget.

    ``errors`` gives the half-width of the intervals of each noisy column, or None if it depends on
    the data. ``group_errors`` gives instead, for such columns, the half-width in a group of 1,000
    rows. If a query selects the most frequent keys, ``regret`` is how far the count of a selected
    key may fall short of the best. These bounds hold at ``confidence``, which defaults to 95%.

    If ``reused`` is true, the caller can have a stored answer for free; cost and errors are then
    those of a new answer. ``left`` is the remaining budget of the caller, or None if it is unknown.
    """

    cost: Cost
    errors: dict[str, float | None]
    mechanisms: tuple[str, ...]
    regret: float | None = None
    reused: bool = False
    confidence: float = 0.95
    notes: tuple[str, ...] = ()
    group_errors: Mapping[str, float] = field(default_factory=dict)
    left: Cost | None = None

    @property
    def group_size(self) -> int:
        """The number of rows of the group to which ``group_errors`` apply."""
        return GROUP_SIZE

    @property
    def affordable(self) -> int | None:
        """About how many such queries the remaining budget pays for, or None if it is unknown."""
        if self.left is None or not self.cost.share:
            return None
        return self.left.share // self.cost.share

    def __str__(self) -> str:
        subject = "A new answer, with `fresh=True`," if self.reused else "This query"
        cost = f"{subject} would cost {self.cost}."
        first = " ".join([*([REUSE_NOTE] if self.reused else []), cost, *self._describe_left()])
        return "\n".join((first, *self._describe_errors(), *self.notes))

    def _describe_left(self) -> Iterator[str]:
        if self.left is None or self.affordable is None:
            return
        count, queries = self.affordable, "query" if self.affordable == 1 else "queries"
        left = f"{percent(self.left.share, down=True)} of the budget left"
        yield f"About {count:,} such {queries} left ({left})."

    def _describe_errors(self) -> Iterator[str]:
        level = f"{100 * self.confidence:.12g}% confidence"
        if self.regret is not None:
            within = f"within {self.regret:.4g} of the best"
            yield f"The count of each selected key is {within} ({level})."
        if self.errors:
            described = ", ".join(map(self._describe_error, self.errors))
            yield f"Margins of error ({level}): {described}."

    def _describe_error(self, name: str) -> str:
        width, size = self.errors[name], self.group_errors.get(name)
        if width is not None:
            return f"{name} ±{width:.4g}"
        if size is not None:
            return f"{name} about ±{size:.4g} for a group of {GROUP_SIZE:,} rows"
        return f"{name} depends on the data"


@show_keywords
class Curator(StatisticMethods, WatchMethods):
    """Answers queries on private data with noise, and charges them to one budget."""

    def __init__(
        self,
        tables: Iterable[Table | PublicTable],
        *,
        budget: Budget,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        ledger: Ledger | str | Path | None = None,
        limits: Limits | None = None,
        anchor: str | Path | None = None,
    ) -> None:
        self.catalog = Catalog(tables)
        if not isinstance(budget, Budget):
            raise BadDeclaration(
                f"`budget` must be a `cf.Budget`, such as `cf.Budget(epsilon=1.0)`; got {budget!r}."
            )
        self.neighbours = Neighbours.of(neighbours)
        self.terms = budget
        self.ledger = find_ledger(
            ledger, budget, self.catalog, limits, anchor, neighbours=self.neighbours
        )
        self._engine = open_engine(self.catalog, salt=self.ledger.salt)
        pricing = Pricing(budget, self.ledger)
        self._planner = Planner(self.catalog, self._engine.facts, self.neighbours, pricing)
        fingerprint = f"{self.catalog.fingerprint()}:{self.neighbours}"
        self._executor = Executor(self.ledger, self._engine, self._planner, fingerprint)
        self.analyst = self.purpose = ""

    @staticmethod
    def open(
        path: str | Path = "confide.toml", analyst: str | None = None, *, purpose: str = ""
    ) -> "Curator":
        """Return the curator that a declaration file describes, with its ledger and its limits.

        With ``analyst``, the curator keeps to the limits of that analyst, as `as_analyst` does.
        Paths in the file are relative to it.

        Raises:
            BadDeclaration: the file cannot be read or does not fit the data, or does not declare
                the analyst.
        """
        curator = open_declared(toml.read_toml(path))
        return curator if analyst is None else curator.as_analyst(analyst, purpose=purpose)

    def as_analyst(self, name: str, *, purpose: str = "") -> "Curator":
        """Return the same curator within the limits of an analyst and a purpose.

        All analysts spend from the same budget, so they gain nothing by cooperating. A stored
        answer is free for the analyst who paid for it, and for everyone if the limits set
        ``reuse="all"``.
        """
        if name == "":
            raise BadDeclaration(
                "An analyst must have a name. To query without one, use the curator itself."
            )
        self.ledger.limits.admit(name, purpose)
        limited = copy(self)
        limited.analyst, limited.purpose = name, purpose
        executor = replace(self._executor, analyst=name, purpose=purpose)
        limited._executor = executor  # noqa: SLF001  # of its own copy
        return limited

    def sql(
        self,
        text: str,
        *,
        fresh: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[PriceArgs],
    ) -> Answer:
        """Return the answer to a SQL query.

        Set the cost by exactly one of ``epsilon=`` (for this answer alone), ``share=`` (a fraction
        of the budget), and ``error=`` (the half-width wanted for every column, at ``confidence=``).
        A query that was answered before returns the stored answer for free, unless ``fresh`` is set
        or the stored answer's error is larger than ``error=``. The same ``key`` returns the same
        answer and is charged once, even after a failure. A cost above the owner's
        ``max_share_per_query`` needs ``confirm=True``.
        """
        options = QueryOptions.of(fresh=fresh, key=key, confirm=confirm)
        return self._answer(text, Price.of(want), options)

    def preview(self, query: str | TableQuery, **want: Unpack[PriceArgs]) -> Preview:
        """Return the predicted cost and error of an answer, without spending budget.

        It reveals nothing about the ledger except whether a stored answer is free for the caller,
        and the caller's remaining budget.
        """
        payable, price = self._payable(query), Price.of(want)
        share, level = self._planner.share_for(payable, price), price.level
        cost, reused = self.cost(share), self._is_stored(payable, price)
        plan, limit = payable.at(share), find_max_share(self._planner.pricing, self.analyst)
        needs_confirmation = share.fraction > limit and not reused
        notes = (*plan.notes, confirmation_note(limit)) if needs_confirmation else plan.notes
        return Preview(
            cost,
            plan.errors(level),
            plan.mechanisms,
            plan.regret(level),
            reused,
            level,
            notes,
            plan.group_errors(level),
            self.budget.left,
        )

    def table(self, name: str) -> TableQuery:
        """Return a query on a table, to be built step by step and then run."""
        return TableQuery(self.names.table(name).name, self)

    def ask(
        self,
        query: TableQuery,
        *,
        fresh: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[PriceArgs],
    ) -> Answer:
        """Return the answer to a query built in Python; the price arguments are those of `sql`."""
        options = QueryOptions.of(fresh=fresh, key=key, confirm=confirm)
        return self._answer(query, Price.of(want), options)

    def find_answer(self, query: str | TableQuery) -> Answer | None:
        """Return the stored answer that is free for the caller, or None."""
        payable = self._payable(query)
        found = self._executor.match(payable, None, QueryOptions()).settlement
        return None if found is None else _restore_answer(self._executor, payable, found)

    def answer(self, entry: int) -> Answer | None:
        """Return the stored answer of a ledger entry, for free.

        Return None if the entry has no answer, if it paid for something other than one query, or if
        the declaration has changed since.
        """
        kept = self.ledger.answer(entry)
        if kept is None:
            return None
        question = self.ledger.history(1, before=entry + 1)[0].question
        if question.fingerprint != self._executor.fingerprint or question.text.startswith("{"):
            return None
        settlement = Settlement(kept.noisy, kept.receipt, ZERO_COST, reused=True)
        return _restore_answer(self._executor, self._payable(question.text), settlement)

    def cost(self, share: Share) -> Cost:
        """Return the cost of a share of the budget, with its epsilon at the budget's delta."""
        return self._planner.pricing.cost(share)

    @property
    def names(self) -> Names:
        """The tables, columns, and types that a query can use."""
        return self._planner.names

    def choose(
        self,
        candidates: Iterable[str],
        score: Callable[[str], Score] | Mapping[str, Score],
        *,
        fresh: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[CostArgs],
    ) -> Choice:
        """Return the candidate with approximately the highest score, without the score.

        ``score`` gives the query of each candidate: one COUNT or SUM, as SQL or built in Python.
        The cost is ``epsilon=`` or ``share=``, and does not depend on the number of candidates.
        """
        price = Price.of(want)
        options = QueryOptions.of(fresh=fresh, key=key, confirm=confirm)
        return choose_among(self._executor, pair_candidates(candidates, score), price, options)

    def release(
        self,
        queries: Iterable[str | TableQuery],
        *,
        weights: Sequence[Number] | None = None,
        fresh: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[CostArgs],
    ) -> tuple[Answer, ...]:
        """Return the answers to several queries that are planned together and charged once.

        The cost, ``epsilon=`` or ``share=``, is divided to minimize the weighted sum of squared
        errors. Queries whose error depends on the data get equal shares.
        """
        if isinstance(queries, str) or not isinstance(queries, Iterable):
            raise UnsupportedQuery(
                "`queries` must be a list of queries. To release a single query, write `[query]`."
            )
        batch = Batch.of([self._planner.read(query) for query in queries], weights)
        price = Price.of(want)
        options = QueryOptions.of(fresh=fresh, key=key, confirm=confirm)
        return release_batch(self._executor, batch, price, options)

    def explain(self, query: str | TableQuery, **want: Unpack[PriceArgs]) -> Explanation:
        """Return an explanation of a query, without reading rows or spending budget."""
        payable, price = self._payable(query), Price.of(want)
        share, level = self._planner.share_for(payable, price), price.level
        cost, reused = self.cost(share), self._is_stored(payable, price)
        return payable.at(share).explain(cost, reused=reused, level=level)

    @property
    def budget(self) -> BudgetState:
        """The total, spent, and remaining budget of the curator or of its analyst."""
        allowed = self.ledger.allowance(self.analyst, self.purpose)
        return BudgetState(
            total=self.cost(allowed.total),
            spent=self.cost(allowed.spent),
            left=self.cost(allowed.left),
        )

    def _payable(self, statement: str | TableQuery) -> QueryPayable | TopKeysPayable:
        return self._planner.payable(split_query(self._planner.read(statement)))

    def _is_stored(self, payable: QueryPayable | TopKeysPayable, price: Price) -> bool:
        """Return whether a stored answer would be returned for free."""
        return self._executor.match(payable, price, QueryOptions()).settlement is not None

    def _answer(self, statement: str | TableQuery, price: Price, options: QueryOptions) -> Answer:
        query = self._planner.read(statement)  # declared names only, every type known
        split = split_query(query)  # measurement below the cut, public program above
        payable = self._planner.payable(split)  # no price yet
        plan, noisy, settlement = self._executor.execute(payable, price, options)
        return _make_answer(self._executor, payable, plan, noisy, settlement)


def paid_only(curator: Curator) -> Curator:
    """Return the same curator, limited to answers that are already paid for.

    Its methods raise `NotPaid` for anything that would have to be charged.
    """
    limited = copy(curator)
    limited._executor = replace(curator._executor, is_paid_only=True)  # noqa: SLF001  # of a copy
    return limited


@dataclass(frozen=True, slots=True)
class _StoredAnswers:
    """The stored answers to a query, used to combine a new answer with them."""

    executor: Executor
    payable: QueryPayable | TopKeysPayable

    def stored(self) -> tuple[Answer, ...]:
        """Return the stored answers that are free for the caller."""
        identity = self.executor.identify_text(self.payable.identity)
        found = self.executor.ledger.answers(identity)
        return tuple(
            _restore_answer(self.executor, self.payable, settlement_of(stored)) for stored in found
        )


def _restore_answer(
    executor: Executor, payable: QueryPayable | TopKeysPayable, settlement: Settlement
) -> Answer:
    """Return the `Answer` of a stored settlement: the same values, at no cost."""
    plan = payable.at(settlement.receipt.share)
    return _make_answer(executor, payable, plan, plan.decode(settlement.payload), settlement)


def _make_answer(
    executor: Executor,
    payable: QueryPayable | TopKeysPayable,
    plan: QueryPlan,
    noisy: NoisyMeasurement,
    settlement: Settlement,
) -> Answer:
    """Return the `Answer` of a settled charge, linked to the stored answers to the same query."""
    return Answer(
        plan.shown,
        noisy,
        settlement.cost,
        settlement.receipt,
        settlement.reused,
        _StoredAnswers(executor, payable),
    )


def open_declared(declaration: "Declaration") -> Curator:
    """Return the curator of a declaration."""
    return Curator(
        [*declaration.tables, *declaration.public_tables],
        budget=declaration.budget,
        neighbours=declaration.neighbours,
        ledger=declaration.ledger,
        limits=declaration.limits,
        anchor=declaration.anchor,
    )


def open_declared_ledger(declaration: "Declaration") -> Ledger:
    """Return the ledger of a declaration, without reading data."""
    return find_ledger(
        declaration.ledger,
        declaration.budget,
        Catalog([*declaration.tables, *declaration.public_tables]),
        declaration.limits,
        declaration.anchor,
        neighbours=declaration.neighbours,
    )
