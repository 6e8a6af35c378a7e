"""The curves of a chart: what they are given as, and what is kept of them while they grow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tpudeck.runs.room import Room
from tpudeck.runs.series import Average
from tpudeck_tui.plot.columns import Floats, Ints, Points, Values

__all__ = ["MARKERS", "X_AXES", "Curve", "Flag", "Line", "XAxis", "follow"]

XAxis = Literal["steps", "time", "tokens"]
X_AXES: tuple[XAxis, ...] = ("steps", "time", "tokens")
MARKERS = "●◆▲■▼★○◇△□▽☆"
_ROWS = 4096
"""Lines of an export that are written at a time."""


@dataclass(frozen=True, eq=False)
class Line:
    """One curve: its points by step, and what the other x axes need. The arrays are taken as they are, not copied."""

    label: str
    step: Ints
    time: Floats
    value: Floats
    tokens: Floats | None = None
    """Tokens seen at each point."""
    index: int = 0
    """Which colour and marker."""
    dots: bool = False
    """Points apart (evaluations), not a curve."""
    dim: bool = False
    """Drawn behind the others and not smoothed: what a resume replaced."""
    began: float = 0.0
    """The time that is zero on the axis: when the run was created."""
    scale: float = 1.0
    """From the unit of the values to the unit of the chart."""

    def __len__(self) -> int:
        return len(self.step)

    @property
    def marker(self) -> str:
        return MARKERS[self.index % len(MARKERS)]

    def x(self, axis: XAxis) -> npt.NDArray[Any]:
        if axis == "tokens":
            return np.full(len(self), np.nan) if self.tokens is None else self.tokens
        return self.time if axis == "time" else self.step


@dataclass(frozen=True)
class Flag:
    """Something that happened at a step: drawn as a mark on the x axis."""

    kind: Literal["nan", "checkpoint", "resume", "best"]
    step: int
    time: float
    """Seconds since the run was created."""


class Curve:
    """A line, and what was worked out of it: which goes on where it stopped when the line has grown."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self._raw = Values(line.value)
        self._smoothed: _Smoothed | None = None
        self._in_order: dict[XAxis, int] = {}
        """How many points are known to lie in the order of an axis."""
        self._sorted: dict[tuple[XAxis, float], Points] = {}

    def __len__(self) -> int:
        return len(self.line)

    @property
    def smoothable(self) -> bool:
        return not self.line.dim and not self.line.dots

    def grow(self, line: Line) -> None:
        """Take in the same line with more points."""
        self.line = line
        self._raw.grow(line.value)
        self._sorted.clear()

    def points(self, axis: XAxis, weight: float = 0.0) -> Points:
        """The curve on an x axis, smoothed by step over all of its points."""
        values, x = self._values(weight), self.line.x(axis)
        if self._ascends(axis, x):
            return Points(x, values, origin=self._origin(axis), scale=self.line.scale)
        if (axis, weight) not in self._sorted:
            self._sorted[axis, weight] = Points(x - self._origin(axis), values.y * self.line.scale)
        return self._sorted[axis, weight]

    def _origin(self, axis: XAxis) -> float:
        return self.line.began if axis == "time" else 0.0

    def _values(self, weight: float) -> Values:
        if not weight or not self.smoothable:
            return self._raw
        if self._smoothed is None or self._smoothed.weight != weight:
            self._smoothed = _Smoothed(weight)
        return self._smoothed.of(self.line.value)

    def _ascends(self, axis: XAxis, x: npt.NDArray[Any]) -> bool:
        known = self._in_order.get(axis, 0)
        new = x[max(0, known - 1) :]
        if len(x) > known and not ((new[1:] >= new[:-1]).all() and np.isfinite(new).all()):
            return False
        self._in_order[axis] = len(x)
        return True

    def rows(self, axis: XAxis, low: float, high: float, weight: float) -> Iterator[str]:
        """The points within a part of an axis, at full resolution, as lines of a table: as they are now, read later."""
        return _rows(self.line, self._values(weight).y, self.line.x(axis) - self._origin(axis), low, high)


def _rows(line: Line, smoothed: Floats, x: Floats, low: float, high: float) -> Iterator[str]:
    label = '"' + line.label.replace('"', '""') + '"' if set(line.label) & set(',"\n\r') else line.label
    columns = (line.step, line.time, line.value, smoothed)
    for start in range(0, len(line), _ROWS):
        part = slice(start, start + _ROWS)
        here = (x[part] >= low) & (x[part] <= high)
        step, time, value, smooth = (column[part][here] for column in columns)
        cells = (step, time - line.began, value * line.scale, smooth * line.scale)
        lines = zip(*(cell.tolist() for cell in cells), strict=True)
        yield "".join(f"{label},{at},{time_s!r},{y!r},{average!r}\n" for at, time_s, y, average in lines)


class _Smoothed:
    """A smoothed copy of values that grow."""

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self._average = Average(weight)
        self._values = Values()
        self._room = Room(0)

    def of(self, raw: Floats) -> Values:
        known = len(self._values.y)
        if len(raw) > known:
            if len(raw) > len(self._room.words):
                room = Room(max(len(raw), 2 * known))
                room.floats[:known], self._room = self._values.y, room
            self._room.floats[known : len(raw)] = self._average(raw[known:])
        return self._values.grow(self._room.floats[: len(raw)])


def follow(curves: list[Curve], lines: tuple[Line, ...]) -> list[Curve]:
    """The curves of new lines; what goes on as before keeps what was worked out of it."""
    followed = []
    for curve, line in zip_longest(curves[: len(lines)], lines):
        if curve is not None and _goes_on(curve.line, line):
            curve.grow(line)
            followed.append(curve)
        else:
            followed.append(Curve(line))
    return followed


def _goes_on(old: Line, new: Line) -> bool:
    """Whether a line begins with another: its first and its last point, and how it is drawn, say so."""
    if old is new:
        return True
    alike = (old.label, old.dots, old.dim, old.scale, old.began) == (new.label, new.dots, new.dim, new.scale, new.began)
    if not alike or len(old) > len(new):
        return False
    ends = [0, len(old) - 1] if len(old) else []
    return all(
        one[ends].tobytes() == two[ends].tobytes()
        for one, two in ((old.step, new.step), (old.time, new.time), (old.value, new.value))
    )
