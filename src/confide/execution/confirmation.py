"""The owner's limit on the cost of one query, above which the caller must confirm."""

from fractions import Fraction
from typing import Final

from confide.errors import BudgetExceeded, Refusal
from confide.execution.pricing import Pricing
from confide.ledger import QueryIdentity
from confide.loss import Share
from confide.release import Cost, percent

__all__ = [
    "CONFIRM_ADVICE",
    "ConfirmationRequired",
    "check_confirmed",
    "confirmation_note",
    "find_max_share",
]

CONFIRM_ADVICE: Final = "To pay this much, pass `confirm=True`."


class ConfirmationRequired(Refusal):
    """The query costs more than the owner allows without confirmation; nothing was spent.

    ``cost`` is the price of the query, and ``limit`` the share above which it needs confirmation.
    ``advice`` ends the message.
    """

    code = "confirmation-required"

    def __init__(self, *, cost: Cost, limit: Fraction, advice: str = CONFIRM_ADVICE) -> None:
        super().__init__(
            f"This query would cost {percent(cost.share)} of the budget. A query that costs more "
            f"than {percent(limit)} needs confirmation. {advice}"
        )
        self.cost, self.limit, self.advice = cost, limit, advice

    def advise(self, advice: str) -> "ConfirmationRequired":
        """Return the same refusal with the advice of another front end."""
        return ConfirmationRequired(cost=self.cost, limit=self.limit, advice=advice)


def find_max_share(pricing: Pricing, analyst: str) -> Fraction:
    """Return the share of the budget above which a query of this analyst needs confirmation."""
    own = pricing.ledger.limits.max_share_per_query(analyst)
    return pricing.terms.max_share_per_query if own is None else own.fraction


def confirmation_note(limit: Fraction) -> str:
    """Return the note of a preview whose cost is above a limit."""
    return f"A query that costs more than {percent(limit)} of the budget needs confirmation."


def check_confirmed(
    pricing: Pricing, question: QueryIdentity, share: Share, delta: Fraction, *, is_confirmed: bool
) -> None:
    """Raise an error if a charge exceeds the owner's limit for one query and is not confirmed.

    # Privacy: the result depends only on the price, the declaration, and the ledger. This check
    # limits the damage of a careless query; the total budget holds without it.

    Raises:
        BudgetExceeded: the remaining budget does not cover the charge, so confirming cannot help.
        ConfirmationRequired: the charge fits, but the caller must confirm it.
    """
    limit = find_max_share(pricing, question.analyst)
    if is_confirmed or share.fraction <= limit:
        return
    ledger = pricing.ledger
    ledger.filter.grant(share, delta)
    left = ledger.allowance(question.analyst, question.purpose).left
    if share > left:
        raise BudgetExceeded(
            f"This query would cost {percent(share.fraction)} of the budget, but only "
            f"{percent(left.fraction, down=True)} is left for you. Group by fewer keys or accept a "
            "larger error.",
            cost=share.fraction,
            left=left.fraction,
        )
    raise ConfirmationRequired(cost=pricing.cost(share), limit=limit)
