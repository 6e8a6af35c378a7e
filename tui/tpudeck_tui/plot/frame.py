"""One frame of a chart: curves, axes and a legend as strips of the terminal.

::

    loss  ─ train 4.71  ◆ eval 4.93                     smooth 0.6     what it is, or what is under the cursor
       6.0┤⢇
          │⠘⡄          ┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈     the curves, back to front
       5.0┤ ⠈⠒⠤⠤◆⣀⡀⣀⣀⣀⡀
          └────────▾┬──────────┬────────★─┬──────────┬──────────┬─     the axis, and what happened
                  1,000      2,000      3,000      4,000      5,000

Shapes: ``C`` dot columns, ``W`` and ``H`` cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tpudeck.units import format_count, format_duration
from tpudeck_tui.cells import fit
from tpudeck_tui.plot.axes import Scale, format_tick, nice_scale, ticks, time_ticks
from tpudeck_tui.plot.columns import Columns, Ints, Points, Summary, columns_for, summarise
from tpudeck_tui.plot.curve import Curve, Flag, Line
from tpudeck_tui.plot.dots import raster
from tpudeck_tui.plot.look import Look, header
from tpudeck_tui.plot.view import View

__all__ = ["Frame"]

_MOST_WITH_RAW = 4
"""With more curves than that the raw data behind smoothed ones is left out."""
_LEFT = 8
"""Cells at the left for the labels of the y axis. Always as many: the curves must not jump when the labels change."""
_FLAG_GLYPHS = {"checkpoint": "▾", "best": "★", "resume": "↻", "nan": "×"}
"""The marks on the x axis; where two fall together the later one of these is seen."""


@dataclass(frozen=True)
class _Layer:
    """A curve as it is drawn."""

    line: Line
    points: Points
    summary: Summary
    behind: bool
    """Raw data behind a smoothed curve."""


@dataclass
class _Cells:
    """The characters of the plot, and whose each is: what is drawn later lies on top."""

    patterns_HW: Ints
    owner_HW: Ints
    styles: list[Style]
    background: list[int] = field(default_factory=lambda: [0])
    """Owners that give way: nobody, raw data, replaced attempts. Other curves share the dots of a cell."""

    def draw(self, drawn_HW: Ints, style: Style, *, background: bool) -> None:
        self.styles.append(style)
        shared = ~np.isin(self.owner_HW, self.background)
        on_top = np.where(shared, self.patterns_HW | drawn_HW, drawn_HW)
        self.patterns_HW = np.where(drawn_HW > 0, on_top, self.patterns_HW)
        self.owner_HW[drawn_HW > 0] = len(self.styles) - 1
        if background:
            self.background.append(len(self.styles) - 1)


class Frame:
    """A chart of so many cells, as it is at one moment."""

    def __init__(self, view: View, flags: Sequence[Flag], look: Look, *, width: int, height: int) -> None:
        self._view = view
        self._flags = flags
        self._look = look
        self._width = width
        self._height = height
        self.left = _LEFT if width >= 30 else 0
        """Cells before the first column."""
        shown = view.range_shown()
        self.columns = columns_for(*shown, (width - self.left) * look.glyphs.across) if shown else None

    def strips(self) -> list[Strip]:
        if self._width < 8 or self._height < 2:
            return []
        if self.columns is None:
            return self._empty()
        x_labels, x_axis = self._height >= 7, self._height >= 5
        rows = self._height - 1 - x_axis - x_labels
        layers = self._layers(self.columns)
        lines = [header(self._view, self._look, self._width), *self._plot(self.columns, layers, rows)]
        if x_axis:
            lines += self._x_axis(self.columns, layers, labels=x_labels)
        return lines

    def place(self, column: float) -> float | None:
        """The place on the x axis in the middle of a cell, counted from the left of the chart."""
        if self.columns is None or column < self.left:
            return None
        return self.columns.start + (column - self.left + 0.5) * self.cell_width

    @property
    def cell_width(self) -> float:
        """How much of the x axis a cell covers."""
        return self._look.glyphs.across * (self.columns.width if self.columns else 0.0)

    def _empty(self) -> list[Strip]:
        lines = [header(self._view, self._look, self._width)] + [Strip.blank(self._width, self._look.base)] * (
            self._height - 1
        )
        message = fit(self._look.empty, self._width)
        pad = (self._width - len(message)) // 2
        lines[self._height // 2] = Strip(
            [Segment(" " * pad, self._look.base), Segment(message, self._look.part("muted"))]
        )
        return lines

    # The curves.

    def _layers(self, columns: Columns) -> list[_Layer]:
        """What is drawn, from back to front."""
        layers = []
        view = self._view
        crowded = sum(curve.smoothable for curve in view.curves) > _MOST_WITH_RAW

        def add(curve: Curve, points: Points, *, behind: bool = False) -> None:
            summary = summarise(points, columns, above_zero=view.log)
            layers.append(_Layer(curve.line, points, summary, behind))

        for curve in sorted(view.curves, key=lambda curve: (not curve.line.dim, curve.line.dots)):
            smoothed = view.smoothing > 0 and curve.smoothable
            if not (smoothed and crowded):
                add(curve, view.points(curve), behind=smoothed)
            if smoothed:
                add(curve, view.points(curve, smoothed=True))
        return layers

    def _scale(self, layers: Sequence[_Layer]) -> Scale:
        summaries = [layer.summary for layer in layers if not layer.line.dim]
        drawn = [summary for summary in summaries if not np.isnan(summary.low_C).all()]
        log = self._view.log
        low = min((float(np.nanmin(summary.low_C)) for summary in drawn), default=1.0 if log else 0.0)
        high = max((float(np.nanmax(summary.high_C)) for summary in drawn), default=10.0 if log else 1.0)
        if self._look.from_zero and not log:
            low, high = min(low, 0.0), max(high, 0.0)
        return nice_scale(low, high, log=log)

    def _plot(self, columns: Columns, layers: Sequence[_Layer], rows: int) -> Iterator[Strip]:
        glyphs = self._look.glyphs
        scale = self._scale(layers)
        shape = rows, columns.count // glyphs.across
        cells = _Cells(np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64), [self._look.part("faint")])
        marks: list[tuple[int, int, str, int]] = []
        for layer in layers:
            line, summary = layer.line, layer.summary
            dots = raster(summary, scale, rows * glyphs.down, line=not line.dots)
            drawn_HW = glyphs.patterns(dots)
            if line.dots:
                cells.styles.append(self._look.series(line))
                places = list(_dots(summary, scale, rows, glyphs.across))
            else:
                style = self._look.part("raw") if layer.behind else self._look.series(line)
                background = layer.behind or line.dim
                cells.draw(drawn_HW, style, background=background)
                places = list(_label_places(drawn_HW, line.index)) if self._view.several and not background else []
            marks += [(row, column, line.marker, len(cells.styles) - 1) for row, column in places]
        labels = self._y_labels(scale, rows)
        chars_HW = _characters(glyphs.table)[cells.patterns_HW]
        if glyphs.across == 2:
            for row in labels:
                chars_HW[row][cells.patterns_HW[row] == 0] = "┈"
        for row, column, marker, owner in marks:
            chars_HW[row, column], cells.owner_HW[row, column] = marker, owner
        cursor = self._cursor_cell(columns)
        if cursor is not None:
            chars_HW[cells.patterns_HW[:, cursor] == 0, cursor] = "│"
        return self._rows(chars_HW, cells, labels, cursor)

    def _y_labels(self, scale: Scale, rows: int) -> dict[int, str]:
        placed = [(tick, _row_of(tick, scale, rows)) for tick in ticks(scale, max(2, rows // 3))]
        step = abs(placed[1][0] - placed[0][0]) if len(placed) > 1 and not scale.log else 0.0
        labels = {row: format_tick(tick, step) for tick, row in placed}
        return {row: label if len(label) < _LEFT else "" for row, label in labels.items()}

    def _cursor_cell(self, columns: Columns) -> int | None:
        cursor = self._view.cursor
        if cursor is None or not columns.start <= cursor <= columns.end:
            return None
        return columns.column_of(cursor) // self._look.glyphs.across

    def _rows(
        self, chars_HW: npt.NDArray[np.str_], cells: _Cells, labels: Mapping[int, str], cursor: int | None
    ) -> Iterator[Strip]:
        axis, under_cursor = self._look.part("muted"), self._look.palette["chart-cursor"]
        for row, (chars_W, owner_W) in enumerate(zip(chars_HW, cells.owner_HW, strict=True)):
            segments = []
            if self.left:
                tick = "┤" if row in labels else "│"
                segments.append(Segment(f"{labels.get(row, ''):>{self.left - 1}}{tick}", axis))
            cuts = {0, len(chars_W), *(np.flatnonzero(np.diff(owner_W)) + 1).tolist()}
            if cursor is not None:
                cuts |= {cursor, cursor + 1}
            for start, end in pairwise(sorted(cuts)):
                style = cells.styles[owner_W[start]]
                segments.append(
                    Segment("".join(chars_W[start:end]), style + under_cursor if start == cursor else style)
                )
            yield Strip(segments, self.left + len(chars_W))

    # The x axis.

    def _x_axis(self, columns: Columns, layers: Sequence[_Layer], *, labels: bool) -> Iterator[Strip]:
        cells = columns.count // self._look.glyphs.across
        rule, text = ["─"] * cells, [" "] * (self._width + 12)
        free = 0
        for tick in self._x_ticks(columns, max(2, cells // 16)):
            cell = int((tick - columns.start) / self.cell_width)
            label = self._x_label(tick)
            at = max(0, self.left + cell - len(label) // 2)
            if 0 <= cell < cells and at >= free and at + len(label) <= self._width:
                rule[cell] = "┬"
                text[at : at + len(label)] = label
                free = at + len(label) + 2
        axis = self._look.part("muted")
        segments = [Segment(" " * (self.left - 1) + "└" if self.left else "", axis)]
        flags = self._flag_cells(columns, layers)
        for cell, character in enumerate(rule):
            kind = flags.get(cell)
            style = self._look.part("bad" if kind == "nan" else "bright") if kind else axis
            segments.append(Segment(_FLAG_GLYPHS[kind] if kind else character, style))
        yield Strip(Segment.simplify(segments))
        if labels:
            yield Strip([Segment("".join(text[: self._width]), axis)], self._width)

    def _x_ticks(self, columns: Columns, count: int) -> list[float]:
        find = time_ticks if self._view.x_axis == "time" else lambda low, high, count: ticks(Scale(low, high), count)
        return find(columns.start, columns.end, count)

    def _x_label(self, x: float) -> str:
        if self._view.x_axis == "time":
            return format_duration(x)
        if self._view.x_axis == "tokens":
            return format_count(x)
        return f"{x:,.0f}" if abs(x) < 1e6 and x == int(x) else format_tick(x)

    def _flag_cells(self, columns: Columns, layers: Sequence[_Layer]) -> dict[int, str]:
        """Marks on the axis by cell."""
        places: list[tuple[str, int]] = []
        for flag in self._flags:
            x = self._flag_x(flag)
            if x is not None and columns.start <= x <= columns.end:
                places.append((flag.kind, columns.column_of(x)))
        for layer in layers:
            if not layer.line.dim:
                places += [("nan", column) for column in np.flatnonzero(layer.summary.nan_C).tolist()]
        rank = list(_FLAG_GLYPHS)
        return {
            column // self._look.glyphs.across: kind
            for kind, column in sorted(places, key=lambda place: rank.index(place[0]))
        }

    def _flag_x(self, flag: Flag) -> float | None:
        if self._view.x_axis == "steps":
            return float(flag.step)
        if self._view.x_axis == "time":
            return flag.time
        lines = (curve.line for curve in self._view.curves if len(curve) and curve.line.tokens is not None)
        line = next(lines, None)
        return float(np.interp(flag.step, line.step, line.tokens)) if line and line.tokens is not None else None


def _row_of(value: float, scale: Scale, rows: int) -> int:
    return int(min(rows - 1, max(0, (1 - float(scale.fraction(value))) * rows)))


def _dots(summary: Summary, scale: Scale, rows: int, across: int) -> Iterator[tuple[int, int]]:
    """Where points that stand apart are drawn."""
    for column in np.flatnonzero(~np.isnan(summary.last_C)):
        yield _row_of(float(summary.last_C[column]), scale, rows), int(column) // across


def _label_places(drawn_HW: Ints, index: int) -> Iterator[tuple[int, int]]:
    """A few places on a curve for its marker, other ones for each curve, so that colour is not needed."""
    filled = np.flatnonzero(drawn_HW.any(axis=0))
    if len(filled):
        every = max(12, len(filled) // 4)
        for column in {int(c) for c in filled[(index * 5) % every :: every]} | {int(filled[-1])}:
            yield int(np.flatnonzero(drawn_HW[:, column])[0]), column


@lru_cache(maxsize=3)
def _characters(table: str) -> npt.NDArray[np.str_]:
    characters = np.array(list(table))
    if table[0] == "\u2800":
        characters[0] = " "
    return characters
