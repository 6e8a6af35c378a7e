"""The form of an experiment: every value with where it came from, what is wrong with it, and a line to change it in."""

from __future__ import annotations

from functools import partial

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input

from tpudeck_tui.cells import fit, wrap
from tpudeck_tui.draft import Draft, Value, about, choices
from tpudeck_tui.widgets.pages import Lines, TextLine
from tpudeck_tui.widgets.table import Cell, Column, Table

__all__ = ["Editor", "holds"]


def _value_cell(value: Value) -> Cell:
    text = value.text or "–"
    return (
        text,
        "bad" if value.fault else "accent" if value.origin == "changed" else "bright" if value.text else "quiet",
    )


def _origin_cell(value: Value) -> Cell:
    if value.fault:
        return value.fault, "bad"
    part = "accent" if value.origin == "changed" else "quiet" if value.origin == "default" else "muted"
    return value.origin.removeprefix("preset "), part


_VALUES: tuple[Column[Value], ...] = (
    Column("path", "key", 26, lambda value: (value.path, "muted")),
    Column("value", "value", 10, _value_cell, grows=True, rank=1),
    Column("origin", "from", 12, _origin_cell, rank=2),
)


class Editor(Vertical):
    """Holds a draft; every change is a new one, and undo is the one before."""

    DEFAULT_CSS = """
    Editor {
        height: 1fr;
        #values { height: 1fr; }
        #help { height: 2; }
        #value { display: none; }
    }
    """

    class Changed(Message):
        """The draft is another one, or shown again."""

    def __init__(self) -> None:
        super().__init__()
        self.draft: Draft | None = None
        self.wanted = ""
        """Words that the values shown have in their name, their text or their description."""
        self._before: list[Draft] = []

    def compose(self) -> ComposeResult:
        entry = Input(id="value")
        entry.cursor_blink = False
        yield Table(_VALUES, identity=lambda value: value.path, id="values")
        yield Lines(self._help_line, id="help")
        yield entry

    @property
    def table(self) -> Table[Value]:
        return self.query_one("#values", Table)

    @property
    def editing(self) -> bool:
        """Whether a value is being typed."""
        return bool(self.query_one("#value").display)

    def open(self, draft: Draft | None) -> None:
        """Edit another draft, from now on."""
        self.draft, self._before = draft, []
        self.show()

    def show(self) -> None:
        values = self.draft.values if self.draft else ()
        self.table.show([value for value in values if holds(self.wanted, value.path, value.text, about(value.path))])
        self.query_one("#help", Lines).repaint()
        self.post_message(self.Changed())

    # The lines below the table: what the value under the cursor means, or what is wrong with it.

    def _help_line(self, width: int) -> list[TextLine]:
        value = self.table.current
        if value is None:
            return []
        if value.fault:
            return _two_lines(f"{value.path} {value.fault}", "bad", width)
        words = choices(value.path)
        text = f"{' | '.join(words)}  {about(value.path)}" if words else about(value.path)
        return _two_lines(text, "muted", width)

    @on(Table.Moved)
    def _moved(self) -> None:
        self.query_one("#help", Lines).repaint()

    # Changing a value.

    @on(Table.Chosen)
    def edit(self) -> None:
        """Type another value for the key under the cursor."""
        value = self.table.current
        if value is None or self.draft is None:
            return
        from textual.suggester import SuggestFromList

        entry = self.query_one("#value", Input)
        words = choices(value.path)
        entry.suggester = SuggestFromList(words) if words else None
        entry.value = value.text
        entry.placeholder = "empty: none, or the default"
        entry.display = True
        entry.focus()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        """Say at once what is wrong with what is being typed."""
        value = self.table.current
        if value is None or self.draft is None or not event.input.display:
            return
        trial = self.draft.with_change(value.path, event.value)
        fault = next((found.fault for found in trial.values if found.path == value.path and found.fault), "")
        event.input.set_class(bool(fault), "-invalid")
        text = f"{value.path} {fault}"
        self.query_one("#help", Lines).show(partial(_two_lines, text, "bad") if fault else self._help_line)

    @on(Input.Submitted)
    def _kept(self, event: Input.Submitted) -> None:
        value = self.table.current
        if value is not None and self.draft is not None:
            changed = self.draft.with_change(value.path, event.value.strip())
            if changed.changes != self.draft.changes:
                self._before.append(self.draft)
                self.draft = changed
        self.leave_entry()

    def leave_entry(self) -> None:
        """Back to the table."""
        self.query_one("#value").display = False
        self.query_one("#help", Lines).show(self._help_line)
        self.table.focus()
        self.show()

    def undo(self) -> None:
        if self._before:
            self.draft = self._before.pop()
            self.show()


def _two_lines(text: str, part: str, width: int) -> list[TextLine]:
    first, *others = wrap(text, width)
    return [[(first, part)], [(fit(" ".join(others), width), part)]]


def holds(wanted: str, *texts: str) -> bool:
    """Whether every word of a filter is in one of these texts."""
    return all(any(word in text.lower() for text in texts) for word in wanted.lower().split())
