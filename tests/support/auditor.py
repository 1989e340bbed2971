"""The auditor of `confide.audit` at the false alarm rate of tests."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from confide.audit import Claim, hockey_stick, largest_ratio, weigh
from support.laws import ALPHA

__all__ = ["audit", "hockey_stick", "largest_ratio"]

Outputs = NDArray[Any]


def audit(
    left: Outputs, right: Outputs, *, delta: float = 0.0, false_alarms: float = ALPHA
) -> float:
    """Return an epsilon that the two distributions exceed at ``delta``, or 0 without evidence.

    If the distributions are (epsilon, delta)-indistinguishable, the result is above epsilon with
    probability at most ``false_alarms``, for any event that is tried.
    """
    sides = [np.asarray(side) for side in (left, right)]
    if sides[0].dtype.kind not in "iufb":
        named = np.unique(np.concatenate(sides), axis=0, return_inverse=True)[1].reshape(-1)
        sides = [named[: len(left)], named[len(left) :]]
    return weigh(sides[0], sides[1], Claim.epsilon(0, delta), false_alarms=false_alarms).found
