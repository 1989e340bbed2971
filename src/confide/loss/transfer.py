"""Transfer theorems: from a privacy loss to accuracy on the population.

Each theorem is about ``rows`` independent rows, queries with values in [0, 1], and an analyst who
chooses each query after seeing all earlier answers. The *truth* of a query is its mean over the
population. *Sample-accurate* (alpha, b) means that with probability 1 - b every answer is within
alpha of the mean over the rows. A result (tau, beta) means that with probability 1 - beta every
answer is within tau of the truth. The planner of holdout sessions compares these bounds.
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

STANDARD_NORMAL: Final = NormalDist()
GRID_SIZE: Final = 60


def pure_transfer(epsilon: float, rows: int, p: float) -> float:
    """Return a bound on P(S in R(Y)) for an epsilon-DP Y, if P(S in R(y)) <= p for all y.

    Law:     S has ``rows`` independent rows; Y is the output of an epsilon-DP mechanism on S; R(y)
             is any set of samples for each y, such as those on which the answer y is far off.
    Claim:   at most exp(-L + 2 sqrt(a L)), with L = ln(1 / p), a = rows epsilon^2 / 8, L >= a.
    Why:     P(S in R(Y)) is the mean over Y of E[r 1(S in R)] with r = P(y | S) / P(y), for an
             independent S. By Hoelder it is at most E[r^q]^(1/q) p^(1 - 1/q). One row
             changes ln P(y | S) by at most epsilon, so the mean of exp(q times its deviation from
             its mean) is at most exp(q^2 rows epsilon^2 / 8) (McDiarmid), and ln P(y) is at least
             that mean (Jensen). So E[r^q]^(1/q) <= exp(q a). Take q = sqrt(L / a).
    Source:  docs/proofs/holdout.md; [DFHPRR15a] has 3 sqrt(p) for epsilon^2 <= L / (2 rows),
             where our bound is sqrt(p).
    Checked: tests/loss/test_transfer.py.

    >>> round(math.log(pure_transfer(0.01, 10_000, 1e-10)) / math.log(1e-10), 2)
    0.85
    """
    return math.exp(log_pure_transfer(epsilon, rows, -math.log(p)))


def log_pure_transfer(epsilon: float, rows: int, nats: float) -> float:
    """Return the logarithm of `pure_transfer` for p = exp(-nats), which may underflow a float."""
    a = rows * epsilon**2 / 8
    return 2 * math.sqrt(a * nats) - nats if a < nats else 0.0


def pure_transfer_published(tau: float, rows: int) -> float:
    """Return the bound on P(|mean - truth| >= tau) for a tau-DP choice of one query.

    Claim:   6 exp(-tau^2 rows) when epsilon <= tau.
    Why:     the published theorem with probability exp(-2 tau^2 rows) for each of the two sides.
    Source:  [DFHPRR15a]; `pure_transfer` implies it.
    Checked: tests/loss/test_transfer.py.
    """
    return min(1.0, 6 * math.exp(-(tau**2) * rows))


def approximate_transfer(tau: float, beta: float) -> tuple[float, float, float]:
    """Return (epsilon, ln delta, rows) for which one (epsilon, delta)-DP chosen query is accurate.

    Its error is below tau, except with probability beta.

    Claim:   epsilon <= tau / 4, delta <= (beta / 8)^(4 / tau) and rows >= 48 ln(8 / beta) / tau^2
             give P(|mean - truth| >= tau) <= beta.
    Why:     the published theorem, with the same symbols. The result contains ln delta, because
             delta underflows a float.
    Source:  [DFHPRR15a].
    Checked: tests/loss/test_transfer.py.
    """
    log_delta = 4 / tau * math.log(beta / 8)
    return tau / 4, log_delta, 48 * math.log(8 / beta) / tau**2


def max_information(epsilon: float, rows: int, failure: float = 0.0) -> float:
    """Return a bound k on the max-information, in nats, between the rows and an epsilon-DP output.

    Claim:   P(S in R(Y)) <= e^k P(S' in R(Y)) + failure, where S' has the distribution of S and is
             independent of Y. For failure = 0 and any distribution of S, k = epsilon rows; for
             independent rows, k = rows epsilon^2 / 2 + epsilon sqrt(rows ln(2 / failure) / 2).
    Why:     changing all rows one by one changes P(y | S) by a factor of at most
             e^(epsilon rows), and some sample has a probability of y of at most P(y). The second
             bound is from the source. Both are *upper* bounds on the dependence, never lower ones.
    Source:  [DFHPRR15b].
    Checked: tests/loss/test_transfer.py.
    """
    always = epsilon * rows
    if failure <= 0:
        return always
    typical = rows * epsilon**2 / 2 + epsilon * math.sqrt(rows * math.log(2 / failure) / 2)
    return min(always, typical)


def max_information_transfer(tau: float, rows: int) -> float:
    """Return a bound on the probability of an error of tau for a tau^2-DP choice of one query.

    Claim:   a one-sided error of tau has probability at most exp(-2 tau^2 rows) for a fixed query.
             If the max-information is at most tau^2 rows nats, the probability is at most
             exp(-tau^2 rows) for a chosen query; for both sides, twice that.
    Why:     e^(tau^2 rows) exp(-2 tau^2 rows) = exp(-tau^2 rows).
    Source:  [DFHPRR15a], [DFHPRR15b].
    Checked: tests/loss/test_transfer.py.
    """
    return min(1.0, 2 * math.exp(-(tau**2) * rows))


def monitor_transfer(epsilon: float, delta: float, alpha: float, miss: float, beta: float) -> float:
    """Return tau for an (epsilon, delta)-DP mechanism that is sample-accurate (alpha, miss).

    Claim:   (tau, beta) with tau = min over T >= 1 of
             (alpha + T miss + e^epsilon - 1 + T delta) / (1 - (1 - beta)^T).
    Why:     run T independent sessions and let a monitor, who knows the population, choose the
             worst answer of all. If a session missed tau with probability above beta, the worst
             answer would have a mean error above tau (1 - (1 - beta)^T). But that answer, like
             all answers in [0, 1], is within alpha + T miss of its sample mean on average. And
             the chosen query, a private choice among T samples, has a sample mean within
             e^epsilon - 1 + T delta of the truth.
    Source:  [BNSSSU16] (monitor; their constants follow with T = 1 / beta), docs/proofs/holdout.md.
    Checked: tests/loss/test_transfer.py.
    """
    gain = alpha + math.expm1(epsilon)
    return min(
        (gain + copies * (miss + delta)) / -math.expm1(copies * math.log1p(-beta))
        for copies in sessions_to_try(beta)
    )


def sessions_to_try(beta: float) -> list[int]:
    """Return values of T to try in `monitor_transfer`, up to 4 / beta; each gives a valid bound."""
    most = 4 / beta
    return sorted({math.ceil(most ** (i / GRID_SIZE)) for i in range(GRID_SIZE + 1)})


def posterior_transfer(
    epsilon: float, delta: float, alpha: float, miss: float, *, c: float, d: float
) -> tuple[float, float]:
    """Return (tau, beta) for an (epsilon, delta)-DP mechanism with accuracy (alpha, miss).

    Claim:   tau = alpha + e^epsilon - 1 + c + 2 d, beta = miss / c + delta / d, for any c, d > 0.
    Why:     an answer is within alpha + c of the query's mean over the posterior of the rows,
             except with probability miss / c (Markov). Privacy keeps that mean within
             e^epsilon - 1 + 2 d of the truth, except with probability delta / d.
    Source:  [JLNRSS20].
    Checked: tests/loss/test_transfer.py.
    """
    return alpha + math.expm1(epsilon) + c + 2 * d, miss / c + delta / d


def gaussian_information(queries: int, rows: int, sigma: float) -> float:
    """Return a bound, in nats, on the mutual information of the rows and the noisy answers.

    Law:     each answer is the mean over the rows plus normal noise of standard deviation sigma.
    Claim:   I <= queries / (8 rows sigma^2).
    Why:     rows are independent, so I is at most the sum over rows of the information about one
             row given all others. Given these, an answer is normal about a mean that varies by at
             most 1 / rows, hence with variance at most 1 / (4 rows^2). This yields
             1 / (8 rows^2 sigma^2) for each answer and row, given any earlier answers.
    Source:  [RRSSTW20], docs/proofs/holdout.md.
    Checked: tests/loss/test_transfer.py.
    """
    return queries / (8 * rows * sigma**2)


def information_transfer(information: float, rows: int, beta: float) -> float:
    """Return a bound w on the error of a chosen query, except with probability beta.

    Claim:   w^2 = min over 0 < s < 1 of (2 I - ln(1 - s)) / (4 rows s beta), where I bounds the
             information, in nats, that the choice of the query has about the rows.
    Why:     a mean of independent values in [0, 1] is sub-Gaussian of variance 1 / (4 rows), so
             E exp(2 rows s e^2) <= (1 - s)^(-1/2) for its error e on a fixed query. By Donsker and
             Varadhan, E e^2 <= (I - ln(1 - s) / 2) / (2 rows s) on a chosen one. Apply Markov.
    Source:  [RRSSTW20], [RZ16], docs/proofs/holdout.md.
    Checked: tests/loss/test_transfer.py.
    """
    # The best s has u - 1 - ln u = 2 I with u = 1 / (1 - s); any u > 1 is valid.
    u = 1 + max(2 * information + 2 * math.sqrt(information), 1e-9)
    for _ in range(8):
        u -= (u - 1 - math.log(u) - 2 * information) / (1 - 1 / u)
    s = 1 - 1 / u
    return math.sqrt((2 * information + math.log(u)) / (4 * rows * s * beta))


def gaussian_transfer(
    queries: int, rows: int, sigma: float, beta: float, *, split: float = 0.9
) -> float:
    """Return tau for answers with normal noise of standard deviation sigma.

    Claim:   tau = w + z, with w of `information_transfer` at split * beta; z bounds all noise
             values except with probability (1 - split) beta.
    Why:     the truth is fixed, so the answers alone determine which answer is farthest from it.
             So that answer's query is chosen with no more information than the answers carry.
    Source:  [RRSSTW20] with split = 1/2.
    Checked: tests/loss/test_transfer.py, tests/holdout/test_analysts.py.
    """
    w = information_transfer(gaussian_information(queries, rows, sigma), rows, split * beta)
    return w + sigma * -STANDARD_NORMAL.inv_cdf((1 - split) * beta / (2 * queries))
