"""Everyone side by side, in one run: errors at equal privacy, and seconds for the same questions.

Errors are those of `bench/utility.py`. Seconds: 100,000 rows in the form that each library likes
best, taken in beforehand; five questions at epsilon 1, one row one person; the median of five
answers after a first one, or the second where the first takes more than a second. Nothing is
promised here. With --write the tables of docs/benchmarks.md are written anew.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench import utility  # noqa: E402
from bench.peers.race import Rows, median_seconds  # noqa: E402

import confide as cf  # noqa: E402

PAGE: Final = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- {}: written by make bench-peers -->\n", "<!-- end of {} -->\n"
SIZE: Final = 100_000
SEED: Final = 2026
LONGEST: Final = 900

QUESTIONS: Final = {
    "count": "SELECT COUNT(*) AS n FROM t",
    "sum": "SELECT SUM(price) AS x FROM t",
    "mean": "SELECT AVG(price) AS x FROM t",
    "median": "SELECT MEDIAN(items) AS x FROM t",
    "counts by region": "SELECT region, COUNT(*) AS n FROM t GROUP BY region",
}


@dataclass(frozen=True, slots=True)
class Peer:
    """A library, its package, and the variable and folder that say where it is installed."""

    title: str
    package: str
    variable: str
    home: str

    @property
    def python(self) -> str:
        """The interpreter that has the library."""
        return os.environ.get(self.variable, str(ROOT / self.home / "bin" / "python"))

    def run(self, *arguments: str) -> str | None:
        """Return what a program prints in the library's environment; None where it fails."""
        if not Path(self.python).exists():
            return None
        command = [self.python, *arguments]
        try:
            done = subprocess.run(
                command, cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=LONGEST
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            print(f"{self.title}: {type(error).__name__}", file=sys.stderr)
            return None
        return done.stdout.decode().strip()

    @property
    def version(self) -> str:
        """What is installed, or that nothing is."""
        text = f"from importlib.metadata import version; print(version({self.package!r}))"
        return self.run("-c", text) or "not installed"


ORACLE: Final = ("CONFIDE_ORACLE_PYTHON", ".venv-oracle")
PEERS_HOME: Final = ("CONFIDE_PEERS_PYTHON", ".venv-peers")
PEERS: Final = {
    "opendp": Peer("opendp", "opendp", *ORACLE),
    "diffprivlib": Peer("diffprivlib", "diffprivlib", *PEERS_HOME),
    "pipelinedp": Peer("PipelineDP", "pipeline-dp", *PEERS_HOME),
    "smartnoise": Peer("SmartNoise SQL", "smartnoise-sql", *PEERS_HOME),
    "tumult": Peer("Tumult", "tmlt.analytics", "CONFIDE_TUMULT_PYTHON", ".venv-tumult"),
}
Found = dict[str, dict[str, float]]
"""What each library reached, question by question; "confide" is one of them."""


def draw_rows() -> Rows:
    """Return the rows of the race: 50 regions, whole numbers below 100, prices below 500."""
    rng = np.random.default_rng(SEED)
    return Rows(
        region=rng.integers(0, 50, SIZE),
        items=rng.integers(0, 100, SIZE),
        price=500 * rng.beta(2, 5, SIZE),
    )


def open_ours(rows: Rows) -> dict[str, Callable[[], object]]:
    """Return our answers, through a curator, in SQL."""
    whole: dict[str, cf.Int | cf.Float] = {"region": cf.Int(0, 49), "items": cf.Int(0, 99)}
    columns = whole | {"price": cf.Float(0, 500)}
    table = cf.Table("t", pa.table(asdict(rows)), unit=cf.ROW, columns=columns)
    curator = cf.Curator([table], budget=cf.Budget(10**6))

    def ask(text: str) -> Callable[[], object]:
        return lambda: curator.sql(text, epsilon=1, fresh=True)

    return {name: ask(text) for name, text in QUESTIONS.items()}


def measure_seconds() -> Found:
    """Return the seconds that everyone takes."""
    rows, found = draw_rows(), {}
    found["confide"] = {name: median_seconds(ask) for name, ask in open_ours(rows).items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        np.savez(path, **asdict(rows))
        for name, peer in PEERS.items():
            print(f"timing {peer.title}", file=sys.stderr, flush=True)
            told = peer.run("-m", f"bench.peers.race_{name}", str(path))
            found[name] = json.loads(told) if told else {}
    return found


def measure_errors() -> tuple[Found, dict[str, str]]:
    """Return everyone's errors by row of the utility benchmark, and what each row is."""
    people = utility.draw_people()
    peers = utility.ask_peers(people)
    found: Found = {"confide": {}, **{name: {} for name in PEERS}}
    for row in utility.ROWS:
        print(f"asking confide: {row.name}", file=sys.stderr, flush=True)
        found["confide"][row.name] = float(np.sqrt(np.mean(np.square(row.ask(people)))))
        for name, errors in peers.items():
            if row.peers in errors:
                found[name][row.name] = errors[row.peers]
    return found, {row.name: row.peers for row in utility.ROWS}


def write_table(found: Found, questions: Mapping[str, object], form: Callable[[float], str]) -> str:
    """Return a table with the best of each line in bold, and how ours compares with the peers'."""
    names = [name for name in found if found[name]]
    titles = ["confide" if name == "confide" else PEERS[name].title for name in names]
    lines = ["| | " + " | ".join([*titles, "ours / best of theirs"]) + " |"]
    lines.append("|---|" + "---:|" * (len(names) + 1))
    for question in questions:
        values = {name: found[name].get(question) for name in names}
        best = min(value for value in values.values() if value is not None)
        cells = [_cell(value, best, form) for value in values.values()]
        ratio = compare(found, question)
        cells.append("" if ratio is None else f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}")
        lines.append(f"| {question} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(value: float | None, best: float, form: Callable[[float], str]) -> str:
    if value is None:
        return ""
    return f"**{form(value)}**" if value == best else form(value)


def compare(found: Found, question: str) -> float | None:
    """Return ours over the best of theirs."""
    theirs = [
        values[question]
        for name, values in found.items()
        if name != "confide" and question in values
    ]
    return found["confide"][question] / min(theirs) if theirs else None


def name_losses(found: Found, questions: Mapping[str, object], what: str) -> str:
    """Return a sentence on where another library is better, by 2 % or more."""
    ratios = {question: compare(found, question) for question in questions}
    lost = [
        f"{name} ({ratio:.2f} times)" for name, ratio in ratios.items() if ratio and ratio > 1.02
    ]
    return f"Where we lose in {what}: {', '.join(lost) if lost else 'nowhere in this run'}.\n"


def describe_run(found: Found) -> str:
    """Return when, where and with what this was measured."""
    versions = [f"confide {version('confide')}"]
    versions += [f"{peer.title} {peer.version}" for name, peer in PEERS.items() if found[name]]
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
    """Return a time in milliseconds, as many digits as it has."""
    return f"{1000 * value:,.0f} ms" if value >= 0.1 else f"{1000 * value:.1f} ms"


def tabulate_errors() -> str:
    """Return everyone's errors, where we lose, and how they were measured."""
    found, rows = measure_errors()
    table = write_table(found, rows, lambda value: f"{value:.3g}")
    return f"{table}\n{name_losses(found, rows, 'error')}\n{describe_run(found)}"


def tabulate_seconds() -> str:
    """Return everyone's seconds, where we lose, and how they were measured."""
    found = measure_seconds()
    table = write_table(found, QUESTIONS, show_seconds)
    return f"{table}\n{name_losses(found, QUESTIONS, 'time')}\n{describe_run(found)}"


TABLES: Final = {"errors": tabulate_errors, "seconds": tabulate_seconds}


def write_page(name: str, text: str) -> None:
    """Put a table in the place of the one on the page."""
    begin, end = BEGIN.format(name), END.format(name)
    before, rest = PAGE.read_text(encoding="utf-8").split(begin)
    after = rest.split(end)[1]
    PAGE.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def main() -> None:
    """Measure, print, and write the page if told to."""
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
