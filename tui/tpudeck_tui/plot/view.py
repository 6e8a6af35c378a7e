"""How the curves of a chart are looked at: which part of the x axis, on which scales, and where the cursor is.

Pure state: keys and the mouse change it, a frame is painted from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tpudeck_tui.plot.columns import Points
from tpudeck_tui.plot.curve import X_AXES, Curve, XAxis

__all__ = ["SMOOTHING", "Range", "View"]

SMOOTHING = (0.0, 0.6, 0.9, 0.97, 0.99)

Range = tuple[float, float]


@dataclass
class _Window:
    """The part of the x axis that is shown; `high` none follows the newest point."""

    span: float
    high: float | None


class View:
    """What is seen of some curves."""

    def __init__(self, *, smoothing: float = 0.0, log: bool = False, x_axis: XAxis = "steps") -> None:
        self.smoothing = smoothing
        self.log = log
        self.x_axis: XAxis = x_axis
        self.curves: list[Curve] = []
        self.cursor: float | None = None
        """Where on the x axis."""
        self._window: _Window | None = None

    # The curves.

    @property
    def zoomed(self) -> bool:
        return self._window is not None

    @property
    def several(self) -> bool:
        """Whether curves have to be told apart."""
        return sum(curve.smoothable for curve in self.curves) > 1

    def points(self, curve: Curve, *, smoothed: bool = False) -> Points:
        return curve.points(self.x_axis, self.smoothing if smoothed else 0.0)

    def range_of_data(self) -> Range | None:
        drawn = [points for curve in self.curves if len(points := self.points(curve))]
        return (min(points.x_of(0) for points in drawn), max(points.x_of(-1) for points in drawn)) if drawn else None

    def range_shown(self) -> Range | None:
        data = self.range_of_data()
        if data is None or self._window is None:
            return data
        high = data[1] if self._window.high is None else self._window.high
        return high - self._window.span, high

    def walked(self) -> Curve | None:
        """The curve the cursor walks on."""
        walkable = [curve for curve in self.curves if not curve.line.dim and len(self.points(curve))]
        return next((curve for curve in walkable if not curve.line.dots), walkable[0] if walkable else None)

    # Which part.

    def zoom(self, factor: float, around: float | None = None) -> None:
        """Show `factor` times as much, around a place, else the cursor, else the newest point."""
        data, shown = self.range_of_data(), self.range_shown()
        if data is None or shown is None or data[1] <= data[0]:
            return
        low, high = shown
        centre = next((place for place in (around, self.cursor) if place is not None), high)
        span = (high - low) * factor
        if span >= data[1] - data[0]:
            self._window = None
        elif span > max(abs(high), abs(low), 1e-9) * 1e-9:
            share = (high - centre) / (high - low)
            self._look(span, centre + span * share, data)

    def pan(self, share: float) -> None:
        """Move the window by a share of what it shows."""
        data, shown = self.range_of_data(), self.range_shown()
        if self._window is not None and data is not None and shown is not None:
            span = shown[1] - shown[0]
            self._look(span, shown[1] + share * span, data)

    def _look(self, span: float, high: float, data: Range) -> None:
        high = max(high, data[0] + span)
        self._window = _Window(span, None if high >= data[1] else high)

    def reset(self) -> None:
        """All of it, no cursor."""
        self._window = self.cursor = None

    # The cursor.

    def walk(self, distance: float, *, within: Range) -> None:
        """Move the cursor by a distance, and at least to the next point; at first to the newest that is seen."""
        if (curve := self.walked()) is None:
            return
        points = self.points(curve)
        if self.cursor is None:
            seen = int(points.find(within[1], after=True))
            self._go(points, max(0, seen - 1))
            return
        here, target = points.nearest(self.cursor), points.nearest(self.cursor + distance)
        if target == here:
            target = min(len(points) - 1, max(0, here + (1 if distance > 0 else -1)))
        self._go(points, target)

    def go_to(self, index: int) -> None:
        """Put the cursor on a point, counted from the first, or with -1 from the last."""
        if (curve := self.walked()) is not None:
            self._go(self.points(curve), index)

    def point_at(self, x: float) -> None:
        """Put the cursor on the point nearest to a place."""
        if (curve := self.walked()) is not None:
            points = self.points(curve)
            self._go(points, points.nearest(x))

    def _go(self, points: Points, index: int) -> None:
        self.cursor = x = points.x_of(index)
        data, shown = self.range_of_data(), self.range_shown()
        if self._window is not None and data and shown and not shown[0] <= x <= shown[1]:
            span = shown[1] - shown[0]
            self._look(span, x + span / 2, data)

    # On which scales.

    def toggle_log(self) -> None:
        self.log = not self.log

    def smooth_more(self) -> None:
        """The next stronger smoothing; after the strongest, none."""
        self.smoothing = next((weight for weight in SMOOTHING if weight > self.smoothing), SMOOTHING[0])

    def turn_x_axis(self) -> None:
        axes = self._axes()
        self.x_axis = axes[(axes.index(self.x_axis) + 1) % len(axes)]
        self.reset()

    def keep_to_axes(self) -> None:
        """Back to steps where the curves know nothing of the present axis."""
        if self.curves and self.x_axis not in self._axes():
            self.x_axis = "steps"
            self.reset()

    def _axes(self) -> tuple[XAxis, ...]:
        return X_AXES if any(curve.line.tokens is not None for curve in self.curves) else X_AXES[:2]
