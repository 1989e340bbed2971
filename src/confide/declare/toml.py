"""Reading of `confide.toml` into a declaration.

All problems of a file that is valid TOML are reported at once, with line numbers, so that the owner
can fix them together. Paths in a file are relative to the file.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Final

from confide.declare.budget import ACCOUNTINGS, NAME, Budget, Limit, Limits, Window, read_share
from confide.declare.columns import (
    MAX_INT64,
    Bool,
    Category,
    Column,
    Date,
    Decimal,
    Float,
    Int,
    Text,
    Timestamp,
    read_day,
    read_length,
    read_timestamp,
)
from confide.declare.record import RecordSettings
from confide.declare.server import BoardSettings, ServerSettings, read_duration, read_origins
from confide.declare.tables import (
    MAX_ROWS,
    ROW,
    Catalog,
    PublicTable,
    Row,
    Table,
    read_column_name,
)
from confide.declare.toml_reader import Field, KeyPath, Lines, Problems, explain_error, flag, text
from confide.errors import BadDeclaration
from confide.exact import fraction, integer, positive, probability
from confide.mechanisms import Neighbours

__all__ = ["Declaration", "parse_toml", "read_toml"]

SQLITE_URL: Final = re.compile(r"(sqlite(?:\+\w+)?:///)(?!/|:memory:)(.+)", re.DOTALL)
SECTIONS: Final = [
    *("budget", "ledger", "tables", "public_tables"),
    *("limits", "analysts", "purposes", "server", "holdouts", "record"),
]


@dataclass(frozen=True, slots=True)
class Declaration:
    """The content of a declaration file.

    ``ledger`` and ``anchor`` are file names or URLs, or None; ``limits`` are the limits within the
    budget.
    """

    tables: tuple[Table, ...]
    public_tables: tuple[PublicTable, ...]
    budget: Budget
    neighbours: Neighbours
    ledger: str | None
    limits: Limits = field(default_factory=Limits)
    anchor: str | None = None
    server: ServerSettings = field(default_factory=ServerSettings)
    boards: tuple[BoardSettings, ...] = ()
    record: RecordSettings = field(default_factory=RecordSettings)


def read_toml(path: str | Path) -> Declaration:
    """Return the declaration in a file, or raise one error that lists all its problems by line.

    Only this file is read. The data are checked against the declaration when they are opened.
    """
    file = Path(path)
    try:
        content = file.read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise BadDeclaration(
            f"`{file}` cannot be read ({reason}). Create it, or run `confide init DATA` to draft "
            "it."
        ) from error
    except UnicodeDecodeError as error:
        raise BadDeclaration(
            f"`{file}` must be text in UTF-8. Save it in this encoding in your editor."
        ) from error
    return parse_toml(content, name=str(file), folder=file.resolve().parent)


def parse_toml(content: str, *, name: str, folder: Path) -> Declaration:
    """Return the declaration in ``content``.

    Messages use ``name`` for the file. Relative paths start from ``folder``.
    """
    try:
        values = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        advice = explain_error(content, error)
        raise BadDeclaration(f"`{name}` is not TOML. {advice}") from error
    except RecursionError as error:
        raise BadDeclaration(f"`{name}` is nested too deeply. Use fewer levels.") from error
    return _Reader(Problems(Lines(content)), folder).declaration(values, name)


def _integer(name: str, value: object) -> int:
    return integer(name, value, low=-MAX_INT64, high=MAX_INT64)


def _real(name: str, value: object) -> Any:
    return fraction(name, value, "a finite number")


def _positive_integer(name: str, value: object) -> int:
    return integer(name, value, low=1, high=MAX_ROWS)


def _version(name: str, value: object) -> str:
    return str(value) if type(value) is int else text(name, value)


def _unit(name: str, value: object) -> str | Row:
    return ROW if value == "ROW" else read_column_name(name, value)


def _accounting(name: str, value: object) -> str:
    if value not in ACCOUNTINGS:
        raise BadDeclaration(f"`{name}` must be auto, pure, gaussian, or renyi; got {value!r}.")
    return str(value)


def _category(values: Any, *, null: bool = False) -> Category:
    if not isinstance(values, list):
        raise BadDeclaration(
            f"`values` must be a list of strings or of integers, such as [1, 2]; got {values!r}."
        )
    return Category([*values, None] if null else values)


def _any_value(_: str, value: object) -> object:
    return value


COLUMN_EXAMPLE: Final = 'age = { type = "int", low = 0, high = 120 }'
LOW_ADVICE: Final = "Write the lowest possible value, such as `low = 0`."
HIGH_ADVICE: Final = "Write the highest possible value, such as `high = 120`."
COLUMNS: Final[dict[str, tuple[Any, dict[str, Field]]]] = {
    "int": (
        Int,
        {"low": Field(_integer, LOW_ADVICE), "high": Field(_integer, HIGH_ADVICE)},
    ),
    "float": (
        Float,
        {
            "low": Field(_real, LOW_ADVICE),
            "high": Field(_real, HIGH_ADVICE),
            "step": Field(positive),
        },
    ),
    "decimal": (
        Decimal,
        {
            "low": Field(_real, LOW_ADVICE),
            "high": Field(_real, HIGH_ADVICE),
            "scale": Field(_integer, "Write the number of decimal places, such as `scale = 2`."),
        },
    ),
    "category": (
        _category,
        {"values": Field(_any_value, 'Write `values = ["A", "B"]`.'), "null": Field(flag)},
    ),
    "text": (Text, {"max_length": Field(read_length)}),
    "bool": (Bool, {}),
    "timestamp": (
        Timestamp,
        {
            "low": Field(read_timestamp, "Write the first, such as `low = 2020-01-01 00:00:00`."),
            "high": Field(
                partial(read_timestamp, is_end=True),
                "Write the last, such as `high = 2026-12-31 23:59:59`.",
            ),
        },
    ),
    "date": (
        Date,
        {
            "low": Field(read_day, "Write the first date, such as `low = 2020-01-01`."),
            "high": Field(read_day, "Write the last date, such as `high = 2026-12-31`."),
        },
    ),
}
BUDGET: Final = {
    "epsilon": Field(positive, "Write the total privacy budget, such as `epsilon = 1.0`."),
    "delta": Field(probability),
    "accounting": Field(_accounting),
    "neighbours": Field(lambda name, value: Neighbours.of(text(name, value))),
    "max_share_per_query": Field(read_share),
}
LEDGER: Final = {
    "url": Field(text, 'Write `url = "sqlite:///ledger.db"`.'),
    "anchor": Field(text),
    "reuse": Field(lambda name, value: Limits(reuse=text(name, value)).reuse),
}
TABLE: Final = {
    "source": Field(text, 'Write a file name, such as `source = "visits.parquet"`.'),
    "unit": Field(
        _unit, 'Write the column that identifies a person, `unit = "COLUMN"`, or `unit = "ROW"`.'
    ),
    "max_rows_per_unit": Field(_positive_integer),
    "max_groups_per_unit": Field(_positive_integer),
    "unique": Field(flag),
    "nonnegative": Field(flag),
    "version": Field(_version),
}
PUBLIC_TABLE: Final = {
    "source": Field(text, 'Write a file name, such as `source = "icd.csv"`.'),
    "version": Field(_version),
}
SERVER: Final = {
    "response_interval": Field(read_duration),
    "max_wait": Field(read_duration),
    "requests_per_minute": Field(_positive_integer),
    "max_concurrent_queries": Field(_positive_integer),
    "max_body_size": Field(_positive_integer),
    "allowed_origins": Field(read_origins),
}
HOLDOUT: Final = {
    "labels": Field(text, 'Write a file name, such as `labels = "labels.csv"`.'),
    "column": Field(text, 'Write `column = "label"`.'),
    "state": Field(text, 'Write a file name, such as `state = "board.db"`.'),
    "submissions": Field(_positive_integer, "Write `submissions = 100`."),
    "metric": Field(text),
    "high": Field(positive),
    "tau": Field(probability),
    "beta": Field(probability),
}
RECORD: Final = {one.name: Field(text) for one in fields(RecordSettings)}
WINDOWS: Final = {str(window): Field(read_share) for window in Window}
LIMIT: Final = {
    "share": Field(read_share, 'Write a share of the budget, such as `share = "25%"`.'),
    **WINDOWS,
}
ANALYST: Final = {**LIMIT, "max_share_per_query": Field(read_share)}


@dataclass(frozen=True, slots=True)
class _Reader:
    """Conversion of a parsed file to a declaration, which collects problems."""

    problems: Problems
    folder: Path

    def declaration(self, values: dict[str, Any], name: str) -> Declaration:
        self.problems.check_keys((), values, SECTIONS)
        read = {
            key: self.problems.section((key,), values[key]) for key in SECTIONS if key in values
        }
        parts = {key: part for key, part in read.items() if part is not None}
        if "budget" not in read:
            self.problems.add(
                (), "The section `[budget]` is missing. Write it, and below it `epsilon = 1.0`."
            )
        budget, neighbours = self._budget(parts.get("budget"))
        ledger = self._ledger(parts.get("ledger"))
        limits = self._limits(parts, ledger)
        record = self._record(parts.get("record", {}))
        server = self._server(parts.get("server", {}))
        boards = [self._board(key, part) for key, part in parts.get("holdouts", {}).items()]
        tables = [self._table(key, part) for key, part in parts.get("tables", {}).items()]
        public = [self._public(key, part) for key, part in parts.get("public_tables", {}).items()]
        known, known_public = _without_none(tables), _without_none(public)
        if len(known) == len(tables) and len(known_public) == len(public):
            self.problems.attempt(("tables",), lambda: Catalog([*known, *known_public]))
        self.problems.raise_all(name)
        if budget is None:
            raise BadDeclaration(
                f"`{name}` declares no budget. Write `[budget]`, and below it `epsilon = 1.0`."
            )
        return Declaration(
            tuple(known),
            tuple(known_public),
            budget,
            neighbours,
            ledger.get("url"),
            limits,
            ledger.get("anchor"),
            server,
            tuple(_without_none(boards)),
            record,
        )

    def _budget(self, values: dict[str, Any] | None) -> tuple[Budget | None, Neighbours]:
        path = ("budget",)
        if values is None:
            return None, Neighbours.ADD_REMOVE
        before = len(self.problems.found)
        read = self._read(path, values, BUDGET)
        neighbours = (read or {}).pop("neighbours", Neighbours.ADD_REMOVE)
        if read is None or len(self.problems.found) > before:
            return None, neighbours
        return self.problems.attempt(path, lambda: Budget(**read)), neighbours

    def _ledger(self, values: dict[str, Any] | None) -> dict[str, str]:
        read = {} if values is None else self._read(("ledger",), values, LEDGER) or {}
        return {
            key: value if key == "reuse" else self._address(value) for key, value in read.items()
        }

    def _board(self, name: str, part: object) -> BoardSettings | None:
        path = ("holdouts", name)
        read = self._read(path, part, HOLDOUT)
        if read is None:
            return None
        for key in ("labels", "state"):
            read[key] = str(self.folder / read[key])
        return self.problems.attempt(path, lambda: BoardSettings(name, **read))

    def _record(self, values: dict[str, Any]) -> RecordSettings:
        path = ("record",)
        read = self._read(path, values, RECORD) or {}
        return self.problems.attempt(path, lambda: RecordSettings(**read)) or RecordSettings()

    def _server(self, values: dict[str, Any]) -> ServerSettings:
        path = ("server",)
        read = self._read(path, values, SERVER) or {}
        return self.problems.attempt(path, lambda: ServerSettings(**read)) or ServerSettings()

    def _limits(self, parts: dict[str, dict[str, Any]], ledger: dict[str, str]) -> Limits:
        windows = self._read(("limits",), parts.get("limits", {}), WINDOWS) or {}
        reuse = ledger.get("reuse", "own")
        analysts = self._named(parts, "analysts", ANALYST)
        purposes = self._named(parts, "purposes", LIMIT)
        return Limits(analysts=analysts, purposes=purposes, reuse=reuse, **windows)

    def _named(
        self, parts: dict[str, dict[str, Any]], key: str, fields: Mapping[str, Field]
    ) -> dict[str, Limit]:
        limits: dict[str, Limit] = {}
        for name, part in parts.get(key, {}).items():
            path = (key, name)
            read = self._read(path, part, fields)
            if not NAME.match(name):
                self.problems.add(
                    path, "A name must have at most 63 letters, digits, and `_ . @ -`."
                )
            elif read is not None:
                limits[name] = Limit(**read)
        return limits

    def _table(self, name: str, part: object) -> Table | None:
        path = ("tables", name)
        values = self.problems.section(path, part)
        if values is None:
            return None
        self.problems.check_keys(path, values, [*TABLE, "columns"])
        read = self.problems.read(path, values, TABLE)
        columns = self._columns((*path, "columns"), values)
        if read is None or columns is None:
            return None
        source, unit = self._source(read.pop("source")), read.pop("unit")
        # Table reports only its first problem. Without the limits, that is one about columns.
        self.problems.attempt(path, lambda: Table(name, source, unit=unit, columns=columns))
        return self.problems.attempt(
            path, lambda: Table(name, source, unit=unit, columns=columns, **read)
        )

    def _columns(self, path: KeyPath, part: dict[str, Any]) -> dict[str, Column] | None:
        """Return the columns, or None if there are none; a column with a problem becomes Text.

        So the checks of the whole table still run, and their problems are reported as well.
        """
        if "columns" not in part:
            self.problems.add(
                path, f"The section is missing. Write it with columns such as `{COLUMN_EXAMPLE}`."
            )
            return None
        listed = self.problems.section(path, part["columns"])
        if listed is None:
            return None
        if not listed:
            self.problems.add(
                path, f"At least one column is needed. Write, for example, `{COLUMN_EXAMPLE}`."
            )
        columns: dict[str, Column] = {}
        for name, values in listed.items():
            column_path = (*path, name)
            column = self._column(column_path, values)
            if self.problems.attempt(column_path, partial(read_column_name, "name", name)):
                columns[name] = column if column is not None else Text()
        return columns or None

    def _column(self, path: KeyPath, values: object) -> Column | None:
        if not isinstance(values, dict) or "type" not in values:
            self.problems.add(
                path, f"A column must have a type, such as `{COLUMN_EXAMPLE}`; got {values!r}."
            )
            return None
        kind = values["type"]
        if not isinstance(kind, str) or kind not in COLUMNS:
            known = ", ".join(COLUMNS)
            self.problems.add(path, f"`type` must be one of {known}; got {kind!r}.")
            return None
        make, fields = COLUMNS[kind]
        self.problems.check_keys(path, values, ["type", *fields])
        read = self.problems.read(path, values, fields)
        if read is None:
            return None
        column: Column | None = self.problems.attempt(path, lambda: make(**read))
        return column

    def _public(self, name: str, part: object) -> PublicTable | None:
        path = ("public_tables", name)
        read = self._read(path, part, PUBLIC_TABLE)
        if read is None:
            return None
        source = self._source(read.pop("source"))
        return self.problems.attempt(path, lambda: PublicTable(name, source, **read))

    def _read(
        self, path: KeyPath, part: object, fields: Mapping[str, Field]
    ) -> dict[str, Any] | None:
        """Return the valid values of a section, or None if a required one is missing or wrong."""
        values = self.problems.section(path, part)
        if values is None:
            return None
        self.problems.check_keys(path, values, list(fields))
        return self.problems.read(path, values, fields)

    def _source(self, source: str) -> str:
        return source if "://" in source else str(self.folder / source)

    def _address(self, url: str) -> str:
        """Return a URL or file name of the ledger or the anchor, relative to the folder."""
        relative = SQLITE_URL.match(url)
        if relative:
            return f"{relative[1]}{self.folder / relative[2]}"
        return url if "://" in url else str(self.folder / url)


def _without_none(values: list[Any]) -> list[Any]:
    return [value for value in values if value is not None]
