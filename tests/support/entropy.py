"""A seeded source of bits, for tests only; nothing under src/ takes a seed."""

import hashlib

import numpy as np
from numpy.typing import NDArray

__all__ = ["SeededEntropy"]


class SeededEntropy:
    """Pseudorandom words that are determined by a seed and a purpose.

    It implements `confide.noise.Entropy`. The generator is Philox, keyed with a hash of the seed
    and the purpose, so two tests never use the same stream.
    """

    def __init__(self, seed: str, purpose: str = "") -> None:
        digest = hashlib.sha256(f"{seed}\0{purpose}".encode()).digest()
        self._bits = np.random.Philox(key=int.from_bytes(digest[:16], "little"))

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next ``count`` words of 64 bits each."""
        return np.asarray(self._bits.random_raw(count), dtype=np.uint64)
