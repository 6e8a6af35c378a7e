"""Curves of token frequencies, thinned to what a chart can show; and a count of duplicates in constant memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["Distinct", "coverage_curve", "row_hashes", "zipf_curve"]

_POINTS = 80


def _ranks(last: int) -> npt.NDArray[np.int64]:
    """Ranks from 1 to the last, evenly spread over a logarithmic axis."""
    return np.unique(np.rint(np.geomspace(1, last, _POINTS))).astype(np.int64)


def zipf_curve(counts: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """(rank, count) of the tokens that occur, the most frequent first."""
    ordered = np.sort(counts[counts > 0])[::-1]
    if not len(ordered):
        return []
    return [(int(rank), int(ordered[rank - 1])) for rank in _ranks(len(ordered))]


def coverage_curve(counts: npt.NDArray[np.int64]) -> list[tuple[int, float]]:
    """(k, share of all occurrences that the k most frequent tokens cover)."""
    ordered = np.sort(counts[counts > 0])[::-1]
    if not len(ordered):
        return []
    covered = np.cumsum(ordered) / ordered.sum()
    return [(int(k), float(covered[k - 1])) for k in _ranks(len(ordered))]


def row_hashes(ids_NS: npt.NDArray[np.int32]) -> npt.NDArray[np.uint64]:
    """A 64-bit hash of every row: a sum of tokens times random odd numbers, mixed (equal rows, equal hashes)."""
    factors = np.random.Generator(np.random.PCG64(0)).integers(0, 2**64, ids_NS.shape[1], dtype=np.uint64)
    hashes = (ids_NS.astype(np.uint64) + np.uint64(1)) @ (factors | np.uint64(1))
    # The high bits of a sum of products are the random ones; spread them over the word (MurmurHash3's finaliser).
    hashes ^= hashes >> np.uint64(33)
    hashes *= np.uint64(0xFF51AFD7ED558CCD)
    hashes ^= hashes >> np.uint64(33)
    hashes *= np.uint64(0xC4CEB9FE1A85EC53)
    return hashes ^ (hashes >> np.uint64(33))


class Distinct:
    """How many of the hashes seen are repeats of earlier ones, exactly up to a limit, beyond it from a sample.

    The sample is of hash values, not of places: all hashes below a threshold are kept, and the threshold is halved
    whenever too many are, so a value is kept with all its repeats or not at all.
    """

    def __init__(self, most_kept: int = 1 << 20) -> None:
        self._most_kept = most_kept
        self._shift = 0
        self._values = np.zeros(0, dtype=np.uint64)
        self._counts = np.zeros(0, dtype=np.int64)
        self._waiting: list[npt.NDArray[np.uint64]] = []
        self._waiting_hashes = 0

    def add(self, hashes: npt.NDArray[np.uint64]) -> None:
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

    def contains(self, hashes: npt.NDArray[np.uint64]) -> tuple[int, int]:
        """Of these hashes, how many belong to the sample, and how many of those were seen."""
        self._merge()
        inside = hashes[hashes <= self._threshold]
        return len(inside), int(np.isin(inside, self._values).sum())

    @property
    def exact(self) -> bool:
        self._merge()
        return self._shift == 0

    @property
    def repeat_share(self) -> float:
        """Share of what was seen that repeats something seen before."""
        self._merge()
        seen = int(self._counts.sum())
        return (seen - len(self._values)) / seen if seen else 0.0

    @property
    def error(self) -> float:
        """Half the width of a 95 % confidence interval around the share; zero while it is exact."""
        if self.exact:
            return 0.0
        repeats = self._counts - 1
        share, seen = self.repeat_share, int(self._counts.sum())
        return float(1.96 * np.sqrt(((repeats - share * self._counts) ** 2).sum()) / seen)
