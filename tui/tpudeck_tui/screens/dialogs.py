"""Small questions in front of a screen. Everything in them may come from outside, so nothing in them is markup."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from tpudeck.errors import TpudeckError

__all__ = ["Ask", "Dialog", "Prompt"]

Answer = TypeVar("Answer")


class Dialog(ModalScreen[Answer]):
    """A box in the middle; escape gives no answer."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Back", show=False)]
    HEADING = ""

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            box.border_title = Content(self.heading())
            yield from self.body()

    def heading(self) -> str:
        return self.HEADING

    def body(self) -> Iterable[Widget]:
        """What is in the box."""
        raise NotImplementedError


class Ask(Dialog[bool]):
    """Yes or no; no is where the focus is."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", show=False),
        Binding("n", "answer(False)", "No", show=False),
        Binding("left,right,up,down", "app.focus_next", "Other button", show=False),
    ]

    def __init__(self, question: str, detail: str = "", *, yes: str = "Yes", no: str = "No") -> None:
        super().__init__()
        self._question, self._detail, self._yes, self._no = question, detail, yes, no

    def heading(self) -> str:
        return self._question

    def body(self) -> Iterable[Widget]:
        if self._detail:
            yield Static(self._detail, markup=False)
        yield Horizontal(
            Button(Content(f"{self._no} (n)"), id="no"),
            Button(Content(f"{self._yes} (y)"), id="yes"),
            classes="buttons",
        )

    def on_mount(self) -> None:
        self.query_one("#no").focus()

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")


class Prompt(Dialog[str]):
    """One line of text; escape leaves everything as it was.

    `attempt` is made with the text before the question closes: what it refuses can be put right where it was typed.
    """

    def __init__(
        self, heading: str, value: str = "", *, hint: str = "", attempt: Callable[[str], object] | None = None
    ) -> None:
        super().__init__()
        self._heading, self._value, self._hint, self._attempt = heading, value, hint, attempt

    def heading(self) -> str:
        return self._heading

    def body(self) -> Iterable[Widget]:
        entry = Input(self._value, select_on_focus=False)
        entry.cursor_blink = False
        yield entry
        yield Static(id="refused", classes="fault", markup=False)
        yield Static(f"{self._hint}  enter keep · esc leave as it was".strip(), classes="hint", markup=False)

    def on_mount(self) -> None:
        self._refuse("")

    @on(Input.Changed)
    def _changed(self) -> None:
        self._refuse("")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        try:
            if self._attempt is not None:
                self._attempt(event.value)
        except (TpudeckError, OSError) as error:
            self._refuse(error.show() if isinstance(error, TpudeckError) else str(error))
        else:
            self.dismiss(event.value)

    def _refuse(self, why: str) -> None:
        refused = self.query_one("#refused", Static)
        refused.update(Content(why))
        refused.display = bool(why)
