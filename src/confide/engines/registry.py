"""Which engine reads a catalog: the one where its sources live."""

from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confide.declare import Catalog, Kind
from confide.engines.protocol import Engine
from confide.errors import BadDeclaration
from confide.lazy import lazy_module

if TYPE_CHECKING:
    from confide.engines.duckdb import engine as duckdb
    from confide.engines.postgres import engine as postgres
    from confide.engines.spark import engine as spark
else:
    duckdb = lazy_module("confide.engines.duckdb.engine")
    postgres = lazy_module("confide.engines.postgres.engine")
    spark = lazy_module("confide.engines.spark.engine")

__all__ = ["Home", "open_engine", "read_address", "scheme_of"]


class Home(StrEnum):
    """Where a source lives, and so which engine reads it."""

    FILES = "DuckDB"
    POSTGRESQL = "PostgreSQL"
    SPARK = "Spark"


def open_engine(catalog: Catalog, *, salt: str) -> Engine:
    """Return the engine that reads all tables of a catalog, where they live.

    Files and frames are read by DuckDB, ``postgresql://host/db?table=visits`` by PostgreSQL, and
    Spark's DataFrames and ``spark:`` addresses by Spark. A source of another kind brings its
    engine: its class has ``confide_engine``, which opens one (docs/new-engine.md).

    Raises:
        BadDeclaration: the tables live in several places, or a package is missing.
    """
    brought: set[Any] = {
        getattr(type(table.source), "confide_engine", None) for table in catalog.tables
    }
    if brought - {None}:
        if len(brought) > 1:
            raise BadDeclaration(
                "all tables of one declaration must be read by one engine, but some sources bring "
                "an engine of their own and others do not; bring all to one place"
            )
        (opened,) = brought
        engine: Engine = opened(catalog, salt=salt)
        return engine
    homes = {table.name: scheme_of(table.source) for table in catalog.tables}
    if len(set(homes.values())) > 1:
        listed = ", ".join(f"{name!r} is read by {home}" for name, home in homes.items())
        raise BadDeclaration(
            f"all tables of one declaration must be read by one engine, but {listed}; "
            "bring public tables to where the private ones are"
        )
    match next(iter(homes.values()), Home.FILES):
        case Home.POSTGRESQL:
            _need("psycopg", "postgres")
            return postgres.PostgreSQL(catalog, salt=salt)
        case Home.SPARK:
            _need("pyspark", "spark")
            return spark.Spark(catalog, salt=salt)
        case _:
            return duckdb.DuckDB(catalog, salt=salt)


def read_address(source: str) -> dict[str, Kind | None]:
    """Return the columns of a table that an address names and their kinds, without reading a row.

    Raises:
        BadDeclaration: it is not one of PostgreSQL, or cannot be reached.
    """
    if scheme_of(source) is not Home.POSTGRESQL:
        raise BadDeclaration(
            "a draft is made from a Parquet or CSV file, or from a table of PostgreSQL, as in "
            f"'postgresql://user@host/database?table=visits'; got {source!r}"
        )
    _need("psycopg", "postgres")
    return postgres.read_columns(source)


def scheme_of(source: Any) -> Home:
    """Return where a source lives.

    >>> str(home_of("visits.parquet")), str(home_of("postgresql://me@host/db?table=visits"))
    ('DuckDB', 'PostgreSQL')
    """
    if isinstance(source, str):
        if source.startswith(("postgresql://", "postgres://")):
            return Home.POSTGRESQL
        if source.startswith(("spark:", "sc://")):
            return Home.SPARK
        if "://" in source:
            known = "a path, 'postgresql://…/db?table=visits' or 'spark:visits'"
            raise BadDeclaration(f"source must be {known}, got {source.split('://')[0]!r}://…")
    elif not isinstance(source, Path) and type(source).__module__.startswith("pyspark."):
        return Home.SPARK
    return Home.FILES


def _need(package: str, extra: str) -> None:
    if find_spec(package) is None:
        raise BadDeclaration(
            f"a source like this needs {package}: type pip install 'confide[{extra}]'"
        )
