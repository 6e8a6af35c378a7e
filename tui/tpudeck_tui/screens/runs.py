"""Runs: every run there is, newest first. Sort, filter, mark; open, compare, and all that can be done to a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on, work
from textual.binding import BindingType
from textual.widget import Widget

from tpudeck.config import read_toml
from tpudeck.errors import InputError
from tpudeck.runs.summary import RunSummary
from tpudeck_tui import run_cells
from tpudeck_tui.query import Query, parse_query
from tpudeck_tui.run_actions import RunActions
from tpudeck_tui.screens.base import DeckScreen, shown
from tpudeck_tui.widgets.table import Column, Table

if TYPE_CHECKING:
    from tpudeck_tui.widgets.filter import FilterLine

__all__ = ["COLUMNS", "RunsScreen"]

COLUMNS: tuple[Column[RunSummary], ...] = (
    Column("glyph", "", 1, run_cells.glyph),
    Column("status", "status", 9, run_cells.status, lambda run: run.status, rank=6),
    Column("name", "name", 14, lambda run: (run.name, "bright"), lambda run: run.name.lower(), grows=True),
    Column("preset", "preset", 14, lambda run: (run.preset, "muted"), lambda run: run.preset, rank=7),
    Column("device", "device", 8, lambda run: (run.device, "muted"), lambda run: run.device, rank=10),
    Column("progress", "progress", 12, lambda run: run_cells.progress(run, 12), lambda run: run.progress, rank=1,
           descending=True),
    Column("step", "step", 8, lambda run: ("–", "faint") if run.step is None else (f"{run.step:,}", ""),
           lambda run: run.step, right=True, rank=9, descending=True),
    Column("loss", "loss", 7, lambda run: run_cells.number(run.loss), lambda run: run.loss, right=True, rank=2),
    Column("eval", "eval loss", 9, lambda run: run_cells.number(run.eval_loss), lambda run: run.eval_loss, right=True,
           rank=5),
    Column("best", "best", 7, lambda run: run_cells.number(run.best_eval_loss), lambda run: run.best_eval_loss,
           right=True, rank=11),
    Column("speed", "tokens/s", 8, run_cells.tokens_per_s, lambda run: run.tokens_per_s, right=True, rank=3,
           descending=True),
    Column("duration", "took", 7, run_cells.duration, lambda run: run.duration_s, right=True, rank=8, descending=True),
    Column("started", "started", 16, run_cells.started, lambda run: run.created, rank=13, descending=True),
    Column("created", "age", 4, run_cells.age, lambda run: run.created, right=True, rank=4, descending=True),
    Column("tags", "tags", 16, run_cells.tags, lambda run: run.tags or None, rank=12),
    Column("note", "note", 24, lambda run: (run.note, "muted"), rank=14, grows=True),
)  # fmt: skip

_EXAMPLE = "status:running loss<3 tag:ablation cfg.train.learning_rate>1e-4 has:eval"
_FIRST_STEPS = (
    ("", ""),
    ("No runs yet.", "title"),
    ("", ""),
    ("2      pick a preset; `quickstart` trains a small model in about five minutes, on any CPU", "bright"),
    ("       or, without the console:  tpudeck run quickstart", "muted"),
    ("", ""),
    ("6      what this machine has, and what is missing", "bright"),
    ("?      every key", "bright"),
)


class RunsScreen(RunActions, DeckScreen):
    """The list of runs."""

    BINDINGS: ClassVar[list[BindingType]] = [
        shown("slash", "filter", "Filter", "runs.filter", tooltip="Filter by words, numbers and settings"),
        shown("o", "sort", "Sort", "runs.sort", tooltip="Sort by the next column"),
        shown("O", "turn", "Turn the order", "runs.turn", show=False),
        shown("space", "mark", "Mark", "runs.mark"),
        shown("c", "compare", "Compare", "runs.compare", tooltip="Compare the marked runs"),
        shown("A", "archived", "Show or hide archived runs", "runs.archived", show=False),
        shown("I", "fetch", "Fetch a run from a bucket", "runs.fetch", show=False),
        shown("T", "trash", "Deleted runs, and the way back", "runs.trash", show=False),
        shown("escape", "clear", "Clear filter and marks", "runs.clear", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._query: Query = parse_query("")
        self._archived = False
        """Whether archived runs are shown."""
        self._filter_line: FilterLine | None = None
        self._configs: dict[str, Mapping[str, Any]] = {}

    def body(self) -> Iterable[Widget]:
        table = Table(
            COLUMNS, identity=lambda run: run.path, sort=self.app.memory.get("runs.sort", "created"), id="runs"
        )
        table.descending = self.app.memory.get("runs.descending", True)
        yield table

    @property
    def _table(self) -> Table[RunSummary]:
        return self.query_one("#runs", Table)

    # What is shown.

    def show_runs(self, runs: tuple[RunSummary, ...]) -> None:
        if self._query.needs_config and any(run.path not in self._configs for run in runs):
            self._read_configs(runs)
            return
        kept = [
            run
            for run in runs
            if (self._archived or not run.archived or self._query.text)
            and self._query.matches(run, lambda run: self._configs.get(run.path, {}))
        ]
        table = self._table
        table.empty = _FIRST_STEPS if not runs else (("", ""), (self._nothing_found(len(runs)), "muted"))
        table.show(kept)

    def _nothing_found(self, count: int) -> str:
        if self._query.text:
            return f"None of the {count} runs matches. escape clears the filter."
        return f"All {count} runs are archived. A shows them."

    @work(thread=True, exclusive=True, group="configs")
    def _read_configs(self, runs: tuple[RunSummary, ...]) -> None:
        """Read the experiments that a filter asks for; they never change, so each is read once."""
        found: dict[str, Mapping[str, Any]] = {}
        for run in runs:
            if run.path not in self._configs:
                try:
                    found[run.path] = read_toml(Path(run.path) / "experiment.toml")
                except InputError:
                    found[run.path] = {}
        self.app.call_from_thread(self._take_configs, found)

    def _take_configs(self, found: dict[str, Mapping[str, Any]]) -> None:
        self._configs |= found
        self.show_runs(self.app.runs)

    # Filter, sort, mark.

    def action_filter(self) -> None:
        from tpudeck_tui.widgets.filter import FilterLine

        line = self._filter_line
        if line is None:
            self._filter_line = FilterLine(parse_query, _EXAMPLE)
            self.mount(self._filter_line)
        else:
            line.begin()

    def on_filter_line_changed(self, message: FilterLine.Changed) -> None:
        self._query = parse_query(message.text)
        self.show_runs(self.app.runs)

    def on_filter_line_left(self) -> None:
        self._table.focus()

    def action_clear(self) -> None:
        """First the filter, then the marks."""
        if (line := self._filter_line) is not None and line.display:
            line.clear()
        else:
            self._table.marked.clear()
        self._table.focus()
        self._table.repaint()

    def action_sort(self) -> None:
        keys = [column.key for column in self._table.sortable()]
        at = keys.index(self._table.sort_key) if self._table.sort_key in keys else -1
        self._table.sort_by(keys[(at + 1) % len(keys)])
        self._remember_sort()

    def action_turn(self) -> None:
        self._table.sort_by(self._table.sort_key)
        self._remember_sort()

    def _remember_sort(self) -> None:
        self.app.memory.keep("runs.sort", self._table.sort_key)
        self.app.memory.keep("runs.descending", self._table.descending)

    def action_mark(self) -> None:
        self._table.toggle_mark()

    def action_archived(self) -> None:
        self._archived = not self._archived
        self.app.say("archived runs are shown" if self._archived else "archived runs are hidden")
        self.show_runs(self.app.runs)

    def action_fetch(self) -> None:
        """Copy a run from a bucket, or follow one that is mirrored there while it runs elsewhere."""
        from tpudeck_tui.screens.forms import CommandForm, Field, Values, required

        if not self.app.may_write():
            return

        def words(values: Values) -> list[str]:
            place = required(values, "place", "name the run: gs://BUCKET/NAME, or its id in the store of config.toml")
            return ["runs", "follow" if values["follow"] == "yes" else "pull", place]

        def answered(line: list[str] | None) -> None:
            if line is not None:
                self.app.begin_command(line, title=f"{line[1].capitalize()} {line[2]}")

        fields = [
            Field("place", "run", hint="gs://BUCKET/NAME, or an id in the store of config.toml"),
            Field("follow", "follow", "no", choices=("no", "yes")),
        ]
        detail = "A run that has ended is copied; one that is mirrored from elsewhere can be followed until it ends."
        self.app.push_screen(CommandForm("Fetch a run from a bucket", fields, words, detail=detail), answered)

    def action_trash(self) -> None:
        from tpudeck_tui.screens.trash import TrashDialog

        self.app.push_screen(TrashDialog())

    # Going elsewhere.

    @on(Table.Chosen, "#runs")
    def _chosen(self) -> None:
        if (run := self._table.current) is not None:
            self.app.open_run(Path(run.path))

    @on(Table.Moved, "#runs")
    def _moved(self) -> None:
        self.refresh_bars()

    def action_compare(self) -> None:
        runs = self._table.marked_rows()
        if len(runs) < 2:
            self.app.say("mark two runs or more with space, then compare them", severity="warning")
            return
        self.app.compared = tuple(Path(run.path) for run in runs)
        self.app.switch_mode("compare")

    def meant_runs(self) -> list[RunSummary]:
        return self._table.marked_rows()
