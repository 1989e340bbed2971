"""Permute-and-flip mechanism: choosing one of many candidates under pure differential privacy."""

from dataclasses import dataclass

from confide.loss import PureLoss
from confide.mechanisms.grid import Values
from confide.mechanisms.scores import Selector, read_scores
from confide.noise import EXPONENTIAL, SYSTEM, Entropy, noisy_argmax

__all__ = ["PermuteAndFlip"]


@dataclass(frozen=True, slots=True, init=False)
class PermuteAndFlip(Selector):
    """A mechanism that chooses a candidate, on average no worse than the exponential mechanism.

    Law:     visit the candidates in random order and accept each with probability
             exp(rate * (score - best)), until one is accepted; rate = epsilon / (2 s), or
             epsilon / s for monotone scores.
    Claim:   epsilon-DP; the same accuracy bound as `Exponential`, and an expected distance from
             the best score that is not larger.
    Why:     the law is that of the noisy maximum with exponential noise (not that of the
             exponential mechanism, which needs Gumbel noise). Fix the noise of all candidates
             except i, and let m be their greatest rate * score + noise. Candidate i wins with
             probability min(1, exp(rate * score_i - m)), and one unit changes m - rate * score_i by
             at most 2 s rate = epsilon, or s rate = epsilon if all scores change in the same
             direction.
    Source:  [MS20], [DKSSWXZ21].
    Checked: tests/mechanisms/test_selection.py (law, accuracy), tests/audit/test_claims.py.

    >>> PermuteAndFlip(sensitivity=1, epsilon=2).choose([0, 0, 500])
    2
    """

    @property
    def loss(self) -> PureLoss:
        """The privacy loss of one choice."""
        return PureLoss(epsilon=self.epsilon)

    def choose(self, scores: Values, *, entropy: Entropy = SYSTEM) -> int:
        """Return the index of the chosen candidate."""
        return noisy_argmax(read_scores(scores), self.rate, EXPONENTIAL, entropy)
