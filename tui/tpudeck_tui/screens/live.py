"""Live: one run, as it is now. The same screen shows a run that has ended."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import events, on
from textual.binding import BindingType
from textual.containers import Container, Grid
from textual.widget import Widget

from tpudeck_tui.cells import fit
from tpudeck_tui.charts import ChartScreen
from tpudeck_tui.messages import Seen
from tpudeck_tui.panels.curves import METRICS, Metric, curves, flags
from tpudeck_tui.panels.texts import PAGES, header
from tpudeck_tui.run_actions import RunActions
from tpudeck_tui.screens.base import shown
from tpudeck_tui.widgets.chart import Chart
from tpudeck_tui.widgets.pages import Lines, Pages, TextLine

if TYPE_CHECKING:
    from tpudeck.runs.summary import RunSummary

__all__ = ["LiveScreen"]


class LiveScreen(RunActions, ChartScreen):
    """One run: header, charts, and pages of text."""

    DEFAULT_CSS = """
    LiveScreen {
        #header { height: 2; padding: 0 1; }
        #panels { height: 1fr; }
        #main { width: 1fr; height: 1fr; padding: 0 1; }
        #side { display: none; }
        #pages { height: 9; padding: 0 1; }
        &.-normal, &.-wide {
            #panels { layout: horizontal; }
            #side { display: block; width: 36%; height: 1fr; grid-size: 1; padding: 0 1; }
        }
        &.-wide #side { width: 50%; grid-size: 2; }
        .device { display: none; }
        &.-wide .device.-known { display: block; }
        &.-low #pages { height: 5; }
        &.-tall #pages { height: 30%; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        shown("m", "metric(1)", "Metric", "live.metric", tooltip="Next metric in the large chart"),
        shown("M", "metric(-1)", "Metric before", "live.metric_before", show=False),
        shown("J", "run(1)", "Next run", "live.next_run", show=False, tooltip="The next run of the list"),
        shown("K", "run(-1)", "Run before", "live.run_before", show=False, tooltip="The run before in the list"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.folder: Path | None = None
        self._seen: Seen | None = None
        self._metric = METRICS[0]

    def body(self) -> Iterable[Widget]:
        yield Lines(id="header")
        side = Grid(*(self.chart(metric.key, self._settings(metric)) for metric in METRICS[1:]), id="side")
        main = Container(self.chart("main", self._settings(METRICS[0])), id="main")
        yield Container(main, side, id="panels")
        pages = Pages(tuple(PAGES), follow=("Log",), id="pages")
        kept = self.app.memory.get("live.page", pages.page)
        pages.page = kept if kept in PAGES else pages.page
        yield pages

    def _settings(self, metric: Metric) -> Chart:
        return Chart(
            metric.title,
            glyphs=self.glyphs,
            smoothing=metric.smoothing,
            from_zero=metric.from_zero,
            empty="no points yet",
            classes="device" if metric.reading else None,
        )

    # News.

    def followed(self) -> Iterable[Path]:
        self._choose()
        return (self.folder,) if self.folder else ()

    def _choose(self) -> None:
        """The run to show: the one asked for, else the newest that is going on, else the newest."""
        runs = self.app.runs
        wanted = self.app.chosen_run
        if wanted is None and runs:
            wanted = Path(next((run for run in runs if run.live), runs[0]).path)
            self.app.chosen_run = wanted
        if wanted != self.folder:
            self.folder, self._seen = wanted, None
            for chart in self.query(Chart):
                chart.action_reset()
        self._paint()

    def show_runs(self, runs: tuple[RunSummary, ...]) -> None:
        if self.folder is None and runs:
            self.app.follow(self.followed())
        self.query_one("#header", Lines).repaint()

    def show_run(self, folder: Path, seen: Seen) -> None:
        if folder == self.folder:
            self._seen = seen
            self._paint()
            self.refresh_bars()

    def show_vanished(self, folder: Path, reason: str) -> None:
        if folder == self.folder:
            self._seen = None
            why = reason if folder.exists() else "Its folder was moved or deleted. What was seen of it last:"
            self.query_one("#header", Lines).show(
                lambda width: [
                    [("This run is gone: ", "warning"), (folder.name, "bright")],
                    [(fit(why, width), "muted")],
                ]
            )

    def _paint(self) -> None:
        seen = self._seen
        if seen is None:
            text = "reading …" if self.folder else "No runs yet. 2 has the presets to begin with."
            self.query_one("#header", Lines).show(lambda width: [[(text, "muted")]])
            for chart in self.query(Chart):
                chart.show(())
            self.query_one(Pages).fill({})
            return
        self.query_one("#header", Lines).show(partial(self._header_lines, seen))
        marks = flags(seen.snapshot)
        self.query_one("#main-chart", Chart).show(curves(seen, self._metric), marks)
        if self.query_one("#side").display:
            for metric in METRICS[1:]:
                chart, lines = self.query_one(f"#{metric.key}-chart", Chart), curves(seen, metric)
                chart.show(lines, marks)
                chart.set_class(bool(lines), "-known")
        self.query_one(Pages).fill({name: partial(page, seen) for name, page in PAGES.items()})

    def _header_lines(self, seen: Seen, width: int) -> list[TextLine]:
        """The header of the run; where others are going on too, how to get to them."""
        first, *others = header(seen.snapshot, width)
        live = [Path(run.path) for run in self.app.runs if run.live]
        if self.folder in live and len(live) > 1:
            switch = f"{live.index(self.folder) + 1} of {len(live)} running · J K"
            room = width - sum(cell_len(text) for text, _ in first) - len(switch)
            if room > 1:
                first = [*first, (" " * room, ""), (switch, "key")]
        return [first, *others]

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self._paint)

    # Actions.

    def action_metric(self, by: int) -> None:
        """Show another metric in the large chart, of those that there is something of."""
        seen = self._seen
        known = [metric for metric in METRICS if metric is self._metric or (seen and curves(seen, metric))]
        self._metric = known[(known.index(self._metric) + by) % len(known)]
        chart = self.query_one("#main-chart", Chart)
        chart.show_as(self._metric.title, smoothing=self._metric.smoothing, from_zero=self._metric.from_zero)
        self._paint()

    def action_run(self, by: int) -> None:
        """Go to the next run that is going on; where none is, through all of them."""
        live = [run for run in self.app.runs if run.live]
        runs = live if len(live) > 1 or not self.app.runs else list(self.app.runs)
        paths = [Path(run.path) for run in runs]
        if paths:
            at = paths.index(self.folder) if self.folder in paths else -by
            self.app.chosen_run = paths[(at + by) % len(paths)]
            self.app.follow(self.followed())

    @on(Pages.Turned)
    def _remember_page(self, message: Pages.Turned) -> None:
        self.app.memory.keep("live.page", message.pages.page)

    def meant_runs(self) -> list[RunSummary]:
        return [self._seen.snapshot.summary] if self._seen else []

    @on(Chart.ExportRequested)
    def _export(self, message: Chart.ExportRequested) -> None:
        name = self.folder.name if self.folder else "chart"
        self.write_csv(f"{name}-{self._metric.key}", message.pieces)
