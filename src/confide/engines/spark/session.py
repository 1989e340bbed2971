"""Spark's addresses, sessions, timeouts, and failures.

Spark has no timeout for statements, and a Spark driver that hangs does not respond at all. So each
statement runs on its own thread, which is abandoned after the time limit.
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
    "SHORT_SECONDS",
    "TIMEOUT",
    "SparkSource",
    "TimedSession",
    "is_cheap_to_read",
    "is_connected",
    "limit_retries",
    "name_failure",
    "open_session",
    "parse_source",
]

ADDRESS_FORMS: Final = (
    "a DataFrame, 'spark:db.visits', 'spark:s3a://bucket/visits.parquet', "
    "'spark://host:7077?table=db.visits', or 'sc://host:15002?table=db.visits'"
)
MAX_BROADCAST_BYTES: Final = 2**28
"""The largest source that is read twice, with its large units broadcast to every task.

On average over the salt, at most one row in 28 makes its unit a large unit (see
`contribution_bounding`). A large unit takes about 60 bytes, so the broadcast takes about two bytes
for each row of the source. That is hardly more than the smallest row takes in a file.
"""
TRANSPARENT_NODES: Final = ("Project", "Filter")
"""Nodes of a plan that only select columns and rows."""
STORED_NODES: Final = ("LogicalRelation", "InMemoryRelation")
"""Nodes of a plan that read a stored table."""


@dataclass(frozen=True, slots=True)
class SparkSource:
    """A table's name, a Parquet file or folder, or a DataFrame; and the cluster's address."""

    cluster: str = ""
    name: str = ""
    path: str = ""
    frame: Any = None


def parse_source(table: Table | PublicTable) -> SparkSource:
    """Return the parts of a table's source.

    >>> parse_source(PublicTable("icd", "spark:codes.icd"))
    SparkSource(cluster='', name='codes.icd', path='', frame=None)
    >>> parse_source(PublicTable("icd", "sc://host:15002/;user_id=me?path=s3a://bucket/icd"))
    SparkSource(cluster='sc://host:15002/;user_id=me', name='', path='s3a://bucket/icd', frame=None)
    """
    source = table.source
    if not isinstance(source, str):
        return SparkSource(frame=source)
    if source.startswith(("spark://", "sc://")):
        cluster, _, options = source.partition("?")
        found = {key: values[-1] for key, values in parse_qs(options).items()}
        if set(found) not in ({"table"}, {"path"}):
            raise BadDeclaration(
                f"The source of {table.name!r} needs `?table=NAME` or `?path=FOLDER` after the "
                f"cluster's address. Sources are such as {ADDRESS_FORMS}."
            )
        return SparkSource(cluster, found.get("table", ""), found.get("path", ""))
    table_or_path = source.removeprefix("spark:")
    if not table_or_path:
        raise BadDeclaration(
            f"The source of {table.name!r} must be {ADDRESS_FORMS}; got {source!r}."
        )
    is_path = "/" in table_or_path
    return SparkSource(name="" if is_path else table_or_path, path=table_or_path if is_path else "")


def open_session(sources: Mapping[str, SparkSource]) -> Any:
    """Return the session that reads all sources: the DataFrames', the cluster's, or the active one.

    Raises:
        BadDeclaration: the sources belong to several sessions.
    """
    clusters = {source.cluster for source in sources.values() if source.frame is None}
    sessions = [
        source.frame.sparkSession for source in sources.values() if source.frame is not None
    ]
    if any(session is not sessions[0] for session in sessions) or len(clusters) > 1:
        raise BadDeclaration(
            "One Spark session must read all tables of a declaration; "
            f"got several for {', '.join(map(repr, sources))}."
        )
    if sessions and clusters <= {""}:
        return sessions[0]
    if sessions:
        raise BadDeclaration(
            "A declaration must name either DataFrames of one session or the address of a cluster; "
            f"got both for {', '.join(map(repr, sources))}."
        )
    (cluster,) = clusters
    builder: Any = pyspark_sql.SparkSession.builder
    if cluster.startswith("sc://"):
        # An existing session may belong to another server, and would be reused.
        return builder.remote(cluster).create()
    if cluster:
        session = builder.master(cluster).getOrCreate()
        if session.sparkContext.master != cluster:
            raise BadDeclaration(
                f"This process already uses {session.sparkContext.master!r}, so it cannot open "
                f"{cluster!r}. Stop that session first, or name its tables 'spark:NAME'."
            )
        return session
    return pyspark_sql.SparkSession.getActiveSession() or builder.getOrCreate()


def is_cheap_to_read(frame: Any) -> bool:
    """Return whether a DataFrame reads only a small stored table, which is cheap to read twice.

    Its plan must give the same rows each time, and only select columns and filter rows. The full
    size of the table counts, whatever columns are selected, because it limits the number of rows.
    """
    plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001  # no public API
    node = plan
    while node.nodeName() in TRANSPARENT_NODES:
        node = node.children().apply(0)
    is_small = int(str(node.stats().sizeInBytes())) <= MAX_BROADCAST_BYTES
    return bool(is_small and node.nodeName() in STORED_NODES and plan.deterministic())


T = TypeVar("T")
TIMEOUT: Final = "spark.confide.statementTimeout"
POOL: Final = "spark.scheduler.pool"
CONNECT: Final = "pyspark.sql.connect."
SHORT_SECONDS: Final = 5.0
"""The time limit in seconds for operations that read no rows."""
MAX_INTERRUPTS: Final = 100
RETRIES: Final = 6
MAX_CAUSES: Final = 8


@dataclass(frozen=True, slots=True)
class TimedSession:
    """Runs the statements of a session with a time limit.

    They run in the scheduler pool (``pool``) of the thread that opened the session.
    """

    session: Any
    seconds: float
    pool: str | None = None

    @classmethod
    def of(cls, owner: Any, session: Any) -> "TimedSession":
        """Return confide's session with the time limit that is set in the owner's session."""
        seconds = read_seconds(TIMEOUT, owner.conf.get(TIMEOUT, str(HOUR)))
        pool = None if is_connected(session) else session.sparkContext.getLocalProperty(POOL)
        return cls(session, seconds, pool)

    def wait(self, ask: Callable[[], T]) -> T:
        """Return the result of ``ask``, which runs a statement, or raise its error.

        Raises:
            TimeoutError: the statement takes too long. Its jobs are canceled if Spark responds.
        """
        tag, found = f"confide-{token_hex(8)}", Future[T]()
        _start(self._work, tag, ask, found)
        try:
            return found.result(self.seconds)
        except (TimeoutError, KeyboardInterrupt):
            _start(self._interrupt, tag, found)
            raise

    def _work(self, tag: str, ask: Callable[[], T], found: "Future[T]") -> None:
        """Set ``found`` to the result of ``ask``, or to its error; runs on its own thread."""
        try:
            with _connected(self.session):
                self._tag_jobs(tag)
                answer = ask()
        except BaseException as error:  # noqa: BLE001  # the waiting thread raises it
            found.set_exception(error)
        else:
            found.set_result(answer)

    def _tag_jobs(self, tag: str) -> None:
        """Tag all jobs that this thread starts, and run them in the pool."""
        if is_connected(self.session):
            self.session.addTag(tag)
            return
        context = self.session.sparkContext
        context.addJobTag(tag)
        if self.pool is not None:
            context.setLocalProperty(POOL, self.pool)

    def _interrupt(self, tag: str, found: "Future[T]") -> None:
        """Cancel the jobs with a tag until ``found`` is set, at most MAX_INTERRUPTS times.

        This is repeated, because a statement that Spark is still planning has no jobs yet.
        """
        for _ in range(MAX_INTERRUPTS):
            with contextlib.suppress(Exception), _connected(self.session):
                self._end(tag)
            if wait([found], SHORT_SECONDS).done:
                return

    def _end(self, tag: str) -> None:
        if is_connected(self.session):
            self.session.interruptTag(tag)
        else:
            self.session.sparkContext.cancelJobsWithTag(tag)


def limit_retries(session: Any) -> None:
    """Make a Spark Connect session give up after about a minute if its server is gone.

    By default it would retry for ten minutes, even when the process ends. Retrying that long is
    useless, because a restarted server does not know earlier sessions.
    """
    for policy in session.client.get_retry_policies():
        policy.max_retries = RETRIES


def is_connected(session: Any) -> bool:
    """Return whether a session uses Spark Connect."""
    return type(session).__module__.startswith(CONNECT)


def name_failure(error: Exception, timed: TimedSession) -> str:
    """Return the class of an error, with Spark's names for it and for its causes.

    # Privacy: these names (of classes and error conditions) are part of Spark's code, so they
    # contain no row.
    """
    named = [_condition(error)]
    java = getattr(error, "java_exception", None)
    if java is not None:
        short = TimedSession(timed.session, SHORT_SECONDS)
        with contextlib.suppress(Exception):
            named += short.wait(lambda: list(_name_causes(java)))
    details = ", ".join(filter(None, named))
    return f"{type(error).__name__} ({details})" if details else type(error).__name__


def _name_causes(java: Any) -> Iterator[str]:
    for _ in range(MAX_CAUSES):
        yield java.getClass().getSimpleName()
        yield _condition(java)
        java = java.getCause()
        if java is None:
            return


def _condition(error: Any) -> str:
    """Return Spark's error condition, which is its own name for an error, or "" if it has none."""
    with contextlib.suppress(Exception):
        return str(error.getCondition() or "")
    return ""


def _start(work: Callable[..., None], *arguments: Any) -> None:
    # Daemon thread, so that waiting for Spark cannot block interpreter exit.
    Thread(target=work, args=arguments, daemon=True).start()


@contextlib.contextmanager
def _connected(session: Any) -> Iterator[None]:
    """Close this thread's connection to Java afterwards.

    With Spark Connect, all threads share one connection, which stays open.
    """
    try:
        yield
    finally:
        if not is_connected(session):
            client = session._jvm._gateway_client  # noqa: SLF001  # no public API
            find = getattr(client, "get_thread_connection", lambda: None)
            if (connection := find()) is not None:
                connection.close()
