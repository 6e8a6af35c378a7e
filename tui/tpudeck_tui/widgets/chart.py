"""A line chart on Textual's Line API: curves by label and marker, a cursor, zoom, and a logarithmic axis.

What to draw is a tuple of :class:`Line`; how to draw it (window, x axis, smoothing, scale, cursor) is the chart's own
state, changed by keys and the mouse. A frame is computed once, when something has changed, and kept as strips.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from tpudeck.runs.series import smooth
from tpudeck.units import format_count, format_duration
from tpudeck_tui.cells import clean, fit
from tpudeck_tui.plot import (
    Columns,
    DotGlyphs,
    Points,
    Scale,
    columns_for,
    format_tick,
    nice_scale,
    raster,
    summarise,
    ticks,
)
from tpudeck_tui.theme import SERIES_COLOURS
from tpudeck_tui.widgets.canvas import Canvas

__all__ = ["MARKERS", "Chart", "Flag", "Line", "XAxis"]

XAxis = Literal["steps", "time", "tokens"]
X_AXES: tuple[XAxis, ...] = ("steps", "time", "tokens")
SMOOTHING = (0.0, 0.6, 0.9, 0.97, 0.99)
_MOST_WITH_RAW = 4
"""With more curves than that the raw data behind smoothed ones is left out."""
MARKERS = "●◆▲■▼★○◇△□▽☆"
_FLAG_GLYPHS = {"nan": "×", "checkpoint": "▾", "resume": "↻", "best": "★"}


@dataclass(frozen=True, eq=False)
class Line:
    """One curve: its points by step, and what the other x axes need."""

    label: str
    step: npt.NDArray[np.int64]
    time: npt.NDArray[np.float64]
    """Seconds since the run was created."""
    value: npt.NDArray[np.float64]
    tokens: npt.NDArray[np.float64] | None = None
    """Tokens seen at each point."""
    index: int = 0
    """Which colour and marker."""
    dots: bool = False
    """Points apart (evaluations), not a curve."""
    dim: bool = False
    """Drawn behind the others and not smoothed: what a resume replaced."""
    _made: dict[tuple[str, float], Points] = field(default_factory=dict, repr=False)

    def x(self, axis: XAxis) -> npt.NDArray[np.float64]:
        if axis == "time":
            return self.time
        if axis == "tokens":
            return np.full(len(self.step), np.nan) if self.tokens is None else self.tokens
        return self.step.astype(np.float64)

    def points(self, axis: XAxis, weight: float = 0.0) -> Points:
        """The curve on an x axis, smoothed over the full data; kept, because frames ask again and again."""
        key = (axis, weight)
        if key not in self._made:
            value = smooth(self.value, weight=weight) if weight else self.value
            self._made[key] = Points(self.x(axis), value)
        return self._made[key]

    @property
    def marker(self) -> str:
        return MARKERS[self.index % len(MARKERS)]


@dataclass(frozen=True)
class Flag:
    """Something that happened at a step: drawn as a mark on the x axis."""

    kind: Literal["nan", "checkpoint", "resume", "best"]
    step: int
    time: float


@dataclass
class _Window:
    """The part of the x axis that is shown; `high` none follows the newest point."""

    span: float
    high: float | None


class Chart(Canvas, can_focus=True):
    """A chart of one quantity."""

    ALLOW_MAXIMIZE: ClassVar[bool | None] = True

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "cursor(-1)", "Cursor", id="chart.cursor_left", show=False),
        Binding("right", "cursor(1)", "Cursor", id="chart.cursor_right", show=False),
        Binding("shift+left", "cursor(-10)", "Cursor, ten at once", id="chart.cursor_far_left", show=False),
        Binding("shift+right", "cursor(10)", "Cursor, ten at once", id="chart.cursor_far_right", show=False),
        Binding("home", "cursor_to(0)", "Cursor to the first point", id="chart.cursor_first", show=False),
        Binding("end", "cursor_to(-1)", "Cursor to the last point", id="chart.cursor_last", show=False),
        Binding("plus,equals_sign", "zoom(0.5)", "Zoom in", key_display="+", id="chart.zoom_in"),
        Binding("minus", "zoom(2)", "Zoom out", key_display="-", id="chart.zoom_out", show=False),
        Binding("less_than_sign,comma", "pan(-0.25)", "Pan", key_display="<", id="chart.pan_left", show=False),
        Binding("greater_than_sign,full_stop", "pan(0.25)", "Pan", key_display=">", id="chart.pan_right", show=False),
        Binding("0,escape", "reset", "Show all, no cursor", key_display="0", id="chart.reset", show=False),
        Binding("y", "toggle_log", "Log scale", id="chart.log"),
        Binding("s", "smooth", "Smoothing", id="chart.smooth"),
        Binding("x", "x_axis", "Steps, time or tokens", id="chart.x_axis"),
        Binding("e", "export", "Export CSV", id="chart.export"),
    ]

    class ExportRequested(Message):
        """The points that are shown, as CSV."""

        def __init__(self, chart: Chart, text: str) -> None:
            super().__init__()
            self.chart = chart
            self.text = text

    class Changed(Message):
        """A setting worth remembering was changed by the user."""

        def __init__(self, chart: Chart) -> None:
            super().__init__()
            self.chart = chart

    def __init__(
        self,
        title: str,
        *,
        glyphs: DotGlyphs,
        smoothing: float = 0.0,
        log: bool = False,
        from_zero: bool = False,
        empty: str = "no data yet",
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.chart_title = title
        self.glyphs = glyphs
        self.smoothing = smoothing
        self.log_scale = log
        self.from_zero = from_zero
        self.empty = empty
        self.x_axis: XAxis = "steps"
        self.lines: tuple[Line, ...] = ()
        self.flags: tuple[Flag, ...] = ()
        self.cursor_x: float | None = None
        self._window: _Window | None = None
        self._columns: Columns | None = None
        self._left = 0

    # What to draw.

    def show(self, lines: Sequence[Line], flags: Sequence[Flag] = ()) -> None:
        """Draw these curves from now on; cursor, window and settings stay."""
        self.lines, self.flags = tuple(lines), tuple(flags)
        if self.x_axis == "tokens" and not self._has_tokens():
            self.x_axis = "steps"
        self.repaint()

    def on_focus(self) -> None:
        self.repaint()

    def on_blur(self) -> None:
        self.repaint()

    # Where we look.

    def _several(self) -> bool:
        """Whether curves have to be told apart."""
        return sum(not line.dots and not line.dim for line in self.lines) > 1

    def _has_tokens(self) -> bool:
        return any(line.tokens is not None for line in self.lines)

    def _data_range(self) -> tuple[float, float] | None:
        ends = [(points.x[0], points.x[-1]) for line in self.lines if len(points := line.points(self.x_axis))]
        return (min(low for low, _ in ends), max(high for _, high in ends)) if ends else None

    def _shown_range(self) -> tuple[float, float] | None:
        data = self._data_range()
        if data is None or self._window is None:
            return data
        high = data[1] if self._window.high is None else self._window.high
        return high - self._window.span, high

    def action_zoom(self, factor: float, around: float | None = None) -> None:
        """Show `factor` times as much of the x axis, around the cursor, the mouse, or the newest point."""
        data, shown = self._data_range(), self._shown_range()
        if data is None or shown is None or data[1] <= data[0]:
            return
        low, high = shown
        centre = around if around is not None else self.cursor_x if self.cursor_x is not None else high
        span = (high - low) * factor
        if span >= data[1] - data[0]:
            self._window = None
        elif span > max(abs(high), abs(low), 1e-9) * 1e-9:
            share = (high - centre) / (high - low)
            self._look(span, centre + span * share, data)
        self.repaint()

    def action_pan(self, share: float) -> None:
        """Move the window by a share of what it shows."""
        data, shown = self._data_range(), self._shown_range()
        if self._window is not None and data is not None and shown is not None:
            span = shown[1] - shown[0]
            self._look(span, shown[1] + share * span, data)
            self.repaint()

    def _look(self, span: float, high: float, data: tuple[float, float]) -> None:
        high = max(high, data[0] + span)
        self._window = _Window(span, None if high >= data[1] else high)

    def action_reset(self) -> None:
        self._window = self.cursor_x = None
        self.repaint()

    # How we look.

    def action_toggle_log(self) -> None:
        self.log_scale = not self.log_scale
        self._settled()

    def action_smooth(self) -> None:
        later = [weight for weight in SMOOTHING if weight > self.smoothing]
        self.smoothing = later[0] if later else SMOOTHING[0]
        self._settled()

    def action_x_axis(self) -> None:
        axes = X_AXES if self._has_tokens() else X_AXES[:2]
        self.x_axis = axes[(axes.index(self.x_axis) + 1) % len(axes)]
        self._window = self.cursor_x = None
        self._settled()

    def _settled(self) -> None:
        self.repaint()
        self.post_message(self.Changed(self))

    def action_export(self) -> None:
        self.post_message(self.ExportRequested(self, self.to_csv()))

    def to_csv(self) -> str:
        """Every point of the window, at full resolution."""
        shown = self._shown_range()
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["series", "step", "time_s", self.chart_title, "smoothed"])
        for line in self.lines if shown else ():
            x = line.x(self.x_axis)
            smoothed = smooth(line.value, weight=self.smoothing)
            for index in np.flatnonzero((x >= shown[0]) & (x <= shown[1])) if shown else ():
                row = (line.step[index], line.time[index], line.value[index], smoothed[index])
                writer.writerow([line.label, *(value.item() for value in row)])
        return text.getvalue()

    # The cursor.

    def _primary(self) -> Line | None:
        """The curve the cursor walks on."""
        walkable = [line for line in self.lines if not line.dim and len(line.points(self.x_axis))]
        return next((line for line in walkable if not line.dots), walkable[0] if walkable else None)

    def action_cursor(self, columns: int) -> None:
        """Walk by dot columns, and from point to point where points are rarer than columns."""
        line, view = self._primary(), self._columns
        if line is None or view is None:
            return
        x = line.points(self.x_axis).x
        if self.cursor_x is None:
            shown = x[(x >= view.start) & (x <= view.end)]
            self.cursor_x = float(shown[-1] if len(shown) else x[-1])
        else:
            target = self.cursor_x + columns * self.glyphs.across * view.width
            nearest = _nearest(x, target)
            here = _nearest(x, self.cursor_x)
            if nearest == here:
                nearest = min(len(x) - 1, max(0, here + (1 if columns > 0 else -1)))
            self.cursor_x = float(x[nearest])
        self._follow_cursor()

    def action_cursor_to(self, index: int) -> None:
        if (line := self._primary()) is not None:
            self.cursor_x = float(line.points(self.x_axis).x[index])
            self._follow_cursor()

    def _follow_cursor(self) -> None:
        data, shown, x = self._data_range(), self._shown_range(), self.cursor_x
        if self._window is not None and data and shown and x is not None and not shown[0] <= x <= shown[1]:
            span = shown[1] - shown[0]
            self._look(span, x + span / 2, data)
        self.repaint()

    # The mouse.

    def _x_at(self, event: events.MouseEvent) -> float | None:
        offset = event.get_content_offset(self)
        if offset is None or self._columns is None or offset.x < self._left:
            return None
        return self._columns.start + (offset.x - self._left + 0.5) * self.glyphs.across * self._columns.width

    def on_click(self, event: events.Click) -> None:
        line, x = self._primary(), self._x_at(event)
        if line is not None and x is not None:
            positions = line.points(self.x_axis).x
            self.cursor_x = float(positions[_nearest(positions, x)])
            self.repaint()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        if event.shift:
            self.action_pan(-0.1)
        else:
            self.action_zoom(0.8, self._x_at(event))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        if event.shift:
            self.action_pan(0.1)
        else:
            self.action_zoom(1.25, self._x_at(event))

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        event.stop()
        self.action_pan(-0.1)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        event.stop()
        self.action_pan(0.1)

    # Painting.

    def _series_style(self, line: Line) -> Style:
        return self.palette["faint" if line.dim else f"series-{line.index % SERIES_COLOURS}"]

    def paint(self, size: Size) -> list[Strip]:
        width, height = size
        shown = self._shown_range()
        if width < 8 or height < 2:
            return []
        if shown is None:
            self._columns = None
            return self._paint_empty(width, height)
        x_labels, axis = height >= 7, height >= 5
        rows = height - 1 - axis - x_labels
        scale = self._scale(shown, width)
        y_ticks = [(tick, self._row_of(tick, scale, rows)) for tick in ticks(scale, max(2, rows // 3))]
        step = abs(y_ticks[1][0] - y_ticks[0][0]) if len(y_ticks) > 1 and not scale.log else 0.0
        labels = {row: format_tick(tick, step) for tick, row in y_ticks}
        self._left = (
            min(max(6, *(len(label) + 1 for label in labels.values()), 0) if labels else 6, 9) if width >= 30 else 0
        )
        columns = columns_for(*shown, (width - self._left) * self.glyphs.across)
        self._columns = columns
        frame = [self._paint_header(width)]
        frame += self._paint_plot(columns, scale, rows, labels)
        if axis:
            frame += self._paint_x_axis(columns, width, labels=x_labels)
        return frame

    def _paint_empty(self, width: int, height: int) -> list[Strip]:
        base, muted = self.rich_style, self.palette["muted"]
        lines = [self._paint_header(width)] + [Strip.blank(width, base)] * (height - 1)
        message = fit(self.empty, width)
        pad = (width - len(message)) // 2
        lines[height // 2] = Strip([Segment(" " * pad, base), Segment(message, base + muted)])
        return lines

    def _curves(self) -> list[tuple[Line, Points, bool]]:
        """What is drawn, from back to front: curve, points, and whether it is the raw data behind a smoothed one."""
        drawn = []
        crowded = sum(not line.dim and not line.dots for line in self.lines) > _MOST_WITH_RAW
        for line in sorted(self.lines, key=lambda line: (not line.dim, line.dots)):
            smoothed = self.smoothing > 0 and not line.dim and not line.dots
            if not (smoothed and crowded):
                drawn.append((line, line.points(self.x_axis), smoothed))
            if smoothed:
                drawn.append((line, line.points(self.x_axis, self.smoothing), False))
        return [(line, points.positive if self.log_scale else points, behind) for line, points, behind in drawn]

    def _scale(self, shown: tuple[float, float], width: int) -> Scale:
        lows, highs = [], []
        probe = columns_for(*shown, width)
        for line, points, _ in self._curves():
            summary = summarise(points, probe)
            if not line.dim and not np.isnan(summary.low_C).all():
                lows.append(float(np.nanmin(summary.low_C)))
                highs.append(float(np.nanmax(summary.high_C)))
        low, high = (min(lows), max(highs)) if lows else (1.0, 10.0) if self.log_scale else (0.0, 1.0)
        if self.from_zero and not self.log_scale:
            low, high = min(low, 0.0), max(high, 0.0)
        return nice_scale(low, high, log=self.log_scale)

    @staticmethod
    def _row_of(value: float, scale: Scale, rows: int) -> int:
        return int(min(rows - 1, max(0, (1 - float(scale.fraction(value))) * rows)))

    def _paint_plot(self, columns: Columns, scale: Scale, rows: int, labels: dict[int, str]) -> Iterator[Strip]:
        glyphs = self.glyphs
        cells = columns.count // glyphs.across
        patterns_HW = np.zeros((rows, cells), dtype=np.int64)
        owner_HW = np.zeros((rows, cells), dtype=np.int64)
        base = self.rich_style
        styles = [base + self.palette["faint"]]
        marks: list[tuple[int, int, str, int]] = []
        behind_owners = {0}
        several = self._several()
        for line, points, behind in self._curves():
            summary = summarise(points, columns)
            dots = raster(summary, scale, rows * glyphs.down, line=not line.dots)
            styles.append(base + (self.palette["raw"] if behind else self._series_style(line)))
            drawn = glyphs.patterns(dots)
            owner = len(styles) - 1
            if line.dots:
                marks += self._dots(summary.last_C, scale, rows, line, owner)
                continue
            # What lies behind (raw data, a replaced attempt) gives way; curves of equal standing share a cell's dots.
            shared = ~np.isin(owner_HW, list(behind_owners))
            patterns_HW = np.where(drawn > 0, np.where(shared, patterns_HW | drawn, drawn), patterns_HW)
            owner_HW[drawn > 0] = owner
            if behind or line.dim:
                behind_owners.add(owner)
            elif several:
                marks += self._marks(drawn, line, owner)
        chars_HW = _characters(glyphs.table)[patterns_HW]
        if glyphs.across == 2:
            for row in labels:
                chars_HW[row][patterns_HW[row] == 0] = "┈"
        for row, column, marker, owner in marks:
            chars_HW[row, column], owner_HW[row, column] = marker, owner
        cursor = self._cursor_cell(columns)
        if cursor is not None:
            empty = patterns_HW[:, cursor] == 0
            chars_HW[empty, cursor] = "│"
        yield from self._strips(chars_HW, owner_HW, styles, labels, cursor)

    def _dots(
        self, value_C: npt.NDArray[np.float64], scale: Scale, rows: int, line: Line, owner: int
    ) -> Iterator[tuple[int, int, str, int]]:
        for column in np.flatnonzero(~np.isnan(value_C)):
            row = self._row_of(float(value_C[column]), scale, rows)
            yield row, int(column) // self.glyphs.across, line.marker, owner

    @staticmethod
    def _marks(drawn_HW: npt.NDArray[np.int64], line: Line, owner: int) -> Iterator[tuple[int, int, str, int]]:
        """A curve's marker at a few places, other ones for each curve, so that colour is not needed."""
        filled = np.flatnonzero(drawn_HW.any(axis=0))
        if len(filled):
            every = max(12, len(filled) // 4)
            for column in {int(c) for c in filled[(line.index * 5) % every :: every]} | {int(filled[-1])}:
                row = int(np.flatnonzero(drawn_HW[:, column])[0])
                yield row, column, line.marker, owner

    def _cursor_cell(self, columns: Columns) -> int | None:
        if self.cursor_x is None or not columns.start <= self.cursor_x <= columns.end:
            return None
        return min(columns.column_of(self.cursor_x) // self.glyphs.across, columns.count // self.glyphs.across - 1)

    def _strips(
        self,
        chars_HW: npt.NDArray[np.str_],
        owner_HW: npt.NDArray[np.int64],
        styles: list[Style],
        labels: dict[int, str],
        cursor: int | None,
    ) -> Iterator[Strip]:
        base = self.rich_style
        axis_style, cursor_style = base + self.palette["muted"], self.palette["chart-cursor"]
        for row, (chars_W, owner_W) in enumerate(zip(chars_HW, owner_HW, strict=True)):
            segments = []
            if self._left:
                label = labels.get(row, "")
                segments.append(Segment(f"{label:>{self._left - 1}}{'┤' if label else '│'}", axis_style))
            cuts = {0, len(chars_W), *(np.flatnonzero(np.diff(owner_W)) + 1).tolist()}
            if cursor is not None:
                cuts |= {cursor, cursor + 1}
            edges = sorted(cuts)
            for start, end in pairwise(edges):
                style = styles[owner_W[start]]
                if start == cursor:
                    style += cursor_style
                segments.append(Segment("".join(chars_W[start:end]), style))
            yield Strip(segments, self._left + len(chars_W)).adjust_cell_length(self.size.width, base)

    def _paint_x_axis(self, columns: Columns, width: int, *, labels: bool) -> Iterator[Strip]:
        cells = columns.count // self.glyphs.across
        cell_width = columns.width * self.glyphs.across
        base, axis_style = self.rich_style, self.rich_style + self.palette["muted"]
        rule, text = ["─"] * cells, [" "] * (width + 12)
        free = 0
        for tick in self._x_ticks(columns, max(2, cells // 16)):
            cell = int((tick - columns.start) / cell_width)
            label = self._x_label(tick)
            at = max(0, self._left + cell - len(label) // 2)
            if 0 <= cell < cells and at >= free and at + len(label) <= width:
                rule[cell] = "┬"
                text[at : at + len(label)] = label
                free = at + len(label) + 2
        segments = [Segment(" " * (self._left - 1) + "└" if self._left else "", axis_style)]
        flags = self._flag_cells(columns, cells)
        for cell, character in enumerate(rule):
            if cell in flags:
                kind = flags[cell]
                style = base + self.palette["bad" if kind == "nan" else "bright"]
                segments.append(Segment(_FLAG_GLYPHS[kind], style))
            else:
                segments.append(Segment(character, axis_style))
        yield Strip(Segment.simplify(segments)).adjust_cell_length(width, base)
        if labels:
            yield Strip([Segment("".join(text[:width]), axis_style)], width)

    def _x_ticks(self, columns: Columns, count: int) -> list[float]:
        scale = Scale(columns.start, columns.end)
        if self.x_axis != "time":
            return ticks(scale, count)
        span = columns.end - columns.start
        steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
        step = next((step for step in steps if span / step <= count), 86400 * max(1, round(span / 86400 / count)))
        first = int(-(-columns.start // step))
        return [index * step for index in range(first, int(columns.end // step) + 1)]

    def _x_label(self, x: float) -> str:
        if self.x_axis == "time":
            return format_duration(x)
        if self.x_axis == "tokens":
            return format_count(x)
        return f"{x:,.0f}" if abs(x) < 1e6 and x == int(x) else format_tick(x)

    def _flag_cells(self, columns: Columns, cells: int) -> dict[int, str]:
        """Marks on the axis by cell; where two fall together the worse one is seen."""
        found: dict[int, str] = {}
        rank = ["checkpoint", "best", "resume", "nan"]
        places = [(flag.kind, self._flag_x(flag)) for flag in self.flags]
        for line in self.lines:
            if not line.dim and len(gaps := line.points(self.x_axis).gaps):
                at = np.unique(columns.column_of_all(gaps))
                inside = at[(at >= 0) & (at < columns.count)]
                places += [("nan", columns.start + (column + 0.5) * columns.width) for column in inside.tolist()]
        for kind, x in places:
            if x is not None and columns.start <= x <= columns.end:
                cell = min(columns.column_of(x) // self.glyphs.across, cells - 1)
                if cell not in found or rank.index(kind) > rank.index(found[cell]):
                    found[cell] = kind
        return found

    def _flag_x(self, flag: Flag) -> float | None:
        if self.x_axis == "steps":
            return float(flag.step)
        if self.x_axis == "time":
            return flag.time
        line = next((line for line in self.lines if line.tokens is not None and len(line.step)), None)
        if line is None or line.tokens is None:
            return None
        return float(np.interp(flag.step, line.step, line.tokens))

    # The header: a legend, or what is under the cursor.

    def _paint_header(self, width: int) -> Strip:
        base = self.rich_style
        title = self.palette["title-focused" if self.has_focus else "title"]
        segments = [Segment(fit(self.chart_title, width), base + title)]
        room = width - len(segments[0].text)
        right = self._settings_text()
        left = self._readout() if self.cursor_x is not None else self._legend()
        if len(right) + 2 > room:
            right = ""
        room -= len(right) + 2
        for text, style in left:
            text = fit(text, room)
            room -= sum(1 for _ in text)
            segments.append(Segment(text, base + style))
            if room <= 0:
                break
        strip = Strip(segments).adjust_cell_length(width - len(right), base)
        return Strip([*strip, Segment(right, base + self.palette["muted"])]) if right else strip

    def _settings_text(self) -> str:
        parts: list[str] = [self.x_axis] if self.x_axis != "steps" else []
        parts += ["log"] if self.log_scale else []
        parts += [f"smooth {self.smoothing:g}"] if self.smoothing else []
        parts += ["zoom"] if self._window is not None else []
        return " · ".join(parts)

    def _legend(self) -> Iterator[tuple[str, Style]]:
        muted = self.palette["muted"]
        several = self._several()
        named = [line for line in self.lines if line.label and not line.dim]
        for line in named:
            finite = line.value[-1:] if len(line.value) else line.value
            newest = f" {format_value(float(finite[0]))}" if len(finite) else ""
            yield f"  {line.marker if several or line.dots else '─'} ", self._series_style(line)
            yield clean(line.label), muted
            yield newest, self.palette["bright"]

    def _readout(self) -> Iterator[tuple[str, Style]]:
        """Step, time, and each curve's value at the cursor."""
        primary, x = self._primary(), self.cursor_x
        if primary is None or x is None:
            return
        at = _nearest(primary.x(self.x_axis), x)
        muted, bright, several = self.palette["muted"], self.palette["bright"], self._several()
        yield f"  step {int(primary.step[at]):,} · {format_duration(float(primary.time[at]))}", bright
        for line in self.lines:
            points = line.points(self.x_axis)
            if line.dim or not len(points):
                continue
            index = _nearest(points.x, x)
            yield f"  {line.marker if several or line.dots else '─'} ", self._series_style(line)
            if len(self.lines) > 1:
                yield f"{clean(line.label)} ", muted
            yield format_value(float(points.y[index])), bright
            if self.smoothing and not line.dots:
                smoothed = float(line.points(self.x_axis, self.smoothing).y[index])
                yield f" (smoothed {format_value(smoothed)})", muted


def format_value(value: float) -> str:
    """A measured number in at most eight characters."""
    if value != value:
        return "NaN"
    if abs(value) >= 1e5 or (value and abs(value) < 1e-3):
        return format_tick(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _nearest(x: npt.NDArray[np.float64], target: float) -> int:
    """The index of the value nearest to a target in an ascending array."""
    right = min(int(np.searchsorted(x, target)), len(x) - 1)
    left = max(0, right - 1)
    return left if abs(x[left] - target) <= abs(x[right] - target) else right


@lru_cache(maxsize=3)
def _characters(table: str) -> npt.NDArray[np.str_]:
    characters = np.array(list(table))
    if table[0] == "\u2800":
        characters[0] = " "
    return characters
