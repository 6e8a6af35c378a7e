"""The trash: runs that were deleted, and the way back."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from tpudeck.config import Home
from tpudeck.errors import TpudeckError
from tpudeck.runs.meta import restore
from tpudeck.runs.summary import RunFiles, RunSummary, summarise
from tpudeck_tui import run_cells
from tpudeck_tui.screens.dialogs import Dialog
from tpudeck_tui.widgets.table import Column, Table

if TYPE_CHECKING:
    from tpudeck_tui.app import Deck

__all__ = ["TrashDialog"]

_COLUMNS: tuple[Column[RunSummary], ...] = (
    Column("glyph", "", 1, run_cells.glyph),
    Column("name", "name", 14, lambda run: (run.name, "bright"), grows=True),
    Column("preset", "preset", 14, lambda run: (run.preset, "muted"), rank=3),
    Column("loss", "loss", 7, lambda run: run_cells.number(run.loss), right=True, rank=1),
    Column("eval", "eval loss", 9, lambda run: run_cells.number(run.eval_loss), right=True, rank=2),
    Column("age", "age", 4, run_cells.age, right=True),
)


class TrashDialog(Dialog[None]):
    """Enter brings the run under the cursor back."""

    app: Deck
    DEFAULT_CSS = "TrashDialog #deleted { height: 10; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("T,q", "dismiss", "Back", show=False)]
    HEADING = "Deleted runs"

    def body(self) -> Iterable[Widget]:
        table = Table(_COLUMNS, identity=lambda run: run.path, id="deleted")
        table.empty = (("nothing lies in the trash", "muted"),)
        yield table
        yield Static("enter bring it back · esc back", classes="hint")
        yield Static(f"They lie in {self.app.home.trash}; remove them there to have the room.", classes="hint",
                     markup=False)  # fmt: skip

    def on_mount(self) -> None:
        table = self.query_one(Table)
        table.styles.height = max(6, min(24, self.app.size.height - 14))
        table.show(_deleted(self.app.home))
        table.focus()

    @on(Table.Chosen)
    def _bring_back(self) -> None:
        table = self.query_one(Table)
        run = table.current
        if run is None or not self.app.may_write():
            return
        try:
            restore(self.app.home, Path(run.path))
        except (TpudeckError, OSError) as error:
            self.app.tell(error)
            return
        self.app.say(f"{run.name} is back")
        self.app.watcher.look_now()
        table.show(_deleted(self.app.home))


def _deleted(home: Home) -> list[RunSummary]:
    """The runs in the trash folder, newest first; presets lie there too."""
    folders = sorted(home.trash.glob("*/run.json"), reverse=True)
    found = [(file.parent, RunFiles.read(file.parent)) for file in folders]
    return [summarise(folder, files, files.latest()) for folder, files in found if files.run]
