"""An entropy source whose first words the test chooses."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from confide.noise import Entropy

__all__ = ["ScriptedEntropy"]


class ScriptedEntropy:
    """The given words in order, then those of another source, or an error without one."""

    def __init__(self, words: Iterable[int], then: Entropy | None = None) -> None:
        self._script, self._then = list(words), then
        self.used = 0

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next ``count`` words."""
        told = self._script[self.used : self.used + count]
        self.used += count
        missing = count - len(told)
        if missing and self._then is None:
            raise AssertionError(f"{missing} more words were asked for than the test foresaw")
        rest = self._then.words(missing) if missing and self._then else np.empty(0, np.uint64)
        return np.concatenate([np.array(told, dtype=np.uint64), rest])
