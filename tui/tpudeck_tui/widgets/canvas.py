"""A widget that paints itself as strips, and sends the terminal only the cells that changed.

Over a slow link what counts is the number of bytes. A repaint compares the new strips with the ones before and marks as
dirty, line by line, from the first cell that differs to the last: a chart whose columns stay put costs a few cells per
frame, and a repaint that changes nothing costs nothing.
"""

from __future__ import annotations

from rich.style import Style
from textual import events
from textual.app import App
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

__all__ = ["Canvas", "PaintingApp"]


class PaintingApp(App[None]):
    """An application that has a palette."""

    @property
    def palette(self) -> dict[str, Style]:
        """Part → style."""
        raise NotImplementedError


class Canvas(Widget):
    """Subclasses say in :meth:`paint` what they look like now, and call :meth:`repaint` when that may have changed."""

    DEFAULT_CSS = "Canvas { height: 1fr; }"

    app: PaintingApp
    _frame: list[Strip] | None = None
    _base: Style | None = None
    """The widget's own style. Textual works it out anew for each who asks, from all that the widget lies in."""

    def paint(self, size: Size) -> list[Strip]:
        """The lines of the widget; missing ones are blank."""
        raise NotImplementedError

    def repaint(self) -> None:
        """Paint again and refresh what differs."""
        if self._frame is None or not self.is_mounted:
            self.refresh()
            return
        before, after = self._frame, self._painted()
        self._frame = after
        regions = [
            Region(start, y, end - start, 1)
            for y, (old, new) in enumerate(zip(before, after, strict=False))
            if old is not new
            for start, end in _difference(old, new)
        ]
        if len(before) != len(after):
            self.refresh()
        elif regions:
            self.refresh(*regions)

    def part(self, name: str) -> Style:
        """The style of a part, over the widget's own; no name is the widget's own style."""
        return self.base + self.palette[name] if name else self.base

    @property
    def base(self) -> Style:
        """The widget's own style."""
        if self._base is None:
            self._base = self.rich_style
        return self._base

    @property
    def palette(self) -> dict[str, Style]:
        """The styles of parts under the present theme."""
        return self.app.palette

    def _painted(self) -> list[Strip]:
        size, base = self.content_size, self.base
        strips = [strip.adjust_cell_length(size.width, base) for strip in self.paint(size)[: size.height]]
        return strips + [Strip.blank(size.width, base)] * (size.height - len(strips))

    def render_line(self, y: int) -> Strip:
        if self._frame is None or len(self._frame) != self.content_size.height:
            self._frame = self._painted()
        return self._frame[y] if y < len(self._frame) else Strip.blank(self.content_size.width, self.base)

    def notify_style_update(self) -> None:
        self._frame = self._base = None
        super().notify_style_update()

    def on_focus(self) -> None:
        """What has the focus looks like it."""
        self.repaint()

    def on_blur(self) -> None:
        self.repaint()

    def _on_resize(self, event: events.Resize) -> None:
        self._frame = None


def _difference(old: Strip, new: Strip) -> list[tuple[int, int]]:
    """Where two strips differ, from the first cell to the last; strips with wide characters differ as a whole."""
    if old == new:
        return []
    one, two = _cells(old), _cells(new)
    if len(one) != len(two) or len(one) != new.cell_length:
        return [(0, max(old.cell_length, new.cell_length))]
    differing = [index for index, (a, b) in enumerate(zip(one, two, strict=True)) if a != b]
    return [(differing[0], differing[-1] + 1)] if differing else []


def _cells(strip: Strip) -> list[tuple[str, Style | None]]:
    return [(character, segment.style) for segment in strip for character in segment.text]
