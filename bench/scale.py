"""How time and memory grow with the rows, on each engine, against the same aggregate without noise.

Promised: on every engine, limits of users included, an answer takes at most twice as long as the
raw aggregate; on PostgreSQL and Spark, which run elsewhere, this process takes less than 300 MB
whatever the number of rows; on DuckDB, which runs inside it, at most twice what raw DuckDB takes.

DuckDB is asked at 10^6, 10^7 and 10^8 rows, PostgreSQL and Spark at 10^7; sizes and engines may be
named: ``bench/scale.py spark:1000000 duckdb:1000000``. The tables are those of `bench/curator.py`,
kept in a folder for temporary files. Each side runs in a process of its own, and takes the best of
three; the first of a process is not counted, for Spark compiles it. ``--rounds 1`` takes fewer and
``--only 1,2`` asks some of the questions. ``--keep FILE`` adds the times to a file of lines, and
``--plot FILE`` draws them.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Listing

import confide as cf

ROOT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from bench import curator as sales  # noqa: E402

CHUNK: Final = 10_000_000
ROUNDS: Final = 3
TWICE, OWN = 2.0, 300.0
PLAN: Final = (
    *("duckdb:1000000", "duckdb:10000000", "duckdb:100000000"),
    *("postgresql:10000000", "spark:10000000"),
)
COPY: Final = "COPY sales FROM STDIN (FORMAT csv)"
CREATE: Final = (
    "CREATE TABLE sales (customer bigint, region text, product bigint, items bigint, "
    "price double precision)"
)
RACES: Final = (
    sales.by_region("COUNT(*)", TWICE),
    sales.by_region("SUM(price)", TWICE),
    sales.by_product("COUNT(*)"),
    sales.by_product("SUM(items)"),
)

console = Console()
missed: list[str] = []


def find_table(rows: int) -> Path:
    """Return the table of so many rows; a large one has the rows of 10^7 again, of other users."""
    if rows <= CHUNK:
        return sales.find_sales(rows)
    path = Path(tempfile.gettempdir()) / "confide-bench" / f"sales-{rows}.parquet"
    if not path.exists():
        part = path.with_suffix(".part")
        again = (
            f"SELECT customer + copy * {CHUNK // 10} AS customer, region, product, items, price "
            f"FROM read_parquet('{sales.find_sales(CHUNK)}'), range({rows // CHUNK}) AS t(copy)"
        )
        duckdb.execute(f"COPY ({again}) TO '{part}' (FORMAT parquet)")
        part.rename(path)
    return path


# One side of one engine, in a process of its own.


def open_raw(engine: str, source: str) -> Callable[[str], object]:
    """Return what runs a raw statement on an engine."""
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
    """Return a local Spark with two cores."""
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
    """Return what asks a curator."""
    if source.startswith("spark:"):
        start_spark()
    table = cf.Table(
        "sales",
        source,
        unit="customer" if by_user else cf.ROW,
        columns=sales.COLUMNS,
        max_rows_per_unit=15 if by_user else 1,
        max_groups_per_unit=3 if by_user else 1,
    )
    curator = cf.Curator([table], budget=cf.Budget(100))
    return lambda text: curator.sql(text, epsilon=sales.PRICE, fresh=True)


def cpu_seconds() -> float:
    """Return the processor time of this process and all that it started."""
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


def run_side(engine: str, source: str, side: str, place: int, rounds: int) -> None:
    """Print the best time of one side, and the most memory of this process."""
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
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(json.dumps({"seconds": best, "cpu": cpu, "megabytes": most}))


# All sides, in turn.


def measure(engine: str, source: str, side: str, place: int, rounds: int) -> dict[str, float]:
    """Return what one side took."""
    command = [sys.executable, __file__, "side", engine, source, side, str(place), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextmanager
def find_source(engine: str, rows: int) -> Iterator[str]:
    """Return where an engine finds the table."""
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
    from pyarrow import csv

    with psycopg.connect(address, autocommit=True) as server:
        server.execute(CREATE)
        with server.cursor().copy(COPY) as copier:
            for batch in pq.ParquetFile(path).iter_batches(500_000):
                sink = pa.BufferOutputStream()
                csv.write_csv(batch, sink, csv.WriteOptions(include_header=False))
                copier.write(sink.getvalue().to_pybytes())
        server.execute("VACUUM ANALYZE sales")


def race_engine(
    engine: str, rows: int, listing: Listing, asked: argparse.Namespace
) -> list[dict[str, Any]]:
    """Let both sides of every question run, and return the points of the plot."""
    points = []
    with find_source(engine, rows) as source:
        for place in asked.only:
            race = RACES[place]
            raw, ours = (
                measure(engine, source, side, place, asked.rounds) for side in ("raw", "ours")
            )
            ratio = ours["seconds"] / raw["seconds"]
            most = TWICE * max(raw["megabytes"], OWN / TWICE) if engine == "duckdb" else OWN
            kept = ratio <= TWICE and ours["megabytes"] <= most
            if not kept:
                missed.append(f"{race.name} on {engine} at {rows:,} rows")
            sides = [f"{side['seconds']:.2f}" for side in (raw, ours)]
            # On a machine with other work processor time tells more; PostgreSQL's is elsewhere.
            by_cpu = "" if engine == "postgresql" else f"{ours['cpu'] / max(raw['cpu'], 0.01):.2f}"
            memory = [f"{side['megabytes']:,.0f}" for side in (raw, ours)]
            shown = "yes" if kept else "[bold]NO[/bold]"
            listing.add_row(
                engine, f"{rows:,}", race.name, *sides, f"{ratio:.2f}", by_cpu, *memory, shown
            )
            for side, found in (("raw", raw), ("confide", ours)):
                points.append(
                    {"engine": engine, "rows": rows, "side": side, "question": race.name, **found}
                )
            console.print(f"{engine} {rows:,} {race.name}: {ratio:.2f}, by CPU {by_cpu or '?'}")
    return points


def draw(points: list[dict[str, Any]], path: str) -> None:
    """Draw the times over the rows, both logarithmic."""
    import vl_convert
    from tools.draw_pictures import CONFIG, VEGA_LITE

    def axis(name: str, title: str) -> dict[str, Any]:
        scale = {"type": "log", "nice": False}
        return {"field": name, "type": "quantitative", "scale": scale, "title": title}

    layers = {
        "x": axis("rows", "rows"),
        "y": axis("seconds", "seconds"),
        "color": {"field": "engine", "type": "nominal", "title": None},
        "shape": {"field": "side", "type": "nominal", "title": None},
        "strokeDash": {"field": "side", "type": "nominal", "title": None},
    }
    chart = {
        "config": CONFIG,
        "data": {"values": points},
        "columns": 2,
        "facet": {"field": "question", "type": "nominal", "title": None},
        "spec": {
            "width": 260,
            "height": 180,
            "mark": {"type": "line", "point": True},
            "encoding": layers,
        },
    }
    Path(path).write_text(vl_convert.vegalite_to_svg(chart, VEGA_LITE), encoding="utf-8")


def race_all(asked: argparse.Namespace) -> None:
    """Run what is asked for, and print one table of it."""
    start = perf_counter()
    points: list[dict[str, Any]] = []
    columns = (
        "engine",
        "rows",
        "question",
        "raw s",
        "ours s",
        "ratio",
        "raw MB",
        "ours MB",
        "kept",
    )
    listing = Listing(*columns)
    for one in asked.what or PLAN:
        engine, _, rows = one.partition(":")
        points += race_engine(engine, int(rows or CHUNK), listing, asked)
    console.print(listing)
    console.print(f"{perf_counter() - start:.0f} s in all")
    if asked.keep:
        with Path(asked.keep).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(point) + "\n" for point in points)
        points = [json.loads(line) for line in Path(asked.keep).read_text().splitlines()]
    if asked.plot:
        draw(points, asked.plot)
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")


def read_words() -> argparse.Namespace:
    """Return what is asked for."""
    parser = argparse.ArgumentParser(description="time and memory as rows grow")
    parser.add_argument("what", nargs="*", help="engine:rows")
    parser.add_argument("--only", default="0,1,2,3", help="places of questions")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--plot")
    parser.add_argument("--keep")
    found = parser.parse_args()
    found.only = [int(place) for place in found.only.split(",")]
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["side"]:
        engine_, source_, side_, *numbers = sys.argv[2:]
        run_side(engine_, source_, side_, *map(int, numbers))
    else:
        race_all(read_words())
