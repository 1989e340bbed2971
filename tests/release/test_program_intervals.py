"""95% intervals of arithmetic on several statistics have at least 95% coverage.

Each case is 1,000 releases of one group's exact totals. Intervals with 94% coverage fail in one run
of 10^9 (``ALPHA``), and those with 85% coverage pass in less than one of 1,000. The same draws must
reject the previous kind of interval, which mirrors the effect of the noise at the estimate.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from confide.curator import Curator
from confide.declare import Budget, Float, Table
from confide.engines import Sealed
from confide.loss import Share
from confide.plan import DeclaredKeys, Plan
from confide.query.sql import read_sql
from confide.release import NoisyMeasurement, add_noise
from confide.release.combine import CombinedMeasurement
from confide.release.estimates import Floats
from confide.release.noise_sample import noise_sample
from confide.release.program.interval_arithmetic import find_core
from confide.release.program.intervals import Intervals
from confide.release.program.run import Statistics, evaluate
from confide.release.unseal import unseal
from support.entropy import SeededEntropy

RELEASES: Final = 1_000
ALPHA: Final = 1e-9
MIN_COVERED: Final = int(stats.binom.ppf(ALPHA, RELEASES, 0.94))
BUDGETS: Final = {"pure": Budget(100), "gaussian": Budget(100, 1e-6)}
RANGES: Final = {"a": (0, 100), "same": (0, 100), "b": (0, 100), "c": (0, 1), "d": (-50, 50)}
COLUMNS: Final = {name: Float(low, high) for name, (low, high) in RANGES.items()}


class FreeHold:
    """A hold without a ledger entry: the released data are invented."""

    def use(self) -> None:
        """Allow the engine to read."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """An expression released many times: its exact value, the releases, and the intervals."""

    plan: Plan
    totals: NoisyMeasurement
    truth: float
    own: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, text: str, case: tuple[str, str, int], entropy: SeededEntropy) -> "Drawn":
        """Release arithmetic on the given number of rows under an accounting, at a cost."""
        accounting, epsilon, rows = case
        table = Table("t", draw_rows(rows, entropy), unit="pid", columns=COLUMNS, unique=True)
        curator = Curator([table], budget=BUDGETS[accounting])
        query = read_sql(f"SELECT {text} AS s FROM t", curator.names)
        plan = curator._planner.plan(query, Share.floor(Fraction(epsilon) / 100))
        sealed: Sealed = curator._engine.run(plan.measurement, FreeHold())  # type: ignore[arg-type]  # a fake
        exact = np.array([unseal(sealed).groups[()]], dtype=np.float64)
        many = replace(plan, keys=DeclaredKeys(((),) * RELEASES))
        totals = add_noise(sealed, many, entropy)
        low, high = Intervals(many, totals, 0.95).ends(query.outputs[0].expression)
        (truth,), own = compute(many, exact), compute(many, totals.values(many))
        return cls(many, totals, float(truth), own, low, high)

    def count_covered(self) -> int:
        return int(((self.low <= self.truth) & (self.truth <= self.high)).sum())

    def mirror(self) -> tuple[Floats, Floats]:
        """Return the interval ends of the previous method."""
        noise = noise_sample(self.plan)[::16]
        ends = []
        for row, own in zip(self.totals.values(self.plan), self.own, strict=True):
            moved = compute(self.plan, row + noise) - own
            known = moved[np.isfinite(moved)]
            far = np.quantile(known, [0.975, 0.025]) if len(known) else np.full(2, np.nan)
            ends.append(own - far)
        low, high = np.array(ends).T
        return low, high


def draw_rows(rows: int, entropy: SeededEntropy) -> pa.Table:
    """Return rows of people; 30% have c, and the mean of d is 0.2."""
    rng = np.random.default_rng(int(entropy.words(1)[0]))
    a, d = 100.0 * rng.beta(2.0, 5.0, rows), 20.0 * rng.beta(2.0, 5.0, rows)
    return pa.table(
        {
            "pid": np.arange(rows),
            "a": a,
            "same": a,
            "b": 100.0 * rng.beta(3.0, 3.0, rows),
            "c": (np.arange(rows) % 10 < 3).astype(np.float64),
            "d": d - d.mean() + 0.2,
        }
    )


def declare(*, nonnegative: bool) -> Table:
    """Return a table of one row, whose released counts may or may not be negative."""
    rows = pa.table({"pid": [1], **{name: [float(low)] for name, (low, _) in RANGES.items()}})
    return Table("t", rows, unit="pid", columns=COLUMNS, unique=True, nonnegative=nonnegative)


def compute(plan: Plan, totals: Floats) -> Floats:
    """Return the value of the first output for each row of totals."""
    columns = Statistics(plan, ((),) * len(totals), totals)
    with np.errstate(all="ignore"):
        return evaluate(plan.query.outputs[0].expression, columns, len(totals)).astype(np.float64)


SMALL: Final = {
    "STDDEV(a) / SQRT(COUNT(*))": ("pure", "1", 20),
    "STDDEV(a) / AVG(a)": ("gaussian", "1", 5),
    "AVG(a) / AVG(b)": ("pure", "0.1", 20),
    "AVG(a) FILTER (WHERE c = 1) - AVG(a) FILTER (WHERE c = 0)": ("pure", "1", 20),
    "LN(SUM(a) / SUM(b))": ("gaussian", "0.1", 5),
    "COUNT(*) FILTER (WHERE c = 1) / COUNT(*) FILTER (WHERE c = 0)": ("gaussian", "1", 5),
    "AVG(d) * AVG(d)": ("gaussian", "10", 100),
    "CASE WHEN COUNT(*) > 20 THEN AVG(a) ELSE AVG(b) END": ("gaussian", "1", 20),
    "CASE WHEN AVG(a) > AVG(b) THEN 1 ELSE 0 END": ("pure", "0.1", 20),
}


@pytest.mark.statistical
@pytest.mark.parametrize("text", SMALL)
def test_intervals_of_few_rows_cover(text: str, entropy: SeededEntropy) -> None:
    """If noise is as large as totals, at least 94% of intervals cover, and contain the release."""
    drawn = Drawn.of(text, SMALL[text], entropy)
    low, high = drawn.mirror()
    is_known = ~np.isnan(drawn.own)

    assert drawn.count_covered() >= MIN_COVERED
    assert ((drawn.low <= drawn.own) & (drawn.own <= drawn.high))[is_known].all()
    assert int(((low <= drawn.truth) & (drawn.truth <= high)).sum()) < MIN_COVERED


LARGE: Final = (
    *("SUM(a) / COUNT(*)", "SUM(a) / SUM(b)", "AVG(a) - AVG(b)", "STDDEV(a) / SQRT(COUNT(*))"),
    *("COUNT(*) FILTER (WHERE c = 1) / COUNT(*)", "LN(SUM(a) / SUM(b))", "SUM(a) * AVG(b)"),
)


@pytest.mark.statistical
@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize("text", LARGE)
def test_intervals_of_many_rows_cover_and_are_no_wider(
    text: str, accounting: str, entropy: SeededEntropy
) -> None:
    """If noise is small compared with totals, at least 94% cover, at most 10% wider than before."""
    drawn = Drawn.of(text, (accounting, "1", 3_000), entropy)
    low, high = drawn.mirror()

    assert drawn.count_covered() >= MIN_COVERED
    assert np.median(drawn.high - drawn.low) <= 1.1 * np.median(high - low)


@pytest.mark.statistical
@pytest.mark.parametrize("accounting", BUDGETS)
def test_intervals_of_ratios_of_few_rows_cover_and_are_no_wider(
    accounting: str, entropy: SeededEntropy
) -> None:
    """With noise of 20% of the count, at least 94% cover, and separate ends are farther out."""
    drawn = Drawn.of("100 * SUM(a) / COUNT(*)", (accounting, "0.7", 20), entropy)
    low, high = drawn.mirror()
    intervals = Intervals(drawn.plan, drawn.totals, 0.95)
    first, last = intervals._join(find_core(drawn.plan.query.outputs[0].expression))

    assert drawn.count_covered() >= MIN_COVERED
    assert np.median(drawn.high - drawn.low) <= 1.1 * np.median(high - low)
    assert np.median(drawn.high - drawn.low) <= 0.8 * np.median(last - first)


LEAPS: Final = (
    "CASE WHEN COUNT(*) = 11 THEN 1 ELSE 0 END",
    "CASE WHEN COUNT(*) BETWEEN 10 AND 12 THEN SUM(a) + COUNT(*) ELSE 0 END",
    "COALESCE(NULLIF(COUNT(*), 11) + SUM(a), 0)",
    "GREATEST(CASE WHEN COUNT(*) = 11 THEN 5000 END, SUM(a))",
    "SUM(a) + COALESCE(1 / (COUNT(*) - 11), 5000)",
)


@pytest.mark.statistical
@pytest.mark.parametrize("text", LEAPS)
def test_a_branch_that_few_draws_take_is_covered(text: str, entropy: SeededEntropy) -> None:
    """A branch that only the exact count takes is covered, even if most draws take another.

    Simulated intervals would cover the first case in 1% to 54% of releases, because nearly all
    draws give 0.
    """
    drawn = Drawn.of(text, ("gaussian", "0.1", 11), entropy)
    is_known = ~np.isnan(drawn.own)

    assert drawn.count_covered() >= MIN_COVERED
    assert ((drawn.low <= drawn.own) & (drawn.own <= drawn.high))[is_known].all()


@pytest.mark.statistical
def test_handling_of_zero_divisors_does_not_widen_intervals(entropy: SeededEntropy) -> None:
    """If no divisor is near zero, NULLIF and COALESCE do not widen intervals."""
    plain = Drawn.of("STDDEV(a) / COUNT(*)", ("gaussian", "1", 3_000), entropy)
    width = np.median(plain.high - plain.low)
    for text in ("STDDEV(a) / NULLIF(COUNT(*), 0)", "COALESCE(STDDEV(a) / COUNT(*), 0)"):
        safe = Drawn.of(text, ("gaussian", "1", 3_000), entropy)

        assert safe.count_covered() >= MIN_COVERED
        assert np.median(safe.high - safe.low) <= 1.1 * width


@pytest.mark.statistical
def test_an_absolute_value_may_be_zero(entropy: SeededEntropy) -> None:
    """Intervals of the ABS of a difference start at zero if the noise-free difference is zero.

    All simulated values are above zero, so an interval of their quantiles would never cover it.
    """
    drawn = Drawn.of("ABS(AVG(a) - AVG(same))", ("pure", "1", 1_000), entropy)

    assert drawn.count_covered() >= MIN_COVERED


def test_the_same_statistic_twice_has_no_interval(entropy: SeededEntropy) -> None:
    """An expression that is zero for any noise has an interval of width zero."""
    drawn = Drawn.of("AVG(a) - AVG(a)", ("pure", "1", 20), entropy)

    assert not drawn.low.any()
    assert not drawn.high.any()


ODD: Final = ("SUM(a) + LN(-COUNT(*))", "AVG(a) - AVG(b) / 1000", "STDDEV(a) + SUM(b) / 1e9")
ALONE: Final = ("COUNT(*)", "AVG(a)", "VARIANCE(a)", "STDDEV(b)", "LN(COUNT(*))", "1 / AVG(d)")
COUNTED: Final = ("COUNT(*)", "1 - COUNT(*)", "SUM(a) / COUNT(*)", "STDDEV(a) - COUNT(*)")
FAR: Final = [(text, False) for text in dict.fromkeys([*SMALL, *LARGE, *LEAPS, *ODD, *ALONE])]


@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize(("text", "nonnegative"), [*FAR, *((text, True) for text in COUNTED)])
def test_intervals_far_out_contain_their_value(
    text: str, accounting: str, *, nonnegative: bool
) -> None:
    """A value lies in its interval, which is never a single point, however large the noise.

    Totals are those of an empty group plus 1 to 32 times the noise, so that most means, variances,
    and counts are far outside their ranges.
    """
    curator = Curator([declare(nonnegative=nonnegative)], budget=BUDGETS[accounting])
    query = read_sql(f"SELECT {text} AS s FROM t", curator.names)
    plan = curator._planner.plan(query, Share.floor(Fraction(1, 100)))
    noise = noise_sample(plan)
    table = np.concatenate([factor * noise[:25] for factor in (1, 2, 4, 8, 16, 32)])
    groups = ((),) * len(table)
    totals = CombinedMeasurement(groups, groups, table=table, noise=noise)
    low, high = Intervals(plan, totals, 0.95).ends(query.outputs[0].expression)
    own = compute(plan, table)
    is_known = np.isfinite(own)

    assert is_known.sum() > len(table) / 10
    assert ((low <= own) & (own <= high))[is_known].all()
    assert (low < high)[is_known].all()
