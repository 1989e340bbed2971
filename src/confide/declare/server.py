"""Settings of the server and of its leaderboards, from the declaration file."""

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from confide.declare.tables import read_name
from confide.errors import BadDeclaration
from confide.exact import integer

__all__ = ["BoardSettings", "ServerSettings", "read_duration", "read_origins"]

DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(ms|s|min)\Z")
SECONDS: Final = {"ms": Fraction(1, 1_000), "s": Fraction(1), "min": Fraction(60)}
ORIGIN: Final = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?\Z")
MAX_RATE: Final = 10**6
MAX_BODY_SIZE: Final = 2**30
MAX_WORKERS: Final = 64


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of the server; times are in seconds.

    ``response_interval`` delays every answer and every refusal until a multiple of that time has
    passed; 0 means no delay. After ``max_wait``, the caller of a running query must retry later.
    ``requests_per_minute`` applies to all ``workers`` together; `confide serve` sets the number of
    workers. ``max_concurrent_queries`` is the number of queries that may run at the same time, and
    ``max_body_size`` the size limit of a request in bytes. ``allowed_origins`` are the web origins
    whose pages may call the server.
    """

    response_interval: Fraction = Fraction(0)
    max_wait: Fraction = Fraction(60)
    requests_per_minute: int = 600
    max_concurrent_queries: int = 4
    max_body_size: int = 256 * 1024
    allowed_origins: tuple[str, ...] = ()
    workers: int = 1

    def __post_init__(self) -> None:
        for name in ("response_interval", "max_wait"):
            object.__setattr__(self, name, read_duration(name, getattr(self, name)))
        object.__setattr__(self, "allowed_origins", read_origins("", self.allowed_origins))
        integer("requests_per_minute", self.requests_per_minute, low=1, high=MAX_RATE)
        integer("max_concurrent_queries", self.max_concurrent_queries, low=1, high=MAX_RATE)
        integer("workers", self.workers, low=1, high=MAX_WORKERS)
        integer("max_body_size", self.max_body_size, low=1_024, high=MAX_BODY_SIZE)
        if not self.max_wait:
            raise BadDeclaration('`max_wait` must be greater than 0, such as "60s".')


def read_duration(name: str, value: object) -> Fraction:
    """Return a duration in seconds, written as "2s", "500ms", or "1min".

    >>> read_duration("response_interval", "500ms")
    Fraction(1, 2)
    """
    if isinstance(value, Fraction) and value >= 0:
        return value
    found = DURATION.match(value) if isinstance(value, str) else None
    if found is None:
        raise BadDeclaration(
            f'`{name}` must be a duration such as "2s", "500ms", or "1min"; got {value!r}.'
        )
    return Fraction(found[1]) * SECONDS[found[2]]


def read_origins(_: str, value: object) -> tuple[str, ...]:
    """Return the web origins whose pages may call the server."""
    origins: list[str] = []
    for one in value if isinstance(value, list | tuple) else [value]:
        if not isinstance(one, str) or not ORIGIN.match(one):
            raise BadDeclaration(
                '`allowed_origins` must list web origins such as "https://example.org"; got '
                f"{one!r}."
            )
        origins.append(one)
    return tuple(origins)


MAX_SUBMISSIONS: int = 10**9


@dataclass(frozen=True, slots=True)
class BoardSettings:
    """Settings of a leaderboard.

    ``labels`` is a CSV file, and ``column`` the column of it that contains the labels. ``state`` is
    the file that stores the state of the board, shared by all workers. The other settings are the
    arguments of `Leaderboard`.
    """

    name: str
    labels: str
    column: str
    state: str
    submissions: int
    metric: str = "accuracy"
    high: Fraction | None = None
    tau: Fraction | None = None
    beta: Fraction = Fraction(1, 20)

    def __post_init__(self) -> None:
        read_name("name", self.name)
        integer("submissions", self.submissions, low=1, high=MAX_SUBMISSIONS)
        if Path(self.labels).suffix.lower() != ".csv":
            raise BadDeclaration(f"`labels` must be a .csv file; got {Path(self.labels).name!r}.")
