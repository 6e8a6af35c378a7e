"""A table that paints only the rows one sees: ten thousand runs scroll like ten.

Rows are any objects with an identity; the cursor and the marks stay with the rows they are on while the table changes
around them. Columns carry their own width and rank: on a narrow terminal the least important ones are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from tpudeck_tui.cells import pad
from tpudeck_tui.widgets.canvas import Canvas

__all__ = ["Cell", "Column", "Table"]

Row = TypeVar("Row")

Cell = tuple[str, str]
"""Text and the part (see `theme`) it is painted as; empty for the plain style."""


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One column."""

    key: str
    title: str
    width: int
    cell: Callable[[Row], Cell]
    sort: Callable[[Row], Any] | None = None
    """What to sort by; rows for which it is none come last, either way."""
    right: bool = False
    rank: int = 0
    """Columns of a higher rank are left out first."""
    grows: bool = False
    """Takes the room that is left."""
    descending: bool = False
    """Which way round it is sorted at first."""


class Table(Canvas, Generic[Row], can_focus=True):
    """Rows and columns, a cursor, marks, and a sort order."""

    ALLOW_MAXIMIZE: ClassVar[bool | None] = True

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", id="table.up", show=False),
        Binding("down,j", "move(1)", "Down", id="table.down", show=False),
        Binding("pageup", "page(-1)", "Page up", id="table.page_up", show=False),
        Binding("pagedown", "page(1)", "Page down", id="table.page_down", show=False),
        Binding("home,g", "move(-1000000000)", "First row", id="table.first", show=False),
        Binding("end,G", "move(1000000000)", "Last row", id="table.last", show=False),
        Binding("enter", "choose", "Open", id="table.open"),
    ]

    class Moved(Message):
        """The cursor is on another row, or on none."""

        def __init__(self, table: Table[Any]) -> None:
            super().__init__()
            self.table = table

        @property
        def control(self) -> Table[Any]:
            return self.table

    class Chosen(Message):
        """Enter or a second click on a row."""

        def __init__(self, table: Table[Any]) -> None:
            super().__init__()
            self.table = table

        @property
        def control(self) -> Table[Any]:
            return self.table

    def __init__(
        self,
        columns: Sequence[Column[Row]],
        *,
        identity: Callable[[Row], str],
        sort: str = "",
        header: bool = True,
        empty: Sequence[Cell] = (),
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self.columns = tuple(columns)
        self.identity = identity
        self.sort_key = sort
        self.descending = next((column.descending for column in columns if column.key == sort), False)
        self.header = header
        self.empty = tuple(empty)
        """What is shown instead of rows."""
        self.marked: set[str] = set()
        self.rows: list[Row] = []
        self._given: tuple[Row, ...] = ()
        self._place: dict[str, int] = {}
        self._at = 0
        self._top = 0

    # Rows.

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows from now on. The cursor stays on its row, else where it was."""
        before = self.current
        self._given = tuple(rows)
        self._arrange(self.identity(before) if before is not None else None)

    def _arrange(self, stay: str | None) -> None:
        column = next((column for column in self.columns if column.key == self.sort_key), None)
        self.rows = list(self._given)
        if column is not None and column.sort is not None:
            values = {id(row): column.sort(row) for row in self.rows}
            known = [row for row in self.rows if values[id(row)] is not None]
            unknown = [row for row in self.rows if values[id(row)] is None]
            self.rows = sorted(known, key=lambda row: values[id(row)], reverse=self.descending) + unknown
        self._place = {self.identity(row): place for place, row in enumerate(self.rows)}
        moved_to = self._place.get(stay, self._at) if stay is not None else self._at
        self._at = max(0, min(moved_to, len(self.rows) - 1))
        self._keep_in_sight()
        self.repaint()
        now = self.current
        if (self.identity(now) if now is not None else None) != stay:
            self.post_message(self.Moved(self))

    @property
    def current(self) -> Row | None:
        """The row under the cursor."""
        return self.rows[self._at] if self._at < len(self.rows) else None

    def go_to(self, identity: str) -> None:
        """Put the cursor on a row, where there is such a row."""
        if identity in self._place:
            self._move_to(self._place[identity])

    def toggle_mark(self) -> None:
        """Mark or unmark the row under the cursor, and go on to the next."""
        if (row := self.current) is not None:
            self.marked ^= {self.identity(row)}
            self._move_to(self._at + 1)
            self.repaint()

    def marked_rows(self) -> list[Row]:
        """The marked rows, in order; where none is marked, the one under the cursor."""
        marked = [row for row in self.rows if self.identity(row) in self.marked]
        return marked or ([self.current] if self.current is not None else [])

    def sort_by(self, key: str, *, descending: bool | None = None) -> None:
        """Sort by a column; the same one again turns the order round."""
        column = next((column for column in self.columns if column.key == key), None)
        if column is None or column.sort is None:
            return
        turned = not self.descending if key == self.sort_key else column.descending
        self.sort_key, self.descending = key, turned if descending is None else descending
        row = self.current
        self._arrange(self.identity(row) if row is not None else None)

    def sortable(self) -> list[Column[Row]]:
        return [column for column in self.columns if column.sort is not None]

    # Moving.

    @property
    def _height(self) -> int:
        return max(1, self.content_size.height - self.header)

    def _move_to(self, place: int) -> None:
        place = max(0, min(place, len(self.rows) - 1))
        if place != self._at:
            self._at = place
            self._keep_in_sight()
            self.repaint()
            self.post_message(self.Moved(self))

    def _keep_in_sight(self) -> None:
        self._top = max(min(self._top, self._at), self._at - self._height + 1, 0)
        self._top = max(0, min(self._top, len(self.rows) - self._height))

    def action_move(self, rows: int) -> None:
        self._move_to(self._at + rows)

    def action_page(self, pages: int) -> None:
        self._move_to(self._at + pages * self._height)

    def action_choose(self) -> None:
        if self.current is not None:
            self.post_message(self.Chosen(self))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._move_to(self._at + 3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._move_to(self._at - 3)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if self.header and offset.y == 0:
            edge = 2
            for column, width in self._fitted(self.content_size.width):
                if edge <= offset.x < edge + width:
                    self.sort_by(column.key)
                edge += width + 1
            return
        place = self._top + offset.y - self.header
        if place < len(self.rows):
            again = place == self._at and event.chain > 1
            self._move_to(place)
            if again:
                self.action_choose()

    # Painting.

    def on_resize(self) -> None:
        self._keep_in_sight()

    def _fitted(self, width: int) -> list[tuple[Column[Row], int]]:
        """The columns that fit, and how wide each is."""
        room = width - 3
        chosen: list[Column[Row]] = []
        for column in sorted(self.columns, key=lambda column: column.rank):
            if column.width + 1 <= room:
                chosen.append(column)
                room -= column.width + 1
        growing = max(1, sum(column.grows for column in chosen))
        return [
            (column, column.width + (room // growing if column.grows else 0))
            for column in self.columns
            if column in chosen
        ]

    def paint(self, size: Size) -> list[Strip]:
        columns = self._fitted(size.width)
        strips = [self._paint_header(columns)] if self.header else []
        if not self.rows:
            blank = Strip([])
            return (
                strips
                + [blank]
                + [Strip([Segment("  " + text, self.part(part or "muted"))]) for text, part in self.empty]
            )
        height = size.height - self.header
        shown = self.rows[self._top : self._top + height]
        bar = self._scrollbar(height)
        for line, row in enumerate(shown):
            strip = self._paint_row(row, columns, here=self._top + line == self._at)
            strips.append(Strip([*strip.adjust_cell_length(size.width - 1, strip_style(strip)), bar[line]]))
        return strips

    def _paint_header(self, columns: Sequence[tuple[Column[Row], int]]) -> Strip:
        segments = [Segment("  ", self.base)]
        for column, width in columns:
            here = column.key == self.sort_key and bool(column.sort)
            arrow = ("▼" if self.descending else "▲") if here else ""
            text = pad(arrow + column.title if column.right else column.title + arrow, width, right=column.right)
            segments.append(Segment(text + " ", self.part("sorted" if here else "header")))
        return Strip(segments)

    def _paint_row(self, row: Row, columns: Sequence[tuple[Column[Row], int]], *, here: bool) -> Strip:
        under = Style()
        if here:
            under = self.palette["cursor" if self.has_focus else "cursor-blurred"]
        base = self.base + under
        marked = self.identity(row) in self.marked
        pointer = "▌" if here else " "
        segments = [
            Segment(pointer, self.part("live") + under),
            Segment("•" if marked else " ", self.part("mark") + under),
        ]
        for column, width in columns:
            text, part = column.cell(row)
            style = self.part(part) + under
            segments.append(Segment(pad(text, width, right=column.right), style))
            segments.append(Segment(" ", base))
        return Strip(segments)

    def _scrollbar(self, height: int) -> list[Segment]:
        """One cell per line, at the right edge; nothing where everything is in sight."""
        if len(self.rows) <= height:
            return [Segment(" ", self.base)] * height
        length = max(1, height * height // len(self.rows))
        start = round(self._top / max(1, len(self.rows) - height) * (height - length))
        thumb, track = Segment("┃", self.part("muted")), Segment("│", self.part("faint"))
        return [thumb if start <= line < start + length else track for line in range(height)]


def strip_style(strip: Strip) -> Style | None:
    """The style a line ends with: what fills the rest of it."""
    return next((segment.style for segment in reversed(list(strip))), None)
