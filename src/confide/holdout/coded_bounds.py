"""How many rows a session needs when its answers are few enough to be counted.

Each function tells whether ``rows`` rows keep every answer within tau of the population with
probability 1 - beta; more rows never do worse.
"""

import math
from statistics import NormalDist
from typing import Final

from confide.holdout.coding import (
    choose_cells,
    history_nats,
    log_answers,
    log_ladder,
    log_nodes,
    sampling_width,
    step_nats,
    value_nats,
)
from confide.holdout.intervals import SPARE, hoeffding_width

__all__ = [
    "anytime_threshold",
    "choose_answer_cells",
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
]

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
