"""Sample sizes from counting the possible transcripts of a session.

Fix the random bits of the analyst and of the mechanism. Then the earlier answers determine the next
query. So the session is a tree: each *node* is a possible transcript of earlier answers, with one
query that is fixed before the rows are sampled. By a union bound, the intervals of all nodes
*cover* (contain the true means) jointly, and so do those on the path that the session takes. The
more nodes there are, or the longer the code of the transcript, the wider the intervals must be.

Each ``fits_...`` function returns whether ``rows`` rows guarantee that every answer is within tau
of the population with probability 1 - beta, or what its own claim states instead. It is monotone:
more rows never turn true into false.
"""

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Final

from confide.holdout.intervals import COMPARISON_SLACK, hoeffding_width

__all__ = [
    "ROUND_UP",
    "anytime_threshold",
    "choose_answer_cells",
    "choose_cells",
    "choose_levels",
    "false_alarm_threshold",
    "fits_anytime",
    "fits_bonferroni",
    "fits_coding",
    "fits_ladder",
    "fits_published_ladder",
    "fits_rounding",
    "fits_same_claim",
    "fits_splitting",
    "history_nats",
    "log_answers",
    "log_choose",
    "log_ladder",
    "log_nodes",
    "outcome_nats",
    "sampling_width",
    "step_nats",
    "value_nats",
]

ROUND_UP: Final = 1 + 1e-12
LOG_GAMMA_ERROR: Final = 2.0**-48
"""An upper bound of the error of three log-gammas, relative to the largest: they nearly cancel."""
MAX_CELLS: Final = 10**6
MAX_TERMS: Final = 4096


@lru_cache(maxsize=4096)
def log_nodes(queries: int, overfits: int, cells: int) -> float:
    """Return ln of the number N of nodes of a session that stops after ``overfits`` overfits.

    Law:     each query has one of cells + 1 outcomes: the guess is accepted, or the mean over the
             rows falls into one of ``cells`` cells.
    Claim:   N = sum over j < overfits of C(queries, j + 1) cells^j. If the interval of each fixed
             query misses with probability at most beta / N, all intervals of a session cover
             jointly with probability 1 - beta, even for adaptively chosen queries.
    Why:     before query i there are C(i - 1, j) cells^j transcripts with j overfits; summed over
             i <= queries, C(i - 1, j) gives C(queries, j + 1). Only the rows determine the path,
             and each node's query is fixed independently of them. By a union bound, the probability
             that the interval of any of the N nodes misses is at most N beta / N = beta.
    Source:  [DFHPRR15b] (description length), docs/proofs/holdout.md.
    Checked: tests/holdout/test_coding.py (count), tests/holdout/test_analysts.py (claim).

    >>> round(math.exp(log_nodes(queries=3, overfits=2, cells=5)))
    18
    """
    count = min(overfits, queries)
    if count > MAX_TERMS:
        # The terms are unimodal, so ``count`` times the largest term is an upper bound.
        top = min(count - 1, math.floor(queries * cells / (1 + cells)))
        near = range(max(0, top - 2), min(count, top + 3))
        return (math.log(count) + max(_term(queries, j, cells) for j in near)) * ROUND_UP
    return _log_sum([_term(queries, j, cells) for j in range(count)])


def log_answers(queries: int, cells: int) -> float:
    """Return ln of the number N of nodes if every answer is a cell and there are no guesses.

    Claim:   N = sum over i <= queries of cells^(i - 1).
    Why:     before query i there are cells^(i - 1) transcripts.
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_coding.py.
    """
    # N is (cells^queries - 1) / (cells - 1), or the number of queries if there is one cell.
    rest = -math.expm1(-queries * math.log(cells)) if cells > 1 else 1.0
    shrink = -math.log1p(-1 / cells) if cells > 1 else math.log(queries)
    return ((queries - 1) * math.log(cells) + shrink + math.log(rest)) * ROUND_UP


def log_ladder(queries: int, levels: int) -> float:
    """Return ln of the number N of nodes if each answer is the best level so far.

    Claim:   N = C(queries + levels - 1, levels).
    Why:     the best level never decreases. So the transcript before query i consists of the
             numbers of levels that the i - 1 earlier queries gained, at most levels - 1 in total:
             C(i - 1 + levels - 1, levels - 1) possibilities, which add up to N. For several
             separate boards, replace levels - 1 by its sum over the boards.
    Source:  [BH15] (a looser count), docs/proofs/holdout.md.
    Checked: tests/holdout/test_coding.py (count), tests/holdout/test_analysts.py (claim).
    """
    return log_choose(queries + levels - 1, levels) * ROUND_UP


def sampling_width(rows: int, log_count: float, beta: float) -> float:
    """Return w such that all nodes' means are within w of the truth with probability 1 - beta.

    ``log_count`` is ln of the number of nodes.
    """
    return hoeffding_width(rows, math.log(2 / beta) + log_count)


def choose_cells(
    rows: int, tau: float, beta: float, queries: int, overfits: int
) -> tuple[int, float] | None:
    """Return the fewest cells, and their w, with w + 1 / (2 cells) <= tau, or None.

    The w is that of `sampling_width`. None means that more than `MAX_CELLS` cells would be needed,
    or that no number of cells is enough.

    Why: more cells increase w, and a larger w requires more cells. Starting with few cells, compute
         w and then the cells that it requires, in turn. This converges to the smallest pair that
         satisfies the bound.
    """
    cells = math.ceil(1 / (2 * tau))
    while cells <= MAX_CELLS:
        width = sampling_width(rows, log_nodes(queries, overfits, cells), beta)
        if width >= tau:
            return None
        required = math.ceil(1 / (2 * (tau - width)) - COMPARISON_SLACK)
        if required <= cells:
            return cells, width
        cells = required
    return None


def step_nats(query: int, beta: float) -> float:
    """Return ln(1 / b_i) for the i-th query of an unlimited session.

    Claim: the b_i = beta / (i (i + 1)) add up to beta.
    """
    return math.log(query * (query + 1.0) / beta)


def outcome_nats(accepted: int, overfit: int, *, is_overfit: bool) -> float:
    """Return the code length of one more outcome, given the earlier count of each kind.

    Law:     the code gives an overfit the probability
             (overfit + 1/2) / (accepted + overfit + 1), and an accepted guess the rest.
    Claim:   the products of these along all transcripts of one length are a distribution.
    Why:     at each step the two probabilities sum to 1.
    Source:  [KT81].
    Checked: tests/holdout/test_coding.py.
    """
    same = overfit if is_overfit else accepted
    return math.log((accepted + overfit + 1) / (same + 0.5))


def history_nats(accepted: int, overfit: int) -> float:
    """Return the sum of `outcome_nats` over a transcript with these counts, in any order.

    Why: in every order, the product of the probabilities is
         G(accepted + 1/2) G(overfit + 1/2) / (pi G(accepted + overfit + 1)), with G the gamma
         function.
    """
    total = math.lgamma(accepted + overfit + 1) * (1 + LOG_GAMMA_ERROR) + math.log(math.pi)
    return (total - math.lgamma(accepted + 0.5) - math.lgamma(overfit + 0.5)) * ROUND_UP


def value_nats(distance: int, cells: int) -> float:
    """Return the code length of the cell that contains an overfit query's mean.

    Law:     the code length is -ln p(d) for the cell at distance d from the guess's cell, with
             p(d) = 1 / (2 cells) + 1 / (4 |d| (|d| + 1)) if d is not 0, and p(0) = 1 / (2 cells).
    Claim:   the p(d) of the ``cells`` possible cells sum to at most 1 (Kraft's inequality).
    Why:     the first terms sum to 1/2, the second terms to at most 2 * 1/4 * 1 = 1/2.
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_coding.py.
    """
    away = abs(distance)
    near = 1 / (4 * away * (away + 1)) if away else 0.0
    return -math.log(1 / (2 * cells) + near)


def log_choose(total: int, part: int) -> float:
    """Return an upper bound of ln C(total, part), up to an error that `ROUND_UP` covers."""
    if part > total or part < 0:
        return -math.inf
    small = min(part, total - part)
    if small <= 64:
        # For a small result, differences of log-gammas lose precision.
        return math.fsum(math.log((total - i) / (i + 1)) for i in range(small))
    largest = math.lgamma(total + 1)
    return largest * (1 + LOG_GAMMA_ERROR) - math.lgamma(part + 1) - math.lgamma(total - part + 1)


def _term(queries: int, overfits: int, cells: int) -> float:
    """Return ln of the number of nodes after exactly ``overfits`` overfits."""
    return log_choose(queries, overfits + 1) + overfits * math.log(cells)


def _log_sum(terms: list[float]) -> float:
    top = max(terms)
    return (top + math.log(math.fsum(math.exp(term - top) for term in terms))) * ROUND_UP


NORMAL: Final = NormalDist()
MAX_ANSWER_CELLS: Final = 4096


def false_alarm_threshold(rows: int, train_rows: int, queries: int, overfits: int) -> float:
    """Return the threshold that about ``overfits`` / 10 of the honest queries exceed by chance.

    A query is *honest* if it was chosen without looking at either set. Its means over the two sets
    differ by an approximately normal amount with variance at most (1 / rows + 1 / train_rows) / 4.
    No guarantee depends on the threshold: it only affects how many overfits honest queries use up.
    """
    probability = min(1.0, overfits / (10 * queries))
    deviation = math.sqrt(1 / rows + 1 / train_rows) / 2
    return -NORMAL.inv_cdf(probability / 2) * deviation if probability < 1 else 0.0


def fits_coding(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Return whether a session that stops after ``overfits`` overfits guarantees tau.

    Law:     the guess is accepted if the mean over the rows is within a threshold t of it.
             Otherwise the answer is the middle of the mean's cell, one of G cells.
    Claim:   every answer is within max(t, 1 / (2 G)) + w <= tau, with w from `log_nodes`. With a
             training set of the same size, t is large enough that honest queries cause about
             overfits / 10 overfits in expectation, or fewer.
    Why:     if all means are within w of the truth, an accepted guess is within t + w of it, and
             the middle of a cell is within 1 / (2 G) + w.
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_planning.py, tests/holdout/test_analysts.py.
    """
    found = choose_cells(rows, tau, beta, queries, overfits)
    if found is None:
        return False
    return found[1] + false_alarm_threshold(rows, rows, queries, overfits) <= tau


def fits_same_claim(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Return whether counting proves the claim of the published theorem on Thresholdout.

    Claim:   with threshold 3 tau / 4 every answer is within tau until ``overfits`` queries had a
             guess with an error above tau / 2.
    Why:     let t = 3 tau / 4 and w = tau / 4. An accepted guess is within t + w = tau, and the
             error of a rejected one is above t - w = tau / 2. So the session never charges more
             overfits than there were such guesses.
    Source:  [DFHPRR15b] for the claim, docs/proofs/holdout.md.
    Checked: tests/holdout/test_planning.py.
    """
    cells = math.ceil(1 / (1.5 * tau))
    width = sampling_width(rows, log_nodes(queries, overfits, cells), beta)
    return width <= tau / 4


def fits_anytime(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Return whether an unlimited session still guarantees tau at its ``queries``-th query.

    Claim:   the half-width of that query's interval is at most tau after at most ``overfits``
             overfits, in any order and with means in any cells.
    Why:     the code of `outcome_nats` gives every order of the same outcomes the same length, and
             the code of a cell is at most ln(2 G) long, for G cells. One more accepted query makes
             the code longer. Among t queries, one more overfit, the o-th, makes it longer while
             o - 1/2 <= 2 G (t - o + 1/2), and shorter after that. So the code is longest at the
             last such o, or at ``overfits`` if that is smaller.
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_planning.py.
    """
    threshold = anytime_threshold(rows, rows)
    cells = math.ceil(1 / threshold)
    nats = step_nats(queries, beta) + math.log(2)
    before = queries - 1
    turning_point = math.floor((2 * cells * (before + 0.5) + 0.5) / (2 * cells + 1))
    worst = min(overfits, before, turning_point)
    nats += history_nats(before - worst, worst) + worst * value_nats(0, cells)
    return threshold + hoeffding_width(rows, nats) <= tau


def anytime_threshold(rows: int, train_rows: int) -> float:
    """Return the threshold of an unlimited session; about 1 in 2,000 honest queries exceeds it."""
    return 1.75 * math.sqrt(1 / rows + 1 / train_rows)


def fits_rounding(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Return whether answers that are rounded to cells of [0, 1], without guesses, guarantee tau.

    Claim:   every answer is within 1 / (2 G) + w <= tau for some number of cells G, with w of
             `sampling_width`.
    Why:     `log_answers` counts the nodes.
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_planning.py, tests/holdout/test_analysts.py.
    """
    del overfits
    return choose_answer_cells(rows, tau, beta, queries) is not None


def choose_answer_cells(rows: int, tau: float, beta: float, queries: int) -> int | None:
    """Return the fewest cells, up to a maximum, with which rounding guarantees tau, or None."""
    cells = max(2, math.ceil(1 / (2 * tau)))
    while cells <= MAX_ANSWER_CELLS:
        width = sampling_width(rows, log_answers(queries, cells), beta)
        if width >= tau:
            return None
        required = math.ceil(1 / (2 * (tau - width)) - COMPARISON_SLACK)
        if required <= cells:
            return cells
        cells = required
    return None


def fits_splitting(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Return whether fresh rows for every query guarantee tau.

    Claim:   every answer is within tau, with rows // queries rows for each query.
    Why:     no query depends on the rows that answer it, so Hoeffding's bound applies, with failure
             probability beta / queries for each query.
    Source:  [Hoe63].
    Checked: tests/holdout/test_planning.py.
    """
    del overfits
    each = rows // queries
    return each > 0 and hoeffding_width(each, math.log(2 * queries / beta)) <= tau


def fits_bonferroni(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Return whether exact answers guarantee tau if no query depends on an answer.

    No method can guarantee more for adaptively chosen queries.

    Claim:   every mean is within tau of the truth if no query depends on an answer.
    Why:     Hoeffding's bound, with failure probability beta / queries for each query.
    Source:  [Hoe63].
    Checked: tests/holdout/test_planning.py.
    """
    del overfits
    return hoeffding_width(rows, math.log(2 * queries / beta)) <= tau


def fits_ladder(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Return whether a board that shows the best score so far guarantees tau.

    Law:     the board shows the middle of the cell of the largest mean so far, one of G cells.
    Claim:   the value shown is within 1 / (2 G) + w <= tau of the best true mean so far.
    Why:     `log_ladder` counts the nodes. If each of several means is within w of its true mean,
             the largest mean is within w of the largest true mean.
    Source:  [BH15], docs/proofs/holdout.md.
    Checked: tests/holdout/test_planning.py, tests/holdout/test_analysts.py.
    """
    del overfits
    return choose_levels(rows, tau, beta, queries) is not None


def choose_levels(rows: int, tau: float, beta: float, queries: int, teams: int = 1) -> int | None:
    """Return the fewest levels, up to a maximum, with which a board guarantees tau, or None.

    ``teams`` is the number of separate boards, one per team, on the same rows.
    """
    levels = max(2, math.ceil(1 / (2 * tau)))
    while levels <= MAX_ANSWER_CELLS:
        width = sampling_width(rows, log_ladder(queries, teams * (levels - 1) + 1), beta)
        if width >= tau:
            return None
        required = math.ceil(1 / (2 * (tau - width)) - COMPARISON_SLACK)
        if required <= levels:
            return levels
        levels = required
    return None


def fits_published_ladder(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Return whether the published bound of the Ladder guarantees tau with the best step.

    Claim:   exp(-2 e^2 rows + (1 / s + 2) ln(4 queries / s) + 1) <= beta for a step s, e = tau - s.
    Why:     the theorem in the source, with e its epsilon and s its eta.
    Source:  [BH15].
    Checked: tests/holdout/test_planning.py.
    """
    del overfits

    def log_probability(step: float) -> float:
        count = (1 / step + 2) * math.log(4 * queries / step) + 1
        return count - 2 * (tau - step) ** 2 * rows

    return min(log_probability(tau * i / 64) for i in range(1, 64)) <= math.log(beta)
