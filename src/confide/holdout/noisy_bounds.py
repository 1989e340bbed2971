"""Sample sizes for methods that add noise to their answers, by many theorems.

Each ``fits_...`` function returns whether ``rows`` rows guarantee that every answer is within tau
of the population with probability 1 - beta, or what its own claim states instead. Each function
optimizes the free parameters of its theorem. The planner of sessions compares all of them.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Final

from confide.holdout.coding_bounds import ROUND_UP, log_nodes, sampling_width
from confide.holdout.values import MAX_ROWS, MEAN_ERROR, STEPS_PER_SENSITIVITY, sensitivity
from confide.loss.transfer import (
    approximate_transfer,
    gaussian_transfer,
    log_pure_transfer,
    max_information_transfer,
    pure_transfer_published,
    sessions_to_try,
)

__all__ = [
    "best_gaussian",
    "fits_approximate",
    "fits_gaussian",
    "fits_max_information",
    "fits_monitor",
    "fits_posterior",
    "fits_private",
    "fits_published_pure",
    "fits_pure",
    "fits_theorem",
    "gaussian_width",
    "theorem_sigma",
    "thresholdout_margins",
]

NORMAL: Final = NormalDist()
SPLITS: Final = (0.5, 0.8, 0.85, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99)
TAU_FRACTIONS: Final = tuple(i / 64 for i in range(1, 64))
GOLDEN_SECTION: Final = (math.sqrt(5) - 1) / 2


def theorem_sigma(tau: float, beta: float, queries: int) -> float:
    """Return the noise scale that the published theorem on Thresholdout requires."""
    return tau / (96 * math.log(4 * queries / beta))


def fits_theorem(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Return whether the published theorem on Thresholdout applies to ``rows`` rows.

    Law:     threshold 3 tau / 4, noise of `theorem_sigma`, at most ``overfits`` overfits.
    Claim:   every answer is within tau until ``overfits`` queries had a guess with an error above
             tau / 2.
    Why:     the theorem in the source. The session is so private that a chosen query's mean is
             within tau / 8 of the truth except with probability beta / (2 queries), by the transfer
             theorem for pure or for approximate privacy, whichever needs fewer rows.
    Source:  [DFHPRR15b]; the second term of the minimum follows from their lemmas.
    Checked: tests/holdout/test_planning.py.
    """
    sigma, error, failure = theorem_sigma(tau, beta, queries), tau / 8, beta / (2 * queries)
    pure = max(2 * overfits / (sigma * error), math.log(6 / failure) / error**2)
    epsilon, log_delta, min_rows = approximate_transfer(error, failure)
    approximate = math.sqrt(32 * overfits * (math.log(2) - log_delta)) / (sigma * epsilon)
    return rows >= min(pure, max(approximate, min_rows))


def thresholdout_margins(
    rows: int,
    beta: float,
    queries: int,
    overfits: int,
    *,
    sigma: float,
    cells: int,
) -> tuple[float, float, float]:
    """Return (accepted, overfit, nats): error bounds of Thresholdout for the mean over the rows.

    Law:     threshold noise of scale 2 sigma, fresh noise of scale 4 sigma for each comparison,
             answers with noise of scale sigma, rounded to the middle of one of ``cells`` cells.
    Claim:   with probability at least 1 - beta / 2, every accepted guess is within
             threshold + accepted of the mean over the rows, and every overfit answer within
             ``overfit``. If intervals of fixed queries miss with probability exp(-nats) on each
             side, those of the session cover jointly with probability at least 1 - beta / 2.
    Why:     P(|Z| > k) <= exp(-k / b) for discrete Laplace noise of scale b. So the noise exceeds
             its bounds with total probability at most beta / 8 (the thresholds), beta / 8 (the
             comparisons) and beta / 4 (the answers). Noise does not depend on the rows, so for
             fixed noise the session is a tree whose nodes `log_nodes` counts.
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_thresholdout.py, tests/holdout/test_analysts.py.
    """
    step = float(sensitivity(rows))
    accepted = 2 * sigma * math.log(8 * overfits / beta) + 4 * sigma * math.log(8 * queries / beta)
    overfit = sigma * math.log(4 * overfits / beta) + 1 / (2 * cells)
    nats = math.log(4 / beta) + log_nodes(queries, overfits, cells)
    return accepted + step, overfit + step, nats


def fits_private(
    rows: int, tau: float, beta: float, queries: int, overfits: int, *, epsilon: Fraction
) -> bool:
    """Return whether Thresholdout guarantees tau if the whole session is ``epsilon``-DP.

    Claim:   every answer is within tau of the population, and the session is epsilon-DP.
    Why:     with sigma = 2 overfits s / epsilon, where s is the sensitivity of a mean, the session
             is epsilon-DP. `thresholdout_margins` bounds the errors, for a threshold that about
             ``overfits`` / 10 honest queries exceed by chance.
    Source:  [DFHPRR15b] for the mechanism, docs/proofs/holdout.md.
    Checked: tests/holdout/test_planning.py.
    """
    sigma = float(2 * overfits * sensitivity(rows) / epsilon)
    cells = max(2, math.ceil(1 / (2 * sigma))) if sigma < 1 else 2
    accepted, overfit, _ = thresholdout_margins(
        rows, beta, queries, overfits, sigma=sigma, cells=min(cells, 10**6)
    )
    width = sampling_width(rows, log_nodes(queries, overfits, min(cells, 10**6)), beta / 2)
    tail = min(0.5, overfits / (20 * queries))
    honest = -NORMAL.inv_cdf(tail) * math.sqrt(0.5 / rows + 40 * sigma**2)
    return max(honest + accepted, overfit) + width <= tau


def fits_gaussian(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Return whether normal noise guarantees tau, by the mutual information of the answers.

    Claim:   every answer is within tau for the best standard deviation and split of beta.
    Why:     `gaussian_width`.
    Source:  [RRSSTW20].
    Checked: tests/holdout/test_planning.py, tests/holdout/test_analysts.py.
    """
    del overfits
    return best_gaussian(rows, beta, queries)[0] <= tau


@lru_cache(maxsize=256)
def best_gaussian(rows: int, beta: float, queries: int) -> tuple[float, float, float]:
    """Return the smallest tau of normal noise, its standard deviation, and the split of beta.

    The split is that of `gaussian_transfer`.
    """
    return min(
        (
            *_minimize(
                lambda sigma, split=split: gaussian_width(  # type: ignore[misc]
                    rows, beta, queries, sigma=sigma, split=split
                ),
                1e-6,
                1.0,
            ),
            split,
        )
        for split in SPLITS
    )


def gaussian_width(rows: int, beta: float, queries: int, *, sigma: float, split: float) -> float:
    """Return tau for means of floats on a grid with rounded normal noise.

    Law:     a mean is computed within MEAN_ERROR and rounded to a grid with STEPS_PER_SENSITIVITY
             steps per sensitivity s. Then normal noise with standard deviation sigma is added,
             rounded to the same grid.
    Claim:   with probability 1 - beta every answer is within tau of the population.
    Why:     one row changes the rounded mean by at most s instead of 1 / rows. So the answers
             reveal no more than exact means with noise that is smaller by a factor of rows s, to
             which `gaussian_transfer` applies. Its result is scaled back by the same factor. Two
             roundings of half a step each and MEAN_ERROR are added.
    Source:  [RRSSTW20], docs/proofs/holdout.md.
    Checked: tests/holdout/test_planning.py, tests/holdout/test_analysts.py.
    """
    size = min(rows, MAX_ROWS)  # a holdout cannot have more; larger values serve comparisons only
    s = sensitivity(size)
    factor = float(size * s) * ROUND_UP
    width = gaussian_transfer(queries, rows, sigma / factor, beta, split=split)
    return width * factor + float(s / STEPS_PER_SENSITIVITY + MEAN_ERROR)


def fits_posterior(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Return whether normal noise guarantees tau, by its privacy and the posterior of the rows.

    Claim:   every answer is within tau for the best noise, split f of beta, and c and d.
    Why:     `posterior_transfer`, with f beta = delta / d and (1 - f) beta = miss / c. The noise of
             m = ``queries`` answers is within z sigma. The best z has
             sigma = 2 m phi(z) / ((1 - f) beta), and the best epsilon has
             Phi(-epsilon / mu - mu / 2) = f beta / 2, because both derivatives are then zero.
    Source:  [JLNRSS20]; [BW18] Theorem 8 for the delta of normal noise.
    Checked: tests/holdout/test_planning.py.
    """
    del overfits

    def error_at(sigma: float, f: float) -> float:
        mu, free = math.sqrt(queries) / (rows * sigma), (1 - f) * beta
        squared = 2 * math.log(2 * queries / (math.sqrt(2 * math.pi) * sigma * free))
        z = math.sqrt(max(squared, 0.0))
        noise = sigma * z + 2 * queries * NORMAL.cdf(-z) / free
        epsilon = max(0.0, mu * (-NORMAL.inv_cdf(f * beta / 2) - mu / 2))
        return noise + math.expm1(min(epsilon, 9.0)) + 2 * _delta(mu, epsilon) / (f * beta)

    splits = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
    found = (_minimize(lambda s, f=f: error_at(s, f), 1e-6, 1.0)[0] for f in splits)  # type: ignore[misc]
    return min(found) <= tau


def fits_monitor(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Return whether normal noise guarantees tau, by its privacy and a monitor of several sessions.

    Claim:   every answer is within tau for the best noise and number of sessions T.
    Why:     `monitor_transfer`. The noise of m = ``queries`` answers is within z sigma. The best z
             has sigma = 2 T m phi(z), and the best epsilon has Phi(-epsilon / mu - mu / 2) = 1 / T.
    Source:  [BNSSSU16]; [BW18] Theorem 8 for the delta of normal noise.
    Checked: tests/holdout/test_planning.py.
    """
    del overfits

    def error_at(sigma: float, copies: int) -> float:
        mu = math.sqrt(queries) / (rows * sigma)
        squared = 2 * math.log(2 * copies * queries / (math.sqrt(2 * math.pi) * sigma))
        z = math.sqrt(max(squared, 0.0))
        alpha, miss = sigma * z, 2 * queries * NORMAL.cdf(-z)
        epsilon = max(0.0, mu * (-NORMAL.inv_cdf(1 / copies) - mu / 2))
        gain = alpha + math.expm1(min(epsilon, 9.0))
        spent = copies * (miss + _delta(mu, epsilon))
        return (gain + spent) / -math.expm1(copies * math.log1p(-beta))

    tries = [copies for copies in sessions_to_try(beta) if copies > 2][::4]
    found = (_minimize(lambda s, t=t: error_at(s, t), 1e-6, 1.0)[0] for t in tries)  # type: ignore[misc]
    return min(found) <= tau


def fits_pure(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Return whether Laplace noise guarantees tau, by its pure privacy.

    Claim:   every answer is within tau for the best split of tau into noise and sampling.
    Why:     the query of the worst answer is a function of the answers alone, so `pure_transfer`
             applies to each side of its error. The noise is within scale ln(2 queries / beta) with
             probability at least 1 - beta / 2.
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_planning.py.
    """
    del overfits

    def holds(part: float) -> bool:
        epsilon = _laplace_epsilon(rows, tau, beta, queries, part)
        nats = 2 * (part * tau) ** 2 * rows
        return log_pure_transfer(epsilon, rows, nats) <= math.log(beta / 4)

    return any(holds(part) for part in TAU_FRACTIONS)


def fits_published_pure(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Return whether Laplace noise guarantees tau by the published theorem for pure privacy.

    Claim:   every answer is within tau if, for some ``part`` of tau, the session is
             (part * tau)-DP and the noise is within (1 - part) * tau.
    Why:     `pure_transfer_published`.
    Source:  [DFHPRR15a].
    Checked: tests/holdout/test_planning.py.
    """
    del overfits
    return any(
        _laplace_epsilon(rows, tau, beta, queries, part) <= part * tau
        and pure_transfer_published(part * tau, rows) <= beta / 2
        for part in TAU_FRACTIONS
    )


def fits_max_information(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Return whether Laplace noise guarantees tau by its max-information.

    Claim:   every answer is within tau if, for some ``part`` of tau, the session is
             (part * tau)^2-DP and the noise is within (1 - part) * tau.
    Why:     `max_information_transfer`.
    Source:  [DFHPRR15b].
    Checked: tests/holdout/test_planning.py.
    """
    del overfits
    return any(
        _laplace_epsilon(rows, tau, beta, queries, part) <= (part * tau) ** 2
        and max_information_transfer(part * tau, rows) <= beta / 2
        for part in TAU_FRACTIONS
    )


def fits_approximate(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Return whether normal noise guarantees tau by the theorem for approximate privacy.

    Claim:   every answer is within tau if, for some ``part`` of tau, the session satisfies
             `approximate_transfer` for part * tau and the noise is within (1 - part) * tau.
    Why:     normal noise with total mu is (r + 2 sqrt(r ln(1 / delta)), delta)-DP, r = mu^2 / 2.
    Source:  [DFHPRR15a], [BS16].
    Checked: tests/holdout/test_planning.py.
    """
    del overfits

    def holds(part: float) -> bool:
        epsilon, log_delta, min_rows = approximate_transfer(part * tau, beta / 2)
        sigma = (1 - part) * tau / -NORMAL.inv_cdf(beta / (4 * queries))
        rho = queries / (2 * (rows * sigma) ** 2)
        return rows >= min_rows and rho + 2 * math.sqrt(rho * -log_delta) <= epsilon

    return any(holds(part) for part in TAU_FRACTIONS)


def _laplace_epsilon(rows: int, tau: float, beta: float, queries: int, part: float) -> float:
    """Return the epsilon of a session with Laplace noise within (1 - part) * tau.

    The noise of some answer exceeds this with probability at most beta / 2.
    """
    scale = (1 - part) * tau / math.log(2 * queries / beta)
    return queries / (scale * rows)


def _delta(mu: float, epsilon: float) -> float:
    """Return the delta of a mu-Gaussian-DP session at ``epsilon``."""
    first = NORMAL.cdf(mu / 2 - epsilon / mu)
    return max(0.0, first - math.exp(epsilon) * NORMAL.cdf(-mu / 2 - epsilon / mu))


def _minimize(height: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Return an approximate minimum value and its position, by golden-section search in the log."""
    left, right = math.log(low), math.log(high)
    inner = [right - GOLDEN_SECTION * (right - left), left + GOLDEN_SECTION * (right - left)]
    heights = [height(math.exp(x)) for x in inner]
    for _ in range(40):
        if heights[0] <= heights[1]:
            right = inner[1]
            inner = [right - GOLDEN_SECTION * (right - left), inner[0]]
            heights = [height(math.exp(inner[0])), heights[0]]
        else:
            left = inner[0]
            inner = [inner[1], left + GOLDEN_SECTION * (right - left)]
            heights = [heights[1], height(math.exp(inner[1]))]
    best = 0 if heights[0] <= heights[1] else 1
    return heights[best], math.exp(inner[best])
