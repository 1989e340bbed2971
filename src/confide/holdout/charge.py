"""A private session inside a curator: the whole of it is charged before a row is read."""

import json
from typing import TYPE_CHECKING

from confide.errors import BadDeclaration
from confide.holdout.methods import Method
from confide.ledger import Question
from confide.mechanisms import Neighbours

if TYPE_CHECKING:
    from confide.curator import Curator

__all__ = ["charge_session"]


def charge_session(curator: "Curator", method: Method, name: str, terms: str) -> None:
    """Reserve what a session will ever tell, from a curator's budget.

    Claim:   everything the session tells, and everything else the curator answers, before, after
             and in between, stays within the curator's budget.
    Why:     the session's loss is fixed beforehand and holds against an analyst who sees all other
             answers too; the filter is valid for sessions that run side by side.
    Source:  [HSTVVXZ23], docs/proofs/loss-filters.md.
    Checked: tests/holdout/test_curator.py.

    Raises:
        BudgetExceeded: the session costs more than is left; nothing was read or begun.
    """
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
    share, delta = curator.ledger.filter.price(method.loss)
    question = Question(json.dumps({"holdout": name, "terms": terms}), name, analyst="")
    hold = curator.ledger.reserve(question, share, delta, readings=None)
    curator.ledger.commit(hold, {})
