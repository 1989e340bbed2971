"""Random bits from the operating system, stretched by ChaCha20."""

import os
from typing import Final, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

__all__ = ["SYSTEM", "Entropy", "SystemEntropy", "Words"]

Words = NDArray[np.uint64]

DIRECT_WORDS: Final = 64
"""Up to here asking the system for every bit is quicker than setting up a cipher."""


class Entropy(Protocol):
    """A source of independent uniform 64-bit words."""

    def words(self, count: int) -> Words:
        """Return ``count`` fresh words, never handed out before."""
        ...


class SystemEntropy:
    """Words from the operating system's generator, or a ChaCha20 keystream that it keys.

    Every call takes a new key, and nothing is kept between calls. So there is no state that a
    forked process, another thread or a pickled copy could share or repeat, and a key that leaks
    after a call tells nothing of other calls.
    """

    __slots__ = ()

    def words(self, count: int) -> Words:
        """Return ``count`` fresh words."""
        size = 8 * count
        if count <= DIRECT_WORDS:
            return np.frombuffer(os.urandom(size), dtype=np.uint64)
        cipher = Cipher(algorithms.ChaCha20(key=os.urandom(32), nonce=bytes(16)), mode=None)
        return np.frombuffer(cipher.encryptor().update(bytes(size)), dtype=np.uint64)


SYSTEM: Final = SystemEntropy()
