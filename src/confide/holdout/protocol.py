"""The `Method` protocol, which each way to answer queries implements, and its data types.

A `Holdout` computes the means of a batch of queries over its rows. It passes them to its method,
which returns `Outcomes` and the next `Progress` of the session.
"""

import math
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from confide.errors import BadDeclaration, BudgetExceeded
from confide.exact import float_above
from confide.holdout.intervals import COMPARISON_SLACK, Bracket
from confide.holdout.scoring import Metric, mean_metric
from confide.holdout.values import STEPS_PER_SENSITIVITY, Booleans, Floats, sensitivity
from confide.loss import Loss
from confide.noise import Entropy
from confide.noise.sampler import MAX_SCALE

__all__ = [
    "MEAN_METRIC",
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

MAX_MEAN_ERROR: Final = 1e-10
"""An upper bound of the numerical error of a mean."""


@dataclass(frozen=True, slots=True)
class Left:
    """The remaining queries and overfits of a session; None means no limit.

    An *overfit* is a query whose guess was wrong.
    """

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
    """The validity claim of a session, with its theorem and its numbers.

    ``holds`` is whether the theorem guarantees the requested tau for ``n`` rows, except with
    probability ``beta``; without a request, any tau below 1 suffices. ``tau`` is the requested one
    if it is guaranteed, else the smallest that the theorem guarantees. It is None if the theorem is
    about intervals only. Without a theorem, ``holds`` is false, and ``tau`` and ``beta`` are None.
    ``loss`` is the privacy loss of the session, or None if the session promises only validity.
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
            return f"validity: {validity} [{self.source}]; privacy: not guaranteed"
        epsilon = self.loss.epsilon
        if isinstance(epsilon, Fraction):
            return f"validity: {validity} [{self.source}]; privacy: {float(epsilon):.6g}-DP"
        return (
            f"validity: {validity} [{self.source}]; privacy: "
            f"{self.loss.mu:.6g}-Gaussian-DP if one row is replaced"
        )


@dataclass(frozen=True, slots=True, eq=False)
class QueryBatch:
    """Queries in order, each with its mean over the holdout's rows and a guess for that mean.

    ``guesses`` is None if there are none. ``is_binary`` is whether all values are 0 or 1.
    """

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
    """Answers in order, each with the bounds that it implies for the mean over the rows.

    ``overfit`` is a mask of the overfits. ``nats`` are the levels of the confidence intervals; see
    `intervals`.
    """

    values: Floats
    overfit: Booleans
    low: Floats
    high: Floats
    nats: Floats
    rows: int
    is_binary: bool = False

    def flipped(self) -> "Outcomes":
        """Return the same answers for 1 - value."""
        return replace(self, values=1 - self.values, low=1 - self.high, high=1 - self.low)

    def bracket(self, index: int) -> Bracket:
        """Return the bounds that one answer implies for the mean, including numerical errors."""
        return Bracket(
            float(self.low[index]) - MAX_MEAN_ERROR,
            float(self.high[index]) + MAX_MEAN_ERROR,
            self.rows,
            float(self.nats[index]),
            self.is_binary,
        )


class Bounded(Protocol):
    """A method with an accuracy bound tau, which may be larger than the requested one."""

    @property
    def rows(self) -> int:
        """The number of rows of the holdout."""
        ...

    @property
    def beta(self) -> float:
        """The probability that the claim fails."""
        ...

    @property
    def wanted(self) -> float | None:
        """The requested tau, if any."""
        ...

    @property
    def tau(self) -> float:
        """The tau that the method guarantees."""
        ...


def state_guarantee(
    method: Bounded, what: str, extent: str, source: str, loss: Loss | None = None
) -> Guarantee:
    """Return the guarantee that ``what``, such as "every answer", is within the method's tau.

    ``extent`` is the text that states the numbers of queries and rows. A tau of 1 or more is
    vacuous, because all answers lie in [0, 1].
    """
    kept, wanted = method.tau, method.wanted
    holds = kept < 1 if wanted is None else kept <= wanted * (1 + COMPARISON_SLACK)
    shown = wanted if holds and wanted is not None else kept
    claim = (
        f"{what} within tau = {shown:.4g} of the population with probability "
        f"{1 - method.beta:.4g}, {extent}"
    )
    if kept >= 1:
        claim = f"every tau below 1 needs more rows or less noise; {extent}"
    elif not holds:
        claim = f"tau = {wanted:.6g} needs more rows; guaranteed is {claim}"
    return Guarantee(holds, shown, method.beta, method.rows, claim, source, loss)


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a session.

    ``queries`` and ``overfits`` are the numbers so far. ``nats`` is the code length of the
    transcript so far (see `coding_bounds`), and ``level`` the highest level of a board so far.
    ``secret`` is the noisy threshold in grid steps; it is as confidential as the rows.
    ``is_spoiled`` is whether a query that failed only on the holdout's rows ended the session.
    """

    queries: int = 0
    overfits: int = 0
    nats: float = 0.0
    level: int = 0
    secret: int | None = None
    is_spoiled: bool = False


class Method(Protocol):
    """A way to answer queries; all of its state is in `Progress`."""

    @property
    def name(self) -> str:
        """The name that selects it in `Holdout(method=...)`."""
        ...

    @property
    def needs_guess(self) -> bool:
        """Whether a query must come with a guess, such as its mean over the training rows."""
        ...

    @property
    def loss(self) -> Loss | None:
        """The privacy loss of the whole session; None if privacy is not promised."""
        ...

    def terms(self) -> dict[str, object]:
        """Return the method's name and parameters, which a resumed session must share."""
        ...

    def start(self, entropy: Entropy) -> Progress:
        """Return the state of a session before its first query."""
        ...

    def answer(
        self, progress: Progress, batch: QueryBatch, entropy: Entropy
    ) -> tuple[Progress, Outcomes]:
        """Return the new state and the answers to as many queries as allowed, at least one."""
        ...

    def left(self, progress: Progress) -> Left:
        """Return the remaining queries and overfits of the session."""
        ...

    def guarantee(self) -> Guarantee:
        """Return the guarantee of the session."""
        ...


def check_left(left: Left) -> int:
    """Return the remaining number of queries, or refuse if the session is over.

    Raises:
        BudgetExceeded: no query or no overfit remains; nothing was answered.
    """
    for size, what in ((left.queries, "queries"), (left.overfits, "overfits")):
        if size is not None and size <= 0:
            raise BudgetExceeded(
                f"This session has no {what} left. Its guarantee holds for the answers given. "
                "Plan a session with more, on rows that no answer has used; `confide.holdout.plan` "
                "returns how many rows it needs.",
                cost=Fraction(1),
                left=Fraction(0),
            )
    return left.queries if left.queries is not None else 2**62


def check_rows(method: str, rows: int, batch: QueryBatch) -> None:
    """Raise BadDeclaration unless the means are over one value per row.

    Why: every claim is about a mean over ``rows`` independent values, a number known in advance.
         The number of pairs that a metric finds depends on the labels, so the message omits it.
    """
    if batch.rows != rows:
        raise BadDeclaration(
            f"Method {method!r} needs one value for each of {rows:,} rows. For a metric of pairs "
            "of rows, use `method='guess-and-check'`."
        )


def check_sigma(sigma: Fraction, rows: int) -> Fraction:
    """Return the noise scale of a session, or raise an error if it is too large for the sampler."""
    largest = MAX_SCALE * sensitivity(rows) / (4 * STEPS_PER_SENSITIVITY)
    if sigma > largest:
        shown = float_above(sigma)  # sigma itself may be too large for a float
        raise BadDeclaration(
            f"`sigma` must be at most {float(largest):.4g} for {rows:,} rows. Means are in [0, 1], "
            "so noise near 1 hides them. Use more rows, fewer overfits, or a larger epsilon; got "
            f"{shown:.4g}."
        )
    return sigma


def middle_of(means: Floats, cells: int) -> tuple[NDArray[np.int64], Floats]:
    """Return the index and the middle of each mean's cell, if [0, 1] has ``cells`` equal cells."""
    index = np.minimum((means * cells).astype(np.int64), cells - 1)
    return index, (index + 0.5) / cells


def log_two_over(beta: float) -> float:
    """Return ln(2 / beta)."""
    return math.log(2 / beta)


class StoredTerms:
    """A base class of methods, which stores all parameters and starts without a secret."""

    __slots__ = ()
    name: ClassVar[str]

    def terms(self) -> dict[str, object]:
        """Return the name and the parameters of the method, as they are stored."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]  # methods are dataclasses
        return {"method": self.name} | {
            name: str(value) if isinstance(value, Fraction) else value
            for name, value in given.items()
        }

    def start(self, entropy: Entropy) -> Progress:
        """Return the initial state of a session."""
        del entropy
        return Progress()


MEAN_METRIC: Final = mean_metric()


@dataclass(frozen=True, slots=True)
class HoldoutAnswer:
    """An answer: its value, whether the query was an overfit, and an interval for the population.

    ``bracket`` has the bounds from which the interval is computed.
    """

    value: float
    overfit: bool
    metric: Metric = field(repr=False)
    bracket: Bracket = field(repr=False)

    @property
    def interval(self) -> tuple[float, float]:
        """An interval for the population's value; the claim covers the whole session jointly."""
        low, high = self.bracket.interval()
        return self.metric.show(low), self.metric.show(high)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        low, high = self.interval
        suffix = ", overfit" if self.overfit else ""
        return f"{self.value:.4g} [{low:.4g}, {high:.4g}]{suffix}"


@dataclass(frozen=True, slots=True, eq=False)
class HoldoutAnswers:
    """Answers to many queries, in order; fewer than the queries if the session ended."""

    values: Floats
    overfit: Booleans
    outcomes: Outcomes = field(repr=False)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> HoldoutAnswer:
        bracket = self.outcomes.bracket(range(len(self))[index])
        return HoldoutAnswer(
            float(self.values[index]), bool(self.overfit[index]), MEAN_METRIC, bracket
        )


def first_answer(outcomes: Outcomes, metric: Metric) -> HoldoutAnswer:
    """Return the answer to a single query, on the scale of its metric."""
    value = metric.show(float(outcomes.values[0]))
    return HoldoutAnswer(value, bool(outcomes.overfit[0]), metric, outcomes.bracket(0))
