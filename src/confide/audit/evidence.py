"""Audit cases, and tests of a claim based on output samples from two neighboring datasets.

The two datasets are called the left and the right side, or the first and the second. One half of
the samples selects a single event, and the other half measures its frequency on both sides. So the
search for an event cannot bias the measurement.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from statistics import NormalDist
from typing import Any, Final, TypeVar

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from confide.audit.claims import Claim
from confide.audit.projections import (
    Floats,
    OutputBins,
    Outputs,
    Projection,
    as_table,
    fit_projections,
)
from confide.errors import BadDeclaration
from confide.exact import float_above

__all__ = [
    "CONFIDENCE",
    "Case",
    "Evidence",
    "Finding",
    "Verdict",
    "approximate_bounds",
    "convict",
    "hockey_stick",
    "largest_ratio",
    "lower_bound",
    "run_cases",
    "sample_case",
    "upper_bound",
    "weigh",
]

MAX_STEPS: Final = 30
TOLERANCE: Final = 0.01
"""The gap in normal quantiles (see `_gap`) at which the search for a bound stops."""

PRECISION_BITS: Final = 64
MAX_SUM_TERMS: Final = 4_096
SLACK: Final = 2.0**-22
"""Relative error that covers all rounding in `_sum_tail`."""
MIN_TAIL: Final = 1e-300
MAX_TAIL: Final = 1 - 1e-9
NORMAL: Final = NormalDist()

Y = TypeVar("Y")


def lower_bound(hits: int, trials: int, level: float) -> float:
    """Return a lower confidence bound for a probability.

    Law:     ``hits`` successes in ``trials`` independent trials with the same success probability.
    Claim:   for every true probability, the bound exceeds it with probability at most ``level``.
    Why:     at the returned p, ``hits`` or more successes have probability at most ``level``, and
             that probability increases with p. So if p exceeds the true probability, then under the
             true probability, ``hits`` or more successes have probability at most ``level``. The
             hit counts whose bound exceeds the true probability are all counts from some number
             up, so together they have probability at most ``level``. The code rounds tail
             probabilities up, and accepts p only if the result is at most ``level``.
    Source:  [CP34].
    Checked: tests/audit/test_confidence_bounds.py (exact false-alarm rates, known closed forms).
    """
    _check_counts(hits, trials, level)
    if not hits:
        return 0.0
    # Log-odds: after the first loop, ``inside`` is accepted, and ``outside`` is the lowest value
    # that was not. ``short`` and ``over`` are their gaps.
    outside = math.log((hits + 0.5) / (trials - hits + 0.5))
    inside, over, width = outside, 1.0, 4 / math.sqrt(trials)
    while (short := _gap(inside, hits, trials, level)) > 0:
        outside, over, inside, width = inside, short, inside - width, 2 * width
    for _ in range(MAX_STEPS):
        if short > -TOLERANCE:
            break
        part = (-TOLERANCE / 2 - short) / (over - short)
        guess = inside + max(0.01, min(part, 0.99)) * (outside - inside)
        gap = _gap(guess, hits, trials, level)
        if gap <= 0:
            inside, short = guess, gap
        else:
            outside, over = guess, gap
    return _expit(inside)


def _expit(log_odds: float) -> float:
    """Return the probability with these log-odds."""
    return 1 / (1 + math.exp(-log_odds))


def upper_bound(hits: int, trials: int, level: float) -> float:
    """Return an upper confidence bound for a probability, the mirror image of `lower_bound`."""
    return math.nextafter(1.0 - lower_bound(trials - hits, trials, level), 2.0)


def _check_counts(hits: int, trials: int, level: float) -> None:
    if not (0 <= hits <= trials and trials and 0 < level <= 0.5):
        raise BadDeclaration(
            "`hits` must be from 0 to `trials`, and `level` must be above 0 and at most 0.5; got "
            f"{hits}, {trials}, and {level}."
        )


def _gap(log_odds: float, hits: int, trials: int, level: float) -> float:
    """Return the normal quantile of the tail probability minus that of ``level``.

    The tail is ``hits`` or more successes if each trial succeeds with these log-odds. The result is
    at most 0 only if the tail's probability is provably at most ``level``.
    """
    upper_tail = _sum_tail if trials <= MAX_SUM_TERMS else _tail_above
    tail = upper_tail(_expit(log_odds), hits, trials)
    if tail <= level:
        return min(0.0, NORMAL.inv_cdf(max(tail, MIN_TAIL)) - NORMAL.inv_cdf(level))
    return max(MIN_TAIL, NORMAL.inv_cdf(min(tail, MAX_TAIL)) - NORMAL.inv_cdf(level))


def _tail_above(p: float, hits: int, trials: int) -> float:
    """Return the probability of ``hits`` or more successes, rounded up.

    It is a regularized incomplete beta function, which `arb` encloses.
    """
    with ctx.workprec(PRECISION_BITS):
        return float_above(arb(p).beta_lower(hits, trials - hits + 1, regularized=True))


def _sum_tail(p: float, hits: int, trials: int) -> float:
    """Return the probability of ``hits`` or more successes, rounded up generously.

    It is computed as a sum of at most 4,096 terms.

    Why: the logarithm of a factorial is a sum of at most 4,096 rounded numbers and never exceeds
         2^15, so its error is below 4,096 * 2^-38 = 2^-26. The logarithm of a term contains three
         of them, and two products with an even smaller rounding error, so its error is below SLACK.
    """
    counts = np.arange(hits, trials + 1)
    logs = _log_factorials()
    terms = logs[trials] - logs[counts] - logs[trials - counts]
    terms += counts * math.log(p) + (trials - counts) * math.log1p(-p)
    return float(np.exp(terms).sum()) * (1 + SLACK)


@cache
def _log_factorials() -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, MAX_SUM_TERMS + 1)))])


def approximate_bounds(hits: NDArray[Any], trials: int, level: float) -> tuple[Floats, Floats]:
    """Return approximate (Wilson) lower and upper bounds for many events at once.

    Why: they solve |rate - p| = z sqrt(p (1 - p) / trials) for p, where z is a normal quantile.
         They are fast to compute, and only select an event; the exact bounds above then measure it.
    """
    rate = np.asarray(hits, dtype=np.float64) / trials
    ratio = NORMAL.inv_cdf(1 - level) ** 2 / trials
    middle = rate + ratio / 2
    half_width = np.sqrt(ratio * (rate * (1 - rate) + ratio / 4))
    return (middle - half_width) / (1 + ratio), (middle + half_width) / (1 + ratio)


def hockey_stick(first: Mapping[Y, float], second: Mapping[Y, float], epsilon: float) -> float:
    """Return the exact delta at ``epsilon``: the sum of max(0, first - exp(epsilon) * second).

    ``first`` and ``second`` map outputs to probabilities. They must be complete, except for outputs
    with negligible probability.
    """
    factor = math.exp(epsilon)
    return math.fsum(max(0.0, p - factor * second.get(y, 0.0)) for y, p in first.items())


def largest_ratio(first: Mapping[Y, float], second: Mapping[Y, float]) -> float:
    """Return the exact epsilon: the largest absolute log-ratio of an output's two probabilities.

    ``first`` and ``second`` map outputs to probabilities. If an output is possible on only one
    side, the result is infinite.
    """
    return max(
        abs(math.log(first[y] / second[y])) if first.get(y) and second.get(y) else math.inf
        for y in {*first, *second}
        if first.get(y) or second.get(y)
    )


CONFIDENCE: Final = 0.999
"""Confidence of an audit, over all its claims.

If all claims are true, the probability that none is disproved is at least this high.
"""

FIRST_SAMPLE_SIZE: Final = 2**9
MAX_TRIES: Final = 14
MIN_OUTPUTS: Final = 16
PSEUDOCOUNT: Final = 3
"""Added to counts before bins are ranked, so that rare bins do not rank first by luck."""

Draw = Callable[[int], tuple[Outputs, Outputs]]
"""A function that takes a number and returns that many outputs from each side, one per row."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence from one event, measured on samples that were not used to select it.

    ``found`` is the smallest value of the claim's parameter that is consistent with the counts, or
    0 if every value is. ``hits`` is how often the event occurred among ``trials`` outputs of the
    side on which it was selected as more likely. ``misses`` is how often it occurred on the other
    side, which can have another number of outputs.
    """

    claim: Claim
    found: float
    event: str
    hits: int
    misses: int
    trials: int

    @property
    def is_disproof(self) -> bool:
        """Whether the evidence disproves the claim, at the allowed rate of false alarms."""
        return self.found > self.claim.value


@dataclass(frozen=True, slots=True)
class _Event:
    """The event that the projection of an output lies in one of several bins.

    ``bins`` are all bins, and ``chosen`` the indices of those in the event. If ``is_forward``, the
    event was selected as more likely on the left side. ``bound`` is about the smallest value of the
    claim's parameter that is consistent with the counts from which the event was selected.
    """

    projection: Projection
    bins: OutputBins
    chosen: NDArray[np.int64]
    is_forward: bool
    bound: float

    def count(self, table: Floats) -> int:
        """Return the number of a table's outputs that are in the event."""
        return int(np.isin(self.bins.assign(self.projection.read(table)), self.chosen).sum())

    def __str__(self) -> str:
        side = "the first side" if self.is_forward else "the second side"
        return (
            f"{self.projection.name}, {len(self.chosen)} of {self.bins.count} bins; more likely on "
            f"{side}"
        )


def weigh(
    left: Outputs, right: Outputs, claim: Claim, *, false_alarms: float = 1 - CONFIDENCE
) -> Evidence:
    """Return the evidence about a claim from outputs on two neighboring datasets.

    Law:     outputs are independent, and within each side they are identically distributed.
    Claim:   if the claim is true, the evidence disproves it with probability at most
             ``false_alarms``.
    Why:     the projection, the event, and the direction depend on the first half of each side's
             outputs alone, so the counts in the second halves are binomial. Each of the two
             Clopper-Pearson bounds fails with probability at most false_alarms / 2. If neither
             fails, `Claim.disprove` returns at most the claim's value.
    Source:  [CP34]; [DWWZK18] for the two halves.
    Checked: tests/audit/test_evidence.py, tests/audit/test_known_bad.py.
    """
    sides = [as_table(side) for side in (left, right)]
    if min(map(len, sides)) < MIN_OUTPUTS or sides[0].shape[1] != sides[1].shape[1]:
        raise BadDeclaration(
            f"An audit needs at least {MIN_OUTPUTS} outputs per side, all with the same number of "
            f"values; got {sides[0].shape} and {sides[1].shape}."
        )
    tried, measured = zip(*(np.array_split(side, 2) for side in sides), strict=True)
    level = false_alarms / 2
    event = max(_propose(tried[0], tried[1], claim, level), key=lambda one: one.bound)
    first, second = measured if event.is_forward else measured[::-1]
    hits, misses = event.count(first), event.count(second)
    low, high = lower_bound(hits, len(first), level), upper_bound(misses, len(second), level)
    found = max(0.0, claim.disprove(low, min(high, 1.0)))
    return Evidence(claim, found, str(event), hits, misses, len(first))


def _propose(left: Floats, right: Floats, claim: Claim, level: float) -> Iterator[_Event]:
    """Yield the best event for each projection and direction, by bounds that fail at ``level``."""
    for projection in fit_projections(left, right):
        values = projection.read(left), projection.read(right)
        bins = OutputBins.of(np.concatenate(values))
        first, second = (np.bincount(bins.assign(one), minlength=bins.count) for one in values)
        for likely, unlikely, is_forward in ((first, second, True), (second, first, False)):
            chosen, bound = _best_event(likely, unlikely, claim, level)
            yield _Event(projection, bins, chosen, is_forward, bound)


def _best_event(
    likely: NDArray[np.int64], unlikely: NDArray[np.int64], claim: Claim, level: float
) -> tuple[NDArray[np.int64], float]:
    """Return the best event among prefixes of three orders of the bins, and its bound.

    ``likely`` has the count of each bin on the side where the event should be more likely, and
    ``unlikely`` that on the other side. The bins are ordered by decreasing ratio of these counts,
    by ascending index, and by descending index. An event is an array of bin indices.
    """
    by_ratio = np.argsort(-(likely + PSEUDOCOUNT) / (unlikely + PSEUDOCOUNT), kind="stable")
    ascending = np.arange(len(likely))
    orders = np.stack([by_ratio, ascending, ascending[::-1]])
    low, _ = approximate_bounds(np.cumsum(likely[orders], axis=1), int(likely.sum()), level)
    _, high = approximate_bounds(np.cumsum(unlikely[orders], axis=1), int(unlikely.sum()), level)
    pairs = zip(low.ravel().tolist(), high.ravel().tolist(), strict=True)
    bounds = np.array([claim.disprove(p, q) for p, q in pairs]).reshape(orders.shape)
    order, last = np.unravel_index(np.argmax(bounds), bounds.shape)
    return orders[order, : last + 1], float(bounds[order, last])


def convict(
    draw: Draw, claim: Claim, *, false_alarms: float = 1 - CONFIDENCE, tries: int = MAX_TRIES
) -> int | None:
    """Return the number of samples per side that disproves a claim, or None.

    Each try draws twice as many samples as the one before. None means that even the largest number,
    2**(8 + tries), did not disprove the claim.

    Claim:   a true claim is disproved with probability at most ``false_alarms`` over all tries.
    Why:     each try uses fresh samples and an equal share of the allowed false-alarm
             probability.
    """
    for attempt in range(tries):
        size = FIRST_SAMPLE_SIZE << attempt
        left, right = draw(size)
        if weigh(left, right, claim, false_alarms=false_alarms / tries).is_disproof:
            return size
    return None


class Verdict(StrEnum):
    """The outcome of a case."""

    ACQUITTED = "not disproved"
    CONVICTED = "disproved"
    ALIKE = "same on both sides"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a case: its subject, its pair of neighboring datasets, verdict, and evidence.

    ``way`` describes how outputs were drawn. Without samples, ``evidence`` is None, and ``note`` is
    the start of the output that both sides share, or describes how the sides differ.
    """

    subject: str
    pair: str
    way: str
    verdict: Verdict
    evidence: Evidence | None = None
    note: str = ""

    @property
    def samples(self) -> int:
        """The number of outputs drawn from each side, rounded down to an even number."""
        return 0 if self.evidence is None else 2 * self.evidence.trials


@dataclass(frozen=True, slots=True)
class Case:
    """A claim to test: its subject, its pair of neighboring datasets, and the test.

    ``run`` takes the allowed probability of disproving a true claim.
    """

    subject: str
    pair: str
    run: Callable[[float], Finding]


def sample_case(
    subject: str, pair: str, way: str, *, claim: Claim, draw: Draw, samples: int
) -> Case:
    """Return the case that tests a claim with this number of samples per side."""

    def run(false_alarms: float) -> Finding:
        left, right = draw(samples)
        evidence = weigh(left, right, claim, false_alarms=false_alarms)
        verdict = Verdict.CONVICTED if evidence.is_disproof else Verdict.ACQUITTED
        return Finding(subject, pair, way, verdict, evidence)

    return Case(subject, pair, run)


def run_cases(
    cases: Sequence[Case],
    *,
    confidence: float = CONFIDENCE,
    advance: Callable[[Case], None] = lambda _: None,
) -> list[Finding]:
    """Return the finding of each case; with this confidence, no true claim is disproved.

    ``advance`` is called with each case before it runs.

    Claim:   if every claim is true, the probability that any is disproved is at most
             1 - confidence.
    Why:     each case gets an equal part of that probability, and a union bound holds even if the
             cases are not independent.
    Checked: tests/audit/test_evidence.py.
    """
    findings = []
    for case in cases:
        advance(case)
        findings.append(case.run((1 - confidence) / len(cases)))
    return findings
