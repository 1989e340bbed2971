"""Histogram density, with bin widths chosen privately on request."""

import math
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import numpy as np

from confide.declare import Float, Int, Table
from confide.errors import BadDeclaration, UnsupportedQuery, refusing
from confide.exact import Number, integer, probability
from confide.lazy import lazy_module
from confide.ledger import Hold, Receipt
from confide.loss import Share
from confide.noise import SYSTEM, Entropy
from confide.plan import Plan
from confide.plan.selection import WidthChoice, plan_width
from confide.query import Query, TableQuery, canonical, col, count, least
from confide.release import Cost
from confide.release.display import SCHEMA, Chart
from confide.release.selection import choose_width
from confide.statistics.arguments import Argument, ColumnName, JsonInteger, TableName, Within
from confide.statistics.estimate import (
    EstimateContext,
    Floats,
    Form,
    charge_and_release,
    read_sums,
    release_totals,
    split_share,
    total_variances,
)
from confide.statistics.formula import declared_column, number_column, read_within
from confide.statistics.smoothing import smooth_counts
from confide.statistics.spec import StatisticSpec

if TYPE_CHECKING:
    from scipy import special
else:
    special = lazy_module("scipy.special")

__all__ = [
    "DENSITY",
    "Density",
    "DensityArguments",
    "draw_density",
    "estimate_density",
    "project",
]

BLUE = "#2f6db5"


def draw_density(name: str, edges: Floats, height: Floats, low: Floats, high: Floats) -> Chart:
    """Return a density as steps, with its band behind."""
    columns = (edges[:-1], edges[1:], height, low, high)
    values = [
        {"from": left, "to": right, "density": value, "low": bottom, "high": top}
        for left, right, value, bottom, top in zip(*(c.tolist() for c in columns), strict=True)
    ]
    place = {"field": "from", "type": "quantitative", "title": name, "scale": {"zero": False}}
    across: dict[str, Any] = {"x": place, "x2": {"field": "to"}}
    band = {**across, "y": _height("low"), "y2": {"field": "high"}}
    line = {**across, "y": _height("density")}
    layers = [
        {"mark": {"type": "rect", "opacity": 0.25, "color": BLUE}, "encoding": band},
        {"mark": {"type": "rule", "strokeWidth": 2, "color": BLUE}, "encoding": line},
    ]
    return Chart({"$schema": SCHEMA, "data": {"values": values}, "layer": layers})


def _height(field: str) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "title": "density"}


LEVELS: Final = 10
MOST_BINS: Final = 10_000
COUNT_PART: Final = Fraction(1, 20)
CHOICE_PART: Final = Fraction(3, 20)
COUNTS_PART: Final = 1 - COUNT_PART - CHOICE_PART
MOST_SAMPLES: Final = 10**8
NOISE_LEFT: Final = Fraction(1, 4)
"""About how much of the noise's variance `smooth_counts` leaves, for the choice of a width."""
USUAL_BINS: Final = 2.4
"""Times the cube root of the rows: 1.7 is best for a normal law, and too few cost more."""


@dataclass(frozen=True, slots=True)
class HistogramBins:
    """``count`` bins of one width from ``low`` on."""

    low: float
    width: float
    count: int

    @property
    def edges(self) -> Floats:
        return np.asarray(self.low + self.width * np.arange(self.count + 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """A histogram density: never below zero, and 1 in all.

    ``value`` is its height in each bin, between ``edges``.

    Claim:   ``interval`` holds the mean of the population's density over a bin, for each bin by
             itself, with about the confidence asked for.
    Why:     a bin's noisy count is off by sampling, whose variance is n p (1 - p), and by noise of
             known law. The noise of all other bins is in the number of rows that it is divided by:
             of n rows the bin's part is off by ((1 - p) Z - p times the others' Z) / n, so with k
             bins the deviation of one bin's noise counts sqrt((1 - p)^2 + (k - 1) p^2) times,
             which is about 1 unless most rows lie in few bins; whichever of one bin's law and a
             normal one of the same deviation reaches farther is taken. The squares of the two
             half-widths are added, which is exact where either is much larger than the other. The
             band is about the noisy counts themselves, and stretched to hold the value, which is
             `smooth_counts` of them; what is known of a density (not below zero, 1 in all) then
             moves the value to the nearest such histogram, never away from the truth.
    Source:  [Smi08]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_density.py.
    """

    name: str
    bins: HistogramBins
    parts: Floats
    smoothed: Floats
    size: float
    noise: Floats
    cost: Cost
    receipt: Receipt
    reused: bool
    form: ClassVar[Form] = "bins"
    p_value: ClassVar[None] = None

    @property
    def names(self) -> tuple[str, ...]:
        """The place of each bin, from 0 on."""
        return tuple(str(place) for place in range(self.bins.count))

    @property
    def numbers(self) -> list[float]:
        """The heights in a row."""
        return [float(height) for height in self.value]

    @property
    def edges(self) -> Floats:
        """The ends of the bins."""
        return self.bins.edges

    @property
    def value(self) -> Floats:
        """The density in each bin."""
        return project(self.smoothed) / self.bins.width

    @property
    def standard_error(self) -> Floats:
        """The standard deviation of each height before smoothing, over sampling and noise."""
        noise = self.noise.std() * self._spread_noise()
        return np.asarray(np.hypot(self._sampling(), noise) / self.bins.width)

    @property
    def standard_errors(self) -> list[float]:
        """The standard errors in a row."""
        return [float(error) for error in self.standard_error]

    @refusing
    def intervals(self, confidence: Number = 0.95) -> list[tuple[float, float]]:
        """Return both ends of the band for each bin."""
        ends = zip(*self.interval(confidence), strict=True)
        return [(float(low), float(high)) for low, high in ends]

    @refusing
    def interval(self, confidence: Number = 0.95) -> tuple[Floats, Floats]:
        """Return the lower and upper ends of the band, one a bin."""
        level = float(probability("confidence", confidence, zero=False))
        normal = float(special.ndtri((1 + level) / 2))
        # Noise of one bin has its own law, that of many together is nearly normal.
        noise = max(float(np.quantile(np.abs(self.noise), level)), normal * self.noise.std())
        reach = np.hypot(normal * self._sampling(), noise * self._spread_noise())
        low, high = (self.parts - reach, self.parts + reach)
        value = project(self.smoothed)
        ends = np.maximum(np.minimum(low, value), 0.0), np.maximum(high, value)
        return ends[0] / self.bins.width, ends[1] / self.bins.width

    def pdf(self, x: Any) -> Any:
        """Return the density at one or many points; 0 outside the range."""
        points = np.asarray(x, dtype=np.float64)
        place = np.searchsorted(self.edges, points, side="right") - 1
        place = np.where(points == self.edges[-1], self.bins.count - 1, place)
        inside = (place >= 0) & (place < self.bins.count)
        found = np.where(inside, self.value[np.clip(place, 0, self.bins.count - 1)], 0.0)
        return float(found) if points.ndim == 0 else found

    def cdf(self, x: Any) -> Any:
        """Return the part of the law below one or many points."""
        points = np.asarray(x, dtype=np.float64)
        heights = np.concatenate([[0.0], np.cumsum(project(self.smoothed))])
        found = np.interp(points, self.edges, heights / heights[-1])
        return float(found) if points.ndim == 0 else found

    def sample(self, size: int, *, entropy: Entropy = SYSTEM) -> Floats:
        """Return invented numbers that follow the density; they cost nothing."""
        number = integer("size", size, low=0, high=MOST_SAMPLES)
        uniform = entropy.words(number).astype(np.float64) / 2.0**64
        heights = np.concatenate([[0.0], np.cumsum(project(self.smoothed))])
        return np.asarray(np.interp(uniform, heights / heights[-1], self.edges))

    def plot(self) -> Chart:
        """Return a chart of the density with its 95 % band."""
        low, high = self.interval()
        return draw_density(self.name, self.edges, self.value, low, high)

    def __str__(self) -> str:
        return (
            f"density of {self.name}: {self.bins.count} bins of width {self.bins.width:.4g}; "
            f"cost {self.cost}"
        )

    def __repr__(self) -> str:
        return f"<{self}>"

    def _sampling(self) -> Floats:
        kept = np.clip(self.parts, 0.0, 1.0)
        # A bin found empty may well hold a row or so: one is added, as for counts near zero.
        return np.sqrt((kept + 1.0 / self.size) * (1.0 - kept) / self.size)

    def _spread_noise(self) -> Floats:
        """Return how far noise of deviation 1 in every bin moves each bin's part of the rows."""
        kept = np.clip(self.parts, 0.0, 1.0)
        others = np.sqrt(self.bins.count - 1.0) * kept
        return np.asarray(np.hypot(1.0 - kept, others) / self.size)


def project(parts: Floats) -> Floats:
    """Return the nearest parts that are not below zero and add up to 1.

    Why: the nearest point of the simplex is the parts less a constant, cut off at zero; the
         constant is that of the most positive parts for which it leaves all of them positive.
         The truth lies in the simplex, so the nearest point of it is no farther from the truth.
         The same constant added to all parts changes nothing, so they are measured from the
         largest: however large they are, those that stay positive are then within 1 of zero.
    """
    below = parts - parts.max()
    ordered = np.sort(below)[::-1]
    surplus = (np.cumsum(ordered) - 1.0) / np.arange(1, len(parts) + 1)
    last = np.flatnonzero(ordered > surplus)[-1]
    return np.asarray(np.maximum(below - surplus[last], 0.0))


@dataclass(frozen=True, slots=True)
class BinLevels:
    """Which bins can be asked for: those of the fewest rows each, and twice as wide ones."""

    table: str
    name: str
    low: float
    finest: float
    levels: int
    high: float
    is_whole: bool = False

    def bins(self, halvings: int) -> HistogramBins:
        """Return the bins after so many halvings of the whole range."""
        width = self.finest * 2 ** (self.levels - halvings)
        needed = math.ceil((self.high - self.low) / width) if self.is_whole else 2**halvings
        return HistogramBins(self.low, width, max(1, needed))

    def usual(self, rows: float) -> float:
        """Return after how many halvings there are as many bins as suit most laws."""
        bins = USUAL_BINS * max(rows, 1.0) ** (1.0 / 3.0)
        whole_range = self.finest * 2**self.levels
        return math.log2(max(1.0, bins * whole_range / (self.high - self.low)))

    def query(self, bins: HistogramBins, clip: tuple[float, float]) -> TableQuery:
        """Return the question for the count of each bin."""
        value = col(self.name).clip(*clip)
        place = least(((value - bins.low) / bins.width).floor(), bins.count - 1)
        rows = TableQuery(self.table).where(col(self.name).not_null())
        return rows.group_by(bin=place).agg(n=count())


@dataclass(frozen=True, slots=True)
class _PreparedDensity:
    """The choice of a number of bins, with the plans before it and those it may lead to."""

    asked: EstimateContext
    shape: BinLevels
    clip: tuple[float, float]
    share: Share
    choice: WidthChoice
    size: Plan
    finest: Plan

    def plan(self, bins: HistogramBins) -> Plan:
        query = self.asked.planner.read(self.shape.query(bins, self.clip))
        return self.asked.plan(query, self.share)


@dataclass(frozen=True, slots=True)
class DensityArguments:
    """The arguments of `density`."""

    table: TableName
    column: ColumnName
    _: KW_ONLY
    bins: Annotated[
        int | None,
        Argument("how many bins; left out, chosen privately", (JsonInteger(1, MOST_BINS),)),
    ] = None
    within: Within = None


def estimate_density(asked: EstimateContext, arguments: DensityArguments) -> Density:
    """Return a histogram density of a column on its bounds.

    Law:     each bin's count plus the plan's noise; with ``bins=None``, 2^k bins with k from
             `WidthChoice`, favouring 2.4 times the cube root of a noisy number of rows. That
             number takes a twentieth of the cost, the choice three, the counts the rest.
    Claim:   costs what was granted. The squared error that noise adds is its variance times
             bins / (n^2 width), so the rate n^(-1/3) stays once epsilon is above n^(-1/3).
    Why:     bins do not overlap, so a unit's rows move counts by no more than themselves; the
             number of rows, the choice and the counts are releases whose losses add up.
    Source:  [Smi08]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_density.py.
    """
    table, bins = arguments.table, arguments.bins
    within = read_within(arguments.within)
    numbers = number_column(asked, table, arguments.column, within)
    declared = declared_column(asked, table, arguments.column)[2]
    clip = (numbers.low, numbers.high)
    if numbers.low == numbers.high or numbers.is_binary:
        raise UnsupportedQuery(
            f"column {numbers.name!r} has no range to cut into bins; ask for its mean instead"
        )
    if bins is not None:
        number = _read_bins(bins)
        width = (numbers.high - numbers.low) / number
        shape = BinLevels(table, numbers.name, numbers.low, width, 0, numbers.high)
        return _fixed(asked, shape, HistogramBins(numbers.low, width, number), clip)
    shape = _bin_levels(table, numbers.name, clip, is_whole=isinstance(declared, Int))
    return _chosen(asked, shape, clip)


def _read_bins(bins: object) -> int:
    try:
        return integer("bins", bins, low=1, high=MOST_BINS)
    except BadDeclaration:
        raise BadDeclaration(
            f"bins must be None or a whole number from 1 to {MOST_BINS:,}, got {bins!r}"
        ) from None


def _bin_levels(table: str, name: str, clip: tuple[float, float], *, is_whole: bool) -> BinLevels:
    """Return the widths to choose among; those of whole numbers are whole."""
    low, high = clip
    if not is_whole:
        return BinLevels(table, name, low, (high - low) / 2**LEVELS, LEVELS, high)
    values = high - low + 1.0
    finest = math.ceil(values / 2**LEVELS)
    levels = math.ceil(math.log2(values / finest)) if values > finest else 0
    return BinLevels(table, name, low, float(finest), levels, low + values, is_whole=True)


def _fixed(
    asked: EstimateContext, shape: BinLevels, bins: HistogramBins, clip: tuple[float, float]
) -> Density:
    read: Query = asked.planner.read(shape.query(bins, clip))
    paid = charge_and_release(
        asked,
        {"estimate": "density", "query": canonical(read)},
        lambda share: asked.plan(read, share),
        lambda plan, hold: {"steps": release_totals(asked.executor, plan, hold)},
    )
    found = _read(shape.name, bins, paid.prepared, paid.noisy)
    return Density(*found, paid.cost, paid.receipt, paid.reused)


def _chosen(asked: EstimateContext, shape: BinLevels, clip: tuple[float, float]) -> Density:
    finest = asked.planner.read(
        shape.query(HistogramBins(shape.low, shape.finest, 2**shape.levels), clip)
    )

    present = TableQuery(shape.table).where(col(shape.name).not_null()).agg(n=count())
    size = asked.planner.read(present)

    def prepare(share: Share) -> _PreparedDensity:
        first, part, rest = split_share(share, (COUNT_PART, CHOICE_PART, COUNTS_PART))
        plan = asked.plan(finest, part)
        variance = Fraction(float(total_variances(asked.plan(finest, rest))[0])) * NOISE_LEFT
        granted = asked.planner.loss(part)
        choice = plan_width(
            shape.levels, variance, plan.contribution, asked.planner.neighbours, granted
        )
        return _PreparedDensity(asked, shape, clip, rest, choice, asked.plan(size, first), plan)

    def release(prepared: _PreparedDensity, hold: Hold) -> dict[str, Any]:
        counted = release_totals(asked.executor, prepared.size, hold)
        usual = shape.usual(float(read_sums(prepared.size, counted).values[0, 0]))
        sealed = asked.executor.engine.run(prepared.finest.measurement, hold)
        halvings = choose_width(sealed, prepared.choice.favour(usual), asked.executor.entropy)
        plan = prepared.plan(shape.bins(halvings))
        steps = release_totals(asked.executor, plan, hold)
        return {"rows": counted, "halvings": halvings, "steps": steps}

    terms = {"estimate": "density", "query": canonical(finest), "bins": "chosen near a cube root"}
    paid = charge_and_release(asked, terms, prepare, release, readings=3)
    bins = shape.bins(paid.noisy["halvings"])
    found = _read(shape.name, bins, paid.prepared.plan(bins), paid.noisy)
    return Density(*found, paid.cost, paid.receipt, paid.reused)


def _read(
    name: str, bins: HistogramBins, plan: Plan, noisy: dict[str, Any]
) -> tuple[str, HistogramBins, Floats, Floats, float, Floats]:
    sums = read_sums(plan, noisy["steps"])
    counts = sums.values[:, 0]
    size = max(float(counts.sum()), 1.0)
    smoothed = smooth_counts(counts, float(total_variances(plan)[0])) / size
    return name, bins, counts / size, smoothed, size, sums.noise[:, 0]


def _audit(table: Table) -> DensityArguments | None:
    """Return a density of the first column of numbers."""
    numbers = table.names_of(Int, Float)
    return DensityArguments(table.name, numbers[0], bins=4) if numbers else None


DENSITY: Final = StatisticSpec(
    name="density",
    arguments=DensityArguments,
    estimate=estimate_density,
    summary="a histogram density of a column, with a band",
    details=(
        "``bins=None`` chooses the width privately, for a fifth of the cost. "
        "``within=(low, high)`` clips to narrower bounds than the declared ones."
    ),
    audit=_audit,
    trial="a histogram of four bins",
)
