"""`Connection`: the curator's methods as HTTP requests, retried without a second charge."""

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Unpack
from urllib.parse import SplitResult, quote, urlsplit

from confide.client.http import (
    CLIENT_HEADER,
    JSON_ADVICE,
    TOOLS_CLIENT,
    NotReady,
    TooManyRequests,
    Unreachable,
    encode_price,
)
from confide.client.methods import RemoteStatistics
from confide.client.results import (
    RemoteAnswer,
    RemoteChoice,
    RemoteWatch,
    read_cost,
)
from confide.curator import BudgetState, Preview
from confide.declare import (
    ROW,
    Bool,
    Catalog,
    Category,
    Column,
    Date,
    Float,
    Int,
    Kind,
    PublicTable,
    Table,
    Text,
    Timestamp,
)
from confide.declare.budget import CostArgs, PriceArgs, show_keywords
from confide.errors import (
    BadDeclaration,
    BudgetExceeded,
    ConfideError,
    Fault,
    Refusal,
)
from confide.exact import Number
from confide.execution import Score, pair_candidates
from confide.execution.confirmation import ConfirmationRequired
from confide.lazy import lazy_module, require_package
from confide.query import Names, TableQuery, canonical
from confide.release import Cost
from confide.release.explain import Explanation

if TYPE_CHECKING:
    import httpx2
else:
    httpx2 = lazy_module("httpx2")

__all__ = ["Connection", "connect", "read_names"]


def read_names(body: dict[str, Any]) -> Names:
    """Return the names that queries can use, from the response of `/v1/tables`."""
    private = [_table(table) for table in body["tables"] if not table["is_public"]]
    public = [table for table in body["tables"] if table["is_public"]]
    kinds = {
        table["name"]: {column["name"]: Kind(column["type"]) for column in table["columns"]}
        for table in public
    }
    return Names(Catalog([*private, *(PublicTable(name, None) for name in kinds)]), kinds)


def _table(table: dict[str, Any]) -> Table:
    unit = ROW if table["unit"] is None else table["unit"]
    columns = {column["name"]: _column(column) for column in table["columns"]}
    return Table(table["name"], None, unit=unit, columns=columns)


def _column(column: dict[str, Any]) -> Column:  # noqa: PLR0911  # one for each type
    low, high = column["low"], column["high"]
    match column["type"]:
        case "int":
            return Int(low, high)
        case "float":
            return Float(low, high)
        case "date":
            return Date(date.fromisoformat(low), date.fromisoformat(high))
        case "timestamp":
            return Timestamp(low, high)
        case "category":
            return Category(column["values"])
        case "bool":
            return Bool()
        case "text":
            return Text()
        case other:
            raise Fault(f"The server has a column of unknown type {other!r}. Update confide.")


MAX_ATTEMPTS: Final = 6
INITIAL_DELAY: Final = 0.2
MAX_DELAY: Final = 10.0
LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
UNAVAILABLE_STATUSES: Final = (502, 503, 504)


def connect(
    url: str,
    token: str,
    *,
    timeout: float = 90.0,
    allow_http: bool = False,
    for_tools: bool = False,
) -> "Connection":
    """Return a connection to a confide server, authenticated by a token.

    The token is sent with every request, so the URL must use HTTPS unless the server is on this
    machine. Pass ``allow_http=True`` only if you control the network in between. Pass
    ``for_tools=True`` if a language model sends the queries: it can confirm a high cost only if the
    token was made with `confide token NAME --may-confirm`.
    """
    httpx2 = _import_http()
    address = _parse_url(url)
    if address is None or address.scheme not in ("http", "https") or not address.hostname:
        raise BadDeclaration(
            f'`url` must be a URL such as "https://confide.example.org"; got {url!r}.'
        )
    if address.scheme == "http" and address.hostname not in LOCAL_HOSTS and not allow_http:
        raise BadDeclaration(
            f"A connection to {url!r} would send your token unencrypted. Use HTTPS, or pass "
            "`allow_http=True` if you control the network in between."
        )
    is_text = isinstance(token, str) and token.isascii() and token.strip().isprintable()
    if not is_text or not token.strip():
        raise BadDeclaration(
            "`token` must be the string that the owner gave you. The owner creates one with "
            "`confide token NAME`."
        )
    headers = {"authorization": f"Bearer {token.strip()}"}
    if for_tools:
        headers[CLIENT_HEADER] = TOOLS_CLIENT
    base = url.rstrip("/")
    return Connection(httpx2.Client(base_url=base, headers=headers, timeout=timeout))


def _parse_url(url: str) -> SplitResult | None:
    """Return the parts of a URL, or None if it is malformed."""
    try:
        return urlsplit(url) if isinstance(url, str) else None
    except ValueError:
        return None


@show_keywords
class Connection(RemoteStatistics):
    """A remote curator: methods with the name of a method of `Curator` do the same.

    Only `watch` differs: its session is durable.
    """

    def __init__(self, http: Any, *, wait: Callable[[float], None] = time.sleep) -> None:
        self._http, self._wait = http, wait
        self._cached_names: Names | None = None

    def sql(
        self,
        text: str,
        *,
        fresh: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[PriceArgs],
    ) -> RemoteAnswer:
        """Return the answer to a SQL query; the keywords are those of `Curator.sql`.

        Without a ``key``, a random one is used, so that an automatic retry after a broken
        connection is not charged twice.
        """
        body = {
            "sql": text,
            "fresh": fresh,
            "confirm": confirm,
            "key": key or secrets.token_hex(16),
            **encode_price(want),
        }
        return RemoteAnswer.of(self.send("POST", "/v1/query", body), self._intervals)

    def preview(self, query: str | TableQuery, **want: Unpack[PriceArgs]) -> Preview:
        """Return the cost and margins of error of a query; spends nothing."""
        found = self.send("POST", "/v1/preview", {"sql": self._to_sql(query), **encode_price(want)})
        return Preview(
            read_cost(found["cost"]),
            found["errors"],
            tuple(found["mechanisms"]),
            regret=found["regret"],
            reused=found["reused"],
            confidence=found["confidence"],
            notes=tuple(found["notes"]),
        )

    def explain(self, query: str | TableQuery, **want: Unpack[PriceArgs]) -> Explanation:
        """Return an explanation of a query, in sentences; reads no data and spends nothing."""
        found = self.send("POST", "/v1/explain", {"sql": self._to_sql(query), **encode_price(want)})
        return Explanation(tuple(found["sentences"]))

    def table(self, name: str) -> TableQuery:
        """Return a query on a table, to be built step by step and then run."""
        return TableQuery(self._names().table(name).name, self)

    def ask(
        self,
        query: TableQuery,
        *,
        fresh: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[PriceArgs],
    ) -> RemoteAnswer:
        """Return the answer to a query built in Python."""
        return self.sql(self._to_sql(query), fresh=fresh, key=key, confirm=confirm, **want)

    def choose(
        self,
        candidates: Iterable[str],
        score: Callable[[str], Score] | Mapping[str, Score],
        *,
        fresh: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[CostArgs],
    ) -> RemoteChoice:
        """Return a candidate with nearly the highest score; no score is returned."""
        pairs = pair_candidates(candidates, score)
        named = {name: self._to_sql(query) for name, query in pairs.items()}
        call = {"fresh": fresh, "confirm": confirm, "key": key or secrets.token_hex(16)}
        body = {"candidates": named, **call, **encode_price(want)}
        return RemoteChoice.of(self.send("POST", "/v1/choose", body))

    def release(
        self,
        queries: Iterable[str | TableQuery],
        *,
        weights: Sequence[Number] | None = None,
        fresh: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[CostArgs],
    ) -> tuple[RemoteAnswer, ...]:
        """Return the answers to a batch of queries, planned together and charged once."""
        texts = [self._to_sql(query) for query in queries]
        amounts = None if weights is None else [_amount(weight) for weight in weights]
        call = {"fresh": fresh, "confirm": confirm, "key": key or secrets.token_hex(16)}
        body = {"queries": texts, "weights": amounts, **call, **encode_price(want)}
        found = self.send("POST", "/v1/release", body)["answers"]

        def interval_fetcher(index: int) -> Callable[[int, float], list[dict[str, Any]]]:
            # The same key returns the stored batch, with intervals at another level.
            def fetch(_: int, level: float) -> list[dict[str, Any]]:
                response = self.send("POST", "/v1/release", {**body, "confidence": level})
                ends: list[dict[str, Any]] = response["answers"][index]["intervals"]
                return ends

            return fetch

        return tuple(
            RemoteAnswer.of(one, interval_fetcher(index)) for index, one in enumerate(found)
        )

    def watch(
        self,
        threshold: Number,
        above: int = 1,
        *,
        sensitivity: Number | None = None,
        signed: bool = False,
        key: str | None = None,
        confirm: bool = False,
        **want: Unpack[CostArgs],
    ) -> RemoteWatch:
        """Return a session that reports whether the values of queries are above a threshold.

        The session is stored in the server's ledger, so it outlives this connection; `resume_watch`
        continues it. An automatic retry after a broken connection finds the same session and is not
        charged again.
        """
        bound = None if sensitivity is None else _amount(sensitivity)
        body = {"threshold": float(threshold), "above": above, "sensitivity": bound}
        body |= {"signed": signed, "confirm": confirm, "key": key or secrets.token_hex(16)}
        body |= encode_price(want)
        return RemoteWatch(self.send("POST", "/v1/watches", body), self.send, self._to_sql)

    def resume_watch(self, entry: int) -> RemoteWatch:
        """Return a session opened by `watch`, by the entry in its receipt; costs nothing."""
        found = self.send("GET", f"/v1/watches/{int(entry)}")
        return RemoteWatch(found, self.send, self._to_sql)

    @property
    def budget(self) -> BudgetState:
        """The total, spent, and remaining budget of the token's holder."""
        found = self.send("GET", "/v1/budget")
        return BudgetState(*(read_cost(found[name]) for name in ("total", "spent", "left")))

    def tables(self) -> list[dict[str, Any]]:
        """Return the declared tables with their columns and bounds."""
        found: list[dict[str, Any]] = self.send("GET", "/v1/tables")["tables"]
        return found

    def answers(self) -> Iterator[dict[str, Any]]:
        """Yield the caller's charges, newest first."""
        before: int | None = None
        while True:
            page = f"?before={before}" if before is not None else ""
            found = self.send("GET", f"/v1/answers{page}")
            yield from found["answers"]
            before = found["before"]
            if before is None:
                return

    def answer(self, entry: int) -> RemoteAnswer:
        """Return one of the caller's stored answers; costs nothing."""
        return RemoteAnswer.of(self.send("GET", f"/v1/answers/{int(entry)}"), self._intervals)

    def holdout_ask(self, name: str, predictions: Sequence[float]) -> dict[str, Any]:
        """Return the score of predictions, one for each row of a reusable holdout."""
        body = {"predictions": [float(value) for value in predictions]}
        # No retry: requests have no idempotency key, so a second one could use up a submission.
        return self._send_once("POST", f"/v1/holdouts/{quote(name, safe='')}/ask", body)

    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the response of a route, with retries after transient errors.

        A body that incurs a charge must contain a key, or a retry could be charged again.
        """
        wait = INITIAL_DELAY
        for left in reversed(range(MAX_ATTEMPTS)):
            try:
                return self._send_once(method, path, body)
            except (NotReady, TooManyRequests, Unreachable) as trouble:
                if not left:
                    raise
                self._wait(wait if not isinstance(trouble, NotReady) else MAX_DELAY / 2)
                wait = min(wait * 2, MAX_DELAY)
        raise AssertionError("a loop of at least one turn returns or raises")

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _names(self) -> Names:
        if self._cached_names is None:
            self._cached_names = read_names(self.send("GET", "/v1/tables"))
        return self._cached_names

    def _to_sql(self, query: str | TableQuery) -> str:
        return query if isinstance(query, str) else canonical(query.build(self._names()))

    def _intervals(self, entry: int, level: float) -> list[dict[str, Any]]:
        found = self.send("GET", f"/v1/answers/{entry}?confidence={level!r}")
        ends: list[dict[str, Any]] = found["intervals"]
        return ends

    def _send_once(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        try:
            response = self._http.request(method, path, json=body)
        except httpx2.HTTPError as error:
            raise Unreachable(
                f"The server cannot be reached ({type(error).__name__}). Check its address and "
                f"your network. {_retry_advice(body)}"
            ) from None
        try:
            found = response.json()
        except ValueError:
            found = None
        if response.is_success and isinstance(found, dict):
            return found
        raise _parse_error(response.status_code, found)


def _retry_advice(body: dict[str, Any] | None) -> str:
    """Return advice on a retry without a second charge; a caller does not know a random key."""
    match body:
        case {"fresh": _}:
            return (
                "Then retry with the same key; you will not be charged twice. Without a key, check "
                "`answers()`: once the query is answered there, it is free without `fresh=True`."
            )
        case {"threshold": _}:
            return (
                "Then open the watch again with the same key; you will not be charged twice. "
                "Without a key, check `answers()`: if the watch was charged there, resume it with "
                "`resume_watch(entry)`, because opening another one is charged again."
            )
        case {"key": _}:
            return (
                "Then repeat the query with the same key. Without a key, resume the watch and "
                'check `left`: a result "above" may have been used up.'
            )
        case {"predictions": _}:
            return "Then check the submissions that are left: this one may have been counted."
        case _:
            return "Then retry; this costs nothing."


def _import_http() -> Any:
    return require_package("httpx2", "A connection needs httpx2", '"confide[server]"')


def _amount(given: Number) -> float | str:
    return given if isinstance(given, float | str) else str(given)


def _parse_error(status: int, body: Any) -> ConfideError:
    """Return the error in a response as the exception that the curator would raise."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        message = (
            f"The response has status {status} and is not from a confide server. Check the "
            "address, and any proxy between you and the server."
        )
        return Unreachable(message) if status in UNAVAILABLE_STATUSES else Fault(message)
    kind = _errors_by_code().get(str(error.get("code")), Refusal if status < 500 else Fault)
    if issubclass(kind, ConfirmationRequired):
        return _read_confirmation(error)
    if issubclass(kind, BudgetExceeded):
        cost, left = (Fraction(error.get(name) or 0) for name in ("cost", "left"))
        return kind(error["message"], cost=cost, left=left)
    return kind(error["message"])


def _read_confirmation(error: dict[str, Any]) -> ConfirmationRequired:
    """Return the refusal of an unconfirmed cost.

    If the server advises to confirm in JSON, its advice is replaced by that for Python.
    """
    cost = Cost(Fraction(error["cost"]), float(error["epsilon"]))
    found = ConfirmationRequired(cost=cost, limit=Fraction(error["limit"]))
    message: str = error["message"]
    if message.endswith(JSON_ADVICE):
        return found
    return found.advise(message.removeprefix(str(found).removesuffix(found.advice)))


def _errors_by_code() -> dict[str, type[ConfideError]]:
    found: dict[str, type[ConfideError]] = {}
    waiting: list[type[ConfideError]] = [ConfideError]
    while waiting:
        kind = waiting.pop()
        found[kind.code] = kind
        waiting += kind.__subclasses__()
    return found
