"""Randomized response: each unit reports its own category with local privacy."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import NDArray

from confide.errors import BadDeclaration
from confide.exact import Number, ball, integer, positive
from confide.loss import PureLoss
from confide.mechanisms.grid import read_integers
from confide.noise import SYSTEM, Entropy, Integers, bernoulli, categorical

__all__ = ["RandomizedResponse"]


@dataclass(frozen=True, slots=True, init=False)
class RandomizedResponse:
    """A mechanism that reports the true category with some probability, else another one.

    Law:     the truth with probability e^epsilon / (e^epsilon + k - 1), each other category with
             probability 1 / (e^epsilon + k - 1), for k categories.
    Claim:   epsilon-DP for each single report (the local model).
    Why:     for two true categories, the probabilities of a report are equal or differ by exactly
             the factor e^epsilon.
    Source:  [War65], [KLNRS11].
    Checked: tests/mechanisms/test_randomized_response.py (law, estimate),
             tests/audit/test_claims.py (claim).

    >>> RandomizedResponse(epsilon=50, categories=3).release(2)
    2
    """

    epsilon: Fraction
    categories: int

    def __init__(self, epsilon: Number = 1, categories: int = 2) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", epsilon))
        object.__setattr__(self, "categories", integer("categories", categories, low=2, high=2**20))

    @property
    def loss(self) -> PureLoss:
        """The privacy loss of one report for the unit that makes it."""
        return PureLoss(epsilon=self.epsilon)

    def chance_of_truth(self) -> arb:
        """Return a ball around the probability of a truthful report."""
        return 1 / (1 + (self.categories - 1) * (-ball(self.epsilon)).exp())

    def release(
        self, x: int | NDArray[np.int64] | list[int], *, entropy: Entropy = SYSTEM
    ) -> int | list[int] | NDArray[np.int64]:
        """Return a report for each true category in ``x`` (0, 1, ..., categories - 1)."""
        truth = self._read("x", x)
        flat = truth.reshape(-1)
        honest = bernoulli(self.chance_of_truth, flat.size, entropy)
        shift = 1 + categorical([1] * (self.categories - 1), flat.size, entropy)
        # Privacy: make both draws for every report, so that the time reveals nothing.
        reports = np.where(honest, flat, (flat + shift) % self.categories).reshape(truth.shape)
        return reports if isinstance(x, np.ndarray) else reports.tolist()

    def estimate(self, reports: NDArray[np.int64] | list[int]) -> tuple[list[float], list[float]]:
        """Return the estimated fraction of each true category, and its standard error.

        Why: let p be the probability of a truthful report, and r = (1 - p) / (k - 1). A category
             that a fraction f of the units has is reported with probability f p + (1 - f) r, so
             solving for f gives an unbiased estimate.
        """
        observed = self._read("reports", reports)
        truth = float(self.chance_of_truth())
        other = (1 - truth) / (self.categories - 1)
        share = np.bincount(observed.reshape(-1), minlength=self.categories) / observed.size
        error = np.sqrt(share * (1 - share) / observed.size) / (truth - other)
        return ((share - other) / (truth - other)).tolist(), error.tolist()

    def _read(self, name: str, values: object) -> Integers:
        read = read_integers(name, values)
        if (read < 0).any() or (read >= self.categories).any():
            raise BadDeclaration(
                f"`{name}` must contain categories from 0 to {self.categories - 1}. Number your "
                "categories from 0."
            )
        return read
