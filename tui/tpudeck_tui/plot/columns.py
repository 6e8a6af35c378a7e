"""Points in, dot columns out: what a chart shows of any number of points. Pure numpy, no terminal.

A dot column stands for many points: what is drawn of them is their smallest and largest value, so that a spike among a
million points is never lost. The edges of the columns lie on multiples of a power of two and don't move while a curve
grows, so the curve doesn't flicker; only when it has outgrown its columns do they widen, by a quarter at most.

Smallest and largest are kept for every block of 64 points, and go on where they stopped as a curve grows: a frame then
looks at the blocks inside a column and at the few points at its edges, which takes a million points about as long as a
hundred thousand, and a point more costs what that point costs.

Shapes: ``N`` points or ranges of them, ``B`` blocks, ``C`` dot columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Bits", "Columns", "Extremes", "Floats", "Ints", "Points", "Summary", "Values", "columns_for", "summarise"]

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bits: TypeAlias = npt.NDArray[np.bool_]

_BLOCK = 64
_PIECE = 256
"""Blocks worked out at a time: few enough to stay in the processor's cache."""
_FAR = 2.0**62
"""Beyond every step."""


@dataclass(frozen=True)
class Extremes:
    """Smallest and largest of many groups of values, and which groups hold an unusable one.

    A group without a usable value has its smallest at +inf and its largest at -inf: what minimum and maximum pass over.
    """

    low: Floats
    high: Floats
    broken: Bits

    @classmethod
    def of(cls, y: Floats, *, above_zero: bool) -> Extremes:
        """Of every value on its own. Usable is what is finite, and on a logarithmic axis above zero."""
        usable = np.isfinite(y) & (y > 0) if above_zero else np.isfinite(y)
        if usable.all():
            return cls(y, y, ~usable)
        return cls(np.where(usable, y, np.inf), np.where(usable, y, -np.inf), ~usable)

    @classmethod
    def of_none(cls, groups: int) -> Extremes:
        return cls(np.full(groups, np.inf), np.full(groups, -np.inf), np.zeros(groups, dtype=bool))

    def take(self, rows: slice | Ints) -> Extremes:
        return Extremes(self.low[rows], self.high[rows], self.broken[rows])

    def by_rows(self) -> Extremes:
        """Of every row of a table."""
        return Extremes(self.low.min(axis=1), self.high.max(axis=1), np.logical_or.reduce(self.broken, axis=1))

    def then(self, *more: Extremes) -> Extremes:
        parts = (self, *more)
        return Extremes(
            np.concatenate([part.low for part in parts]),
            np.concatenate([part.high for part in parts]),
            np.concatenate([part.broken for part in parts]),
        )

    def merge(self, other: Extremes, groups: Bits, firsts: Ints) -> None:
        """Take other groups, which begin at `firsts`, into those of mine that are picked by `groups`."""
        self.low[groups] = np.minimum(self.low[groups], np.minimum.reduceat(other.low, firsts))
        self.high[groups] = np.maximum(self.high[groups], np.maximum.reduceat(other.high, firsts))
        self.broken[groups] |= np.logical_or.reduceat(other.broken, firsts)


class Values:
    """The values of a curve in their order, and the extremes of their blocks, kept while they grow."""

    def __init__(self, y: npt.ArrayLike = ()) -> None:
        self.y: Floats = np.asarray(y, dtype=np.float64)
        self._blocks: dict[bool, Extremes] = {}

    def grow(self, y: Floats) -> Values:
        """The same values and more."""
        self.y = y
        return self

    def extremes(self, starts: Ints, ends: Ints, *, above_zero: bool) -> Extremes:
        """Of ranges of the values: from the blocks that lie inside, and from single values before and after those."""
        found = Extremes.of_none(len(starts))
        blocks = self._known_blocks(above_zero)
        first, last = -(-starts // _BLOCK), np.minimum(ends // _BLOCK, len(blocks.low))
        any_inside = first < last
        before, after = np.where(any_inside, first * _BLOCK, ends), np.where(any_inside, last * _BLOCK, ends)
        for begin, end in ((starts, before), (after, ends)):
            some, index, firsts = _indices(begin, end)
            if len(index):
                found.merge(Extremes.of(self.y[index], above_zero=above_zero), some, firsts)
        some, index, firsts = _indices(first, last)
        if len(index):
            found.merge(blocks.take(index), some, firsts)
        return found

    def _known_blocks(self, above_zero: bool) -> Extremes:
        blocks = self._blocks.get(above_zero) or Extremes.of_none(0)
        known, whole = len(blocks.low), len(self.y) // _BLOCK
        if known < whole:
            rows = self.y[known * _BLOCK : whole * _BLOCK].reshape(-1, _BLOCK)
            pieces = (rows[at : at + _PIECE] for at in range(0, len(rows), _PIECE))
            blocks = blocks.then(*(Extremes.of(piece, above_zero=above_zero).by_rows() for piece in pieces))
        self._blocks[above_zero] = blocks
        return blocks


def _indices(starts: Ints, ends: Ints) -> tuple[Bits, Ints, Ints]:
    """Ranges → which are not empty, the indices in those one after another, and where each of them begins there."""
    some = ends > starts
    lengths = (ends - starts)[some]
    firsts = np.cumsum(lengths) - lengths
    return some, np.repeat(starts[some] - firsts, lengths) + np.arange(int(lengths.sum())), firsts


class Points:
    """One curve in the order of x. A value that is not finite is a gap; what has no finite x has no place."""

    def __init__(self, x: npt.ArrayLike, y: npt.ArrayLike | Values, *, origin: float = 0.0, scale: float = 1.0) -> None:
        """On the axis a point is at ``x - origin`` and ``y * scale``. `Values` are in the order of x already."""
        if isinstance(y, Values):
            self._x, self._values = np.asarray(x), y
        else:
            x_N, y_N = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
            placed = np.isfinite(x_N)
            x_N, y_N = x_N[placed], y_N[placed]
            order = np.argsort(x_N, kind="stable")
            self._x, self._values = x_N[order], Values(y_N[order])
        self._origin = origin
        self._scale = scale

    def __len__(self) -> int:
        return len(self._x)

    @cached_property
    def x(self) -> Floats:
        return np.asarray(self._x - self._origin, dtype=np.float64)

    @cached_property
    def y(self) -> Floats:
        return self._values.y * self._scale

    def x_of(self, index: int) -> float:
        return float(self._x[index]) - self._origin

    def y_of(self, index: int | Ints) -> Floats:
        return np.asarray(self._values.y[index] * self._scale)

    def nearest(self, x: float) -> int:
        """The index of the point nearest to a place on the axis."""
        right = min(int(self.find(x)), len(self) - 1)
        left = max(0, right - 1)
        return left if abs(self.x_of(left) - x) <= abs(self.x_of(right) - x) else right

    def find(self, x: npt.ArrayLike, *, after: bool = False) -> Ints:
        """How many points lie before places on the axis, or not `after` them: searched in what x is stored as."""
        place: npt.NDArray[Any] = np.asarray(x, dtype=np.float64) + self._origin
        if self._x.dtype.kind == "i":
            place = np.clip(np.floor(place) if after else np.ceil(place), -_FAR, _FAR).astype(np.int64)
        return np.asarray(np.searchsorted(self._x, place, "right" if after else "left"), dtype=np.int64)

    def extremes(self, starts: Ints, ends: Ints, *, above_zero: bool = False) -> Extremes:
        """Of ranges of points."""
        found = self._values.extremes(starts, ends, above_zero=above_zero)
        return Extremes(found.low * self._scale, found.high * self._scale, found.broken)


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


def columns_for(low: float, high: float, count: int) -> Columns:
    """Columns that cover [low, high], with edges on a grid that stays put while `high` grows.

    Their width is four to seven times a power of two, so that about four fifths of them or more are used. It follows
    from the span alone: a window that moves along the axis keeps its columns.
    """
    span = high - low
    smallest = max(abs(low), abs(high)) * 1e-12
    if not span > smallest * count:
        width = max(smallest, 1.0) if not span else max(span, smallest)
        return Columns(low - width * (count // 2) - width / 2, width, count)
    exponent = math.floor(math.log2(span / count)) - 2
    for power, multiple in ((power, m) for power in range(exponent, exponent + 4) for m in (4, 5, 6, 7)):
        width = math.ldexp(multiple, power)
        if width * (count - 1) >= span:
            return Columns(math.floor(low / width) * width, width, count)
    raise AssertionError("unreachable: eight times the needed width was tried")


@dataclass(frozen=True)
class Summary:
    """What each dot column shows of one curve; NaN where it has no usable value."""

    low_C: Floats
    high_C: Floats
    first_C: Floats
    last_C: Floats
    broken_C: Bits
    """Columns that hold a value that cannot be drawn: what breaks a line."""
    nan_C: Bits
    """Columns that hold a value that is not finite."""


def summarise(points: Points, columns: Columns, *, above_zero: bool = False) -> Summary:
    """Smallest, largest, first and last value per column; `above_zero` for a logarithmic axis."""
    low_C, high_C, first_C, last_C = (np.full(columns.count, np.nan) for _ in range(4))
    broken_C, nan_C = np.zeros(columns.count, dtype=bool), np.zeros(columns.count, dtype=bool)
    starts = points.find(columns.edges[:-1])
    ends = np.append(starts[1:], points.find(columns.end, after=True))
    filled = np.flatnonzero(ends > starts)
    if len(filled):
        starts, ends = starts[filled], ends[filled]
        found = points.extremes(starts, ends, above_zero=above_zero)
        broken_C[filled] = found.broken
        nan_C[filled] = points.extremes(starts, ends).broken if above_zero else found.broken
        some = found.low <= found.high
        drawn, low, high = filled[some], found.low[some], found.high[some]
        low_C[drawn], high_C[drawn] = low, high
        first, last = points.y_of(starts[some]), points.y_of(ends[some] - 1)
        first_C[drawn] = np.where((first >= low) & (first <= high), first, low)
        last_C[drawn] = np.where((last >= low) & (last <= high), last, high)
    return Summary(low_C, high_C, first_C, last_C, broken_C, nan_C)
