"""Losses compared with those of dp-accounting, within the error of its grid."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from confide.loss import (
    BoundedRangeLoss,
    GaussianLoss,
    LaplaceLoss,
    Loss,
    PureLoss,
    compose,
    mu_squared_for,
    repeat,
)
from support.oracle import ask_oracle

pytestmark = pytest.mark.oracle

STEP = 1e-4
PLD = """
import math
from dp_accounting.pld import privacy_loss_distribution as pld
batches, deltas, step, high = arguments
grid = {"value_discretization_interval": step, "pessimistic_estimate": high}
chords = {**grid, "use_connect_dots": high}
kinds = {
    "pure": lambda e: pld.from_randomized_response(2 / (1 + math.exp(e)), 2, **grid),
    "laplace": lambda e: pld.from_laplace_mechanism(1 / e, **chords),
    "discrete": lambda e, s: pld.from_discrete_laplace_mechanism(e / s, sensitivity=s, **chords),
    "gaussian": lambda s: pld.from_gaussian_mechanism(s, **chords),
}
found = []
for uses in batches:
    whole = None
    for kind, parameters, times in uses:
        part = kinds[kind](*parameters).self_compose(times)
        whole = part if whole is None else whole.compose(part)
    found.append([whole.get_epsilon_for_delta(delta) for delta in deltas])
print(json.dumps(found))
"""

DELTAS = [1e-2, 1e-6, 1e-9]
BATCHES: list[tuple[list[object], Loss]] = [
    ([["pure", [0.1], 100]], repeat(PureLoss(0.1), 100)),
    ([["pure", [2.0], 3]], repeat(PureLoss(2), 3)),
    ([["laplace", [0.1], 100]], repeat(LaplaceLoss(0.1, 10**9), 100)),
    ([["laplace", [1.0], 5]], repeat(LaplaceLoss(1, 10**9), 5)),
    ([["discrete", [1.0, 3], 10]], repeat(LaplaceLoss(1, 3), 10)),
    ([["gaussian", [2.0], 1]], GaussianLoss(Fraction(1, 4))),
    ([["gaussian", [10.0], 50]], repeat(GaussianLoss(Fraction(1, 100)), 50)),
    (
        [["pure", [0.01], 100], ["laplace", [0.01], 100]],
        compose([repeat(PureLoss(0.01), 100), repeat(LaplaceLoss(0.01, 10**9), 100)]),
    ),
    (
        [["gaussian", [2.0], 1], ["laplace", [0.2], 10], ["pure", [0.1], 10]],
        compose(
            [
                GaussianLoss(Fraction(1, 4)),
                repeat(LaplaceLoss(0.2, 10**9), 10),
                repeat(PureLoss(0.1), 10),
            ]
        ),
    ),
]


@cache
def estimates(*, high: bool) -> list[list[float]]:
    """Return the epsilons of all batches at all deltas, rounded up or down by dp-accounting."""
    found: list[list[float]] = ask_oracle(PLD, [uses for uses, _ in BATCHES], DELTAS, STEP, high)
    return found


@pytest.mark.parametrize("place", range(len(BATCHES)))
def test_epsilon_agrees(place: int) -> None:
    """Epsilon lies between the two estimates of dp-accounting, up to the errors of our grid."""
    low, high = estimates(high=False)[place], estimates(high=True)[place]
    actual = [BATCHES[place][1].epsilon_at(delta) for delta in DELTAS]

    assert all(below <= found * (1 + 1e-7) for below, found in zip(low, actual, strict=True))
    assert all(found <= above * 1.0002 for found, above in zip(actual, high, strict=True))


RENYI = """
import dp_accounting as dp
from dp_accounting import rdp
kinds = {
    "laplace": lambda e: dp.LaplaceDpEvent(1 / e),
    "gaussian": lambda s: dp.GaussianDpEvent(s),
}
kind, parameter, orders = arguments
accountant = rdp.RdpAccountant(orders)
accountant.compose(kinds[kind](parameter))
print(json.dumps(list(accountant._rdp)))
"""


@pytest.mark.parametrize(
    ("kind", "parameter", "loss"),
    [
        ("laplace", 0.5, LaplaceLoss(0.5, 10**12)),
        ("laplace", 3.0, LaplaceLoss(3, 10**12)),
        ("gaussian", 2.0, GaussianLoss(Fraction(1, 4))),
    ],
)
def test_renyi_divergences_agree(
    oracle: Callable[..., Any], kind: str, parameter: float, loss: Loss
) -> None:
    """Renyi divergences of single mechanisms equal those of dp-accounting."""
    orders = [1.5, 2, 5, 20, 100]
    expected = oracle(RENYI, kind, parameter, orders)

    assert pytest.approx(expected, rel=1e-8) == [loss.renyi(order) for order in orders]


GAUSSIAN = """
import dp_accounting as dp
from dp_accounting import mechanism_calibration as calibration
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_mechanism as mechanism
found = []
for epsilon, delta in arguments[0]:
    wanted = common.DifferentialPrivacyParameters(epsilon, delta)
    found.append(mechanism.GaussianPrivacyLoss.from_privacy_guarantee(wanted).standard_deviation)
print(json.dumps(found))
"""


def test_gaussian_calibration_agrees(oracle: Callable[..., Any]) -> None:
    """The standard deviation for (epsilon, delta) equals that of dp-accounting."""
    pairs = [(0.1, 1e-6), (1.0, 1e-6), (1.0, 1e-10), (8.0, 1e-3)]
    expected = oracle(GAUSSIAN, pairs)
    actual = [float(mu_squared_for(*pair)) ** -0.5 for pair in pairs]

    assert pytest.approx(expected, rel=1e-6) == actual


def test_bounded_range_is_below_pure() -> None:
    """100 exponential mechanisms cost less than 100 pure mechanisms do in dp-accounting."""
    pure = estimates(high=False)[0][1]

    assert repeat(BoundedRangeLoss(0.1), 100).epsilon_at(1e-6) < 0.75 * pure
