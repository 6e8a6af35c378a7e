"""The arithmetic of charts: points in, dots out. Pure numpy, no terminal.

A cell of the terminal holds several dots (braille has 2 x 4), and a dot column stands for many points: what is drawn of
them is their smallest and largest value, so that a spike among a million points is never lost. The edges of the dot
columns lie on multiples of a power of two and don't move while a curve grows, so the curve doesn't flicker; only when
it has outgrown its columns do they widen, by a quarter at most.

Shapes: ``N`` points, ``C`` dot columns, ``R`` dot rows (the top row is 0), ``W`` and ``H`` cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "ASCII",
    "BLOCKS",
    "BRAILLE",
    "Columns",
    "DotGlyphs",
    "Points",
    "Scale",
    "Summary",
    "columns_for",
    "format_tick",
    "nice_scale",
    "raster",
    "summarise",
    "ticks",
]

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bits: TypeAlias = npt.NDArray[np.bool_]


class Points:
    """One curve, in the order of x. What is not finite in y is a gap; what is not finite in x has no place."""

    def __init__(self, x: npt.ArrayLike, y: npt.ArrayLike) -> None:
        x_N = np.asarray(x, dtype=np.float64)
        y_N = np.asarray(y, dtype=np.float64)
        placed = np.isfinite(x_N)
        if not placed.all():
            x_N, y_N = x_N[placed], y_N[placed]
        if len(x_N) > 1 and (x_N[1:] < x_N[:-1]).any():
            order = np.argsort(x_N, kind="stable")
            x_N, y_N = x_N[order], y_N[order]
        self.x = x_N
        self.y = y_N

    def __len__(self) -> int:
        return len(self.x)

    @cached_property
    def finite(self) -> Bits:
        return np.isfinite(self.y)

    @cached_property
    def gaps(self) -> Floats:
        """Where y is not finite, as positions on the x axis."""
        return self.x[~self.finite]

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """y with gaps as +inf and as -inf: what minimum and maximum pass over."""
        if self.finite.all():
            return self.y, self.y
        return np.where(self.finite, self.y, np.inf), np.where(self.finite, self.y, -np.inf)

    @cached_property
    def positive(self) -> Points:
        """The same curve for a logarithmic axis: what is not above zero is a gap."""
        with np.errstate(invalid="ignore"):
            above = self.y > 0
        return self if above.all() else Points(self.x, np.where(above, self.y, np.nan))


@dataclass(frozen=True)
class Columns:
    """Dot columns of equal width on the x axis; column c covers [start + c·width, start + (c+1)·width)."""

    start: float
    width: float
    count: int

    @property
    def end(self) -> float:
        return self.start + self.width * self.count

    @property
    def edges(self) -> Floats:
        return np.asarray(self.start + self.width * np.arange(self.count + 1), dtype=np.float64)

    def column_of(self, x: float) -> int:
        """The column that holds x, clamped to the first and last."""
        return min(self.count - 1, max(0, math.floor((x - self.start) / self.width)))

    def column_of_all(self, x: Floats) -> Ints:
        """The columns of many positions; -1 and `count` for what lies outside."""
        return np.clip(np.floor((x - self.start) / self.width), -1, self.count).astype(np.int64)


def columns_for(low: float, high: float, count: int) -> Columns:
    """Columns that cover [low, high], with edges on a grid that stays put while `high` grows.

    Their width is four to seven times a power of two, so that about four fifths of them or more are used.
    """
    span = high - low
    smallest = max(abs(low), abs(high)) * 1e-12
    if not span > smallest * count:
        width = max(smallest, 1.0) if not span else max(span, smallest)
        return Columns(low - width * (count // 2) - width / 2, width, count)
    exponent = math.floor(math.log2(span / count)) - 2
    for power, multiple in ((power, m) for power in range(exponent, exponent + 4) for m in (4, 5, 6, 7)):
        width = math.ldexp(multiple, power)
        start = math.floor(low / width) * width
        if start + width * count >= high:
            return Columns(start, width, count)
    raise AssertionError("unreachable: eight times the needed width was tried")


@dataclass(frozen=True)
class Summary:
    """What each dot column shows of one curve; NaN where it has no finite point."""

    low_C: Floats
    high_C: Floats
    first_C: Floats
    last_C: Floats
    broken_C: Bits
    """Columns that hold a point that is not finite."""


def summarise(points: Points, columns: Columns) -> Summary:
    """Smallest, largest, first and last value per column, in one pass over the points inside."""
    count = columns.count
    low_C, high_C = np.full(count, np.nan), np.full(count, np.nan)
    first_C, last_C = np.full(count, np.nan), np.full(count, np.nan)
    broken_C = np.zeros(count, dtype=bool)
    starts = np.searchsorted(points.x, columns.edges[:-1], side="left")
    end = int(np.searchsorted(points.x, columns.end, side="right"))
    ends = np.append(starts[1:], end)
    filled = np.flatnonzero(ends > starts)
    if len(filled):
        at, until = starts[filled], ends[filled]
        below, above = points.bounds
        low = np.minimum.reduceat(below[:end], at)
        high = np.maximum.reduceat(above[:end], at)
        some = low <= high
        drawn = filled[some]
        low_C[drawn], high_C[drawn] = low[some], high[some]
        first, last = points.y[at[some]], points.y[until[some] - 1]
        first_C[drawn] = np.where(np.isfinite(first), first, low[some])
        last_C[drawn] = np.where(np.isfinite(last), last, high[some])
    if len(points.gaps):
        at = columns.column_of_all(points.gaps)
        broken_C[at[(at >= 0) & (at < count)]] = True
    return Summary(low_C, high_C, first_C, last_C, broken_C)


@dataclass(frozen=True)
class Scale:
    """The y axis: the values at its lower and upper end, linear or logarithmic."""

    low: float
    high: float
    log: bool = False

    def fraction(self, value: npt.ArrayLike) -> Floats:
        """Values → 0 at the lower end, 1 at the upper."""
        with np.errstate(invalid="ignore", divide="ignore"):
            y = np.asarray(value, dtype=np.float64)
            if self.log:
                low, high = math.log10(self.low), math.log10(self.high)
                return np.asarray((np.log10(y) - low) / (high - low))
            return np.asarray((y / 2 - self.low / 2) / (self.high / 2 - self.low / 2))


def _nice_step(span: float, parts: float) -> float:
    """A step of 1, 2, 2.5 or 5 times a power of ten that cuts `span` into at most about `parts`."""
    rough = span / parts
    unit = 10.0 ** math.floor(math.log10(rough)) if rough > 1e-300 else 1e-300
    return next(unit * factor for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if unit * factor >= rough * (1 - 1e-9))


def nice_scale(low: float, high: float, *, log: bool = False) -> Scale:
    """An axis around the values of [low, high], rounded outwards so that it moves seldom while they change."""
    if log:
        if not low > 0:
            low, high = 1.0, 10.0
        bottom, top = math.log10(low), math.log10(high)
        step = _nice_step(max(top - bottom, 1e-9), 8)
        bottom, top = math.floor(bottom / step + 1e-9) * step, math.ceil(top / step - 1e-9) * step
        if top - bottom < 1e-6:
            bottom, top = math.log10(low) - 0.5, math.log10(low) + 0.5
        return Scale(10.0 ** max(bottom, -307.0), 10.0 ** min(top, 308.0), log=True)
    largest = max(abs(low), abs(high))
    if high / 2 - low / 2 <= largest * 1e-12:
        pad = largest * 0.1 if largest > 1e-290 else 1.0  # below that, numbers lose their digits
        return Scale(low - pad, high + pad)
    span = min(high - low, 1e308)
    step = _nice_step(span, 12)
    return Scale(
        max(math.floor(low / step + 1e-9) * step, -1e308),
        min(math.ceil(high / step - 1e-9) * step, 1e308),
    )


def ticks(scale: Scale, count: int) -> list[float]:
    """About `count` round values inside an axis."""
    if count < 1:
        return []
    if scale.log:
        return _log_ticks(scale, count)
    half_span = scale.high / 2 - scale.low / 2
    step = 2 * _nice_step(half_span, count)
    first = math.ceil(scale.low / step - 1e-9)
    last = math.floor(scale.high / step + 1e-9)
    return [index * step for index in range(first, min(last, first + 4 * count) + 1)]


def _log_ticks(scale: Scale, count: int) -> list[float]:
    low, high = math.log10(scale.low), math.log10(scale.high)
    decades = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
    if len(decades) >= 2:
        stride = -(-len(decades) // max(count, 1))
        return [10.0**decade for decade in decades if decade % stride == 0]
    linear = ticks(Scale(scale.low, scale.high), count)
    return [value for value in linear if value > 0]


def format_tick(value: float, step: float = 0.0) -> str:
    """A number for an axis, in at most eight characters; `step` says how fine the axis is."""
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if size < abs(step) * 1e-6 or size == 0:
        return "0"
    if size >= 1e4 or size < 1e-3:
        for limit, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
            if limit <= size < 1e15:
                return f"{value / limit:.4g}{suffix}"
        return f"{value:.3g}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    if not step:
        return f"{value:.4g}"
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    decimals += f"{step:.2e}"[2] not in "0" and decimals > 0
    return f"{value:.{min(decimals, 6)}f}"


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
    top_C = np.round((1 - np.clip(np.where(present_C, high_C, 0), 0, 1)) * (rows - 1))
    bottom_C = np.round((1 - np.clip(np.where(present_C, low_C, 0), 0, 1)) * (rows - 1))
    row_R1 = np.arange(rows)[:, None]
    return np.asarray((row_R1 >= top_C) & (row_R1 <= bottom_C) & present_C)


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
