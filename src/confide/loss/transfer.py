"""Transfer theorems: from a loss to the population.

Each speaks of n independent rows, queries with values in [0, 1], and an analyst who chooses each
query after seeing all answers. *Sample-accurate* (alpha, b): with probability 1 - b every answer
is within alpha of the mean over the rows. Results are (tau, beta): with probability 1 - beta every
answer is within tau of the mean over the population.
"""

import math
from statistics import NormalDist
from typing import Final

__all__ = [
    "approximate_transfer",
    "gaussian_information",
    "gaussian_transfer",
    "information_transfer",
    "log_pure_transfer",
    "max_information",
    "max_information_transfer",
    "monitor_transfer",
    "posterior_transfer",
    "pure_transfer",
    "pure_transfer_published",
    "sessions_to_try",
]

NORMAL: Final = NormalDist()
COPIES: Final = 60


def pure_transfer(epsilon: float, rows: int, chance: float) -> float:
    """Return a bound of P(S in R(Y)) when Y is epsilon-DP and P(S in R(y)) <= chance for each y.

    Law:     S has ``rows`` independent rows; Y is what an epsilon-DP mechanism tells of S.
    Claim:   at most exp(-L + 2 sqrt(a L)), with L = ln(1 / chance), a = rows epsilon^2 / 8, L >= a.
    Why:     P(S in R(Y)) is the mean over Y of E[r 1(S in R)] with r = P(y | S) / P(y), for S
             drawn afresh. By Hoelder it is at most E[r^q]^(1/q) chance^(1 - 1/q). ln P(y | S)
             moves by at most epsilon with one row, so its exponential moment about its mean is at
             most exp(q^2 rows epsilon^2 / 8) (McDiarmid), and ln P(y) is at least that mean
             (Jensen); so E[r^q]^(1/q) <= exp(q a). Take q = sqrt(L / a).
    Source:  docs/proofs/holdout.md; [DFHPRR15a] has 3 sqrt(chance) for epsilon^2 <= L / (2 rows),
             where this gives sqrt(chance).
    Checked: tests/holdout/test_transfer.py.

    >>> round(math.log(pure_transfer(0.01, 10_000, 1e-10)) / math.log(1e-10), 2)
    0.85
    """
    return math.exp(log_pure_transfer(epsilon, rows, -math.log(chance)))


def log_pure_transfer(epsilon: float, rows: int, nats: float) -> float:
    """Return ln of `pure_transfer` for a chance of exp(-nats), however small that is."""
    spread = rows * epsilon**2 / 8
    return 2 * math.sqrt(spread * nats) - nats if spread < nats else 0.0


def pure_transfer_published(tau: float, rows: int) -> float:
    """Return the bound of P(|mean - truth| >= tau) for a tau-DP choice of one query.

    Claim:   6 exp(-tau^2 rows) when epsilon <= tau.
    Why:     the published theorem with chance exp(-2 tau^2 rows) for each of the two sides.
    Source:  [DFHPRR15a]; `pure_transfer` implies it.
    Checked: tests/holdout/test_transfer.py.
    """
    return min(1.0, 6 * math.exp(-(tau**2) * rows))


def approximate_transfer(tau: float, beta: float) -> tuple[float, float, float]:
    """Return (epsilon, ln delta, rows) that keep one (epsilon, delta)-DP chosen query within tau.

    Claim:   epsilon <= tau / 4, delta <= (beta / 8)^(4 / tau) and rows >= 48 ln(8 / beta) / tau^2
             give P(|mean - truth| >= tau) <= beta.
    Why:     the theorem there, with its symbols as here; delta is given as ln(1 / delta) since it
             leaves the range of floats.
    Source:  [DFHPRR15a].
    Checked: tests/holdout/test_transfer.py.
    """
    log_delta = 4 / tau * math.log(beta / 8)
    return tau / 4, log_delta, 48 * math.log(8 / beta) / tau**2


def max_information(epsilon: float, rows: int, failure: float = 0.0) -> float:
    """Return the max-information, in nats, between the rows and what an epsilon-DP mechanism tells.

    Claim:   P(S in R(Y)) <= e^k P(S in R(y)) + failure with k = epsilon rows for failure = 0 and
             any law of S; for independent rows k = rows epsilon^2 / 2
             + epsilon sqrt(rows ln(2 / failure) / 2).
    Why:     changing all rows one by one changes P(y | S) by at most e^(epsilon rows), and some S'
             has P(y | S') <= P(y). The second is theirs. It is an *upper* bound of the
             dependence: never a lower one.
    Source:  [DFHPRR15b].
    Checked: tests/holdout/test_transfer.py.
    """
    most = epsilon * rows
    if failure <= 0:
        return most
    spread = rows * epsilon**2 / 2 + epsilon * math.sqrt(rows * math.log(2 / failure) / 2)
    return min(most, spread)


def max_information_transfer(tau: float, rows: int) -> float:
    """Return the bound of a one-sided error tau when epsilon <= tau^2.

    Claim:   max-information of at most tau^2 rows nats leaves exp(-tau^2 rows) of the chance
             exp(-2 tau^2 rows) of one side; both sides together twice that.
    Why:     e^(tau^2 rows) exp(-2 tau^2 rows).
    Source:  [DFHPRR15a], [DFHPRR15b].
    Checked: tests/holdout/test_transfer.py.
    """
    return min(1.0, 2 * math.exp(-(tau**2) * rows))


def monitor_transfer(epsilon: float, delta: float, alpha: float, miss: float, beta: float) -> float:
    """Return tau for a (epsilon, delta)-DP mechanism that is sample-accurate (alpha, miss).

    Claim:   (tau, beta) with tau = min over T >= 1 of
             (alpha + T miss + e^epsilon - 1 + T delta) / (1 - (1 - beta)^T).
    Why:     run T independent sessions and let a monitor, who knows the population, point at the
             worst answer of all. If one session missed tau with probability above beta, the
             worst would have a mean error above tau (1 - (1 - beta)^T). But that answer, which like
             all answers lies in [0, 1], is within
             alpha + T miss of its sample on average, and the query pointed at, a private choice
             among T samples, has a sample mean within e^epsilon - 1 + T delta of the truth.
    Source:  [BNSSSU16] (monitor; their constants follow with T = 1 / beta), docs/proofs/holdout.md.
    Checked: tests/holdout/test_transfer.py.
    """
    gain = alpha + math.expm1(epsilon)
    return min(
        (gain + copies * (miss + delta)) / -math.expm1(copies * math.log1p(-beta))
        for copies in sessions_to_try(beta)
    )


def sessions_to_try(beta: float) -> list[int]:
    """Return numbers of sessions for a monitor, up to a few times 1 / beta; every one is sound."""
    most = 4 / beta
    return sorted({math.ceil(most ** (i / COPIES)) for i in range(COPIES + 1)})


def posterior_transfer(
    epsilon: float, delta: float, alpha: float, miss: float, *, c: float, d: float
) -> tuple[float, float]:
    """Return (tau, beta) for a (epsilon, delta)-DP mechanism that is sample-accurate (alpha, miss).

    Claim:   tau = alpha + e^epsilon - 1 + c + 2 d, beta = miss / c + delta / d, for any c, d > 0.
    Why:     an answer is within alpha + c of the query's mean over the posterior of the rows except
             with probability miss / c (Markov), and privacy keeps that mean within
             e^epsilon - 1 + 2 d of the truth except with probability delta / d.
    Source:  [JLNRSS20].
    Checked: tests/holdout/test_transfer.py.
    """
    return alpha + math.expm1(epsilon) + c + 2 * d, miss / c + delta / d


def gaussian_information(queries: int, rows: int, sigma: float) -> float:
    """Return a bound, in nats, of the mutual information of the rows and noisy answers.

    Law:     each answer is the mean over the rows plus normal noise of deviation sigma.
    Claim:   I <= queries / (8 rows sigma^2).
    Why:     rows are independent, so I is at most the sum over rows of the information about one
             row given all others; there an answer is normal about a mean that varies by at most
             1 / rows, hence with variance at most 1 / (4 rows^2), which gives
             1 / (8 rows^2 sigma^2) for each answer and row, whatever came before.
    Source:  [RRSSTW20], docs/proofs/holdout.md.
    Checked: tests/holdout/test_transfer.py.
    """
    return queries / (8 * rows * sigma**2)


def information_transfer(information: float, rows: int, beta: float) -> float:
    """Return w: a query chosen with this much information is within w, save with chance beta.

    Claim:   w^2 = min over 0 < s < 1 of (2 I - ln(1 - s)) / (4 rows s beta).
    Why:     a mean of independent values in [0, 1] is sub-Gaussian of variance 1 / (4 rows), so
             E exp(2 rows s e^2) <= (1 - s)^(-1/2) for its error e on a fixed query; by Donsker and
             Varadhan E e^2 <= (I - ln(1 - s) / 2) / (2 rows s) on a chosen one. Markov.
    Source:  [RRSSTW20], [RZ16], docs/proofs/holdout.md.
    Checked: tests/holdout/test_transfer.py.
    """
    # The best s has u - 1 - ln u = 2 I with u = 1 / (1 - s); any u > 1 is sound.
    u = 1 + max(2 * information + 2 * math.sqrt(information), 1e-9)
    for _ in range(8):
        u -= (u - 1 - math.log(u) - 2 * information) / (1 - 1 / u)
    s = 1 - 1 / u
    return math.sqrt((2 * information + math.log(u)) / (4 * rows * s * beta))


def gaussian_transfer(
    queries: int, rows: int, sigma: float, beta: float, *, split: float = 0.9
) -> float:
    """Return tau for answers that carry normal noise of deviation sigma.

    Claim:   tau = w + noise, w of `information_transfer` at split * beta and noise the bound that
             all noises keep save with chance (1 - split) beta.
    Why:     the answer farthest from the truth is pointed at by the answers alone (the truth is
             fixed), so its query is chosen with no more information than they carry.
    Source:  [RRSSTW20] with split = 1/2.
    Checked: tests/holdout/test_transfer.py, tests/holdout/test_analysts.py.
    """
    spread = information_transfer(gaussian_information(queries, rows, sigma), rows, split * beta)
    return spread + sigma * -NORMAL.inv_cdf((1 - split) * beta / (2 * queries))
