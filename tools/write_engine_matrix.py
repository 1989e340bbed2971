"""Write docs/engine-matrix.md: every family of questions on every engine, as it turns out."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.families import EXPECTED, FAMILIES, families  # noqa: E402
from support.places import PLACES, pair_world, read_exactly  # noqa: E402
from support.postgres import run_postgres  # noqa: E402
from support.spark import run_spark  # noqa: E402
from support.warehouses import Warehouse  # noqa: E402

PAGE: Final = ROOT / "docs" / "engine-matrix.md"
NAMES: Final = {"duckdb": "DuckDB", "postgresql": "PostgreSQL", "spark": "Spark"}
HEAD: Final = """# Which engine answers what

Written by `tools/write_engine_matrix.py`, which asks each engine one question of each family over
the same rows and compares the integers with those of DuckDB, for the same plan and salt.
`tests/contracts/test_engines.py` asks the same, and fails if a cell changes either way.

"""


def main() -> None:
    """Ask every engine, and write the page."""
    found: dict[tuple[str, str], str] = {}
    with ExitStack() as running:
        for place in PLACES:
            there = _open(place, running)
            for family, text in FAMILIES.items():
                found[family, place] = _judge(family, place, text, there)
    PAGE.write_text(HEAD + write_table(found), encoding="utf-8")


def write_table(found: dict[tuple[str, str], str]) -> str:
    """Return the table of what was found, one row a family."""
    lines = [f"| family | {' | '.join(NAMES.get(place, place) for place in PLACES)} |"]
    lines.append("|---" * (1 + len(PLACES)) + "|")
    lines += [
        f"| {family} | {' | '.join(found[family, place] for place in PLACES)} |"
        for family in FAMILIES
    ]
    return "\n".join(lines) + "\n"


def _open(place: str, running: ExitStack) -> Any:
    match place:
        case "duckdb":
            return None
        case "postgresql":
            return Warehouse.of(running.enter_context(run_postgres()))
        case _:
            return running.enter_context(run_spark())


def _judge(family: str, place: str, text: str, there: Any) -> str:
    """Return the word for one cell; what is not as expected ends the program."""
    if there is None:
        return "same"
    pair = pair_world(families, there)
    plan = pair.plan(text)
    is_same = read_exactly(pair.here, plan) == read_exactly(pair.there, plan)
    if is_same == ((family, place) in EXPECTED):
        sys.exit(f"{family!r} on {place} is {'the same' if is_same else 'different'} unexpectedly")
    return "same" if is_same else EXPECTED[family, place]


if __name__ == "__main__":
    main()
