"""Noise calibration: splits a loss between totals and quantiles, and scales the noise.

`make_plan` calls it with the loss that a share of the budget buys. Losses have three roles. The
privacy filter *grants* a pure loss, a Gaussian loss, or a Renyi divergence of one order. Noise is
calibrated to a pure or Gaussian loss. A choice has a pure or a bounded-range loss.
"""

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

GUESS_TOLERANCE: Final = Fraction(1, 2**40)
BISECTION_STEPS: Final = 22


def fraction_of(granted: Loss, part: Fraction) -> Loss:
    """Return a fraction of a loss; fractions that add up to 1 cost no more than the entire loss.

    Why: epsilon, mu^2, and the divergence of one order each add up under composition, even if
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
            raise BadDeclaration(
                f"A granted loss must be pure, Gaussian, or Renyi; got {granted!r}."
            )


def loss_for_noise(granted: Loss) -> PureLoss | GaussianLoss:
    """Return the loss to which noise is calibrated, given a granted loss.

    Why: Gaussian noise with mu^2 = 2 divergence / order has exactly this Renyi divergence of this
         order.
    """
    match granted:
        case PureLoss() | GaussianLoss():
            return granted
        case RenyiLoss(order=order, divergence=divergence):
            return GaussianLoss(2 * divergence / order)
        case _:
            raise BadDeclaration(
                f"A granted loss must be pure, Gaussian, or Renyi; got {granted!r}."
            )


def max_epsilon(
    granted: Loss, kind: type[PureLoss] | type[BoundedRangeLoss], rounds: int = 1
) -> Fraction:
    """Return the largest epsilon for which ``rounds`` uses cost at most ``granted``, rounded down.

    Claim: ``rounds`` losses of this kind and epsilon together are at most ``granted``, measured by
           its epsilon, mu^2, or divergence.
    Why:   each of these measures adds up under composition and increases with epsilon. At an
           epsilon that is at least the returned one, an upper bound of the losses' cost was at most
           the grant.
    """
    if isinstance(granted, PureLoss):
        return granted.epsilon / rounds
    return _last_epsilon(granted, kind is PureLoss, rounds)


@lru_cache(maxsize=1024)
def _last_epsilon(granted: Loss, is_pure: bool, rounds: int) -> Fraction:  # noqa: FBT001
    """Return the largest epsilon that fits, rounded down, by bisection around a guess if any."""
    kind = PureLoss if is_pure else BoundedRangeLoss

    def fits(epsilon: Fraction) -> bool:
        return _fits(kind(epsilon), granted, rounds)

    guess = Fraction(_guess_epsilon(granted, rounds)) / (2 if is_pure else 1)
    low, high = guess * (1 - GUESS_TOLERANCE), guess * (1 + GUESS_TOLERANCE)
    if not low or not fits(low) or fits(high):
        return last_dyadic(fits)
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return shorten_down(low)


def _guess_epsilon(granted: Loss, rounds: int) -> float:
    """Return a guess of the bounded-range epsilon that fits, or 0 without a guess.

    The pure loss with the same cost has about half that epsilon. The guess only speeds up the
    search: no epsilon that `_last_epsilon` returns is larger than one that fits.
    """
    if not isinstance(granted, GaussianLoss):
        return 0.0
    rise = math.erf(math.sqrt(granted.mu_squared / rounds / 8))
    return 4 * math.atanh(rise) if rise < 1 else 0.0


def _fits(loss: PureLoss | BoundedRangeLoss, granted: Loss, rounds: int) -> bool:
    """Return whether ``rounds`` such losses cost at most ``granted``."""
    match granted:
        case GaussianLoss(mu_squared=mu_squared):
            return rounds * loss.mu_squared <= mu_squared
        case RenyiLoss(order=order, divergence=divergence):
            return rounds * loss.renyi_above(order) <= divergence
        case _:
            raise BadDeclaration(
                f"A granted loss must be pure, Gaussian, or Renyi; got {granted!r}."
            )


STEPS_PER_DEVIATION: Final = 1_000


@dataclass(frozen=True, slots=True)
class TotalNoise:
    """The noise for one group's totals: a distribution over noise steps, and the size of a step.

    Noise is an integer number of noise steps for each total, drawn from ``law``. ``mechanism`` is
    the name shown in previews: "Laplace", "KNorm", or "Gaussian".

    ``steps[i]`` is the size of a noise step of total i. (Totals are integers: numbers of rows, of
    units, or of steps of a value's grid.) The side of the total's sensitivity (see
    `TotalSensitivity`) is an integer number of noise steps, so rounding a total to noise steps
    leaves its sensitivity unchanged.
    """

    mechanism: str
    steps: tuple[Fraction, ...]
    law: NoiseLaw


NO_NOISE: Final = TotalNoise("", (), IndependentNoise(()))
"""The noise for an answer without totals."""


def noise_for(
    sensitivities: Sequence[TotalSensitivity], loss: PureLoss | GaussianLoss
) -> TotalNoise:
    """Return the noise for totals with these sensitivities whose cost is ``loss``.

    Claim:   releasing all groups costs ``loss``, whichever groups and rows a unit has.
    Why:     rounding to noise steps is monotone and commutes with adding an integer number of
             steps, so the rounded totals satisfy the bounds z_gi of `TotalSensitivity` too.
             Pure: K-norm noise is drawn independently in each group, for the box with half-width
             boxes_i sides in coordinate i. One unit changes probabilities by a factor of at most
             exp(epsilon * sum over groups of the largest z_gi / boxes_i), and that sum is at most
             1. For one total this is Laplace noise.
             Gaussian: total i has sigma^2 = side^2 * d * squares / mu^2, where d is the number of
             totals. One unit changes it by a squared distance of at most side^2 * squares over all
             groups, which is mu^2 / d in units of sigma^2. The d totals add up to at most mu^2.
    """
    if not sensitivities:
        return NO_NOISE
    match loss:
        case PureLoss(epsilon=epsilon):
            # Here and below, scales, variances, and deviations are in sides (or squared sides)
            # until multiplied by ``counts`` (or their squares), the numbers of steps per side.
            side_scales = [sensitivity.boxes / epsilon for sensitivity in sensitivities]
            counts = [
                _steps_per_side(sensitivity.side, scale)
                for sensitivity, scale in zip(sensitivities, side_scales, strict=True)
            ]
            scales = tuple(count * scale for count, scale in zip(counts, side_scales, strict=True))
            steps = _steps(sensitivities, counts)
            if len(scales) > 1:
                return TotalNoise("KNorm", steps, BoxNoise(scales))
            return TotalNoise("Laplace", steps, IndependentNoise((DiscreteLaplace(scales[0]),)))
        case GaussianLoss(mu_squared=mu_squared):
            variances = [
                len(sensitivities) * sensitivity.squares / mu_squared
                for sensitivity in sensitivities
            ]
            counts = [
                _steps_per_side(sensitivity.side, Fraction(math.sqrt(variance)))
                for sensitivity, variance in zip(sensitivities, variances, strict=True)
            ]
            laws = (
                RoundedGaussian(count**2 * variance)
                for count, variance in zip(counts, variances, strict=True)
            )
            return TotalNoise(
                "Gaussian", _steps(sensitivities, counts), IndependentNoise(tuple(laws))
            )


def _steps(
    sensitivities: Sequence[TotalSensitivity], counts: Sequence[int]
) -> tuple[Fraction, ...]:
    """Return the size of each total's noise step, from the numbers of steps per side."""
    return tuple(
        Fraction(sensitivity.side, count)
        for sensitivity, count in zip(sensitivities, counts, strict=True)
    )


def _steps_per_side(side: int, deviation: Fraction) -> int:
    """Return the number of noise steps per side, given the noise's deviation or scale in sides.

    About STEPS_PER_DEVIATION steps make one deviation, unless a step would then be less than 1 or
    more than a side.
    """
    return max(1, min(side, round(STEPS_PER_DEVIATION / deviation)))


MAX_WEIGHT: Final = 3


def split_loss(
    totals: int, levels: Sequence[Fraction], granted: Loss
) -> tuple[Fraction, tuple[Fraction, ...]]:
    """Return the fraction of a loss for all totals together, and the fraction for each quantile.

    ``totals`` is the number of totals, and ``levels`` lists the quantiles' levels.

    Law:     a total has weight 1. A quantile of level q has weight max(q, 1 - q) / min(q, 1 - q),
             but at most 3; the weight is squared unless the loss is pure. Fractions are in
             proportion to weights.
    Claim:   the fractions add up to 1 if there is a total or a quantile.
    Why:     noise moves the rank of a quantile in proportion to max(q, 1 - q), and only a fraction
             min(q, 1 - q) of the rows lies beyond it. The weight is the error relative to these
             rows, compared with that of a median. Errors are inversely proportional to a fraction
             of epsilon, or to the square root of a fraction of mu^2 or of a divergence. The limit
             leaves enough for the other columns: with it, a 90% quantile and a standard deviation
             in the same query have errors of about the same size.
    Checked: tests/plan/test_cost_split.py, bench/groups.py.

    >>> [str(part) for part in split_loss(4, [Fraction(9, 10)], PureLoss(1))[1]]
    ['3/7']
    """
    power = 1 if isinstance(granted, PureLoss) else 2
    odds = (max(level, 1 - level) / min(level, 1 - level) for level in levels)
    weights = [min(ratio, Fraction(MAX_WEIGHT)) ** power for ratio in odds]
    total_weight = totals + sum(weights) or Fraction(1)
    return Fraction(totals) / total_weight, tuple(weight / total_weight for weight in weights)
