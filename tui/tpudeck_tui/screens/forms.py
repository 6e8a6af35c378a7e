"""Forms: a few fields, what is wrong with them, and the command line that does the same."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Input, Label, Static
from textual.worker import get_current_worker

from tpudeck.errors import InputError, TpudeckError
from tpudeck_tui.screens.dialogs import Dialog

if TYPE_CHECKING:
    from tpudeck_tui.app import Deck

__all__ = ["CommandForm", "Field", "Form", "Values", "fault_lines", "options", "required", "whole_number"]

_MARKS = {"✓": "$success", "✗": "$error", "·": "$warning"}

Answer = TypeVar("Answer")
Values = Mapping[str, str]
"""Key → what was typed."""


@dataclass(frozen=True)
class Field:
    """One line of a form."""

    key: str
    label: str
    value: str = ""
    hint: str = ""
    """Shown while the field is empty."""
    choices: tuple[str, ...] = ()
    """What up and down go through; anything else may still be typed."""
    more: bool = False
    """Shown only when asked for."""


class Form(Dialog[Answer]):
    """Fields one below the other. Subclasses say what follows from them, and what to do with them."""

    app: Deck
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "turn(-1)", "Other choice, or the field above", id="form.up", show=False),
        Binding("down", "turn(1)", "Other choice, or the field below", id="form.down", show=False),
        Binding("ctrl+y", "copy", "Copy the command", id="form.copy"),
        Binding("ctrl+o", "more", "More options", id="form.more"),
    ]
    START = "Start"

    def __init__(self, heading: str, fields: Sequence[Field], *, detail: str = "") -> None:
        super().__init__()
        self._heading = heading
        self._fields = tuple(fields)
        self._detail = detail
        self._said: list[str] = []
        """The checks that are shown."""
        self._answering = False

    def heading(self) -> str:
        return self._heading

    def body(self) -> Iterable[Widget]:
        if self._detail:
            yield Static(self._detail, markup=False, classes="hint")
        turns = "up/down" if self.app.ascii else "↑↓"
        for field in self._fields:
            entry = Input(field.value, placeholder=field.hint, id=field.key, select_on_focus=False)
            entry.cursor_blink = False
            choices = " ".join(filter(None, field.choices))
            after = Label(Content(f" {turns} {choices}" if choices else ""), classes="choices")
            yield Horizontal(Label(field.label), entry, after, classes="field more" if field.more else "field")
        yield Static(id="checks", markup=False)
        yield Static(id="command", markup=False)
        yield Static(self.keys(), classes="hint", markup=False)
        yield Horizontal(
            Button(Content("Back"), id="back"),
            Button(Content(self.START), id="start", variant="primary"),
            classes="buttons",
        )

    def keys(self) -> str:
        """The keys that work in it."""
        return "enter start · tab next field · ctrl+y copy the command · esc back"

    def values(self) -> dict[str, str]:
        return {field.key: self.query_one(f"#{field.key}", Input).value.strip() for field in self._fields}

    def command(self, values: Values) -> list[str]:
        """The words after ``tpudeck`` that do the same; :class:`InputError` where there is something wrong."""
        raise NotImplementedError

    def checks(self, values: Values) -> Iterable[str]:
        """What was looked at, and how it came out: line by line, in a thread, since looking may take its time."""
        return ()

    def answer(self, values: Values) -> Answer:
        """Do it, or say what to do; in a thread. An error keeps the form open."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self.look()

    @on(Input.Changed)
    def look(self) -> None:
        """Show the command line, and check again."""
        if not self.query("#command"):
            return  # it is just being taken down
        values = self.values()
        try:
            line = shlex.join(("tpudeck", *self.command(values)))
        except TpudeckError as error:
            self._show("command", Content(""))
            self._show_checks(fault_lines(error))
            return
        self._show("command", Content(line))
        self._check(values)

    @work(thread=True, exclusive=True, group="checks")
    def _check(self, values: Values) -> None:
        worker, lines = get_current_worker(), []
        try:
            for line in self.checks(values):
                lines.append(line)
                if worker.is_cancelled:
                    return
                # What was said before stays below until it is said anew: nothing jumps while one types.
                self.app.call_from_thread(self._show_checks, lines + self._said[len(lines) :])
        except TpudeckError as error:
            lines += fault_lines(error)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show_checks, lines)

    def _show_checks(self, lines: Sequence[str]) -> None:
        self._said = list(lines)
        self._show("checks", Content("\n").join(_coloured(text) for text in lines if text))

    def _show(self, key: str, text: Content) -> None:
        for shown in self.query(f"#{key}").results(Static):  # none while it is being taken down
            shown.update(text)
            shown.display = bool(text)

    def action_turn(self, by: int) -> None:
        """Up and down: another choice where the field has any, else another field."""
        entry = self.focused
        choices = next((field.choices for field in self._fields if entry is not None and field.key == entry.id), ())
        if isinstance(entry, Input) and choices:
            at = choices.index(entry.value) if entry.value in choices else -max(by, 0)
            entry.value = choices[(at + by) % len(choices)]
        elif by > 0:
            self.focus_next()
        else:
            self.focus_previous()

    def action_more(self) -> None:
        """Show or hide what is seldom wanted."""
        self.toggle_class("-more")

    def action_copy(self) -> None:
        try:
            words = self.command(self.values())
        except TpudeckError:
            return
        self.app.copy_to_clipboard(shlex.join(("tpudeck", *words)))
        self.app.notify("copied the command", markup=False)

    @on(Input.Submitted)
    @on(Button.Pressed, "#start")
    def submit(self) -> None:
        """Once, however often enter is pressed meanwhile."""
        if not self._answering:
            self._answering = True
            self._answer(self.values())

    @work(thread=True, group="answer")
    def _answer(self, values: Values) -> None:
        try:
            self.command(values)
            answer = self.answer(values)
        except (TpudeckError, OSError) as error:
            text = error.show() if isinstance(error, TpudeckError) else str(error)
            self.app.call_from_thread(self._refuse, text)
            return
        self.app.call_from_thread(self.dismiss, answer)

    def _refuse(self, text: str) -> None:
        self._answering = False
        self.app.notify(text, severity="error", markup=False)

    @on(Button.Pressed, "#back")
    def _back(self) -> None:
        self.dismiss(None)


class CommandForm(Form[list[str]]):
    """A form whose answer is a command line, to be started by whoever asked."""

    def __init__(
        self, heading: str, fields: Sequence[Field], words: Callable[[Values], list[str]], *, detail: str = ""
    ) -> None:
        super().__init__(heading, fields, detail=detail)
        self._words = words

    def command(self, values: Values) -> list[str]:
        return self._words(values)

    def answer(self, values: Values) -> list[str]:
        return self._words(values)


def _coloured(check: str) -> Content:
    """A check with its marks in their colours."""
    parts = (Content.styled(mark, _MARKS.get(mark, "")) for mark in re.split("([✓✗·])", check))
    return Content.assemble(*parts)


def fault_lines(error: TpudeckError) -> list[str]:
    """An error as a check that did not come out well."""
    first, *others = error.show().splitlines()
    return [f"✗ {first}", *others]


def required(values: Values, key: str, what: str) -> str:
    """The text of a field that must not be empty."""
    if not values[key]:
        raise InputError(what)
    return values[key]


def whole_number(text: str, what: str) -> int:
    """What was typed, as a number."""
    try:
        return int(text)
    except ValueError as error:
        raise InputError(f"{what} is a whole number, got {text!r}") from error


def options(**given: Any) -> list[str]:
    """Options of a command line: those that were given, ``checkpoint="last"`` as ``--checkpoint last``."""
    words: list[str] = []
    for name, value in given.items():
        if value is True:
            words.append(f"--{name}")
        elif value:
            words += [f"--{name}", str(value)]
    return words
