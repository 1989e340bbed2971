"""`Payable`: what one charge can buy, and its plan once the price is set.

The executor handles all payables alike. A payable makes a priced plan at a share of the budget. The
priced plan reads rows, and encodes the noisy result for the ledger and decodes it again.

Two priced plans are here: for queries and for top keys. Choices, batches of queries, and statistics
define their own.
"""

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
from confide.release.answer import Cost, predict_errors, predict_group_errors
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
    "This answer was stored by another version of confide, with other noise. Run the query again "
    "with `fresh=True`, which is charged."
)


class PricedPlan(Protocol[N]):
    """A plan at a fixed price, made before the charge, so that refusals cost nothing."""

    @property
    def failure(self) -> Fraction:
        """The probability with which partition selection may violate its bound on the loss."""
        ...

    @property
    def readings(self) -> int | None:
        """The number of times one charge reads the rows; None if unlimited."""
        ...

    def run(self, engine: Engine, hold: Hold, entropy: Entropy) -> N:
        """Read the rows, and return noisy values that are safe to show."""
        ...

    def encode(self, noisy: N) -> Payload:
        """Return the payload that the ledger stores."""
        ...

    def decode(self, payload: Payload) -> N:
        """Return the values in a stored payload.

        Raises:
            UnsupportedQuery: it was stored with a different noise grid.
        """
        ...


class Payable(Protocol[P_co]):
    """A purchase that one charge can pay for, before its price is set."""

    @property
    def identity(self) -> str:
        """The text by which the ledger identifies a purchase: canonical SQL, or terms as JSON."""
        ...

    def at(self, share: Share) -> P_co:
        """Return the plan for a share of the budget, or refuse; no row is read."""
        ...


class QueryPlan(PricedPlan[NoisyMeasurement], Protocol):
    """A priced query, which can be previewed and explained."""

    @property
    def shown(self) -> Plan:
        """The plan that describes the columns and the noise of the answer."""
        ...

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The names of the mechanisms that make the answer private."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about contribution limits and errors of quantiles."""
        ...

    def errors(self, confidence: Number) -> dict[str, float | None]:
        """Return the half-width of each noisy column's interval; None if not known in advance."""
        ...

    def group_errors(self, confidence: Number) -> dict[str, float]:
        """Return the half-widths that depend on the data, for a group of GROUP_SIZE rows."""
        ...

    def regret(self, confidence: float) -> float | None:
        """Return a bound on how far chosen counts fall short; None if no key is chosen."""
        ...

    def explain(self, cost: Cost, *, reused: bool, level: float) -> Explanation:
        """Return an explanation of the query in sentences."""
        ...


@dataclass(frozen=True, slots=True)
class PricedQuery:
    """A query that is answered with noisy totals and quantiles, at a fixed price."""

    shown: Plan
    readings: int | None = 1

    @property
    def failure(self) -> Fraction:
        """The probability with which partition selection may violate its bound on the loss."""
        return self.shown.failure

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The names of the mechanisms that make the answer private."""
        return self.shown.mechanisms

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about contribution limits and errors of quantiles."""
        return notes_of(self.shown)

    def errors(self, confidence: Number) -> dict[str, float | None]:
        """Return the half-width of each noisy column's interval; None if not known in advance."""
        return predict_errors(self.shown, confidence)

    def group_errors(self, confidence: Number) -> dict[str, float]:
        """Return the half-widths that depend on the data, for a group of GROUP_SIZE rows."""
        return predict_group_errors(self.shown, confidence)

    def regret(self, confidence: float) -> float | None:
        """Return None, because no key is chosen."""
        del confidence
        return None

    def explain(self, cost: Cost, *, reused: bool, level: float) -> Explanation:
        """Return an explanation of the query in sentences."""
        return explain_plan(self.shown, cost, reused=reused, level=level)

    def run(self, engine: Engine, hold: Hold, entropy: Entropy) -> NoisyMeasurement:
        """Return the noisy values of every group in the answer."""
        return add_noise(engine.run(self.shown.measurement, hold), self.shown, entropy)

    def encode(self, noisy: NoisyMeasurement) -> Payload:
        """Return the payload that the ledger stores."""
        return {**noisy.to_json(), "sizes": grid_steps(self.shown)}

    def decode(self, payload: Payload) -> NoisyMeasurement:
        """Return the values in a stored payload; refuse one with other grid steps."""
        check_grid_steps(payload, grid_steps(self.shown))
        return NoisyMeasurement.from_json(payload)


@dataclass(frozen=True, slots=True)
class PricedTopKeys:
    """The most frequent keys, by private selection, without any numbers."""

    selection: TopKeysPlan
    failure: Fraction = Fraction(0)
    readings: int | None = 1

    @property
    def shown(self) -> Plan:
        """The plan that describes the answer, which has keys and no numbers."""
        return self.selection.shown

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The name of the selection mechanism."""
        return (type(self.selection.selector).__name__,)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the contribution limits."""
        return notes_of(self.selection.plan)

    def errors(self, confidence: Number) -> dict[str, float | None]:
        """Return an empty dictionary, because the answer has no numbers."""
        del confidence
        return {}

    def group_errors(self, confidence: Number) -> dict[str, float]:
        """Return an empty dictionary, because the answer has no numbers."""
        del confidence
        return {}

    def regret(self, confidence: float) -> float | None:
        """Return a bound on how far chosen counts are below the best remaining ones."""
        return self.selection.regret(confidence)

    def explain(self, cost: Cost, *, reused: bool, level: float) -> Explanation:
        """Return an explanation of the query in sentences."""
        return explain_selection(self.selection, cost, reused=reused, level=level)

    def run(self, engine: Engine, hold: Hold, entropy: Entropy) -> NoisyMeasurement:
        """Return the chosen keys, in the order in which they were chosen."""
        sealed = engine.run(self.selection.plan.measurement, hold)
        return select_keys(sealed, self.selection, entropy)

    def encode(self, noisy: NoisyMeasurement) -> Payload:
        """Return the payload that the ledger stores."""
        return {**noisy.to_json(), "sizes": grid_steps(self.shown)}

    def decode(self, payload: Payload) -> NoisyMeasurement:
        """Return the keys in a stored payload."""
        check_grid_steps(payload, grid_steps(self.shown))
        return NoisyMeasurement.from_json(payload)


def grid_steps(plan: Plan) -> list[str]:
    """Return the steps of a plan's noise, and the rates of its quantiles, as strings.

    They are stored with an answer, and compared with those of the plan when the answer is shown
    again; see `check_grid_steps`. Rates are included because quantiles have no steps, and a later
    version may divide the same cost differently between them.
    """
    rates = [
        f"{float(quantile.choice.rate):.9g} {float(quantile.ends.rate):.9g}"
        for quantile in plan.quantiles
    ]
    return [*map(str, plan.noise.steps), *rates]


def check_grid_steps(payload: Payload, steps: Sequence[Any]) -> None:
    """Raise an error if a stored answer has grid steps or rates other than ``steps``.

    A later version of the planner may choose other steps for the same query at the same cost. The
    stored integers count steps of the earlier size, so that version would misread them.

    Raises:
        UnsupportedQuery: the steps differ.
    """
    if payload.get("sizes") != steps:
        raise UnsupportedQuery(GRID_STEPS_CHANGED)
