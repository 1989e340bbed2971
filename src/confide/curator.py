"""The path of a question, from its text to the answer, as one readable function."""

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from confide.declare import Budget, Catalog, PublicTable, Table
from confide.engines import DuckDB, Sealed
from confide.errors import BadDeclaration, BudgetExceeded, UnsupportedQuery
from confide.exact import Number, float_above, float_below, positive
from confide.ledger import Hold, Ledger, MemoryLedger, Question, Receipt
from confide.loss import (
    GaussianLoss,
    Loss,
    PureFilter,
    PureLoss,
    RenyiFilter,
    RenyiLoss,
    Share,
    auto_filter,
    mu_squared_for,
)
from confide.mechanisms import Neighbours
from confide.noise import SYSTEM
from confide.plan import Plan, make_plan
from confide.plan.selection import Selection, check_selection, plan_selection
from confide.query import Names, Query, TableQuery, canonical, is_selection
from confide.query.sql import read_sql
from confide.release import Answer, Cost, NoisyTotals, perturb, predict_errors, supports
from confide.release.selection import Choice, select_keys
from confide.sessions import (
    Desk,
    Score,
    Threshold,
    Watch,
    choose_among,
    open_watch,
    pair_candidates,
)

SEARCH_STEPS: Final = 10

__all__ = ["BudgetState", "Curator", "Preview"]


@dataclass(frozen=True, slots=True)
class Want:
    """What an answer may cost, or how near it must be: one of the three."""

    epsilon: Number | None = None
    share: Number | None = None
    error: Number | None = None
    confidence: Number = 0.95

    @classmethod
    def of(cls, given: Mapping[str, Number]) -> "Want":
        """Return the want that a caller named."""
        unknown = sorted(set(given) - {"epsilon", "share", "error", "confidence"})
        if unknown:
            raise BadDeclaration(f"{unknown[0]} is not understood; say epsilon=, share= or error=")
        want = cls(**given)
        if sum(value is not None for value in (want.epsilon, want.share, want.error)) != 1:
            raise BadDeclaration(
                "say what the answer may cost, by exactly one of epsilon=, share= and error="
            )
        return want


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

    ``regret``, for chosen keys, is how far the count of one may fall short of the best, at 95 %.
    """

    cost: Cost
    errors: dict[str, float | None]
    mechanisms: tuple[str, ...]
    regret: float | None = None

    def __str__(self) -> str:
        if self.regret is not None:
            return f"would cost {self.cost}; a chosen key is within {self.regret:.4g} of the best"
        widths = ", ".join(
            f"{name} +-{width:.4g}" if width is not None else f"{name} depends on the count"
            for name, width in self.errors.items()
        )
        return f"would cost {self.cost}; 95 % half-widths: {widths}"


class Curator:
    """Sits between the data and those who ask: answers with noise, from one budget."""

    def __init__(
        self,
        tables: Iterable[Table | PublicTable],
        *,
        budget: Budget,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        ledger: Ledger | str | Path | None = None,
    ) -> None:
        self.catalog = Catalog(tables)
        self.neighbours = Neighbours.of(neighbours)
        self.terms = budget
        aside = budget.delta / 2 if self.catalog.has_open_keys else Fraction(0)
        opened = auto_filter(budget.epsilon, budget.delta, budget.accounting, delta_aside=aside)
        if isinstance(ledger, str | Path):
            raise BadDeclaration(
                f"a ledger that outlives the process is not there yet, got ledger={str(ledger)!r}; "
                "leave it out to keep the budget in memory"
            )
        self.ledger = ledger if ledger is not None else MemoryLedger(opened)
        self._engine = DuckDB(self.catalog, salt=secrets.token_hex(16))
        self._names = Names(self.catalog, self._engine.facts.kinds)
        self._fingerprint = f"{self.catalog.fingerprint()}:{self.neighbours}"

    def sql(self, text: str, *, fresh: bool = False, **want: Number) -> Answer:
        """Return the answer to a question in SQL.

        Exactly one of ``epsilon=`` (this answer alone), ``share=`` (a part of the budget) and
        ``error=`` (the half-width wanted for every column, at ``confidence=``) says what it may
        cost. A question that was answered before is answered alike, for free, unless ``fresh``.
        """
        return self._answer(read_sql(text, self._names), Want.of(want), fresh=fresh)

    def preview(self, query: str | TableQuery, **want: Number) -> Preview:
        """Return what an answer would cost and how far off it would be; spends nothing."""
        read = self._read(query)
        share = self._share(read, Want.of(want))
        if is_selection(read):
            selection = self._selection(read, share)
            kinds = (type(selection.selector).__name__,)
            return Preview(self._cost(share), {}, kinds, selection.regret())
        plan = self._plan(read, share)
        return Preview(self._cost(share), predict_errors(plan), (type(plan.noise.law).__name__,))

    def table(self, name: str) -> TableQuery:
        """Return a question about a table, to be made step by step and then asked."""
        return TableQuery(self._names.table(name).name, self)

    def ask(self, query: TableQuery, *, fresh: bool = False, **want: Number) -> Answer:
        """Return the answer to a question made in Python; wants are those of `sql`."""
        return self._answer(self._read(query), Want.of(want), fresh=fresh)

    def choose(
        self,
        candidates: Iterable[str],
        score: Callable[[str], Score] | Mapping[str, Score],
        *,
        fresh: bool = False,
        **want: Number,
    ) -> Choice:
        """Return the candidate with about the greatest score, and no number.

        ``score`` gives each candidate its question: one COUNT or SUM, as SQL or made in Python. The
        cost is ``epsilon=`` or ``share=`` and does not grow with the number of candidates.
        """
        asked = Want.of(want)
        scores = pair_candidates(candidates, score)
        return choose_among(self._desk(), scores, lambda: self._granted(asked), fresh=fresh)

    def watch(
        self,
        threshold: Number,
        above: int = 1,
        *,
        sensitivity: Number | None = None,
        signed: bool = False,
        **want: Number,
    ) -> Watch:
        """Return a session that tells of each question whether its answer passes a threshold.

        The session is charged now, by ``epsilon=`` or ``share=``, for ``above`` answers "above";
        any number of answers "below" are free. Each question is one COUNT or SUM that a unit can
        change by at most ``sensitivity`` (left out: by the rows a unit may have in any table).
        ``signed=True`` allows sums of values below zero, at more noise.
        """
        limits = [table.max_rows_per_unit for table in self.catalog.private.values()]
        most = max(limits) if sensitivity is None else sensitivity
        line = Threshold.of(threshold, above, most, self.neighbours, signed=signed)
        return open_watch(self._desk(), line, self._granted(Want.of(want)))

    def _desk(self) -> Desk:
        return Desk(
            self.ledger,
            self._engine,
            self.neighbours,
            self._fingerprint,
            read=self._read,
            plan=self._plan,
            cost=self._cost,
            entropy=SYSTEM,
        )

    def _read(self, question: str | TableQuery) -> Query:
        if isinstance(question, str):
            return read_sql(question, self._names)
        return question.build(self._names)

    @property
    def budget(self) -> BudgetState:
        """The budget: total, spent and left."""
        state = self.ledger.filter
        return BudgetState(
            total=self._cost(Share.floor(1)),
            spent=self._cost(state.spent),
            left=self._cost(state.left),
        )

    def _answer(self, query: Query, want: Want, *, fresh: bool) -> Answer:
        question = Question(canonical(query), self._fingerprint, analyst="")
        kept = None if fresh else self.ledger.stored(question)
        if kept is not None:
            return self._again(query, *kept)
        share = self._share(query, want)
        if is_selection(query):
            return self._select(question, query, share)
        plan: Plan = self._plan(query, share)  # from the declaration alone
        hold: Hold = self.ledger.reserve(question, share, plan.failure)  # before any row is read
        sealed: Sealed = self._engine.run(plan, hold)  # exact, and closed
        noisy: NoisyTotals = perturb(sealed, plan, SYSTEM)  # safe to show
        receipt: Receipt = self.ledger.commit(hold, {"groups": noisy.groups, "steps": noisy.steps})
        return Answer(plan, noisy, self._cost(share), receipt, reused=False)

    def _again(self, query: Query, receipt: Receipt, stored: dict[str, Any]) -> Answer:
        """Return an answer that was given before: the same values, at no cost."""
        groups, steps = (tuple(map(tuple, stored[name])) for name in ("groups", "steps"))
        share = receipt.share
        chosen = is_selection(query)
        plan = self._selection(query, share).shown if chosen else self._plan(query, share)
        return Answer(
            plan, NoisyTotals(groups, steps), Cost(Fraction(0), 0.0), receipt, reused=True
        )

    def _select(self, question: Question, query: Query, share: Share) -> Answer:
        """Return the most frequent keys, by private selection."""
        selection = self._selection(query, share)
        hold = self.ledger.reserve(question, share)  # before any row is read
        sealed = self._engine.run(selection.plan, hold)
        chosen = select_keys(sealed, selection, SYSTEM)
        kept = {"groups": chosen.groups, "steps": chosen.steps}
        receipt = self.ledger.commit(hold, kept)
        return Answer(selection.shown, chosen, self._cost(share), receipt, reused=False)

    def _selection(self, query: Query, share: Share) -> Selection:
        check_selection(query, self.catalog, self._engine.facts)
        granted = self.ledger.filter.loss_of(share)
        return plan_selection(self._plan(query, share), self.neighbours, granted)

    def _plan(self, query: Query, share: Share) -> Plan:
        outside = [output.expression for output in query.outputs]
        outside += [order.expression for order in query.order]
        outside += [query.having] if query.having is not None else []
        if not all(map(supports, outside)):
            raise UnsupportedQuery(
                "only arithmetic, comparisons and CASE can be applied to keys and statistics; "
                "apply other functions to the columns inside"
            )
        state = self.ledger.filter
        loss, failure = _noise_loss(state.loss_of(share)), state.delta_pot * share.fraction
        facts = self._engine.facts
        return make_plan(query, self.catalog, facts, self.neighbours, loss, failure=failure)

    def _share(self, query: Query, want: Want) -> Share:
        """Return the share of the budget that an answer as wanted takes."""
        if want.error is not None:
            return self._share_for(query, want.error, want.confidence)
        return self._granted(want)

    def _granted(self, want: Want) -> Share:
        """Return the share that an answer takes whose cost was named."""
        if want.share is not None:
            return Share.floor(want.share)
        if want.error is not None:
            raise UnsupportedQuery("a choice has no half-width; say epsilon= or share=")
        epsilon = positive("epsilon", want.epsilon)
        part = self._part(epsilon)
        if part > 1:
            raise BudgetExceeded(
                f"epsilon={want.epsilon} is more than the whole budget allows "
                f"({float_below(self.terms.epsilon):.4g}); ask for less",
                cost=part,
                left=self.ledger.filter.left.fraction,
            )
        return Share.floor(part)

    def _share_for(self, query: Query, error: Number, confidence: Number) -> Share:
        """Return the least share, to a part in 1000, whose answer is near enough."""
        wanted = float(positive("error", error))

        def suffices(part: Fraction) -> bool:
            found = predict_errors(self._plan(query, Share.floor(part)), confidence).values()
            widths = [width for width in found if width is not None]
            if not widths or len(widths) < len(found):
                raise UnsupportedQuery(
                    "error= can be asked of counts and sums, whose error does not depend on the "
                    "data; for other statistics say epsilon= or share="
                )
            return max(widths) <= wanted

        if not suffices(Fraction(1)):
            raise BudgetExceeded(
                f"even the whole budget leaves a larger error than {wanted:.4g}; accept a larger "
                "error, or ask for fewer statistics at once",
                cost=Fraction(1),
                left=self.ledger.filter.left.fraction,
            )
        high = Fraction(1)
        while suffices(high / 2):
            high /= 2
        low = high / 2
        for _ in range(SEARCH_STEPS):
            middle = (low + high) / 2
            low, high = (low, middle) if suffices(middle) else (middle, high)
        return Share.floor(high)

    def _part(self, epsilon: Fraction) -> Fraction:
        """Return the part of the budget that an answer of this epsilon takes."""
        state = self.ledger.filter
        if isinstance(state, PureFilter):
            return epsilon / state.total
        mu_squared = mu_squared_for(epsilon, self.terms.delta)
        if isinstance(state, RenyiFilter):
            return state.alpha * mu_squared / 2 / state.total
        return mu_squared / state.total

    def _cost(self, share: Share) -> Cost:
        if not share.units:
            return Cost(Fraction(0), 0.0)
        if share.fraction == 1:
            return Cost(share.fraction, float_above(self.terms.epsilon))
        loss = _noise_loss(self.ledger.filter.loss_of(share))
        if isinstance(loss, PureLoss):
            return Cost(share.fraction, float_above(loss.epsilon))
        return Cost(share.fraction, loss.epsilon_at(self.terms.delta))


def _noise_loss(loss: Loss) -> PureLoss | GaussianLoss:
    """Return the loss that noise is calibrated to, for a granted one."""
    match loss:
        case PureLoss() | GaussianLoss():
            return loss
        case RenyiLoss(order=order, divergence=divergence):
            return GaussianLoss(2 * divergence / order)
        case _:
            raise BadDeclaration(f"no noise can be calibrated to {loss!r}")
