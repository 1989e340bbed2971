"""The path of a question, from its text to the answer, as one readable function."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from confide.declare import Catalog, PublicTable, Table
from confide.engines import DuckDB, Sealed
from confide.errors import BadDeclaration, UnsupportedQuery
from confide.exact import Number, float_above, positive, probability
from confide.ledger import Hold, Ledger, MemoryLedger, Question, Receipt
from confide.loss import (
    GaussianLoss,
    Loss,
    PureFilter,
    PureLoss,
    RenyiLoss,
    Share,
    auto_filter,
    mu_squared_for,
)
from confide.mechanisms import Neighbours
from confide.noise import SYSTEM
from confide.plan import Plan, make_plan
from confide.query import Names, Query, canonical
from confide.query.sql import read_sql
from confide.release import Answer, Cost, NoisyTotals, perturb, predict_errors, supports

__all__ = ["Budget", "BudgetState", "Curator", "Preview"]


@dataclass(frozen=True, slots=True, init=False)
class Budget:
    """What may be spent in all: (epsilon, delta)-DP, pure when delta is 0."""

    epsilon: Fraction
    delta: Fraction
    accounting: str

    def __init__(self, epsilon: Number, delta: Number = 0, *, accounting: str = "auto") -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", epsilon))
        object.__setattr__(self, "delta", probability("delta", delta))
        object.__setattr__(self, "accounting", accounting)


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
    """What an answer would cost and how far off it would be; nothing was read or spent."""

    cost: Cost
    errors: dict[str, float | None]
    mechanisms: tuple[str, ...]

    def __str__(self) -> str:
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
        ledger: Ledger | None = None,
    ) -> None:
        self.catalog = Catalog(tables)
        self.neighbours = Neighbours.of(neighbours)
        self.terms = budget
        opened = auto_filter(budget.epsilon, budget.delta, budget.accounting)
        self.ledger = ledger if ledger is not None else MemoryLedger(opened)
        self._engine = DuckDB(self.catalog, salt=secrets.token_hex(16))
        self._names = Names(self.catalog, self._engine.facts.kinds)
        self._fingerprint = f"{self.catalog.fingerprint()}:{self.neighbours}"

    def sql(
        self,
        text: str,
        *,
        epsilon: Number | None = None,
        share: Number | None = None,
        fresh: bool = False,
    ) -> Answer:
        """Return the answer to a question in SQL, at the cost of ``epsilon`` or ``share``."""
        return self._answer(read_sql(text, self._names), self._share(epsilon, share), fresh=fresh)

    def preview(
        self, text: str, *, epsilon: Number | None = None, share: Number | None = None
    ) -> Preview:
        """Return what an answer would cost and how far off it would be; spends nothing."""
        asked = self._share(epsilon, share)
        plan = self._plan(read_sql(text, self._names), asked)
        return Preview(self._cost(asked), predict_errors(plan), (type(plan.noise.law).__name__,))

    @property
    def budget(self) -> BudgetState:
        """The budget: total, spent and left."""
        state = self.ledger.filter
        return BudgetState(
            total=self._cost(Share.floor(1)),
            spent=self._cost(state.spent),
            left=self._cost(state.left),
        )

    def _answer(self, query: Query, share: Share, *, fresh: bool) -> Answer:
        question = Question(canonical(query), self._fingerprint, analyst="")
        kept = None if fresh else self.ledger.stored(question)
        if kept is not None:
            return self._again(query, *kept)
        plan: Plan = self._plan(query, share)  # from the declaration alone
        hold: Hold = self.ledger.reserve(question, share)  # charged before the first row is read
        sealed: Sealed = self._engine.run(plan, hold)  # exact, and closed
        noisy: NoisyTotals = perturb(sealed, plan, SYSTEM)  # safe to show
        receipt: Receipt = self.ledger.commit(hold, {"steps": noisy.steps})
        return Answer(plan, noisy, self._cost(share), receipt, reused=False)

    def _again(self, query: Query, receipt: Receipt, stored: dict[str, Any]) -> Answer:
        """Return an answer that was given before: the same values, at no cost."""
        noisy = NoisyTotals(tuple(tuple(row) for row in stored["steps"]))
        plan = self._plan(query, receipt.share)
        return Answer(plan, noisy, Cost(Fraction(0), 0.0), receipt, reused=True)

    def _plan(self, query: Query, share: Share) -> Plan:
        outside = [output.expression for output in query.outputs]
        outside += [order.expression for order in query.order]
        outside += [query.having] if query.having is not None else []
        if not all(map(supports, outside)):
            raise UnsupportedQuery(
                "only arithmetic, comparisons and CASE can be applied to keys and statistics; "
                "apply other functions to the columns inside"
            )
        loss = _noise_loss(self.ledger.filter.loss_of(share))
        return make_plan(query, self.catalog, self._engine.facts, self.neighbours, loss)

    def _share(self, epsilon: Number | None, share: Number | None) -> Share:
        if (epsilon is None) == (share is None):
            raise BadDeclaration("say what the answer may cost: epsilon= or share=, one of the two")
        if share is not None:
            return Share.floor(share)
        alone = positive("epsilon", epsilon)
        state = self.ledger.filter
        if isinstance(state, PureFilter):
            return Share.floor(alone / state.total)
        return state.price(GaussianLoss(mu_squared_for(alone, self.terms.delta)))[0]

    def _cost(self, share: Share) -> Cost:
        if not share.units:
            return Cost(Fraction(0), 0.0)
        loss = self.ledger.filter.loss_of(share)
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
