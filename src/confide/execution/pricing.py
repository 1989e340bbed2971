"""`Price` and `Pricing`: conversion of epsilon, share, or error to a share of the budget.

Callers set the cost of an answer by one of ``epsilon=``, ``share=``, and ``error=``. The ledger and
the planner only know shares. Every result depends only on the declaration, the query, and the terms
of the budget. No row is read and nothing is spent.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, cast

from confide.declare import Budget
from confide.declare.budget import PriceArgs
from confide.errors import (
    BadArgument,
    BadDeclaration,
    BudgetExceeded,
    UnsupportedQuery,
    refusing,
)
from confide.exact import Number, float_above, float_below, positive, probability
from confide.ledger import Ledger
from confide.loss import (
    ApproximateLoss,
    GaussianLoss,
    Loss,
    PureFilter,
    PureLoss,
    RenyiFilter,
    Share,
    mu_squared_for,
)
from confide.plan.calibration import loss_for_noise
from confide.release import Cost

__all__ = ["ZERO_COST", "Price", "Pricing", "Widths"]

SEARCH_STEPS: Final = 10
MIN_SHARE: Final = Share(1).fraction
ZERO_COST: Final = Cost(Fraction(0), 0.0)

Widths = Callable[[Share], Mapping[str, float | None]]
"""Returns the half-width of each column of an answer at a share, or None if it depends on data."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of an answer: exactly one of epsilon, share, and margin of error.

    ``confidence`` is the level at which the margin of error, and previewed errors, hold.
    """

    epsilon: Number | None = None
    share: Number | None = None
    error: Number | None = None
    confidence: Number = 0.95

    @classmethod
    @refusing
    def of(cls, given: Mapping[str, object]) -> "Price":
        """Return the price that a caller passed as keyword arguments, checked."""
        unknown = sorted(set(given) - {"epsilon", "share", "error", "confidence"})
        if unknown:
            raise BadDeclaration(
                f"Unknown argument {unknown[0]!r}. Pass `epsilon=`, `share=`, or `error=`."
            )
        price = cls(**cast("PriceArgs", given))
        if sum(value is not None for value in (price.epsilon, price.share, price.error)) != 1:
            raise BadDeclaration(
                "Pass exactly one of `epsilon=`, `share=`, and `error=` to set the cost."
            )
        price.check_numbers()
        return price

    @property
    def level(self) -> float:
        """The confidence level of intervals, as a float."""
        return float(probability("confidence", self.confidence, zero=False))

    def check_numbers(self) -> None:
        """Raise BadDeclaration for a bad number.

        Checked up front, because a price is not always read if a stored answer is reused.
        """
        if self.epsilon is not None:
            positive("epsilon", self.epsilon)
        if self.share is not None:
            is_text = isinstance(self.share, str)
            positive("share", str(self.share).strip().removesuffix("%") if is_text else self.share)
        if self.error is not None:
            positive("error", self.error)
        probability("confidence", self.confidence, zero=False)


@dataclass(frozen=True, slots=True)
class Pricing:
    """Converts between shares of a budget, prices, and losses; ``terms`` is the declared budget."""

    terms: Budget
    ledger: Ledger

    @refusing
    def share_for_cost(self, price: Price) -> Share:
        """Return the share for a price given as ``epsilon=`` or ``share=``."""
        if price.error is not None:
            raise UnsupportedQuery(
                "`error=` can be used only for a single query with numbers. Pass `epsilon=` or "
                "`share=` instead."
            )
        if price.share is not None:
            part = Share.floor(price.share).fraction
            given, limit = f"share={price.share}", "100%"
        else:
            part = self._fraction_for_epsilon(positive("epsilon", price.epsilon))
            given = f"epsilon={price.epsilon}"
            limit = f"epsilon {float_below(self.terms.epsilon):.4g}"
        if part > 1:
            raise BudgetExceeded(
                f"`{given}` exceeds the total budget ({limit}). Pass a smaller value.",
                cost=part,
                left=self.ledger.filter.left.fraction,
            )
        if part < MIN_SHARE:
            raise BadArgument(
                f"`{given}` is too small to be charged. Pass a larger value, such as 0.01."
            )
        return Share.floor(part)

    def share(self, price: Price, widths: Widths) -> Share:
        """Return the share of the budget for a price.

        ``widths`` returns the half-width of each column at a share; only ``error=`` needs it.
        """
        if price.error is None:
            return self.share_for_cost(price)
        target = float_below(positive("error", price.error))
        lowest = _widest(widths, Fraction(1))
        if lowest > target:
            raise BudgetExceeded(
                f"Even the entire budget gives an error of {_format_rounded_up(lowest)}, more than "
                f"the {target:.4g} requested. Accept a larger error, or select fewer statistics.",
                cost=Fraction(1),
                left=self.ledger.filter.left.fraction,
            )
        return _smallest_share(lambda part: _is_sufficient(widths, part, target))

    def cost(self, share: Share) -> Cost:
        """Return the cost of a share, with its epsilon at the budget's delta.

        An answer with undeclared keys also spends a part of the delta set aside for partition
        selection. Every cost includes that part, so that the epsilon shown is never too small.
        """
        if not share.units:
            return ZERO_COST
        if share.fraction == 1:
            return Cost(share.fraction, float_above(self.terms.epsilon))
        loss = self.noise_loss(share)
        if isinstance(loss, PureLoss):
            return Cost(share.fraction, float_above(loss.epsilon))
        with_failure = ApproximateLoss(loss, self.failure(share))
        return Cost(share.fraction, with_failure.epsilon_at(self.terms.delta))

    def loss(self, share: Share) -> Loss:
        """Return the loss that a share buys, in the filter's measure: pure, Gaussian, or Renyi."""
        return self.ledger.opening.loss_of(share)

    def noise_loss(self, share: Share) -> PureLoss | GaussianLoss:
        """Return the loss to which noise is calibrated for a share."""
        return loss_for_noise(self.loss(share))

    def failure(self, share: Share) -> Fraction:
        """Return the share's fraction of the delta that is set aside for partition selection."""
        return self.ledger.opening.delta_pot * share.fraction

    def _fraction_for_epsilon(self, epsilon: Fraction) -> Fraction:
        """Return the fraction of the budget that an answer with this epsilon costs.

        Why: with undeclared keys, an answer that costs a fraction f of the budget also takes a
             fraction f of the delta set aside (``delta_pot``). Its delta must cover that and its
             noise, but f is only known once the noise is priced. So f is computed with
             delta - delta_pot * largest left for the noise, where ``largest`` is the fraction if
             noise could use all of delta. As f is at most ``largest``, the answer never spends more
             than this epsilon.
        """
        state = self.ledger.opening
        if isinstance(state, PureFilter):
            return epsilon / state.total
        largest = (
            min(self._noise_fraction(epsilon, Fraction(0)), Fraction(1)) if state.delta_pot else 0
        )
        part = self._noise_fraction(epsilon, state.delta_pot * largest)
        # For a single answer, Renyi accounting may overestimate the cost and exceed the budget. An
        # epsilon up to the budget's never costs more than the budget.
        return min(part, Fraction(1)) if epsilon <= self.terms.epsilon else part

    def _noise_fraction(self, epsilon: Fraction, failure: Fraction) -> Fraction:
        """Return the fraction of the budget that noise costs if ``failure`` is taken from delta."""
        state = self.ledger.opening
        mu_squared = mu_squared_for(epsilon, self.terms.delta - failure)
        if isinstance(state, RenyiFilter):
            return state.alpha * mu_squared / 2 / state.total
        return mu_squared / state.total


def _widest(widths: Widths, part: Fraction) -> float:
    """Return the largest half-width of any column at a fraction of the budget."""
    found = widths(Share.floor(part)).values()
    known = [width for width in found if width is not None]
    if not known or len(known) < len(found):
        raise UnsupportedQuery(
            "`error=` can be used only for counts and sums, whose error does not depend on the "
            "data. For other statistics, pass `epsilon=` or `share=`."
        )
    return max(known)


def _format_rounded_up(width: float) -> str:
    """Return four digits of a number, rounded up, so that asking for this error succeeds.

    >>> _format_rounded_up(2.99573), _format_rounded_up(3.0), _format_rounded_up(123456.0)
    ('2.996', '3', '1.235e+05')
    """
    shown, step = f"{width:.4g}", 10.0 ** (math.floor(math.log10(width)) - 3)
    return shown if float(shown) >= width else f"{width + step:.4g}"


def _is_sufficient(widths: Widths, part: Fraction, target: float) -> bool:
    """Return whether every half-width is at most ``target`` at a fraction of the budget.

    A fraction for which the planner refuses the query is not sufficient.

    Why: the planner accepted the query at the whole budget, so it refuses the fraction, not the
         query.
    """
    try:
        return _widest(widths, part) <= target
    except (UnsupportedQuery, BadDeclaration):
        return False


def _smallest_share(is_sufficient: Callable[[Fraction], bool]) -> Share:
    """Return a sufficient share at most 0.1% above the lowest; the whole budget must suffice."""
    high = Fraction(1)
    while is_sufficient(high / 2):
        high /= 2
    low = high / 2
    for _ in range(SEARCH_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_sufficient(middle) else (middle, high)
    return Share.floor(high)
