"""The line one types a filter into; it is made when it is first needed."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input, Label, Static

from tpudeck.errors import InputError

__all__ = ["FilterLine"]


class FilterLine(Vertical):
    """A prompt, an input, and what is wrong with what was typed."""

    DEFAULT_CSS = """
    FilterLine {
        height: auto; dock: bottom; margin-bottom: 1;
        #line { layout: horizontal; height: 1; }
        #query { width: 1fr; }
        #problem { display: none; }
    }
    """

    class Changed(Message):
        """Another filter is wanted; `text` is one that can be read."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Left(Message):
        """The user is done typing."""

    def __init__(self, check: Callable[[str], object], example: str) -> None:
        super().__init__()
        self._check = check
        """Raises :class:`InputError` where a text cannot be read."""
        self._example = example

    def compose(self) -> ComposeResult:
        yield Static(id="problem", classes="fault", markup=False)
        with Vertical(id="line"):
            yield Label("filter", classes="prompt")
            entry = Input(placeholder=self._example, id="query")
            entry.cursor_blink = False
            yield entry

    def on_mount(self) -> None:
        self.begin()

    def begin(self, text: str | None = None) -> None:
        """Show the line, and type into it."""
        self.display = True
        entry = self.query_one(Input)
        if text is not None:
            entry.value = text
        entry.focus()

    def clear(self) -> None:
        """No filter, no line."""
        self.query_one(Input).value = ""
        self.display = False

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        problem = self.query_one("#problem", Static)
        try:
            self._check(event.value)
        except InputError as error:
            problem.update(error.message)
            problem.display = True
            return
        problem.display = False
        self.post_message(self.Changed(event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.display = bool(event.value)
        self.post_message(self.Left())
