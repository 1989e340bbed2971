"""What stands behind the routes: one curator, its tokens, and the rules of asking."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeVar

from confide.client.refusals import NotReady, NotSignedIn, NotYours
from confide.curator import BudgetState, Curator, Preview
from confide.declare import Service
from confide.errors import BadDeclaration, Fault, Refusal, UnsupportedQuery
from confide.ledger import Entry
from confide.loss import Share
from confide.pricing import Prices, Want
from confide.release import Answer
from confide.server.boards import Boards
from confide.server.counts import Counts
from confide.server.tokens import Role, Token, TokenStore
from confide.server.turnstile import Turnstile

__all__ = ["Caller", "Office"]

T = TypeVar("T")
THREADS: Final = 16


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever showed a live token."""

    token: Token

    @property
    def name(self) -> str:
        """The analyst's name; limits and answers belong to it."""
        return self.token.name

    @property
    def account(self) -> str:
        """Whose rate this caller uses up: all tokens of one analyst share it."""
        return f"{self.token.role}:{self.token.name}"

    @property
    def is_owner(self) -> bool:
        """Whether everything may be seen."""
        return self.token.role is Role.OWNER

    @property
    def is_agent(self) -> bool:
        """Whether somebody handed this caller a part of their own budget."""
        return self.token.parent is not None


class Office:
    """Answers callers within their rights; everything that reads runs in threads of its own."""

    def __init__(self, curator: Curator, tokens: TokenStore, service: Service) -> None:
        self.curator, self.tokens, self.service = curator, tokens, service
        self.turnstile, self.counts, self.boards = Turnstile(service), Counts(), Boards()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="confide")

    def close(self) -> None:
        """Wait for the questions that are being answered; their answers are kept."""
        self._pool.shutdown(wait=True)

    async def run(self, work: Callable[[], T]) -> T:
        """Return what some work gives, done in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def run_question(self, caller: Caller, work: Callable[[], T]) -> T:
        """Return the outcome of a question, or say that it takes longer than callers wait.

        The question goes on after that: its place is held until it is done, and its answer kept.
        """
        place = self.turnstile.asking(caller.account)
        place.__enter__()

        def whole() -> T:
            try:
                return work()
            finally:
                place.__exit__(None, None, None)

        task = asyncio.get_running_loop().run_in_executor(self._pool, whole)
        try:
            return await asyncio.wait_for(asyncio.shield(task), float(self.service.longest_wait))
        except TimeoutError:
            task.add_done_callback(lambda done: done.exception())
            raise NotReady(
                "the answer takes longer than callers are kept waiting; ask the same question, or "
                "the same key, again in a while: it is charged once and its answer is kept"
            ) from None

    def sign_in(self, text: str) -> Caller:
        """Return whoever shows this token, once they are known and not too frequent."""
        token = self.tokens.find(text)
        if token is None:
            raise NotSignedIn(
                "this token is unknown, expired or revoked; ask the owner for a new one"
            )
        caller = Caller(token)
        self.turnstile.admit(caller.account)
        return caller

    def curator_of(self, caller: Caller) -> Curator:
        """Return the curator within the caller's limits."""
        if caller.is_owner:
            return self.curator
        try:
            return self.curator.as_analyst(caller.name)
        except BadDeclaration:
            # Privacy: what the owner is told names other analysts.
            raise NotYours("the owner has declared no limit for you; ask the owner") from None

    def ask(
        self, caller: Caller, sql: str, want: dict[str, Any], *, key: str | None, fresh: bool
    ) -> Answer:
        """Return an answer that is paid from the caller's part of the budget."""
        curator = self.curator_of(caller)
        if caller.token.limit is None:
            answer = curator.sql(sql, fresh=fresh, key=key, **want)
        else:
            answer = self._ask_within(caller.token, curator, sql, want, key=key, fresh=fresh)
        self.counts.add("confide_answers_total", reused="yes" if answer.reused else "no")
        return answer

    def _ask_within(
        self,
        token: Token,
        curator: Curator,
        sql: str,
        want: dict[str, Any],
        *,
        key: str | None,
        fresh: bool,
    ) -> Answer:
        """Return an answer that is paid from what a token was handed as well.

        # Privacy: the token is charged before the ledger, so a crash in between leaves less to
        # spend, never more; the charge is undone only where the ledger charged nothing.
        """
        if not fresh and curator.kept(sql) is not None:
            return curator.sql(sql, key=key, **want)  # free, now and for good
        share = Share.floor(curator.preview(sql, **want).cost.share)
        self.tokens.spend(token, share)
        try:
            answer = curator.sql(sql, fresh=fresh, key=key, share=share.fraction)
        except Refusal:
            self.tokens.give_back(token, share)
            raise
        if answer.reused:
            self.tokens.give_back(token, share)
        return answer

    def pay(
        self, caller: Caller, want: dict[str, Any], work: Callable[[Curator, dict[str, Any]], T]
    ) -> T:
        """Return what some work gives, paid from the caller's part, and from their token's too.

        # Privacy: as in `_ask_within`, the token is charged first and given back only where the
        # ledger charged nothing.
        """
        curator, token = self.curator_of(caller), caller.token
        if token.limit is None:
            return self._count(work(curator, want))
        share = Prices(curator.terms, curator.ledger).grant(Want.of(want))
        self.tokens.spend(token, share)
        try:
            found = work(curator, {"share": share.fraction})
        except Refusal:
            self.tokens.give_back(token, share)
            raise
        if _is_reused(found):
            self.tokens.give_back(token, share)
        return self._count(found)

    def _count(self, found: T) -> T:
        self.counts.add("confide_answers_total", reused="yes" if _is_reused(found) else "no")
        return found

    def preview(self, caller: Caller, sql: str, want: dict[str, Any]) -> Preview:
        """Return what an answer would cost and how far off it would be."""
        return self.curator_of(caller).preview(sql, **want)

    def budget(self, caller: Caller) -> BudgetState:
        """Return the budget as it stands for the caller, within a token's own limit."""
        state = self.curator_of(caller).budget
        limit, spent, left = caller.token.limit, caller.token.spent, caller.token.left
        if limit is None or left is None:
            return state
        rest = min(left, Share.floor(state.left.share) if state.left.share else Share(0))
        cost = self.curator.cost
        return BudgetState(total=cost(limit), spent=cost(spent), left=cost(rest))

    def entries(self, name: str | None, limit: int, before: int | None) -> list[Entry]:
        """Return charges, newest first: of one analyst, or of all."""
        return self.curator.ledger.history(limit, before=before, analyst=name)

    def recall(self, caller: Caller, entry: int) -> Answer:
        """Return one of the caller's own answers, as it was given."""
        self._check_own(caller, entry)
        found = self.curator.recall(entry)
        if found is None:
            raise UnsupportedQuery(
                f"entry {entry} cannot be shown again: it has no answer yet, is no single "
                "question, or the declaration has changed since"
            )
        return found

    def question(self, caller: Caller, entry: int) -> str:
        """Return the text of one of the caller's own questions."""
        return self._check_own(caller, entry).question.text

    def _check_own(self, caller: Caller, entry: int) -> Entry:
        """Return an entry, or refuse it: not there and not yours sound alike."""
        found = self.curator.ledger.history(1, before=entry + 1)
        is_there = bool(found) and found[0].number == entry
        if not is_there or not (caller.is_owner or found[0].question.analyst == caller.name):
            raise NotYours(f"entry {entry} is not one of your answers")
        return found[0]

    def is_sound(self) -> bool:
        """Tell whether balance and chain of the ledger agree."""
        try:
            self.curator.ledger.verify()
        except Fault:
            return False
        return True

    def accounts(self, caller: Caller) -> list[tuple[str, Fraction | None, Fraction]]:
        """Return who may spend how much, and has: everybody for the owner, oneself for others."""
        ledger = self.curator.ledger
        names = sorted(ledger.limits.analysts) if caller.is_owner else [caller.name]
        found: list[tuple[str, Fraction | None, Fraction]] = []
        for name in names:
            limit = ledger.limits.analysts.get(name)
            spent = ledger.allowance(name).spent.fraction
            found.append((name, None if limit is None else limit.share.fraction, spent))
        return found


def _is_reused(found: Any) -> bool:
    """Tell whether an answer was there before; of a batch, all are or none is."""
    one = found[0] if isinstance(found, tuple) else found
    return bool(getattr(one, "reused", False))
