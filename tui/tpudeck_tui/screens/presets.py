"""Presets: what there is to train, every value with where it came from, what follows from it; edit, copy, launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widget import Widget

from tpudeck.config import read_toml
from tpudeck.errors import InputError
from tpudeck.presets import preset_files, shipped_folder
from tpudeck.presets.library import copy_preset, save_preset
from tpudeck_tui.cells import wrap
from tpudeck_tui.charts import FullScreen
from tpudeck_tui.draft import Draft
from tpudeck_tui.panels import preset as panel
from tpudeck_tui.screens.base import shown
from tpudeck_tui.screens.dialogs import Ask, Prompt
from tpudeck_tui.screens.launch import LaunchDialog
from tpudeck_tui.widgets.editor import Editor, holds
from tpudeck_tui.widgets.filter import FilterLine
from tpudeck_tui.widgets.pages import Lines, Pages, TextLine
from tpudeck_tui.widgets.table import Column, Table

if TYPE_CHECKING:
    from tpudeck.runs.summary import RunSummary

__all__ = ["PresetsScreen"]


@dataclass(frozen=True)
class _Preset:
    """One line of the list."""

    name: str
    path: Path
    summary: str
    own: bool


_LIST: tuple[Column[_Preset], ...] = (
    Column("name", "preset", 18, lambda preset: (preset.name, "accent" if preset.own else "bright"), grows=True),
    Column("own", "", 5, lambda preset: ("yours", "accent") if preset.own else ("", ""), rank=1),
)


class PresetsScreen(FullScreen):
    """The list, and the preset under the cursor."""

    DEFAULT_CSS = """
    PresetsScreen {
        #list { width: 22; height: 1fr; }
        #detail { width: 1fr; height: 1fr; padding: 0 1; border-left: solid $faint; }
        #about { height: 3; }
        #follows { height: 8; }
        &.-normal #list, &.-wide #list { width: 36; }
        &.-low #follows { height: 4; }
        &.-low #help { height: 1; }
        &.-tall #follows { height: 19; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        shown(
            "slash",
            "filter",
            "Filter",
            "presets.filter",
            tooltip="Filter presets, or the values where they have the focus",
        ),
        shown("L", "launch", "Launch", "presets.launch"),
        shown("e", "edit", "Edit", "presets.edit", tooltip="Edit the value under the cursor (enter does too)"),
        shown("u", "undo", "Undo", "presets.undo", show=False, tooltip="Undo the last edit"),
        shown("ctrl+s", "save", "Save", "presets.save", tooltip="Save the changes as a preset of your own", show=False),
        shown("c", "copy", "Copy", "presets.copy", tooltip="Copy the preset's file to your own"),
        shown("space", "mark", "Mark", "presets.mark", show=False),
        shown("d", "diff", "Diff", "presets.diff", tooltip="Differences between the marked preset and this one"),
        shown("D,delete", "delete", "Delete a preset of your own", "presets.delete", show=False),
        shown("escape", "drop", "Drop the changes", "presets.drop", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._opened = ""
        """The preset that is shown, also where it could not be read."""
        self._problem: InputError | None = None
        self._wanted = ""
        """What presets are filtered for."""
        self._filtering: Table[Any] | None = None

    def body(self) -> Iterable[Widget]:
        yield Horizontal(
            Table(_LIST, identity=lambda preset: preset.name, id="list"),
            Vertical(
                Lines(self._about_lines, id="about"),
                Editor(),
                Pages(("What follows", "File", "Difference"), id="follows"),
                id="detail",
            ),
        )

    @property
    def _list(self) -> Table[_Preset]:
        return self.query_one("#list", Table)

    @property
    def _editor(self) -> Editor:
        return self.query_one(Editor)

    # What is shown.

    def show_runs(self, runs: tuple[RunSummary, ...]) -> None:
        found = [_read(name, path) for name, path in preset_files(self.app.home).items()]
        found.sort(key=lambda preset: (preset.name != "quickstart", not preset.own, preset.name))
        self._list.show([preset for preset in found if holds(self._wanted, preset.name, preset.summary)])
        if not self._opened:
            self._open()

    @on(Table.Moved, "#list")
    def _moved(self) -> None:
        preset = self._list.current
        if preset is not None and preset.name != self._opened:
            self._open()

    def _open(self) -> None:
        """Show the preset under the cursor, without changes."""
        preset = self._list.current
        if preset is None:
            return
        found = self._draft_of(preset.name)
        self._opened = preset.name
        self._problem = found if isinstance(found, InputError) else None
        self._editor.open(None if isinstance(found, InputError) else found)

    def _draft_of(self, name: str) -> Draft | InputError:
        try:
            return Draft.of(name, self.app.home)
        except InputError as error:
            return error

    @on(Editor.Changed)
    def _paint(self) -> None:
        self.query_one("#about", Lines).repaint()
        draft, preset = self._editor.draft, self._list.current
        sources: dict[str, Callable[[int], list[TextLine]]] = {}
        if preset is not None:
            sources["File"] = partial(panel.file_lines, preset.path)
        if draft is not None:
            known = panel.measured(draft.experiment, draft.preset, self.app.runs) if draft.experiment else {}
            sources["What follows"] = partial(panel.chain_lines, draft.experiment, known)
            sources["Difference"] = partial(panel.difference_lines, draft, self._marked(draft))
        self.query_one(Pages).fill(sources)

    def _about_lines(self, width: int) -> list[TextLine]:
        if self._problem is not None:
            return [[(line, "bad")] for line in wrap(self._problem.show(), width)]
        draft = self._editor.draft
        return panel.about_lines(draft, width) if draft is not None else []

    def _marked(self, draft: Draft) -> Draft | InputError | None:
        """The preset that this one is compared with."""
        names = sorted(self._list.marked - {draft.preset})
        return self._draft_of(names[0]) if names else None

    # Filtering.

    def action_filter(self) -> None:
        """Show only some presets, or only some values: those of the table in focus."""
        self._filtering = self._editor.table if self._editor.table.has_focus else self._list
        line = next(iter(self.query(FilterLine)), None)
        if line is None:
            self.mount(FilterLine(lambda text: text, "part of a name, a value or a description"))
        else:
            line.begin(self._wanted if self._filtering is self._list else self._editor.wanted)

    def on_filter_line_changed(self, message: FilterLine.Changed) -> None:
        if self._filtering is self._list:
            self._wanted = message.text
            self.show_runs(self.app.runs)
        else:
            self._editor.wanted = message.text
            self._editor.show()

    def on_filter_line_left(self) -> None:
        if self._filtering is not None:
            self._filtering.focus()

    # Editing.

    def action_edit(self) -> None:
        self._editor.edit()

    def action_undo(self) -> None:
        self._editor.undo()

    def action_drop(self) -> None:
        """Leave the entry, else the filter; else drop the changes, after asking."""
        line = next(iter(self.query(FilterLine)), None)
        draft = self._editor.draft
        if self._editor.editing:
            self._editor.leave_entry()
        elif line is not None and line.display:
            line.clear()
            self.on_filter_line_left()
        elif draft is not None and draft.changes:
            count = len(draft.changes)
            question = f"Drop {count} change{'s' if count > 1 else ''}?"
            self.app.push_screen(Ask(question, yes="Drop", no="Keep"), lambda yes: self._open() if yes else None)

    # Files.

    def action_save(self) -> None:
        draft = self._editor.draft
        if draft is None or not self.app.may_write():
            return
        if not draft.changes:
            self.app.say("nothing was changed; c copies the preset as it is", severity="warning")
            return

        def save(name: str) -> None:
            save_preset(name, extends=draft.preset, changes=draft.nested_changes(), home=self.app.home)

        self.app.push_screen(
            Prompt("Save as a preset of your own", f"my-{draft.preset}", attempt=save), self._show_written
        )

    def action_copy(self) -> None:
        preset = self._list.current
        if preset is None or not self.app.may_write():
            return
        copy = partial(copy_preset, preset.name, home=self.app.home)
        self.app.push_screen(Prompt(f"Copy {preset.name} as", f"my-{preset.name}", attempt=copy), self._show_written)

    def _show_written(self, name: str | None) -> None:
        if name is not None:
            self.app.say(f"wrote {self.app.home.presets / f'{name}.toml'}")
            self._read_again()
            self._list.go_to(name)

    def _read_again(self) -> None:
        self._opened = ""
        self.show_runs(self.app.runs)

    def action_delete(self) -> None:
        preset = self._list.current
        if preset is None or not self.app.may_write():
            return
        if not preset.own:
            self.app.say("only presets of your own can be deleted", severity="warning")
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self._delete(preset)

        detail = f"{preset.path} goes to {self.app.home.trash}."
        self.app.push_screen(Ask(f"Delete the preset {preset.name}?", detail, yes="Delete", no="Keep"), answered)

    def _delete(self, preset: _Preset) -> None:
        try:
            self.app.home.trash.mkdir(parents=True, exist_ok=True)
            preset.path.rename(self.app.home.trash / preset.path.name)
        except OSError as error:
            self.app.tell(error)
        self._read_again()

    # Comparing.

    def action_mark(self) -> None:
        self._list.toggle_mark()
        self._paint()

    def action_diff(self) -> None:
        self.query_one(Pages).turn_to("Difference")

    # Launching.

    @on(Table.Chosen, "#list")
    def action_launch(self) -> None:
        """Ask for a name and the like, then start it."""
        draft = self._editor.draft
        if draft is None or not self.app.may_write():
            return
        if draft.experiment is None:
            faults = "\n".join(fault.show() for fault in draft.faults)
            self.app.say(f"put this right first:\n{faults}", severity="error")
            return
        self.app.push_screen(LaunchDialog(draft, self.app.home), self.app.show_launched)


def _read(name: str, path: Path) -> _Preset:
    try:
        summary = str(read_toml(path).get("summary", ""))
    except InputError as error:
        summary = " ".join(wrap(error.message, 80)[:1])
    return _Preset(name, path, summary, path.parent != shipped_folder())
