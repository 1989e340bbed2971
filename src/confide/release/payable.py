"""`Payable` protocol: what one charge can buy; the noise grid kept with an answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Protocol, TypeVar

from confide.engines import Engine
from confide.errors import UnsupportedQuery
from confide.exact import Number
from confide.ledger import Hold, Payload
from confide.loss import Share
from confide.noise import Entropy
from confide.plan import Plan
from confide.plan.selection import TopKeysPlan
from confide.release.answer import Cost, predict_errors
from confide.release.explain import Explanation, explain_plan, explain_selection
from confide.release.noise import NoisyMeasurement, add_noise
from confide.release.notes import notes_of
from confide.release.selection import select_keys

__all__ = [
    "Payable",
    "PricedPlan",
    "PricedQuery",
    "PricedTopKeys",
    "QueryPlan",
    "check_grid_steps",
    "grid_steps",
]

N = TypeVar("N")
P_co = TypeVar("P_co", covariant=True)

GRID_STEPS_CHANGED: Final = (
    "this was answered by a confide that rounded in other steps; ask with fresh=True"
)


class PricedPlan(Protocol[N]):
    """How to make what was paid for: worked out, and refused, before the charge."""

    @property
    def failure(self) -> Fraction:
        """The probability that naming keys tells of a single unit."""
        ...

    @property
    def readings(self) -> int | None:
        """How often rows are read on the charge; None where that is open."""
        ...

    def run(self, engine: Engine, hold: Hold, entropy: Entropy) -> N:
        """Read the rows, and return what noise has made safe to show."""
        ...

    def encode(self, noisy: N) -> Payload:
        """Return what the ledger keeps."""
        ...

    def decode(self, payload: Payload) -> N:
        """Return what the ledger kept.

        Raises:
            UnsupportedQuery: it was written on another noise grid.
        """
        ...


class Payable(Protocol[P_co]):
    """What one charge can buy; it has no price yet."""

    @property
    def identity(self) -> str:
        """The canonical text, or terms as JSON, by which the ledger finds it."""
        ...

    def at(self, share: Share) -> P_co:
        """Plan what a share of the budget buys, or refuse, from the declaration alone."""
        ...


class QueryPlan(PricedPlan[NoisyMeasurement], Protocol):
    """A priced query: it can be previewed and explained."""

    @property
    def shown(self) -> Plan:
        """The plan by which an answer is read."""
        ...

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The names of what makes the answer private."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """The contribution limits that apply."""
        ...

    def errors(self, confidence: Number) -> dict[str, float | None]:
        """Return the half-width of each column; None where the data decide it."""
        ...

    def regret(self, confidence: float) -> float | None:
        """Return by how much a chosen key may fall short; None where none is chosen."""
        ...

    def explain(self, cost: Cost, *, reused: bool, level: float) -> Explanation:
        """Return what the query will do, in sentences."""
        ...


@dataclass(frozen=True, slots=True)
class PricedQuery:
    """Totals and quantiles with noise."""

    shown: Plan
    readings: int | None = 1

    @property
    def failure(self) -> Fraction:
        """The probability that naming keys tells of a single unit."""
        return self.shown.failure

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The names of what makes the answer private."""
        return self.shown.mechanisms

    @property
    def notes(self) -> tuple[str, ...]:
        """The contribution limits that apply."""
        return notes_of(self.shown)

    def errors(self, confidence: Number) -> dict[str, float | None]:
        """Return the half-width of each column; None where the data decide it."""
        return predict_errors(self.shown, confidence)

    def regret(self, confidence: float) -> float | None:
        """Return nothing: no key is chosen."""
        del confidence
        return None

    def explain(self, cost: Cost, *, reused: bool, level: float) -> Explanation:
        """Return what the query will do, in sentences."""
        return explain_plan(self.shown, cost, reused=reused, level=level)

    def run(self, engine: Engine, hold: Hold, entropy: Entropy) -> NoisyMeasurement:
        """Return the totals of every answered group with noise."""
        return add_noise(engine.run(self.shown.measurement, hold), self.shown, entropy)

    def encode(self, noisy: NoisyMeasurement) -> Payload:
        """Return what the ledger keeps."""
        return {**noisy.to_json(), "sizes": grid_steps(self.shown)}

    def decode(self, payload: Payload) -> NoisyMeasurement:
        """Return what the ledger kept, if its grid is that of the plan."""
        check_grid_steps(payload, grid_steps(self.shown))
        return NoisyMeasurement.from_json(payload)


@dataclass(frozen=True, slots=True)
class PricedTopKeys:
    """The most frequent keys, by private selection, without any number."""

    selection: TopKeysPlan
    failure: Fraction = Fraction(0)
    readings: int | None = 1

    @property
    def shown(self) -> Plan:
        """The plan by which an answer is read: keys alone."""
        return self.selection.shown

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The name of the selection mechanism."""
        return (type(self.selection.selector).__name__,)

    @property
    def notes(self) -> tuple[str, ...]:
        """The contribution limits that apply."""
        return notes_of(self.selection.plan)

    def errors(self, confidence: Number) -> dict[str, float | None]:
        """Return nothing: an answer has no numbers."""
        del confidence
        return {}

    def regret(self, confidence: float) -> float | None:
        """Return by how much the count of a chosen key may fall short of the best."""
        return self.selection.regret(confidence)

    def explain(self, cost: Cost, *, reused: bool, level: float) -> Explanation:
        """Return what the query will do, in sentences."""
        return explain_selection(self.selection, cost, reused=reused, level=level)

    def run(self, engine: Engine, hold: Hold, entropy: Entropy) -> NoisyMeasurement:
        """Return the chosen keys, in the order of their choice."""
        sealed = engine.run(self.selection.plan.measurement, hold)
        return select_keys(sealed, self.selection, entropy)

    def encode(self, noisy: NoisyMeasurement) -> Payload:
        """Return what the ledger keeps."""
        return {**noisy.to_json(), "sizes": grid_steps(self.shown)}

    def decode(self, payload: Payload) -> NoisyMeasurement:
        """Return what the ledger kept."""
        check_grid_steps(payload, grid_steps(self.shown))
        return NoisyMeasurement.from_json(payload)


def grid_steps(plan: Plan) -> list[str]:
    """Return the steps of a plan's noise and the rates of its quantiles, as text.

    Why: a later planner may divide the same cost otherwise, and steps can be the same nevertheless.
    """
    rates = [f"{float(one.choice.rate):.9g} {float(one.ends.rate):.9g}" for one in plan.quantiles]
    return [*map(str, plan.noise.steps), *rates]


def check_grid_steps(payload: Payload, steps: Sequence[Any]) -> None:
    """Refuse stored numbers that were written in other steps than today's.

    A later planner may choose other steps for the same query at the same cost; the numbers that
    an earlier one stored must then not be read with them.

    Raises:
        UnsupportedQuery: the steps are not the same.
    """
    if payload.get("sizes") != steps:
        raise UnsupportedQuery(GRID_STEPS_CHANGED)
