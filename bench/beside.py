"""A comparison of all libraries in one run: errors at equal privacy, and seconds per query.

Errors come from `bench/utility.py`. Seconds are measured on 100,000 rows, loaded beforehand in each
library's preferred format: five queries at epsilon 1, with one row per person. The result is the
median of five answers after a warm-up, or the second answer if the first takes more than a second.
This benchmark has no targets. With --write, it replaces the tables of docs/benchmarks.md.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench import utility  # noqa: E402
from bench._libraries import ERRING, TIMED, Library  # noqa: E402
from bench.peers.race import Rows, median_seconds  # noqa: E402

import confide as cf  # noqa: E402

PAGE: Final = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- {}: written by make bench-peers -->\n", "<!-- end of {} -->\n"
SIZE: Final = 100_000
SEED: Final = 2026

QUESTIONS: Final = {
    "count": "SELECT COUNT(*) AS n FROM t",
    "sum": "SELECT SUM(price) AS x FROM t",
    "mean": "SELECT AVG(price) AS x FROM t",
    "median": "SELECT MEDIAN(items) AS x FROM t",
    "counts by region": "SELECT region, COUNT(*) AS n FROM t GROUP BY region",
}


Found = dict[str, dict[str, float]]
"""The result of each library by query, including "confide"."""


def draw_rows() -> Rows:
    """Return the rows: 50 regions, integers below 100, and prices below 500."""
    rng = np.random.default_rng(SEED)
    return Rows(
        region=rng.integers(0, 50, SIZE),
        items=rng.integers(0, 100, SIZE),
        price=500 * rng.beta(2, 5, SIZE),
    )


def open_ours(rows: Rows) -> dict[str, Callable[[], object]]:
    """Return functions that answer each query through a curator."""
    whole: dict[str, cf.Int | cf.Float] = {"region": cf.Int(0, 49), "items": cf.Int(0, 99)}
    columns = whole | {"price": cf.Float(0, 500)}
    table = cf.Table("t", pa.table(asdict(rows)), unit=cf.ROW, columns=columns)
    curator = cf.Curator([table], budget=cf.Budget(10**6))

    def ask(text: str) -> Callable[[], object]:
        return lambda: curator.sql(text, epsilon=1, fresh=True)

    return {name: ask(text) for name, text in QUESTIONS.items()}


def measure_seconds() -> Found:
    """Return the seconds of every library."""
    rows, found = draw_rows(), {}
    found["confide"] = {name: median_seconds(ask) for name, ask in open_ours(rows).items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        np.savez(path, **asdict(rows))
        for name, library in TIMED.items():
            print(f"timing {library.title}", file=sys.stderr, flush=True)
            found[name] = _time_peer(library, name, path)
    return found


def _time_peer(library: Library, name: str, path: Path) -> dict[str, float]:
    """Return the seconds of a library, or nothing if it is not installed or fails."""
    try:
        told = library.run("-m", f"bench.peers.race_{name}", str(path))
    except (OSError, subprocess.SubprocessError) as error:
        print(f"{library.title}: {type(error).__name__}", file=sys.stderr)
        return {}
    seconds: dict[str, float] = json.loads(told)
    return seconds


def write_table(
    found: Found, questions: Iterable[str], form: Callable[[float], str], ratios: Mapping[str, str]
) -> str:
    """Return a table with the best value of each row in bold, and our ratio to the best peer."""
    names = [name for name in found if found[name]]
    titles = ["confide" if name == "confide" else TIMED[name].title for name in names]
    lines = ["| | " + " | ".join([*titles, "ours / best of theirs"]) + " |"]
    lines.append("|---|" + "---:|" * (len(names) + 1))
    for question in questions:
        values = {name: found[name].get(question) for name in names}
        best = min(value for value in values.values() if value is not None)
        cells = [_cell(value, best, form) for value in values.values()]
        lines.append(f"| {question} | " + " | ".join([*cells, ratios[question]]) + " |")
    return "\n".join(lines) + "\n"


def _cell(value: float | None, best: float, form: Callable[[float], str]) -> str:
    if value is None:
        return ""
    return f"**{form(value)}**" if value == best else form(value)


def list_losses(lost: Mapping[str, float], what: str) -> str:
    """Return a sentence that lists the rows where another library is better."""
    named = ", ".join(f"{name} ({ratio:.2f} times)" for name, ratio in lost.items())
    return f"Others have a smaller {what}: {named or 'in no row'}.\n"


def describe_run(found: Found) -> str:
    """Return the date, machine, and versions of a run."""
    versions = [f"confide {version('confide')}"]
    asked = [library for name, library in TIMED.items() if found.get(name)]
    versions += [f"{library.title} {library.version}" for library in asked]
    machine = f"{os.cpu_count()} cores, {_processor()}, Python {platform.python_version()}"
    load, command = os.getloadavg()[0], " ".join(["bench/beside.py", *sys.argv[1:]])
    return (
        f"{datetime.now(UTC):%d %B %Y}, `{command}`, {machine}; load of the machine at the end "
        f"{load:.1f}. {', '.join(versions)}.\n"
    )


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if sys.platform == "linux" else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def show_seconds(value: float) -> str:
    """Return a time in milliseconds, with a suitable number of digits."""
    return f"{1000 * value:,.0f} ms" if value >= 0.1 else f"{1000 * value:.1f} ms"


def tabulate_errors() -> str:
    """Return the table of errors, the rows that we lose, and the conditions of the run."""
    return write_errors(utility.measure(utility.NAMES))


def write_errors(lines: list[utility.Line]) -> str:
    """Return the table of errors; a row is lost if chance does not explain the difference."""
    found: Found = {"confide": {line.row.name: line.own.root for line in lines}}
    for name in ERRING:
        theirs = {line.row.name: line.peers[name].root for line in lines if name in line.peers}
        found[name] = theirs
    ratios = {line.row.name: "{:.3f} ± {:.3f}".format(*line.ratio) for line in lines}
    lost = {line.row.name: line.ratio[0] for line in lines if line.is_above(1)}
    table = write_table(found, ratios, lambda value: f"{value:.3g}", ratios)
    parts = [table, list_losses(lost, "error"), write_aims(lines), describe_run(found)]
    return "\n".join(parts)


def write_aims(lines: list[utility.Line]) -> str:
    """Return the table of target errors next to the measured errors."""
    written = ["| | aim | confide | reached |", "|---|---:|---:|---|"]
    for line in lines:
        own, chance = line.own.root, line.own.chance
        if line.row.aim is not None:
            reached = "yes" if own - 2 * chance <= line.row.aim else "**no**"
            written.append(
                f"| {line.row.name} | {line.row.aim:g} | {own:.4g} ± {chance:.1g} | {reached} |"
            )
    return "\n".join(written) + "\n"


def tabulate_seconds() -> str:
    """Return the table of seconds, the rows that we lose by 2% or more, and the conditions."""
    found = measure_seconds()
    peers = [values for name, values in found.items() if name != "confide"]
    ratios = {
        question: own / min(values[question] for values in peers if question in values)
        for question, own in found["confide"].items()
    }
    shown = {
        name: f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}" for name, ratio in ratios.items()
    }
    lost = {question: ratio for question, ratio in ratios.items() if ratio > 1.02}
    table = write_table(found, QUESTIONS, show_seconds, shown)
    return f"{table}\n{list_losses(lost, 'time')}\n{describe_run(found)}"


TABLES: Final = {"errors": tabulate_errors, "seconds": tabulate_seconds}


def write_page(name: str, text: str) -> None:
    """Replace a table of the page."""
    begin, end = BEGIN.format(name), END.format(name)
    before, rest = PAGE.read_text(encoding="utf-8").split(begin)
    after = rest.split(end)[1]
    PAGE.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def main() -> None:
    """Measure, print, and optionally write the page."""
    parser = argparse.ArgumentParser(description="errors and seconds beside other libraries")
    parser.add_argument("--write", action="store_true", help="write the tables of the page")
    parser.add_argument("--only", choices=list(TABLES), help="one of the tables")
    wanted = parser.parse_args()
    texts = {name: tabulate() for name, tabulate in TABLES.items() if wanted.only in (None, name)}
    for name, text in texts.items():
        print(f"{text}\n")
        if wanted.write:
            write_page(name, text)


if __name__ == "__main__":
    main()
