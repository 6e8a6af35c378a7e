"""Curves of token frequencies, thinned to what a chart can show."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["coverage_curve", "zipf_curve"]

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
