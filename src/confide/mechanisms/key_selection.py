"""Selection of undeclared group keys that enough units share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import NDArray

from confide.errors import BadDeclaration
from confide.exact import Number, first_integer, integer, is_above, positive, probability
from confide.loss import ApproximateLoss, GaussianLoss, PureLoss
from confide.loss.enclosure import probability_above
from confide.mechanisms.grid import MAX_VALUE, read_integers
from confide.mechanisms.neighbours import Neighbours, histogram_sensitivity
from confide.noise import SYSTEM, DiscreteLaplace, Entropy, Integers, RoundedGaussian

__all__ = ["KeySelection"]


@dataclass(frozen=True, slots=True, init=False)
class KeySelection:
    """A mechanism that releases the keys whose noisy number of units reaches a threshold.

    ``keys_per_unit`` is the maximum number of keys to which one unit contributes, at most once per
    key. Give ``epsilon`` for Laplace noise, or ``mu`` or ``rho`` for Gaussian noise. ``delta``
    bounds the probability that any of the up to ``keys_per_unit`` keys held by one unit alone is
    selected.

    Law:     with noise Z and threshold t, a key with n units is released with count n + Z if
             n + Z >= t.
    Claim:   epsilon-DP (or mu-Gaussian DP) except with probability d = 1 - (1 - p)^L, where
             p = P(1 + Z >= t) and L = keys_per_unit; t is the smallest with d <= delta. The same
             d holds under add-remove and replace.
    Why:     the keys that both neighboring datasets contain form a noisy histogram. One dataset
             has k keys that the other lacks, and the other has k' such keys, each with one unit; k
             and k' are at most L. With probability (1 - p)^k for the first dataset and (1 - p)^k'
             for the second, none of these keys is selected, independently of the rest, and then
             the output is that of the histogram. Both probabilities are at least 1 - d. So each
             output distribution is a mixture of the histogram's, with weight 1 - d, and another
             one, with weight d. The two histograms' output distributions satisfy epsilon-DP (or
             mu-Gaussian DP).
    Source:  [KKMN09], [DVGM22]; the bound for L > 1 is argued above.
    Checked: tests/mechanisms/test_key_selection.py (law, exact delta for small cases),
             tests/audit/test_claims.py (claim).

    >>> KeySelection(keys_per_unit=1, epsilon=1, delta=1e-6).threshold
    15
    """

    keys_per_unit: int
    neighbours: Neighbours
    inner: PureLoss | GaussianLoss
    threshold: int
    noise: DiscreteLaplace | RoundedGaussian = field(repr=False, compare=False)

    def __init__(
        self,
        keys_per_unit: int = 1,
        epsilon: Number | None = None,
        delta: Number = 0,
        *,
        mu: Number | None = None,
        rho: Number | None = None,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    ) -> None:
        count = integer("keys_per_unit", keys_per_unit, low=1, high=MAX_VALUE)
        allowed = probability("delta", delta, zero=False)
        relation = Neighbours.of(neighbours)
        inner, noise = _loss_and_noise(count, epsilon, mu, rho, relation)
        names = ("keys_per_unit", "neighbours", "inner", "noise", "threshold")
        threshold = _threshold(noise, count, allowed)
        for name, value in zip(names, (count, relation, inner, noise, threshold), strict=True):
            object.__setattr__(self, name, value)

    @property
    def loss(self) -> ApproximateLoss:
        """The privacy loss of one release.

        Its failure probability is the one that the integer threshold actually achieves, which may
        be below the requested delta.
        """
        failure = probability_above(
            lambda: _single_unit_release_probability(self.noise, self.threshold, self.keys_per_unit)
        )
        return ApproximateLoss(inner=self.inner, failure=failure)

    def release(
        self, counts: NDArray[np.int64] | list[int], *, entropy: Entropy = SYSTEM
    ) -> tuple[NDArray[np.bool_], Integers]:
        """Return a mask of the selected keys and the noisy counts, zero for other keys.

        Show only the selected keys with their counts. The number of other keys, and their
        positions among the selected ones, are sensitive.
        """
        # Privacy: treat data with no keys like any other data; refusing would reveal that there
        # are none.
        units = read_integers("counts", counts, least=0).reshape(-1)
        if (units < 1).any():
            raise BadDeclaration("`counts` must be at least 1, because each key has a unit.")
        noisy = np.clip(units + self.noise.draw(units.size, entropy), -MAX_VALUE, MAX_VALUE)
        selected = noisy >= self.threshold
        # Privacy: never return the noisy count of a key that is not selected.
        return selected, np.where(selected, noisy, 0)

    def release_keys(
        self, counts: Mapping[str, int], *, entropy: Entropy = SYSTEM
    ) -> dict[str, int]:
        """Return the selected keys with their noisy counts, sorted by key."""
        if not isinstance(counts, Mapping):
            raise BadDeclaration(
                '`counts` must map each key to its number of units, such as {"A": 12}.'
            )
        keys = sorted(counts)
        selected, noisy = self.release([counts[key] for key in keys], entropy=entropy)
        return {key: int(noisy[i]) for i, key in enumerate(keys) if selected[i]}


def _loss_and_noise(
    keys: int,
    epsilon: Number | None,
    mu: Number | None,
    rho: Number | None,
    neighbours: Neighbours,
) -> tuple[PureLoss | GaussianLoss, DiscreteLaplace | RoundedGaussian]:
    sensitivity = histogram_sensitivity(neighbours, cells=keys)
    if sum(value is not None for value in (epsilon, mu, rho)) != 1:
        raise BadDeclaration("Key selection needs exactly one of `epsilon=`, `mu=`, and `rho=`.")
    if epsilon is not None:
        exact = positive("epsilon", epsilon)
        return PureLoss(epsilon=exact), DiscreteLaplace(sensitivity.l1 / exact)
    mu_squared = positive("mu", mu) ** 2 if rho is None else 2 * positive("rho", rho)
    return GaussianLoss(mu_squared=mu_squared), RoundedGaussian(sensitivity.l2_squared / mu_squared)


def _single_unit_release_probability(
    noise: DiscreteLaplace | RoundedGaussian, threshold: int, keys: int
) -> arb:
    """Return a ball around 1 - (1 - P(1 + Z >= threshold))^keys, for a threshold of at least 2."""
    alone = noise.tail(threshold - 1) / 2
    return -((-alone).log1p() * keys).expm1()


def _threshold(noise: DiscreteLaplace | RoundedGaussian, keys: int, delta: Fraction) -> int:
    """Return the smallest threshold, at least 2, that rarely releases any single-unit key.

    The probability of releasing any of ``keys`` such keys is at most ``delta``.
    """
    return first_integer(
        lambda threshold: (
            not is_above(lambda: _single_unit_release_probability(noise, threshold, keys), delta)
        ),
        start=2,
    )
