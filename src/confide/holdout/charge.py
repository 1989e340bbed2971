"""A private session inside a curator: the whole of it is charged before a row is read."""

import json
from typing import TYPE_CHECKING

from confide.errors import BadDeclaration
from confide.holdout.methods import Method
from confide.holdout.state import Payment
from confide.ledger import Question
from confide.loss import Loss
from confide.mechanisms import Neighbours

if TYPE_CHECKING:
    from confide.curator import Curator

__all__ = ["charge_session", "check_curator", "check_paid"]


def check_curator(curator: "Curator", method: Method) -> None:
    """Refuse methods and neighbours for which a curator could not state the loss."""
    if method.loss is None:
        raise BadDeclaration(
            f"{method.name} promises validity, not privacy; inside a curator use "
            "method='thresholdout' or method='gaussian'"
        )
    if curator.neighbours is not Neighbours.REPLACE:
        raise BadDeclaration(
            "a holdout's loss is stated for one row replaced; open the curator with "
            "neighbours='replace'"
        )


def charge_session(curator: "Curator", loss: Loss, name: str, terms: str) -> Payment:
    """Reserve what a session will ever tell, from a curator's budget.

    The charge keeps the limits of the curator's analyst and purpose too.

    Claim:   everything the session tells, and everything else the curator answers, before, after
             and in between, stays within the curator's budget.
    Why:     the session's loss is fixed beforehand and holds against an analyst who sees all other
             answers too; the filter is valid for sessions that run side by side.
    Source:  [HSTVVXZ23], docs/proofs/loss-filters.md.
    Checked: tests/holdout/test_curator.py.

    Raises:
        BudgetExceeded: the session costs more than is left; nothing was read or begun.
    """
    share, delta = curator.ledger.filter.price(loss)
    text = json.dumps({"holdout": name, "terms": terms})
    question = Question(text, name, curator.analyst, curator.purpose)
    hold = curator.ledger.reserve(question, share, delta, readings=None)
    receipt = curator.ledger.commit(hold, {})
    return Payment(receipt.entry, receipt.digest)


def check_paid(curator: "Curator", name: str, payment: Payment | None) -> None:
    """Refuse a session that this curator's ledger has not paid for.

    Why: a digest is a link in the chain of one ledger, which begins with its own random identity;
         so no other ledger has the entry with that digest.
    """
    kept = None if payment is None else curator.ledger.answer(payment.entry)
    if kept is None or payment is None or kept.receipt.digest != payment.digest:
        raise BadDeclaration(
            f"the session {name!r} was begun before, and this curator's ledger has no charge for "
            "it; open a new session with another name=, which is charged, or leave curator= out"
        )
