"""`Method` protocol, outcomes, answers and guarantees."""

import math
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from confide.errors import BadDeclaration, BudgetExceeded
from confide.exact import float_above
from confide.holdout.intervals import SPARE, Bracket
from confide.holdout.scoring import Metric, mean_metric
from confide.holdout.values import FINENESS, Floats, Marks, sensitivity
from confide.loss import Loss
from confide.noise import Entropy
from confide.noise.sampler import MAX_SCALE

if TYPE_CHECKING:
    pass


__all__ = [
    "PLAIN",
    "Guarantee",
    "HoldoutAnswer",
    "HoldoutAnswers",
    "Left",
    "Method",
    "Outcomes",
    "Progress",
    "QueryBatch",
    "StoredTerms",
    "check_left",
    "check_rows",
    "check_sigma",
    "first_answer",
    "log_two_over",
    "middle_of",
    "state_guarantee",
]

EDGE: Final = 1e-10
"""More than a mean may be off by its computation."""


@dataclass(frozen=True, slots=True)
class Left:
    """How much of a session is left; None where there is no limit."""

    queries: int | None
    overfits: int | None

    def __str__(self) -> str:
        shown = [
            "any number of" if size is None else f"{size:,}"
            for size in (self.queries, self.overfits)
        ]
        return f"{shown[0]} queries and {shown[1]} overfits left"


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What holds for a session, by which theorem, with which numbers.

    ``tau`` is the least that the theorem gives for the rows there are; ``holds`` tells whether
    that is what was asked for. ``loss`` is what the session costs in privacy, or None where it
    promises validity alone.
    """

    holds: bool
    tau: float | None
    beta: float | None
    n: int
    claim: str
    source: str
    loss: Loss | None = None

    def __str__(self) -> str:
        validity = self.claim if self.holds else f"none at this n: {self.claim}"
        if self.loss is None:
            return f"validity: {validity} [{self.source}]; privacy: none is promised"
        epsilon = self.loss.epsilon
        if isinstance(epsilon, Fraction):
            return f"validity: {validity} [{self.source}]; privacy: {float(epsilon):.6g}-DP"
        return (
            f"validity: {validity} [{self.source}]; privacy: "
            f"{self.loss.mu:.6g}-Gaussian-DP, as one row is replaced"
        )


@dataclass(frozen=True, slots=True, eq=False)
class QueryBatch:
    """Queries in order: the mean of each over the rows, and the guess for it."""

    means: Floats
    guesses: Floats | None
    rows: int
    is_binary: bool = False

    def first(self, count: int) -> "QueryBatch":
        """Return the first ``count`` queries."""
        guesses = None if self.guesses is None else self.guesses[:count]
        return QueryBatch(self.means[:count], guesses, self.rows, self.is_binary)


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Answers in order, and what each says of the mean over the rows."""

    values: Floats
    overfit: Marks
    low: Floats
    high: Floats
    nats: Floats
    rows: int
    is_binary: bool = False

    def flipped(self) -> "Outcomes":
        """Return the same answers about 1 - value."""
        return replace(self, values=1 - self.values, low=1 - self.high, high=1 - self.low)

    def bracket(self, place: int) -> Bracket:
        """Return what one answer says of the mean."""
        return Bracket(
            float(self.low[place]) - EDGE,
            float(self.high[place]) + EDGE,
            self.rows,
            float(self.nats[place]),
            self.is_binary,
        )


class Bounded(Protocol):
    """A way of answering that keeps a tau, which may be more than the one that was wanted."""

    @property
    def rows(self) -> int:
        """The rows of the holdout."""
        ...

    @property
    def beta(self) -> float:
        """The chance that anything of what is promised does not hold."""
        ...

    @property
    def wanted(self) -> float | None:
        """The tau that was asked for, if any."""
        ...

    @property
    def tau(self) -> float:
        """The tau that is kept."""
        ...


def state_guarantee(
    method: Bounded, what: str, extent: str, source: str, loss: Loss | None = None
) -> Guarantee:
    """Return what holds where ``what`` is within the method's tau, which ``extent`` limits.

    A tau of 1 or more says nothing, for all answers lie in [0, 1].
    """
    kept, wanted = method.tau, method.wanted
    holds = kept < 1 if wanted is None else kept <= wanted * (1 + SPARE)
    shown = wanted if holds and wanted is not None else kept
    claim = (
        f"{what} within tau = {shown:.4g} of the population with probability "
        f"{1 - method.beta:.4g}, {extent}"
    )
    if kept >= 1:
        claim = f"every tau below 1 needs more rows or less noise; {extent}"
    elif not holds:
        claim = f"tau = {wanted:.6g} needs more rows; what holds is {claim}"
    return Guarantee(holds, shown, method.beta, method.rows, claim, source, loss)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a session stands.

    ``nats`` is the code length of the transcript so far, ``level`` the best level of a board.
    ``secret`` is the noisy threshold in steps: as secret as the rows. ``is_spoiled`` says that a
    query failed on the holdout's rows alone, which ended the session.
    """

    queries: int = 0
    overfits: int = 0
    nats: float = 0.0
    level: int = 0
    secret: int | None = None
    is_spoiled: bool = False


class Method(Protocol):
    """One way of answering; all state is in `Progress`."""

    @property
    def name(self) -> str:
        """What `Holdout(method=...)` calls it."""
        ...

    @property
    def needs_guess(self) -> bool:
        """Whether a query must come with a guess, such as its mean over the training rows."""
        ...

    @property
    def loss(self) -> Loss | None:
        """What the whole session costs in privacy; None where nothing is promised."""
        ...

    def terms(self) -> dict[str, object]:
        """Return what makes the session what it is."""
        ...

    def start(self, entropy: Entropy) -> Progress:
        """Return the state of a session that nobody has asked yet."""
        ...

    def answer(
        self, progress: Progress, asked: QueryBatch, entropy: Entropy
    ) -> tuple[Progress, Outcomes]:
        """Answer as many of the queries as are allowed, in order, at least one."""
        ...

    def left(self, progress: Progress) -> Left:
        """Return how much of the session is left."""
        ...

    def guarantee(self) -> Guarantee:
        """Return what holds for the session."""
        ...


def check_left(left: Left) -> int:
    """Return how many queries may still be asked, or refuse when the session is over.

    Raises:
        BudgetExceeded: all queries are asked, or all overfits are used; nothing was told.
    """
    for size, what in ((left.queries, "queries"), (left.overfits, "overfits")):
        if size is not None and size <= 0:
            raise BudgetExceeded(
                f"this session has no {what} left; what it promised holds for the answers given. "
                "Plan a session with more (confide.holdout.plan tells how many rows that needs), "
                "on rows that no answer has used",
                cost=Fraction(1),
                left=Fraction(0),
            )
    return left.queries if left.queries is not None else 2**62


def check_rows(method: str, rows: int, asked: QueryBatch) -> None:
    """Refuse values that are not one for each row, whatever tau was asked for.

    Why: every claim is about a mean over ``rows`` independent values, a number known beforehand.
         How many pairs a metric finds depends on the labels, so the message does not tell it.
    """
    if asked.rows != rows:
        raise BadDeclaration(
            f"{method} needs one value for each of {rows:,} rows; a metric of pairs of rows needs "
            "method='guess-and-check'"
        )


def check_sigma(sigma: Fraction, rows: int) -> Fraction:
    """Return the noise of a session, or refuse more than can be drawn on the grid of its rows."""
    most = MAX_SCALE * sensitivity(rows) / (4 * FINENESS)
    if sigma > most:
        shown = float_above(sigma)  # which may be too large for a float
        raise BadDeclaration(
            f"sigma must be at most {float(most):.4g} for {rows:,} rows, got {shown:.4g}; "
            "means lie in [0, 1], so noise near 1 leaves nothing of them: take more rows, fewer "
            "overfits, or more epsilon"
        )
    return sigma


def middle_of(means: Floats, cells: int) -> tuple[NDArray[np.int64], Floats]:
    """Return the cell of each mean, one of ``cells`` of equal width, and the cell's middle."""
    index = np.minimum((means * cells).astype(np.int64), cells - 1)
    return index, (index + 0.5) / cells


def log_two_over(beta: float) -> float:
    """Return ln(2 / beta)."""
    return math.log(2 / beta)


class StoredTerms:
    """What all methods share: terms that can be written down, and a beginning without secrets."""

    __slots__ = ()
    name: ClassVar[str]

    def terms(self) -> dict[str, object]:
        """Return the method with its terms, as they are written down."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]  # methods are dataclasses
        return {"method": self.name} | {
            name: str(value) if isinstance(value, Fraction) else value
            for name, value in given.items()
        }

    def start(self, entropy: Entropy) -> Progress:
        """Return where a session begins."""
        del entropy
        return Progress()


PLAIN: Final = mean_metric()


@dataclass(frozen=True, slots=True)
class HoldoutAnswer:
    """One answer: its value, whether the guess was overfit, and what it says of the population."""

    value: float
    overfit: bool
    metric: Metric = field(repr=False)
    bracket: Bracket = field(repr=False)

    @property
    def interval(self) -> tuple[float, float]:
        """A range that holds the population's value, together with those of the whole session."""
        low, high = self.bracket.interval()
        return self.metric.show(low), self.metric.show(high)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        low, high = self.interval
        told = ", overfit" if self.overfit else ""
        return f"{self.value:.4g} [{low:.4g}, {high:.4g}]{told}"


@dataclass(frozen=True, slots=True, eq=False)
class HoldoutAnswers:
    """Answers to many queries, in order; fewer than were asked where the session ended."""

    values: Floats
    overfit: Marks
    outcomes: Outcomes = field(repr=False)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: int) -> HoldoutAnswer:
        bracket = self.outcomes.bracket(range(len(self))[place])
        return HoldoutAnswer(float(self.values[place]), bool(self.overfit[place]), PLAIN, bracket)


def first_answer(outcomes: Outcomes, metric: Metric) -> HoldoutAnswer:
    """Return the answer to the only query, in the unit of its metric."""
    value = metric.show(float(outcomes.values[0]))
    return HoldoutAnswer(value, bool(outcomes.overfit[0]), metric, outcomes.bracket(0))
