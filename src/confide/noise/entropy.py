"""Secure random words from the operating system, expanded by ChaCha20."""

import os
from typing import Final, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

__all__ = ["SYSTEM", "Entropy", "SystemEntropy", "Words"]

Words = NDArray[np.uint64]

MAX_DIRECT_WORDS: Final = 64
"""The largest number of words that the system's generator yields faster than a new cipher."""


class Entropy(Protocol):
    """A source of independent uniform 64-bit words."""

    def words(self, count: int) -> Words:
        """Return ``count`` words, independent of all words returned before."""
        ...


class SystemEntropy:
    """Words from the operating system's generator, or from a ChaCha20 keystream with a key from it.

    Every call reads the generator again and keeps no state. So forked processes, other threads, and
    pickled copies have nothing to share or repeat. A leaked key reveals nothing about other calls.
    """

    __slots__ = ()

    def words(self, count: int) -> Words:
        """Return ``count`` new words."""
        size = 8 * count
        if count <= MAX_DIRECT_WORDS:
            return np.frombuffer(os.urandom(size), dtype=np.uint64)
        cipher = Cipher(algorithms.ChaCha20(key=os.urandom(32), nonce=bytes(16)), mode=None)
        return np.frombuffer(cipher.encryptor().update(bytes(size)), dtype=np.uint64)


SYSTEM: Final = SystemEntropy()
