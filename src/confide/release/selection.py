"""Choices made from exact totals: what leaves is a name or a yes or no, never a number."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from confide.engines import Sealed, open_sealed
from confide.ledger import Receipt
from confide.mechanisms import SparseVector
from confide.mechanisms.grid import saturate
from confide.noise import Entropy
from confide.plan import Plan
from confide.plan.selection import Contest, Selection, only_total, score_unit
from confide.release.answer import Cost
from confide.release.noise import NoisyTotals, round_to_steps

__all__ = ["Choice", "choose_candidate", "compare_score", "select_keys"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidate that was chosen, with what the choice cost.

    ``regret`` bounds by how much its score may fall short of the best one, at 95 % confidence.
    """

    value: str
    cost: Cost
    receipt: Receipt
    reused: bool
    regret: float

    def __str__(self) -> str:
        return f"{self.value!r}, within {self.regret:.4g} of the best (95 %); cost {self.cost}"


def select_keys(sealed: Sealed, selection: Selection, entropy: Entropy) -> NoisyTotals:
    """Return the chosen keys in the order of their choice, without any number.

    # Privacy: every declared key takes part, found or not; what was counted for other keys is
    # dropped unseen. Cutting a count off at 2^61 never widens its move.
    """
    exact = open_sealed(sealed)
    groups = list(selection.groups)
    scores = np.array([saturate(exact.get(group, (0,))[0]) for group in groups], dtype=np.int64)
    chosen = []
    for _ in range(selection.most):
        place = selection.selector.choose(scores, entropy=entropy)
        chosen.append(groups.pop(place))
        scores = np.delete(scores, place)
    return NoisyTotals(tuple(chosen), ((),) * len(chosen))


def choose_candidate(sealed: Sequence[Sealed], contest: Contest, entropy: Entropy) -> int:
    """Return the place of the chosen candidate."""
    scores = [
        _score(one, plan, contest.step) for one, plan in zip(sealed, contest.plans, strict=True)
    ]
    return contest.selector.choose(np.array(scores, dtype=np.int64), entropy=entropy)


def compare_score(sealed: Sealed, plan: Plan, step: Fraction, vector: SparseVector) -> bool:
    """Tell whether a score lies above the threshold of a session, up to its noise."""
    return vector.ask(_score(sealed, plan, step))


def _score(sealed: Sealed, plan: Plan, step: Fraction) -> int:
    """Return an exact total in steps.

    # Privacy: a total beyond 2^61 steps is cut off, not refused, so that no message tells of it.
    """
    (total,) = open_sealed(sealed).get((), (0,))
    return saturate(round_to_steps(total * score_unit(only_total(plan)), step))
