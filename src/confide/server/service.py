"""`Service`: all server operations, run for a caller within the limit of their token.

Routes, pages, and the MCP endpoint parse requests, call this module, and format its results.

# Privacy: no request contains a function, a path, or an address. Only the owner's code sees rows.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeVar

from confide.client.http import JSON_ADVICE, NotReady, NotSignedIn, NotYours
from confide.curator import BudgetState, Curator, Preview, paid_only
from confide.declare import BoardSettings, ServerSettings
from confide.errors import BadDeclaration, Fault, Refusal, UnsupportedQuery
from confide.execution import DurableWatch
from confide.execution.confirmation import ConfirmationRequired
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
    "open_watch",
    "read_watch",
    "release",
]

T = TypeVar("T")
THREAD_COUNT: Final = 16
AGENT_ADVICE: Final = (
    "Your token cannot confirm. Lower the cost, or ask the owner for a token made with "
    "`confide token NAME --may-confirm`."
)


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller, authenticated by a valid token.

    ``uses_tools`` is whether the request came through the tools for language models.
    """

    token: Token
    uses_tools: bool = False

    @property
    def name(self) -> str:
        """The name that the token was issued to."""
        return self.token.name

    @property
    def analyst(self) -> str:
        """The analyst's name in the ledger; empty for the owner."""
        return "" if self.is_owner else self.name

    @property
    def account(self) -> str:
        """The name for which rate limits count requests; all tokens of one analyst share it."""
        return f"{self.token.role}:{self.token.name}"

    @property
    def is_owner(self) -> bool:
        """Whether the caller is the owner, who can see everything."""
        return self.token.role is Role.OWNER

    @property
    def is_agent(self) -> bool:
        """Whether the token was issued by an analyst, from their own budget."""
        return self.token.parent is not None

    @property
    def may_confirm(self) -> bool:
        """Whether the caller can confirm a cost above the owner's limit for one query.

        Tokens that an analyst issued or that have a limit, and all tokens used through the tools,
        must have been created with that right.
        """
        # Privacy: owners give agents tokens with a limit, and an agent can send HTTP by itself.
        is_for_agent = self.is_agent or self.token.limit is not None
        return self.token.may_confirm or not (is_for_agent or self.uses_tools)

    def may_see(self, token: Token) -> bool:
        """Return whether the caller can see a token.

        The owner sees all tokens, an analyst those of their name, and an agent only its own.
        """
        if self.is_agent:
            return token.id == self.token.id
        return self.is_owner or token.name == self.name


class Service:
    """The server's operations, with access checks; blocking work runs in a thread pool."""

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
        self._pool = ThreadPoolExecutor(THREAD_COUNT, thread_name_prefix="confide")

    def close(self) -> None:
        """Wait for running queries to finish; their answers are stored."""
        self._pool.shutdown(wait=True)

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of ``work``, run in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def run_query(self, caller: Caller, work: Callable[[], T]) -> T:
        """Return the result of a query, or raise `NotReady` after ``max_wait`` seconds.

        In the latter case, the query keeps running and occupies its slot. If it succeeds, its
        answer is stored.
        """
        slot = ExitStack()
        slot.enter_context(self.rate_limiter.query_slot(caller.account))

        def guarded() -> T:
            with slot:
                return work()

        task = asyncio.get_running_loop().run_in_executor(self._pool, guarded)
        # Privacy: asyncio logs the message of an exception that is never retrieved, and the message
        # may quote a row. The caller may leave before the task ends, so retrieve it here.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait([task], timeout=float(self.settings.max_wait))
        if task.done():
            return task.result()
        raise NotReady(
            "The query is still running. Retry with the same key to fetch the answer; you will not "
            "be charged twice. Without a key, wait until `GET /v1/answers` shows the query as "
            "answered. After that, a retry is free; before that, it would be charged again."
        )

    def sign_in(self, text: str) -> Caller:
        """Return the caller with this token, after counting the request for the rate limit."""
        token = self.tokens.find(text)
        if token is None:
            raise NotSignedIn(
                "The token is unknown, expired, or revoked. Ask the owner for a new one."
            )
        caller = Caller(token)
        self.rate_limiter.admit(caller.account)
        return caller

    def curator_of(self, caller: Caller) -> Curator:
        """Return the curator, restricted to the caller's limits."""
        if caller.is_owner:
            return self.curator
        try:
            return self.curator.as_analyst(caller.name)
        except BadDeclaration:
            # Privacy: the original message, for the owner, names other analysts.
            raise NotYours("You have no declared budget limit. Ask the owner for one.") from None

    def ask(
        self,
        caller: Caller,
        sql: str,
        price_args: dict[str, Any],
        *,
        key: str | None,
        fresh: bool,
        confirm: bool = False,
    ) -> Answer:
        """Return an answer, charged to the caller's share of the budget unless it is reused."""
        return self.charge_caller(
            caller,
            price_args,
            lambda curator, keywords: curator.sql(sql, fresh=fresh, key=key, **keywords),
            confirm=confirm,
            price=lambda curator: Share.floor(curator.preview(sql, **price_args).cost.share),
        )

    def charge_caller(
        self,
        caller: Caller,
        price_args: dict[str, Any],
        work: Callable[[Curator, dict[str, Any]], T],
        *,
        confirm: bool,
        price: Callable[[Curator], Share] | None = None,
    ) -> T:
        """Return the result of ``work``, charged to the caller and to their token's limit, if any.

        ``price`` returns the share that the work costs, if ``price_args`` do not determine it.
        """
        curator, parsed = self.curator_of(caller), Price.of(price_args)
        # Privacy: a confirmation counts only from a caller who has the right to confirm.
        is_confirmed = confirm and caller.may_confirm

        def confirmed(curator: Curator, keywords: dict[str, Any]) -> T:
            try:
                return work(curator, {**keywords, "confirm": is_confirmed})
            except ConfirmationRequired as refusal:
                advice = JSON_ADVICE if caller.may_confirm else AGENT_ADVICE
                raise refusal.advise(advice) from None

        grant = price or (
            lambda curator: Pricing(curator.terms, curator.ledger).share_for_cost(parsed)
        )
        if caller.token.limit is None:
            found = confirmed(curator, price_args)
        else:
            found = self._charge_token(caller.token, curator, price_args, confirmed, grant)
        self.metrics.add("confide_answers_total", reused="yes" if _is_reused(found) else "no")
        return found

    def _charge_token(
        self,
        token: Token,
        curator: Curator,
        price_args: dict[str, Any],
        work: Callable[[Curator, dict[str, Any]], T],
        price: Callable[[Curator], Share],
    ) -> T:
        """Return the result of ``work``, charged to the limit of a token as well.

        Answers that are already paid for are tried first, so a spent token still gets them.

        # Privacy: the token is charged before the ledger, so a crash in between leaves less to
        # spend, never more. The token's charge is undone only if the ledger charged nothing.
        """
        with suppress(NotPaid):
            return work(paid_only(curator), price_args)
        share = price(curator)
        # With `error=`, no stored answer with a larger error may be reused; the share is the same.
        has_error = price_args.get("error") is not None
        charged = price_args if has_error else {"share": share.fraction}
        self.tokens.spend(token, share)
        try:
            found = work(curator, charged)
        except (Refusal, BadDeclaration):
            self.tokens.refund(token, share)
            raise
        if _is_reused(found):
            self.tokens.refund(token, share)
        return found

    def preview(self, caller: Caller, sql: str, price_args: dict[str, Any]) -> Preview:
        """Return the cost and margins of error of a query."""
        return self.curator_of(caller).preview(sql, **price_args)

    def explain(self, caller: Caller, sql: str, price_args: dict[str, Any]) -> Explanation:
        """Return an explanation of a query, in sentences."""
        return self.curator_of(caller).explain(sql, **price_args)

    def budget(self, caller: Caller) -> BudgetState:
        """Return the caller's budget, within the limit of their token."""
        state = self.curator_of(caller).budget
        token = caller.token if caller.token.limit is None else self.tokens.refresh(caller.token)
        if token.limit is None or token.left is None:
            return state
        rest = min(token.left, Share.floor(state.left.share) if state.left.share else Share(0))
        cost = self.curator.cost
        return BudgetState(total=cost(token.limit), spent=cost(token.spent), left=cost(rest))

    def entries(self, name: str | None, limit: int, before: int | None) -> list[Entry]:
        """Return up to ``limit`` charges before entry ``before``, newest first.

        ``name`` is the analyst, empty for the owner, or None for everyone.
        """
        return self.curator.ledger.history(limit, before=before, analyst=name)

    def answer(self, caller: Caller, entry: int) -> Answer:
        """Return one of the caller's stored answers; the owner can get any stored answer."""
        self._check_own(caller, entry)
        found = self.curator.answer(entry)
        if found is None:
            raise UnsupportedQuery(
                f"Entry {entry} cannot be shown. Either it has no answer yet, or it is not a "
                "single query, or the declaration has changed since. Run the query again."
            )
        return found

    def query_text(self, caller: Caller, entry: int) -> str:
        """Return the SQL of one of the caller's queries, or of any query to the owner."""
        return self._check_own(caller, entry).question.text

    def _check_own(self, caller: Caller, entry: int) -> Entry:
        """Return an entry, or raise the same error if it is missing or belongs to someone else.

        To the owner, every entry counts as their own.
        """
        found = self.curator.ledger.history(1, before=entry + 1)
        is_there = bool(found) and found[0].number == entry
        if not is_there or not (caller.is_owner or found[0].question.analyst == caller.analyst):
            raise NotYours(
                f"Entry {entry} is not one of your answers. `GET /v1/answers` lists them."
            )
        return found[0]

    def is_ledger_consistent(self) -> bool:
        """Return whether the balance and hash chain of the ledger are consistent."""
        try:
            self.curator.ledger.verify()
        except Fault:
            return False
        return True

    def accounts(self, caller: Caller) -> list[tuple[str, Fraction | None, Fraction]]:
        """Return (name, limit, spent) of every declared analyst; only the owner sees others."""
        ledger = self.curator.ledger
        names = sorted(ledger.limits.analysts) if caller.is_owner else [caller.name]
        found: list[tuple[str, Fraction | None, Fraction]] = []
        for name in names:
            limit = ledger.limits.analysts.get(name)
            spent = ledger.allowance(name).spent.fraction
            found.append((name, None if limit is None else limit.share.fraction, spent))
        return found


def _is_reused(found: Any) -> bool:
    """Return whether an answer was reused; a batch is reused as a whole."""
    one = found[0] if isinstance(found, tuple) else found
    return bool(getattr(one, "reused", False))


def estimate(
    service: Service, caller: Caller, request: requests.StatisticRequest
) -> responses.EstimateResponse:
    """Return an estimate of the requested statistic."""

    def ask(curator: Curator, price_args: dict[str, Any]) -> EstimateResult:
        keywords = {**request.arguments(), **price_args, "fresh": request.fresh, "key": request.key}
        return curator.estimate(request.statistic, request.table, **keywords)

    found = service.charge_caller(caller, request.cost(), ask, confirm=request.confirm)
    return show_estimate(request.statistic, found, request.confidence)


PriceFields = dict[str, Any]
"""The price of a request, as keyword arguments for the curator."""


def choose(
    service: Service, caller: Caller, request: requests.ChooseRequest
) -> responses.ChooseResponse:
    """Return a candidate with nearly the highest score, but no scores."""

    def ask(curator: Curator, price_args: PriceFields) -> Choice:
        scores = request.candidates
        return curator.choose(
            list(scores), scores, fresh=request.fresh, key=request.key, **price_args
        )

    found = service.charge_caller(caller, request.cost(), ask, confirm=request.confirm)
    return responses.ChooseResponse(
        value=found.value,
        regret=show_number(found.regret),
        cost=show_cost(found.cost),
        receipt=show_receipt(found.receipt),
        reused=found.reused,
    )


def release(
    service: Service, caller: Caller, request: requests.ReleaseRequest
) -> responses.ReleaseResponse:
    """Return the answers to a batch of queries, planned together and charged once."""

    def ask(curator: Curator, price_args: PriceFields) -> tuple[Answer, ...]:
        keywords: PriceFields = {**price_args, "fresh": request.fresh, "key": request.key}
        return curator.release(request.queries, weights=request.weights, **keywords)

    found = service.charge_caller(caller, request.cost(), ask, confirm=request.confirm)
    return responses.ReleaseResponse(
        answers=[show_answer(one, request.confidence) for one in found]
    )


def open_watch(
    service: Service, caller: Caller, request: requests.WatchRequest
) -> responses.WatchResponse:
    """Open a session that any worker can continue; the same key finds it again for free."""

    def ask(curator: Curator, price_args: PriceFields) -> DurableWatch:
        keywords: PriceFields = {
            **price_args,
            "signed": request.signed,
            "key": request.key,
            "label": _label(caller),
        }
        sensitivity = request.sensitivity
        return curator.durable_watch(
            request.threshold, request.above, sensitivity=sensitivity, **keywords
        )

    return _show_watch(service.charge_caller(caller, request.cost(), ask, confirm=request.confirm))


def read_watch(service: Service, caller: Caller, entry: int) -> responses.WatchResponse:
    """Return the state of a session. Costs nothing."""
    return _show_watch(_find_watch(service, caller, entry))


def ask_watch(
    service: Service, caller: Caller, entry: int, request: requests.WatchQueryRequest
) -> responses.WatchQueryResponse:
    """Return whether a value is above the threshold, and the number of "above" answers left."""
    watch = _find_watch(service, caller, entry)
    return responses.WatchQueryResponse(
        above=watch.ask(request.sql, key=request.key), left=watch.left
    )


def close_watch(service: Service, caller: Caller, entry: int) -> None:
    """Close a session; its cost is not refunded."""
    _find_watch(service, caller, entry).close()


def _show_watch(watch: DurableWatch) -> responses.WatchResponse:
    return responses.WatchResponse(
        watch=watch.receipt.entry,
        left=watch.left,
        half_width=show_number(watch.half_width()),
        cost=show_cost(watch.cost),
        receipt=show_receipt(watch.receipt),
        reused=watch.reused,
    )


def _find_watch(service: Service, caller: Caller, entry: int) -> DurableWatch:
    """Return a session, or raise the same error if it is missing or belongs to someone else.

    # Privacy: "above" answers are prepaid, so an agent can use up only those of its own sessions.
    """
    try:
        watch = service.curator_of(caller).resume_watch(entry)
    except UnsupportedQuery:
        watch = None
    if watch is None or (caller.is_agent and watch.label != _label(caller)):
        raise NotYours(
            "This is not one of your watches. `POST /v1/watches`, or the tool `watch`, opens one "
            "and returns its number."
        )
    return watch


def _label(caller: Caller) -> str:
    """Return the label that separates an agent's sessions from its analyst's."""
    return caller.token.id if caller.is_agent else ""
