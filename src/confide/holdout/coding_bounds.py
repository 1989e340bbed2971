"""Sample sizes by counting transcripts.

Fix the analyst's coins and the mechanism's own. Then what was told so far decides the next query:
the session is a tree, and each of its nodes holds one query that is fixed before the rows are
drawn. A union bound over the nodes makes the intervals of all of them hold at once, and so those
on the one path that is walked. What must be paid for is the number of nodes, or the length of a
code for the transcript.

Each function tells whether ``rows`` rows keep every answer within tau of the population with
probability 1 - beta; more rows never do worse.
"""

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Final

from confide.holdout.intervals import SPARE, hoeffding_width

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
LOOSENESS: Final = 2.0**-48
"""More than the error of three log-gammas, as a part of the largest: they nearly cancel."""
LARGEST_CELLS: Final = 10**6
MOST_TERMS: Final = 4096


@lru_cache(maxsize=4096)
def log_nodes(queries: int, overfits: int, cells: int) -> float:
    """Return ln of the number of nodes of a session that stops after ``overfits`` overfits.

    Law:     each query has one of cells + 1 outcomes: the guess stands, or it does not and the
             mean over the rows falls into one of ``cells`` cells.
    Claim:   N = sum over j < overfits of C(queries, j + 1) cells^j; if each fixed query has an
             interval that misses with probability at most beta / N, all intervals of a session
             hold together with probability 1 - beta, however its queries are chosen.
    Why:     before query i there are C(i - 1, j) cells^j transcripts with j overfits; summed over
             i <= queries, C(i - 1, j) gives C(queries, j + 1). Only the rows decide which path is
             walked, each node's query is fixed without them, and N nodes miss with probability at
             most N beta / N together.
    Source:  [DFHPRR15b] (description length), docs/proofs/holdout.md.
    Checked: tests/holdout/test_coding.py (count), tests/holdout/test_analysts.py (claim).

    >>> round(math.exp(log_nodes(queries=3, overfits=2, cells=5)))
    18
    """
    most = min(overfits, queries)
    if most > MOST_TERMS:
        # The terms grow up to one place and fall from there: all are at most the one at the place.
        top = min(most - 1, math.floor(queries * cells / (1 + cells)))
        near = range(max(0, top - 2), min(most, top + 3))
        return (math.log(most) + max(_term(queries, j, cells) for j in near)) * ROUND_UP
    return _log_sum([_term(queries, j, cells) for j in range(most)])


def log_answers(queries: int, cells: int) -> float:
    """Return ln of the number of nodes where every answer is a cell and nothing is guessed.

    Claim:   N = sum over i <= queries of cells^(i - 1).
    Why:     before query i there are cells^(i - 1) transcripts.
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_coding.py.
    """
    rest = -math.expm1(-queries * math.log(cells)) if cells > 1 else 1.0
    shrink = -math.log1p(-1 / cells) if cells > 1 else math.log(queries)
    return ((queries - 1) * math.log(cells) + shrink + math.log(rest)) * ROUND_UP


def log_ladder(queries: int, levels: int) -> float:
    """Return ln of the number of nodes where only the best so far is told, as one of ``levels``.

    Claim:   N = C(queries + levels - 1, levels).
    Why:     the best never falls, so the transcript before query i is how many levels each query
             gained, in all at most levels - 1: C(i - 1 + levels - 1, levels - 1) ways; these sum
             up to N. With several boards that are told apart, ``levels`` - 1 is the sum over them.
    Source:  [BH15] (a looser count), docs/proofs/holdout.md.
    Checked: tests/holdout/test_coding.py (count), tests/holdout/test_analysts.py (claim).
    """
    return log_choose(queries + levels - 1, levels) * ROUND_UP


def sampling_width(rows: int, log_count: float, beta: float) -> float:
    """Return w such that with probability 1 - beta every node's mean is within w of the truth."""
    return hoeffding_width(rows, math.log(2 / beta) + log_count)


def choose_cells(
    rows: int, tau: float, beta: float, queries: int, overfits: int
) -> tuple[int, float] | None:
    """Return the fewest cells, and the width w, with w + 1 / (2 cells) <= tau; else nothing.

    Why: more cells make w larger, and a larger w asks for more cells; the least pair that fits is
         reached from below by taking turns.
    """
    cells = math.ceil(1 / (2 * tau))
    while cells <= LARGEST_CELLS:
        width = sampling_width(rows, log_nodes(queries, overfits, cells), beta)
        if width >= tau:
            return None
        wanted = math.ceil(1 / (2 * (tau - width)) - SPARE)
        if wanted <= cells:
            return cells, width
        cells = wanted
    return None


def step_nats(query: int, beta: float) -> float:
    """Return ln(1 / b_i) for the i-th query of a session without end.

    Claim: b_i = beta / (i (i + 1)) sum up to beta.
    """
    return math.log(query * (query + 1.0) / beta)


def outcome_nats(stood: int, overfit: int, *, is_overfit: bool) -> float:
    """Return the code length of one more "stands" or "overfit", after so many of each.

    Law:     P(next is overfit) = (overfit + 1/2) / (stood + overfit + 1).
    Claim:   the product of these along any transcript is a probability of that transcript.
    Why:     at each step the two chances sum to 1.
    Source:  [KT81].
    Checked: tests/holdout/test_coding.py.
    """
    seen = overfit if is_overfit else stood
    return math.log((stood + overfit + 1) / (seen + 0.5))


def history_nats(stood: int, overfit: int) -> float:
    """Return the sum of `outcome_nats` over a transcript with so many of each, in any order.

    Why: the product of the chances is G(stood + 1/2) G(overfit + 1/2) / (pi G(total + 1)), with G
         the gamma function, whatever the order.
    """
    total = math.lgamma(stood + overfit + 1) * (1 + LOOSENESS) + math.log(math.pi)
    return (total - math.lgamma(stood + 0.5) - math.lgamma(overfit + 0.5)) * ROUND_UP


def value_nats(distance: int, cells: int) -> float:
    """Return the code length of the cell that an overfit query's mean fell into.

    Law:     p(d) = 1 / (2 cells) + 1 / (4 |d| (|d| + 1)) for the cell d away from the guess's own,
             d not 0; p(0) = 1 / (2 cells).
    Claim:   the lengths satisfy Kraft's inequality over the ``cells`` possible cells.
    Why:     the first parts sum to 1/2, the second to at most 2 * 1/4 * 1 = 1/2.
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_coding.py.
    """
    away = abs(distance)
    near = 1 / (4 * away * (away + 1)) if away else 0.0
    return -math.log(1 / (2 * cells) + near)


def log_choose(total: int, part: int) -> float:
    """Return ln C(total, part), or a little more."""
    if part > total or part < 0:
        return -math.inf
    small = min(part, total - part)
    if small <= 64:
        # Differences of log-gammas lose digits where the result is small.
        return math.fsum(math.log((total - i) / (i + 1)) for i in range(small))
    most = math.lgamma(total + 1)
    return most * (1 + LOOSENESS) - math.lgamma(part + 1) - math.lgamma(total - part + 1)


def _term(queries: int, overfits: int, cells: int) -> float:
    return log_choose(queries, overfits + 1) + overfits * math.log(cells)


def _log_sum(terms: list[float]) -> float:
    top = max(terms)
    return (top + math.log(math.fsum(math.exp(term - top) for term in terms))) * ROUND_UP


NORMAL: Final = NormalDist()
MOST_CELLS: Final = 4096


def false_alarm_threshold(rows: int, train_rows: int, queries: int, overfits: int) -> float:
    """Return the threshold that about a tenth of ``overfits`` honest queries pass by chance.

    Only the budget's worth depends on it, no guarantee: an honest query's means over both sets
    differ by about a normal number of variance (1 / rows + 1 / train_rows) / 4 at most.
    """
    chance = min(1.0, overfits / (10 * queries))
    deviation = math.sqrt(1 / rows + 1 / train_rows) / 2
    return -NORMAL.inv_cdf(chance / 2) * deviation if chance < 1 else 0.0


def fits_coding(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Tell whether a session that stops after ``overfits`` overfits keeps tau.

    Law:     the guess stands while the mean over the rows is within a threshold t of it; otherwise
             the answer is the middle of the mean's cell, one of G.
    Claim:   every answer within max(t, 1 / (2 G)) + w <= tau, w of `log_nodes`; t is large enough
             that at most overfits / 10 charges are expected of honest queries, with a training
             set of the same size.
    Why:     where all means are within w of the truth, a standing guess is within t + w and the
             middle of a cell within 1 / (2 G) + w.
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_planning.py, tests/holdout/test_analysts.py.
    """
    found = choose_cells(rows, tau, beta, queries, overfits)
    if found is None:
        return False
    return found[1] + false_alarm_threshold(rows, rows, queries, overfits) <= tau


def fits_same_claim(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Tell whether the claim of the published theorem on Thresholdout holds by counting.

    Claim:   with threshold 3 tau / 4 every answer is within tau until ``overfits`` queries had a
             guess that was off by more than tau / 2.
    Why:     with w = tau / 4 a guess that stands is within t + w = tau, and one that does not is
             off by more than t - w = tau / 2; so no more overfits are charged than there were.
    Source:  [DFHPRR15b] for the claim, docs/proofs/holdout.md.
    Checked: tests/holdout/test_planning.py.
    """
    cells = math.ceil(1 / (1.5 * tau))
    width = sampling_width(rows, log_nodes(queries, overfits, cells), beta)
    return width <= tau / 4


def fits_anytime(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Tell whether an endless session still keeps tau at query ``queries`` after ``overfits``.

    Claim:   the interval of the last of so many queries, after at most so many overfits in
             whatever order and into whatever cells, is no wider than tau to each side.
    Why:     the code of `outcome_nats` gives every order of the same outcomes the same length, and
             no cell is longer than ln(2 G). One more query that stands makes it longer; of t
             queries one more overfit, the o-th, does so while o - 1/2 <= 2 G (t - o + 1/2), and
             from there on shorter: so the longest is at the last such o, if that many may be.
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_planning.py.
    """
    threshold = anytime_threshold(rows, rows)
    cells = math.ceil(1 / threshold)
    nats = step_nats(queries, beta) + math.log(2)
    before = queries - 1
    longest = math.floor((2 * cells * (before + 0.5) + 0.5) / (2 * cells + 1))
    marked = min(overfits, before, longest)
    nats += history_nats(before - marked, marked) + marked * value_nats(0, cells)
    return threshold + hoeffding_width(rows, nats) <= tau


def anytime_threshold(rows: int, train_rows: int) -> float:
    """Return the threshold of an endless session: an honest query passes it once in 2,000."""
    return 1.75 * math.sqrt(1 / rows + 1 / train_rows)


def fits_rounding(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Tell whether answers that are cells of [0, 1], without any guess, keep tau.

    Claim:   every answer within 1 / (2 G) + w <= tau for some number of cells G.
    Why:     `log_answers` counts the nodes.
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_planning.py, tests/holdout/test_analysts.py.
    """
    del overfits
    return choose_answer_cells(rows, tau, beta, queries) is not None


def choose_answer_cells(rows: int, tau: float, beta: float, queries: int) -> int | None:
    """Return the fewest cells whose rounding keeps tau, if any do."""
    cells = max(2, math.ceil(1 / (2 * tau)))
    while cells <= MOST_CELLS:
        width = sampling_width(rows, log_answers(queries, cells), beta)
        if width >= tau:
            return None
        wanted = math.ceil(1 / (2 * (tau - width)) - SPARE)
        if wanted <= cells:
            return cells
        cells = wanted
    return None


def fits_splitting(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Tell whether fresh rows for every query keep tau.

    Claim:   every answer within tau, with rows // queries rows for each.
    Why:     no query has seen the rows that answer it; Hoeffding at beta / queries each.
    Source:  [Hoe63].
    Checked: tests/holdout/test_planning.py.
    """
    del overfits
    each = rows // queries
    return each > 0 and hoeffding_width(each, math.log(2 * queries / beta)) <= tau


def fits_bonferroni(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Tell whether queries fixed beforehand, all of them, keep tau: the floor below all others.

    Claim:   every mean within tau when no query depends on an answer.
    Why:     Hoeffding at beta / queries each.
    Source:  [Hoe63].
    Checked: tests/holdout/test_planning.py.
    """
    del overfits
    return hoeffding_width(rows, math.log(2 * queries / beta)) <= tau


def fits_ladder(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Tell whether a board that shows the best score so far keeps tau.

    Law:     the greatest mean so far is shown as the middle of its cell, one of G.
    Claim:   what is shown is within 1 / (2 G) + w <= tau of the best true mean so far.
    Why:     `log_ladder` counts the nodes; the greatest of several means is as near the greatest of
             the truths as the worst of them is to its own.
    Source:  [BH15], docs/proofs/holdout.md.
    Checked: tests/holdout/test_planning.py, tests/holdout/test_analysts.py.
    """
    del overfits
    return choose_levels(rows, tau, beta, queries) is not None


def choose_levels(rows: int, tau: float, beta: float, queries: int, teams: int = 1) -> int | None:
    """Return the fewest levels of a board that keep tau, if any do."""
    levels = max(2, math.ceil(1 / (2 * tau)))
    while levels <= MOST_CELLS:
        width = sampling_width(rows, log_ladder(queries, teams * (levels - 1) + 1), beta)
        if width >= tau:
            return None
        wanted = math.ceil(1 / (2 * (tau - width)) - SPARE)
        if wanted <= levels:
            return levels
        levels = wanted
    return None


def fits_published_ladder(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Tell whether the published bound of the Ladder keeps tau, for the best step.

    Claim:   exp(-2 e^2 rows + (1 / s + 2) ln(4 queries / s) + 1) <= beta for a step s, e = tau - s.
    Why:     the theorem there, with e its epsilon and s its eta.
    Source:  [BH15].
    Checked: tests/holdout/test_planning.py.
    """
    del overfits

    def chance(step: float) -> float:
        count = (1 / step + 2) * math.log(4 * queries / step) + 1
        return count - 2 * (tau - step) ** 2 * rows

    return min(chance(tau * i / 64) for i in range(1, 64)) <= math.log(beta)
