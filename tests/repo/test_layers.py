"""The layer list is complete, `make tree` prints it, and class names are unique."""

import ast
import re
from collections import Counter
from typing import Final

from support.tree import ROOT, SOURCES, documents, layers, run_python

INSIDE: Final = {
    "bench/coverage.py": "replays estimates from given sums, thousands of times",
    "bench/ledger.py": "times the hash chain next to plain inserts",
    "tools/write_statistics.py": "generates modules of the package",
}
"""Programs that import modules within packages, and the reason."""

DEEP_IMPORT: Final = re.compile(r"(?:from|import) confide(?:\.\w+){2,}")


def test_every_module_has_a_layer() -> None:
    """Every module in src/confide has a line in the list of layers."""
    home = ROOT / "src" / "confide"
    found = {path.stem for path in home.iterdir() if path.suffix == ".py" or path.is_dir()}

    assert set() == found - set().union(*layers()) - {"__init__", "__pycache__"}


def test_the_tree_shows_every_module_with_its_purpose() -> None:
    """`make tree` prints the layers, lowest first, and each module of a package on one line."""
    lines = run_python("tools/tree.py").splitlines()
    shown = [line.split() for line in lines if line.startswith("    ")]
    home = ROOT / "src" / "confide"
    inside = [path for path in SOURCES if path.name != "__init__.py" and path.parent != home]

    assert [sorted(names) for names in layers()] == [
        [line.partition(":")[0]] for line in lines[1:] if line and not line.startswith(" ")
    ]
    assert {".".join(path.relative_to(home).with_suffix("").parts) for path in inside} == {
        words[0] for words in shown
    }
    assert [] == [words for words in shown if len(words) < 2]


def test_a_class_name_means_one_thing() -> None:
    """No two classes of confide have the same name, even private ones."""
    found = Counter(
        node.name
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )

    assert len(found) > 200
    assert [] == [name for name, times in found.items() if times > 1]


def test_programs_and_pages_import_what_packages_offer() -> None:
    """Pages, notebooks, benchmarks, and tools import from packages, not from modules in them."""
    programs = [*(ROOT / "bench").glob("*.py"), *(ROOT / "tools").glob("*.py")]
    pages = [*documents(), *(ROOT / "notebooks").glob("*.ipynb")]
    found = {
        str(path.relative_to(ROOT))
        for path in (*programs, *pages)
        if DEEP_IMPORT.search(path.read_text(encoding="utf-8"))
    }

    assert set(INSIDE) == found


def test_a_curator_is_imported_without_what_it_may_never_need() -> None:
    """Importing `Curator` loads no package that only ledgers, statistics, or servers need."""
    program = "import sys, confide; confide.Curator; print(*sys.modules)"
    loaded = {name.partition(".")[0] for name in run_python("-c", program).split()}
    late = {"sqlalchemy", "alembic", "scipy", "psycopg", "pyspark", "pydantic", "fastapi", "mcp"}

    assert "duckdb" in loaded
    assert set() == loaded & {*late, "httpx2", "pandas", "polars", "pyarrow", "rich", "typer"}
