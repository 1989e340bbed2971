"""Time and memory as rows grow, on each engine, compared with the same aggregate without noise.

The targets: on every engine, including limits of users, an answer takes at most twice as long as
the raw aggregate, which groups by users and products if contributions are bounded. This process,
which runs DuckDB while PostgreSQL and Spark run elsewhere, uses less than 300 MB for any number of
rows.

DuckDB is measured at 10^6, 10^7, and 10^8 rows, PostgreSQL and Spark at 10^7. The tables are those
of `bench/curator.py`, kept in a folder for temporary files. Each side runs in its own process and
takes the best of three, or of nine at 10^6. The first run of a process is not counted, since Spark
compiles it.

The whole benchmark takes an hour, and can be run in parts: ``bench/scale.py spark:10000000 --only
2,3`` runs two queries on one engine. Measurements are stored in docs/pictures/scale-figures.json,
replacing earlier ones of the same point. The table and chart of docs/scale.md are written from that
file, which is all that ``--write`` does.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import duckdb
from rich.console import Console
from rich.table import Table as Listing

import confide as cf

ROOT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from bench import curator as sales  # noqa: E402
from bench._figures import (  # noqa: E402
    COLUMNS,
    MAX_RATIO,
    Figures,
    draw,
    find_pairs,
    read_stored,
    store,
    write_page,
)

CHUNK: Final = 10_000_000
ROUNDS, MANY_ROUNDS = 3, 9
SMALL: Final = 1_000_000
PLAN: Final = (
    *("duckdb:1000000", "duckdb:10000000", "duckdb:100000000"),
    *("postgresql:10000000", "spark:10000000"),
)
COPY: Final = "COPY sales FROM STDIN (FORMAT csv)"
CREATE: Final = (
    "CREATE TABLE sales (customer bigint, region text, product bigint, items bigint, "
    "price double precision)"
)
MAX_ROWS, MAX_GROUPS = 15, 3
COUNTED: Final = sales.by_product("COUNT(*)")
RACES: Final = (
    sales.by_region("COUNT(*)", MAX_RATIO),
    sales.by_region("SUM(price)", MAX_RATIO),
    # Spark would notice that users do not affect a plain count, and leave them out.
    replace(COUNTED, raw=COUNTED.raw.replace("SUM(x)", f"SUM(LEAST(x, {MAX_ROWS}))")),
    sales.by_product("SUM(items)"),
)

console = Console(width=140)


def find_table(rows: int) -> Path:
    """Return the path of a table; a large one is drawn in parts, each with its own users.

    If parts repeated each other, they would compress so well that the reading time would mean
    little.
    """
    if rows <= CHUNK:
        return sales.find_sales(rows)
    path = Path(tempfile.gettempdir()) / "confide-bench" / f"sales-drawn-{rows}.parquet"
    if not path.exists():
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        part = path.with_suffix(".part")
        with pq.ParquetWriter(part, sales.draw_sales(1, 1).schema) as writer:
            for place in range(rows // CHUNK):
                drawn = sales.draw_sales(CHUNK, CHUNK + place)
                moved = pc.add(drawn["customer"], place * CHUNK // 10)
                writer.write_table(drawn.set_column(0, "customer", moved))
        part.rename(path)
    return path


# One side of one engine, in its own process.


def open_raw(engine: str, source: str) -> Callable[[str], object]:
    """Return a function that runs a raw statement on an engine."""
    if engine == "duckdb":
        connection = duckdb.connect()
        connection.read_parquet(source).create_view("sales")
        return lambda text: connection.execute(text).fetchall()
    if engine == "postgresql":
        import psycopg

        address = source.replace("&table=sales", "")
        server = psycopg.connect(address, autocommit=True)
        return lambda text: server.execute(text.encode()).fetchall()
    session = start_spark()
    session.read.parquet(source.removeprefix("spark:")).createOrReplaceTempView("sales")
    return lambda text: session.sql(text).collect()


def start_spark() -> Any:
    """Return a local Spark session with two cores."""
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder: Any = SparkSession.builder
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "6g",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.master("local[2]").getOrCreate()


def open_ours(source: str, *, by_user: bool) -> Callable[[str], object]:
    """Return a function that runs a query with a curator."""
    if source.startswith("spark:"):
        start_spark()
    table = cf.Table(
        "sales",
        source,
        unit="customer" if by_user else cf.ROW,
        columns=sales.COLUMNS,
        max_rows_per_unit=MAX_ROWS if by_user else 1,
        max_groups_per_unit=MAX_GROUPS if by_user else 1,
    )
    curator = cf.Curator([table], budget=cf.Budget(100))
    return lambda text: curator.sql(text, epsilon=sales.PRICE, fresh=True)


def cpu_seconds() -> float:
    """Return the processor time of this process and its descendants."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        place = int(path.parent.name)
        parents[place] = int(fields[1])
        spent[place] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    ours = {os.getpid()}
    for _ in range(8):
        ours |= {child for child, parent in parents.items() if parent in ours}
    return sum(spent[place] for place in ours)


def peak_megabytes() -> float:
    """Return the peak memory of this process; getrusage would include its parent's."""
    status = Path("/proc/self/status").read_text().splitlines()
    [line] = [line for line in status if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 2**10


def run_side(engine: str, source: str, side: str, place: int, rounds: int) -> None:
    """Print the best time of one side, and the peak memory of this process."""
    race = RACES[place]
    if side == "raw":
        run, text = open_raw(engine, source), race.raw
    else:
        run, text = open_ours(source, by_user=race.by_user), race.question
    run(text)
    times = []
    for _ in range(rounds):
        before = cpu_seconds()
        times.append((sales.seconds(lambda: run(text)), cpu_seconds() - before))
    best, cpu = (min(column) for column in zip(*times, strict=True))
    print(json.dumps({"seconds": best, "cpu": cpu, "megabytes": peak_megabytes()}))


# All sides, in turn.


def measure(engine: str, source: str, side: str, place: int, rounds: int) -> dict[str, float]:
    """Return the measurements of one side."""
    command = [sys.executable, __file__, "side", engine, source, side, str(place), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextmanager
def find_source(engine: str, rows: int, at: str | None) -> Iterator[str]:
    """Yield the source of the table for an engine; ``at`` is a PostgreSQL URL that has it."""
    if engine == "postgresql" and at:
        yield f"{at}&table=sales"
        return
    path = find_table(rows)
    if engine == "duckdb":
        yield str(path)
    elif engine == "spark":
        yield f"spark:{path}"
    else:
        from support.postgres import run_postgres

        with run_postgres() as server:
            address = server.create()
            fill_postgres(address, path)
            yield f"{address}&table=sales"


def fill_postgres(address: str, path: Path) -> None:
    """Copy the table into PostgreSQL."""
    import psycopg
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv

    with psycopg.connect(address, autocommit=True) as server:
        server.execute(CREATE)
        with server.cursor().copy(COPY) as copier:
            for batch in pq.ParquetFile(path).iter_batches(500_000):
                sink = pa.BufferOutputStream()
                csv.write_csv(batch, sink, csv.WriteOptions(include_header=False))
                copier.write(sink.getvalue().to_pybytes())
        server.execute("VACUUM ANALYZE sales")


def race_engine(engine: str, rows: int, asked: argparse.Namespace) -> None:
    """Run both sides of every query, and store the measurements."""
    rounds = asked.rounds or (ROUNDS if rows > SMALL else MANY_ROUNDS)
    with find_source(engine, rows, asked.at) as source:
        for place in asked.only:
            name = RACES[place].name
            for side in ("raw", "confide"):
                found = measure(engine, source, side, place, rounds)
                key = {"engine": engine, "rows": rows, "question": name, "side": side}
                store({**key, "day": str(datetime.now(UTC).date()), **found})
            show([pair for pair in find_pairs(read_stored()) if pair.is_of(engine, rows, name)])


def show(pairs: list[Figures]) -> None:
    """Print a table of measurements."""
    listing = Listing(*COLUMNS)
    for pair in pairs:
        listing.add_row(*pair.cells())
    console.print(listing)


def race_all(asked: argparse.Namespace) -> None:
    """Run the requested parts, and write the page and the chart."""
    start = perf_counter()
    for one in () if asked.write else asked.what or PLAN:
        engine, _, rows = one.partition(":")
        race_engine(engine, int(rows or CHUNK), asked)
    points = read_stored()
    pairs = find_pairs(points)
    show(pairs)
    console.print(f"{perf_counter() - start:.0f} s in all")
    write_page(pairs)
    draw(points)
    if missed := [f"{pair.question} on {pair.engine}" for pair in pairs if not pair.is_kept]:
        sys.exit(f"missed: {', '.join(missed)}")


def read_arguments() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="time and memory as rows grow")
    parser.add_argument("what", nargs="*", help="engine:rows")
    parser.add_argument("--only", default="0,1,2,3", help="places of questions")
    parser.add_argument("--rounds", type=int, help="3, or 9 of small tables, unless told")
    parser.add_argument("--at", help="a database of PostgreSQL that has the table, with ?host=")
    parser.add_argument("--write", action="store_true", help="measure nothing")
    found = parser.parse_args()
    found.only = [int(place) for place in found.only.split(",")]
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["side"]:
        engine_, source_, side_, *numbers = sys.argv[2:]
        run_side(engine_, source_, side_, *map(int, numbers))
    else:
        race_all(read_arguments())
