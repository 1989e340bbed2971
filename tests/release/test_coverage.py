"""95% intervals cover the noise-free answer in 95% of releases.

Each case is 10,000 releases of one group's exact totals through `add_noise` and `Answer`. If the
noise is fine, correct intervals cover in 94% to 96% of releases, except for one run in 200,000
(4.58 standard deviations of a binomial distribution). Noise of a few coarse steps skips over 95%,
so there only undercoverage is an error.

If only the interval is tested, 40,000 releases are drawn at once: coverage from 94.7% to 95.3%
falls outside 94% to 96% in less than one run in 10^9. At the edge of the possible values, coverage
may be higher, but never lower: ``ALPHA`` is the probability that intervals with 94% coverage fail.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import cycle
from typing import Final

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats

from confide.aggregates.needs import CountRows, Need, SumProducts
from confide.curator import Curator
from confide.declare import Budget, Float, Int, Table
from confide.engines import Sealed
from confide.engines.protocol import Pair
from confide.errors import UnsupportedQuery
from confide.expressions.tree import Expression, Value
from confide.ledger import Receipt
from confide.loss import Share
from confide.noise import Entropy
from confide.plan import AsinhCells, DeclaredKeys, Plan, Total
from confide.query.sql import read_sql
from confide.release import Answer, Cost, NoisyMeasurement, add_noise
from confide.release.estimates import Floats, estimate, interval
from confide.release.noise_sample import noise_sample
from confide.release.program.interval_arithmetic import find_core, map_ends
from confide.release.program.run import evaluate
from confide.release.quantiles import Chosen
from support.entropy import SeededEntropy

RELEASES: Final = 10_000
AT_ONCE: Final = 5_000
LOW: Final = 0.94
HIGH: Final = 0.96
TABLE: Final = Table(
    "visits",
    pa.table({"pid": [1], "k": [1], "x": [1.0]}),
    unit="pid",
    columns={"k": Int(0, 19), "x": Float(0, 100)},
    max_rows_per_unit=2,
)
BUDGETS: Final = {"pure": Budget(100), "gaussian": Budget(100, 1e-6)}
STATISTICS: Final = {
    "count": "COUNT(*)",
    "sum": "SUM(x)",
    "avg": "AVG(x)",
    "variance": "VAR_SAMP(x)",
    "stddev": "STDDEV(x)",
    "median": "MEDIAN(x)",
}
SAMPLES: Final = 1_000
TOGETHER: Final = 50
"""The number of samples whose medians are released together."""

Groups = tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One released statistic: the number of rows, the cost, and whether there are groups."""

    statistic: str
    accounting: str
    epsilon: str
    rows: int
    grouped: bool

    def __str__(self) -> str:
        groups = "grouped" if self.grouped else "ungrouped"
        return f"{self.statistic}-{self.accounting}-{self.epsilon}-{self.rows}-{groups}"

    def plan(self) -> Plan:
        curator = Curator([TABLE], budget=BUDGETS[self.accounting])
        asked = f"{STATISTICS[self.statistic]} AS s FROM visits"
        text = f"SELECT k, {asked} GROUP BY k" if self.grouped else f"SELECT {asked}"
        query = read_sql(text, curator.names)
        return curator._planner.plan(query, Share.floor(Fraction(self.epsilon) / 100))


def add_up(total: Total, values: NDArray[np.float64]) -> int:
    """Return the exact total of a group with these values."""
    if total.grid is None:
        return len(values)
    # The only other argument in these queries is the squared distance from the center, 50.
    is_square = total.grid.step != Fraction(128, 2**40)
    wanted = (values - 50.0) ** 2 if is_square else values
    steps = (wanted - float(total.grid.center)) / float(total.grid.step)
    return int(np.rint(steps).clip(total.grid.low, total.grid.high).sum())


def make_names(plan: Plan, count: int) -> Groups:
    """Return ``count`` groups of the plan, each equally often."""
    groups = plan.keys.groups  # type: ignore[union-attr]  # declared
    return tuple(groups[place % len(groups)] for place in range(count))


def widen(plan: Plan, count: int) -> tuple[Plan, Groups]:
    """Return a plan that releases ``count`` groups with the noise of the given one, and its groups.

    Each group draws its noise independently, so one release of many groups has the distribution of
    many releases of one group, and takes a small fraction of the time.
    """
    groups = tuple((place,) for place in range(count))
    return replace(plan, keys=DeclaredKeys(groups)), groups


def release(plan: Plan, exact: tuple[int, ...], entropy: Entropy) -> Iterator[Answer]:
    """Yield answers with 10,000 releases of the same totals, several in each answer."""
    wide, groups = widen(plan, RELEASES)
    noisy = add_noise(Sealed(dict.fromkeys(groups, exact)), wide, entropy)
    names = make_names(plan, AT_ONCE)
    for start in range(0, RELEASES, AT_ONCE):
        totals = NoisyMeasurement(names, noisy.steps[start : start + AT_ONCE])
        yield Answer(plan, totals, Cost(Fraction(0), 0.0), Receipt(0, Share(0), ""), reused=False)


def cover(case: Case, entropy: SeededEntropy, confidence: float = 0.95) -> float:
    """Return the coverage of the noise-free statistic by the interval."""
    plan = case.plan()
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    values = 100.0 * rng.beta(2.0, 5.0, case.rows)
    exact = tuple(add_up(total, values) for total in plan.totals)
    truth = float(estimate(plan.statistics[0], plan, np.array(exact, dtype=np.float64)))
    held = 0
    for answer in release(plan, exact, entropy):
        ends = answer.interval_rows(confidence)
        held += sum(end["s_low"] <= truth <= end["s_high"] for end in ends)
    return held / RELEASES


def draw_cases() -> Iterator[Case]:
    """Yield statistics, accountings, and costs in all pairs."""
    for statistic in ("count", "sum", "avg"):
        for accounting in BUDGETS:
            yield Case(statistic, accounting, "0.05", 200, grouped=True)
            yield Case(statistic, accounting, "1", 2_000, grouped=False)
            yield Case(statistic, accounting, "20", 20, grouped=True)
    yield Case("variance", "pure", "0.05", 20_000, grouped=False)
    yield Case("stddev", "gaussian", "1", 2_000, grouped=True)
    yield Case("variance", "pure", "1", 20, grouped=False)


@pytest.mark.statistical
@pytest.mark.parametrize("case", list(draw_cases()), ids=str)
def test_intervals_have_the_stated_coverage(case: Case, entropy: SeededEntropy) -> None:
    """Of 10,000 releases, 94% to 96% of 95% intervals cover the noise-free answer.

    Higher coverage is correct for counts of few noise steps, and for means and variances with noise
    as large as the count: those intervals are conservative, so that none is a point at the range's
    end.
    """
    held = cover(case, entropy)
    is_fine = case.statistic != "count" or (case.accounting, case.epsilon) == ("pure", "0.05")
    is_fine = is_fine and (case.statistic, case.rows) != ("variance", 20)
    is_fine = is_fine and (case.statistic, case.accounting, case.rows) != ("avg", "pure", 200)

    assert held >= LOW
    assert held <= HIGH or not is_fine


@pytest.mark.statistical
@pytest.mark.parametrize("accounting", BUDGETS)
def test_wrong_levels_are_detected(accounting: str, entropy: SeededEntropy) -> None:
    """The same releases reject intervals of 92% and 98% that are presented as 95% intervals."""
    case = Case("sum", accounting, "1", 2_000, grouped=False)

    assert cover(case, entropy, 0.92) < LOW
    assert cover(case, entropy, 0.98) > HIGH


def count_cells(cells: AsinhCells, values: NDArray[np.float64]) -> Pair:
    """Return the number of values in each cell."""
    curve = np.arcsinh(cells.rate * values) - cells.offset
    places = cells.line * (values - cells.low) + cells.bend * curve
    found, rows = np.unique(np.floor(places).astype(np.int64), return_counts=True)
    return found, rows


def cover_median(case: Case, entropy: SeededEntropy) -> float:
    """Return the coverage of the exact median by the interval, over 1,000 samples of rows.

    The gaps between rows depend on the sample, so each sample is released only ten times.
    """
    plan = case.plan()
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    cells = plan.histograms[0].cells
    assert isinstance(cells, AsinhCells)
    chosen: list[tuple[Chosen, ...]] = []
    truths: list[float] = []
    for _ in range(SAMPLES // TOGETHER):
        samples = 100.0 * rng.beta(2.0, 5.0, (TOGETHER, case.rows))
        wide, groups = widen(plan, TOGETHER * RELEASES // SAMPLES)
        counts = cycle([count_cells(cells, values) for values in samples])
        chosen += add_noise(
            Sealed({}, (dict(zip(groups, counts, strict=False)),)), wide, entropy
        ).cells
        truths += np.median(samples, axis=1).tolist() * (RELEASES // SAMPLES)
    totals = NoisyMeasurement(make_names(plan, RELEASES), ((),) * RELEASES, tuple(chosen))
    cost, receipt = Cost(Fraction(0), 0.0), Receipt(0, Share(0), "")
    ends = Answer(plan, totals, cost, receipt, reused=False).interval_rows()
    held = [end["s_low"] <= truth <= end["s_high"] for end, truth in zip(ends, truths, strict=True)]
    return float(np.mean(held))


MEDIANS: Final = (
    Case("median", "pure", "2", 1_000, grouped=False),
    Case("median", "gaussian", "0.25", 1_500, grouped=True),
    Case("median", "pure", "2", 1_000, grouped=True),
    Case("median", "gaussian", "0.25", 1_500, grouped=False),
)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("case", MEDIANS, ids=str)
def test_intervals_of_medians_have_the_stated_coverage(case: Case, entropy: SeededEntropy) -> None:
    """Of 10,000 releases, 94% to 96% of 95% intervals cover the noise-free median."""
    held = cover_median(case, entropy)

    assert LOW <= held <= HIGH


DRAWN: Final = 40_000
ALPHA: Final = 1e-9
MIN_COVERED: Final = int(stats.binom.ppf(ALPHA, DRAWN, LOW))
BITS: Final = Table(
    "bits", pa.table({"pid": [1], "i": [1]}), unit="pid", columns={"i": Int(0, 1)}, unique=True
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """One statistic released many times: its exact value, estimates, and intervals."""

    plan: Plan
    totals: Floats
    truth: float
    estimates: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, plan: Plan, exact: tuple[int, ...], entropy: Entropy) -> "Drawn":
        """Draw the noise of all releases at once and compute their 95% intervals."""
        statistic = plan.statistics[0]
        sizes = np.array([float(size) for size in plan.noise.steps])
        steps = np.rint(np.array(exact) / sizes)
        totals = (steps + plan.noise.law.draw(DRAWN, entropy)) * sizes
        low, high = interval(statistic, plan, totals, noise_sample(plan), 0.95)
        truth = float(estimate(statistic, plan, np.array(exact, dtype=np.float64)))
        return cls(plan, totals, truth, estimate(statistic, plan, totals), low, high)

    def count_covered(self) -> int:
        return int(((self.low <= self.truth) & (self.truth <= self.high)).sum())


def draw_ordinary() -> Iterator[Case]:
    """Yield each statistic in each accounting, with and without groups, on ordinary data."""
    for statistic in ("count", "sum", "avg", "variance", "stddev"):
        for accounting in BUDGETS:
            for grouped in (False, True):
                yield Case(statistic, accounting, "0.1", 40_000, grouped)


@pytest.mark.statistical
@pytest.mark.parametrize("case", list(draw_ordinary()), ids=str)
def test_intervals_of_ordinary_data_have_the_stated_coverage(
    case: Case, entropy: SeededEntropy
) -> None:
    """Of 40,000 releases of many rows, 94% to 96% of intervals cover; each contains its value."""
    plan = case.plan()
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    values = 100.0 * rng.beta(2.0, 5.0, case.rows)
    drawn = Drawn.of(plan, tuple(add_up(total, values) for total in plan.totals), entropy)

    assert LOW * DRAWN <= drawn.count_covered() <= HIGH * DRAWN
    assert ((drawn.low <= drawn.estimates) & (drawn.estimates <= drawn.high)).all()


def plan_bits(statistic: str, accounting: str, epsilon: str = "1") -> Plan:
    """Return the plan of a statistic of a column of zeros and ones."""
    curator = Curator([BITS], budget=BUDGETS[accounting])
    query = read_sql(f"SELECT {statistic} AS s FROM bits", curator.names)
    return curator._planner.plan(query, Share.floor(Fraction(epsilon) / 100))


def place_of(plan: Plan, kind: type[Need]) -> int | None:
    """Return the index of the total for a need of the only statistic, if it has one."""
    (statistic,) = plan.statistics
    places = (place for need, place in statistic.parts if isinstance(need, kind))
    return next(places, None)


def add_bits(plan: Plan, rows: int, ones: int) -> tuple[int, ...]:
    """Return the exact totals of zeros and ones, all at a distance of 1/2 from their center."""
    exact = []
    for place, total in enumerate(plan.totals):
        if total.grid is None:
            exact.append(rows)
        elif place == place_of(plan, SumProducts):
            exact.append(rows * round((Fraction(1, 4) - total.grid.center) / total.grid.step))
        else:
            exact.append(ones * total.grid.high + (rows - ones) * total.grid.low)
    return tuple(exact)


@pytest.mark.statistical
@pytest.mark.parametrize("rows", [2, 10, 100, 10_000])
@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize("statistic", ["VAR_SAMP(i)", "STDDEV(i)"])
def test_intervals_cover_the_largest_variance(
    statistic: str, accounting: str, rows: int, entropy: SeededEntropy
) -> None:
    """With as many zeros as ones, coverage is at least 94%, and no interval is a point.

    Clipped at the largest variance for the noisy count, as in an earlier version, 57% to 61% cover;
    the same draws reject those.
    """
    plan = plan_bits(statistic, accounting)
    drawn = Drawn.of(plan, add_bits(plan, rows, rows // 2), entropy)
    seen = np.maximum(drawn.totals[:, place_of(plan, CountRows) or 0], 2.0)
    largest = 0.25 * seen / (seen - 1.0)
    once = np.minimum(drawn.high, np.sqrt(largest) if "STDDEV" in statistic else largest)

    assert drawn.count_covered() >= MIN_COVERED
    assert ((drawn.low <= drawn.estimates) & (drawn.estimates <= drawn.high)).all()
    assert (drawn.low < drawn.high).all()
    assert int((drawn.truth <= once).sum()) < MIN_COVERED


@pytest.mark.statistical
@pytest.mark.parametrize("rows", [1, 3, 30, 1_000])
@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize("statistic", ["AVG(i)", "VAR_SAMP(i)", "STDDEV(i)"])
def test_intervals_at_the_edge_of_the_range_are_not_points(
    statistic: str, accounting: str, rows: int, entropy: SeededEntropy
) -> None:
    """With zeros only, coverage is at least 94%, and no interval is a point even out of range.

    About 3% were points at the edge before totals were moved to the nearest possible ones.
    """
    plan = plan_bits(statistic, accounting)
    drawn = Drawn.of(plan, add_bits(plan, rows, 0), entropy)

    assert drawn.count_covered() >= MIN_COVERED
    assert ((drawn.low <= drawn.estimates) & (drawn.estimates <= drawn.high)).all()
    assert (drawn.low < drawn.high).all()


MAPPED: Final = {
    "AVG(i) * 100": ("0.3", 20),
    "ROUND(AVG(i), 1)": ("0.3", 20),
    "1 - LN(1 + AVG(i))": ("0.3", 20),
    "FLOOR(AVG(i) * 10)": ("1", 1_000),
    "LEAST(SQRT(VAR_SAMP(i)), 0.45) / -3": ("1", 200),
    "COALESCE(AVG(i), 0)": ("0.3", 20),
    "ABS(AVG(i))": ("0.3", 20),
    "NULLIF(ROUND(AVG(i), 1), 2)": ("0.3", 20),
    "COALESCE(VAR_SAMP(i), 0)": ("0.3", 20),
}


@pytest.mark.statistical
@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize("text", MAPPED)
def test_intervals_of_monotone_functions_have_the_coverage_of_their_argument(
    text: str, accounting: str, entropy: SeededEntropy
) -> None:
    """A monotone function of one statistic has the coverage of that statistic, at least 94%.

    If the effect of the noise on the estimate is mirrored, coverage is 61% to 85% for the first
    four, and 57% to 79% for the last.
    """
    epsilon, rows = MAPPED[text]
    plan = plan_bits(text, accounting, epsilon)
    drawn = Drawn.of(plan, add_bits(plan, rows, rows * 3 // 10), entropy)
    expression = plan.query.outputs[0].expression
    core = find_core(expression)
    assert core == plan.statistics[0].aggregate

    def compute(values: Floats) -> Floats:
        def column(_: Expression) -> Floats:
            return values

        return evaluate(expression, column, len(values)).astype(np.float64)

    low, high = map_ends(expression, lambda _: drawn.low, DRAWN, {core: (drawn.low, drawn.high)})
    truth, own = compute(np.array([drawn.truth]))[0], compute(drawn.estimates)
    held = int(((low <= truth) & (truth <= high)).sum())

    assert held >= max(drawn.count_covered(), MIN_COVERED)
    assert ((low <= own) & (own <= high)).all()


def test_half_widths_fit_the_law_up_to_the_highest_level() -> None:
    """Half-widths of counts up to level 0.999 fit the Laplace law; higher levels are refused."""
    curator = Curator([BITS], budget=BUDGETS["pure"])
    asked = "SELECT COUNT(*) AS n FROM bits"
    for level in (0.5, 0.95, 0.999):
        found = curator.preview(asked, epsilon="0.01", confidence=level).errors["n"]

        assert found == pytest.approx(-np.log(1.0 - level) / 0.01, rel=0.01)
    answer = curator.sql(asked, epsilon="0.01")
    for ask in (
        lambda: curator.preview(asked, epsilon="0.01", confidence=0.9999),
        lambda: curator.preview(asked, error=1_000, confidence=0.9999),
        lambda: answer.interval_rows(0.9999),
    ):
        with pytest.raises(UnsupportedQuery, match=r"must be at most 0\.999"):
            ask()
