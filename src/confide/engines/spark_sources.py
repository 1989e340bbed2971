"""Where Spark finds a table: its addresses, and the session that reads them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs

from confide.declare import PublicTable, Table
from confide.errors import BadDeclaration

__all__ = ["Place", "can_read_twice", "find_place", "open_session"]

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
    from pyspark.sql import SparkSession

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
    builder: Any = SparkSession.builder
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
    return SparkSession.getActiveSession() or builder.getOrCreate()


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
