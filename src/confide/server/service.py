"""`Service`: runs every operation for a caller, within the token's share.

# Privacy: no request holds a function, a path or an address; what runs on rows is the owner's.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeVar

from confide.client.http import NotReady, NotSignedIn, NotYours
from confide.curator import BudgetState, Curator, Preview, paid_only
from confide.declare import BoardSettings, ServerSettings
from confide.errors import BadDeclaration, Fault, Refusal, UnsupportedQuery
from confide.execution import DurableWatch
from confide.execution.executor import NotPaid
from confide.execution.pricing import Price, Pricing
from confide.ledger import Entry
from confide.loss import Share
from confide.release import Answer
from confide.release.explain import Explanation
from confide.release.selection import Choice
from confide.server import requests, responses
from confide.server.boards import Boards
from confide.server.metrics import Metrics
from confide.server.rate_limit import RateLimiter
from confide.server.serialization import (
    show_answer,
    show_cost,
    show_estimate,
    show_number,
    show_receipt,
)
from confide.server.tokens import Role, Token, TokenStore
from confide.statistics.estimate import EstimateResult

__all__ = [
    "Caller",
    "Service",
    "ask_watch",
    "choose",
    "close_watch",
    "estimate",
    "look_at_watch",
    "open_watch",
    "release",
]

T = TypeVar("T")
THREADS: Final = 16


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever showed a live token."""

    token: Token

    @property
    def name(self) -> str:
        """The name that the token was made for."""
        return self.token.name

    @property
    def analyst(self) -> str:
        """Whose limits and answers they are in the ledger; the owner's are nobody's."""
        return "" if self.is_owner else self.name

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

    def may_see(self, token: Token) -> bool:
        """Tell whether a token is listed for the caller: all, those of a name, or one's own."""
        if self.is_agent:
            return token.id == self.token.id
        return self.is_owner or token.name == self.name


class Service:
    """Answers callers within their rights; everything that reads runs in threads of its own."""

    def __init__(
        self,
        curator: Curator,
        tokens: TokenStore,
        settings: ServerSettings,
        boards: Sequence[BoardSettings] = (),
    ) -> None:
        self.curator, self.tokens, self.settings = curator, tokens, settings
        self.rate_limiter, self.metrics, self.boards = (
            RateLimiter(settings),
            Metrics(),
            Boards(boards),
        )
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
        place = ExitStack()
        place.enter_context(self.rate_limiter.asking(caller.account))

        def whole() -> T:
            with place:
                return work()

        task = asyncio.get_running_loop().run_in_executor(self._pool, whole)
        # Privacy: asyncio logs the words of an error that nobody has heard, and they may quote a
        # row; whoever waited for this one may be gone by then.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait([task], timeout=float(self.settings.longest_wait))
        if task.done():
            return task.result()
        raise NotReady(
            "this takes longer than callers are kept waiting, and goes on; ask again in a while "
            "with the same key, which is charged once. Without a key, wait until GET /v1/answers "
            "shows the question as answered: then it is free, and before it would be charged again"
        )

    def sign_in(self, text: str) -> Caller:
        """Return whoever shows this token, once they are known and not too frequent."""
        token = self.tokens.find(text)
        if token is None:
            raise NotSignedIn(
                "this token is unknown, expired or revoked; ask the owner for a new one"
            )
        caller = Caller(token)
        self.rate_limiter.admit(caller.account)
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
        return self.pay(
            caller,
            want,
            lambda curator, said: curator.sql(sql, fresh=fresh, key=key, **said),
            price=lambda curator: Share.floor(curator.preview(sql, **want).cost.share),
        )

    def pay(
        self,
        caller: Caller,
        want: dict[str, Any],
        work: Callable[[Curator, dict[str, Any]], T],
        *,
        price: Callable[[Curator], Share] | None = None,
    ) -> T:
        """Return what some work gives, paid from the caller's part, and from their token's too.

        ``price`` tells the share that the work takes, where the want alone does not.
        """
        curator, wanted = self.curator_of(caller), Price.of(want)
        grant = price or (lambda asked: Pricing(asked.terms, asked.ledger).share_for_cost(wanted))
        if caller.token.limit is None:
            found = work(curator, want)
        else:
            found = self._pay_within(caller.token, curator, want, work, grant)
        self.metrics.add("confide_answers_total", reused="yes" if _is_reused(found) else "no")
        return found

    def _pay_within(
        self,
        token: Token,
        curator: Curator,
        want: dict[str, Any],
        work: Callable[[Curator, dict[str, Any]], T],
        price: Callable[[Curator], Share],
    ) -> T:
        """Return what some work gives, paid from what a token was handed as well.

        What is paid for already comes first, so that it is free for a token with nothing left.

        # Privacy: the token is charged before the ledger, so a crash in between leaves less to
        # spend, never more; the charge is undone only where the ledger charged nothing.
        """
        with suppress(NotPaid):
            return work(paid_only(curator), want)
        share = price(curator)
        # With error=, a stored answer with a larger error does not do; it takes the same share.
        said = want if want.get("error") is not None else {"share": share.fraction}
        self.tokens.spend(token, share)
        try:
            found = work(curator, said)
        except (Refusal, BadDeclaration):
            self.tokens.give_back(token, share)
            raise
        if _is_reused(found):
            self.tokens.give_back(token, share)
        return found

    def preview(self, caller: Caller, sql: str, want: dict[str, Any]) -> Preview:
        """Return what an answer would cost and how far off it would be."""
        return self.curator_of(caller).preview(sql, **want)

    def explain(self, caller: Caller, sql: str, want: dict[str, Any]) -> Explanation:
        """Return what a query would do, in sentences."""
        return self.curator_of(caller).explain(sql, **want)

    def budget(self, caller: Caller) -> BudgetState:
        """Return the budget as it stands for the caller, within a token's own limit."""
        state = self.curator_of(caller).budget
        token = caller.token if caller.token.limit is None else self.tokens.reread(caller.token)
        if token.limit is None or token.left is None:
            return state
        rest = min(token.left, Share.floor(state.left.share) if state.left.share else Share(0))
        cost = self.curator.cost
        return BudgetState(total=cost(token.limit), spent=cost(token.spent), left=cost(rest))

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
        if not is_there or not (caller.is_owner or found[0].question.analyst == caller.analyst):
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


def estimate(
    service: Service, caller: Caller, asked: requests.StatisticRequest
) -> responses.EstimateResponse:
    """Return an estimate of the statistic of that name."""

    def ask(curator: Curator, want: dict[str, Any]) -> EstimateResult:
        said = {**asked.arguments(), **want, "fresh": asked.fresh, "key": asked.key}
        return curator.estimate(asked.statistic, asked.table, **said)

    found = service.pay(caller, asked.cost(), ask)
    return show_estimate(asked.statistic, found, asked.confidence)


PriceFields = dict[str, Any]


def choose(
    service: Service, caller: Caller, asked: requests.ChooseRequest
) -> responses.ChooseResponse:
    """Return the candidate with about the greatest score, and no number."""

    def ask(curator: Curator, want: PriceFields) -> Choice:
        scores = asked.candidates
        return curator.choose(list(scores), scores, fresh=asked.fresh, key=asked.key, **want)

    found = service.pay(caller, asked.cost(), ask)
    return responses.ChooseResponse(
        value=found.value,
        regret=show_number(found.regret),
        cost=show_cost(found.cost),
        receipt=show_receipt(found.receipt),
        reused=found.reused,
    )


def release(
    service: Service, caller: Caller, asked: requests.ReleaseRequest
) -> responses.ReleaseResponse:
    """Return the answers to a whole set of questions, planned together and charged once."""

    def ask(curator: Curator, want: PriceFields) -> tuple[Answer, ...]:
        said: PriceFields = {**want, "fresh": asked.fresh, "key": asked.key}
        return curator.release(asked.queries, weights=asked.weights, **said)

    found = service.pay(caller, asked.cost(), ask)
    return responses.ReleaseResponse(answers=[show_answer(one, asked.confidence) for one in found])


def open_watch(
    service: Service, caller: Caller, asked: requests.WatchRequest
) -> responses.WatchResponse:
    """Open a session that any worker goes on with; the same key finds it again, for free."""

    def ask(curator: Curator, want: PriceFields) -> DurableWatch:
        said: PriceFields = {
            **want,
            "signed": asked.signed,
            "key": asked.key,
            "label": _label(caller),
        }
        most = asked.sensitivity
        return curator.keep_watch(asked.threshold, asked.above, sensitivity=most, **said)

    return _show_watch(service.pay(caller, asked.cost(), ask))


def look_at_watch(service: Service, caller: Caller, entry: int) -> responses.WatchResponse:
    """Tell where a session stands; costs nothing."""
    return _show_watch(_find(service, caller, entry))


def ask_watch(
    service: Service, caller: Caller, entry: int, asked: requests.WatchQueryRequest
) -> responses.WatchQueryResponse:
    """Tell whether an answer is above, and how many times more that may be told."""
    watch = _find(service, caller, entry)
    return responses.WatchQueryResponse(above=watch.ask(asked.sql, key=asked.key), left=watch.left)


def close_watch(service: Service, caller: Caller, entry: int) -> None:
    """End a session; what it cost stays."""
    _find(service, caller, entry).close()


def _show_watch(watch: DurableWatch) -> responses.WatchResponse:
    return responses.WatchResponse(
        watch=watch.receipt.entry,
        left=watch.left,
        half_width=show_number(watch.half_width()),
        cost=show_cost(watch.cost),
        receipt=show_receipt(watch.receipt),
        reused=watch.reused,
    )


def _find(service: Service, caller: Caller, entry: int) -> DurableWatch:
    """Return a session of the caller's: not there and not yours sound alike.

    # Privacy: answers "above" were paid for, so an agent uses up those of its own sessions alone.
    """
    try:
        watch = service.curator_of(caller).resume_watch(entry)
    except UnsupportedQuery:
        watch = None
    if watch is None or (caller.is_agent and watch.label != _label(caller)):
        raise NotYours(
            "this is not one of your watches; POST /v1/watches, or the tool watch, opens one and "
            "tells its number"
        )
    return watch


def _label(caller: Caller) -> str:
    """Return what tells an agent's sessions from those of its analyst."""
    return caller.token.id if caller.is_agent else ""
