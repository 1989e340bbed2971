"""Time of a private answer compared with the same aggregate on plain DuckDB.

The targets hold within one run. With rows as units, a grouped COUNT takes at most 1.2 times as long
as plain DuckDB, SUM and AVG 1.5 times, and quantiles of integers half as long. With users as units,
and at most 3 groups and 15 rows of each, COUNT and SUM by product take at most 1.4 times as long as
the raw aggregate over users and products. A query on a table of 1,000 rows takes less than 15 ms,
and `import confide` less than 400. Counts of rows take at most 1/25 of the time of opendp's Polars
API (1/100 at 10^6 rows, which is measured too); counts and sums of users take 1/9.

The table has a tenth as many users as rows, whose activity follows Zipf's law, 50 regions, 10,000
products, one integer column, and one float column. It is created once and kept in a folder for
temporary files. The targets for ratios are for 10^7 rows; `bench/curator.py 1000000` uses fewer,
and prints the ratios next to the fixed costs. ``--only opendp`` (or ``duckdb``, ``fixed``) runs one
part. Both sides take turns, and a ratio is the median over all rounds, since other work on the
machine slows both alike.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

import duckdb
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table as Listing

import confide as cf

if TYPE_CHECKING:
    import pyarrow as pa

ROWS: Final = 10_000_000
ROUNDS: Final = 5
REGIONS: Final = [f"region {number:02d}" for number in range(50)]
PRODUCTS: Final = 10_000
SMALL: Final = 1_000
IMPORTS: Final = 5
ASKED: Final = 50
COLUMNS: Final[dict[str, cf.Category | cf.Int | cf.Float]] = {
    "region": cf.Category(REGIONS),
    "product": cf.Int(0, PRODUCTS - 1),
    "items": cf.Int(0, 99),
    "price": cf.Float(0, 500),
}
PRICE: Final = 0.001
OPENDP: Final = Path(__file__).parent / "peers" / "time_opendp.py"
MANY_ROWS: Final = 3_000_000
FEWER_ROWS: Final = 1_000_000

console = Console()
missed: list[str] = []


@dataclass(frozen=True, slots=True)
class Race:
    """A query, the raw statement that it is compared with, and its maximum relative time."""

    name: str
    by_user: bool
    question: str
    raw: str
    bound: float


def by_region(statistic: str, bound: float) -> Race:
    """Return a race over the regions, with rows as units."""
    text = f"SELECT region, {statistic} AS x FROM sales GROUP BY region"
    return Race(f"{statistic} by region", by_user=False, question=text, raw=text, bound=bound)


def of_all(statistic: str, bound: float) -> Race:
    """Return a race over all rows at once, with rows as units."""
    text = f"SELECT {statistic} AS x FROM sales"
    return Race(statistic, by_user=False, question=text, raw=text, bound=bound)


def by_product(statistic: str) -> Race:
    """Return a race over the products, with users as units; the raw side groups by both."""
    inner = f"SELECT customer, product, {statistic} AS x FROM sales GROUP BY customer, product"
    return Race(
        f"{statistic} by product, of users",
        by_user=True,
        question=f"SELECT product, {statistic} AS x FROM sales GROUP BY product",
        raw=f"SELECT product, SUM(x) FROM ({inner}) GROUP BY product",
        bound=1.4,
    )


RACES: Final = (
    by_region("COUNT(*)", 1.2),
    by_region("SUM(items)", 1.5),
    by_region("SUM(price)", 1.5),
    by_region("AVG(items)", 1.5),
    by_region("AVG(price)", 1.5),
    by_region("MEDIAN(items)", 0.5),
    by_region("QUANTILE_CONT(items, 0.9)", 0.5),
    of_all("MEDIAN(items)", 0.5),
    of_all("QUANTILE_CONT(items, 0.9)", 0.5),
    by_product("COUNT(*)"),
    by_product("SUM(items)"),
)


def draw_zipf(rng: np.random.Generator, kinds: int, count: int) -> NDArray[np.int64]:
    """Return numbers below ``kinds``, where the k-th has a weight of 1 / k."""
    heights = np.cumsum(1 / np.arange(1, kinds + 1))
    drawn: NDArray[np.int64] = np.searchsorted(heights, rng.random(count) * heights[-1])
    return drawn


def draw_sales(rows: int, seed: int) -> "pa.Table":
    """Return a table of sales that depends only on the seed."""
    import pyarrow as pa  # here, to keep it out of the memory of runs that find the table

    rng = np.random.default_rng(seed)
    users = max(1, rows // 10)
    regions = pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 50, rows)), pa.array(REGIONS))
    sales = {
        "customer": rng.permutation(users)[draw_zipf(rng, users, rows)],
        "region": regions.cast(pa.string()),
        "product": draw_zipf(rng, PRODUCTS, rows),
        "items": rng.integers(0, 100, rows),
        "price": rng.lognormal(3, 1, rows),
    }
    return pa.table(sales)


def find_sales(rows: int) -> Path:
    """Return the path of a table with ``rows`` rows, creating it if necessary."""
    folder = Path(tempfile.gettempdir()) / "confide-bench"
    folder.mkdir(exist_ok=True)
    path = folder / f"sales-{rows}.parquet"
    if not path.exists():
        part = path.with_suffix(".part")
        # At least eight row groups keep every core busy; DuckDB writes none smaller than this.
        size = max(122_880, min(rows // 8, 2**20))
        import pyarrow.parquet as pq

        pq.write_table(draw_sales(rows, rows), part, row_group_size=size)
        part.rename(path)
    return path


def open_curator(path: Path, *, by_user: bool) -> cf.Curator:
    """Return a curator whose budget lasts for the whole run."""
    table = cf.Table(
        "sales",
        path,
        unit="customer" if by_user else cf.ROW,
        columns=COLUMNS,
        max_rows_per_unit=15 if by_user else 1,
        max_groups_per_unit=3 if by_user else 1,
    )
    return cf.Curator([table], budget=cf.Budget(10))


def seconds(run: Callable[[], object]) -> float:
    """Return the seconds that a function takes."""
    start = perf_counter()
    run()
    return perf_counter() - start


def check_target(what: str, *, kept: bool) -> str:
    """Return the label of a target that was met or missed, and record a miss."""
    if not kept:
        missed.append(what)
    return "yes" if kept else "[bold]NO[/bold]"


def read_all(raw: duckdb.DuckDBPyConnection, statement: str) -> list[tuple[object, ...]]:
    """Return the rows of a statement on plain DuckDB."""
    return raw.execute(statement).fetchall()


def race_all(path: Path) -> None:
    """Time both sides in turns, and print the ratios."""
    curators = {by_user: open_curator(path, by_user=by_user) for by_user in (False, True)}
    raw = duckdb.connect()
    raw.read_parquet(str(path)).create_view("sales")
    listing = Listing("question", "raw ms", "ours ms", "ratio", "promise", "kept")
    for race in track(RACES, "taking turns", console=console, transient=True):
        ask = partial(curators[race.by_user].sql, race.question, epsilon=PRICE, fresh=True)
        ours, theirs = [], []
        for _ in range(ROUNDS):
            theirs.append(seconds(partial(read_all, raw, race.raw)))
            ours.append(seconds(ask))
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        kept = check_target(race.name, kept=ratio <= race.bound)
        shown = (f"{statistics.median(times) * 1e3:,.0f}" for times in (theirs, ours))
        listing.add_row(race.name, *shown, f"{ratio:.2f}", f"at most {race.bound}", kept)
    console.print(listing)


def race_opendp(path: Path, rows: int) -> None:
    """Time counts and a sum in opendp, once each, and print the ratios."""
    listing = Listing("question", "opendp ms", "ours ms", "ratio", "promise", "kept")
    races = [("row", RACES[0], 25 if rows > MANY_ROWS else 100)]
    if rows > MANY_ROWS:
        races += [("user", by_product(one), 9) for one in ("COUNT(*)", "SUM(items)")]
    for unit, race, bound in track(races, "waiting for opendp", console=console, transient=True):
        curator = open_curator(path, by_user=race.by_user)
        ours = min(
            seconds(partial(curator.sql, race.question, epsilon=PRICE, fresh=True))
            for _ in range(ROUNDS)
        )
        statistic = "sum" if "SUM" in race.name else "count"
        python = os.environ.get("CONFIDE_ORACLE_PYTHON", "python")
        command = [python, str(OPENDP), str(path), unit, statistic]
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        name = f"{race.name}, against opendp"
        if asked.returncode:
            check_target(name, kept=False)
            console.print(f"{name}: no answer; CONFIDE_ORACLE_PYTHON needs opendp\\[polars]")
            continue
        theirs = float(asked.stdout)
        kept = check_target(name, kept=theirs >= bound * ours)
        shown = (f"{theirs * 1e3:,.0f}", f"{ours * 1e3:,.0f}", f"{theirs / ours:.0f}")
        listing.add_row(race.name, *shown, f"at least {bound}", kept)
    console.print(listing)


def time_small(*, by_user: bool, is_new: bool = False) -> float:
    """Return the median seconds of a query on a small table."""
    return statistics.median(list_small(by_user=by_user, is_new=is_new, times=ASKED))


def list_small(*, by_user: bool, is_new: bool, times: int) -> list[float]:
    """Return the seconds of several queries on a small table.

    With ``is_new``, each query differs, so its statement must be generated each time.
    """
    curator = open_curator(find_sales(SMALL), by_user=by_user)
    text = "SELECT region, COUNT(*) AS n, AVG(price) AS mean FROM sales{} GROUP BY region"
    texts = (text.format(f" WHERE items > {one}" if is_new else "") for one in range(times))
    asked = [partial(curator.sql, one, epsilon=PRICE, fresh=True) for one in texts]
    return list(map(seconds, asked))


def time_import(program: str, times: int = IMPORTS) -> float:
    """Return the seconds that a program adds to the start of an interpreter."""
    with_it, without = [], []
    for _ in range(times):
        without.append(seconds(partial(run_python, "pass")))
        with_it.append(seconds(partial(run_python, program)))
    return min(with_it) - min(without)


def run_python(text: str) -> None:
    """Run a program in a new interpreter."""
    subprocess.run([sys.executable, "-c", text], check=True)


def show_fixed() -> None:
    """Print the costs that do not grow with the rows; run it before reading large tables.

    A repeated query is planned and read again, but its statement is cached. New queries have no
    target, since their statement must be generated and parsed first. Nor does the first use of
    `Curator`, which imports NumPy, DuckDB, and sqlglot.
    """
    listing = Listing("fixed", "ms", "promise", "kept")
    found = {
        "a question to 1,000 rows, users as units": (time_small(by_user=True), 15),
        "a question to 1,000 rows, rows as units": (time_small(by_user=False), 15),
        "import confide": (time_import("import confide"), 400),
    }
    for name, (spent, bound) in found.items():
        kept = check_target(name, kept=spent * 1e3 < bound)
        listing.add_row(name, f"{spent * 1e3:.1f}", f"less than {bound}", kept)
    for by_user, unit in ((True, "users"), (False, "rows")):
        new = time_small(by_user=by_user, is_new=True)
        listing.add_row(f"a new question, {unit} as units", f"{new * 1e3:.1f}", "", "")
    first = time_import("import confide; confide.Curator")
    listing.add_row("import confide, and its curator", f"{first * 1e3:.0f}", "", "")
    console.print(listing)


def figures() -> Iterator[tuple[str, Callable[[], float]]]:
    """Yield the figures for `compare.py`: our own times, with 10^6 rows."""
    for by_user, unit in ((True, "users"), (False, "rows")):
        yield f"1,000 rows, {unit} as units", partial(time_briefly, by_user=by_user, is_new=False)
        yield (
            f"1,000 rows, {unit} as units, new",
            partial(time_briefly, by_user=by_user, is_new=True),
        )
    yield "import confide", partial(time_import, "import confide", 3)
    yield "import confide.Curator", partial(time_import, "import confide; confide.Curator", 1)
    path = find_sales(FEWER_ROWS)
    curators = {by_user: open_curator(path, by_user=by_user) for by_user in (False, True)}
    for race in RACES:
        ask = partial(curators[race.by_user].sql, race.question, epsilon=PRICE, fresh=True)
        yield race.name, partial(time_fastest, ask)


def time_briefly(*, by_user: bool, is_new: bool) -> float:
    """Return the seconds of the fastest of 15 queries on a small table."""
    return min(list_small(by_user=by_user, is_new=is_new, times=15))


def time_fastest(run: Callable[[], object]) -> float:
    """Return the seconds of the fastest run within a fifth of a second, of at least two runs."""
    end, spent = perf_counter() + 0.2, [seconds(run)]
    while len(spent) < 2 or perf_counter() < end:
        spent.append(seconds(run))
    return min(spent)


def read_arguments() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="how long private answers take")
    parser.add_argument("rows", nargs="?", type=int, default=ROWS)
    parser.add_argument("--only", choices=["duckdb", "opendp", "fixed"], help="one part")
    return parser.parse_args()


if __name__ == "__main__":
    asked = read_arguments()
    if asked.only in (None, "fixed"):
        show_fixed()
    console.print(f"{asked.rows:,} rows")
    if asked.only in (None, "duckdb"):
        race_all(find_sales(asked.rows))
    if asked.only in (None, "opendp"):
        for rows in dict.fromkeys((FEWER_ROWS, asked.rows)):
            race_opendp(find_sales(rows), rows)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    console.print(f"most memory of this process, both sides: {most:,.0f} MiB")
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")
