"""Pictures of finished numbers: a curve over ranks, or a histogram, with axes that may be logarithmic.

Charts of runs grow, smooth and zoom; these stand still, and are read: the title says what is under the cursor.

Shapes: ``C`` dot columns, ``W`` and ``H`` cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tpudeck.units import format_count
from tpudeck_tui.cells import clean, fit
from tpudeck_tui.plot.axes import Scale, format_tick, nice_scale, ticks
from tpudeck_tui.plot.columns import Columns, Floats, Points, summarise
from tpudeck_tui.plot.dots import DotGlyphs, raster

__all__ = ["Picture", "Plot"]

_LEFT = 7
"""Cells for the labels of the y axis."""
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_MARK = "◆"


@dataclass(frozen=True)
class Plot:
    """What is drawn: one or two series over the same x."""

    title: str
    x_name: str
    x: Floats
    """Ascending; of bars their lower edges."""
    series: Mapping[str, Floats]
    readout: Callable[[int], str]
    """What is at the point with this number."""
    bars: bool = False
    log_x: bool = False
    log_y: bool = False
    percent: bool = False
    """Values are shares."""

    def csv(self) -> Iterator[str]:
        """Every point, as lines of a table."""
        yield ",".join([self.x_name, *self.series]) + "\n"
        for row in zip(self.x.tolist(), *(values.tolist() for values in self.series.values()), strict=True):
            yield ",".join(map(repr, row)) + "\n"


class Picture:
    """A plot in so many cells."""

    def __init__(
        self,
        plot: Plot,
        *,
        width: int,
        height: int,
        glyphs: DotGlyphs,
        part: Callable[[str], Style],
        cursor: int | None = None,
        focused: bool = False,
        log_y: bool | None = None,
        note: str = "",
    ) -> None:
        self._plot = plot
        self._width = width
        self._rows = height - 3
        self._glyphs = glyphs
        self._part = part
        self._cursor = cursor
        self._focused = focused
        self._note = note
        """At the right of the title."""
        self._log_y = plot.log_y if log_y is None else log_y
        self._cells = max(1, width - _LEFT)

    # What goes where.

    @cached_property
    def _x(self) -> Floats:
        return np.log10(self._plot.x) if self._plot.log_x else self._plot.x

    @cached_property
    def _columns(self) -> Columns:
        """Dot columns from the first point to the last."""
        count = self._cells * self._glyphs.across
        span = float(self._x[-1] - self._x[0]) or 1.0
        return Columns(float(self._x[0]), span / (count - 0.5), count)

    @cached_property
    def _scale(self) -> Scale:
        values = np.concatenate(list(self._plot.series.values()))
        values = values[np.isfinite(values) & (values > 0)] if self._log_y else values[np.isfinite(values)]
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
        if self._log_y:
            return nice_scale(low, high, log=True)
        return Scale(0.0, 1.0) if self._plot.percent and high > 0.5 else nice_scale(0.0, high or 1.0)

    @cached_property
    def _bar_cells(self) -> tuple[int, int]:
        """How many bars stand in how many cells: several bars share a cell where there are more of them than cells."""
        bars = len(self._plot.x)
        return (1, max(1, min(8, self._cells // bars))) if bars <= self._cells else (-(-bars // self._cells), 1)

    def point_at(self, column: int) -> int | None:
        """The point that is nearest to a cell, counted from the left of the picture."""
        cell = column - _LEFT
        if cell < 0 or not len(self._plot.x):
            return None
        if self._plot.bars:
            bars, cells = self._bar_cells
            return min(len(self._plot.x) - 1, cell // cells * bars)
        place = self._columns.start + (cell + 0.5) * self._glyphs.across * self._columns.width
        return int(np.abs(self._x - place).argmin())

    def _cell_of(self, point: int) -> int:
        if self._plot.bars:
            bars, cells = self._bar_cells
            return point // bars * cells
        return self._columns.column_of(float(self._x[point])) // self._glyphs.across

    # The strips.

    def strips(self) -> list[Strip]:
        if self._width < 16 or self._rows < 2:
            return []
        if not len(self._plot.x):
            return [self._header(), Strip([Segment(" nothing to show"[: self._width], self._part("muted"))])]
        chars, parts = self._bars() if self._plot.bars else self._curves()
        return [self._header(), *self._lines(chars, parts), *self._x_axis()]

    def _header(self) -> Strip:
        title = Segment(fit(self._plot.title, self._width), self._part("title-focused" if self._focused else "title"))
        if self._cursor is not None:
            return self._readout(title, self._cursor)
        room = self._width - title.cell_length - len(self._note) - 2
        segments = [title]
        if len(self._plot.series) > 1 and room > 0:
            for index, name in enumerate(self._plot.series):
                mark = _MARK if index else "█" if self._plot.bars else "─"
                text = fit(f"  {mark} {name}", room)
                segments.append(Segment(text, self._part(f"series-{index}")))
                room -= len(text)
        if self._note and room > 0:
            used = sum(segment.cell_length for segment in segments)
            segments.append(Segment(" " * (self._width - used - len(self._note)) + self._note, self._part("muted")))
        return Strip(segments)

    def _readout(self, title: Segment, cursor: int) -> Strip:
        """What is under the cursor; without the title where there is no room for both."""
        text = clean(self._plot.readout(cursor))
        room = self._width - title.cell_length - 2
        if cell_len(text) <= room:
            return Strip([title, Segment(f"  {text}", self._part("bright"))])
        return Strip([Segment(fit(text, self._width), self._part("title-focused" if self._focused else "bright"))])

    def _curves(self) -> tuple[list[list[str]], list[list[str]]]:
        chars, parts = self._blank()
        for index, values in enumerate(self._plot.series.values()):
            summary = summarise(Points(self._x, values), self._columns, above_zero=self._log_y)
            patterns = self._glyphs.patterns(raster(summary, self._scale, self._rows * self._glyphs.down))
            for row, column in zip(*np.nonzero(patterns), strict=True):
                chars[row][column], parts[row][column] = self._glyphs.table[patterns[row, column]], f"series-{index}"
        return chars, parts

    def _bars(self) -> tuple[list[list[str]], list[list[str]]]:
        chars, parts = self._blank()
        bars, cells = self._bar_cells
        for index, values in enumerate(self._plot.series.values()):
            heights = np.add.reduceat(values, np.arange(0, len(values), bars))
            if self._log_y:
                heights = np.where(heights > 0, heights, np.nan)
            shares = np.clip(np.nan_to_num(self._scale.fraction(heights)), 0, 1)
            for place, (share, height) in enumerate(zip(shares.tolist(), heights.tolist(), strict=True)):
                eighths = max(round(share * self._rows * 8), 1 if height > 0 else 0)
                for cell in range(place * cells, min(self._cells, place * cells + max(1, cells - (cells > 2)))):
                    if index:
                        self._mark(chars, parts, cell, eighths, f"series-{index}")
                    else:
                        self._column(chars, parts, cell, eighths)
        return chars, parts

    def _column(self, chars: list[list[str]], parts: list[list[str]], cell: int, eighths: int) -> None:
        for row in range(self._rows - 1, -1, -1):
            if eighths <= 0:
                return
            chars[row][cell], parts[row][cell] = _EIGHTHS[min(8, eighths)], "series-0"
            eighths -= 8

    def _mark(self, chars: list[list[str]], parts: list[list[str]], cell: int, eighths: int, part: str) -> None:
        if eighths:
            row = max(0, self._rows - 1 - (eighths - 1) // 8)
            chars[row][cell], parts[row][cell] = _MARK, part

    def _blank(self) -> tuple[list[list[str]], list[list[str]]]:
        chars = [[" "] * self._cells for _ in range(self._rows)]
        for row in self._y_labels:
            chars[row] = ["┈"] * self._cells
        return chars, [["faint"] * self._cells for _ in range(self._rows)]

    @cached_property
    def _y_labels(self) -> dict[int, str]:
        found = {}
        for tick in self._y_ticks():
            row = min(self._rows - 1, max(0, round((1 - float(self._scale.fraction(tick))) * self._rows - 0.5)))
            found[row] = self._y_label(tick)
        return found

    def _y_ticks(self) -> list[float]:
        if self._plot.percent and self._scale == Scale(0.0, 1.0):
            parts = 4 if self._rows >= 9 else 2
            return [part / parts for part in range(parts + 1)]
        return ticks(self._scale, max(2, self._rows // 3))

    def _y_label(self, tick: float) -> str:
        return f"{100 * tick:g}%" if self._plot.percent else format_tick(tick)

    def _lines(self, chars: list[list[str]], parts: list[list[str]]) -> Iterator[Strip]:
        axis = self._part("muted")
        cursor = None if self._cursor is None else self._cell_of(self._cursor)
        for row, (line, line_parts) in enumerate(zip(chars, parts, strict=True)):
            label = self._y_labels.get(row, "")
            segments = [Segment(f"{label:>{_LEFT - 1}}{'┤' if label else '│'}", axis)]
            for cell, (char, part) in enumerate(zip(line, line_parts, strict=True)):
                style = self._part(part)
                if cell == cursor:
                    char, style = (char if char not in " ┈" else "│"), style + self._part("chart-cursor")
                segments.append(Segment(char, style))
            yield Strip(Segment.simplify(segments))

    # The x axis.

    def _x_axis(self) -> Iterator[Strip]:
        rule, text = ["─"] * self._cells, [" "] * (self._width + 16)
        free = 0
        for cell, label in self._x_labels():
            at = min(max(free, _LEFT + cell - len(label) // 2), self._width - len(label))
            if 0 <= cell < self._cells and free <= at <= _LEFT + cell:
                rule[cell] = "┬"
                text[at : at + len(label)] = label
                free = at + len(label) + 1
        self._name_axis(text)
        axis = self._part("muted")
        yield Strip([Segment(" " * (_LEFT - 1) + "└" + "".join(rule), axis)])
        yield Strip([Segment("".join(text[: self._width]), axis)])

    def _name_axis(self, text: list[str]) -> None:
        """The name of the x axis, in the rightmost gap that holds it."""
        name = f" {self._plot.x_name} "
        for at in range(self._width - len(name) + 1, 0, -1):
            if set(text[at : at + len(name)]) == {" "}:
                text[at : at + len(name)] = name
                return

    def _x_labels(self) -> Sequence[tuple[int, str]]:
        if self._plot.bars:
            bars, cells = self._bar_cells
            return [
                (place * cells + cells // 2, format_count(x)) for place, x in enumerate(self._plot.x[::bars].tolist())
            ]
        low, high = float(self._plot.x[0]), float(self._plot.x[-1])
        places = ticks(Scale(low, max(high, low * 1.01), log=self._plot.log_x), max(2, self._cells // 10))
        across = self._glyphs.across * self._columns.width
        return [
            (int(((math.log10(x) if self._plot.log_x else x) - self._columns.start) / across), format_count(x))
            for x in places
        ]
