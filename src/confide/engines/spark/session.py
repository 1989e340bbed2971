"""Spark's addresses, sessions, timeouts and failures.

Spark knows no limit of time for a statement, and a driver that stands still answers nothing at all.
So each statement runs on a thread of its own, which is left behind when its time is over.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from secrets import token_hex
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qs

from confide.declare import PublicTable, Table
from confide.engines.protocol import HOUR, read_seconds
from confide.errors import BadDeclaration
from confide.lazy import lazy_module

if TYPE_CHECKING:
    from pyspark import sql as pyspark_sql
else:
    pyspark_sql = lazy_module("pyspark.sql")

__all__ = [
    "SHORT",
    "TIMEOUT",
    "Patience",
    "Place",
    "can_read_twice",
    "find_place",
    "is_connected",
    "name_failure",
    "open_session",
    "retry_less",
]

KNOWN: Final = (
    "a DataFrame, 'spark:db.visits', 'spark:s3a://bucket/visits.parquet', "
    "'spark://host:7077?table=db.visits' or 'sc://host:15002?table=db.visits'"
)
MOST_BYTES: Final = 2**28
"""Up to so many bytes, large units are few enough to be sent to every task.

At most one row in 28 can make its unit a large one, on average over the salt, and such a unit takes
about 60 bytes there: two for each row, which is hardly more than the smallest row of a file.
"""
PASSED: Final = ("Project", "Filter")
STORED: Final = ("LogicalRelation", "InMemoryRelation")


@dataclass(frozen=True, slots=True)
class Place:
    """A table by name, a folder or file of Parquet, or a DataFrame; and the cluster, if named."""

    cluster: str = ""
    name: str = ""
    path: str = ""
    frame: Any = None


def find_place(table: Table | PublicTable) -> Place:
    """Return where the source of a table is.

    >>> find_place(PublicTable("icd", "spark:codes.icd"))
    Place(cluster='', name='codes.icd', path='', frame=None)
    >>> find_place(PublicTable("icd", "sc://host:15002/;user_id=me?path=s3a://bucket/icd"))
    Place(cluster='sc://host:15002/;user_id=me', name='', path='s3a://bucket/icd', frame=None)
    """
    source = table.source
    if not isinstance(source, str):
        return Place(frame=source)
    if source.startswith(("spark://", "sc://")):
        cluster, _, asked = source.partition("?")
        found = {key: values[-1] for key, values in parse_qs(asked).items()}
        if set(found) not in ({"table"}, {"path"}):
            raise BadDeclaration(
                f"source of {table.name!r} must say ?table=NAME or ?path=FOLDER behind the "
                f"cluster's address, like {KNOWN}"
            )
        return Place(cluster, found.get("table", ""), found.get("path", ""))
    found_name = source.removeprefix("spark:")
    if not found_name:
        raise BadDeclaration(f"source of {table.name!r} must be {KNOWN}, got {source!r}")
    is_path = "/" in found_name
    return Place(name="" if is_path else found_name, path=found_name if is_path else "")


def open_session(places: Mapping[str, Place]) -> Any:
    """Return the one session that reads all places: the frames', the cluster's, or the active one.

    Raises:
        BadDeclaration: they are not all of one session.
    """
    clusters = {place.cluster for place in places.values() if place.frame is None}
    sessions = [place.frame.sparkSession for place in places.values() if place.frame is not None]
    if any(session is not sessions[0] for session in sessions) or len(clusters) > 1:
        raise BadDeclaration(
            "all tables of one declaration must be read by one Spark session; "
            f"got several for {', '.join(map(repr, places))}"
        )
    if sessions and clusters <= {""}:
        return sessions[0]
    if sessions:
        raise BadDeclaration(
            "a declaration names either DataFrames of a session or the address of a cluster; "
            f"got both for {', '.join(map(repr, places))}"
        )
    (cluster,) = clusters
    builder: Any = pyspark_sql.SparkSession.builder
    if cluster.startswith("sc://"):
        # A session that is open already may be another server's, and would be taken instead.
        return builder.remote(cluster).create()
    if cluster:
        session = builder.master(cluster).getOrCreate()
        if session.sparkContext.master != cluster:
            raise BadDeclaration(
                f"this process already works with {session.sparkContext.master!r} and cannot open "
                f"{cluster!r} beside it; stop that session first, or name its tables 'spark:NAME'"
            )
        return session
    return pyspark_sql.SparkSession.getActiveSession() or builder.getOrCreate()


def can_read_twice(frame: Any) -> bool:
    """Tell whether a frame is little more than small files, so that a second reading costs little.

    Its plan must give the same rows each time and compute nothing but columns and conditions. What
    counts is the size of the files, whatever columns are picked: it tells how many rows there are.
    """
    plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001  # there is no other way
    node = plan
    while node.nodeName() in PASSED:
        node = node.children().apply(0)
    is_small = int(str(node.stats().sizeInBytes())) <= MOST_BYTES
    return bool(is_small and node.nodeName() in STORED and plan.deterministic())


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
