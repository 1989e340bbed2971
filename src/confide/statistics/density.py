"""Histogram density estimates, with a bin width that is given or chosen privately."""

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
    """Return a chart of a density as steps, with its confidence band behind it."""
    columns = (edges[:-1], edges[1:], height, low, high)
    values = [
        {"from": left, "to": right, "density": value, "low": bottom, "high": top}
        for left, right, value, bottom, top in zip(*(c.tolist() for c in columns), strict=True)
    ]
    left_edge = {"field": "from", "type": "quantitative", "title": name, "scale": {"zero": False}}
    x_axis: dict[str, Any] = {"x": left_edge, "x2": {"field": "to"}}
    band = {**x_axis, "y": _height("low"), "y2": {"field": "high"}}
    line = {**x_axis, "y": _height("density")}
    layers = [
        {"mark": {"type": "rect", "opacity": 0.25, "color": BLUE}, "encoding": band},
        {"mark": {"type": "rule", "strokeWidth": 2, "color": BLUE}, "encoding": line},
    ]
    return Chart({"$schema": SCHEMA, "data": {"values": values}, "layer": layers})


def _height(field: str) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "title": "density"}


MAX_HALVINGS: Final = 10
MAX_BINS: Final = 10_000
ROW_COUNT_PART: Final = Fraction(1, 20)
WIDTH_PART: Final = Fraction(3, 20)
BIN_COUNTS_PART: Final = 1 - ROW_COUNT_PART - WIDTH_PART
"""Fractions of the cost for the number of rows, for the bin width, and for the counts of bins."""
MAX_SAMPLES: Final = 10**8
RESIDUAL_NOISE_FRACTION: Final = Fraction(1, 4)
"""Approximate fraction of the noise variance that `smooth_counts` leaves; for `plan_width`."""
BINS_PER_CUBE_ROOT: Final = 2.4
"""Bins per cube root of the number of rows.

1.7 is best for a normal density. The value is higher because too few bins cost more accuracy than
too many.
"""


@dataclass(frozen=True, slots=True)
class HistogramBins:
    """``count`` bins of equal width, the first of which starts at ``low``."""

    low: float
    width: float
    count: int

    @property
    def edges(self) -> Floats:
        return np.asarray(self.low + self.width * np.arange(self.count + 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """A histogram density: nonnegative, with a total of 1.

    ``value`` is its height in each bin, between ``edges``. ``parts`` has each bin's noisy count
    divided by ``size``, the noisy number of rows; ``smoothed`` is the same after `smooth_counts`.
    ``noise`` is a sample of the noise of one count.

    Claim:   for each bin separately, ``interval`` covers the mean of the population's density over
             the bin with approximately the requested confidence.
    Why:     let n be the number of rows, and p the fraction of them in a bin. The bin's noisy count
             has a sampling error with variance n p (1 - p), and noise Z with a known distribution.
             The noisy number of rows, by which the count is divided, contains the noise of all
             bins. So noise changes the bin's fraction by about
             ((1 - p) Z - p times the sum of the other bins' Z) / n. With k bins, the standard
             deviation of Z is multiplied by sqrt((1 - p)^2 + (k - 1) p^2) / n, where the root is
             about 1 unless most rows lie in a few bins. The half-width for noise uses the wider of
             the distribution of Z and a normal one with the same standard deviation. It is combined
             with the half-width for sampling as the root of the sum of their squares, which is
             exact if one of them dominates. The band is centered on the noisy fractions, and
             widened to contain the value. The value comes from `smooth_counts` and is then moved to
             the nearest nonnegative histogram with a total of 1. Because the true density is such a
             histogram, that move never increases the distance from it.
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
        """The index of each bin, from 0 on."""
        return tuple(str(index) for index in range(self.bins.count))

    @property
    def numbers(self) -> list[float]:
        """The heights as a list."""
        return [float(height) for height in self.value]

    @property
    def edges(self) -> Floats:
        """The edges of the bins."""
        return self.bins.edges

    @property
    def value(self) -> Floats:
        """The density in each bin."""
        return project(self.smoothed) / self.bins.width

    @property
    def standard_error(self) -> Floats:
        """The standard error of each height before smoothing, from sampling and noise."""
        noise = self.noise.std() * self._noise_factor()
        return np.asarray(np.hypot(self._sampling_error(), noise) / self.bins.width)

    @property
    def standard_errors(self) -> list[float]:
        """The standard errors as a list."""
        return [float(error) for error in self.standard_error]

    @refusing
    def intervals(self, confidence: Number = 0.95) -> list[tuple[float, float]]:
        """Return the ends (low, high) of the band for each bin."""
        ends = zip(*self.interval(confidence), strict=True)
        return [(float(low), float(high)) for low, high in ends]

    @refusing
    def interval(self, confidence: Number = 0.95) -> tuple[Floats, Floats]:
        """Return the lower and upper ends of the band, one per bin."""
        level = float(probability("confidence", confidence, zero=False))
        normal = float(special.ndtri((1 + level) / 2))
        # One bin's noise has a known distribution; the sum over many bins is nearly normal.
        noise = max(float(np.quantile(np.abs(self.noise), level)), normal * self.noise.std())
        half_width = np.hypot(normal * self._sampling_error(), noise * self._noise_factor())
        low, high = (self.parts - half_width, self.parts + half_width)
        value = project(self.smoothed)
        ends = np.maximum(np.minimum(low, value), 0.0), np.maximum(high, value)
        return ends[0] / self.bins.width, ends[1] / self.bins.width

    def pdf(self, x: Any) -> Any:
        """Return the density at one or more points; it is 0 outside the range."""
        points = np.asarray(x, dtype=np.float64)
        index = np.searchsorted(self.edges, points, side="right") - 1
        index = np.where(points == self.edges[-1], self.bins.count - 1, index)
        inside = (index >= 0) & (index < self.bins.count)
        found = np.where(inside, self.value[np.clip(index, 0, self.bins.count - 1)], 0.0)
        return float(found) if points.ndim == 0 else found

    def cdf(self, x: Any) -> Any:
        """Return the cumulative distribution function at one or more points."""
        points = np.asarray(x, dtype=np.float64)
        heights = np.concatenate([[0.0], np.cumsum(project(self.smoothed))])
        found = np.interp(points, self.edges, heights / heights[-1])
        return float(found) if points.ndim == 0 else found

    def sample(self, size: int, *, entropy: Entropy = SYSTEM) -> Floats:
        """Return synthetic numbers drawn from the density; they cost nothing."""
        number = integer("size", size, low=0, high=MAX_SAMPLES)
        uniform = entropy.words(number).astype(np.float64) / 2.0**64
        heights = np.concatenate([[0.0], np.cumsum(project(self.smoothed))])
        return np.asarray(np.interp(uniform, heights / heights[-1], self.edges))

    def plot(self) -> Chart:
        """Return a chart of the density with its 95% band."""
        low, high = self.interval()
        return draw_density(self.name, self.edges, self.value, low, high)

    def __str__(self) -> str:
        return (
            f"density of {self.name}: {self.bins.count} bins of width {self.bins.width:.4g}; "
            f"cost {self.cost}"
        )

    def __repr__(self) -> str:
        return f"<{self}>"

    def _sampling_error(self) -> Floats:
        """Return the standard deviation of each bin's fraction from sampling."""
        fractions = np.clip(self.parts, 0.0, 1.0)
        # One row is added, because an apparently empty bin may contain a few.
        return np.sqrt((fractions + 1.0 / self.size) * (1.0 - fractions) / self.size)

    def _noise_factor(self) -> Floats:
        """Return the error of each bin's fraction from noise, as a multiple of a count's noise.

        Both are measured by their standard deviations.
        """
        fractions = np.clip(self.parts, 0.0, 1.0)
        others = np.sqrt(self.bins.count - 1.0) * fractions
        return np.asarray(np.hypot(1.0 - fractions, others) / self.size)


def project(parts: Floats) -> Floats:
    """Return the nearest nonnegative fractions that add up to 1.

    Why: the nearest point of the simplex is the input minus a constant, clipped at zero. To find
         the constant, sort the fractions in descending order. If only the first j stay positive,
         the constant must be (their sum - 1) / j. The right j is the largest for which the j-th
         fraction exceeds that constant. Adding a number to all fractions does not change the
         result, so they are measured from the greatest one. Then, for inputs of any size, those
         that stay positive are within 1 of zero, and their sums lose no precision.
    """
    below = parts - parts.max()
    ordered = np.sort(below)[::-1]
    constants = (np.cumsum(ordered) - 1.0) / np.arange(1, len(parts) + 1)
    last = np.flatnonzero(ordered > constants)[-1]
    return np.asarray(np.maximum(below - constants[last], 0.0))


@dataclass(frozen=True, slots=True)
class BinLevels:
    """The bin widths to choose from: the width ``finest``, doubled 0 to ``levels`` times.

    Bins of column ``name`` in ``table`` cover at least the range from ``low`` to ``high``. For
    integers (``is_whole``), ``high`` is one more than the largest value.
    """

    table: str
    name: str
    low: float
    finest: float
    levels: int
    high: float
    is_whole: bool = False

    def bins(self, halvings: int) -> HistogramBins:
        """Return the bins if the widest bin, which covers the range, is halved this many times."""
        width = self.finest * 2 ** (self.levels - halvings)
        needed = math.ceil((self.high - self.low) / width) if self.is_whole else 2**halvings
        return HistogramBins(self.low, width, max(1, needed))

    def usual(self, rows: float) -> float:
        """Return the number of halvings that gives a good number of bins for most densities."""
        bins = BINS_PER_CUBE_ROOT * max(rows, 1.0) ** (1.0 / 3.0)
        whole_range = self.finest * 2**self.levels
        return math.log2(max(1.0, bins * whole_range / (self.high - self.low)))

    def query(self, bins: HistogramBins, clip: tuple[float, float]) -> TableQuery:
        """Return the query for the count of each bin, of values clipped to ``clip``."""
        value = col(self.name).clip(*clip)
        index = least(((value - bins.low) / bins.width).floor(), bins.count - 1)
        rows = TableQuery(self.table).where(col(self.name).not_null())
        return rows.group_by(bin=index).agg(n=count())


@dataclass(frozen=True, slots=True)
class _PreparedDensity:
    """The plans for the number of rows (``size``) and for the choice of a width (``finest``).

    `plan` returns the plan for the counts of bins, once the width is chosen; ``share`` pays for it.
    """

    context: EstimateContext
    shape: BinLevels
    clip: tuple[float, float]
    share: Share
    choice: WidthChoice
    size: Plan
    finest: Plan

    def plan(self, bins: HistogramBins) -> Plan:
        query = self.context.planner.read(self.shape.query(bins, self.clip))
        return self.context.plan(query, self.share)


@dataclass(frozen=True, slots=True)
class DensityArguments:
    """The arguments of `density`."""

    table: TableName
    column: ColumnName
    _: KW_ONLY
    bins: Annotated[
        int | None,
        Argument("number of bins; chosen privately if omitted", (JsonInteger(1, MAX_BINS),)),
    ] = None
    within: Within = None


def estimate_density(context: EstimateContext, arguments: DensityArguments) -> Density:
    """Return a histogram density of a column within its bounds.

    Law:     each bin's count plus the plan's noise. With ``bins=None``, the range is halved k times
             (2^k bins, fewer if bins must have integer widths). `WidthChoice` chooses k, and favors
             2.4 times the cube root of a noisy number of rows as the number of bins. The number of
             rows takes 5% of the cost, the choice 15%, and the counts the rest. If ``bins`` is a
             number, the counts take all of it.
    Claim:   costs the granted share. The squared error that noise adds is its variance times
             bins / (n^2 width) for n rows, so the rate n^(-1/3) is preserved if epsilon is above
             n^(-1/3).
    Why:     bins are disjoint, so a unit changes counts by at most the number of its rows. The
             number of rows, the choice, and the counts are releases whose losses add up.
    Source:  [Smi08]; docs/proofs/statistics.md.
    Checked: tests/statistics/test_density.py.
    """
    table, bins = arguments.table, arguments.bins
    within = read_within(arguments.within)
    numbers = number_column(context, table, arguments.column, within)
    declared = declared_column(context, table, arguments.column)[2]
    clip = (numbers.low, numbers.high)
    if numbers.low == numbers.high or numbers.is_binary:
        raise UnsupportedQuery(
            f"Column {numbers.name!r} has no range to divide into bins. Ask for its mean instead."
        )
    if bins is not None:
        number = _read_bins(bins)
        width = (numbers.high - numbers.low) / number
        shape = BinLevels(table, numbers.name, numbers.low, width, 0, numbers.high)
        return _fixed(context, shape, HistogramBins(numbers.low, width, number), clip)
    shape = _bin_levels(table, numbers.name, clip, is_whole=isinstance(declared, Int))
    return _chosen(context, shape, clip)


def _read_bins(bins: object) -> int:
    try:
        return integer("bins", bins, low=1, high=MAX_BINS)
    except BadDeclaration:
        raise BadDeclaration(
            f"`bins` must be None or an integer from 1 to {MAX_BINS:,}; got {bins!r}."
        ) from None


def _bin_levels(table: str, name: str, clip: tuple[float, float], *, is_whole: bool) -> BinLevels:
    """Return the widths to choose from; columns of integers have integer widths."""
    low, high = clip
    if not is_whole:
        return BinLevels(table, name, low, (high - low) / 2**MAX_HALVINGS, MAX_HALVINGS, high)
    values = high - low + 1.0
    finest = math.ceil(values / 2**MAX_HALVINGS)
    levels = math.ceil(math.log2(values / finest)) if values > finest else 0
    return BinLevels(table, name, low, float(finest), levels, low + values, is_whole=True)


def _fixed(
    context: EstimateContext, shape: BinLevels, bins: HistogramBins, clip: tuple[float, float]
) -> Density:
    """Return the density for the requested number of bins."""
    read: Query = context.planner.read(shape.query(bins, clip))
    charged = charge_and_release(
        context,
        {"estimate": "density", "query": canonical(read)},
        lambda share: context.plan(read, share),
        lambda plan, hold: {"steps": release_totals(context.executor, plan, hold)},
    )
    found = _read(shape.name, bins, charged.prepared, charged.noisy)
    return Density(*found, charged.cost, charged.receipt, charged.reused)


def _chosen(context: EstimateContext, shape: BinLevels, clip: tuple[float, float]) -> Density:
    """Return the density for a privately chosen number of bins."""
    finest = context.planner.read(
        shape.query(HistogramBins(shape.low, shape.finest, 2**shape.levels), clip)
    )

    present = TableQuery(shape.table).where(col(shape.name).not_null()).agg(n=count())
    size = context.planner.read(present)

    def prepare(share: Share) -> _PreparedDensity:
        rows_share, width_share, counts_share = split_share(
            share, (ROW_COUNT_PART, WIDTH_PART, BIN_COUNTS_PART)
        )
        plan = context.plan(finest, width_share)
        variance = (
            Fraction(float(total_variances(context.plan(finest, counts_share))[0]))
            * RESIDUAL_NOISE_FRACTION
        )
        granted = context.planner.loss(width_share)
        choice = plan_width(
            shape.levels, variance, plan.contribution, context.planner.neighbours, granted
        )
        size_plan = context.plan(size, rows_share)
        return _PreparedDensity(context, shape, clip, counts_share, choice, size_plan, plan)

    def release(prepared: _PreparedDensity, hold: Hold) -> dict[str, Any]:
        counted = release_totals(context.executor, prepared.size, hold)
        usual = shape.usual(float(read_sums(prepared.size, counted).values[0, 0]))
        sealed = context.executor.engine.run(prepared.finest.measurement, hold)
        halvings = choose_width(sealed, prepared.choice.prefer(usual), context.executor.entropy)
        plan = prepared.plan(shape.bins(halvings))
        steps = release_totals(context.executor, plan, hold)
        return {"rows": counted, "halvings": halvings, "steps": steps}

    terms = {"estimate": "density", "query": canonical(finest), "bins": "chosen near a cube root"}
    charged = charge_and_release(context, terms, prepare, release, readings=3)
    bins = shape.bins(charged.noisy["halvings"])
    found = _read(shape.name, bins, charged.prepared.plan(bins), charged.noisy)
    return Density(*found, charged.cost, charged.receipt, charged.reused)


def _read(
    name: str, bins: HistogramBins, plan: Plan, noisy: dict[str, Any]
) -> tuple[str, HistogramBins, Floats, Floats, float, Floats]:
    """Return the first six fields of `Density`, from the released counts."""
    sums = read_sums(plan, noisy["steps"])
    counts = sums.values[:, 0]
    size = max(float(counts.sum()), 1.0)
    smoothed = smooth_counts(counts, float(total_variances(plan)[0])) / size
    return name, bins, counts / size, smoothed, size, sums.noise[:, 0]


def _audit(table: Table) -> DensityArguments | None:
    """Return arguments for a histogram of the first numeric column."""
    numbers = table.names_of(Int, Float)
    return DensityArguments(table.name, numbers[0], bins=4) if numbers else None


DENSITY: Final = StatisticSpec(
    name="density",
    arguments=DensityArguments,
    estimate=estimate_density,
    summary="a histogram density of a column, with a confidence band",
    details=(
        "``bins=None`` chooses the width privately, for a fifth of the cost. "
        "``within=(low, high)`` clips to narrower bounds than the declared ones."
    ),
    audit=_audit,
    trial="a histogram of four bins",
)
