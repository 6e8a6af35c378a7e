"""How far numbers from a sample may be off in the whole: half the widths of 95 % confidence intervals.

Units of a sample are documents or sequences, drawn by their content hash, evenly from all over. A number of tokens is
no number of draws, because the tokens of a document go together; so ratios such as characters per token, or the share
of unknown tokens, have the error of the ratio estimator over units.

Sources: Cochran, Sampling Techniques, 3rd ed., section 2.11 (ratios), section 2.6 (sampling a finite whole); Wilson,
J. Am. Stat. Assoc. 22 (1927) 209-212; Kish, Survey Sampling (1965), section 11.7 (units of unequal weight).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

__all__ = ["Ratio", "wilson"]

_Z = 1.959964
"""Of the normal distribution, 95 % lie within so many standard deviations."""

Numbers = Sequence[int] | npt.NDArray[np.int64]


@dataclass
class Ratio:
    """A ratio of sums over the units of a sample."""

    above: int = 0
    below: int = 0
    _squares: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))

    def add(self, above: Numbers, below: Numbers) -> None:
        """Some units: numerators and denominators."""
        a, b = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
        self.above += round(float(a.sum()))
        self.below += round(float(b.sum()))
        self._squares += a @ a, a @ b, b @ b

    def merge(self, other: Ratio) -> None:
        """The units of another part of the same sample."""
        self.above += other.above
        self.below += other.below
        self._squares += other._squares

    @property
    def value(self) -> float:
        return self.above / self.below if self.below else 0.0

    def error(self, sampled: float) -> float:
        """How far the ratio may be off where the sample is such a share of the whole.

        Where nothing was met at all, the upper end of Wilson's interval, for as many units as would say as much if all
        had the same weight.
        """
        if sampled >= 1 or not self.below:
            return 0.0
        if not self.above:
            return wilson(0, self.below**2 / float(self._squares[2]), sampled)[1]
        residuals = float(self._squares @ np.array([1.0, -2 * self.value, self.value**2]))
        return _Z * math.sqrt(max(residuals, 0.0) * (1 - sampled)) / self.below


def wilson(hits: float, draws: float, sampled: float = 0.0) -> tuple[float, float]:
    """Wilson's interval around a share: also right where nothing, or everything, was a hit.

    ``sampled`` is the share of the whole that was drawn; at 1 the share is known.
    """
    if sampled >= 1 or not draws:
        return (hits / draws, hits / draws) if draws else (0.0, 1.0)
    n = draws / (1 - sampled)  # the finite population correction
    share = hits / draws
    middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return max(0.0, middle - half), min(1.0, middle + half)
