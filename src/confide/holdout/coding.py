"""The methods coding and guess-and-check, which compare guesses with the rows, without noise.

If a guess is wrong, its query is an *overfit*, and the answer is a coarse version of the mean over
the rows.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from confide.errors import BadDeclaration
from confide.holdout.coding_bounds import (
    anytime_threshold,
    choose_cells,
    false_alarm_threshold,
    log_nodes,
    outcome_nats,
    sampling_width,
    value_nats,
)
from confide.holdout.protocol import (
    Guarantee,
    Left,
    Outcomes,
    Progress,
    QueryBatch,
    StoredTerms,
    check_left,
    check_rows,
    log_two_over,
    middle_of,
    state_guarantee,
)
from confide.holdout.values import Booleans, Floats
from confide.noise import Entropy

__all__ = ["Coding", "GuessAndCheck"]

PROOF: Final = "docs/proofs/holdout.md"


@dataclass(frozen=True, slots=True)
class Coding(StoredTerms):
    """Answers with the guess if it is accurate, otherwise with the cell of the mean.

    ``wanted`` is the requested tau, if any.

    Law:     if the mean over the rows is within ``threshold`` of the guess, the answer is the
             guess. Otherwise the query is an overfit, and the answer is the middle of the mean's
             cell, one of ``cells`` equal cells of [0, 1]. The session ends after ``overfits``
             overfits or ``queries`` queries.
    Claim:   with probability 1 - beta every answer is within max(threshold, 1 / (2 cells)) + w of
             the population, with w of `sampling_width`, and every interval contains the
             population's mean, even for adaptively chosen queries.
    Why:     a node is a transcript after which a query can be asked; see `coding_bounds`.
             `log_nodes` counts the nodes, and each gets beta divided by their number. An interval
             is a function of the outcome, so showing it adds no node.
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_holdout.py, tests/holdout/test_analysts.py.
    """

    rows: int
    beta: float
    queries: int
    overfits: int
    threshold: float
    cells: int
    wanted: float | None = None

    name = "coding"
    needs_guess = True
    loss = None

    @classmethod
    def of(
        cls,
        rows: int,
        train_rows: int,
        beta: float,
        queries: int,
        overfits: int,
        *,
        tau: float | None = None,
        threshold: float | None = None,
    ) -> "Coding":
        """Return the session with the given threshold, or with the largest that guarantees tau.

        Without either, or if no threshold guarantees tau, return about the smallest tau.
        """
        if threshold is not None:
            cells = max(2, math.ceil(1 / (2 * threshold)))
            return cls(rows, beta, queries, overfits, threshold, cells, tau)
        found = choose_cells(rows, tau, beta, queries, overfits) if tau is not None else None
        if found is not None and tau is not None:
            return cls(rows, beta, queries, overfits, tau - found[1], found[0], tau)
        least = max(false_alarm_threshold(rows, train_rows, queries, overfits), 0.5 / rows)
        most = max(2, math.ceil(1 / (2 * least)))
        tried = (
            cls(rows, beta, queries, overfits, max(least, 1 / (2 * cells)), cells, tau)
            for cells in sorted({math.ceil(most ** (i / 32)) for i in range(1, 33)} | {2})
        )
        return min(tried, key=lambda session: session.tau)

    @property
    def nats(self) -> float:
        """The level of every interval for each side, in nats; see `intervals`."""
        return log_two_over(self.beta) + log_nodes(self.queries, self.overfits, self.cells)

    @property
    def tau(self) -> float:
        """The accuracy bound of every answer."""
        count = log_nodes(self.queries, self.overfits, self.cells)
        return max(self.threshold, 1 / (2 * self.cells)) + sampling_width(
            self.rows, count, self.beta
        )

    def left(self, progress: Progress) -> Left:
        return Left(self.queries - progress.queries, self.overfits - progress.overfits)

    def answer(
        self, progress: Progress, batch: QueryBatch, entropy: Entropy
    ) -> tuple[Progress, Outcomes]:
        del entropy
        check_rows(self.name, self.rows, batch)
        left = self.left(progress)
        batch = batch.first(check_left(left))
        over = np.abs(batch.means - _guesses(batch)) > self.threshold
        # The session ends with its last overfit, so later queries get no answer.
        count = len(over)
        if over.any():
            last = np.flatnonzero(np.cumsum(over) == left.overfits)
            count = count if not len(last) else int(last[0]) + 1
        batch, over = batch.first(count), over[:count]
        outcomes = _compare(batch, over, self.threshold, self.cells, np.full(count, self.nats))
        return (
            replace(
                progress,
                queries=progress.queries + count,
                overfits=progress.overfits + int(over.sum()),
            ),
            outcomes,
        )

    def guarantee(self) -> Guarantee:
        until = f"until {self.overfits:,} overfit{'' if self.overfits == 1 else 's'}"
        extent = f"for {self.queries:,} queries {until}, n = {self.rows:,}"
        return state_guarantee(self, "every answer", extent, PROOF)


@dataclass(frozen=True, slots=True)
class GuessAndCheck(StoredTerms):
    """Checks guesses without a limit; intervals widen with the length of the transcript's code.

    Law:     as `Coding`, without limits. The interval of query i misses with probability at most
             beta / (i (i + 1)) times the probability that the code assigns to the transcript
             before query i. The code consists of `outcome_nats` and `value_nats`.
    Claim:   with probability 1 - beta every interval of the unlimited session contains the
             population's mean, even for adaptively chosen queries.
    Why:     the code gives the transcripts of one length probabilities that sum to at most 1, and
             the factors beta / (i (i + 1)) sum to beta. The claim is a union bound over all nodes.
             A metric of pairs also reveals the number of pairs, which is coded with probability
             1 / (rows // 2 + 1).
    Source:  [RRSSTW20] for guess and check, [KT81] for the code, docs/proofs/holdout.md.
    Checked: tests/holdout/test_holdout.py, tests/holdout/test_analysts.py.
    """

    rows: int
    beta: float
    threshold: float

    name = "guess-and-check"
    needs_guess = True
    loss = None

    @classmethod
    def of(
        cls, rows: int, train_rows: int, beta: float, threshold: float | None
    ) -> "GuessAndCheck":
        """Return the session, by default with a threshold that honest queries rarely exceed."""
        return cls(rows, beta, threshold or min(anytime_threshold(rows, train_rows), 0.5))

    @property
    def cells(self) -> int:
        """The number of cells, each at most ``threshold`` wide.

        So the mean of an overfit is in another cell than its guess.
        """
        return math.ceil(1 / self.threshold)

    def left(self, progress: Progress) -> Left:
        del progress
        return Left(None, None)

    def answer(
        self, progress: Progress, batch: QueryBatch, entropy: Entropy
    ) -> tuple[Progress, Outcomes]:
        del entropy
        guesses = _guesses(batch)
        over = np.abs(batch.means - guesses) > self.threshold
        spent = self._lengths(progress, batch.means, guesses, over)
        if batch.rows != self.rows:
            # The number of pairs is revealed too. The code gives each number from 0 to rows // 2
            # the same probability.
            spent += math.log(self.rows // 2 + 1)
        before = progress.nats + np.concatenate([[0.0], np.cumsum(spent)])
        number = progress.queries + 1 + np.arange(len(over), dtype=np.float64)
        nats = before[:-1] + np.log(number * (number + 1)) + log_two_over(self.beta)
        outcomes = _compare(batch, over, self.threshold, self.cells, nats)
        return (
            replace(
                progress,
                queries=progress.queries + len(over),
                overfits=progress.overfits + int(over.sum()),
                nats=float(before[-1]),
            ),
            outcomes,
        )

    def _lengths(
        self, progress: Progress, means: Floats, guesses: Floats, over: Booleans
    ) -> Floats:
        """Return the code length of each outcome in nats; ``over`` is a mask of the overfits."""
        overfit, accepted = progress.overfits, progress.queries - progress.overfits
        distance = middle_of(means, self.cells)[0] - middle_of(guesses, self.cells)[0]
        lengths = np.empty(len(over))
        for index, is_over in enumerate(over.tolist()):
            lengths[index] = outcome_nats(accepted, overfit, is_overfit=is_over)
            if is_over:
                lengths[index] += value_nats(int(distance[index]), self.cells)
            overfit, accepted = overfit + is_over, accepted + (not is_over)
        return lengths

    def guarantee(self) -> Guarantee:
        claim = (
            f"every interval contains the population's mean with probability {1 - self.beta:.4g}, "
            f"for any number of queries, n = {self.rows:,}"
        )
        return Guarantee(
            holds=True, tau=None, beta=self.beta, n=self.rows, claim=claim, source=PROOF
        )


def _guesses(batch: QueryBatch) -> Floats:
    if batch.guesses is None:
        raise BadDeclaration(
            "This method checks guesses. Pass the values on the training rows too, or `guess=`."
        )
    return batch.guesses


def _compare(
    batch: QueryBatch, over: Booleans, threshold: float, cells: int, nats: Floats
) -> Outcomes:
    """Return the answers: the guess, or the mean's cell where the mask ``over`` is true."""
    guesses = _guesses(batch)
    if not over.any():
        low, high = guesses - threshold, guesses + threshold
        return Outcomes(guesses, over, low, high, nats, batch.rows, batch.is_binary)
    index, middle = middle_of(batch.means, cells)
    return Outcomes(
        np.where(over, middle, guesses),
        over,
        np.where(over, index / cells, guesses - threshold),
        np.where(over, (index + 1) / cells, guesses + threshold),
        nats,
        batch.rows,
        batch.is_binary,
    )
