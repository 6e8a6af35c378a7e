"""Compare: up to twenty runs in one chart, their results, and what is different about their experiments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.binding import BindingType
from textual.widget import Widget

from tpudeck.config import read_toml
from tpudeck.errors import InputError
from tpudeck.presets import flatten
from tpudeck.runs.reader import RunSnapshot
from tpudeck_tui.charts import ChartScreen
from tpudeck_tui.messages import Seen
from tpudeck_tui.panels.comparison import differences, results
from tpudeck_tui.panels.curves import METRICS, Metric, evaluation_line, metric_line
from tpudeck_tui.plot.curve import Line
from tpudeck_tui.screens.base import shown
from tpudeck_tui.widgets.chart import Chart
from tpudeck_tui.widgets.pages import Lines, Pages, TextLine

if TYPE_CHECKING:
    from tpudeck.runs.summary import RunSummary

__all__ = ["MOST_RUNS", "CompareScreen"]

MOST_RUNS = 20
_UNASKED = 4
"""So many of the newest runs are compared where none were marked."""
_EVAL = Metric("eval", "eval loss", ())
_METRICS = (METRICS[0], _EVAL, *(metric for metric in METRICS[1:] if metric.series))


class CompareScreen(ChartScreen):
    """An overlay, a table, and the differences."""

    DEFAULT_CSS = """
    CompareScreen {
        #head { height: 1; padding: 0 1; }
        #overlay-chart { height: 1fr; padding: 0 1; }
        #tables { height: 9; padding: 0 1; }
        &.-low #tables { height: 5; }
        &.-tall #tables { height: 40%; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        shown("m", "metric(1)", "Metric", "compare.metric", tooltip="Next metric"),
        shown("M", "metric(-1)", "Metric before", "compare.metric_before", show=False),
        shown("d", "differences", "Differences", "compare.differences"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._folders: tuple[Path, ...] = ()
        self._snapshots: dict[Path, RunSnapshot] = {}
        self._settings: dict[Path, Mapping[str, Any]] = {}
        self._metric = _METRICS[0]
        self._due = False

    def body(self) -> Iterable[Widget]:
        yield Lines(self._head_lines, id="head")
        yield self.chart("overlay", Chart("loss", glyphs=self.glyphs, smoothing=0.6, empty="nothing to compare yet"))
        yield Pages(("Results", "Differences"), id="tables")

    # News.

    def followed(self) -> Iterable[Path]:
        wanted = self.app.compared or tuple(Path(run.path) for run in self.app.runs[:_UNASKED])
        self._folders = wanted[:MOST_RUNS]
        self._snapshots = {folder: self._snapshots[folder] for folder in self._folders if folder in self._snapshots}
        self._paint()
        return self._folders

    def show_runs(self, runs: tuple[RunSummary, ...]) -> None:
        if not self._folders and runs:
            self.app.follow(self.followed())

    def show_run(self, folder: Path, seen: Seen) -> None:
        if folder in self._folders:
            self._snapshots[folder] = seen.snapshot
            self._paint_soon()

    def show_vanished(self, folder: Path, reason: str) -> None:
        self._folders = tuple(other for other in self._folders if other != folder)
        self._snapshots.pop(folder, None)
        self._paint()

    def _shown(self) -> list[tuple[Path, RunSnapshot]]:
        return [(folder, self._snapshots[folder]) for folder in self._folders if folder in self._snapshots]

    def _paint_soon(self) -> None:
        """Once for all the runs that speak at the same time."""
        if not self._due:
            self._due = True
            self.set_timer(0.05, self._paint)

    def _paint(self) -> None:
        self._due = False
        shown = self._shown()
        lines = [line for index, (_, snapshot) in enumerate(shown) for line in self._curves(snapshot, index)]
        self.query_one(Chart).show(lines)
        self.query_one("#head", Lines).repaint()
        snapshots = [snapshot for _, snapshot in shown]
        names = [snapshot.summary.name for snapshot in snapshots]
        settings = [self._settings_of(folder) for folder, _ in shown]
        self.query_one(Pages).fill(
            {"Results": partial(results, snapshots), "Differences": partial(differences, names, settings)}
        )

    def _curves(self, snapshot: RunSnapshot, index: int) -> Iterable[Line]:
        name = snapshot.summary.name
        if self._metric is _EVAL:
            return evaluation_line(snapshot, name, index, dots=False)
        series, _ = self._metric.series[0]
        return (line for line in metric_line(snapshot, series, name, index, scale=self._metric.scale) if not line.dim)

    def _settings_of(self, folder: Path) -> Mapping[str, Any]:
        """The experiment of a run, flat; it never changes."""
        if folder not in self._settings:
            try:
                self._settings[folder] = dict(flatten(read_toml(folder / "experiment.toml")))
            except InputError:
                self._settings[folder] = {}
        return self._settings[folder]

    def _head_lines(self, width: int) -> list[TextLine]:
        if not self._folders:
            return [[("No runs yet: nothing to compare. 2 has the presets to begin with.", "muted")]]
        count, asked = len(self._folders), "marked" if self.app.compared else "newest"
        line: TextLine = [(f"{count} {asked} runs" if count > 1 else f"the {asked} run", "bright")]
        more = len(self.app.compared) - MOST_RUNS
        line.append((f", {more} more left out" if more > 0 else "", "warning"))
        line.append(("  space marks others in Runs, c brings them here", "muted"))
        return [line]

    # Actions.

    def action_metric(self, by: int) -> None:
        self._metric = _METRICS[(_METRICS.index(self._metric) + by) % len(_METRICS)]
        chart = self.query_one(Chart)
        chart.show_as(self._metric.title, smoothing=self._metric.smoothing, from_zero=self._metric.from_zero)
        self._paint()

    def action_differences(self) -> None:
        pages = self.query_one(Pages)
        pages.turn_to("Results" if pages.page == "Differences" else "Differences")

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self._paint)

    @on(Chart.ExportRequested)
    def _export(self, message: Chart.ExportRequested) -> None:
        self.write_csv(f"compare-{self._metric.key}", message.pieces)
