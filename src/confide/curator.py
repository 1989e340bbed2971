"""The path of a question, from its text to the answer, as one readable function."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, Unpack

from confide.declare import Budget, Catalog, Declaration, Limits, PublicTable, Table
from confide.declare.budget import CostArgs, PriceArgs, show_keywords
from confide.engines import Sealed, open_engine
from confide.errors import BadDeclaration, UnsupportedQuery
from confide.exact import Number, float_above, positive
from confide.execution import WatchMethods, choose_among, pair_candidates
from confide.execution.batch import Batch, release_batch
from confide.execution.executor import (
    Desk,
    QueryOptions,
    Request,
    Score,
    Settlement,
    find_ledger,
    settlement_of,
)
from confide.execution.pricing import FREE, Price, Pricing
from confide.ledger import Hold, Ledger, StoredAnswer
from confide.loss import Share
from confide.mechanisms import Neighbours
from confide.noise import SYSTEM
from confide.plan import Measurement, Plan, make_measurement, make_plan
from confide.plan.selection import TopKeysPlan, check_selection, plan_selection
from confide.query import Names, Query, TableQuery, canonical, is_selection
from confide.query.sql import read_sql
from confide.release import Answer, Cost, NoisyMeasurement, perturb, predict_errors, supports
from confide.release.explain import Explanation, explain_plan, explain_selection
from confide.release.notes import notes_of
from confide.release.selection import Choice, select_keys
from confide.release.sizes import GRID_STEPS_CHANGED, grid_steps
from confide.statistics import StatisticMethods

__all__ = ["BudgetState", "Curator", "Preview", "open_declared"]

MOST_READ: Final = 64
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
        self._prices = Pricing(budget, self.ledger)
        self._engine = open_engine(self.catalog, salt=self.ledger.salt)
        self._names = Names(self.catalog, self._engine.facts.kinds)
        # What a text says follows from the names alone; who asks again need not wait for it.
        self._read_sql = lru_cache(MOST_READ)(partial(read_sql, names=self._names))
        self._fingerprint = f"{self.catalog.fingerprint()}:{self.neighbours}"
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
        return self._answer(self._read(text), Price.of(want), QueryOptions.of(fresh=fresh, key=key))

    def preview(self, query: str | TableQuery, **want: Unpack[PriceArgs]) -> Preview:
        """Return what an answer would cost and how far off it would be; spends nothing.

        Nor does it tell more of the ledger than asking would: whether there is an answer that is
        free for whoever asks.
        """
        read, asked = self._read(query), Price.of(want)
        share = self._share(read, asked)
        cost, reused = self._prices.cost(share), self._kept(read, asked) is not None
        level = asked.level
        if is_selection(read):
            selection = self._selection(read, share)
            kinds = (type(selection.selector).__name__,)
            notes = notes_of(selection.plan)
            return Preview(cost, {}, kinds, selection.regret(level), reused, level, notes)
        plan = self._plan(read, share)
        errors = predict_errors(plan, level)
        return Preview(
            cost,
            errors,
            plan.mechanisms,
            reused=reused,
            confidence=level,
            notes=notes_of(plan),
        )

    def table(self, name: str) -> TableQuery:
        """Return a question about a table, to be made step by step and then asked."""
        return TableQuery(self._names.table(name).name, self)

    def ask(
        self,
        query: TableQuery,
        *,
        fresh: bool = False,
        key: str | None = None,
        **want: Unpack[PriceArgs],
    ) -> Answer:
        """Return the answer to a question made in Python; wants are those of `sql`."""
        return self._answer(
            self._read(query), Price.of(want), QueryOptions.of(fresh=fresh, key=key)
        )

    def kept(self, query: str | TableQuery) -> Answer | None:
        """Return the stored answer that is free for whoever asks; None where there is none."""
        read = self._read(query)
        settled = self._kept(read)
        return None if settled is None else self._again(read, settled)

    def recall(self, entry: int) -> Answer | None:
        """Return the answer that an entry of the ledger paid for, as it was given; free.

        None where there is none, where it answers no single question, or where the declaration
        has changed since.
        """
        kept = self.ledger.answer(entry)
        if kept is None:
            return None
        question = self.ledger.history(1, before=entry + 1)[0].question
        if question.fingerprint != self._fingerprint or question.text.startswith("{"):
            return None
        settled = Settlement(kept.noisy, kept.receipt, FREE, reused=True)
        return self._again(self._read(question.text), settled)

    def cost(self, share: Share) -> Cost:
        """Return a share of the budget with its epsilon, at the budget's delta."""
        return self._prices.cost(share)

    @property
    def names(self) -> Names:
        """What a question may name: tables, columns and their types."""
        return self._names

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
        asked, manner = Price.of(want), QueryOptions.of(fresh=fresh, key=key)
        scores = pair_candidates(candidates, score)
        return choose_among(self._desk(), scores, lambda: self._prices.grant(asked), manner)

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
        batch = Batch.of([self._read(query) for query in queries], weights)
        asked, manner = Price.of(want), QueryOptions.of(fresh=fresh, key=key)
        return release_batch(self._desk(), batch, lambda: self._prices.grant(asked), manner)

    def explain(self, query: str | TableQuery, **want: Unpack[PriceArgs]) -> Explanation:
        """Return what a question would do, in sentences; reads no row and spends nothing."""
        read, asked = self._read(query), Price.of(want)
        share, level = self._share(read, asked), asked.level
        cost, reused = self._prices.cost(share), self._kept(read, asked) is not None
        if is_selection(read):
            chosen = self._selection(read, share)
            return explain_selection(chosen, cost, reused=reused, level=level)
        return explain_plan(self._plan(read, share), cost, reused=reused, level=level)

    def _desk(self) -> Desk:
        return Desk(
            self.ledger,
            self._engine,
            self.neighbours,
            self._fingerprint,
            self._prices,
            read=self._read,
            plan=self._plan,
            entropy=SYSTEM,
            analyst=self.analyst,
            purpose=self.purpose,
        )

    def _read(self, question: str | TableQuery) -> Query:
        if isinstance(question, str):
            return self._read_sql(question)
        if not isinstance(question, TableQuery):
            raise UnsupportedQuery(
                "a question must be a text in SQL, or made with curator.table(...), got "
                f"{type(question).__name__}"
            )
        return question.build(self._names)

    @property
    def budget(self) -> BudgetState:
        """The budget, or an analyst's part of it: total, spent and left."""
        allowed = self.ledger.allowance(self.analyst, self.purpose)
        return BudgetState(
            total=self._prices.cost(allowed.total),
            spent=self._prices.cost(allowed.spent),
            left=self._prices.cost(allowed.left),
        )

    def _kept(self, query: Query, want: Price | None = None) -> Settlement | None:
        """Return what asking would give for free."""
        return self._open(query, want, QueryOptions()).settled

    def _open(self, query: Query, want: Price | None, manner: QueryOptions) -> Request:
        """Return a request; where an error is wanted, a stored answer must be as near."""
        desk = self._desk()
        question = desk.name_text(canonical(query))
        if want is None or want.error is None or is_selection(query):
            return desk.open(question, manner)
        return desk.open(question, manner, partial(self._is_near, query, want))

    def _is_near(self, query: Query, want: Price, stored: StoredAnswer) -> bool:
        """Tell whether a stored answer's half-widths are those wanted, as far as they are known."""
        found = predict_errors(self._plan(query, stored.receipt.share), want.confidence).values()
        wanted = float_above(positive("error", want.error))
        return all(width <= wanted for width in found if width is not None)

    def _answer(self, query: Query, want: Price, manner: QueryOptions) -> Answer:
        request: Request = self._open(query, want, manner)
        if request.settled is not None:
            return self._again(query, request.settled)
        share: Share = request.share(lambda: self._share(query, want))
        if is_selection(query):
            return self._select(request, query, share)
        plan: Plan = self._plan(query, share)  # from the declaration alone
        hold: Hold = request.reserve(share, plan.failure)  # on disk before any row is read
        sealed: Sealed = self._engine.run(plan.measurement, hold)  # exact, and closed
        noisy: NoisyMeasurement = perturb(sealed, plan, SYSTEM)  # safe to show
        written = {**noisy.to_json(), "sizes": grid_steps(plan)}
        settled: Settlement = request.commit(hold, written)  # on disk before it is shown
        return self._show(query, plan, settled)

    def _again(self, query: Query, settled: Settlement) -> Answer:
        """Return an answer that was given before: the same values, at no cost."""
        share = settled.receipt.share
        chosen = is_selection(query)
        plan = self._selection(query, share).shown if chosen else self._plan(query, share)
        return self._show(query, plan, settled)

    def _select(self, request: Request, query: Query, share: Share) -> Answer:
        """Return the most frequent keys, by private selection."""
        selection = self._selection(query, share)
        hold = request.reserve(share)  # on disk before any row is read
        sealed = self._engine.run(selection.plan.measurement, hold)
        chosen = select_keys(sealed, selection, SYSTEM)
        settled = request.commit(hold, {**chosen.to_json(), "sizes": grid_steps(selection.shown)})
        return self._show(query, selection.shown, settled)

    def _show(self, query: Query, plan: Plan, settled: Settlement) -> Answer:
        """Return what was settled as an answer, which knows where others like it are kept."""
        if settled.noisy.get("sizes") != grid_steps(plan):
            raise UnsupportedQuery(GRID_STEPS_CHANGED)
        totals = NoisyMeasurement.from_json(settled.noisy)
        question = self._desk().name_text(canonical(query))
        return Answer(
            plan,
            totals,
            settled.cost,
            settled.receipt,
            settled.reused,
            lambda: [
                self._again(query, settlement_of(one)) for one in self.ledger.answers(question)
            ],
        )

    def _selection(self, query: Query, share: Share) -> TopKeysPlan:
        check_selection(query, self.catalog, self._engine.facts)
        plan = self._plan(query, share)
        return plan_selection(plan, self.neighbours, self._prices.loss(share))

    def _plan(self, query: Query, share: Share) -> Plan:
        return self._price(self._measurement(query), share)

    def _measurement(self, query: Query) -> Measurement:
        outside = [output.expression for output in query.outputs]
        outside += [order.expression for order in query.order]
        outside += [query.having] if query.having is not None else []
        if not all(map(supports, outside)):
            raise UnsupportedQuery(
                "only arithmetic, comparisons, AND OR NOT, IN, IS NULL, CASE, COALESCE, ABS, "
                "FLOOR, CEIL, ROUND, LEAST, GREATEST, LN, EXP, SQRT and CAST to DOUBLE can be "
                "applied to keys and statistics; write ROUND(x) for a whole number, and apply "
                "other functions to the columns inside"
            )
        may_select = bool(self.ledger.opening.delta_pot)
        return make_measurement(query, self.catalog, self._engine.facts, may_select=may_select)

    def _price(self, measurement: Measurement, share: Share) -> Plan:
        """Return how a measurement is made for a share of the budget."""
        return make_plan(
            measurement,
            self.neighbours,
            self._prices.noise_loss(share),
            failure=self._prices.failure(share),
            granted=self._prices.loss(share),
        )

    def _share(self, query: Query, want: Price) -> Share:
        """Return the share of the budget that an answer as wanted takes."""
        if want.error is None:
            return self._prices.grant(want)
        measurement = self._measurement(query)
        return self._prices.share(
            want, lambda share: predict_errors(self._price(measurement, share), want.confidence)
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
