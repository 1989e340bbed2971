"""Splits a loss among keys, totals and quantiles; scales the noise to it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

from confide.errors import BadDeclaration
from confide.loss import BoundedRangeLoss, GaussianLoss, Loss, PureLoss, RenyiLoss
from confide.loss.enclosure import last_dyadic, shorten_down
from confide.noise import (
    BoxNoise,
    DiscreteLaplace,
    IndependentNoise,
    NoiseLaw,
    RoundedGaussian,
)
from confide.plan.sensitivity import TotalSensitivity

__all__ = [
    "NO_NOISE",
    "TotalNoise",
    "fraction_of",
    "loss_for_noise",
    "max_epsilon",
    "noise_for",
    "split_loss",
]

NEAR: Final = Fraction(1, 2**40)
HALVINGS: Final = 22


def fraction_of(granted: Loss, part: Fraction) -> Loss:
    """Return a part of a loss; parts that add up to 1 cost no more than the whole.

    Why: epsilon, mu^2 and the divergence of one order each add up under composition, also when
         a later mechanism is chosen after seeing what an earlier one released.
    """
    match granted:
        case PureLoss(epsilon=epsilon):
            return PureLoss(epsilon * part)
        case GaussianLoss(mu_squared=mu_squared):
            return GaussianLoss(mu_squared * part)
        case RenyiLoss(order=order, divergence=divergence):
            return RenyiLoss(order, divergence * part)
        case _:
            raise BadDeclaration(f"a granted loss must be pure, Gaussian or Renyi, got {granted!r}")


def loss_for_noise(granted: Loss) -> PureLoss | GaussianLoss:
    """Return the loss that noise is made for, of a granted one."""
    match granted:
        case PureLoss() | GaussianLoss():
            return granted
        case RenyiLoss(order=order, divergence=divergence):
            return GaussianLoss(2 * divergence / order)
        case _:
            raise BadDeclaration(f"a granted loss must be pure, Gaussian or Renyi, got {granted!r}")


def max_epsilon(
    granted: Loss, kind: type[PureLoss] | type[BoundedRangeLoss], rounds: int = 1
) -> Fraction:
    """Return the greatest epsilon of which ``rounds`` uses cost at most ``granted``, rounded down.

    Claim: ``rounds`` losses of this kind and epsilon are within ``granted`` in its own currency.
    Why:   epsilon, mu^2 and the divergence of one order each add up under composition and grow
           with epsilon, and the upper bound of the cost was compared at the number returned.
    """
    if isinstance(granted, PureLoss):
        return granted.epsilon / rounds
    return _last_epsilon(granted, kind is PureLoss, rounds)


@lru_cache(maxsize=1024)
def _last_epsilon(granted: Loss, is_pure: bool, rounds: int) -> Fraction:  # noqa: FBT001
    kind = PureLoss if is_pure else BoundedRangeLoss

    def fits(epsilon: Fraction) -> bool:
        return _fits(kind(epsilon), granted, rounds)

    near = Fraction(_guess(granted, rounds)) / (2 if is_pure else 1)
    low, high = near * (1 - NEAR), near * (1 + NEAR)
    if not low or not fits(low) or fits(high):
        return last_dyadic(fits)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return shorten_down(low)


def _guess(granted: Loss, rounds: int) -> float:
    """Return about the epsilon of bounded range that costs this much; twice that of a pure loss.

    Only a guess, 0 where there is none: what comes of it is compared with the grant.
    """
    if not isinstance(granted, GaussianLoss):
        return 0.0
    rise = math.erf(math.sqrt(granted.mu_squared / rounds / 8))
    return 4 * math.atanh(rise) if rise < 1 else 0.0


def _fits(loss: PureLoss | BoundedRangeLoss, granted: Loss, rounds: int) -> bool:
    match granted:
        case GaussianLoss(mu_squared=mu_squared):
            return rounds * loss.mu_squared <= mu_squared
        case RenyiLoss(order=order, divergence=divergence):
            return rounds * loss.renyi_above(order) <= divergence
        case _:
            raise BadDeclaration(f"a granted loss must be pure, Gaussian or Renyi, got {granted!r}")


STEPS_PER_DEVIATION: Final = 1_000


@dataclass(frozen=True, slots=True)
class TotalNoise:
    """The noise for one group's totals: a law on whole noise steps, and the steps themselves.

    ``mechanism`` is its name in previews: "Laplace", "KNorm" or "Gaussian".

    ``steps[i]`` is the size of a noise step of total i, in its own whole units; it divides the side
    of its reach, so rounding to it leaves the reach as it was.
    """

    mechanism: str
    steps: tuple[Fraction, ...]
    law: NoiseLaw


NO_NOISE: Final = TotalNoise("", (), IndependentNoise(()))
"""The noise of an answer without totals."""


def noise_for(reaches: Sequence[TotalSensitivity], loss: PureLoss | GaussianLoss) -> TotalNoise:
    """Return the noise that costs ``loss``.

    Claim:   the release of all groups costs ``loss``, whichever groups and rows a unit has.
    Why:     rounding to steps is monotone and commutes with whole steps, so rounded totals keep to
             the z_gi of `TotalSensitivity`. Pure: independent K-norm noise in each group, for the
             box that reaches boxes_i sides out, changes by a factor of at most exp(epsilon * sum
             over groups of the largest z_gi / boxes_i); for one total that is Laplace noise.
             Gaussian: d totals, each with sigma^2 = side^2 * d * squares / mu^2, make a squared
             distance of at most d * (mu^2 / d).
    """
    if not reaches:
        return NO_NOISE
    match loss:
        case PureLoss(epsilon=epsilon):
            deviations = [reach.boxes / epsilon for reach in reaches]
            cuts = [_cuts(reach.side, one) for reach, one in zip(reaches, deviations, strict=True)]
            scales = tuple(cut * one for cut, one in zip(cuts, deviations, strict=True))
            steps = _steps(reaches, cuts)
            if len(scales) > 1:
                return TotalNoise("KNorm", steps, BoxNoise(scales))
            return TotalNoise("Laplace", steps, IndependentNoise((DiscreteLaplace(scales[0]),)))
        case GaussianLoss(mu_squared=mu_squared):
            variances = [len(reaches) * reach.squares / mu_squared for reach in reaches]
            cuts = [
                _cuts(reach.side, Fraction(math.sqrt(one)))
                for reach, one in zip(reaches, variances, strict=True)
            ]
            laws = (RoundedGaussian(cut**2 * one) for cut, one in zip(cuts, variances, strict=True))
            return TotalNoise("Gaussian", _steps(reaches, cuts), IndependentNoise(tuple(laws)))


def _steps(reaches: Sequence[TotalSensitivity], cuts: Sequence[int]) -> tuple[Fraction, ...]:
    return tuple(Fraction(reach.side, cut) for reach, cut in zip(reaches, cuts, strict=True))


def _cuts(side: int, deviation: Fraction) -> int:
    """Return into how many noise steps to cut a side.

    About STEPS_PER_DEVIATION of them make one deviation; a step is never below one whole unit.
    """
    return max(1, min(side, round(STEPS_PER_DEVIATION / deviation)))


MAX_WEIGHT: Final = 3


def split_loss(
    totals: int, levels: Sequence[Fraction], granted: Loss
) -> tuple[Fraction, tuple[Fraction, ...]]:
    """Return the part of a loss that all totals together take, and the part of each quantile.

    Law:     a total weighs 1, a quantile of level q weighs max(q, 1 - q) / min(q, 1 - q), at most
             3: under a pure loss as it is, otherwise squared. Parts are in proportion to weights.
    Claim:   the parts add up to 1, if there is a total or a quantile.
    Why:     noise moves the rank of a quantile in proportion to max(q, 1 - q), and only a part
             min(q, 1 - q) of the rows lies beyond it. The weight is the error relative to these
             rows, compared with a median's. Errors fall with a part of epsilon, and with the root
             of a part of mu^2 or of a divergence. The limit leaves enough for the other columns:
             with it, a 90% quantile and a standard deviation next to it are about equally far off.
    Checked: tests/plan/test_allocation.py, bench/groups.py.

    >>> [str(part) for part in split_loss(4, [Fraction(9, 10)], PureLoss(1))[1]]
    ['3/7']
    """
    power = 1 if isinstance(granted, PureLoss) else 2
    odds = (max(level, 1 - level) / min(level, 1 - level) for level in levels)
    weights = [min(one, Fraction(MAX_WEIGHT)) ** power for one in odds]
    whole = totals + sum(weights) or Fraction(1)
    return Fraction(totals) / whole, tuple(weight / whole for weight in weights)
