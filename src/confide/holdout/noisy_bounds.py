"""Sample sizes for noisy answers.

Each function tells whether ``rows`` rows keep every answer within tau of the population with
probability 1 - beta; parameters that a theorem leaves open are searched for the best.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist
from typing import Final

from confide.holdout.coding_bounds import ROUND_UP, log_nodes, sampling_width
from confide.holdout.values import ERROR, FINENESS, MOST_ROWS, sensitivity
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
PARTS: Final = tuple(i / 64 for i in range(1, 64))
GOLDEN: Final = (math.sqrt(5) - 1) / 2


def theorem_sigma(tau: float, beta: float, queries: int) -> float:
    """Return the noise that the published theorem on Thresholdout asks for."""
    return tau / (96 * math.log(4 * queries / beta))


def fits_theorem(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Tell whether the published theorem on Thresholdout speaks of so many rows.

    Law:     threshold 3 tau / 4, noise of `theorem_sigma`, ``overfits`` charges.
    Claim:   every answer within tau until ``overfits`` queries had a guess that was off by more
             than tau / 2.
    Why:     the theorem there: the session is private enough for tau / 8 at beta / (2 queries), by
             its pure or its approximate transfer theorem, whichever asks for fewer rows.
    Source:  [DFHPRR15b]; the second term under the minimum as it follows from their lemmas.
    Checked: tests/holdout/test_planning.py.
    """
    sigma, part, chance = theorem_sigma(tau, beta, queries), tau / 8, beta / (2 * queries)
    pure = max(2 * overfits / (sigma * part), math.log(6 / chance) / part**2)
    epsilon, log_delta, least = approximate_transfer(part, chance)
    mixed = math.sqrt(32 * overfits * (math.log(2) - log_delta)) / (sigma * epsilon)
    return rows >= min(pure, max(mixed, least))


def thresholdout_margins(
    rows: int,
    beta: float,
    queries: int,
    overfits: int,
    *,
    sigma: float,
    cells: int,
) -> tuple[float, float, float]:
    """Return (standing, given, nats): how far answers of Thresholdout can lie from the rows' mean.

    Law:     threshold noise of scale 2 sigma, fresh noise of scale 4 sigma for each comparison,
             answers with noise of scale sigma, rounded to the middle of one of ``cells`` cells.
    Claim:   save with chance beta / 2 a guess that stands is within threshold + standing of the
             mean over the rows, and an answer given within ``given``; intervals of fixed queries
             that miss with chance exp(-nats) on each side hold for the whole session save with
             chance beta / 2.
    Why:     the noises pass their bounds with chance beta / 8 (overfits thresholds), beta / 8
             (queries comparisons) and beta / 4 (answers) in all: P(|Z| > k) <= exp(-k / b) for
             discrete Laplace noise of scale b. They do not depend on the rows, so with them fixed
             the session is a tree with the nodes of `log_nodes`.
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_thresholdout.py, tests/holdout/test_analysts.py.
    """
    step = float(sensitivity(rows))
    standing = 2 * sigma * math.log(8 * overfits / beta) + 4 * sigma * math.log(8 * queries / beta)
    given = sigma * math.log(4 * overfits / beta) + 1 / (2 * cells)
    nats = math.log(4 / beta) + log_nodes(queries, overfits, cells)
    return standing + step, given + step, nats


def fits_private(
    rows: int, tau: float, beta: float, queries: int, overfits: int, *, epsilon: Fraction
) -> bool:
    """Tell whether Thresholdout that is ``epsilon``-DP as a whole keeps tau.

    Claim:   every answer within tau of the population, and the session epsilon-DP.
    Why:     sigma = 2 overfits / (epsilon rows); then `thresholdout_margins`, with a threshold that
             about a tenth of ``overfits`` honest queries pass by chance.
    Source:  [DFHPRR15b] for the mechanism, docs/proofs/holdout.md.
    Checked: tests/holdout/test_planning.py.
    """
    sigma = float(2 * overfits * sensitivity(rows) / epsilon)
    cells = max(2, math.ceil(1 / (2 * sigma))) if sigma < 1 else 2
    standing, given, _ = thresholdout_margins(
        rows, beta, queries, overfits, sigma=sigma, cells=min(cells, 10**6)
    )
    width = sampling_width(rows, log_nodes(queries, overfits, min(cells, 10**6)), beta / 2)
    chance = min(0.5, overfits / (20 * queries))
    honest = -NORMAL.inv_cdf(chance) * math.sqrt(0.5 / rows + 40 * sigma**2)
    return max(honest + standing, given) + width <= tau


def fits_gaussian(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Tell whether normal noise keeps tau, by the information that answers carry.

    Claim:   every answer within tau for the best deviation and split of beta.
    Why:     `gaussian_width`.
    Source:  [RRSSTW20].
    Checked: tests/holdout/test_planning.py, tests/holdout/test_analysts.py.
    """
    del overfits
    return best_gaussian(rows, beta, queries)[0] <= tau


def best_gaussian(rows: int, beta: float, queries: int) -> tuple[float, float, float]:
    """Return the least tau of normal noise, with its deviation and the split of beta."""
    return min(
        (
            *_least(
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
    """Return tau for means of floats on a grid that carry rounded normal noise.

    Law:     a mean is computed within ERROR, rounded to a grid of FINENESS steps in its
             sensitivity s, and gets normal noise of deviation sigma, rounded to the grid too.
    Claim:   with probability 1 - beta every answer is within this of the population.
    Why:     one row moves the rounded mean by at most s instead of 1 / rows, so its answers tell
             no more than those of noise that is rows s times smaller: `gaussian_transfer` at that.
             Then its noise is made as large again, and both roundings, half a step each, and
             ERROR are added.
    Source:  [RRSSTW20], docs/proofs/holdout.md.
    Checked: tests/holdout/test_planning.py, tests/holdout/test_analysts.py.
    """
    most = min(rows, MOST_ROWS)  # no holdout has more; beyond that the figure is for comparison
    step = sensitivity(most)
    larger = float(most * step) * ROUND_UP
    spread = gaussian_transfer(queries, rows, sigma / larger, beta, split=split)
    return spread * larger + float(step / FINENESS + ERROR)


def fits_posterior(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Tell whether normal noise keeps tau, by its privacy and the posterior of the rows.

    Claim:   every answer within tau for the best noise, c, d and split of beta.
    Why:     `posterior_transfer`. With f beta = delta / d and (1 - f) beta = miss / c, the best
             noise bound z has sigma = 2 m phi(z) / ((1 - f) beta), and the best epsilon has
             Phi(-epsilon / mu - mu / 2) = f beta / 2: both derivatives are then zero.
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
    found = (_least(lambda s, f=f: error_at(s, f), 1e-6, 1.0)[0] for f in splits)  # type: ignore[misc]
    return min(found) <= tau


def fits_monitor(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Tell whether normal noise keeps tau, by its privacy and a monitor over several sessions.

    Claim:   every answer within tau for the best noise and number of sessions T.
    Why:     `monitor_transfer`. The best noise bound z has sigma = 2 T m phi(z), the best epsilon
             has Phi(-epsilon / mu - mu / 2) = 1 / T.
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
    found = (_least(lambda s, t=t: error_at(s, t), 1e-6, 1.0)[0] for t in tries)  # type: ignore[misc]
    return min(found) <= tau


def fits_pure(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Tell whether Laplace noise keeps tau, by its pure privacy.

    Claim:   every answer within tau for the best split of tau into noise and sampling.
    Why:     `pure_transfer` for each side of the worst answer's query, pointed at by the answers
             alone; noise within scale ln(2 queries / beta) save with chance beta / 2.
    Source:  docs/proofs/holdout.md.
    Checked: tests/holdout/test_planning.py.
    """
    del overfits

    def holds(part: float) -> bool:
        epsilon = _laplace_epsilon(rows, tau, beta, queries, part)
        nats = 2 * (part * tau) ** 2 * rows
        return log_pure_transfer(epsilon, rows, nats) <= math.log(beta / 4)

    return any(holds(part) for part in PARTS)


def fits_published_pure(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Tell whether Laplace noise keeps tau by the published theorem for pure privacy.

    Claim:   every answer within tau where the session is part * tau private.
    Why:     `pure_transfer_published`.
    Source:  [DFHPRR15a].
    Checked: tests/holdout/test_planning.py.
    """
    del overfits
    return any(
        _laplace_epsilon(rows, tau, beta, queries, part) <= part * tau
        and pure_transfer_published(part * tau, rows) <= beta / 2
        for part in PARTS
    )


def fits_max_information(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Tell whether Laplace noise keeps tau by its max-information.

    Claim:   every answer within tau where the session is (part * tau)^2 private.
    Why:     `max_information_transfer`.
    Source:  [DFHPRR15b].
    Checked: tests/holdout/test_planning.py.
    """
    del overfits
    return any(
        _laplace_epsilon(rows, tau, beta, queries, part) <= (part * tau) ** 2
        and max_information_transfer(part * tau, rows) <= beta / 2
        for part in PARTS
    )


def fits_approximate(rows: int, tau: float, beta: float, queries: int, overfits: int) -> bool:
    """Tell whether normal noise keeps tau by the published theorem for approximate privacy.

    Claim:   every answer within tau where the session meets `approximate_transfer`.
    Why:     normal noise of total mu is (r + 2 sqrt(r ln(1 / delta)), delta)-DP, r = mu^2 / 2.
    Source:  [DFHPRR15a], [BS16].
    Checked: tests/holdout/test_planning.py.
    """
    del overfits

    def holds(part: float) -> bool:
        epsilon, log_delta, least = approximate_transfer(part * tau, beta / 2)
        sigma = (1 - part) * tau / -NORMAL.inv_cdf(beta / (4 * queries))
        rho = queries / (2 * (rows * sigma) ** 2)
        return rows >= least and rho + 2 * math.sqrt(rho * -log_delta) <= epsilon

    return any(holds(part) for part in PARTS)


def _laplace_epsilon(rows: int, tau: float, beta: float, queries: int, part: float) -> float:
    """Return the epsilon of a session whose noise takes what ``part`` leaves of tau."""
    scale = (1 - part) * tau / math.log(2 * queries / beta)
    return queries / (scale * rows)


def _delta(mu: float, epsilon: float) -> float:
    first = NORMAL.cdf(mu / 2 - epsilon / mu)
    return max(0.0, first - math.exp(epsilon) * NORMAL.cdf(-mu / 2 - epsilon / mu))


def _least(height: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Return the least height over a range, about, and where: golden section in the logarithm."""
    left, right = math.log(low), math.log(high)
    inner = [right - GOLDEN * (right - left), left + GOLDEN * (right - left)]
    heights = [height(math.exp(x)) for x in inner]
    for _ in range(40):
        if heights[0] <= heights[1]:
            right = inner[1]
            inner = [right - GOLDEN * (right - left), inner[0]]
            heights = [height(math.exp(inner[0])), heights[0]]
        else:
            left = inner[0]
            inner = [inner[1], left + GOLDEN * (right - left)]
            heights = [heights[1], height(math.exp(inner[1]))]
    place = 0 if heights[0] <= heights[1] else 1
    return heights[place], math.exp(inner[place])
