"""`Holdout` sessions and leaderboards: they compute means over the rows for a `Method`."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from confide.errors import BadDeclaration
from confide.exact import Number, integer, probability
from confide.holdout.baselines import Splitting
from confide.holdout.choice import Terms, choose_method
from confide.holdout.protocol import (
    MEAN_METRIC,
    Guarantee,
    HoldoutAnswer,
    HoldoutAnswers,
    Left,
    Method,
    Outcomes,
    Progress,
    QueryBatch,
    check_left,
    first_answer,
)
from confide.holdout.scoring import (
    Metric,
    Scorer,
    check_labels,
    mean_metric,
    measure,
    metric_of,
    predict_column,
    read_predictions,
)
from confide.holdout.stores import (
    FileStore,
    LedgerStore,
    MemoryStore,
    Store,
    check_curator,
    check_name,
    check_not_spoiled,
)
from confide.holdout.values import (
    Floats,
    Rows,
    check_guess,
    check_range,
    guess_of,
    guesses_of,
    mean_of,
    means_of,
    read_column,
    read_matrix,
    read_rows,
)
from confide.loss import Loss
from confide.noise import SYSTEM, Entropy

if TYPE_CHECKING:
    from confide.curator import Curator

__all__ = ["BoardScore", "Holdout", "Leaderboard"]

TRAIN_VALUES: Final = "The training values"
HELDOUT_VALUES: Final = "The heldout values"
METHODS_FOR_PAIRS: Final = ("guess-and-check", "naive")
"""The methods that allow metrics of pairs of rows.

Guess-and-check accounts for the number of pairs, and naive answers claim nothing."""

Query: TypeAlias = Callable[..., Any]
"""A function of all rows (or of X and y) that returns an array with one value per row."""


class Holdout:
    """A session on a holdout set whose answers stay valid for adaptively chosen queries.

    ``train`` and ``heldout`` are DataFrames, pairs (X, y), arrays, or numbers of rows if queries
    are passed as values. With training rows, the answer to a query is its mean over them if that is
    close to its mean over the holdout. Otherwise the query is an *overfit*, and the answer is a
    coarse version of the mean over the holdout. ``train`` can be None.

    Validity requires independent rows, and queries that compute each value from one row alone. Only
    ``method="thresholdout"`` and ``"gaussian"`` also protect the privacy of the holdout's rows.

    >>> holdout = Holdout(8_000, 8_000, tau=0.1, beta=0.05, queries=100, overfits=10)
    >>> answer = holdout.ask(np.full(8_000, 0.25), np.full(8_000, 0.25))
    >>> answer.value, answer.overfit
    (0.25, False)
    >>> print(holdout.left)
    99 queries and 10 overfits left
    >>> holdout.guarantee.holds
    True
    """

    def __init__(
        self,
        train: Any,
        heldout: Any,
        *,
        tau: Number | None = None,
        beta: Number = 0.05,
        queries: int | None = None,
        overfits: int | None = None,
        method: str = "auto",
        threshold: Number | None = None,
        sigma: Number | None = None,
        epsilon: Number | None = None,
        labels: str | None = None,
        ledger: str | Path | None = None,
        name: str = "holdout",
        curator: "Curator | None" = None,
        confirm: bool = False,
    ) -> None:
        self._train = None if train is None else read_rows("train", train, labels)
        self._heldout = read_rows("heldout", heldout, labels)
        if self._train is not None:
            self._train.check_columns(self._heldout)
        terms = Terms(
            rows=self._heldout.size,
            train_rows=None if self._train is None else self._train.size,
            tau=None if tau is None else float(probability("tau", tau, zero=False)),
            beta=float(probability("beta", beta, zero=False)),
            queries=None if queries is None else integer("queries", queries, low=1, high=10**12),
            overfits=None if overfits is None else integer("overfits", overfits, low=1, high=10**9),
            threshold=threshold,
            sigma=sigma,
            epsilon=epsilon,
        )
        self._method: Method = choose_method(method, terms)
        self._entropy: Entropy = SYSTEM
        self._store: Store = self._find_store(ledger, check_name(name), curator, confirm=confirm)
        written = json.dumps(self._method.terms(), sort_keys=True)
        self._store.open(written, self._method.start(self._entropy))

    def _find_store(
        self, ledger: str | Path | None, name: str, curator: "Curator | None", *, confirm: bool
    ) -> Store:
        """Return the store of the session's state: a curator's ledger, a file, or memory."""
        if curator is None:
            return MemoryStore() if ledger is None else FileStore(ledger, name)
        if ledger is not None:
            raise BadDeclaration(
                "With `curator=`, the state of a session is in the curator's ledger. Omit "
                "`ledger=` here, and open the curator with `ledger=` and a file or a database."
            )
        loss = check_curator(curator, self._method)
        return LedgerStore(curator, name, loss, is_confirmed=confirm)

    @property
    def left(self) -> Left:
        """The remaining queries and overfits."""
        progress = self._store.read()
        return Left(0, 0) if progress.is_spoiled else self._method.left(progress)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of this session: its theorem and numbers, or none."""
        found = self._method.guarantee()
        if not self._store.read().is_spoiled:
            return found
        # The query that failed was the last one, so all answers stay valid. But the failure
        # revealed something about the rows without noise, so no privacy loss can be stated.
        claim = f"{found.claim}; ended by a query that failed on the holdout's rows alone"
        return replace(found, claim=claim, loss=None)

    @property
    def method(self) -> str:
        """The name of the method that answers queries."""
        return self._method.name

    @property
    def loss(self) -> Loss | None:
        """The privacy loss of the whole session; None if privacy is not, or no longer, promised."""
        return None if self._store.read().is_spoiled else self._method.loss

    def ask(
        self,
        *query: Any,
        guess: Number | None = None,
        low: Number = 0,
        high: Number = 1,
    ) -> HoldoutAnswer:
        """Return the answer to one query.

        ``ask(phi)`` calls phi on the training rows and on the holdout's rows.
        ``ask(train_values, heldout_values)`` takes precomputed values. Without training rows, use
        ``ask(heldout_values)``, with ``guess=`` if the method needs one. If values lie in a range
        other than [0, 1], known in advance, pass it as ``low=`` and ``high=``.

        Raises:
            BadDeclaration: values outside the range or of the wrong length. Nothing changed, unless
                phi failed on the holdout's rows, which ends the session.
            BudgetExceeded: the session is over; nothing changed.
        """
        metric = MEAN_METRIC if (low, high) == (0, 1) else mean_metric(low, high)
        found, heldout = self._values(query, metric)
        given = found if guess is None else check_guess("guess", guess)
        return self._answer(given, heldout, metric)

    def ask_many(self, *matrices: Any, guesses: Any = None) -> HoldoutAnswers:
        """Return the answers to many queries, one for each column of the matrices.

        Pass ``ask_many(train_matrix, heldout_matrix)``, or ``ask_many(heldout_matrix)`` with an
        array of ``guesses=`` if the method needs them. The queries are answered in order, as if
        asked one by one.
        """
        if not 1 <= len(matrices) <= 2:
            raise BadDeclaration(
                "`ask_many` takes a matrix for the training rows and one for the heldout rows."
            )
        heldout = read_matrix(HELDOUT_VALUES, matrices[-1], self._heldout.size)
        if len(matrices) == 2:
            train = read_matrix(TRAIN_VALUES, matrices[0], self._train_size())
            guesses = guesses_of(TRAIN_VALUES, train)
        elif guesses is not None:
            guesses = np.array([check_guess("guesses", guess) for guess in np.asarray(guesses)])
        if guesses is not None and len(guesses) != heldout.shape[1]:
            raise BadDeclaration(
                f"`guesses` must have one entry for each of the {heldout.shape[1]:,} queries; got "
                f"{len(guesses):,}."
            )
        outcomes = self._ask(heldout, guesses, MEAN_METRIC)
        return HoldoutAnswers(outcomes.values, outcomes.overfit, outcomes)

    def score(
        self,
        train_predictions: Any,
        heldout_predictions: Any,
        metric: str | Metric = "accuracy",
        *,
        high: Number | None = None,
    ) -> HoldoutAnswer:
        """Return a metric of predictions for the holdout's labels; that on ``train`` is the guess.

        ``train_predictions`` may be None if the method needs no guess. ``high`` is the value at
        which squared-error and absolute-error are clipped.
        """
        found = metric_of(metric, high)
        self.check_metric(found)
        guess = None
        if train_predictions is not None:
            rows = self._labelled(self._train, "train")
            check_labels(found, "train", rows.labels)
            guess = _guess(found, "The training predictions", rows.labels, train_predictions)
        # Malformed predictions are refused before a label is read. Later errors stay unspecific.
        name, labels = "The heldout predictions", self._heldout.labels
        given = read_predictions(found, name, heldout_predictions, self._heldout.size)
        what = f"Metric {found.name!r}"
        heldout = self._guarded(lambda: measure(found, name, labels, given), what)
        return self._answer(guess, heldout, found)

    def scorer(self, metric: str | Metric = "accuracy", *, high: Number | None = None) -> Scorer:
        """Return a scorer for scikit-learn functions such as `cross_val_score` or `GridSearchCV`.

        The guess is the metric on the rows that scikit-learn passes, a validation fold that the
        model has not seen. So the guess is close for most models, and they cost no overfit.
        """
        found = metric_of(metric, high)
        self.check_metric(found)
        return Scorer(self, found)

    def score_fold(self, estimator: Any, X: Any, y: Any, metric: Metric) -> HoldoutAnswer:  # noqa: N803
        """Return the metric of a fitted estimator, with its mean over (X, y) as the guess."""
        self.check_metric(metric)
        guess = _guess(
            metric, "The fold's predictions", np.asarray(y), predict_column(estimator, X, metric)
        )
        rows, name = self._heldout, "The heldout predictions"

        def values() -> Any:
            found = predict_column(estimator, rows.features, metric)
            return measure(
                metric, name, rows.labels, read_predictions(metric, name, found, rows.size)
            )

        return self._answer(guess, self._guarded(values, "The estimator"), metric)

    def check_metric(self, metric: Metric) -> None:
        """Raise BadDeclaration if the method or the labels' type rules out a metric."""
        if metric.is_paired and self._method.name not in METHODS_FOR_PAIRS:
            raise BadDeclaration(
                f"Metric {metric.name!r} pairs rows by their labels. One row can affect many "
                "pairs, and their number is not known in advance, so method "
                f"{self._method.name!r} cannot keep its guarantee. Use `method='guess-and-check'`."
            )
        check_labels(metric, "heldout", self._labelled(self._heldout, "heldout").labels)

    def _ask(self, heldout: Any, guesses: Floats | None, metric: Metric) -> Outcomes:
        """Return the answers for all columns of ``heldout``, in one change of the stored state."""
        if self._method.needs_guess and guesses is None:
            raise BadDeclaration(
                f"Method {self._method.name!r} checks guesses. Pass the query's values on the "
                "training rows too, or `guess=`."
            )
        if isinstance(self._method, Splitting):
            return self._ask_split(self._method, heldout, metric)
        means = _means(HELDOUT_VALUES, heldout)
        flips = self._method.name == "ladder" and metric.is_loss
        batch = QueryBatch(1 - means if flips else means, guesses, len(heldout), metric.is_binary)
        outcomes = self._store.change(
            lambda progress: self._method.answer(check_not_spoiled(progress), batch, self._entropy)
        )
        return outcomes.flipped() if flips else outcomes

    def _ask_split(self, method: Splitting, heldout: Any, metric: Metric) -> Outcomes:
        """Return the answers of the method splitting, each from the query's own block of rows."""
        columns = heldout.reshape(len(heldout), -1)
        _means(HELDOUT_VALUES, heldout)

        def answer(progress: Progress) -> tuple[Progress, Outcomes]:
            first = check_not_spoiled(progress).queries
            size = min(columns.shape[1], check_left(method.left(progress)))
            parts = [columns[method.span(first + index), index] for index in range(size)]
            means = np.array([mean_of(HELDOUT_VALUES, part) for part in parts])
            batch = QueryBatch(means, None, len(columns), metric.is_binary)
            return method.answer(progress, batch, self._entropy)

        return self._store.change(answer)

    def _answer(self, guess: float | None, heldout: Any, metric: Metric) -> HoldoutAnswer:
        guesses = None if guess is None else np.array([guess])
        return first_answer(self._ask(heldout, guesses, metric), metric)

    def _values(self, query: tuple[Any, ...], metric: Metric) -> tuple[float | None, Any]:
        """Return the guess of a query, if it has one, and its values on the holdout's rows."""
        match query:
            case (phi,) if callable(phi):
                return self._call(phi, metric)
            case (heldout,):
                found = read_column(HELDOUT_VALUES, heldout, self._heldout.size)
                return None, metric.values(None, found)
            case (train, heldout):
                values = read_column(TRAIN_VALUES, train, self._train_size())
                found = read_column(HELDOUT_VALUES, heldout, self._heldout.size)
                guess = guess_of(TRAIN_VALUES, metric.values(None, values))
                return guess, metric.values(None, found)
            case _:
                raise BadDeclaration(
                    "`ask` takes a function, or the values on the training rows and on the heldout "
                    "rows."
                )

    def _call(self, phi: Query, metric: Metric) -> tuple[float | None, Any]:
        """Return the guess and the values of a function; it runs on the training rows first."""
        guess = None
        if self._train is not None:
            name = "The values of `phi` on the training rows"
            train = read_column(name, self._train.call(phi), self._train.size)
            guess = mean_of(name, metric.values(None, train))

        def values() -> Any:
            name = "The values of `phi` on the heldout rows"
            found = read_column(name, self._heldout.call(phi), self._heldout.size)
            scaled = metric.values(None, found)
            check_range(name, scaled)
            return scaled

        self._heldout.check_callable()
        return guess, self._guarded(values, "`phi`")

    def _guarded(self, work: Callable[[], Any], what: str) -> Any:
        """Return the result of ``work`` on the holdout's rows; if it fails, end the session.

        The error starts with ``what``, the name of the query, and hides all other details.
        """
        # Privacy: after a failure the session reads no row again, so it reveals only one failure.
        check_not_spoiled(self._store.read())
        try:
            return work()
        except Exception:  # noqa: BLE001 - any error message may quote rows
            # Privacy: failing here but not on the training rows reveals something about these rows
            # that no budget covers. So the session ends.
            self._store.change(lambda progress: (replace(progress, is_spoiled=True), None))
            raise BadDeclaration(
                f"{what} failed on the holdout's rows, and the details are hidden. Nothing was "
                "answered, and the session is over. Use a query that gives every row a value in "
                "[0, 1], even with missing values or with categories that the training rows do not "
                "have."
            ) from None

    def _train_size(self) -> int:
        if self._train is None:
            raise BadDeclaration(
                "This holdout was opened without training rows. Omit the training values."
            )
        return self._train.size

    def _labelled(self, rows: Rows | None, which: str) -> Rows:
        if rows is None or rows.labels is None:
            raise BadDeclaration(
                f"`{which}` has no labels. Open the holdout with pairs (X, y), or with DataFrames "
                "and `labels=`, the name of a column."
            )
        return rows

    def __repr__(self) -> str:
        return f"Holdout({self._heldout.size:,} rows, {self._method.name}; {self.left})"


def _means(name: str, values: Any) -> Floats:
    """Return the means of the columns of a matrix, or the mean of a single column."""
    return means_of(name, values) if values.ndim == 2 else np.array([mean_of(name, values)])


def _guess(metric: Metric, name: str, labels: Any, predictions: Any) -> float:
    """Return the mean of a metric over rows outside the holdout."""
    given = read_predictions(metric, name, predictions, len(labels))
    return guess_of(name, measure(metric, name, labels, given))


@dataclass(frozen=True, slots=True)
class BoardScore:
    """The best score on a board so far, by any submitter.

    ``is_better`` is whether the latest submission improved it by at least one level.
    """

    value: float
    interval: tuple[float, float]
    is_better: bool


class Leaderboard:
    """A leaderboard that scores submissions against hidden labels.

    It shows only the best score so far, rounded to one of a few levels. A submission that is not
    better reveals little about the labels, so a board can accept thousands. A submission's own
    score is never shown.

    Law:     `confide.holdout.baselines.Ladder` on the metric's mean over the labels.
    Claim:   with probability 1 - beta the score shown after each of ``submissions`` submissions is
             within tau of the true best so far, even if submissions depend on earlier scores.
    Why:     see `Ladder`; all submitters together act as one analyst.
    Source:  [BH15], docs/proofs/holdout.md.
    Checked: tests/holdout/test_leaderboard.py.

    >>> board = Leaderboard(np.tile([0, 1], 4_000), submissions=1_000)
    >>> board.submit(np.tile([0, 1], 4_000)).is_better
    True
    >>> print(board.left)
    999 queries and any number of overfits left
    """

    def __init__(
        self,
        labels: Any,
        *,
        metric: str | Metric = "accuracy",
        high: Number | None = None,
        submissions: int,
        tau: Number | None = None,
        beta: Number = 0.05,
        ledger: str | Path | None = None,
        name: str = "leaderboard",
    ) -> None:
        self.metric = metric_of(metric, high)
        marks = np.asarray(labels)
        if marks.ndim != 1:
            raise BadDeclaration(f"`labels` must have one entry per row; got shape {marks.shape}.")
        self._holdout = Holdout(
            None,
            (np.zeros((len(marks), 0)), marks),
            method="ladder",
            queries=submissions,
            tau=tau,
            beta=beta,
            ledger=ledger,
            name=name,
        )
        self._holdout.check_metric(self.metric)

    def submit(self, predictions: Any) -> BoardScore:
        """Return the best score after this submission.

        Raises:
            BadDeclaration: the predictions are malformed, and nothing changed; or the metric failed
                on the labels, which ends the board.
            BudgetExceeded: all submissions are used; nothing changed.
        """
        answer: HoldoutAnswer = self._holdout.score(None, predictions, self.metric)
        return BoardScore(answer.value, answer.interval, answer.overfit)

    @property
    def left(self) -> Left:
        """The remaining number of submissions."""
        return self._holdout.left

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the board: its theorem and numbers, or none."""
        return self._holdout.guarantee
