"""`Price` and `Pricing`: epsilon, share or error to a share of the budget.

Everything here follows from the declaration, the question and the terms of the budget; no row is
read and nothing is spent.
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

__all__ = ["FREE", "Price", "Pricing", "Widths"]

SEARCH_STEPS: Final = 10
LEAST: Final = Share(1).fraction
FREE: Final = Cost(Fraction(0), 0.0)

Widths = Callable[[Share], Mapping[str, float | None]]
"""The half-width of each column of an answer that a share pays for; None where data decide it."""


@dataclass(frozen=True, slots=True)
class Price:
    """What an answer may cost, or how near it must be: one of the three."""

    epsilon: Number | None = None
    share: Number | None = None
    error: Number | None = None
    confidence: Number = 0.95

    @classmethod
    @refusing
    def of(cls, given: Mapping[str, object]) -> "Price":
        """Return the want that a caller named."""
        unknown = sorted(set(given) - {"epsilon", "share", "error", "confidence"})
        if unknown:
            raise BadDeclaration(f"{unknown[0]} is not understood; say epsilon=, share= or error=")
        want = cls(**cast("PriceArgs", given))
        if sum(value is not None for value in (want.epsilon, want.share, want.error)) != 1:
            raise BadDeclaration(
                "say what the answer may cost, by exactly one of epsilon=, share= and error="
            )
        want.check_numbers()
        return want

    @property
    def level(self) -> float:
        """How often an interval must hold what it is for."""
        return float(probability("confidence", self.confidence, zero=False))

    def check_numbers(self) -> None:
        """Refuse what is no number here, even where a stored answer would need none of them."""
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
    """The terms of a budget, and what its shares are worth."""

    terms: Budget
    ledger: Ledger

    @refusing
    def grant(self, want: Price) -> Share:
        """Return the share that an answer takes whose cost was named."""
        if want.error is not None:
            raise UnsupportedQuery(
                "error= is for one question with numbers; here say epsilon= or share="
            )
        if want.share is not None:
            part = Share.floor(want.share).fraction
            said, whole = f"share={want.share}", "1"
        else:
            part = self._part(positive("epsilon", want.epsilon))
            said, whole = f"epsilon={want.epsilon}", f"{float_below(self.terms.epsilon):.4g}"
        if part > 1:
            raise BudgetExceeded(
                f"{said} is more than the whole budget allows ({whole}); ask for less",
                cost=part,
                left=self.ledger.filter.left.fraction,
            )
        if part < LEAST:
            raise BadArgument(f"{said} is too little to count; ask for more, such as 0.01")
        return Share.floor(part)

    def share(self, want: Price, widths: Widths) -> Share:
        """Return the share of the budget that an answer as wanted takes.

        ``widths`` tells the half-width of each column at a share; it is asked for ``error=`` alone.
        """
        if want.error is None:
            return self.grant(want)
        wanted = float_below(positive("error", want.error))
        least = _widest(widths, Fraction(1))
        if least > wanted:
            raise BudgetExceeded(
                f"even the whole budget leaves an error of {_text_above(least)}, more than the "
                f"{wanted:.4g} asked for; accept a larger error, or ask for fewer statistics at "
                "once",
                cost=Fraction(1),
                left=self.ledger.filter.left.fraction,
            )
        return _least(lambda part: _is_enough(widths, part, wanted))

    def cost(self, share: Share) -> Cost:
        """Return a share with its epsilon, at the budget's delta.

        An answer that names keys spends the share's part of the delta set aside as well; it is
        counted for every answer, so that the epsilon shown is never too small.
        """
        if not share.units:
            return FREE
        if share.fraction == 1:
            return Cost(share.fraction, float_above(self.terms.epsilon))
        loss = self.noise_loss(share)
        if isinstance(loss, PureLoss):
            return Cost(share.fraction, float_above(loss.epsilon))
        whole = ApproximateLoss(loss, self.failure(share))
        return Cost(share.fraction, whole.epsilon_at(self.terms.delta))

    def loss(self, share: Share) -> Loss:
        """Return the loss that a share allows, in the filter's own currency."""
        return self.ledger.opening.loss_of(share)

    def noise_loss(self, share: Share) -> PureLoss | GaussianLoss:
        """Return the loss that noise is calibrated to, for a share."""
        return loss_for_noise(self.loss(share))

    def failure(self, share: Share) -> Fraction:
        """Return the delta that goes with a share: the same part of the pot."""
        return self.ledger.opening.delta_pot * share.fraction

    def _part(self, epsilon: Fraction) -> Fraction:
        """Return the part of the budget that an answer of this epsilon takes.

        Why: its delta is that of its noise and, if it names keys, its part of the delta set aside.
             With none of the latter it would take the most, so no more than that much is spent.
        """
        state = self.ledger.opening
        if isinstance(state, PureFilter):
            return epsilon / state.total
        most = min(self._noise_part(epsilon, Fraction(0)), Fraction(1)) if state.delta_pot else 0
        part = self._noise_part(epsilon, state.delta_pot * most)
        # Renyi's accounting may want more for a single answer than the whole, which is enough.
        # So all whose noise would take more than the whole, up to its epsilon, have the whole's.
        return min(part, Fraction(1)) if epsilon <= self.terms.epsilon else part

    def _noise_part(self, epsilon: Fraction, failure: Fraction) -> Fraction:
        """Return the part of the budget that noise takes beside another delta."""
        state = self.ledger.opening
        mu_squared = mu_squared_for(epsilon, self.terms.delta - failure)
        if isinstance(state, RenyiFilter):
            return state.alpha * mu_squared / 2 / state.total
        return mu_squared / state.total


def _widest(widths: Widths, part: Fraction) -> float:
    """Return the largest half-width that a part of the budget leaves, in any column."""
    found = widths(Share.floor(part)).values()
    known = [width for width in found if width is not None]
    if not known or len(known) < len(found):
        raise UnsupportedQuery(
            "error= can be asked of counts and sums, whose error does not depend on the "
            "data; for other statistics say epsilon= or share="
        )
    return max(known)


def _text_above(width: float) -> str:
    """Return four digits of a number, rounded up: who asks for as much is not refused again.

    >>> _text_above(2.99573), _text_above(3.0), _text_above(123456.0)
    ('2.996', '3', '1.235e+05')
    """
    shown, step = f"{width:.4g}", 10.0 ** (math.floor(math.log10(width)) - 3)
    return shown if float(shown) >= width else f"{width + step:.4g}"


def _is_enough(widths: Widths, part: Fraction, wanted: float) -> bool:
    """Tell whether a part of the budget suffices; one that is too small to ask with does not.

    Why: the whole budget was asked first, so a refusal here is about the part and not the question.
    """
    try:
        return _widest(widths, part) <= wanted
    except (UnsupportedQuery, BadDeclaration):
        return False


def _least(suffices: Callable[[Fraction], bool]) -> Share:
    """Return the least share, to a part in 1000, that suffices, as the whole budget does."""
    high = Fraction(1)
    while suffices(high / 2):
        high /= 2
    low = high / 2
    for _ in range(SEARCH_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return Share.floor(high)
