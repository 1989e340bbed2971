"""The choice of a bin width from exact counts; the counts stay here."""

import numpy as np

from confide.engines import Sealed, open_sealed
from confide.mechanisms.grid import saturate
from confide.noise import Entropy
from confide.plan.selection import WidthChoice

__all__ = ["choose_width"]


def choose_width(sealed: Sealed, choice: WidthChoice, entropy: Entropy) -> int:
    """Return the chosen number of halvings.

    # Privacy: counts of bins outside the range are dropped unseen; nothing but the place of the
    # chosen candidate leaves.
    """
    exact = open_sealed(sealed)
    counts = [exact.get((place,), (0,))[0] for place in range(2**choice.levels)]
    scores = np.array([saturate(score) for score in choice.scores(counts)], dtype=np.int64)
    return choice.selector.choose(scores, entropy=entropy)
