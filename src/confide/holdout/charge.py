"""A private session inside a curator: charged before a row is read, its state in the ledger."""

import json
import secrets
from collections.abc import Callable
from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from confide.errors import BadDeclaration, Fault
from confide.holdout.methods import Method
from confide.holdout.state import Progress
from confide.ledger import (
    AnsweredAlready,
    Hold,
    KeyUsed,
    Ledger,
    MemoryLedger,
    Noisy,
    Question,
    Stored,
)
from confide.loss import Loss, Share
from confide.mechanisms import Neighbours

if TYPE_CHECKING:
    from confide.curator import Curator

__all__ = ["LedgerStore", "check_curator"]

T = TypeVar("T")


def check_curator(curator: "Curator", method: Method) -> Loss:
    """Return the loss of a session; refuse what a curator could not state it for."""
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
    return method.loss


class LedgerStore:
    """Progress as answers in a curator's ledger, one for each step of the session.

    The first step is the charge for all that the session will ever tell; later ones cost nothing
    more. A step is found by its key, and the ledger gives each key to one charge and each charge to
    one answer.

    Claim:   everything the session tells, and everything else the curator answers, before, after
             and in between, stays within the curator's budget; and no two answers of the session
             come from the same step, also when processes share it or one of them crashes. An older
             copy of the ledger is noticed wherever the ledger itself notices it.
    Why:     the session's loss is fixed beforehand and holds against an analyst who sees all other
             answers too; the filter is valid for sessions that run side by side. What a step found
             is shown after its commit, and a second commit of one step is refused: its draw is
             thrown away unseen, whatever it was. Steps are records of the chain like any other, so
             the anchor covers them.
    Source:  [HSTVVXZ23], docs/proofs/loss-filters.md, docs/ledger.md.
    Checked: tests/holdout/test_curator.py.
    """

    __slots__ = ("_analyst", "_entry", "_ledger", "_loss", "_name", "_purpose")

    def __init__(self, curator: "Curator", name: str, loss: Loss) -> None:
        self._ledger: Ledger = curator.ledger
        self._name, self._loss, self._entry = name, loss, -1
        self._analyst, self._purpose = curator.analyst, curator.purpose

    def open(self, terms: str, start: Progress) -> None:
        """Charge the session and begin it, or go on with the one of this name.

        Raises:
            BudgetExceeded: the session costs more than is left; nothing was read or begun.
        """
        question, key = self._name_step({"terms": terms}), self._key(0)
        try:
            begun = self._ledger.resume(question, key)
        except KeyUsed:
            raise BadDeclaration(
                f"the session {self._name!r} was opened on other terms; open it as it was, or give "
                "another name="
            ) from None
        if isinstance(begun, Stored):
            self._entry = begun.receipt.entry
            return
        # Privacy: charged before the session exists; after a crash the charge is found again.
        price = self._ledger.opening.price(self._loss)
        self._entry, _ = self._keep(question, key, _step(0, start), price)

    def change(self, body: Callable[[Progress], tuple[Progress, T]]) -> T:
        """Take the next step; when another process was faster, the one after that."""
        question = self._name_step({"paid": self._entry})
        while True:
            step, progress = self._newest(question)
            after, found = body(progress)
            # Privacy: what was found is shown only if this commit is the one that is kept.
            if self._keep(question, self._key(step + 1), _step(step + 1, after))[1]:
                return found

    def look(self) -> Progress:
        """Return where the session stands."""
        return self._newest(self._name_step({"paid": self._entry}))[1]

    def _keep(
        self,
        question: Question,
        key: str,
        noisy: Noisy,
        price: tuple[Share, Fraction] = (Share(0), Fraction(0)),
    ) -> tuple[int, bool]:
        """Keep a step unless there is one; return its entry, and whether this one was kept."""
        hold: Hold | Stored | None
        try:
            hold = self._ledger.reserve(question, *price, readings=None, key=key)
        except KeyUsed:
            hold = self._ledger.resume(question, key)
        if isinstance(hold, Stored):
            return hold.receipt.entry, False
        if hold is None:
            raise Fault(
                "a step of a holdout session is in use, and cannot be found; ask again, and verify "
                "the ledger if that does not help"
            )
        try:
            return self._ledger.commit(hold, noisy).entry, True
        except AnsweredAlready:
            return hold.entry, False

    def _newest(self, question: Question) -> tuple[int, Progress]:
        """Return the last step and where it led."""
        kept = self._ledger.stored(question) or self._ledger.answer(self._entry)
        if kept is None:
            raise Fault(
                f"the session {self._name!r} is no longer in its ledger; restore the ledger that "
                "it was opened with"
            )
        return int(kept.noisy["step"]), Progress(**kept.noisy["progress"])

    def _name_step(self, what: dict[str, object]) -> Question:
        """Return what the ledger writes down: text that no other question has."""
        text = json.dumps({"holdout": self._name} | what)
        return Question(text, "holdout", self._analyst, self._purpose)

    def _key(self, step: int) -> str:
        # Callers' keys are printable, so none of theirs can stand in the way of a step.
        return f"holdout\n{self._name}: {step}"

    def __getstate__(self) -> tuple[None, dict[str, object]]:
        """Refuse to be copied with a ledger in memory: both copies would answer."""
        if isinstance(self._ledger, MemoryLedger):
            raise TypeError(
                "a holdout session on a ledger in memory cannot be copied: both copies would "
                "answer; open the curator with ledger= a file or a database (n_jobs > 1 needs that)"
            )
        return None, {name: getattr(self, name) for name in self.__slots__}


def _step(number: int, progress: Progress) -> Noisy:
    """Return a step as the ledger keeps it.

    # Privacy: progress may hold a secret, and exports show a digest of it; with 256 fresh bits
    # beside it nobody can find the one that has this digest.
    """
    return {"step": number, "progress": asdict(progress), "blind": secrets.token_hex(32)}
