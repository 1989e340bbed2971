"""Compare the speed of the working tree with another revision: `bench/compare.py REV`.

The program copies both into a temporary folder and starts a benchmark on both sides. They measure
each figure in turn, while the other side waits: old, new, new, old, and so on. The best of four
measurements counts, since other work on the machine only adds to a time. The next round has new
processes and begins with the new side. For each figure, the program prints the median over all
rounds of new / old, with its standard error. A figure is flagged if that ratio exceeds 1 by more
than 3% plus two standard errors, and then the exit code is 1.

    bench/compare.py main                         the benchmarks curator and utility, 15 rounds
    bench/compare.py main noise ledger            others: filters, holdout, ledger, noise, server
    bench/compare.py main curator --only import   figures named by a part of their names
    bench/compare.py main --rounds 30             more rounds: smaller standard errors

Each side runs its own `bench` folder, and figures are matched by name. A revision that has no
`bench/_measure.py` yet runs the `bench` folder of the working tree; `--bench new` always does that,
so that a change to a benchmark cannot look like a change of speed.
"""

import argparse
import io
import math
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import mstats

ROOT: Final = Path(__file__).resolve().parents[1]
ROUNDS: Final = 15
BENCHMARKS: Final = ("curator", "utility")
REPEATS: Final = {"utility": 1}
"""The number of measurements per round, if it is not 4. Random errors do not depend on load."""

MARGIN: Final = 0.03
ERRORS: Final = 2.0
console = Console(width=None if sys.stdout.isatty() else 120)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure on both sides, in every round."""

    name: str
    old: list[float]
    new: list[float]

    @property
    def ratios(self) -> list[float]:
        """New over old, round by round."""
        return [new / old for old, new in zip(self.old, self.new, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return float(np.median(self.ratios))

    @property
    def error(self) -> float:
        """The standard error of the median, as Maritz and Jarrett estimate it."""
        return float(mstats.mjci(self.ratios, prob=[0.5])[0])

    @property
    def is_slower(self) -> bool:
        """Whether the ratio exceeds 1 by more than the margin and its errors explain."""
        return self.ratio > 1 + MARGIN + ERRORS * self.error

    def cells(self) -> list[str]:
        """Return a row of the table."""
        sides = [f"{np.median(side):.4g}" for side in (self.old, self.new)]
        shown = f"{self.ratio:.3f} ± {self.error:.3f}"
        return [self.name, *sides, shown, "[bold]SLOWER[/bold]" if self.is_slower else ""]


class Side:
    """A benchmark that runs in one of the two folders, and measures when it is asked to."""

    def __init__(self, folder: Path, benchmark: str, only: list[str]) -> None:
        self.title = f"{benchmark}, {folder.name} side"
        self.errors = folder / "errors.txt"
        command = [sys.executable, "-m", "bench._measure", benchmark, "--steps", "--only", *only]
        with self.errors.open("w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(folder / "src")},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.name = self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # At the end of its input, the benchmark stops its own servers and ends.
        self.process.communicate()

    def _read(self) -> str:
        """Return the next line of output, which is empty at the end."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line and self.process.wait():
            console.print(self.errors.read_text(encoding="utf-8"), markup=False, highlight=False)
            console.print(f"{self.title}: the benchmark failed")
            sys.exit(2)
        return line

    def _send(self, command: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return self._read()

    def measure(self) -> float:
        """Return the current figure, measured now."""
        return float(self._send("measure"))

    def advance(self) -> None:
        """Go to the next figure; the name is empty after the last."""
        self.name = self._send("next")

    def advance_to(self, name: str) -> None:
        """Go to the figure of this name, which the benchmark must still have before it."""
        while self.name != name:
            if not self.name:
                console.print(f"{self.title}: the order of figures differs; try --bench new")
                sys.exit(2)
            self.advance()


def git(*arguments: str) -> bytes:
    """Return the output of a Git command."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], stdout=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(2)
    return done.stdout


def export_revision(revision: str, folder: Path) -> None:
    """Write the files of a revision into a new folder."""
    with tarfile.open(fileobj=io.BytesIO(git("archive", revision))) as archive:
        archive.extractall(folder, filter="data")


def copy_tree(folder: Path) -> None:
    """Copy the working tree into a new folder, so that edits do not disturb the measurement."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in listed.decode().split("\0"):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def choose_bench(old: Path, new: Path, *, is_new: bool) -> None:
    """Give the old side the benchmarks of the new one if asked to, or if it cannot be measured."""
    if is_new or not (old / "bench" / "_measure.py").exists():
        console.print("both sides run the benchmarks of the working tree")
        shutil.rmtree(old / "bench", ignore_errors=True)
        shutil.copytree(new / "bench", old / "bench")


def list_names(folder: Path, benchmark: str, only: list[str]) -> list[str]:
    """Return the names of all figures of one side."""
    names = []
    with Side(folder, benchmark, only) as side:
        while side.name:
            names.append(side.name)
            side.advance()
    return names


def find_common(folders: list[Path], benchmark: str, only: list[str]) -> list[str]:
    """Return the names of figures that both sides have, and print those of only one side."""
    old, new = (list_names(folder, benchmark, only) for folder in folders)
    for side, names, others in (("old", old, new), ("new", new, old)):
        for name in names:
            if name not in others:
                console.print(f"only on the {side} side: {name}")
    common = [name for name in old if name in new]
    if not common:
        console.print(f"{benchmark}: no figure has the same name on both sides")
        sys.exit(2)
    return common


def run_round(sides: list[Side], names: list[str], repeats: int) -> list[list[float]]:
    """Return the best figures of one round, for each name those of both sides in their order."""
    found = []
    for name in names:
        best = [math.inf, math.inf]
        for side in sides:
            side.advance_to(name)
        for repeat in range(repeats):
            for place in (0, 1) if repeat % 2 == 0 else (1, 0):
                best[place] = min(best[place], sides[place].measure())
        found.append(best)
    return found


def compare(folders: list[Path], benchmark: str, only: list[str], rounds: int) -> list[Comparison]:
    """Return the comparison of each figure of a benchmark."""
    names, found = find_common(folders, benchmark, only), []
    for number in range(rounds):
        print(f"{benchmark}: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        with (
            Side(folders[0], benchmark, only) as old,
            Side(folders[1], benchmark, only) as new,
        ):
            # The order changes from round to round, and within a round with each repeat.
            is_even = number % 2 == 0
            best = run_round(
                [old, new] if is_even else [new, old], names, REPEATS.get(benchmark, 4)
            )
            found.append(best if is_even else [figures[::-1] for figures in best])
    figures = np.array(found).transpose(1, 2, 0).tolist()
    return [Comparison(name, *sides) for name, sides in zip(names, figures, strict=True)]


def show(benchmark: str, comparisons: list[Comparison]) -> None:
    """Print the table of one benchmark."""
    table = Table(benchmark, "old", "new", "new / old ± s.e.", "")
    for comparison in comparisons:
        table.add_row(*comparison.cells())
    console.print(table)


def read_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description="compare the working tree with another revision")
    parser.add_argument("revision", metavar="REV", help="revision to compare with, such as main")
    parser.add_argument(
        "benchmarks", nargs="*", default=list(BENCHMARKS), help="default: curator and utility"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default: {ROUNDS}")
    parser.add_argument("--only", nargs="*", default=[], help="parts of the names of figures")
    parser.add_argument(
        "--bench", choices=["own", "new"], default="own", help="whose benchmarks the old side runs"
    )
    return parser.parse_args()


def main() -> None:
    """Compare each benchmark, and fail if a figure of one is slower."""
    asked = read_arguments()
    if asked.rounds < 3:
        sys.exit("--rounds must be at least 3")
    slower = []
    with tempfile.TemporaryDirectory(prefix="confide-compare-") as folder:
        old, new = folders = [Path(folder) / side for side in ("old", "new")]
        export_revision(asked.revision, old)
        copy_tree(new)
        choose_bench(old, new, is_new=asked.bench == "new")
        for benchmark in asked.benchmarks:
            comparisons = compare(folders, benchmark, asked.only, asked.rounds)
            show(benchmark, comparisons)
            slower += [one.name for one in comparisons if one.is_slower]
    if slower:
        sys.exit(f"slower by more than {MARGIN:.0%} plus two standard errors: {'; '.join(slower)}")


if __name__ == "__main__":
    main()
