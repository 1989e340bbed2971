"""The reusable holdout: speed as ratios, the published experiment, and tests of plans.

Speed is measured twice: as the fastest of many runs, which other programs do not disturb, and as
the total next to a busy process on each core, as on a server. A sum that waits for all cores takes
many times as long there.

Name parts to run only those: `bench/holdout.py speed experiment plans`.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

# The simulated analysts are in the tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from confide.examples import run_experiment
from confide.holdout import USED_OPTIONS, Holdout, plan
from support.analysts import boost_votes, poison_training, save_the_last, sign_votes

MAX_COLUMN = 1.3
MAX_MATRIX = 2.0
MAX_BUSY = 2.5
BUSY_SECONDS = 120
TERMS: dict[str, Any] = {"tau": 0.15, "queries": 60, "overfits": 4}
BETA = 0.05
SESSIONS = 500
WAYS = ("coding", "guess-and-check", "thresholdout", "gaussian", "rounding", "ladder", "splitting")


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds that a function takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def ratio(work: Callable[[], object], bare: Callable[[], object], times: int) -> float:
    """Return the ratio of the fastest runs, taken in turns, which other programs do not disturb."""
    both = [(seconds(work), seconds(bare)) for _ in range(times)]
    return min(one for one, _ in both) / min(other for _, other in both)


@contextmanager
def busy_cores() -> Iterator[None]:
    """Keep one process busy for each core, for two minutes at most."""
    text = f"import time\nend = time.time() + {BUSY_SECONDS}\nwhile time.time() < end: pass"
    count = len(os.sched_getaffinity(0))
    busy = [subprocess.Popen([sys.executable, "-c", text]) for _ in range(count)]
    try:
        time.sleep(0.5)
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def median_seconds(work: Callable[[], object], times: int) -> float:
    """Return the median seconds of a function."""
    return float(np.median([seconds(work) for _ in range(times)]))


def busy_ratio(work: Callable[[], object], bare: Callable[[], object], times: int) -> float:
    """Return the ratio of total times, taken in turns, next to a busy process on each core.

    Interruptions by the scheduler then count in proportion to the processor time of each side.
    """
    with busy_cores():
        both = [(seconds(work), seconds(bare)) for _ in range(times)]
    return sum(one for one, _ in both) / sum(other for _, other in both)


def measure_busy() -> list[str]:
    """Print ratios next to busy processes; return those that are missed."""
    rng, n, wide, missed = np.random.default_rng(), 10**6, 10**3, []
    train, held = rng.random(n), rng.random(n)
    column = Holdout(n, n, tau=0.1, queries=10**6, overfits=10)
    first, second = train.reshape(wide, wide), held.reshape(wide, wide)
    matrix = Holdout(wide, wide, tau=0.1, queries=10**9, overfits=10)
    works: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "one query on 10^6 rows of floats": (
            lambda: column.ask(train, held),
            lambda: (train.mean(), held.mean()),
        ),
        "1,000 queries on 1,000 rows, as a matrix": (
            lambda: matrix.ask_many(first, second),
            lambda: (first.mean(axis=0), second.mean(axis=0)),
        ),
    }
    print("next to a busy process on each core:")
    for name, (work, bare) in works.items():
        found = busy_ratio(work, bare, 301)
        print(f"  {name} / NumPy means: {found:.2f} (at most {MAX_BUSY})")
        missed += [f"{name}, busy"] if found > MAX_BUSY else []
    return missed


def figures() -> Iterator[tuple[str, Callable[[], float]]]:
    """Yield the figures for `compare.py`: the seconds of queries, also next to busy processes."""
    rng, n = np.random.default_rng(), 10**6
    train, held = rng.random(n), rng.random(n)
    holdout = Holdout(n, n, tau=0.1, queries=10**6, overfits=10)
    many = Holdout(10**4, 10**4, tau=0.1, queries=10**9, overfits=10)
    one, other = rng.random((10**4, 10**3)), rng.random((10**4, 10**3))
    first, second = train < 0.5, held < 0.5
    queries: dict[str, tuple[Callable[[], object], int]] = {
        "a query on 10^6 floats": (lambda: holdout.ask(train, held), 301),
        "a query on 10^6 bools": (lambda: holdout.ask(first, second), 301),
        "1,000 queries on 10^4 rows": (lambda: many.ask_many(one, other), 21),
    }
    for name, (ask, times) in queries.items():
        yield name, partial(median_seconds, ask, times)
    with busy_cores():
        for name, (ask, times) in queries.items():
            yield f"{name}, busy cores", partial(median_seconds, ask, times)


def measure_speed() -> list[str]:
    """Print ratios to the bare means and matrix products; return those that are missed."""
    rng, n, missed = np.random.default_rng(), 10**6, []
    train, held = rng.random(n), rng.random(n)
    holdout = Holdout(n, n, tau=0.1, queries=10**6, overfits=10)
    found = ratio(lambda: holdout.ask(train, held), lambda: (train.mean(), held.mean()), 301)
    print(f"one query on 10^6 rows of floats / two NumPy means: {found:.2f} (at most {MAX_COLUMN})")
    missed += ["column"] if found > MAX_COLUMN else []
    first, second = train < 0.5, held < 0.5
    found = ratio(lambda: holdout.ask(first, second), lambda: (first.mean(), second.mean()), 101)
    print(f"one query on 10^6 rows of bools / two NumPy means: {found:.2f}")
    rows, wide, ones = 10**4, 10**3, np.ones(10**4)
    one, other = rng.random((rows, wide)), rng.random((rows, wide))
    many = Holdout(rows, rows, tau=0.1, queries=10**9, overfits=10)
    blocks = 100
    found = ratio(lambda: many.ask_many(one, other), lambda: (ones @ one, ones @ other), blocks)
    print(
        f"{blocks * wide:,} queries on 10^4 rows, as matrices / their bare products: {found:.2f} "
        f"(at most {MAX_MATRIX})"
    )
    missed += ["matrix"] if found > MAX_MATRIX else []
    return missed + measure_busy()


def measure_experiment() -> list[str]:
    """Print the published experiment at full size; return the results outside of their range."""
    begin = time.perf_counter()
    result = run_experiment(runs=50)
    took = time.perf_counter() - begin
    missed = ["experiment takes more than a minute"] if took > 60 else []
    print(f"experiment, n = d = 10,000, 50 runs of two variants and three methods: {took:.1f} s")
    for curve in result.curves:
        shown = [
            f"k = {k}: {curve.holdout[:, i].mean():.3f} ({curve.fresh[:, i].mean():.3f} fresh)"
            for i, k in enumerate(curve.picks)
            if k in (20, 70, 500)
        ]
        signal = "signal" if curve.has_signal else "no signal"
        print(f"  {curve.method}, {signal}: {'; '.join(shown)}; covered {curve.covered():.2f}")
    quiet = result.curve("Thresholdout, as published", has_signal=False)
    late = [i for i, k in enumerate(quiet.picks) if k >= 70]
    gaps = np.abs((quiet.holdout - quiet.fresh).mean(axis=0))[late]
    print(f"  Thresholdout, no signal: largest mean gap to fresh for k >= 70: {gaps.max():.4f}")
    missed += ["gap above 0.02"] if gaps.max() > 0.02 else []
    return missed


def measure_plans() -> list[str]:
    """Print how many of 500 sessions fail with the number of rows that the plan requires."""
    missed, rng = [], np.random.default_rng()
    analysts = (sign_votes, poison_training, boost_votes, save_the_last)
    for way in WAYS:
        more: dict[str, Any] = {"epsilon": 2} if way == "thresholdout" else {}
        bounds = plan(**TERMS, **more).bounds
        n = next(bound.n for bound in bounds if bound.method == way)
        used = {key: value for key, value in (TERMS | more).items() if key in USED_OPTIONS[way]}
        failures = 0
        for place in range(SESSIONS):
            holdout = Holdout(n, n, method=way, beta=BETA, **used)
            report = analysts[place % 4](holdout, rng, n, TERMS["queries"] - 1)
            is_far = way != "ladder" and report.worst > TERMS["tau"]
            failures += is_far or not report.is_covered
        print(f"  {way}: n = {n:,}, {failures} of {SESSIONS} sessions failed (at most {BETA:.0%})")
        missed += [way] if failures > BETA * SESSIONS else []
    return missed


PARTS: dict[str, Callable[[], list[str]]] = {
    "speed": measure_speed,
    "experiment": measure_experiment,
    "plans": measure_plans,
}

if __name__ == "__main__":
    asked = sys.argv[1:] or list(PARTS)
    misses = [miss for name in asked for miss in PARTS[name]()]
    if misses:
        sys.exit(f"missed: {', '.join(misses)}")
