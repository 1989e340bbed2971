"""Write docs/engine-matrix.md: the result of each family of queries on each engine."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.datafusion import DataFusion  # noqa: E402
from support.families import EXPECTED, FAMILIES, NEAR, are_near, families  # noqa: E402
from support.places import COLUMNS, pair_world, read_exactly  # noqa: E402
from support.postgres import run_postgres  # noqa: E402
from support.spark import run_spark  # noqa: E402
from support.warehouses import Warehouse  # noqa: E402

PAGE: Final = ROOT / "docs" / "engine-matrix.md"
NAMES: Final = {
    "duckdb": "DuckDB",
    "postgresql": "PostgreSQL",
    "spark": "Spark",
    "datafusion": "DataFusion",
}
HEAD: Final = """# Engine support

This page shows which families of queries each engine supports. *Same* means that the engine returns
DuckDB's integers for the same rows, plan, and salt. *Near* means that a sum can differ by one grid
step per row, about 2^-40 of a value's range.

`tools/write_engine_matrix.py` runs one query of each family on each engine and writes this page.
`tests/contracts/test_engines.py` runs the same queries and fails if a cell changes either way.
DataFusion is the worked example in [Add an engine](new-engine.md).

"""


def main() -> None:
    """Query every engine and write the page."""
    found: dict[tuple[str, str], str] = {}
    with ExitStack() as running:
        for place in COLUMNS:
            there = _open(place, running)
            for family, text in FAMILIES.items():
                found[family, place] = _judge(family, place, text, there)
    PAGE.write_text(HEAD + write_table(found), encoding="utf-8")


def write_table(found: dict[tuple[str, str], str]) -> str:
    """Return the table of results, with one row per family."""
    lines = [f"| family | {' | '.join(NAMES.get(place, place) for place in COLUMNS)} |"]
    lines.append("|---" * (1 + len(COLUMNS)) + "|")
    lines += [
        f"| {family} | {' | '.join(found[family, place] for place in COLUMNS)} |"
        for family in FAMILIES
    ]
    return "\n".join(lines) + "\n"


def _open(place: str, running: ExitStack) -> Any:
    match place:
        case "duckdb":
            return None
        case "postgresql":
            return Warehouse.of(running.enter_context(run_postgres()))
        case "datafusion":
            return DataFusion()
        case _:
            return running.enter_context(run_spark())


def _judge(family: str, place: str, text: str, there: Any) -> str:
    """Return the label of one cell; exit if the result is unexpected."""
    if there is None:
        return "same"
    pair = pair_world(families, there)
    plan = pair.plan(text)
    expected, actual = read_exactly(pair.here, plan), read_exactly(pair.there, plan)
    if (family, place) in NEAR:
        if not are_near(expected[0], actual[0]):
            sys.exit(f"{family!r} on {place} is not near")
        return NEAR[family, place]
    is_same = expected == actual
    if is_same == ((family, place) in EXPECTED):
        sys.exit(f"{family!r} on {place} is {'the same' if is_same else 'different'} unexpectedly")
    return "same" if is_same else EXPECTED[family, place]


if __name__ == "__main__":
    main()
