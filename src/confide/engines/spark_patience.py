"""How long Spark may take, and what it says of itself when it fails.

Spark knows no limit of time for a statement, and a driver that stands still answers nothing at all.
So each statement runs on a thread of its own, which is left behind when its time is over.
"""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from secrets import token_hex
from threading import Thread
from typing import Any, Final, TypeVar

from confide.engines.patience import HOUR, read_seconds

__all__ = ["SHORT", "TIMEOUT", "Patience", "is_connected", "name_failure", "retry_less"]

T = TypeVar("T")
TIMEOUT: Final = "spark.confide.statementTimeout"
POOL: Final = "spark.scheduler.pool"
CONNECT: Final = "pyspark.sql.connect."
SHORT: Final = 5.0
"""Seconds that suffice for whatever reads no rows."""
MOST_TRIES: Final = 100
RETRIES: Final = 6
MOST_CAUSES: Final = 8


@dataclass(frozen=True, slots=True)
class Patience:
    """Waits for what a session does, so many seconds at most.

    Statements run in the scheduler's pool that the thread which opened the session had.
    """

    session: Any
    seconds: float
    pool: str | None = None

    @classmethod
    def of(cls, owner: Any, session: Any) -> "Patience":
        """Return the patience that the owner's session asks for, with a session made from it."""
        seconds = read_seconds(TIMEOUT, owner.conf.get(TIMEOUT, str(HOUR)))
        pool = None if is_connected(session) else session.sparkContext.getLocalProperty(POOL)
        return cls(session, seconds, pool)

    def wait(self, ask: Callable[[], T]) -> T:
        """Return what ``ask`` returns, or raise what it raises.

        Raises:
            TimeoutError: it takes too long. Spark is told to end what it began, if it listens.
        """
        tag, found = f"confide-{token_hex(8)}", Future[T]()
        _start(self._work, tag, ask, found)
        try:
            return found.result(self.seconds)
        except (TimeoutError, KeyboardInterrupt):
            _start(self._interrupt, tag, found)
            raise

    def _work(self, tag: str, ask: Callable[[], T], found: "Future[T]") -> None:
        try:
            with _connected(self.session):
                self._mark(tag)
                answer = ask()
        except BaseException as error:  # noqa: BLE001  # whoever waits raises it
            found.set_exception(error)
        else:
            found.set_result(answer)

    def _mark(self, tag: str) -> None:
        """Let all that this thread begins carry a tag, and run in the pool."""
        if is_connected(self.session):
            self.session.addTag(tag)
            return
        context = self.session.sparkContext
        context.addJobTag(tag)
        if self.pool is not None:
            context.setLocalProperty(POOL, self.pool)

    def _interrupt(self, tag: str, found: "Future[T]") -> None:
        """End what carries a tag, again and again: a statement that is still planned has no job."""
        for _ in range(MOST_TRIES):
            with contextlib.suppress(Exception), _connected(self.session):
                self._end(tag)
            if wait([found], SHORT).done:
                return

    def _end(self, tag: str) -> None:
        if is_connected(self.session):
            self.session.interruptTag(tag)
        else:
            self.session.sparkContext.cancelJobsWithTag(tag)


def retry_less(session: Any) -> None:
    """Let a session of Spark Connect give up a server that has gone after about a minute.

    It would try for ten, when the process ends as well; and a server that comes back knows no
    session of before.
    """
    for policy in session.client.get_retry_policies():
        policy.max_retries = RETRIES


def is_connected(session: Any) -> bool:
    """Tell whether a session is one of Spark Connect."""
    return type(session).__module__.startswith(CONNECT)


def name_failure(error: Exception, patience: Patience) -> str:
    """Return the kind of an error, and the kinds and conditions of what caused it in Spark.

    # Privacy: classes and conditions are names from Spark's own code, in which no row can stand.
    """
    named = [_condition(error)]
    java = getattr(error, "java_exception", None)
    if java is not None:
        brief = Patience(patience.session, SHORT)
        with contextlib.suppress(Exception):
            named += brief.wait(lambda: list(_name_causes(java)))
    said = ", ".join(filter(None, named))
    return f"{type(error).__name__} ({said})" if said else type(error).__name__


def _name_causes(java: Any) -> Iterator[str]:
    for _ in range(MOST_CAUSES):
        yield java.getClass().getSimpleName()
        yield _condition(java)
        java = java.getCause()
        if java is None:
            return


def _condition(error: Any) -> str:
    """Return Spark's own name for what went wrong, which not every error has."""
    with contextlib.suppress(Exception):
        return str(error.getCondition() or "")
    return ""


def _start(work: Callable[..., None], *given: Any) -> None:
    # A thread that waits for Spark must not keep the process from ending.
    Thread(target=work, args=given, daemon=True).start()


@contextlib.contextmanager
def _connected(session: Any) -> Iterator[None]:
    """Close this thread's own connection to Java in the end; Spark Connect has one for all."""
    try:
        yield
    finally:
        if not is_connected(session):
            client = session._jvm._gateway_client  # noqa: SLF001  # there is no other way
            find = getattr(client, "get_thread_connection", lambda: None)
            if (connection := find()) is not None:
                connection.close()
