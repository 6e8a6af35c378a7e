"""Hashes of rows and texts by the array, and a count of repeats in constant memory."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

__all__ = ["Distinct", "Hashes", "mixed", "random_odd", "row_hashes", "text_hashes"]

Hashes = npt.NDArray[np.uint64]


def mixed(hashes: Hashes) -> Hashes:
    """Every bit spread over the word (MurmurHash3's finaliser, a bijection)."""
    hashes = hashes ^ (hashes >> np.uint64(33))
    hashes *= np.uint64(0xFF51AFD7ED558CCD)
    hashes ^= hashes >> np.uint64(33)
    hashes *= np.uint64(0xC4CEB9FE1A85EC53)
    return hashes ^ (hashes >> np.uint64(33))


@functools.lru_cache(maxsize=4)
def random_odd(count: int, seed: int) -> Hashes:
    """Factors for hashes that are sums of products: always the same ones."""
    factors = np.random.Generator(np.random.PCG64(seed)).integers(0, 2**64, count, dtype=np.uint64) | np.uint64(1)
    factors.flags.writeable = False
    return factors


def row_hashes(ids_NS: npt.NDArray[np.int32]) -> Hashes:
    """A hash of every row: a sum of tokens times random odd numbers, mixed (equal rows, equal hashes)."""
    return mixed((ids_NS.astype(np.uint64) + np.uint64(1)) @ random_odd(ids_NS.shape[1], seed=0))


def text_hashes(texts: Sequence[str], person: bytes = b"") -> Hashes:
    """A hash of every text; other persons give other hashes."""
    digests = b"".join(blake2b(text.encode(), digest_size=8, person=person).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


class Distinct:
    """How many of the hashes seen are repeats of earlier ones, exactly up to a limit, beyond it from a sample.

    The sample is of hash values, not of places: all hashes below a threshold are kept, and the threshold is halved
    whenever too many are, so a value is kept with all its repeats or not at all. ``whole``: what is added is all there
    is, and not itself such a sample.
    """

    def __init__(self, most_kept: int = 1 << 20, *, whole: bool = True) -> None:
        self._most_kept = most_kept
        self._whole = whole
        self._shift = 0
        self._values = np.zeros(0, dtype=np.uint64)
        self._counts = np.zeros(0, dtype=np.int64)
        self._waiting: list[Hashes] = []
        self._waiting_hashes = 0

    def add(self, hashes: Hashes) -> None:
        kept = hashes[hashes <= self._threshold]
        self._waiting.append(kept)
        self._waiting_hashes += len(kept)
        if self._waiting_hashes > max(len(self._values), 1 << 16):  # sorting pays when much is new
            self._merge()

    def _merge(self) -> None:
        """Sort what waits in among what is known."""
        if not self._waiting:
            return
        new = np.concatenate(self._waiting)
        values, places = np.unique(np.concatenate([self._values, new]), return_inverse=True)
        weights = np.concatenate([self._counts, np.ones(len(new), dtype=np.int64)])
        self._counts = np.bincount(places, weights, minlength=len(values)).astype(np.int64)
        self._values, self._waiting, self._waiting_hashes = values, [], 0
        while len(self._values) > self._most_kept:
            self._shift += 1
            below = self._values <= self._threshold
            self._values, self._counts = self._values[below], self._counts[below]

    @property
    def _threshold(self) -> np.uint64:
        return np.uint64((2**64 - 1) >> self._shift)

    @property
    def exact(self) -> bool:
        self._merge()
        return self._whole and self._shift == 0

    @property
    def repeat_share(self) -> float:
        """Share of what was seen that repeats something seen before."""
        self._merge()
        seen = int(self._counts.sum())
        return (seen - len(self._values)) / seen if seen else 0.0

    @property
    def error(self) -> float:
        """Half the width of a 95 % confidence interval around the share; zero while it is exact.

        The ratio estimator over values: each is in the sample or not, with all its repeats (Cochran, Sampling
        Techniques, 3rd ed., eq. 6.13).
        """
        if self.exact or not len(self._counts):
            return 0.0
        repeats = self._counts - 1
        share, seen = self.repeat_share, int(self._counts.sum())
        return float(1.96 * np.sqrt(((repeats - share * self._counts) ** 2).sum()) / seen)
