"""Several pages of text behind one line of tabs, scrolled by line; and a plain block of such lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from tpudeck_tui.widgets.canvas import Canvas

__all__ = ["Lines", "Pages", "TextLine"]

TextLine = list[tuple[str, str]]
Source = Callable[[int], list[TextLine]]
"""The lines of a page, for a width."""


class Lines(Canvas):
    """Lines of text, as many as fit."""

    def __init__(self, source: Source = lambda width: [], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._source = source

    def show(self, source: Source) -> None:
        """Paint these from now on."""
        self._source = source
        self.repaint()

    def paint(self, size: Size) -> list[Strip]:
        return [self.strip_of(line) for line in self._source(size.width)[: size.height]]

    def strip_of(self, line: Sequence[tuple[str, str]]) -> Strip:
        return Strip([Segment(text, self.part(part)) for text, part in line])


class Pages(Lines, can_focus=True):
    """One page at a time. Pages in `follow` stay at their end while they grow."""

    ALLOW_MAXIMIZE: ClassVar[bool | None] = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "turn(-1)", "Page to the left", id="pages.left", show=False),
        Binding("right,l", "turn(1)", "Next page", key_display="→", id="pages.right"),
        Binding("up,k", "scroll_by(-1)", "Up", id="pages.up", show=False),
        Binding("down,j", "scroll_by(1)", "Down", id="pages.down", show=False),
        Binding("pageup", "scroll_page(-1)", "Page up", id="pages.page_up", show=False),
        Binding("pagedown", "scroll_page(1)", "Page down", id="pages.page_down", show=False),
        Binding("home,g", "scroll_by(-1000000000)", "To the beginning", id="pages.first", show=False),
        Binding("end,G", "scroll_by(1000000000)", "To the end", id="pages.last", show=False),
    ]

    class Turned(Message):
        """Another page is shown."""

        def __init__(self, pages: Pages) -> None:
            super().__init__()
            self.pages = pages

    def __init__(self, names: Sequence[str], *, follow: Sequence[str] = (), id: str | None = None) -> None:
        super().__init__(id=id)
        self.names = list(names)
        self.page = self.names[0]
        self._follow = frozenset(follow)
        self._sources: dict[str, Source] = {}
        self._offsets: dict[str, int | None] = {}
        """Lines scrolled down; none: at the end, whatever comes."""
        self._length = 0

    def fill(self, sources: dict[str, Source]) -> None:
        """What the pages show from now on."""
        self._sources = sources
        self.repaint()

    def turn_to(self, page: str) -> None:
        if page != self.page:
            self.page = page
            self.post_message(self.Turned(self))
        self.repaint()

    def action_turn(self, pages: int) -> None:
        self.turn_to(self.names[(self.names.index(self.page) + pages) % len(self.names)])

    @property
    def _height(self) -> int:
        return max(1, self.content_size.height - 1)

    @property
    def _offset(self) -> int:
        end = max(0, self._length - self._height)
        offset = self._offsets.get(self.page, None if self.page in self._follow else 0)
        return end if offset is None else min(offset, end)

    def action_scroll_by(self, lines: int) -> None:
        end = max(0, self._length - self._height)
        offset = max(0, min(self._offset + lines, end))
        self._offsets[self.page] = None if offset == end and self.page in self._follow else offset
        self.repaint()

    def action_scroll_page(self, pages: int) -> None:
        self.action_scroll_by(pages * self._height)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.action_scroll_by(2)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.action_scroll_by(-2)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and offset.y == 0:
            edge = 0
            for name in self.names:
                edge += len(name) + 3
                if offset.x < edge:
                    self.turn_to(name)
                    return

    def paint(self, size: Size) -> list[Strip]:
        source = self._sources.get(self.page)
        lines = source(size.width) if source else []
        self._length = len(lines)
        shown = lines[self._offset : self._offset + size.height - 1]
        more = self._length - self._offset - len(shown)
        return [self._tabs(size.width, more), *map(self.strip_of, shown)]

    def _tabs(self, width: int, more: int) -> Strip:
        segments, used = [], 0
        for name in self.names:
            here = name == self.page
            part = "sorted" if here and self.has_focus else "title" if here else "muted"
            segments.append(Segment(f"{'▸' if here else ' '}{name} ", self.part(part)))
            segments.append(Segment(" ", self.rich_style))
            used += len(name) + 3
        note = f" {more} more ↓ " if more > 0 else ""
        if used + len(note) >= width:
            note = note and "↓"
        rest = width - used - len(note)
        if rest > 0:
            segments += [Segment("─" * rest, self.part("faint")), Segment(note, self.part("muted"))]
        return Strip(segments)
