"""Cases, and samples of two neighbors weighed against a claim.

One half of the samples proposes a single event, the other half measures it, so that nothing found
by searching is believed for that reason.
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
from confide.audit.projections import Floats, OutputBins, Outputs, Projection, as_table, fit_views
from confide.errors import BadDeclaration
from confide.exact import float_above

__all__ = [
    "CONFIDENCE",
    "Case",
    "Evidence",
    "Finding",
    "Verdict",
    "chance_above",
    "chance_below",
    "convict",
    "hockey_stick",
    "largest_ratio",
    "near_bounds",
    "run_cases",
    "sample_case",
    "weigh",
]

STEPS: Final = 30
NEAR: Final = 0.01
"""How near to the level a tail must come, in normal deviations."""

BITS: Final = 64
MOST_ADDED: Final = 4_096
SLACK: Final = 2.0**-22
SMALLEST: Final = 1e-300
MOST: Final = 1 - 1e-9
NORMAL: Final = NormalDist()

Y = TypeVar("Y")


def chance_below(hits: int, trials: int, level: float) -> float:
    """Return a probability that the true one falls short of only with probability ``level``.

    Law:     ``hits`` of ``trials`` independent trials, each successful with the same probability.
    Claim:   whatever that probability is, the number returned exceeds it with probability at most
             ``level``.
    Why:     at the number p returned, so many hits or more have probability at most ``level``; this
             grows with p, so p is above the true probability only if the hits are among the most
             extreme, whose total probability is at most ``level``. The tail is enclosed by a ball,
             and p is moved only while the whole ball stays within the level.
    Source:  [CP34].
    Checked: tests/audit/test_bounds.py (false alarms counted exactly; the known closed forms).
    """
    _check(hits, trials, level)
    if not hits:
        return 0.0
    outside = math.log((hits + 0.5) / (trials - hits + 0.5))
    inside, over, width = outside, 1.0, 4 / math.sqrt(trials)
    while (short := _gap(inside, hits, trials, level)) > 0:
        outside, over, inside, width = inside, short, inside - width, 2 * width
    for _ in range(STEPS):
        if short > -NEAR:
            break
        part = (-NEAR / 2 - short) / (over - short)
        guess = inside + max(0.01, min(part, 0.99)) * (outside - inside)
        gap = _gap(guess, hits, trials, level)
        if gap <= 0:
            inside, short = guess, gap
        else:
            outside, over = guess, gap
    return _chance(inside)


def _chance(odds: float) -> float:
    """Return the probability whose logarithm of the odds this is."""
    return 1 / (1 + math.exp(-odds))


def chance_above(hits: int, trials: int, level: float) -> float:
    """Return a probability that the true one passes only with probability ``level``: the mirror."""
    return math.nextafter(1.0 - chance_below(trials - hits, trials, level), 2.0)


def _check(hits: int, trials: int, level: float) -> None:
    if not (0 <= hits <= trials and trials and 0 < level <= 0.5):
        raise BadDeclaration(
            f"hits must be from 0 to trials and level up to 0.5, got {hits}, {trials}, {level}"
        )


def _gap(odds: float, hits: int, trials: int, level: float) -> float:
    """Return by how many normal deviations so many hits or more are likelier than ``level``.

    It is at most 0 only where their probability surely is at most ``level``.
    """
    add_up = _add_tail if trials <= MOST_ADDED else _enclose_tail
    tail = add_up(_chance(odds), hits, trials)
    if tail <= level:
        return min(0.0, NORMAL.inv_cdf(max(tail, SMALLEST)) - NORMAL.inv_cdf(level))
    return max(SMALLEST, NORMAL.inv_cdf(min(tail, MOST)) - NORMAL.inv_cdf(level))


def _enclose_tail(chance: float, hits: int, trials: int) -> float:
    """Return the probability of so many hits or more, rounded up."""
    with ctx.workprec(BITS):
        return float_above(arb(chance).beta_lower(hits, trials - hits + 1, regularized=True))


def _add_tail(chance: float, hits: int, trials: int) -> float:
    """Return the same as a sum of up to 4,096 terms, raised by far more than rounding can take.

    Why: the logarithm of a factorial here is a sum of up to 4,096 rounded numbers, never above
         2^15, so it is off by less than 4,096 * 2^-38 = 2^-26. A term has three of them and two
         products whose rounding is smaller still; SLACK is 2^-22.
    """
    places = np.arange(hits, trials + 1)
    logs = _log_factorials()
    terms = logs[trials] - logs[places] - logs[trials - places]
    terms += places * math.log(chance) + (trials - places) * math.log1p(-chance)
    return float(np.exp(terms).sum()) * (1 + SLACK)


@cache
def _log_factorials() -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, MOST_ADDED + 1)))])


def near_bounds(hits: NDArray[Any], trials: int, level: float) -> tuple[Floats, Floats]:
    """Return Wilson's bounds from below and above for many events at once, to choose among them.

    Why: they solve |share - p| = z sqrt(p (1 - p) / trials), which is quick and nearly right. What
         is chosen by them is measured by the exact bounds above.
    """
    share = np.asarray(hits, dtype=np.float64) / trials
    z_squared = NORMAL.inv_cdf(1 - level) ** 2 / trials
    middle = share + z_squared / 2
    spread = np.sqrt(z_squared * (share * (1 - share) + z_squared / 4))
    return (middle - spread) / (1 + z_squared), (middle + spread) / (1 + z_squared)


def hockey_stick(first: Mapping[Y, float], second: Mapping[Y, float], epsilon: float) -> float:
    """Return the sum of what ``first`` has beyond exp(epsilon) times ``second``: exact delta.

    Both laws are complete, or lack only what is too rare to matter.
    """
    factor = math.exp(epsilon)
    return math.fsum(max(0.0, p - factor * second.get(y, 0.0)) for y, p in first.items())


def largest_ratio(first: Mapping[Y, float], second: Mapping[Y, float]) -> float:
    """Return the largest log-ratio of the two laws, in either order: exact epsilon."""
    return max(
        abs(math.log(first[y] / second[y])) if first.get(y) and second.get(y) else math.inf
        for y in {*first, *second}
        if first.get(y) or second.get(y)
    )


CONFIDENCE: Final = 0.999
"""How sure a conviction is, over all events that were tried."""

FIRST_TRY: Final = 2**9
TRIES: Final = 14
FEWEST: Final = 16
RARE: Final = 3
"""Added to counts when events are ordered: keeps luck with rare outcomes from opening an event."""

Draw = Callable[[int], tuple[Outputs, Outputs]]
"""Returns so many outputs of each side."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one event, measured on samples of its own, proves.

    ``found`` is the least value of the claim's kind that the counts allow, 0 where they allow all.
    ``hits`` and ``misses`` count the event on the likelier and on the other side, of ``trials``.
    """

    claim: Claim
    found: float
    event: str
    hits: int
    misses: int
    trials: int

    @property
    def is_disproof(self) -> bool:
        """Whether the claim cannot be true, up to the false alarms allowed."""
        return self.found > self.claim.value


@dataclass(frozen=True, slots=True)
class _Event:
    """Pieces of the line of one view; ``is_forward``: the left side meets it more often."""

    view: Projection
    bins: OutputBins
    pieces: NDArray[np.int64]
    is_forward: bool
    promise: float

    def count(self, table: Floats) -> int:
        return int(np.isin(self.bins.place(self.view.read(table)), self.pieces).sum())

    def __str__(self) -> str:
        side = "the first" if self.is_forward else "the second"
        return (
            f"{self.view.name}, {len(self.pieces)} of {self.bins.count} pieces; likelier on {side}"
        )


def weigh(
    left: Outputs, right: Outputs, claim: Claim, *, false_alarms: float = 1 - CONFIDENCE
) -> Evidence:
    """Return what these outputs of two neighbouring databases prove about a claim.

    Law:     outputs are independent, those of each side of one law.
    Claim:   if the claim is true, the evidence disproves it with probability at most
             ``false_alarms``.
    Why:     view, event and direction depend on the first halves alone, so the counts in the second
             halves are binomial. Each of the two Clopper-Pearson bounds fails with probability at
             most false_alarms / 2; while both hold, `Claim.disprove` errs below the truth.
    Source:  [CP34]; [DWWZK18] for the two halves.
    Checked: tests/audit/test_evidence.py, tests/audit/test_known_bad.py.
    """
    sides = [as_table(side) for side in (left, right)]
    if min(map(len, sides)) < FEWEST or sides[0].shape[1] != sides[1].shape[1]:
        raise BadDeclaration(
            f"an audit needs {FEWEST} or more outputs of each side, all with as many numbers, got "
            f"{sides[0].shape} and {sides[1].shape}"
        )
    tried, measured = zip(*(np.array_split(side, 2) for side in sides), strict=True)
    level = false_alarms / 2
    event = max(_propose(tried[0], tried[1], claim, level), key=lambda one: one.promise)
    first, second = measured if event.is_forward else measured[::-1]
    hits, misses = event.count(first), event.count(second)
    low, high = chance_below(hits, len(first), level), chance_above(misses, len(second), level)
    found = max(0.0, claim.disprove(low, min(high, 1.0)))
    return Evidence(claim, found, str(event), hits, misses, len(first))


def _propose(left: Floats, right: Floats, claim: Claim, level: float) -> Iterator[_Event]:
    """Yield for each view and direction the event that looks most telling."""
    for view in fit_views(left, right):
        seen = view.read(left), view.read(right)
        bins = OutputBins.of(np.concatenate(seen))
        first, second = (np.bincount(bins.place(one), minlength=bins.count) for one in seen)
        for here, there, is_forward in ((first, second, True), (second, first, False)):
            pieces, promise = _grow(here, there, claim, level)
            yield _Event(view, bins, pieces, is_forward, promise)


def _grow(
    here: NDArray[np.int64], there: NDArray[np.int64], claim: Claim, level: float
) -> tuple[NDArray[np.int64], float]:
    """Return the best event among those that take pieces one after the other, and its promise.

    The most telling pieces go first, or those at one end of the line.
    """
    telling = np.argsort(-(here + RARE) / (there + RARE), kind="stable")
    along = np.arange(len(here))
    found = [_cut(order, here, there, claim, level) for order in (telling, along, along[::-1])]
    return max(found, key=lambda one: one[1])


def _cut(
    order: NDArray[np.int64],
    here: NDArray[np.int64],
    there: NDArray[np.int64],
    claim: Claim,
    level: float,
) -> tuple[NDArray[np.int64], float]:
    """Return how many pieces to take in this order, and what they promise."""
    low, _ = near_bounds(np.cumsum(here[order]), int(here.sum()), level)
    _, high = near_bounds(np.cumsum(there[order]), int(there.sum()), level)
    promises = [claim.disprove(p, q) for p, q in zip(low.tolist(), high.tolist(), strict=True)]
    last = int(np.argmax(promises))
    return order[: last + 1], promises[last]


def convict(
    draw: Draw, claim: Claim, *, false_alarms: float = 1 - CONFIDENCE, tries: int = TRIES
) -> int | None:
    """Return how many samples of each side disprove the claim, doubling them until they do.

    None means that even the most tried, 2**(8 + tries), did not suffice.

    Claim:   a true claim is convicted with probability at most ``false_alarms`` over all tries.
    Why:     each try has samples of its own and an equal part of the false alarms.
    """
    for attempt in range(tries):
        size = FIRST_TRY << attempt
        left, right = draw(size)
        if weigh(left, right, claim, false_alarms=false_alarms / tries).is_disproof:
            return size
    return None


class Verdict(StrEnum):
    """What came of a case."""

    ACQUITTED = "not disproved"
    CONVICTED = "disproved"
    ALIKE = "alike on both sides"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was on trial, between which neighbours, what was claimed and what was found.

    ``way`` says how outputs were drawn. Without samples, ``note`` says what was compared instead.
    """

    subject: str
    pair: str
    way: str
    verdict: Verdict
    evidence: Evidence | None = None
    note: str = ""

    @property
    def samples(self) -> int:
        """How many outputs of each side were drawn."""
        return 0 if self.evidence is None else 2 * self.evidence.trials


@dataclass(frozen=True, slots=True)
class Case:
    """Something that can be tried: ``run`` is told how often it may accuse a true claim."""

    subject: str
    pair: str
    run: Callable[[float], Finding]


def sample_case(
    subject: str, pair: str, way: str, *, claim: Claim, draw: Draw, samples: int
) -> Case:
    """Return the case that weighs so many samples of each side against a claim."""

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
    """Return what came of each case; all true claims are acquitted with this confidence.

    Claim:   if every claim is true, the chance that any is convicted is at most 1 - confidence.
    Why:     each case has an equal part of it, whatever the cases have in common.
    Checked: tests/audit/test_evidence.py.
    """
    findings = []
    for case in cases:
        advance(case)
        findings.append(case.run((1 - confidence) / len(cases)))
    return findings
