"""The chart as a widget: keys and mouse change how its curves are looked at; each change paints a frame.

What to draw is a tuple of :class:`Line`. Where one is looked at is a :class:`View`, how it appears a :class:`Frame`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from tpudeck_tui.plot.curve import Flag, Line, follow
from tpudeck_tui.plot.dots import DotGlyphs
from tpudeck_tui.plot.frame import Frame
from tpudeck_tui.plot.look import Look
from tpudeck_tui.plot.view import View
from tpudeck_tui.widgets.canvas import Canvas

__all__ = ["Chart"]


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
        """The points that are shown, as pieces of CSV."""

        def __init__(self, chart: Chart, pieces: Iterator[str]) -> None:
            super().__init__()
            self.chart = chart
            self.pieces = pieces

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
        self.from_zero = from_zero
        self.empty = empty
        self.view = View(smoothing=smoothing, log=log)
        self.flags: tuple[Flag, ...] = ()
        self._painted_frame: Frame | None = None

    # What to draw.

    def show(self, lines: Sequence[Line], flags: Sequence[Flag] = ()) -> None:
        """Draw these curves from now on; cursor, window and settings stay."""
        before = [(curve, len(curve)) for curve in self.view.curves], self.flags
        self.view.curves, self.flags = follow(self.view.curves, tuple(lines)), tuple(flags)
        if before != ([(curve, len(curve)) for curve in self.view.curves], self.flags):
            self.view.keep_to_axes()
            self.repaint()

    def show_as(self, title: str, *, smoothing: float, from_zero: bool) -> None:
        """Be the chart of another quantity."""
        self.chart_title, self.from_zero, self.view.smoothing = title, from_zero, smoothing
        self.view.curves = []
        self.repaint()

    def paint(self, size: Size) -> list[Strip]:
        look = Look(
            title=self.chart_title,
            glyphs=self.glyphs,
            palette=self.palette,
            base=self.base,
            focused=self.has_focus,
            from_zero=self.from_zero,
            empty=self.empty,
        )
        self._painted_frame = Frame(self.view, self.flags, look, width=size.width, height=size.height)
        return self._painted_frame.strips()

    # Keys.

    def _change(self, change: Callable[[], None], *, worth_remembering: bool = False) -> None:
        change()
        self.repaint()
        if worth_remembering:
            self.post_message(self.Changed(self))

    def action_zoom(self, factor: float) -> None:
        self._change(partial(self.view.zoom, factor))

    def action_pan(self, share: float) -> None:
        self._change(partial(self.view.pan, share))

    def action_reset(self) -> None:
        self._change(self.view.reset)

    def action_cursor(self, cells: int) -> None:
        """Walk by cells, and from point to point where points are rarer than cells."""
        frame = self._painted_frame
        if frame is not None and frame.columns is not None:
            within = frame.columns.start, frame.columns.end
            self._change(partial(self.view.walk, cells * frame.cell_width, within=within))

    def action_cursor_to(self, index: int) -> None:
        self._change(partial(self.view.go_to, index))

    def action_toggle_log(self) -> None:
        self._change(self.view.toggle_log, worth_remembering=True)

    def action_smooth(self) -> None:
        self._change(self.view.smooth_more, worth_remembering=True)

    def action_x_axis(self) -> None:
        self._change(self.view.turn_x_axis, worth_remembering=True)

    def action_export(self) -> None:
        self.post_message(self.ExportRequested(self, self.csv()))

    def csv(self) -> Iterator[str]:
        """Every point of the window, at full resolution; the points are those of now, whenever they are read."""
        view = self.view
        low, high = view.range_shown() or (0.0, 0.0)
        pieces = [curve.rows(view.x_axis, low, high, view.smoothing) for curve in view.curves]
        return chain([f"series,step,time_s,{self.chart_title},smoothed\n"], *pieces)

    # The mouse.

    def _place(self, event: events.MouseEvent) -> float | None:
        offset = event.get_content_offset(self)
        return self._painted_frame.place(offset.x) if offset and self._painted_frame else None

    def on_click(self, event: events.Click) -> None:
        if (place := self._place(event)) is not None:
            self._change(partial(self.view.point_at, place))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, pan=-0.1, zoom=0.8)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, pan=0.1, zoom=1.25)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        self._wheel(event, pan=-0.1)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        self._wheel(event, pan=0.1)

    def _wheel(self, event: events.MouseEvent, *, pan: float, zoom: float | None = None) -> None:
        event.stop()
        if zoom is None or event.shift:
            self._change(partial(self.view.pan, pan))
        else:
            self._change(partial(self.view.zoom, zoom, self._place(event)))
