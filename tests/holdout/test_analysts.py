"""Analysts who overfit a naive holdout by a known amount do not overfit ours.

Every true mean is 1/2. A session fails if the error of an answer exceeds the claimed tau, or if an
interval misses. Claims allow failures in beta = 5% of sessions, and at most that many sessions may
fail here. (The bounds are far from tight, so no failure is expected.)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, Final

import numpy as np
import pytest

from confide.holdout import Holdout, plan
from confide.holdout.choice import USED_OPTIONS
from support.analysts import (
    ANALYSTS,
    Noisy,
    Report,
    average_answers,
    average_error,
    boost_votes,
    choose_features,
    climb_by_flips,
    feature_error,
    poison_training,
    save_the_last,
    search_until_good,
    sign_votes,
    vote_error,
)
from support.entropy import SeededEntropy

SESSIONS: Final = 200
NAIVE: Final = 60
BETA: Final = 0.05
Analyst = Callable[[Holdout, np.random.Generator, int, int], Report]


@dataclass(frozen=True, slots=True)
class Attack:
    """An analyst, the size of a session, and the error that a naive holdout ends with."""

    analyst: Analyst
    rows: int
    queries: int
    overfits: int
    naive: float


SIGMA: Final = 0.02
TIMES: Final = 8
FOOLED: Final = {
    "sign votes": Attack(sign_votes, 1_000, 400, 3, vote_error(1_000, 400)),
    "boosted votes": Attack(boost_votes, 1_000, 800, 1, vote_error(1_000, 800, kept_half=True)),
    "chosen features": Attack(choose_features, 2_000, 2_000, 1, feature_error(2_000, 100)),
    "poisoned training rows": Attack(poison_training, 1_000, 400, 3, vote_error(1_000, 400)),
}


def numbers(entropy: SeededEntropy) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=int(entropy.words(1)[0])))


def attack(
    analyst: Analyst, n: int, k: int, rng: np.random.Generator, **terms: Any
) -> tuple[Report, Holdout]:
    holdout = Holdout(n, n, beta=BETA, **terms)
    return analyst(holdout, rng, n, k), holdout


def count_failures(
    analyst: Analyst, n: int, k: int, rng: np.random.Generator, **terms: Any
) -> tuple[int, float]:
    """Return the number of sessions out of 200 that broke their claim, and their claimed tau."""
    failures, tau = 0, 1.0
    for _ in range(SESSIONS):
        report, holdout = attack(analyst, n, k, rng, **terms)
        tau = holdout.guarantee.tau or 1.0
        failures += report.worst > tau or not report.is_covered
    return failures, tau


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", sorted(FOOLED))
def test_naive_holdouts_are_fooled_where_coding_is_not(name: str, entropy: SeededEntropy) -> None:
    """With exact means, the analyst's error matches the formula and exceeds the tau of coding.

    The mean of 60 naive sessions has a standard deviation below 0.5 / sqrt(60 n). The tolerance is
    six of them, plus 0.01 for the approximation in the formula.
    """
    case, rng = FOOLED[name], numbers(entropy)
    n, k = case.rows, case.queries
    last = [attack(case.analyst, n, k, rng, method="naive")[0].last for _ in range(NAIVE)]
    failures, tau = count_failures(
        case.analyst, n, k, rng, method="coding", queries=k + 1, overfits=case.overfits
    )

    loose = 6 * 0.5 / math.sqrt(NAIVE * n) + 0.01
    assert 0.5 + case.naive == pytest.approx(np.mean(last), abs=loose)
    assert tau < case.naive
    assert failures <= BETA * SESSIONS


@pytest.mark.slow
@pytest.mark.statistical
def test_a_search_that_stops_at_the_first_good_number_is_seen_through(
    entropy: SeededEntropy,
) -> None:
    """After a search, a naive holdout's 95% interval nearly always misses; ours misses in 5%.

    A try reaches 0.535 with probability 0.013, so a search of 400 tries finds it in 99% of
    sessions. A mean below 0.95 over 200 sessions has probability below 1e-5.
    """
    rng, n, k, good = numbers(entropy), 1_000, 400, 0.535

    def search(holdout: Holdout, rng: np.random.Generator, n: int, k: int) -> Report:
        return search_until_good(holdout, rng, n, k, good)

    naive = [attack(search, n, k, rng, method="naive")[0].last for _ in range(SESSIONS)]
    half = 1.96 * 0.5 / math.sqrt(n)
    failures, _ = count_failures(search, n, k, rng, method="coding", queries=k, overfits=3)

    assert 0.5 < good - half
    assert 0.95 <= np.mean(np.array(naive) >= good)
    assert failures <= BETA * SESSIONS


@pytest.mark.slow
@pytest.mark.statistical
def test_averaging_undoes_noise_without_a_budget(entropy: SeededEntropy) -> None:
    """With fresh noise and no budget, averages of 8 answers raise votes above the tau of coding.

    With one answer per query, noise leaves the vote at 0.64; with 8, at 0.70. Coding returns the
    same guess every time. The tolerance is six standard deviations of the mean of 60 sessions,
    including the noise of the last answer, plus 0.01.
    """
    rng, n, size = numbers(entropy), 1_000, 500

    def average(times: int) -> Analyst:
        def asked(holdout: Holdout, rng: np.random.Generator, n: int, k: int) -> Report:
            return average_answers(holdout, rng, n, k, times)

        return asked

    def fool(times: int) -> float:
        noisy: Any = Noisy(Holdout(n, n, method="naive"), rng, SIGMA)
        return average(times)(noisy, rng, n, size * times).last

    loose = 6 * math.hypot(0.5 / math.sqrt(n), SIGMA) / math.sqrt(NAIVE) + 0.01
    for times in (1, TIMES):
        expected = 0.5 + average_error(n, size, times, SIGMA)
        assert expected == pytest.approx(np.mean([fool(times) for _ in range(NAIVE)]), abs=loose)
    k = size * TIMES
    failures, tau = count_failures(
        average(TIMES), n, k, rng, method="coding", queries=k + 1, overfits=1
    )
    assert tau < average_error(n, size, TIMES, SIGMA)
    assert failures <= BETA * SESSIONS


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("more", [{"method": "gaussian"}, {"overfits": 3, "epsilon": 5}])
def test_noise_that_is_counted_is_not_averaged_away(
    more: dict[str, Any], entropy: SeededEntropy
) -> None:
    """Noisy methods keep tau in 95% of 200 sessions if 5 answers per query are averaged."""
    n, k = 4_000, 200
    failures, tau = count_failures(average_answers, n, k, numbers(entropy), queries=k + 1, **more)

    assert tau < 0.3
    assert failures <= BETA * SESSIONS


def test_the_formulas_give_the_published_figures() -> None:
    """Sign votes give 0.599 and 0.713, boosting 0.571, 500 features on 10,000 rows 0.633."""
    assert 0.599 == pytest.approx(0.5 + vote_error(10_000, 1_000), abs=0.001)
    assert 0.713 == pytest.approx(0.5 + vote_error(10_000, 5_000), abs=0.001)
    assert 0.571 == pytest.approx(0.5 + vote_error(4_000, 400, kept_half=True), abs=0.001)
    assert 0.633 == pytest.approx(0.5 + feature_error(10_000, 500), abs=0.001)


@pytest.mark.statistical
def test_published_sizes_fool_a_naive_holdout(entropy: SeededEntropy) -> None:
    """1,000 sign votes on 10,000 rows end at 0.599, 400 boosted votes on 4,000 at 0.571.

    The tolerance for means of 12 sessions is six standard deviations, plus 0.002 for rounding.
    """
    rng = numbers(entropy)
    for analyst, n, k, figure in (
        (sign_votes, 10_000, 1_000, 0.599),
        (boost_votes, 4_000, 400, 0.571),
    ):
        last = [attack(analyst, n, k, rng, method="naive")[0].last for _ in range(12)]

        assert figure == pytest.approx(np.mean(last), abs=3 / math.sqrt(12 * n) + 0.002)


@pytest.mark.statistical
def test_a_naive_holdout_is_climbed(entropy: SeededEntropy) -> None:
    """Flipping 149 of 200 predictions one at a time reaches 0.8725, but coding keeps its tau.

    Each of the 149 labels ends up correct; the others are fair coins. The tolerance is four
    standard deviations of their mean.
    """
    rng = numbers(entropy)
    climbed = [attack(climb_by_flips, 200, 150, rng, method="naive")[0] for _ in range(20)]
    failures, tau = count_failures(
        climb_by_flips, 200, 150, rng, method="coding", queries=151, overfits=1
    )

    assert 0.5 + 149 / 400 == pytest.approx(np.mean([max(r.values) for r in climbed]), abs=0.03)
    assert tau < 149 / 400
    assert failures <= BETA * SESSIONS


@pytest.mark.slow
@pytest.mark.parametrize("name", ["poisoned training rows", "sign votes"])
def test_endless_sessions_are_not_fooled(name: str, entropy: SeededEntropy) -> None:
    """In 95% of 200 unlimited guess-and-check sessions, every interval covers."""
    rng = numbers(entropy)
    reports = [
        attack(ANALYSTS[name], 1_000, 400, rng, method="guess-and-check")[0]
        for _ in range(SESSIONS)
    ]

    assert sum(not report.is_covered for report in reports) <= BETA * SESSIONS


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in USED_OPTIONS if name != "naive"])
def test_plans_hold_at_the_rows_they_demand(method: str, entropy: SeededEntropy) -> None:
    """With exactly the planned number of rows, at most 5% of 500 sessions fail.

    The most successful analysts alternate: votes by signs or by better halves, wrong guesses for
    every query, and wrong guesses until one overfit is left.
    """
    terms: dict[str, Any] = {"tau": 0.15, "queries": 40, "overfits": 4}
    more: dict[str, Any] = {"epsilon": 2} if method == "thresholdout" else {}
    bounds = plan(**terms, **more).bounds
    used = {name: value for name, value in (terms | more).items() if name in USED_OPTIONS[method]}
    n = next(bound.n for bound in bounds if bound.method == method)
    rng, failures = numbers(entropy), 0
    for analyst in islice(cycle((sign_votes, save_the_last, poison_training, boost_votes)), 500):
        report, holdout = attack(analyst, n, 39, rng, method=method, **used)
        assert holdout.guarantee.holds
        is_far = method != "ladder" and report.worst > 0.15
        failures += is_far or not report.is_covered

    assert failures <= BETA * 500
