"""`SqlEngine`: runs statements, hides faults, and caches generated SQL."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from operator import add
from threading import Lock
from typing import Any, ClassVar, Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlglot import expressions as sql

from confide.declare import Kind
from confide.engines.protocol import Estimator, Facts, Groups, Sealed, SealedBlocks
from confide.engines.sql.blocks import compute_blocks, write_blocks
from confide.engines.sql.histograms import read_counts, write_histogram
from confide.engines.sql.statements import center_totals, decode_keys, write_statement
from confide.errors import Fault
from confide.ledger import Hold
from confide.noise import Entropy
from confide.plan import Measurement
from confide.plan.selection import BlockReading

__all__ = [
    "Columns",
    "Rows",
    "SqlEngine",
    "StatementCache",
    "engine_fault",
    "name_columns",
    "sum_groups",
]

MAX_CACHED_STATEMENTS: Final = 256


class StatementCache:
    """Cache of generated SQL by measurement, which keeps the most recently used statements.

    Generating SQL takes longer than running it on a small table, and analysts repeat queries at
    another price or with ``fresh=True``. The catalog, the salt, the unit's kind, and the facts
    about public tables are fixed for an engine, so the canonical text suffices as the key.
    """

    def __init__(self) -> None:
        self._statements: dict[tuple[str, int | None], str] = {}
        self._lock = Lock()

    def find(self, measurement: Measurement, index: int | None, write: Callable[[], str]) -> str:
        """Return the statement for the totals (None), or for the histogram at a position."""
        name = measurement.text, index
        with self._lock:
            statement = self._statements.pop(name, None)
        if statement is None:
            statement = write()
        with self._lock:
            self._statements[name] = statement  # most recent last
            if len(self._statements) > MAX_CACHED_STATEMENTS:
                del self._statements[next(iter(self._statements))]
        return statement


T = TypeVar("T")
Rows = list[tuple[Any, ...]]
Columns = Mapping[str, NDArray[Any]]
OWNER_LOG: Final = logging.getLogger("confide.owner")


class SqlEngine(ABC):
    """The common part of SQL engines: from a plan to statements, from their rows to sealed numbers.

    An engine provides ``__init__``, which opens sources and sets ``facts``, ``_salt`` and
    ``_unit_kind``; `_write`, `_rows` and `_columns`; and ``failures``, the errors that its driver
    raises. ``advice`` may explain some of these to the owner; the first match is used.
    ``has_enums`` states that the engine groups by small integers and ENUM values without hashing.
    """

    failures: ClassVar[tuple[type[Exception], ...]]
    advice: ClassVar[Sequence[tuple[type[Exception], str]]] = ()
    has_enums: ClassVar[bool] = False
    facts: Facts
    _salt: str
    _unit_kind: Kind

    def run(self, measurement: Measurement, hold: Hold) -> Sealed:
        """Return the exact totals of each group found; ``hold`` proves that they are paid for."""
        hold.use()
        keys = len(measurement.query.keys)
        with self._session():
            self._check_state()
            found = (
                read_counts(
                    self._read(self._write_histogram(measurement, index), self._columns), keys
                )
                for index in range(len(measurement.histograms))
            )
            counts = tuple(decode_keys(one, measurement) for one in found)
            if not measurement.totals and measurement.keys is not None:
                return Sealed({}, counts)
            rows = self._read(self._write_statement(measurement), self._rows)
        groups = decode_keys(sum_groups(rows, keys), measurement)
        return Sealed(center_totals(groups, measurement), counts)

    def run_blocks(
        self,
        reading: BlockReading,
        hold: Hold,
        estimator: Estimator,
        outputs: int,
        entropy: Entropy,
    ) -> SealedBlocks:
        """Return the sealed results of the owner's estimator, one for each block of units."""
        hold.use()
        key = entropy.words(4).tobytes().hex()
        statement = self._write(write_blocks(reading, self._salt, key, self._unit_kind))
        with self._session():
            self._check_state()
            found = self._read(statement, self._columns)
        return compute_blocks(found, reading, estimator, outputs, entropy)

    def _write_statement(self, measurement: Measurement) -> str:
        def write() -> str:
            written = write_statement(
                measurement, self._salt, self._unit_kind, has_enums=self.has_enums
            )
            return self._write(self._prepare(written, measurement))

        return self._written.find(measurement, None, write)

    def _write_histogram(self, measurement: Measurement, index: int) -> str:
        def write() -> str:
            written = write_histogram(
                measurement,
                measurement.histograms[index],
                self._salt,
                self._unit_kind,
                has_enums=self.has_enums,
            )
            return self._write(self._prepare(written, measurement))

        return self._written.find(measurement, index, write)

    @cached_property
    def _written(self) -> StatementCache:
        return StatementCache()

    def close(self) -> None:  # noqa: B027  # engines without a connection have nothing to close
        """Release the engine's resources."""

    @contextmanager
    def _session(self) -> Iterator[None]:
        """Hold what all statements of one query share, such as a transaction."""
        yield

    def _check_state(self) -> None:  # noqa: B027  # engines over files have nothing to check
        """Raise a fault if a table differs from what plans assume; called before rows are read."""

    def _prepare(self, select: sql.Select, measurement: Measurement) -> sql.Select:
        """Return an equivalent statement, optimized by facts of the measurement."""
        del measurement
        return select

    @abstractmethod
    def _write(self, select: sql.Select) -> str:
        """Return a statement in the engine's dialect; the tree is modified."""

    @abstractmethod
    def _rows(self, statement: str) -> Rows:
        """Return the rows of a statement's result, or raise one of ``failures``."""

    @abstractmethod
    def _columns(self, statement: str) -> Columns:
        """Return the columns of a statement's result by name, or raise one of ``failures``."""

    def _read(self, statement: str, fetch: Callable[[str], T]) -> T:
        """Return the result of a statement, or raise a fault without details."""
        try:
            return fetch(statement)
        except self.failures as error:
            # Privacy: the engine's message may quote a row, so it goes to the owner's log alone.
            OWNER_LOG.debug("the engine failed on %s", statement, exc_info=error)
            raise engine_fault(self._explain(error)) from None

    def _explain(self, error: Exception) -> str:
        """Return an explanation and advice, without the error's message, which may quote a row."""
        named = self._name(error)
        matches = (advice for kind, advice in self.advice if isinstance(error, kind))
        return f"{named}: {advice}" if (advice := next(matches, "")) else named

    def _name(self, error: Exception) -> str:
        """Return the kind of an error, by a name that quotes no row."""
        return type(error).__name__


def engine_fault(reason: str) -> Fault:
    """Return the fault that an analyst sees, and log the reason for the owner."""
    OWNER_LOG.warning("the engine could not answer: %s", reason)
    return Fault("the engine could not answer; the owner's log has the reason")


def sum_groups(rows: Sequence[tuple[Any, ...]], keys: int) -> Groups:
    """Return the totals of each group by its keys; groups that come in several rows are summed."""
    columns = list(zip(*rows, strict=True))
    groups_in_order = list(zip(*columns[:keys], strict=True)) if keys else [()] * len(rows)
    parts = [[int(part or 0) for part in column] for column in columns[keys:]]
    totals = list(zip(*parts, strict=True)) if parts else [()] * len(rows)
    groups: Groups = dict(zip(groups_in_order, totals, strict=True))
    if len(groups) == len(rows):
        return groups
    groups = {}
    for group, added in zip(groups_in_order, totals, strict=True):
        before = groups.get(group)
        groups[group] = added if before is None else tuple(map(add, before, added))
    return groups


def name_columns(names: Sequence[str], rows: Rows) -> Columns:
    """Return rows as columns by name, for engines whose drivers return rows only."""
    found: dict[str, NDArray[Any]] = {}
    for index, name in enumerate(names):
        column = np.empty(len(rows), dtype=object)
        column[:] = [row[index] for row in rows]
        found[name] = column
    return found
