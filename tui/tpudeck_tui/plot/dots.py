"""From what a column holds to dots, and from dots to the characters of a terminal.

Shapes: ``C`` dot columns, ``R`` dot rows (the top row is 0), ``W`` and ``H`` cells.
"""

from __future__ import annotations

import numpy as np

from tpudeck_tui.plot.axes import Scale
from tpudeck_tui.plot.columns import Bits, Floats, Ints, Summary

__all__ = ["ASCII", "BLOCKS", "BRAILLE", "DotGlyphs", "raster"]


def _connected(summary: Summary, low_C: Floats, high_C: Floats, scale: Scale) -> tuple[Floats, Floats]:
    """Bridge empty columns by straight lines, and let neighbours touch; gaps stay open."""
    first_C, last_C = scale.fraction(summary.first_C), scale.fraction(summary.last_C)
    filled = np.flatnonzero(~np.isnan(low_C))
    if len(filled) < 2:
        return low_C, high_C
    broken_before = np.concatenate([[0], np.cumsum(summary.broken_C)])
    left, right = filled[:-1], filled[1:]
    joined = broken_before[right + 1] - broken_before[left] == 0
    low_C, high_C = low_C.copy(), high_C.copy()
    lonely = joined & (right - left > 1)
    if lonely.any():
        inside = np.arange(len(low_C))
        owner = np.clip(np.searchsorted(filled, inside, side="right") - 1, 0, len(left) - 1)
        between = lonely[owner] & (inside > left[owner]) & (inside < right[owner])
        where = inside[between]
        begin, finish = left[owner[where]], right[owner[where]]
        share = (where - begin) / (finish - begin)
        line = last_C[begin] * (1 - share) + first_C[finish] * share
        low_C[where] = high_C[where] = line
    present = ~np.isnan(low_C)
    pair = present[:-1] & present[1:]
    span = np.searchsorted(right, np.arange(len(low_C) - 1), side="right")
    pair &= joined[np.clip(span, 0, len(joined) - 1)]
    upper, lower = high_C.copy(), low_C.copy()
    middle_up = (upper[:-1] + lower[1:]) / 2
    rises = pair & (lower[1:] > upper[:-1])
    falls = pair & (upper[1:] < lower[:-1])
    middle_down = (lower[:-1] + upper[1:]) / 2
    high_C[:-1][rises] = np.maximum(high_C[:-1][rises], middle_up[rises])
    low_C[1:][rises] = np.minimum(low_C[1:][rises], middle_up[rises])
    low_C[:-1][falls] = np.minimum(low_C[:-1][falls], middle_down[falls])
    high_C[1:][falls] = np.maximum(high_C[1:][falls], middle_down[falls])
    return low_C, high_C


def raster(summary: Summary, scale: Scale, rows: int, *, line: bool = True) -> Bits:
    """The dots of one curve, shape (R, C). Values beyond the axis are cut at its ends."""
    low_C, high_C = scale.fraction(summary.low_C), scale.fraction(summary.high_C)
    if line:
        low_C, high_C = _connected(summary, low_C, high_C, scale)
    present_C = ~(np.isnan(low_C) | np.isnan(high_C))
    top_C, bottom_C = _row(np.where(present_C, high_C, 0), rows), _row(np.where(present_C, low_C, 0), rows)
    row_R1 = np.arange(rows)[:, None]
    return np.asarray((row_R1 >= top_C) & (row_R1 <= bottom_C) & present_C)


def _row(fraction_C: Floats, rows: int) -> Floats:
    """Which dot row a height falls into. What lies between two, give or take a rounding error, is in the upper one."""
    return np.asarray(np.round((1 - np.clip(fraction_C, 0, 1)) * (rows - 1) - 1e-6))


class DotGlyphs:
    """How dots become characters: so many across and down in one cell, and a character for each pattern."""

    def __init__(self, across: int, down: int, weights: list[list[int]], table: str) -> None:
        self.across = across
        self.down = down
        self._weights = np.array(weights, dtype=np.int64)
        self.table = table

    def patterns(self, dots_RC: Bits) -> Ints:
        """Dots → the pattern number of every cell, shape (H, W); zero is an empty cell."""
        rows, columns = dots_RC.shape
        cells = dots_RC.reshape(rows // self.down, self.down, columns // self.across, self.across)
        return np.asarray(np.einsum("hdwa,da->hw", cells, self._weights), dtype=np.int64)


BRAILLE = DotGlyphs(2, 4, [[1, 8], [2, 16], [4, 32], [64, 128]], "".join(map(chr, range(0x2800, 0x2900))))
BLOCKS = DotGlyphs(2, 2, [[1, 2], [4, 8]], " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█")
ASCII = DotGlyphs(1, 2, [[1], [2]], " '.:")
