"""Philox4x32-10: random numbers that are a pure function of where they are used.

A counter-based generator has no state to save, hand over or split: four counter words say which number is wanted, two
key words say of which experiment, and the answer is the same in any process, order and batch. That is what makes
masks and shuffling depend on (seed, step, row) and on nothing else.

Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. numpy's own
Philox is the 64-bit variant and yields one stream per generator; here whole arrays of counters are evaluated at once.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Purpose", "Words", "philox", "scale"]


class Purpose(enum.IntEnum):
    """What numbers are drawn for. Each has counters of its own, so that no two uses ever share a number."""

    TRAINING_MASK = 0
    TRAINING_REPLACEMENT = 1
    EVALUATION_MASK = 2
    SHUFFLE = 3

    def word(self, number: int) -> int:
        """A counter word that holds the purpose above a number below 2^24."""
        if not 0 <= number < 1 << 24:
            raise ValueError(f"must be a number below 2^24, got {number}")
        return self << 24 | number


Words: TypeAlias = npt.NDArray[np.uint64]
"""32-bit words, each held in 64 bits so that a product of two never overflows."""

_ROUNDS = 10
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox(counter: tuple[npt.ArrayLike, ...], key: int) -> tuple[Words, Words, Words, Words]:
    """Four random words for every counter.

    ``counter`` is four words (integers below 2^32, or arrays of them that broadcast together); ``key`` is below 2^64.
    """
    c0, c1, c2, c3 = (np.asarray(word, dtype=np.uint64) for word in counter)
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(_ROUNDS):
        product0, product1 = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            (product1 >> _HALF) ^ c1 ^ np.uint64(k0),
            product1 & _LOW,
            (product0 >> _HALF) ^ c3 ^ np.uint64(k1),
            product0 & _LOW,
        )
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


def scale(words: Words, limit: int) -> Words:
    """Random words as whole numbers in [0, limit), each as likely as the others to within limit / 2^32."""
    return (words * np.uint64(limit)) >> _HALF
