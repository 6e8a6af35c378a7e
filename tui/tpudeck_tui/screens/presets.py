"""Presets: what there is to train, every value with where it came from, what follows from it; edit, copy, launch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widget import Widget
from textual.widgets import Input

from tpudeck.config import read_toml
from tpudeck.errors import InputError, TpudeckError
from tpudeck.plan import derive
from tpudeck.presets import diff, preset_files, resolve, shipped_folder
from tpudeck.presets.library import copy_preset, save_preset
from tpudeck.storage import read_json
from tpudeck_tui.cells import fit, wrap
from tpudeck_tui.charts import FullScreen
from tpudeck_tui.draft import Draft, Value, about, choices
from tpudeck_tui.screens.base import shown
from tpudeck_tui.screens.dialogs import Ask, Prompt
from tpudeck_tui.screens.launch import LaunchDialog
from tpudeck_tui.widgets.filter import FilterLine
from tpudeck_tui.widgets.pages import Lines, Pages, TextLine
from tpudeck_tui.widgets.table import Cell, Column, Table

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
    Column("path", "key", 24, lambda value: (value.path, "muted")),
    Column("value", "value", 10, _value_cell, grows=True, rank=1),
    Column("origin", "from", 12, _origin_cell, rank=2),
)
_LIST: tuple[Column[_Preset], ...] = (
    Column("name", "preset", 12, lambda preset: (preset.name, "bright"), grows=True),
    Column("own", "", 5, lambda preset: ("yours", "accent") if preset.own else ("", ""), rank=1),
)


class PresetsScreen(FullScreen):
    """The list, and the preset under the cursor."""

    DEFAULT_CSS = """
    PresetsScreen {
        #list { width: 21; height: 1fr; }
        #detail { width: 1fr; height: 1fr; padding: 0 1; border-left: solid $faint; }
        #about { height: 3; }
        #values { height: 1fr; }
        #help { height: 1; }
        #value { display: none; }
        #follows { height: 8; }
        &.-normal #list, &.-wide #list { width: 36; }
        &.-low #follows { height: 4; }
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
        self._draft: Draft | None = None
        self._before: list[Draft] = []
        self._problem: list[TextLine] = []
        self._wanted = {"list": "", "values": ""}
        """What is filtered for, by table."""
        self._filtered = "list"

    def body(self) -> Iterable[Widget]:
        entry = Input(id="value")
        entry.cursor_blink = False
        yield Horizontal(
            Table(_LIST, identity=lambda preset: preset.name, id="list"),
            Vertical(
                Lines(id="about"),
                Table(_VALUES, identity=lambda value: value.path, id="values"),
                Lines(self._help_line, id="help"),
                entry,
                Pages(("What follows", "File", "Difference"), id="follows"),
                id="detail",
            ),
        )

    @property
    def _list(self) -> Table[_Preset]:
        return self.query_one("#list", Table)

    @property
    def _values(self) -> Table[Value]:
        return self.query_one("#values", Table)

    # What is shown.

    def show_runs(self, runs: tuple[RunSummary, ...]) -> None:
        found = [_read(name, path) for name, path in preset_files(self.app.home).items()]
        found.sort(key=lambda preset: (preset.name != "quickstart", not preset.own, preset.name))
        self._list.show([preset for preset in found if _holds(self._wanted["list"], preset.name, preset.summary)])
        if self._draft is None:
            self._open()

    @on(Table.Moved, "#list")
    def _moved(self) -> None:
        preset = self._list.current
        if preset is not None and (self._draft is None or preset.name != self._draft.preset):
            self._open()

    def _open(self) -> None:
        """Show the preset under the cursor, without changes."""
        preset = self._list.current
        if preset is None:
            return
        self._before, self._problem = [], []
        try:
            self._draft = Draft.of(preset.name, self.app.home)
        except InputError as error:
            self._draft = None
            self._problem = [[(line, "bad")] for line in error.show().splitlines()]
        self._paint()

    def _paint(self) -> None:
        draft = self._draft
        self.query_one("#about", Lines).show(self._about_lines)
        wanted = self._wanted["values"]
        values = draft.values if draft else ()
        self._values.show([value for value in values if _holds(wanted, value.path, value.text, about(value.path))])
        self.query_one("#help", Lines).repaint()
        self.query_one(Pages).fill(
            {"What follows": self._chain_lines, "File": self._file_lines, "Difference": self._difference_lines}
        )

    def _about_lines(self, width: int) -> list[TextLine]:
        if self._problem:
            return self._problem
        if self._draft is None:
            return []
        experiment = self._draft.base.experiment
        names = " ← ".join(path.stem for path in self._draft.base.chain)
        changed = len(self._draft.changes)
        state: TextLine = [(f"{names}  ", "title")]
        if self._draft.faults:
            state.append((f"{len(self._draft.faults)} to put right", "bad"))
        elif changed:
            state.append((f"{changed} changed: L launches, ctrl+s saves, u undoes, escape drops", "accent"))
        needs = "  ".join(part for part in (experiment.takes, experiment.needs and f"needs {experiment.needs}") if part)
        faults: list[TextLine] = [[(fit(fault.show(), width), "bad")] for fault in self._draft.other_faults]
        return [state, *faults, [(fit(experiment.summary, width), "")], [(fit(needs, width), "muted")]]

    def _help_line(self, width: int) -> list[TextLine]:
        value = self._values.current
        if value is None:
            return []
        if value.fault:
            return [[(fit(f"{value.path} {value.fault}", width), "bad")]]
        words = choices(value.path)
        text = f"{' | '.join(words)}  {about(value.path)}" if words else about(value.path)
        return [[(fit(text, width), "muted")]]

    @on(Table.Moved, "#values")
    def _value_moved(self) -> None:
        self.query_one("#help", Lines).repaint()

    def _chain_lines(self, width: int) -> list[TextLine]:
        """The numbered chain, from the newest run of this preset where one has measured something."""
        experiment = self._draft.experiment if self._draft else None
        if experiment is None:
            return [[("What follows is worked out when nothing is wrong any more.", "muted")]]
        try:
            plan = derive(experiment, **self._measured())
        except (TpudeckError, ArithmeticError) as error:
            return [[(fit(str(error), width), "bad")]]
        lines: list[TextLine] = []
        for number, quantity in enumerate(plan.quantities, start=1):
            part = "quiet" if quantity.value is None else "bright"
            line: TextLine = [
                (f"{number:>2} ", "quiet"),
                (f"{quantity.label:<30.30}", "muted"),
                (f"{quantity.text:<18}", part),
            ]
            room = width - sum(len(text) for text, _ in line) - 2
            lines.append([*line, (f"  {fit(quantity.how, room)}" if room > 8 else "", "quiet")])
        return lines

    def _measured(self) -> dict[str, Any]:
        """Sequences, vocabulary and speed of the newest run of this preset that got so far."""
        assert self._draft is not None
        for run in self.app.runs:
            if run.preset == self._draft.preset and run.tokens_per_s:
                found: dict[str, Any] = {"tokens_per_s": run.tokens_per_s}
                try:
                    shards = read_json(Path(run.path) / "results" / "shards.json")["result"]
                    found["sequences_train"] = int(shards["train"]["sequences"])
                except (OSError, ValueError, KeyError, TypeError):
                    pass
                return found
        return {}

    def _file_lines(self, width: int) -> list[TextLine]:
        preset = self._list.current
        if preset is None:
            return []
        try:
            text = preset.path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            return [[(str(error), "bad")]]
        return [
            [(fit(line, width), "muted" if line.startswith("#") else "accent" if line.startswith("[") else "")]
            for line in text.splitlines()
        ]

    # Filtering.

    def action_filter(self) -> None:
        """Show only some presets, or only some values: those of the table in focus."""
        self._filtered = "values" if self._values.has_focus else "list"
        line = next(iter(self.query(FilterLine)), None)
        if line is None:
            self.mount(FilterLine(lambda text: text, "part of a name, a value or a description"))
        else:
            line.begin(self._wanted[self._filtered])

    def on_filter_line_changed(self, message: FilterLine.Changed) -> None:
        self._wanted[self._filtered] = message.text
        if self._filtered == "list":
            self.show_runs(self.app.runs)
        else:
            self._paint()

    def on_filter_line_left(self) -> None:
        self.query_one(f"#{self._filtered}").focus()

    # Editing.

    @on(Table.Chosen, "#values")
    def action_edit(self) -> None:
        """Type another value for the key under the cursor."""
        value = self._values.current
        if value is None or self._draft is None:
            return
        entry = self.query_one("#value", Input)
        words = choices(value.path)
        from textual.suggester import SuggestFromList

        entry.suggester = SuggestFromList(words) if words else None
        entry.value = value.text
        entry.placeholder = "empty: none, or the default"
        entry.display = True
        entry.focus()

    @on(Input.Changed, "#value")
    def _typed(self, event: Input.Changed) -> None:
        """Say at once what is wrong with what is being typed."""
        value = self._values.current
        if value is None or self._draft is None or not event.input.display:
            return
        trial = self._draft.with_change(value.path, event.value)
        fault = next((found.fault for found in trial.values if found.path == value.path and found.fault), "")
        event.input.set_class(bool(fault), "-invalid")
        help_line = fault and f"{value.path} {fault}"
        self.query_one("#help", Lines).show(
            (lambda width: [[(fit(help_line, width), "bad")]]) if fault else self._help_line
        )

    @on(Input.Submitted, "#value")
    def _kept(self, event: Input.Submitted) -> None:
        value = self._values.current
        if value is not None and self._draft is not None:
            changed = self._draft.with_change(value.path, event.value.strip())
            if changed.changes != self._draft.changes:
                self._before.append(self._draft)
                self._draft = changed
        self._close_entry()

    def _close_entry(self) -> None:
        self.query_one("#value").display = False
        self.query_one("#help", Lines).show(self._help_line)
        self._values.focus()
        self._paint()

    def action_undo(self) -> None:
        if self._before:
            self._draft = self._before.pop()
            self._paint()

    def action_drop(self) -> None:
        """Leave the entry, else the filter; else drop the changes, after asking."""
        line = next(iter(self.query(FilterLine)), None)
        if self.query_one("#value").display:
            self._close_entry()
        elif line is not None and line.display:
            line.clear()
            self.on_filter_line_left()
        elif self._draft is not None and self._draft.changes:
            count = len(self._draft.changes)
            question = f"Drop {count} change{'s' if count > 1 else ''}?"
            self.app.push_screen(Ask(question, yes="Drop", no="Keep"), lambda yes: self._open() if yes else None)

    # Files.

    def action_save(self) -> None:
        draft = self._draft
        if draft is None or not self.app.may_write():
            return
        if not draft.changes:
            self.app.say("nothing was changed; c copies the preset as it is", severity="warning")
            return

        def named(name: str | None) -> None:
            if name:
                self._try(lambda: save_preset(name, extends=draft.preset, changes=draft.nested_changes(),
                                              home=self.app.home), name)  # fmt: skip

        self.app.push_screen(Prompt("Save as a preset of your own", f"my-{draft.preset}"), named)

    def action_copy(self) -> None:
        preset = self._list.current
        if preset is None or not self.app.may_write():
            return

        def named(name: str | None) -> None:
            if name:
                self._try(lambda: copy_preset(preset.name, name, home=self.app.home), name)

        self.app.push_screen(Prompt(f"Copy {preset.name} as", f"my-{preset.name}"), named)

    def _try(self, write: Any, name: str) -> None:
        try:
            path = write()
        except (TpudeckError, OSError) as error:
            self.app.tell(error)
            return
        self.app.say(f"wrote {path}")
        self._draft = None
        self.show_runs(self.app.runs)
        self._list.go_to(name)

    def action_delete(self) -> None:
        preset = self._list.current
        if preset is None or not self.app.may_write():
            return
        if not preset.own:
            self.app.say("only presets of your own can be deleted", severity="warning")
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self._try_delete(preset)

        self.app.push_screen(
            Ask(f"Delete the preset {preset.name}?", str(preset.path), yes="Delete", no="Keep"), answered
        )

    def _try_delete(self, preset: _Preset) -> None:
        try:
            self.app.home.trash.mkdir(parents=True, exist_ok=True)
            preset.path.rename(self.app.home.trash / preset.path.name)
        except OSError as error:
            self.app.tell(error)
        self._draft = None
        self.show_runs(self.app.runs)

    # Comparing.

    def action_mark(self) -> None:
        self._list.toggle_mark()
        self.query_one(Pages).repaint()

    def action_diff(self) -> None:
        self.query_one(Pages).turn_to("Difference")

    def _difference_lines(self, width: int) -> list[TextLine]:
        """What the marked preset (else the one this extends) has otherwise."""
        draft = self._draft
        if draft is None or draft.experiment is None:
            return []
        marked = [name for name in sorted(self._list.marked) if name != draft.preset]
        if not marked and not draft.changes:
            return [[("space marks another preset; here is then what differs.", "muted")]]
        other = marked[0] if marked else draft.preset
        try:
            left = resolve(other, home=self.app.home).experiment
        except InputError as error:
            return [[(fit(error.message, width), "bad")]]
        found = diff(left, draft.experiment)
        head: TextLine = [(f"{other} → {draft.preset}{' as changed' if draft.changes else ''}", "title")]
        lines: list[TextLine] = [head]
        for path, (before, after) in found.items():
            lines.append([(f"{path:<28.28}", "muted"), (fit(str(before), 24), "remove"), (" → ", "quiet"),
                          (fit(str(after), max(8, width - 58)), "add")])  # fmt: skip
        return lines if found else [head, [("no difference", "muted")]]

    # Launching.

    @on(Table.Chosen, "#list")
    def action_launch(self) -> None:
        """Ask for a name and the like, then start it."""
        if self._draft is None or not self.app.may_write():
            return
        if self._draft.experiment is None:
            faults = "\n".join(fault.show() for fault in self._draft.faults)
            self.app.say(f"put this right first:\n{faults}", severity="error")
            return

        def launched(folder: Path | None) -> None:
            if folder is not None:
                self.app.watcher.look_now()
                self.app.open_run(folder)

        self.app.push_screen(LaunchDialog(self._draft, self.app.home), launched)


def _holds(wanted: str, *texts: str) -> bool:
    """Whether every word of a filter is in one of these texts."""
    return all(any(word in text.lower() for text in texts) for word in wanted.lower().split())


def _read(name: str, path: Path) -> _Preset:
    try:
        summary = str(read_toml(path).get("summary", ""))
    except InputError as error:
        summary = " ".join(wrap(error.message, 80)[:1])
    return _Preset(name, path, summary, path.parent != shipped_folder())
