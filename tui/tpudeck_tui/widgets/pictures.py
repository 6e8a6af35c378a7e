"""Pictures side by side where there is room, one at a time where there is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from tpudeck_tui.plot.dots import DotGlyphs
from tpudeck_tui.plot.picture import Picture, Plot
from tpudeck_tui.widgets.canvas import Canvas

__all__ = ["Pictures"]

_LEAST_WIDTH, _LEAST_HEIGHT = 50, 13
"""Of one of several."""


class Pictures(Canvas, can_focus=True):
    """Some plots, one of them chosen: the cursor is on that one."""

    ALLOW_MAXIMIZE: ClassVar[bool | None] = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "cursor(-1)", "Cursor", id="pictures.left", show=False),
        Binding("right,l", "cursor(1)", "Cursor", id="pictures.right", show=False),
        Binding("shift+left", "cursor(-10)", "Cursor, ten at once", id="pictures.far_left", show=False),
        Binding("shift+right", "cursor(10)", "Cursor, ten at once", id="pictures.far_right", show=False),
        Binding("home", "cursor(-1000000)", "Cursor to the first point", id="pictures.first", show=False),
        Binding("end", "cursor(1000000)", "Cursor to the last point", id="pictures.last", show=False),
        Binding("0,escape", "reset", "No cursor", key_display="0", id="pictures.reset", show=False),
        Binding("y", "toggle_log", "Log scale", id="pictures.log"),
        Binding("e", "export", "Export CSV", id="pictures.export"),
    ]

    class ExportRequested(Message):
        """All points of the chosen plot."""

        def __init__(self, name: str, pieces: Iterator[str]) -> None:
            super().__init__()
            self.name = name
            self.pieces = pieces

    def __init__(self, glyphs: DotGlyphs, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._plots: tuple[Plot, ...] = ()
        self._chosen = 0
        self._cursor: int | None = None
        self._log: dict[str, bool] = {}
        """Scales that were changed, by title."""
        self._seen: list[tuple[int, int, int, Picture]] = []
        """The pictures that are seen: left, top, which plot."""

    def show(self, plots: Sequence[Plot]) -> None:
        """Show these from now on."""
        if [plot.title for plot in plots] != [plot.title for plot in self._plots]:
            self._chosen, self._cursor = 0, None
        self._plots = tuple(plots)
        if self._cursor is not None:
            self._cursor = min(self._cursor, len(self._plots[self._chosen].x) - 1)
        self.repaint()

    @property
    def chosen(self) -> Plot | None:
        return self._plots[self._chosen] if self._plots else None

    def choose_next(self) -> None:
        if self._plots:
            self._chosen, self._cursor = (self._chosen + 1) % len(self._plots), None
            self.repaint()

    # Keys and the mouse.

    def action_cursor(self, points: int) -> None:
        if (plot := self.chosen) is not None and len(plot.x):
            start = (-1 if points > 0 else len(plot.x)) if self._cursor is None else self._cursor
            self._cursor = min(len(plot.x) - 1, max(0, start + points))
            self.repaint()

    def action_reset(self) -> None:
        self._cursor = None
        self.repaint()

    def action_toggle_log(self) -> None:
        if (plot := self.chosen) is not None:
            self._log[plot.title] = not self._log.get(plot.title, plot.log_y)
            self.repaint()

    def action_export(self) -> None:
        if (plot := self.chosen) is not None:
            self.post_message(self.ExportRequested(plot.title.replace(" ", "-"), plot.csv()))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        for left, top, index, picture in reversed(self._seen) if offset is not None else ():
            if offset is not None and offset.x >= left and offset.y >= top:
                self._chosen, self._cursor = index, picture.point_at(offset.x - left)
                self.repaint()
                return

    # Painting.

    def paint(self, size: Size) -> list[Strip]:
        across = max(1, min(2, size.width // _LEAST_WIDTH, len(self._plots)))
        rows = max(1, min(-(-len(self._plots) // across), size.height // _LEAST_HEIGHT))
        if across * rows < len(self._plots) and across * rows > 1 and self._chosen >= across * rows:
            first = self._chosen // (across * rows) * (across * rows)
        else:
            first = 0 if across * rows > 1 else self._chosen
        self._seen = []
        strips: list[Strip] = []
        for row in range(rows):
            height = size.height // rows
            line = range(first + row * across, min(first + (row + 1) * across, len(self._plots)))
            parts = [self._one(index, size.width // across, height, row, place) for place, index in enumerate(line)]
            strips += [_joined([part[y] for part in parts]) for y in range(height if parts else 0)]
        return strips

    def _one(self, index: int, width: int, height: int, row: int, place: int) -> list[Strip]:
        plot, chosen = self._plots[index], index == self._chosen
        picture = Picture(
            plot,
            width=width - 1,
            height=height,
            glyphs=self._glyphs,
            part=self.part,
            cursor=self._cursor if chosen else None,
            focused=chosen and self.has_focus,
            log_y=self._log.get(plot.title),
            note=f"{index + 1} of {len(self._plots)}, m: next" if chosen and len(self._plots) > 1 else "",
        )
        self._seen.append((place * width, row * height, index, picture))
        strips = [strip.adjust_cell_length(width, self.rich_style) for strip in picture.strips()]
        return strips + [Strip.blank(width, self.rich_style)] * (height - len(strips))


def _joined(strips: Sequence[Strip]) -> Strip:
    return Strip([segment for strip in strips for segment in strip] or [Segment("")])
