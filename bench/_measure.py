"""Measure the figures of one benchmark: `python -m bench._measure curator` prints them as JSON.

A benchmark can be compared between revisions if it has a function `figures` that yields the name of
each figure and a function that measures it. A figure is a time in seconds or an error, so lower is
better. Measuring one should take less than a second.

`compare.py` starts this program with `--steps` in two checkouts. The program then writes the name
of a figure, and reads commands, one per line: `measure` measures the figure and writes it, and
`next` moves on to the next name.
"""

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Final

import confide

ROOT: Final = Path(__file__).resolve().parents[1]
Figures = Iterator[tuple[str, Callable[[], float]]]


def find_figures(benchmark: str, only: list[str]) -> Figures:
    """Yield the figures of a benchmark without measuring them; ``only`` lists parts of names."""
    sys.argv[1:] = []  # some benchmarks read their arguments when they are imported
    figures: Figures = importlib.import_module(f"bench.{benchmark}").figures()
    for name, measure in figures:
        if not only or any(part.lower() in name.lower() for part in only):
            yield name, measure


def follow_steps(figures: Figures) -> None:
    """Measure figures on command, reading the commands from standard input."""
    answers = sys.stdout
    with redirect_stdout(sys.stderr):
        for name, measure in figures:
            print(name, file=answers, flush=True)
            while sys.stdin.readline() == "measure\n":
                print(measure(), file=answers, flush=True)


def main() -> None:
    """Measure each figure once, or on command."""
    parser = argparse.ArgumentParser(description="measure the figures of one benchmark")
    parser.add_argument("benchmark", help="such as curator")
    parser.add_argument("--only", nargs="*", default=[], help="parts of the names of figures")
    parser.add_argument("--steps", action="store_true", help="read commands, as for compare.py")
    asked = parser.parse_args()
    if not Path(confide.__file__).resolve().is_relative_to(ROOT):
        sys.exit(f"confide was imported from {confide.__file__}; set PYTHONPATH={ROOT / 'src'}")
    figures = find_figures(asked.benchmark, asked.only)
    if asked.steps:
        follow_steps(figures)
    else:
        print(json.dumps({name: measure() for name, measure in figures}, indent=1))


if __name__ == "__main__":
    main()
