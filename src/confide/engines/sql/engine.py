"""`SqlEngine`: runs statements, hides faults, caches statements."""

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
from confide.engines.sql.statements import centre_totals, decode_keys, write_statement
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

MOST_KEPT: Final = 256


class StatementCache:
    """Keeps the texts of statements by the measurements that they are written for, the latest ones.

    Writing takes longer than all else that is done about a small table, and analysts ask again: at
    another price, or with ``fresh=True``. The catalog, the salt and the unit are the engine's own,
    and so are the facts about public tables, so the canonical text says all there is to know.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[str, int | None], str] = {}
        self._lock = Lock()

    def find(self, measurement: Measurement, place: int | None, write: Callable[[], str]) -> str:
        """Return the statement for the totals, or for the histogram at a place."""
        name = measurement.text, place
        with self._lock:
            text = self._texts.pop(name, None)
        if text is None:
            text = write()
        with self._lock:
            self._texts[name] = text  # as the latest
            if len(self._texts) > MOST_KEPT:
                del self._texts[next(iter(self._texts))]
        return text


T = TypeVar("T")
Rows = list[tuple[Any, ...]]
Columns = Mapping[str, NDArray[Any]]
OWNER_LOG: Final = logging.getLogger("confide.owner")


class SqlEngine(ABC):
    """The common part of engines: from a plan to statements, from their rows to sealed numbers.

    What differs is in five places: opening sources in ``__init__`` (which sets ``facts``, ``_salt``
    and ``_unit_kind``), `_write`, `_rows`, `_columns`, and ``failures``, the errors that the driver
    raises, with ``advice`` to the owner on some of them, the first that fits.
    An engine that counts by numbers of few bits without hashing says so by ``is_narrow``.
    """

    failures: ClassVar[tuple[type[Exception], ...]]
    advice: ClassVar[Sequence[tuple[type[Exception], str]]] = ()
    is_narrow: ClassVar[bool] = False
    facts: Facts
    _salt: str
    _unit_kind: Kind

    def run(self, measurement: Measurement, hold: Hold) -> Sealed:
        """Return the exact totals of each group found; ``hold`` shows that they are paid for."""
        hold.use()
        keys = len(measurement.query.keys)
        with self._session():
            self._check_state()
            found = (
                read_counts(
                    self._read(self._write_histogram(measurement, place), self._columns), keys
                )
                for place in range(len(measurement.histograms))
            )
            counts = tuple(decode_keys(one, measurement) for one in found)
            if not measurement.totals and measurement.keys is not None:
                return Sealed({}, counts)
            rows = self._read(self._write_statement(measurement), self._rows)
        groups = decode_keys(sum_groups(rows, keys), measurement)
        return Sealed(centre_totals(groups, measurement), counts)

    def run_blocks(
        self,
        reading: BlockReading,
        hold: Hold,
        estimator: Estimator,
        outputs: int,
        entropy: Entropy,
    ) -> SealedBlocks:
        """Return what an estimator of the owner's gives for each block of units, sealed."""
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
                measurement, self._salt, self._unit_kind, is_narrow=self.is_narrow
            )
            return self._write(self._prepare(written, measurement))

        return self._written.find(measurement, None, write)

    def _write_histogram(self, measurement: Measurement, place: int) -> str:
        def write() -> str:
            written = write_histogram(
                measurement,
                measurement.histograms[place],
                self._salt,
                self._unit_kind,
                is_narrow=self.is_narrow,
            )
            return self._write(self._prepare(written, measurement))

        return self._written.find(measurement, place, write)

    @cached_property
    def _written(self) -> StatementCache:
        return StatementCache()

    def close(self) -> None:  # noqa: B027  # engines without a connection have nothing to end
        """Give back what the engine holds open."""

    @contextmanager
    def _session(self) -> Iterator[None]:
        """Hold open what all statements of one question share, such as a transaction."""
        yield

    def _check_state(self) -> None:  # noqa: B027  # engines over files have nothing to see
        """See, before rows are read, that tables are as plans take them to be, or raise a fault."""

    def _prepare(self, select: sql.Select, measurement: Measurement) -> sql.Select:
        """Return a statement that does the same by what the plan knows besides."""
        del measurement
        return select

    @abstractmethod
    def _write(self, select: sql.Select) -> str:
        """Return a statement in the words of the engine; the tree is used up."""

    @abstractmethod
    def _rows(self, statement: str) -> Rows:
        """Return the rows that a statement gives, or raise one of ``failures``."""

    @abstractmethod
    def _columns(self, statement: str) -> Columns:
        """Return what a statement gives as columns by name, or raise one of ``failures``."""

    def _read(self, statement: str, fetch: Callable[[str], T]) -> T:
        """Return what a statement gives, or a fault that says nothing of it."""
        try:
            return fetch(statement)
        except self.failures as error:
            # Privacy: the engine's words may quote a row, so they go to the owner's log alone.
            OWNER_LOG.debug("the engine failed on %s", statement, exc_info=error)
            raise engine_fault(self._explain(error)) from None

    def _explain(self, error: Exception) -> str:
        """Return what happened and what to do about it; the error's own words may quote a row."""
        named = self._name(error)
        said = (text for kind, text in self.advice if isinstance(error, kind))
        return f"{named}: {text}" if (text := next(said, "")) else named

    def _name(self, error: Exception) -> str:
        """Return the kind of an error, by a name that quotes no row."""
        return type(error).__name__


def engine_fault(reason: str) -> Fault:
    """Return the fault that an analyst sees, which says nothing; the owner's log has the reason."""
    OWNER_LOG.warning("the engine could not answer: %s", reason)
    return Fault("the engine could not answer; the owner's log has the reason")


def sum_groups(rows: Sequence[tuple[Any, ...]], keys: int) -> Groups:
    """Return the totals of each group, by its keys; those that come in parts are added up."""
    columns = list(zip(*rows, strict=True))
    named = list(zip(*columns[:keys], strict=True)) if keys else [()] * len(rows)
    parts = [[int(part or 0) for part in column] for column in columns[keys:]]
    totals = list(zip(*parts, strict=True)) if parts else [()] * len(rows)
    groups: Groups = dict(zip(named, totals, strict=True))
    if len(groups) == len(rows):
        return groups
    groups = {}
    for group, added in zip(named, totals, strict=True):
        before = groups.get(group)
        groups[group] = added if before is None else tuple(map(add, before, added))
    return groups


def name_columns(names: Sequence[str], rows: Rows) -> Columns:
    """Return rows as columns by name, for engines whose drivers know rows only."""
    found: dict[str, NDArray[Any]] = {}
    for place, name in enumerate(names):
        column = np.empty(len(rows), dtype=object)
        column[:] = [row[place] for row in rows]
        found[name] = column
    return found
