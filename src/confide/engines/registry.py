"""Lookup of the engine for a source, by the scheme of its address.

Engines are built in, or other packages provide them by an entry point.
"""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from confide.declare import Catalog, Kind
from confide.engines.protocol import Engine, EngineFactory
from confide.errors import BadDeclaration

__all__ = ["FILE", "GROUP", "find_engine", "open_engine", "read_address", "scheme_of"]

GROUP: Final = "confide.engines"
FILE: Final = "file"
"""The scheme of paths and DataFrames, which have no scheme of their own."""

BUILT_IN: Final = {
    FILE: EntryPoint(FILE, "confide.engines.duckdb.engine:DuckDB", GROUP),
    "postgresql": EntryPoint("postgresql", "confide.engines.postgres.engine:PostgreSQL", GROUP),
    "spark": EntryPoint("spark", "confide.engines.spark.engine:Spark", GROUP),
}
"""Also in pyproject.toml, but those entries are invisible until confide is installed."""

ALIASES: Final = {"postgres": "postgresql", "sc": "spark"}
EXTRAS: Final = {"postgresql": ("psycopg", "postgres"), "spark": ("pyspark", "spark")}
"""For engines with a driver: the driver's package, and the extra of confide that installs it."""


@cache
def find_engine(scheme: str) -> EntryPoint | None:
    """Return the entry point of a scheme's engine, or None if there is none.

    An installed package can add schemes, but cannot replace a built-in one.
    """
    if scheme in BUILT_IN:
        return BUILT_IN[scheme]
    return next(iter(entry_points(group=GROUP, name=scheme)), None)


def open_engine(catalog: Catalog, *, salt: str) -> Engine:
    """Return the engine that reads all tables of a catalog, where they are stored.

    DuckDB reads files and DataFrames, PostgreSQL reads ``postgresql://host/db?table=visits``, and
    Spark reads its DataFrames and ``spark:`` addresses. Other schemes belong to packages with an
    entry point, and a source whose class has ``confide_engine`` brings its own engine
    (docs/new-engine.md).

    Raises:
        BadDeclaration: the tables need several engines, or a package is missing.
    """
    brought: set[Any] = {
        getattr(type(table.source), "confide_engine", None) for table in catalog.tables
    }
    if brought - {None}:
        if len(brought) > 1:
            raise BadDeclaration(
                "One engine must read all tables of a declaration, but some sources bring their "
                "own engine and others do not. Move all tables to one place."
            )
        (opened,) = brought
        engine: Engine = opened(catalog, salt=salt)
        return engine
    schemes = {table.name: scheme_of(table.source) for table in catalog.tables}
    if len(set(schemes.values())) > 1:
        listed = ", ".join(
            f"{name!r} is read by {_name(scheme)}" for name, scheme in schemes.items()
        )
        raise BadDeclaration(
            f"One engine must read all tables of a declaration, but {listed}. Move public tables "
            "to the place of the private ones."
        )
    return _factory(next(iter(schemes.values()), FILE))(catalog, salt=salt)


def read_address(source: str) -> dict[str, Kind | None]:
    """Return the columns and kinds of the table at an address, without reading a row.

    Raises:
        BadDeclaration: its engine has no such addresses, or it cannot be reached.
    """
    scheme = scheme_of(source)
    read = None if scheme == FILE else getattr(_factory(scheme), "read_columns", None)
    if read is None:
        raise BadDeclaration(
            "A draft needs a Parquet or CSV file, or a PostgreSQL table, as in "
            f"'postgresql://user@host/database?table=visits'; got {source!r}."
        )
    columns: dict[str, Kind | None] = read(source)
    return columns


def scheme_of(source: Any) -> str:
    """Return the scheme of a source, which determines its engine.

    >>> scheme_of("visits.parquet"), scheme_of("postgres://me@host/db?table=visits")
    ('file', 'postgresql')
    """
    if isinstance(source, str):
        prefix, colon, rest = source.partition(":")
        scheme = ALIASES.get(prefix, prefix)
        if colon and scheme != FILE and _fits_rest(prefix, rest) and find_engine(scheme):
            return scheme
        if "://" in source:
            known = "a path, 'postgresql://…/db?table=visits', or 'spark:visits'"
            given = source.split("://")[0]
            raise BadDeclaration(f"`source` must be {known}; got an address of {given!r}.")
    elif not isinstance(source, Path) and type(source).__module__.startswith("pyspark."):
        return "spark"
    return FILE


def _fits_rest(prefix: str, rest: str) -> bool:
    """Return whether a scheme can precede the rest of an address: some schemes require slashes."""
    return rest.startswith("//") or prefix not in ("postgresql", "postgres", "sc")


def _entry(scheme: str) -> EntryPoint:
    found = find_engine(scheme)
    assert found is not None  # noqa: S101  # `scheme_of` returns no other scheme
    return found


def _factory(scheme: str) -> EngineFactory:
    """Return the engine of a scheme; raise BadDeclaration if its package is not installed."""
    package, extra = EXTRAS.get(scheme, ("", ""))
    if package and find_spec(package) is None:
        raise BadDeclaration(
            f"This source needs the `{package}` package. Run `pip install 'confide[{extra}]'`."
        )
    factory: EngineFactory = _entry(scheme).load()
    return factory


def _name(scheme: str) -> str:
    """Return the name of an engine for messages: the name of its class."""
    return _entry(scheme).attr
