"""Each source is read by its engine: a built-in one, or one from another package."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from confide.declare import Catalog, Int, Table
from confide.engines import open_engine
from confide.engines.registry import BUILT_IN, GROUP, find_engine, scheme_of
from confide.errors import BadDeclaration
from support.tree import project

SHOP: Final = """
from dataclasses import replace

from confide.declare import Catalog
from confide.engines import DuckDB


class Shop(DuckDB):
    def __init__(self, catalog, *, salt):
        tables = [
            replace(table, source=table.source.removeprefix("shop:")) for table in catalog.tables
        ]
        super().__init__(Catalog(tables), salt=salt)
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install a package whose engine reads sources that begin with "shop:"."""
    (tmp_path / "shop_engine.py").write_text(SHOP)
    about = tmp_path / "shop-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{GROUP}]\nshop = shop_engine:Shop\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    find_engine.cache_clear()
    yield tmp_path
    find_engine.cache_clear()


def test_built_in_engines_are_entry_points_too() -> None:
    """The rows of the registry are those of pyproject.toml."""
    listed = project()["project"]["entry-points"][GROUP]

    assert listed == {name: found.value for name, found in BUILT_IN.items()}


@pytest.mark.parametrize(
    ("source", "scheme"),
    [
        ("visits.parquet", "file"),
        ("C:/data/visits.csv", "file"),
        ("postgresql://me@host/db?table=visits", "postgresql"),
        ("postgres://me@host/db?table=visits", "postgresql"),
        ("postgres:visits", "file"),
        ("spark:visits", "spark"),
        ("sc://host:15002/;table=visits", "spark"),
        ("sc:visits", "file"),
        ("shop:visits", "shop"),
        ("shop://visits", "shop"),
    ],
)
@pytest.mark.usefixtures("shop")
def test_a_source_has_the_scheme_of_its_engine(source: str, scheme: str) -> None:
    """Text before a colon is a scheme if an engine has it, else part of a path."""
    assert scheme == scheme_of(source)


@pytest.mark.parametrize("source", ["shop://visits", "mysql://me@host/db?table=visits"])
def test_an_unknown_scheme_is_refused(source: str) -> None:
    """An address without an engine is not read as a file."""
    with pytest.raises(BadDeclaration, match="must be a path"):
        scheme_of(source)


def test_an_installed_engine_reads_its_sources(shop: Path) -> None:
    """A declaration is opened by the engine of another package, and by no other."""
    path = shop / "rows.csv"
    path.write_text("pid,age\n1,40\n2,50\n")
    here, there = (
        Table(name, source, unit="pid", columns={"age": Int(0, 99)}, max_rows_per_unit=1)
        for name, source in (("here", str(path)), ("there", f"shop:{path}"))
    )

    engine = open_engine(Catalog([there]), salt="grain")
    assert "Shop" == type(engine).__name__
    engine.close()
    with pytest.raises(BadDeclaration, match="'here' is read by DuckDB, 'there' is read by Shop"):
        open_engine(Catalog([here, there]), salt="grain")
