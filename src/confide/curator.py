"""`Curator`: the public front, composed of a planner, an executor and the methods of both."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Unpack

from confide.declare import Budget, Catalog, Declaration, Limits, PublicTable, Table
from confide.declare.budget import CostArgs, PriceArgs, show_keywords
from confide.engines import open_engine
from confide.errors import BadDeclaration, UnsupportedQuery
from confide.exact import Number
from confide.execution.batch import Batch, choose_among, pair_candidates, release_batch
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
from confide.ledger import Ledger
from confide.loss import Share
from confide.mechanisms import Neighbours
from confide.query import Names, TableQuery
from confide.release import Answer, Cost, NoisyMeasurement
from confide.release.explain import Explanation
from confide.release.payable import QueryPlan
from confide.release.selection import Choice
from confide.statistics import StatisticMethods

__all__ = ["BudgetState", "Curator", "Preview", "open_declared", "paid_only"]

AGAIN: Final = "asked before: the same answer again is free; a new one, with fresh=True,"


@dataclass(frozen=True, slots=True)
class BudgetState:
    """The budget as it stands."""

    total: Cost
    spent: Cost
    left: Cost

    def __str__(self) -> str:
        return f"spent {self.spent}; left {self.left}"


@dataclass(frozen=True, slots=True)
class Preview:
    """What an answer would cost and how far off it would be; nothing was read or spent.

    ``errors`` are half-widths, and ``regret``, for chosen keys, is how far the count of one may
    fall short of the best, both at ``confidence``: 95 % unless another one was given.
    ``reused`` tells that whoever asks has an answer to the question already, which asking gives
    again for free; cost and errors are then those of a new one.
    """

    cost: Cost
    errors: dict[str, float | None]
    mechanisms: tuple[str, ...]
    regret: float | None = None
    reused: bool = False
    confidence: float = 0.95
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = f"{AGAIN} would cost {self.cost}" if self.reused else f"would cost {self.cost}"
        level = f"{100 * self.confidence:.12g} %"
        if self.regret is not None:
            within = f"{self.regret:.4g}"
            return self._noted(f"{said}; a chosen key is within {within} of the best, at {level}")
        widths = ", ".join(
            f"{name} +-{width:.4g}" if width is not None else f"{name} depends on the data"
            for name, width in self.errors.items()
        )
        return self._noted(f"{said}; {level} half-widths: {widths}")

    def _noted(self, line: str) -> str:
        return "\n".join((line, *self.notes))


@show_keywords
class Curator(StatisticMethods, WatchMethods):
    """Sits between the data and those who ask: answers with noise, from one budget."""

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
            raise BadDeclaration(f"budget must be such as Budget(epsilon=1.0), got {budget!r}")
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

    def as_analyst(self, name: str, *, purpose: str = "") -> "Curator":
        """Return the same curator within the limits of an analyst, and of a purpose.

        What every analyst spends comes from the one budget, so those who work together gain
        nothing. Stored answers are free for those who paid for them, and for all with the limits'
        ``reuse="all"``.
        """
        if name == "":
            raise BadDeclaration("an analyst needs a name; without one, ask the curator itself")
        self.ledger.limits.admit(name, purpose)
        limited = copy(self)
        limited.analyst, limited.purpose = name, purpose
        executor = replace(self._executor, analyst=name, purpose=purpose)
        limited._executor = executor  # noqa: SLF001  # of its own copy
        return limited

    def sql(
        self, text: str, *, fresh: bool = False, key: str | None = None, **want: Unpack[PriceArgs]
    ) -> Answer:
        """Return the answer to a question in SQL.

        Exactly one of ``epsilon=`` (this answer alone), ``share=`` (a part of the budget) and
        ``error=`` (the half-width wanted for every column, at ``confidence=``) says what it may
        cost. A question that was answered before is answered alike, for free, unless ``fresh``, or
        unless the error of that answer is larger than ``error=`` wants.
        The same ``key`` gives the same answer, charged once, whatever broke down in between.
        """
        return self._answer(text, Price.of(want), QueryOptions.of(fresh=fresh, key=key))

    def preview(self, query: str | TableQuery, **want: Unpack[PriceArgs]) -> Preview:
        """Return what an answer would cost and how far off it would be; spends nothing.

        Nor does it tell more of the ledger than asking would: whether there is an answer that is
        free for whoever asks.
        """
        payable, price = self._payable(query), Price.of(want)
        share, level = self._planner.share_for(payable, price), price.level
        cost, reused = self.cost(share), self._is_kept(payable, price)
        plan = payable.at(share)
        return Preview(
            cost,
            plan.errors(level),
            plan.mechanisms,
            plan.regret(level),
            reused,
            level,
            plan.notes,
        )

    def table(self, name: str) -> TableQuery:
        """Return a question about a table, to be made step by step and then asked."""
        return TableQuery(self.names.table(name).name, self)

    def ask(
        self,
        query: TableQuery,
        *,
        fresh: bool = False,
        key: str | None = None,
        **want: Unpack[PriceArgs],
    ) -> Answer:
        """Return the answer to a question made in Python; wants are those of `sql`."""
        return self._answer(query, Price.of(want), QueryOptions.of(fresh=fresh, key=key))

    def kept(self, query: str | TableQuery) -> Answer | None:
        """Return the stored answer that is free for whoever asks; None where there is none."""
        payable = self._payable(query)
        found = self._executor.match(payable, None, QueryOptions()).settlement
        return None if found is None else _again(self._executor, payable, found)

    def recall(self, entry: int) -> Answer | None:
        """Return the answer that an entry of the ledger paid for, as it was given; free.

        None where there is none, where it answers no single question, or where the declaration
        has changed since.
        """
        kept = self.ledger.answer(entry)
        if kept is None:
            return None
        question = self.ledger.history(1, before=entry + 1)[0].question
        if question.fingerprint != self._executor.fingerprint or question.text.startswith("{"):
            return None
        settlement = Settlement(kept.noisy, kept.receipt, ZERO_COST, reused=True)
        return _again(self._executor, self._payable(question.text), settlement)

    def cost(self, share: Share) -> Cost:
        """Return a share of the budget with its epsilon, at the budget's delta."""
        return self._planner.pricing.cost(share)

    @property
    def names(self) -> Names:
        """What a question may name: tables, columns and their types."""
        return self._planner.names

    def choose(
        self,
        candidates: Iterable[str],
        score: Callable[[str], Score] | Mapping[str, Score],
        *,
        fresh: bool = False,
        key: str | None = None,
        **want: Unpack[CostArgs],
    ) -> Choice:
        """Return the candidate with about the greatest score, and no number.

        ``score`` gives each candidate its question: one COUNT or SUM, as SQL or made in Python. The
        cost is ``epsilon=`` or ``share=`` and does not grow with the number of candidates.
        """
        price, options = Price.of(want), QueryOptions.of(fresh=fresh, key=key)
        return choose_among(self._executor, pair_candidates(candidates, score), price, options)

    def release(
        self,
        queries: Iterable[str | TableQuery],
        *,
        weights: Sequence[Number] | None = None,
        fresh: bool = False,
        key: str | None = None,
        **want: Unpack[CostArgs],
    ) -> tuple[Answer, ...]:
        """Return the answers to a whole set of questions, planned together and charged once.

        The cost, ``epsilon=`` or ``share=``, is divided so that the weighted squared errors add up
        to the least; questions whose error depends on the data get an equal share each.
        """
        if isinstance(queries, str) or not isinstance(queries, Iterable):
            raise UnsupportedQuery("a release takes a list of questions: write [question]")
        batch = Batch.of([self._planner.read(query) for query in queries], weights)
        price, options = Price.of(want), QueryOptions.of(fresh=fresh, key=key)
        return release_batch(self._executor, batch, price, options)

    def explain(self, query: str | TableQuery, **want: Unpack[PriceArgs]) -> Explanation:
        """Return what a question would do, in sentences; reads no row and spends nothing."""
        payable, price = self._payable(query), Price.of(want)
        share, level = self._planner.share_for(payable, price), price.level
        cost, reused = self.cost(share), self._is_kept(payable, price)
        return payable.at(share).explain(cost, reused=reused, level=level)

    @property
    def budget(self) -> BudgetState:
        """The budget, or an analyst's part of it: total, spent and left."""
        allowed = self.ledger.allowance(self.analyst, self.purpose)
        return BudgetState(
            total=self.cost(allowed.total),
            spent=self.cost(allowed.spent),
            left=self.cost(allowed.left),
        )

    def _payable(self, statement: str | TableQuery) -> QueryPayable | TopKeysPayable:
        return self._planner.payable(self._planner.read(statement))

    def _is_kept(self, payable: QueryPayable | TopKeysPayable, price: Price) -> bool:
        """Tell whether asking would give a stored answer, for free."""
        return self._executor.match(payable, price, QueryOptions()).settlement is not None

    def _answer(self, statement: str | TableQuery, price: Price, options: QueryOptions) -> Answer:
        payable = self._payable(statement)  # declared names only, every type known
        plan, noisy, settlement = self._executor.execute(payable, price, options)
        return _show(self._executor, payable, plan, noisy, settlement)


def paid_only(curator: Curator) -> Curator:
    """Return the same curator, whose methods return what is paid for already, and nothing else.

    They raise `NotPaid` for anything that would have to be charged.
    """
    limited = copy(curator)
    limited._executor = replace(curator._executor, is_paid_only=True)  # noqa: SLF001  # of a copy
    return limited


@dataclass(frozen=True, slots=True)
class _StoredAnswers:
    """The stored answers to a query, for an answer that is combined with them."""

    executor: Executor
    payable: QueryPayable | TopKeysPayable

    def stored(self) -> tuple[Answer, ...]:
        """Return all that are free for whoever asked."""
        identity = self.executor.identify_text(self.payable.identity)
        found = self.executor.ledger.answers(identity)
        return tuple(_again(self.executor, self.payable, settlement_of(one)) for one in found)


def _again(
    executor: Executor, payable: QueryPayable | TopKeysPayable, settlement: Settlement
) -> Answer:
    """Return an answer that was given before: the same values, at no cost."""
    plan = payable.at(settlement.receipt.share)
    return _show(executor, payable, plan, plan.decode(settlement.payload), settlement)


def _show(
    executor: Executor,
    payable: QueryPayable | TopKeysPayable,
    plan: QueryPlan,
    noisy: NoisyMeasurement,
    settlement: Settlement,
) -> Answer:
    """Return what was settled as an answer, which knows where others like it are kept."""
    return Answer(
        plan.shown,
        noisy,
        settlement.cost,
        settlement.receipt,
        settlement.reused,
        _StoredAnswers(executor, payable),
    )


def open_declared(declaration: Declaration) -> Curator:
    """Return the curator of a declaration."""
    return Curator(
        [*declaration.tables, *declaration.public_tables],
        budget=declaration.budget,
        neighbours=declaration.neighbours,
        ledger=declaration.ledger,
        limits=declaration.limits,
        anchor=declaration.anchor,
    )
