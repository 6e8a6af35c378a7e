"""Commands at work: one of them with what it prints, and the list of those that were let go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from tpudeck.units import format_duration
from tpudeck_tui.cells import pad, wrap
from tpudeck_tui.screens.dialogs import Dialog
from tpudeck_tui.widgets.pages import Pages, TextLine
from tpudeck_tui.widgets.table import Column, Table

if TYPE_CHECKING:
    from tpudeck_tui.app import Deck
    from tpudeck_tui.commands import Command

__all__ = ["CommandDialog", "CommandsDialog", "aligned"]

_LOOK_S = 0.2


class CommandDialog(Dialog[None]):
    """A command whose output is to be read. Left before its end, it goes on."""

    app: Deck
    DEFAULT_CSS = "CommandDialog #output { height: 14; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "stop", "Stop it", id="command.stop"),
    ]

    def __init__(self, command: Command) -> None:
        super().__init__()
        self._command = command

    def heading(self) -> str:
        return self._command.title

    def body(self) -> Iterable[Widget]:
        yield Static(self._command.line, id="command", markup=False)
        yield Pages(("Output",), id="output")
        yield Static(id="state", classes="hint", markup=False)

    def on_mount(self) -> None:
        pages = self.query_one(Pages)
        pages.styles.height = max(8, min(30, self.app.size.height - 14))
        pages.focus()
        self._timer = self.set_interval(_LOOK_S, self._look)
        self._look()

    def _look(self) -> None:
        if not self.query(Pages):
            return  # it is just being taken down
        running = self._command.running()
        self.query_one(Pages).fill({"Output": self._lines})
        elapsed = format_duration(self._command.elapsed_s)
        state = f"{elapsed} · x stop · esc let it go on beside" if running else "esc back"
        self.query_one("#state", Static).update(f"stopping … {elapsed}" if self._command.stopping else state)
        if not running:
            self._timer.stop()

    def _lines(self, width: int) -> list[TextLine]:
        command = self._command
        problem = command.problem()
        if problem is not None:
            return [[(line, "bad")] for line in wrap(problem.show(), width)]
        printed: list[TextLine] = [[(line, "")] for text in aligned(command.output()) for line in wrap(text, width)]
        return printed or [[(line, "muted")] for text in command.said() or ["working …"] for line in wrap(text, width)]

    def action_stop(self) -> None:
        self._command.stop()

    def action_dismiss(self, result: None = None) -> None:  # type: ignore[override]
        """Back; what is still at work is told of when it ends."""
        if self._command.running():
            self.app.let_go(self._command)
        self.dismiss(None)


class CommandsDialog(Dialog[None]):
    """What is at work beside the console."""

    app: Deck
    DEFAULT_CSS = "CommandsDialog #commands { height: 8; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "stop", "Stop it", id="command.stop"),
        Binding("w,q", "dismiss", "Back", show=False),
    ]
    HEADING = "At work"

    _COLUMNS: ClassVar[tuple[Column[Command], ...]] = (
        Column("title", "what", 20, lambda command: (command.title, "bright"), grows=True),
        Column("said", "it says", 16, lambda command: ((command.said() or [""])[-1], "muted"), grows=True, rank=2),
        Column(
            "elapsed",
            "for",
            8,
            lambda command: ("stopping" if command.stopping else format_duration(command.elapsed_s), ""),
            right=True,
            rank=1,
        ),
    )

    def body(self) -> Iterable[Widget]:
        table = Table(self._COLUMNS, identity=lambda command: str(id(command)), id="commands")
        table.empty = (("nothing is at work", "muted"),)
        yield table
        yield Static("x stop it · esc back", classes="hint", markup=False)

    def on_mount(self) -> None:
        self.query_one(Table).focus()
        self.set_interval(1.0, self._look)
        self._look()

    def _look(self) -> None:
        for table in self.query(Table):  # none while it is being taken down
            table.show(self.app.commands)

    def action_stop(self) -> None:
        command = self.query_one(Table).current
        if command is not None:
            command.stop()
            self._look()


def aligned(lines: list[str]) -> list[str]:
    """Lines in whose columns, which commands separate by tabs where nobody looks, everything is below each other."""
    rows = [line.split("\t") for line in lines]
    columns = max((len(row) for row in rows), default=0)
    widths = [
        max((cell_len(row[column]) for row in rows if column + 1 < len(row)), default=0) for column in range(columns)
    ]
    return [
        "  ".join(pad(cell, widths[at]) if at + 1 < len(row) else cell for at, cell in enumerate(row)) for row in rows
    ]
