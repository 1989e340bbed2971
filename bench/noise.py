"""Speed of exact noise, and how much its timing reveals about its magnitude.

The targets hold within one run: 10^6 draws at scale 1000 take at most 4 times as long as NumPy's
unsafe `Generator.laplace` and 6 times as long as its `.normal`; a draw of an array costs at least
100 times less than opendp's; a single draw takes less than 20 microseconds; and the rank
correlation between |value| and time is at most 0.02 plus three standard errors, for single draws
and for blocks of 4096. Naive samplers are measured too and must exceed that bound, which shows that
the measurement has power.

The target is a bound rather than a test of independence: the sampler runs the same instructions
for every value (`tests/attacks/test_numbers.py` checks this), but some processors take a few
nanoseconds longer over some operands, and enough draws reveal any such dependence. A correlation
of 0.02 means that the time explains 0.04% of the variance of the rank of |value|, about 0.0003 bits
per draw, and each draw is timed once. Three standard errors (0.007 for 200,000 single draws, 0.021
for 20,000 blocks) keep a sampler within the bound from failing in more than one of 700 rows.

Samplers take turns, and a ratio is the median of the ratios of all rounds, since other work on the
machine slows both sides alike. The time of a single draw, whose target is in seconds, is the
smallest median of a round.
"""

import json
import math
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.console import Console
from rich.table import Table
from scipy import ndimage, special, stats

from confide.noise import SYSTEM, DiscreteLaplace, Integer, RoundedGaussian

SCALE: Final = 1000
COUNT: Final = 1_000_000
ROUNDS: Final = 9
ORACLE_ROUNDS: Final = 3
SINGLES: Final = 200_000
BLOCK: Final = 4096
BLOCKS: Final = 20_000
NAIVE_CHANCE: Final = 0.9
NEIGHBOURS: Final = 21
MAX_CORRELATION: Final = 0.02
ERRORS: Final = 3

LAPLACE: Final = DiscreteLaplace(Fraction(SCALE))
GAUSSIAN: Final = RoundedGaussian(Fraction(SCALE**2))
UNSAFE: Final = np.random.default_rng()

ORACLE: Final = """
import json, statistics, sys, time
import opendp.prelude as dp
dp.enable_features("contrib")

def seconds(run, times):
    found = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return statistics.median(found)

size, scale = 20_000, float(sys.argv[1])
one, zeros = dp.atom_domain(T=int), [0] * size
many = dp.vector_domain(one)
laplace = dp.m.make_laplace(many, dp.l1_distance(T=int), scale=scale)
gaussian = dp.m.make_gaussian(many, dp.l2_distance(T=float), scale=scale)
single_laplace = dp.m.make_laplace(one, dp.absolute_distance(T=int), scale=scale)
single_gaussian = dp.m.make_gaussian(one, dp.absolute_distance(T=float), scale=scale)
print(json.dumps({
    "laplace": seconds(lambda: laplace(zeros), 3) / size,
    "gaussian": seconds(lambda: gaussian(zeros), 3) / size,
    "one laplace": seconds(lambda: single_laplace(0), 500),
    "one gaussian": seconds(lambda: single_gaussian(0), 500),
}))
"""

Times = dict[str, list[float]]
console = Console()
missed: list[str] = []


def check_target(what: str, *, kept: bool) -> str:
    """Return the label of a target that was met or missed, and record a miss."""
    if not kept:
        missed.append(what)
    return "yes" if kept else "[bold]NO[/bold]"


def seconds(run: Callable[[], object]) -> float:
    """Return the seconds that a function takes."""
    start = perf_counter()
    run()
    return perf_counter() - start


def ask_opendp() -> dict[str, float]:
    """Return the oracle's seconds per draw, measured in its own process."""
    home = Path(__file__).parents[1] / ".venv-oracle" / "bin" / "python"
    interpreter = os.environ.get("CONFIDE_ORACLE_PYTHON", str(home))
    if not Path(interpreter).exists():
        sys.exit(f"no oracles at {interpreter}; run `make oracle`")
    done = subprocess.run(
        [interpreter, "-c", ORACLE, str(SCALE)], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def time_singles(draw_one: Callable[[], Integer], count: int) -> tuple[list[int], list[int]]:
    """Return single draws and the nanoseconds that each took."""
    values, times = [], []
    for _ in range(count):
        start = perf_counter_ns()
        value = draw_one()
        times.append(perf_counter_ns() - start)
        values.append(int(value))
    return values, times


def measure_speed() -> Times:
    """Time all samplers in turns; return seconds per draw, one entry per round."""
    samplers: dict[str, Callable[[], object]] = {
        "laplace": lambda: LAPLACE.draw(COUNT, SYSTEM),
        "numpy laplace": lambda: UNSAFE.laplace(0, SCALE, COUNT),
        "gaussian": lambda: GAUSSIAN.draw(COUNT, SYSTEM),
        "numpy gaussian": lambda: UNSAFE.normal(0, SCALE, COUNT),
    }
    times: Times = {}
    oracle: dict[str, float] = {}
    for round_ in range(ROUNDS):
        for name, run in samplers.items():
            times.setdefault(name, []).append(seconds(run) / COUNT)
        for name, law in (("one laplace", LAPLACE), ("one gaussian", GAUSSIAN)):
            _, found = time_singles(partial(law.draw_one, SYSTEM), 2_000)
            times.setdefault(name, []).append(statistics.median(found) * 1e-9)
        if round_ % (ROUNDS // ORACLE_ROUNDS) == 0:
            oracle = ask_opendp()
        for name, found_there in oracle.items():
            times.setdefault(f"opendp {name}", []).append(found_there)
    return times


def ratio(times: Times, one: str, other: str) -> float:
    """Return the median over all rounds of the time of ``one`` relative to ``other``."""
    return statistics.median(a / b for a, b in zip(times[one], times[other], strict=True))


def show_speed(times: Times) -> None:
    """Print the time of a draw, and the target ratios."""
    table = Table("draws at scale 1000", "ns", "against", "ns", "ratio", "promise", "kept")
    for name, bound in (("laplace", 4), ("gaussian", 6)):
        found = ratio(times, name, f"numpy {name}")
        kept = check_target(f"{name} against NumPy", kept=found <= bound)
        add_row(table, times, name, f"numpy {name}", f"{found:.2f}", f"at most {bound}", kept)
    for name in ("laplace", "gaussian"):
        found = ratio(times, f"opendp {name}", name)
        kept = check_target(f"{name} against opendp", kept=found >= 100)
        add_row(table, times, name, f"opendp {name}", f"1 / {found:.0f}", "at most 1 / 100", kept)
    for name in ("one laplace", "one gaussian"):
        found = ratio(times, f"opendp {name}", name)
        kept = check_target(f"{name} under 20 us", kept=min(times[name]) < 20e-6)
        add_row(table, times, name, f"opendp {name}", f"1 / {found:.1f}", "20,000 ns", kept)
    console.print(table)


def add_row(table: Table, times: Times, one: str, other: str, *rest: str) -> None:
    """Add the nanoseconds of two samplers and the cells that follow."""
    shown = (f"{statistics.median(times[name]) * 1e9:,.1f}" for name in (one, other))
    table.add_row(one, next(shown), other, next(shown), *rest)


def draw_naively() -> int:
    """Return the number of heads before the first tail, in time proportional to that number."""
    count = 0
    while random.random() < NAIVE_CHANCE:
        count += 1
    return count


def draw_block_by_ndtri() -> NDArray[np.int64]:
    """Return a block by SciPy's normal quantile, whose branches are faster in the center."""
    normal: NDArray[np.float64] = special.ndtri(UNSAFE.random(BLOCK))
    return np.rint(SCALE * normal).astype(np.int64)


def time_blocks(draw: Callable[[], NDArray[np.int64]]) -> tuple[list[float], list[float]]:
    """Return the mean |value| of each block and the time it took."""
    means, times = [], []
    for _ in range(BLOCKS):
        start = perf_counter()
        block = draw()
        times.append(perf_counter() - start)
        means.append(float(np.abs(block).mean()))
    return means, times


def correlate(sizes: ArrayLike, times: ArrayLike) -> tuple[float, float]:
    """Return the rank correlation of magnitude and time, and its standard error under independence.

    Each time is divided by the median of the times around it, because the speed of a machine
    varies. Magnitudes are independent of one another, so the standard error is correct anyway.
    """
    spent = np.asarray(times, dtype=np.float64)
    found = stats.spearmanr(np.abs(sizes), spent / ndimage.median_filter(spent, NEIGHBOURS))
    return float(found.statistic), 1 / math.sqrt(len(spent) - 1)


def measure_correlations() -> Iterator[tuple[str, float, float, bool]]:
    """Yield each sampler's correlation, its standard error, and whether the sampler is ours."""
    singles: dict[str, Callable[[], Integer]] = {
        "one laplace": lambda: LAPLACE.draw_one(SYSTEM),
        "one gaussian": lambda: GAUSSIAN.draw_one(SYSTEM),
        "one by naive loop": draw_naively,
    }
    blocks: dict[str, Callable[[], NDArray[np.int64]]] = {
        "block of laplace": lambda: LAPLACE.draw(BLOCK, SYSTEM),
        "block of gaussian": lambda: GAUSSIAN.draw(BLOCK, SYSTEM),
        "block by naive ndtri": draw_block_by_ndtri,
    }
    for name, draw_one in singles.items():
        values, times = time_singles(draw_one, SINGLES)
        yield name, *correlate(values, times), "naive" not in name
    for name, draw in blocks.items():
        means, spent = time_blocks(draw)
        yield name, *correlate(means, spent), "naive" not in name


def show_correlations(correlations: list[tuple[str, float, float, bool]]) -> None:
    """Print how much the time reveals about the magnitude."""
    table = Table("|value| and time", "rank correlation ± s.e.", "promise", "kept")
    for name, correlation, error, ours in correlations:
        bound = MAX_CORRELATION + ERRORS * error
        kept = check_target(f"{name}: correlation", kept=(abs(correlation) <= bound) == ours)
        wanted = f"at most {bound:.3f}" if ours else f"more than {bound:.3f}"
        table.add_row(name, f"{correlation:+.4f} ± {error:.4f}", wanted, kept)
    console.print(table)


def figures() -> Iterator[tuple[str, Callable[[], float]]]:
    """Yield the figures for `compare.py`: the seconds of one draw, in arrays and alone."""
    for name, law in (("laplace", LAPLACE), ("gaussian", GAUSSIAN)):
        for count in (COUNT // 10, BLOCK):
            yield f"{name}: one of {count:,} draws", partial(time_draws, law, count)
        yield f"{name}: one draw alone", partial(time_alone, law)


def time_draws(law: DiscreteLaplace | RoundedGaussian, count: int) -> float:
    """Return the seconds of one draw of an array, in the fastest of several runs."""
    return (
        min(seconds(lambda: law.draw(count, SYSTEM)) for _ in range(max(10, COUNT // count)))
        / count
    )


def time_alone(law: DiscreteLaplace | RoundedGaussian) -> float:
    """Return the seconds of a single draw: the smallest median of several rounds."""
    rounds = (time_singles(partial(law.draw_one, SYSTEM), 1_000) for _ in range(10))
    return min(statistics.median(times) for _, times in rounds) * 1e-9


if __name__ == "__main__":
    with console.status("speed, samplers in turn"):
        measured = measure_speed()
    show_speed(measured)
    with console.status("correlation of size and time"):
        correlations = list(measure_correlations())
    show_correlations(correlations)
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")
